"""Finding blocks and loops. These change nothing."""

from __future__ import annotations

from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.instruction import InstructionKind, Outputs, attr, block
from tscript.schedule.primitive import primitive
from tscript.schedule.rv import BlockRV, LoopRV
from tscript.schedule.sref import StmtSRef


@primitive(InstructionKind("GetBlock", "get_block", (attr("name"), attr("func_name")), Outputs.ONE, is_pure=True))
def get_block(s: ScheduleCore, name: str, func_name: str | None = None) -> BlockRV:
    """The block called `name`, at any depth, of a function (the one in focus unless told).

    Raises ScheduleError for no or several such blocks.

    >>> import tscript
    >>> from tscript.testing.workloads import rms_norm
    >>> sch = tscript.tir.Schedule(rms_norm(4, 6).func)
    >>> sch.get(sch.get_block("rrms")).writes
    (rrms[v_i],)
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a block is found by its name, not by {name!r}")
    resolved, found = s.find_block(name, func_name)
    s.record_as(func_name=resolved)
    return s.new_block(found)


@primitive(InstructionKind("GetLoops", "get_loops", (block(),), Outputs.LIST, is_pure=True))
def get_loops(s: ScheduleCore, block: BlockRV | str) -> list[LoopRV]:
    """The loops around a block up to the next block, outermost first.

    >>> import tscript
    >>> from tscript.testing.workloads import rms_norm
    >>> sch = tscript.tir.Schedule(rms_norm(4, 6).func)
    >>> [sch.get(loop).loop_var for loop in sch.get_loops("square")]
    [i, k]
    """
    return [s.new_loop(loop) for loop in s.state.loops_of(s.block(block))]  # pyright: ignore[reportArgumentType]


@primitive(
    InstructionKind(
        "GetChildBlocks", "get_child_blocks", (block("block_or_loop", keyword=False),), Outputs.LIST, is_pure=True
    )
)
def get_child_blocks(s: ScheduleCore, block_or_loop: BlockRV | LoopRV) -> list[BlockRV]:
    """The blocks directly below a block or loop, in program order; it does not enter them.

    >>> import tscript
    >>> from tscript.testing.workloads import rms_norm
    >>> sch = tscript.tir.Schedule(rms_norm(4, 6).func)
    >>> [sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))]
    ['square', 'rrms', 'Y']
    """
    return [s.new_block(b) for b in s.state.child_blocks(s.block_or_loop(block_or_loop))]


@primitive(InstructionKind("GetProducers", "get_producers", (block(),), Outputs.LIST, is_pure=True))
def get_producers(s: ScheduleCore, block: BlockRV | str) -> list[BlockRV]:
    """The blocks of the same scope whose values a block reads or overwrites.

    >>> import tscript
    >>> from tscript.testing.workloads import rms_norm
    >>> sch = tscript.tir.Schedule(rms_norm(4, 6).func)
    >>> [sch.get(b).name_hint for b in sch.get_producers("rrms")]
    ['square']
    """
    sref = s.block(block)  # pyright: ignore[reportArgumentType]
    return [s.new_block(b) for b in s.state.scope(_scope_root(s, sref)).producers(sref)]


@primitive(InstructionKind("GetConsumers", "get_consumers", (block(),), Outputs.LIST, is_pure=True))
def get_consumers(s: ScheduleCore, block: BlockRV | str) -> list[BlockRV]:
    """The blocks of the same scope that read or overwrite what a block writes.

    >>> import tscript
    >>> from tscript.testing.workloads import rms_norm
    >>> sch = tscript.tir.Schedule(rms_norm(4, 6).func)
    >>> [sch.get(b).name_hint for b in sch.get_consumers("rrms")]
    ['Y']
    """
    sref = s.block(block)  # pyright: ignore[reportArgumentType]
    return [s.new_block(b) for b in s.state.scope(_scope_root(s, sref)).consumers(sref)]


@primitive(InstructionKind("GetOutputBlocks", "get_output_blocks", (block(),), Outputs.LIST, is_pure=True))
def get_output_blocks(s: ScheduleCore, block: BlockRV | str) -> list[BlockRV]:
    """The blocks below `block`, at any depth, that write a buffer it does not allocate.

    >>> import tscript
    >>> from tscript.testing.workloads import rms_norm
    >>> sch = tscript.tir.Schedule(rms_norm(4, 6).func)
    >>> [sch.get(b).name_hint for b in sch.get_output_blocks("root")]
    ['Y']
    """
    root = s.block(block)  # pyright: ignore[reportArgumentType]
    own = dict.fromkeys(root.block.alloc_buffers)
    below = s.state.blocks_below(root)
    return [s.new_block(b) for b in below if any(w.buffer not in own for w in b.block.writes)]


def _scope_root(s: ScheduleCore, sref: StmtSRef) -> StmtSRef:
    root = s.state.scope_root(sref)
    if root is None:
        refuse("{0} is the root of its function, so it has no producers and no consumers", sref.block)
    return root
