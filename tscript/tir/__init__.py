"""The nodes of programs, and the functions that build expressions from them, under TVM's names.

Here `Add`, `Select`, ... are the node classes, for `isinstance` and matching; operators and the functions
convert numbers and promote types.

>>> from tscript import tir
>>> n = tir.Var("n", "int32")
>>> isinstance(n + 1, tir.Add)
True
"""

# ruff: noqa: F403, F405

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from tscript.ir.buffer import Buffer, decl_buffer
from tscript.ir.construct import add, const, convert, div, mul, neg, sub
from tscript.ir.dtype import DataType
from tscript.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryExpr,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    CmpExpr,
    CommReducer,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Let,
    LogicExpr,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Op,
    Or,
    PrimExpr,
    ProducerLoad,
    Ramp,
    Range,
    Reduce,
    Select,
    Shuffle,
    SizeVar,
    StringImm,
    Sub,
    Var,
)
from tscript.ir.function import PrimFunc
from tscript.ir.index_map import IndexMap
from tscript.ir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRealize,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    Prefetch,
    SeqStmt,
    Stmt,
    While,
)
from tscript.ir.tensor_intrin import TensorIntrin
from tscript.parser.dialect.nodes import CallEffectKind, iter_var
from tscript.tir import op, stmt_functor
from tscript.tir.op import *

if TYPE_CHECKING:
    from tscript.driver import build
    from tscript.schedule import Schedule, ScheduleError
    from tscript.tir import analysis, schedule


def __getattr__(name: str) -> Any:
    # Building and scheduling take packages that programs which only write or print kernels do without.
    top = sys.modules["tscript"]
    if name == "build":
        value = top.build
    elif name in ("Schedule", "ScheduleError"):
        value = getattr(top.schedule, name)
    elif name in ("analysis", "schedule"):
        value = importlib.import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module 'tscript.tir' has no attribute {name!r}")
    globals()[name] = value
    return value


__all__ = [
    "Add", "Allocate", "AllocateConst", "And", "AssertStmt", "AttrStmt", "BinaryExpr", "Block", "BlockRealize",
    "Broadcast", "Buffer", "BufferLoad", "BufferRealize", "BufferRegion", "BufferStore", "Call", "CallEffectKind",
    "Cast", "CmpExpr", "CommReducer", "DataType", "DeclBuffer", "Div", "EQ", "Evaluate", "FloatImm", "FloorDiv",
    "FloorMod", "For", "ForKind", "GE", "GT", "IfThenElse", "IndexMap", "IntImm", "IterVar", "LE", "LT", "Let",
    "LetStmt", "LogicExpr", "MatchBufferRegion", "Max", "Min", "Mod", "Mul", "NE", "Not", "Op", "Or", "Prefetch",
    "PrimExpr", "PrimFunc", "ProducerLoad", "Ramp", "Range", "Reduce", "Schedule", "ScheduleError", "Select",
    "SeqStmt", "Shuffle", "SizeVar", "Stmt", "StringImm", "Sub", "TVMBackendAllocWorkspace",
    "TVMBackendFreeWorkspace", "TensorIntrin", "Var", "While", "abs", "acos", "acosh", "add", "address_of", "all",
    "analysis", "any", "anylist_getitem", "anylist_resetitem", "anylist_setitem_call_cpacked",
    "anylist_setitem_call_packed", "asin", "asinh", "assume", "atan", "atan2", "atanh", "bitwise_and",
    "bitwise_not", "bitwise_or", "bitwise_xor", "broadcast", "build", "call_cpacked", "call_cpacked_lowered",
    "call_extern", "call_intrin", "call_kernel", "call_llvm_intrin", "call_llvm_pure_intrin", "call_packed",
    "call_packed_lowered", "call_pure_extern", "cast", "ceil", "ceildiv", "clz", "comm_reducer", "const", "convert",
    "copysign", "cos", "cosh", "create_barriers", "decl_buffer", "div", "dma_copy", "dma_end_group",
    "dma_start_group", "dma_wait", "dp4a", "end_profile_intrinsic", "erf", "exp", "exp10", "exp2", "fabs", "floor",
    "floordiv", "floormod", "fmod", "get_active_lane_mask", "hypot", "if_then_else", "ignore_loop_partition",
    "indexdiv", "indexmod", "infinity", "isfinite", "isinf", "isnan", "isnullptr", "iter_var", "large_uint_imm",
    "ldexp", "likely", "log", "log10", "log1p", "log2", "lookup_param", "make_filled_simdgroup_matrix", "max",
    "max_value", "min", "min_value", "mma_fill", "mma_load", "mma_store", "mul", "nearbyint", "neg", "nextafter",
    "op", "popcount", "pow", "power", "ptx_arrive_barrier", "ptx_arrive_barrier_expect_tx", "ptx_commit_group",
    "ptx_cp_async", "ptx_cp_async_barrier", "ptx_cp_async_bulk", "ptx_init_barrier_thread_count", "ptx_ldmatrix",
    "ptx_mma", "ptx_mma_sp", "ptx_wait_barrier", "ptx_wait_group", "q_multiply_shift", "q_multiply_shift_per_axis",
    "ramp", "reinterpret", "ret", "round", "rsqrt", "schedule", "shift_left", "shift_right", "sigmoid",
    "simdgroup_load", "simdgroup_multiply_accumulate", "simdgroup_store", "sin", "sinh", "sqrt",
    "start_profile_intrinsic", "stmt_functor", "sub", "tan", "tanh", "trunc", "truncdiv", "truncmod",
    "tvm_access_ptr", "tvm_bmma_sync", "tvm_call_trace_packed_lowered", "tvm_check_return", "tvm_context_id",
    "tvm_fill_fragment", "tvm_global_barrier_kinit", "tvm_load_matrix_sync", "tvm_mma_sync", "tvm_stack_alloca",
    "tvm_stack_make_array", "tvm_stack_make_shape", "tvm_static_handle", "tvm_storage_sync",
    "tvm_store_matrix_sync", "tvm_struct_get", "tvm_struct_set", "tvm_thread_allreduce", "tvm_thread_invariant",
    "tvm_throw_last_error", "tvm_tuple", "tvm_warp_activemask", "tvm_warp_shuffle", "tvm_warp_shuffle_down",
    "tvm_warp_shuffle_up", "type_annotation", "undef", "vectorcombine", "vectorhigh", "vectorlow", "vscale",
]  # fmt: skip
