"""Random index expressions, and their values by Python's own integers."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from tscript.ir import expr as ex
from tscript.ir import semantics
from tscript.ir.dtype import DataType
from tscript.ir.expr import IntImm, PrimExpr, Var

_ROUNDED: tuple[type[ex.ArithExpr], ...] = (ex.FloorDiv, ex.FloorMod, ex.Div, ex.Mod)
_COMPARE: tuple[type[ex.CmpExpr], ...] = (ex.EQ, ex.NE, ex.LT, ex.LE, ex.GT, ex.GE)


def index_value(e: PrimExpr, env: Mapping[Var, int]) -> int:
    """The value of an index expression or condition with unbounded integers; every part is evaluated."""
    match e:
        case IntImm():
            return e.value
        case Var():
            return env[e]
        case ex.CmpExpr():
            return int(semantics.COMPARE[type(e).__name__](index_value(e.a, env), index_value(e.b, env)))
        case ex.And():
            return index_value(e.a, env) & index_value(e.b, env)
        case ex.Or():
            return index_value(e.a, env) | index_value(e.b, env)
        case ex.Not():
            return 1 - index_value(e.a, env)
        case ex.Select():
            return index_value(e.true_value if index_value(e.condition, env) else e.false_value, env)
        case ex.Call(args=(condition, then, otherwise)):
            return index_value(then if index_value(condition, env) else otherwise, env)
        case ex.BinaryExpr():
            return semantics.INT_BINARY[type(e).__name__](index_value(e.a, env), index_value(e.b, env))
        case _:
            raise TypeError(f"no value of {type(e).__name__}")


def random_index(rng: random.Random, variables: Sequence[Var], depth: int, *, truncating: bool = True) -> PrimExpr:
    """An index expression over `variables`; divisors are constants other than zero."""
    dtype: DataType = variables[0].dtype
    if depth == 0 or rng.random() < 0.15:
        return rng.choice([*variables, *variables, IntImm(dtype, rng.randint(-9, 9))])
    choice = rng.random()
    a = random_index(rng, variables, depth - 1, truncating=truncating)
    if choice < 0.3:
        kinds = _ROUNDED if truncating and rng.random() < 0.3 else _ROUNDED[:2]
        return rng.choice(kinds)(a, IntImm(dtype, rng.choice([-7, -3, -1, 1, 2, 3, 4, 4, 6, 8, 8, 12])))
    if choice < 0.45:
        return ex.Mul(a, IntImm(dtype, rng.choice([-4, -2, -1, 2, 3, 4, 8])))
    b = random_index(rng, variables, depth - 1, truncating=truncating)
    if choice < 0.52:
        return ex.Select(random_condition(rng, variables, min(depth - 1, 2)), a, b)
    kind = rng.choice((ex.Add, ex.Add, ex.Sub, ex.Mul, ex.Min, ex.Max))
    return kind(a, b)


def random_condition(rng: random.Random, variables: Sequence[Var], depth: int) -> PrimExpr:
    """A condition over index expressions."""
    if depth > 0 and rng.random() < 0.4:
        a, b = random_condition(rng, variables, depth - 1), random_condition(rng, variables, depth - 1)
        return rng.choice([ex.And(a, b), ex.Or(a, b), ex.Not(a)])
    return rng.choice(_COMPARE)(random_index(rng, variables, max(depth, 1)), random_index(rng, variables, 1))
