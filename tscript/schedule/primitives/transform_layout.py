"""A buffer is laid out in another way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tscript.ir import construct as make
from tscript.ir.buffer import Buffer
from tscript.ir.construct import ExprLike
from tscript.ir.dtype import DataType
from tscript.ir.expr import Call, FloatImm, IntImm, Op, PrimExpr, Var
from tscript.ir.functor import pre_order_visit
from tscript.ir.index_map import IndexMap
from tscript.ir.stmt import Block, BufferStore, SeqStmt, Stmt, seq
from tscript.schedule.buffers import accessed, resolve_access
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import literal, refuse
from tscript.schedule.instruction import Arg, InstructionKind, Role, access, block, flag
from tscript.schedule.layout import (
    Inverse,
    MapLike,
    as_index_map,
    bounds_below,
    index_dtype,
    invert,
    require_closed,
    with_dtype,
)
from tscript.schedule.parameters import Home, home_of, require_own_interface
from tscript.schedule.primitive import primitive
from tscript.schedule.relayout import (
    Padding,
    Relayout,
    find_traversals,
    require_exact_writes,
    require_plain_accesses,
    require_row_major,
)
from tscript.schedule.rv import BlockRV

PadLike = IndexMap | ExprLike | Callable[..., Any]

_KIND = InstructionKind(
    "TransformLayout",
    "transform_layout",
    (
        block(),
        access("buffer"),
        Arg("index_map", Role.INPUT),
        Arg("pad_value", is_saved=True),
        flag("assume_injective_transform"),
    ),
)


@primitive(_KIND)
def transform_layout(
    s: ScheduleCore,
    block: BlockRV | str,
    buffer: tuple[str, int] | str | Buffer,
    index_map: MapLike,
    pad_value: PadLike | None = None,
    *,
    assume_injective_transform: bool = False,
) -> None:
    """Store element `[i, j, ..]` of a buffer at `index_map(i, j, ..)` from now on, everywhere in the program.

    The buffer is given by ("read", index) or ("write", index) of the block, by name, or itself. The map is a function
    or an IndexMap, and must be one-to-one. `IndexMap.AXIS_SEPARATOR` among its results adds a step
    `set_axis_separator`. A parameter of the function takes arguments of the new shape.

    Where the map leaves elements that hold none of the old ones, `pad_value` (a number, an expression, a function of
    the new indices or an IndexMap) says what these are. If the program never writes the buffer, they are promised to
    hold it; if a nest visits all elements in row-major order, it writes the padding too; else a stage of its own
    does. With `assume_injective_transform`, a map of which nothing can be shown is taken to be one-to-one, and padding
    may stay without value.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def twice(A: T.Buffer((8, 12), "float32"), B: T.Buffer((8, 12), "float32")):
    ...     for i, j in T.grid(8, 12):
    ...         with T.block("B"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             B[vi, vj] = A[vi, vj] * T.float32(2)
    >>> sch = tscript.tir.Schedule(twice)
    >>> sch.transform_layout("B", ("read", 0), lambda i, j: [j // 4, i, j % 4])
    >>> sch.get(sch.get_block("B")).reads
    (A[vj // 4, vi, vj % 4],)
    >>> [int(e) for e in sch.mod["main"].buffer_map[sch.mod["main"].params[0]].shape]
    [3, 8, 4]
    """
    target = s.block(block)  # pyright: ignore[reportArgumentType]
    kind, index = resolve_access(target.block, buffer)
    old = accessed(target.block, index, kind).buffer
    home = home_of(s.state, target, old)
    dtype = index_dtype(old.shape)
    given = as_index_map(s, index_map, old.ndim, dtype, target.block)
    mapping = given.mapping
    require_plain_accesses(home.site.block, old, "its elements would lie elsewhere")
    require_row_major(old, target.block)
    _require_no_alignment(home.site.block, old)
    inverse = _inverse(mapping, old, target.block, assume_injective_transform)
    pads = as_padding(pad_value, len(inverse.shape), dtype, old, target.block)
    padding = _padding(inverse, pads, old, target.block, assume_injective_transform)
    new = old.replace(shape=tuple(inverse.shape), strides=(), axis_separators=())
    if home.is_parameter:
        require_own_interface(s.state, home, new)
    _relayout(s, home, old, new, mapping, padding)
    s.record_as(buffer=(kind, index), index_map=given.recorded, pad_value=pads)
    if given.separators:
        s.then("set_axis_separator", block=block, buffer=(kind, index), axis_separators=given.separators)


def _relayout(
    s: ScheduleCore, home: Home, old: Buffer, new: Buffer, mapping: IndexMap, padding: Padding | None
) -> None:
    """Rewrite all accesses, and give padding its value."""
    bounds = bounds_below(s.state.root_of(home.site).block)
    plain = Relayout(old, new, mapping, bounds)
    require_exact_writes(s.state, home.site, old, plain)
    places = _storing_statements(home.site.block, old)
    traversals = find_traversals(s.state, home.site, old) if padding is not None else []
    rewriter = Relayout(old, new, mapping, bounds, padding, traversals)
    changed: Block = rewriter.rewrite_Block(home.site.block)
    if padding is not None and not traversals:
        changed = _with_stage(changed, new, padding, places, home)
    parameters = {old: new} if home.is_parameter else None
    s.state.replace(home.site, changed, rewriter.block_reuse, "laid out anew", parameters)


def _with_stage(block: Block, new: Buffer, padding: Padding, places: list[int], home: Home) -> Block:
    """The block with a stage that promises the padding of an input, or that writes it after the last other store."""
    parts: list[Stmt] = list(block.body.seq) if isinstance(block.body, SeqStmt) else [block.body]
    if places:
        parts.insert(places[-1] + 1, padding.fill(new))
        return block.replace(body=seq(*parts))
    if not home.is_parameter:
        refuse(f"nothing writes `{new.name}`, so its padding cannot get a value either", home.site.block)
    value = padding.value.final_indices[0]
    if isinstance(value, FloatImm) and value.value != value.value:
        refuse(f"the padding of `{new.name}`, an input, cannot be promised to be NaN, which equals nothing", block)
    return block.replace(body=seq(padding.promise(new), *parts))


def _storing_statements(block: Block, buffer: Buffer) -> list[int]:
    """The places, in the body of a block, of the statements that store to a buffer."""
    parts = block.body.seq if isinstance(block.body, SeqStmt) else (block.body,)
    found: list[int] = []

    def look(node: object) -> bool:
        nonlocal stores
        stores = stores or (isinstance(node, BufferStore) and node.buffer is buffer)
        return not stores

    for k, part in enumerate(parts):
        stores = False
        pre_order_visit(part, look)
        if stores:
            found.append(k)
    return found


# -- arguments ------------------------------------------------------------------------------------


def _inverse(mapping: IndexMap, buffer: Buffer, block: Block, trusted: bool) -> Inverse:
    try:
        return invert(mapping, buffer.shape, trusted)
    except ValueError as e:
        refuse(f"`{buffer.name}`, which {{0}} uses, cannot be laid out so: {literal(str(e))}", block)


def _padding(inverse: Inverse, pads: IndexMap | None, buffer: Buffer, block: Block, trusted: bool) -> Padding | None:
    """What to do about padding: nothing where there is none, or where its value does not matter."""
    if not inverse.has_padding:
        return None
    if pads is None:
        if trusted:
            return None
        refuse(
            f"the new layout of `{buffer.name}` has elements that hold none of the old ones",
            block,
            hint="say with pad_value what they hold, or choose tiles that divide the shape",
        )
    value = pads.final_indices[0]
    if isinstance(value, Call) and isinstance(value.op, Op) and value.op.name == "tir.undef":
        return None
    if inverse.back is None or inverse.padding is None:
        refuse(f"which elements of the new layout of `{buffer.name}` are padding is not known as an expression", block)
    return Padding(inverse.back, inverse.padding, pads, inverse.shape)


def as_padding(given: PadLike | None, ndim: int, dtype: DataType, buffer: Buffer, block: Block) -> IndexMap | None:
    """The value of padding as a map from the new indices to one value of the buffer's type.

    TypeError for what is no value; refused where it is of another type, or depends on anything but the indices.
    """
    if given is None:
        return None
    if isinstance(given, IndexMap):
        found = given
    elif callable(given):
        try:
            found = IndexMap.from_func(given, ndim, None, dtype)
        except ValueError as e:
            refuse(f"pad_value: {literal(str(e))}", block)
    else:
        indices = tuple(Var(f"indices_{d}", dtype) for d in range(ndim))
        value = make.const(given, "bool") if isinstance(given, bool) else make.convert(given)
        found = IndexMap(indices, (value,))
    if len(found.initial_indices) != ndim or len(found.final_indices) != 1:
        refuse(
            f"pad_value takes {len(found.initial_indices)} indices and gives {len(found.final_indices)} values; "
            f"it must take the {ndim} indices of the new layout and give one value",
            block,
        )
    require_closed(found, found.final_indices[0], block)
    value = _of_type(found.final_indices[0], buffer, block)
    typed = with_dtype(found, dtype)
    return typed.replace(final_indices=(value if isinstance(value, (IntImm, FloatImm)) else typed.final_indices[0],))


def _of_type(value: PrimExpr, buffer: Buffer, block: Block) -> PrimExpr:
    """A value in the type of a buffer; constants are converted where they keep their value."""
    wanted = buffer.dtype
    if value.dtype is wanted or (isinstance(value, Call) and isinstance(value.op, Op) and value.op.name == "tir.undef"):
        return value
    if isinstance(value, (IntImm, FloatImm)):
        try:
            converted = make.const(value.value, wanted)
        except (ValueError, TypeError, OverflowError):
            converted = None
        same = isinstance(converted, (IntImm, FloatImm)) and (
            isinstance(converted, FloatImm) or converted.value == value.value
        )
        if converted is not None and same:
            return converted
    refuse(
        f"pad_value is `{value}` of type {value.dtype!s}, but `{buffer.name}` holds {wanted!s}",
        block,
        hint=f"convert it: T.Cast({str(wanted)!r}, ...)",
    )


def _require_no_alignment(block: Block, buffer: Buffer) -> None:
    """Refuse a buffer of whose dimensions a block asks strides: these dimensions would be other ones."""

    def look(node: object) -> bool:
        if isinstance(node, Block) and "buffer_dim_align" in node.annotations:
            asked: Any = node.annotations["buffer_dim_align"]
            for entry in asked:
                if int(entry[0]) < len(node.writes) and node.writes[int(entry[0])].buffer is buffer:
                    refuse(
                        f"{{0}} asks for strides of `{buffer.name}` by dimensions of its present layout",
                        node,
                        hint="call storage_align after the layout is changed",
                    )
        return True

    pre_order_visit(block, look)
