"""Calling built functions: what is accepted, and what is said about the rest."""

from __future__ import annotations

import array
import re

import numpy as np
import pytest

import tscript
from tscript import nd
from tscript.script import ir as I
from tscript.script import tir as T
from tscript.support.errors import BuildError, CallError


@I.ir_module
class Kernels:
    @T.prim_func
    def mm(A: T.Buffer((4, 4), "int64"), B: T.Buffer((4, 4), "int64"), C: T.Buffer((4, 4), "int64")):
        T.func_attr({"tir.noalias": True})
        for i, j, k in T.grid(4, 4, 4):
            if k == 0:
                C[i, j] = T.int64(0)
            C[i, j] = C[i, j] + A[i, k] * B[k, j]

    @T.prim_func
    def scale(a: T.handle, b: T.handle, s: T.float32, n: T.int32):
        m = T.int32()
        A = T.match_buffer(a, (m, n), "float32")
        B = T.match_buffer(b, (m, n * 2), "float32")
        for i, j in T.grid(m, n):
            B[i, j * 2] = A[i, j] * s

    @T.prim_func
    def strided(a: T.handle, b: T.handle):
        s0 = T.int32()
        s1 = T.int32()
        A = T.match_buffer(a, (3, 4), "float32", strides=(s0, s1))
        B = T.match_buffer(b, (3, 4), "float32")
        for i, j in T.grid(3, 4):
            B[i, j] = A[i, j]

    @T.prim_func
    def scalars(x: T.int8, y: T.uint64, z: T.bool, w: T.float64, out: T.Buffer((4,), "float64")):
        out[0] = T.Cast("float64", x)
        out[1] = T.Cast("float64", y)
        out[2] = T.Cast("float64", z)
        out[3] = w

    @T.prim_func
    def zero_dim(x: T.Buffer((), "float32"), y: T.Buffer((), "float32")):
        y[()] = x[()] + T.float32(1)

    @T.prim_func
    def aligned(a: T.handle):
        A = T.match_buffer(a, (8,), "float32", align=256)
        A[0] = T.float32(1)


@pytest.fixture(scope="module")
def lib() -> tscript.runtime.Module:
    return tscript.build(Kernels)


def eye(dtype: str = "int64") -> np.ndarray:
    return np.eye(4, dtype=dtype)


def refused(call, text: str) -> None:
    with pytest.raises(CallError, match=re.escape(text)):
        call()


def test_numpy_arrays_nd_arrays_and_other_buffers_are_taken_without_a_copy(lib) -> None:
    a = np.arange(16).reshape(4, 4)
    for wrap in (lambda x: x, nd.array, lambda x: memoryview(np.ascontiguousarray(x))):
        c = nd.zeros((4, 4), "int64")
        lib["mm"](wrap(a), wrap(eye()), c)
        np.testing.assert_array_equal(c.numpy(), a)
    raw = array.array("f", [0.0])
    lib["zero_dim"](np.array(2, np.float32), np.frombuffer(raw, np.float32)[0:1].reshape(()))
    assert raw[0] == 3


