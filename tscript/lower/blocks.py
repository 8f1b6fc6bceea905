"""Opaque blocks become the statements they hold: predicates as conditions, local buffers as allocations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tscript.ir.alignment import ALIGNMENT, Alignment, alignments
from tscript.ir.buffer import Buffer
from tscript.ir.construct import add, const, max_, mul, sub
from tscript.ir.expr import IntImm, PrimExpr
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Rewriter
from tscript.ir.stmt import Allocate, Block, BlockRealize, DeclBuffer, IfThenElse, Stmt


def lower_blocks(func: PrimFunc) -> PrimFunc:
    """Remove all blocks, which have no axes and views any more."""
    return func.replace(body=_LowerBlocks(alignments(func)).rewrite(func.body))


def without_blocks(s: Stmt) -> Stmt:
    """`s` with its blocks, which have no axes and views any more, as the statements that they hold."""
    return _LowerBlocks({}).rewrite(s)


class _LowerBlocks(Rewriter):
    def __init__(self, asked: Mapping[Buffer, Alignment]) -> None:
        super().__init__()
        self._asked = asked

    def rewrite_BlockRealize(self, realize: BlockRealize) -> Any:
        body: Stmt = self.rewrite(realize.block)
        if isinstance(realize.predicate, IntImm) and realize.predicate.value:
            return body
        return IfThenElse(self.rewrite(realize.predicate), body, span=realize.span)

    def rewrite_Block(self, block: Block) -> Any:
        body: Stmt = self.rewrite(block.body)
        for buffer in reversed(block.alloc_buffers):
            body = allocated(self.map_buffer(buffer), body, self._asked.get(buffer))
        return body


def allocated(buffer: Buffer, body: Stmt, alignment: Alignment | None = None) -> Stmt:
    """`body` with memory for `buffer`, whose strides follow from its shape and `alignment`."""
    memory = Allocate(buffer.data, buffer.dtype, _extents(buffer), const(True), DeclBuffer(buffer, body))
    if not alignment:
        return memory
    entries = [[IntImm("int32", n) for n in (d, *alignment[d])] for d in sorted(alignment)]
    return memory.replace(annotations={ALIGNMENT: entries})


def _extents(buffer: Buffer) -> tuple[PrimExpr, ...]:
    has_offset = not (isinstance(buffer.elem_offset, IntImm) and buffer.elem_offset.value == 0)
    if not buffer.strides and not has_offset:
        return buffer.shape or (const(1),)
    # The last element lies at the offset plus the largest index times the stride, in every dimension.
    last: PrimExpr = buffer.elem_offset
    for extent, stride in zip(buffer.shape, buffer.effective_strides(), strict=True):
        last = add(last, mul(max_(sub(extent, 1), 0), stride))
    return (add(last, 1),)
