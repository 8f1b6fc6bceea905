"""Large arguments of the trigonometric functions, exactly.

Of x · d / π only the fraction and the last bit of the integer part count. x is M · 2ᵉ with an integer M of 53 bits;
bits of d / π that count 2 or more after multiplication by 2ᵉ give multiples of 2, whatever M is. So 192 bits of d /
π, starting where 2ᵉ makes them 1, and arithmetic modulo 2¹⁹² are enough: their first bit is that of the integer part,
the others are the fraction, to 138 bits beyond the point. After M. H. Payne and R. N. Hanek, "Radian reduction for
trigonometric functions" (1983).
"""

from __future__ import annotations

import functools
from typing import Final

from tscript.codegen.llvm.math.lanes import Lane, Lanes

_BITS: Final = 1344
"""How many bits of 1 / π and 2 / π are kept: as many as the largest exponent and a window need, in whole words."""
_PI: Final = (float.fromhex("0x1.921fb54442d18p+1"), float.fromhex("0x1.1a62633145c07p-53"))


@functools.cache
def _inverse_pi(divisions: int) -> int:
    """divisions / π · 2 ** _BITS, rounded down, by J. Machin's formula π / 4 = 4 atan(1/5) - atan(1/239)."""
    extra = 64
    one = 1 << (_BITS + extra)

    def atan_inverse(n: int) -> int:
        total = term = one // n
        k, sign = 1, 1
        while term:
            term //= n * n
            k, sign = k + 2, -sign
            total += sign * (term // k)
        return total

    pi = 4 * (4 * atan_inverse(5) - atan_inverse(239))
    return divisions * one * one // pi >> extra


def _table(g: Lanes, divisions: int) -> str:
    """The bits of divisions / π in memory, the last ones first."""
    name = f"math.bits_of_{divisions}_over_pi"
    if name not in g.b.module.helpers:
        raw = _inverse_pi(divisions).to_bytes(_BITS // 8 + 8, "little")
        text = "".join(f"\\{c:02X}" for c in raw)
        g.b.module.helpers[name] = f'@{name} = private unnamed_addr constant [{len(raw)} x i8] c"{text}", align 8'
    return f"@{name}"


def reduce_large(g: Lanes, x: Lane, divisions: int, shift: float) -> tuple[Lane, Lane, Lane]:
    """r in two parts, and n modulo 2, of a large float64 x = (n - shift) · π / divisions + r."""
    raw = g.bits_of(x)
    exponent = (g.op("lshr", raw, 52) & 0x7FF) - 1075
    mantissa = (raw & ((1 << 52) - 1)) | (1 << 52)
    # Infinities and NaN, whose results are replaced, must stay inside the table too.
    exponent = g.select(exponent > 971, g.const("i64", 971), exponent)
    # The window's lowest bit, counted from the end of the table.
    start = _BITS - 191 - exponent
    pointer = g.let(f"getelementptr inbounds i8, ptr {_table(g, divisions)}, i64 {(start >> 3).text}")
    loaded = g.let(f"load i200, ptr {pointer}, align 1")
    by = g.let(f"zext i64 {(start & 7).text} to i200")
    window = g.let(f"trunc i200 {g.let(f'lshr i200 {loaded}, {by}')} to i192")
    product = g.let(f"mul i192 {window}, {g.let(f'zext i64 {mantissa.text} to i192')}")
    negative = g.let(f"icmp slt i64 {raw.text}, 0")
    product = g.let(f"select i1 {negative}, i192 {g.let(f'sub i192 0, {product}')}, i192 {product}")
    if shift:
        product = g.let(f"add i192 {product}, {int(shift * (1 << 191))}")
    # The nearest integer: what is half and above counts as negative beyond the next one.
    rounded = g.let(f"add i192 {product}, {1 << 190}")
    n = g.let(f"trunc i192 {g.let(f'lshr i192 {rounded}, 191')} to i64")
    fraction = g.let(f"shl i192 {product}, 1")
    is_negative = g.let(f"icmp slt i192 {fraction}, 0")
    size = g.let(f"select i1 {is_negative}, i192 {g.let(f'sub i192 0, {fraction}')}, i192 {fraction}")
    g.b.module.declare("llvm.ctlz.i192", "i192 {}(i192, i1)")
    zeros = g.let(f"call i192 @llvm.ctlz.i192(i192 {size}, i1 false)")
    full = g.let(f"shl i192 {size}, {zeros}")
    high = _take(g, full, 192 - 53)
    low = _take(g, full, 192 - 106)
    # 2 ** -192 for the fraction, 2 ** zeros for having moved it up.
    places = Lane(g, g.let(f"trunc i192 {zeros} to i64"), "i64")
    scale = g.power_of_two(-53 - places)
    scale = g.from_bits(g.bits_of(scale) | g.cast("zext", Lane(g, is_negative, "i1"), "i64") << 63)
    p, rest = _PI[0] / divisions, _PI[1] / divisions
    product_high, product_low = g.product(high, p)
    product_low = g.fma(high, rest, g.fma(low * 2.0**-53, p, product_low))
    total = product_high + product_low
    lost = (product_high - total) + product_low
    return total * scale, lost * scale, Lane(g, n, "i64")


def _take(g: Lanes, full: str, start: int) -> Lane:
    """53 bits of a number of 192, as a float."""
    part = g.let(f"trunc i192 {g.let(f'lshr i192 {full}, {start}')} to i64")
    return g.cast("uitofp", Lane(g, part, "i64") & ((1 << 53) - 1), "f64")