class FirstDlpack:
    """An array of a library that knows only the first version of DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, stream: object = None) -> object:
        return self.array.__dlpack__(stream=stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def test_outputs_may_come_by_dlpack(lib) -> None:
    a, c = np.arange(16).reshape(4, 4), np.zeros((4, 4), np.int64)
    lib["mm"](FirstDlpack(a), nd.array(eye()), FirstDlpack(c))
    np.testing.assert_array_equal(c, a)


def test_wrong_types_shapes_and_ranks_name_argument_expectation_and_remedy(lib) -> None:
    mm, c = lib["mm"], np.zeros((4, 4), np.int64)
    refused(
        lambda: mm(eye("int32"), eye(), c),
        "argument 1 `A` of mm: expected int64[4, 4], got int32[4, 4]; use A.astype('int64')",
    )
    refused(
        lambda: mm(eye(), np.zeros((4, 5), np.int64), c), "argument 2 `B` of mm: expected int64[4, 4], got int64[4, 5]"
    )
    refused(
        lambda: mm(eye(), eye(), c.ravel()),
        "argument 3 `C` of mm: expected 2 dimensions, int64[4, 4], got 1, int64[16]",
    )
    refused(lambda: mm(eye(), np.zeros((2, 8), np.int64), c), "B.reshape((4, 4))")
    refused(lambda: mm(eye().astype(">i8"), eye(), c), "use A.astype('int64')")
    refused(lambda: mm(eye(), eye(), np.zeros((4, 4), np.complex64)), "got complex64[4, 4]")


def test_objects_that_are_no_arrays_are_refused_with_advice(lib) -> None:
    mm, c = lib["mm"], np.zeros((4, 4), np.int64)
    refused(lambda: mm(eye().tolist(), eye(), c), "got a list; use np.array(A, dtype='int64')")
    refused(lambda: mm(None, eye(), c), "argument 1 `A` of mm: expected int64[4, 4], got None; pass an array")
    refused(lambda: mm(eye(), 3, c), "argument 2 `B` of mm: expected int64[4, 4], got the int 3")
    refused(lambda: mm(eye(), object(), c), "got an object; pass a NumPy array")
    refused(lambda: mm(eye(), eye()), "mm takes 3 arguments, not 2: mm(A: int64[4, 4], B: int64[4, 4], C: int64[4, 4])")
    refused(lambda: lib["zero_dim"](np.float32(1), np.zeros((), np.float32)), "got the NumPy scalar np.float32(1.0)")


def test_arrays_that_are_not_compact_need_strides_in_the_declaration(lib) -> None:
    mm, c = lib["mm"], np.zeros((4, 4), np.int64)
    refused(lambda: mm(eye().T[:, ::-1], eye(), c), "use np.ascontiguousarray(A)")
    refused(lambda: mm(np.asfortranarray(np.arange(16).reshape(4, 4)), eye(), c), "compact row-major")
    base = np.arange(48, dtype=np.float32).reshape(6, 8)
    for view in (base[::2, ::2], base[:3, 4:], base.T[:3, :4], base[::-2, ::-2], np.broadcast_to(base[0, :4], (3, 4))):
        out = np.zeros((3, 4), np.float32)
        lib["strided"](view, out)
        np.testing.assert_array_equal(out, view)


def test_views_at_an_offset_are_read_where_they_start(lib) -> None:
    base = np.arange(32)
    c = np.zeros((4, 4), np.int64)
    lib["mm"](base[16:].reshape(4, 4), eye(), c)
    np.testing.assert_array_equal(c.ravel(), base[16:])
    odd = np.zeros(129, np.uint8)[1:].view(np.int64).reshape(4, 4)
    refused(lambda: lib["mm"](odd, eye(), c), "not aligned to 8 bytes; use A.copy()")


def test_an_array_that_is_written_must_be_writable(lib) -> None:
    frozen = np.zeros((4, 4), np.int64)
    frozen.flags.writeable = False
    c = np.zeros((4, 4), np.int64)
    lib["mm"](frozen, frozen, c)
    refused(
        lambda: lib["mm"](eye(), eye(), frozen),
        "argument 3 `C` of mm: the kernel writes this array, but it is read-only",
    )


def test_arrays_that_overlap_are_refused_where_the_kernel_promises_that_none_do(lib) -> None:
    a = np.zeros((8, 4), np.int64)
    refused(
        lambda: lib["mm"](a[:4], eye(), a[2:6]),
        "argument 3 `C` of mm: the kernel writes it, and its memory overlaps argument 1 `A`",
    )
    lib["mm"](a[:4], a[:4], a[4:])


def test_symbolic_sizes_agree_over_arguments_and_with_scalars(lib) -> None:
    scale = lib["scale"]
    a, b = np.ones((2, 3), np.float32), np.zeros((2, 6), np.float32)
    scale(a, b, 2, 3)
    assert b.sum() == 12
    refused(lambda: scale(a, b, 2, 4), "argument 1 `A` of scale: dimension 1 is 3, but n is 4 (n = 4 by argument 4)")
    refused(
        lambda: scale(a, np.zeros((3, 6), np.float32), 2, 3), "dimension 0 is 3, but m is 2 (m = 2 by argument 1 `A`)"
    )
    refused(
        lambda: scale(a, np.zeros((2, 5), np.float32), 2, 3), "dimension 1 is 5, but n * 2 is 6 (n = 3 by argument 4)"
    )


def test_scalars_are_checked_for_kind_and_range(lib) -> None:
    f, out = lib["scalars"], np.zeros(4)
    f(-128, 2**64 - 1, True, 1.5, out)
    assert out.tolist() == [-128, 2.0**64, 1, 1.5]
    f(np.int64(3), 0, 0, np.float32(0.5), out)
    assert out.tolist() == [3, 0, 0, 0.5]
    refused(
        lambda: f(128, 0, True, 0.0, out),
        "argument 1 `x` of scalars: 128 does not fit in int8, which holds -128 to 127",
    )
    refused(
        lambda: f(1.0, 0, True, 0.0, out),
        "argument 1 `x` of scalars: expected an integer (int8), got the float 1.0; use int(x)",
    )
    refused(lambda: f(1, -1, True, 0.0, out), "does not fit in uint64")
    refused(lambda: f(1, 1, 2, 0.0, out), "argument 3 `z` of scalars: expected a bool, got the int 2")
    refused(lambda: f(1, 1, True, "x", out), "expected a number (float64), got the str 'x'")
    refused(lambda: f(np.zeros(3), 1, True, 1, out), "expected an integer (int8), got an array of shape (3,)")


def test_alignment_is_demanded_where_the_declaration_does(lib) -> None:
    base = np.zeros(256, np.float32)
    start = -base.__array_interface__["data"][0] // 4 % 64
    lib["aligned"](base[start : start + 8])
    refused(lambda: lib["aligned"](base[start + 1 : start + 9]), "aligned to 256 bytes")


def test_a_size_that_no_argument_gives_is_refused_when_building() -> None:
    @T.prim_func(check_well_formed=False)
    def main(a: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n * 2,), "float32")
        A[0] = T.float32(1)

    with pytest.raises(BuildError, match="`n` in the declaration of buffer A cannot be inferred"):
        tscript.build(main)


def test_empty_arrays_are_fine() -> None:
    @T.prim_func
    def main(a: T.handle, B: T.Buffer((0, 3), "float32")):
        n = T.int32()
        A = T.match_buffer(a, (n, 3), "float32")
        for i, j in T.grid(n, 3):
            A[i, j] = T.float32(1)
        for i, j in T.grid(0, 3):
            B[i, j] = T.float32(1)

    tscript.build(main)(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32))


def test_functions_outlive_their_module_and_the_other_way_round() -> None:
    f = tscript.build(Kernels)["mm"]
    c = np.zeros((4, 4), np.int64)
    for _ in range(3):
        tscript.build(Kernels)
    f(eye(), eye(), c)
    assert c.sum() == 4


def test_pointers_are_taken_from_arrays_and_addresses() -> None:
    @T.prim_func
    def main(p: T.handle("float32"), n: T.int32):
        A = T.decl_buffer((8,), "float32", data=p)
        for i in range(n):
            A[i] = T.Cast("float32", i)

    lib = tscript.build(main)
    a = np.zeros(8, np.float32)
    lib(a, 3)
    lib(int(a.__array_interface__["data"][0]) + 16, 3)
    with pytest.raises(CallError, match=r"argument 1 `p` of main: expected an array of float32, got int32\[8\]"):
        lib(a.view(np.int32), 3)
    with pytest.raises(CallError, match=r"np\.ascontiguousarray\(p\)"):
        lib(a[::2], 3)
    assert a.tolist() == [0, 1, 2, 0, 0, 1, 2, 0]
    with pytest.raises(CallError, match="expected an array or an address"):
        lib("x", 1)
