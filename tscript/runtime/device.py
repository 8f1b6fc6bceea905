"""Devices: where arrays live and kernels run."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from typing import Final

_CODES: Final = {"cpu": 1, "cuda": 2}
_KINDS: Final = {"llvm": "cpu", "c": "cpu", "gpu": "cuda", "nvptx": "cuda"}


@dataclass(frozen=True, slots=True)
class Device:
    """A device by kind (`"cpu"`, `"cuda"`) and number.

    >>> cpu(0)
    cpu(0)
    """

    kind: str
    index: int = 0

    @property
    def device_type(self) -> int:
        """DLPack's number of the kind."""
        return _CODES[self.kind]

    @property
    def device_id(self) -> int:
        """Same as `index`."""
        return self.index

    @property
    def exist(self) -> bool:
        """Whether the device is there."""
        return self.index == 0 if self.kind == "cpu" else self.index < _cuda_devices()

    def sync(self) -> None:
        """Wait for the device; a CPU is never behind."""

    def __str__(self) -> str:
        return f"{self.kind}({self.index})"

    __repr__ = __str__


def cpu(index: int = 0) -> Device:
    """The CPU."""
    return device("cpu", index)


def cuda(index: int = 0) -> Device:
    """An NVIDIA GPU; ask `.exist` whether it is there."""
    return device("cuda", index)


def device(kind: str, index: int = 0) -> Device:
    """A device by name: `device("cuda", 1)`, `device("cuda:1")`; `llvm` and `c` mean the CPU.

    Raises ValueError for an unknown kind or a number below 0.
    """
    if not isinstance(kind, str) or not hasattr(index, "__index__"):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a device is a kind, such as 'cuda', and a number, not {kind!r} and {index!r}")
    name, _, number = kind.partition(":")
    name = _KINDS.get(name, name)
    if name not in _CODES:
        raise ValueError(f"unknown device kind {name!r}; choose from {', '.join(_CODES)}")
    if number:
        if not number.isdigit():
            raise ValueError(f"{kind!r}: the device number {number!r} is no number")
        if index not in (0, int(number)):
            raise ValueError(f"{kind!r} and {index} are two device numbers; give one")
        index = int(number)
    if index < 0:
        raise ValueError(f"a device number is at least 0, not {index}")
    return Device(name, int(index))


@functools.cache
def _cuda_devices() -> int:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value
