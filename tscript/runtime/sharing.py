"""Memory shared with other libraries' arrays, without copying: DLPack in both directions, and the buffer protocol.

NumPy does the exchange. It knows no types below 16 bits other than its own, so those travel as unsigned integers
of the same width, and the type in the exchanged record is put right before (or after) NumPy reads it.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final, cast

import numpy as np

from tscript.ir.semantics import NUMPY_TYPES
from tscript.runtime.address import data_address
from tscript.support.wording import kind_of

_UINT: Final = 1
_CODES: Final = {
    "bfloat16": 4, "float8_e3m4": 7, "float8_e4m3": 8, "float8_e4m3b11fnuz": 9, "float8_e4m3fn": 10,
    "float8_e4m3fnuz": 11, "float8_e5m2": 12, "float8_e5m2fnuz": 13, "float8_e8m0fnu": 14,
}  # fmt: skip
"""DLPack's numbers of the types that NumPy has from an extension."""
_EXTENDED: Final = {code: NUMPY_TYPES[name] for name, code in _CODES.items() if name in NUMPY_TYPES}
_CODE_OF: Final = {dtype: code for code, dtype in _EXTENDED.items()}
# Where the type stands in the records of both versions; it is a code and a number of bits, a byte each.
_TYPE_AT: Final = {b"dltensor": 20, b"dltensor_versioned": 52}

_HAS_VERSIONS: Final = tuple(map(int, np.__version__.split(".")[:2])) >= (2, 1)
"""Whether NumPy knows the records that say what is read-only."""

_HOST: Final = (1, 3, 11, 13)
"""DLPack's numbers of memory that the CPU can read: its own, and what CUDA and ROCm pin or manage."""
_NAMES: Final = {2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 14: "oneapi", 15: "webgpu"}


def device_of(value: Any) -> tuple[int, int] | None:
    """DLPack's number of the kind of device where the memory lies, and which; None for objects without DLPack."""
    ask = getattr(value, "__dlpack_device__", None)
    if ask is None or isinstance(value, type):
        return None
    kind, index = ask()
    return int(kind), int(index)


def is_host(place: tuple[int, int]) -> bool:
    """Whether the CPU can read memory of such a device."""
    return place[0] in _HOST


def place_name(place: tuple[int, int]) -> str:
    """The device's name: `cuda(1)`."""
    return f"{_NAMES.get(place[0], f'device kind {place[0]} ')}({place[1]})"


def shared_array(value: Any) -> np.ndarray[Any, Any]:
    """The memory of an object with DLPack or the buffer protocol, or of a bare capsule of DLPack.

    Raises TypeError for an object that has neither, BufferError (or what the object raises) for one that
    does not give its memory away.
    """
    bare = next((name for name in _TYPE_AT if _is_valid(value, name)), None)
    if bare is None and (not hasattr(value, "__dlpack__") or isinstance(value, type)):
        if type(value).__name__ == "PyCapsule":
            raise BufferError("the capsule is no DLPack record, or was used before")
        try:
            return np.asarray(memoryview(cast(Any, value)))
        except TypeError:
            raise TypeError(
                f"{kind_of(value)} has no memory to share; pass an array, or use tscript.nd.array"
            ) from None
    place = device_of(value) if bare is None else _place_of(value, bare)
    if place is None or not is_host(place):
        where = "a device that it does not name" if place is None else place_name(place)
        raise BufferError(f"its memory is on {where}, not on the CPU; copy it to the CPU first")
    capsule, is_versioned = _capsule_of(value) if bare is None else (value, bare == b"dltensor_versioned")
    extended = _EXTENDED.get(_exchange_type(capsule, is_versioned, _EXTENDED))
    array: np.ndarray[Any, Any] = np.from_dlpack(_Given(capsule, place))
    if not is_versioned and not array.flags.writeable:
        array = np.asarray(_Writable(array))
    return array if extended is None else array.view(extended)


def _place_of(capsule: Any, name: bytes) -> tuple[int, int]:
    """The device in a record: two numbers of four bytes that stand before the number of dimensions and the type."""
    kind, index = (ctypes.c_int32 * 2).from_address(_pointer(capsule, name) + _TYPE_AT[name] - 12)
    return kind, index


def _capsule_of(value: Any) -> tuple[Any, bool]:
    """The record an object gives, and whether it is of a version that says what is read-only."""
    try:
        capsule = value.__dlpack__(max_version=(1, 0)) if _HAS_VERSIONS else value.__dlpack__()
    except TypeError:
        capsule = value.__dlpack__()
    return capsule, _is_valid(capsule, b"dltensor_versioned")


def _exchange_type(capsule: Any, is_versioned: bool, known: Any) -> int:
    """The code of the type in a record; one that NumPy does not know becomes that of unsigned integers."""
    name = b"dltensor_versioned" if is_versioned else b"dltensor"
    if not _is_valid(capsule, name):
        raise BufferError("what it gave is no DLPack record, or was used before")
    code = ctypes.c_uint8.from_address(_pointer(capsule, name) + _TYPE_AT[name])
    found = code.value
    if found in known:
        code.value = _UINT
    return found


def given_capsule(array: np.ndarray[Any, Any], is_versioned: bool) -> Any:
    """A DLPack record of an array, of the version that says what is read-only or of the first.

    Raises BufferError for a read-only array in the first version, and for types that DLPack does not have.
    """
    code = _CODE_OF.get(array.dtype)
    plain = array if code is None else array.view(f"u{array.dtype.itemsize}")
    as_new = is_versioned and _HAS_VERSIONS
    capsule = plain.__dlpack__(max_version=(1, 0)) if as_new else plain.__dlpack__()
    if code is not None:
        name = b"dltensor_versioned" if as_new else b"dltensor"
        ctypes.c_uint8.from_address(_pointer(capsule, name) + _TYPE_AT[name]).value = code
    return capsule


def _is_valid(capsule: Any, name: bytes) -> bool:
    ask = ctypes.pythonapi.PyCapsule_IsValid
    ask.restype, ask.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
    return bool(ask(capsule, name))


def _pointer(capsule: Any, name: bytes) -> int:
    ask = ctypes.pythonapi.PyCapsule_GetPointer
    ask.restype, ask.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ask(capsule, name)


class _Given:
    """A record that an object gave, for NumPy to take."""

    def __init__(self, capsule: Any, place: tuple[int, int]) -> None:
        self._capsule = capsule
        self._place = place

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._place


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
