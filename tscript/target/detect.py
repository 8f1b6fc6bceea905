"""What is at hand: the features of this machine's CPU, the attributes of a GPU of it."""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
from typing import Any, Final


@functools.cache
def host_processor() -> tuple[str, frozenset[str]]:
    """LLVM's name of this machine's CPU, and the features that it has."""
    # LLVM is large, and targets are made by programs that never build.
    llvm: Any = importlib.import_module("llvmlite.binding")
    features: dict[str, bool] = dict(llvm.get_host_cpu_features())
    return str(llvm.get_host_cpu_name()), frozenset(name for name, there in features.items() if there)


def core_count() -> int:
    """How many cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
