"""Kinds of blocks, coverage of reads, pipelines: what primitives ask before they change anything."""

from __future__ import annotations

import pytest

from tscript.ir.function import PrimFunc
from tscript.ir.stmt import Block
from tscript.parser import from_source
from tscript.schedule import Schedule, ScheduleError
from tscript.schedule.checks import (
    affine_binding,
    is_output_block,
    is_stage_pipeline,
    is_trivial_binding,
    region_cover,
    require_compact_dataflow,
    stores_of,
    why_not_complete,
    why_not_reduction,
    why_not_stage_pipeline,
)
from tscript.schedule.sref import StmtSRef
from tscript.script import tir as T


def found(func: PrimFunc, name: str) -> tuple[Schedule, StmtSRef]:
    sch = Schedule(func)
    return sch, sch.block(sch.get_block(name))


def bound_to(loops: str, extents: str, *bindings: tuple[int, str]) -> PrimFunc:
    """A block with axes of these extents, bound to these values."""
    axes = "".join(f"            v{i} = T.axis.spatial({n}, {value})\n" for i, (n, value) in enumerate(bindings))
    header = f"    for {loops} in T.grid({extents}):\n" if "," in loops else f"    for {loops} in range({extents}):\n"
    return from_source(
        "@T.prim_func\ndef main(n: T.int32):\n"
        + header
        + '        with T.block("B"):\n'
        + axes
        + "            T.evaluate(0)\n"
    )


@pytest.mark.parametrize(
    ("loops", "extents", "bindings"),
    [
        ("i, j", "8, 12", [(8, "i"), (12, "j")]),
        ("i, j", "8, 12", [(12, "j"), (8, "i")]),
        ("i, j", "8, 12", [(8, "i")]),
        ("i, j", "3, 3", [(9, "i * 3 + j")]),
        ("i, j, k", "2, 3, 4", [(24, "i * 12 + j * 4 + k")]),
        ("i, j", "2, 3", [(6, "j * 2 + i")]),
        ("f", "96", [(8, "f // 12"), (12, "f % 12")]),
        ("f", "96", [(2, "f // 48"), (4, "f % 48 // 12"), (12, "f % 12")]),
        ("f, k_1", "24, 4", [(8, "f // 3"), (12, "f % 3 * 4 + k_1")]),
        ("i, j", "7, 5", [(5, "(i * 5 + j) // 7"), (7, "(i * 5 + j) % 7")]),
        ("i, j", "4, 4", [(8, "(i * 4 + j) // 2"), (2, "(i * 4 + j) % 2")]),
        ("i, j", "n, 4", [(100, "i * 4 + j")]),
        ("i, j", "8, 12", [(20, "i + 5"), (12, "j")]),
        ("i, j", "1, 12", [(20, "i * 7"), (12, "j")]),
        ("i", "8", [(1, "0"), (8, "i")]),
    ],
)
def test_affine_bindings(loops: str, extents: str, bindings: list[tuple[int, str]]):
    sch, block = found(bound_to(loops, extents, *bindings), "B")
    assert affine_binding(sch.state, block)


@pytest.mark.parametrize(
    ("loops", "extents", "bindings"),
    [
        ("i, j", "8, 12", [(20, "i + j")]),
        ("i, j", "8, 12", [(8, "i"), (8, "i")]),
        ("i, j", "3, 4", [(12, "i * 3 + j")]),
        ("i, j", "3, 2", [(12, "i * 3 + j")]),
        ("i", "8", [(16, "i * 2")]),
        ("f", "96", [(8, "f // 12")]),
        ("f", "96", [(12, "f % 12")]),
        ("f", "96", [(8, "f // 12"), (8, "f % 8")]),
        ("f", "10", [(3, "f // 4"), (4, "f % 4")]),
        ("i, j", "7, 5", [(5, "(i * 5 + j) // 7"), (7, "(i * 5 + j + 1) % 7")]),
        ("i, j", "7, 5", [(5, "(i * 5 + j) // 7"), (7, "i")]),
        ("i, j", "8, 8", [(64, "i * j")]),
        ("i", "8", [(8, "7 - i")]),
        ("i, j", "8, n", [(800, "i * 4 + j")]),
    ],
)
def test_bindings_that_are_not_affine(loops: str, extents: str, bindings: list[tuple[int, str]]):
    sch, block = found(bound_to(loops, extents, *bindings), "B")
    assert not affine_binding(sch.state, block)


