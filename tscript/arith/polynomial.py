"""Integer expressions as polynomials: products of sums multiplied out, factors in one order."""

from __future__ import annotations

from tscript.arith.forms import form_of, plus
from tscript.ir.expr import Mul, PrimExpr
from tscript.ir.linear import LinearForm

_TERM_LIMIT = 256


def expanded(form: LinearForm) -> LinearForm:
    """The form with its products multiplied out, as far as that stays small; `form` itself where it has none."""
    if not any(isinstance(t, Mul) for t in form[0]):
        return form
    order: dict[PrimExpr, int] = {}
    total: LinearForm = ({}, form[1])
    for t, c in form[0].items():
        total = plus(total, _product(t, order), c)
        if len(total[0]) > _TERM_LIMIT:
            return form
    return total


def _product(e: PrimExpr, order: dict[PrimExpr, int]) -> LinearForm:
    if not isinstance(e, Mul):
        order.setdefault(e, len(order))
        return {e: 1}, 0
    factors: list[PrimExpr] = []
    stack: list[PrimExpr] = [e]
    while stack:
        x = stack.pop()
        if isinstance(x, Mul):
            stack += [x.b, x.a]
        else:
            factors.append(x)
    monomials: dict[tuple[PrimExpr, ...], int] = {(): 1}
    for f in factors:
        terms, constant = form_of(f)
        for t in terms:
            order.setdefault(t, len(order))
        grown: dict[tuple[PrimExpr, ...], int] = {}
        for m, c in monomials.items():
            if constant:
                grown[m] = grown.get(m, 0) + c * constant
            for t, k in terms.items():
                longer = tuple(sorted((*m, t), key=lambda x: order[x]))
                grown[longer] = grown.get(longer, 0) + c * k
        monomials = grown
        if len(monomials) > _TERM_LIMIT:
            return {e: 1}, 0
    result: LinearForm = ({}, 0)
    for m, c in monomials.items():
        if not m:
            result = plus(result, ({}, c))
            continue
        made = m[0]
        for x in m[1:]:
            made = Mul(made, x)
        result = plus(result, _flattened(made), c)
    return result


def _flattened(e: PrimExpr) -> LinearForm:
    return {e: 1}, 0
