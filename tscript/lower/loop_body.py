"""The body of a loop taken apart: the memory that each iteration has for itself, and statements that can be told apart.

Passes that let several iterations of a loop run at once move these statements in time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tscript.ir.base import Node
from tscript.ir.buffer import Buffer
from tscript.ir.expr import IntImm, PrimExpr
from tscript.ir.functor import children
from tscript.ir.occurrences import any_below, reads_memory
from tscript.ir.stmt import (
    Allocate,
    AttrStmt,
    Block,
    BlockRealize,
    DeclBuffer,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
)

DOUBLE_BUFFER: Final = "double_buffer_scope"
"""Annotation of a block: the number of a buffer among those that it writes, of which a pipeline around has two versions
at least. Also the attribute of a pointer, around the statement that fills its memory."""

Around = Callable[[Stmt], Stmt]


@dataclass(slots=True)
class OpenedBody:
    """What a loop runs in each iteration.

    `memory`: buffers that exist for an iteration only. `around` puts a statement of the body where the conditions,
    names and attributes hold that stood around all of them; `conditions` are the values these are made of. `seq` holds
    the statements, and `blocks` the blocks that were opened to get at them.
    """

    memory: list[Buffer] = field(default_factory=list[Buffer])
    around: Around = field(default=lambda s: s)
    conditions: list[PrimExpr] = field(default_factory=list[PrimExpr])
    blocks: list[Block] = field(default_factory=list[Block])
    seq: list[Stmt] = field(default_factory=list[Stmt])

    @property
    def depends_on_memory(self) -> bool:
        """Whether what stands around the statements reads memory, so that it may change while they run."""
        return any(reads_memory(e) for e in self.conditions)

    def wrap(self, around: Around) -> None:
        """Put `around` inside what is around already."""
        outer = self.around
        self.around = lambda s: outer(around(s))


def open_body(body: Stmt) -> OpenedBody:
    """Go below blocks, allocations, conditions, names and attributes down to the statements of a loop's `body`.

    Expects blocks without axes and views. A body that is one statement has a `seq` of one.
    """
    opened = OpenedBody()
    inner = body
    while (below := _opened(inner, opened)) is not None:
        inner = below
    opened.seq.extend(inner.seq if isinstance(inner, SeqStmt) else [inner])
    return opened


def _opened(s: Stmt, opened: OpenedBody) -> Stmt | None:
    match s:
        case BlockRealize(iter_values=(), block=Block(init=None, match_buffers=()) as block):
            if not _is_true(s.predicate):
                _add_condition(s.predicate, opened)
            opened.memory.extend(block.alloc_buffers)
            opened.blocks.append(block)
            return block.body
        case IfThenElse(else_case=None):
            _add_condition(s.condition, opened)
            return s.then_case
        case LetStmt() if not s.var.dtype.is_handle:
            opened.conditions.append(s.value)
            opened.wrap(lambda inside: s.replace(body=inside))
            return s.body
        case AttrStmt() if s.attr_key != DOUBLE_BUFFER:
            opened.wrap(lambda inside: s.replace(body=inside))
            return s.body
        case Allocate(body=DeclBuffer() as declared) if _is_whole(s, declared.buffer):
            opened.memory.append(declared.buffer)
            return declared.body
        case _:
            return None


def _add_condition(condition: PrimExpr, opened: OpenedBody) -> None:
    opened.conditions.append(condition)
    opened.wrap(lambda inside: IfThenElse(condition, inside))


def _is_true(e: PrimExpr) -> bool:
    return isinstance(e, IntImm) and bool(e.value)


def _is_whole(memory: Allocate, buffer: Buffer) -> bool:
    """Whether `buffer` is all of the allocated `memory`, and its only name."""
    has_offset = not (isinstance(buffer.elem_offset, IntImm) and buffer.elem_offset.value == 0)
    if buffer.data is not memory.buffer_var or buffer.dtype is not memory.dtype or buffer.strides or has_offset:
        return False
    if not _is_true(memory.condition) or memory.annotations:
        return False
    same = len(buffer.shape) == len(memory.extents) and all(
        a is b for a, b in zip(buffer.shape, memory.extents, strict=True)
    )
    return same and not any_below(memory.body, lambda n: isinstance(n, DeclBuffer) and _is_other(n.buffer, buffer))


def _is_other(one: Buffer, buffer: Buffer) -> bool:
    return one.data is buffer.data and one is not buffer


def nested_statements(s: Stmt) -> tuple[Block, Sequence[Stmt]] | None:
    """The block and the statements of one that runs a sequence always; None for any other statement."""
    if not isinstance(s, BlockRealize) or s.iter_values or not _is_true(s.predicate):
        return None
    block = s.block
    if block.init is not None or block.match_buffers or not isinstance(block.body, SeqStmt):
        return None
    return block, block.body.seq


def names_pointer(root: Stmt, buffer: Buffer) -> bool:
    """Whether `root` gets at the memory of `buffer` other than by accesses to it, and notes about it."""
    stack: list[Node] = [root]
    seen: set[Node] = set()
    while stack:
        n = stack.pop()
        if n is buffer.data or (isinstance(n, Buffer) and n.data is buffer.data and n is not buffer):
            return True
        if n in seen:
            continue
        seen.add(n)
        stack.extend(c for c in children(n) if not (isinstance(n, AttrStmt) and c is n.node))
    return False


__all__ = ["DOUBLE_BUFFER", "Around", "OpenedBody", "names_pointer", "nested_statements", "open_body"]
