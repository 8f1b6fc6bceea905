"""What this machine and this installation offer, what is missing, and how to get it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tscript.support.config import current


class Verdict(Enum):
    """What a finding means for the user."""

    OK = "ok"
    OPTIONAL = "optional"
    MISSING = "missing"


@dataclass(frozen=True)
class Finding:
    """One line of the report; `advice` says how to get what is missing."""

    what: str
    found: str
    verdict: Verdict = Verdict.OK
    advice: str = ""


@dataclass(frozen=True)
class Package:
    """A package by import name; `names` are the distributions that bring it, the usual one first."""

    module: str
    names: tuple[str, ...]
    used_for: str


REQUIRED: Final = (
    Package("numpy", ("numpy",), "arrays"),
    Package("llvmlite", ("llvmlite",), "native code for the CPU"),
    Package("ml_dtypes", ("ml_dtypes",), "bfloat16 and float8"),
    Package("rich", ("rich",), "tables in terminals"),
    Package("astunparse", ("astunparse",), "source text in diagnostics"),
    Package("xgboost", ("xgboost-cpu", "xgboost"), "the cost model of the tuner"),
)
OPTIONAL: Final = (
    Package("cupy", ("cupy-cuda12x", "cupy-cuda13x", "cupy"), "arrays on NVIDIA GPUs"),
    Package("ipykernel", ("ipykernel",), "notebooks"),
    Package("matplotlib", ("matplotlib",), "plots of tuning runs"),
)

# LLVM and GPU drivers are asked in a process of their own: one that crashes must not take the report along.
_ASK_LLVM: Final = """
import json, llvmlite, llvmlite.binding as b
features = b.get_host_cpu_features()
print(json.dumps({
    "llvm": ".".join(map(str, b.llvm_version_info)), "cpu": b.get_host_cpu_name(),
    "triple": b.get_process_triple(), "features": sorted(k for k, on in features.items() if on),
}))
"""
_ASK_DRIVER: Final = """
import ctypes, json
cuda = ctypes.CDLL("nvcuda.dll" if __import__("os").name == "nt" else "libcuda.so.1")
def must(code):
    if code: raise SystemExit(f"error {code} of the driver")
must(cuda.cuInit(0))
count = ctypes.c_int(); must(cuda.cuDeviceGetCount(ctypes.byref(count)))
version = ctypes.c_int(); must(cuda.cuDriverGetVersion(ctypes.byref(version)))
gpus = []
for i in range(count.value):
    name = ctypes.create_string_buffer(100); must(cuda.cuDeviceGetName(name, 100, i))
    major, minor = ctypes.c_int(), ctypes.c_int()
    must(cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, i))
    must(cuda.cuDeviceGetAttribute(ctypes.byref(minor), 76, i))
    gpus.append(f"{name.value.decode()} (sm_{major.value}{minor.value})")
