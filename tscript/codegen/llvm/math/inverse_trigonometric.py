"""asin, acos, atan and atan2: a polynomial near zero, and π / 2 less that of a smaller argument beyond."""

from __future__ import annotations

import math
from typing import Final

from tscript.codegen.llvm.math.coefficients import ASIN, ATAN
from tscript.codegen.llvm.math.lanes import Lane, Lanes

_HALF_PI: Final = {
    32: (float.fromhex("0x1.921fb6p+0"), float.fromhex("-0x1.777a5cf72cecep-25")),
    64: (math.pi / 2, float.fromhex("0x1.1a62633145c07p-54")),
}
"""π / 2 as the nearest float and by how much it exceeds that, by the bits of the type."""


def atan(g: Lanes, x: Lane) -> Lane:
    """The inverse tangent: a polynomial up to 1, and π / 2 - atan(1 / x) beyond."""
    a = g.abs(x)
    beyond = a > 1.0
    q = g.select(beyond, 1.0 / a, a)
    return g.with_sign(_complement(g, beyond, *_atan_of_quotient(g, q)), x)


def _atan_of_quotient(g: Lanes, q: Lane) -> tuple[Lane, Lane]:
    """atan(q) for 0 ≤ q ≤ 1, as q and what is to be added to it."""
    z = q * q
    return q, (q * z) * g.polynomial(ATAN[g.bits], z)


def _complement(g: Lanes, where: Lane, high: Lane, low: Lane) -> Lane:
    """π / 2 - high - low where the condition holds, high + low elsewhere."""
    half_pi, more = _HALF_PI[g.bits]
    other = (half_pi - high) + (more - low)
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
    half_pi, more = _HALF_PI[g.bits]
    angle = g.select(left, (2 * half_pi - angle) + 2 * more, angle)
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
    return a, beyond, s, g.fma(s * z, g.polynomial(ASIN[g.bits], z), lacks)


def asin(g: Lanes, x: Lane) -> Lane:
    """The inverse sine."""
    a, beyond, s, rest = _asin_parts(g, x)
    half_pi, more = _HALF_PI[g.bits]
    far = (half_pi - (s + s)) + (more - (rest + rest))
    result = g.with_sign(g.select(beyond, far, s + rest), x)
    return g.select(a <= 1.0, result, math.nan)


def acos(g: Lanes, x: Lane) -> Lane:
    """The inverse cosine."""
    a, beyond, s, rest = _asin_parts(g, x)
    left = x < 0.0
    half_pi, more = _HALF_PI[g.bits]
    twice = (s + s) + (rest + rest)
    far = g.select(left, (2 * half_pi - (s + s)) + (2 * more - (rest + rest)), twice)
    signed, signed_rest = g.with_sign(s, x), g.with_sign(rest, x)
    near = (half_pi - signed) + (more - signed_rest)
    return g.select(a <= 1.0, g.select(beyond, far, near), math.nan)
