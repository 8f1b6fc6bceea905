"""Every name of the dialect has a working call, whose printed form reads back to the same expression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tscript
from tscript import tir
from tscript.ir.expr import Op, PointerType, PrimExpr, PrimType, Var
from tscript.ir.functor import post_order_visit
from tscript.ir.ops import script_name
from tscript.script import from_source
from tscript.script import tir as T

X, Y = Var("x", "float32"), Var("y", "float32")
I, J = Var("i", "int32"), Var("j", "int32")
N = Var("n", "int64")
U = Var("u", "uint8")
B, C = Var("b", "bool"), Var("c", "bool")
P = Var("p", PointerType(PrimType("float32"), "global"))
Q = Var("q", "handle")
V4, W4 = Var("v4", "int8x4"), Var("w4", "int8x4")
F8 = Var("f8", "float32x8")
F4 = Var("f4", "float32x4")
A = tir.decl_buffer((16, 8), "float32", name="A")
K = Var("k", "int32")

FRAGMENT = (Q, 0, Q, 0, Q, 0, Q, 0)
MMA = ("m16n8k8", "row", "col", "fp16", "fp16", "fp32", Q, 0, Q, 0, Q, 0)

CALLS: dict[str, Callable[[], PrimExpr]] = {
    **{
        name: (lambda name=name: getattr(T, name)(X))
        for name in (
            "exp exp2 exp10 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh "
            "atanh erf sigmoid floor ceil trunc round nearbyint abs fabs isnan isinf isfinite"
        ).split()
    },
    **{
        name: (lambda name=name: getattr(T, name)(X, Y))
        for name in "atan2 fmod hypot copysign nextafter pow power min max".split()
    },
    **{
        name: (lambda name=name: getattr(T, name)(I, J))
        for name in (
            "floordiv floormod truncdiv truncmod ceildiv bitwise_and bitwise_or bitwise_xor shift_left shift_right "
            "Add Sub Mul Div Mod FloorDiv FloorMod Min Max EQ NE LT LE GT GE"
        ).split()
    },
    **{name: (lambda name=name: getattr(T, name)("float16")) for name in ("max_value", "min_value", "infinity")},
    "ldexp": lambda: T.ldexp(X, I),
    "popcount": lambda: T.popcount(U),
    "clz": lambda: T.clz(U),
    "bitwise_not": lambda: T.bitwise_not(I),
    "q_multiply_shift": lambda: T.q_multiply_shift(I, J, 31, 1),
    "q_multiply_shift_per_axis": lambda: T.q_multiply_shift_per_axis(I, J, 1, 2, 31, T.bool(True), T.bool(False)),
    "cast": lambda: T.cast(X, "int8"),
    "Cast": lambda: T.Cast("int64", T.int32(3)),
    "reinterpret": lambda: T.reinterpret("int32", X),
    "type_annotation": lambda: T.tvm_access_ptr(T.type_annotation("float32"), P, 0, 4, 1),
    "if_then_else": lambda: T.if_then_else(B, X, 0.0),
    "Select": lambda: T.Select(True, X, Y),
    "likely": lambda: T.likely(B),
    "assume": lambda: T.assume(I > 0),
    "undef": lambda: T.undef(),
    "ret": lambda: T.ret(I),
    "ignore_loop_partition": lambda: T.ignore_loop_partition(B),
    "all": lambda: T.all(B, C),
    "any": lambda: T.any(B, C),
    "And": lambda: T.And(B, True),
    "Or": lambda: T.Or(B, C),
    "Not": lambda: T.Not(True),
    "IntImm": lambda: T.IntImm("uint64", 2**63 + 1),
    "FloatImm": lambda: T.FloatImm("bfloat16", -1.5),
    "StringImm": lambda: T.call_extern("void", "f", T.StringImm("text")),
    "BufferLoad": lambda: T.BufferLoad(A, [I, 0]),
    "Call": lambda: T.Call("float32", "tir.exp", [X]),
    "ramp": lambda: T.ramp(I, J, 4),
    "Ramp": lambda: T.Ramp(I, 2, 8),
    "broadcast": lambda: T.broadcast(X, 4),
    "Broadcast": lambda: T.Broadcast(T.int8(1), 16),
    "Shuffle": lambda: T.Shuffle([V4, W4], [0, 4, 1, 5]),
    "vscale": lambda: T.vscale(),
    "vectorlow": lambda: T.vectorlow("float32x4", F8),
    "vectorhigh": lambda: T.vectorhigh("float32x4", F8),
    "vectorcombine": lambda: T.vectorcombine("float32x8", F4, F4),
    "get_active_lane_mask": lambda: T.get_active_lane_mask("boolx4", I, 30),
    "dp4a": lambda: T.dp4a("int32", V4, W4, I),
    "call_extern": lambda: T.call_extern("int32", "f", X, "text", 1),
    "call_pure_extern": lambda: T.call_pure_extern("float32", "f", X),
    "call_llvm_intrin": lambda: T.call_llvm_intrin("void", "llvm.prefetch", Q, 0, 3, 1),
    "call_llvm_pure_intrin": lambda: T.call_llvm_pure_intrin("float32", "llvm.fma.f32", X, Y, X),
    "call_intrin": lambda: T.call_intrin("float32", "tir.exp", X),
    "call_packed": lambda: T.call_packed("f.g", I, A[0, 0]),
    "call_cpacked": lambda: T.call_cpacked("f.g", I),
    "call_packed_lowered": lambda: T.call_packed_lowered("f.g", Q, Q, 0, 1),
    "call_cpacked_lowered": lambda: T.call_cpacked_lowered("f.g", Q, Q, 0, 1),
    "call_kernel": lambda: T.call_kernel("k", 1, Q),
    "address_of": lambda: T.address_of(A[I, J]),
    "isnullptr": lambda: T.isnullptr(Q),
    "lookup_param": lambda: T.lookup_param("weight"),
    "tvm_access_ptr": lambda: A.access_ptr("rw", offset=I),
    "tvm_stack_alloca": lambda: T.tvm_stack_alloca("shape", 4),
    "tvm_stack_make_shape": lambda: T.tvm_stack_make_shape(I, 4),
    "tvm_stack_make_array": lambda: T.tvm_stack_make_array(Q, Q, 0, 2, T.float16(0), 0),
    "tvm_struct_get": lambda: T.tvm_struct_get(Q, 0, 1, "int64"),
    "tvm_struct_set": lambda: T.tvm_struct_set(Q, 0, 1, I),
    "tvm_tuple": lambda: T.tvm_tuple(0, I),
    "tvm_check_return": lambda: T.tvm_check_return(0, -1, T.call_extern("int32", "f")),
    "tvm_throw_last_error": lambda: T.tvm_throw_last_error(),
    "tvm_static_handle": lambda: T.tvm_static_handle(),
    "tvm_context_id": lambda: T.tvm_context_id(),
    "tvm_call_trace_packed_lowered": lambda: T.tvm_call_trace_packed_lowered("f", Q, Q, 0, 1),
    "large_uint_imm": lambda: T.large_uint_imm(T.uint32(1), T.uint32(2)),
    "TVMBackendAllocWorkspace": lambda: T.TVMBackendAllocWorkspace(1, 0, T.uint64(64), 2, 32),
    "TVMBackendFreeWorkspace": lambda: T.TVMBackendFreeWorkspace(1, 0, Q),
    "start_profile_intrinsic": lambda: T.start_profile_intrinsic(3),
    "end_profile_intrinsic": lambda: T.end_profile_intrinsic(3),
    "anylist_getitem": lambda: T.anylist_getitem(Q, 1),
    "anylist_resetitem": lambda: T.anylist_resetitem(Q, 1),
    "anylist_setitem_call_packed": lambda: T.anylist_setitem_call_packed(Q, 1, "f", I),
    "anylist_setitem_call_cpacked": lambda: T.anylist_setitem_call_cpacked(Q, 1, "f", I),
    "dma_copy": lambda: T.dma_copy(0, Q, Q, 64, 0),
    "dma_wait": lambda: T.dma_wait(0, 1),
    "dma_start_group": lambda: T.dma_start_group(0),
    "dma_end_group": lambda: T.dma_end_group(0),
    "tvm_storage_sync": lambda: T.tvm_storage_sync("shared"),
    "tvm_global_barrier_kinit": lambda: T.tvm_global_barrier_kinit(),
    "tvm_thread_invariant": lambda: T.tvm_thread_invariant(B),
    "tvm_thread_allreduce": lambda: T.tvm_thread_allreduce(T.uint32(1), X, T.bool(True), A[0, 0], I),
    "tvm_warp_shuffle": lambda: T.tvm_warp_shuffle(T.tvm_warp_activemask(), X, 0, 32, 32),
    "tvm_warp_shuffle_up": lambda: T.tvm_warp_shuffle_up(T.uint32(1), X, 1, 32, 32),
    "tvm_warp_shuffle_down": lambda: T.tvm_warp_shuffle_down(T.uint32(1), X, 1, 32, 32),
    "tvm_warp_activemask": lambda: T.tvm_warp_activemask(),
    "tvm_load_matrix_sync": lambda: T.tvm_load_matrix_sync(Q, 16, 16, 16, 0, Q, 16, "row_major"),
    "tvm_store_matrix_sync": lambda: T.tvm_store_matrix_sync(Q, 16, 16, 16, 0, Q, 16, "row_major"),
    "tvm_mma_sync": lambda: T.tvm_mma_sync(*FRAGMENT),
    "tvm_bmma_sync": lambda: T.tvm_bmma_sync(*FRAGMENT),
    "tvm_fill_fragment": lambda: T.tvm_fill_fragment(Q, 16, 16, 16, 0, T.float32(0)),
    "ptx_mma": lambda: T.ptx_mma("float32", *MMA, False),
    "ptx_mma_sp": lambda: T.ptx_mma_sp("float32", *MMA, Q, 0, 0, False),
    "ptx_ldmatrix": lambda: T.ptx_ldmatrix("float16", False, 4, ".b16", Q, 0, Q, 0),
    "ptx_cp_async": lambda: T.ptx_cp_async("float16", Q, 0, Q, 0, 16),
    "ptx_cp_async_bulk": lambda: T.ptx_cp_async_bulk("float16", Q, 0, Q, 0, 16, 0),
    "ptx_commit_group": lambda: T.ptx_commit_group(),
    "ptx_wait_group": lambda: T.ptx_wait_group(1),
    "ptx_cp_async_barrier": lambda: T.ptx_cp_async_barrier(0),
    "ptx_init_barrier_thread_count": lambda: T.ptx_init_barrier_thread_count(0, 32),
    "ptx_arrive_barrier": lambda: T.ptx_arrive_barrier(0),
    "ptx_arrive_barrier_expect_tx": lambda: T.ptx_arrive_barrier_expect_tx(0, 128),
    "ptx_wait_barrier": lambda: T.ptx_wait_barrier(0),
    "create_barriers": lambda: T.create_barriers(4),
    "mma_load": lambda: T.mma_load(Q, 0),
    "mma_store": lambda: T.mma_store("float32", 16, 16, Q, Q, 0, 16),
    "mma_fill": lambda: T.mma_fill("float32", 8, Q, 0),
    "make_filled_simdgroup_matrix": lambda: T.make_filled_simdgroup_matrix(Q, 0, X),
    "simdgroup_load": lambda: T.simdgroup_load(Q, 0, Q, 8),
    "simdgroup_store": lambda: T.simdgroup_store(Q, 0, Q, 8, 8, 8, True),
    "simdgroup_multiply_accumulate": lambda: T.simdgroup_multiply_accumulate(*FRAGMENT),
    "Let": lambda: T.Let(K + 1, where={K: I * 2}),
}

# Not expressions of a program by themselves; each has a test of its own.
OTHERS = {
    "Var", "SizeVar", "IterVar", "Range", "CallEffectKind", "CommReducer", "Reduce", "ProducerLoad", "comm_reducer",
    "reduce", "iter_var", "index_map", "target", "ExprLike",
}  # fmt: skip


def free_variables(e: PrimExpr) -> list[Var]:
    found: dict[Var, None] = {}

    def look(node: Any) -> None:
        if isinstance(node, Var) and node is not A.data and node is not K:
            found[node] = None

    post_order_visit(e, look)
    return list(found)


@pytest.mark.parametrize("name", CALLS)
def test_printed_call_reads_back_to_itself(name: str) -> None:
    e = CALLS[name]()
    func = tir.PrimFunc([*free_variables(e), A], tir.Evaluate(e), attrs={"global_symbol": "main"})
    text = func.script()
    again = from_source(text)
    tscript.ir.assert_structural_equal(again, func)
    assert again.script() == text


def test_every_operator_has_a_name_in_the_dialect() -> None:
    # `T.prefetch` is the statement; the operator of that name is made when it is lowered.
    missing = [op.name for op in Op.registry.values() if not callable(getattr(T, script_name(op), None))]
    assert missing == []
    untried = {script_name(op) for op in Op.registry.values()} - set(CALLS) - {"prefetch"}
    assert untried == set()


SECTION_NAMES = (
    "exp exp2 exp10 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
    "atan2 erf sigmoid floor ceil trunc round nearbyint abs fabs fmod hypot copysign ldexp nextafter pow popcount "
    "clz isnan isinf isfinite q_multiply_shift floordiv floormod truncdiv truncmod ceildiv shift_left shift_right "
    "bitwise_and bitwise_or bitwise_xor bitwise_not min max cast Cast reinterpret if_then_else Select likely "
    "assume undef ret ramp Ramp broadcast Broadcast Shuffle vscale vectorlow vectorhigh vectorcombine "
    "get_active_lane_mask max_value min_value infinity Var SizeVar Reduce FloatImm IntImm StringImm Add Sub Mul "
    "Div Mod FloorDiv FloorMod Min Max EQ NE LT LE GT GE And Or Not BufferLoad ProducerLoad Call CallEffectKind "
    "Let IterVar CommReducer Range call_extern call_pure_extern call_intrin call_packed call_cpacked "
    "call_llvm_intrin call_llvm_pure_intrin call_packed_lowered call_cpacked_lowered tvm_access_ptr "
    "tvm_stack_alloca tvm_struct_get tvm_struct_set tvm_tuple tvm_thread_allreduce tvm_storage_sync "
    "tvm_warp_shuffle ptx_mma ptx_ldmatrix ptx_cp_async mma_store mma_fill address_of isnullptr lookup_param "
    "start_profile_intrinsic end_profile_intrinsic call_kernel ignore_loop_partition anylist_getitem "
    "anylist_setitem_call_packed TVMBackendAllocWorkspace TVMBackendFreeWorkspace create_barriers simdgroup_load "
    "dp4a index_map comm_reducer reduce target iter_var"
).split()


@pytest.mark.parametrize("name", SECTION_NAMES)
def test_name_of_the_language_is_there_and_tried(name: str) -> None:
    assert callable(getattr(T, name))
    assert name in CALLS or name in OTHERS
