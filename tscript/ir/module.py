"""The module class under the path that TVM users import it from."""

from __future__ import annotations

from tscript.ir.function import IRModule

__all__ = ["IRModule"]
