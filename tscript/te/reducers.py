"""Which reduction a program's own update is: `Y[i] = Y[i] + x` is a sum of `x`.

Known are the reductions of `te`, bitwise and logical ones, argmax and argmin in the forms in which they are written,
and every reduction that was made with `te.comm_reducer` and used, or registered with `register_reducer`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.dtype import DataType
from tscript.ir.expr import BufferLoad, Call, CommReducer, FloatImm, IntImm, Op, PrimExpr, Select, Var
from tscript.ir.functor import pre_order_visit, substitute
from tscript.support.errors import ScriptError
from tscript.te import reduction
from tscript.te.reduction import USED, Reducer, comm_reducer, max_value, min_value

Pair = tuple[PrimExpr, PrimExpr]


@dataclass(frozen=True)
class KnownReducer:
    """A combination of tuples of certain types.

    `picks`: it gives one of its operands, so that a value may be combined with again without a change.
    """

    name: str
    combiner: CommReducer
    picks: bool


@dataclass(frozen=True)
class Match:
    """An update of some elements seen as a known reduction of `terms`.

    `order`: which of the elements stands at each place of the reducer. `swapped`: the element is the right operand.
    """

    reducer: KnownReducer
    order: tuple[int, ...]
    terms: tuple[PrimExpr, ...]
    swapped: bool

    def combined(self, elements: Sequence[PrimExpr], terms: Sequence[PrimExpr]) -> list[PrimExpr]:
        """The update of other elements by other terms."""
        combiner = self.reducer.combiner
        left, right = (combiner.rhs, combiner.lhs) if self.swapped else (combiner.lhs, combiner.rhs)
        pairs: dict[Var, PrimExpr] = {}
        for place, k in enumerate(self.order):
            pairs[left[place]], pairs[right[place]] = elements[k], terms[k]
        results = [substitute(r, pairs) for r in combiner.result]
        return [results[self.order.index(k)] for k in range(len(self.order))]

    def identity(self) -> list[PrimExpr]:
        """What the elements start from, so that only the terms count."""
        return [self.reducer.combiner.identity_element[self.order.index(k)] for k in range(len(self.order))]

    def may_start_twice(self, starts: Sequence[PrimExpr]) -> bool:
        """Whether nothing changes when the elements are combined with what they start from once more."""
        if self.reducer.picks and not self.swapped:
            return True
        return all(_same_constant(s, i) for s, i in zip(starts, self.identity(), strict=True))


def _same_constant(a: PrimExpr, b: PrimExpr) -> bool:
    if a.dtype is not b.dtype or not isinstance(a, (IntImm, FloatImm)) or not isinstance(b, (IntImm, FloatImm)):
        return a is b
    return make.rounded(a) == make.rounded(b)


# -- what is known --------------------------------------------------------------------------------


def _both(name: str, combine: Any, identity: Any) -> Reducer:
    return comm_reducer(combine, identity, name=name)


def _ones(dtype: str) -> PrimExpr:
    kind = DataType(dtype)
    return make.const(True) if kind.is_bool else max_value(dtype) if kind.is_uint else make.const(-1, dtype)


def _zeros(dtype: str) -> PrimExpr:
    return make.const(False) if DataType(dtype).is_bool else make.const(0, dtype)


def _arg(name: str, largest: bool, by_index: bool, value: str) -> Reducer:
    """A reduction of pairs of index and value to that of the largest or smallest value.

    `by_index`: of equal values the one with the smaller index is taken, else either. `value` says how the value is
    chosen: "beats", "ties" (it is no worse), "like" (as the index is) or "limit" (by min or max).
    """
    beats, ties = (ex.GT, ex.GE) if largest else (ex.LT, ex.LE)
    limit = make.max_ if largest else make.min_

    def combine(x: Pair, y: Pair) -> Pair:
        better = make.compare(beats, x[1], y[1])
        no_worse = make.compare(ties, x[1], y[1])
        first = no_worse
        if by_index:
            equal = make.compare(ex.EQ, x[1], y[1])
            first = make.or_(better, make.and_(equal, make.compare(ex.LT, x[0], y[0])))
        if value == "limit":
            return Select(first, x[0], y[0]), limit(x[1], y[1])
        choice = {"beats": better, "ties": no_worse, "like": first}[value]
        return Select(first, x[0], y[0]), Select(choice, x[1], y[1])

    def identity(index: str, of: str) -> Pair:
        nowhere = max_value(index) if DataType(index).is_uint else make.const(-1, index)
        return nowhere, (min_value if largest else max_value)(of)

    return comm_reducer(combine, identity, name=name)


_SINGLE: list[tuple[Reducer, bool]] = [
    (reduction.sum, False),
    (reduction.prod, False),
    (reduction.min, True),
    (reduction.max, True),
]
_INTEGER: list[tuple[Reducer, bool]] = [
    (_both("bitwise and", make.bitwise_and, _ones), True),
    (_both("bitwise or", make.bitwise_or, _zeros), True),
    (_both("bitwise xor", make.bitwise_xor, _zeros), False),
]
_LOGICAL: list[tuple[Reducer, bool]] = [
    (_both("and", make.and_, _ones), True),
    (_both("or", make.or_, _zeros), True),
]
_PAIRS: list[tuple[Reducer, bool]] = [
    (_arg("argmax" if largest else "argmin", largest, by_index, value), True)
    for largest in (True, False)
    for by_index in (False, True)
    for value in ("beats", "ties", "like", "limit")
    if by_index or value != "like"
]
_REGISTERED: list[Reducer] = []


def register_reducer(reducer: Reducer) -> Reducer:
    """Make a reduction known to schedules, for programs that write its update themselves; the reduction.

    What was used in a `te` program is known without.

    >>> from tscript import te
    >>> hypot = te.comm_reducer(lambda a, b: te.sqrt(a * a + b * b), lambda t: te.const(0, t), name="hypot")
    >>> register_reducer(hypot) is hypot
    True
    """
    if not isinstance(reducer, Reducer):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"expected what te.comm_reducer gives, not {reducer!r}")
    _REGISTERED.append(reducer)
    return reducer


def known_reducers(dtypes: tuple[DataType, ...]) -> list[KnownReducer]:
    """All reductions of values of these types that are known."""
    used = [KnownReducer(name, c, False) for name, c in USED.get(dtypes, ())]
    made = [_made(r, dtypes, False) for r in _REGISTERED]
    return [*_built_in(dtypes), *(m for m in made if m is not None), *used]


@lru_cache(maxsize=256)
def _built_in(dtypes: tuple[DataType, ...]) -> tuple[KnownReducer, ...]:
    plain = all((d.is_float or d.is_integer or d.is_bool) and d.lanes == 1 for d in dtypes)
    if not plain or len(dtypes) > 2:
        return ()
    first, *more = dtypes or (None,)
    if first is None:
        return ()
    if more:
        candidates = _PAIRS if first.is_integer and not more[0].is_bool else []
    elif first.is_bool:
        candidates = _LOGICAL
    else:
        candidates = [*_SINGLE, *(_INTEGER if first.is_integer else ())]
    made = [_made(r, dtypes, picks) for r, picks in candidates]
    return tuple(m for m in made if m is not None)


def _made(reducer: Reducer, dtypes: tuple[DataType, ...], picks: bool) -> KnownReducer | None:
    """A reduction of values of these types; None where there is none, as of a combination of pairs of one value."""
    try:
        return KnownReducer(reducer.name, reducer.combiner(dtypes, len(dtypes) > 1), picks)
    except (TypeError, ValueError, IndexError, ScriptError):
        return None


# -- matching -------------------------------------------------------------------------------------


def match_reducer(elements: Sequence[PrimExpr], values: Sequence[PrimExpr]) -> Match | None:
    """The known reduction that `values` are of `elements` and something else, in which the elements do not occur.

    Operands may be written in either order where that does not matter.
    """
    count = len(elements)
    orders = list(itertools.permutations(range(count))) if count <= 3 else [tuple(range(count))]
    for order in orders:
        ordered = [elements[k] for k in order]
        wanted = [values[k] for k in order]
        for known in known_reducers(tuple(e.dtype for e in ordered)):
            for swapped in (False, True):
                terms = _terms(known.combiner, ordered, wanted, swapped)
                if terms is not None:
                    return Match(known, order, tuple(terms[order.index(k)] for k in range(count)), swapped)
    return None


def _terms(
    combiner: CommReducer, elements: Sequence[PrimExpr], values: Sequence[PrimExpr], swapped: bool
) -> list[PrimExpr] | None:
    left, right = (combiner.rhs, combiner.lhs) if swapped else (combiner.lhs, combiner.rhs)
    given: dict[Var, PrimExpr] = dict(zip(left, elements, strict=True))
    buffers = {e.buffer: None for e in elements if isinstance(e, BufferLoad)}
    for env in _unify_all(combiner.result, values, given, dict.fromkeys(right)):
        terms = [env.get(v) for v in right]
        found = [t for t in terms if t is not None and not _loads(t, buffers)]
        if len(found) == len(terms):
            return found
    return None


def _loads(e: PrimExpr, buffers: Mapping[Any, None]) -> bool:
    found = False

    def look(node: object) -> bool:
        nonlocal found
        found = found or (isinstance(node, BufferLoad) and node.buffer in buffers)
        return not found

    pre_order_visit(e, look)
    return found


Env = dict[Var, PrimExpr]
_COMMUTATIVE = (ex.Add, ex.Mul, ex.Min, ex.Max, ex.And, ex.Or, ex.EQ, ex.NE)
_MIRRORED: dict[type[PrimExpr], type[PrimExpr]] = {ex.LT: ex.GT, ex.GT: ex.LT, ex.LE: ex.GE, ex.GE: ex.LE}
_TWO_OPERANDS = (ex.BinaryExpr, ex.And, ex.Or)
_SYMMETRIC_CALLS = ("tir.bitwise_and", "tir.bitwise_or", "tir.bitwise_xor")


def _unify_all(patterns: Sequence[Any], parts: Sequence[Any], env: Env, free: Mapping[Var, None]) -> Iterator[Env]:
    if len(patterns) != len(parts):
        return
    if not patterns:
        yield env
        return
    for found in _unify(patterns[0], parts[0], env, free):
        yield from _unify_all(patterns[1:], parts[1:], found, free)


def _unify(pattern: Any, e: Any, env: Env, free: Mapping[Var, None]) -> Iterator[Env]:
    """The values of `free` variables, beside those in `env`, for which a pattern is an expression."""
    if not isinstance(pattern, PrimExpr) or not isinstance(e, PrimExpr):
        if pattern is e or (not isinstance(pattern, PrimExpr) and pattern == e):
            yield env
        return
    if isinstance(pattern, Var):
        known = env.get(pattern)
        if known is not None:
            if known is e:
                yield env
        elif pattern in free and pattern.dtype is e.dtype:
            yield {**env, pattern: e}
        return
    if isinstance(pattern, (IntImm, FloatImm)):
        if _same_constant(pattern, e):
            yield env
        return
    if isinstance(pattern, Select) and isinstance(e, Call) and _is_call(e, "tir.if_then_else"):
        fields = (pattern.condition, pattern.true_value, pattern.false_value)
        yield from _unify_all(fields, e.args, env, free)
        return
    for parts, shape in _forms(pattern, e):
        yield from _unify_all(parts, shape, env, free)


def _forms(pattern: PrimExpr, e: PrimExpr) -> Iterator[tuple[Sequence[Any], Sequence[Any]]]:
    """The ways in which the parts of a pattern may be those of an expression."""
    if isinstance(pattern, _TWO_OPERANDS) and isinstance(e, _TWO_OPERANDS):
        if type(e) is type(pattern):
            yield (pattern.a, pattern.b), (e.a, e.b)
            if isinstance(pattern, _COMMUTATIVE):
                yield (pattern.a, pattern.b), (e.b, e.a)
        elif _MIRRORED.get(type(pattern)) is type(e):
            yield (pattern.a, pattern.b), (e.b, e.a)
    elif isinstance(pattern, Call) and isinstance(e, Call):
        if pattern.op is e.op and pattern.dtype is e.dtype:
            yield pattern.args, e.args
            if any(_is_call(pattern, name) for name in _SYMMETRIC_CALLS):
                yield pattern.args, e.args[::-1]
    elif type(e) is type(pattern):
        fields = type(pattern)._fields  # pyright: ignore[reportPrivateUsage]
        yield [getattr(pattern, f) for f in fields], [getattr(e, f) for f in fields]


def _is_call(e: PrimExpr, name: str) -> bool:
    return isinstance(e, Call) and isinstance(e.op, Op) and e.op.name == name
