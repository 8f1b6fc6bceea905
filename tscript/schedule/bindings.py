"""Bindings of blocks after the loops around them have changed: new values, guards, and their simplest form."""

from __future__ import annotations

from collections.abc import Mapping

from tscript.arith import Bound, IterMapLevel, iter_map_simplify, simplify
from tscript.ir import construct as make
from tscript.ir.dtype import BOOL
from tscript.ir.expr import Add, FloorDiv, FloorMod, IntImm, Mul, PrimExpr, Range, Var
from tscript.ir.functor import Rewriter
from tscript.ir.stmt import Block, BlockRealize, For, Stmt
from tscript.schedule.sref import StmtSRef
from tscript.schedule.state import ScheduleState
from tscript.schedule.symbols import loop_ranges, variables_in

Ranges = Mapping[Var, Range]
TRUE = IntImm(BOOL, 1)


def ranges_around(state: ScheduleState, sref: StmtSRef) -> dict[Var, Range]:
    """The ranges of the loops that what is below `sref` may use, outermost first: blocks without axes hide none."""
    found: list[StmtSRef] = []
    at = sref.parent
    while at is not None and (isinstance(at.stmt, For) or not at.block.iter_vars):
        if isinstance(at.stmt, For):
            found.append(at)
        at = at.parent
    return loop_ranges(found[::-1])


def bounds_of(ranges: Ranges) -> dict[Var, Bound]:
    """Constant bounds of variables; sides that are not constant are open."""
    bounds: dict[Var, Bound] = {}
    for var, r in ranges.items():
        low = r.min.value if isinstance(r.min, IntImm) else None
        high = low + r.extent.value - 1 if low is not None and isinstance(r.extent, IntImm) else None
        # Where a loop runs no iteration, anything may be taken to hold; an empty bound would confuse proofs.
        bounds[var] = Bound(low, high if high is None or low is None or high >= low else low)
    return bounds


def simplified(expr: PrimExpr, ranges: Ranges) -> PrimExpr:
    """An equal expression in its simplest form, for values of variables in `ranges`."""
    return simplify(expr, bounds_of(ranges))


def is_proved(condition: PrimExpr, ranges: Ranges) -> bool:
    """Whether a condition holds for all values of its variables in `ranges`."""
    found = simplified(condition, ranges)
    return isinstance(found, IntImm) and bool(found.value)


def simplify_values(
    values: tuple[PrimExpr, ...], predicate: PrimExpr, ranges: Ranges, preserve_unit_iters: bool
) -> tuple[PrimExpr, ...]:
    """Binding values in their simplest form, where `predicate` holds; as they are where they are no affine map.

    Without `preserve_unit_iters`, variables of loops of one iteration are replaced by their only value.
    """
    if all(_is_simplest(v, predicate, ranges, preserve_unit_iters) for v in values):
        return values
    made = iter_map_simplify(values, ranges, predicate, IterMapLevel.SURJECTIVE, not preserve_unit_iters)
    return tuple(make.cast(new, old.dtype) for new, old in zip(made, values, strict=True))


def _is_simplest(value: PrimExpr, predicate: PrimExpr, ranges: Ranges, preserve_unit_iters: bool) -> bool:
    """Whether the form of a value shows that it is its simplest, as that of most is: analysis is left out then.

    It is a sum of digits of different loops, each scale the one after it times the number of its values.
    """
    if isinstance(value, IntImm):
        return True
    if not isinstance(value, Var) and predicate is not TRUE:
        return False
    used: set[Var] = set()
    scale = 1
    while True:
        rest, term = (value.a, value.b) if isinstance(value, Add) else (None, value)
        if scale != 1:
            if not (isinstance(term, Mul) and isinstance(term.b, IntImm) and term.b.value == scale):
                return False
            term = term.a
        digit = _digit(term, ranges, preserve_unit_iters)
        if digit is None or digit[0] in used or (digit[1] == 0 and used):
            return False
        if rest is None:
            return True
        used.add(digit[0])
        scale *= digit[1]
        value = rest
        if scale < 2:
            return False


