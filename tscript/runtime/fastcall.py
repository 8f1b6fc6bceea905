"""Python functions whose code is machine code: built-in functions made at run time."""

from __future__ import annotations

import ctypes
import platform
import sys
import sysconfig
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tscript.codegen.abi import KernelAbi
from tscript.ir.semantics import numpy_dtype
from tscript.runtime.ndarray import NDArray, empty

_METH_FASTCALL: Final = 0x80
_POINTER: Final = ctypes.sizeof(ctypes.c_void_p)


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def is_available() -> bool:
    """Whether objects of this interpreter are laid out as the machine code reads them: 64-bit CPython with its lock."""
    free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    return platform.python_implementation() == "CPython" and _POINTER == 8 and not free_threaded


def _slot_offset() -> int:
    """Where an NDArray keeps its NumPy array."""
    probe = empty((1,), "float32")
    inner = id(probe.memory())
    words = (ctypes.c_size_t * (sys.getsizeof(probe) // _POINTER)).from_address(id(probe))
    # The first two words are the reference count and the type.
    return next(i for i in range(2, len(words)) if words[i] == inner) * _POINTER


class _Layout:
    offset: int | None = None


def fill_table(address: int, abi: KernelAbi) -> tuple[object, ...]:
    """Write the pointers that a call function reads; the objects behind them, which must stay alive."""
    if _Layout.offset is None:
        _Layout.offset = _slot_offset()
    descriptors = [None if p.buffer is None else numpy_dtype(p.buffer.dtype) for p in abi.parameters]
    fixed: tuple[object, ...] = (np.ndarray, NDArray, int, float, True, False, None)
    values = [id(x) for x in fixed] + [_Layout.offset] + [0 if d is None else id(d) for d in descriptors]
    ctypes.memmove(address, (ctypes.c_size_t * len(values))(*values), len(values) * _POINTER)
    return (*fixed, *descriptors)


class Builtin:
    """Owns what a built-in function points to."""

    def __init__(self, name: str, doc: str, address: int, keep: Sequence[object]) -> None:
        self._definition = _MethodDef(name.encode(), address, _METH_FASTCALL, doc.encode())
        self._keep = keep

    def function(self, receiver: object) -> Callable[..., Any]:
        """The function; it passes `receiver` to the machine code and keeps it alive."""
        new = ctypes.pythonapi.PyCFunction_NewEx
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
        return new(ctypes.addressof(self._definition), receiver, None)
