"""Functions of floats. An integer argument is a TypeError that says how to convert it."""

from __future__ import annotations

from tscript.ir.construct import convert, match_lanes, math_call
from tscript.ir.expr import Call, Op, PrimExpr
from tscript.parser.dialect.values import Value, op_function


@op_function
def exp(x: Value) -> PrimExpr:
    """e to the power of `x`."""
    return math_call("exp", x)


@op_function
def exp2(x: Value) -> PrimExpr:
    """2 to the power of `x`."""
    return math_call("exp2", x)


@op_function
def exp10(x: Value) -> PrimExpr:
    """10 to the power of `x`."""
    return math_call("exp10", x)


@op_function
def log(x: Value) -> PrimExpr:
    """Natural logarithm."""
    return math_call("log", x)


@op_function
def log2(x: Value) -> PrimExpr:
    """Logarithm to base 2."""
    return math_call("log2", x)


@op_function
def log10(x: Value) -> PrimExpr:
    """Logarithm to base 10."""
    return math_call("log10", x)


@op_function
def log1p(x: Value) -> PrimExpr:
    """`log(1 + x)`, exact for small `x`."""
    return math_call("log1p", x)


@op_function
def sqrt(x: Value) -> PrimExpr:
    """Square root; NaN below zero."""
    return math_call("sqrt", x)


@op_function
def rsqrt(x: Value) -> PrimExpr:
    """One over the square root."""
    return math_call("rsqrt", x)


@op_function
def sin(x: Value) -> PrimExpr:
    """Sine of an angle in radians."""
    return math_call("sin", x)


@op_function
def cos(x: Value) -> PrimExpr:
    """Cosine of an angle in radians."""
    return math_call("cos", x)


@op_function
def tan(x: Value) -> PrimExpr:
    """Tangent of an angle in radians."""
    return math_call("tan", x)


@op_function
def asin(x: Value) -> PrimExpr:
    """Angle, in radians, of a sine."""
    return math_call("asin", x)


@op_function
def acos(x: Value) -> PrimExpr:
    """Angle, in radians, of a cosine."""
    return math_call("acos", x)


@op_function
def atan(x: Value) -> PrimExpr:
    """Angle, in radians, of a tangent."""
    return math_call("atan", x)


@op_function
def sinh(x: Value) -> PrimExpr:
    """Hyperbolic sine."""
    return math_call("sinh", x)


@op_function
def cosh(x: Value) -> PrimExpr:
    """Hyperbolic cosine."""
    return math_call("cosh", x)


@op_function
def tanh(x: Value) -> PrimExpr:
    """Hyperbolic tangent."""
    return math_call("tanh", x)


@op_function
def asinh(x: Value) -> PrimExpr:
    """Inverse of the hyperbolic sine."""
    return math_call("asinh", x)


@op_function
def acosh(x: Value) -> PrimExpr:
    """Inverse of the hyperbolic cosine."""
    return math_call("acosh", x)


@op_function
def atanh(x: Value) -> PrimExpr:
    """Inverse of the hyperbolic tangent."""
    return math_call("atanh", x)


@op_function
def erf(x: Value) -> PrimExpr:
    """Error function."""
    return math_call("erf", x)


@op_function
def sigmoid(x: Value) -> PrimExpr:
    """`1 / (1 + exp(-x))`."""
    return math_call("sigmoid", x)


@op_function
def fabs(x: Value) -> PrimExpr:
    """Magnitude of a float; `abs` takes integers too."""
    return math_call("fabs", x)


@op_function
def atan2(y: Value, x: Value) -> PrimExpr:
    """Angle of the point (x, y), in radians from -pi to pi."""
    return math_call("atan2", y, x)


@op_function
def fmod(a: Value, b: Value) -> PrimExpr:
    """Remainder of `a / b` with the sign of `a`."""
    return math_call("fmod", a, b)


@op_function
def hypot(a: Value, b: Value) -> PrimExpr:
    """`sqrt(a * a + b * b)` without overflow on the way."""
    return math_call("hypot", a, b)


@op_function
def copysign(a: Value, b: Value) -> PrimExpr:
    """The magnitude of `a` with the sign of `b`."""
    return math_call("copysign", a, b)


@op_function
def nextafter(a: Value, b: Value) -> PrimExpr:
    """The next number of the type from `a` toward `b`."""
    return math_call("nextafter", a, b)


@op_function
def pow(x: Value, y: Value) -> PrimExpr:
    """`x` to the power of `y`, both floats."""
    return math_call("pow", x, y)


power = pow


@op_function
def ldexp(x: Value, n: Value) -> PrimExpr:
    """`x * 2**n` for a float `x` and an integer `n`."""
    value, exponent = convert(x), convert(n)
    if not value.dtype.is_float or not exponent.dtype.is_integer:
        raise TypeError(f"ldexp takes a float and an integer, not {value.dtype!s} and {exponent.dtype!s}")
    value, exponent = match_lanes(value, exponent)
    return Call(value.dtype, Op.get("tir.ldexp"), (value, exponent))


__all__ = [
    "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "sigmoid", "fabs", "atan2", "fmod", "hypot",
    "copysign", "nextafter", "pow", "power", "ldexp",
]  # fmt: skip
