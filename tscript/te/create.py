"""From a graph of tensors to a function: `create_prim_func`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tscript.analysis.access_regions import detect_regions
from tscript.arith import simplify
from tscript.ir import construct as make
from tscript.ir import stmt as st
from tscript.ir.buffer import Buffer, decl_buffer
from tscript.ir.dtype import INT32
from tscript.ir.expr import BufferLoad, IterVar, Let, PrimExpr, ProducerLoad, Range, Reduce, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Rewriter, pre_order_visit, substitute
from tscript.ir.occurrences import variables
from tscript.ir.stmt import Block, BlockRealize, BufferStore, For, ForKind, IfThenElse, LetStmt, Stmt
from tscript.te.index_dtype import with_index_dtype
from tscript.te.tensor import ComputeOp, ExternOp, Operation, PlaceholderOp, Tensor

_DROPPED_ATTRS = frozenset({"const_matrix", "workload", "auto_scheduler_simplify_const_tensor_indices"})
_LAYOUT_FREE = "layout_free_placeholders"


def create_prim_func(ops: Any, index_dtype_override: str | None = None) -> PrimFunc:
    """A function `main` that computes tensors.

    `ops` lists its parameters in order: tensors, inputs and outputs alike, and variables. Tensors in
    between that are not listed become allocations. A reduction over an axis that turns out to be empty gives
    the identity, as all blocks do. Raises ValueError when an input is not listed, TypeError for what is neither
    tensor nor variable.

    >>> from tscript.te import placeholder, compute
    >>> A = placeholder((8,), name="A")
    >>> len(create_prim_func([A, compute((8,), lambda i: A[i] + 1.0, name="B")]).params)
    2
    """
    listed = list(ops) if isinstance(ops, (list, tuple)) else [ops]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    for item in listed:  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(item, (Tensor, Var)):
            raise TypeError(f"create_prim_func takes tensors and variables, not {item!r}")
    graph = _Graph()
    func = graph.function(listed)  # pyright: ignore[reportUnknownArgumentType]
    return func if index_dtype_override is None else with_index_dtype(func, index_dtype_override)


def _post_order(tensors: Iterable[Tensor]) -> list[Operation]:
    """Operations behind `tensors`, producers first."""
    done: dict[Operation, None] = {}
    stack: list[tuple[Operation, bool]] = [(t.op, False) for t in reversed(list(tensors))]
    while stack:
        op, ready = stack.pop()
        if op in done:
            continue
        if ready:
            done[op] = None
        else:
            stack.append((op, True))
            stack.extend((t.op, False) for t in reversed(op.input_tensors) if t.op not in done)
    return list(done)


class _Loads(Rewriter):
    """Turns reads of tensors into loads of their buffers."""

    def __init__(self, buffers: Mapping[Tensor, Buffer]) -> None:
        super().__init__()
        self.buffers = buffers

    def leave_ProducerLoad(self, node: ProducerLoad) -> PrimExpr:
        """The load that stands for a read."""
        return BufferLoad(self.buffers[node.producer], node.indices)


@dataclass
class _Graph:
    buffers: dict[Tensor, Buffer] = field(default_factory=dict[Tensor, Buffer])
    block_names: dict[str, int] = field(default_factory=dict[str, int])
    allocated: list[Buffer] = field(default_factory=list[Buffer])
    layout_free: dict[Tensor, None] = field(default_factory=dict[Tensor, None])

    def function(self, listed: Sequence[Tensor | Var]) -> PrimFunc:
        params: list[Var] = []
        params_seen: dict[Var, None] = {}
        buffer_map: dict[Var, Buffer] = {}
        for item in listed:
            if isinstance(item, Var):
                if item in params_seen:
                    raise ValueError(f"the variable {item.name} is listed twice")
                params_seen[item] = None
                params.append(item)
                continue
            if item in self.buffers:
                raise ValueError(f"the tensor {item.name} is listed twice")
            handle = Var("var_" + item.name, "handle")
            self.buffers[item] = buffer_map[handle] = decl_buffer(item.shape, item.dtype, item.name)
            params.append(handle)
        operations = _post_order(t for t in listed if isinstance(t, Tensor))
        known = {**params_seen, **variables(*(e for t in listed if isinstance(t, Tensor) for e in t.shape))}
        for op in operations:
            if isinstance(op, ComputeOp):
                _require_known(op, known)
        parts = [self._emit(op) for op in operations]
        root = Block((), (), (), "root", st.seq(*parts), None, tuple(self.allocated))
        attrs: dict[str, Any] = {"global_symbol": "main", "tir.noalias": True}
        if self.layout_free:
            attrs["layout_free_buffers"] = [k for k, t in enumerate(listed) if t in self.layout_free]
        return PrimFunc(params, BlockRealize((), make.const(True), root), None, buffer_map, attrs)  # pyright: ignore[reportArgumentType]

    def _emit(self, op: Operation) -> Stmt | None:
        if isinstance(op, PlaceholderOp):
            if op.output(0) not in self.buffers:
                raise ValueError(
                    f"the input {op.output(0)!r} is needed but is no parameter; "
                    "put every input into the list given to create_prim_func"
                )
            return None
        for i in range(op.num_outputs):
            tensor = op.output(i)
            if tensor not in self.buffers:
                self.buffers[tensor] = decl_buffer(tensor.shape, tensor.dtype, tensor.name)
                self.allocated.append(self.buffers[tensor])
        if isinstance(op, ComputeOp):
            return _Nest(self, op).statement()
        assert isinstance(op, ExternOp)
        return self._extern(op)

    def _extern(self, op: ExternOp) -> Stmt:
        given = [self.buffers[t] for t in op.inputs]
        made = [self.buffers[op.output(i)] for i in range(op.num_outputs)]
        declared = (*op.input_buffers, *op.output_buffers)
        variables: dict[Var, PrimExpr] = {}
        for old, new in zip(declared, (*given, *made), strict=True):
            variables[old.data] = new.data
            if isinstance(old.elem_offset, Var):
                variables[old.elem_offset] = new.elem_offset
        body = substitute(op.body, variables, dict(zip(declared, (*given, *made), strict=True)))
        reads = tuple(b.full_region() for b in dict.fromkeys(given))
        writes = tuple(b.full_region() for b in made)
        block = Block((), reads, writes, self.unique_name(op.name), body, annotations=self.annotations(op))
        return BlockRealize((), make.const(True), block)

    def unique_name(self, hint: str) -> str:
        """`hint`, with a number after it when another block has this name."""
        name = hint.replace(".", "_")
        count = self.block_names.get(name, 0)
        self.block_names[name] = count + 1
        if count == 0:
            return name
        while f"{name}_{count}" in self.block_names:
            count += 1
        self.block_names[f"{name}_{count}"] = 1
        return f"{name}_{count}"

    def annotations(self, op: Operation) -> Any:
        """Attributes of an operation as annotations of its block: tensors become buffers."""
        kept: dict[str, Any] = {}
        for key, value in op.attrs.items():
            if key == _LAYOUT_FREE:
                for t in value if isinstance(value, (list, tuple)) else [value]:  # pyright: ignore[reportUnknownVariableType]
                    self.layout_free[t] = None  # pyright: ignore[reportUnknownArgumentType]
            elif key not in _DROPPED_ATTRS:
                kept[key] = make.convert_attr(self._with_buffers(value))
        return kept

    def _with_buffers(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            if value not in self.buffers:
                raise ValueError(f"the attributes name {value!r}, which is no part of this computation")
            return self.buffers[value]
        if isinstance(value, (list, tuple)):
            return [self._with_buffers(v) for v in value]  # pyright: ignore[reportUnknownVariableType]
        return value


class _Nest:
    """The loops and blocks of one compute.

    Axes whose domain depends on other axes stand in a nested block, one level further in. The outermost
    block holds the init of a reduction, so that an element over an empty domain is initialised too.
    """

    def __init__(self, graph: _Graph, op: ComputeOp) -> None:
        self.graph = graph
        self.op = op
        self.loads = _Loads(graph.buffers)
        self.outputs = [graph.buffers[op.output(i)] for i in range(op.num_outputs)]
        self.axes = (*op.axis, *op.reduce_axis)
        self.is_reduction = bool(op.reduce_axis)
        self.levels = self._levels()

    def statement(self) -> Stmt:
        if self.is_reduction or len(self.outputs) == 1:
            name = self.op.name if self.is_reduction else self.outputs[0].name
            return self._level(0, {}, name, None)
        loops = self._loops(0, {})
        blocks = [self._realize(0, {}, loops, buffer.name, k) for k, buffer in enumerate(self.outputs)]
        return self._around(loops, 0, {}, st.seq(*blocks))

    def _levels(self) -> list[list[IterVar]]:
        depth: dict[Var, int] = {}
        for axis in self.axes:
            assert axis.dom is not None
            used = [depth[v] for v in variables(axis.dom.min, axis.dom.extent) if v in depth]
            depth[axis.var] = max(used) + 1 if used else 0
        count = max(depth.values(), default=0) + 1
        return [[a for a in self.axes if depth[a.var] == d] for d in range(count)]

    def _loops(self, level: int, outer: Mapping[Var, PrimExpr]) -> dict[Var, Var]:
        return {a.var: Var(a.var.name, _dtype(a, outer)) for a in self.levels[level]}

    def _level(self, level: int, outer: Mapping[Var, PrimExpr], name: str, output: int | None) -> Stmt:
        loops = self._loops(level, outer)
        return self._around(loops, level, outer, self._realize(level, outer, loops, name, output))

    def _around(self, loops: Mapping[Var, Var], level: int, outer: Mapping[Var, PrimExpr], body: Stmt) -> Stmt:
        for axis in reversed(self.levels[level]):
            low, extent = _ends(axis, outer)
            body = For(loops[axis.var], low, extent, ForKind.SERIAL, body)
        return body

    def _realize(
        self, level: int, outer: Mapping[Var, PrimExpr], loops: Mapping[Var, Var], name: str, output: int | None
    ) -> BlockRealize:
        iters: list[IterVar] = []
        values: list[PrimExpr] = []
        inner: dict[Var, PrimExpr] = {}
        for axis in self.axes:
            if axis.var in outer:
                bound = outer[axis.var]
                dom, value = Range.from_min_extent(bound, make.const(1, bound.dtype)), bound
            elif axis.var in loops:
                low, extent = _ends(axis, outer)
                dom, value = Range.from_min_extent(low, extent), loops[axis.var]
            else:
                continue
            v = Var("v_" + axis.var.name, value.dtype)
            inner[axis.var] = v
            iters.append(IterVar(dom, v, axis.iter_type))
            values.append(value)
        if not self.op.axis:
            iters.insert(0, IterVar(Range(0, 1), Var("vi", INT32), IterVar.DataPar))
            values.insert(0, make.const(0))
        last = level == len(self.levels) - 1
        if last:
            body = self._body(inner, output)
        else:
            body = self._level(level + 1, inner, name, output)
        init = self._init(inner) if self.is_reduction and level == 0 else None
        label = name if last else f"{name}_l{level + 1}"
        annotations = self.graph.annotations(self.op)
        block = Block(tuple(iters), (), (), self.graph.unique_name(label), body, init, annotations=annotations)
        reads, writes = detect_regions(block)
        return BlockRealize(tuple(values), make.const(True), block.replace(reads=reads, writes=writes))

    def _value(self, e: PrimExpr, axes: Mapping[Var, PrimExpr]) -> PrimExpr:
        return simplify(substitute(self.loads.rewrite(e), dict(axes)))

    def _position(self, axes: Mapping[Var, PrimExpr]) -> tuple[PrimExpr, ...]:
        return tuple(axes[a.var] for a in self.op.axis)

    def _body(self, axes: Mapping[Var, PrimExpr], output: int | None) -> Stmt:
        first = self.op.body[0]
        if isinstance(first, Reduce):
            return self._update(first, axes)
        k = output or 0
        return BufferStore(self.outputs[k], self._value(self.op.body[k], axes), self._position(axes))

    def _init(self, axes: Mapping[Var, PrimExpr]) -> Stmt:
        reduction = self.op.body[0]
        assert isinstance(reduction, Reduce)
        start = reduction.init or reduction.combiner.identity_element
        position = self._position(axes)
        return st.seq(
            *[BufferStore(b, self._value(s, axes), position) for b, s in zip(self.outputs, start, strict=True)]
        )

    def _update(self, reduction: Reduce, axes: Mapping[Var, PrimExpr]) -> Stmt:
        """Combine the element with the source. With several outputs, all are computed from the old values first."""
        combiner, position = reduction.combiner, self._position(axes)
        pairs: dict[Var, PrimExpr] = {}
        for var, buffer in zip(combiner.lhs, self.outputs, strict=True):
            pairs[var] = BufferLoad(buffer, position)
        for var, source in zip(combiner.rhs, reduction.source, strict=True):
            pairs[var] = self._value(source, axes)
        results = [simplify(substitute(r, pairs)) for r in combiner.result]
        if len(results) == 1:
            body: Stmt = BufferStore(self.outputs[0], results[0], position)
        else:
            names = [Var("v_" + b.name.replace(".", "_"), b.dtype) for b in self.outputs]
            body = st.seq(*[BufferStore(b, v, position) for b, v in zip(self.outputs, names, strict=True)])
            for v, r in zip(reversed(names), reversed(results), strict=True):
                body = LetStmt(v, r, body)
        condition = self._value(reduction.condition, axes)
        return body if make.is_const_int(condition, 1) else IfThenElse(condition, body)


def _require_known(op: ComputeOp, known: Mapping[Var, None]) -> None:
    """Raise ValueError for a variable in a compute that no axis, parameter or shape of one gives a value."""
    axes = (*op.axis, *op.reduce_axis)
    used = [e for a in axes if a.dom is not None for e in (a.dom.min, a.dom.extent)]
    for e in op.body:
        # The combiner of a reduction has variables of its own.
        used += (*e.source, *e.init, e.condition) if isinstance(e, Reduce) else (e,)
    bound = {**known, **{a.var: None for a in axes}, **_let_variables(used)}
    for v in variables(*used):
        if v not in bound:
            raise ValueError(
                f"the compute `{op.name}` uses the variable {v.name}, which is neither an axis of it nor a parameter; "
                f"if it is a te.reduce_axis, reduce over it, else list it with the tensors given to create_prim_func"
            )


def _let_variables(exprs: Iterable[PrimExpr]) -> dict[Var, None]:
    found: dict[Var, None] = {}

    def look(node: object) -> bool:
        if isinstance(node, Let):
            found[node.var] = None
        return True

    for e in exprs:
        pre_order_visit(e, look)
    return found


def _dtype(axis: IterVar, outer: Mapping[Var, PrimExpr]) -> str:
    return _ends(axis, outer)[1].dtype


def _ends(axis: IterVar, outer: Mapping[Var, PrimExpr]) -> tuple[PrimExpr, PrimExpr]:
    """Start and extent of an axis, both of the wider of their types."""
    assert axis.dom is not None
    low, extent = substitute(axis.dom.min, dict(outer)), substitute(axis.dom.extent, dict(outer))
    wide = max(low.dtype, extent.dtype, key=lambda d: d.bits)
    return make.cast(low, wide), make.cast(extent, wide)
