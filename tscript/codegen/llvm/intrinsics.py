"""Calls of intrinsics: one table from operator names to emitters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from tscript.codegen.llvm import arith, math, memory
from tscript.codegen.llvm.builder import Builder
from tscript.codegen.llvm.narrow import next_after, round_to
from tscript.codegen.llvm.types import (
    float_const,
    int_const,
    int_vector,
    is_narrow,
    register_type,
    zero,
)  # fmt: skip
from tscript.ir.dtype import DataType
from tscript.ir.expr import BufferLoad, Call, IntImm, PrimExpr, StringImm
from tscript.support.wording import with_article


class Emitter(Protocol):
    """What an intrinsic's emitter needs of the function being emitted."""

    @property
    def b(self) -> Builder:
        """Where instructions go."""
        ...

    def value(self, e: PrimExpr) -> str:
        """The operand that holds the value of an expression."""
        ...

    def index(self, e: PrimExpr) -> str:
        """The value of a scalar index, as an i64."""
        ...

    def buffer_pointer(self, load: BufferLoad) -> str:
        """The address of an element."""
        ...

    def refuse(self, what: str, hint: str) -> Exception:
        """The error that says that `what`, in the current statement, has no native code."""
        ...

    def emit_return(self, e: PrimExpr) -> None:
        """Leave the kernel, with a value."""
        ...


Handler = Callable[[Emitter, Call], str]


def _float_bits(dtype: DataType) -> int:
    return 64 if dtype.bits == 64 else 32


def _rounded(em: Emitter, dtype: DataType, value: str) -> str:
    return round_to(em.b, dtype, value) if is_narrow(dtype) else value


def _require_float(em: Emitter, call: Call) -> DataType:
    dtype: DataType = call.args[0].dtype
    if not dtype.is_float:
        name = _name(call)
        raise em.refuse(
            f"{name} of {with_article(dtype)}", f'convert the argument, as in T.{name}(T.Cast("float32", x))'
        )
    return dtype


def _name(call: Call) -> str:
    return getattr(call.op, "name", "").removeprefix("tir.")


def _llvm_math(name: str) -> Handler:
    def emit(em: Emitter, call: Call) -> str:
        dtype = _require_float(em, call)
        args = [em.value(a) for a in call.args]
        return _rounded(em, dtype, arith.float_call(em.b, name, register_type(dtype), *args))

    return emit


def _own_math(name: str) -> Handler:
    def emit(em: Emitter, call: Call) -> str:
        dtype = _require_float(em, call)
        args = [em.value(a) for a in call.args]
        return _rounded(em, dtype, math.emit(em.b, name, _float_bits(dtype), dtype.lanes, args))

    return emit


def _libm(name: str) -> Handler:
    def emit(em: Emitter, call: Call) -> str:
        dtype = _require_float(em, call)
        scalar = register_type(dtype.element)
        symbol = name if scalar == "double" else name + "f"
        em.b.module.externals.setdefault(symbol, f"T.{_name(call)}")
        args = [(scalar, em.value(a)) for a in call.args]
        return _rounded(em, dtype, em.b.each_lane(dtype.lanes, scalar, args, symbol))

    return emit


def _rounding(name: str) -> Handler:
    def emit(em: Emitter, call: Call) -> str:
        dtype: DataType = call.args[0].dtype
        value = em.value(call.args[0])
        if not dtype.is_float:
            return value
        return _rounded(em, dtype, arith.float_call(em.b, name, register_type(dtype), value))

    return emit


def _fabs(em: Emitter, call: Call) -> str:
    return arith.float_call(em.b, "fabs", register_type(_require_float(em, call)), em.value(call.args[0]))


def _copysign(em: Emitter, call: Call) -> str:
    dtype = _require_float(em, call)
    return arith.float_call(em.b, "copysign", register_type(dtype), em.value(call.args[0]), em.value(call.args[1]))


def _rsqrt(em: Emitter, call: Call) -> str:
    dtype = _require_float(em, call)
    t = register_type(dtype)
    root = arith.float_call(em.b, "sqrt", t, em.value(call.args[0]))
    one = float_const(1.0, _float_bits(dtype), dtype.lanes)
    return _rounded(em, dtype, em.b.let(f"fdiv {t} {one}, {root}"))


