"""Costs against figures worked out by hand."""

from __future__ import annotations

import importlib
from fractions import Fraction
from typing import Any

import pytest

import tscript
from tscript.analysis.cost import Cache, Cost, caches_of, estimate_cost
from tscript.analysis.counting import Loop, share_where
from tscript.analysis.flops import estimate_tir_flops, operations
from tscript.ir.construct import and_, const
from tscript.ir.expr import Var
from tscript.ir.function import PrimFunc
from tscript.ir.tensor_intrin import TensorIntrin
from tscript.schedule import Schedule
from tscript.script import tir as T
from tscript.target.target import Target
from tscript.testing.workloads import matmul, softmax

SMALL = (Cache("L1", 4096), Cache("L2", 32768))


def buffer(cost: Cost, name: str) -> Any:
    """The row of a buffer."""
    return next(b for b in cost.buffers if b.name == name)


@T.prim_func
def conv(X: T.Buffer((10, 10), "float32"), W: T.Buffer((3, 3), "float32"), Y: T.Buffer((8, 8), "float32")) -> None:
    for i, j, r, s in T.grid(8, 8, 3, 3):
        with T.block("Y"):
            vi, vj, vr, vs = T.axis.remap("SSRR", [i, j, r, s])
            with T.init():
                Y[vi, vj] = T.float32(0)
            Y[vi, vj] = Y[vi, vj] + X[vi + vr, vj + vs] * W[vr, vs]


def test_a_matrix_product_as_written() -> None:
    cost = estimate_cost(matmul(64, 64, 64).func, caches=SMALL)
    assert cost.flops == 2 * 64**3
    assert (cost.math_calls, cost.opaque_calls, cost.guards, cost.exact) == (0, 0, 0, True)
    assert cost.iterations == 64 + 64**2 + 64**3
    assert (cost.parallelism, cost.lanes) == (1, 1)
    c, a, b = buffer(cost, "C"), buffer(cost, "A"), buffer(cost, "B")
    assert (a.touched, a.loaded, a.stored) == (64 * 64 * 4, 64**3 * 4, 0)
    assert (b.touched, b.loaded, b.stored) == (64 * 64 * 4, 64**3 * 4, 0)
    # The init stores once for each element.
    assert (c.touched, c.loaded, c.stored) == (64 * 64 * 4, 64**3 * 4, 64**3 * 4 + 64**2 * 4)
    # L1: one run of the loop over k touches a row of A (4 lines), a column of B (64 lines), a line of C: 69 lines are
    # more than 64, one iteration is not. So 64 * 64 runs bring that much each; C comes and goes.
    assert a.traffic["L1"] == 64 * 64 * 4 * 64
    assert b.traffic["L1"] == 64 * 64 * 64 * 64
    assert c.traffic["L1"] == 64 * 64 * 2 * 64
    # L2: one iteration of the loop over i touches a row of A, all of B, a row of C, which fits.
    assert (a.traffic["L2"], b.traffic["L2"], c.traffic["L2"]) == (16384, 16384, 2 * 16384)
    assert cost.intensity == 2 * 64**3 / (4 * 16384)


def test_a_matrix_product_in_tiles() -> None:
    sch = Schedule(matmul(64, 64, 64).func)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    (i0, i1), (j0, j1), (k0, k1) = (sch.split(loop, [None, 16]) for loop in (i, j, k))
    sch.reorder(i0, j0, k0, i1, k1, j1)
    sch.parallel(i0)
    sch.decompose_reduction(block, k0)
    sch.vectorize(j1)
    cost = estimate_cost(sch.mod, caches=SMALL)
    assert cost.flops == 2 * 64**3
    assert (cost.parallelism, cost.lanes, cost.guards) == (4, 16, 0)
    # i0, j0, two loops of the init, k0, i1, k1; the vectorized one is no control flow.
    assert cost.iterations == 4 + 16 + (16 * 16 + 16 * 256) + 64 + 64 * 16 + 64 * 256
    # Three tiles of 16 rows of one line are 3072 bytes: one iteration of k0 fits. All of k0 touches 4 tiles of A, 4 of
    # B, one of C, once in each of the 16 iterations outside. The init touches the tile of C as well, and stores it.
    a, b, c = buffer(cost, "A"), buffer(cost, "B"), buffer(cost, "C")
    assert a.traffic["L1"] == b.traffic["L1"] == 16 * 4 * 1024
    assert c.traffic["L1"] == 16 * (2 * 1024 + 1024)
    assert sum((cost.traffic or {}).values()) > 0
    inner = [loop for loop in cost.loops if loop.name == "k_0"]
    assert [(loop.trips, loop.runs, loop.body_bytes, loop.loop_bytes) for loop in inner] == [(4, 64, 3072, 9 * 1024)]


