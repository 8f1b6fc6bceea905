"""What threads of a GPU do together: barriers, warps, matrix instructions, asynchronous copies."""

from __future__ import annotations

from tscript.ir.construct import convert
from tscript.ir.expr import PrimExpr
from tscript.parser.dialect.values import Value, call, dtype_first, op_function


@op_function
def tvm_storage_sync(storage_scope: Value) -> PrimExpr:
    """A barrier of the threads that share `storage_scope`, such as "shared"."""
    return call("int32", "tvm_storage_sync", storage_scope)


@op_function
def tvm_global_barrier_kinit() -> PrimExpr:
    """Prepare a barrier of the whole grid."""
    return call("int32", "tvm_global_barrier_kinit")


@op_function
def tvm_thread_invariant(cond: Value) -> PrimExpr:
    """`cond`, which is the same in all threads."""
    e = convert(cond)
    return call(e.dtype, "tvm_thread_invariant", e)


@op_function
def tvm_thread_allreduce(*freduce_args: Value) -> PrimExpr:
    """Combine a value over threads; inside the attribute that names the combination."""
    return call("handle", "tvm_thread_allreduce", *freduce_args)


@op_function
def tvm_warp_shuffle(mask: Value, value: Value, warp_id: Value, width: Value, warp_size: Value) -> PrimExpr:
    """The `value` of lane `warp_id`."""
    e = convert(value)
    return call(e.dtype, "tvm_warp_shuffle", mask, e, warp_id, width, warp_size)


@op_function
def tvm_warp_shuffle_up(mask: Value, value: Value, offset: Value, width: Value, warp_size: Value) -> PrimExpr:
    """The `value` of the lane `offset` below."""
    e = convert(value)
    return call(e.dtype, "tvm_warp_shuffle_up", mask, e, offset, width, warp_size)


@op_function
def tvm_warp_shuffle_down(mask: Value, value: Value, offset: Value, width: Value, warp_size: Value) -> PrimExpr:
    """The `value` of the lane `offset` above."""
    e = convert(value)
    return call(e.dtype, "tvm_warp_shuffle_down", mask, e, offset, width, warp_size)


@op_function
def tvm_warp_activemask() -> PrimExpr:
    """A bit for each active lane of the warp."""
    return call("uint32", "tvm_warp_activemask")


@op_function
def tvm_load_matrix_sync(
    fragment: Value, m: Value, n: Value, k: Value, index: Value, buffer_ptr: Value, stride: Value, layout: Value
) -> PrimExpr:
    """Load a tile of a matrix into a fragment."""
    return call("handle", "tvm_load_matrix_sync", fragment, m, n, k, index, buffer_ptr, stride, layout)


@op_function
def tvm_store_matrix_sync(
    fragment: Value, m: Value, n: Value, k: Value, index: Value, buffer_ptr: Value, stride: Value, layout: Value
) -> PrimExpr:
    """Store a fragment to a tile of a matrix."""
    return call("handle", "tvm_store_matrix_sync", fragment, m, n, k, index, buffer_ptr, stride, layout)


@op_function
def tvm_mma_sync(
    fragment_d: Value,
    index_d: Value,
    fragment_a: Value,
    index_a: Value,
    fragment_b: Value,
    index_b: Value,
    fragment_c: Value,
    index_c: Value,
) -> PrimExpr:
    """d = a * b + c on fragments."""
    return call(
        "handle", "tvm_mma_sync", fragment_d, index_d, fragment_a, index_a, fragment_b, index_b, fragment_c, index_c
    )


@op_function
def tvm_bmma_sync(
    fragment_d: Value,
    index_d: Value,
    fragment_a: Value,
    index_a: Value,
    fragment_b: Value,
    index_b: Value,
    fragment_c: Value,
    index_c: Value,
) -> PrimExpr:
    """d = a * b + c on fragments of single bits."""
    return call(
        "handle", "tvm_bmma_sync", fragment_d, index_d, fragment_a, index_a, fragment_b, index_b, fragment_c, index_c
    )