def _ldexp(em: Emitter, call: Call) -> str:
    dtype = _require_float(em, call)
    power: DataType = call.args[1].dtype
    t, i32 = register_type(dtype), int_vector(32, dtype.lanes)
    given = em.value(call.args[1])
    exponent = arith.convert(em.b, power, DataType("int32").with_lanes(power.lanes), given)
    name = f"llvm.ldexp.{arith.mangled(t)}.{arith.mangled(i32)}"
    result = em.b.call(t, name, [(t, em.value(call.args[0])), (i32, exponent)])
    if power.is_float:
        # As an integer, a NaN would be 0.
        kind = register_type(power)
        is_nan = em.b.let(f"fcmp uno {kind} {given}, {given}")
        nan = float_const(float("nan"), _float_bits(dtype), dtype.lanes)
        result = em.b.let(f"select {int_vector(1, dtype.lanes)} {is_nan}, {t} {nan}, {t} {result}")
    return _rounded(em, dtype, result)


def _nextafter(em: Emitter, call: Call) -> str:
    dtype = _require_float(em, call)
    if is_narrow(dtype):
        return next_after(em.b, dtype, em.value(call.args[0]), em.value(call.args[1]))
    return _libm("nextafter")(em, call)


def _float_test(emit_test: Callable[[Builder, str, str, str], str]) -> Handler:
    def emit(em: Emitter, call: Call) -> str:
        dtype: DataType = call.args[0].dtype
        value = em.value(call.args[0])
        if not dtype.is_float:
            return int_const(1, int(_name(call) == "isfinite"), dtype.lanes)
        t = register_type(dtype)
        return emit_test(em.b, t, value, float_const(float("inf"), _float_bits(dtype), dtype.lanes))

    return emit


def _is_nan(b: Builder, t: str, value: str, inf: str) -> str:
    return b.let(f"fcmp uno {t} {value}, {value}")


def _is_inf(b: Builder, t: str, value: str, inf: str) -> str:
    return b.let(f"fcmp oeq {t} {arith.float_call(b, 'fabs', t, value)}, {inf}")


def _is_finite(b: Builder, t: str, value: str, inf: str) -> str:
    return b.let(f"fcmp olt {t} {arith.float_call(b, 'fabs', t, value)}, {inf}")


def _count_bits(name: str, extra: str) -> Handler:
    def emit(em: Emitter, call: Call) -> str:
        dtype: DataType = call.args[0].dtype
        if not dtype.is_integer:
            raise em.refuse(
                f"{_name(call)} of {with_article(dtype)}",
                "it counts the bits of integers; use T.reinterpret for others",
            )
        t = register_type(dtype)
        args = [(t, em.value(call.args[0]))] + ([("i1", extra)] if extra else [])
        counted = em.b.call(t, f"llvm.{name}.{arith.mangled(t)}", args)
        return arith.convert(em.b, DataType(f"uint{dtype.bits}").with_lanes(dtype.lanes), call.dtype, counted)

    return emit


def _bitwise(em: Emitter, call: Call) -> str:
    x, y = call.args
    count = y.value if isinstance(y, IntImm) else None
    return arith.bitwise(em.b, _name(call), call.dtype, em.value(x), em.value(y), count)


def _bitwise_not(em: Emitter, call: Call) -> str:
    t = register_type(call.dtype)
    ones = int_const(call.dtype.bits, -1 if not call.dtype.is_bool else 1, call.dtype.lanes)
    return em.b.let(f"xor {t} {em.value(call.args[0])}, {ones}")


def _reinterpret(em: Emitter, call: Call) -> str:
    source: DataType = call.args[0].dtype
    target = call.dtype
    value = em.value(call.args[0])
    if source.is_handle or target.is_handle:
        if source is target:
            return value
        if 64 not in (source.bits, target.bits) or not (source.is_integer or target.is_integer):
            raise em.refuse(f"reinterpreting {source!s} as {target!s}", "a pointer is as wide as int64")
        op = "ptrtoint" if source.is_handle else "inttoptr"
        return em.b.let(f"{op} {register_type(source)} {value} to {register_type(target)}")
    if source.bytes * source.lanes != target.bytes * target.lanes:
        raise em.refuse(f"reinterpreting {source!s} as {target!s}", "both types must have the same number of bits")
    return memory.from_memory(em.b, target, memory.bitcast(em.b, source, target, memory.to_memory(em.b, source, value)))


def _first(em: Emitter, call: Call) -> str:
    return em.value(call.args[0])


def _no_op(em: Emitter, call: Call) -> str:
    return zero(call.dtype) if not call.dtype.code == "void" else "undef"


def _undef(em: Emitter, call: Call) -> str:
    return zero(call.dtype)


