"""The node that each function of the dialect builds."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tscript.ir import construct as c
from tscript.ir import expr as ex
from tscript.ir.buffer import Buffer, decl_buffer
from tscript.ir.expr import Call, Cast, FloatImm, GlobalVar, IntImm, Op, PrimExpr, Select, StringImm, Var
from tscript.ir.semantics import numpy_dtype
from tscript.parser.dialect import arithmetic, calls, control, gpu, memory, nodes, vectors
from tscript.parser.dialect import math as fmath

X = Var("x", "float32")
Y = Var("y", "float32")
I = Var("i", "int32")
J = Var("j", "int32")
U = Var("u", "uint8")
H = Var("h", "float16")
B = Var("b", "bool")

UNARY_MATH = (
    "exp exp2 exp10 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
    "erf sigmoid fabs"
).split()
BINARY_MATH = "atan2 fmod hypot copysign nextafter pow".split()


def is_call(e: Any, op: str, dtype: str, *args: Any) -> bool:
    return e is Call(dtype, Op.get("tir." + op), tuple(args))


# -- math -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", UNARY_MATH)
def test_math_keeps_the_type_of_its_argument(name: str) -> None:
    function = getattr(fmath, name)
    for v in (X, H, Var("v", "bfloat16"), Var("v", "float64"), Var("v", "float32x4")):
        assert is_call(function(v), name, v.dtype, v)


@pytest.mark.parametrize("name", UNARY_MATH)
def test_math_of_an_integer_advises_a_cast(name: str) -> None:
    with pytest.raises(TypeError, match=rf"{name} takes floats, not int32.*T\.Cast"):
        getattr(fmath, name)(I)


@pytest.mark.parametrize("name", UNARY_MATH)
def test_math_ignores_the_old_dtype_keyword(name: str) -> None:
    assert getattr(fmath, name)(X, dtype="float32") is getattr(fmath, name)(X)


@pytest.mark.parametrize("name", BINARY_MATH)
def test_binary_math_promotes(name: str) -> None:
    function = getattr(fmath, name)
    assert is_call(function(X, Y), name, "float32", X, Y)
    assert is_call(function(X, 2.0), name, "float32", X, FloatImm("float32", 2.0))
    assert is_call(function(H, X), name, "float32", Cast("float32", H), X)
    with pytest.raises(TypeError, match=name):
        function(I, J)


def test_power_is_pow() -> None:
    assert fmath.power(X, Y) is fmath.pow(X, Y)


def test_ldexp_takes_an_integer_exponent() -> None:
    assert is_call(fmath.ldexp(X, I), "ldexp", "float32", X, I)
    with pytest.raises(TypeError, match="a float and an integer"):
        fmath.ldexp(X, Y)


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round", "nearbyint"])
def test_rounding_an_integer_gives_it_back(name: str) -> None:
    function = getattr(arithmetic, name)
    assert function(I) is I
    assert function(7) is IntImm("int32", 7)
    assert is_call(function(X), name, "float32", X)
    with pytest.raises(TypeError, match="takes numbers"):
        function(Var("p", "handle"))


@pytest.mark.parametrize(("name", "of_integer"), [("isnan", 0), ("isinf", 0), ("isfinite", 1)])
def test_integers_are_finite(name: str, of_integer: int) -> None:
    function = getattr(arithmetic, name)
    assert function(I) is IntImm("bool", of_integer)
    assert is_call(function(X), name, "bool", X)
    vector = Var("v", "float32x4")
    assert function(vector).dtype == "boolx4"


def test_abs_of_each_kind() -> None:
    zero = IntImm("int32", 0)
    assert is_call(arithmetic.abs(X), "fabs", "float32", X)
    assert arithmetic.abs(I) is Select(ex.GE(I, zero), I, ex.Sub(zero, I))
    assert arithmetic.abs(U) is U
    assert arithmetic.abs(-5) is IntImm("int32", 5)
    assert arithmetic.abs(IntImm("int8", -128)) is IntImm("int8", -128)
    with pytest.raises(TypeError, match="abs takes numbers"):
        arithmetic.abs(B)


def test_bit_counts_take_integers() -> None:
    assert is_call(arithmetic.popcount(U), "popcount", "uint8", U)
    assert is_call(arithmetic.clz(U), "clz", "int32", U)
    with pytest.raises(TypeError, match="popcount takes integers"):
        arithmetic.popcount(X)


def test_fixed_point_products() -> None:
    assert arithmetic.q_multiply_shift(I, J, 31, 0).dtype == "int32"
    assert len(arithmetic.q_multiply_shift_per_axis(I, J, 1, 1, 31, True, False).args) == 7


# -- integers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("a", [-7, -6, 7, 6])
@pytest.mark.parametrize("b", [-3, -2, 3, 2])
def test_divisions_of_constants_follow_mathematics(a: int, b: int) -> None:
    def value(e: PrimExpr) -> int:
        assert isinstance(e, IntImm)
        return e.value

    assert value(arithmetic.floordiv(a, b)) == a // b
    assert value(arithmetic.floormod(a, b)) == a % b
    assert value(arithmetic.truncdiv(a, b)) == math.trunc(a / b)
    assert value(arithmetic.truncmod(a, b)) == int(math.fmod(a, b))
    assert value(arithmetic.ceildiv(a, b)) == math.ceil(a / b)


def test_integer_functions_are_the_operators() -> None:
    assert arithmetic.floordiv(I, J) is ex.FloorDiv(I, J)
    assert arithmetic.truncdiv(I, J) is ex.Div(I, J)
    assert arithmetic.truncmod(I, 3) is ex.Mod(I, IntImm("int32", 3))
    assert arithmetic.ceildiv(I, 4) is ex.FloorDiv(
        ex.Sub(ex.Add(I, IntImm("int32", 4)), IntImm("int32", 1)), IntImm("int32", 4)
    )
    assert is_call(arithmetic.bitwise_and(I, J), "bitwise_and", "int32", I, J)
    assert is_call(arithmetic.bitwise_or(I, J), "bitwise_or", "int32", I, J)
    assert is_call(arithmetic.bitwise_xor(I, J), "bitwise_xor", "int32", I, J)
    assert is_call(arithmetic.bitwise_not(I), "bitwise_not", "int32", I)
    assert is_call(arithmetic.shift_left(I, 1), "shift_left", "int32", I, IntImm("int32", 1))
    assert arithmetic.shift_right(I, 0) is I


def test_min_and_max_fold_and_promote() -> None:
    assert arithmetic.min(I, J) is ex.Min(I, J)
    assert arithmetic.max(2, 5) is IntImm("int32", 5)
    assert arithmetic.max(I, I) is I
    assert arithmetic.max(X, 0.0) is ex.Max(X, FloatImm("float32", 0.0))
    assert arithmetic.max(I, X) is ex.Max(Cast("float32", I), X)
    folded = arithmetic.max(FloatImm("float32", math.nan), 1.0)
    assert isinstance(folded, FloatImm) and math.isnan(folded.value)
    with pytest.raises(TypeError, match="take numbers"):
        arithmetic.max(B, B)


# -- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"]
)
def test_float_limits_are_those_of_the_format(name: str) -> None:
    info = ml_dtypes.finfo(numpy_dtype(ex.DataType(name)))
    assert arithmetic.max_value(name).value == float(info.max)
    assert arithmetic.min_value(name).value == float(info.min)


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "bfloat16", "float8_e5m2"])
def test_infinity_where_the_format_has_one(name: str) -> None:
    value = arithmetic.infinity(name)
    assert isinstance(value, FloatImm) and value.dtype == name and math.isinf(c.rounded(value))


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float4_e2m1fn", "int32"])
def test_no_infinity_names_the_largest_value_instead(name: str) -> None:
    with pytest.raises(TypeError, match=rf'has no infinity; .*T.max_value\("{name}"\)'):
        arithmetic.infinity(name)


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_integer_limits(name: str) -> None:
    info = np.iinfo(name)
    assert arithmetic.max_value(name) is IntImm(name, int(info.max))
    assert arithmetic.min_value(name) is IntImm(name, int(info.min))


def test_limits_of_vectors_fill_the_lanes() -> None:
    assert arithmetic.min_value("int8x4") is ex.Broadcast(IntImm("int8", -128), 4)
    with pytest.raises(TypeError, match="handle has no"):
        arithmetic.max_value("handle")


# -- conversions and choices ----------------------------------------------------------------------


def test_cast_folds_and_Cast_does_not() -> None:
    five = IntImm("int32", 5)
    assert control.cast(five, "float32") is FloatImm("float32", 5.0)
    assert control.cast(I, "int32") is I
    assert control.Cast("int64", five) is Cast("int64", five)
    assert control.Cast("int32", I) is Cast("int32", I)


def test_swapped_arguments_of_a_cast_are_told() -> None:
    with pytest.raises(TypeError, match=r"wrong order; write T\.cast\(value, dtype\)"):
        control.cast("float32", I)
    with pytest.raises(TypeError, match=r"wrong order; write T\.Cast\(dtype, value\)"):
        control.Cast(I, "float32")


def test_reinterpret_needs_equal_sizes() -> None:
    assert is_call(control.reinterpret("int32", X), "reinterpret", "int32", X)
    assert control.reinterpret("float32", X) is X
    with pytest.raises(TypeError, match="32 bits of a float32 as int64"):
        control.reinterpret("int64", X)


def test_if_then_else_folds_a_constant_condition() -> None:
    assert control.if_then_else(True, X, Y) is X
    assert is_call(control.if_then_else(B, X, 0.0), "if_then_else", "float32", B, X, FloatImm("float32", 0.0))
    with pytest.raises(TypeError, match="bool"):
        control.if_then_else(I, X, Y)
    with pytest.raises(TypeError, match="float32 and int32"):
        control.if_then_else(B, X, I)


def test_select_keeps_a_constant_condition() -> None:
    e = control.Select(True, X, 1)
    assert e is Select(IntImm("bool", 1), X, FloatImm("float32", 1.0))


def test_marks_on_conditions() -> None:
    assert is_call(control.likely(B), "likely", "bool", B)
    assert control.likely(True) is IntImm("bool", 1)
    assert is_call(control.assume(B), "assume", "bool", B)
    assert is_call(control.ignore_loop_partition(B), "ignore_loop_partition", "bool", B)
    assert is_call(control.ret(I), "ret", "int32", I)
    assert is_call(control.undef(), "undef", "int32")
    with pytest.raises(TypeError, match="assumption"):
        control.assume(I)


def test_let_nests_the_first_binding_outermost() -> None:
    v, w = Var("v", "int32"), Var("w", "int64")
    assert control.Let(v + 1, where={v: I}) is ex.Let(v, I, v + 1)
    both = control.Let(v, where={v: I, w: 2})
    assert both is ex.Let(v, I, ex.Let(w, IntImm("int64", 2), v))
    with pytest.raises(TypeError, match="binds variables"):
        control.Let(I, where={v + 1: I})


# -- reductions -----------------------------------------------------------------------------------


def test_comm_reducer_calls_the_function_once_with_variables() -> None:
    reducer = control.comm_reducer(lambda x, y: x + y, [FloatImm("float32", 0.0)])
    assert [v.name for v in (*reducer.lhs, *reducer.rhs)] == ["x", "y"]
    assert reducer.result[0] is reducer.lhs[0] + reducer.rhs[0]
    assert reducer.identity_element == (FloatImm("float32", 0.0),)


def test_comm_reducer_of_several_values() -> None:
    def argmax(ai: Any, av: Any, bi: Any, bv: Any) -> Any:
        return control.Select(av >= bv, ai, bi), arithmetic.max(av, bv)

    reducer = control.comm_reducer(argmax, [-1, arithmetic.min_value("float32")])
    assert [v.dtype for v in reducer.lhs] == ["int32", "float32"]
    assert len(reducer.result) == 2


def test_comm_reducer_counts_parameters_and_results() -> None:
    with pytest.raises(TypeError, match="4 parameters"):
        control.comm_reducer(lambda x, y: x, [0, 1])
    with pytest.raises(TypeError, match="gives 2 values"):
        control.comm_reducer(lambda x, y: (x, y), [0])


def test_reduce_has_the_type_of_the_chosen_source() -> None:
    reducer = control.comm_reducer(lambda x, y: x + y, [FloatImm("float32", 0.0)])
    k = control.iter_var("k", nodes.Range(0, 8), "CommReduce")
    e = control.reduce(reducer, source=[X], init=[], axis=[k], condition=True, value_index=0)
    assert isinstance(e, ex.Reduce) and e.dtype == "float32" and e.axis == (k,)
    assert isinstance(nodes.Reduce(reducer, [X], [k], True, 0), ex.Reduce)


def test_iter_var_reads_kinds_by_name() -> None:
    t = control.iter_var(I, (0, 32), "ThreadIndex", "threadIdx.x")
    assert t.iter_type == ex.IterVar.ThreadIndex and t.thread_tag == "threadIdx.x"
    with pytest.raises(ValueError, match="unknown kind of axis 'Parallel'"):
        control.iter_var(I, None, "Parallel")


# -- vectors --------------------------------------------------------------------------------------


def test_ramp_and_broadcast() -> None:
    one = IntImm("int32", 1)
    assert vectors.ramp(I, 1, 4) is vectors.Ramp(I, 1, IntImm("int32", 4)) is ex.Ramp(I, one, 4)
    assert vectors.ramp(I, 1, 1) is I
    assert vectors.broadcast(X, 8) is vectors.Broadcast(X, 8) is ex.Broadcast(X, 8)
    assert vectors.broadcast(X, 1) is X
    long = Var("n", "int64")
    assert vectors.ramp(long, 2, 4) is ex.Ramp(long, IntImm("int64", 2), 4)
    with pytest.raises(TypeError, match="lanes is a constant"):
        vectors.broadcast(X, I)


def test_shuffle_takes_constant_lanes() -> None:
    v = Var("v", "int8x4")
    assert vectors.Shuffle([v], [3, 0]).dtype == "int8x2"
    with pytest.raises(ValueError, match="shuffle index"):
        vectors.Shuffle([v], [4])


def test_halves_of_a_vector() -> None:
    v = Var("v", "float32x8")
    assert is_call(vectors.vectorlow("float32x4", v), "vectorlow", "float32x4", v)
    assert vectors.vectorhigh(v, dtype="float32x4") is vectors.vectorhigh("float32x4", v)
    half = Var("h", "float32x4")
    assert is_call(vectors.vectorcombine("float32x8", half, half), "vectorcombine", "float32x8", half, half)
    with pytest.raises(TypeError, match="half the lanes"):
        vectors.vectorlow("float32x8", v)
    with pytest.raises(TypeError, match="vectorcombine"):
        vectors.vectorcombine("float32x4", half, half)


def test_dot_product_of_bytes() -> None:
    a = Var("a", "int8x4")
    assert vectors.dp4a("int32", a, a).args[2] is IntImm("int32", 0)
    assert vectors.dp4a("int32", a, a, I).args[2] is I
    with pytest.raises(TypeError, match="four 8-bit integers"):
        vectors.dp4a("int32", I, I)


def test_lane_mask_is_a_vector_of_bools() -> None:
    assert vectors.get_active_lane_mask("boolx4", I, 30).dtype == "boolx4"
    with pytest.raises(TypeError, match="vector of bools"):
        vectors.get_active_lane_mask("int32x4", I, 30)
    assert is_call(vectors.vscale(), "vscale", "int32")


# -- calls ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["call_extern", "call_pure_extern", "call_llvm_intrin", "call_llvm_pure_intrin"])
def test_named_calls_take_the_type_first_or_as_keyword(name: str) -> None:
    function = getattr(calls, name)
    e = function("int32", "foo", I, "text", 2)
    assert is_call(e, name, "int32", StringImm("foo"), I, StringImm("text"), IntImm("int32", 2))
    assert function("foo", I, "text", 2, dtype="int32") is e
    with pytest.raises(TypeError, match="name as text"):
        function("int32", 3)


def test_an_llvm_intrinsic_is_looked_up_by_name_and_stays_one() -> None:
    found = calls.llvm_lookup_intrinsic_id("llvm.fma.f32")
    assert is_call(calls.call_llvm_pure_intrin("float32", found, X), "call_llvm_pure_intrin", "float32",
                   StringImm("llvm.fma.f32"), X)  # fmt: skip
    with pytest.raises(ValueError, match='begin with "llvm."'):
        calls.llvm_lookup_intrinsic_id("fma")
    with pytest.raises(TypeError, match="by its name"):
        calls.llvm_lookup_intrinsic_id(3)


def test_a_buffer_is_no_argument_of_a_call() -> None:
    a = decl_buffer((4,), name="A")
    with pytest.raises(TypeError, match=r"pass its pointer `A\.data`"):
        calls.call_extern("int32", "foo", a)
    assert calls.call_extern("int32", "foo", a.data, a[0]).args[1] is a.data


def test_call_intrin_finds_operators_with_and_without_prefix() -> None:
    assert calls.call_intrin("float32", "tir.exp", X) is calls.call_intrin("float32", "exp", X)
    with pytest.raises(KeyError, match="similar"):
        calls.call_intrin("float32", "tir.expp", X)
    with pytest.raises(TypeError, match="takes 1 arguments, not 2"):
        calls.call_intrin("float32", "tir.exp", X, Y)


def test_packed_calls_pass_buffers_as_arrays() -> None:
    a = decl_buffer((4, 8), "float16", name="A")
    for name in ("call_packed", "call_cpacked", "call_packed_lowered", "call_cpacked_lowered"):
        e = getattr(calls, name)("my.function", a, 3)
        assert e.dtype == "int32" and e.op is Op.get("tir.tvm_" + name)
        assert e.args[0] is StringImm("my.function")
        array = e.args[1]
        assert array.op is Op.get("tir.tvm_stack_make_array") and array.args[0] is a.data
        assert array.args[4].dtype == "float16"
    with pytest.raises(TypeError, match="name as text"):
        calls.call_packed(3)


def test_call_node_takes_operator_function_or_name() -> None:
    g = GlobalVar("g")
    assert nodes and calls.Call("int32", g, [1]) is Call("int32", g, (IntImm("int32", 1),))
    assert calls.Call("float32", "tir.exp", [X]) is calls.Call("float32", Op.get("tir.exp"), [X])


# -- memory and threads ---------------------------------------------------------------------------


def test_address_of_elements_and_buffers() -> None:
    a: Buffer = decl_buffer((4, 8), name="A")
    assert is_call(memory.address_of(a[1, 2]), "address_of", "handle", a[1, 2])
    assert memory.address_of(a) is memory.address_of(a[0, 0])
    with pytest.raises(TypeError, match="element of a buffer"):
        memory.address_of(X)


def test_struct_access_has_the_type_last() -> None:
    p = Var("p", "handle")
    assert is_call(
        memory.tvm_struct_get(p, 0, 1, "int32"), "tvm_struct_get", "int32", p, IntImm("int32", 0), IntImm("int32", 1)
    )
    assert memory.tvm_struct_get(p, 0, 1, dtype="int32") is memory.tvm_struct_get(p, 0, 1, "int32")
    assert memory.tvm_struct_set(p, 0, 1, I).dtype == "int32"


def test_access_ptr_arguments() -> None:
    p = Var("p", "handle")
    e = memory.tvm_access_ptr(control.type_annotation("float32"), p, 0, 16, 1)
    assert e.dtype == "handle" and e.args[0].dtype == "float32" and len(e.args) == 5


def test_warp_shuffles_keep_the_type_of_the_value() -> None:
    for name in ("tvm_warp_shuffle", "tvm_warp_shuffle_up", "tvm_warp_shuffle_down"):
        e = getattr(gpu, name)(gpu.tvm_warp_activemask(), X, 1, 32, 32)
        assert e.dtype == "float32" and e.args[1] is X
    assert gpu.tvm_warp_activemask().dtype == "uint32"
    assert gpu.tvm_thread_invariant(I).dtype == "int32"


def test_asynchronous_copies() -> None:
    p = Var("p", "handle")
    assert gpu.ptx_cp_async("float16", p, 0, p, 8, 16) is gpu.ptx_cp_async(p, 0, p, 8, 16, dtype="float16")
    assert gpu.ptx_commit_group().dtype == "void"
    assert gpu.ptx_wait_group(0).args[0] is IntImm("int32", 0)
    assert len(gpu.ptx_cp_async_bulk("float16", p, 0, p, 8, 16, 1).args) == 6


def test_matrix_instructions() -> None:
    p = Var("p", "handle")
    plain = ("m8n8k4", "row", "col", "fp64", "fp64", "fp64", p, 0, p, 0, p, 0, False)
    e = gpu.ptx_mma("float64", *plain)
    assert e.dtype == "float64" and len(e.args) == 13 and e.args[0] is StringImm("m8n8k4")
    assert len(gpu.ptx_mma("float64", *plain, "xor").args) == 14
    assert len(gpu.ptx_mma_sp("float32", *plain[:12], p, 0, 0, False).args) == 16
    assert len(gpu.ptx_ldmatrix("float16", False, 4, ".b16", p, 0, p, 0).args) == 7
    assert len(gpu.mma_store("float32", 16, 16, p, p, 0, 16).args) == 6
    assert len(gpu.mma_fill("float32", 8, p, 0).args) == 3


# -- nodes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", "Add Sub Mul Div Mod FloorDiv FloorMod Min Max EQ NE LT LE GT GE".split())
def test_node_functions_fold_nothing(name: str) -> None:
    build, node = getattr(nodes, name), getattr(ex, name)
    zero, two = IntImm("int32", 0), IntImm("int32", 2)
    assert build(I, J) is node(I, J)
    assert build(I, 0) is node(I, zero)
    assert build(two, zero) is node(two, zero)
    assert build(2, U) is node(IntImm("uint8", 2), U)
    with pytest.raises(TypeError, match="operands of one type"):
        build(I, Var("n", "int64"))


def test_logic_nodes() -> None:
    true = IntImm("bool", 1)
    assert nodes.And(B, True) is ex.And(B, true)
    assert nodes.Or(False, B) is ex.Or(IntImm("bool", 0), B)
    assert nodes.Not(True) is ex.Not(true)
    with pytest.raises(TypeError, match="bool"):
        nodes.Not(I)


def test_constant_nodes() -> None:
    assert nodes.IntImm("int8", 5) is IntImm("int8", 5)
    assert nodes.FloatImm("float16", 1.5) is FloatImm("float16", 1.5)
    assert nodes.StringImm("s") is StringImm("s")


def test_loads_with_a_predicate() -> None:
    a = decl_buffer((16,), name="A")
    index = vectors.ramp(I, 1, 4)
    mask = vectors.broadcast(B, 4)
    assert nodes.BufferLoad(a, [I]) is a[I]
    assert nodes.BufferLoad(a, [index], mask) is ex.BufferLoad(a, (index,), mask)
    with pytest.raises(TypeError, match="not slices"):
        nodes.BufferLoad(a, [slice(0, 4)])


def test_index_map_and_target() -> None:
    m = nodes.index_map(lambda i, j: (j, i), inverse_index_map=lambda i, j: (j, i))
    assert m.final_indices == (m.initial_indices[1], m.initial_indices[0])
    assert m.initial_indices[0].dtype == "int64"
    assert nodes.target("llvm").kind.name == "llvm"
    assert nodes.target({"kind": "llvm"}) == nodes.target("llvm")


def test_call_effect_kinds_have_their_numbers() -> None:
    assert nodes.CallEffectKind.Pure == 1
    assert nodes.CallEffectKind.Opaque is nodes.CallEffectKind.UpdateState
