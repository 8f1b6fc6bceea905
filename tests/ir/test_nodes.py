"""The node base: interning, immutability, threads, release; data types and mappings."""

from __future__ import annotations

import gc
import math
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tscript.ir import buffer as tb
from tscript.ir import expr as ex
from tscript.ir import stmt as st
from tscript.ir.base import FrozenDict
from tscript.ir.construct import const
from tscript.ir.dtype import DataType, int_range
from tscript.ir.expr import FloatImm, IntImm, Op, Range, Var

x, y = Var("x"), Var("y")
A = tb.decl_buffer((4,), name="A")


@pytest.mark.parametrize(
    "make",
    [
        lambda: ex.Add(x, y),
        lambda: ex.Cast("int64", x),
        lambda: IntImm("int32", 7),
        lambda: FloatImm("float32", 0.1),
        lambda: ex.Ramp(x, y, 4),
        lambda: ex.Call("int32", "tir.shift_left", (x, y)),
        lambda: ex.Select(x < y, x, y),
        lambda: A[x],
        lambda: ex.PointerType(ex.PrimType("int8"), "shared"),
    ],
)
def test_the_same_form_is_the_same_object(make: Callable[[], Any]) -> None:
    kept = make()
    assert make() is kept


def test_variables_buffers_and_statements_are_not_interned() -> None:
    assert Var("x") is not Var("x")
    assert tb.decl_buffer((4,)) is not tb.decl_buffer((4,))
    assert st.Evaluate(x) is not st.Evaluate(x)


def test_one_true_and_one_point_zero_are_three_constants() -> None:
    assert len({const(1), const(True), const(1.0), IntImm("int64", 1), FloatImm("float64", 1.0)}) == 5
    assert type(IntImm("int32", True).value) is int
    assert ex.Call("int32", "tir.tvm_tuple", (1,)) is not ex.Call("int32", "tir.tvm_tuple", (True,))
    assert ex.Broadcast(x, IntImm("int32", 2)).lanes == 2 and type(ex.Broadcast(x, IntImm("int32", 2)).lanes) is int  # pyright: ignore[reportArgumentType]


def test_signed_zeros_differ_and_a_nan_is_itself() -> None:
    assert FloatImm("float32", 0.0) is not FloatImm("float32", -0.0)
    assert FloatImm("float32", math.nan) is FloatImm("float32", -math.nan)
    assert math.copysign(1, FloatImm("float64", -0.0).value) == -1


@pytest.mark.parametrize("value", [1.5, "1", 2.0, None])
def test_an_integer_constant_takes_integers_only(value: Any) -> None:
    with pytest.raises(TypeError):
        IntImm("int32", value)


@pytest.mark.parametrize(
    ("dtype", "value"), [("int8", 128), ("int8", -129), ("uint8", -1), ("bool", 2), ("uint64", 2**64)]
)
def test_an_integer_constant_must_fit(dtype: str, value: int) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        IntImm(dtype, value)


@pytest.mark.parametrize("node", [ex.Add(x, y), x, A, st.Evaluate(x), Op.get("tir.exp"), Range(0, 4)])
def test_nodes_cannot_be_changed(node: Any) -> None:
    field = type(node)._fields[0]
    with pytest.raises(AttributeError, match="immutable"):
        setattr(node, field, None)
    with pytest.raises(AttributeError, match="immutable"):
        delattr(node, field)
    with pytest.raises(AttributeError):
        node.other = 1


def test_replace_makes_a_changed_copy_and_returns_the_node_when_nothing_changes() -> None:
    s = st.Evaluate(x)
    assert s.replace(value=x) is s
    assert s.replace(value=y).value is y and s.value is x
    with pytest.raises(TypeError, match="has no field 'vale'"):
        s.replace(vale=y)


def test_operands_of_different_types_are_refused() -> None:
    with pytest.raises(TypeError, match="operands of one type"):
        ex.Add(x, const(1, "int64"))
    with pytest.raises(TypeError, match="takes bools"):
        ex.And(x, y)