def _large_uint(em: Emitter, call: Call) -> str:
    low, high = (a.value for a in call.args)
    return int_const(call.dtype.bits, (high << 32) | (low & 0xFFFFFFFF))


def _is_null(em: Emitter, call: Call) -> str:
    return em.b.let(f"icmp eq ptr {em.value(call.args[0])}, null")


def _address_of(em: Emitter, call: Call) -> str:
    load = call.args[0]
    if not isinstance(load, BufferLoad):
        raise em.refuse("address_of something that is no buffer element", "write T.address_of(A[i])")
    return em.buffer_pointer(load)


def _access_ptr(em: Emitter, call: Call) -> str:
    kind, data, offset, _, _ = call.args
    element = memory.memory_scalar(kind.dtype)
    start = em.index(offset)
    if kind.dtype.lanes != 1:
        start = em.b.let(f"mul i64 {start}, {kind.dtype.lanes}")
    return em.b.let(f"getelementptr inbounds {element}, ptr {em.value(data)}, i64 {start}")


def _return(em: Emitter, call: Call) -> str:
    em.emit_return(call.args[0])
    return "undef"


def _q_multiply_shift(em: Emitter, call: Call) -> str:
    x, y, q, s = call.args
    lanes = call.dtype.lanes
    i64 = int_vector(64, lanes)
    zero64 = int_const(64, 0, lanes)
    shift = _to_int64(em, s, lanes)
    left = em.b.call(i64, f"llvm.smax.{arith.mangled(i64)}", [(i64, shift), (i64, zero64)])
    back = em.b.let(f"sub {i64} {zero64}, {shift}")
    right = em.b.call(i64, f"llvm.smax.{arith.mangled(i64)}", [(i64, back), (i64, zero64)])
    total = em.b.let(f"add {i64} {right}, {_to_int64(em, q, lanes)}")
    product = em.b.let(
        f"mul {i64} {em.b.let(f'shl {i64} {_to_int64(em, x, lanes)}, {left}')}, {_to_int64(em, y, lanes)}"
    )
    return _shift_rounding(em, call, product, total)


def _q_multiply_shift_per_axis(em: Emitter, call: Call) -> str:
    x, y, ls, rs, q, wants_left, wants_right = call.args
    lanes = call.dtype.lanes
    i64 = int_vector(64, lanes)
    value = _to_int64(em, x, lanes)
    if not (isinstance(wants_left, IntImm) and wants_left.value == 0):
        value = em.b.let(f"shl {i64} {value}, {_to_int64(em, ls, lanes)}")
    total = _to_int64(em, q, lanes)
    if not (isinstance(wants_right, IntImm) and wants_right.value == 0):
        total = em.b.let(f"add {i64} {total}, {_to_int64(em, rs, lanes)}")
    return _shift_rounding(em, call, em.b.let(f"mul {i64} {value}, {_to_int64(em, y, lanes)}"), total)


def _shift_rounding(em: Emitter, call: Call, product: str, total: str) -> str:
    lanes = call.dtype.lanes
    i64, one = int_vector(64, lanes), int_const(64, 1, lanes)
    # Half of the last place that stays; nothing where no place goes.
    half = em.b.let(f"lshr {i64} {em.b.let(f'shl {i64} {one}, {total}')}, {one}")
    result = em.b.let(f"ashr {i64} {em.b.let(f'add {i64} {product}, {half}')}, {total}")
    return em.b.let(f"trunc {i64} {result} to {register_type(call.dtype)}")


def _to_int64(em: Emitter, e: PrimExpr, lanes: int) -> str:
    wide = arith.convert(em.b, e.dtype, DataType("int64").with_lanes(e.dtype.lanes), em.value(e))
    return em.b.splat("i64", wide, lanes) if e.dtype.lanes == 1 else wide


def _dp4a(em: Emitter, call: Call) -> str:
    total = em.value(call.args[2])
    wide = DataType("int32x4")
    x, y = (arith.convert(em.b, dtype, wide, value) for dtype, value in (_four_bytes(em, a) for a in call.args[:2]))
    product = em.b.let(f"mul <4 x i32> {x}, {y}")
    return em.b.let(f"add i32 {total}, {em.b.call('i32', 'llvm.vector.reduce.add.v4i32', [('<4 x i32>', product)])}")


def _four_bytes(em: Emitter, e: PrimExpr) -> tuple[DataType, str]:
    value = em.value(e)
    if e.dtype.lanes == 4:
        return e.dtype, value
    return DataType("uint8x4" if e.dtype.is_uint else "int8x4"), em.b.let(f"bitcast i32 {value} to <4 x i8>")


