"""sin, cos and tan.

The argument is reduced to x = n · π + r with |r| ≤ π / 2 (n - ½ for cos, n · π / 2 for tan), where one polynomial
gives the sine of r and the last bit of n its sign. For moderate x, π is taken in parts, as W. J. Cody and W. Waite do
("Software Manual for the Elementary Functions", 1980); r then is the sum of two floats. float32 is reduced in
float64, which is exact enough by far. Large x, which are rare, are reduced by the bits of 1 / π that matter for their
exponent, after M. H. Payne and R. N. Hanek, "Radian reduction for trigonometric functions" (1983), lane by lane.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tscript.codegen.llvm.math.coefficients import SIN, TAN
from tscript.codegen.llvm.math.lanes import Lane, Lanes
from tscript.codegen.llvm.math.large_arguments import reduce_large

_PI: Final = (float.fromhex("0x1.921fb54442d18p+1"), float.fromhex("0x1.1a62633145c07p-53"))
"""π rounded to a float64, and the rest; and the rest of that."""
_PI_REST: Final = float.fromhex("-0x1.f1976b7ed8fbcp-109")
_LIMITS: Final = {32: 2.0**22, 64: 2.0**26}
"""Up to which arguments the parts of π suffice."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """r as a float64 and what that lacks, and an integer whose last bit is that of n."""

    high: Lane
    low: Lane
    n: Lane


def _moderate(g: Lanes, x: Lane, divisions: int, shift: float) -> Reduced:
    """x = (n - shift) · π / divisions + r, of float64."""
    if shift:
        scaled = g.fma(x, divisions / math.pi, shift)
        n, whole = g.nearest(scaled, 1.0)
        n = n - shift
    else:
        n, whole = g.nearest(x, divisions / math.pi)
    # Exact: both are multiples of the last bit of the result.
    first = g.minus_product(x, n, _PI[0] / divisions)
    high, low = g.product(n, _PI[1] / divisions)
    r = first - high
    rest = (first - r) - high
    return Reduced(r, g.fma(n, -_PI_REST / divisions, rest - low), whole)


def _moderate_short(g: Lanes, x: Lane, divisions: int, shift: float) -> Reduced:
    """The same for float32, whose r is rounded to float32 afterwards."""
    scaled = g.fma(x, divisions / math.pi, shift)
    n, whole = g.nearest(scaled, 1.0)
    if shift:
        n = n - shift
    first = g.minus_product(x, n, _PI[0] / divisions)
    return Reduced(g.fma(n, -_PI[1] / divisions, first), g.const("f64", 0.0), whole)


def _sine(g: Lanes, r: Reduced) -> Lane:
    """The sine of r, with the sign that n tells; never beyond 1, which rounding might be."""
    if g.bits == 32:
        short = g.cast("fptrunc", r.high, "f32")
        z = short * short
        value = g.fma(short * z, g.polynomial(SIN[32], z), short)
        value = g.at_least(g.at_most(value, 1.0), -1.0)
        return g.from_bits(g.bits_of(value) ^ (g.cast("trunc", r.n, "i32") << 31))
    z = r.high * r.high
    # What r lacks counts by the derivative of the sine.
    rest = g.fma(r.high * z, g.polynomial(SIN[64], z), r.low * (1.0 - z * 0.5))
    value = g.at_least(g.at_most(r.high + rest, 1.0), -1.0)
    return g.from_bits(g.bits_of(value) ^ (r.n << 63))


def _tangent(g: Lanes, r: Reduced) -> Lane:
    """The tangent of r, or -1 over it where n is odd."""
    high, low, n = r.high, r.low, r.n
    if g.bits == 32:
        high = g.cast("fptrunc", r.high, "f32")
        low = g.cast("fptrunc", r.high - g.cast("fpext", high, "f64"), "f32")
        n = g.cast("trunc", r.n, "i32")
    z = high * high
    tail = (high * z) * g.polynomial(TAN[g.bits], z)
    t = high + tail
    # What r lacks counts by the derivative of the tangent.
    t = high + (tail + low * g.fma(t, t, 1.0))
    return g.select((n & 1).differs(0), -1.0 / t, t)


Finish = Callable[[Lanes, Reduced], Lane]


def _periodic(name: str, divisions: int, shift: float, finish: Finish) -> Callable[[Lanes, Lane], Lane]:
    def emit(g: Lanes, x: Lane) -> Lane:
        far = g.abs(x) > _LIMITS[g.bits]
        wide = g.cast("fpext", x, "f64") if g.bits == 32 else x
        reduce = _moderate_short if g.bits == 32 else _moderate

        def common() -> Lane:
            return finish(g, reduce(g, wide, divisions, shift))

        def rare() -> Lane:
            # Lanes that are not large keep the result that they have elsewhere.
            return g.select(far, g.lane_by_lane(x, _large(g, name, divisions, shift, finish)), common())

        result = g.where_any(far, common, rare)
        return g.select(x.equals(0.0), x, result) if name != "cos" else result

    return emit


def _large(g: Lanes, name: str, divisions: int, shift: float, finish: Finish) -> str:
    """The name of the scalar function for large arguments, which is made when first asked for."""
    one = Lanes(g.b, g.bits, 1)
    full = f"math.{name}.f{g.bits}.large{g.b.helper_suffix}"
    if full not in g.b.module.helpers:
        x = Lane(one, "%x", f"f{g.bits}")
        wide = one.cast("fpext", x, "f64") if g.bits == 32 else x
        high, low, n = reduce_large(one, wide, divisions, shift)
        result = finish(one, Reduced(high, low, n))
        result = one.select(one.abs(x) < math.inf, result, math.nan)
        body = "\n".join(one.lines)
        g.b.module.helpers[full] = (
            f"define internal {x.type} @{full}({x.type} %x) noinline nounwind{g.b.attributes} {{\n{body}\n"
            f"  ret {x.type} {result.text}\n}}"
        )
    return full


sin = _periodic("sin", 1, 0.0, _sine)
cos = _periodic("cos", 1, 0.5, _sine)
tan = _periodic("tan", 2, 0.0, _tangent)
