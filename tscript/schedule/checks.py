"""What primitives ask of blocks and loops before they change anything.

Everything is computed from the program as it is now. `is_*` answers, `why_not_*` gives the reason or "", and
`require_*` refuses with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from weakref import WeakKeyDictionary

from tscript.analysis.affine import is_affine_map, join_limited
from tscript.ir.buffer import Buffer
from tscript.ir.expr import IterVar, PrimExpr, Var
from tscript.ir.functor import Visitor
from tscript.ir.occurrences import mentions
from tscript.ir.stmt import Block, BufferStore
from tscript.schedule.core import ScheduleCore
from tscript.schedule.coverage import region_cover
from tscript.schedule.errors import literal, refuse
from tscript.schedule.examples import overwritten_example, unwritten_example
from tscript.schedule.scope import DepKind
from tscript.schedule.shared_elements import shared_element
from tscript.schedule.sref import StmtSRef
from tscript.schedule.state import ScheduleState
from tscript.schedule.symbols import conjuncts, loop_ranges

# -- bindings -------------------------------------------------------------------------------------


def affine_binding(state: ScheduleState, block: StmtSRef, below: StmtSRef | None = None) -> bool:
    """Whether the bindings of a block form an affine map of its loops, so that no two iterations of those that are
    bound run the same instance.

    With `below`, of that loop and those inside it only, and so that their order does not matter either: the init of
    a reduction comes first in whatever order they are nested.
    """
    loops = state.loops_of(block)
    realize = state.realize_of(block)
    domain = loop_ranges(loops if below is None else loops[loops.index(below) :])
    values: Sequence[PrimExpr] = realize.iter_values
    if all(isinstance(v, Var) for v in values):
        return is_affine_map(values, domain)
    values, _, joined = join_limited(values, conjuncts(realize.predicate), domain)
    if below is not None and block.block.init is not None:
        for var in joined:
            if var not in domain and len({a.iter_type for a in _axes_with(block.block, values, var)}) > 1:
                return False
    return is_affine_map(values, joined)


def _axes_with(block: Block, values: Sequence[PrimExpr], var: Var) -> list[IterVar]:
    """The axes whose values mention a variable."""
    return [a for a, v in zip(block.iter_vars, values, strict=True) if mentions(v, {var: None})]


def is_trivial_binding(state: ScheduleState, block: StmtSRef) -> bool:
    """Whether each axis is bound to just a loop variable."""
    ranges = loop_ranges(state.loops_of(block))
    return all(value in ranges for value in state.realize_of(block).iter_values)


def require_scope_root(state: ScheduleState, block: StmtSRef) -> StmtSRef:
    """The block around `block`; refused for the root of a function."""
    root = state.scope_root(block)
    if root is None:
        refuse("{0} is the root of its function; choose a block inside it", block.block)
    return root


# -- kinds of blocks ------------------------------------------------------------------------------


def is_complete_block(
    state: ScheduleState, block: StmtSRef, root: StmtSRef | None = None, within: StmtSRef | None = None
) -> bool:
    """Whether a block has spatial axes only, is the only writer of what it writes, and reads none of it.

    `root` is the block around it; with `within` (a loop), only writers below that loop count.
    """
    return not why_not_complete(state, block, root, within)


def is_reduction_block(
    state: ScheduleState, block: StmtSRef, root: StmtSRef | None = None, within: StmtSRef | None = None
) -> bool:
    """Whether a block accumulates from an init over its reduce axes, alone in writing what it writes.

    `root` and `within` are as for `is_complete_block`.
    """
    return not why_not_reduction(state, block, root, within)


def why_not_complete(
    state: ScheduleState, block: StmtSRef, root: StmtSRef | None = None, within: StmtSRef | None = None
) -> str:
    """The condition of a complete block that `block` lacks, or nothing."""
    for axis in block.block.iter_vars:
        if axis.iter_type != IterVar.DataPar:
            return f"its axis `{axis.var.name}` is not spatial"
    reason = _why_not_dominant(state, block, root, within)
    if reason:
        return reason
    written = dict.fromkeys(w.buffer for w in block.block.writes)
    for r in block.block.reads:
        if r.buffer in written:
            return f"it both reads and writes `{r.buffer.name}`"
    return ""


def why_not_reduction(
    state: ScheduleState,
    block: StmtSRef,
    root: StmtSRef | None = None,
    within: StmtSRef | None = None,
    below: StmtSRef | None = None,
) -> str:
    """The condition of a reduction block that `block` lacks, or nothing.

    With `below`, it may be done anew in each iteration of the loops around that one.
    """
    stmt = block.block
    if stmt.init is None:
        return "it has no T.init()"
    if not affine_binding(state, block, below):
        return "its axes are not bound to an affine map of its loops"
    for axis in stmt.iter_vars:
        if axis.iter_type not in (IterVar.DataPar, IterVar.CommReduce):
            return f"its axis `{axis.var.name}` is neither spatial nor reduce"
    reason = _why_not_dominant(state, block, root, within)
    if reason:
        return reason
    reduced = {axis.var: None for axis in stmt.iter_vars if axis.iter_type == IterVar.CommReduce}
    written = dict.fromkeys(w.buffer for w in stmt.writes)
    for store in stores_of(stmt):
        if store.buffer in written and any(mentions(i, reduced) for i in store.indices):
            return f"it stores to `{store.buffer.name}` at subscripts that depend on a reduce axis"
    return shared_element(stmt)


def _why_not_dominant(state: ScheduleState, block: StmtSRef, root: StmtSRef | None, within: StmtSRef | None) -> str:
    root = root if root is not None else state.scope_root(block)
    if root is None:
        return ""
    writers = state.scope(root).buffer_writers
    for w in block.block.writes:
        for other in writers.get(w.buffer, ()):
            if other is not block and (within is None or state.is_ancestor(within, other)):
                return f"`{w.buffer.name}` is written by block `{other.block.name_hint}` too"
    return ""


def require_complete(state: ScheduleState, block: StmtSRef, root: StmtSRef | None = None) -> None:
    """Refuse a block that is not complete."""
    reason = why_not_complete(state, block, root)
    if reason:
        refuse(f"{{0}} is not complete: {literal(reason)}", block.block)


def require_reduction(state: ScheduleState, block: StmtSRef, root: StmtSRef | None = None) -> None:
    """Refuse a block that is not a reduction."""
    reason = why_not_reduction(state, block, root)
    if reason:
        refuse(f"{{0}} is not a reduction: {literal(reason)}", block.block)


def require_complete_or_reduction(state: ScheduleState, block: StmtSRef, root: StmtSRef | None = None) -> None:
    """Refuse a block that is neither complete nor a reduction."""
    first = why_not_complete(state, block, root)
    second = first and why_not_reduction(state, block, root)
    if second:
        refuse(f"{{0}} is neither complete ({literal(first)}) nor a reduction ({literal(second)})", block.block)


class _Stores(Visitor):
    def __init__(self) -> None:
        self.found: list[BufferStore] = []

    def visit_BufferStore(self, node: BufferStore) -> None:
        """Collect the store."""
        self.found.append(node)

    def visit_PrimExpr(self, node: object) -> None:
        """No expression holds a store."""


def stores_of(block: Block, init: bool = False) -> list[BufferStore]:
    """All stores in the body of a block (and in its init, if asked), those of inner blocks and their inits included."""
    visitor = _Stores()
    if init and block.init is not None:
        visitor.visit(block.init)
    visitor.visit(block.body)
    return visitor.found


# -- outputs --------------------------------------------------------------------------------------


def is_output_block(state: ScheduleState, block: StmtSRef, root: StmtSRef | None = None) -> bool:
    """Whether a block writes a buffer that the block around it does not allocate."""
    root = root if root is not None else require_scope_root(state, block)
    own = dict.fromkeys(root.block.alloc_buffers)
    return any(w.buffer not in own for w in block.block.writes)


def require_not_output(state: ScheduleState, block: StmtSRef, root: StmtSRef) -> None:
    """Refuse a block that writes a buffer which is seen outside the block around it."""
    if is_output_block(state, block, root):
        own = dict.fromkeys(root.block.alloc_buffers)
        name = next(w.buffer.name for w in block.block.writes if w.buffer not in own)
        refuse(f"{{0}} writes `{name}`, which is used outside {{1}}", block.block, root.block)


# -- scopes and subtrees --------------------------------------------------------------------------


def why_not_stage_pipeline(state: ScheduleState, root: StmtSRef) -> str:
    """Why the blocks of a scope are no pipeline in which each stage consumes what earlier ones made; "" if they are."""
    found = _PIPELINE.get(root.block)
    if found is None:
        found = _PIPELINE[root.block] = _find_break(state, root)
    return found


_PIPELINE: WeakKeyDictionary[Block, str] = WeakKeyDictionary()


def _find_break(state: ScheduleState, root: StmtSRef) -> str:
    return next((reason for reason, _ in _breaks(state, root)), "")


def _breaks(state: ScheduleState, root: StmtSRef) -> Iterator[tuple[str, Callable[[], str]]]:
    """What keeps a scope from being a pipeline, each with what finds an example."""
    scope = state.scope(root)
    for child in scope.children:
        for dep in scope.dst2deps.get(child, ()):
            if dep.kind is DepKind.WAR:
                names = child.block.name_hint, dep.src.block.name_hint
                yield (
                    f"block `{names[0]}` overwrites what block `{names[1]}` reads before it",
                    partial(overwritten_example, state, dep.src, child),
                )
        if not region_cover(state, child):
            yield (
                f"block `{child.block.name_hint}` may read elements that the blocks before it have not written "
                "in the same iteration of the loops around both",
                partial(_uncovered_example, state, child),
            )


def _uncovered_example(state: ScheduleState, block: StmtSRef) -> str:
    root = require_scope_root(state, block)
    sources = dict.fromkeys(d.src for d in state.scope(root).dst2deps.get(block, ()) if d.kind is DepKind.RAW)
    for r in block.block.reads:
        producers = [p for p in sources if any(w.buffer is r.buffer for w in p.block.writes)]
        found = (
            unwritten_example(state, block, state.common_ancestor([block, *producers]), r.buffer) if producers else ""
        )
        if found:
            return found
    return ""


def is_stage_pipeline(state: ScheduleState, root: StmtSRef) -> bool:
    """Whether each block of a scope reads only what earlier ones have completed, and none overwrites what was read."""
    return not why_not_stage_pipeline(state, root)


def require_stage_pipeline(s: ScheduleCore, root: StmtSRef) -> None:
    """Refuse a scope that is no stage pipeline, unless the schedule leaves such checks out."""
    if s.enable_check:
        reason = why_not_stage_pipeline(s.state, root)
        if reason:
            example = next(_breaks(s.state, root))[1]()
            refuse(f"the blocks of {{0}} are no pipeline of stages: {literal(reason + example)}", root.block)


def require_region_cover(state: ScheduleState, block: StmtSRef) -> None:
    """Refuse a block that may read what has not been written."""
    if not region_cover(state, block):
        refuse(
            "{0} may read elements that the blocks before it have not written in the same iteration of common loops"
            + literal(_uncovered_example(state, block)),
            block.block,
        )


def require_compact_dataflow(s: ScheduleCore, loop: StmtSRef) -> None:
    """Refuse a loop below which a block is neither complete nor a reduction, counting only writers below the loop."""
    if not s.enable_check:
        return
    for child in s.state.child_blocks(loop):
        root = s.state.scope_root(child)
        first = why_not_complete(s.state, child, root, loop)
        second = first and why_not_reduction(s.state, child, root, loop)
        if second:
            refuse(
                f"the iterations of {{0}} are not independent as far as can be told: {{1}} is neither complete "
                f"({literal(first)}) nor a reduction ({literal(second)})",
                loop.loop,
                child.block,
            )


def writers_of(state: ScheduleState, root: StmtSRef, buffer: Buffer) -> list[StmtSRef]:
    """The blocks of a scope that write a buffer, in program order."""
    return state.scope(root).buffer_writers.get(buffer, [])


def readers_of(state: ScheduleState, root: StmtSRef, buffer: Buffer) -> Iterator[StmtSRef]:
    """The blocks of a scope that read a buffer, in program order."""
    return (c for c in state.scope(root).children if any(r.buffer is buffer for r in c.block.reads))


def require_copied_in_time(
    state: ScheduleState,
    root: StmtSRef,
    writer: StmtSRef,
    buffer: Buffer,
    redirected: Sequence[StmtSRef],
    place: StmtSRef | None,
) -> None:
    """Refuse a copy back, in the loop `place`, that comes too late for a block which reads what the iteration before
    wrote: a reader in a loop around the writer, when the copy stands outside of that loop.
    """
    around: list[StmtSRef] = []
    while place is not None:
        around.append(place)
        place = place.parent
    loops = state.loops_of(writer)
    for reader in readers_of(state, root, buffer):
        common = [r for r in state.loops_of(reader) if r in loops]
        if reader is writer or reader in redirected or not common or common[-1] in around:
            continue
        refuse(
            f"{{0}} reads `{buffer.name}` in the same loop as {{1}} writes it, and would miss what earlier iterations "
            "of {2} wrote: the copy back would stand after that loop",
            reader.block,
            writer.block,
            common[-1].loop,
        )


__all__ = [
    "affine_binding",
    "is_complete_block",
    "is_output_block",
    "is_reduction_block",
    "is_stage_pipeline",
    "is_trivial_binding",
    "readers_of",
    "region_cover",
    "require_compact_dataflow",
    "require_copied_in_time",
    "require_complete",
    "require_complete_or_reduction",
    "require_not_output",
    "require_reduction",
    "require_region_cover",
    "require_scope_root",
    "require_stage_pipeline",
    "stores_of",
    "why_not_complete",
    "why_not_reduction",
    "why_not_stage_pipeline",
    "writers_of",
]
