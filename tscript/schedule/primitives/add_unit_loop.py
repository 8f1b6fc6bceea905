"""A loop of one iteration around a block or loop."""

from __future__ import annotations

from tscript.ir.dtype import INT32, DataType
from tscript.ir.expr import IntImm, Var
from tscript.ir.stmt import Block, For, ForKind, Stmt
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.instruction import InstructionKind, Outputs, block
from tscript.schedule.loop_checks import require_statement
from tscript.schedule.primitive import primitive
from tscript.schedule.rv import BlockRV, LoopRV
from tscript.schedule.sref import StmtSRef


@primitive(InstructionKind("AddUnitLoop", "add_unit_loop", (block("block_or_loop"),), Outputs.ONE))
def add_unit_loop(s: ScheduleCore, block_or_loop: BlockRV | LoopRV) -> LoopRV:
    """Put a loop `u` of one iteration directly around a block or loop; its handle.

    It counts in the type of its neighbours.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def clear(A: T.Buffer((8,), "float32")):
    ...     for i in range(8):
    ...         with T.block("A"):
    ...             v = T.axis.spatial(8, i)
    ...             A[v] = T.float32(0)
    >>> sch = tscript.tir.Schedule(clear)
    >>> u = sch.add_unit_loop(sch.get_block("A"))
    >>> print(sch.get(sch.get_loops("A")[0]))
    for i, u in T.grid(8, 1):
        with T.block("A"):
            v = T.axis.spatial(8, i)
            T.reads()
            A = T.Buffer((8,))
            T.writes(A[v])
            A[v] = T.float32(0.0)
    """
    sref = require_statement(s, block_or_loop)
    if sref.parent is None:
        refuse("{0} is the root of its function, which has no loops around it", sref.block)
    inner = sref.stmt
    assert inner is not None
    body: Stmt = s.state.realize_of(sref) if isinstance(inner, Block) else inner
    dtype = _count_type(s, sref)
    around = For(Var("u", dtype), IntImm(dtype, 0), IntImm(dtype, 1), ForKind.SERIAL, body)
    s.state.replace(sref, around, {}, "put in a unit loop")
    return s.loop_of(around)


def _count_type(s: ScheduleCore, sref: StmtSRef) -> DataType:
    """The type in which the loops count there, or the axes of the block without any."""
    if isinstance(sref.stmt, For):
        return sref.loop.loop_var.dtype
    loops = s.state.loops_of(sref)
    if loops:
        return loops[-1].loop.loop_var.dtype
    axes = sref.block.iter_vars
    return axes[0].var.dtype if axes else INT32
