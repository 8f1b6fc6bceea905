"""Random expressions of all integer types, and their values: unsigned and narrow arithmetic wraps."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir import semantics
from tscript.ir.dtype import DataType
from tscript.ir.expr import IntImm, PrimExpr, Var

INTEGERS: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_ROUNDED: Final[tuple[type[ex.ArithExpr], ...]] = (ex.FloorDiv, ex.FloorMod, ex.Div, ex.Mod)
_COMPARE: Final[tuple[type[ex.CmpExpr], ...]] = (ex.EQ, ex.NE, ex.LT, ex.LE, ex.GT, ex.GE)
_BITWISE: Final[dict[str, Callable[[int, int], int]]] = {
    "tir.bitwise_and": int.__and__,
    "tir.bitwise_or": int.__or__,
    "tir.bitwise_xor": int.__xor__,
    "tir.shift_right": int.__rshift__,
    "tir.shift_left": int.__lshift__,
}


class Undefined(Exception):
    """The value is undefined: division by zero, or overflow of a type that is taken not to overflow."""


def _is_index(dtype: DataType) -> bool:
    return dtype.is_int and dtype.bits >= 32


def typed_value(e: PrimExpr, env: Mapping[Var, int], *, unbounded: bool = False) -> int:
    """The value of an integer expression or condition.

    Raises Undefined for a division by zero, and for overflow of int32 and int64 unless `unbounded`.
    """

    def fitted(value: int, dtype: DataType) -> int:
        wrapped = semantics.wrap(dtype, value)
        if wrapped != value and _is_index(dtype):
            if not unbounded:
                raise Undefined
            return value
        return wrapped

    def of(x: PrimExpr) -> int:
        return typed_value(x, env, unbounded=unbounded)

    match e:
        case IntImm():
            return e.value
        case Var():
            return env[e]
        case ex.CmpExpr():
            return int(semantics.COMPARE[type(e).__name__](of(e.a), of(e.b)))
        case ex.And():
            return of(e.a) & of(e.b)
        case ex.Or():
            return of(e.a) | of(e.b)
        case ex.Not():
            return 1 - of(e.a)
        case ex.Select():
            return of(e.true_value if of(e.condition) else e.false_value)
        case ex.Cast():
            return semantics.wrap(e.dtype, of(e.value))
        case ex.Call(args=(condition, then, otherwise)):
            return of(then if of(condition) else otherwise)
        case ex.Call(op=ex.Op(name=name), args=(a, b)):
            return semantics.wrap(e.dtype, _BITWISE[name](of(a), of(b)))
        case ex.BinaryExpr():
            a, b = of(e.a), of(e.b)
            if isinstance(e, _ROUNDED) and b == 0:
                raise Undefined
            return fitted(semantics.INT_BINARY[type(e).__name__](a, b), e.dtype)
        case _:
            raise TypeError(f"no value of {type(e).__name__}")


def _constant(rng: random.Random, dtype: str) -> PrimExpr:
    value = rng.choice([0, 1, 1, 2, 3, 4, 5, 7, 8, 8, 12, 16, 32, 64])
    d = DataType(dtype)
    if rng.random() < 0.04:
        return IntImm(dtype, semantics.wrap(d, (1 << (d.bits - 1)) - rng.choice([0, 1, 2])))
    return IntImm(dtype, -value if d.is_int and rng.random() < 0.35 else value)


def random_typed(rng: random.Random, variables: Sequence[Var], dtype: str, depth: int) -> PrimExpr:
    """An expression of a type over those of the `variables` that have it, with casts from other types."""
    if depth <= 0 or rng.random() < 0.12:
        mine = [v for v in variables if v.dtype == dtype]
        return rng.choice(mine) if mine and rng.random() < 0.7 else _constant(rng, dtype)

    def part(less: int = 1) -> PrimExpr:
        return random_typed(rng, variables, dtype, depth - less)

    choice = rng.random()
    if choice < 0.24:
        divisor = _constant(rng, dtype) if rng.random() < 0.85 else part()
        zero = isinstance(divisor, IntImm) and divisor.value == 0
        return rng.choice(_ROUNDED)(part(), IntImm(dtype, 3) if zero else divisor)
    if choice < 0.34:
        return ex.Mul(part(), _constant(rng, dtype))
    if choice < 0.42:
        return ex.Select(random_typed_condition(rng, variables, depth - 2), part(), part())
    if choice < 0.46:
        condition = random_typed_condition(rng, variables, depth - 2)
        return make.call_intrin(dtype, "tir.if_then_else", condition, part(), part())
    if choice < 0.52:
        return ex.Cast(dtype, random_typed(rng, variables, rng.choice(INTEGERS), depth - 1))
    if choice < 0.57:
        name = rng.choice(list(_BITWISE))
        return make.call_intrin(dtype, name, part(), IntImm(dtype, rng.randint(0, 5)) if "shift" in name else part())
    return rng.choice((ex.Add, ex.Add, ex.Add, ex.Sub, ex.Sub, ex.Mul, ex.Min, ex.Max))(part(), part())


def random_typed_condition(rng: random.Random, variables: Sequence[Var], depth: int) -> PrimExpr:
    """A condition over expressions of any type, most often that of the variables."""
    if depth > 0 and rng.random() < 0.45:
        a, b = (random_typed_condition(rng, variables, depth - 1) for _ in range(2))
        return rng.choice([ex.And(a, b), ex.Or(a, b), ex.Not(a)])
    dtype = str(variables[0].dtype) if rng.random() < 0.9 else rng.choice(INTEGERS)
    kind = rng.choice(_COMPARE)
    return kind(
        random_typed(rng, variables, dtype, max(depth, 1)), random_typed(rng, variables, dtype, rng.randint(0, 1))
    )
