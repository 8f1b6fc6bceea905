"""Memory of other libraries' arrays as NumPy arrays, without copying."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tscript.runtime.address import data_address


def shared_array(value: Any) -> np.ndarray[Any, Any]:
    """The memory of an object with DLPack or the buffer protocol.

    Raises TypeError for an object that has neither, BufferError (or what the object raises) for one that
    does not give its memory away.
    """
    if not hasattr(value, "__dlpack__"):
        return np.asarray(memoryview(value))
    array: np.ndarray[Any, Any] = np.from_dlpack(value)
    if array.flags.writeable or _says_whether_writable(value):
        return array
    return np.asarray(_Writable(array))


def _says_whether_writable(value: Any) -> bool:
    try:
        value.__dlpack__(max_version=(1, 0))
    except TypeError:
        return False
    return True


_HOST: Final = (1, 3, 11, 13)
"""DLPack's numbers of memory that the CPU can read: its own, and what CUDA and ROCm pin or manage."""
_NAMES: Final = {2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 14: "oneapi", 15: "webgpu"}


def device_of(value: Any) -> tuple[int, int] | None:
    """DLPack's number of the kind of device where the memory lies, and which; None for objects without DLPack."""
    ask = getattr(value, "__dlpack_device__", None)
    if ask is None:
        return None
    kind, index = ask()
    return int(kind), int(index)


def is_host(place: tuple[int, int]) -> bool:
    """Whether the CPU can read memory of such a device."""
    return place[0] in _HOST


def place_name(place: tuple[int, int]) -> str:
    """The device's name: `cuda(1)`."""
    return f"{_NAMES.get(place[0], f'device kind {place[0]} ')}({place[1]})"


class _Writable:
    """Memory that came by the first version of DLPack, which cannot say whether it is read-only; NumPy assumes so."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array
        self.__array_interface__ = {
            "version": 3,
            "shape": array.shape,
            "strides": array.strides,
            "typestr": array.dtype.str,
            "data": (data_address(array), False),
        }