@op_function
def tvm_fill_fragment(fragment: Value, m: Value, n: Value, k: Value, index: Value, value: Value) -> PrimExpr:
    """Fill a fragment with one value."""
    return call("handle", "tvm_fill_fragment", fragment, m, n, k, index, value)


@op_function
def ptx_commit_group() -> PrimExpr:
    """Close the group of asynchronous copies started so far."""
    return call("void", "ptx_commit_group")


@op_function
def ptx_wait_group(num: Value) -> PrimExpr:
    """Wait until at most `num` groups of copies are under way."""
    return call("void", "ptx_wait_group", num)


@op_function
def ptx_cp_async_barrier(barrier_id: Value) -> PrimExpr:
    """Let a barrier wait for the copies started so far."""
    return call("void", "ptx_cp_async_barrier", barrier_id)


@op_function
def ptx_init_barrier_thread_count(barrier_id: Value, thread_count: Value) -> PrimExpr:
    """Set how many threads arrive at a barrier."""
    return call("void", "ptx_init_barrier_thread_count", barrier_id, thread_count)


@op_function
def ptx_arrive_barrier(barrier_id: Value) -> PrimExpr:
    """Arrive at a barrier."""
    return call("void", "ptx_arrive_barrier", barrier_id)


@op_function
def ptx_arrive_barrier_expect_tx(barrier_id: Value, byte_count: Value) -> PrimExpr:
    """Arrive at a barrier that also waits for `byte_count` bytes."""
    return call("void", "ptx_arrive_barrier_expect_tx", barrier_id, byte_count)


@op_function
def ptx_wait_barrier(barrier_id: Value) -> PrimExpr:
    """Wait at a barrier."""
    return call("void", "ptx_wait_barrier", barrier_id)


@op_function
def create_barriers(barrier_count: Value) -> PrimExpr:
    """Make barriers in shared memory."""
    return call("void", "create_barriers", barrier_count)


@op_function
def make_filled_simdgroup_matrix(d: Value, index: Value, value: Value, col: Value = 8, row: Value = 8) -> PrimExpr:
    """Fill a matrix of a SIMD group with one value."""
    return call("handle", "make_filled_simdgroup_matrix", d, index, value, col, row)


@op_function
def simdgroup_load(
    d: Value, index: Value, ptr: Value, stride: Value, col: Value = 8, row: Value = 8, transpose_matrix: bool = False
) -> PrimExpr:
    """Load a matrix of a SIMD group."""
    return call("handle", "simdgroup_load", d, index, ptr, stride, col, row, transpose_matrix)


@op_function
def simdgroup_store(
    d: Value, index: Value, ptr: Value, stride: Value, col: Value = 8, row: Value = 8, transpose_matrix: bool = False
) -> PrimExpr:
    """Store a matrix of a SIMD group."""
    return call("handle", "simdgroup_store", d, index, ptr, stride, col, row, transpose_matrix)


@op_function
def simdgroup_multiply_accumulate(
    d: Value, index_d: Value, a: Value, index_a: Value, b: Value, index_b: Value, c: Value, index_c: Value
) -> PrimExpr:
    """d = a * b + c on matrices of a SIMD group."""
    return call("handle", "simdgroup_multiply_accumulate", d, index_d, a, index_a, b, index_b, c, index_c)


@op_function
def mma_load(*args: Value) -> PrimExpr:
    """Load a fragment of a matrix instruction."""
    return call("handle", "mma_load", *args)


@dtype_first
def ptx_mma(
    dtype: str,
    shape: Value,
    A_layout: Value,
    B_layout: Value,
    A_dtype: Value,
    B_dtype: Value,
    C_dtype: Value,
    multiplicand_a: Value,
    a_index: Value,
    multiplicand_b: Value,
    b_index: Value,
    accumulator: Value,
    c_index: Value,
    saturate: Value,
    operator: Value = None,
) -> PrimExpr:
    """The matrix instruction `mma` of NVIDIA GPUs."""
    values = (shape, A_layout, B_layout, A_dtype, B_dtype, C_dtype, multiplicand_a, a_index, multiplicand_b, b_index)
    rest = (accumulator, c_index, saturate) if operator is None else (accumulator, c_index, saturate, operator)
    return call(dtype, "ptx_mma", *values, *rest)


