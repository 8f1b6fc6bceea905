"""Math functions as code of ours, for scalars and vectors of any length.

`emit` calls one of `FUNCTIONS`. Each is a function of the module, written for a type and a number of lanes when first
used. There are no calls of C's library in them: a vector is computed in vectors, and a lane of one has the same bits
as a scalar. Where the CPU rounds `x * y + z` once, they do; else the bits differ in rare cases. Errors stay below 2
units in the last place, over the whole range (`tests/codegen/test_math_accuracy.py` measures them); infinities, NaN,
signed zeros and subnormal numbers are those of IEEE 754.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tscript.codegen.llvm.builder import Builder
from tscript.codegen.llvm.math import (
    error_function,
    exponential,
    inverse_trigonometric,
    logarithm,
    power,
    trigonometric,
)
from tscript.codegen.llvm.math.lanes import Lane, Lanes
from tscript.codegen.llvm.types import float_vector

Function = Callable[..., Lane]

_IN_BOTH: Final[dict[str, Function]] = {
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "exp10": exponential.exp10,
    "sigmoid": exponential.sigmoid,
    "tanh": exponential.tanh,
    "sinh": exponential.sinh,
    "cosh": exponential.cosh,
    "log": logarithm.log,
    "log2": logarithm.log2,
    "log10": logarithm.log10,
    "log1p": logarithm.log1p,
    "asinh": logarithm.asinh,
    "acosh": logarithm.acosh,
    "atanh": logarithm.atanh,
    "sin": trigonometric.sin,
    "cos": trigonometric.cos,
    "tan": trigonometric.tan,
    "erf": error_function.erf,
    "asin": inverse_trigonometric.asin,
    "acos": inverse_trigonometric.acos,
    "atan": inverse_trigonometric.atan,
    "atan2": inverse_trigonometric.atan2,
}
_IN_FLOAT64: Final[dict[str, Function]] = {
    "pow": power.pow,
    "hypot": power.hypot,
}
FUNCTIONS: Final = frozenset({*_IN_BOTH, *_IN_FLOAT64})
"""Names of what `emit` can call."""


def emit(b: Builder, name: str, bits: int, lanes: int, args: list[str]) -> str:
    """Call the function `name` on operands of `lanes` floats of `bits` bits, 32 or 64; the result's operand."""
    full = f"math.{name}.f{bits}.x{lanes}{b.helper_suffix}"
    t = float_vector(lanes, bits)
    if full not in b.module.helpers:
        b.module.helpers[full] = _definition(b, name, full, bits, lanes, len(args))
    return b.let(f"call {t} @{full}({', '.join(f'{t} {a}' for a in args)})")


def _definition(b: Builder, name: str, full: str, bits: int, lanes: int, count: int) -> str:
    g = Lanes(b, bits, lanes)
    params: list[Any] = [Lane(g, f"%x{i}", f"f{bits}") for i in range(count)]
    if name in _IN_BOTH:
        result = _IN_BOTH[name](g, *params)
    else:
        wide = [g.cast("fpext", p, "f64") for p in params] if bits == 32 else params
        result = _IN_FLOAT64[name](g, *wide)
        if bits == 32:
            result = g.cast("fptrunc", result, "f32")
    head = ", ".join(f"{p.type} {p.text}" for p in params)
    body = "\n".join(g.lines)
    return (
        f"define internal {result.type} @{full}({head}) inlinehint nounwind{b.attributes} {{\nentry:\n{body}\n"
        f"  ret {result.type} {result.text}\n}}"
    )


__all__ = ["FUNCTIONS", "emit"]
