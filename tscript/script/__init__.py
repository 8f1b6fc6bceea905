"""The language of kernels: `T` (`tscript.script.tir`), `I` (`tscript.script.ir`), and reading it from text."""

from __future__ import annotations

import typing

from tscript.parser import default_vars, from_source, parse
from tscript.script import ir, tir
from tscript.script.ir import ir_module

default_vars.update(T=tir, tir=tir, I=ir, ir=ir, typing=typing, Annotated=typing.Annotated)

__all__ = ["from_source", "ir", "ir_module", "parse", "tir"]