def test_a_pool_lets_go_of_what_nobody_holds() -> None:
    pool: dict[Any, Any] = ex.Add._pool  # pyright: ignore[reportAttributeAccessIssue]
    gc.collect()
    before = len(pool)
    kept = [ex.Add(x, IntImm("int32", k)) for k in range(100)]
    assert len(pool) == before + 100
    del kept
    assert len(pool) == before


def test_a_chain_of_any_depth_is_built_and_let_go() -> None:
    pool: dict[Any, Any] = ex.Add._pool  # pyright: ignore[reportAttributeAccessIssue]
    others = len(pool)  # that caches and programs of this process keep
    e: ex.PrimExpr = x
    for k in range(100_000):
        e = ex.Add(e, IntImm("int32", k))
    assert len(pool) >= 100_000
    del e
    assert len(pool) <= others + 100


def test_threads_that_build_the_same_nodes_get_the_same_objects() -> None:
    found: list[list[Any]] = [[] for _ in range(4)]
    start = threading.Barrier(4)

    def build(mine: list[Any]) -> None:
        start.wait()
        for k in range(2000):
            # The first is dropped at once and made again, so that entries go while others come.
            ex.Mul(x, IntImm("int32", k))
            mine.append(ex.Mul(x, IntImm("int32", k)))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=build, args=(f,)) for f in found]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    assert all(a is b for other in found[1:] for a, b in zip(found[0], other, strict=True))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_builds_nodes() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0 if ex.Add(x, y) is ex.Add(x, y) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_an_equation_is_true_when_both_sides_are_the_same_expression() -> None:
    assert bool(x + 1 == x + 1) and not bool(x + 1 == y + 1)
    assert bool(x != y) and not bool(x != x + 0)
    assert isinstance(x == y, ex.EQ)
    assert {x: 1}[x] == 1


def test_other_comparisons_have_no_truth_value() -> None:
    with pytest.raises(ValueError, match="known only when the program runs"):
        bool(x < y)
    with pytest.raises(TypeError, match="cannot be iterated"):
        list(x)


def test_a_frozen_dict_refuses_every_change() -> None:
    d = FrozenDict({"a": 1})
    changes: list[Callable[[], Any]] = [
        lambda: d.__setitem__("b", 1), lambda: d.__delitem__("a"), d.clear, lambda: d.pop("a"), d.popitem,
        lambda: d.setdefault("b", 1), lambda: d.update(b=1), lambda: d.__ior__({"b": 1}),
    ]  # fmt: skip
    for change in changes:
        with pytest.raises(TypeError, match="immutable"):
            change()
    assert d == {"a": 1} and {**d, "b": 2} == {"a": 1, "b": 2}


def test_statements_check_what_they_are_given() -> None:
    with pytest.raises(TypeError, match="is bound to a value of type float32"):
        st.LetStmt(x, const(1.0), st.Evaluate(x))
    with pytest.raises(TypeError, match="takes float32, not int32"):
        st.BufferStore(A, const(1), (x,))
    with pytest.raises(ValueError, match="but 2 subscripts were given"):
        st.BufferStore(A, const(1.0), (x, y))
    with pytest.raises(ValueError, match="at least two"):
        st.SeqStmt((st.Evaluate(x),))
    with pytest.raises(TypeError, match="its extent is int64"):
        st.For(x, const(0), const(4, "int64"), 0, st.Evaluate(x))


def test_seq_flattens_and_drops_what_does_nothing() -> None:
    one, two, nothing = st.Evaluate(x), st.Evaluate(y), st.Evaluate(const(0))
    assert st.seq(one, st.seq(two, one)).seq == (one, two, one)  # pyright: ignore[reportAttributeAccessIssue]
    assert st.seq(one, nothing) is one
    assert st.seq(nothing) is nothing
    assert st.is_no_op(st.seq())


# -- ranges, regions, subscripts ----------------------------------------------------------------


def test_a_range_is_given_by_its_ends_or_by_its_length() -> None:
    assert (Range(8).min, Range(8).extent) == (const(0), const(8))
    assert Range(2, 8).extent is const(6)
    assert Range(x, x + 4).extent is const(4)
    assert Range.from_min_extent(x, 4).min is x
    assert Range(x, y).extent is y - x


