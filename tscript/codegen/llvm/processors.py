"""Names of CPUs and features in targets, checked against what LLVM knows: by itself it only prints a warning."""

from __future__ import annotations

import difflib
import functools
import re
import subprocess
import sys
from typing import Any, Final

import llvmlite.binding as _binding

from tscript.support.errors import BuildError
from tscript.target.detect import host_processor
from tscript.target.processors import PROCESSORS
from tscript.target.target import Target

# It comes without types.
llvm: Any = _binding

_SAME: Final = {"amd64": "x86_64", "arm64": "aarch64", "i386": "i686", "x86": "i686"}
_WITHOUT_EFFECT: Final = ("cl-opt", "mabi", "mfloat-abi")
_WIDTHS: Final = {128: "+prefer-128-bit", 256: "+prefer-256-bit", 512: "-prefer-256-bit"}
_ASK: Final = (
    "import llvmlite.binding as b; b.initialize_native_target(); b.initialize_native_asmprinter(); "
    "b.Target.from_default_triple().create_target_machine(cpu='help')"
)


@functools.cache
def known_to_llvm() -> tuple[frozenset[str], frozenset[str]]:
    """All CPUs and all features of this architecture that LLVM knows; empty where it does not tell."""
    if not sys.executable:
        return frozenset(), frozenset()
    # LLVM tells only on the standard error stream, which a process of its own keeps apart from ours.
    asked = subprocess.run([sys.executable, "-c", _ASK], capture_output=True, text=True, check=False)
    cpus, _, features = asked.stderr.partition("Available features")
    pattern = re.compile(r"^ {2}(\S+) +- ", re.MULTILINE)
    return frozenset(pattern.findall(cpus)), frozenset(pattern.findall(features))


def require_processor(target: Target) -> None:
    """Raise BuildError, with close matches, for an `llvm` target that LLVM on this machine has no code for."""
    native = _architecture(llvm.get_process_triple())
    wanted = _architecture(target.mtriple) if target.mtriple else native
    if wanted != native:
        raise BuildError(
            f"the target {str(target)!r} is for {wanted} machines, and this one is {native}\n"
            "  try: build it on such a machine, or leave -mtriple and -mcpu out"
        )
    mcpu = target.mcpu
    if mcpu and not _is_common(mcpu, native):
        _require_known("CPU", mcpu, known_to_llvm()[0], target)
    for feature in target.mattr:
        if feature[1:] not in llvm.get_host_cpu_features():
            _require_known("CPU feature", feature[1:], known_to_llvm()[1], target)


def ineffective_options(target: Target) -> list[str]:
    """Options of an `llvm` target that change nothing about the code."""
    idle = [k for k, v in target.attrs.items() if v and k in _WITHOUT_EFFECT]
    if "vector-width" in target.attrs and features_of(target) == target.mattr:
        idle.append("vector-width")
    return idle


def features_of(target: Target) -> list[str]:
    """The features that a target switches on and off, its vector width among them."""
    if not is_x86():
        return target.mattr
    asked = target.get_attr("vector-width")
    # Programs say how long their vectors are; left to itself, LLVM halves those of 512 bits on many CPUs.
    width = _WIDTHS.get(asked or (512 if "avx512f" in target.features else 0))
    return target.mattr if width is None else [width, *target.mattr]


def vector_registers(target: Target) -> tuple[int, int]:
    """How many vector registers the code for a target has, and the bytes of each."""
    if not is_x86():
        return 32, 16
    widest = 64 if "avx512f" in target.features else 32 if "avx" in target.features else 16
    return 32 if widest == 64 else 16, min(widest, int(target.get_attr("vector-width", 0) or 512) // 8)


def fast_math_of(target: Target) -> str:
    """LLVM's flags for the freedom that a target gives to floating-point operations, with a blank after each."""
    given = {
        k.removeprefix("fast-math").lstrip("-") for k, v in target.attrs.items() if k.startswith("fast-math") and v
    }
    if "" in given:
        return "fast "
    # Contraction is done where the program has a sum of a product, not wherever LLVM finds one.
    return "".join(f"{flag} " for flag in ("nnan", "ninf", "nsz", "arcp", "reassoc") if flag in given)


def contracts(target: Target) -> bool:
    """Whether a product that is added to something is rounded together with the sum."""
    return bool(target.get_attr("fast-math-contract", True))


def is_x86() -> bool:
    """Whether the code runs on an x86 CPU."""
    return _architecture(llvm.get_process_triple()) in ("x86_64", "i686")


def _architecture(triple: str) -> str:
    name = triple.partition("-")[0].lower()
    return _SAME.get(name, name)


def _is_common(mcpu: str, architecture: str) -> bool:
    mark = {"x86_64": "sse2", "aarch64": "neon"}.get(architecture, "")
    return mcpu in ("generic", host_processor()[0]) or mark in PROCESSORS.get(mcpu, ())


def _require_known(what: str, name: str, known: frozenset[str], target: Target) -> None:
    if not known or name in known:
        return
    close = difflib.get_close_matches(name, sorted(known), 3)
    hint = f"{' or '.join(close)}" if close else f"one of {', '.join(sorted(known)[:8])}, ..."
    raise BuildError(f"LLVM knows no {what} {name!r}, which the target {str(target)!r} names\n  try: {hint}")


def function_attributes(target: Target) -> str:
    """What makes LLVM generate a function for a target other than the module's."""
    cpu, features = target.mcpu, ",".join(features_of(target))
    if not cpu:
        cpu = host_processor()[0]
        features = ",".join([llvm.get_host_cpu_features().flatten(), *features_of(target)])
    return f' "target-cpu"="{cpu}" "target-features"="{features}"'


__all__ = [
    "contracts",
    "fast_math_of",
    "features_of",
    "function_attributes",
    "ineffective_options",
    "is_x86",
    "known_to_llvm",
    "require_processor",
    "vector_registers",
]
