"""The block that decides how long a program takes."""

from __future__ import annotations

from tscript.ir.expr import BinaryExpr, Call, IntImm, IterVar
from tscript.ir.function import IRModule
from tscript.ir.functor import post_order_visit
from tscript.ir.stmt import Block


def anchor_block(mod: IRModule) -> Block | None:
    """The reduction with most arithmetic (instances times operations of one); None where no block reduces."""
    best: Block | None = None
    most = 0

    def look(node: object) -> None:
        nonlocal best, most
        if isinstance(node, Block) and any(v.iter_type == IterVar.CommReduce for v in node.iter_vars):
            work = _operations(node)
            for v in node.iter_vars:
                extent = None if v.dom is None else v.dom.extent
                work *= extent.value if isinstance(extent, IntImm) else 1
            if work > most:
                best, most = node, work

    for var in sorted(mod.functions, key=lambda v: v.name_hint):
        post_order_visit(mod[var].body, look)
    return best


def _operations(block: Block) -> int:
    count = 0

    def look(node: object) -> None:
        nonlocal count
        count += isinstance(node, (BinaryExpr, Call))

    post_order_visit(block.body, look)
    return max(1, count)