print(json.dumps({"gpus": gpus, "cuda": f"{version.value // 1000}.{version.value % 1000 // 10}"}))
"""
# Feature names of LLVM that decide how wide and how fast generated code can be, widest first.
_TELLING: Final = (
    "amx-bf16 amx-int8 avx512bf16 avx512vnni avx512f avxvnni avx2 fma f16c sse4.2 sve2 sve bf16 dotprod fp16 neon rvv v"
).split()


def _ask(code: str) -> tuple[dict[str, object], str]:
    """What the program `code` printed as JSON, and why it printed nothing."""
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {}, str(error)
    if done.returncode == 0:
        return json.loads(done.stdout), ""
    lines = done.stderr.strip().splitlines()
    return {}, lines[-1] if lines else f"exit status {done.returncode}"


def _version(package: Package) -> str | None:
    for name in package.names:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def check_packages() -> list[Finding]:
    """Required packages and optional ones."""
    findings: list[Finding] = []
    for package in (*REQUIRED, *OPTIONAL):
        needed = package in REQUIRED
        version = _version(package)
        if version is not None and importlib.util.find_spec(package.module) is not None:
            findings.append(Finding(package.module, f"{version} ({package.used_for})"))
            continue
        advice = f"for {package.used_for}: pip install {package.names[0]}"
        verdict = Verdict.MISSING if needed else Verdict.OPTIONAL
        findings.append(Finding(package.module, "not installed", verdict, advice))
    return findings


def check_machine() -> list[Finding]:
    """Python, the processor as LLVM sees it, and the GPU."""
    python = f"{platform.python_version()} ({platform.python_implementation()}, {sys.executable})"
    findings = [Finding("python", python), Finding("system", f"{platform.system()} {platform.machine()}")]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    llvm, reason = _ask(_ASK_LLVM)
    if llvm:
        found = llvm["features"]
        features = [f for f in _TELLING if isinstance(found, list) and f in found]
        findings.append(Finding("LLVM", f"{llvm['llvm']} for {llvm['triple']}"))
        findings.append(Finding("processor", f"{llvm['cpu']}, {cores} cores usable"))
        findings.append(Finding("vector features", " ".join(features) or "none that matter"))
    else:
        findings.append(Finding("LLVM", f"does not load: {reason}", Verdict.MISSING, "pip install llvmlite"))
        findings.append(Finding("processor", f"{cores} cores usable"))
    return findings


def check_gpu() -> Finding:
    """The NVIDIA GPUs the driver reports; having none is no fault."""
    driver, reason = _ask(_ASK_DRIVER)
    gpus = driver.get("gpus")
    if isinstance(gpus, list) and gpus:
        names = ", ".join(str(g) for g in gpus)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return Finding("GPU", f"{names}, driver for CUDA {driver['cuda']}")
    why = "the driver reports no device" if isinstance(gpus, list) else f"no usable NVIDIA driver ({reason})"
    return Finding("GPU", f"none: {why}", Verdict.OPTIONAL, "kernels run on the CPU; nothing to do")


def check_settings() -> list[Finding]:
    """The settings that are not as they come, and a variable that cannot be read."""
    try:
        config = current()
    except ValueError as error:
        return [Finding("settings", str(error), Verdict.MISSING, "unset the variable or correct it")]
    changed = [f"{f.name}={value!r}" for f in fields(config) if (value := getattr(config, f.name)) != f.default]
    return [Finding("settings", ", ".join(changed) or "all as they come")]


def check_places() -> list[Finding]:
    """Where files are kept."""
    temporary = Path(tempfile.gettempdir())
    usable = os.access(temporary, os.W_OK)
    return [
        Finding("installed in", str(Path(__file__).parents[1])),
        Finding("caches", "none on disk: kernels are compiled in memory for each process"),
        Finding("temporary files", str(temporary))
        if usable
        else Finding(
            "temporary files", f"{temporary} is not writable", Verdict.MISSING, "set TMPDIR to a writable place"
        ),
    ]


_STYLE: Final = {Verdict.OK: "green", Verdict.OPTIONAL: "yellow", Verdict.MISSING: "bold red"}


def _table(title: str, findings: Sequence[Finding]) -> Table:
    table = Table(title=title, title_justify="left", show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for f in findings:
        text = f.found if not f.advice else f"{f.found}; {f.advice}"
        table.add_row(Text(f.what), Text(f.verdict.value, style=_STYLE[f.verdict]), Text(text))
    return table


def run_doctor(console: Console | None = None) -> int:
    """Print the report. The status is 1 when something required is missing, else 0."""
    out = console or Console(soft_wrap=True)
    own = Finding("tscript", importlib.metadata.version("tscript") if _is_installed() else "runs from its source tree")
    sections = (
        ("Machine", [*check_machine(), check_gpu()]),
        ("Packages", [own, *check_packages()]),
        ("Places and settings", [*check_places(), *check_settings()]),
    )
    missing: list[Finding] = []
    for title, findings in sections:
        out.print(_table(title, findings))
        out.print()
        missing += [f for f in findings if f.verdict is Verdict.MISSING]
    if missing:
        out.print(Text(f"missing: {', '.join(f.what for f in missing)}", style=_STYLE[Verdict.MISSING]))
        return 1
    out.print("all that is required is here; check that it works with: python -m tscript demo")
    return 0


def _is_installed() -> bool:
    try:
        importlib.metadata.version("tscript")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
