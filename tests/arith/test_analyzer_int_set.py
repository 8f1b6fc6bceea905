"""`Analyzer.int_set`: sets of values, with what the analyzer knows."""

from __future__ import annotations

from tscript.arith import Analyzer, IntSet
from tscript.ir.expr import Range, Var


def test_variables_run_through_the_sets_that_are_given() -> None:
    i, n = Var("i"), Var("n")
    assert repr(Analyzer().int_set(i * 2 + n, {i: IntSet.interval(0, 3)})) == "IntervalSet[n, n + 6]"
    assert repr(Analyzer().int_set(i + 1, {i: Range(2, 5)})) == "IntervalSet[3, 5]"


def test_without_sets_variables_run_through_their_bounds() -> None:
    i, n = Var("i"), Var("n")
    analyzer = Analyzer()
    analyzer.bind(i, Range(0, 8))
    assert repr(analyzer.int_set(i * 3 + 1)) == "IntervalSet[1, 22]"
    assert repr(analyzer.int_set(i + n)) == "IntervalSet[n, n + 7]"
