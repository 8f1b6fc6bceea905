"""Scalar functions under the names `te` has for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.construct import ExprLike, ceildiv, floordiv, floormod, if_then_else, truncdiv, truncmod
from tscript.ir.dtype import DataType
from tscript.ir.expr import PrimExpr


def _math(name: str) -> Callable[[Any], PrimExpr]:
    def function(x: ExprLike) -> PrimExpr:
        return make.math_call(name, x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`{name}` of a float, in its type. TypeError for an integer."
    return function


exp, exp2, exp10 = _math("exp"), _math("exp2"), _math("exp10")
log, log2, log10, log1p = _math("log"), _math("log2"), _math("log10"), _math("log1p")
sqrt, rsqrt, erf, sigmoid = _math("sqrt"), _math("rsqrt"), _math("erf"), _math("sigmoid")
sin, cos, tan = _math("sin"), _math("cos"), _math("tan")
asin, acos, atan = _math("asin"), _math("acos"), _math("atan")
sinh, cosh, tanh = _math("sinh"), _math("cosh"), _math("tanh")
asinh, acosh, atanh = _math("asinh"), _math("acosh"), _math("atanh")


def _rounding(name: str) -> Callable[[Any], PrimExpr]:
    def function(x: ExprLike) -> PrimExpr:
        e = make.convert(x)
        return e if e.dtype.is_integer else make.math_call(name, e)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`{name}` of a float; an integer is its own."
    return function


floor, ceil, trunc = _rounding("floor"), _rounding("ceil"), _rounding("trunc")
round, nearbyint = _rounding("round"), _rounding("nearbyint")


def abs(x: ExprLike) -> PrimExpr:
    """The value without its sign."""
    e = make.convert(x)
    if e.dtype.is_float:
        return make.math_call("fabs", e)
    if e.dtype.is_uint:
        return e
    return ex.Select(make.compare(ex.GE, e, 0), e, make.sub(make.const(0, e.dtype), e))


def _test(name: str, of_integer: bool) -> Callable[[Any], PrimExpr]:
    def function(x: ExprLike) -> PrimExpr:
        e = make.convert(x)
        if not e.dtype.is_float:
            return make.const(of_integer)
        return make.call_intrin(DataType("bool").with_lanes(e.dtype.lanes), name, e)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Whether `{name}` holds; {of_integer} for integers."
    return function


isnan, isinf, isfinite = _test("isnan", False), _test("isinf", False), _test("isfinite", True)


def popcount(x: ExprLike) -> PrimExpr:
    """Number of bits set."""
    e = make.convert(x)
    return make.call_intrin(e.dtype, "popcount", e)


def power(x: ExprLike, y: ExprLike) -> PrimExpr:
    """`x` to the power `y`, of floats."""
    return make.math_call("pow", x, y)


def fmod(x: ExprLike, y: ExprLike) -> PrimExpr:
    """Remainder of floats with the sign of `x`."""
    return make.math_call("fmod", x, y)


def all(*conditions: ExprLike) -> PrimExpr:
    """Whether every condition holds."""
    return _joined(make.and_, conditions)


def any(*conditions: ExprLike) -> PrimExpr:
    """Whether some condition holds."""
    return _joined(make.or_, conditions)


def _joined(join: Callable[[Any, Any], PrimExpr], conditions: tuple[ExprLike, ...]) -> PrimExpr:
    if not conditions:
        raise ValueError("at least one condition is needed")
    result = make.convert(conditions[0])
    for c in conditions[1:]:
        result = join(result, c)
    return result


add, subtract, multiply, div = make.add, make.sub, make.mul, make.div
indexdiv, indexmod = floordiv, floormod

__all__ = [
    "abs", "acos", "acosh", "add", "all", "any", "asin", "asinh", "atan", "atanh", "ceil", "ceildiv", "cos",
    "cosh", "div", "erf", "exp", "exp2", "exp10", "floor", "floordiv", "floormod", "fmod", "if_then_else",
    "indexdiv", "indexmod", "isfinite", "isinf", "isnan", "log", "log1p", "log2", "log10", "multiply",
    "nearbyint", "popcount", "power", "round", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "subtract", "tan",
    "tanh", "trunc", "truncdiv", "truncmod",
]  # fmt: skip
