"""Faster forms, with the same results, of operations on long vectors of float32 and float64."""

from __future__ import annotations

from typing import Final

from tscript.codegen.llvm.builder import Builder
from tscript.codegen.llvm.types import float_const, int_const, int_vector, register_type
from tscript.ir.dtype import DataType

_RANGE: Final = {32: ("ps", 16), 64: ("pd", 8)}
"""The ending of the name, and the lanes, of instructions on vectors of 64 bytes."""
_LIMITS: Final = {32: (90, 30), 64: (800, 100)}
"""Where exponents of dividend and divisor are at most these in magnitude, no step of a division leaves the range."""


def extreme(b: Builder, kind: str, dtype: DataType, x: str, y: str) -> str | None:
    """The larger ("Max") or smaller ("Min") of two vectors, in which NaN wins; None for LLVM's own form."""
    if "avx512dq" not in b.features or not dtype.is_float or dtype.bits not in _RANGE:
        return None
    ending, width = _RANGE[dtype.bits]
    if dtype.lanes % width or dtype.lanes & (dtype.lanes - 1):
        return None
    # One instruction that tells zeros of different signs apart, but lets numbers win over NaN.
    part, mask = register_type(dtype.with_lanes(width)), f"i{width}"
    name = f"llvm.x86.avx512.mask.range.{ending}.512"
    b.module.declare(name, f"{part} {{}}({part}, {part}, i32, {part}, {mask}, i32)")
    how = 5 if kind == "Max" else 4
    found = [
        b.let(f'call {part} @"{name}"({part} {p}, {part} {q}, i32 {how}, {part} zeroinitializer, {mask} -1, i32 4)')
        for p, q in zip(_parts(b, dtype, x, width), _parts(b, dtype, y, width), strict=True)
    ]
    whole = register_type(dtype)
    unordered = b.let(f"fcmp uno {whole} {x}, {y}")
    nan = float_const(float("nan"), dtype.bits, dtype.lanes)
    bits = int_vector(1, dtype.lanes)
    return b.let(f"select {bits} {unordered}, {whole} {nan}, {whole} {_joined(b, dtype, found, width)}")


def quotient(b: Builder, dtype: DataType, x: str, divisor: str) -> str | None:
    """A vector divided by one number: that of a division, bit for bit. None where dividing is as good.

    The reciprocal is computed once where LLVM sees the divisor stay the same. Two corrections of the product with it by
    the exact rest give the quotient as it is rounded (Markstein, "Computation of elementary functions on the IBM RISC
    System/6000", 1990), if nothing on the way leaves the range of normal numbers; else the vector is divided.
    """
    if (
        not dtype.is_float
        or "fma" not in b.features
        or b.fast_math
        or dtype.bits not in _LIMITS
        or dtype.lanes * dtype.bytes < 32
    ):
        return None
    _declare(b, dtype)
    whole, one = register_type(dtype), register_type(dtype.element)
    name = f"tscript.quotient.v{dtype.lanes}f{dtype.bits}{b.helper_suffix}"
    return b.helper(whole, name, _quotient_text(name, dtype, b.attributes), [(whole, x), (one, divisor)])


