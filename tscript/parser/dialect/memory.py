"""Pointers, descriptors of arrays, and services of the run time."""

from __future__ import annotations

from tscript.ir.buffer import Buffer
from tscript.ir.construct import convert
from tscript.ir.expr import BufferLoad, IntImm, PrimExpr
from tscript.parser.dialect.values import Value, call, op_function


@op_function
def address_of(obj: Value) -> PrimExpr:
    """The address of an element, or of the first element of a buffer."""
    if isinstance(obj, Buffer):
        obj = BufferLoad(obj, tuple(IntImm(s.dtype, 0) for s in obj.shape))
    if not isinstance(obj, BufferLoad):
        raise TypeError(f"T.address_of takes an element of a buffer, such as `A[0]`, not {obj}")
    return call("handle", "address_of", obj)


@op_function
def isnullptr(ptr: Value) -> PrimExpr:
    """Whether a pointer is null."""
    pointer = convert(ptr)
    if not pointer.dtype.is_handle:
        raise TypeError(f"T.isnullptr takes a pointer, not {pointer.dtype!s}")
    return call("bool", "isnullptr", pointer)


@op_function
def lookup_param(param_name: Value) -> PrimExpr:
    """The pointer of a named parameter kept beside the module."""
    return call("handle", "lookup_param", param_name)


@op_function
def tvm_access_ptr(ptype: Value, data: Value, offset: Value, extent: Value, rw_mask: Value) -> PrimExpr:
    """A pointer to `extent` elements from `offset` on; mask 1 reads, 2 writes, 3 both."""
    return call("handle", "tvm_access_ptr", ptype, data, offset, extent, rw_mask)


@op_function
def tvm_stack_alloca(dtype_str: Value, num: Value) -> PrimExpr:
    """Memory on the stack for `num` items: "shape", "array", "arg_value", "arg_tcode" or "tensormap"."""
    return call("handle", "tvm_stack_alloca", dtype_str, num)


@op_function
def tvm_stack_make_shape(*args: Value) -> PrimExpr:
    """A shape on the stack."""
    return call("handle", "tvm_stack_make_shape", *args)


@op_function
def tvm_stack_make_array(
    data: Value, shape: Value, strides: Value, ndim: Value, arr_dtype: Value, elem_offset: Value
) -> PrimExpr:
    """An array descriptor on the stack."""
    return call("handle", "tvm_stack_make_array", data, shape, strides, ndim, arr_dtype, elem_offset)


@op_function
def tvm_struct_set(arr: Value, index: Value, field: Value, value: Value) -> PrimExpr:
    """Set a field of element `index` of an array of descriptors."""
    return call("int32", "tvm_struct_set", arr, index, field, value)


@op_function
def tvm_tuple(*value: Value) -> PrimExpr:
    """Several values as one argument."""
    return call("handle", "tvm_tuple", *value)


@op_function
def tvm_check_return(expected: Value, return_unexpected: Value, nested_call: Value) -> PrimExpr:
    """Call, and return `return_unexpected` unless the result is `expected`."""
    return call("int32", "tvm_check_return", expected, return_unexpected, nested_call)


@op_function
def tvm_throw_last_error() -> PrimExpr:
    """Raise the error that the last call left."""
    return call("handle", "tvm_throw_last_error")


@op_function
def tvm_static_handle() -> PrimExpr:
    """A pointer kept between calls."""
    return call("handle", "tvm_static_handle")


@op_function
def tvm_context_id() -> PrimExpr:
    """A number for the place of this call."""
    return call("int32", "tvm_context_id")


@op_function
def tvm_call_trace_packed_lowered(*args: Value) -> PrimExpr:
    """A packed call whose result is traced."""
    return call("int32", "tvm_call_trace_packed_lowered", *args)


@op_function
def large_uint_imm(low: Value, high: Value) -> PrimExpr:
    """An unsigned constant of two 32-bit halves."""
    return call("uint64", "large_uint_imm", low, high)


@op_function
def TVMBackendAllocWorkspace(
    device_type: Value, device_id: Value, nbytes: Value, dtype_code_hint: Value, dtype_bits_hint: Value
) -> PrimExpr:
    """Scratch memory from the run time."""
    return call("handle", "TVMBackendAllocWorkspace", device_type, device_id, nbytes, dtype_code_hint, dtype_bits_hint)


@op_function
def TVMBackendFreeWorkspace(device_type: Value, device_id: Value, ptr: Value) -> PrimExpr:
    """Give scratch memory back."""
    return call("int32", "TVMBackendFreeWorkspace", device_type, device_id, ptr)


@op_function
def start_profile_intrinsic(id: Value) -> PrimExpr:
    """Begin the timed stretch number `id`."""
    return call("handle", "start_profile_intrinsic", id)


@op_function
def end_profile_intrinsic(id: Value) -> PrimExpr:
    """End the timed stretch number `id`."""
    return call("handle", "end_profile_intrinsic", id)


@op_function
def anylist_getitem(list_handle: Value, index: Value) -> PrimExpr:
    """Item `index` of a list of run-time values."""
    return call("handle", "anylist_getitem", list_handle, index)


@op_function
def anylist_resetitem(list_handle: Value, index: Value) -> PrimExpr:
    """Empty item `index` of a list of run-time values."""
    return call("int32", "anylist_resetitem", list_handle, index)


@op_function
def anylist_setitem_call_packed(list_handle: Value, index: Value, func_name: Value, *args: Value) -> PrimExpr:
    """Put the result of a packed call into a list of run-time values."""
    return call("handle", "anylist_setitem_call_packed", list_handle, index, func_name, *args)


@op_function
def anylist_setitem_call_cpacked(list_handle: Value, index: Value, func_name: Value, *args: Value) -> PrimExpr:
    """Put the result of a packed call, by the C convention, into a list of run-time values."""
    return call("handle", "anylist_setitem_call_cpacked", list_handle, index, func_name, *args)


@op_function
def dma_copy(*args: Value) -> PrimExpr:
    """Start an asynchronous copy by a copy engine."""
    return call("int32", "dma_copy", *args)


@op_function
def dma_wait(queue: Value, inflight: Value) -> PrimExpr:
    """Wait until at most `inflight` copies of a queue run."""
    return call("int32", "dma_wait", queue, inflight)


@op_function
def dma_start_group(queue: Value) -> PrimExpr:
    """Begin a group of copies."""
    return call("int32", "dma_start_group", queue)


@op_function
def dma_end_group(queue: Value) -> PrimExpr:
    """End a group of copies."""
    return call("int32", "dma_end_group", queue)


def tvm_struct_get(arr: Value, index: Value, field: Value, dtype: str) -> PrimExpr:
    """A field, of type `dtype`, of element `index` of an array of descriptors."""
    return call(dtype, "tvm_struct_get", arr, index, field)


__all__ = [
    "address_of", "isnullptr", "lookup_param", "tvm_access_ptr", "tvm_stack_alloca", "tvm_stack_make_shape",
    "tvm_stack_make_array", "tvm_struct_set", "tvm_tuple", "tvm_check_return", "tvm_throw_last_error",
    "tvm_static_handle", "tvm_context_id", "tvm_call_trace_packed_lowered", "large_uint_imm",
    "TVMBackendAllocWorkspace", "TVMBackendFreeWorkspace", "start_profile_intrinsic", "end_profile_intrinsic",
    "anylist_getitem", "anylist_resetitem", "anylist_setitem_call_packed", "anylist_setitem_call_cpacked", "dma_copy",
    "dma_wait", "dma_start_group", "dma_end_group", "tvm_struct_get",
]  # fmt: skip
