"""Traversal: one visitor and one rewriter, both with class-keyed handler tables.

A handler for a class is a method named after it: `visit_BufferLoad`, `rewrite_For`, `leave_Add`. A name
that fits no node class is a TypeError when the subclass is created. Expressions without handlers are
walked with an explicit stack, so very deep ones are no problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar, Final, TypeVar

from tscript.ir import buffer as _buffer
from tscript.ir import expr as _expr
from tscript.ir import function as _function
from tscript.ir import stmt as _stmt
from tscript.ir.base import FrozenDict, Node
from tscript.ir.buffer import Buffer
from tscript.ir.expr import IterVar, PrimExpr, Range, Reduce, Var
from tscript.ir.stmt import BlockRealize, BufferRegion, Evaluate, SeqStmt, Stmt, seq

N = TypeVar("N", bound=Node)

# Where a class binds a variable or buffer; everything else that a field holds is a use.
DEFINITIONS: dict[type[Node], tuple[str, ...]] = {
    _expr.Let: ("var",),
    _stmt.LetStmt: ("var",),
    _stmt.For: ("loop_var",),
    _stmt.Allocate: ("buffer_var",),
    _stmt.AllocateConst: ("buffer_var",),
    IterVar: ("var",),
    _expr.CommReducer: ("lhs", "rhs"),
    _function.PrimFunc: ("params",),
}
_SKIPPED = frozenset(
    {"dtype", "type_annotation", "span", "name", "name_hint", "attr_key", "kind", "iter_type", "thread_tag", "ret_type"}
)

NODE_CLASSES: dict[str, type[Node]] = {
    name: cls
    for module in (_expr, _stmt, _buffer, _function)
    for name, cls in vars(module).items()
    if isinstance(cls, type) and issubclass(cls, Node)
}


def _walked_fields(cls: type[Node]) -> tuple[str, ...]:
    skip = _SKIPPED | set(DEFINITIONS.get(cls, ()))
    return tuple(f for f in cls._fields if f not in skip)  # pyright: ignore[reportPrivateUsage]


class _FieldTable(dict[type[Node], tuple[str, ...]]):
    """Walked fields by class; classes defined elsewhere (index maps, targets) are added when first met."""

    def __missing__(self, cls: type[Node]) -> tuple[str, ...]:
        return self.setdefault(cls, _walked_fields(cls))


_FIELDS: Final = _FieldTable({cls: _walked_fields(cls) for cls in NODE_CLASSES.values()})


@dataclass(frozen=True, slots=True)
class _Walk:
    """How to get at what is below a node: `get` gives the values of the fields that may hold nodes.

    `is_plain`: each of these is one node, and `holds_exprs`: one expression, and nothing is bound.
    """

    get: Callable[[Any], tuple[Any, ...]]
    is_plain: bool
    holds_exprs: bool


class _WalkTable(dict[type[Node], _Walk]):
    """By class, as `_FieldTable`."""

    def __missing__(self, cls: type[Node]) -> _Walk:
        kinds = {f: str(cls._field_info[f][0]) for f in _FIELDS[cls]}  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue, reportUnknownArgumentType, reportUnknownMemberType]
        fields = [f for f, kind in kinds.items() if kind not in ("int", "float", "str")]
        if issubclass(cls, Buffer):
            fields = []
        plain = all(kinds[f] in _ONE_NODE for f in fields)
        exprs = plain and cls not in DEFINITIONS and all(kinds[f] == "PrimExpr" for f in fields)
        return self.setdefault(cls, _Walk(_getter(fields), plain, exprs))


_ONE_NODE: Final = frozenset({"PrimExpr", "Stmt", "Buffer", "Block", "BufferRegion"})


def _getter(fields: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    if not fields:
        return lambda _: ()
    get = attrgetter(*fields)
    return get if len(fields) > 1 else lambda node: (get(node),)


_WALKS: Final = _WalkTable()


def children(node: Node) -> Sequence[Node]:
    """Nodes directly below `node`, in order of evaluation as the fields list them.

    What the shapes of buffers hold is not among them.
    """
    walk = _WALKS[node.__class__]
    values = walk.get(node)
    if walk.is_plain:
        return values
    found: list[Node] = []
    _add_nodes(values, found)
    return found


def _add_nodes(values: Iterable[Any], found: list[Node]) -> None:
    for v in values:
        if isinstance(v, Node):
            found.append(v)
        elif v.__class__ is tuple:
            _add_nodes(v, found)
        elif v.__class__ is FrozenDict:
            _add_nodes(v.values(), found)


def post_order_visit(node: Node, fvisit: Callable[[Any], None]) -> None:
    """Call `fvisit` on every node below `node`, children first; a shared expression is visited once."""
    seen: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(node, False)]
    while stack:
        n, done = stack.pop()
        if done:
            fvisit(n)
        elif n not in seen:
            seen.add(n)
            stack.append((n, True))
            stack.extend((c, False) for c in reversed(children(n)))


def pre_order_visit(node: Node, fvisit: Callable[[Any], bool]) -> None:
    """Call `fvisit` on every node, parents first; where it returns False, what is below is left out."""
    stack = [node]
    while stack:
        n = stack.pop()
        if fvisit(n):
            stack.extend(reversed(children(n)))


def _handlers(cls: type, prefix: str) -> dict[type[Node], Callable[..., Any]]:
    table: dict[type[Node], Callable[..., Any]] = {}
    for name in dir(cls):
        if name.startswith(prefix + "_") and name[len(prefix) + 1 : len(prefix) + 2].isupper():
            kind = name[len(prefix) + 1 :]
            if kind not in NODE_CLASSES:
                raise TypeError(f"{cls.__name__}.{name}: there is no node class {kind}")
            table[NODE_CLASSES[kind]] = getattr(cls, name)
    # A handler for an abstract base (BinaryExpr, Var, Stmt) serves the classes below it too.
    for node_cls in NODE_CLASSES.values():
        if node_cls not in table:
            for base in node_cls.__mro__[1:]:
                if base in table:
                    table[node_cls] = table[base]
                    break
    return table


class Visitor:
    """Visits a tree top-down. Handlers `visit_<Class>(self, node)` decide whether to go on below, by
    `self.visit_children(node)`; classes without a handler are always gone through.
    """

    _visit_table: ClassVar[dict[type[Node], Callable[..., None]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._visit_table = _handlers(cls, "visit")

    def visit(self, node: Node) -> None:
        """Visit `node` and what is below it."""
        table = self._visit_table
        stack = [node]
        while stack:
            n = stack.pop()
            handler = table.get(type(n))
            if handler is not None:
                handler(self, n)
            else:
                stack.extend(reversed(children(n)))

    def visit_children(self, node: Node) -> None:
        """Visit what is directly below `node`, in order."""
        for c in children(node):
            self.visit(c)


class Rewriter:
    """Rebuilds a tree, sharing every part that does not change (an unchanged tree is the same object).

    `rewrite_<Class>(self, node)` replaces the default for a class: it returns the new node, and calls
    `self.rewrite_children(node)` where it wants the default below. `leave_<Class>(self, node)` gets the
    node after its children were rewritten. `rewrite_buffer` and `define` map buffers and variable
    definitions. Results for expressions are remembered; set `memoize = False` when they depend on
    where the expression stands.
    """

    memoize: ClassVar[bool] = True
    _rewrite_table: ClassVar[dict[type[Node], Callable[..., Any]]] = {}
    _leave_table: ClassVar[dict[type[Node], Callable[..., Any]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._rewrite_table = _handlers(cls, "rewrite")
        cls._leave_table = _handlers(cls, "leave")

    def __init__(self) -> None:
        self._memo: dict[PrimExpr, PrimExpr] = {}
        self._buffers: dict[Buffer, Buffer] = {}

    def rewrite(self, node: Any) -> Any:
        """The new form of a node."""
        if isinstance(node, PrimExpr):
            return self._rewrite_expr(node)
        if isinstance(node, Buffer):
            return self.map_buffer(node)
        handler = self._rewrite_table.get(node.__class__)
        if handler is not None:
            return handler(self, node)
        return self._leave(self.rewrite_children(node))

    def rewrite_children(self, node: Any) -> Any:
        """`node` with its children rewritten; the same object when none changed."""
        changes: dict[str, Any] = {}
        for f in DEFINITIONS.get(node.__class__, ()):
            old = getattr(node, f)
            new = self._define_all(old)
            if new is not old:
                changes[f] = new
        for f in _FIELDS[node.__class__]:
            old = getattr(node, f)
            new = self._rewrite_value(old)
            if new is not old:
                changes[f] = new
        if not changes:
            return node
        if isinstance(node, SeqStmt):
            return seq(*changes["seq"])
        if isinstance(node, _function.PrimFunc) and "params" in changes:
            # The map is keyed by parameters, so a new parameter takes its buffer along.
            renamed = dict(zip(node.params, changes["params"], strict=True))
            buffers: Mapping[Var, Buffer] = changes.get("buffer_map", node.buffer_map)
            changes["buffer_map"] = FrozenDict({renamed.get(k, k): b for k, b in buffers.items()})
        return node.replace(**changes)

    def _define_all(self, old: Any) -> Any:
        if type(old) is not tuple:
            return self.define(old)
        new = tuple(self.define(v) for v in old)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return old if all(a is b for a, b in zip(new, old, strict=True)) else new  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]

    def define(self, var: Var) -> Var:
        """The variable to bind where `var` was bound."""
        return var

    def rewrite_buffer(self, buffer: Buffer) -> Buffer:
        """The buffer to use for `buffer`: by default itself with its expressions rewritten."""
        data = self.rewrite(buffer.data)
        shape = self._rewrite_value(buffer.shape)
        strides = self._rewrite_value(buffer.strides)
        offset = self.rewrite(buffer.elem_offset)
        if not isinstance(data, Var):
            data = buffer.data
        return buffer.replace(data=data, shape=shape, strides=strides, elem_offset=offset)

    def map_buffer(self, buffer: Buffer) -> Buffer:
        """`rewrite_buffer`, asked once for each buffer."""
        found = self._buffers.get(buffer)
        if found is None:
            found = self.rewrite_buffer(buffer)
            self._buffers[buffer] = found
        return found

    def _leave(self, node: Any) -> Any:
        handler = self._leave_table.get(node.__class__)
        return node if handler is None else handler(self, node)

    def _rewrite_value(self, value: Any) -> Any:
        if isinstance(value, Node):
            return self.rewrite(value)
        if type(value) is tuple:
            return self._rewrite_tuple(value)  # pyright: ignore[reportUnknownArgumentType]
        if type(value) is FrozenDict:
            pairs = {k: self._rewrite_value(v) for k, v in value.items()}
            return value if all(pairs[k] is value[k] for k in value) else FrozenDict(pairs)
        return value

    def _rewrite_tuple(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        items = [self._rewrite_value(v) for v in values]
        return values if all(a is b for a, b in zip(items, values, strict=True)) else tuple(items)

    def _rewrite_expr(self, root: PrimExpr) -> PrimExpr:
        """Rewrite children before parents, without recursion unless a handler asks for it."""
        memo = self._memo if self.memoize else {}
        found = memo.get(root)
        if found is not None:
            return found
        table = self._rewrite_table
        stack: list[tuple[PrimExpr, bool]] = [(root, False)]
        while stack:
            e, ready = stack.pop()
            if e in memo:
                continue
            handler = table.get(type(e))
            if handler is not None:
                memo[e] = handler(self, e)
            elif ready:
                memo[e] = self._leave(self._rebuild(e, memo))
            else:
                below = [c for c in children(e) if isinstance(c, PrimExpr) and c not in memo]
                if below:
                    stack.append((e, True))
                    stack.extend((c, False) for c in below)
                else:
                    memo[e] = self._leave(self._rebuild(e, memo))
        return memo[root]

    def _rebuild(self, e: PrimExpr, memo: dict[PrimExpr, PrimExpr]) -> PrimExpr:
        walk = _WALKS[e.__class__]
        if walk.holds_exprs and all(memo[c] is c for c in walk.get(e)):
            return e
        changes: dict[str, Any] = {}
        for f in DEFINITIONS.get(type(e), ()):
            old = getattr(e, f)
            new = self.define(old)
            if new is not old:
                changes[f] = new
        for f in _FIELDS[type(e)]:
            old = getattr(e, f)
            if isinstance(old, PrimExpr):
                new: Any = memo[old]
            elif type(old) is tuple:
                new = self._rebuild_tuple(old, memo)  # pyright: ignore[reportUnknownArgumentType]
            else:
                new = self._rewrite_value(old)
            if new is not old:
                changes[f] = new
        return e.replace(**changes) if changes else e

    def _rebuild_tuple(self, values: tuple[Any, ...], memo: dict[PrimExpr, PrimExpr]) -> tuple[Any, ...]:
        items = [memo[v] if isinstance(v, PrimExpr) else self._rewrite_value(v) for v in values]
        return values if all(a is b for a, b in zip(items, values, strict=True)) else tuple(items)


class Substitute(Rewriter):
    """Replaces variables by expressions and buffers by buffers, also inside the shapes of buffers."""

    def __init__(self, variables: Mapping[Var, PrimExpr], buffers: Mapping[Buffer, Buffer] | None = None) -> None:
        super().__init__()
        self._variables = dict(variables)
        self._given = dict(buffers or {})

    def rewrite_Var(self, node: Var) -> PrimExpr:
        """The replacement of a variable."""
        return self._variables.get(node, node)

    def _define_all(self, old: Any) -> Any:
        if type(old) is not tuple:
            return self.define(old)
        new = tuple(self.define(v) for v in old)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return old if all(a is b for a, b in zip(new, old, strict=True)) else new  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]

    def define(self, var: Var) -> Var:
        """A replacement variable is bound where the old one was; an expression cannot be."""
        new = self._variables.get(var, var)
        return new if isinstance(new, Var) else var

    def rewrite_buffer(self, buffer: Buffer) -> Buffer:
        """The replacement of a buffer."""
        given = self._given.get(buffer)
        return given if given is not None else super().rewrite_buffer(buffer)


def substitute(node: N, variables: Mapping[Var, PrimExpr], buffers: Mapping[Buffer, Buffer] | None = None) -> N:
    """`node` with variables (and buffers) replaced; the same object when none occurs.

    >>> x, y = Var("x"), Var("y")
    >>> substitute(x + 1, {x: y}) is y + 1
    True
    """
    return Substitute(variables, buffers).rewrite(node)


__all__ = [
    "DEFINITIONS", "NODE_CLASSES", "BlockRealize", "BufferRegion", "Evaluate", "Range", "Reduce", "Rewriter", "Stmt",
    "Substitute", "Visitor", "children", "post_order_visit", "pre_order_visit", "substitute",
]  # fmt: skip
