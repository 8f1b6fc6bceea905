"""Conversions between float32 and the floats below it, exact in integers, as helper functions in the module.

Rounding is to nearest, ties to even. A NaN stays a NaN and keeps its sign; numbers beyond the range become
infinite, or NaN in float8_e4m3fn, which has no infinity. `s` below is by how many bits mantissas differ and
`bias` the difference of the exponent biases.
"""

from __future__ import annotations

from tscript.codegen.llvm.builder import Builder
from tscript.codegen.llvm.types import NARROW_FLOATS, float_const, float_vector, int_const, int_vector
from tscript.ir.dtype import DataType


def to_bits(b: Builder, dtype: DataType, value: str) -> str:
    """The bits (i8 or i16 lanes) of float32 `value` rounded to `dtype`."""
    known = b.bits_of.get(value)
    if known is not None and known[0] is dtype:
        return known[1]
    element, lanes = dtype.element, dtype.lanes
    name = f"round.{element!s}.x{lanes}{b.helper_suffix}"
    result = int_vector(element.bits, lanes)
    if name not in b.module.helpers:
        body = _to_bits_by_hardware if _has_hardware(b, element) else _to_bits_body
        b.module.helpers[name] = _definition(result, name, float_vector(lanes), *body(element, lanes), b.attributes)
    return b.let(f"call {result} @{name}({float_vector(lanes)} {value})")


def from_bits(b: Builder, dtype: DataType, bits: str) -> str:
    """The float32 that the bits of a `dtype` stand for."""
    element, lanes = dtype.element, dtype.lanes
    name = f"widen.{element!s}.x{lanes}{b.helper_suffix}"
    given, result = int_vector(element.bits, lanes), float_vector(lanes)
    if name not in b.module.helpers:
        body = _from_bits_by_hardware if _has_hardware(b, element) else _from_bits_body
        b.module.helpers[name] = _definition(result, name, given, *body(element, lanes), b.attributes)
    value = b.let(f"call {result} @{name}({given} {bits})")
    b.bits_of[value] = (dtype, bits)
    return value


def round_to(b: Builder, dtype: DataType, value: str) -> str:
    """float32 `value` rounded to `dtype`, still a float32."""
    return from_bits(b, dtype, to_bits(b, dtype, value))


def next_after(b: Builder, dtype: DataType, start: str, goal: str) -> str:
    """The neighbour of `start` toward `goal`: the bits of neighbours differ by 1, the sign aside."""
    lanes, width = dtype.lanes, dtype.element.bits
    t, bits, i1 = float_vector(lanes), int_vector(width, lanes), int_vector(1, lanes)
    zero = float_const(0.0, 32, lanes)
    start_bits, goal_bits = to_bits(b, dtype, start), to_bits(b, dtype, goal)

    def choose(condition: str, a: str, otherwise: str) -> str:
        return b.let(f"select {i1} {condition}, {bits} {a}, {bits} {otherwise}")

    rises = b.let(f"fcmp olt {t} {start}, {goal}")
    positive = b.let(f"fcmp ogt {t} {start}, {zero}")
    outward = b.let(f"icmp eq {i1} {rises}, {positive}")
    step = choose(outward, int_const(width, 1, lanes), int_const(width, -1, lanes))
    result = b.let(f"add {bits} {start_bits}, {step}")
    sign = b.let(f"and {bits} {goal_bits}, {int_const(width, 1 << (width - 1), lanes)}")
    least = b.let(f"or {bits} {sign}, {int_const(width, 1, lanes)}")
    result = choose(b.let(f"fcmp oeq {t} {start}, {zero}"), least, result)
    result = choose(b.let(f"fcmp oeq {t} {start}, {goal}"), goal_bits, result)
    nan = to_bits(b, dtype, float_const(float("nan"), 32, lanes))
    return from_bits(b, dtype, choose(b.let(f"fcmp uno {t} {start}, {goal}"), nan, result))


class _Lines:
    """Instructions of a helper function on `<n x i32>`."""

    def __init__(self, lanes: int) -> None:
        self.lines: list[str] = []
        self.lanes = lanes
        self.i32 = int_vector(32, lanes)
        self.f32 = float_vector(lanes)
        self.i1 = int_vector(1, lanes)

    def let(self, text: str) -> str:
        name = f"%t{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def c(self, value: int) -> str:
        return int_const(32, value, self.lanes)

    def op(self, name: str, a: str, b: str | int) -> str:
        return self.let(f"{name} {self.i32} {a}, {self.c(b) if isinstance(b, int) else b}")

    def select(self, cond: str, a: str, b: str) -> str:
        return self.let(f"select {self.i1} {cond}, {self.i32} {a}, {self.i32} {b}")

    def cast(self, op: str, value: str, source: str, target: str) -> str:
        return self.let(f"{op} {source} {value} to {target}")


def _layout(element: DataType) -> tuple[int, int, int, int]:
    exponent, mantissa = NARROW_FLOATS[element]
    own_bias = (1 << (exponent - 1)) - 1
    return exponent, mantissa, 23 - mantissa, 127 - own_bias


def _has_hardware(b: Builder, element: DataType) -> bool:
    return element == "float16" and "f16c" in b.features


