"""Index expressions as numbers in mixed radix: what makes splits, fusions and permutations invertible.

A `Form` is a constant plus a sum of digits, each `scale * ((x // lower) % size)` of a source index `x`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tscript.ir import construct as c
from tscript.ir import expr as ex
from tscript.ir.dtype import DataType
from tscript.ir.expr import IntImm, PrimExpr, Var
from tscript.ir.functor import post_order_visit
from tscript.ir.linear import linear_form


@dataclass(frozen=True, slots=True)
class Digit:
    """`scale * d` with `d = (var // lower) % size`, or `size - 1 - d` when `mirrored`.

    `size` is None for the leading digit of an index whose extent is not known.
    """

    var: Var
    lower: int
    size: int | None
    scale: int
    mirrored: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """A constant plus a sum of digits."""

    constant: int
    digits: tuple[Digit, ...] = ()

    def bounds(self) -> tuple[int, int] | None:
        """Smallest and largest value when digits vary freely; None with a digit of unknown size."""
        low = high = self.constant
        for d in self.digits:
            if d.size is None:
                return None
            end = d.scale * (d.size - 1)
            low, high = low + min(end, 0), high + max(end, 0)
        return low, high


class Forms:
    """Reads expressions over source indices of given extents as forms."""

    def __init__(self, extents: Mapping[Var, PrimExpr]) -> None:
        self._extents = dict(extents)
        self._done: dict[PrimExpr, Form | None] = {}
        # Fused indices that are cut elsewhere than between their parts count as sources of their own.
        self.fused: dict[Var, tuple[Digit, ...]] = {}

    def find(self, root: PrimExpr) -> Form | None:
        """The form of `root`, or None where it has none."""

        def leave(e: object) -> None:
            if isinstance(e, PrimExpr) and e not in self._done:
                self._done[e] = self._form(e)

        post_order_visit(root, leave)
        return self._done[root]

    def _form(self, e: PrimExpr) -> Form | None:
        done = self._done
        match e:
            case IntImm():
                return Form(e.value)
            case Var():
                return self._source(e)
            case ex.Add():
                return _sum(done[e.a], done[e.b], 1)
            case ex.Sub():
                return _sum(done[e.a], done[e.b], -1)
            case ex.Mul(a=a, b=IntImm(value=k)) | ex.Mul(a=IntImm(value=k), b=a):
                return _sum(Form(0), done[a], k)
            case ex.FloorDiv(a=a, b=IntImm(value=k)) if k > 0:
                parts = self._divide(done[a], k)
                return parts and parts[0]
            case ex.FloorMod(a=a, b=IntImm(value=k)) if k > 0:
                parts = self._divide(done[a], k)
                return parts and parts[1]
            case ex.Cast(value=value) if e.dtype.is_integer and value.dtype.is_integer:
                return done[value]
            case _:
                return None

    def _source(self, var: Var) -> Form | None:
        extent = self._extents.get(var)
        if extent is None:
            return None
        if isinstance(extent, IntImm):
            return Form(0) if extent.value == 1 else Form(0, (Digit(var, 1, extent.value, 1),))
        return Form(0, (Digit(var, 1, None, 1),))

    def _is_leading(self, d: Digit) -> bool:
        extent = self._extents[d.var]
        return d.size is None or (isinstance(extent, IntImm) and d.lower * d.size >= extent.value)

    def _divide(self, form: Form | None, k: int) -> tuple[Form, Form] | None:
        """Quotient and remainder of a form by `k`."""
        if form is None:
            return None
        found = self._cut(form, k)
        if found is None and form.constant == 0:
            whole = self._fuse(form.digits)
            found = None if whole is None else self._cut(whole, k)
        return found

    def _fuse(self, digits: tuple[Digit, ...]) -> Form | None:
        """A sum that counts through its digits without gaps, as a single source."""
        ordered = tuple(sorted(digits, key=lambda d: d.scale))
        for var, parts in self.fused.items():
            if parts == ordered:
                return self._source(var)
        extent: PrimExpr = c.const(1, "int64")
        below: int | None = 1
        for d in ordered:
            if d.scale != below or (d.size is None and d.lower != 1):
                return None
            below = None if d.size is None else d.scale * d.size
            extent = c.mul(self._extents[d.var], d.scale) if d.size is None else c.const(d.scale * d.size, "int64")
        var = Var("fused", "int64")
        self.fused[var] = ordered
        self._extents[var] = extent
        return self._source(var)

    def extent(self, var: Var) -> PrimExpr:
        """How many values a source takes."""
        return self._extents[var]

    def _cut(self, form: Form, k: int) -> tuple[Form, Form] | None:
        high: list[Digit] = []
        low: list[Digit] = []
        for d in form.digits:
            if d.scale % k == 0:
                high.append(replace(d, scale=d.scale // k))
            elif d.scale < 0:
                return None
            elif d.size is not None and d.scale * (d.size - 1) < k:
                low.append(d)
            elif k % d.scale == 0:
                # This digit lies across the cut: `f` of its values stay below.
                f = k // d.scale
                divides = d.size is not None and d.size % f == 0
                if not divides and (d.mirrored or not self._is_leading(d)):
                    return None
                low.append(replace(d, size=f))
                upper = None if d.size is None else -(-d.size // f)
                if upper != 1:
                    high.append(Digit(d.var, d.lower * f, upper, 1, d.mirrored))
            else:
                return None
        rest = Form(form.constant % k, tuple(low))
        bounds = rest.bounds()
        if bounds is None or bounds[0] < 0 or bounds[1] >= k:
            return None
        return Form(form.constant // k, _merged(high)), Form(rest.constant, _merged(low))


def _sum(x: Form | None, y: Form | None, factor: int) -> Form | None:
    if x is None or y is None:
        return None
    scaled = [replace(d, scale=d.scale * factor) for d in y.digits]
    return Form(x.constant + factor * y.constant, _merged([*x.digits, *scaled]))


def _merged(digits: Iterable[Digit]) -> tuple[Digit, ...]:
    """Equal digits added up, and neighbouring digits of one index joined: `x // 4 * 4 + x % 4` is `x`."""
    result: list[Digit] = []
    for d in digits:
        for i, other in enumerate(result):
            if replace(other, scale=d.scale) == d:
                result[i] = replace(d, scale=d.scale + other.scale)
                break
        else:
            result.append(d)
    result = [d for d in result if d.scale != 0]
    joined = True
    while joined:
        joined = False
        for low in result:
            for high in result:
                if _adjacent(low, high) and low.size is not None:
                    size = None if high.size is None else low.size * high.size
                    result = [d for d in result if d is not low and d is not high]
                    result.append(replace(low, size=size))
                    joined = True
                    break
            if joined:
                break
    return tuple(result)


def _adjacent(low: Digit, high: Digit) -> bool:
    return (
        low.var is high.var
        and low.size is not None
        and low.mirrored == high.mirrored
        and high.lower == low.lower * low.size
        and high.scale == low.scale * low.size
    )


class _Piece:
    """A digit of a source index, and the expression that takes it out of the results."""

    def __init__(self, digit: Digit, value: PrimExpr) -> None:
        self.digit = digit
        self.value = value


def invert(
    sources: Sequence[Var], table: Forms, results: Sequence[Var], forms: Sequence[Form]
) -> tuple[list[PrimExpr], list[PrimExpr]]:
    """The source indices in terms of the result indices, and the conditions that mark results never reached.

    Raises ValueError where the forms do not determine the sources.
    """
    dtype = results[0].dtype if results else DataType("int64")
    pieces: dict[Var, list[_Piece]] = {v: [] for v in (*sources, *table.fused)}
    padding: list[PrimExpr] = []
    for k, (y, form) in enumerate(zip(results, forms, strict=True)):
        _take_apart(f"result {k} of the index map", y, form, pieces, padding)
    # A fused index may be made of digits of an earlier one, so the last goes first.
    for v in reversed(list(table.fused)):
        if pieces[v]:
            whole = _put_together(v, table.extent(v), pieces[v], dtype, padding)
            _take_apart("a fused index", whole, Form(0, table.fused[v]), pieces, padding)
    solved = [_put_together(v, table.extent(v), pieces[v], dtype, padding) for v in sources]
    return solved, padding


def _take_apart(what: str, y: PrimExpr, form: Form, pieces: dict[Var, list[_Piece]], padding: list[PrimExpr]) -> None:
    constant = form.constant
    digits: list[Digit] = []
    for d in form.digits:
        if d.scale < 0:
            if d.size is None:
                raise ValueError(f"{what} falls as {d.var.name} grows, whose extent is not known")
            constant += d.scale * (d.size - 1)
            d = replace(d, scale=-d.scale, mirrored=not d.mirrored)
        digits.append(d)
    if constant < 0:
        raise ValueError(f"{what} can be negative: its smallest value is {constant}")
    rest = c.sub(y, constant)
    if constant:
        padding.append(c.compare(ex.LT, y, constant))
    _require_separable(what, sorted(digits, key=lambda d: d.scale))
    above: Digit | None = None
    for d in sorted(digits, key=lambda d: -d.scale):
        value = c.floordiv(rest, d.scale)
        if above is not None:
            exact = above.scale % d.scale == 0
            if exact:
                value = c.floormod(value, above.scale // d.scale)
            if d.size is not None and (above.scale - 1) // d.scale >= d.size:
                padding.append(c.compare(ex.GE, value, d.size))
        if d.mirrored and d.size is not None:
            value = c.sub(d.size - 1, value)
        pieces[d.var].append(_Piece(d, value))
        below = [e.scale for e in digits if e.scale < d.scale]
        if below and d.scale % max(below) != 0:
            rest = c.floormod(rest, d.scale)
        above = d
    if above is not None and above.scale != 1:
        padding.append(c.compare(ex.NE, c.floormod(rest, above.scale), 0))


def _require_separable(what: str, ascending: Sequence[Digit]) -> None:
    reach: int | None = 0
    for d in ascending:
        if reach is None:
            raise ValueError(f"{what} adds to an index whose extent is not known, so neither can be taken out again")
        if reach >= d.scale:
            raise ValueError(f"{what} is a sum from which {d.var.name} cannot be taken out again")
        reach = None if d.size is None else reach + d.scale * (d.size - 1)


def _put_together(
    var: Var, extent: PrimExpr, pieces: list[_Piece], dtype: DataType, padding: list[PrimExpr]
) -> PrimExpr:
    total: PrimExpr = c.const(0, dtype)
    covered: int | None = 1
    for p in sorted(pieces, key=lambda p: p.digit.lower):
        if covered is None or p.digit.lower < covered:
            raise ValueError(
                f"the index map uses parts of {var.name} more than once, so it is not one-to-one onto its result"
            )
        if p.digit.lower > covered:
            raise ValueError(f"the index map drops a part of {var.name}, so it cannot be inverted")
        total = c.add(total, c.mul(p.value, p.digit.lower))
        covered = None if p.digit.size is None else covered * p.digit.size
    if isinstance(extent, IntImm):
        if covered is None or covered < extent.value:
            raise ValueError(f"the index map drops a part of {var.name}, so it cannot be inverted")
        if covered > extent.value:
            padding.append(c.compare(ex.GE, total, c.cast(extent, dtype)))
        return total
    if covered is not None:
        raise ValueError(f"the index map drops a part of {var.name}, so it cannot be inverted")
    leading = max(p.digit.lower for p in pieces)
    terms, constant = linear_form(extent)
    if any(k % leading for k in (*terms.values(), constant)):
        padding.append(c.compare(ex.GE, total, c.cast(extent, dtype)))
    return total


__all__ = ["Digit", "Form", "Forms", "invert"]
