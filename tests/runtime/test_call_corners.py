"""Corners of calling: sizes that do not fit, memory that is shared in odd ways, arrays of other kinds, threads."""

from __future__ import annotations

import gc
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import tscript
from tscript import nd
from tscript.runtime import CompiledFunction
from tscript.script import ir as I
from tscript.script import tir as T
from tscript.support.errors import AssertFailed, CallError, DivisionByZero


@I.ir_module
class Kernels:
    @T.prim_func
    def fill(a: T.handle):
        n = T.int32()
        m = T.int64()
        A = T.match_buffer(a, (n, m), "float32")
        for i in range(n):
            for j in range(m):
                A[i, j] = T.float32(1)

    @T.prim_func
    def outer(a: T.handle, c: T.handle, b: T.handle):
        n = T.int64()
        m = T.int64()
        A = T.match_buffer(a, (n, 0), "float32")
        C = T.match_buffer(c, (m, 0), "float32")
        B = T.match_buffer(b, (n * m,), "float32")
        for i in range(n * m):
            B[i] = T.float32(1)

    @T.prim_func
    def double(a: T.handle, b: T.handle):
        T.func_attr({"tir.noalias": True})
        n = T.int32()
        m = T.int32()
        s0, s1, t0, t1 = T.int32(), T.int32(), T.int32(), T.int32()
        A = T.match_buffer(a, (n, m), "float32", strides=(s0, s1))
        B = T.match_buffer(b, (n, m), "float32", strides=(t0, t1))
        for i, j in T.grid(n, m):
            B[i, j] = A[i, j] * T.float32(2)

    @T.prim_func
    def add(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        T.func_attr({"tir.noalias": True})
        for i in range(8):
            C[i] = A[i] + B[i]

    @T.prim_func
    def nothing():
        T.evaluate(0)

    @T.prim_func
    def answer() -> T.int64:
        T.ret(T.int64(42))

    @T.prim_func
    def spin(A: T.Buffer((1024,), "float64"), rounds: T.int64) -> T.float64:
        for _r in range(rounds):
            for i in range(1024):
                A[i] = T.sqrt(A[i] + T.float64(1))
        T.ret(A[1023])

    @T.prim_func
    def checked(x: T.int32, y: T.int32) -> T.int32:
        with T.Assert(x < 100, "x is too large"):
            T.ret(x // y)

    @T.prim_func
    def through(p: T.handle("float32")):
        A = T.decl_buffer((8,), "float32", data=p)
        A[0] = T.float32(1)


@pytest.fixture(scope="module")
def lib() -> tscript.runtime.Module:
    return tscript.build(Kernels)


def refused(call, text: str) -> None:
    with pytest.raises(CallError, match=re.escape(text)):
        call()


def slowly(lib: tscript.runtime.Module, name: str) -> CompiledFunction:
    """The same function with its checks in Python."""
    return getattr(lib[name], "__self__")  # noqa: B009


def both(lib: tscript.runtime.Module, name: str) -> list:
    return [lib[name], slowly(lib, name)]


def test_sizes_that_do_not_fit_their_variable_are_refused(lib) -> None:
    for f in both(lib, "fill"):
        # No memory is behind an array without elements, so it can be of any length.
        refused(
            lambda f=f: f(np.zeros((1 << 31, 0), np.float32)),
            "dimension 0 is 2147483648, but n is an int32",
        )
        f(np.zeros(((1 << 31) - 1, 0), np.float32))
        f(np.zeros((0, 1 << 40), np.float32))
    step = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (1, 1), (4 << 40, 4))
    for f in both(lib, "double"):
        refused(lambda f=f: f(step, np.zeros((1, 1), np.float32)), "stride 0 is 1099511627776, but s0 is an int32")


def test_products_of_sizes_do_not_wrap_around(lib) -> None:
    # 2 ** 32 * 2 ** 32 is 0 in 64 bits.
    long = np.zeros((1 << 32, 0), np.float32)
    for f in both(lib, "outer"):
        refused(
            lambda f=f: f(long, long, np.zeros(0, np.float32)),
            "dimension 0 is 0, but n * m is 18446744073709551616",
        )
        b = np.zeros(6, np.float32)
        f(long[:2], long[:3], b)
        assert b.sum() == 6


def test_strided_arrays_that_interleave_are_no_overlap_and_those_that_touch_are(lib) -> None:
    for f in both(lib, "double"):
        base = np.arange(48, dtype=np.float32).reshape(6, 8)
        want = base[:, ::2] * 2
        f(base[:, ::2], base[:, 1::2])
        np.testing.assert_array_equal(base[:, 1::2], want)
        f(base[:3, ::-1], base[3:])
        np.testing.assert_array_equal(base[3:], base[:3, ::-1] * 2)
        refused(lambda f=f, b=base: f(b[1:4], b[:3]), "its memory overlaps argument 1 `A`")
        refused(lambda f=f, b=base: f(b[:3, 0::2], b[:3, 2:6]), "its memory overlaps argument 1 `A`")
        f(base.T[:3, :2], np.zeros((3, 2), np.float32, order="F"))


def test_outputs_whose_elements_share_memory_are_refused(lib) -> None:
    strided = np.lib.stride_tricks.as_strided
    a = np.ones((3, 4), np.float32)
    row = np.zeros(16, np.float32)
    for f in both(lib, "double"):
        for steps in ((0, 4), (4, 4), (8, 4), (4, 0)):
            refused(lambda f=f, s=steps: f(a, strided(row, (3, 4), s)), "argument 2 `B` of double: the kernel writes")
        out = strided(row, (3, 4), (16, 4))
        f(a, out)
        assert (out == 2).all()
        f(np.broadcast_to(np.float32(3), (3, 4)), out)  # inputs may
        assert (out == 6).all()
        f(a[:1], strided(row, (1, 4), (0, 4)))
        f(a[:0], strided(row, (0, 4), (0, 0)))


def test_arrays_without_elements_overlap_nothing(lib) -> None:
    base = np.ones((4, 4), np.float32)
    for f in both(lib, "double"):
        f(base[2:2], base[2:2])
        f(base[:, :0], base[:, :0])


def test_subclasses_are_taken_and_masked_arrays_are_not(lib, tmp_path: Path) -> None:
    class Mine(np.ndarray):
        pass

    a, c = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    file = tmp_path / "data"
    a.tofile(file)
    for f in both(lib, "add"):
        f(a.view(Mine), np.memmap(file, np.float32, "r"), c.view(Mine))
        np.testing.assert_array_equal(c, a * 2)
        refused(lambda f=f: f(a, a, np.memmap(file, np.float32, "r")), "argument 3 `C` of add: the kernel writes this")
        written = np.memmap(file.with_name("out"), np.float32, "w+", shape=(8,))
        f(a, a, written)
        np.testing.assert_array_equal(written, a * 2)
        refused(lambda f=f: f(np.ma.masked_less(a, 3), a, c), "argument 1 `A` of add: a masked array has elements")
        refused(lambda f=f: f(a.astype(">f4"), a, c), "argument 1 `A` of add: expected float32[8], got >f4[8]")
        odd = np.zeros(33, np.uint8)[1:].view(np.float32)
        refused(lambda f=f, odd=odd: f(odd, a, c), "not aligned to 4 bytes")
        refused(lambda f=f: f(a.astype("M8[s]"), a, c), "expected float32[8]")
        refused(lambda f=f: f(np.array([None] * 8), a, c), "expected float32[8]")


class Elsewhere:
    """An array of a library whose memory is on a GPU."""

    def __dlpack__(self, **_: object) -> object:
        raise AssertionError("nothing is fetched from a device that the kernel cannot read")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 1


def test_arrays_on_other_devices_are_refused_by_the_name_of_the_device(lib) -> None:
    a = np.zeros(8, np.float32)
    refused(lambda: lib["add"](a, Elsewhere(), a), "argument 2 `B` of add: expected an array in the memory of the CPU")
    refused(lambda: lib["add"](a, Elsewhere(), a), "got one on cuda(1)")


def test_a_pointer_that_is_written_through_needs_a_writable_array(lib) -> None:
    frozen = np.zeros(8, np.float32)
    lib["through"](frozen)
    frozen.flags.writeable = False
    refused(lambda: lib["through"](frozen), "argument 1 `p` of through: the kernel writes this array")


def test_keyword_arguments_are_refused(lib) -> None:
    a = np.zeros(8, np.float32)
    for call in (lib["add"], slowly(lib, "add"), lambda **k: lib["add"](a, **k)):
        with pytest.raises(TypeError, match="keyword argument"):
            call(A=a)


def test_functions_without_arguments_and_with_results(lib) -> None:
    assert lib["nothing"]() is None and lib["answer"]() == 42
    refused(lambda: lib["nothing"](1), "nothing takes 0 arguments, not 1: nothing()")
    refused(lambda: lib["add"](), "add takes 3 arguments, not 0")


def test_failures_leave_the_interpreter_unlocked(lib) -> None:
    f = lib["checked"]

    def fail(_: int) -> int:
        count = 0
        for x, y in [(1, 0), (200, 1), (9, 3)] * 200:
            try:
                assert f(x, y) == 3
            except (AssertFailed, DivisionByZero):
                count += 1
        return count

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(fail, range(8), timeout=30)) == [400] * 8


