"""Products of 16x8x8: their descriptions match programs and compute them, and say what cannot be run."""

from __future__ import annotations

import numpy as np
import pytest

from tscript import interp
from tscript.ir.functor import post_order_visit
from tscript.ir.stmt import Evaluate
from tscript.schedule import Schedule
from tscript.script import tir as T
from tscript.support.errors import UnknownMeaning
from tscript.tensor_intrin import m16n8k8
from tscript.tir import TensorIntrin
from tscript.tir.tensor_intrin import cuda

NAMES = [n for n in TensorIntrin.names() if "m16n8k8" in n]


def test_all_that_peers_know_are_there() -> None:
    assert NAMES == sorted(
        [f"mma_{step}_m16n8k8_{t}" for step, t in (("init", "f16"), ("init", "f32"))]
        + [f"mma_load_m16n8k8_f16_{o}_shared_dyn" for o in "AB"]
        + [f"mma_store_m16n8k8_{t}_global" for t in ("f16", "f32")]
        + [f"mma_sync_m16n8k8_f16f16{t}" for t in ("f16", "f32")]
    )
    assert cuda.get_mma_sync_intrin is m16n8k8.get_mma_sync_intrin


@pytest.mark.parametrize("out", ["float16", "float32"])
def test_descriptions_together_compute_a_product(out: str) -> None:
    short = "f16" if out == "float16" else "f32"
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, s).astype("float16") for s in ((32, 8), (8, 32)))
    a_tile, b_tile = np.zeros_like(a), np.zeros_like(b)
    c, stored = np.ones((16, 8), out), np.zeros((16, 8), out)
    interp.run(TensorIntrin.get("mma_load_m16n8k8_f16_A_shared_dyn").desc, a, a_tile)
    interp.run(TensorIntrin.get("mma_load_m16n8k8_f16_B_shared_dyn").desc, b, b_tile)
    init = TensorIntrin.get(f"mma_init_m16n8k8_{short}")
    for part in (init.desc, init.impl):
        c[:] = 1
        interp.run(part, c)
        assert not c.any()
    interp.run(TensorIntrin.get(f"mma_sync_m16n8k8_f16f16{short}").desc, a_tile[16:], b_tile[:, 8:16].copy(), c)
    interp.run(TensorIntrin.get(f"mma_store_m16n8k8_{short}_global").impl, c, stored)
    np.testing.assert_array_equal(stored, a[16:].astype(out) @ b[:, 8:16].astype(out))


@T.prim_func
def product(A: T.Buffer((64, 8), "float16"), B: T.Buffer((8, 32), "float16"), C: T.Buffer((64, 32), "float32")):
    for i, j, k in T.grid(64, 32, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], "float32") * T.cast(B[vk, vj], "float32")


def test_a_product_is_made_of_them_as_far_as_it_can_be_run() -> None:
    sch = Schedule(product)
    i, j, k = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 16])
    j0, j1 = sch.split(j, [None, 8])
    sch.reorder(i0, j0, i1, j1, k)
    fragments = []
    for index, operand in enumerate("AB"):
        shared = sch.cache_read("C", index, "shared.dyn")
        fragments.append(sch.cache_read("C", index, f"m16n8k8.matrix{operand}"))
        sch.annotate(shared, "loaded", operand)
    sch.cache_write("C", 0, "m16n8k8.matrixC")
    init = sch.decompose_reduction("C", i1)
    before = sch.mod["main"]
    for operand, block in zip("AB", fragments, strict=True):
        rows, columns = sch.get_loops(block)
        outer, inner = sch.split(rows, [None, 32]) if operand == "A" else sch.split(columns, [None, 32])
        if operand == "B":
            sch.reorder(outer, rows)
            inner = rows
        sch.tensorize(inner, f"mma_load_m16n8k8_f16_{operand}_shared_dyn")
    sch.tensorize(sch.get_loops(init)[-2], "mma_init_m16n8k8_f32")
    sch.tensorize(i1, "mma_sync_m16n8k8_f16f16f32")
    instructions: list[str] = []
    post_order_visit(
        sch.mod["main"].body, lambda n: instructions.append(n.value.op.name) if isinstance(n, Evaluate) else None
    )
    assert sorted(instructions) == ["tir.ptx_ldmatrix", "tir.ptx_ldmatrix", "tir.ptx_mma"]
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, s).astype("float16") for s in ((64, 8), (8, 32)))
    c = np.zeros((64, 32), "float32")
    interp.run(before, a, b, c)
    np.testing.assert_array_equal(c, a.astype("float32") @ b.astype("float32"))
    with pytest.raises(UnknownMeaning, match="written as a matrix"):
        interp.run(sch.mod["main"], a, b, c)


def test_tiles_of_other_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="four tiles of 8x8 float16"):
        m16n8k8.get_mma_load_intrin(16, 32, 8, "float16", "shared.dyn", False, False)
    with pytest.raises(ValueError, match="16x8x8 of float16"):
        m16n8k8.get_mma_sync_intrin(16, 8, 16, "float16", "float32", False)
    with pytest.raises(ValueError, match="float16 or float32"):
        m16n8k8.get_mma_init_intrin(16, 8, 8, "int32")


@pytest.mark.parametrize("transposed", [False, True])
def test_second_operands_may_be_transposed(transposed: bool) -> None:
    desc, _ = m16n8k8.get_mma_sync_intrin(16, 8, 8, "float16", "float32", transposed)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, s).astype("float16") for s in ((16, 8), (8, 8)))
    c = np.zeros((16, 8), "float32")
    interp.run(desc, a, b, c)
    np.testing.assert_array_equal(c, a.astype("float32") @ (b.T if transposed else b).astype("float32"))