def _lane_pick(start: Callable[[int], int]) -> Handler:
    def emit(em: Emitter, call: Call) -> str:
        dtype: DataType = call.args[0].dtype
        t = register_type(dtype)
        lanes = call.dtype.lanes
        first = start(dtype.lanes)
        mask = ", ".join(f"i32 {first + i}" for i in range(lanes))
        return em.b.let(f"shufflevector {t} {em.value(call.args[0])}, {t} poison, <{lanes} x i32> <{mask}>")

    return emit


def _combine(em: Emitter, call: Call) -> str:
    t = register_type(call.args[0].dtype)
    mask = ", ".join(f"i32 {i}" for i in range(call.dtype.lanes))
    x, y = em.value(call.args[0]), em.value(call.args[1])
    return em.b.let(f"shufflevector {t} {x}, {t} {y}, <{call.dtype.lanes} x i32> <{mask}>")


def _lane_mask(em: Emitter, call: Call) -> str:
    lanes = call.dtype.lanes
    base, limit = em.index(call.args[0]), em.index(call.args[1])
    room = em.b.splat("i64", em.b.let(f"sub i64 {limit}, {base}"), lanes)
    if lanes == 1:
        return em.b.let(f"icmp sgt i64 {room}, 0")
    steps = ", ".join(f"i64 {i}" for i in range(lanes))
    return em.b.let(f"icmp sgt <{lanes} x i64> {room}, <{steps}>")


def _thread_context(em: Emitter, call: Call) -> str:
    return "null" if call.dtype.is_handle else zero(call.dtype)


_C_VARIADIC: Final = {"printf": 1, "fprintf": 2, "sprintf": 2, "snprintf": 3}
"""Functions of C that take any number of arguments, with how many are named."""


def _extern(em: Emitter, call: Call) -> str:
    name = call.args[0]
    if not isinstance(name, StringImm):
        raise em.refuse(
            "a call of an external function without a constant name", 'write T.call_extern("int32", "name", ...)'
        )
    named = _C_VARIADIC.get(name.value)
    args: list[tuple[str, str]] = []
    for i, a in enumerate(call.args[1:]):
        dtype: DataType = a.dtype
        value = em.value(a)
        if named is not None and i >= named and dtype.is_float and dtype.bits < 64:
            dtype, value = DataType("float64"), em.b.let(f"fpext float {value} to double")
        if dtype.is_bool and dtype.is_scalar:
            dtype, value = DataType("uint8"), em.b.let(f"zext i1 {value} to i8")
        small = dtype.is_integer and dtype.is_scalar and dtype.bits < 32
        args.append(
            (register_type(dtype) + (" signext" if small and dtype.is_int else " zeroext" if small else ""), value)
        )
    return external_call(em.b, call.dtype, name.value, args, named)


def external_call(b: Builder, dtype: DataType, name: str, args: list[tuple[str, str]], named: int | None = None) -> str:
    """A call of a C function; a result of type bool is a byte that is not zero."""
    void = dtype.code == "void"
    result = "void" if void else "i8" if dtype.is_bool else register_type(dtype)
    kinds = [t for t, _ in args]
    signature = ", ".join(kinds if named is None else [*kinds[:named], "..."])
    b.module.externals.setdefault(name, f'T.call_extern("{dtype!s}", "{name}", ...)')
    b.module.declare(name, f"{result} {{}}({signature})")
    text = f'call {result} ({signature}) @"{name}"({", ".join(f"{t} {v}" for t, v in args)})'
    if void:
        b.emit(text)
        return "undef"
    value = b.let(text)
    return b.let(f"icmp ne i8 {value}, 0") if dtype.is_bool else value


def _llvm_intrinsic(em: Emitter, call: Call) -> str:
    name = call.args[0]
    if not isinstance(name, StringImm) or not name.value.startswith("llvm."):
        raise em.refuse("an LLVM intrinsic that is not named", 'give its full name, as in "llvm.fma.f32"')
    em.b.module.intrinsics[name.value] = None
    args = [_to_llvm(em, a) for a in call.args[1:]]
    if call.dtype.code == "void":
        em.b.module.declare(name.value, f"void {{}}({', '.join(t for t, _ in args)})")
        em.b.emit(f'call void @"{name.value}"({", ".join(f"{t} {v}" for t, v in args)})')
        return "undef"
    if not is_narrow(call.dtype):
        return em.b.call(register_type(call.dtype), name.value, args)
    found = em.b.call(_llvm_float(em, call.dtype), name.value, args)
    bits = em.b.let(f"bitcast {_llvm_float(em, call.dtype)} {found} to {memory.memory_type(call.dtype)}")
    return memory.from_memory(em.b, call.dtype, bits)