def test_other_threads_run_while_a_kernel_does(lib) -> None:
    a = np.zeros(1024)
    rounds = 1
    while True:
        start = time.perf_counter()
        lib["spin"](a, rounds)
        if time.perf_counter() - start > 0.1:
            break
        rounds *= 4
    worker = threading.Thread(target=lib["spin"], args=(a, rounds))
    ticks = 0
    worker.start()
    while worker.is_alive():
        ticks += 1
    assert ticks > 100  # one switch of threads at the end would give few


@pytest.mark.parametrize("wrap", [np.asarray, nd.array])
def test_arrays_that_nobody_else_holds_live_until_the_kernel_is_done(lib, wrap) -> None:
    stop = threading.Event()

    def churn() -> None:
        # Memory that was given back would soon hold these.
        while not stop.is_set():
            for value in (np.full(1024, -5.0), nd.array(np.full(1024, -5.0))):
                del value
            gc.collect(0)

    other = threading.Thread(target=churn)
    other.start()
    try:
        for _ in range(3):
            held = [wrap(np.zeros(1024))]
            assert lib["spin"](held.pop(), 20_000) == pytest.approx((1 + 5**0.5) / 2)
    finally:
        stop.set()
        other.join()


def test_many_threads_call_one_function(lib) -> None:
    add = lib["add"]

    def storm(seed: int) -> bool:
        a = np.full(8, seed, np.float32)
        out, own = np.zeros(8, np.float32), nd.zeros((8,))
        for i in range(2000):
            b = np.full(8, i, np.float32)
            add(a, b, out)
            add(a, b, own)
            if out[7] != seed + i or np.asarray(own)[0] != seed + i:
                return False
            if i % 50 == 0:
                with pytest.raises(CallError, match="got float64"):
                    add(a, b.astype(np.float64), out)
        return True

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(storm, range(16), timeout=60))


def test_many_threads_call_many_functions() -> None:
    def kernel(i: int) -> tscript.runtime.Module:
        return tscript.build(
            tscript.script.from_source(
                f"@T.prim_func\ndef main(A: T.Buffer((4,), 'int32'), x: T.int32) -> T.int32:\n"
                f"    for i in range(4):\n        A[i] = x + {i}\n    T.ret(x * {i})\n"
            )
        )

    kernels = [kernel(i) for i in range(16)]

    def storm(seed: int) -> bool:
        a = np.zeros(4, np.int32)
        for i in range(1500):
            k = (seed + i) % 16
            if kernels[k]["main"](a, i) != i * k or a[3] != i + k:
                return False
        return True

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(storm, range(16), timeout=60))