def test_below_a_loop_outer_variables_count_as_constants():
    sch, block = found(bound_to("i, j", "8, 12", (20, "i + j")), "B")
    _, j = sch.state.loops_of(block)
    assert affine_binding(sch.state, block, below=j)
    assert not is_trivial_binding(sch.state, block)


def test_a_fused_loop_split_with_overhang_stays_affine_and_covers_its_reader():
    @T.prim_func
    def func(A: T.Buffer((10, 7), "float32"), C: T.Buffer((10, 7), "float32")):
        B = T.alloc_buffer((10, 7))
        for i, j in T.grid(10, 7):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
        for i, j in T.grid(10, 7):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj]

    for factors in ([None, 8], [None, 4, 2], [None, 3, 5]):
        sch = Schedule(func)
        sch.split(sch.fuse(*sch.get_loops("B")), factors)
        block = sch.block(sch.get_block("B"))
        assert affine_binding(sch.state, block)
        assert region_cover(sch.state, sch.block(sch.get_block("C")))
    shorter = sch.state.realize_of(block).predicate
    assert "< 70" in str(shorter)
    realize = sch.state.realize_of(block)
    sch.state.replace(block, realize.replace(predicate=shorter.replace(b=shorter.b.replace(value=69))))
    assert not region_cover(sch.state, sch.block(sch.get_block("C")))


# -- complete and reduction blocks --------------------------------------------------------------------


