"""Variables of loops and axes: where they occur, their ranges, and what can be proved with these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from weakref import WeakKeyDictionary

from tscript.analysis.ranges import loop_range, range_bounds
from tscript.arith import Bound, const_bound, simplify
from tscript.ir.base import Node
from tscript.ir.buffer import Buffer
from tscript.ir.expr import GE, GT, LE, LT, And, Call, FloorDiv, IntImm, IterVar, Let, Op, PrimExpr, Range, Var
from tscript.ir.functor import children, pre_order_visit
from tscript.ir.linear import LinearForm, difference, linear_form
from tscript.ir.occurrences import mentions, variables
from tscript.ir.stmt import Allocate, AllocateConst, Block, BlockRealize, For, LetStmt, Stmt
from tscript.schedule.sref import StmtSRef
from tscript.schedule.state import ScheduleState


def variables_in(block: Block) -> frozenset[Var]:
    """All variables that occur in a block, in the shapes of its buffers too; worked out once for each block."""
    found = _VARIABLES.get(block)
    if found is None:
        names: set[Var] = set()
        stack: list[Node] = [block]
        while stack:
            n = stack.pop()
            if isinstance(n, Var):
                names.add(n)
            elif isinstance(n, Buffer):
                stack += [n.data, n.elem_offset, *n.shape, *n.strides]
            elif isinstance(n, Block) and n is not block:
                names |= variables_in(n)
            else:
                stack += children(n)
        found = _VARIABLES[block] = frozenset(names)
    return found


_VARIABLES: WeakKeyDictionary[Block, frozenset[Var]] = WeakKeyDictionary()


def bound_inside(stmt: Stmt | Block) -> dict[Var, None]:
    """The variables that loops, bindings, allocations and axes inside a statement define."""
    found: dict[Var, None] = {}

    def look(n: object) -> bool:
        if isinstance(n, For):
            found[n.loop_var] = None
        elif isinstance(n, (LetStmt, Let, IterVar)):
            found[n.var] = None
        elif isinstance(n, (Allocate, AllocateConst)):
            found[n.buffer_var] = None
        return True

    pre_order_visit(stmt, look)
    return found


def loop_ranges(loops: Iterable[StmtSRef]) -> dict[Var, Range]:
    """The ranges of loop variables, in the order of the loops."""
    return {r.loop.loop_var: loop_range(r.loop) for r in loops}


def axis_ranges(block: Block) -> dict[Var, Range]:
    """The domains of the axes of a block."""
    return {axis.var: axis.dom for axis in block.iter_vars if axis.dom is not None}


def outside_of(state: ScheduleState, sref: StmtSRef) -> dict[Var, Range]:
    """The axes and loops around a statement, up to the block that it stands in."""
    root = state.scope_root(sref)
    return {**({} if root is None else axis_ranges(root.block)), **loop_ranges(state.loops_of(sref))}


def outer_bounds(state: ScheduleState, sref: StmtSRef) -> dict[Var, Bound]:
    """Constant bounds of the loops around a statement, and of the axes of the block around these."""
    return range_bounds(outside_of(state, sref))


def no_less(a: PrimExpr, b: PrimExpr, bounds: Mapping[Var, Bound]) -> bool:
    """Whether `a >= b` is certain."""
    if a is b:
        return True
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a.value >= b.value
    low = _least(difference(a, b), bounds)
    return low is not None and low >= 0


def loop_variables_of(realize: BlockRealize, kind: int) -> dict[Var, None]:
    """The variables in the bindings of the axes of one kind (`IterVar.DataPar`, `IterVar.CommReduce`, ...)."""
    pairs = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    return variables(*(value for axis, value in pairs if axis.iter_type == kind))


def axes_using(realize: BlockRealize, var: Var) -> list[IterVar]:
    """The axes whose bindings mention a variable."""
    pairs = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    return [axis for axis, value in pairs if mentions(value, {var: None})]


def conjuncts(condition: PrimExpr) -> list[PrimExpr]:
    """The parts that `and` joins, in order; none for the constant True. What is marked as likely counts as it is."""
    found: list[PrimExpr] = []
    stack = [condition]
    while stack:
        e = stack.pop()
        if isinstance(e, And):
            stack += [e.b, e.a]
        elif isinstance(e, Call) and isinstance(e.op, Op) and e.op.name == "tir.likely":
            stack.append(e.args[0])
        elif not (isinstance(e, IntImm) and e.value):
            found.append(e)
    return found


def proves(condition: PrimExpr, bounds: Mapping[Var, Bound], facts: Iterable[PrimExpr] = ()) -> bool:
    """Whether `condition` is certain, given bounds of variables and conditions that hold."""
    known = list(facts)
    for part in conjuncts(simplify(condition, bounds)):
        if any(part is f for f in known):
            continue
        gap = gap_of(part)
        if gap is None or not _follows(gap, [g for g in map(gap_of, known) if g is not None], bounds):
            return False
    return True


def gap_of(comparison: PrimExpr) -> LinearForm | None:
    """The form that is at least zero exactly where an inequality of integers holds."""
    if not isinstance(comparison, (LT, LE, GT, GE)) or not comparison.a.dtype.is_int:
        return None
    terms, constant = (
        difference(comparison.b, comparison.a)
        if isinstance(comparison, (LT, LE))
        else difference(comparison.a, comparison.b)
    )
    return (terms, constant - 1) if isinstance(comparison, (LT, GT)) else (terms, constant)


def _follows(gap: LinearForm, facts: list[LinearForm], bounds: Mapping[Var, Bound]) -> bool:
    low = _least(gap, bounds)
    if low is not None and low >= 0:
        return True
    for fact in facts:
        for term, factor in gap[0].items():
            other = fact[0].get(term, 0)
            if other * factor <= 0:
                continue
            # p * gap = q * fact + rest, so gap is at least rest / p, rounded up.
            p, q = abs(other), abs(factor)
            terms = {t: p * c for t, c in gap[0].items()}
            for t, c in fact[0].items():
                terms[t] = terms.get(t, 0) - q * c
            low = _least(({t: c for t, c in terms.items() if c}, p * gap[1] - q * fact[1]), bounds)
            if low is not None and low > -p:
                return True
    return False


def _least(form: LinearForm, bounds: Mapping[Var, Bound]) -> int | None:
    """The least value of a form that is certain; None where nothing is."""
    low = _least_as_it_is(form, bounds)
    if low is None or low < 0:
        rounded = _without_quotients(form)
        other = None if rounded is None else _least_as_it_is(rounded, bounds)
        if other is not None and (low is None or other > low):
            return other
    return low


def _without_quotients(form: LinearForm) -> LinearForm | None:
    """A form that is never more: `8 * (x // 8)` is at least `x - 7` and at most `x`. None where there is none such."""
    terms, constant = dict[PrimExpr, int](), form[1]
    found = False
    for t, c in form[0].items():
        if not (isinstance(t, FloorDiv) and isinstance(t.b, IntImm) and t.b.value > 0 and c % t.b.value == 0):
            terms[t] = terms.get(t, 0) + c
            continue
        found = True
        times = c // t.b.value
        inner, add = linear_form(t.a)
        constant += times * add - (times * (t.b.value - 1) if times > 0 else 0)
        for x, k in inner.items():
            terms[x] = terms.get(x, 0) + times * k
    return ({t: c for t, c in terms.items() if c}, constant) if found else None


def _least_as_it_is(form: LinearForm, bounds: Mapping[Var, Bound]) -> int | None:
    total = form[1]
    for t, c in form[0].items():
        b = const_bound(t, bounds)
        end = b.low if c > 0 else b.high
        if end is None:
            return None
        total += c * end
    return total
