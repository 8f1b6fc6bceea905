"""pad_einsum: rounded extents, padded copies, and what padding must not change."""

from __future__ import annotations

import pytest

from tests.schedule.check import Steps, check_schedule, rejects
from tscript import te
from tscript.schedule import Schedule
from tscript.script import tir as T


@T.prim_func
def matmul(A: T.Buffer((13, 7), "float32"), B: T.Buffer((7, 9), "float32"), C: T.Buffer((13, 9), "float32")):
    for i0, i1, i2 in T.grid(13, 9, 7):
        with T.block("C"):
            i, j, k = T.axis.remap("SSR", [i0, i1, i2])
            with T.init():
                C[i, j] = T.float32(0)
            C[i, j] = C[i, j] + A[i, k] * B[k, j]


def _pad(*padding: int) -> Steps:
    return lambda s: s.pad_einsum("C", list(padding))


def test_all_axes_of_a_matrix_product():
    sch = check_schedule(
        matmul,
        _pad(4, 8, 8),
        """
@T.prim_func
def main(A: T.Buffer((13, 7), "float32"), B: T.Buffer((7, 9), "float32"), C: T.Buffer((13, 9), "float32")):
    A_pad = T.alloc_buffer((16, 8))
    B_pad = T.alloc_buffer((8, 16))
    C_pad = T.alloc_buffer((16, 16))
    for i0, i1 in T.grid(16, 8):
        with T.block("A_pad"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(A[v0, v1])
            T.writes(A_pad[v0, v1])
            A_pad[v0, v1] = T.if_then_else(v0 < 13 and v1 < 7, A[v0, v1], T.float32(0.0))
    for i0, i1 in T.grid(8, 16):
        with T.block("B_pad"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(B[v0, v1])
            T.writes(B_pad[v0, v1])
            B_pad[v0, v1] = T.if_then_else(v0 < 7 and v1 < 9, B[v0, v1], T.float32(0.0))
    for i0, i1, i2 in T.grid(16, 16, 8):
        with T.block("C"):
            i, j, k = T.axis.remap("SSR", [i0, i1, i2])
            T.reads(A_pad[i, k], B_pad[k, j])
            T.writes(C_pad[i, j])
            with T.init():
                C_pad[i, j] = T.float32(0.0)
            C_pad[i, j] = C_pad[i, j] + A_pad[i, k] * B_pad[k, j]
    for i0, i1 in T.grid(13, 9):
        with T.block("C_pad"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            T.reads(C_pad[v0, v1])
            T.writes(C[v0, v1])
            C[v0, v1] = C_pad[v0, v1]
""",
    )
    assert str(sch.trace).endswith("sch.pad_einsum(block=b0, padding=[4, 8, 8])")


def test_only_buffers_with_a_changed_dimension_are_copied():
    sch = check_schedule(matmul, _pad(4, 1, 7))
    assert [b.name for b in sch.get(sch.get_block("root")).alloc_buffers] == ["A_pad", "C_pad"]
    sch = check_schedule(matmul, _pad(1, 1, 4))
    assert [b.name for b in sch.get(sch.get_block("root")).alloc_buffers] == ["A_pad", "B_pad"]


def test_extents_that_are_multiples_already_change_nothing():
    sch = check_schedule(matmul, _pad(13, 3, 1))
    assert "_pad" not in sch.mod.script()


def test_the_order_of_loops_does_not_matter_and_kinds_stay():
    def steps(s: Schedule) -> None:
        i, j, k = s.get_loops("C")
        s.reorder(k, j, i)
        s.vectorize(i)
        _pad(4, 4, 4)(s)

    assert "T.vectorized(16)" in check_schedule(matmul, steps).mod.script()


def test_loops_that_were_split_to_the_padded_extent():
    def steps(s: Schedule) -> None:
        s.split(s.get_loops("C")[0], [None, 4])
        _pad(4, 4, 4)(s)

    sch = check_schedule(matmul, steps)
    assert "T.where" not in sch.mod.script()


