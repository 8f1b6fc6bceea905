"""Annotations of blocks and loops: hints for whoever works on the program later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from tscript.ir.construct import const
from tscript.ir.expr import FloatImm, IntImm, PrimExpr, StringImm
from tscript.schedule.core import ScheduleCore
from tscript.schedule.errors import refuse
from tscript.schedule.instruction import Arg, InstructionKind, Role, attr, block
from tscript.schedule.loop_checks import require_statement
from tscript.schedule.primitive import primitive
from tscript.schedule.rv import BlockRV, LoopRV

_TARGET = block("block_or_loop")


@primitive(InstructionKind("Annotate", "annotate", (_TARGET, attr("ann_key"), Arg("ann_val", Role.INPUT))))
def annotate(s: ScheduleCore, block_or_loop: BlockRV | LoopRV, ann_key: str, ann_val: Any) -> None:
    """Set an annotation of a block or loop.

    The value is a text, a number, a sampled integer (or an expression of such), a list of these, or a dict from text to
    these. A bool is kept as 1 or 0. An annotation that is there already stays as it is.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def clear(A: T.Buffer((64,), "float32")):
    ...     for i in range(64):
    ...         with T.block("A"):
    ...             v = T.axis.spatial(64, i)
    ...             A[v] = T.float32(0)
    >>> sch = tscript.tir.Schedule(clear)
    >>> (i,) = sch.get_loops("A")
    >>> sch.annotate(i, "pragma_auto_unroll_max_step", 16)
    >>> print(sch.get(i))
    for i in T.serial(64, annotations={"pragma_auto_unroll_max_step": 16}):
        with T.block("A"):
            v = T.axis.spatial(64, i)
            T.reads()
            A = T.Buffer((64,))
            T.writes(A[v])
            A[v] = T.float32(0.0)
    """
    sref = require_statement(s, block_or_loop)
    _require_key(ann_key)
    recorded, value = _value(s, ann_val, depth=0)
    s.record_as(ann_val=recorded)
    stmt = sref.stmt
    assert stmt is not None
    if ann_key not in stmt.annotations:
        s.state.replace(sref, stmt.replace(annotations={**stmt.annotations, ann_key: value}), {}, "annotated")


@primitive(InstructionKind("Unannotate", "unannotate", (_TARGET, attr("ann_key"))))
def unannotate(s: ScheduleCore, block_or_loop: BlockRV | LoopRV, ann_key: str) -> None:
    """Remove an annotation of a block or loop. Refused where there is none of that name.

    >>> import tscript
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def clear(A: T.Buffer((64,), "float32")):
    ...     for i in T.serial(64, annotations={"hint": 1}):
    ...         with T.block("A"):
    ...             v = T.axis.spatial(64, i)
    ...             A[v] = T.float32(0)
    >>> sch = tscript.tir.Schedule(clear)
    >>> (i,) = sch.get_loops("A")
    >>> sch.unannotate(i, "hint")
    >>> sch.get(i).annotations
    {}
    """
    sref = require_statement(s, block_or_loop)
    _require_key(ann_key)
    stmt = sref.stmt
    assert stmt is not None
    if ann_key not in stmt.annotations:
        known = ", ".join(repr(k) for k in stmt.annotations) or "none"
        refuse(f"{{0}} has no annotation {ann_key!r}", stmt, hint=f"its annotations are: {known}")
    rest = {k: v for k, v in stmt.annotations.items() if k != ann_key}
    s.state.replace(sref, stmt.replace(annotations=rest), {}, "unannotated")


def _require_key(key: str) -> None:
    if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"the key of an annotation is a text, not {key!r}")


def _value(s: ScheduleCore, given: Any, depth: int) -> tuple[Any, Any]:
    """A value as it is recorded, and as the program holds it."""
    value = cast("Any", given.item() if isinstance(given, np.generic) else given)  # pyright: ignore[reportUnknownMemberType]
    if isinstance(value, (str, StringImm)):
        text = value if isinstance(value, str) else value.value
        return text, text
    if isinstance(value, bool):
        return (int(value), const(int(value))) if depth == 0 else (value, const(value))
    if isinstance(value, (int, float)):
        return value, const(value)
    if isinstance(value, (IntImm, FloatImm)):
        # Records hold no types, so constants are kept as the numbers they are.
        return value.value, const(value.value)
    if isinstance(value, PrimExpr):
        return value, const(s.integer(value))
    if isinstance(value, (list, tuple)) and depth < 2:
        items = [_value(s, v, 2) for v in value]  # pyright: ignore[reportUnknownVariableType]
        return [r for r, _ in items], tuple(v for _, v in items)
    if isinstance(value, Mapping) and depth == 0:
        pairs: dict[Any, Any] = {k: _value(s, v, 1)[1] for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType]
        if not all(isinstance(k, str) for k in pairs):
            raise TypeError("the keys of a dict as annotation are texts")
        return pairs, pairs
    raise TypeError(
        f"an annotation is a text, a number, a list of these, or a dict from text to these, not {value!r}"
        if depth == 0
        else f"inside an annotation, {value!r} is not allowed: nesting goes no deeper than a dict of lists"
    )
