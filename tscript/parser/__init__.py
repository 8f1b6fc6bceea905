"""Python source of kernels into IR: it reads the syntax tree and never runs the function."""

from __future__ import annotations

from tscript.parser.entry import default_vars, from_source, parse
from tscript.parser.function import prim_func
from tscript.parser.macros import Macro, macro
from tscript.parser.module import ir_module

__all__ = ["Macro", "default_vars", "from_source", "ir_module", "macro", "parse", "prim_func"]
