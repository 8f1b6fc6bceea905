"""Proofs that iterations of loops never meet at an element, by the dependence analysis."""

from __future__ import annotations

from collections.abc import Sequence

from tscript.analysis.checkers.proofs import Proofs
from tscript.analysis.checkers.sites import WRITE, Binding, Loop, Site
from tscript.analysis.dependence import Access, keeps_apart
from tscript.arith.region import point_region
from tscript.ir.expr import PrimExpr, Range, Var
from tscript.ir.functor import substitute


def always_apart(a: Site, b: Site, loops: Sequence[Loop], proofs: Proofs) -> bool:
    """Whether `a` and `b` touch different elements in any two different iterations of `loops`.

    Iterations of the loops around `loops` are taken to be the same ones.
    """
    first, second = _access(a, loops, proofs), _access(b, loops, proofs)
    return all(keeps_apart(loop.var, first, second) for loop in loops)


def _access(site: Site, loops: Sequence[Loop], proofs: Proofs) -> Access:
    """The element that `site` touches, in terms of `loops` and those inside."""
    values: dict[Var, PrimExpr] = {}
    domain: dict[Var, Range] = {}
    for scope in site.scopes():
        if isinstance(scope, Loop) and (domain or scope is loops[0]):
            domain[scope.var] = Range.from_min_extent(substitute(scope.low, values), substitute(scope.extent, values))
        elif isinstance(scope, Binding):
            values[scope.var] = substitute(scope.value, values)
    analyzer = proofs.at(loops[-1])
    base = [analyzer.simplify(substitute(i, values)) for i in site.base or ()]
    return Access(None, site.memory, tuple(point_region(base)), site.role == WRITE, domain)