def _to_llvm(em: Emitter, e: PrimExpr) -> tuple[str, str]:
    """A value as LLVM's own functions take it, with its type: floats below 32 bits are not widened there."""
    value = em.value(e)
    if not is_narrow(e.dtype):
        return register_type(e.dtype), value
    bits, t = memory.to_memory(em.b, e.dtype, value), _llvm_float(em, e.dtype)
    return t, em.b.let(f"bitcast {memory.memory_type(e.dtype)} {bits} to {t}")


def _llvm_float(em: Emitter, dtype: DataType) -> str:
    name = {"float16": "half", "bfloat16": "bfloat"}.get(str(dtype.element))
    if name is None:
        raise em.refuse(f"{dtype!s} in an LLVM intrinsic", "LLVM has no such type; pass its bits with T.reinterpret")
    return name if dtype.lanes == 1 else f"<{dtype.lanes} x {name}>"


HANDLERS: Final[Mapping[str, Handler]] = {
    **{f"tir.{n}": _own_math(n) for n in sorted(math.FUNCTIONS)},
    "tir.sqrt": _llvm_math("sqrt"),
    "tir.fmod": _libm("fmod"),
    **{f"tir.{n}": _rounding(n) for n in "floor ceil trunc nearbyint".split()},
    "tir.round": _rounding("round"),
    **{f"tir.{n}": _bitwise for n in "bitwise_and bitwise_or bitwise_xor shift_left shift_right".split()},
    "tir.bitwise_not": _bitwise_not,
    "tir.fabs": _fabs,
    "tir.copysign": _copysign,
    "tir.rsqrt": _rsqrt,
    "tir.ldexp": _ldexp,
    "tir.nextafter": _nextafter,
    "tir.isnan": _float_test(_is_nan),
    "tir.isinf": _float_test(_is_inf),
    "tir.isfinite": _float_test(_is_finite),
    "tir.popcount": _count_bits("ctpop", ""),
    "tir.clz": _count_bits("ctlz", "false"),
    "tir.reinterpret": _reinterpret,
    "tir.likely": _first,
    "tir.tvm_thread_invariant": _first,
    "tir.assume": _no_op,
    "tir.prefetch": _no_op,
    "tir.undef": _undef,
    "tir.tvm_context_id": _thread_context,
    "tir.tvm_static_handle": _thread_context,
    "tir.large_uint_imm": _large_uint,
    "tir.isnullptr": _is_null,
    "tir.address_of": _address_of,
    "tir.tvm_access_ptr": _access_ptr,
    "tir.ret": _return,
    "tir.q_multiply_shift": _q_multiply_shift,
    "tir.q_multiply_shift_per_axis": _q_multiply_shift_per_axis,
    "tir.dp4a": _dp4a,
    "tir.vectorlow": _lane_pick(lambda lanes: 0),
    "tir.vectorhigh": _lane_pick(lambda lanes: lanes // 2),
    "tir.vectorcombine": _combine,
    "tir.get_active_lane_mask": _lane_mask,
    "tir.start_profile_intrinsic": _no_op,
    "tir.end_profile_intrinsic": _no_op,
    "tir.ignore_loop_partition": _first,
    "tir.call_extern": _extern,
    "tir.call_pure_extern": _extern,
    "tir.call_llvm_intrin": _llvm_intrinsic,
    "tir.call_llvm_pure_intrin": _llvm_intrinsic,
}


def refusal_hint(name: str) -> str:
    """What to do about an operator that has no native code on a CPU."""
    short = name.removeprefix("tir.")
    gpu = ("ptx_", "mma_", "tvm_mma", "tvm_bmma", "tvm_load_matrix", "tvm_store_matrix", "tvm_fill_fragment",
           "tvm_warp", "simdgroup", "make_filled_simdgroup", "create_barriers", "tvm_storage_sync",
           "tvm_thread_allreduce", "tvm_global_barrier")  # fmt: skip
    if short.startswith(gpu):
        return 'it exists on GPUs only; build for target="cuda"'
    return "write it with loads, stores and arithmetic, or call a C function with T.call_extern"
