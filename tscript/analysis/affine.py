"""Whether the bindings of a block form an affine map of its loops: each axis a compact digit string of loop digits.

A digit is `(loop // lower) % extent`. A binding is affine when its digits, by rising scale, follow one another
without gap or overlap; the bindings of a block together are when each loop's digits are used once and completely.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tscript.analysis.ranges import range_bounds
from tscript.arith import simplify
from tscript.ir import construct as make
from tscript.ir.expr import LT, Add, FloorDiv, FloorMod, IntImm, PrimExpr, Range, Var
from tscript.ir.functor import Rewriter, pre_order_visit
from tscript.ir.linear import linear_form
from tscript.ir.occurrences import mentions


@dataclass(frozen=True, slots=True)
class Digit:
    """`(var // lower) % extent`, where `var` counts from its start."""

    var: Var
    lower: int
    extent: int


@dataclass(frozen=True, slots=True)
class DigitString:
    """`base` plus digits times scales, by rising scale: it takes `count` values, `scale` apart, each of them once.

    `whole` is a variable of unknown extent that stands above the digits.
    """

    base: PrimExpr
    digits: tuple[tuple[Digit, int], ...]
    count: PrimExpr
    scale: int
    whole: Var | None = None


def find_digits(expr: PrimExpr, domain: Mapping[Var, Range], as_set: bool = False) -> DigitString | None:
    """`expr` as a compact string of digits of the variables of `domain`; other variables count as constants.

    With `as_set`, only the values that `expr` takes matter, not where it takes which: then loops may run backwards.
    """
    if isinstance(expr, Var) and (known := _constant_range(domain.get(expr))) is not None:
        # Most bindings are just a loop variable.
        start, count = known
        return DigitString(start, ((Digit(expr, 1, count.value), 1),) if count.value != 1 else (), count, 1)
    terms, constant = linear_form(expr)
    if not all(isinstance(t, Var) or _divides_variable(t) for t in terms):
        expr = simplify(expr, range_bounds(domain))
        terms, constant = linear_form(expr)
    base: PrimExpr = IntImm(expr.dtype, constant)
    digits: list[tuple[Digit, int]] = []
    whole: tuple[Var, int] | None = None
    for term, factor in terms.items():
        if not mentions(term, domain):
            base = base + term * factor
            continue
        if factor < 0 and not as_set:
            return None
        if isinstance(term, Var):
            start = domain[term].min
            if mentions(start, domain) or mentions(domain[term].extent, domain):
                return None
            base = base if _is_zero(start) else base + start * factor
            extent = domain[term].extent
            if _extent(domain[term]) is None:
                if whole is not None:
                    return None
                whole = term, abs(factor)
                base = base + (extent - 1) * factor if factor < 0 else base
                continue
        found = _term_digits(term, domain)
        if found is None:
            return None
        for d, s in found:
            if d.extent != 1:
                digits.append((d, s * abs(factor)))
                base = base + s * factor * (d.extent - 1) if factor < 0 else base
    digits.sort(key=lambda item: item[1])
    reach = scale = digits[0][1] if digits else whole[1] if whole is not None else 1
    for d, s in digits:
        if s != reach:
            return None
        reach = s * d.extent
    base = base if isinstance(base, IntImm) else simplify(base, range_bounds(domain))
    if whole is None:
        return DigitString(base, tuple(digits), IntImm(expr.dtype, reach // scale), scale)
    # A variable of unknown extent can only stand above the others.
    if reach != whole[1]:
        return None
    count = simplify(domain[whole[0]].extent * (reach // scale))
    return DigitString(base, tuple(digits), count, scale, whole[0])


def _term_digits(term: PrimExpr, domain: Mapping[Var, Range]) -> list[tuple[Digit, int]] | None:
    if isinstance(term, Var):
        extent = _extent(domain[term])
        return None if extent is None else [(Digit(term, 1, extent), 1)]
    if not (isinstance(term, (FloorDiv, FloorMod)) and isinstance(term.b, IntImm) and term.b.value > 0):
        return None
    inner = find_digits(term.a, domain)
    if inner is None or inner.whole is not None or inner.scale != 1 or not _is_zero(inner.base):
        return None
    cut = _cut(inner.digits, term.b.value)
    if cut is None:
        return None
    low, high = cut
    return high if isinstance(term, FloorDiv) else low


def _cut(
    digits: Iterable[tuple[Digit, int]], at: int
) -> tuple[list[tuple[Digit, int]], list[tuple[Digit, int]]] | None:
    """The digits below and from `at` on, splitting one that spans it."""
    low: list[tuple[Digit, int]] = []
    high: list[tuple[Digit, int]] = []
    for d, scale in digits:
        if scale * d.extent <= at:
            low.append((d, scale))
        elif scale >= at:
            if scale % at:
                return None
            high.append((d, scale // at))
        else:
            if at % scale or d.extent % (at // scale):
                return None
            part = at // scale
            low.append((Digit(d.var, d.lower, part), scale))
            high.append((Digit(d.var, d.lower * part, d.extent // part), 1))
    return low, high


def join_limited(
    exprs: Sequence[PrimExpr], conditions: Sequence[PrimExpr], domain: Mapping[Var, Range]
) -> tuple[list[PrimExpr], list[PrimExpr], dict[Var, Range]]:
    """Expressions, conditions and domain with sums of whole loops replaced by variables of their own.

    Where loops together count from zero on and `sum < n` cuts off what is too much, the sum is as good as one loop of
    extent `n`; the condition is then used up. So is a sum whose quotient and rest cut across the loops it is made of.
    """
    join = _Join(list(exprs), list(conditions), dict(domain))
    for c in conditions:
        if isinstance(c, LT) and isinstance(c.a, Add) and isinstance(c.b, IntImm):
            join.replace(c.a, c.b.value, c)
    for total in [q.a for e in exprs for q in _quotients(e)]:
        if isinstance(total, Add):
            join.replace(total, None, None)
    return join.exprs, join.conditions, join.domain


@dataclass
class _Join:
    exprs: list[PrimExpr]
    conditions: list[PrimExpr]
    domain: dict[Var, Range]

    def replace(self, total: PrimExpr, limit: int | None, condition: PrimExpr | None) -> None:
        """Replace a sum everywhere, if it is one of whole loops and these are used nowhere else."""
        string = find_digits(total, self.domain)
        if string is None or string.whole is not None or string.scale != 1 or not _is_zero(string.base):
            return
        parts: dict[Var, list[Digit]] = {}
        for d, _ in string.digits:
            parts.setdefault(d.var, []).append(d)
        count = string.count.value if isinstance(string.count, IntImm) else 0
        limit = count if limit is None else limit
        if not 0 < limit <= count or not all(_is_complete(ds, self.domain[v]) for v, ds in parts.items()):
            return
        joined = Var("joined", total.dtype)
        swap = _ReplaceSum(total, joined)
        exprs = [swap.rewrite(e) for e in self.exprs]
        conditions = [swap.rewrite(c) for c in self.conditions if c is not condition]
        if any(mentions(e, parts) for e in (*exprs, *conditions)):
            return
        self.exprs, self.conditions = exprs, conditions
        self.domain = {v: r for v, r in self.domain.items() if v not in parts}
        self.domain[joined] = Range.from_min_extent(IntImm(total.dtype, 0), IntImm(total.dtype, limit))


class _ReplaceSum(Rewriter):
    """Puts a variable for a sum, in whatever order its terms are written, also where only its rest matters."""

    def __init__(self, total: PrimExpr, var: Var) -> None:
        super().__init__()
        self.form = linear_form(total)
        self.var = var

    def rewrite_Add(self, node: Add) -> PrimExpr:
        """The variable, if this is the sum."""
        return self.var if linear_form(node) == self.form else self.rewrite_children(node)

    def rewrite_FloorMod(self, node: FloorMod) -> PrimExpr:
        """The rest of the variable, if this is the rest of the sum: its factors may have been reduced."""
        terms, constant = linear_form(node.a)
        if isinstance(node.b, IntImm) and node.b.value > 0:
            by = node.b.value
            gaps = [terms.get(t, 0) - self.form[0].get(t, 0) for t in {**terms, **self.form[0]}]
            if all(g % by == 0 for g in (*gaps, constant - self.form[1])):
                return FloorMod(self.var, node.b)
        return self.rewrite_children(node)


def _quotients(e: PrimExpr) -> list[FloorDiv]:
    found: list[FloorDiv] = []

    def look(node: object) -> bool:
        if isinstance(node, FloorDiv):
            found.append(node)
        return True

    pre_order_visit(e, look)
    return found


def is_affine_map(values: Iterable[PrimExpr], domain: Mapping[Var, Range]) -> bool:
    """Whether `values` are compact strings of digits that use each variable's digits at most once, and completely.

    A variable that no value uses is allowed, as are values without any variable.
    """
    used: dict[Var, list[Digit]] = {}
    whole: set[Var] = set()
    for value in values:
        found = find_digits(value, domain)
        if found is None or found.scale != 1:
            return False
        if found.whole is not None:
            if found.whole in whole:
                return False
            whole.add(found.whole)
        for d, _ in found.digits:
            used.setdefault(d.var, []).append(d)
    return all(var not in whole and _is_complete(digits, domain[var]) for var, digits in used.items())


def tell_all(strings: Sequence[DigitString], domain: Mapping[Var, Range]) -> bool:
    """Whether independent strings together have all digits of each variable of a domain, so that they determine it."""
    for var, r in domain.items():
        if make.is_const_int(r.extent, 1) or any(s.whole is var for s in strings):
            continue
        count = 1
        for s in strings:
            for d, _ in s.digits:
                count *= d.extent if d.var is var else 1
        if not make.is_const_int(r.extent, count):
            return False
    return True


def are_independent(strings: Iterable[DigitString]) -> bool:
    """Whether no digit is shared, so that every combination of values occurs."""
    used: dict[Var, list[Digit]] = {}
    whole: set[Var] = set()
    for string in strings:
        if string.whole is not None:
            if string.whole in whole:
                return False
            whole.add(string.whole)
        for d, _ in string.digits:
            used.setdefault(d.var, []).append(d)
    for digits in used.values():
        digits.sort(key=lambda d: d.lower)
        if any(b.lower < a.lower * a.extent for a, b in pairwise(digits)):
            return False
    return True


def _is_complete(digits: list[Digit], domain: Range) -> bool:
    digits.sort(key=lambda d: d.lower)
    reach = 1
    for d in digits:
        if d.lower != reach:
            return False
        reach *= d.extent
    return reach == _extent(domain)


def _divides_variable(term: PrimExpr) -> bool:
    return isinstance(term, (FloorDiv, FloorMod)) and isinstance(term.a, Var) and isinstance(term.b, IntImm)


def _constant_range(r: Range | None) -> tuple[IntImm, IntImm] | None:
    return (r.min, r.extent) if r is not None and isinstance(r.min, IntImm) and isinstance(r.extent, IntImm) else None


def _extent(r: Range) -> int | None:
    return r.extent.value if isinstance(r.extent, IntImm) else None


def _is_zero(e: PrimExpr) -> bool:
    return isinstance(e, IntImm) and e.value == 0
