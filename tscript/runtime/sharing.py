"""Memory of other libraries' arrays as NumPy arrays, without copying."""

from __future__ import annotations

from typing import Any

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