def test_producers_are_inlined_into_the_padding():
    @T.prim_func
    def func(A: T.Buffer((6, 5), "float32"), B: T.Buffer((5, 7), "float32"), D: T.Buffer((6, 7), "float32")):
        A2 = T.alloc_buffer((6, 5), "float16")
        C = T.alloc_buffer((6, 7))
        for i, k in T.grid(6, 5):
            with T.block("A2"):
                vi, vk = T.axis.remap("SS", [i, k])
                A2[vi, vk] = T.Cast("float16", A[vi, vk])
        for i, j, k in T.grid(6, 7, 5):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + T.Cast("float32", A2[vi, vk]) * B[vk, vj]
        for i, j in T.grid(6, 7):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = T.max(C[vi, vj], T.float32(0))

    def steps(s: Schedule) -> None:
        _pad(4, 4, 4)(s)
        s.compute_inline("A2")
        s.compute_inline("C_pad")

    sch = check_schedule(func, steps)
    assert "T.if_then_else(v0 < 6 and v1 < 5, T.Cast(" in sch.mod.script()


def test_constant_subscripts_become_dimensions_of_one():
    @T.prim_func
    def func(A: T.Buffer((3, 6, 5), "float32"), B: T.Buffer((6,), "float32"), C: T.Buffer((2, 6, 5), "float32")):
        for i, j in T.grid(6, 5):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[1, vi, vj] = A[2, vi, vj] * B[vi]

    sch = check_schedule(func, _pad(4, 4))
    assert "C_pad[0, vi, vj] = A_pad[0, vi, vj] * B_pad[vi]" in sch.mod.script()


@pytest.mark.parametrize("n", [1, 4, 6])
def test_symbolic_extents(n: int):
    @T.prim_func
    def func(a: T.handle, c: T.handle):
        n, m = T.int32(), T.int32()
        A = T.match_buffer(a, (n, m), "float32")
        C = T.match_buffer(c, (n,), "float32")
        for i, k in T.grid(n, m):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vi, vk]

    check_schedule(func, _pad(4, 4), sizes={"n": n, "m": 5})


def test_int64_and_integers():
    @T.prim_func
    def func(
        A: T.Buffer((T.int64(5), T.int64(3)), "int8"),
        B: T.Buffer((T.int64(3),), "int8"),
        C: T.Buffer((T.int64(5),), "int32"),
    ):
        for i, k in T.grid(T.int64(5), T.int64(3)):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = 7
                C[vi] = C[vi] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vk])

    # A start that counts is set once, padding or not.
    check_schedule(func, _pad(4, 4))


@pytest.mark.parametrize("name", ["max", "min", "prod"])
def test_other_reductions_are_padded_with_what_they_start_from(name: str):
    x = te.placeholder((5, 6), name="X")
    k = te.reduce_axis((0, 6), "k")
    y = te.compute((5,), lambda i: getattr(te, name)(x[i, k], axis=k), name="C")
    sch = check_schedule(te.create_prim_func([x, y]), _pad(4, 4))
    assert {"max": "-inf", "min": '"inf"', "prod": "T.float32(1.0)"}[name] in sch.mod.script()


# -- what is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize("padding", [[4, 4], [4, 4, 0], [4, 4, -1], [1, 2, 3, 4]])
def test_paddings_that_do_not_fit(padding: list[int]):
    rejects(matmul, lambda s: s.pad_einsum("C", padding), "one positive number for each of the 3 axes", ["C"])


def test_paddings_that_are_no_integers():
    for padding in (4, [4.0, 4, 4], [True, 4, 4]):
        rejects(matmul, lambda s, p=padding: s.pad_einsum("C", p), "is a list of integers", error=TypeError)


@pytest.mark.parametrize("change", ["plus one", "axis", "factor"])
def test_terms_that_count_where_the_input_is_padded(change: str):
    @T.prim_func
    def func(A: T.Buffer((5, 6), "float32"), B: T.Buffer((5,), "float32"), C: T.Buffer((5,), "float32")):
        for i, k in T.grid(5, 6):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + (
                    A[vi, vk] + T.float32(1)
                    if change == "plus one"
                    else A[vi, vk] + T.Cast("float32", vk)
                    if change == "axis"
                    else A[vi, vk] * B[vi]
                )

    rejects(func, _pad(4, 4), "is not seen to leave the result as it is", ["C"])
    check_schedule(func, _pad(4, 1))


