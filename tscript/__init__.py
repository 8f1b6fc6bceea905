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
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from tscript import error, ir, printer, script, tir
from tscript.error import DiagnosticError
from tscript.ir.function import IRModule
from tscript.parser import default_vars
from tscript.support.version import VERSION

if TYPE_CHECKING:
    from tscript import driver, interp, library, meta_schedule, nd, runtime, schedule, target, te, testing
    from tscript.driver import build, compile, lower
    from tscript.equivalence import compare
    from tscript.runtime import cpu, cuda, device, get_global_func, load_module, register_func

__version__ = VERSION

# Loaded when first asked for: name -> (module, name in it; None for the module itself).
_LAZY: Final[dict[str, tuple[str, str | None]]] = {
    "build": ("tscript.driver", "build"),
    "compare": ("tscript.equivalence", "compare"),
    "compile": ("tscript.driver", "compile"),
    "cpu": ("tscript.runtime", "cpu"),
    "cuda": ("tscript.runtime", "cuda"),
    "device": ("tscript.runtime", "device"),
    "get_global_func": ("tscript.runtime", "get_global_func"),
    "load_module": ("tscript.runtime", "load_module"),
    "register_func": ("tscript.runtime", "register_func"),
    "lower": ("tscript.driver", "lower"),
    **{
        name: (f"tscript.{name}", None)
        for name in (
            "driver",
            "interp",
            "library",
            "meta_schedule",
            "nd",
            "runtime",
            "schedule",
            "target",
            "te",
            "testing",
        )
    },
}


def _load(name: str) -> Any:
    module, attribute = _LAZY[name]
    loaded = importlib.import_module(module)
    return loaded if attribute is None else getattr(loaded, attribute)


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'tscript' has no attribute {name!r}")
    value = globals()[name] = _load(name)
    return value


def __dir__() -> list[str]:
    # What completion offers: what is promised, and none of what this file itself needs.
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


class _Face(ModuleType):
    """This module: `tscript.lower` is the function, whether or not the package of that name is loaded."""

    @property
    def lower(self) -> Any:
        """`tscript.driver.lower`."""
        return _load("lower")

    @lower.setter
    def lower(self, package: ModuleType) -> None:
        # Python binds a package here once it is imported; `from tscript.lower import ...` does not need that.
        pass


sys.modules[__name__].__class__ = _Face
default_vars["tscript"] = default_vars["tvm"] = sys.modules[__name__]

__all__ = [
    "DiagnosticError", "IRModule", "__version__", "build", "compare", "compile", "cpu", "cuda", "device", "driver",
    "error", "get_global_func", "interp", "ir", "library", "load_module", "lower", "meta_schedule", "nd", "printer",
    "register_func", "runtime", "schedule", "script", "target", "te", "testing", "tir",
]  # fmt: skip
