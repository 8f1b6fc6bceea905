"""Symbolic intervals: what values an index takes while some variables run over theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tscript.arith.analyzer import Analyzer
from tscript.arith.const_bound import Bound
from tscript.arith.int_set import IntervalSet, SetEvaluator, join
from tscript.ir.expr import PrimExpr, Var


@dataclass(frozen=True, slots=True)
class Interval:
    """The integers from `low` to `high`, both inclusive, given by expressions."""

    low: PrimExpr
    high: PrimExpr

    @property
    def is_point(self) -> bool:
        """Whether both ends are the same expression."""
        return self.low is self.high

    @staticmethod
    def point(e: PrimExpr) -> Interval:
        """Just the value of `e`."""
        return Interval(e, e)


@dataclass
class Domains:
    """Intervals of the variables to relax, and constant bounds of the others.

    `positive` holds expressions known to be at least 1 (extents of loops that run).
    """

    relaxed: Mapping[Var, Interval]
    bounds: Mapping[Var, Bound] = field(default_factory=dict[Var, Bound])
    positive: Mapping[PrimExpr, None] = field(default_factory=dict[PrimExpr, None])

    _seen: tuple[object, ...] = ()
    _analyzer: Analyzer = field(default_factory=Analyzer)

    def evaluator(self) -> SetEvaluator:
        """What evaluates expressions over these domains, as they are now."""
        seen = (*self.bounds.items(), *self.positive)
        if seen != self._seen:
            self._seen, self._analyzer = seen, Analyzer()
            for var, bound in self.bounds.items():
                self._analyzer.update(var, bound, override=True)
            for e in self.positive:
                self._analyzer.assume_positive(e)
        return SetEvaluator({v: IntervalSet(i.low, i.high) for v, i in self.relaxed.items()}, self._analyzer)

    def no_less(self, a: PrimExpr, b: PrimExpr) -> bool:
        """Whether `a >= b` is certain."""
        return self.evaluator().no_less(a, b)


def eval_interval(e: PrimExpr, domains: Domains) -> Interval | None:
    """The values `e` takes while the relaxed variables run over their intervals.

    Exact for sums of constant multiples of distinct variables, else an interval that holds all values;
    None when an end is not known (a load or call that depends on a relaxed variable, say).
    """
    return _closed(domains.evaluator().of(e))


def _closed(found: IntervalSet) -> Interval | None:
    if found.min_value is None or found.max_value is None:
        return None
    return Interval(found.min_value, found.max_value)


def union(a: Interval, b: Interval, domains: Domains) -> Interval:
    """The smallest interval that holds both; ends that cannot be compared give `min` and `max` expressions."""
    joined = _closed(join(IntervalSet(a.low, a.high), IntervalSet(b.low, b.high), domains.evaluator()))
    assert joined is not None
    return joined
