"""Sets of integers given by expressions, and the sets that expressions run through.

A set is an interval whose ends may be missing, or nothing. Sets are approximations from outside: they hold every
value, and exactly those for sums of constant multiples of distinct variables without gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tscript.arith.analyzer import Analyzer
from tscript.arith.const_bound import Bound
from tscript.arith.forms import form_of, from_form, is_index, plus, scaled
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.dtype import DataType, int_range
from tscript.ir.expr import ExprLike, IntImm, PrimExpr, Range, Var
from tscript.ir.linear import LinearForm
from tscript.ir.occurrences import mentions


class IntSet:
    """A set of integers."""

    @staticmethod
    def single_point(point: ExprLike) -> IntervalSet:
        """The set of one value."""
        e = make.convert(point)
        return IntervalSet(e, e)

    @staticmethod
    def interval(min_value: ExprLike | None, max_value: ExprLike | None) -> IntervalSet:
        """All integers from `min_value` to `max_value`, both included; None leaves an end open."""
        low = None if min_value is None else make.convert(min_value)
        high = None if max_value is None else make.convert(max_value)
        return IntervalSet(low, high)

    @staticmethod
    def from_range(dom: Range) -> IntervalSet:
        """The values of a range."""
        return IntSet.from_min_extent(dom.min, dom.extent)

    @staticmethod
    def from_min_extent(low: ExprLike, extent: ExprLike) -> IntervalSet:
        """The `extent` values from `low` on."""
        first, count = make.convert(low), make.convert(extent)
        if isinstance(count, IntImm) and count.value == 1:
            return IntervalSet(first, first)
        if isinstance(first, IntImm) and isinstance(count, IntImm):
            dtype = make.promote(first, count)[0].dtype
            return IntervalSet(first, _fitting(first.value + count.value - 1, dtype))
        try:
            return IntervalSet(first, make.simple_sub(make.add(first, count), make.const(1, first.dtype)))
        except ValueError:
            # A constant that does not fit in the type.
            return IntervalSet(first, None)

    @staticmethod
    def vector(vec: ExprLike) -> IntervalSet:
        """The values of all lanes of a vector; the one value of a scalar.

        >>> IntSet.vector(ex.Ramp(IntImm("int32", 4), IntImm("int32", 2), 8))
        IntervalSet[4, 18]
        """
        return SetEvaluator({}).of(make.convert(vec))

    @staticmethod
    def everything() -> IntervalSet:
        """All integers."""
        return EVERYTHING

    @staticmethod
    def nothing() -> IntervalSet:
        """No integer."""
        return NOTHING


@dataclass(frozen=True, eq=False, repr=False)
class IntervalSet(IntSet):
    """All integers from `min_value` to `max_value`, both included; None leaves an end open.

    >>> IntervalSet(IntImm("int32", 0), None).has_upper_bound()
    False
    """

    min_value: PrimExpr | None
    max_value: PrimExpr | None
    is_empty: bool = False

    def is_nothing(self) -> bool:
        """Whether the set is known to hold no value."""
        if self.is_empty:
            return True
        low, high = self.min_value, self.max_value
        return isinstance(low, IntImm) and isinstance(high, IntImm) and low.value > high.value

    def is_everything(self) -> bool:
        """Whether both ends are open."""
        return not self.is_empty and self.min_value is None and self.max_value is None

    def is_single_point(self) -> bool:
        """Whether both ends are the same expression."""
        return not self.is_empty and self.min_value is not None and self.min_value is self.max_value

    def has_lower_bound(self) -> bool:
        """Whether the lower end is given."""
        return self.min_value is not None

    def has_upper_bound(self) -> bool:
        """Whether the upper end is given."""
        return self.max_value is not None

    def as_range(self) -> Range | None:
        """The range of the same values, if both ends are given and the extent fits in their type."""
        low, high = self.min_value, self.max_value
        if low is None or high is None:
            return None
        if isinstance(low, IntImm) and isinstance(high, IntImm):
            extent = _fitting(high.value - low.value + 1, low.dtype)
            return None if extent is None else Range.from_min_extent(low, extent)
        one = make.const(1, low.dtype)
        if low is high:
            return Range.from_min_extent(low, one)
        try:
            return Range.from_min_extent(low, make.add(make.simple_sub(high, low), one))
        except ValueError:
            # A constant that does not fit in the type.
            return None

    def __repr__(self) -> str:
        if self.is_empty:
            return "IntSet.nothing()"
        low = "-inf" if self.min_value is None else str(self.min_value)
        high = "+inf" if self.max_value is None else str(self.max_value)
        return f"IntervalSet[{low}, {high}]"


EVERYTHING: Final = IntervalSet(None, None)
NOTHING: Final = IntervalSet(None, None, True)

SetLike = IntervalSet | Range


def _fitting(value: int, dtype: DataType) -> PrimExpr | None:
    """A constant; None, which leaves an end open, where `dtype` does not hold it."""
    low, high = int_range(dtype)
    return IntImm(dtype, value) if low <= value <= high else None


def _written(form: LinearForm | None, dtype: DataType) -> PrimExpr | None:
    """The sum; None, which leaves an end open, where there is none or a constant does not fit."""
    if form is None:
        return None
    try:
        return from_form(form, dtype)
    except ValueError:
        return None


def _times(a: PrimExpr | None, b: PrimExpr) -> PrimExpr | None:
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return _fitting(a.value * b.value, a.dtype)
    return None if a is None else make.mul(a, b)


def as_set(value: SetLike) -> IntervalSet:
    """A set or the values of a range."""
    return IntSet.from_range(value) if isinstance(value, Range) else value


class SetEvaluator:
    """Evaluates expressions over sets of variables. `analyzer` knows about all other variables."""

    def __init__(self, relaxed: Mapping[Var, IntervalSet], analyzer: Analyzer | None = None) -> None:
        self.relaxed = relaxed
        self.analyzer = Analyzer() if analyzer is None else analyzer
        self.depth = 64
        self._found: dict[PrimExpr, IntervalSet] = {}

    def relax(self, relaxed: Mapping[Var, IntervalSet]) -> None:
        """Evaluate over these sets of variables from now on."""
        self.relaxed = relaxed
        self._found.clear()

    def of(self, e: PrimExpr) -> IntervalSet:
        """The set that `e` runs through while the relaxed variables run through theirs."""
        if e.dtype.lanes == 1 and not mentions(e, self.relaxed):
            return IntervalSet(e, e)
        rule = _RULES.get(type(e))
        if rule is None or self.depth <= 0:
            return EVERYTHING
        found = self._found.get(e)
        if found is not None:
            return found
        self.depth -= 1
        try:
            found = self._found[e] = rule(self, e)
        finally:
            self.depth += 1
        return found

    def simple(self, e: PrimExpr) -> PrimExpr:
        """A simpler form of an end."""
        return self.analyzer.simplify(e)

    def made(self, low: PrimExpr | None, high: PrimExpr | None) -> IntervalSet:
        """The set with simplified ends."""
        if low is high and low is not None:
            point = self.simple(low)
            return IntervalSet(point, point)
        return IntervalSet(None if low is None else self.simple(low), None if high is None else self.simple(high))

    def sign(self, e: PrimExpr) -> int:
        """1 for at least zero, -1 for at most zero, 0 for unknown."""
        if not (isinstance(e, IntImm) or is_index(e)):
            return 0
        form = form_of(e)
        if self.analyzer.context.is_nonneg(form):
            return 1
        return -1 if self.analyzer.context.is_nonneg(scaled(form, -1)) else 0

    def no_less(self, a: PrimExpr, b: PrimExpr) -> bool:
        """Whether `a >= b` is certain."""
        return self.at_least(a, b, 0)

    def at_least(self, a: PrimExpr, b: PrimExpr, offset: int) -> bool:
        """Whether `a >= b + offset` is certain."""
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return a.value >= b.value + offset
        if not (is_index(a) and is_index(b)):
            return False
        gap = plus(form_of(a), form_of(b), -1)
        gap = gap[0], gap[1] - offset
        made = _written(gap, a.dtype)
        return self.analyzer.context.is_nonneg(gap if made is None else form_of(self.simple(made)))


def _variable(s: SetEvaluator, e: PrimExpr) -> IntervalSet:
    return s.relaxed.get(e, EVERYTHING) if isinstance(e, Var) else EVERYTHING


def _sum(s: SetEvaluator, e: PrimExpr) -> IntervalSet:
    if not is_index(e):
        return EVERYTHING
    terms, constant = form_of(e)
    if isinstance(e, ex.Mul) and e in terms:
        return _product(s, e)
    low: LinearForm | None = ({}, constant)
    high: LinearForm | None = low
    for term, factor in terms.items():
        part = s.of(term)
        if part.is_empty:
            return NOTHING
        first, last = (part.min_value, part.max_value) if factor > 0 else (part.max_value, part.min_value)
        low = None if low is None or first is None else plus(low, form_of(first), factor)
        high = None if high is None or last is None else plus(high, form_of(last), factor)
    if low is not None and low == high:
        point = _written(low, e.dtype)
        return s.made(point, point)
    return s.made(_written(low, e.dtype), _written(high, e.dtype))


def _product(s: SetEvaluator, e: ex.Mul) -> IntervalSet:
    a, b = s.of(e.a), s.of(e.b)
    if a.is_single_point():
        a, b = b, a
    if not b.is_single_point() or b.min_value is None:
        return EVERYTHING
    sign = s.sign(b.min_value)
    if sign == 0:
        return EVERYTHING
    first, last = (a.min_value, a.max_value) if sign > 0 else (a.max_value, a.min_value)
    return s.made(_times(first, b.min_value), _times(last, b.min_value))


def _positive(e: PrimExpr, s: SetEvaluator) -> bool:
    return e.value > 0 if isinstance(e, IntImm) else s.analyzer.can_prove(make.compare(ex.GT, e, 0))


def _floordiv(s: SetEvaluator, e: PrimExpr) -> IntervalSet:
    assert isinstance(e, ex.BinaryExpr)
    if mentions(e.b, s.relaxed) or not _positive(e.b, s):
        return EVERYTHING
    part = s.of(e.a)
    low, high = part.min_value, part.max_value
    return s.made(None if low is None else make.floordiv(low, e.b), None if high is None else make.floordiv(high, e.b))


def _floormod(s: SetEvaluator, e: PrimExpr) -> IntervalSet:
    assert isinstance(e, ex.BinaryExpr)
    if mentions(e.b, s.relaxed) or not _positive(e.b, s):
        return EVERYTHING
    whole = s.made(IntImm(e.dtype, 0), make.sub(e.b, 1))
    part = s.of(e.a)
    if part.min_value is None or part.max_value is None:
        return whole
    if s.simple(make.floordiv(part.min_value, e.b)) is not s.simple(make.floordiv(part.max_value, e.b)):
        return whole
    return s.made(make.floormod(part.min_value, e.b), make.floormod(part.max_value, e.b))


def _truncating(
    rule: Callable[[SetEvaluator, PrimExpr], IntervalSet],
) -> Callable[[SetEvaluator, PrimExpr], IntervalSet]:
    def apply(s: SetEvaluator, e: PrimExpr) -> IntervalSet:
        assert isinstance(e, ex.BinaryExpr)
        low = s.of(e.a).min_value
        # Rounding down and toward zero agree only from zero up.
        return rule(s, e) if low is not None and s.sign(low) > 0 else EVERYTHING

    return apply


def _extremum(s: SetEvaluator, e: PrimExpr) -> IntervalSet:
    assert isinstance(e, ex.BinaryExpr)
    a, b = s.of(e.a), s.of(e.b)
    is_min = isinstance(e, ex.Min)
    pick = make.min_ if is_min else make.max_

    def end(x: PrimExpr | None, y: PrimExpr | None, other_decides: bool) -> PrimExpr | None:
        if x is None or y is None:
            return (y if x is None else x) if other_decides else None
        return pick(x, y)

    return s.made(end(a.min_value, b.min_value, not is_min), end(a.max_value, b.max_value, is_min))


def _select(s: SetEvaluator, e: PrimExpr) -> IntervalSet:
    assert isinstance(e, ex.Select)
    return join(s.of(e.true_value), s.of(e.false_value), s)


def _call(s: SetEvaluator, e: PrimExpr) -> IntervalSet:
    assert isinstance(e, ex.Call)
    name = e.op.name if isinstance(e.op, ex.Op) else ""
    if name == "tir.if_then_else":
        return join(s.of(e.args[1]), s.of(e.args[2]), s)
    return s.of(e.args[0]) if name == "tir.likely" else EVERYTHING


def _cast(s: SetEvaluator, e: PrimExpr) -> IntervalSet:
    assert isinstance(e, ex.Cast)
    if not (e.dtype.is_int and e.value.dtype.is_integer and e.value.dtype.lanes == 1):
        return EVERYTHING
    # The half of unsigned values that the signed type of the same width lacks would become negative.
    if e.dtype.bits < e.value.dtype.bits + e.value.dtype.is_uint:
        return EVERYTHING
    part = s.of(e.value)
    low, high = part.min_value, part.max_value
    return IntervalSet(
        None if low is None else make.cast(low, e.dtype),
        None if high is None else make.cast(high, e.dtype),
        part.is_empty,
    )


def _ramp(s: SetEvaluator, e: PrimExpr) -> IntervalSet:
    assert isinstance(e, ex.Ramp)
    base, stride = s.of(e.base), s.of(e.stride)
    if not is_index(e.base) or not stride.is_single_point() or stride.min_value is None:
        return EVERYTHING
    sign = s.sign(stride.min_value)
    if sign == 0:
        return EVERYTHING
    low, high, step, steps = base.min_value, base.max_value, form_of(stride.min_value), e.lanes - 1
    if sign > 0:
        high = None if high is None else _written(plus(form_of(high), step, steps), e.base.dtype)
    else:
        low = None if low is None else _written(plus(form_of(low), step, steps), e.base.dtype)
    return s.made(low, high)


def _broadcast(s: SetEvaluator, e: PrimExpr) -> IntervalSet:
    assert isinstance(e, ex.Broadcast)
    return s.of(e.value)


_RULES: Final[dict[type[PrimExpr], Callable[[SetEvaluator, PrimExpr], IntervalSet]]] = {
    Var: _variable, ex.SizeVar: _variable, ex.Add: _sum, ex.Sub: _sum, ex.Mul: _sum, ex.FloorDiv: _floordiv,
    ex.FloorMod: _floormod, ex.Div: _truncating(_floordiv), ex.Mod: _truncating(_floormod), ex.Min: _extremum,
    ex.Max: _extremum, ex.Select: _select, ex.Call: _call, ex.Cast: _cast, ex.Ramp: _ramp, ex.Broadcast: _broadcast,
}  # fmt: skip


def join(a: IntervalSet, b: IntervalSet, s: SetEvaluator) -> IntervalSet:
    """The smallest interval that holds both; ends that cannot be compared give `min` and `max` expressions."""
    if a.is_empty or b.is_empty:
        return b if a.is_empty else a
    if a.min_value is b.min_value and a.max_value is b.max_value:
        return a
    return IntervalSet(_lesser(a.min_value, b.min_value, s), _greater(a.max_value, b.max_value, s))


def _lesser(x: PrimExpr | None, y: PrimExpr | None, s: SetEvaluator) -> PrimExpr | None:
    if x is None or y is None:
        return None
    return x if s.no_less(y, x) else y if s.no_less(x, y) else make.min_(x, y)


def _greater(x: PrimExpr | None, y: PrimExpr | None, s: SetEvaluator) -> PrimExpr | None:
    if x is None or y is None:
        return None
    return x if s.no_less(x, y) else y if s.no_less(y, x) else make.max_(x, y)


def union(sets: Iterable[IntervalSet], analyzer: Analyzer | None = None) -> IntervalSet:
    """The smallest interval that holds all sets; nothing for none.

    >>> union([IntSet.interval(0, 3), IntSet.interval(8, 9)])
    IntervalSet[0, 9]
    """
    s = SetEvaluator({}, Analyzer() if analyzer is None else analyzer)
    result = NOTHING
    for one in sets:
        result = join(result, one, s)
    return result


def union_lower_bound(sets: Sequence[IntervalSet], analyzer: Analyzer | None = None) -> IntervalSet:
    """An interval that lies within the union: sets that touch or overlap are joined, of others the first stays."""
    s = SetEvaluator({}, Analyzer() if analyzer is None else analyzer)
    result = NOTHING
    for one in sets:
        if result.is_nothing():
            result = one
        elif _touch(result, one, s):
            result = join(result, one, s)
    return result


def _touch(a: IntervalSet, b: IntervalSet, s: SetEvaluator) -> bool:
    def reaches(x: IntervalSet, y: IntervalSet) -> bool:
        return x.max_value is None or y.min_value is None or s.at_least(x.max_value, y.min_value, -1)

    return not b.is_nothing() and reaches(a, b) and reaches(b, a)


def intersect(sets: Iterable[IntervalSet], analyzer: Analyzer | None = None) -> IntervalSet:
    """The values that all sets share; everything for none."""
    s = SetEvaluator({}, Analyzer() if analyzer is None else analyzer)
    low: PrimExpr | None = None
    high: PrimExpr | None = None
    for one in sets:
        if one.is_empty:
            return NOTHING
        low = one.min_value if low is None else low if one.min_value is None else _greater(low, one.min_value, s)
        high = one.max_value if high is None else high if one.max_value is None else _lesser(high, one.max_value, s)
    if low is not None and high is not None and s.analyzer.can_prove(make.compare(ex.GT, low, high)):
        return NOTHING
    return IntervalSet(low, high)


def eval_set(expr: ExprLike | Range, dom_map: Mapping[Var, SetLike], analyzer: Analyzer | None = None) -> IntervalSet:
    """The set that an expression, or all values of a range, runs through while variables run through theirs.

    >>> i, n = Var("i"), Var("n")
    >>> eval_set(i * 2 + n, {i: IntSet.interval(0, 3)})
    IntervalSet[n, n + 6]
    """
    relaxed = {v: as_set(s) for v, s in dom_map.items()}
    if any(r.is_nothing() for r in relaxed.values()):
        return NOTHING
    s = SetEvaluator(relaxed, Analyzer() if analyzer is None else analyzer)
    if not isinstance(expr, Range):
        e = make.convert(expr)
        return s.of(s.simple(e) if is_index(e) else e)
    low = s.of(expr.min).min_value
    last = last_of(expr)
    return IntervalSet(low, None if last is None else s.of(s.simple(last)).max_value)


def last_of(dom: Range) -> PrimExpr | None:
    """The last value of a range; None where a constant in it does not fit in the type."""
    return _written(plus(plus(form_of(dom.min), form_of(dom.extent)), ({}, -1)), dom.min.dtype)


def _evaluate(expr: PrimExpr, domains: Mapping[Var, SetLike | Bound], analyzer: Analyzer) -> IntervalSet:
    """`Analyzer.int_set`."""
    sets: dict[Var, SetLike] = {v: _between(v, d) if isinstance(d, Bound) else d for v, d in domains.items()}
    return eval_set(expr, sets, analyzer)


def _between(var: Var, bound: Bound) -> IntervalSet:
    low = None if bound.low is None else _fitting(bound.low, var.dtype)
    return IntervalSet(low, None if bound.high is None else _fitting(bound.high, var.dtype))


Analyzer.evaluate_set = _evaluate
