"""Rewriting index expressions into sums of splits of input iterators.

Sums whose splits fit together, scale by scale, count through one mark. The same splits always give the same mark,
so that `i * 4 + j` in two indices is one iterator. A predicate narrows the mark of its sum beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from tscript.arith.analyzer import Analyzer
from tscript.arith.forms import form_of
from tscript.arith.iter_map.factors import Factors, is_int
from tscript.arith.iter_map.model import IterMark, IterSplitExpr, IterSumExpr
from tscript.arith.iter_map.padding import Padding
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.expr import IntImm, PrimExpr, Range, Var
from tscript.ir.functor import post_order_visit, substitute
from tscript.ir.occurrences import mentions


class NotAffine(Exception):
    """An expression is no sum of splits; the text says why."""


WORK_LIMIT: Final = 20_000
"""Terms that are looked at for one index."""
_CHAIN_LIMIT: Final = 256
"""Splits that one iterator is made of."""


Key = tuple[tuple[IterMark, PrimExpr, PrimExpr], PrimExpr]


class Fused(NamedTuple):
    """The mark of a sum of splits, whose value is that of the sum minus `offset`."""

    mark: IterMark
    offset: PrimExpr


class Constraint(NamedTuple):
    """A sum that a predicate narrows: its splits, innermost first, with scales relative to the first."""

    splits: tuple[IterSplitExpr, ...]
    fused: Fused


class IterMapRewriter:
    """Turns index expressions into normal sums: of one split, or of a mark that counts through all of them."""

    def __init__(self, analyzer: Analyzer, input_iters: Mapping[Var, Range], drop_trivial: bool) -> None:
        self.factors = Factors(analyzer)
        self.input_marks: list[IterMark] = []
        self.constraints: list[Constraint] = []
        self.padding: Padding | None = None
        self._work = WORK_LIMIT
        self._fused: dict[tuple[Key, ...], Fused] = {}
        self._values: dict[PrimExpr, IterSumExpr] = {}
        self._variables = input_iters
        for var, dom in input_iters.items():
            self._values[var] = self._input(var, dom, drop_trivial)

    def _input(self, var: Var, dom: Range, drop_trivial: bool) -> IterSumExpr:
        low, extent = self.factors.analyzer.simplify(dom.min), self.factors.analyzer.simplify(dom.extent)
        if drop_trivial and is_int(extent, 1):
            return IterSumExpr((), low)
        mark = IterMark(var if is_int(low, 0) else make.sub(var, low), extent)
        self.input_marks.append(mark)
        return IterSumExpr((IterSplitExpr.of(mark),), low)

    # -- expressions to sums ----------------------------------------------------------------------

    def rewrite(self, index: PrimExpr) -> IterSumExpr:
        """`index` as the whole of one mark, or a scaled split, and a base. Raises NotAffine."""
        return self.normalized(self.sum_of(index), index)

    def normalized(self, total: IterSumExpr, index: PrimExpr) -> IterSumExpr:
        """A sum of several splits as one mark. Raises NotAffine where they do not fit together."""
        if not total.args or (len(total.args) == 1 and not self.constraints):
            return total
        if len(total.args) == 1:
            return self._narrowed_split(total)
        fused = self.fuse(total)
        if fused is None or not is_int(fused.args[0].scale, 1):
            raise NotAffine(f"the terms of `{index}` overlap or leave gaps, so they do not count through one iterator")
        return fused

    def _narrowed_split(self, total: IterSumExpr) -> IterSumExpr:
        (split,) = total.args
        found = self._narrowed(split, {split.key: split}, split.scale)
        if found is None:
            return total
        f, mark = self.factors, found.fused.mark
        whole = IterSplitExpr(mark, IntImm(mark.extent.dtype, 1), mark.extent, split.scale)
        return IterSumExpr((whole,), f.add(total.base, f.mul(found.fused.offset, split.scale)))

    def sum_of(self, index: PrimExpr) -> IterSumExpr:
        """`index` as a sum of splits, as written. Raises NotAffine."""
        if not mentions(index, self._variables):
            return IterSumExpr((), self.factors.analyzer.simplify(index))
        values = dict(self._values)
        self._work = WORK_LIMIT

        def visit(n: object) -> None:
            if isinstance(n, PrimExpr) and n not in values:
                values[n] = self._value(n, values)

        if index not in values:
            post_order_visit(index, visit)
        return values[index]

    def _spend(self, terms: int) -> None:
        """Raises NotAffine where an index takes too much work."""
        self._work -= terms
        if self._work < 0:
            raise NotAffine(f"an index has too many terms: more than {WORK_LIMIT} would be looked at")

    def _value(self, e: PrimExpr, values: dict[PrimExpr, IterSumExpr]) -> IterSumExpr:
        rule = _RULES.get(type(e))
        if rule is not None and isinstance(e, ex.BinaryExpr):
            a, b = values[e.a], values[e.b]
            if a.args or b.args:
                return rule(self, e, a, b)
            self._spend(_terms(a.base) + _terms(b.base))
            # What has iterators in it may still have lost them, as the quotient of what is too small.
            return IterSumExpr((), self.factors.analyzer.simplify(type(e)(a.base, b.base)))
        below = _variables(e, values)
        self._spend(len(below))
        if any(values[v].args for v in below):
            raise NotAffine(f"`{e}` is no sum, multiple, quotient or remainder of iterators")
        if isinstance(e, (IntImm, Var)):
            return IterSumExpr((), e)
        # Trivial iterators have become constants.
        known = {v: s.base for v, s in self._values.items() if isinstance(v, Var) and not s.args}
        return IterSumExpr((), self.factors.analyzer.simplify(substitute(e, known) if known else e))

    def of_add(self, e: ex.BinaryExpr, a: IterSumExpr, b: IterSumExpr) -> IterSumExpr:
        """Sums and differences. Raises NotAffine."""
        return self._plus(a, b, isinstance(e, ex.Sub))

    def _plus(self, a: IterSumExpr, b: IterSumExpr, negative: bool) -> IterSumExpr:
        f = self.factors
        self._spend(len(a.args) + len(b.args) + _terms(a.base) + _terms(b.base))
        args = {s.key: s for s in a.args}
        for s in b.args:
            scale = f.mul(s.scale, IntImm(s.scale.dtype, -1)) if negative else s.scale
            old = args.pop(s.key, None)
            if old is not None:
                scale = f.add(old.scale, scale)
            if not is_int(scale, 0):
                args[s.key] = IterSplitExpr(s.source, s.lower_factor, s.extent, scale)
        base = f.sub(a.base, b.base) if negative else f.add(a.base, b.base)
        return IterSumExpr(tuple(args.values()), base)

    def of_mul(self, e: ex.BinaryExpr, a: IterSumExpr, b: IterSumExpr) -> IterSumExpr:
        """Multiples. Raises NotAffine."""
        if a.args and b.args:
            raise NotAffine(f"`{e}` multiplies iterators with each other")
        total, factor = (a, b.base) if a.args else (b, a.base)
        self._spend(len(total.args))
        if is_int(factor, 0):
            return IterSumExpr((), factor)
        f = self.factors
        args = tuple(IterSplitExpr(s.source, s.lower_factor, s.extent, f.mul(s.scale, factor)) for s in total.args)
        return IterSumExpr(args, f.mul(total.base, factor))

    def of_divide(self, e: ex.BinaryExpr, a: IterSumExpr, b: IterSumExpr) -> IterSumExpr:
        """Quotients and remainders. Raises NotAffine."""
        f = self.factors
        if b.args or not f.positive(b.base):
            raise NotAffine(f"`{e}` divides by what is not known to be a positive constant")
        divisor = b.base
        if is_int(divisor, 1):
            return a if isinstance(e, ex.FloorDiv) else IterSumExpr((), IntImm(e.dtype, 0))
        if len(a.args) > 1:
            apart = self._exact_part(e, a, divisor)
            if apart is not None:
                return apart
            fused = self.fuse(a)
            if fused is None:
                raise NotAffine(f"the terms of `{e.a}` overlap or leave gaps, so their quotient is no iterator")
            a = fused
        split, base = next(iter(a.args)), a.base
        quotient = isinstance(e, ex.FloorDiv)
        scale = split.scale
        if not is_int(scale, 1):
            if f.divides(divisor, scale) and f.divides(divisor, base):
                if not quotient:
                    return IterSumExpr((), IntImm(e.dtype, 0))
                smaller = IterSplitExpr(split.source, split.lower_factor, split.extent, f.floordiv(scale, divisor))
                return IterSumExpr((smaller,), f.floordiv(base, divisor))
            if not (f.positive(scale) and f.divides(scale, divisor) and f.divides(scale, base)):
                raise NotAffine(f"in `{e}`, the step {scale} and the divisor {divisor} do not fit together")
            divisor, base = f.floordiv(divisor, scale), f.floordiv(base, scale)
            split = IterSplitExpr(split.source, split.lower_factor, split.extent, IntImm(scale.dtype, 1))
        digit = self._digit(e, split, base, divisor)
        if quotient or is_int(scale, 1):
            return digit
        return self.of_mul(e, digit, IterSumExpr((), scale))

    def _exact_part(self, e: ex.BinaryExpr, a: IterSumExpr, divisor: PrimExpr) -> IterSumExpr | None:
        """The result for a sum all terms of which the divisor divides."""
        f = self.factors
        if not (f.divides(divisor, a.base) and all(f.divides(divisor, s.scale) for s in a.args)):
            return None
        if isinstance(e, ex.FloorMod):
            return IterSumExpr((), IntImm(e.dtype, 0))
        args = (IterSplitExpr(s.source, s.lower_factor, s.extent, f.floordiv(s.scale, divisor)) for s in a.args)
        return IterSumExpr(tuple(args), f.floordiv(a.base, divisor))

    def _digit(self, e: ex.BinaryExpr, split: IterSplitExpr, base: PrimExpr, divisor: PrimExpr) -> IterSumExpr:
        """Quotient or remainder of a split of scale one."""
        f = self.factors
        quotient = isinstance(e, ex.FloorDiv)
        zero, one = IntImm(e.dtype, 0), IntImm(e.dtype, 1)
        if f.divides(split.extent, divisor) and is_int(base, 0):
            return IterSumExpr((), zero) if quotient else IterSumExpr((split,), zero)
        if self.padding is not None:
            split, base = self.padding.fitted(split, base, divisor)
        if not f.divides(divisor, base):
            raise NotAffine(f"`{e}` cuts across its iterator: the offset {base} is no multiple of {divisor}")
        if not f.divides(divisor, split.extent):
            raise NotAffine(f"the extent {split.extent} of `{e.a}` is no multiple of {divisor}")
        if quotient:
            upper = IterSplitExpr(
                split.source, f.mul(split.lower_factor, divisor), f.floordiv(split.extent, divisor), one
            )
            # A single step always gives zero.
            args = () if is_int(upper.extent, 1) else (upper,)
            return IterSumExpr(args, f.floordiv(base, divisor))
        return IterSumExpr((IterSplitExpr(split.source, split.lower_factor, divisor, one),), zero)

    # -- sums to marks ----------------------------------------------------------------------------

    def fuse(self, total: IterSumExpr) -> IterSumExpr | None:
        """A sum as one split of a mark that counts through it; None where its splits do not fit together."""
        chain = self._chain(total.args)
        if chain is None:
            return None
        flat, structured, step, offset, extent = chain
        f = self.factors
        key = _flat_key(flat)
        known = self._fused.get(key)
        if known is None:
            known = Fused(IterMark(IterSumExpr(tuple(reversed(structured)), _zero(step)), extent), offset)
            self._fused[key] = known
        whole = IterSplitExpr.of(known.mark)
        scaled = IterSplitExpr(whole.source, whole.lower_factor, whole.extent, step)
        return IterSumExpr((scaled,), f.add(total.base, f.mul(known.offset, step)))

    def _chain(
        self, args: tuple[IterSplitExpr, ...]
    ) -> tuple[list[IterSplitExpr], list[IterSplitExpr], PrimExpr, PrimExpr, PrimExpr] | None:
        """Splits innermost first, flat and with narrowed sums as marks; the smallest step; what to add; the extent."""
        f = self.factors
        first = None if len(args) > _CHAIN_LIMIT else self._smallest(args)
        if first is None:
            return None
        step = first.scale
        left = {s.key: s for s in args}
        flat: list[IterSplitExpr] = []
        structured: list[IterSplitExpr] = []
        offset: PrimExpr = _zero(step)
        expected: PrimExpr = IntImm(step.dtype, 1)
        while left:
            want = f.mul(expected, step)
            # An iterator of one step adds nothing, whatever its scale.
            match = next((s for s in left.values() if is_int(s.extent, 1)), None)
            if match is not None:
                del left[match.key]
                match = IterSplitExpr(match.source, match.lower_factor, match.extent, expected)
                flat.append(match)
                structured.append(match)
                continue
            matches = [s for s in left.values() if f.equal(s.scale, want)]
            if len(matches) != 1:
                return None
            match = matches[0]
            narrowed = self._narrowed(match, left, want)
            if narrowed is not None:
                members = [left.pop(s.key) for s in narrowed.splits]
                mark = narrowed.fused.mark
                whole = IterSplitExpr.of(mark)
                flat += [self._relative(s, step) for s in members]
                structured.append(IterSplitExpr(mark, whole.lower_factor, mark.extent, expected))
                offset = f.add(offset, f.mul(narrowed.fused.offset, expected))
                expected = f.mul(expected, mark.extent)
            else:
                del left[match.key]
                part = self._relative(match, step)
                flat.append(part)
                structured.append(part)
                expected = f.mul(expected, match.extent)
        return flat, structured, step, offset, expected

    def _smallest(self, args: tuple[IterSplitExpr, ...]) -> IterSplitExpr | None:
        """The split of the smallest step: the least constant, or a symbol that divides all others."""
        f = self.factors
        args = tuple(s for s in args if not is_int(s.extent, 1)) or args
        constants = [s for s in args if isinstance(s.scale, IntImm)]
        if constants:
            first = min(constants, key=lambda s: s.scale.value if isinstance(s.scale, IntImm) else 0)
            return first if f.positive(first.scale) else None
        for s in args:
            if f.positive(s.scale) and all(f.divides(s.scale, o.scale) for o in args):
                return s
        return None

    def _relative(self, s: IterSplitExpr, step: PrimExpr) -> IterSplitExpr:
        scale = s.scale if is_int(step, 1) else self.factors.floordiv(s.scale, step)
        return IterSplitExpr(s.source, s.lower_factor, s.extent, scale)

    def _narrowed(
        self, match: IterSplitExpr, left: Mapping[tuple[IterMark, PrimExpr, PrimExpr], IterSplitExpr], want: PrimExpr
    ) -> Constraint | None:
        """The longest narrowed sum that starts at `match` and is part of what is left."""
        f = self.factors
        best: Constraint | None = None
        for c in self.constraints:
            if c.splits[0].key != match.key or (best is not None and len(best.splits) >= len(c.splits)):
                continue
            found = [(s, left.get(s.key)) for s in c.splits]
            if all(o is not None and f.equal(o.scale, f.mul(s.scale, want)) for s, o in found):
                best = c
        return best

    # -- predicates -------------------------------------------------------------------------------

    def constrain(self, total: IterSumExpr, low: PrimExpr | None, end: PrimExpr | None) -> None:
        """Note that `low <= total < end`. Raises NotAffine where the sum does not count through one mark."""
        f = self.factors
        chain = self._chain(total.args)
        if chain is None or not is_int(chain[2], 1):
            raise NotAffine("the predicate compares a sum that does not count through one iterator")
        flat, structured, _, offset, extent = chain
        base = f.add(total.base, offset)
        # Bounds of the mark, which starts at zero where the sum has its base.
        first: PrimExpr = _zero(extent) if low is None else f.sub(low, base)
        last: PrimExpr = extent if end is None else f.sub(end, base)
        start = f.analyzer.simplify(make.max_(first, _zero(extent)))
        stop = f.analyzer.simplify(make.min_(last, extent))
        count = f.sub(stop, start)
        if f.analyzer.can_prove(make.compare(ex.LE, count, 0)):
            raise NotAffine("the predicate never holds")
        source = IterSumExpr(tuple(reversed(structured)), f.sub(_zero(start), start))
        fused = Fused(IterMark(source, count), f.add(offset, start))
        self._fused[_flat_key(flat)] = fused
        self.constraints = [c for c in self.constraints if _flat_key(list(c.splits)) != _flat_key(flat)]
        self.constraints.append(Constraint(tuple(flat), fused))


def _terms(e: PrimExpr) -> int:
    return len(form_of(e)[0])


def _zero(like: PrimExpr) -> IntImm:
    return IntImm(like.dtype, 0)


def _flat_key(flat: list[IterSplitExpr]) -> tuple[Key, ...]:
    return tuple((s.key, s.scale) for s in flat)


def _variables(e: PrimExpr, values: Mapping[PrimExpr, IterSumExpr]) -> list[PrimExpr]:
    found: dict[PrimExpr, None] = {}

    def visit(n: object) -> None:
        if isinstance(n, PrimExpr) and n is not e and n in values:
            found[n] = None

    post_order_visit(e, visit)
    return list(found)


_Rule = Callable[[IterMapRewriter, ex.BinaryExpr, IterSumExpr, IterSumExpr], IterSumExpr]
_RULES: Final[dict[type[PrimExpr], _Rule]] = {
    ex.Add: IterMapRewriter.of_add,
    ex.Sub: IterMapRewriter.of_add,
    ex.Mul: IterMapRewriter.of_mul,
    ex.FloorDiv: IterMapRewriter.of_divide,
    ex.FloorMod: IterMapRewriter.of_divide,
}
