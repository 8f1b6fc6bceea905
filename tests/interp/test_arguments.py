"""What can be passed to a program, and what is said about what cannot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tscript import interp
from tscript.script import tir as T
from tscript.support.errors import CallError, InterpError


@T.prim_func
def double(A: T.Buffer((4, 3), "float32")):
    for i, j in T.grid(4, 3):
        A[i, j] = A[i, j] * T.float32(2)


@T.prim_func
def count(a: T.handle, b: T.handle):
    n = T.int32()
    m = T.int32()
    A = T.match_buffer(a, (n, m), "int32")
    B = T.match_buffer(b, (n * m,), "int32")
    for i, j in T.grid(n, m):
        B[i * m + j] = A[i, j]


@pytest.mark.parametrize(
    "view",
    [lambda a: a[:, ::-1], lambda a: a[::-1], lambda a: a[::2, 1:], lambda a: a.T[1:4, :4].T[:, ::-1]],
    ids=["reversed", "upside down", "every second", "transposed"],
)
def test_arrays_of_any_strides_change_in_place_and_nothing_beside_them(view: Any) -> None:
    big = np.arange(64, dtype="float32").reshape(8, 8)
    part = view(big[:, :4])[:4, :3] if view(big[:, :4]).shape[0] >= 4 else view(big)[:4, :3]
    want = big.copy()
    spot = np.zeros_like(big, dtype=bool)
    offsets = (part.__array_interface__["data"][0] - big.__array_interface__["data"][0]) // 4
    for i in range(part.shape[0]):
        for j in range(part.shape[1]):
            spot.reshape(-1)[offsets + i * part.strides[0] // 4 + j * part.strides[1] // 4] = True
    want[spot] *= 2
    interp.run(double, part)
    assert (big == want).all()


def test_elements_between_other_fields_of_a_record_are_written_back() -> None:
    records = np.zeros((4, 3), dtype=[("tag", "u1"), ("value", "<f4")])
    records["value"] = 3
    interp.run(double, records["value"])
    assert (records["value"] == 6).all()
    assert (records["tag"] == 0).all()


def test_overlapping_arrays_share_their_elements() -> None:
    @T.prim_func
    def shift(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        for i in range(4):
            B[i] = A[i] + 1

    base = np.array([5, 0, 0, 0, 0], "int32")
    interp.run(shift, base[:4], base[1:])
    assert base.tolist() == [5, 6, 7, 8, 9]


def test_read_only_arrays_may_be_read_and_not_written() -> None:
    @T.prim_func
    def copy(A: T.Buffer((2,), "int32"), B: T.Buffer((2,), "int32")):
        for i in range(2):
            B[i] = A[i]

    a, b = np.array([1, 2], "int32"), np.zeros(2, "int32")
    a.flags.writeable = False
    interp.run(copy, a, b)
    assert b.tolist() == [1, 2]
    b.flags.writeable = False
    with pytest.raises(CallError) as refused:
        interp.run(copy, a, b)
    assert str(refused.value) == (
        "argument 2 `B` of copy: the kernel writes this array, but it is read-only; pass B.copy()"
    )


def test_a_read_only_array_that_is_written_through_a_view_is_refused_before_the_run() -> None:
    @T.prim_func
    def count(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        for i in range(4):
            A[i] = i
        with T.block("b"):
            T.reads()
            T.writes(B[0:4])
            V = T.match_buffer(B[0:4], (4,), "int32")
            V[0] = 1

    a, b = np.zeros(4, "int32"), np.zeros(4, "int32")
    b.flags.writeable = False
    with pytest.raises(CallError, match="argument 2 `B` of count: the kernel writes this array"):
        interp.run(count, a, b)
    assert not a.any()


def test_a_read_only_array_that_is_written_through_a_pointer_stops_the_run() -> None:
    @T.prim_func
    def through(A: T.Buffer((4,), "int32")):
        p: T.handle("int32") = A.data
        B = T.Buffer((4,), "int32", data=p)
        B[0] = 1

    a = np.zeros(4, "int32")
    a.flags.writeable = False
    with pytest.raises(InterpError, match="read-only memory; pass a writeable array") as caught:
        interp.run(through, a)
    assert caught.value.statement == "B[0] = 1"


def test_symbolic_sizes_come_from_the_arrays_and_must_agree() -> None:
    a, b = np.arange(6, dtype="int32").reshape(2, 3), np.zeros(6, "int32")
    interp.run(count, a, b)
    assert b.tolist() == list(range(6))
    with pytest.raises(
        CallError, match=r"argument 2 `B` of count .*dimension 0 must be \(n \* m\) = 6.*got shape \(5,\)"
    ):
        interp.run(count, a, np.zeros(5, "int32"))


def test_zero_sized_arrays_pass() -> None:
    interp.run(count, np.zeros((0, 3), "int32"), np.zeros(0, "int32"))


def test_scalar_and_zero_dimensional_parameters_work() -> None:
    @T.prim_func
    def f(A: T.Buffer((), "float32"), x: T.float32, flag: T.bool):
        if flag:
            A[()] = A[()] + x

    a = np.array(1.0, "float32")
    interp.run(f, a, 0.1, True)
    assert a == np.float32(1) + np.float32(0.1)
    interp.run(f, a, np.float32(5), np.bool_(False))
    assert a == np.float32(1) + np.float32(0.1)


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (
            (np.zeros((4, 3), "float64"),),
            "takes a float32 array of shape (4, 3); got an array of dtype float64; use A.astype('float32')",
        ),
        ((np.zeros((4, 3), ">f4"),), "got an array of dtype >f4"),
        ((np.zeros(13, "float32"),), "takes a float32 array of shape (4, 3), 2 dimensions; got shape (13,)"),
        ((np.zeros(12, "float32"),), "shape (12,); it has the right number of elements: A.reshape((4, 3))"),
        ((np.zeros((4, 4), "float32"),), "dimension 1 must be 3; got shape (4, 4)"),
        ((3.5,), "takes a float32 array of shape (4, 3), not a float; use np.array(A, dtype='float32')"),
        ((None,), "not None; pass an array"),
        ((), "double takes 1 argument (A), not 0"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_with_the_parameter_named(args: tuple[Any, ...], text: str) -> None:
    with pytest.raises(CallError) as caught:
        interp.run(double, *args)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (300, "takes an int8, which holds -128 to 127; got 300"),
        (1.5, "takes an int8, not 1.5 of type float; use int(n)"),
        ("1", "takes an int8"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(value: Any, text: str) -> None:
    @T.prim_func
    def f(n: T.int8) -> T.int8:
        return n

    with pytest.raises(CallError) as caught:
        interp.run(f, value)
    assert text in str(caught.value)
    assert interp.run(f, -128) == -128


def test_declared_strides_must_be_those_of_the_array() -> None:
    @T.prim_func
    def f(a: T.handle):
        s = T.int32()
        A = T.match_buffer(a, (4, 2), "int32", strides=(s, 1))
        for i, j in T.grid(4, 2):
            A[i, j] = s * 100 + i * 10 + j

    big = np.zeros((4, 5), "int32")
    interp.run(f, big[:, 1:3])
    assert big[:, 1:3].tolist() == [[500 + i * 10, 501 + i * 10] for i in range(4)]
    assert (big[:, [0, 3, 4]] == 0).all()
    with pytest.raises(CallError, match=r"takes strides \(\d+, 1\) \(elements\); got \(5, 2\)"):
        interp.run(f, big[:, :4:2])


def test_the_address_of_a_strided_array_cannot_be_used() -> None:
    @T.prim_func
    def f(A: T.Buffer((4,), "int32")):
        V = T.Buffer((2, 2), "int32", data=A.data)
        V[0, 0] = 1

    interp.run(f, np.zeros(4, "int32"))
    with pytest.raises(CallError, match="must be contiguous, because the program uses its address"):
        interp.run(f, np.zeros(8, "int32")[::2])


def test_objects_with_the_buffer_protocol_are_used_in_place() -> None:
    @T.prim_func
    def f(A: T.Buffer((4,), "uint8")):
        A[2] = T.uint8(9)

    raw = bytearray(4)
    interp.run(f, raw)
    assert raw == b"\0\0\x09\0"


def test_a_translated_program_runs_many_times() -> None:
    program = interp.compile(count)
    for n, m in ((1, 1), (2, 5), (4, 3)):
        a, b = np.arange(n * m, dtype="int32").reshape(n, m), np.zeros(n * m, "int32")
        program(a, b)
        assert b.tolist() == list(range(n * m))
        program(np.asfortranarray(a), b[::-1])
        assert b.tolist() == list(range(n * m))[::-1]
