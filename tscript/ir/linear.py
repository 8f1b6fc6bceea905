"""Integer expressions as sums of constant multiples of terms, exactly as far as their form shows it.

Only signed index arithmetic is treated so: it is assumed not to overflow (see the semantics page).
"""

from __future__ import annotations

from typing import Final

from tscript.ir.dtype import DataType
from tscript.ir.expr import Add, Cast, IntImm, Mul, PrimExpr, Sub

LinearForm = tuple[dict[PrimExpr, int], int]
"""Terms with their non-zero factors, in order of last appearance, and the constant."""


def linear_form(expr: PrimExpr) -> LinearForm:
    """Split `expr` into terms that are no sums or constant multiples themselves, and a constant."""
    if isinstance(expr, IntImm):
        return {}, expr.value
    if not isinstance(expr, (Add, Sub, Mul)):
        return {expr: 1}, 0
    found = _expanded(expr, {}, _FEW)
    if found is None:
        known: dict[PrimExpr, LinearForm] = {}
        for e in _shared_sums(expr):
            known[e] = _expanded(e, known) or _NOTHING
        found = _expanded(expr, known) or _NOTHING
    terms, constant = found
    return (terms if all(terms.values()) else {t: c for t, c in terms.items() if c}), constant


def _summands(e: PrimExpr, scale: int) -> list[tuple[PrimExpr, int]] | None:
    """The parts of a sum or constant multiple, the last one first; None for a term."""
    match e:
        case Add():
            return [(e.b, scale), (e.a, scale)]
        case Sub():
            return [(e.b, -scale), (e.a, scale)]
        case Mul(a=a, b=IntImm(value=c)) | Mul(a=IntImm(value=c), b=a):
            return [(a, scale * c)]
        case _:
            return None


def _shared_sums(expr: PrimExpr) -> list[PrimExpr]:
    """Sums that stand at several places, inner ones first: expanding each place anew could take forever."""
    seen: set[PrimExpr] = set()
    shared: set[PrimExpr] = set()
    finished: list[PrimExpr] = []
    stack: list[tuple[PrimExpr, bool]] = [(expr, False)]
    while stack:
        e, done = stack.pop()
        if done:
            finished.append(e)
        elif e in seen:
            shared.add(e)
        elif (parts := _summands(e, 1)) is not None:
            seen.add(e)
            stack.append((e, True))
            stack.extend((part, False) for part, _ in parts)
    return [e for e in finished if e in shared] if shared else []


_FEW: Final = 64
_NOTHING: Final[LinearForm] = ({}, 0)


def _expanded(expr: PrimExpr, known: dict[PrimExpr, LinearForm], most: int | None = None) -> LinearForm | None:
    """The form of a sum, some parts of which are `known`; None where that takes more than `most` steps."""
    terms: dict[PrimExpr, int] = {}
    constant = 0
    stack: list[tuple[PrimExpr, int]] = [(expr, 1)]
    while stack:
        e, scale = stack.pop()
        if most is not None:
            if most == 0:
                return None
            most -= 1
        if isinstance(e, IntImm):
            constant += scale * e.value
        elif e in known:
            for t, c in known[e][0].items():
                terms[t] = terms.pop(t, 0) + scale * c
            constant += scale * known[e][1]
        elif (parts := _summands(e, scale)) is not None:
            stack += parts
        else:
            # Taken out and put back, so that the order is that of the last appearance: it makes
            # `start + (stop - start) - start` come out in the order of `stop - start`.
            terms[e] = terms.pop(e, 0) + scale
    return terms, constant


def difference(a: PrimExpr, b: PrimExpr) -> LinearForm:
    """The form of `a - b`; terms in the order of `a`, then those only in `b`."""
    terms, constant = linear_form(a)
    other, other_constant = linear_form(b)
    for t, c in other.items():
        terms[t] = terms.get(t, 0) - c
    return {t: c for t, c in terms.items() if c != 0}, constant - other_constant


def from_linear(form: LinearForm, dtype: DataType) -> PrimExpr:
    """An expression for `form`: what is added, the constant last, then what is taken off, the constant last."""
    terms, constant = form
    result: PrimExpr | None = None
    for t, c in terms.items():
        if c > 0:
            part = _times(t, c, dtype)
            result = part if result is None else Add(result, part)
    if constant > 0:
        result = IntImm(dtype, constant) if result is None else Add(result, IntImm(dtype, constant))
    for t, c in terms.items():
        if c < 0:
            result = _times(t, c, dtype) if result is None else Sub(result, _times(t, -c, dtype))
    if result is None:
        return IntImm(dtype, constant)
    return Sub(result, IntImm(dtype, -constant)) if constant < 0 else result


def _times(term: PrimExpr, factor: int, dtype: DataType) -> PrimExpr:
    if term.dtype is not dtype:
        term = Cast(dtype, term)
    return term if factor == 1 else Mul(term, IntImm(dtype, factor))
