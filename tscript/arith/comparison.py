"""Comparisons of index expressions: decided by what is known, else written in normal form.

The normal form has positive terms left and negative ones right, the constant on the right unless nothing else
stands there, no common factor, and neither `>` nor `>=`.
"""

from __future__ import annotations

from tscript.arith.canonical import merge_splits
from tscript.arith.context import Context
from tscript.arith.forms import content, form_of, from_form, is_index, plus, scaled
from tscript.ir import expr as ex
from tscript.ir.dtype import BOOL, DataType
from tscript.ir.expr import IntImm, PrimExpr
from tscript.ir.linear import LinearForm

TRUE = IntImm(BOOL, 1)
FALSE = IntImm(BOOL, 0)


def gap_of(e: ex.CmpExpr) -> LinearForm:
    """`e.a - e.b`."""
    return merge_splits(plus(form_of(e.a), form_of(e.b), -1))


def canonical_comparison(e: ex.CmpExpr, ctx: Context) -> PrimExpr | None:
    """The truth of `e` where it is certain, else its normal form."""
    truth = ctx.truths.get(e)
    if truth is not None:
        return TRUE if truth else FALSE
    kind: type[ex.CmpExpr] = type(e)
    try:
        gap = gap_of(e)
        if kind is ex.GT or kind is ex.GE:
            gap, kind = scaled(gap, -1), ex.LT if kind is ex.GT else ex.LE
        made = _ordered(kind, gap, e.a.dtype, ctx) if kind in (ex.LT, ex.LE) else _equality(kind, gap, e.a.dtype, ctx)
    except ValueError:
        return None
    truth = ctx.truths.get(made)
    return made if truth is None else TRUE if truth else FALSE


def is_negative(gap: LinearForm, ctx: Context, depth: int = 1) -> bool:
    """Whether `gap < 0` is certain."""
    terms, constant = scaled(gap, -1)
    return ctx.is_nonneg((terms, constant - 1), depth)


def _ordered(kind: type[ex.CmpExpr], gap: LinearForm, dtype: DataType, ctx: Context) -> PrimExpr:
    """`gap < 0` or `gap <= 0`."""
    strict = kind is ex.LT
    limit = gap if strict else (gap[0], gap[1] - 1)  # limit < 0 says the same
    if is_negative(limit, ctx):
        return TRUE
    if ctx.is_nonneg(limit):
        return FALSE
    while True:
        smaller = _reduced(limit, ctx)
        if smaller is None:
            break
        limit = smaller
    terms, constant = limit
    mixed = len({c > 0 for c in terms.values()}) == 2
    if mixed:
        # Between terms, take whichever of < and <= needs no constant.
        strict = strict if constant not in (-1, 0) else constant == 0
    return _written(ex.LT if strict else ex.LE, (terms, constant if strict else constant + 1), dtype)


def _reduced(limit: LinearForm, ctx: Context) -> LinearForm | None:
    """A form that is negative exactly when `limit` is, with smaller factors or fewer terms."""
    terms, constant = limit
    common = content(limit)
    if common > 1:
        # g * X + c < 0 where X + floor(c / g) < 0.
        return {t: c // common for t, c in terms.items()}, constant // common
    if len(terms) < 2:
        return None
    for factor in dict.fromkeys(abs(c) for c in terms.values()):
        if factor == 1:
            continue
        small = {t: c for t, c in terms.items() if c % factor}, constant
        if not small[0] or len(small[0]) == len(terms):
            continue
        b = ctx.form_bound(small)
        if b.low is not None and b.high is not None and b.low // factor == b.high // factor:
            return {t: c // factor for t, c in terms.items() if c % factor == 0}, b.low // factor
    return None


def _equality(kind: type[ex.CmpExpr], gap: LinearForm, dtype: DataType, ctx: Context) -> PrimExpr:
    yes, no = (TRUE, FALSE) if kind is ex.EQ else (FALSE, TRUE)
    terms, constant = gap
    if not terms:
        return yes if constant == 0 else no
    if is_negative(gap, ctx) or is_negative(scaled(gap, -1), ctx):
        return no
    if ctx.is_nonneg(gap) and ctx.is_nonneg(scaled(gap, -1)):
        return yes
    common = content(gap)
    if constant % common:
        return no
    if common > 1:
        terms, constant = {t: c // common for t, c in terms.items()}, constant // common
    if _differs_by_remainder((terms, constant), ctx):
        return no
    if all(c < 0 for c in terms.values()):
        terms, constant = scaled((terms, constant), -1)
    return _written(kind, (terms, constant), dtype)


def _differs_by_remainder(gap: LinearForm, ctx: Context) -> bool:
    """Whether remainders show that the form is never zero."""
    terms, constant = gap
    whole = ctx.residue(from_form((terms, 0), next(iter(terms)).dtype))
    total = whole.base + constant
    return bool(total) if whole.coeff == 0 else total % whole.coeff != 0


def _written(kind: type[ex.CmpExpr], gap: LinearForm, dtype: DataType) -> PrimExpr:
    """`gap <kind> 0` with terms on the sides where they are positive."""
    terms, constant = gap
    left = {t: c for t, c in terms.items() if c > 0}
    right = {t: -c for t, c in terms.items() if c < 0}
    if left:
        return kind(from_form((left, 0), dtype), from_form((right, -constant), dtype))
    return kind(IntImm(dtype, constant), from_form((right, 0), dtype))


def nonneg_forms(e: PrimExpr) -> list[LinearForm] | None:
    """Forms that are all at least zero exactly when the comparison `e` holds; None for other conditions.

    Unsigned and narrow arithmetic wraps, so that its comparisons say nothing about linear forms.
    """
    if not (isinstance(e, ex.CmpExpr) and is_index(e.a)):
        return None
    gap = plus(form_of(e.b), form_of(e.a), -1)
    match e:
        case ex.LT():
            return [(gap[0], gap[1] - 1)]
        case ex.LE():
            return [gap]
        case ex.GT() | ex.GE():
            gap = scaled(gap, -1)
            return [gap if isinstance(e, ex.GE) else (gap[0], gap[1] - 1)]
        case ex.EQ():
            return [gap, scaled(gap, -1)]
        case _:
            return None


def implies(a: PrimExpr, b: PrimExpr, ctx: Context) -> bool:
    """Whether `b` holds wherever the comparison `a` does, as forms and bounds show."""
    if a is b:
        return True
    given, wanted = nonneg_forms(a), nonneg_forms(b)
    if given is None or wanted is None:
        return False
    return all(any(_follows(g, w, ctx) for g in given) for w in wanted)


def _follows(given: LinearForm, wanted: LinearForm, ctx: Context) -> bool:
    # wanted = given + rest, rest >= 0. Only where they share terms, lest this repeat what bounds alone decide.
    if not any(t in wanted[0] for t in given[0]):
        return False
    low = ctx.form_bound(plus(wanted, given, -1)).low
    return low is not None and low >= 0


def negated(e: PrimExpr) -> PrimExpr | None:
    """The opposite of a comparison of index expressions, as a comparison."""
    match e:
        case ex.LT():
            return ex.LE(e.b, e.a)
        case ex.LE():
            return ex.LT(e.b, e.a)
        case ex.GT():
            return ex.LE(e.a, e.b)
        case ex.GE():
            return ex.LT(e.a, e.b)
        case ex.EQ():
            return ex.NE(e.a, e.b)
        case ex.NE():
            return ex.EQ(e.a, e.b)
        case _:
            return None