def test_subscripts_mean_loads_regions_and_vectors() -> None:
    b = tb.decl_buffer((8, 4), name="B")
    assert isinstance(b[x, 1], ex.BufferLoad)
    region = b[x, 0:4]
    assert (
        isinstance(region, st.BufferRegion)
        and region.region[1].extent is const(4)
        and region.region[0].extent is const(1)
    )
    assert b[x, :].region[1].extent is b.shape[1]
    vector = b[x, 0:4:1]
    assert isinstance(vector, ex.BufferLoad) and vector.dtype == "float32x4"
    assert b[0, 0:4:2].dtype == "float32x2"
    with pytest.raises(ValueError, match="2 dimensions, but 1 subscript was given; write"):
        b[0]
    with pytest.raises(TypeError, match="subscripts are integers"):
        b[0, 1.0]
    with pytest.raises(ValueError, match="constant number of lanes"):
        b[0, 0:x:1]


def test_a_buffer_knows_strides_and_offsets() -> None:
    b = tb.decl_buffer((2, 3, 4))
    assert [int(s) for s in b.effective_strides()] == [12, 4, 1]
    assert b.offset_of((1, 2, 3)) is const(23)
    assert tb.decl_buffer((4, 4), strides=(8, 1), elem_offset=5).offset_of((1, 1)) is const(14)
    assert [int(r.extent) for r in b.full_region().region] == [2, 3, 4]


# -- data types ---------------------------------------------------------------------------------

SCALARS = [
    *(f"{k}{b}" for k in ("int", "uint") for b in (4, 8, 16, 32, 64)), "int1", "float16", "float32", "float64",
    "bfloat16", "bool", "handle", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn",
]  # fmt: skip


@pytest.mark.parametrize("name", SCALARS)
@pytest.mark.parametrize("lanes", [1, 2, 16])
def test_a_type_is_read_back_from_its_text(name: str, lanes: int) -> None:
    kind = DataType(name if lanes == 1 else f"{name}x{lanes}")
    assert kind.lanes == lanes and kind.element == name and DataType(str(kind)) is kind
    assert DataType(f"{name}x{lanes}") is kind
    assert DataType(name).with_lanes(lanes) is kind


@pytest.mark.parametrize(
    ("alias", "name"),
    [("float", "float32"), ("int", "int32"), ("uint", "uint32"), ("uint1", "bool"), ("uint1x4", "boolx4"), ("", "void"),
     ("boolean", "bool"), ("float8_e4m3", "float8_e4m3fn"), ("e5m2_float8", "float8_e5m2")],
)  # fmt: skip
def test_other_spellings_give_the_same_type(alias: str, name: str) -> None:
    assert DataType(alias) is DataType(name) and str(DataType(alias)) == name


@pytest.mark.parametrize(
    "text",
    [
        "int",
        "float33",
        "int08",
        "int8x0",
        "int8x04",
        "int8x-1",
        "int8\n",
        "int８",
        "complex64",
        "Int8",
        "int8x",
        "float8",
    ][1:],
)
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="unknown data type"):
        DataType(text)


@given(some.text(max_size=8))
def test_any_text_is_a_type_with_one_spelling_or_refused(text: str) -> None:
    try:
        kind = DataType(text)
    except ValueError:
        return
    assert DataType(str(kind)) is kind


def test_the_kind_of_a_type_is_exactly_one() -> None:
    for name in SCALARS:
        kind = DataType(name)
        assert kind.is_int + kind.is_uint + kind.is_bool + kind.is_float + kind.is_handle == 1
        assert kind.is_integer is (kind.is_int or kind.is_uint)
        assert kind.bytes == max(1, kind.bits // 8)


def test_ranges_of_integer_types() -> None:
    assert int_range(DataType("int8")) == (-128, 127)
    assert int_range(DataType("uint64")) == (0, 2**64 - 1)
    assert int_range(DataType("bool")) == (0, 1)
    with pytest.raises(ValueError, match="not an integer type"):
        int_range(DataType("float32"))
