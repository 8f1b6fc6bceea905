"""Tensor expressions: what to compute, element by element, before any thought of how.

A = te.placeholder((128, 64), name="A")
k = te.reduce_axis((0, 64), "k")
S = te.compute((128,), lambda i: te.sum(A[i, k], axis=k), name="S")
func = te.create_prim_func([A, S])
"""

from __future__ import annotations

from tscript.te.create import create_prim_func
from tscript.te.operation import (
    compute,
    const,
    extern,
    extern_primfunc,
    placeholder,
    reduce_axis,
    scan,
    size_var,
    tag_scope,
    thread_axis,
    var,
)
from tscript.te.reducers import register_reducer
from tscript.te.reduction import comm_reducer, max, max_value, min, min_value, prod, sum
from tscript.te.scalars import *  # noqa: F403
from tscript.te.scalars import __all__ as _scalars
from tscript.te.tensor import ComputeOp, ExternOp, Operation, PlaceholderOp, Tensor, TensorSlice

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    "ComputeOp", "ExternOp", "Operation", "PlaceholderOp", "Tensor", "TensorSlice", "comm_reducer", "compute", "const",
    "create_prim_func", "extern", "extern_primfunc", "max", "max_value", "min", "min_value", "placeholder", "prod",
    "reduce_axis", "register_reducer", "scan", "size_var", "sum", "tag_scope", "thread_axis", "var", *_scalars,
]  # fmt: skip
