"""Where free variables belong: the innermost scope that contains all uses of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from tscript.ir import stmt as st
from tscript.ir.base import Node
from tscript.ir.buffer import Buffer
from tscript.ir.expr import IterVar, Op, Type, Var
from tscript.ir.function import PrimFunc
from tscript.ir.stmt import Stmt

THREAD_KEYS = frozenset({"thread_extent", "virtual_thread"})
_BODIES: dict[type[Stmt], frozenset[str]] = {
    cls: frozenset({"body"})
    for cls in (
        st.For, st.While, st.LetStmt, st.AttrStmt, st.AssertStmt, st.Allocate, st.AllocateConst, st.DeclBuffer,
        st.BufferRealize,
    )
}  # fmt: skip
_NOT_USED = frozenset({"loop_var", "thread_binding", "buffer_var", "var", "dtype", "kind", "span", "attr_key"})
_BUFFER_FIELDS = ("data", "shape", "strides", "elem_offset")


class Scopes:
    """The scopes of a program as a tree of numbers; 0 is the root.

    A scope is entered by a statement with a body; what stands in its head (bounds, conditions, values
    bound) counts as outside. `home` tells the innermost scope with all uses of a variable or buffer.
    """

    def __init__(self, root: Any) -> None:
        self.parent: list[int] = [-1]
        self._depth: list[int] = [0]
        self._seen: list[set[Any]] = [set()]
        self._ids: dict[tuple[int, Any], int] = {}
        self.home: dict[Any, int] = {}
        self._pending: list[tuple[Stmt, int]] = []
        if isinstance(root, PrimFunc):
            for buffer in root.buffer_map.values():
                self._use(buffer, 0)
            self._pending.append((root.body, 0))
        elif isinstance(root, Stmt):
            self._pending.append((root, 0))
        else:
            self._use(root, 0)
        while self._pending:
            self._visit(*self._pending.pop())

    def child(self, scope: int, node: Any) -> int:
        """The scope that `node`, standing in `scope`, opens."""
        return self._ids.get((scope, node), scope)

    def is_within(self, node: Any, scope: int) -> bool:
        """Whether every use of `node` lies in `scope`."""
        at = self.home.get(node, scope)
        while at >= 0:
            if at == scope:
                return True
            at = self.parent[at]
        return False

    def _enter(self, scope: int, node: Any) -> int:
        key = (scope, node)
        made = self._ids.get(key)
        if made is None:
            made = self._ids[key] = len(self.parent)
            self.parent.append(scope)
            self._depth.append(self._depth[scope] + 1)
            self._seen.append(set())
        return made

    def _visit(self, node: Stmt, scope: int) -> None:
        if isinstance(node, st.SeqStmt):
            self._pending.extend((s, scope) for s in node.seq)
        elif isinstance(node, st.IfThenElse):
            self._use(node.condition, scope)
            for branch in (node.then_case, node.else_case):
                if branch is not None:
                    self._pending.append((branch, self._enter(scope, branch)))
        elif isinstance(node, st.BlockRealize):
            self._use(node.iter_values, scope)
            self._use(node.predicate, scope)
            self._pending.append((node.block, scope))
        elif isinstance(node, st.Block):
            self._visit_block(node, self._enter(scope, node))
        elif type(node) in _BODIES:
            inner = self._enter(scope, node)
            self._pending.append((cast("st.LetStmt", node).body, inner))
            thread = isinstance(node, st.AttrStmt) and node.attr_key in THREAD_KEYS
            for f in type(node)._fields:  # pyright: ignore[reportPrivateUsage]
                if f != "body" and f not in _NOT_USED:
                    self._use(getattr(node, f), inner if thread and f == "node" else scope)
        else:
            for f in type(node)._fields:  # pyright: ignore[reportPrivateUsage]
                if f not in _NOT_USED:
                    self._use(getattr(node, f), scope)

    def _visit_block(self, block: st.Block, inner: int) -> None:
        for axis in block.iter_vars:
            self._use(axis.dom, inner)
        for part in (block.reads, block.writes, block.annotations, block.alloc_buffers, block.match_buffers):
            self._use(part, inner)
        if block.init is not None:
            self._pending.append((block.init, self._enter(inner, block.init)))
        self._pending.append((block.body, inner))

    def _use(self, value: Any, scope: int) -> None:
        seen = self._seen[scope]
        stack = [value]
        while stack:
            v = stack.pop()
            if isinstance(v, tuple):
                stack.extend(cast("tuple[Any, ...]", v))
            elif isinstance(v, Mapping):
                stack.extend(cast("Mapping[Any, Any]", v).values())
            elif isinstance(v, Node) and v not in seen:
                seen.add(v)
                if isinstance(v, Var):
                    self._note(v, scope)
                elif isinstance(v, Buffer):
                    self._note(v, scope)
                    stack.extend(getattr(v, f) for f in _BUFFER_FIELDS)
                elif isinstance(v, IterVar):
                    stack += (v.var, v.dom)
                elif not isinstance(v, (Op, Type)):
                    stack.extend(getattr(v, f) for f in type(v)._fields)  # pyright: ignore[reportPrivateUsage]

    def _note(self, node: Any, scope: int) -> None:
        at = self.home.setdefault(node, scope)
        if at == scope:
            return
        parent, depth = self.parent, self._depth
        while at != scope:
            if depth[at] >= depth[scope]:
                at = parent[at]
            else:
                scope = parent[scope]
        self.home[node] = at
