"""Several loops become one."""

from __future__ import annotations

from collections.abc import Sequence

from tscript.ir import construct as make
from tscript.ir.construct import is_const_int
from tscript.ir.empty_reductions import empty_condition
from tscript.ir.expr import IntImm, PrimExpr, Range, Var
from tscript.ir.functor import post_order_visit
from tscript.ir.stmt import Block, For
from tscript.schedule.bindings import ranges_around, rebind, simplified
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.instruction import Arg, InstructionKind, Outputs, Role, flag
from tscript.schedule.loop_checks import (
    require_fits,
    require_independent_range,
    require_loop,
    require_only_child,
    require_plain,
    require_zero_start,
    serial_nest,
    widest,
)
from tscript.schedule.primitive import primitive
from tscript.schedule.rv import LoopRV
from tscript.schedule.sref import StmtSRef

_KIND = InstructionKind(
    "Fuse", "fuse", (Arg("loops", Role.INPUTS, keyword=False), flag("preserve_unit_iters")), Outputs.ONE
)


@primitive(_KIND)
def fuse(s: ScheduleCore, *loops: LoopRV, preserve_unit_iters: bool = True) -> LoopRV:
    """Fuse tightly nested loops, given from the outside in, into one; its handle.

    Each loop must be all that the one before holds, count from 0, and have neither annotations nor a thread; its extent
    must not depend on the others. Kinds such as parallel are lost.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def twice(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    ...     for i, j in T.grid(4, 8):
    ...         with T.block("B"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             B[vi, vj] = A[vi, vj] * T.float32(2)
    >>> sch = tscript.tir.Schedule(twice)
    >>> print(sch.get(sch.fuse(*sch.get_loops("B"))))
    for i_j_fused in range(32):
        with T.block("B"):
            vi = T.axis.spatial(4, i_j_fused // 8)
            vj = T.axis.spatial(8, i_j_fused % 8)
            A = T.Buffer((4, 8))
            T.reads(A[vi, vj])
            B = T.Buffer((4, 8))
            T.writes(B[vi, vj])
            B[vi, vj] = A[vi, vj] * T.float32(2.0)
    """
    if not loops:
        raise ValueError("sch.fuse: give at least one loop")
    srefs = [require_loop(s, rv) for rv in loops]
    olds = [r.loop for r in srefs]
    _require_chain(srefs)
    ranges = ranges_around(s.state, srefs[0])
    dtype = widest([old.loop_var.dtype for old in olds])
    extent = _product([make.cast(old.extent, dtype) for old in olds])
    extent = extent if isinstance(extent, IntImm) else simplified(extent, ranges)
    name = "_".join(old.loop_var.name for old in olds) + "_fused"
    var = olds[0].loop_var.copy_with(name=name) if olds[0].loop_var.dtype is dtype else Var(name, dtype)
    _require_count(olds)
    _require_inits_run(olds, extent)
    ranges[var] = Range.from_min_extent(IntImm(dtype, 0), extent)
    body, reuse = rebind(olds[-1].body, _parts(var, olds), ranges, preserve_unit_iters=bool(preserve_unit_iters))
    nest, _ = serial_nest([var], [extent], body)
    s.state.replace(srefs[0], nest, reuse, f"fused into {name}")
    assert isinstance(nest, For)
    return s.loop_of(nest)


def _require_chain(srefs: Sequence[StmtSRef]) -> None:
    for k, sref in enumerate(srefs):
        require_plain(sref.loop)
        if k:
            outer = srefs[k - 1]
            if sref.parent is not outer:
                refuse(
                    "{0} is not directly inside {1}",
                    sref.loop,
                    outer.loop,
                    hint="give the loops from the outside in, without gaps; `reorder` brings them together",
                )
            require_only_child(outer.loop, sref.loop)
        require_zero_start(sref.loop)
        require_independent_range(sref.loop, [r.loop for r in srefs[:k]])


def _require_count(loops: Sequence[For]) -> None:
    count = 1
    for old in loops:
        count *= old.extent.value if isinstance(old.extent, IntImm) else 1
    require_fits(count, widest([old.loop_var.dtype for old in loops]), "the fused loop", loops[0])


def _require_inits_run(loops: Sequence[For], extent: PrimExpr) -> None:
    """Refuse a loop without iterations in place of some around an empty reduction, whose init writes elements."""
    if not is_const_int(extent, 0) or all(is_const_int(old.extent, 0) for old in loops):
        return
    found: list[Block] = []

    def look(node: object) -> None:
        if isinstance(node, Block) and node.init is not None and not is_const_int(empty_condition(node), 0):
            found.append(node)

    post_order_visit(loops[-1].body, look)
    if found:
        refuse(
            "{0} reduces over nothing and still writes what its init says, but not inside a fused loop without "
            "iterations",
            found[0],
            hint="separate the init first, with decompose_reduction",
        )


def _product(values: Sequence[PrimExpr]) -> PrimExpr:
    result = values[0]
    for v in values[1:]:
        result = make.mul(result, v)
    return result


def _parts(fused: Var, loops: Sequence[For]) -> dict[Var, PrimExpr]:
    """The old variables in terms of the new one."""
    result: dict[Var, PrimExpr] = {}
    inside: PrimExpr = IntImm(fused.dtype, 1)
    for k in range(len(loops) - 1, -1, -1):
        old = loops[k]
        extent = make.cast(old.extent, fused.dtype)
        value: PrimExpr
        if is_const_int(old.extent, 1) or is_const_int(extent, 0) or is_const_int(inside, 0):
            # Where an extent is 0 nothing runs, so any value will do that divides by no 0.
            value = IntImm(fused.dtype, 0)
        elif k == 0:
            value = make.floordiv(fused, inside)
        else:
            value = make.floordiv(make.floormod(fused, make.mul(inside, extent)), inside)
        result[old.loop_var] = make.cast(value, old.loop_var.dtype)
        inside = make.mul(inside, extent)
    return result
