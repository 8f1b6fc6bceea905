"""Data types as functions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tscript.parser.dialect.dtypes as T
from tscript.ir.dtype import int_range
from tscript.ir.expr import Broadcast, Cast, FloatImm, IntImm, PointerType, PrimType, SizeVar, Var
from tscript.parser.dialect import dtype_functions
from tscript.parser.dialect.dtype_functions import dtype_names, find_dtype, stub_text

SCALARS = dtype_functions.SCALARS
INTS = [s for s in SCALARS if s.startswith(("int", "uint"))]
FLOATS = [s for s in SCALARS if "float" in s]


def test_stub_lists_the_names_that_exist() -> None:
    stub = Path(T.__file__).with_suffix(".pyi")
    assert stub.read_text() == stub_text()


@pytest.mark.parametrize("name", dtype_names())
def test_no_argument_makes_a_fresh_variable_of_the_type(name: str) -> None:
    function = getattr(T, name)
    one, two = function(), function()
    assert isinstance(one, Var) and one is not two
    assert one.dtype == ("bool" if name == "boolean" else name)
    assert one.name == ""


def test_is_size_var_makes_a_size_variable() -> None:
    assert isinstance(T.int64(is_size_var=True), SizeVar)
    with pytest.raises(TypeError, match="is_size_var"):
        T.int64(3, is_size_var=True)


@pytest.mark.parametrize("name", INTS)
def test_integers_hold_exactly_their_range(name: str) -> None:
    function = getattr(T, name)
    low, high = int_range(function.dtype)
    assert function(low).value == low
    assert function(high).value == high
    for outside in (low - 1, high + 1):
        with pytest.raises(ValueError, match="does not fit"):
            function(outside)


@pytest.mark.parametrize("name", FLOATS)
def test_floats_take_numbers_and_texts(name: str) -> None:
    function = getattr(T, name)
    value = function(1)
    assert isinstance(value, FloatImm) and value.value == 1.0 and value.dtype == name
    assert function("-inf").value == float("-inf")
    assert function("nan").value != function("nan").value
    with pytest.raises(ValueError, match="no number"):
        function("one")


def test_an_integer_type_refuses_a_fraction() -> None:
    with pytest.raises(TypeError, match="no integer"):
        T.int32(1.5)
    assert T.int32(2.0) is IntImm("int32", 2)


def test_bool_is_true_or_false() -> None:
    assert T.bool(True) is T.boolean(1) is IntImm("bool", 1)


@pytest.mark.parametrize("name", [n for n in dtype_names() if "x" in n])
def test_a_number_fills_all_lanes_of_a_vector(name: str) -> None:
    value = getattr(T, name)(1)
    assert isinstance(value, Broadcast) and value.dtype == name


def test_an_expression_is_cast_and_a_constant_folds() -> None:
    x = Var("x", "float32")
    assert T.int32(x) is Cast("int32", x)
    assert T.float32(x) is x
    assert T.int8(T.int32(300)) is IntImm("int8", 44)
    assert T.float32x4(x) is Broadcast(x, 4)


def test_numpy_scalars_are_numbers() -> None:
    assert T.int16(np.int64(7)) is IntImm("int16", 7)
    assert T.float16(np.float32(0.5)) is FloatImm("float16", 0.5)


def test_handle_makes_pointers() -> None:
    assert T.handle().type_annotation is PrimType("handle")
    assert T.handle("int8", "shared").type_annotation is PointerType(PrimType("int8"), "shared")
    assert T.handle("float32").dtype == "handle"


def test_void_has_no_constants() -> None:
    assert T.void().dtype == "void"
    with pytest.raises(TypeError, match="no constants"):
        T.void(1)


def test_lanes_without_a_name_are_found() -> None:
    found = find_dtype("float32x3")
    assert found is not None and found(1.0).dtype == "float32x3"
    assert find_dtype("flot32") is None
    assert find_dtype("handle") is None


def test_a_user_mistake_names_the_type() -> None:
    with pytest.raises(ValueError, match="300 does not fit in int8, which holds -128 to 127"):
        T.int8(300)


def test_dialect_loads_without_numpy_extras() -> None:
    heavy = "[m for m in ('llvmlite', 'xgboost', 'cupy') if m in sys.modules]"
    code = f"import sys, tscript.parser.dialect.nodes; print({heavy})"
    root = Path(T.__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True)
    assert done.stdout.strip() == "[]"
