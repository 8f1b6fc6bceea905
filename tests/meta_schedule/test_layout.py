"""Weights that get the layout in which schedules read them, and builds that take them in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tscript
from tscript import meta_schedule as ms
from tscript import te
from tscript.ir.function import PrimFunc
from tscript.meta_schedule.postproc import RewriteLayout, lay_out, remove_layout_blocks
from tscript.meta_schedule.search_strategy.sampler import finish
from tscript.schedule import Schedule
from tscript.script import tir as T
from tscript.support.errors import TuneError
from tscript.testing.workloads import matmul

TARGET = "llvm -num-cores 1"


def weighted(m: int, n: int, k: int, numbers: Any = (1,)) -> PrimFunc:
    return matmul(m, n, k).func.with_attr("layout_free_buffers", list(numbers))


def tiled(func: PrimFunc, factor: int = 4) -> Schedule:
    sch = Schedule(func)
    i, j, k = sch.get_loops("C")
    outer, inner = sch.split(j, [None, factor])
    sch.reorder(outer, i, k, inner)
    return sch


def check(sch: Schedule, func: PrimFunc) -> None:
    """The program with its layout blocks, and without them on laid out weights, computes what it did."""
    rng = np.random.default_rng(0)
    given = [
        (rng.integers(-8, 9, [int(n) for n in func.buffer_map[p].shape]) / 8).astype("float32") for p in func.params
    ]
    expected, whole = [a.copy() for a in given], [a.copy() for a in given]
    tscript.build(func, target=TARGET)(*expected)
    tscript.build(sch.mod, target=TARGET)(*whole)
    lean = lay_out(sch.mod, [a.copy() for a in given])
    tscript.build(remove_layout_blocks(sch.mod), target=TARGET)(*lean)
    np.testing.assert_allclose(whole[-1], expected[-1], rtol=1e-4)
    np.testing.assert_allclose(lean[-1], expected[-1], rtol=1e-4)


def test_a_weight_is_laid_out_as_it_is_read() -> None:
    func = weighted(8, 16, 12)
    sch = tiled(func)
    assert RewriteLayout().apply(sch)

    @T.prim_func
    def main(A: T.Buffer((8, 12)), B: T.Buffer((4, 12, 4)), C: T.Buffer((8, 16))):
        T.func_attr({"tir.noalias": True, "global_symbol": "main", "layout_free_buffers": [1]})
        for j0, i, k, j1 in T.grid(4, 8, 12, 4):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                vj = T.axis.spatial(16, j0 * 4 + j1)
                vk = T.axis.reduce(12, k)
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj // 4, vk, vj % 4]

    lean = remove_layout_blocks(sch.mod)["main"]
    tscript.ir.assert_structural_equal(lean.body, main.body, True)
    text = sch.trace.script() if sch.trace is not None else ""
    assert "cache_read" in text and "transform_layout" in text and "meta_schedule.layout_rewrite_preproc" in text
    check(sch, func)


@pytest.mark.parametrize("shape", [(1, 1, 1), (4, 4, 1), (7, 12, 5)])
def test_weights_of_any_size_compute_the_same(shape: tuple[int, int, int]) -> None:
    func = weighted(*shape, (0, 1))
    sch = tiled(func, 2 if shape[1] % 2 == 0 else 1)
    assert RewriteLayout().apply(sch)
    check(sch, func)


def test_fused_loops_are_seen_through() -> None:
    func = weighted(8, 16, 12)
    sch = tiled(func)
    outer, i, *_ = sch.get_loops("C")
    sch.fuse(outer, i)
    assert RewriteLayout().apply(sch)
    assert [int(n) for n in sch.get(sch.get_block("B_global")).writes[0].buffer.shape] == [4, 12, 4]
    check(sch, func)


def test_a_layout_that_fits_already_stays() -> None:
    sch = Schedule(weighted(8, 16, 12, (0,)))  # A is read row by row
    before = str(sch.mod)
    assert RewriteLayout().apply(sch) and str(sch.mod) == before


def test_tiles_that_do_not_divide_a_weight_leave_it_alone() -> None:
    sch = tiled(weighted(8, 10, 12))
    before = str(sch.mod)
    assert RewriteLayout().apply(sch) and str(sch.mod) == before


def test_a_weight_with_two_readers_stays() -> None:
    @T.prim_func
    def twice(A: T.Buffer((8, 4)), B: T.Buffer((4, 8)), C: T.Buffer((4, 8))):
        T.func_attr({"layout_free_buffers": [0]})
        for i, j in T.grid(4, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vj, vi]
        for i, j in T.grid(4, 8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vj, vi] * T.float32(2)

    sch = Schedule(twice)
    before = str(sch.mod)
    assert RewriteLayout().apply(sch) and str(sch.mod) == before
    c = sch.cache_read("C", 0, "global", [sch.get_block("C")])
    sch.annotate(c, "meta_schedule.layout_rewrite_preproc", 1)
    with pytest.raises(TuneError, match="A is copied into another layout"):
        remove_layout_blocks(sch.mod)


def test_a_packed_panel_is_a_layout() -> None:
    func = weighted(8, 16, 12)
    sch = tiled(func)
    copy = sch.cache_read("C", 1, "global")
    sch.transform_layout(copy, ("write", 0), lambda k, j: [j // 4, k, j % 4])
    assert RewriteLayout().apply(sch)
    assert "meta_schedule.layout_rewrite_preproc" in sch.get(sch.get_block("B_global")).annotations
    check(sch, func)


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="parameter 3"):
        RewriteLayout().apply(Schedule(weighted(4, 4, 4, (3,))))


def test_te_says_which_tensors_are_free() -> None:
    a, b = te.placeholder((8, 12), name="A"), te.placeholder((12, 16), name="B")
    k = te.reduce_axis((0, 12), name="k")
    c = te.compute(
        (8, 16), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C", attrs={"layout_free_placeholders": [b]}
    )
    sch = tiled(te.create_prim_func([a, b, c]))
    assert RewriteLayout().apply(sch)
    assert [int(n) for n in remove_layout_blocks(sch.mod)["main"].buffer_map[sch.mod["main"].params[1]].shape] == [
        4, 12, 4,
    ]  # fmt: skip


def test_the_default_space_lays_weights_out() -> None:
    func = weighted(16, 32, 24)
    space = ms.space_generator.PostOrderApply(sch_rules="llvm", postprocs="llvm", mutator_probs="llvm")
    ctx = ms.TuneContext(func, target=TARGET, space_generator=space, rand_state=1)
    rewritten = 0
    for k, design in enumerate(ctx.generate_design_space()):
        trace = design.trace.simplified(remove_postproc=True)
        made = finish(ctx.mod, trace, ctx.space_generator.postprocs, 20 + k, True)
        if isinstance(made, Schedule):
            rewritten += "layout_rewrite_preproc" in str(made.mod)
            check(made, func)
    assert rewritten


def test_tuning_holds_candidates_to_the_program_before(tmp_path: Any) -> None:
    func = weighted(16, 32, 24)
    database = ms.tune_tir(
        func, target=TARGET, work_dir=str(tmp_path), max_trials_global=6, num_trials_per_iter=6, seed=3
    )
    records = database.get_all_tuning_records()
    assert any(r.is_valid for r in records)
    best = ms.tir_integration.compile_tir(database, func, TARGET)
    assert best is not None
    check(best, func)
