"""Integer linear forms: arithmetic on them, and the normal form in which sums are written.

The normal form of a sum has its terms by falling factor, so that positive ones come first, then a positive constant,
then what is taken off, a negative constant last. Of terms with one factor, quotients by constants come first, those of
larger divisors before others, and remainders last, those of smaller divisors after others; ties stay as written.
"""

from __future__ import annotations

import math
from itertools import pairwise
from operator import itemgetter
from typing import Final

from tscript.ir.dtype import DataType
from tscript.ir.expr import Add, Div, FloorDiv, FloorMod, IntImm, Mod, Mul, PrimExpr, Sub
from tscript.ir.linear import LinearForm, from_linear, linear_form

_SUMS = (Add, Sub, Mul)
_SHORT = 48
"""Operations of a sum that is expanded without looking for shared parts."""


def is_index(e: PrimExpr) -> bool:
    """Whether `e` is a signed scalar of index width, whose arithmetic is taken not to overflow."""
    dtype = e.dtype
    return dtype.is_int and dtype.bits >= 32 and dtype.lanes == 1


def form_of(e: PrimExpr) -> LinearForm:
    """The linear form of `e`, which others may hold too: not to be changed."""
    if isinstance(e, IntImm):
        return {}, e.value
    if not isinstance(e, _SUMS):
        return {e: 1}, 0
    terms: dict[PrimExpr, int] = {}
    constant = steps = 0
    stack: list[tuple[PrimExpr, int]] = [(e, 1)]
    while stack:
        x, scale = stack.pop()
        steps += 1
        if steps > _SHORT:
            # Long ones may share parts, which are best expanded once.
            return linear_form(e)
        if isinstance(x, IntImm):
            constant += scale * x.value
        elif isinstance(x, Add):
            stack += ((x.b, scale), (x.a, scale))
        elif isinstance(x, Sub):
            stack += ((x.b, -scale), (x.a, scale))
        elif isinstance(x, Mul) and isinstance(x.b, IntImm):
            stack.append((x.a, scale * x.b.value))
        elif isinstance(x, Mul) and isinstance(x.a, IntImm):
            stack.append((x.b, scale * x.a.value))
        else:
            # In the order of last appearance, as in `linear_form`.
            terms[x] = terms.pop(x, 0) + scale
    return ({t: c for t, c in terms.items() if c} if 0 in terms.values() else terms), constant


def plus(a: LinearForm, b: LinearForm, scale: int = 1) -> LinearForm:
    """`a + scale * b`.

    >>> plus(({}, 3), ({}, 4), -1)
    ({}, -1)
    """
    terms = dict(a[0])
    for t, c in b[0].items():
        total = terms.get(t, 0) + scale * c
        if total:
            terms[t] = total
        else:
            terms.pop(t, None)
    return terms, a[1] + scale * b[1]


def scaled(a: LinearForm, factor: int) -> LinearForm:
    """`factor * a`, for a factor that is not zero."""
    return {t: c * factor for t, c in a[0].items()}, a[1] * factor


def content(a: LinearForm) -> int:
    """The greatest common divisor of the factors of all terms, 0 where there are none."""
    return math.gcd(*a[0].values())


def positive_constant(e: PrimExpr) -> int | None:
    """The value of a constant above zero."""
    return e.value if isinstance(e, IntImm) and e.value > 0 else None


Split = tuple[PrimExpr, int, int | None]
"""`source % upper // lower`."""


def split_of(e: PrimExpr) -> Split | None:
    """`e` as a quotient, a remainder, or a quotient of a remainder, by constants that fit together."""
    if isinstance(e, FloorMod):
        upper = positive_constant(e.b)
        return None if upper is None else (e.a, 1, upper)
    if isinstance(e, FloorDiv):
        lower = positive_constant(e.b)
        if lower is None:
            return None
        if isinstance(e.a, FloorMod):
            upper = positive_constant(e.a.b)
            if upper is not None and upper % lower == 0:
                return e.a.a, lower, upper
        return e.a, lower, None
    return None


_UNLIMITED: Final = float("inf")


def _rank(t: PrimExpr, factor: int) -> tuple[int, int, int | float, bool]:
    """Where a term stands in a sum: low ranks come first."""
    if isinstance(t, (Div, Mod)):
        by = positive_constant(t.b)
        if by is None:
            return -factor, -1, -_UNLIMITED, False
        return (-factor, -by, -_UNLIMITED, True) if isinstance(t, Div) else (-factor, -1, -by, True)
    split = split_of(t)
    if split is None:
        return -factor, -1, -_UNLIMITED, False
    _, lower, upper = split
    return -factor, -lower, -_UNLIMITED if upper is None else -upper, False


def from_form(form: LinearForm, dtype: DataType) -> PrimExpr:
    """The sum in normal form. Raises ValueError where a constant does not fit in `dtype`."""
    terms, constant = form
    if len(terms) > 1:
        ranks = [_rank(t, c) for t, c in terms.items()]
        if any(a > b for a, b in pairwise(ranks)):
            order = sorted(zip(ranks, terms.items(), strict=True), key=itemgetter(0))
            terms = dict(item for _, item in order)
    return from_linear((terms, constant), dtype)