def _digit(e: PrimExpr, ranges: Ranges, preserve_unit_iters: bool) -> tuple[Var, int] | None:
    """The variable and the number of values of `v`, `v // a`, `v % n` or `v % n // a`, if that has no shorter form.

    0 stands for a number of values that is not known, as that of a variable that is no loop.
    """
    low, n = 1, 0
    if isinstance(e, FloorDiv) and isinstance(e.b, IntImm):
        low, e = e.b.value, e.a
    if isinstance(e, FloorMod) and isinstance(e.b, IntImm):
        n, e = e.b.value, e.a
    if not isinstance(e, Var):
        return None
    known = ranges.get(e)
    plain = low == 1 and n == 0
    extent = known.extent.value if known is not None and isinstance(known.extent, IntImm) else 0
    if plain and (extent != 1 or preserve_unit_iters):
        return e, extent
    if known is None or extent < 2 or not make.is_const_int(known.min, 0):
        return None
    whole = n or extent
    fits = extent % whole == 0 and (n == 0 or n < extent) and 1 <= low < whole and whole % low == 0
    return (e, whole // low) if fits else None


def rebind(
    stmt: Stmt,
    variables: Mapping[Var, PrimExpr],
    outer_loops: Ranges,
    *,
    guard: PrimExpr | None = None,
    preserve_unit_iters: bool = True,
) -> tuple[Stmt, dict[Block, Block]]:
    """`stmt` with loop variables replaced, as after a change of the loops around it, and which block became which.

    The blocks directly below run only where `guard` holds too. Their bindings are put in the simplest form for
    `outer_loops` (which hold the new variables).
    """
    rewriter = _Rebind(variables, outer_loops, guard, preserve_unit_iters)
    return rewriter.rewrite(stmt), rewriter.block_reuse


class _Rebind(Rewriter):
    def __init__(
        self, variables: Mapping[Var, PrimExpr], outer: Ranges, guard: PrimExpr | None, preserve_unit_iters: bool
    ) -> None:
        super().__init__()
        self.variables = variables
        self.ranges = dict(outer)
        self.guard = guard
        self.preserve_unit_iters = preserve_unit_iters
        self.block_reuse: dict[Block, Block] = {}
        self.inside = False

    def rewrite_Var(self, node: Var) -> PrimExpr:
        """The new value of a variable."""
        return self.variables.get(node, node)

    def rewrite_For(self, node: For) -> Stmt:
        """The loop, whose range the blocks below may use."""
        extent = self.rewrite(node.extent)
        self.ranges[node.loop_var] = Range.from_min_extent(self.rewrite(node.min), extent)
        return self.rewrite_children(node)

    def rewrite_Block(self, node: Block) -> Stmt:
        """The block, noted where it changes."""
        if self.inside and variables_in(node).isdisjoint(self.variables):
            return node
        new = self.rewrite_children(node)
        if new is not node:
            self.block_reuse[node] = new
        return new

    def rewrite_BlockRealize(self, node: BlockRealize) -> Stmt:
        """A block directly below gets the guard; one inside another only new variables."""
        if self.inside:
            return self.rewrite_children(node)
        values = tuple(self.rewrite(v) for v in node.iter_values)
        predicate = self.rewrite(node.predicate)
        values = simplify_values(values, predicate, self.ranges, self.preserve_unit_iters)
        guard, inside = self.guard, self.inside
        if guard is not None:
            predicate = make.and_(predicate, guard)
        self.guard, self.inside = None, bool(node.block.iter_vars)
        block = self.rewrite(node.block)
        self.guard, self.inside = guard, inside
        if all(a is b for a, b in zip(values, node.iter_values, strict=True)):
            values = node.iter_values
        return node.replace(iter_values=values, predicate=predicate, block=block)