@dtype_first
def ptx_mma_sp(
    dtype: str,
    shape: Value,
    A_layout: Value,
    B_layout: Value,
    A_dtype: Value,
    B_dtype: Value,
    C_dtype: Value,
    multiplicand_a: Value,
    a_index: Value,
    multiplicand_b: Value,
    b_index: Value,
    accumulator: Value,
    c_index: Value,
    metadata: Value,
    meta_index: Value,
    sparse_selector: Value,
    saturate: Value,
) -> PrimExpr:
    """The sparse matrix instruction `mma.sp` of NVIDIA GPUs."""
    return call(
        dtype,
        "ptx_mma_sp",
        shape,
        A_layout,
        B_layout,
        A_dtype,
        B_dtype,
        C_dtype,
        multiplicand_a,
        a_index,
        multiplicand_b,
        b_index,
        accumulator,
        c_index,
        metadata,
        meta_index,
        sparse_selector,
        saturate,
    )


@dtype_first
def ptx_ldmatrix(
    dtype: str,
    trans: Value,
    num: Value,
    type: Value,
    local_ptr: Value,
    local_offset: Value,
    smem_ptr: Value,
    smem_offset: Value,
) -> PrimExpr:
    """Load `num` 8x8 tiles from shared memory, spread over a warp."""
    return call(dtype, "ptx_ldmatrix", trans, num, type, local_ptr, local_offset, smem_ptr, smem_offset)


@dtype_first
def ptx_cp_async(
    dtype: str, shared_ptr: Value, shared_offset: Value, global_ptr: Value, global_offset: Value, bytes: Value
) -> PrimExpr:
    """Start an asynchronous copy from global to shared memory."""
    return call(dtype, "ptx_cp_async", shared_ptr, shared_offset, global_ptr, global_offset, bytes)


@dtype_first
def ptx_cp_async_bulk(
    dtype: str,
    shared_ptr: Value,
    shared_offset: Value,
    global_ptr: Value,
    global_offset: Value,
    bytes: Value,
    barrier_id: Value,
) -> PrimExpr:
    """Start a bulk copy that arrives at a barrier."""
    return call(dtype, "ptx_cp_async_bulk", shared_ptr, shared_offset, global_ptr, global_offset, bytes, barrier_id)


@dtype_first
def mma_store(
    dtype: str, m: Value, n: Value, dst_ptr: Value, src_ptr: Value, src_offset: Value, dst_stride: Value
) -> PrimExpr:
    """Store the m-by-n result tile of a matrix instruction."""
    return call(dtype, "mma_store", m, n, dst_ptr, src_ptr, src_offset, dst_stride)


@dtype_first
def mma_fill(dtype: str, local_size: Value, local_ptr: Value, offset: Value) -> PrimExpr:
    """Set the accumulators of a matrix instruction to zero."""
    return call(dtype, "mma_fill", local_size, local_ptr, offset)


__all__ = [
    "tvm_storage_sync", "tvm_global_barrier_kinit", "tvm_thread_invariant", "tvm_thread_allreduce",
    "tvm_warp_shuffle", "tvm_warp_shuffle_up", "tvm_warp_shuffle_down", "tvm_warp_activemask", "tvm_load_matrix_sync",
    "tvm_store_matrix_sync", "tvm_mma_sync", "tvm_bmma_sync", "tvm_fill_fragment", "ptx_commit_group",
    "ptx_wait_group", "ptx_cp_async_barrier", "ptx_init_barrier_thread_count", "ptx_arrive_barrier",
    "ptx_arrive_barrier_expect_tx", "ptx_wait_barrier", "create_barriers", "make_filled_simdgroup_matrix",
    "simdgroup_load", "simdgroup_store", "simdgroup_multiply_accumulate", "mma_load", "ptx_mma", "ptx_mma_sp",
    "ptx_ldmatrix", "ptx_cp_async", "ptx_cp_async_bulk", "mma_store", "mma_fill",
]  # fmt: skip
