"""Two programs, compared on random arguments: what differs is found and named, and what does not is not."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tscript
from tscript.equivalence import Tolerance, compare, demand, first_difference
from tscript.equivalence.arguments import Arguments
from tscript.ir.buffer import decl_buffer
from tscript.ir.construct import const
from tscript.ir.function import PrimFunc
from tscript.ir.stmt import Evaluate
from tscript.parser import from_source
from tscript.schedule import Schedule
from tscript.script import tir as T
from tscript.support.errors import InterpError
from tscript.testing.random_schedule import RandomSteps
from tscript.testing.watched import WatchedSchedule
from tscript.testing.workloads import conv2d, layer_norm, matmul, small_workloads, softmax


def sums(body: str, n: int = 128, dtype: str = "float32") -> PrimFunc:
    """A product of matrices with a body of its own for one step of a sum."""
    return from_source(f"""
@T.prim_func
def main(A: T.Buffer(({n}, {n}), "{dtype}"), B: T.Buffer(({n}, {n}), "{dtype}"), C: T.Buffer(({n}, {n}), "{dtype}")):
    for i, j, k in T.grid({n}, {n}, {n}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.{dtype}(0)
            {body}
""")


RIGHT = sums("C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]")


def test_a_schedule_of_a_large_product_is_equal_and_only_part_of_it_runs() -> None:
    sch = Schedule(RIGHT)
    i, _, k = sch.get_loops("C")
    _, inner = sch.split(i, [None, 24])
    sch.reorder(k, inner)
    report = tscript.compare(RIGHT, sch)
    assert report.equal and bool(report)
    assert 9 <= report.compared <= 16 and report.elements == 128 * 128


@pytest.mark.parametrize(
    "body",
    [
        "C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]",
        "C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj] * T.if_then_else(vk < 127, T.float32(1), T.float32(0))",
        "C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, T.min(vj + 1, 127)]",
        "C[vi, vj] = C[vi, vj] - A[vi, vk] * B[vk, vj]",
    ],
)
def test_a_wrong_product_differs_at_an_element_that_is_really_different(body: str) -> None:
    wrong = sums(body)
    report = compare(RIGHT, wrong, seed=3)
    assert not report
    found = report.difference
    assert found is not None and found.buffer == "C" and found.function == "main"
    a, b, c = Arguments(RIGHT, 3).fresh()
    expected, got = c.copy(), c.copy()
    tscript.interp.run(RIGHT, a, b, expected)
    tscript.interp.run(wrong, a, b, got)
    assert found.before == expected[found.index] and found.after == got[found.index]
    assert "seed=3" in str(report) and f"C[{found.index[0]}, {found.index[1]}]" in str(report)
    with pytest.raises(AssertionError, match="different"):
        report.require()


def test_an_error_in_the_last_tile_only_is_found() -> None:
    wrong = sums("C[vi, vj] = C[vi, vj] + T.if_then_else(vi < 127, A[vi, vk], T.float32(0)) * B[vk, vj]")
    report = compare(RIGHT, wrong)
    assert report.difference is not None and report.difference.index[0] == 127


def test_a_fault_of_the_second_program_alone_is_a_difference_and_one_of_the_first_is_raised() -> None:
    @T.prim_func
    def fine(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[i] = A[i]

    @T.prim_func
    def beyond(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[i] = A[i + 1]

    report = compare(fine, beyond)
    assert not report and "out of bounds" in str(report)
    with pytest.raises(InterpError, match="out of bounds"):
        compare(beyond, fine)


def test_symbolic_sizes_are_small_and_can_be_given() -> None:
    @T.prim_func
    def shifted(a: T.handle, b: T.handle, s: T.int32):
        n = T.int32()
        A = T.match_buffer(a, (n, n * 2), "int32")
        B = T.match_buffer(b, (n, n * 2), "int32")
        for i, j in T.grid(n, n * 2):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + s

    @T.prim_func
    def first_seven_rows(a: T.handle, b: T.handle, s: T.int32):
        n = T.int32()
        A = T.match_buffer(a, (n, n * 2), "int32")
        B = T.match_buffer(b, (n, n * 2), "int32")
        for i, j in T.grid(T.min(n, 7), n * 2):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + s

    assert compare(shifted, first_seven_rows).sizes == {"n": 5, "s": 5}
    report = compare(shifted, first_seven_rows, sizes={"n": 8})
    assert report.difference is not None and report.difference.index == (7, 0)
    assert "n=8" in str(report)


def test_arguments_lie_in_memory_as_the_parameters_say() -> None:
    def sums(with_fault: bool) -> PrimFunc:
        @T.prim_func
        def spaced(a: T.handle, b: T.handle, c: T.handle):
            n, s0, s1 = T.int32(), T.int32(), T.int32()
            A = T.match_buffer(a, (4, 8), "float32", strides=(32, 3))
            B = T.match_buffer(b, (n, 8), "float32", strides=(s0, s1))
            C = T.match_buffer(c, (4, 8), "float32", strides=(9, 1))
            for i, j in T.grid(4, 8):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj] + B[T.min(vi, n - 1), vj] + T.float32(with_fault) * T.Cast("float32", s1)

        return spaced

    report = compare(sums(False), sums(False))
    assert report and report.sizes == {"n": 5, "s0": 8, "s1": 1} and report.compared == 32
    report = compare(sums(False), sums(True), sizes={"n": 3, "s0": 40, "s1": 5})
    assert not report and report.difference is not None
    assert report.difference.after - report.difference.before == 5
    values = Arguments(sums(False), 0, {"s0": 40, "s1": 5}).fresh()
    assert [v.strides for v in values] == [(128, 12), (160, 20), (36, 4)]
    sch = Schedule(sums(False), check="numeric")
    i, j = sch.get_loops("C")
    sch.cache_read("C", 0, "global")
    sch.vectorize(j)
    sch.parallel(i)
    assert sch.verify()


def test_subscripts_that_are_arguments_stay_in_range() -> None:
    @T.prim_func
    def rows(
        indptr: T.Buffer((9,), "int32"), indices: T.Buffer((20,), "int32"), X: T.Buffer((6,), "float32"),
        Y: T.Buffer((8,), "float32"),
    ):  # fmt: skip
        for i in range(8):
            Y[i] = T.float32(0)
            for j in range(indptr[i + 1] - indptr[i]):
                Y[i] = Y[i] + X[indices[indptr[i] + j]]

    for seed in range(10):
        assert compare(rows, rows, seed=seed)
    filled = Arguments(rows, 0).values
    assert 0 <= filled[1].min() and filled[1].max() < 6
    assert (np.diff(filled[0]) >= 0).all() and filled[0].max() > filled[0].min()


def test_special_values_and_exactness() -> None:
    @T.prim_func
    def kept(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i in range(64):
            B[i] = T.max(A[i], T.float32(-100))

    @T.prim_func
    def as_it_is(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i in range(64):
            B[i] = A[i]

    assert compare(kept, as_it_is)
    assert not compare(kept, as_it_is, special_values=True)

    @T.prim_func
    def third(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i in range(64):
            B[i] = A[i] / T.float32(3)

    @T.prim_func
    def times(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i in range(64):
            B[i] = A[i] * T.float32(1 / 3)

    assert compare(third, times)
    assert not compare(third, times, exact=True)
    assert not compare(third, times, tolerance=Tolerance(relative=1e-12, absolute=0.0), exact=True)


def test_special_values_are_among_few_elements_too() -> None:
    @T.prim_func
    def kept(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = T.max(A[i], T.float32(0))

    @T.prim_func
    def lost(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = T.if_then_else(A[i] > T.float32(0), A[i], T.float32(0))

    assert compare(kept, lost)
    for seed in range(8):
        assert not compare(kept, lost, seed=seed, special_values=True)
    for size, odd in ((1, 0), (2, 1), (64, 6)):
        (drawn,) = Arguments(
            PrimFunc((decl_buffer((size,), "float16", "A"),), Evaluate(const(0))), 1, special=True
        ).values
        assert np.sum(~np.isin(drawn, np.arange(-8, 9) / 8) | (drawn == 0)) >= odd and np.isnan(drawn).any() == (
            odd > 0
        )


def test_what_is_asked_for_must_exist() -> None:
    @T.prim_func
    def spaced(a: T.handle):
        A = T.match_buffer(a, (4, 8), "float32", strides=(16, 1))
        A[0, 0] = T.float32(1)

    @T.prim_func
    def compact(a: T.handle):
        A = T.match_buffer(a, (4, 8), "float32", strides=(8, 1))
        A[0, 0] = T.float32(1)

    @T.prim_func
    def plain(A: T.Buffer((4, 8), "float32")):
        A[0, 0] = T.float32(1)

    @T.prim_func
    def any_stride(a: T.handle):
        s = T.int32()
        A = T.match_buffer(a, (4, 8), "float32", strides=(s, 1))
        A[0, 0] = T.float32(1)

    assert compare(compact, plain) and compare(plain, compact) and compare(plain, any_stride)
    for before, after in ((spaced, plain), (plain, spaced)):
        with pytest.raises(ValueError, match="takes other parameters"):
            compare(before, after)
    with pytest.raises(ValueError, match="no size 'n' to give a value to: there are none"):
        compare(plain, plain, sizes={"n": 4})
    with pytest.raises(ValueError, match="no size 'n' to give a value to: they are s"):
        Schedule(any_stride).verify(sizes={"n": 4})
    with pytest.raises(ValueError, match="a seed of arguments is 0 or more"):
        compare(plain, plain, seed=-1)


def test_modules_are_compared_function_by_function_and_must_match() -> None:
    small = matmul(4, 4, 4).func
    both = tscript.IRModule({"first": small, "second": RIGHT})
    wrong = tscript.IRModule({"first": small, "second": sums("C[vi, vj] = A[vi, vk]")})
    assert compare(both, both)
    found = compare(both, wrong).difference
    assert found is not None and found.function == "second"
    with pytest.raises(ValueError, match="other functions"):
        compare(both, small)
    with pytest.raises(ValueError, match="other parameters"):
        compare(small, RIGHT)
    with pytest.raises(TypeError, match="a function, a module or a schedule"):
        compare(small, 3)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("made", [softmax(1000, 50), conv2d(30, 4, 8), layer_norm(1000, 60)], ids=lambda w: w.name)
def test_what_is_left_of_a_large_program_gives_the_same_elements(made: Any) -> None:
    report = compare(made.func, made.func)
    assert report and report.compared < report.elements / 8
    sch = Schedule(made.func)
    for block in sch.get_child_blocks(sch.get_block("root")):
        sch.split(sch.get_loops(block)[0], [None, 7])
    assert compare(made.func, sch)


@pytest.mark.parametrize("seed", range(25))
def test_cut_random_schedules_equal_the_whole_program(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that are cut, as if they were large, leave at chosen elements what they leave when they run whole."""
    workloads = small_workloads()
    workload = workloads[seed % len(workloads)]
    sch = WatchedSchedule(workload.func, seed=seed + 1)
    RandomSteps(random.Random(seed)).run(sch, 6)
    monkeypatch.setattr("tscript.equivalence.comparison.WHOLE", 0)
    assert compare(workload.func, sch, seed=seed)
    assert compare(sch, workload.func, seed=seed)


def test_a_cut_leaves_out_what_is_not_needed_and_keeps_what_overwrites() -> None:
    @T.prim_func
    def two(A: T.Buffer((1000,), "float32"), B: T.Buffer((1000,), "float32")):
        for i in range(1000):
            B[i] = A[i]
        for i in range(1000):
            B[999 - i] = B[999 - i] + A[i]

    masks = [np.arange(1000) == 7]
    cut = demand.Cut(two, {1: masks}, {})
    assert cut.work == cut.whole_work == 2000
    a = np.arange(1000, dtype="float32")
    b, c = np.zeros(1000, "float32"), np.zeros(1000, "float32")
    tscript.interp.run(two, a, b)
    tscript.interp.run(cut.function, a, c)
    assert c[7] == b[7] == 7 + 992
    assert np.count_nonzero(c) == 1


def test_a_program_that_is_no_subscripts_only_runs_whole() -> None:
    @T.prim_func
    def until(A: T.Buffer((1000, 200), "int32")):
        n = T.alloc_buffer((1,), "int32")
        n[0] = 0
        while n[0] < 1000:
            for j in range(200):
                A[n[0], j] = n[0]
            n[0] = n[0] + 1

    report = compare(until, until)
    assert report and report.compared == report.elements == 200_000


def test_tolerances() -> None:
    ones = np.array([1.0, 2.0, 1e-4], "float32")
    assert first_difference(ones, ones) is None
    assert first_difference(ones + np.float32(1e-5), ones, Tolerance(of_largest=1e-5)) is None
    assert first_difference(ones + np.float32(1e-4), ones, Tolerance(of_largest=1e-5)) == (0,)
    nan = np.array([np.nan, np.inf, 0.0], "float32")
    assert first_difference(nan, nan, Tolerance(relative=1.0)) is None
    assert first_difference(-nan, nan, Tolerance(relative=1.0)) == (1,)
    whole = np.array([1, 2], "int32")
    assert first_difference(whole + 1, whole, Tolerance(absolute=5.0)) == (0,)


@T.prim_func
def total(A: T.Buffer((8,), "int32"), S: T.Buffer((1,), "int32")):
    for i in range(8):
        S[0] = S[0] + A[i]


@T.prim_func
def total_at_once(A: T.Buffer((8,), "int32"), S: T.Buffer((1,), "int32")):
    for i in T.parallel(8):
        S[0] = S[0] + A[i]


def test_iterations_that_meet_in_one_program_only_are_a_difference() -> None:
    report = compare(total, total_at_once)
    assert not report and "its iterations race" in str(report)
    # What races already is no fault of the other program.
    assert compare(total_at_once, total_at_once).equal
    assert compare(total_at_once, total).equal