def test_accesses_that_are_no_einsum():
    @T.prim_func
    def shifted(A: T.Buffer((8,), "float32"), C: T.Buffer((7,), "float32")):
        for i in range(7):
            with T.block("C"):
                vi = T.axis.spatial(7, i)
                C[vi] = A[vi + 1]

    rejects(shifted, _pad(4), "is no axis and no constant", ["C"])

    @T.prim_func
    def twice(A: T.Buffer((7, 7), "float32"), C: T.Buffer((7, 7), "float32")):
        for i, j in T.grid(7, 7):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] + A[vj, vi]

    rejects(twice, _pad(4, 4), "at different subscripts", ["C"])

    @T.prim_func
    def diagonal(A: T.Buffer((7,), "float32"), C: T.Buffer((7, 7), "float32")):
        for i in range(7):
            with T.block("C"):
                vi = T.axis.spatial(7, i)
                C[vi, vi] = A[vi]

    rejects(diagonal, _pad(4), "writes a diagonal", ["C"])


def test_divisions_by_padding():
    @T.prim_func
    def func(A: T.Buffer((7,), "int32"), B: T.Buffer((7,), "int32"), C: T.Buffer((7,), "int32")):
        for i in range(7):
            with T.block("C"):
                vi = T.axis.spatial(7, i)
                C[vi] = A[vi] // (B[vi] * 0 + 3) + A[vi] // T.max(B[vi], 1)

    rejects(func, _pad(4), "may divide by zero", ["C"])


def test_axes_that_are_no_dimension_of_the_output():
    @T.prim_func
    def func(A: T.Buffer((1, 7), "float32"), C: T.Buffer((1, 7), "float32")):
        for u, i in T.grid(1, 7):
            with T.block("C"):
                vu, vi = T.axis.remap("SS", [u, i])
                C[0, vi] = A[vu, vi]

    rejects(func, _pad(4, 4), "is no dimension of `C`", ["C"])
    check_schedule(func, _pad(1, 4))


def test_blocks_that_do_not_run_everywhere():
    @T.prim_func
    def func(A: T.Buffer((7,), "float32"), C: T.Buffer((7,), "float32")):
        for i in range(7):
            with T.block("C"):
                vi = T.axis.spatial(7, i)
                T.where(i < 5)
                C[vi] = A[vi]

    rejects(func, _pad(4), "whole domain of its axis", ["C"])


def test_blocks_that_share_their_loops():
    @T.prim_func
    def func(A: T.Buffer((7,), "float32"), C: T.Buffer((7,), "float32"), D: T.Buffer((7,), "float32")):
        for i in range(7):
            with T.block("C"):
                vi = T.axis.spatial(7, i)
                C[vi] = A[vi]
            with T.block("D"):
                vi = T.axis.spatial(7, i)
                D[vi] = C[vi]

    rejects(func, _pad(4), "not alone in the loops", ["C"])


def test_loops_that_cannot_run_over_as_many():
    def steps(s: Schedule) -> None:
        s.split(s.get_loops("C")[0], [None, 5])
        _pad(4, 4, 4)(s)

    rejects(matmul, steps, "cannot run over `16` values", ["C"])


def test_stores_under_a_condition():
    @T.prim_func
    def func(A: T.Buffer((7,), "float32"), C: T.Buffer((7,), "float32")):
        for i in range(7):
            with T.block("C"):
                vi = T.axis.spatial(7, i)
                if A[vi] > T.float32(0):
                    C[vi] = A[vi]

    rejects(func, _pad(4), "under a condition only", ["C"])


def test_reads_under_a_condition_beyond_the_buffer():
    @T.prim_func
    def func(A: T.Buffer((5,), "float32"), C: T.Buffer((7,), "float32")):
        for i in range(7):
            with T.block("C"):
                vi = T.axis.spatial(7, i)
                C[vi] = T.if_then_else(vi < 5, A[vi], T.float32(1))

    check_schedule(func, _pad(4))

    def twice(s: Schedule) -> None:
        s.pad_einsum("C", [4, 4, 4])
        s.pad_einsum("A_pad", [5, 5])

    check_schedule(matmul, twice)


@pytest.mark.parametrize(("kind", "index", "what"), [("read", 1, "reads `B`"), ("write", 0, "stores to `C`")])
def test_what_the_signature_hides_is_not_padded(kind: str, index: int, what: str):
    # The block would use a copy of which nobody knows: a step that moves the copy would leave the block behind.
    def steps(s: Schedule) -> None:
        s.unsafe_hide_buffer_access(s.get_block("C"), kind, [index])
        s.pad_einsum("C", [4, 8, 8])

    rejects(matmul, steps, f"block `C` {what}, which its signature hides")
