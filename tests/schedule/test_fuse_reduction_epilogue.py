"""fuse_reduction_epilogue: a reduction starts from what its epilogue adds, where that is the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tscript as tvm
from tests.schedule.check import check_schedule, rejects
from tscript.ir.function import PrimFunc
from tscript.schedule import Schedule
from tscript.script import tir as T


def _program(epilogue: Callable[..., object], dtype: str = "float32") -> PrimFunc:
    @T.prim_func
    def func(
        A: T.Buffer((6, 5), dtype), B: T.Buffer((5, 4), dtype), bias: T.Buffer((4,), dtype), D: T.Buffer((6, 4), dtype)
    ):
        C = T.alloc_buffer((6, 4), dtype)
        for i, j, k in T.grid(6, 4, 5):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = tvm.tir.const(0, dtype)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(6, 4):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = epilogue(C[vi, vj], bias[vj])

    return func


def _fuse(s: Schedule) -> None:
    s.fuse_reduction_epilogue("C", "D")


def test_a_bias():
    sch = check_schedule(
        _program(lambda c, b: c + b),
        _fuse,
        """
@T.prim_func
def main(
    A: T.Buffer((6, 5), "float32"), B: T.Buffer((5, 4), "float32"), bias: T.Buffer((4,), "float32"),
    D: T.Buffer((6, 4), "float32"),
):
    for i, j, k in T.grid(6, 4, 5):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            T.reads(bias[vj], A[vi, vk], B[vk, vj])
            T.writes(D[vi, vj])
            with T.init():
                D[vi, vj] = bias[vj]
            D[vi, vj] = D[vi, vj] + A[vi, vk] * B[vk, vj]