def test_what_is_made_and_used_within_a_tile_is_small_and_stays_in_the_cache() -> None:
    sch = Schedule(matmul(64, 64, 64).func)
    block = sch.get_block("C")
    copy = sch.cache_write(block, 0, "global")
    i, j, _ = sch.get_loops(block)
    (i0, i1), (j0, j1) = sch.split(i, [None, 8]), sch.split(j, [None, 8])
    sch.reorder(i0, j0, i1, j1)
    sch.reverse_compute_at(copy, j0)
    tile = buffer(estimate_cost(sch.mod), "C_global")
    assert tile.touched == 8 * 8 * 4
    assert tile.traffic == {"L1": 0, "L2": 0, "L3": 0}


def test_a_convolution_reads_its_windows_once() -> None:
    cost = estimate_cost(conv, caches=(Cache("L1", 2048),))
    assert cost.flops == 2 * 8 * 8 * 9
    assert cost.iterations == 8 + 64 + 64 * 3 + 64 * 9
    x, w, y = buffer(cost, "X"), buffer(cost, "W"), buffer(cost, "Y")
    assert (x.touched, x.loaded) == (400, 64 * 9 * 4)
    assert (w.touched, w.loaded) == (36, 64 * 9 * 4)
    assert (y.touched, y.loaded, y.stored) == (256, 64 * 9 * 4, 64 * 9 * 4 + 64 * 4)
    # All of it fits: 400 bytes are 7 lines, 36 are one, 256 are four, which come and go.
    assert (x.traffic["L1"], w.traffic["L1"], y.traffic["L1"]) == (7 * 64, 64, 2 * 4 * 64)


def test_softmax_counts_its_exponentials_apart() -> None:
    cost = estimate_cost(softmax(4, 16).func)
    assert cost.flops == 4 * 4 * 16  # max, subtraction, sum, division
    assert cost.math_calls == 4 * 16
    assert buffer(cost, "T_max").touched == 16
    assert buffer(cost, "T_exp").stored == 4 * 16 * 4
    # Producers and consumers are in the cache together.
    assert buffer(cost, "T_exp").traffic["L2"] == 0


def test_a_guard_takes_away_what_it_keeps_from_running() -> None:
    sch = Schedule(matmul(10, 6, 4).func)
    block = sch.get_block("C")
    i, _, _ = sch.get_loops(block)
    sch.split(i, [None, 4])
    cost = estimate_cost(sch.mod)
    assert cost.flops == 2 * 10 * 6 * 4
    assert cost.guards == 12 * 6 * 4
    assert cost.exact
    assert buffer(cost, "C").stored == 4 * (10 * 6 * 4 + 10 * 6)


@pytest.mark.parametrize(("name", "flops"), [("dp4a_s8s8s32", 8), ("dot_16x4_vnni", 128), ("dot_16x2_avx512_bf16", 64)])
def test_dot_product_instructions_count_as_what_they_compute(name: str, flops: int) -> None:
    for module in ("cuda", "x86"):
        importlib.import_module(f"tscript.tensor_intrin.{module}")
    found = TensorIntrin.get(name)
    for func in (found.desc, found.impl):
        cost = estimate_cost(func)
        assert (cost.flops, cost.opaque_calls) == (flops, 0)


def test_calls_that_nothing_is_known_of_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    @T.prim_func
    def outside(A: T.Buffer((8,), "float32")) -> None:
        for i in range(8):
            with T.block("A"):
                v = T.axis.spatial(8, i)
                A[v] = T.call_extern("float32", "somewhere", A[v]) + T.float32(1)

    cost = estimate_cost(outside)
    assert (cost.flops, cost.opaque_calls, cost.math_calls) == (8, 8, 0)
    sch = Schedule(outside)
    assert sch.trace is not None
    sch.trace.show(costs=True)
    assert "≥ 8" in capsys.readouterr().out


