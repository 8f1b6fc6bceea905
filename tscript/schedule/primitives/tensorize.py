"""A block is replaced by the implementation of a tensor intrinsic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tscript.analysis import detect_regions
from tscript.analysis.ranges import range_bounds
from tscript.arith import Bound, simplify
from tscript.ir import construct as make
from tscript.ir.base import Node
from tscript.ir.buffer import Buffer
from tscript.ir.expr import And, BufferLoad, Call, IntImm, Op, Or, PrimExpr, Range, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Rewriter, children, post_order_visit
from tscript.ir.occurrences import any_below
from tscript.ir.stmt import Block, BlockRealize, BufferRegion, BufferStore, For, IfThenElse, MatchBufferRegion, While
from tscript.ir.tensor_intrin import TensorIntrin
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import literal, refuse
from tscript.schedule.instruction import InstructionKind, attr, block, flag
from tscript.schedule.loop_checks import require_statement
from tscript.schedule.primitive import primitive
from tscript.schedule.primitives.blockize import loop_as_block
from tscript.schedule.rewrite import fresh_copy
from tscript.schedule.rv import BlockRV, LoopRV
from tscript.schedule.symbols import axis_ranges, no_less, outer_bounds
from tscript.schedule.tensor_match import Mismatch, Place, match_description
from tscript.support.warning import warn_user
from tscript.te.index_dtype import with_index_dtype

_KIND = InstructionKind(
    "Tensorize", "tensorize", (block("block_or_loop"), attr("tensor_intrin"), flag("preserve_unit_iters"))
)


@primitive(_KIND)
def tensorize(
    s: ScheduleCore,
    block_or_loop: BlockRV | LoopRV,
    tensor_intrin: str | TensorIntrin,
    preserve_unit_iters: bool = True,
) -> None:
    """Replace what a block computes by the implementation of a tensor intrinsic.

    A loop is made a block first, as `blockize` does; its init stays. What the block computes must be, step by step,
    what the intrinsic's description says, on parts of any buffers of the same types and kinds of memory. The
    implementation takes its place, with a view of each part. A handle of the block is one of the new block; what was
    below it is gone. `tensor_intrin` is the name under which the intrinsic is registered, or the registered object.

    Refused, naming the first place where they differ, for another computation; and where the implementation asks
    more of the layout of a buffer (a start that is a multiple of `offset_factor`, rows without gaps) than is certain.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def one_by_one(A: T.Buffer((4,), "float32", offset_factor=1), B: T.Buffer((4,), "float32", offset_factor=1)):
    ...     with T.block("root"):
    ...         T.reads(A[0:4])
    ...         T.writes(B[0:4])
    ...         for i in range(4):
    ...             with T.block("copy"):
    ...                 vi = T.axis.spatial(4, i)
    ...                 B[vi] = A[vi]
    >>> @T.prim_func
    ... def at_once(A: T.Buffer((4,), "float32", offset_factor=1), B: T.Buffer((4,), "float32", offset_factor=1)):
    ...     with T.block("root"):
    ...         T.reads(A[0:4])
    ...         T.writes(B[0:4])
    ...         B[0:4] = A[0:4]
    >>> tscript.tir.TensorIntrin.register("copy_of_4", one_by_one, at_once, override=True)
    >>> @T.prim_func
    ... def copy(X: T.Buffer((64,), "float32"), Y: T.Buffer((64,), "float32")):
    ...     for i in range(64):
    ...         with T.block("Y"):
    ...             v = T.axis.spatial(64, i)
    ...             Y[v] = X[v]
    >>> sch = tscript.tir.Schedule(copy)
    >>> i_0, i_1 = sch.split(sch.get_loops("Y")[0], [None, 4])
    >>> sch.tensorize(i_1, "copy_of_4")
    >>> print(sch.get(i_0))
    for i_0 in range(16):
        with T.block("Y_o"):
            v_o = T.axis.spatial(16, i_0)
            X = T.Buffer((64,))
            T.reads(X[v_o * 4:v_o * 4 + 4])
            Y = T.Buffer((64,))
            T.writes(Y[v_o * 4:v_o * 4 + 4])
            A = T.match_buffer(X[v_o * 4:v_o * 4 + 4], (4,), offset_factor=1)
            B = T.match_buffer(Y[v_o * 4:v_o * 4 + 4], (4,), offset_factor=1)
            B[0:4] = A[0:4]
    """
    at = require_statement(s, block_or_loop)
    name, intrin = _intrinsic(tensor_intrin)
    realize: BlockRealize | None = None
    shown: Node
    if isinstance(at.stmt, For):
        realize, _ = loop_as_block(s, at, preserve_unit_iters)
        target, shown = realize.block, at.loop
    else:
        target = shown = at.block
        if at.parent is None:
            refuse("{0} is the whole function; a tensor intrinsic replaces a part of it", target)
    bounds = {**outer_bounds(s.state, at), **range_bounds(axis_ranges(target))}
    wide = _is_wide(target)
    desc, impl = (with_index_dtype(f, "int64") if wide else f for f in (intrin.desc, intrin.impl))
    places = _places(desc, target, bounds, shown, name)
    made = _implemented(target, impl, places, _used_whole(desc), bounds, shown, name)
    s.record_as(tensor_intrin=name)
    why = f"tensorized with {name}"
    if realize is None:
        s.state.replace(at, made, {target: made}, why)
    else:
        s.state.replace(at, realize.replace(block=made), {}, why)


def _places(desc: PrimFunc, target: Block, bounds: Mapping[Var, Bound], shown: Node, name: str) -> list[Place]:
    """What stands for each parameter of the description; refused where the block computes something else."""
    try:
        return match_description(desc, target, bounds)
    except Mismatch as error:
        refuse(
            f"{{0}} does not compute what the description of {name!r} says; {literal(error.text())}",
            shown,
            hint="bring the loops, subscripts, types and storage scopes into the form of TensorIntrin.get(name).desc",
        )


def _intrinsic(given: str | TensorIntrin) -> tuple[str, TensorIntrin]:
    if isinstance(given, str):
        return given, TensorIntrin.get(given)
    if not isinstance(given, TensorIntrin):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"tensor_intrin is a name or a TensorIntrin, not {given!r}")
    name = TensorIntrin.name_of(given)
    if name is None:
        raise ValueError(
            "the TensorIntrin is not registered, so a trace could not name it; "
            "register its functions with TensorIntrin.register(name, desc, impl) and give the name"
        )
    return name, given


def _is_wide(target: Block) -> bool:
    """Whether the program counts in int64."""
    found = [a.var for a in target.iter_vars]
    post_order_visit(target.body, lambda n: found.append(n.loop_var) if isinstance(n, For) else None)
    return any(v.dtype.bits == 64 for v in found)


# -- the implementation in place ------------------------------------------------------------------


def _implemented(
    target: Block,
    impl: PrimFunc,
    places: Sequence[Place],
    whole: Sequence[bool],
    bounds: Mapping[Var, Bound],
    shown: Node,
    name: str,
) -> Block:
    """The block with the body of the implementation, which sees the parts of buffers as its parameters."""
    assert isinstance(impl.body, BlockRealize)
    root = impl.body.block
    if root.init is not None:
        refuse(f"the implementation of {name!r} has an init, which a block without axes of its own cannot run", shown)
    views: list[MatchBufferRegion] = []
    for p, place, used in zip(impl.params, places, whole, strict=True):
        view = impl.buffer_map[p]
        if not used:
            _require_inside(view, place, bounds, shown, name)
        _require_layout(view, place, bounds, root, shown, name)
        lead = len(place.base) - view.ndim
        sizes = [IntImm(b.dtype, 1) for b in place.base[:lead]] + [
            make.cast(size, b.dtype) for size, b in zip(view.shape, place.base[lead:], strict=True)
        ]
        ranges = (Range.from_min_extent(b, size) for b, size in zip(place.base, sizes, strict=True))
        views.append(MatchBufferRegion(view, BufferRegion(place.buffer, tuple(ranges))))
    # Variables of its own, so that the same intrinsic can be used again.
    own = fresh_copy(Block((), (), (), "", root.body, None, root.alloc_buffers, (*views, *root.match_buffers)))
    annotations = dict(target.annotations)
    for key, value in root.annotations.items():
        if key in annotations and annotations[key] is not value and annotations[key] != value:
            warn_user(
                f"block {target.name_hint} keeps its annotation {key!r}; the implementation of {name!r} has another"
            )
        annotations.setdefault(key, value)
    return target.replace(
        body=own.body,
        alloc_buffers=(*target.alloc_buffers, *own.alloc_buffers),
        match_buffers=(*target.match_buffers, *own.match_buffers),
        annotations=annotations,
    )


def _used_whole(desc: PrimFunc) -> list[bool]:
    """For each parameter, whether the description surely uses all of it, so that all of it is inside its buffer."""
    assert isinstance(desc.body, BlockRealize)
    if any_below(desc.body, _is_conditional):
        return [False] * len(desc.params)
    reads, writes = detect_regions(_AsAccessed().rewrite(desc.body.block))
    return [any(_is_all(r, desc.buffer_map[p]) for r in (*reads, *writes)) for p in desc.params]


class _AsAccessed(Rewriter):
    """Blocks declare what they access, and not what was declared for them by hand."""

    def leave_Block(self, node: Block) -> Block:
        """The block with regions that were found."""
        reads, writes = detect_regions(node)
        return node.replace(reads=reads, writes=writes)


def _is_conditional(node: Node) -> bool:
    if isinstance(node, (IfThenElse, While, And, Or)):
        return True
    if isinstance(node, (BufferLoad, BufferStore)):
        return node.predicate is not None
    if isinstance(node, BlockRealize):
        return not make.is_const_int(node.predicate, 1)
    return isinstance(node, Call) and isinstance(node.op, Op) and node.op.name == "tir.if_then_else"


def _is_all(region: BufferRegion, buffer: Buffer) -> bool:
    def same(a: PrimExpr, b: PrimExpr) -> bool:
        return a is b or make.is_const_int(simplify(make.sub(a, make.cast(b, a.dtype))), 0)

    return region.buffer is buffer and all(
        make.is_const_int(r.min, 0) and same(r.extent, size)
        for r, size in zip(region.region, buffer.shape, strict=True)
    )


def _require_inside(view: Buffer, place: Place, bounds: Mapping[Var, Bound], shown: Node, name: str) -> None:
    """Refuse a view that may be larger than what is left of the buffer."""
    lead = len(place.base) - view.ndim
    for d, (start, size, room) in enumerate(
        zip(place.base[lead:], view.shape, place.buffer.shape[lead:], strict=True), start=lead
    ):
        end = make.add(start, make.cast(size, start.dtype))
        zero = IntImm(start.dtype, 0)
        if no_less(start, zero, bounds) and no_less(make.cast(room, end.dtype), end, bounds):
            continue
        refuse(
            f"{view.name} of the implementation of {name!r} would be `{place.buffer.name}` from "
            f"`{literal(str(start))}` to `{literal(str(end))}` in dimension {d}, which may lie beyond its {room} "
            "elements",
            shown,
            hint="pad the buffer, or choose tiles of which each lies inside it",
        )


def _require_layout(
    view: Buffer, place: Place, bounds: Mapping[Var, Bound], root: Block, shown: Node, name: str
) -> None:
    """Refuse a part of a buffer that does not lie in memory as the implementation declares it."""
    source = place.buffer
    strides = source.effective_strides()
    offset = simplify(source.offset_of(place.base), bounds)
    what = f"{view.name}, a part of `{source.name}` from [{', '.join(str(b) for b in place.base)}] on"
    if view.offset_factor > 1 and not isinstance(source.elem_offset, Var):
        rest = simplify(make.floormod(offset, view.offset_factor), bounds)
        if not make.is_const_int(rest, 0):
            refuse(
                f"the implementation of {name!r} takes {literal(what)}, to start at a multiple of "
                f"{view.offset_factor} elements; `{literal(str(offset))}` need not be one",
                shown,
                hint="choose tiles and shapes so that every part starts at such a multiple",
            )
    wanted: Sequence[PrimExpr] = view.strides
    if not wanted:
        if not _needs_compact(root, view):
            return
        wanted = view.effective_strides()
    for d, (want, have) in enumerate(zip(wanted, strides[len(strides) - view.ndim :], strict=True)):
        if isinstance(want, Var) or make.is_const_int(view.shape[d], 1):
            continue
        if not make.is_const_int(simplify(make.sub(make.cast(want, have.dtype), have), bounds), 0):
            refuse(
                f"the implementation of {name!r} takes {literal(what)}, with stride {want} in dimension {d}; "
                f"it is {literal(str(have))}",
                shown,
                hint="copy the operand into a buffer of that layout first (cache_read, then transform_layout)",
            )


def _needs_compact(root: Block, view: Buffer) -> bool:
    """Whether the implementation goes through rows of a view as if they followed each other without gap."""
    found = False

    def look(node: object) -> None:
        nonlocal found
        if isinstance(node, (BufferLoad, BufferStore)) and node.buffer is view:
            last = node.indices[-1] if node.indices else None
            size = view.shape[-1] if view.shape else None
            if last is not None and last.dtype.lanes > (size.value if isinstance(size, IntImm) else 1):
                found = True
        elif isinstance(node, Buffer):
            found = found or (node is not view and node.data is view.data)
        elif isinstance(node, Node) and not isinstance(node, (BufferRegion, MatchBufferRegion)):
            found = found or any(c is view.data for c in children(node))

    post_order_visit(root.body, look)
    return found
