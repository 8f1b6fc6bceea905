"""Normal forms of sums, of floor divisions and remainders by constants, and of comparisons.

Writing `N` for a linear form and `s(x, l, u)` for `x % u // l` (`u` may be absent):

- a sum merges `s(x, a, b) * k + s(x, b, c) * (k * b // a)` into `s(x, a, c) * k`, so `x // c * c + x % c` is `x`;
- `N // c` gives up the terms that `c` divides, then those that are too small to carry, then common factors;
- `N % c` likewise, and `x // a % b` is written `x % (a * b) // a`;
- a comparison has its positive terms left, its negative ones right, and no common factor.

Everything here gets operands that are in normal form, and returns None where there is nothing to do or where a
constant would not fit in the type.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tscript.arith.context import Context
from tscript.arith.forms import Split, content, form_of, from_form, plus, positive_constant, split_of
from tscript.arith.polynomial import expanded
from tscript.ir import construct as make
from tscript.ir.dtype import DataType, int_range
from tscript.ir.expr import FloorDiv, IntImm, Mul, PrimExpr
from tscript.ir.linear import LinearForm

NOTHING: LinearForm = ({}, 0)


def split_expr(source: PrimExpr, lower: int, upper: int | None) -> PrimExpr:
    """`source % upper // lower`. Raises ValueError where a constant does not fit."""
    dtype = source.dtype
    e = source if upper is None else make.floormod(source, IntImm(dtype, upper))
    return e if lower == 1 else make.floordiv(e, IntImm(dtype, lower))


# -- sums -----------------------------------------------------------------------------------------


def merge_splits(form: LinearForm) -> LinearForm:
    """The form with quotients and remainders of one number put together again, where the factors fit."""
    groups: dict[PrimExpr, dict[PrimExpr, Split]] = {}
    for t in form[0]:
        s = split_of(t)
        if s is not None:
            groups.setdefault(s[0], {})[t] = s
    if not groups:
        return form
    sums = _Merging(form, groups)
    waiting = dict.fromkeys(groups)
    while waiting:
        source = next(iter(waiting))
        del waiting[source]
        while sums.merge_once(source):
            pass
        # What was merged may be a quotient or remainder of another number.
        waiting.update(dict.fromkeys(sums.touched))
        sums.touched.clear()
    return sums.form


_MERGE_LIMIT = 20_000
"""Pairs of terms that one sum is searched for."""


class _Merging:
    """A sum whose splits, `groups` by what they are splits of, are being put together."""

    def __init__(self, form: LinearForm, groups: dict[PrimExpr, dict[PrimExpr, Split]]) -> None:
        self._given = form
        self._terms, self._constant = form
        self._groups = groups
        self._tries = _MERGE_LIMIT
        self.touched: list[PrimExpr] = []

    @property
    def form(self) -> LinearForm:
        """The sum as it is now."""
        return self._terms, self._constant

    def merge_once(self, source: PrimExpr) -> bool:
        """Put two splits of `source` together, or one with `source` itself; whether any fitted."""
        found = [(t, s) for t, s in self._groups[source].items() if t in self._terms]
        for i, (t, s) in enumerate(found):
            k = self._terms[t]
            for other, r in found[i + 1 :]:
                self._tries -= 1
                if self._tries < 0:
                    return False
                m = self._terms[other]
                joined = _joined(s, k, r, m) or _joined(r, m, s, k)
                if joined is not None:
                    (_, lower, upper), factor = joined
                    part = form_of(source) if lower == 1 and upper is None else _one(source, lower, upper)
                    self._replace({t: k, other: m}, 0, part, factor)
                    return True
            if self._with_source(t, k, s):
                return True
        return False

    def _with_source(self, t: PrimExpr, k: int, s: Split) -> bool:
        """`N * k - N // c * (k * c)` as `N % c * k`, and `N * k - N % c * k` as `N // c * (k * c)`."""
        source, lower, upper = s
        if (lower != 1 and upper is not None) or k % lower:
            return False
        factor = -k // lower
        whole = form_of(source)
        if not whole[0] or any(self._terms.get(x) != c * factor for x, c in whole[0].items()):
            return False
        old = {x: c * factor for x, c in whole[0].items()}
        old[t] = k
        if upper is None:
            self._replace(old, whole[1] * factor, _one(source, 1, lower), factor)
        else:
            self._replace(old, whole[1] * factor, _one(source, upper, None), factor * upper)
        return True

    def _replace(self, old: Mapping[PrimExpr, int], constant: int, new: LinearForm, factor: int) -> None:
        """Take off `old` and `constant`, add `factor` times `new`."""
        if self._terms is self._given[0]:
            # Others may hold the given form.
            self._terms = dict(self._terms)
        terms = self._terms
        for x in old:
            del terms[x]
        for x, c in new[0].items():
            total = terms.get(x, 0) + c * factor
            if not total:
                del terms[x]
                continue
            terms[x] = total
            s = split_of(x)
            if s is not None:
                self._groups.setdefault(s[0], {})[x] = s
                self.touched.append(s[0])
        self._constant += new[1] * factor - constant


def _one(source: PrimExpr, lower: int, upper: int | None) -> LinearForm:
    return {split_expr(source, lower, upper): 1}, 0


def _joined(s: Split, k: int, r: Split, m: int) -> tuple[Split, int] | None:
    """`s * k + r * m` as one split and factor."""
    source, low, high = s
    _, other_low, other_high = r
    # Upper part r continues s: it starts where s ends.
    if (
        high is not None
        and other_low == high
        and m * low == k * high
        and (other_high is None or other_high % high == 0)
    ):
        return (source, low, other_high), k
    # Taking the upper part off leaves the lower one.
    if high == other_high and other_low % low == 0 and other_low > low and m * low == -k * other_low:
        return (source, low, other_low), k
    # Taking the lower part off leaves the upper one.
    if low == other_low and m == -k and other_high is not None and (high is None or high % other_high == 0):
        if high != other_high:
            return (source, other_high, high), k * (other_high // low)
    return None


def canonical_sum(form: LinearForm, dtype: DataType) -> PrimExpr | None:
    """The sum in normal form. Products of sums are multiplied out where that leaves fewer terms."""
    try:
        merged = merge_splits(form)
        if len(merged[0]) > 1 and any(isinstance(t, Mul) for t in merged[0]):
            smaller = expanded(merged)
            if len(smaller[0]) < len(merged[0]):
                merged = merge_splits(smaller)
        return from_form(merged, dtype)
    except ValueError:
        return None


# -- division -------------------------------------------------------------------------------------


def canonical_floordiv(numerator: LinearForm, divisor: int, dtype: DataType, ctx: Context) -> PrimExpr | None:
    """`numerator // divisor` for a divisor above zero."""
    quotient: LinearForm = ({}, 0)
    rest = numerator
    while True:
        part, rest = _divided(rest, divisor)
        quotient = plus(quotient, part)
        b = ctx.form_bound(rest)
        if b.low is not None and b.high is not None and b.low // divisor == b.high // divisor:
            quotient = plus(quotient, ({}, b.low // divisor))
            rest = NOTHING
            break
        common = math.gcd(content(rest), divisor)
        if common > 1:
            rest = {t: c // common for t, c in rest[0].items()}, rest[1] // common
            divisor //= common
            continue
        carried = _without_small(rest, divisor, ctx)
        if carried is None:
            break
        rest, _, common = carried
        divisor //= common
    try:
        return _sum_of(quotient, _quotient(rest, divisor, dtype), dtype)
    except ValueError:
        return None


def _divided(form: LinearForm, divisor: int) -> tuple[LinearForm, LinearForm]:
    """Quotient and rest of a form, term by term."""
    terms, constant = form
    whole = {t: c // divisor for t, c in terms.items() if c % divisor == 0}
    return (whole, constant // divisor), ({t: c for t, c in terms.items() if c % divisor}, constant % divisor)


def _without_small(form: LinearForm, divisor: int, ctx: Context) -> tuple[LinearForm, LinearForm, int] | None:
    """`form` as `common * high + low` with `0 <= low < common` and `common` dividing `divisor`: (high, low, common)."""
    terms, constant = form
    if len(terms) < 2 and not (constant and terms):
        return None
    for common in dict.fromkeys(math.gcd(c, divisor) for c in terms.values()):
        if common == 1:
            continue
        small = {t: c for t, c in terms.items() if c % common}, constant
        b = ctx.form_bound(small)
        if b.low is not None and b.high is not None and b.low // common == b.high // common:
            carry = b.low // common
            high = {t: c // common for t, c in terms.items() if c % common == 0}, carry
            return high, (small[0], constant - carry * common), common
    return None


def _quotient(rest: LinearForm, divisor: int, dtype: DataType) -> PrimExpr | None:
    """The node for `rest // divisor`, None for zero."""
    terms, constant = rest
    if divisor == 1:
        return from_form(rest, dtype)
    if not terms:
        return IntImm(dtype, constant // divisor) if constant // divisor else None
    if len(terms) == 1:
        ((t, c),) = terms.items()
        if c == 1 and isinstance(t, FloorDiv) and (inner := positive_constant(t.b)) is not None:
            # (x // d + k) // c is (x + k * d) // (c * d).
            if inner * divisor <= int_range(dtype)[1]:
                whole = from_form(plus(form_of(t.a), ({}, constant * inner)), dtype)
                return make.floordiv(whole, IntImm(dtype, inner * divisor))
    return make.floordiv(from_form(rest, dtype), IntImm(dtype, divisor))


def _sum_of(form: LinearForm, extra: PrimExpr | None, dtype: DataType) -> PrimExpr:
    if extra is not None:
        form = plus(form, form_of(extra))
    return from_form(merge_splits(form), dtype)


# -- remainder ------------------------------------------------------------------------------------


def canonical_floormod(numerator: LinearForm, divisor: int, dtype: DataType, ctx: Context) -> PrimExpr | None:
    """`numerator % divisor` for a divisor above zero: a sum of `factor * (rest % divisor)` and what is too small."""
    outside: LinearForm = ({}, 0)
    factor = 1
    rest = numerator
    while True:
        b = ctx.form_bound(rest)
        if b.low is not None and b.high is not None and b.low // divisor == b.high // divisor:
            outside = plus(outside, plus(rest, ({}, -(b.low // divisor) * divisor)), factor)
            rest = NOTHING
            break
        reduced = _reduced(rest, divisor)
        if reduced != rest:
            rest = reduced
            continue
        common = math.gcd(content(rest), divisor)
        if common > 1:
            outside = plus(outside, ({}, rest[1] % common), factor)
            rest = {t: c // common for t, c in rest[0].items()}, rest[1] // common
            divisor //= common
            factor *= common
            continue
        carried = _without_small(rest, divisor, ctx)
        if carried is None:
            known = _known_rest(rest, divisor, ctx)
            if known is not None:
                outside = plus(outside, ({}, known), factor)
                rest = NOTHING
            break
        rest, low, common = carried
        outside = plus(outside, low, factor)
        divisor //= common
        factor *= common
    try:
        node = _remainder(rest, divisor, dtype)
        if node is not None:
            outside = plus(outside, form_of(node), factor)
        return from_form(merge_splits(outside), dtype)
    except ValueError:
        return None


def _reduced(form: LinearForm, divisor: int) -> LinearForm:
    """A form with the same remainder: smaller factors, and no remainders inside that the outer one repeats."""
    terms, constant = form
    result: LinearForm = ({}, constant)
    for t, c in terms.items():
        smaller = c % divisor if c >= divisor else -(-c % divisor) if c <= -divisor else c
        if smaller == 0:
            continue
        s = split_of(t)
        if s is not None and s[2] is not None and s[2] // s[1] * smaller % divisor == 0:
            try:
                inner = form_of(s[0]) if s[1] == 1 else ({split_expr(s[0], s[1], None): 1}, 0)
            except ValueError:
                inner = ({t: 1}, 0)
            result = plus(result, inner, smaller)
        else:
            result = plus(result, ({t: 1}, 0), smaller)
    return result[0], result[1] % divisor


def _known_rest(form: LinearForm, divisor: int, ctx: Context) -> int | None:
    """The remainder, where remainders of the terms settle it."""
    total = form[1]
    for t, c in form[0].items():
        r = ctx.residue(t)
        if c * r.coeff % divisor:
            return None
        total += c * r.base
    return total % divisor


def _remainder(rest: LinearForm, divisor: int, dtype: DataType) -> PrimExpr | None:
    terms, constant = rest
    if divisor == 1:
        return None
    if not terms:
        return IntImm(dtype, constant % divisor) if constant % divisor else None
    if len(terms) == 1:
        ((t, c),) = terms.items()
        if c == 1 and isinstance(t, FloorDiv) and (inner := positive_constant(t.b)) is not None:
            # (x // d + k) % c is (x + k * d) % (c * d) // d.
            source, upper = t.a, inner * divisor
            if upper <= int_range(dtype)[1]:
                whole = from_form(plus(form_of(source), ({}, constant * inner)), dtype)
                return split_expr(whole, inner, upper)
    return make.floormod(from_form(rest, dtype), IntImm(dtype, divisor))