def _quotient_text(name: str, dtype: DataType, attributes: str) -> str:
    whole, one, lanes, bits = register_type(dtype), register_type(dtype.element), dtype.lanes, dtype.bits
    mask, ints = int_vector(1, lanes), int_vector(bits, lanes)
    kind = f"v{lanes}f{bits}"
    dividends, divisors = _LIMITS[bits]

    def power(exponent: int, count: int = lanes) -> str:
        return float_const(2.0**exponent, bits, count)

    lines = [
        f"define internal {whole} @{name}({whole} %x, {one} %d) nounwind alwaysinline{attributes} {{",
        f"  %size = call {one} @llvm.fabs.f{bits}({one} %d)",
        f"  %big = fcmp oge {one} %size, {power(-divisors, 1)}",
        f"  %small = fcmp ole {one} %size, {power(divisors, 1)}",
        "  %fit = and i1 %big, %small",
        f"  %r = fdiv {one} {power(0, 1)}, %d",
        f"  %d0 = insertelement {whole} poison, {one} %d, i32 0",
        f"  %ds = shufflevector {whole} %d0, {whole} poison, {int_vector(32, lanes)} zeroinitializer",
        f"  %r0 = insertelement {whole} poison, {one} %r, i32 0",
        f"  %rs = shufflevector {whole} %r0, {whole} poison, {int_vector(32, lanes)} zeroinitializer",
        # Numbers out of the range, but for a zero without sign, which stays what it is.
        f"  %plain = call {whole} @llvm.fabs.{kind}({whole} %x)",
        f"  %lower = fcmp ult {whole} %plain, {power(-dividends)}",
        f"  %upper = fcmp ugt {whole} %plain, {power(dividends)}",
        f"  %bits = bitcast {whole} %x to {ints}",
        f"  %filled = icmp ne {ints} %bits, {int_const(bits, 0, lanes)}",
        f"  %tiny = and {mask} %lower, %filled",
        f"  %out = or {mask} %tiny, %upper",
        f"  %any = call i1 @llvm.vector.reduce.or.v{lanes}i1({mask} %out)",
        "  %in = xor i1 %any, true",
        "  %go = and i1 %in, %fit",
        "  br i1 %go, label %quick, label %slow, !prof !0",
        "quick:",
        f"  %q0 = fmul {whole} %x, %rs",
        f"  %n0 = fneg {whole} %q0",
        f"  %e0 = call {whole} @llvm.fma.{kind}({whole} %n0, {whole} %ds, {whole} %x)",
        f"  %q1 = call {whole} @llvm.fma.{kind}({whole} %e0, {whole} %rs, {whole} %q0)",
        f"  %n1 = fneg {whole} %q1",
        f"  %e1 = call {whole} @llvm.fma.{kind}({whole} %n1, {whole} %ds, {whole} %x)",
        f"  %q2 = call {whole} @llvm.fma.{kind}({whole} %e1, {whole} %rs, {whole} %q1)",
        f"  ret {whole} %q2",
        "slow:",
        f"  %q = fdiv {whole} %x, %ds",
        f"  ret {whole} %q",
        "}",
    ]
    return "\n".join(lines)


def _declare(b: Builder, dtype: DataType) -> None:
    """Declare what the text of a quotient calls."""
    whole, one = register_type(dtype), register_type(dtype.element)
    kind, mask = f"v{dtype.lanes}f{dtype.bits}", int_vector(1, dtype.lanes)
    b.module.declare(f"llvm.fabs.f{dtype.bits}", f"{one} {{}}({one})")
    b.module.declare(f"llvm.fabs.{kind}", f"{whole} {{}}({whole})")
    b.module.declare(f"llvm.fma.{kind}", f"{whole} {{}}({whole}, {whole}, {whole})")
    b.module.declare(f"llvm.vector.reduce.or.v{dtype.lanes}i1", f"i1 {{}}({mask})")


def _parts(b: Builder, dtype: DataType, value: str, width: int) -> list[str]:
    """The runs of `width` lanes of a vector."""
    if dtype.lanes == width:
        return [value]
    whole = register_type(dtype)
    runs: list[str] = []
    for start in range(0, dtype.lanes, width):
        lanes = ", ".join(f"i32 {start + i}" for i in range(width))
        runs.append(b.let(f"shufflevector {whole} {value}, {whole} poison, {int_vector(32, width)} <{lanes}>"))
    return runs


def _joined(b: Builder, dtype: DataType, parts: list[str], width: int) -> str:
    """Vectors of `width` lanes, a power of two of them, next to each other."""
    while len(parts) > 1:
        kind, wide = register_type(dtype.with_lanes(width)), 2 * width
        lanes = ", ".join(f"i32 {i}" for i in range(wide))
        parts = [
            b.let(f"shufflevector {kind} {p}, {kind} {q}, {int_vector(32, wide)} <{lanes}>")
            for p, q in zip(parts[::2], parts[1::2], strict=True)
        ]
        width = wide
    return parts[0]


__all__ = ["extreme", "quotient"]
