"""A kernel compiler in Python: write loops as decorated functions, transform them with checked steps, run native code.

>>> import tscript
>>> from tscript.script import tir as T
>>> @T.prim_func
... def double(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
...     for i in range(8):
...         with T.block("B"):
...             v = T.axis.spatial(8, i)
...             B[v] = A[v] * T.float32(2)
>>> print(type(double).__name__)
PrimFunc
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, Final

from tscript import error, ir, printer, script, tir
from tscript.error import DiagnosticError
from tscript.ir.function import IRModule
from tscript.parser import default_vars

__version__ = "0.1.0"

# Loaded when first asked for: name -> (module, name in it; None for the module itself).
_LAZY: Final[dict[str, tuple[str, str | None]]] = {
    "build": ("tscript.driver", "build"),
    "cpu": ("tscript.runtime", "cpu"),
    "cuda": ("tscript.runtime", "cuda"),
    "device": ("tscript.runtime", "device"),
    "nd": ("tscript.nd", None),
    **{
        name: (f"tscript.{name}", None)
        for name in ("interp", "lower", "meta_schedule", "runtime", "target", "te", "testing")
    },
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'tscript' has no attribute {name!r}")
    module, attribute = _LAZY[name]
    loaded = importlib.import_module(module)
    value = loaded if attribute is None else getattr(loaded, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


default_vars["tscript"] = sys.modules[__name__]

__all__ = ["DiagnosticError", "IRModule", "__version__", "error", "ir", "printer", "script", "tir"]
