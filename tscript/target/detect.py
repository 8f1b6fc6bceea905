"""What is at hand: the features of this machine's CPU, the attributes of a GPU of it."""

from __future__ import annotations

import ctypes
import functools
import importlib
import math
import os
from pathlib import Path
from typing import Any, Final


@functools.cache
def host_processor() -> tuple[str, frozenset[str]]:
    """LLVM's name of this machine's CPU, and the features that it has."""
    # LLVM is large, and targets are made by programs that never build.
    llvm: Any = importlib.import_module("llvmlite.binding")
    features: dict[str, bool] = dict(llvm.get_host_cpu_features())
    return str(llvm.get_host_cpu_name()), frozenset(name for name, there in features.items() if there)


def core_count() -> int:
    """How many cores this process may run on, and has time on: a container may be given less than it sees."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    share = _cpu_share(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))
    return cores if share is None else max(min(cores, math.ceil(share)), 1)


def _cpu_share(memberships: Path, root: Path) -> float | None:
    """The least number of cores that a control group of this process allows; None where none limits it."""
    shares: list[float] = []
    for line in _read(memberships).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        # The first form of control groups has a folder for each set of controllers, the second one for all.
        places = [root / controllers, root / "cpu"] if controllers else [root]
        group = next((p for p in places if p.is_dir()), root) / path.lstrip("/")
        # Groups lie in groups, and each may limit those inside.
        for folder in (group, *group.parents):
            if folder == root.parent:
                break
            quota, period = _quota(folder)
            if quota > 0 and period > 0:
                shares.append(quota / period)
    return min(shares, default=None)


def _quota(folder: Path) -> tuple[float, float]:
    """Time that a control group gets in each period, in both forms that Linux has; 0 where it is not limited."""
    both = _read(folder / "cpu.max").split()
    if len(both) != 2:
        both = [_read(folder / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
    return (float(both[0]), float(both[1])) if all(b.isdecimal() for b in both) else (0.0, 0.0)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


# Numbers of the CUDA driver's device attributes.
_CUDA_ATTRIBUTES: Final = {
    "max_threads_per_block": 1,
    "max_shared_memory_per_block": 8,
    "thread_warp_size": 10,
    "registers_per_block": 12,
    "l2_cache_size_bytes": 38,
}
_MAJOR, _MINOR = 75, 76


def cuda_attributes(index: int = 0) -> dict[str, Any]:
    """Attributes of a `cuda` target for the GPU of that number. Raises ValueError where there is none."""
    try:
        driver = ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    except OSError:
        raise ValueError("there is no CUDA driver here, so no GPU can be asked; give -arch=sm_.. or a tag") from None
    device, count = ctypes.c_int(0), ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or not 0 <= index < count.value:
        raise ValueError(f"there is no CUDA device {index} here (devices found: {count.value})")
    driver.cuDeviceGet(ctypes.byref(device), index)

    def ask(attribute: int) -> int:
        value = ctypes.c_int(0)
        if driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device) != 0:
            raise ValueError(f"CUDA device {index} does not tell its attribute {attribute}")
        return value.value

    found: dict[str, Any] = {name: ask(number) for name, number in _CUDA_ATTRIBUTES.items()}
    return {"arch": f"sm_{ask(_MAJOR)}{ask(_MINOR)}", "max_num_threads": found["max_threads_per_block"], **found}


__all__ = ["core_count", "cuda_attributes", "host_processor"]
