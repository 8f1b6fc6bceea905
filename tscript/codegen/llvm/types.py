"""LLVM's types and constants for ours.

A value in a register and the same value in memory may differ: a bool is an i1 in a register and a byte in
memory; floats below 32 bits are a float32 that their type can hold in a register, and their bits in memory.
"""

from __future__ import annotations

import struct
from typing import Final

from tscript.ir import semantics
from tscript.ir.dtype import DataType
from tscript.support.errors import BuildError

NARROW_FLOATS: Final = {
    DataType("float16"): (5, 10),
    DataType("bfloat16"): (8, 7),
    DataType("float8_e5m2"): (5, 2),
    DataType("float8_e4m3fn"): (4, 3),
}
"""Exponent and mantissa bits of the floats that are kept as integers in memory."""

INDEX: Final = "i64"
MAX_LANES: Final = 1024
"""LLVM cuts longer vectors into registers very slowly, and gives up at some length by ending the process."""


def is_narrow(dtype: DataType) -> bool:
    """Whether `dtype` is a float below 32 bits."""
    return dtype.is_float and dtype.bits < 32


def _lanes(scalar: str, lanes: int) -> str:
    if lanes > MAX_LANES:
        raise BuildError(
            f"there is no native code for vectors of {lanes} lanes; {MAX_LANES} is the most\n"
            "  try: loop over shorter vectors"
        )
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


def register_type(dtype: DataType) -> str:
    """The LLVM type of a value in a register."""
    return _lanes(_register_scalar(dtype.element), dtype.lanes)


def memory_type(dtype: DataType) -> str:
    """The LLVM type of a value in memory."""
    return _lanes(memory_scalar(dtype), dtype.lanes)


def _register_scalar(element: DataType) -> str:
    if element.is_bool:
        return "i1"
    if element.is_integer:
        return f"i{element.bits}"
    if element.is_float:
        if element.bits < 32 and element not in NARROW_FLOATS:
            raise BuildError(f"there is no native code for {element!s} yet; convert the data to float8_e4m3fn or wider")
        return "double" if element.bits == 64 else "float"
    if element.is_handle:
        return "ptr"
    raise BuildError(f"a value of type {element!s} has no native form")


def memory_scalar(dtype: DataType) -> str:
    """The LLVM type of one lane in memory."""
    element = dtype.element
    if element.is_bool or element.is_integer:
        return f"i{8 * element.bytes}"
    if element in NARROW_FLOATS:
        return f"i{element.bits}"
    return _register_scalar(element)


def int_vector(bits: int, lanes: int) -> str:
    """An integer type of `bits` bits in `lanes` lanes."""
    return _lanes(f"i{bits}", lanes)


def float_vector(lanes: int, bits: int = 32) -> str:
    """`float` or `double` in `lanes` lanes."""
    return _lanes("double" if bits == 64 else "float", lanes)


def _splat(scalar_type: str, text: str, lanes: int) -> str:
    if lanes == 1:
        return text
    return "zeroinitializer" if text == "0" else f"splat ({scalar_type} {text})"


def int_const(bits: int, value: int, lanes: int = 1) -> str:
    """An integer constant, wrapped to `bits` bits."""
    value &= (1 << bits) - 1
    if bits > 1 and value >> (bits - 1):
        value -= 1 << bits
    if bits == 1:
        return _splat("i1", "true" if value else "false", lanes)
    return _splat(f"i{bits}", str(value), lanes)


def float_const(value: float, bits: int = 32, lanes: int = 1) -> str:
    """A constant of type float (the value must be a float32) or double, exact to the bit."""
    if value != value:
        value = float("nan")
    text = f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    return _splat("double" if bits == 64 else "float", text, lanes)


def constant(dtype: DataType, value: int | float) -> str:
    """A constant of any scalar type, as a register value; floats are rounded to their type."""
    if dtype.is_float:
        return float_const(semantics.round_float(dtype, float(value)), 64 if dtype.bits == 64 else 32)
    return int_const(dtype.bits, int(value))


def zero(dtype: DataType) -> str:
    """A register value of all zeros."""
    if dtype.lanes != 1:
        return "zeroinitializer"
    if dtype.is_handle:
        return "null"
    return constant(dtype, 0)
