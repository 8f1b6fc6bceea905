"""A loop of one iteration around a block or loop."""

from __future__ import annotations

from tscript.ir.dtype import INT32
from tscript.ir.expr import IntImm, Var
from tscript.ir.stmt import Block, For, ForKind, Stmt
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.instruction import InstructionKind, Outputs, block
from tscript.schedule.loop_checks import require_statement
from tscript.schedule.primitive import primitive
from tscript.schedule.rv import BlockRV, LoopRV


@primitive(InstructionKind("AddUnitLoop", "add_unit_loop", (block("block_or_loop"),), Outputs.ONE))
def add_unit_loop(s: ScheduleCore, block_or_loop: BlockRV | LoopRV) -> LoopRV:
    """Put a loop `u` of one iteration directly around a block or loop; its handle.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def one(A: T.Buffer((), "float32")):
    ...     with T.block("A"):
    ...         A[()] = T.float32(1)
    >>> sch = tscript.tir.Schedule(one)
    >>> print(sch.get(sch.add_unit_loop(sch.get_block("A"))))
    for u in range(1):
        with T.block("A"):
            T.reads()
            T.writes(A[()])
            A[()] = T.float32(1.0)
    """
    sref = require_statement(s, block_or_loop)
    if sref.parent is None:
        refuse("{0} is the root of its function, which has no loops around it", sref.block)
    inner = sref.stmt
    assert inner is not None
    body: Stmt = s.state.realize_of(sref) if isinstance(inner, Block) else inner
    around = For(Var("u", INT32), IntImm(INT32, 0), IntImm(INT32, 1), ForKind.SERIAL, body)
    s.state.replace(sref, around, {}, "put in a unit loop")
    return s.loop_of(around)