def test_threads_and_scopes_of_a_gpu() -> None:
    sch = Schedule(matmul(64, 64, 64).func)
    block = sch.get_block("C")
    shared = sch.cache_read(block, 0, "shared")
    i, j, k = sch.get_loops(block)
    (i0, i1), (k0, _) = sch.split(i, [None, 16]), sch.split(k, [None, 16])
    sch.reorder(i0, i1, j, k0)
    sch.bind(i0, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    sch.compute_at(shared, i0)
    cost = estimate_cost(sch.mod)
    assert cost.parallelism == 4 * 64
    assert [c.name for c in cost.caches] == ["L2"]
    tile = buffer(cost, "A_shared")
    assert tile.touched == 16 * 64 * 4
    assert tile.traffic == {"L2": 0}
    assert cost.scopes["shared"] == tile.loaded + tile.stored == 64**3 * 4 + 4 * 16 * 64 * 4


def test_sizes_left_open_give_expressions_and_values_give_numbers() -> None:
    @T.prim_func
    def add(a: T.handle, b: T.handle, n: T.int32) -> None:
        A = T.match_buffer(a, (n, 16))
        B = T.match_buffer(b, (n, 16))
        for i, j in T.grid(n, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)

    free = estimate_cost(add)
    assert not isinstance(free.flops, int)
    assert str(free.flops).replace("T.int64(16)", "16") in ('T.Cast("int64", n) * 16', '16 * T.Cast("int64", n)')
    assert (free.traffic, free.intensity) == (None, None)
    given = estimate_cost(add, values={"n": 8})
    assert (given.flops, given.iterations) == (8 * 16, 8 + 8 * 16)
    assert (given.traffic or {})["L3"] == 2 * 8 * 64
    with pytest.raises(ValueError, match="'m' is no size of the program; its sizes are n"):
        estimate_cost(add, values={"m": 8})


def test_a_triangle_is_counted_exactly() -> None:
    @T.prim_func
    def triangle(A: T.Buffer((8,), "float32")) -> None:
        for i in range(8):
            for j in range(i + 1):
                A[j] = A[j] + T.float32(1)

    cost = estimate_cost(triangle)
    assert (cost.flops, cost.iterations, cost.exact) == (36, 8 + 36, True)
    assert [loop.trips for loop in cost.loops] == [8, 4]  # on average 4.5, which is rounded to even

    @T.prim_func
    def pyramid(A: T.Buffer((8,), "float32")) -> None:
        for i in range(8):
            if i > 3:
                for j in range(i + 1):
                    for k in range(i - j):
                        if k < 2:
                            A[k] = A[k] + T.float32(1)

    steps = [(i, j, k) for i in range(4, 8) for j in range(i + 1) for k in range(i - j)]
    cost = estimate_cost(pyramid)
    assert cost.iterations == 8 + sum(i + 1 for i in range(4, 8)) + len(steps)
    assert (cost.guards, cost.exact) == (8 + len(steps), True)
    assert cost.flops == len([k for _, _, k in steps if k < 2])


def test_a_loop_of_unknown_length_is_no_exact_count() -> None:
    @T.prim_func
    def data(N: T.Buffer((1,), "int32"), A: T.Buffer((8,), "float32")) -> None:
        for i in range(8):
            if N[0] > i:
                A[i] = A[i] + T.float32(1)

    cost = estimate_cost(data)
    assert (cost.flops, cost.guards, cost.exact) == (8, 8, False)


def test_vectors_count_their_lanes() -> None:
    x = Var("x", "float32x4")
    assert operations(x * x + x).flops == 8


def test_strided_accesses_take_a_line_each() -> None:
    @T.prim_func
    def column(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64,), "float32")) -> None:
        for i in range(64):
            B[i] = A[i, 0]

    a = buffer(estimate_cost(column), "A")
    assert (a.touched, a.traffic["L1"]) == (256, 64 * 64)


def test_functions_of_a_module_add_up() -> None:
    one, two = matmul(8, 8, 8).func, softmax(4, 8).func
    both = estimate_cost(tscript.IRModule({"one": one, "two": two}))
    assert both.flops == 2 * 8**3 + 4 * 4 * 8
    assert len(both.buffers) == 3 + 5


def test_what_is_no_program_is_refused() -> None:
    with pytest.raises(TypeError, match="costs are estimated for a function or a module"):
        estimate_cost(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="arithmetic is counted in a statement, function or module"):
        estimate_tir_flops(3)  # pyright: ignore[reportArgumentType]


def test_the_target_says_how_large_the_cache_of_a_gpu_is() -> None:
    target = Target({"kind": "cuda", "l2_cache_size_bytes": 1 << 20})
    assert [(c.name, c.capacity) for c in caches_of(target, True)] == [("L2", 1 << 20)]
    assert [c.name for c in caches_of("llvm", False)] == ["L1", "L2", "L3"]


# -- TVM's estimate -------------------------------------------------------------------------------


def test_the_estimate_of_tvm() -> None:
    @T.prim_func
    def branches(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")) -> None:
        for i in range(16):
            if A[i] + 1 > 3:
                B[i] = A[i] * 2 + 1
            else:
                B[i] = T.min(A[i], 3)

    assert estimate_tir_flops(branches) == 16 * 2
    assert estimate_tir_flops(matmul(4, 8, 16).func) == 2 * 4 * 8 * 16
    assert estimate_tir_flops(conv) == 2 * 8 * 8 * 9
    assert tscript.tir.analysis.estimate_tir_flops(tscript.IRModule({"a": conv, "b": branches})) == 2 * 8 * 8 * 9 + 32


def test_an_attribute_overrides_the_estimate() -> None:
    func: PrimFunc = conv.with_attr("estimated_flops", 7)
    assert estimate_tir_flops(func) == 7.0


# -- counting -------------------------------------------------------------------------------------


def test_shares_are_exact() -> None:
    i, j = Var("i"), Var("j")
    zero = const(0)
    loops = [Loop(i, zero, const(3), 3, 3, 0), Loop(j, zero, const(4), 4, 4, 0)]
    assert share_where([i * 4 + j < 10], loops) == Fraction(10, 12)
    assert share_where([and_(i < 2, j < 1)], loops) == Fraction(2, 3) * Fraction(1, 4)
    assert share_where([i < 2, i < 1, j < 3], loops) == Fraction(1, 3) * Fraction(3, 4)
    assert share_where([Var("n") < 2], loops) is None
