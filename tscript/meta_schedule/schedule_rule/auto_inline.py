"""Cheap blocks disappear into their consumers or producers."""

from __future__ import annotations

from collections.abc import Sequence

from tscript.ir.expr import Add, Call, IntImm, IterVar, Op, PrimExpr, Select, Sub, Var
from tscript.ir.functor import post_order_visit
from tscript.ir.occurrences import any_below
from tscript.ir.stmt import Block, IfThenElse
from tscript.meta_schedule.schedule_rule.schedule_rule import ScheduleRule
from tscript.schedule.errors import ScheduleError
from tscript.schedule.rv import BlockRV
from tscript.schedule.schedule import Schedule


class AutoInline(ScheduleRule):
    """Inlines a block into its consumers (`into_consumer`) or its only producer (`into_producer`).

    Constants (blocks that read nothing) are inlined with `inline_const_tensor`. Unless all blocks of the function are
    spatial, a block is left alone when it calls an operator of `disallow_op`, branches (`disallow_if_then_else`), or
    reads by subscripts that are not, each, a constant or an axis of the block plus a constant, no axis twice
    (`require_injective`), in the order of the written dimensions (`require_ordered`). The annotation
    `meta_schedule.inline_rule` with the value "disable" leaves a block alone, too.
    """

    def __init__(
        self,
        into_producer: bool,
        into_consumer: bool,
        inline_const_tensor: bool,
        disallow_if_then_else: bool,
        require_injective: bool,
        require_ordered: bool,
        disallow_op: Sequence[str] | None = None,
    ) -> None:
        self.into_producer = into_producer
        self.into_consumer = into_consumer
        self.inline_const_tensor = inline_const_tensor
        self.disallow_if_then_else = disallow_if_then_else
        self.require_injective = require_injective
        self.require_ordered = require_ordered
        self.disallow_op = frozenset(disallow_op or ())

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The schedule with the block inlined, or as it was."""
        stmt = sch.get(block)
        assert isinstance(stmt, Block)
        if len(stmt.writes) != 1 or sch.get_sref(block).parent is None:
            return [sch]
        has_consumers = bool(sch.get_consumers(block))
        if self.inline_const_tensor and not stmt.reads and has_consumers and _try(sch.compute_inline, block):
            return [sch]
        if not self._is_cheap(sch, block, stmt):
            return [sch]
        if self.into_consumer and has_consumers and _try(sch.compute_inline, block):
            return [sch]
        if self.into_producer:
            producers = sch.get_producers(block)
            if len(producers) == 1 and not _is_tensorized(sch, producers[0]):
                _try(sch.reverse_compute_inline, block)
        return [sch]

    def _is_cheap(self, sch: Schedule, block: BlockRV, stmt: Block) -> bool:
        disable = stmt.annotations.get("meta_schedule.inline_rule")
        if disable is not None and str(getattr(disable, "value", disable)) == "disable":
            return False
        if _is_spatial_function(sch, block):
            return True
        if self.disallow_op and any_below(stmt.body, self._is_disallowed):
            return False
        if self.disallow_if_then_else and (_is_guarded(sch, block) or any_below(stmt.body, _branches)):
            return False
        if not (self.require_injective or self.require_ordered):
            return True
        return all(self._maps(stmt, [r.min for r in region.region]) for region in stmt.reads)

    def _is_disallowed(self, node: object) -> bool:
        return isinstance(node, Call) and isinstance(node.op, Op) and node.op.name in self.disallow_op

    def _maps(self, stmt: Block, indices: list[PrimExpr]) -> bool:
        return maps_elementwise(stmt, indices, injective=self.require_injective, ordered=self.require_ordered)


def maps_elementwise(stmt: Block, indices: Sequence[PrimExpr], *, injective: bool, ordered: bool) -> bool:
    """Whether each subscript of a read is a constant or an axis that also subscripts the write, plus a constant; no
    axis twice (`injective`), in the order of the written dimensions (`ordered`).
    """
    written: dict[Var, int] = {}
    for k, dimension in enumerate(stmt.writes[0].region):
        found = _axis_of(dimension.min)
        if found is not None:
            written.setdefault(found, k)
    places: list[int] = []
    for index in indices:
        if isinstance(index, IntImm):
            continue
        axis = _axis_of(index)
        if axis is None or axis not in written:
            return False
        places.append(written[axis])
    return not (injective and len(set(places)) < len(places)) and not (ordered and places != sorted(places))


def _axis_of(index: PrimExpr) -> Var | None:
    """The variable of `v`, `v + c` or `v - c`."""
    if isinstance(index, (Add, Sub)) and isinstance(index.b, IntImm):
        index = index.a
    elif isinstance(index, Add) and isinstance(index.a, IntImm):
        index = index.b
    return index if isinstance(index, Var) else None


def _branches(node: object) -> bool:
    is_call = isinstance(node, Call) and isinstance(node.op, Op) and node.op.name == "tir.if_then_else"
    return is_call or isinstance(node, (Select, IfThenElse))


def _is_guarded(sch: Schedule, block: BlockRV) -> bool:
    predicate = sch.state.realize_of(sch.get_sref(block)).predicate
    return not (isinstance(predicate, IntImm) and predicate.value == 1)


def _is_tensorized(sch: Schedule, block: BlockRV) -> bool:
    stmt = sch.get(block)
    return isinstance(stmt, Block) and "meta_schedule.auto_tensorize" in stmt.annotations


def _is_spatial_function(sch: Schedule, block: BlockRV) -> bool:
    """Whether all blocks of the block's function have spatial axes only."""
    root = sch.get_sref(block)
    while root.parent is not None:
        root = root.parent
    spatial = True

    def look(node: object) -> None:
        nonlocal spatial
        if isinstance(node, Block):
            spatial = spatial and all(v.iter_type == IterVar.DataPar for v in node.iter_vars)

    post_order_visit(root.block.body, look)
    return spatial


def _try(primitive: object, block: BlockRV) -> bool:
    try:
        primitive(block)  # pyright: ignore[reportCallIssue]
    except ScheduleError:
        return False
    return True
