"""asin, acos, atan and atan2 of float64; those of float32 are computed in float64 and rounded."""

from __future__ import annotations

import math
from typing import Final

from tscript.codegen.llvm.math.coefficients import ASIN, ATAN
from tscript.codegen.llvm.math.lanes import Lane, Lanes

_HALF_PI_REST: Final = float.fromhex("0x1.1a62633145c07p-54")
"""By how much π / 2 exceeds its nearest float."""


def atan(g: Lanes, x: Lane) -> Lane:
    """The inverse tangent: a polynomial up to 1, and π / 2 - atan(1 / x) beyond."""
    a = g.abs(x)
    beyond = a > 1.0
    q = g.select(beyond, 1.0 / a, a)
    return g.with_sign(_complement(g, beyond, *_atan_of_quotient(g, q)), x)


def _atan_of_quotient(g: Lanes, q: Lane) -> tuple[Lane, Lane]:
    """atan(q) for 0 ≤ q ≤ 1, as q and what is to be added to it."""
    z = q * q
    return q, (q * z) * g.polynomial(ATAN[64], z)


def _complement(g: Lanes, where: Lane, high: Lane, low: Lane) -> Lane:
    """π / 2 - high - low where the condition holds, high + low elsewhere."""
    other = (math.pi / 2 - high) + (_HALF_PI_REST - low)
    return g.select(where, other, high + low)


def atan2(g: Lanes, y: Lane, x: Lane) -> Lane:
    """The angle of the point (x, y)."""
    a, c = g.abs(x), g.abs(y)
    steep = c > a
    small, large = g.select(steep, a, c), g.select(steep, c, a)
    q = small / large
    q = g.select(small.equals(large), 1.0, q)
    q = g.select(small.equals(0.0), 0.0, q)
    high, low = _atan_of_quotient(g, q)
    angle = _complement(g, steep, high, low)
    left = g.bits_of(x) < 0
    angle = g.select(left, (math.pi - angle) + 2 * _HALF_PI_REST, angle)
    angle = g.select(g.unordered(x, y), math.nan, angle)
    return g.with_sign(angle, y)


def _asin_parts(g: Lanes, x: Lane) -> tuple[Lane, Lane, Lane, Lane]:
    """|x|, whether it is beyond ½, and asin of |x| or of √((1 - |x|) / 2) there, in two parts."""
    a = g.abs(x)
    beyond = a > 0.5
    half = (1.0 - a) * 0.5
    root = g.sqrt(half)
    s = g.select(beyond, root, a)
    z = g.select(beyond, half, a * a)
    # What the root lacks. At 1 the root is zero.
    lacks = g.minus_product(half, root, root) / (root + root)
    lacks = g.select(beyond & (a < 1.0), lacks, 0.0)
    return a, beyond, s, g.fma(s * z, g.polynomial(ASIN[64], z), lacks)


def asin(g: Lanes, x: Lane) -> Lane:
    """The inverse sine."""
    a, beyond, s, rest = _asin_parts(g, x)
    far = (math.pi / 2 - (s + s)) + (_HALF_PI_REST - (rest + rest))
    result = g.with_sign(g.select(beyond, far, s + rest), x)
    return g.select(a <= 1.0, result, math.nan)


def acos(g: Lanes, x: Lane) -> Lane:
    """The inverse cosine."""
    a, beyond, s, rest = _asin_parts(g, x)
    left = x < 0.0
    twice = (s + s) + (rest + rest)
    far = g.select(left, (math.pi - (s + s)) + (2 * _HALF_PI_REST - (rest + rest)), twice)
    signed, signed_rest = g.with_sign(s, x), g.with_sign(rest, x)
    near = (math.pi / 2 - signed) + (_HALF_PI_REST - signed_rest)
    return g.select(a <= 1.0, g.select(beyond, far, near), math.nan)
