"""What each operator on scalars becomes as Python source. Operands and results are `Val`s.

Integers carry bounds, so that wrapping is left out where the result provably fits. Float results are
left `pending` until they are used: a store into memory of the type rounds by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tscript.interp import numeric
from tscript.interp.emit import FIXED, Gen, Val, number, paren
from tscript.interp.memory import codec
from tscript.ir import expr as ex
from tscript.ir import semantics
from tscript.ir.dtype import DataType, int_range

ScalarOp = Callable[[Gen, DataType, list[Val]], Val]


def float_code(g: Gen, value: float) -> str:
    """Source of a float constant."""
    if value != value:
        return g.constant("_nan", math.nan)
    if math.isinf(value):
        return g.constant("_inf", math.inf) if value > 0 else g.constant("_neg_inf", -math.inf)
    return repr(value) if math.copysign(1, value) > 0 else f"({value!r})"


def finish(g: Gen, v: Val) -> Val:
    """`v` with its pending rounding done."""
    dtype = v.pending
    if dtype is None:
        return v
    if str(dtype) == "float32" and not g.inline:
        g.line(f"_q[0] = {v.code}")
        made = g.name("t")
        g.line(f"{made} = _q[0]")
        return Val(made, True)
    done = Val(f"{rounding(g, dtype)}({v.code})", False)
    return done if g.inline or not g.strict else g.hold(done)


def rounding(g: Gen, dtype: DataType) -> str:
    """The name of the function that rounds to `dtype`."""
    name = {"float32": "_f32", "float64": "float"}.get(str(dtype), f"_round_{dtype!s}")
    if name != "float" and name not in g.namespace:
        g.namespace[name] = numeric.float_rounder(dtype)
    return name


def pending(code: str, dtype: DataType) -> Val:
    """A float result still to be rounded (doubles need none)."""
    return Val(code, pending=None if dtype.bits == 64 else dtype)


def flag(code: str) -> Val:
    """A bool."""
    return Val(code, False, 0, 1)


def integer(g: Gen, dtype: DataType, code: str, lo: int, hi: int, level: int) -> Val:
    """An integer computed by `code`, wrapped unless `lo` and `hi` (of the unwrapped value) fit in `dtype`."""
    if dtype.is_bool:
        return flag(f"({code}) != 0")
    low, high = int_range(dtype)
    if not (low <= lo and hi <= high):
        code, lo, hi = wrapped(dtype, f"({code})"), low, high
    return g.opaque(code, lo, hi, level)


def wrapped(dtype: DataType, code: str) -> str:
    """`code` modulo 2**bits in the range of `dtype`."""
    mask = hex((1 << dtype.bits) - 1)
    if dtype.is_uint:
        return f"{code} & {mask}"
    half = hex(1 << (dtype.bits - 1))
    return f"({code} + {half} & {mask}) - {half}"


def fit(g: Gen, dtype: DataType, terms: dict[Val, int], const: int) -> Val:
    """A sum as a value of `dtype`. Wrapping only the sum is right: it commutes with + - *."""
    lo = hi = const
    for atom, factor in terms.items():
        a, b = atom.lo * factor, atom.hi * factor
        lo, hi = lo + min(a, b), hi + max(a, b)
    v = g.render(terms, const, lo, hi)
    low, high = int_range(dtype)
    if dtype.is_bool or lo < low or hi > high:
        return integer(g, dtype, v.code, lo, hi, v.level)
    return v


def terms_of(v: Val) -> tuple[dict[Val, int], int]:
    """An integer value as a sum."""
    if v.terms is None:
        return {Val(v.code, v.simple, v.lo, v.hi, v.level): 1}, 0
    return v.terms, v.const


def combine(a: Val, b: Val, sign: int) -> tuple[dict[Val, int], int]:
    """The terms of `a + sign * b`."""
    terms, const = terms_of(a)
    merged = dict(terms)
    more, other = terms_of(b)
    for atom, factor in more.items():
        total = merged.get(atom, 0) + sign * factor
        if total:
            merged[atom] = total
        else:
            del merged[atom]
    return merged, const + sign * other


def scale(a: Val, by: int) -> tuple[dict[Val, int], int]:
    """The terms of `a * by`."""
    terms, const = terms_of(a)
    return ({atom: f * by for atom, f in terms.items()} if by else {}), const * by


def is_literal(v: Val) -> bool:
    """Whether an integer is a known constant."""
    return v.terms is not None and not v.terms


# -- arithmetic -----------------------------------------------------------------------------------


def add(g: Gen, dtype: DataType, args: list[Val]) -> Val:
    """Sum."""
    a, b = args
    if dtype.is_float:
        return pending(f"{paren(a)} + {paren(b)}", dtype)
    return fit(g, dtype, *combine(a, b, 1))


def sub(g: Gen, dtype: DataType, args: list[Val]) -> Val:
    """Difference."""
    a, b = args
    if dtype.is_float:
        return pending(f"{paren(a)} - {paren(b)}", dtype)
    return fit(g, dtype, *combine(a, b, -1))


def mul(g: Gen, dtype: DataType, args: list[Val]) -> Val:
    """Product."""
    a, b = args
    if dtype.is_float:
        return pending(f"{paren(a)} * {paren(b)}", dtype)
    if is_literal(b):
        return fit(g, dtype, *scale(a, b.const))
    if is_literal(a):
        return fit(g, dtype, *scale(b, a.const))
    ends = [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    return integer(g, dtype, f"{paren(a)} * {paren(b)}", min(ends), max(ends), max(a.level, b.level))


def _division_level(a: Val, b: Val) -> int:
    # A division that may fail stays where it is written.
    return FIXED if b.lo <= 0 <= b.hi else max(a.level, b.level)


def _quotients(a: Val, b: Val, divide: Callable[[int, int], int]) -> list[int]:
    divisors = {d for d in (b.lo, b.hi, -1, 1) if d and b.lo <= d <= b.hi} or {1}
    return [divide(x, d) for x in (a.lo, a.hi, *((0,) if a.lo <= 0 <= a.hi else ())) for d in divisors]


def floordiv(g: Gen, dtype: DataType, args: list[Val]) -> Val:
    """Quotient rounded down."""
    a, b = args
    if dtype.is_float:
        return pending(f"_float_floordiv({a.code}, {b.code})", dtype)
    ends = _quotients(a, b, lambda x, d: x // d)
    return integer(g, dtype, f"{paren(a)} // {paren(b)}", min(ends), max(ends), _division_level(a, b))


def floormod(g: Gen, dtype: DataType, args: list[Val]) -> Val:
    """Remainder of `floordiv`."""
    a, b = args
    if dtype.is_float:
        return pending(f"_float_floormod({a.code}, {b.code})", dtype)
    if b.lo > 0 and a.lo >= 0 and a.hi < b.lo:
        return a
    low, high = min(b.lo + 1, 0), max(b.hi - 1, 0)
    return integer(g, dtype, f"{paren(a)} % {paren(b)}", low, high, _division_level(a, b))


def truncdiv(g: Gen, dtype: DataType, args: list[Val]) -> Val:
    """Quotient of floats; of integers, rounded toward zero."""
    a, b = args
    if dtype.is_float:
        by = g.hold(b)
        return pending(f"{paren(a)} / {by.code} if {by.code} else _float_div({a.code}, {by.code})", dtype)
    if a.lo >= 0 and b.lo > 0:
        return floordiv(g, dtype, args)
    ends = _quotients(a, b, semantics.trunc_div)
    return integer(g, dtype, f"_trunc_div({a.code}, {b.code})", min(ends), max(ends), _division_level(a, b))


def truncmod(g: Gen, dtype: DataType, args: list[Val]) -> Val:
    """Remainder of division toward zero."""
    a, b = args
    if dtype.is_float:
        return pending(f"_float_mod({a.code}, {b.code})", dtype)
    if a.lo >= 0 and b.lo > 0:
        return floormod(g, dtype, args)
    return integer(g, dtype, f"_mod_trunc({a.code}, {b.code})", min(a.lo, 0), max(a.hi, 0), _division_level(a, b))


def _extremum(symbol: str, pick: Callable[[int, int], int], helper: str) -> ScalarOp:
    def op(g: Gen, dtype: DataType, args: list[Val]) -> Val:
        if g.inline:
            fn = helper if dtype.is_float else pick.__name__
            code = f"{fn}({args[0].code}, {args[1].code})"
            return (
                Val(code)
                if dtype.is_float
                else Val(code, False, pick(args[0].lo, args[1].lo), pick(args[0].hi, args[1].hi))
            )
        a, b = g.hold(args[0]), g.hold(args[1])
        if dtype.is_float:
            # The plain comparisons settle all but equal values and NaN.
            return Val(
                f"{a.code} if {a.code} {symbol} {b.code} else {b.code} if {b.code} {symbol} {a.code} "
                f"else {helper}({a.code}, {b.code})"
            )
        level = max(a.level, b.level)
        code = f"{a.code} if {a.code} {symbol} {b.code} else {b.code}"
        return g.opaque(code, pick(a.lo, b.lo), pick(a.hi, b.hi), level)

    return op


def _compare(symbol: str) -> ScalarOp:
    return lambda g, dtype, args: flag(f"{paren(args[0])} {symbol} {paren(args[1])}")


BINARY: dict[type[ex.BinaryExpr], ScalarOp] = {
    ex.Add: add,
    ex.Sub: sub,
    ex.Mul: mul,
    ex.Div: truncdiv,
    ex.Mod: truncmod,
    ex.FloorDiv: floordiv,
    ex.FloorMod: floormod,
    ex.Min: _extremum("<", min, "_float_min"),
    ex.Max: _extremum(">", max, "_float_max"),
    ex.EQ: _compare("=="),
    ex.NE: _compare("!="),
    ex.LT: _compare("<"),
    ex.LE: _compare("<="),
    ex.GT: _compare(">"),
    ex.GE: _compare(">="),
    # `&` and `|` evaluate both sides, where `and` and `or` would not.
    ex.And: lambda g, dtype, args: flag(f"{paren(args[0])} & {paren(args[1])}"),
    ex.Or: lambda g, dtype, args: flag(f"{paren(args[0])} | {paren(args[1])}"),
}
"""Binary node classes. The type passed is that of the operands."""


# -- conversion -----------------------------------------------------------------------------------


def convert(g: Gen, source: DataType, target: DataType, v: Val) -> Val:
    """`v` of type `source` as `target`."""
    if source is target:
        return v
    if target.is_bool:
        return flag(f"{paren(v)} != 0")
    if target.is_float:
        return _to_float(g, source, target, v)
    low, high = int_range(target)
    if source.is_float:
        return Val(f"_to_integer({v.code}, {low}, {high})", False, low, high)
    if source.is_bool:
        return Val(f"int({v.code})", False, 0, 1)
    if low <= v.lo and v.hi <= high:
        return v
    return integer(g, target, v.code, v.lo, v.hi, v.level)


def _to_float(g: Gen, source: DataType, target: DataType, v: Val) -> Val:
    if source.is_float:
        wider = target.bits > source.bits and target.bits >= 32
        return v if wider else pending(v.code, target)
    if target.bits == 64 or max(abs(v.lo), abs(v.hi)) <= 1 << 24:
        return pending(f"float({v.code})", target) if target.bits < 32 else Val(f"float({v.code})")
    return Val(f"_round_int({g.constant('_type', target)}, {v.code})")


# -- operators that are calls ---------------------------------------------------------------------


def _math(name: str) -> ScalarOp:
    def op(g: Gen, dtype: DataType, args: list[Val]) -> Val:
        if not dtype.is_float:
            if name in numeric.WHOLE_NUMBERS:
                return args[0]
            if name == "fabs":
                low, high = args[0].lo, args[0].hi
                return integer(g, dtype, f"abs({args[0].code})", 0, max(abs(low), abs(high)), args[0].level)
        g.namespace.setdefault(f"_{name}", numeric.MATH[name])
        return pending(f"_{name}({', '.join(a.code for a in args)})", dtype)

    return op


def _bits(symbol: str) -> ScalarOp:
    def op(g: Gen, dtype: DataType, args: list[Val]) -> Val:
        a, b = args
        code = f"{paren(a)} {symbol} {paren(b)}"
        if dtype.is_bool:
            return flag(code)
        low, high = int_range(dtype)
        if symbol == "&" and (a.lo >= 0 or b.lo >= 0):
            low, high = 0, min(x.hi for x in (a, b) if x.lo >= 0)
        elif a.lo >= 0 and b.lo >= 0:
            low, high = 0, (1 << max(a.hi.bit_length(), b.hi.bit_length())) - 1
        return g.opaque(code, low, high, max(a.level, b.level))

    return op


def _invert(g: Gen, dtype: DataType, args: list[Val]) -> Val:
    a = args[0]
    if dtype.is_bool:
        return flag(f"not {paren(a)}")
    if dtype.is_uint:
        top = (1 << dtype.bits) - 1
        return g.opaque(f"{paren(a)} ^ {hex(top)}", 0, top, a.level)
    return g.opaque(f"~{paren(a)}", ~a.hi, ~a.lo, a.level)


def _shift_left(g: Gen, dtype: DataType, args: list[Val]) -> Val:
    a, b = args
    if b.lo < 0 or b.hi >= dtype.bits:
        low, high = int_range(dtype)
        return Val(f"_bitwise('shift_left', {g.constant('_type', dtype)}, {a.code}, {b.code})", False, low, high)
    ends = [x << y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    return integer(g, dtype, f"{paren(a)} << {paren(b)}", min(ends), max(ends), max(a.level, b.level))


def _shift_right(g: Gen, dtype: DataType, args: list[Val]) -> Val:
    a, b = args
    if b.lo < 0 or b.hi >= dtype.bits:
        low, high = int_range(dtype)
        return Val(f"_bitwise('shift_right', {g.constant('_type', dtype)}, {a.code}, {b.code})", False, low, high)
    ends = [x >> y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    return g.opaque(f"{paren(a)} >> {paren(b)}", min(ends), max(ends), max(a.level, b.level))


def _is_nan(g: Gen, dtype: DataType, args: list[Val]) -> Val:
    a = g.hold(args[0])
    return flag(f"{a.code} != {a.code}") if dtype.is_float else flag("False")


def _is_inf(g: Gen, dtype: DataType, args: list[Val]) -> Val:
    return flag(f"_isinf({args[0].code})") if dtype.is_float else flag("False")


def _is_finite(g: Gen, dtype: DataType, args: list[Val]) -> Val:
    return flag(f"_isfinite({args[0].code})") if dtype.is_float else flag("True")


def _popcount(g: Gen, dtype: DataType, args: list[Val]) -> Val:
    mask = hex((1 << dtype.bits) - 1)
    return g.opaque(f"bin({paren(args[0])} & {mask}).count('1')", 0, dtype.bits, args[0].level)


def _clz(g: Gen, dtype: DataType, args: list[Val]) -> Val:
    return g.opaque(f"_clz({args[0].code}, {dtype.bits})", 0, dtype.bits, args[0].level)


def _next_after(g: Gen, dtype: DataType, args: list[Val]) -> Val:
    name = f"_nextafter_{dtype!s}"
    if name not in g.namespace:
        g.namespace[name] = numeric.next_after(dtype)
    return Val(f"{name}({args[0].code}, {args[1].code})")


def _fixed_point(helper: str) -> ScalarOp:
    def op(g: Gen, dtype: DataType, args: list[Val]) -> Val:
        low, high = int_range(dtype)
        return Val(f"{helper}({', '.join(a.code for a in args)})", False, low, high)

    return op


CALLS: dict[str, ScalarOp] = {
    **{name: _math(name) for name in numeric.MATH},
    "bitwise_and": _bits("&"),
    "bitwise_or": _bits("|"),
    "bitwise_xor": _bits("^"),
    "bitwise_not": _invert,
    "shift_left": _shift_left,
    "shift_right": _shift_right,
    "isnan": _is_nan,
    "isinf": _is_inf,
    "isfinite": _is_finite,
    "popcount": _popcount,
    "clz": _clz,
    "nextafter": _next_after,
    "q_multiply_shift": _fixed_point("_q_multiply_shift"),
    "q_multiply_shift_per_axis": _fixed_point("_q_multiply_shift_per_axis"),
    "likely": lambda g, dtype, args: args[0],
    "tvm_thread_invariant": lambda g, dtype, args: args[0],
}
"""Operators that work lane by lane, by name without prefix. The type passed is that of the first operand."""


def helpers() -> dict[str, Any]:
    """The globals of generated code."""
    return {
        "_f32": numeric.to_float32,
        "_float_div": semantics.FLOAT_BINARY["Div"],
        "_float_mod": semantics.FLOAT_BINARY["Mod"],
        "_float_floordiv": semantics.FLOAT_BINARY["FloorDiv"],
        "_float_floormod": semantics.FLOAT_BINARY["FloorMod"],
        "_float_min": semantics.FLOAT_BINARY["Min"],
        "_float_max": semantics.FLOAT_BINARY["Max"],
        "_trunc_div": semantics.trunc_div,
        "_mod_trunc": numeric.mod_trunc,
        "_to_integer": numeric.to_integer,
        "_round_int": semantics.round_int,
        "_bitwise": semantics.bitwise,
        "_isinf": math.isinf,
        "_isfinite": math.isfinite,
        "_clz": numeric.count_leading_zeros,
        "_q_multiply_shift": numeric.q_multiply_shift,
        "_q_multiply_shift_per_axis": numeric.q_multiply_shift_per_axis,
        "_reinterpret": numeric.reinterpret,
        "_dot4": numeric.dot4,
    }


__all__ = ["BINARY", "CALLS", "add", "codec", "convert", "finish", "float_code", "helpers", "mul", "number", "sub"]