@T.prim_func
def kinds(A: T.Buffer((8, 4), "float32"), D: T.Buffer((8,), "float32"), E: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8, 4))
    C = T.alloc_buffer((8,))
    for i, j in T.grid(8, 4):
        with T.block("complete"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
    for i, j in T.grid(8, 4):
        with T.block("reduction"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + B[vi, vj]
    for i in range(8):
        with T.block("first"):
            v = T.axis.spatial(8, i)
            D[v] = C[v]
    for i in range(8):
        with T.block("second"):
            v = T.axis.spatial(8, i)
            D[v] = D[v] + T.float32(1)
    for i in range(8):
        with T.block("opaque"):
            v = T.axis.opaque(8, i)
            E[v] = C[v]


@pytest.mark.parametrize(
    ("name", "complete", "reduction"),
    [
        ("complete", "", "no T.init"),
        ("reduction", "axis `vj` is not spatial", ""),
        ("first", "written by block `second` too", "no T.init"),
        ("second", "written by block `first` too", "no T.init"),
        ("opaque", "axis `v` is not spatial", "no T.init"),
    ],
)
def test_complete_and_reduction_blocks(name: str, complete: str, reduction: str):
    sch, block = found(kinds, name)
    for reason, expected in (
        (why_not_complete(sch.state, block), complete),
        (why_not_reduction(sch.state, block), reduction),
    ):
        assert expected in reason and bool(expected) == bool(reason)


def test_within_a_loop_only_writers_below_it_count():
    sch, block = found(kinds, "first")
    (loop,) = sch.state.loops_of(block)
    assert why_not_complete(sch.state, block, within=loop) == ""
    require_compact_dataflow(sch, loop)
    other, second = found(kinds, "second")
    (loop,) = other.state.loops_of(second)
    with pytest.raises(ScheduleError, match="neither complete .*both reads and writes `D`"):
        require_compact_dataflow(other, loop)
    other.enable_check = False
    require_compact_dataflow(other, loop)


def test_output_blocks_write_what_the_scope_does_not_allocate():
    outputs = [name for name in ("complete", "reduction", "first", "opaque") if is_output_block(*_pair(kinds, name))]
    assert outputs == ["first", "opaque"]


def _pair(func: PrimFunc, name: str):
    sch, block = found(func, name)
    return sch.state, block


def test_stores_are_found_in_inner_blocks_and_in_the_init_if_asked():
    sch, block = found(kinds, "reduction")
    assert isinstance(block.stmt, Block)
    assert len(stores_of(block.block)) == 1
    assert len(stores_of(block.block, init=True)) == 2
    (root,) = sch.state.roots
    assert len(stores_of(root.block)) == 6


# -- coverage -----------------------------------------------------------------------------------------


def pipeline(producer: str, consumer: str, size: str = "12") -> PrimFunc:
    """Two blocks under a loop `i` of 8: B from A, then C from B."""

    def indented(text: str) -> str:
        return "".join(f"        {line}\n" for line in text.strip().split("\n"))

    return from_source(
        '@T.prim_func\ndef main(A: T.Buffer((8, 64), "float32"), C: T.Buffer((8, 64), "float32"), n: T.int32):\n'
        f"    B = T.alloc_buffer((8, {size}))\n    for i in range(8):\n" + indented(producer) + indented(consumer)
    )


def stage(name: str, loops: str, column: str, where: str, body: str) -> str:
    guard = f"        T.where({where})\n" if where else ""
    return (
        f'for {loops}:\n    with T.block("{name}"):\n        vi = T.axis.spatial(8, i)\n'
        f"        vj = T.axis.spatial(64, {column})\n{guard}        {body}\n"
    )


WRITE = "B[vi, vj] = A[vi, vj]"
READ = "C[vi, vj] = B[vi, vj]"


@pytest.mark.parametrize(
    ("producer", "consumer"),
    [
        (("j in range(12)", "j", ""), ("j in range(12)", "j", "")),
        (("j in range(12)", "j", ""), ("j in range(5)", "j + 3", "")),
        (("j0, j1 in T.grid(3, 4)", "j0 * 4 + j1", ""), ("j in range(12)", "j", "")),
        (("j0, j1 in T.grid(4, 4)", "j0 * 4 + j1", "j0 * 4 + j1 < 12"), ("j in range(12)", "j", "")),
        (("j0, j1 in T.grid(4, 4)", "j0 * 4 + j1", "j0 * 4 + j1 < 7"), ("j in range(7)", "j", "")),
        (("j in range(12)", "j", ""), ("j0, j1 in T.grid(4, 4)", "j0 * 4 + j1", "j0 * 4 + j1 < 12")),
        (("j in range(8)", "j", ""), ("j in range(12)", "j", "j < 8")),
        (("j in range(12)", "j", "n < 3"), ("j in range(12)", "j", "n < 3")),
        (("j in range(12)", "j", "2 <= j"), ("j in range(10)", "j + 2", "")),
        (("j in range(12)", "11 - j", ""), ("j in range(12)", "j", "")),
        (("j0, j1 in T.grid(3, 4)", "j0 * 4 + 3 - j1", ""), ("j in range(12)", "j", "")),
    ],
)
def test_reads_that_are_covered(producer: tuple[str, str, str], consumer: tuple[str, str, str]):
    func = pipeline(stage("B", *producer, WRITE), stage("C", *consumer, READ))
    state, block = _pair(func, "C")
    assert region_cover(state, block)


@pytest.mark.parametrize(
    ("producer", "consumer"),
    [
        (("j in range(11)", "j", ""), ("j in range(12)", "j", "")),
        (("j in range(12)", "j", "j < 11"), ("j in range(12)", "j", "")),
        (("j in range(12)", "j", "1 <= j"), ("j in range(12)", "j", "")),
        (("j in range(12)", "j", "n < 3"), ("j in range(12)", "j", "")),
        (("j in range(12)", "12 - j", ""), ("j in range(12)", "j", "")),
        (("j in range(12)", "j", "n < 3"), ("j in range(12)", "j", "n < 4")),
        (("j in range(6)", "j * 2", ""), ("j in range(12)", "j", "")),
        (("j in range(12)", "j // 2", ""), ("j in range(12)", "j", "")),
        (("j in range(12)", "j", "j % 2 == 0"), ("j in range(12)", "j", "")),
        (("j0, j1 in T.grid(3, 3)", "j0 * 4 + j1", ""), ("j in range(12)", "j", "")),
    ],
)
def test_reads_that_are_not_covered(producer: tuple[str, str, str], consumer: tuple[str, str, str]):
    func = pipeline(stage("B", *producer, WRITE), stage("C", *consumer, READ))
    state, block = _pair(func, "C")
    assert not region_cover(state, block)
    (root,) = state.roots
    assert "block `C` may read" in why_not_stage_pipeline(state, root)


def test_two_producers_cover_together():
    halves = stage("low", "j in range(5)", "j", "", WRITE) + stage("high", "j in range(7)", "j + 5", "", WRITE)
    state, block = _pair(pipeline(halves, stage("C", "j in range(12)", "j", "", READ)), "C")
    assert region_cover(state, block)
    gap = stage("low", "j in range(4)", "j", "", WRITE) + stage("high", "j in range(7)", "j + 5", "", WRITE)
    state, block = _pair(pipeline(gap, stage("C", "j in range(12)", "j", "", READ)), "C")
    assert not region_cover(state, block)


def test_other_iterations_of_a_common_loop_do_not_cover():
    shifted = stage("C", "j in range(12)", "j", "", "C[vi, vj] = B[(vi + 1) % 8, vj]")
    state, block = _pair(pipeline(stage("B", "j in range(12)", "j", "", WRITE), shifted), "C")
    assert not region_cover(state, block)


def test_threads_share_memory_as_its_scope_says():
    def threaded(scope: str) -> PrimFunc:
        return from_source(f"""
@T.prim_func
def main(A: T.Buffer((32,), "float32"), C: T.Buffer((32,), "float32")):
    B = T.alloc_buffer((32,), scope="{scope}")
    for t in T.thread_binding(32, thread="threadIdx.x"):
        with T.block("B"):
            v = T.axis.spatial(32, t)
            B[v] = A[v]
        with T.block("C"):
            v = T.axis.spatial(32, t)
            C[v] = B[31 - v]
""")

    for scope, covered in (("shared", True), ("global", True), ("warp", True), ("local", False)):
        assert region_cover(*_pair(threaded(scope), "C")) is covered


def test_overwriting_what_was_read_breaks_a_pipeline():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("C"):
                v = T.axis.spatial(8, i)
                C[v] = A[v]
        for i in range(8):
            with T.block("A"):
                v = T.axis.spatial(8, i)
                A[v] = T.float32(0)

    sch = Schedule(func)
    (root,) = sch.state.roots
    assert why_not_stage_pipeline(sch.state, root) == "block `A` overwrites what block `C` reads before it"
    assert not is_stage_pipeline(sch.state, root)


def test_answers_follow_the_program_as_it_changes():
    @T.prim_func
    def func(A: T.Buffer((12,), "float32"), C: T.Buffer((12,), "float32")):
        B = T.alloc_buffer((12,))
        for i in range(12):
            with T.block("B"):
                v = T.axis.spatial(12, i)
                B[v] = A[v]
        for i in range(12):
            with T.block("C"):
                v = T.axis.spatial(12, i)
                C[v] = B[v]

    sch = Schedule(func)
    loop = sch.get_loops("B")[0]
    (root,) = sch.state.roots
    assert is_stage_pipeline(sch.state, root)
    shorter = sch.get(loop).replace(extent=sch.get(loop).extent.replace(value=11))
    sch.state.replace(sch.loop(loop), shorter)
    assert not is_stage_pipeline(sch.state, next(iter(sch.state.roots)))


def test_loops_whose_order_decides_when_an_init_runs_are_not_affine_below_a_loop():
    @T.prim_func
    def func(A: T.Buffer((12, 3), "float32"), C: T.Buffer((12,), "float32")):
        for i, k in T.grid(12, 3):
            with T.block("C"):
                v, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[v] = T.float32(0)
                C[v] = C[v] + A[v, vk]

    sch = Schedule(func)
    outer, inner = sch.split(sch.fuse(*sch.get_loops("C")), [None, 8])
    block = sch.block(sch.get_block("C"))
    assert affine_binding(sch.state, block)
    assert not affine_binding(sch.state, block, below=sch.loop(outer))
    with pytest.raises(ScheduleError, match="not bound to an affine map"):
        sch.reorder(inner, outer)
