"""pow and hypot.

|x|ʸ = 2 ** (y · log2 |x|). The product may be as large as 1100, so float64 needs 64 bits of the logarithm: it is a
sum of two floats, of the series of 2 / ln 2 · atanh(t) for t = (m - 1) / (m + 1), with x = 2ᵏ · m, whose first two
terms are taken exactly enough. float32 is computed in float64, where one float is enough.
"""

from __future__ import annotations

import math
from typing import Final

from tscript.codegen.llvm.math import exponential, logarithm
from tscript.codegen.llvm.math.coefficients import ATANH
from tscript.codegen.llvm.math.lanes import Lane, Lanes

_THIRD: Final = (1 / 3, float.fromhex("0x1.5555555555555p-56"))
_TWO_LOG2_E: Final = (float.fromhex("0x1.71547652b82fep+1"), float.fromhex("0x1.777d0ffda0d24p-55"))
_FAR: Final = 1100.0
"""Exponents of 2 beyond all numbers."""


def _log2_short(g: Lanes, a: Lane) -> Lane:
    """log2 of a positive number, as a float64."""
    k, m = logarithm.parts(g, a)
    t = (m - 1.0) / (m + 1.0)
    z = t * t
    series = g.fma(z * z, g.polynomial(ATANH[64], z), g.fma(z, 1 / 3, 1.0))
    return g.fma(t * _TWO_LOG2_E[0], series, k)


def _log2(g: Lanes, a: Lane) -> tuple[Lane, Lane]:
    """log2 of a positive number, as the sum of two float64."""
    k, m = logarithm.parts(g, a)
    above, below = m - 1.0, m + 1.0
    lost = m - (below - 1.0)
    t = above / below
    t_low = (g.minus_product(above, t, below) - t * lost) / below
    z, z_low = g.product(t, t)
    z_low = z_low + (t + t) * t_low
    # ⅓ + z / 5 + …, times z, plus 1, times t.
    more = g.fma(z, g.polynomial(ATANH[64], z), _THIRD[1])
    inner = more + _THIRD[0]
    inner_low = (_THIRD[0] - inner) + more
    w, w_low = g.product(z, inner)
    w_low = w_low + (z * inner_low + z_low * inner)
    one = w + 1.0
    one_low = ((1.0 - one) + w) + w_low
    s, s_low = g.product(t, one)
    s_low = s_low + (t * one_low + t_low * one)
    r, r_low = g.product(s, _TWO_LOG2_E[0])
    r_low = r_low + (s * _TWO_LOG2_E[1] + s_low * _TWO_LOG2_E[0])
    total = k + r
    return total, ((k - total) + r) + r_low


def pow(g: Lanes, x: Lane, y: Lane) -> Lane:
    """xʸ, with the special cases of IEEE 754 and C."""
    a, size = g.abs(x), g.abs(y)
    if g.bits == 32:
        exponent, low = y * _at_the_ends(g, a, _log2_short(g, a)), g.const("f64", 0.0)
    else:
        high, rest = _log2(g, a)
        exponent, low = g.product(y, _at_the_ends(g, a, high))
        low = g.fma(y, rest, low)
    far = g.abs(exponent) > _FAR
    low = g.select(far, 0.0, low)
    exponent = g.at_least(g.at_most(exponent, _FAR), -_FAR)
    n, whole = g.nearest(exponent, 1.0)
    r = ((exponent - n) + low) * math.log(2)
    p = g.fma(r * r, g.polynomial(exponential.EXP[64], r), r)
    result = g.scaled(p + 1.0, whole)
    # Whether y is an integer, and odd: adding 2**52 leaves no bits for a fraction, and moves the integer to the end.
    shifted = size + 2.0**52
    big = size >= 2.0**52
    integer = big | (shifted - 2.0**52).equals(size)
    last = g.bits_of(g.select(big, size, shifted)) & 1
    odd = integer & last.differs(0) & (size < 2.0**53)
    negative = g.bits_of(x) < 0
    result = g.select(negative & odd, -result, result)
    result = g.select((x < 0.0) & (a < math.inf) & (integer ^ 1), math.nan, result)
    result = g.select(g.unordered(x, y), math.nan, result)
    always = y.equals(0.0) | x.equals(1.0) | (a.equals(1.0) & size.equals(math.inf))
    return g.select(always, 1.0, result)


def _at_the_ends(g: Lanes, a: Lane, logarithm: Lane) -> Lane:
    """The logarithm of 0 and of infinity."""
    return g.select(a < math.inf, g.select(a.equals(0.0), -math.inf, logarithm), math.inf)


def hypot(g: Lanes, x: Lane, y: Lane) -> Lane:
    """√(x² + y²), infinite where either is, even beside a NaN. Powers of two keep the squares in range."""
    a, c = g.abs(x), g.abs(y)
    if g.bits == 32:
        result = g.sqrt(g.fma(a, a, c * c))
    else:
        large, small = g.select(a > c, a, c), g.select(a > c, c, a)
        down = large > 2.0**500
        up = large < 2.0**-500
        factor = g.select(down, 2.0**-600, g.select(up, g.const("f64", 2.0**600), 1.0))
        back = g.select(down, 2.0**600, g.select(up, g.const("f64", 2.0**-600), 1.0))
        large, small = large * factor, small * factor
        result = g.sqrt(g.fma(large, large, small * small)) * back
        result = g.select(g.unordered(x, y), math.nan, result)
    return g.select(a.equals(math.inf) | c.equals(math.inf), math.inf, result)
