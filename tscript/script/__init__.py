"""The language of kernels and modules, as TVM users import it: `from tscript.script import tir as T, ir as I`."""

from __future__ import annotations

import sys

from tscript.parser import default_vars, from_source, ir_module, parse
from tscript.script import ir, tir

_package = sys.modules[__name__.partition(".")[0]]
default_vars.update(T=tir, tir=tir, I=ir, ir=ir, tscript=_package, tvm=_package)

__all__ = ["from_source", "ir", "ir_module", "parse", "tir"]
