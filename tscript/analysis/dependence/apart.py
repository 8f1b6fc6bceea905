"""Whether two accesses are kept apart by a loop: overlapping elements are touched only in the same iteration of it.

A proof over index expressions: what of them depends on the loop alone must tell its iterations apart, and everything
else must be equal for both, or too small to make up for the difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd
from typing import Final

from tscript.analysis.affine import Digit, find_digits
from tscript.analysis.dependence.accesses import Access
from tscript.arith import const_bound, simplify
from tscript.ir.expr import FloorDiv, FloorMod, IntImm, Mul, PrimExpr, Range, Var
from tscript.ir.linear import difference, from_linear, linear_form
from tscript.ir.occurrences import reads_memory, variables


def keeps_apart(var: Var, a: Access, b: Access) -> bool:
    """Whether `a` and `b` touch the same element only in the same iteration of the loop over `var`."""
    if a.buffer is not b.buffer:
        return False
    if var not in a.domain:
        return False
    extent = a.domain[var].extent
    count = extent.value if isinstance(extent, IntImm) else None
    if count is not None and count <= 1:
        return True
    # Bindings are simple as a rule; where that does not do, they are simplified first.
    return _tells_apart(var, a, b, count, False) or _tells_apart(var, a, b, count, True)


def _tells_apart(var: Var, a: Access, b: Access, count: int | None, simplifying: bool) -> bool:
    digits: list[Digit] = []
    for x, y in [*zip(a.region, b.region, strict=True), *_joined(a, b)]:
        found = _shared_part(var, (x, a), (y, b), simplifying)
        if found is None:
            continue
        if isinstance(found, Var):
            return True
        digit = _digit(found, var)
        if digit is not None:
            digits.append(digit)
            continue
        string = find_digits(found, {var: a.domain[var]})
        if string is not None:
            if string.whole is not None:
                return True
            digits += [d for d, _ in string.digits]
    return _covers(digits, count)


def _joined(a: Access, b: Access) -> list[tuple[Range, Range]]:
    """What subscripts say together: where `x // n` and `x % n` are equal for both accesses, so is `x`."""
    known: list[tuple[PrimExpr, PrimExpr]] = [
        (x.min, y.min)
        for x, y in zip(a.region, b.region, strict=True)
        if _is_one(x.extent) and _is_one(y.extent) and isinstance(x.min, (FloorDiv, FloorMod))
    ]
    found: list[tuple[Range, Range]] = []
    # Each pair gives one more, which may be half of a pair itself.
    while (pair := next(_pairs(known, a, b), None)) is not None:
        known.append(pair)
        found.append((_only(pair[0]), _only(pair[1])))
    return found


def _pairs(known: list[tuple[PrimExpr, PrimExpr]], a: Access, b: Access) -> Iterator[tuple[PrimExpr, PrimExpr]]:
    for x, y in known:
        if not (isinstance(x, FloorDiv) and isinstance(y, FloorDiv) and x.b is y.b):
            continue
        if reads_memory(x.b) or any(v in a.domain or v in b.domain for v in variables(x.b)):
            continue
        if any(p is x.a and q is y.a for p, q in known):
            continue
        if any(_is_remainder(p, x) and _is_remainder(q, y) for p, q in known):
            yield x.a, y.a


def _is_remainder(e: PrimExpr, quotient: FloorDiv) -> bool:
    """Whether `e` is what the division leaves. Of `x % (m * n) // n` that is `x % n` as well."""
    if not isinstance(e, FloorMod) or e.b is not quotient.b:
        return False
    inner = quotient.a
    return e.a is inner or (isinstance(inner, FloorMod) and e.a is inner.a and _is_multiple(inner.b, e.b))


def _is_multiple(e: PrimExpr, of: PrimExpr) -> bool:
    return e is of or (isinstance(e, Mul) and (_is_multiple(e.a, of) or _is_multiple(e.b, of)))


def _only(e: PrimExpr) -> Range:
    return Range.from_min_extent(e, IntImm(e.dtype, 1))


def _is_one(e: PrimExpr) -> bool:
    return isinstance(e, IntImm) and e.value == 1


def _digit(e: PrimExpr, var: Var) -> Digit | None:
    """`var // a`, `var % b`, `var // a % b` or `var % (a * b) // a` as a digit, where `var` is not negative."""
    match e:
        case FloorMod(a=FloorDiv(a=v, b=IntImm(value=lower)), b=IntImm(value=n)) if v is var:
            return Digit(var, lower, n)
        case FloorDiv(a=FloorMod(a=v, b=IntImm(value=n)), b=IntImm(value=lower)) if v is var and n % lower == 0:
            return Digit(var, lower, n // lower)
        case FloorDiv(a=v, b=IntImm(value=lower)) if v is var:
            return Digit(var, lower, _MANY)
        case FloorMod(a=v, b=IntImm(value=n)) if v is var:
            return Digit(var, 1, n)
        case _:
            return None


_MANY: Final = 1 << 64
"""More than any loop counts to: the extent of a digit that has all that is above it."""


def _covers(digits: list[Digit], extent: int | None) -> bool:
    """Whether digits together tell all iterations apart."""
    reach = 1
    for d in sorted(digits, key=lambda d: d.lower):
        if d.lower > reach:
            return False
        reach = max(reach, d.lower * d.extent)
    return extent is not None and reach >= extent


def _shared_part(var: Var, x: tuple[Range, Access], y: tuple[Range, Access], simplifying: bool) -> PrimExpr | None:
    """An expression of `var` alone that is equal for two iterations whose ranges overlap; None where there is none."""
    p = _parts(var, *x, simplifying)
    q = p if y[0] is x[0] else _parts(var, *y, simplifying)
    if p is None or q is None or p.own != q.own:
        return None
    shift = difference(q.fixed, p.fixed)
    if shift[0]:
        return None
    if not p.own:
        # Without a part in this loop, they meet in all of its iterations, or in none.
        return var if q.low + shift[1] > p.high or q.high + shift[1] < p.low else None
    # own(i) + u = own(j) + v with u, v within the rests: the difference of the own parts is a multiple of their step.
    step = 0
    for c in p.own.values():
        step = gcd(step, c)
    low, high = q.low + shift[1] - p.high, q.high + shift[1] - p.low
    if not (-step < low and high < step):
        return None
    dtype = var.dtype
    return from_linear(({t: c // step for t, c in p.own.items()}, 0), dtype)


@dataclass(frozen=True)
class _Parts:
    own: dict[PrimExpr, int]
    fixed: PrimExpr
    low: int
    high: int


def _parts(var: Var, r: Range, access: Access, simplifying: bool) -> _Parts | None:
    """A range as terms of `var` alone, terms of what is outside the loop, and bounds of the rest."""
    domain, bounds = access.domain, access.bounds
    start = simplify(r.min, bounds) if simplifying else r.min
    size = const_bound(simplify(r.extent, bounds) if simplifying else r.extent, bounds).high
    if size is None:
        return None
    terms, constant = linear_form(start)
    own: dict[PrimExpr, int] = {}
    fixed: dict[PrimExpr, int] = {}
    low, high = 0, size - 1
    for term, factor in terms.items():
        if term is var:
            own[term] = factor
            continue
        used = variables(term)
        if not isinstance(term, Var) and reads_memory(term):
            return None
        has_var = var in used
        if not any(v in domain and v is not var for v in used):
            (own if has_var else fixed)[term] = factor
            continue
        b = const_bound(term, bounds)
        if has_var or b.low is None or b.high is None:
            return None
        low += min(factor * b.low, factor * b.high)
        high += max(factor * b.low, factor * b.high)
    return _Parts(own, from_linear((fixed, constant), start.dtype), low, high)
