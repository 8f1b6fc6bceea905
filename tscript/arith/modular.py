"""Modular sets: what is known of the remainder of an integer expression."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from tscript.arith.forms import is_index
from tscript.ir import expr as ex
from tscript.ir.expr import PrimExpr, Var


class ModularSet(NamedTuple):
    """All integers `coeff * k + base`; a `coeff` of 0 leaves only `base`, one of 1 leaves everything."""

    coeff: int
    base: int

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int) and (
            value == self.base if self.coeff == 0 else (value - self.base) % self.coeff == 0
        )


ANY_INTEGER: Final = ModularSet(1, 0)
Residues = Mapping[Var, ModularSet]


def modular_set(expr: PrimExpr, residues: Residues, memo: dict[PrimExpr, ModularSet] | None = None) -> ModularSet:
    """The remainders `expr` can leave, given those of variables; `memo` as in `const_bound`.

    >>> i = Var("i")
    >>> modular_set(i * 4 + 6, {})
    ModularSet(coeff=4, base=2)
    """
    if memo is None:
        memo = {}
    stack = [expr]
    while stack:
        e = stack[-1]
        if e in memo:
            stack.pop()
            continue
        rule = _RULES.get(type(e)) if is_index(e) else None
        if rule is None:
            memo[e] = _leaf(e, residues)
            continue
        operands, combine = rule
        parts = operands(e)
        todo = [p for p in parts if p not in memo]
        if todo:
            stack.extend(todo)
        else:
            memo[e] = combine(*[memo[p] for p in parts])
    return memo[expr]


def _leaf(e: PrimExpr, residues: Residues) -> ModularSet:
    if isinstance(e, ex.IntImm):
        return ModularSet(0, e.value)
    return residues.get(e, ANY_INTEGER) if isinstance(e, Var) else ANY_INTEGER


def joined(a: ModularSet, b: ModularSet) -> ModularSet:
    """A set that holds both."""
    return _made(math.gcd(a.coeff, b.coeff, a.base - b.base), a.base)


def meet(a: ModularSet, b: ModularSet) -> ModularSet:
    """What is in both, as one set; `a` where the two have nothing in common."""
    if a.coeff == 0 or b.coeff == 0:
        return a if a.coeff == 0 else b
    shared = math.gcd(a.coeff, b.coeff)
    if (b.base - a.base) % shared:
        return a
    # Chinese remainders: a.base + a.coeff * k with k chosen to meet b.
    step = b.coeff // shared
    k = (b.base - a.base) // shared * pow(a.coeff // shared, -1, step) if step > 1 else 0
    return _made(a.coeff * step, a.base + a.coeff * k)


def _made(coeff: int, base: int) -> ModularSet:
    return ModularSet(coeff, base % coeff if coeff else base)


def _add(a: ModularSet, b: ModularSet) -> ModularSet:
    return _made(math.gcd(a.coeff, b.coeff), a.base + b.base)


def _sub(a: ModularSet, b: ModularSet) -> ModularSet:
    return _made(math.gcd(a.coeff, b.coeff), a.base - b.base)


def _mul(a: ModularSet, b: ModularSet) -> ModularSet:
    coeff, base = math.gcd(a.coeff * b.coeff, a.coeff * b.base, b.coeff * a.base), a.base * b.base
    if max(coeff, abs(base)) > _LARGEST:
        # Repeated products would make numbers twice as long at each step.
        coeff = math.gcd(coeff, _LARGEST)
    return _made(coeff, base)


_LARGEST: Final = 1 << 1024


def _floordiv(a: ModularSet, b: ModularSet) -> ModularSet:
    divisor = b.base
    if b.coeff or divisor == 0:
        return ANY_INTEGER
    if a.coeff == 0 or a.coeff % divisor == 0:
        return _made(abs(a.coeff // divisor), a.base // divisor)
    return ANY_INTEGER


def _floormod(a: ModularSet, b: ModularSet) -> ModularSet:
    divisor = b.base
    if b.coeff or divisor == 0:
        return ANY_INTEGER
    if a.coeff % divisor == 0:
        return ModularSet(0, a.base % divisor)
    return _made(math.gcd(a.coeff, divisor), a.base)


def _both(e: PrimExpr) -> tuple[PrimExpr, ...]:
    assert isinstance(e, ex.BinaryExpr)
    return e.a, e.b


def _branches(e: PrimExpr) -> tuple[PrimExpr, ...]:
    assert isinstance(e, ex.Select)
    return e.true_value, e.false_value


_Rule = tuple[Callable[[PrimExpr], tuple[PrimExpr, ...]], Callable[..., ModularSet]]
_RULES: Final[dict[type[PrimExpr], _Rule]] = {
    ex.Add: (_both, _add),
    ex.Sub: (_both, _sub),
    ex.Mul: (_both, _mul),
    ex.FloorDiv: (_both, _floordiv),
    ex.FloorMod: (_both, _floormod),
    ex.Min: (_both, joined),
    ex.Max: (_both, joined),
    ex.Select: (_branches, joined),
}
