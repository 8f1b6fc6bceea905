"""Blocks that become intrinsics of processors in the default space."""

from __future__ import annotations

import numpy as np
import pytest

import tscript
from tscript import meta_schedule as ms
from tscript.meta_schedule.search_strategy.sampler import finish
from tscript.schedule import Schedule
from tscript.script import tir as T
from tscript.target.target import Target


@T.prim_func
def dense(A: T.Buffer((16, 32), "uint8"), B: T.Buffer((2, 8, 16, 4), "int8"), C: T.Buffer((16, 2, 16), "int32")):
    for i, jo, ji, ko, ki in T.grid(16, 2, 16, 8, 4):
        with T.block("C"):
            vi, vjo, vji, vko, vki = T.axis.remap("SSSRR", [i, jo, ji, ko, ki])
            with T.init():
                C[vi, vjo, vji] = 0
            C[vi, vjo, vji] = C[vi, vjo, vji] + T.cast(A[vi, vko * 4 + vki], "int32") * T.cast(
                B[vjo, vko, vji, vki], "int32"
            )


@pytest.mark.skipif("avx512vnni" not in Target("llvm").features, reason="needs a processor with VNNI")
def test_dot_products_of_bytes_become_instructions() -> None:
    target = "llvm -num-cores 1"
    space = ms.space_generator.PostOrderApply(sch_rules="vnni", postprocs="vnni", mutator_probs="vnni")
    ctx = ms.TuneContext(dense, target=target, space_generator=space, rand_state=1)
    assert ctx.mod is not None
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 255, (16, 32), np.uint8), rng.integers(-128, 127, (2, 8, 16, 4), np.int8)
    columns = b.astype(np.int32).transpose(1, 3, 0, 2).reshape(32, 2, 16)
    expected = np.tensordot(a.astype(np.int32), columns, 1)
    tensorized = 0
    for k, design in enumerate(ctx.generate_design_space()):
        assert design.trace is not None
        made = finish(ctx.mod, design.trace.simplified(remove_postproc=True), space.postprocs, 5 + k, True)
        assert isinstance(made, Schedule), made
        tensorized += "vpdpbusd" in str(made.mod)
        c = np.zeros((16, 2, 16), np.int32)
        tscript.build(made.mod, target=target)["main"](a, b, c)
        np.testing.assert_array_equal(c, expected)
    assert tensorized
