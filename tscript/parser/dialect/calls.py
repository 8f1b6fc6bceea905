"""Calls of functions outside the program: C functions, LLVM intrinsics, registered Python functions, any operator."""

from __future__ import annotations

import difflib
from typing import Any

from tscript.ir.buffer import Buffer
from tscript.ir.construct import const
from tscript.ir.dtype import DataType
from tscript.ir.expr import Call as CallNode
from tscript.ir.expr import GlobalVar, Op, PrimExpr
from tscript.parser.dialect.values import Value, call, call_arg, dtype_first, op_function
from tscript.support.wording import kind_of


def find_op(name: str | Op) -> Op:
    """The operator, with or without its prefix `tir.`; KeyError, naming close matches, when there is none."""
    if isinstance(name, Op):
        return name
    found = Op.registry.get(name) or Op.registry.get("tir." + name)
    if found is None:
        word = name.removeprefix("tir.")
        close = difflib.get_close_matches(word, [n.removeprefix("tir.") for n in Op.registry])
        raise KeyError(f"there is no intrinsic {name!r}" + (f"; similar: {', '.join(close)}" if close else ""))
    return found


def Call(dtype: str, op: str | Op | GlobalVar, args: Any) -> CallNode:
    """A call node: result type, operator or function, list of arguments."""
    target = op if isinstance(op, GlobalVar) else find_op(op)
    return CallNode(DataType(dtype), target, tuple(call_arg(a) for a in args))


@dtype_first
def call_intrin(dtype: str, func_name: str | Op, *args: Value) -> CallNode:
    """A call of any intrinsic by its name, such as `"tir.exp"`."""
    return call(dtype, find_op(func_name).name.removeprefix("tir."), *args)


def _named(op: str, dtype: str, func_name: Any, args: tuple[Value, ...]) -> CallNode:
    if not isinstance(func_name, (str, PrimExpr)):
        raise TypeError(f"T.{op} takes the result's type, then the function's name as text, not {kind_of(func_name)}")
    return call(dtype, op, func_name, *args)


@dtype_first
def call_extern(dtype: str, func_name: str, *args: Value) -> CallNode:
    """A call of the C function `func_name`, which may have effects."""
    return _named("call_extern", dtype, func_name, args)


@dtype_first
def call_pure_extern(dtype: str, func_name: str, *args: Value) -> CallNode:
    """A call of the C function `func_name`, which only computes its result."""
    return _named("call_pure_extern", dtype, func_name, args)


@dtype_first
def call_llvm_intrin(dtype: str, name: str, *args: Value) -> CallNode:
    """A call of an LLVM intrinsic, such as `"llvm.prefetch"`, that may have effects."""
    return _named("call_llvm_intrin", dtype, name, args)


@dtype_first
def call_llvm_pure_intrin(dtype: str, name: str, *args: Value) -> CallNode:
    """A call of an LLVM intrinsic, such as `"llvm.fma.f32"`, that only computes its result."""
    return _named("call_llvm_pure_intrin", dtype, name, args)


def llvm_lookup_intrinsic_id(name: str) -> str:
    """What `call_llvm_intrin` and `call_llvm_pure_intrin` take for the LLVM intrinsic `name`: the name itself.

    Programs are bound to no version of LLVM here, so they keep names, which say what is called, instead of numbers.
    Raises TypeError for no text, ValueError for no name of an intrinsic.

    >>> llvm_lookup_intrinsic_id("llvm.fma.f32")
    'llvm.fma.f32'
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"an LLVM intrinsic is looked up by its name, not by {name!r}")
    if not name.startswith("llvm."):
        raise ValueError(f'the names of LLVM intrinsics begin with "llvm.", as "llvm.fma.f32"; {name!r} does not')
    return name


def _packed(op: str, args: tuple[Value, ...]) -> CallNode:
    if not args or not isinstance(args[0], (str, PrimExpr)):
        raise TypeError("a packed call takes the function's name as text first, then the arguments")
    return call("int32", op, *(_as_array(a) if isinstance(a, Buffer) else a for a in args))


def _as_array(buffer: Buffer) -> CallNode:
    """A buffer as the array descriptor that a registered function receives."""
    index = buffer.shape[0].dtype if buffer.shape else "int32"
    shape = call("handle", "tvm_stack_make_shape", *buffer.shape)
    strides = call("handle", "tvm_stack_make_shape", *buffer.strides) if buffer.strides else const(0, index)
    element = const(0.0 if buffer.dtype.is_float else 0, buffer.dtype)
    rank = len(buffer.shape)
    return call("handle", "tvm_stack_make_array", buffer.data, shape, strides, rank, element, buffer.elem_offset)


@op_function
def call_packed(*args: Value) -> CallNode:
    """A call of a registered function by name; buffers are passed as arrays."""
    return _packed("tvm_call_packed", args)


@op_function
def call_cpacked(*args: Value) -> CallNode:
    """`call_packed` of a function that follows the C calling convention."""
    return _packed("tvm_call_cpacked", args)


@op_function
def call_packed_lowered(*args: Value) -> CallNode:
    """`call_packed` with the argument arrays already on the stack."""
    return _packed("tvm_call_packed_lowered", args)


@op_function
def call_cpacked_lowered(*args: Value) -> CallNode:
    """`call_cpacked` with the argument arrays already on the stack."""
    return _packed("tvm_call_cpacked_lowered", args)


@op_function
def call_kernel(*args: Value) -> CallNode:
    """A call of a compiled kernel: its name, launch parameters, arguments."""
    return call("int32", "call_kernel", *args)


__all__ = [
    "Call", "call_intrin", "call_extern", "call_pure_extern", "call_llvm_intrin", "call_llvm_pure_intrin",
    "call_packed", "call_cpacked", "call_packed_lowered", "call_cpacked_lowered", "call_kernel",
    "llvm_lookup_intrinsic_id",
]  # fmt: skip
