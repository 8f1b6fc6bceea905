"""The operator table: every intrinsic, with what a call of it may do. Data, no behaviour."""

from __future__ import annotations

from typing import Final

from tscript.ir.expr import Op

_VARIADIC: Final = -1

# name: (number of inputs, effect); the names lack their prefix "tir.".
_MATH_UNARY: Final = (
    "exp exp2 exp10 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh erf sigmoid floor ceil trunc round nearbyint fabs isnan isinf isfinite popcount clz"
).split()
_MATH_BINARY: Final = "atan2 fmod hypot copysign ldexp nextafter pow".split()
_PURE: Final = {
    "q_multiply_shift": 4,
    "q_multiply_shift_per_axis": 7,
    "bitwise_and": 2,
    "bitwise_or": 2,
    "bitwise_xor": 2,
    "bitwise_not": 1,
    "shift_left": 2,
    "shift_right": 2,
    "if_then_else": 3,
    "likely": 1,
    "reinterpret": 1,
    "large_uint_imm": 2,
    "vectorlow": 1,
    "vectorhigh": 1,
    "vectorcombine": 2,
    "vscale": 0,
    "get_active_lane_mask": 2,
    "dp4a": 3,
    "isnullptr": 1,
    "address_of": 1,
    "type_annotation": 0,
    "tvm_access_ptr": 5,
    "tvm_tuple": _VARIADIC,
    "tvm_struct_get": 3,
    "lookup_param": 1,
    "call_pure_extern": _VARIADIC,
    "call_llvm_pure_intrin": _VARIADIC,
    "tvm_static_handle": 0,
    "tvm_thread_invariant": 1,
    "tvm_context_id": 0,
    "anylist_getitem": 2,
    "undef": 0,
}
_READ: Final = {"tvm_load_matrix_sync": 8, "mma_load": _VARIADIC, "simdgroup_load": _VARIADIC}
_UPDATE: Final = {
    "prefetch": 4,
    "assume": 1,
    "call_extern": _VARIADIC,
    "call_llvm_intrin": _VARIADIC,
    "tvm_call_packed": _VARIADIC,
    "tvm_call_cpacked": _VARIADIC,
    "tvm_call_packed_lowered": _VARIADIC,
    "tvm_call_cpacked_lowered": _VARIADIC,
    "tvm_call_trace_packed_lowered": _VARIADIC,
    "tvm_struct_set": 4,
    "tvm_stack_alloca": 2,
    "tvm_stack_make_shape": _VARIADIC,
    "tvm_stack_make_array": 6,
    "tvm_throw_last_error": 0,
    "tvm_check_return": 3,
    "tvm_storage_sync": _VARIADIC,
    "tvm_thread_allreduce": _VARIADIC,
    "tvm_global_barrier_kinit": 0,
    "tvm_warp_shuffle": 5,
    "tvm_warp_shuffle_up": 5,
    "tvm_warp_shuffle_down": 5,
    "tvm_warp_activemask": 0,
    "tvm_mma_sync": 8,
    "tvm_bmma_sync": 8,
    "tvm_fill_fragment": 6,
    "tvm_store_matrix_sync": 8,
    "ptx_mma": _VARIADIC,
    "ptx_mma_sp": _VARIADIC,
    "ptx_ldmatrix": _VARIADIC,
    "ptx_cp_async": _VARIADIC,
    "ptx_cp_async_bulk": _VARIADIC,
    "ptx_commit_group": 0,
    "ptx_wait_group": 1,
    "ptx_cp_async_barrier": 1,
    "ptx_init_barrier_thread_count": 2,
    "ptx_arrive_barrier": 1,
    "ptx_arrive_barrier_expect_tx": 2,
    "ptx_wait_barrier": 1,
    "create_barriers": 1,
    "mma_store": 6,
    "mma_fill": 3,
    "start_profile_intrinsic": 1,
    "end_profile_intrinsic": 1,
    "anylist_resetitem": 2,
    "anylist_setitem_call_packed": _VARIADIC,
    "anylist_setitem_call_cpacked": _VARIADIC,
    "TVMBackendAllocWorkspace": 5,
    "TVMBackendFreeWorkspace": 3,
    "call_kernel": _VARIADIC,
    "make_filled_simdgroup_matrix": _VARIADIC,
    "simdgroup_store": _VARIADIC,
    "simdgroup_multiply_accumulate": _VARIADIC,
    "dma_copy": _VARIADIC,
    "dma_wait": 2,
    "dma_start_group": 1,
    "dma_end_group": 1,
}
_CONTROL: Final = {"ret": 1, "ignore_loop_partition": 1}


def _register(names: dict[str, int], effect: str) -> None:
    for name, inputs in names.items():
        Op.registry["tir." + name] = Op("tir." + name, inputs, effect)


_register(dict.fromkeys(_MATH_UNARY, 1) | dict.fromkeys(_MATH_BINARY, 2) | _PURE, "pure")
_register(_READ, "read")
_register(_UPDATE, "update")
_register(_CONTROL, "control")

FLOAT_ONLY: Final = frozenset(
    "tir." + n
    for n in (*_MATH_UNARY, *_MATH_BINARY)
    if n not in {"popcount", "clz", "isnan", "isinf", "isfinite", "floor", "ceil", "trunc", "round", "nearbyint"}
)
"""Operators that take floats and nothing else."""

DTYPE_FIRST: Final = frozenset(
    "tir." + n
    for n in (
        "reinterpret call_extern call_pure_extern call_llvm_intrin call_llvm_pure_intrin ptx_mma ptx_mma_sp "
        "ptx_ldmatrix ptx_cp_async ptx_cp_async_bulk mma_store mma_fill vectorlow vectorhigh vectorcombine dp4a "
        "get_active_lane_mask type_annotation"
    ).split()
)
"""Operators whose script form has the dtype as first argument."""

DTYPE_LAST: Final = frozenset({"tir.tvm_struct_get"})
"""Operators whose script form has the dtype as last argument."""

SCRIPT_NAMES: Final = {
    "tir.tvm_call_packed": "call_packed",
    "tir.tvm_call_cpacked": "call_cpacked",
    "tir.tvm_call_packed_lowered": "call_packed_lowered",
    "tir.tvm_call_cpacked_lowered": "call_cpacked_lowered",
}
"""Operators whose script name is not simply their name without the prefix."""


def script_name(op: Op) -> str:
    """The name of `op` in `T`."""
    return SCRIPT_NAMES.get(op.name, op.name.removeprefix("tir."))
