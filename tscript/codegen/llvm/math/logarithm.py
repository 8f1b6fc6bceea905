"""log, log2, log10, log1p, and the inverse hyperbolic functions, which are logarithms.

x = 2ᵏ · (1 + f) with √½ ≤ 1 + f < √2; log(1 + f) = f + f² · (f · P(f) - ½) with a polynomial P. Where k is zero, f is
exact, and with it the result near 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from tscript.codegen.llvm.math.coefficients import LOG
from tscript.codegen.llvm.math.exponential import LN2, LOG10_2
from tscript.codegen.llvm.math.lanes import Lane, Lanes

_ROOT_HALF: Final = {32: 0x3F3504F3, 64: 0x3FE6A09E667F3BCD}
_LOG2_E: Final = {
    32: (float.fromhex("0x1.715476p0"), float.fromhex("0x1.4AE0BF85DDF44p-26")),
    64: (float.fromhex("0x1.71547652B82FEp0"), float.fromhex("0x1.777D0FFDA0D24p-56")),
}
_LOG10_E: Final = {
    32: (float.fromhex("0x1.BCB7B2p-2"), float.fromhex("-0x1.5B235E39AB2A9p-27")),
    64: (float.fromhex("0x1.BCB7B1526E50Ep-2"), float.fromhex("0x1.95355BAAAFAD3p-57")),
}


def parts(g: Lanes, x: Lane) -> tuple[Lane, Lane]:
    """k (a float) and 1 + f of a positive finite x."""
    mantissa, least = (23, 2.0**-126) if x.kind == "f32" else (52, 2.0**-1022)
    tiny = x < least
    k, m = _normal_parts(g, g.select(tiny, x * 2.0**mantissa, x))
    return k + g.select(tiny, g.const(x.kind, -mantissa), 0.0), m


def _normal_parts(g: Lanes, x: Lane) -> tuple[Lane, Lane]:
    """The same for an x that is not subnormal."""
    mantissa = 23 if x.kind == "f32" else 52
    raw = g.bits_of(x)
    k = (raw - _ROOT_HALF[int(x.kind[1:])]) >> mantissa
    return g.small_integer(k), g.from_bits(raw - (k << mantissa))


def _of_all(g: Lanes, x: Lane, finish: Callable[[Lane, Lane], Lane]) -> Lane:
    """The logarithm that `finish` makes of k and f. Where all x are normal numbers, no choices are needed."""
    least, infinity = (0x00800000, 0x7F800000) if g.bits == 32 else (1 << 52, 0x7FF << 52)
    usual = g.below(g.bits_of(x) - least, infinity - least)

    def common() -> Lane:
        k, m = _normal_parts(g, x)
        return finish(k, m - 1.0)

    def rare() -> Lane:
        k, m = parts(g, x)
        return _at_the_ends(g, x, finish(k, m - 1.0))

    return g.where_any(usual ^ 1, common, rare)


def _tail(g: Lanes, f: Lane) -> Lane:
    """log(1 + f) - f."""
    return (f * f) * g.fma(f, g.polynomial(LOG[g.bits], f), -0.5)


def _at_the_ends(g: Lanes, x: Lane, result: Lane, zero: float = 0.0) -> Lane:
    """The logarithm of infinity, of NaN, of `zero` (where it is minus infinite) and of what lies below."""
    result = g.select(x < math.inf, result, x)
    result = g.select(x.equals(zero), -math.inf, result)
    return g.select(x < zero, math.nan, result)


def log(g: Lanes, x: Lane) -> Lane:
    """The natural logarithm."""
    high, low = LN2[g.bits]
    return _of_all(g, x, lambda k, f: g.fma(k, high, (_tail(g, f) + k * low) + f))


def log2(g: Lanes, x: Lane) -> Lane:
    """The binary logarithm."""
    high, low = _LOG2_E[g.bits]
    return _of_all(g, x, lambda k, f: g.precise(f, high, g.fma(_tail(g, f), high, f * low)) + k)


def log10(g: Lanes, x: Lane) -> Lane:
    """The decimal logarithm."""
    high, low = _LOG10_E[g.bits]
    first, rest = LOG10_2[g.bits]

    def finish(k: Lane, f: Lane) -> Lane:
        near = g.precise(f, high, g.fma(_tail(g, f), high, f * low))
        return g.fma(k, first, g.fma(k, rest, near))

    return _of_all(g, x, finish)


def log1p(g: Lanes, x: Lane) -> Lane:
    """log(1 + x)."""
    return _at_the_ends(g, x, _log_of_sum(g, x), -1.0)


def _log_of_sum(g: Lanes, x: Lane, more: Lane | None = None) -> Lane:
    """log(1 + x + more) for a small `more` and x > -1; what the sum u = 1 + x lacks counts as a part of u."""
    u = x + 1.0
    lost = g.select(x > 1.0, 1.0 - (u - x), x - (u - 1.0))
    if more is not None:
        lost = lost + more
    k, m = parts(g, u)
    f = m - 1.0
    high, low = LN2[g.bits]
    near = (_tail(g, f) + (k * low + lost / u)) + f
    # Adding zeros loses the sign of a zero.
    return g.select(x.equals(0.0), x, g.fma(k, high, near)) if more is None else g.fma(k, high, near)


def atanh(g: Lanes, x: Lane) -> Lane:
    """The inverse hyperbolic tangent, log(1 + 2a / (1 - a)) / 2 for a = |x|."""
    a = g.abs(x)
    below = 1.0 - a
    lost = (1.0 - below) - a
    twice = a + a
    q = twice / below
    # What the quotient lacks, by division of its remainder; there is none at 1.
    more = (g.minus_product(twice, q, below) - q * lost) / below
    inside = _log_of_sum(g, q, g.select(q < 1e300 if g.bits == 64 else q < 1e30, more, 0.0)) * 0.5
    result = g.select(a < 2.0 ** (-30 if g.bits == 64 else -13), a, inside)
    result = g.select(a.equals(1.0), math.inf, result)
    return g.with_sign(g.select(a > 1.0, math.nan, result), x)


def asinh(g: Lanes, x: Lane) -> Lane:
    """The inverse hyperbolic sine, log(1 + a + a² / (1 + √(1 + a²))) for a = |x|, and log(2a) where a² is too large."""
    a = g.abs(x)
    large = a > 2.0 ** (40 if g.bits == 64 else 20)
    s = g.select(large, 1.0, a)
    square = s * s
    q = square / (g.sqrt(square + 1.0) + 1.0)
    total = s + q
    small = _log_of_sum(g, total, (s - total) + q)
    far = log(g, a) + math.log(2)
    result = g.select(a < 2.0 ** (-28 if g.bits == 64 else -13), a, g.select(large, far, small))
    return g.with_sign(result, x)


def acosh(g: Lanes, x: Lane) -> Lane:
    """The inverse hyperbolic cosine, log(1 + t + √(2t + t²)) for t = x - 1, and log(2x) where x² is too large."""
    large = x > 2.0 ** (40 if g.bits == 64 else 20)
    t = g.select(large, 1.0, x - 1.0)
    square = g.fma(t, t, t + t)
    root = g.sqrt(square)
    total = t + root
    bigger = t > root
    lost = g.select(bigger, (t - total) + root, (root - total) + t)
    small = _log_of_sum(g, total, lost)
    far = log(g, x) + math.log(2)
    return g.select(x < 1.0, math.nan, g.select(x.equals(1.0), 0.0, g.select(large, far, small)))
