"""Rewriting subtrees of a program while keeping track of which block came from which."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tscript.ir import expr as ex
from tscript.ir import stmt as st
from tscript.ir.buffer import Buffer
from tscript.ir.expr import PointerType, PrimExpr, Var
from tscript.ir.functor import Rewriter, Substitute, children, pre_order_visit
from tscript.ir.stmt import (
    Block,
    BufferRegion,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    seq,
)
from tscript.schedule.errors import refuse
from tscript.schedule.sref import StmtSRef
from tscript.schedule.state import ScheduleState

BlockReuse = dict[Block, Block]
"""Old blocks, and what became of them: what `ScheduleState.replace` wants to know."""


class TrackingRewriter(Rewriter):
    """A rewriter that records in `block_reuse` every block it changed."""

    def __init__(self) -> None:
        super().__init__()
        self.block_reuse: BlockReuse = {}

    def rewrite(self, node: Any) -> Any:
        """The new form of a node."""
        new = super().rewrite(node)
        if isinstance(node, Block) and isinstance(new, Block) and new is not node:
            self.block_reuse[node] = new
        return new


def followed(first: Mapping[Block, Block], second: Mapping[Block, Block]) -> BlockReuse:
    """What became of blocks by two rewrites, one after the other."""
    result = {old: second.get(new, new) for old, new in first.items()}
    made = dict.fromkeys(first.values())
    return result | {old: new for old, new in second.items() if old not in made and old not in result}


# -- statements -----------------------------------------------------------------------------------


class _StmtReplacer(TrackingRewriter):
    def __init__(self, changes: Mapping[Stmt, Stmt | None]) -> None:
        super().__init__()
        self.changes = changes

    def rewrite(self, node: Any) -> Any:
        """The replacement of a statement, else the default; expressions stay."""
        if isinstance(node, PrimExpr) or isinstance(node, Buffer):
            return node
        if node in self.changes:
            return self.changes[node]
        return super().rewrite(node)

    def rewrite_SeqStmt(self, node: SeqStmt) -> Stmt:
        """The sequence without what was removed."""
        parts = [self.rewrite(s) for s in node.seq]
        return node if all(a is b for a, b in zip(parts, node.seq, strict=True)) else seq(*parts)

    def rewrite_Block(self, node: Block) -> Block:
        """A block is changed in its body only."""
        body = self.rewrite(node.body)
        return node if body is node.body else node.replace(body=body)


def replace_stmts(root: Any, changes: Mapping[Stmt, Stmt | None]) -> tuple[Any, BlockReuse]:
    """`root` (a statement or block) with statements replaced, or removed from their sequence where the new one is
    None; and what became of its blocks. Replacements are taken as they are; inits are not searched.
    """
    rewriter = _StmtReplacer(changes)
    return rewriter.rewrite(root), rewriter.block_reuse


def declaring_reads(
    state: ScheduleState, loop: StmtSRef, new: Stmt, buffers: Mapping[Buffer, object]
) -> tuple[StmtSRef, Stmt, BlockReuse]:
    """What to put where, and what becomes of blocks: `new` for the loop, or a block around it.

    What is inside reads of `buffers` what it writes, which it did not before; blocks around that declare to write
    them declare to read that too.
    """
    changes: dict[Block, tuple[BufferRegion, ...]] = {}
    place = loop
    at = state.scope_root(loop)
    while at is not None:
        old = at.block
        known = dict.fromkeys(r.buffer for r in old.reads)
        missing = [w for w in old.writes if w.buffer in buffers and w.buffer not in known]
        if missing:
            place = at
            changes[old] = (*missing, *old.reads)
        at = state.scope_root(at)
    if place is loop:
        return loop, new, {}
    made, reuse = replace_stmts(place.block, {loop.loop: new})
    widened = _Declaring({reuse.get(old, old): reads for old, reads in changes.items()})
    done = widened.rewrite(made)
    return place, done, followed(reuse, widened.block_reuse)


class _Declaring(TrackingRewriter):
    def __init__(self, reads: dict[Block, tuple[BufferRegion, ...]]) -> None:
        super().__init__()
        self.reads = reads

    def rewrite_Block(self, node: Block) -> Block:
        """The block with the reads that it is given."""
        body = self.rewrite(node.body)
        return node.replace(body=body, reads=self.reads.get(node, node.reads))


def insert_before(root: Any, at: Stmt, new: Stmt) -> tuple[Any, BlockReuse]:
    """`root` with `new` put before the statement `at`, in its sequence if it is in one."""
    return replace_stmts(root, {at: seq(new, at)})


def insert_after(root: Any, at: Stmt, new: Stmt) -> tuple[Any, BlockReuse]:
    """`root` with `new` put after the statement `at`, in its sequence if it is in one."""
    return replace_stmts(root, {at: seq(at, new)})


def statement_of(state: ScheduleState, sref: StmtSRef) -> Stmt:
    """What stands in the program for a reference: the loop, or the realize of the block."""
    stmt = sref.stmt
    assert stmt is not None
    return state.realize_of(sref) if isinstance(stmt, Block) else stmt


def path_to(root: Stmt, target: Stmt) -> list[Stmt]:
    """The statements from `root` down to `target`, both included, blocks standing for themselves; [] without one."""
    stack: list[tuple[Stmt, list[Stmt]]] = [(root, [root])]
    while stack:
        at, path = stack.pop()
        if at is target:
            return path
        stack.extend((c, [*path, c]) for c in children(at) if isinstance(c, Stmt))
    return []


def require_removable(state: ScheduleState, block: StmtSRef, root: StmtSRef) -> Stmt:
    """The statement that goes when a block is taken out of the scope of `root`: the block with the loops that would
    be left empty. Refused where nothing else would be left in the scope.
    """
    realize = state.realize_of(block)
    path = path_to(root.block.body, realize)
    for above, below in zip(reversed(path[:-1]), reversed(path[1:]), strict=True):
        if isinstance(above, SeqStmt):
            return below
        if isinstance(above, IfThenElse) and above.else_case is not None:
            break
    refuse("{0} is the only statement of {1} and cannot be taken out of it", block.block, root.block)


def remove_stmt(root: Any, gone: Stmt) -> tuple[Any, BlockReuse]:
    """`root` without a statement of one of its sequences."""
    return replace_stmts(root, {gone: None})


# -- buffers --------------------------------------------------------------------------------------


class ReplaceBuffers(TrackingRewriter):
    """Uses other buffers in place of some: in loads, stores, regions and views. Their pointers are exchanged too.

    Allocations are changed only with `definitions`.
    """

    def __init__(self, buffers: Mapping[Buffer, Buffer], definitions: bool = False) -> None:
        super().__init__()
        self.given = dict(buffers)
        self.definitions = definitions
        self.pointers = {old.data: new.data for old, new in buffers.items()}

    def rewrite_Var(self, node: Var) -> PrimExpr:
        """The pointer of the new buffer for that of the old one."""
        return self.pointers.get(node, node)

    def rewrite_buffer(self, buffer: Buffer) -> Buffer:
        """The replacement of a buffer."""
        given = self.given.get(buffer)
        return given if given is not None else super().rewrite_buffer(buffer)

    def rewrite_Block(self, node: Block) -> Block:
        """The block with all but its allocations rewritten. Its views lie in the same memory as what they view."""
        for m in node.match_buffers:
            source = self.given.get(m.source.buffer)
            if source is not None and m.buffer not in self.given and m.buffer.scope() != source.scope():
                view = self.given[m.buffer] = with_scope(m.buffer, source.scope(), m.buffer.name)
                self.pointers[m.buffer.data] = view.data
        new = self.rewrite_children(node)
        return new if self.definitions else new.replace(alloc_buffers=node.alloc_buffers)


def replace_buffers(node: Any, buffers: Mapping[Buffer, Buffer], definitions: bool = False) -> tuple[Any, BlockReuse]:
    """`node` with buffers exchanged (see `ReplaceBuffers`), and what became of its blocks."""
    rewriter = ReplaceBuffers(buffers, definitions)
    return rewriter.rewrite(node), rewriter.block_reuse


def with_scope(buffer: Buffer, scope: str, name: str | None = None) -> Buffer:
    """A new buffer like `buffer` in another storage scope, called `<buffer>_<scope>` unless named."""
    name = f"{buffer.name}_{scope}" if name is None else name
    pointer = buffer.data.type_annotation
    assert isinstance(pointer, PointerType)
    data = Var(name, PointerType(pointer.element_type, scope or "global"))
    return buffer.replace(data=data, name=name)


# -- copies ---------------------------------------------------------------------------------------

_BINDERS: dict[type[Any], str] = {
    For: "loop_var",
    LetStmt: "var",
    ex.Let: "var",
    ex.IterVar: "var",
    st.Allocate: "buffer_var",
    st.AllocateConst: "buffer_var",
}


class _Copier(Substitute):
    def rewrite_Block(self, node: Block) -> Block:
        """A block of its own, also where nothing in it changes."""
        new = self.rewrite_children(node)
        return Block(*(getattr(node, f) for f in Block._fields)) if new is node else new  # pyright: ignore[reportPrivateUsage]


def fresh_copy(
    stmt: Any,
    rename: Callable[[str], str] | None = None,
    known: Mapping[Var, PrimExpr] | None = None,
) -> Any:
    """A copy of a statement with variables and allocations of its own, so that both may stand in one program.

    `rename` gives new names to loop variables; `known` holds replacements for other variables.
    """
    variables: dict[Var, PrimExpr] = dict(known or {})
    buffers: dict[Buffer, Buffer] = {}

    def look(node: Any) -> bool:
        field = _BINDERS.get(node.__class__)
        if field is not None:
            old: Var = getattr(node, field)
            name = rename(old.name) if rename is not None and isinstance(node, For) else old.name
            variables.setdefault(old, old.copy_with(name=name))
        if isinstance(node, Block):
            for b in node.alloc_buffers:
                variables.setdefault(b.data, b.data.copy_with())
            for m in node.match_buffers:
                variables.setdefault(m.buffer.data, Var(m.buffer.data.name, m.buffer.data.type_annotation))
            for v in _found_by_views(node, stmt):
                variables.setdefault(v, v.copy_with())
        return True

    pre_order_visit(stmt, look)
    copier = _Copier(variables, buffers)
    return copier.rewrite(stmt)


def _found_by_views(block: Block, stmt: Any) -> list[Var]:
    """The strides and offsets that views of a block define: variables that the rest of `stmt` does not use."""
    fields = [f for m in block.match_buffers for f in (*m.buffer.strides, m.buffer.elem_offset)]
    found = dict.fromkeys(f for f in fields if isinstance(f, Var))

    def look(node: Any) -> bool:
        if isinstance(node, Var):
            found.pop(node, None)
        return node is not block

    if found:
        pre_order_visit(stmt, look)
    return list(found)


def nest(loops: Sequence[For], body: Stmt) -> Stmt:
    """`body` inside the given loops, outermost first, whose own bodies are replaced."""
    for loop in reversed(loops):
        body = loop.replace(body=body)
    return body


__all__ = [
    "BlockReuse",
    "ReplaceBuffers",
    "TrackingRewriter",
    "declaring_reads",
    "followed",
    "fresh_copy",
    "insert_after",
    "insert_before",
    "nest",
    "path_to",
    "remove_stmt",
    "replace_buffers",
    "replace_stmts",
    "require_removable",
    "statement_of",
    "with_scope",
]
