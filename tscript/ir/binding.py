"""Where names come into scope: for each class, its fields in that order and whether they define names.

Comparison and hashing of programs are both driven by this table, so that they agree.
"""

from __future__ import annotations

import functools
import struct
from typing import Any, Final

import numpy as np

from tscript.ir import expr as ex
from tscript.ir import stmt as st
from tscript.ir.base import Node
from tscript.ir.buffer import Buffer
from tscript.ir.construct import const
from tscript.ir.expr import Op, PrimExpr, Var
from tscript.ir.function import IRModule, PrimFunc
from tscript.ir.index_map import IndexMap

USE: Final = 0
BIND: Final = 1  # a new name, whatever it meant before
DEFINE: Final = 2  # a buffer is new; a variable in its shape is when it was not met before
ATTRIBUTE: Final = 3  # a use, inside a mapping: Python numbers stand for constants
REALIZED: Final = 7  # a use, but for the buffer that the statement below realizes, which is new

FIELD_ORDER: Final[dict[type[Node], tuple[tuple[str, int], ...]]] = {
    ex.Let: (("value", USE), ("var", BIND), ("body", USE)),
    ex.IterVar: (("dom", USE), ("var", BIND), ("iter_type", USE), ("thread_tag", USE)),
    ex.CommReducer: (("lhs", BIND), ("rhs", BIND), ("result", USE), ("identity_element", USE)),
    ex.Reduce: (
        ("axis", USE), ("combiner", USE), ("source", USE), ("init", USE), ("condition", USE), ("value_index", USE),
    ),
    st.LetStmt: (("value", USE), ("var", BIND), ("body", USE)),
    st.For: (
        ("kind", USE), ("min", USE), ("extent", USE), ("thread_binding", USE), ("loop_var", BIND),
        ("annotations", USE), ("body", USE),
    ),
    st.Allocate: (
        ("dtype", USE), ("extents", USE), ("condition", USE), ("buffer_var", BIND), ("annotations", USE),
        ("body", USE),
    ),
    st.AllocateConst: (
        ("dtype", USE), ("extents", USE), ("data", USE), ("buffer_var", BIND), ("annotations", USE), ("body", USE),
    ),
    st.DeclBuffer: (("buffer", DEFINE), ("body", USE)),
    st.AttrStmt: (("node", REALIZED), ("attr_key", USE), ("value", USE), ("body", USE)),
    st.BufferRealize: (("buffer", DEFINE), ("bounds", USE), ("condition", USE), ("body", USE)),
    st.MatchBufferRegion: (("source", USE), ("buffer", DEFINE)),
    st.Block: (
        ("name_hint", USE), ("iter_vars", USE), ("alloc_buffers", DEFINE), ("match_buffers", USE), ("reads", USE),
        ("writes", USE), ("annotations", USE), ("init", USE), ("body", USE),
    ),
    Buffer: (
        ("dtype", USE), ("shape", DEFINE), ("strides", DEFINE), ("elem_offset", DEFINE), ("data_alignment", USE),
        ("offset_factor", USE), ("buffer_type", USE), ("axis_separators", USE),
    ),
    IndexMap: (("initial_indices", BIND), ("final_indices", USE), ("inverse_index_map", USE)),
    PrimFunc: (("params", BIND), ("ret_type", USE), ("attrs", USE), ("body", USE)),
    IRModule: (("attrs", USE), ("global_infos", USE)),
    Op: (("name", USE),),
}  # fmt: skip
"""Fields in the order in which the names they define become visible, for classes where that matters."""


@functools.cache
def ordered_fields(cls: type[Node]) -> tuple[tuple[str, int], ...]:
    """The compared fields of a node class, in order, each with `USE`, `BIND` or `DEFINE`."""
    if cls in FIELD_ORDER:
        return FIELD_ORDER[cls]
    return tuple((f, USE) for f in cls._fields if f != "span")  # pyright: ignore[reportPrivateUsage]


def mode_below(node: Node, mode: int, kind: int) -> int:
    """The mode of a field: within an expression in a shape every variable may be new."""
    if kind == REALIZED:
        return DEFINE if is_realized_below(node) else USE
    return DEFINE if mode == DEFINE and kind == USE and isinstance(node, PrimExpr) else kind


def is_realized_below(node: Node) -> bool:
    """Whether an attribute tells the storage scope of the buffer that its body realizes.

    The buffer begins to exist there, though it is named before.
    """
    return isinstance(node, st.AttrStmt) and isinstance(node.body, st.BufferRealize) and node.node is node.body.buffer


def as_constant(value: Any) -> Any:
    """A Python number in an annotation means the constant it would be converted to."""
    if isinstance(value, (bool, int, float, np.generic)):
        try:
            return const(value)  # pyright: ignore[reportUnknownArgumentType]
        except (ValueError, TypeError):
            return value  # pyright: ignore[reportUnknownVariableType]
    return value


def as_array(value: Any) -> np.ndarray[Any, Any] | None:
    """Constant data as an array; None for what is no array."""
    if isinstance(value, np.ndarray):
        return value  # pyright: ignore[reportUnknownVariableType]
    convert = getattr(value, "numpy", None)
    return np.asarray(convert()) if callable(convert) and not isinstance(value, Node) else None


def float_bits(value: float) -> bytes:
    """The bits of a float, one pattern for every NaN."""
    return b"nan" if value != value else struct.pack("<d", value)


def type_text(var: Var) -> str:
    """The type of a variable in words."""
    kind = var.type_annotation
    if isinstance(kind, ex.PointerType) and isinstance(kind.element_type, ex.PrimType):
        return f"pointer to {kind.element_type.dtype!s} in {kind.storage_scope!r}"
    return str(var.dtype)