def _to_bits_by_hardware(element: DataType, lanes: int) -> tuple[list[str], str]:
    f = _Lines(lanes)
    half = "half" if lanes == 1 else f"<{lanes} x half>"
    return f.lines, f.cast("bitcast", f.cast("fptrunc", "%x", f.f32, half), half, int_vector(16, lanes))


def _from_bits_by_hardware(element: DataType, lanes: int) -> tuple[list[str], str]:
    f = _Lines(lanes)
    half = "half" if lanes == 1 else f"<{lanes} x half>"
    return f.lines, f.cast("fpext", f.cast("bitcast", "%x", int_vector(16, lanes), half), half, f.f32)


def _to_bfloat16(f: _Lines) -> str:
    # The upper half, and one more where the lower half is above ½, or just that and the upper one odd.
    bits = f.cast("bitcast", "%x", f.f32, f.i32)
    upper = f.op("lshr", bits, 16)
    rounded = f.op("lshr", f.op("add", f.op("add", bits, 0x7FFF), f.op("and", upper, 1)), 16)
    is_nan = f.let(f"fcmp uno {f.f32} %x, %x")
    return f.cast("trunc", f.select(is_nan, f.op("or", upper, 0x40), rounded), f.i32, int_vector(16, f.lanes))


def _to_bits_body(element: DataType, lanes: int) -> tuple[list[str], str]:
    exponent, mantissa, s, bias = _layout(element)
    f = _Lines(lanes)
    if not bias:
        return f.lines, _to_bfloat16(f)
    has_inf = element != "float8_e4m3fn"
    inf = ((1 << exponent) - 1) << mantissa
    bits = f.cast("bitcast", "%x", f.f32, f.i32)
    magnitude = f.op("and", bits, 0x7FFFFFFF)
    sign = f.op("and", f.op("lshr", bits, 32 - element.bits), 1 << (element.bits - 1))
    odd = f.op("and", f.op("lshr", magnitude, s), 1)
    rounded = f.op("add", f.op("add", magnitude, (1 << (s - 1)) - 1), odd)
    normal = f.op("lshr", f.op("sub", rounded, bias << 23), s)
    top = inf if has_inf else 0x7F
    over = f.op("icmp ugt", normal, top)
    result = f.select(over, f.c(top), normal)
    # Adding a number whose last bit is worth the smallest subnormal rounds to a multiple of that.
    anchor = 2.0 ** (24 - (127 - bias) - mantissa)
    absolute = f.cast("bitcast", magnitude, f.i32, f.f32)
    anchored = f.let(f"fadd {f.f32} {absolute}, {float_const(anchor, 32, lanes)}")
    steps = f.op("sub", f.cast("bitcast", anchored, f.f32, f.i32), _float_bits(anchor))
    small = f.op("icmp ult", magnitude, (bias + 1) << 23)
    result = f.select(small, steps, result)
    payload = f.op("and", f.op("lshr", magnitude, s), (1 << mantissa) - 1)
    nan = f.op("or", payload, inf | (1 << (mantissa - 1))) if has_inf else f.c(0x7F)
    is_nan = f.op("icmp ugt", magnitude, 0x7F800000)
    result = f.op("or", f.select(is_nan, nan, result), sign)
    out_type = int_vector(element.bits, lanes)
    return f.lines, f.cast("trunc", result, f.i32, out_type)


def _from_bits_body(element: DataType, lanes: int) -> tuple[list[str], str]:
    exponent, mantissa, s, bias = _layout(element)
    f = _Lines(lanes)
    in_type = int_vector(element.bits, lanes)
    wide = f.cast("zext", "%x", in_type, f.i32)
    if not bias:
        return f.lines, f.cast("bitcast", f.op("shl", wide, s), f.i32, f.f32)
    sign = f.op("shl", f.op("and", wide, 1 << (element.bits - 1)), 32 - element.bits)
    magnitude = f.op("and", wide, (1 << (element.bits - 1)) - 1)
    shifted = f.op("shl", magnitude, s)
    normal = f.op("add", shifted, bias << 23)
    unit = 2.0 ** (1 - (127 - bias) - mantissa)
    as_float = f.cast("uitofp", magnitude, f.i32, f.f32)
    scaled = f.let(f"fmul {f.f32} {as_float}, {float_const(unit, 32, lanes)}")
    small = f.op("icmp ult", magnitude, 1 << mantissa)
    result = f.select(small, f.cast("bitcast", scaled, f.f32, f.i32), normal)
    inf = ((1 << exponent) - 1) << mantissa
    if element == "float8_e4m3fn":
        special = f.op("icmp eq", magnitude, 0x7F)
        result = f.select(special, f.c(0x7FC00000), result)
    else:
        special = f.op("icmp uge", magnitude, inf)
        result = f.select(special, f.op("or", shifted, 0x7F800000), result)
    return f.lines, f.cast("bitcast", f.op("or", result, sign), f.i32, f.f32)


def _definition(result: str, name: str, argument: str, lines: list[str], value: str, attributes: str) -> str:
    body = "\n".join(lines)
    return (
        f"define internal {result} @{name}({argument} %x) alwaysinline nounwind{attributes} {{\n{body}\n"
        f"  ret {result} {value}\n}}"
    )


def _float_bits(power_of_two: float) -> int:
    exponent = 0
    while 2.0**exponent < power_of_two:
        exponent += 1
    while 2.0**exponent > power_of_two:
        exponent -= 1
    return (exponent + 127) << 23
