"""Arrays, devices, timers and builds told something they cannot do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tscript
from tscript import nd
from tscript.script import tir as T
from tscript.support.errors import CallError
from tscript.target import Target


@T.prim_func
def plus_one(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        B[i] = A[i] + 1.0


@pytest.mark.parametrize(
    ("make", "error", "what"),
    [
        (lambda: nd.empty((2.5,)), TypeError, "tuple of integers"),  # type: ignore[arg-type]
        (lambda: nd.empty("23"), TypeError, "tuple of integers"),  # type: ignore[arg-type]
        (lambda: nd.zeros(None), TypeError, "tuple of integers"),  # type: ignore[arg-type]
        (lambda: nd.array([1.0], "float32"), TypeError, "a type goes to dtype="),  # type: ignore[arg-type]
        (lambda: nd.zeros((1,), device=tscript.cpu(1)), ValueError, r"cpu\(1\) does not exist"),
        (lambda: nd.from_dlpack(3), TypeError, "an int has no memory to share"),
        (lambda: nd.from_dlpack(np.ndarray), TypeError, "the class ndarray has no memory"),
        (lambda: tscript.cpu("x"), TypeError, "and a number"),  # type: ignore[arg-type]
        (lambda: tscript.device("cuda:1", 2), ValueError, "two device numbers"),
        (lambda: Target('{"kind": "llvm", "kind": "c"}'), ValueError, "'kind' is given twice"),
    ],
)
def test_arrays_devices_and_targets_refuse_what_they_would_misread(
    make: Callable[[], Any], error: type[Exception], what: str
) -> None:
    with pytest.raises(error, match=what):
        make()


def test_integers_of_numpy_are_sizes_and_numbers() -> None:
    assert nd.empty(np.int64(3)).shape == (3,)
    assert nd.zeros((np.int8(2), 3)).shape == (2, 3)
    assert tscript.cuda(np.int64(1)) == tscript.cuda(1)


@pytest.mark.parametrize("dtype", ["float32", "int8", "bfloat16"])
def test_a_capsule_is_taken_once(dtype: str) -> None:
    a = nd.zeros((2, 3), dtype)
    for capsule in (a.to_dlpack(), a.__dlpack__(max_version=(1, 0))):
        b = nd.from_dlpack(capsule)
        assert (b.shape, b.dtype) == ((2, 3), dtype)
        b[0, 1] = 1
        assert float(a[0, 1]) == 1.0
        a[0, 1] = 0
        with pytest.raises(BufferError, match="used before"):
            nd.from_dlpack(capsule)


def test_timers_refuse_what_they_cannot_measure() -> None:
    lib = tscript.build(plus_one)
    for options, error in (
        ({"number": 0}, ValueError),
        ({"number": 1.5}, TypeError),
        ({"repeat": "2"}, TypeError),
        ({"dev": tscript.cuda(0)}, ValueError),
        ({"dev": "cpu"}, ValueError),
        ({"f_preproc": "none_such"}, ValueError),
    ):
        with pytest.raises(error):
            lib.time_evaluator("plus_one", **options)


def test_pipelines_and_names_that_are_none_are_refused() -> None:
    for pipeline in (3, [3], ["default"]):
        with pytest.raises(TypeError, match="pipeline"):
            tscript.build(plus_one, pipeline=pipeline)  # type: ignore[arg-type]
    for name in ("", 3):
        with pytest.raises(ValueError, match="name of a function"):
            tscript.build(plus_one, name=name)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name", ["größe", "a b", "a.b", "malloc", "llvm.sqrt.f32", "nul\0", "\\xf6", "ö", "line\n", 'q"']
)
def test_functions_of_any_name_are_built_exported_and_called(name: str, tmp_path: Any) -> None:
    lib = tscript.build([plus_one.with_attr("global_symbol", name), plus_one])
    path = tmp_path / "lib"
    lib.export_library(path)
    a, b = np.ones(4, np.float32), np.zeros(4, np.float32)
    for module in (lib, tscript.load_module(path)):
        b[:] = 0
        module[name](a, b)
        assert (b == 2).all()


def test_names_that_are_alike_stay_apart() -> None:
    @T.prim_func
    def minus_one(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = A[i] - 1.0

    lib = tscript.build([plus_one.with_attr("global_symbol", "ö"), minus_one.with_attr("global_symbol", "\\xf6")])
    a, b = np.ones(4, np.float32), np.zeros(4, np.float32)
    lib["ö"](a, b)
    assert (b == 2).all()
    lib["\\xf6"](a, b)
    assert (b == 0).all()


@pytest.mark.parametrize("value", [np.ndarray, nd.NDArray, object(), Target("llvm"), tscript.cpu(), {}, b"", plus_one])
def test_whatever_is_no_array_is_a_call_error(value: Any) -> None:
    with pytest.raises(CallError, match="argument 1 `A` of plus_one"):
        tscript.build(plus_one)(value, np.zeros(4, np.float32))


def test_modules_import_modules_and_never_in_a_circle() -> None:
    first, second, third = (tscript.build(plus_one, name=n) for n in ("a", "b", "c"))
    first.import_module(second)
    second.import_module(third)
    assert first.get_function("c", query_imports=True) is third["c"]
    for other in (first, second, third):
        with pytest.raises(ValueError, match="circle"):
            third.import_module(other)
    with pytest.raises(TypeError, match="not an int"):
        first.import_module(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [1j, None, "1.5", np.array(["2020"], "M8[D]")])
def test_arrays_are_filled_with_numbers_only(value: Any) -> None:
    a = nd.zeros((1,))
    with pytest.raises(TypeError, match="takes numbers"):
        a[0] = value
    with pytest.raises(TypeError, match="takes numbers"):
        a.copyfrom(np.asarray(value).reshape(1))
    assert a.numpy().tolist() == [0]
