"""Operators on register values, with exactly the meaning `tscript.ir.semantics` gives them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tscript.codegen.llvm.builder import Builder
from tscript.codegen.llvm.narrow import round_to
from tscript.codegen.llvm.types import float_const, float_vector, int_const, int_vector, is_narrow, register_type
from tscript.ir.dtype import DataType


def binary(b: Builder, kind: str, dtype: DataType, x: str, y: str, divisor: int | None = None) -> str:
    """The arithmetic node class `kind` on two values of `dtype`.

    `divisor` is the value of `y` where it is constant. An integer divisor must not be zero: the caller checks.
    """
    if dtype.is_float:
        result = _FLOAT[kind](b, dtype, x, y)
        return round_to(b, dtype, result) if is_narrow(dtype) and kind not in ("Min", "Max") else result
    if dtype.is_bool:
        return _bool_binary(b, kind, register_type(dtype), x, y)
    t = register_type(dtype)
    if kind in _PLAIN:
        return b.let(f"{_PLAIN[kind]} {t} {x}, {y}")
    if kind in ("Min", "Max"):
        return b.call(t, _intrinsic(f"{'s' if dtype.is_int else 'u'}{kind.lower()}", t), [(t, x), (t, y)])
    return _division(b, kind, dtype, x, y, divisor)


_PLAIN: Final = {"Add": "add", "Sub": "sub", "Mul": "mul"}
_FLOAT_PLAIN: Final = {"Add": "fadd", "Sub": "fsub", "Mul": "fmul", "Div": "fdiv", "Mod": "frem"}


def _intrinsic(name: str, type_text: str) -> str:
    return f"llvm.{name}.{mangled(type_text)}"


def mangled(type_text: str) -> str:
    """A type as it stands in the name of an overloaded intrinsic."""
    if type_text.startswith("<"):
        lanes, scalar = type_text[1:-1].split(" x ")
        return f"v{lanes}{mangled(scalar)}"
    return {"float": "f32", "double": "f64", "ptr": "p0"}.get(type_text, type_text)


def float_call(b: Builder, name: str, type_text: str, *args: str) -> str:
    """Call the overloaded floating-point intrinsic `llvm.<name>`."""
    return b.call(type_text, _intrinsic(name, type_text), [(type_text, a) for a in args])


def shuffled(b: Builder, dtype: DataType, vectors: Sequence[tuple[DataType, str]], lanes: Sequence[int]) -> str:
    """A value of type `dtype` made of `lanes` of the `vectors`, as if these were one."""
    scalar, whole = register_type(dtype.element), register_type(dtype)
    t = register_type(vectors[0][0])
    if len(vectors) <= 2 and len(lanes) > 1 and all(v.lanes > 1 and register_type(v) == t for v, _ in vectors):
        (_, x), (_, y) = vectors if len(vectors) == 2 else (vectors[0], (vectors[0][0], "poison"))
        mask = ", ".join(f"i32 {n}" for n in lanes)
        return b.let(f"shufflevector {t} {x}, {t} {y}, {int_vector(32, len(lanes))} <{mask}>")
    sources = [(v, value, n) for v, value in vectors for n in range(v.lanes)]
    picked = [
        value if v.lanes == 1 else b.extract(register_type(v), value, n)
        for v, value, n in (sources[lane] for lane in lanes)
    ]  # fmt: skip
    if len(picked) == 1:
        return picked[0]
    result = "poison"
    for n, value in enumerate(picked):
        result = b.insert(whole, result, scalar, value, n)
    return result


# -- integers ---------------------------------------------------------------------------------------


def _bool_binary(b: Builder, kind: str, t: str, x: str, y: str) -> str:
    # Modulo 2 where "not zero" is 1: the sum of bools is their disjunction, the quotient by 1 the dividend.
    match kind:
        case "Add" | "Max":
            return b.let(f"or {t} {x}, {y}")
        case "Mul" | "Min":
            return b.let(f"and {t} {x}, {y}")
        case "Sub":
            return b.let(f"xor {t} {x}, {y}")
        case "Div" | "FloorDiv":
            return x
        case _:
            return b.let(f"and {t} {x}, {b.let(f'xor {t} {x}, {x}')}")


def _division(b: Builder, kind: str, dtype: DataType, x: str, y: str, divisor: int | None) -> str:
    t = register_type(dtype)
    remainder = kind in ("Mod", "FloorMod")
    if dtype.is_uint:
        return b.let(f"{'urem' if remainder else 'udiv'} {t} {x}, {y}")
    floor = kind in ("FloorDiv", "FloorMod")
    if floor and divisor is not None and divisor > 0 and divisor & (divisor - 1) == 0:
        if remainder:
            return b.let(f"and {t} {x}, {int_const(dtype.bits, divisor - 1, dtype.lanes)}")
        return b.let(f"ashr {t} {x}, {int_const(dtype.bits, divisor.bit_length() - 1, dtype.lanes)}")
    minus_one = int_const(dtype.bits, -1, dtype.lanes)
    i1 = int_vector(1, dtype.lanes)
    # The smallest number divided by -1 overflows, which the processor answers with a trap: divide by 1
    # there, and negate.
    is_minus_one = b.let(f"icmp eq {t} {y}, {minus_one}") if divisor is None else None
    one = int_const(dtype.bits, 1, dtype.lanes)
    if divisor == -1:
        return int_const(dtype.bits, 0, dtype.lanes) if remainder else b.let(f"sub {t} {_zero(dtype)}, {x}")
    safe = y if is_minus_one is None else b.let(f"select {i1} {is_minus_one}, {t} {one}, {t} {y}")
    if not floor:
        result = b.let(f"{'srem' if remainder else 'sdiv'} {t} {x}, {safe}")
    else:
        rest = b.let(f"srem {t} {x}, {safe}")
        has_rest = b.let(f"icmp ne {t} {rest}, {_zero(dtype)}")
        mixed = b.let(f"xor {t} {rest}, {safe}")
        differ = b.let(f"icmp slt {t} {mixed}, {_zero(dtype)}")
        adjust = b.let(f"and {i1} {has_rest}, {differ}")
        if remainder:
            fixed = b.let(f"add {t} {rest}, {safe}")
            result = b.let(f"select {i1} {adjust}, {t} {fixed}, {t} {rest}")
        else:
            quotient = b.let(f"sdiv {t} {x}, {safe}")
            result = b.let(f"add {t} {quotient}, {b.let(f'sext {i1} {adjust} to {t}')}")
    if is_minus_one is None or remainder:
        # Remainders by 1 and by -1 are both 0.
        return result
    negated = b.let(f"sub {t} {_zero(dtype)}, {x}")
    return b.let(f"select {i1} {is_minus_one}, {t} {negated}, {t} {result}")


def _zero(dtype: DataType) -> str:
    return int_const(dtype.bits, 0, dtype.lanes)


def bitwise(b: Builder, kind: str, dtype: DataType, x: str, y: str, count: int | None = None) -> str:
    """`bitwise_and`, `_or`, `_xor`, `shift_left`, `shift_right`; `count` is `y` where it is constant."""
    t = register_type(dtype)
    if kind in _BITS:
        return b.let(f"{_BITS[kind]} {t} {x}, {y}")
    last = int_const(dtype.bits, dtype.bits - 1, dtype.lanes)
    right = kind == "shift_right"
    op = "shl" if not right else "ashr" if dtype.is_int else "lshr"
    if count is not None and 0 <= count < dtype.bits:
        return b.let(f"{op} {t} {x}, {y}")
    # A negative count compares as a large one.
    clamped = b.call(t, _intrinsic("umin", t), [(t, y), (t, last)])
    shifted = b.let(f"{op} {t} {x}, {clamped}")
    if op == "ashr":
        return shifted
    inside = b.let(f"icmp ule {t} {y}, {last}")
    return b.let(f"select {int_vector(1, dtype.lanes)} {inside}, {t} {shifted}, {t} {_zero(dtype)}")


_BITS: Final = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}


# -- floats -----------------------------------------------------------------------------------------


def _plain_float(op: str) -> Callable[[Builder, DataType, str, str], str]:
    def emit(b: Builder, dtype: DataType, x: str, y: str) -> str:
        return b.let(f"{op} {b.fast_math}{register_type(dtype)} {x}, {y}")

    return emit


def fused(b: Builder, dtype: DataType, x: str, y: str, z: str, negate: str = "") -> str:
    """`x * y + z` in one rounding where the machine has that; `negate` tells which of `x` and `z` to negate first."""
    t = register_type(dtype)
    if negate == "x":
        x = b.let(f"fneg {t} {x}")
    elif negate == "z":
        z = b.let(f"fneg {t} {z}")
    name = _intrinsic("fmuladd", t)
    b.module.declare(name, f"{t} {{}}({t}, {t}, {t})")
    return b.let(f'call {b.fast_math}{t} @"{name}"({t} {x}, {t} {y}, {t} {z})')


def _float_min(b: Builder, dtype: DataType, x: str, y: str) -> str:
    return float_call(b, "minimum", register_type(dtype), x, y)


def _float_max(b: Builder, dtype: DataType, x: str, y: str) -> str:
    return float_call(b, "maximum", register_type(dtype), x, y)


def _float_floordiv(b: Builder, dtype: DataType, x: str, y: str) -> str:
    # In double also for float32: a quotient just below an integer would round up to it.
    t = register_type(dtype)
    wide = float_vector(dtype.lanes, 64)
    if dtype.bits < 64:
        x, y = b.let(f"fpext {t} {x} to {wide}"), b.let(f"fpext {t} {y} to {wide}")
    quotient = float_call(b, "floor", wide, b.let(f"fdiv {wide} {x}, {y}"))
    # Adding 0.0 turns -0.0 into 0.0, as the floor of a quotient is an integer, which has one zero.
    quotient = b.let(f"fadd {wide} {quotient}, {float_const(0.0, 64, dtype.lanes)}")
    return b.let(f"fptrunc {wide} {quotient} to {t}") if dtype.bits < 64 else quotient


def _float_floormod(b: Builder, dtype: DataType, x: str, y: str) -> str:
    t, i1 = register_type(dtype), int_vector(1, dtype.lanes)
    bits = 64 if dtype.bits == 64 else 32
    zero = float_const(0.0, bits, dtype.lanes)
    rest = b.let(f"frem {t} {x}, {y}")
    rest_positive = b.let(f"fcmp ogt {t} {rest}, {zero}")
    divisor_positive = b.let(f"fcmp ogt {t} {y}, {zero}")
    differ = b.let(f"xor {i1} {rest_positive}, {divisor_positive}")
    fixed = b.let(f"fadd {t} {rest}, {y}")
    result = b.let(f"select {i1} {differ}, {t} {fixed}, {t} {rest}")
    signed_zero = float_call(b, "copysign", t, zero, y)
    is_zero = b.let(f"fcmp oeq {t} {rest}, {zero}")
    return b.let(f"select {i1} {is_zero}, {t} {signed_zero}, {t} {result}")


_FLOAT: Final[dict[str, Callable[[Builder, DataType, str, str], str]]] = {
    **{kind: _plain_float(op) for kind, op in _FLOAT_PLAIN.items()},
    "FloorDiv": _float_floordiv,
    "FloorMod": _float_floormod,
    "Min": _float_min,
    "Max": _float_max,
}


# -- comparisons ------------------------------------------------------------------------------------

_FCMP: Final = {"EQ": "oeq", "NE": "une", "LT": "olt", "LE": "ole", "GT": "ogt", "GE": "oge"}
_ICMP: Final = {"LT": "lt", "LE": "le", "GT": "gt", "GE": "ge"}


def compare(b: Builder, kind: str, dtype: DataType, x: str, y: str) -> str:
    """The comparison node class `kind` on two values of `dtype`."""
    t = register_type(dtype)
    if dtype.is_float:
        return b.let(f"fcmp {_FCMP[kind]} {t} {x}, {y}")
    if kind in ("EQ", "NE"):
        return b.let(f"icmp {kind.lower()} {t} {x}, {y}")
    return b.let(f"icmp {'s' if dtype.is_int else 'u'}{_ICMP[kind]} {t} {x}, {y}")


# -- conversion -------------------------------------------------------------------------------------


def convert(b: Builder, source: DataType, target: DataType, value: str) -> str:
    """A value of type `source` as one of type `target` (same lanes)."""
    if source is target:
        return value
    s, t = register_type(source), register_type(target)
    if target.is_bool:
        if source.is_float:
            zero = float_const(0.0, 64 if source.bits == 64 else 32, source.lanes)
            return b.let(f"fcmp une {s} {value}, {zero}")
        return b.let(f"icmp ne {s} {value}, {int_const(source.bits, 0, source.lanes)}")
    if source.is_float and target.is_float:
        if s != t:
            value = b.let(f"{'fpext' if target.bits == 64 else 'fptrunc'} {s} {value} to {t}")
        return round_to(b, target, value) if is_narrow(target) else value
    if source.is_float:
        name = f"llvm.fpto{'s' if target.is_int else 'u'}i.sat.{mangled(t)}.{mangled(s)}"
        return b.call(t, name, [(s, value)])
    if target.is_float:
        value = b.let(f"{'sitofp' if source.is_int else 'uitofp'} {s} {value} to {t}")
        return round_to(b, target, value) if is_narrow(target) else value
    if source.bits == target.bits and not source.is_bool:
        return value
    if source.bits > target.bits:
        return b.let(f"trunc {s} {value} to {t}")
    return b.let(f"{'sext' if source.is_int else 'zext'} {s} {value} to {t}")
