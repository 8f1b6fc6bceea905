"""tensorize: what a block computes, by the implementation of a tensor intrinsic."""

from __future__ import annotations

from typing import Any

import pytest

from tests.schedule.check import check_schedule, rejects
from tscript.schedule import Schedule
from tscript.script import tir as T
from tscript.tir import TensorIntrin


@T.prim_func
def tile_desc(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, (4, 4), offset_factor=1)
    B = T.match_buffer(b, (4, 4), offset_factor=1)
    C = T.match_buffer(c, (4, 4), offset_factor=1)
    with T.block("root"):
        T.reads(C[0:4, 0:4], A[0:4, 0:4], B[0:4, 0:4])
        T.writes(C[0:4, 0:4])
        for i, j, k in T.grid(4, 4, 4):
            with T.block("update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func
def tile_impl(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, (4, 4), offset_factor=1, strides=[T.int32(), T.int32()])
    B = T.match_buffer(b, (4, 4), offset_factor=1, strides=[T.int32(), T.int32()])
    C = T.match_buffer(c, (4, 4), offset_factor=1, strides=[T.int32(), T.int32()])
    with T.block("root"):
        T.reads(C[0:4, 0:4], A[0:4, 0:4], B[0:4, 0:4])
        T.writes(C[0:4, 0:4])
        T.block_attr({"made_by": "hand"})
        for k, i in T.grid(4, 4):
            C[i, 0:4] = C[i, 0:4] + T.Broadcast(A[i, k], 4) * B[k, 0:4]


@T.prim_func
def compact_impl(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, (4, 4), offset_factor=1)
    B = T.match_buffer(b, (4, 4), offset_factor=1)
    C = T.match_buffer(c, (4, 4), offset_factor=1)
    with T.block("root"):
        T.reads(C[0:4, 0:4], A[0:4, 0:4], B[0:4, 0:4])
        T.writes(C[0:4, 0:4])
        flat = T.decl_buffer((16,), data=B.data, elem_offset=B.elem_offset)
        for k, i in T.grid(4, 4):
            C[i, 0:4] = C[i, 0:4] + T.Broadcast(A[i, k], 4) * flat[T.ramp(k * 4, 1, 4)]


@pytest.fixture(autouse=True)
def tiles():
    TensorIntrin.register("tests.tile", tile_desc, tile_impl, override=True)
    TensorIntrin.register("tests.compact_tile", tile_desc, compact_impl, override=True)


@T.prim_func
def matmul(A: T.Buffer((16, 8), "float32"), B: T.Buffer((8, 12), "float32"), C: T.Buffer((16, 12), "float32")):
    for i, j, k in T.grid(16, 12, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def tiled(s: Schedule, block: str = "C", size: int = 4) -> list[Any]:
    loops = s.get_loops(block)[-3:]
    parts = [s.split(loop, [None, size]) for loop in loops]
    outer, inner = [p[0] for p in parts], [p[1] for p in parts]
    s.reorder(*outer, *inner)
    return [*outer, *inner]


def test_the_result():
    def steps(s: Schedule) -> None:
        loops = tiled(s)
        s.decompose_reduction("C", loops[2])
        s.tensorize(loops[3], "tests.tile")

    sch = check_schedule(
        matmul,
        steps,
        """
@T.prim_func
def main(A: T.Buffer((16, 8), "float32"), B: T.Buffer((8, 12), "float32"), C: T.Buffer((16, 12), "float32")):
    for i_0, j_0 in T.grid(4, 3):
        for i_1_init, j_1_init in T.grid(4, 4):
            with T.block("C_init"):
                vi = T.axis.spatial(16, i_0 * 4 + i_1_init)
                vj = T.axis.spatial(12, j_0 * 4 + j_1_init)
                T.reads()
                T.writes(C[vi, vj])
                C[vi, vj] = T.float32(0)
        for k_0 in range(2):
            with T.block("C_update_o"):
                vi_o, vj_o, vk_o = T.axis.remap("SSR", [i_0, j_0, k_0])
                T.reads(
                    C[vi_o * 4:vi_o * 4 + 4, vj_o * 4:vj_o * 4 + 4],
                    A[vi_o * 4:vi_o * 4 + 4, vk_o * 4:vk_o * 4 + 4],
                    B[vk_o * 4:vk_o * 4 + 4, vj_o * 4:vj_o * 4 + 4],
                )
                T.writes(C[vi_o * 4:vi_o * 4 + 4, vj_o * 4:vj_o * 4 + 4])
                T.block_attr({"made_by": "hand"})
                A_1 = T.match_buffer(
                    A[vi_o * 4:vi_o * 4 + 4, vk_o * 4:vk_o * 4 + 4], (4, 4), strides=("a0", "a1"), offset_factor=1
                )
                B_1 = T.match_buffer(
                    B[vk_o * 4:vk_o * 4 + 4, vj_o * 4:vj_o * 4 + 4], (4, 4), strides=("b0", "b1"), offset_factor=1
                )
                C_1 = T.match_buffer(
                    C[vi_o * 4:vi_o * 4 + 4, vj_o * 4:vj_o * 4 + 4], (4, 4), strides=("c0", "c1"), offset_factor=1
                )
                for k, i in T.grid(4, 4):
                    C_1[i, 0:4] = C_1[i, 0:4] + T.Broadcast(A_1[i, k], 4) * B_1[k, 0:4]
""",
    )
    last = str(sch.trace).splitlines()[-1].strip()
    assert last == 'sch.tensorize(block_or_loop=l5, tensor_intrin="tests.tile", preserve_unit_iters=True)'


def test_an_init_stays_outside():
    check_schedule(matmul, lambda s: s.tensorize(tiled(s)[3], "tests.tile"))


def test_a_block_that_is_one_already_and_its_handle():
    sch = Schedule(matmul, debug_mask="all")
    outer = sch.blockize(tiled(sch)[3])
    inner = sch.get_block("C")
    sch.tensorize(outer, "tests.tile")
    assert sch.get(outer).name_hint == "C_o"
    assert len(sch.get(outer).match_buffers) == 3
    with pytest.raises(ValueError, match="tensorized with tests.tile"):
        sch.get(inner)


def test_the_same_intrinsic_twice_and_a_registered_object():
    @T.prim_func
    def two(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32"), D: T.Buffer((8, 8), "float32")):
        for i, j, k in T.grid(8, 8, 8):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * A[vk, vj]
        for i, j, k in T.grid(8, 8, 8):
            with T.block("D"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    D[vi, vj] = T.float32(0)
                D[vi, vj] = D[vi, vj] + C[vi, vk] * A[vk, vj]

    def steps(s: Schedule) -> None:
        s.tensorize(tiled(s, "C")[3], "tests.tile")
        s.tensorize(tiled(s, "D")[3], TensorIntrin.get("tests.tile"))

    assert str(check_schedule(two, steps).trace).count('tensor_intrin="tests.tile"') == 2


def test_further_dimensions_are_single_positions():
    @T.prim_func
    def batch(A: T.Buffer((3, 8, 8), "float32"), B: T.Buffer((3, 8, 8), "float32"), C: T.Buffer((3, 8, 8), "float32")):
        for b, i, j, k in T.grid(3, 8, 8, 8):
            with T.block("C"):
                vb, vi, vj, vk = T.axis.remap("SSSR", [b, i, j, k])
                with T.init():
                    C[vb, vi, vj] = T.float32(0)
                C[vb, vi, vj] = C[vb, vi, vj] + A[vb, vi, vk] * B[vb, vk, vj]

    sch = check_schedule(batch, lambda s: s.tensorize(tiled(s)[3], "tests.tile"))
    assert "A_1 = T.match_buffer(A[vb_o, vi_o * 4:vi_o * 4 + 4, vk_o * 4:vk_o * 4 + 4], (4, 4)" in sch.mod.script()


def test_operands_may_stand_in_any_order():
    @T.prim_func
    def turned(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
        for i, j, k in T.grid(8, 8, 8):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = B[vk, vj] * A[vi, vk] + C[vi, vj]

    check_schedule(turned, lambda s: s.tensorize(tiled(s)[3], "tests.tile"))


def test_int64_and_a_symbolic_size():
    @T.prim_func
    def func(a: T.handle, b: T.handle, c: T.handle, n: T.int64):
        A = T.match_buffer(a, (n * T.int64(4), T.int64(8)))
        B = T.match_buffer(b, (T.int64(8), T.int64(8)))
        C = T.match_buffer(c, (n * T.int64(4), T.int64(8)))
        for i, j, k in T.grid(n * T.int64(4), T.int64(8), T.int64(8)):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    sch = check_schedule(func, lambda s: s.tensorize(tiled(s)[3], "tests.tile"), sizes={"n": 3})
    assert "int64" in str(next(iter(sch.get(sch.get_block("C_o")).match_buffers)).buffer.elem_offset.dtype)


def test_inside_a_guard():
    @T.prim_func
    def func(A: T.Buffer((14, 8), "float32"), B: T.Buffer((8, 8), "float32"), C: T.Buffer((14, 8), "float32")):
        for o, i, j, k in T.grid(3, 2, 8, 8):
            for r in range(4):
                with T.block("C"):
                    T.where(o * 2 + i < 3)
                    vi = T.axis.spatial(12, (o * 2 + i) * 4 + r)
                    vj, vk = T.axis.remap("SR", [j, k])
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    def steps(s: Schedule) -> None:
        o, i, j, k, r = s.get_loops("C")
        j_0, j_1 = s.split(j, [None, 4])
        k_0, k_1 = s.split(k, [None, 4])
        s.reorder(o, i, j_0, k_0, r, j_1, k_1)
        s.tensorize(r, "tests.tile")

    assert "T.where(o * 2 + i < 3)" in check_schedule(func, steps).mod.script()


def test_annotations_of_the_block_win():
    @T.prim_func
    def func(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32"), C: T.Buffer((4, 4), "float32")):
        for o in range(1):
            with T.block("outer"):
                vo = T.axis.spatial(1, o)
                T.reads(C[0:4, 0:4], A[0:4, 0:4], B[0:4, 0:4])
                T.writes(C[0:4, 0:4])
                T.block_attr({"made_by": "me", "more": 1})
                for i, j, k in T.grid(4, 4, 4):
                    with T.block("C"):
                        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    sch = Schedule(func)
    with pytest.warns(UserWarning, match="keeps its annotation 'made_by'") as seen:
        sch.tensorize(sch.get_block("outer"), "tests.tile")
    # At the line of whoever called.
    assert [w.filename for w in seen] == [__file__]
    notes = sch.get(sch.get_block("outer")).annotations
    assert {k: getattr(v, "value", v) for k, v in notes.items()} == {"made_by": "me", "more": 1}


# -- what is refused ------------------------------------------------------------------------------


def test_another_computation_is_refused_with_both_sides():
    @T.prim_func
    def minus(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
        for i, j, k in T.grid(8, 8, 8):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] - A[vi, vk] * B[vk, vj]

    error = rejects(minus, lambda s: s.tensorize(tiled(s)[3], "tests.tile"), "they differ at", ["i_1"])
    text = str(error)
    assert "block `C` > store to `C` > value" in text
    assert "description: C[vi, vj] + A[vi, vk] * B[vk, vj]" in text
    assert "program:     C[vi_o * 4 + vi_i, vj_o * 4 + vj_i] - " in text


def test_a_transposed_operand_is_another_computation():
    @T.prim_func
    def turned(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
        for i, j, k in T.grid(8, 8, 8):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]

    rejects(turned, lambda s: s.tensorize(tiled(s)[3], "tests.tile"), "subscripts move differently")


def test_other_types_scopes_sizes_orders_and_axes():
    @T.prim_func
    def half(A: T.Buffer((8, 8), "float16"), B: T.Buffer((8, 8), "float16"), C: T.Buffer((8, 8), "float16")):
        for i, j, k in T.grid(8, 8, 8):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float16(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    rejects(half, lambda s: s.tensorize(tiled(s)[3], "tests.tile"), "hold different types")

    def shared(s: Schedule) -> None:
        s.cache_read("C", 0, "shared")
        s.tensorize(tiled(s)[3], "tests.tile")

    rejects(matmul, shared, "lie in different memory")

    def larger(s: Schedule) -> None:
        i, j, k = s.get_loops("C")
        (i_0, i_1), (j_0, j_1), (k_0, k_1) = (s.split(x, [None, n]) for x, n in ((i, 8), (j, 4), (k, 4)))
        s.reorder(i_0, j_0, k_0, i_1, j_1, k_1)
        s.tensorize(i_1, "tests.tile")

    rejects(matmul, larger, "they take different values")

    def other_order(s: Schedule) -> None:
        loops = tiled(s)
        s.reorder(loops[5], loops[3], loops[4])
        s.tensorize(loops[5], "tests.tile")

    rejects(matmul, other_order, "binding: the values differ")
    rejects(matmul, lambda s: s.tensorize(tiled(s)[4], "tests.tile"), "they differ at")

    def vectorized(s: Schedule) -> None:
        loops = tiled(s)
        s.unroll(loops[4])
        s.tensorize(loops[3], "tests.tile")

    rejects(matmul, vectorized, "the loop is unrolled")


def test_memory_that_one_of_them_writes_is_not_shared():
    @T.prim_func
    def square(C: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32")):
        for i, j, k in T.grid(4, 4, 4):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + C[vi, vk] * B[vk, vj]

    rejects(square, lambda s: s.tensorize(s.get_loops("C")[0], "tests.tile"), "one of them is written")


def test_rows_must_be_without_gaps_where_the_implementation_needs_that():
    rejects(matmul, lambda s: s.tensorize(tiled(s)[3], "tests.compact_tile"), "with stride 4 in dimension 0; it is 12")

    @T.prim_func
    def packed(A: T.Buffer((8, 8), "float32"), B: T.Buffer((2, 8, 4), "float32"), C: T.Buffer((8, 8), "float32")):
        for i, j, k in T.grid(8, 8, 8):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj // 4, vk, vj % 4]

    check_schedule(packed, lambda s: s.tensorize(tiled(s)[3], "tests.compact_tile"))


def test_a_part_must_start_where_the_implementation_says():
    @T.prim_func
    def desc(a: T.handle, b: T.handle):
        A = T.match_buffer(a, (8,), offset_factor=8)
        B = T.match_buffer(b, (8,), offset_factor=8)
        with T.block("root"):
            T.reads(A[0:8])
            T.writes(B[0:8])
            for i in range(8):
                with T.block("copy"):
                    vi = T.axis.spatial(8, i)
                    B[vi] = A[vi]

    TensorIntrin.register("tests.aligned_copy", desc, desc, override=True)

    @T.prim_func
    def copy(X: T.Buffer((32,), "float32"), Y: T.Buffer((36,), "float32")):
        for i in range(32):
            with T.block("Y"):
                v = T.axis.spatial(32, i)
                Y[v + 4] = X[v]

    def steps(s: Schedule) -> None:
        (i,) = s.get_loops("Y")
        _, i_1 = s.split(i, [None, 8])
        s.tensorize(i_1, "tests.aligned_copy")

    rejects(copy, steps, "start at a multiple of 8 elements; `v_o \\* 8 \\+ 4` need not be one")


def test_names_and_targets_that_are_none():
    def with_intrinsic(intrin: Any, of: str = "loop") -> Any:
        def steps(s: Schedule) -> None:
            s.tensorize(s.get_loops("C")[0] if of == "loop" else s.get_block(of), intrin)

        return steps

    rejects(matmul, with_intrinsic("tests.tyle"), "similar names are tests.tile", error=ValueError)
    rejects(matmul, with_intrinsic(3), "a name or a TensorIntrin", error=TypeError)
    rejects(matmul, with_intrinsic(TensorIntrin(tile_desc, tile_impl)), "is not registered", error=ValueError)
    rejects(matmul, with_intrinsic("tests.tile", "root"), "whole function", ["root"])


def test_a_refusal_leaves_the_schedule_usable():
    sch = Schedule(matmul, debug_mask="all")
    loops = tiled(sch)
    before = sch.mod["main"]
    with pytest.raises(Exception, match="with stride 4"):
        sch.tensorize(loops[3], "tests.compact_tile")
    assert sch.mod["main"] is before
    sch.tensorize(loops[3], "tests.tile")
    sch.state.verify()


# -- the registry ---------------------------------------------------------------------------------


def test_registering():
    with pytest.raises(ValueError, match="registered already"):
        TensorIntrin.register("tests.tile", tile_desc, tile_impl)
    TensorIntrin.register("tests.tile", tile_desc, compact_impl, override=True)
    assert TensorIntrin.get("tests.tile").impl is compact_impl
    assert TensorIntrin.get("tests.tile").desc is tile_desc
    assert TensorIntrin.get("tests.no_such", allow_missing=True) is None
    with pytest.raises(ValueError, match="no tensor intrinsic is registered as 'no_such'"):
        TensorIntrin.get("no_such")
    assert "tests.tile" in TensorIntrin.names()


def test_pairs_that_do_not_fit():
    @T.prim_func
    def two(a: T.handle, b: T.handle):
        A = T.match_buffer(a, (4, 4))
        B = T.match_buffer(b, (4, 4))
        with T.block("root"):
            T.reads(A[0:4, 0:4])
            T.writes(B[0:4, 0:4])
            B[0, 0] = A[0, 0]

    @T.prim_func
    def other_shape(a: T.handle, b: T.handle):
        A = T.match_buffer(a, (4, 4))
        B = T.match_buffer(b, (4, 8))
        with T.block("root"):
            T.reads(A[0:4, 0:4])
            T.writes(B[0:4, 0:4])
            B[0, 0] = A[0, 0]

    @T.prim_func
    def scalar(a: T.handle, n: T.int32):
        A = T.match_buffer(a, (4, 4))
        with T.block("root"):
            T.writes(A[0:4, 0:4])
            A[0, 0] = T.cast(n, "float32")

    @T.prim_func
    def no_block(a: T.handle, b: T.handle):
        A = T.match_buffer(a, (4, 4))
        B = T.match_buffer(b, (4, 4))
        B[0, 0] = A[0, 0]

    for desc, impl, reason in (
        (tile_desc, two, "has 3 parameters, the implementation 2"),
        (two, other_shape, r"float32 \(4, 4\) in 'global' and float32 \(4, 8\)"),
        (scalar, scalar, "parameter n .* is no buffer"),
        (two, no_block, "must be one block without axes"),
    ):
        with pytest.raises(ValueError, match=reason):
            TensorIntrin.register("tests.bad", desc, impl)
    with pytest.raises(TypeError, match="is a function"):
        TensorIntrin.register("tests.bad", tile_desc, 3)
    assert TensorIntrin.get("tests.bad", True) is None


@T.prim_func
def first_of_row_desc(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (8,), offset_factor=1)
    B = T.match_buffer(b, (1,), offset_factor=1)
    with T.block("root"):
        T.reads(A[0:8])
        T.writes(B[0])
        B[0] = A[0]


def test_what_is_declared_is_not_what_is_used():
    @T.prim_func
    def declared(a: T.handle, b: T.handle):
        A = T.match_buffer(a, (8,), offset_factor=1)
        B = T.match_buffer(b, (2,), offset_factor=1)
        with T.block("root"):
            T.reads(A[0:8])
            T.writes(B[0:2])
            for i in range(2):
                with T.block("copy"):
                    v = T.axis.spatial(2, i)
                    T.reads(A[0:8])
                    T.writes(B[v])
                    B[v] = A[v]

    TensorIntrin.register("tests.declared", declared, declared, override=True)

    @T.prim_func
    def moved(A: T.Buffer((10,), "float32"), B: T.Buffer((10,), "float32")):
        for i in range(10):
            with T.block("B"):
                v = T.axis.spatial(10, i)
                B[v] = A[v]

    def step(s: Schedule) -> None:
        _, inner = s.split(s.get_loops("B")[0], [None, 2])
        s.tensorize(inner, "tests.declared")

    rejects(moved, step, "beyond its 10 elements", ["i_1"])


@T.prim_func
def padded_desc(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (8,), offset_factor=1)
    B = T.match_buffer(b, (8,), offset_factor=1)
    with T.block("root"):
        T.reads(A[0:8])
        T.writes(B[0:8])
        for i in range(8):
            with T.block("copy"):
                v = T.axis.spatial(8, i)
                B[v] = T.if_then_else(v < 7, A[v], 0.0)


@pytest.mark.parametrize("room, fits", [(16, True), (11, False)])
def test_a_view_of_more_than_is_used_lies_inside_the_buffer(room: int, fits: bool):
    TensorIntrin.register("tests.first_of_row", first_of_row_desc, first_of_row_desc, override=True)

    @T.prim_func
    def moved(A: T.Buffer((room,), "float32"), B: T.Buffer((5,), "float32")):
        for i in range(5):
            with T.block("B"):
                v = T.axis.spatial(5, i)
                B[v] = A[v]

    def step(s: Schedule) -> None:
        s.tensorize("B", "tests.first_of_row")

    if fits:
        check_schedule(moved, step, regions=False)
    else:
        rejects(moved, step, "from `v` to `v \\+ 8` in dimension 0, which may lie beyond its 11 elements", ["B"])


def test_a_view_of_what_is_used_under_a_condition_lies_inside_the_buffer():
    TensorIntrin.register("tests.padded", padded_desc, padded_desc, override=True)

    @T.prim_func
    def pad(A: T.Buffer((7,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = T.if_then_else(v < 7, A[v], 0.0)

    rejects(pad, lambda s: s.tensorize(s.get_loops("B")[0], "tests.padded"), "beyond its 7 elements", ["i"])
