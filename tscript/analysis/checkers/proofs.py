"""What can be proven about the values of expressions at a site."""

from __future__ import annotations

from tscript.analysis.checkers.sites import Binding, Guard, Loop, Scope
from tscript.arith.analyzer import Analyzer, ProofStrength
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.expr import IntImm, PrimExpr, Range, Var
from tscript.ir.function import PrimFunc
from tscript.ir.occurrences import variables


class Proofs:
    """Analyzers that know what holds in each scope of a function; each is made once."""

    def __init__(self, func: PrimFunc) -> None:
        self._start = Analyzer()
        for size in size_variables(func):
            self._start.assume_positive(size)
        self._known: dict[Scope, Analyzer] = {}

    def at(self, scope: Scope | None) -> Analyzer:
        """The analyzer for what stands directly in `scope`."""
        missing: list[Scope] = []
        while scope is not None and scope not in self._known:
            missing.append(scope)
            scope = scope.outer
        found = self._start if scope is None else self._known[scope]
        for inner in reversed(missing):
            found = self._known[inner] = _with(found, inner)
        return found

    def lies_within(self, e: PrimExpr, limits: Range, scope: Scope | None) -> bool:
        """Whether `e` certainly lies in `limits`."""
        analyzer = self.at(scope)
        low, extent = analyzer.simplify(limits.min), analyzer.simplify(limits.extent)
        e = analyzer.simplify(e)
        bound = analyzer.bound(e)
        if isinstance(low, IntImm):
            above = bound.low is not None and bound.low >= low.value
            if above and isinstance(extent, IntImm) and bound.high is not None:
                if bound.high < low.value + extent.value:
                    return True
        else:
            above = False
        strength = ProofStrength.SYMBOLIC_BOUND
        if not above and not analyzer.can_prove(make.compare(ex.GE, e, low), strength):
            return False
        return analyzer.can_prove(make.compare(ex.LT, e, make.add(low, extent)), strength)


def size_variables(func: PrimFunc) -> dict[Var, None]:
    """The variables in the shapes of parameters. Arrays are taken to have elements."""
    found: dict[Var, None] = {}
    for p in func.params:
        buffer = func.buffer_map.get(p)
        if buffer is not None:
            found |= variables(*buffer.shape)
    return found


def _with(outer: Analyzer, scope: Scope) -> Analyzer:
    inner = outer.fork()
    match scope:
        case Loop():
            inner.bind(scope.var, Range.from_min_extent(scope.low, scope.extent))
            if not isinstance(scope.extent, IntImm):
                # Inside the loop there is an iteration.
                inner.context.add_condition(inner.simplify(make.compare(ex.GE, scope.extent, 1)))
        case Binding() if scope.var.dtype.is_integer and scope.var.dtype.lanes == 1:
            inner.bind(scope.var, scope.value)
        case Guard():
            condition = scope.condition if scope.holds else make.not_(scope.condition)
            inner.context.add_condition(inner.simplify(condition))
        case _:
            return outer
    return inner