""",
    )
    assert str(sch.trace).endswith("sch.fuse_reduction_epilogue(reduction_block=b0, epilogue_block=b1)")


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int64", "uint8"])
def test_a_bias_of_either_side_a_difference_and_a_constant(dtype: str):
    for epilogue in (lambda c, b: b + c, lambda c, b: c - b, lambda c, b: c + b * b):
        check_schedule(_program(epilogue, dtype), _fuse)
    check_schedule(_program(lambda c, b: c + tvm.tir.const(2, dtype), dtype), _fuse)


def test_handles_of_the_reduction_stay():
    sch = Schedule(_program(lambda c, b: c + b))
    block, epilogue = sch.get_block("C"), sch.get_block("D")
    loops = sch.get_loops(block)
    sch.fuse_reduction_epilogue(block, epilogue)
    assert sch.get(block).writes[0].buffer.name == "D"
    assert [sch.get(r) for r in sch.get_loops(block)] == [sch.get(r) for r in loops]
    with pytest.raises(ValueError, match="fused into C"):
        sch.get(epilogue)
    assert not sch.get(sch.get_block("root")).alloc_buffers


def test_the_result_can_be_scheduled_on():
    def steps(s: Schedule) -> None:
        k = s.get_loops("C")[2]
        s.split(k, [None, 2])
        _fuse(s)
        s.decompose_reduction("C", s.get_loops("C")[2])

    check_schedule(_program(lambda c, b: c + b), steps)


def test_other_places_a_maximum_and_a_start_that_counts():
    @T.prim_func
    def func(X: T.Buffer((6, 8), "int32"), W: T.Buffer((4, 3), "int32"), D: T.Buffer((4, 3), "int32")):
        C = T.alloc_buffer((3, 4), "int32")
        for i, k in T.grid(12, 4):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi // 4, vi % 4] = -2
                C[vi // 4, vi % 4] = T.max(X[vi // 2, (vi % 2) * 4 + vk], C[vi // 4, vi % 4])
        for i, j in T.grid(4, 3):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = T.max(W[vi, vj], C[vj, vi])

    text = check_schedule(func, _fuse).mod.script()
    assert "D[vi % 4, vi // 4] = T.max(-2, W[vi % 4, vi // 4])" in text


def test_a_producer_of_the_bias_before_the_reduction():
    @T.prim_func
    def func(X: T.Buffer((6, 5), "float32"), D: T.Buffer((6,), "float32")):
        b, C = T.alloc_buffer((6,)), T.alloc_buffer((6,))
        for i in range(6):
            with T.block("b"):
                vi = T.axis.spatial(6, i)
                b[vi] = X[vi, 0] * T.float32(2)
        for i, k in T.grid(6, 5):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + X[vi, vk]
        for i in range(6):
            with T.block("D"):
                vi = T.axis.spatial(6, i)
                D[vi] = C[vi] + b[vi]

    check_schedule(func, _fuse)

    @T.prim_func
    def together(X: T.Buffer((6, 5), "float32"), D: T.Buffer((6,), "float32")):
        b, C = T.alloc_buffer((6,)), T.alloc_buffer((6,))
        for i in range(6):
            with T.block("b"):
                vi = T.axis.spatial(6, i)
                b[vi] = X[vi, 0] * T.float32(2)
            for k in range(5):
                with T.block("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = T.float32(0)
                    C[vi] = C[vi] + X[vi, vk]
        for i in range(6):
            with T.block("D"):
                vi = T.axis.spatial(6, i)
                D[vi] = C[vi] + b[vi]

    rejects(together, _fuse, "makes in or after the loops of", ["D", "b", "C"])


@pytest.mark.parametrize("n", [1, 4])
def test_symbolic_sizes_and_blocks_inside_others(n: int):
    @T.prim_func
    def func(x: T.handle, d: T.handle):
        n = T.int32()
        X = T.match_buffer(x, (3, n, 5), "float32")
        D = T.match_buffer(d, (3, n), "float32")
        for o in range(3):
            with T.block("outer"):
                vo = T.axis.spatial(3, o)
                C = T.alloc_buffer((n,))
                for i, k in T.grid(n, 5):
                    with T.block("C"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            C[vi] = T.float32(0)
                        C[vi] = C[vi] + X[vo, vi, vk]
                for i in range(n):
                    with T.block("D"):
                        vi = T.axis.spatial(n, i)
                        D[vo, vi] = C[vi] + T.Cast("float32", vo)

    check_schedule(func, _fuse, sizes={"n": n})


# -- what is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "epilogue",
    [
        lambda c, b: tvm.tir.max(c, 0.0),
        lambda c, b: tvm.tir.max(c + b, 0.0),
        lambda c, b: tvm.tir.min(tvm.tir.max(c, -5.0), 5.0),
        lambda c, b: c * b,
        lambda c, b: b - c,
        lambda c, b: c + c,
    ],
)
def test_epilogues_that_would_change_partial_sums(epilogue: Callable[..., object]):
    rejects(_program(epilogue), _fuse, "in the way of block `C` \\(sum\\)", ["D", "C"])


def test_results_that_others_use():
    @T.prim_func
    def func(X: T.Buffer((6, 5), "float32"), D: T.Buffer((6,), "float32"), E: T.Buffer((6,), "float32")):
        C = T.alloc_buffer((6,))
        for i, k in T.grid(6, 5):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + X[vi, vk]
        for i in range(6):
            with T.block("D"):
                vi = T.axis.spatial(6, i)
                D[vi] = C[vi] + T.float32(1)
        for i in range(6):
            with T.block("E"):
                vi = T.axis.spatial(6, i)
                E[vi] = C[vi] + T.float32(2)

    rejects(func, _fuse, "is used by block `E` too", ["E"])


def test_parts_of_the_result_and_outputs():
    @T.prim_func
    def part(X: T.Buffer((6, 5), "float32"), D: T.Buffer((4,), "float32")):
        C = T.alloc_buffer((6,))
        for i, k in T.grid(6, 5):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + X[vi, vk]
        for i in range(4):
            with T.block("D"):
                vi = T.axis.spatial(4, i)
                D[vi] = C[vi + 1] + T.float32(1)

    rejects(part, _fuse, "does not run over all of `C`", ["D"])

    @T.prim_func
    def output(X: T.Buffer((6, 5), "float32"), C: T.Buffer((6,), "float32"), D: T.Buffer((6,), "float32")):
        for i, k in T.grid(6, 5):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + X[vi, vk]
        for i in range(6):
            with T.block("D"):
                vi = T.axis.spatial(6, i)
                D[vi] = C[vi] + T.float32(1)

    rejects(output, _fuse, "writes `C`, which is used outside", ["C", "root"])


def test_blocks_that_are_no_reduction_and_its_epilogue():
    func = _program(lambda c, b: c + b)
    rejects(func, lambda s: s.fuse_reduction_epilogue("D", "C"), "is not a reduction", ["D"])
    rejects(func, lambda s: s.fuse_reduction_epilogue("C", "C"), "is not complete", ["C"])
