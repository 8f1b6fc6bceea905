"""Views made by match_buffer are replaced by the buffers they view."""

from __future__ import annotations

from typing import Any

from tscript.ir.buffer import Buffer
from tscript.ir.construct import add, call_intrin, cast
from tscript.ir.expr import BufferLoad, IntImm, PrimExpr, Range, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Rewriter, post_order_visit
from tscript.ir.stmt import Block, BufferRegion, BufferStore, LetStmt, MatchBufferRegion, Stmt
from tscript.support.errors import LoweringError


def lower_match_buffers(func: PrimFunc) -> PrimFunc:
    """Rewrite accesses to views into accesses to their sources; bind the views' size, stride and offset variables.

    Raises LoweringError where constants of a view and its source contradict each other.
    """
    return func.replace(body=_LowerMatchBuffers().rewrite(func.body))


class _LowerMatchBuffers(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self._values: dict[Var, PrimExpr] = {}
        self._views: dict[Buffer, BufferRegion] = {}

    def rewrite_Var(self, var: Var) -> PrimExpr:
        return self._values.get(var, var)

    def rewrite_Block(self, block: Block) -> Any:
        for match in block.match_buffers:
            self._enter(match, block)
        empty: tuple[MatchBufferRegion, ...] = ()
        result: Block = self.rewrite_children(block.replace(match_buffers=empty))
        for match in block.match_buffers:
            pointer = match.buffer.data
            if pointer not in self._values and _mentions(result.body, pointer):
                # The view has no offset variable by which its own pointer could start elsewhere than at the region.
                source = self._views[match.buffer]
                start = BufferLoad(source.buffer, tuple(r.min for r in source.region))
                result = result.replace(
                    body=LetStmt(pointer, call_intrin("handle", "tir.address_of", start), result.body)
                )
        return result

    def rewrite_BufferLoad(self, load: BufferLoad) -> Any:
        node: BufferLoad = self._children_of_access(load)
        region = self._views.get(load.buffer)
        return node if region is None else BufferLoad(region.buffer, _inside(region, node.indices), node.predicate)

    def rewrite_BufferStore(self, store: BufferStore) -> Any:
        node: BufferStore = self._children_of_access(store)
        region = self._views.get(store.buffer)
        return node if region is None else node.replace(buffer=region.buffer, indices=_inside(region, node.indices))

    def _children_of_access(self, access: Any) -> Any:
        changes: dict[str, Any] = {"indices": tuple(self.rewrite(i) for i in access.indices)}
        if access.predicate is not None:
            changes["predicate"] = self.rewrite(access.predicate)
        if isinstance(access, BufferStore):
            changes["value"] = self.rewrite(access.value)
        if access.buffer not in self._views:
            changes["buffer"] = self.map_buffer(access.buffer)
        return access.replace(**changes)

    def rewrite_BufferRegion(self, region: BufferRegion) -> Any:
        view = self._views.get(region.buffer)
        ranges = tuple(Range.from_min_extent(self.rewrite(r.min), self.rewrite(r.extent)) for r in region.region)
        if view is None:
            return BufferRegion(self.map_buffer(region.buffer), ranges)
        extra = len(view.region) - len(ranges)
        moved = [
            Range.from_min_extent(add(outer.min, r.min), r.extent)
            for outer, r in zip(view.region[extra:], ranges, strict=True)
        ]
        return BufferRegion(view.buffer, (*view.region[:extra], *moved))

    def _enter(self, match: MatchBufferRegion, block: Block) -> None:
        view, source = match.buffer, self.rewrite_BufferRegion(match.source)
        extra = len(source.region) - len(view.shape)
        if extra < 0:
            raise LoweringError(
                f"{view.name} in block {block.name_hint!r} has more dimensions than the region it views"
            )
        self._views[view] = source
        if isinstance(view.elem_offset, Var):
            self._values[view.data] = source.buffer.data
        what = f"{view.name} in block {block.name_hint!r} views a region of {source.buffer.name}"
        for d, (size, r) in enumerate(zip(view.shape, source.region[extra:], strict=True)):
            self._bind(size, r.extent, f"{what}: extent {d}")
        strides = source.buffer.effective_strides()[extra:]
        for d, (step, given) in enumerate(zip(view.strides, strides, strict=False)):
            self._bind(step, given, f"{what}: stride {d}")
        offset = source.buffer.offset_of([r.min for r in source.region])
        self._bind(view.elem_offset, offset, f"{what}: offset", is_offset=True)

    def _bind(self, want: PrimExpr, given: PrimExpr, what: str, is_offset: bool = False) -> None:
        if isinstance(want, Var):
            self._values.setdefault(want, cast(given, want.dtype))
        elif isinstance(want, IntImm) and isinstance(given, IntImm) and want.value != given.value:
            # A view without an offset of its own says 0, which claims nothing.
            if not (is_offset and want.value == 0):
                raise LoweringError(f"{what} is {given.value}, but the view is declared with {want.value}")


def _mentions(body: Stmt, pointer: Var) -> bool:
    found = False

    def visit(node: object) -> None:
        nonlocal found
        found |= node is pointer or (isinstance(node, Buffer) and node.data is pointer)

    post_order_visit(body, visit)
    return found


def _inside(region: BufferRegion, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
    extra = len(region.region) - len(indices)
    starts = [r.min for r in region.region]
    return (*starts[:extra], *(add(s, i) for s, i in zip(starts[extra:], indices, strict=True)))
