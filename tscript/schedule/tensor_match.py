"""Whether a block computes what the description of a tensor intrinsic does, and on which parts of which buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tscript.analysis.ranges import range_bounds
from tscript.arith import Bound, simplify
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.base import Node
from tscript.ir.buffer import Buffer
from tscript.ir.expr import BufferLoad, Call, IterVar, PrimExpr, Range, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import children, post_order_visit, substitute
from tscript.ir.occurrences import mentions
from tscript.ir.stmt import Block, BlockRealize, BufferStore, For, ForKind, IfThenElse, LetStmt, SeqStmt, Stmt
from tscript.support.wording import kind_of

_COMMUTE = (ex.Add, ex.Mul, ex.And, ex.Or, ex.EQ, ex.NE)
_AXES = {IterVar.DataPar: "spatial", IterVar.CommReduce: "reduce", IterVar.Ordered: "scan", IterVar.Opaque: "opaque"}


class Mismatch(Exception):
    """The first place where description and program differ: how to get there, what stands there, what is wrong."""

    def __init__(self, path: Sequence[str], reason: str, described: object = None, found: object = None) -> None:
        super().__init__(reason)
        self.path = " > ".join(path) or "the top"
        self.reason = reason
        self.described = described
        self.found = found

    def text(self) -> str:
        """Where, why, and both sides."""
        lines = [f"they differ at {self.path}: {self.reason}"]
        if self.described is not None or self.found is not None:
            lines += [f"  description: {_shown(self.described)}", f"  program:     {_shown(self.found)}"]
        return "\n".join(lines)


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, Stmt):
        lines = str(value).splitlines()
        return lines[0] if len(lines) == 1 else f"{lines[0]} ..."
    return str(value)


@dataclass(frozen=True)
class Place:
    """The part of a buffer that a parameter of the description stands for: it starts at `base`.

    The parameter has the last dimensions of the buffer; the others are single positions.
    """

    buffer: Buffer
    base: tuple[PrimExpr, ...]


def match_description(desc: PrimFunc, block: Block, bounds: Mapping[Var, Bound]) -> list[Place]:
    """For each parameter of a description, what `block` uses in its place. Raises Mismatch where they differ.

    The block's own axes are free in subscripts; what is below must agree node by node, up to the start of each
    buffer's part and the order of operands that may be exchanged.
    """
    assert isinstance(desc.body, BlockRealize)
    root = desc.body.block
    parameters = [desc.buffer_map[p] for p in desc.params]
    written = {n.buffer for n in _nodes(root.body) if isinstance(n, BufferStore)}
    matcher = _Matcher(dict.fromkeys(parameters), written, dict(bounds))
    matcher.stmt(root.body, block.body, [])
    for b in parameters:
        if b not in matcher.places:
            raise Mismatch(
                [], f"the description never uses its parameter {b.name}, so nothing tells what it stands for"
            )
    return [matcher.places[b] for b in parameters]


def _nodes(root: Node) -> list[Any]:
    found: list[Any] = []
    post_order_visit(root, found.append)
    return found


@dataclass
class _Matcher:
    parameters: Mapping[Buffer, None]
    written: set[Buffer]
    bounds: dict[Var, Bound]
    variables: dict[Var, PrimExpr] = field(default_factory=dict[Var, PrimExpr])
    inner: dict[Var, None] = field(default_factory=dict[Var, None])
    places: dict[Buffer, Place] = field(default_factory=dict[Buffer, Place])

    # -- statements -----------------------------------------------------------------------------

    def stmt(self, d: Stmt, t: Stmt, path: list[str]) -> None:
        """Compare statements of the description and the program."""
        if type(d) is not type(t):
            raise Mismatch(path, f"{kind_of(t)} stands where the description has {kind_of(d)}", d, t)
        if isinstance(d, BlockRealize) and isinstance(t, BlockRealize):
            self._block(d, t, [*path, f"block `{t.block.name_hint}`"])
        elif isinstance(d, For) and isinstance(t, For):
            self._loop(d, t, [*path, f"loop `{t.loop_var.name}`"])
        elif isinstance(d, BufferStore) and isinstance(t, BufferStore):
            here = [*path, f"store to `{t.buffer.name}`"]
            if (d.predicate is None) is not (t.predicate is None):
                raise Mismatch(here, "only one of the stores has a predicate", d, t)
            self._access(d, t, here)
            if d.predicate is not None and t.predicate is not None:
                self.expr(d.predicate, t.predicate, [*here, "predicate"])
            self.expr(d.value, t.value, [*here, "value"])
        elif isinstance(d, SeqStmt) and isinstance(t, SeqStmt):
            if len(d.seq) != len(t.seq):
                raise Mismatch(path, f"there are {len(t.seq)} statements, in the description {len(d.seq)}")
            for i, (a, b) in enumerate(zip(d.seq, t.seq, strict=True)):
                self.stmt(a, b, [*path, f"statement {i}"])
        elif isinstance(d, IfThenElse) and isinstance(t, IfThenElse):
            self.expr(d.condition, t.condition, [*path, "condition"])
            self.stmt(d.then_case, t.then_case, [*path, "then"])
            self._optional(d.else_case, t.else_case, [*path, "else"])
        elif isinstance(d, LetStmt) and isinstance(t, LetStmt):
            self.expr(d.value, t.value, [*path, f"value of `{t.var.name}`"])
            self._define(d.var, t.var)
            self.stmt(d.body, t.body, path)
        else:
            self._fields(d, t, path)

    def _optional(self, d: Stmt | None, t: Stmt | None, path: list[str]) -> None:
        if d is not None and t is not None:
            self.stmt(d, t, path)
        elif d is not t:
            raise Mismatch(path, f"only the {'description' if t is None else 'program'} has one", d, t)

    def _block(self, d: BlockRealize, t: BlockRealize, path: list[str]) -> None:
        if d.predicate is not t.predicate:
            self.expr(d.predicate, t.predicate, [*path, "condition"])
        a, b = d.block, t.block
        if len(a.iter_vars) != len(b.iter_vars):
            names = [", ".join(f"{v.var.name}: {_AXES[v.iter_type]}" for v in x.iter_vars) or "none" for x in (a, b)]
            raise Mismatch(path, f"there are {len(b.iter_vars)} axes, in the description {len(a.iter_vars)}", *names)
        for x, y, v, w in zip(a.iter_vars, b.iter_vars, d.iter_values, t.iter_values, strict=True):
            here = [*path, f"axis `{y.var.name}`"]
            if x.iter_type != y.iter_type:
                text = f"the axis is {_AXES[y.iter_type]}, in the description {_AXES[x.iter_type]}"
                raise Mismatch(here, text, x.var.name, y.var.name)
            self._same_domain(x.dom, y.dom, here)
            self._same_index(v, w, [*here, "binding"])
            self._define(x.var, y.var, y.dom)
        for what, mine, theirs in (
            ("memory", a.alloc_buffers, b.alloc_buffers),
            ("views", a.match_buffers, b.match_buffers),
        ):
            if mine or theirs:
                raise Mismatch(path, f"blocks with {what} of their own cannot be compared")
        self._optional(a.init, b.init, [*path, "init"])
        self.stmt(a.body, b.body, path)

    def _loop(self, d: For, t: For, path: list[str]) -> None:
        if d.kind != t.kind or (d.thread_binding is None) is not (t.thread_binding is None):
            raise Mismatch(
                path, f"the loop is {_loop_kind(t)}, in the description {_loop_kind(d)}", d.loop_var, t.loop_var
            )
        if d.thread_binding is not None and t.thread_binding is not None:
            if d.thread_binding.thread_tag != t.thread_binding.thread_tag:
                tags = d.thread_binding.thread_tag, t.thread_binding.thread_tag
                raise Mismatch(path, "the loops are bound to different threads", *tags)
        mine, theirs = (Range.from_min_extent(f.min, f.extent) for f in (d, t))
        self._same_domain(mine, theirs, path)
        self._define(d.loop_var, t.loop_var, theirs)
        self.stmt(d.body, t.body, path)

    def _define(self, d: Var, t: Var, domain: Range | None = None) -> None:
        self.variables[d] = t
        self.inner[t] = None
        if domain is not None:
            self.bounds.update(range_bounds({t: domain}))

    def _same_domain(self, d: Range | None, t: Range | None, path: list[str]) -> None:
        if d is None or t is None:
            if d is not t:
                raise Mismatch(path, "only one of them has a range", d, t)
            return
        if not (self._equal(self._put(d.min, t.min), t.min) and self._equal(self._put(d.extent, t.extent), t.extent)):
            texts = [f"{r.extent} values from {r.min} on" for r in (d, t)]
            raise Mismatch(path, "they take different values", *texts)

    # -- subscripts and other index expressions --------------------------------------------------

    def _put(self, e: PrimExpr, like: PrimExpr) -> PrimExpr:
        """An expression of the description in terms of the program."""
        return make.cast(substitute(e, self.variables), like.dtype)

    def _equal(self, a: PrimExpr, b: PrimExpr) -> bool:
        return a is b or make.is_const_int(simplify(make.sub(a, b), self.bounds), 0)

    def _same_index(self, d: PrimExpr, t: PrimExpr, path: list[str]) -> None:
        mine = self._put(d, t)
        if not self._equal(mine, t):
            raise Mismatch(path, "the values differ", mine, t)

    def _access(self, d: BufferLoad | BufferStore, t: BufferLoad | BufferStore, path: list[str]) -> None:
        known = self.places.get(d.buffer)
        if known is None:
            self._require_fits(d.buffer, t.buffer, path)
        elif known.buffer is not t.buffer:
            text = f"{d.buffer.name} of the description stands for `{known.buffer.name}` elsewhere"
            raise Mismatch(path, text, d.buffer.name, t.buffer.name)
        base = self._base(d, t, path)
        if known is None:
            self.places[d.buffer] = Place(t.buffer, base)
            return
        for i, (old, new) in enumerate(zip(known.base, base, strict=True)):
            if not self._equal(old, new):
                text = (
                    f"the part of `{t.buffer.name}` starts, in dimension {i}, at `{old}` elsewhere and at `{new}` here"
                )
                raise Mismatch(path, text, d if isinstance(d, BufferLoad) else None, t)

    def _require_fits(self, d: Buffer, t: Buffer, path: list[str]) -> None:
        if d not in self.parameters:
            raise Mismatch(path, f"{d.name} is no parameter of the description")
        if d.dtype is not t.dtype:
            raise Mismatch(path, "the buffers hold different types", *(f"{b.name}: {b.dtype!s}" for b in (d, t)))
        if (d.scope() or "global") != (t.scope() or "global"):
            texts = (f"{b.name} in {b.scope() or 'global'!r}" for b in (d, t))
            raise Mismatch(path, "the buffers lie in different memory", *texts)
        if d.ndim > t.ndim:
            raise Mismatch(path, "the buffer has too few dimensions", *(f"{b.name}: {b.ndim}" for b in (d, t)))
        for other, place in self.places.items():
            if place.buffer is t and (d in self.written or other in self.written):
                text = f"`{t.name}` also stands for {other.name}, and one of them is written"
                raise Mismatch(path, text, d.name, t.name)

    def _base(self, d: BufferLoad | BufferStore, t: BufferLoad | BufferStore, path: list[str]) -> tuple[PrimExpr, ...]:
        lead = len(t.indices) - len(d.indices)
        base: list[PrimExpr] = []
        for i, index in enumerate(t.indices):
            start = index
            if i >= lead:
                mine = self._put(d.indices[i - lead], index)
                if mine.dtype.lanes != 1 or index.dtype.lanes != 1:
                    raise Mismatch(
                        [*path, f"subscript {i}"], "subscripts of several lanes are not compared", mine, index
                    )
                start = make.sub(index, mine)
            start = simplify(start, self.bounds)
            if mentions(start, self.inner):
                shown = self._put(d.indices[i - lead], index) if i >= lead else "a position that stays the same"
                raise Mismatch([*path, f"subscript {i}"], "the subscripts move differently", shown, index)
            base.append(start)
        return tuple(base)

    # -- values ---------------------------------------------------------------------------------

    def expr(self, d: PrimExpr, t: PrimExpr, path: list[str]) -> None:
        """Compare values of the description and the program."""
        if type(d) is not type(t):
            raise Mismatch(path, f"{kind_of(t)} stands where the description has {kind_of(d)}", d, t)
        if d.dtype is not t.dtype:
            raise Mismatch(path, f"the type is {t.dtype!s}, in the description {d.dtype!s}", d, t)
        if isinstance(d, Var):
            if self.variables.get(d, d) is not t:
                raise Mismatch(path, "the variables differ", self.variables.get(d, d), t)
        elif isinstance(d, BufferLoad) and isinstance(t, BufferLoad):
            if d.predicate is not None or t.predicate is not None:
                raise Mismatch(path, "loads with a predicate are not compared", d, t)
            self._access(d, t, path)
        elif isinstance(d, _COMMUTE):
            self._either_order(d, t, path)
        elif not any(True for _ in children(d)) and not isinstance(d, Call):
            if d is not t:
                raise Mismatch(path, "the values differ", d, t)
        else:
            self._fields(d, t, path)

    def _either_order(self, d: Any, t: Any, path: list[str]) -> None:
        before = dict(self.places)
        try:
            self.expr(d.a, t.a, [*path, "a"])
            self.expr(d.b, t.b, [*path, "b"])
        except Mismatch as first:
            self.places = before
            try:
                self.expr(d.a, t.b, [*path, "b"])
                self.expr(d.b, t.a, [*path, "a"])
            except Mismatch:
                raise first from None

    def _fields(self, d: Node, t: Node, path: list[str]) -> None:
        for name in d._fields:  # pyright: ignore[reportPrivateUsage]
            if name != "span":
                self._value(getattr(d, name), getattr(t, name), [*path, name])

    def _value(self, d: Any, t: Any, path: list[str]) -> None:
        if isinstance(d, PrimExpr) and isinstance(t, PrimExpr):
            self.expr(d, t, path)
        elif isinstance(d, Stmt) and isinstance(t, Stmt):
            self.stmt(d, t, path)
        elif isinstance(d, tuple) and isinstance(t, tuple) and len(d) == len(t):  # pyright: ignore[reportUnknownArgumentType]
            for i, (a, b) in enumerate(zip(d, t, strict=True)):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
                self._value(a, b, [*path, str(i)])
        elif d is not t and (isinstance(d, Node) or d != t):
            raise Mismatch(path, "they differ", *(str(v) for v in (d, t)))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _loop_kind(loop: For) -> str:
    return next(
        (name.lower() for name, v in vars(ForKind).items() if v == loop.kind and name.isupper()), str(loop.kind)
    )


__all__ = ["Mismatch", "Place", "match_description"]
