"""exp and what is made of it: exp2, exp10, sigmoid, tanh, sinh, cosh.

x = n · ln 2 + r with |r| ≤ ln 2 / 2, after W. J. Cody and W. Waite, "Software Manual for the Elementary Functions"
(1980): ln 2 is taken in two parts, of which the first has so few bits that its product with n is exact. Then exp(x) =
2ⁿ · exp(r), where exp(r) - 1 is a polynomial.
"""

from __future__ import annotations

import math
from typing import Final

from tscript.codegen.llvm.math.coefficients import EXP, SINH
from tscript.codegen.llvm.math.lanes import Lane, Lanes

LN2: Final = {
    32: (float.fromhex("0x1.62E4p-1"), float.fromhex("0x1.7F7D1CF79ABCAp-20")),
    64: (float.fromhex("0x1.62E42FEFA38p-1"), float.fromhex("0x1.EF35793C7673p-45")),
}
"""ln 2 as a short number and the rest, by the bits of the type."""
LOG10_2: Final = {
    32: (float.fromhex("0x1.344p-2"), float.fromhex("0x1.3509F79FEF312p-18")),
    64: (float.fromhex("0x1.34413509F78p-2"), float.fromhex("0x1.FEF311F12B358p-46")),
}
"""The decimal logarithm of 2 in the same form."""

# Beyond these, results are infinite or zero.
_TOP: Final = {32: 89.0, 64: 710.0}
_BOTTOM: Final = {32: -104.5, 64: -746.0}


def minus_one(g: Lanes, r: Lane) -> Lane:
    """exp(r) - 1 for |r| ≤ ln 2 / 2."""
    return g.fma(r * r, g.polynomial(EXP[g.bits], r), r)


def reduced(g: Lanes, x: Lane) -> tuple[Lane, Lane, Lane]:
    """n as a float and as an integer, and r, of x = n · ln 2 + r."""
    high, low = LN2[g.bits]
    n, whole = g.nearest(x, 1 / math.log(2))
    return n, whole, g.fma(n, -low, g.fma(n, -high, x))


def exp(g: Lanes, x: Lane) -> Lane:
    """exp(x)."""
    _, n, r = reduced(g, g.at_least(g.at_most(x, _TOP[g.bits]), _BOTTOM[g.bits]))
    return g.scaled(minus_one(g, r) + 1.0, n)


def exp2(g: Lanes, x: Lane) -> Lane:
    """2ˣ."""
    x = g.at_least(g.at_most(x, 128.0 if g.bits == 32 else 1024.0), -151.0 if g.bits == 32 else -1076.0)
    n, whole = g.nearest(x, 1.0)
    return g.scaled(minus_one(g, (x - n) * math.log(2)) + 1.0, whole)


def exp10(g: Lanes, x: Lane) -> Lane:
    """10ˣ."""
    x = g.at_least(g.at_most(x, 39.0 if g.bits == 32 else 309.0), -46.0 if g.bits == 32 else -324.5)
    high, low = LOG10_2[g.bits]
    n, whole = g.nearest(x, 1 / math.log10(2))
    r = g.fma(n, -low, g.fma(n, -high, x))
    ten = math.log(10)
    rest = _TEN_REST[g.bits]
    return g.scaled(minus_one(g, g.fma(r, ten, r * rest)) + 1.0, whole)


_TEN_REST: Final = {32: float.fromhex("-0x1.12AABA9F48AD5p-25"), 64: float.fromhex("-0x1.F48AD494EA3E9p-53")}
"""By how much ln 10 exceeds its nearest float."""


def expm1(g: Lanes, x: Lane) -> Lane:
    """exp(x) - 1 for x from 0 to where that is infinite, accurate near zero too."""
    _, whole, r = reduced(g, x)
    power = g.power_of_two(whole)
    return g.fma(power, minus_one(g, r), power - 1.0)


def sigmoid(g: Lanes, x: Lane) -> Lane:
    """1 / (1 + exp(-x)), of exp(-|x|), which never is infinite."""
    power = exp(g, -g.abs(x))
    return _quotient_by_sum(g, g.select(x < 0.0, power, 1.0), power, 1.0)


def tanh(g: Lanes, x: Lane) -> Lane:
    """The hyperbolic tangent, (exp(2a) - 1) / (exp(2a) + 1) for a = |x|."""
    a = g.at_most(g.abs(x), 9.1 if g.bits == 32 else 20.0)
    t = expm1(g, a + a)
    return g.with_sign(_quotient_by_sum(g, t, t, 2.0), x)


def _quotient_by_sum(g: Lanes, x: Lane, y: Lane, number: float) -> Lane:
    """`x / (y + number)`, nearly as if rounded once, for positive numbers with x ≤ y + number."""
    divisor = y + number
    lost = g.select(y < number, y - (divisor - number), number - (divisor - y))
    inverse = 1.0 / divisor
    q = x * inverse
    rest = g.minus_product(x, q, divisor) - q * lost
    return g.fma(rest, inverse, q)


def sinh(g: Lanes, x: Lane) -> Lane:
    """The hyperbolic sine of a = |x|: a polynomial up to 1, (e + e / (e + 1)) / 2 of e = exp(a) - 1, exp(a) / 2."""
    a = g.at_most(g.abs(x), 90.0 if g.bits == 32 else 711.0)
    z = x * x
    small = g.fma(x * z, g.polynomial(SINH[g.bits], z), x)
    _, n, r = reduced(g, a)
    large = g.scaled(minus_one(g, r) + 1.0, n - 1)
    e = expm1(g, g.at_most(a, 23.0))
    middle = (e + e / (e + 1.0)) * 0.5
    return g.select(a < 1.0, small, g.with_sign(g.select(a > 22.0, large, middle), x))


def cosh(g: Lanes, x: Lane) -> Lane:
    """The hyperbolic cosine: with h = exp(|x|) / 2, h + 1 / (4 h)."""
    _, n, r = reduced(g, g.at_most(g.abs(x), 90.0 if g.bits == 32 else 711.0))
    half = g.scaled(minus_one(g, r) + 1.0, n - 1)
    return half + 0.25 / half
