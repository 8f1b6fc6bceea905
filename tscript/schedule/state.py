"""The program under transformation. `ScheduleState.replace` is the only place where it changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tscript.ir.buffer import Buffer
from tscript.ir.expr import GlobalVar, PrimExpr
from tscript.ir.function import IRModule, PrimFunc
from tscript.ir.functor import Rewriter, children
from tscript.ir.stmt import Block, BlockRealize, For, SeqStmt, Stmt, seq
from tscript.schedule.scope import BlockScope, block_scope
from tscript.schedule.sref import StmtSRef
from tscript.support.errors import InternalError


class ScheduleState:
    """A module, and a reference for each loop and block of its functions.

    References of nodes inside a block's init do not exist. `realize_of` gives the BlockRealize of a block.
    """

    def __init__(self, mod: IRModule, debug_mask: int = 0) -> None:
        self.mod = IRModule(mod.functions, mod.attrs, mod.global_infos)
        self.debug_mask = debug_mask
        self.step = -1
        self.stmt2ref: dict[Stmt, StmtSRef] = {}
        self.roots: dict[StmtSRef, GlobalVar] = {}
        self._realizes: dict[StmtSRef, BlockRealize] = {}
        self._scopes: dict[StmtSRef, BlockScope] = {}
        for var, func in self.mod.functions.items():
            if isinstance(func, PrimFunc) and isinstance(func.body, BlockRealize):  # pyright: ignore[reportUnnecessaryIsInstance]
                root = self._enter(func.body, None, -1, {})
                self.roots[root] = var

    # -- looking --------------------------------------------------------------------------------

    def realize_of(self, block: StmtSRef) -> BlockRealize:
        """The realize of a block: its bindings and predicate."""
        return self._realizes[block]

    def root_of(self, sref: StmtSRef) -> StmtSRef:
        """The root block of the function that `sref` is in."""
        while sref.parent is not None:
            sref = sref.parent
        return sref

    def function_of(self, sref: StmtSRef) -> GlobalVar:
        """The function that `sref` is in."""
        return self.roots[self.root_of(sref)]

    def root_block(self, var: GlobalVar) -> StmtSRef | None:
        """The root block of a function, if it can be scheduled."""
        return next((r for r, v in self.roots.items() if v is var), None)

    def scope_root(self, sref: StmtSRef) -> StmtSRef | None:
        """The nearest block around `sref`."""
        at = sref.parent
        while at is not None and isinstance(at.stmt, For):
            at = at.parent
        return at

    def loops_of(self, sref: StmtSRef) -> list[StmtSRef]:
        """The loops around `sref` up to the nearest block, outermost first."""
        result: list[StmtSRef] = []
        at = sref.parent
        while at is not None and isinstance(at.stmt, For):
            result.append(at)
            at = at.parent
        return result[::-1]

    def child_blocks(self, sref: StmtSRef) -> list[StmtSRef]:
        """The blocks below a loop or block that are not inside another of them, in program order."""
        stmt = sref.stmt
        assert stmt is not None
        return [self.stmt2ref[r.block] for r in _realizes_below(stmt.body)]

    def blocks_below(self, sref: StmtSRef) -> list[StmtSRef]:
        """All blocks below a loop or block, however deep, outer ones first."""
        result: list[StmtSRef] = []
        for child in self.child_blocks(sref):
            result += [child, *self.blocks_below(child)]
        return result

    def scope(self, root: StmtSRef) -> BlockScope:
        """The dependences among the child blocks of a block."""
        found = self._scopes.get(root)
        if found is None:
            found = self._scopes[root] = block_scope(self.child_blocks(root))
        return found

    def is_ancestor(self, outer: StmtSRef, inner: StmtSRef) -> bool:
        """Whether `inner` lies somewhere below `outer`."""
        at = inner.parent
        while at is not None:
            if at is outer:
                return True
            at = at.parent
        return False

    def common_ancestor(self, srefs: list[StmtSRef]) -> StmtSRef:
        """The lowest loop or block that is above, or is, each of `srefs`."""
        first, *others = srefs
        chain: list[StmtSRef] = []
        at: StmtSRef | None = first
        while at is not None:
            chain.append(at)
            at = at.parent
        for candidate in chain:
            if all(candidate is o or self.is_ancestor(candidate, o) for o in others):
                return candidate
        raise InternalError("statements of different functions have no common ancestor")

    def verify(self) -> None:
        """Raise InternalError unless every reference is where its statement is (asked by `debug_mask`)."""
        fresh = ScheduleState(self.mod)
        if set(fresh.stmt2ref) != set(self.stmt2ref):
            raise InternalError("the references of the schedule are not those of its program")
        for stmt, want in fresh.stmt2ref.items():
            have = self.stmt2ref[stmt]
            above = None if want.parent is None else want.parent.stmt
            if (
                have.stmt is not stmt
                or (None if have.parent is None else have.parent.stmt) is not above
                or have.seq_index != want.seq_index
            ):
                raise InternalError(f"{have!r} has the wrong place in its program")

    def copy(self) -> tuple[ScheduleState, dict[StmtSRef, StmtSRef]]:
        """An independent state of the same program, and which of its references stands for which."""
        other = ScheduleState(self.mod, self.debug_mask)
        return other, {old: other.stmt2ref[stmt] for stmt, old in self.stmt2ref.items()}

    # -- changing -------------------------------------------------------------------------------

    def replace(
        self,
        sref: StmtSRef,
        new: Stmt,
        block_reuse: Mapping[Block, Block] | None = None,
        why: str = "",
        parameters: Mapping[Buffer, Buffer] | None = None,
    ) -> None:
        """Put `new` in the place of a loop or block.

        `new` is a Block for the place of a block (its realize is kept), a BlockRealize to change that too,
        or any statement for the place of a loop. References of blocks go over to the same object, or to what
        `block_reuse` maps them to; those of loops to the same object, or to a loop with the same variable.
        All others below `sref` die, with `why` ("split into i_0, i_1") as the reason. `parameters` are buffers that
        the function takes in place of others from now on.
        """
        old = sref.stmt
        assert old is not None
        reuse = {new_block: self.stmt2ref[b] for b, new_block in (block_reuse or {}).items() if b in self.stmt2ref}
        before = [sref, *self._below(sref)]
        by_var: dict[object, StmtSRef] = {r.stmt.loop_var: r for r in before if isinstance(r.stmt, For)}
        target: Stmt = new
        if isinstance(old, Block):
            realize = self._realizes[sref]
            if isinstance(new, Block):
                target = realize.replace(block=new)
            if isinstance(target, BlockRealize):
                reuse.setdefault(target.block, sref)
        chain: list[tuple[StmtSRef, For | BlockRealize]] = []
        body = self._put(sref, target, chain)
        for r in before:
            self.stmt2ref.pop(r.stmt, None) if r.stmt is not None else None
        known: dict[Stmt, StmtSRef] = {r.stmt: r for r in before if r.stmt is not None}
        for block, ref in reuse.items():
            known[block] = ref
        alive: dict[StmtSRef, None] = {}
        parent = sref.parent
        for at, stmt in chain:
            self._move(at, stmt)
        if parent is None:
            self._enter(body, None, -1, known, by_var, alive)
            root = next(iter(alive))
            self.roots = {(root if r is sref else r): v for r, v in self.roots.items()}
        else:
            self._enter_all(target, parent, known, by_var, alive, start=sref.seq_index)
            self._renumber(parent)
        for r in before:
            if r not in alive:
                r.stmt, r.parent, r.seq_index, r.death = None, None, -1, f"{why or 'removed'}{self._by_step()}"
                self._realizes.pop(r, None)
        self._scopes.clear()
        root_ref = self.root_of(parent if parent is not None else next(iter(alive)))
        var = self.roots[root_ref]
        whole = self._realizes[root_ref]
        func = self.mod[var].replace(body=whole)
        if parameters:
            func = func.replace(buffer_map={p: parameters.get(b, b) for p, b in func.buffer_map.items()})
        self.mod[var] = func

    def _by_step(self) -> str:
        return f" by step {self.step}" if self.step >= 0 else ""

    def _put(self, sref: StmtSRef, target: Stmt, chain: list[tuple[StmtSRef, For | BlockRealize]]) -> Stmt:
        """New forms of everything above `sref`, collected in `chain` from the inside out; the outermost."""
        old: Stmt = self._realizes[sref] if isinstance(sref.stmt, Block) else sref.stmt  # pyright: ignore[reportAssignmentType]
        new = target
        at = sref.parent
        while at is not None:
            stmt = at.stmt
            assert stmt is not None
            changed = stmt.replace(body=_swap(stmt.body, old, new))
            if isinstance(stmt, Block):
                old = self._realizes[at]
                new = old.replace(block=changed)
            else:
                old, new = stmt, changed
            assert isinstance(new, (For, BlockRealize))
            chain.append((at, new))
            at = at.parent
        return new

    def _move(self, at: StmtSRef, new: For | BlockRealize) -> None:
        assert at.stmt is not None
        del self.stmt2ref[at.stmt]
        if isinstance(new, BlockRealize):
            self._realizes[at] = new
        at.stmt = new.block if isinstance(new, BlockRealize) else new
        self.stmt2ref[at.stmt] = at

    def _below(self, sref: StmtSRef) -> list[StmtSRef]:
        assert sref.stmt is not None
        return [self.stmt2ref[n] for n in _nodes_below(sref.stmt.body)]

    def _enter(
        self,
        stmt: Stmt,
        parent: StmtSRef | None,
        index: int,
        known: Mapping[Stmt, StmtSRef],
        by_var: Mapping[object, StmtSRef] | None = None,
        alive: dict[StmtSRef, None] | None = None,
    ) -> StmtSRef:
        node = stmt.block if isinstance(stmt, BlockRealize) else stmt
        assert isinstance(node, (For, Block))
        found = known.get(node)
        if found is None and by_var is not None and isinstance(node, For):
            found = by_var.get(node.loop_var)
        if found is None or (alive is not None and found in alive):
            found = StmtSRef(node, parent, index)
        found.stmt, found.parent, found.seq_index = node, parent, index
        if alive is not None:
            alive[found] = None
        if node in self.stmt2ref and self.stmt2ref[node] is not found:
            raise InternalError("one statement stands in two places of the program")
        self.stmt2ref[node] = found
        if isinstance(stmt, BlockRealize):
            self._realizes[found] = stmt
        self._enter_all(node.body, found, known, by_var, alive)
        return found

    def _enter_all(
        self,
        body: Stmt,
        parent: StmtSRef,
        known: Mapping[Stmt, StmtSRef],
        by_var: Mapping[object, StmtSRef] | None,
        alive: dict[StmtSRef, None] | None,
        start: int = -1,
    ) -> None:
        for stmt, index in _addressable(body):
            self._enter(stmt, parent, index if index >= 0 else start, known, by_var, alive)

    def _renumber(self, parent: StmtSRef) -> None:
        assert parent.stmt is not None
        for stmt, index in _addressable(parent.stmt.body):
            node = stmt.block if isinstance(stmt, BlockRealize) else stmt
            self.stmt2ref[node].seq_index = index


def _addressable(body: Stmt) -> Iterator[tuple[Stmt, int]]:
    """The loops and realizes directly below, each with its place if it stands in a sequence."""
    if isinstance(body, (For, BlockRealize)):
        yield body, -1
    elif isinstance(body, SeqStmt):
        for i, s in enumerate(body.seq):
            if isinstance(s, (For, BlockRealize)):
                yield s, i
            else:
                yield from ((inner, -1) for inner, _ in _addressable(s))
    else:
        for c in children(body):
            if isinstance(c, Stmt) and not isinstance(c, Block):
                yield from ((inner, -1) for inner, _ in _addressable(c))


def _nodes_below(body: Stmt) -> Iterator[For | Block]:
    for stmt, _ in _addressable(body):
        node = stmt.block if isinstance(stmt, BlockRealize) else stmt
        assert isinstance(node, (For, Block))
        yield node
        yield from _nodes_below(node.body)


def _realizes_below(body: Stmt) -> Iterator[BlockRealize]:
    for stmt, _ in _addressable(body):
        if isinstance(stmt, BlockRealize):
            yield stmt
        else:
            assert isinstance(stmt, For)
            yield from _realizes_below(stmt.body)


class _Swap(Rewriter):
    """Replaces one statement, looking into no other loop or block."""

    def __init__(self, old: Stmt, new: Stmt) -> None:
        super().__init__()
        self.old = old
        self.new = new

    def rewrite_For(self, node: For) -> Stmt:
        """The new statement, or the loop as it is."""
        return self.new if node is self.old else node

    def rewrite_BlockRealize(self, node: BlockRealize) -> Stmt:
        """The new statement, or the realize as it is."""
        return self.new if node is self.old else node

    def rewrite_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        """Expressions stay."""
        return node


def _swap(body: Stmt, old: Stmt, new: Stmt) -> Stmt:
    if body is old:
        changed = new
    elif isinstance(body, SeqStmt) and any(s is old for s in body.seq):
        changed = body if old is new else seq(*(new if s is old else s for s in body.seq))
    else:
        changed = _Swap(old, new).rewrite(body)
    if changed is body and old is not new:
        raise InternalError("a statement to replace is not where its reference says")
    return changed
