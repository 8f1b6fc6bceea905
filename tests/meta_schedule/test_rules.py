"""Rules one by one: custom rules, inlining, places left to chance, and the options of tiling."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import tscript
from tscript import meta_schedule as ms
from tscript.meta_schedule.schedule_rule import (
    ApplyCustomRule,
    AutoInline,
    InlineConstantScalars,
    MultiLevelTiling,
    RandomComputeLocation,
    ReuseType,
)
from tscript.meta_schedule.schedule_rule.multi_level_tiling import fits_vector
from tscript.runtime.registry import register_func
from tscript.schedule import Schedule
from tscript.script import tir as T
from tscript.support.errors import TuneError
from tscript.testing.workloads import matmul

TARGET = "llvm -num-cores 1"


def ready(rule: Any) -> Any:
    rule.initialize_with_tune_context(ms.TuneContext(target=TARGET))
    return rule


@T.prim_func
def chain(A: T.Buffer((8, 8)), D: T.Buffer((8, 8)), S: T.Buffer((8,))):
    B = T.alloc_buffer((8, 8))
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.exp(A[vj, vi])
    for i, j in T.grid(8, 8):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[vi, vj] + T.float32(1)
    for i, j in T.grid(8, 8):
        with T.block("S"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + A[vi, vj]


@T.prim_func
def guarded(A: T.Buffer((8,)), C: T.Buffer((8,)), S: T.Buffer((1,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = T.if_then_else(v < 4, A[v], T.float32(0))
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v] * T.float32(2)
    for i in range(8):
        with T.block("S"):
            v = T.axis.reduce(8, i)
            with T.init():
                S[0] = T.float32(0)
            S[0] = S[0] + A[v]


@T.prim_func
def constant(A: T.Buffer((8,)), C: T.Buffer((8,))):
    k = T.alloc_buffer(())
    with T.block("k"):
        k[()] = T.float32(3)
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = A[v] * k[()]


def names(sch: Schedule) -> set[str]:
    return {sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))}


def has_block(sch: Schedule, name: str) -> bool:
    root = sch.get_sref(sch.get_block("root"))
    return any(b.block.name_hint == name for b in sch.state.blocks_below(root))


def inlining(**changes: Any) -> AutoInline:
    options: dict[str, Any] = {
        "into_producer": False, "into_consumer": True, "inline_const_tensor": True, "disallow_if_then_else": False,
        "require_injective": False, "require_ordered": False, "disallow_op": [],
    }  # fmt: skip
    return AutoInline(**(options | changes))


def is_inlined(func: Any, block: str, **changes: Any) -> bool:
    sch = Schedule(func)
    assert inlining(**changes).apply(sch, sch.get_block(block)) == [sch]
    return block not in names(sch)


def test_cheap_blocks_are_inlined_unless_a_flag_forbids() -> None:
    assert is_inlined(chain, "B")
    assert not is_inlined(chain, "B", into_consumer=False)
    assert not is_inlined(chain, "B", disallow_op=["tir.exp"])
    assert is_inlined(chain, "B", require_injective=True)
    assert not is_inlined(chain, "B", require_ordered=True)  # A is transposed
    assert is_inlined(guarded, "B") and not is_inlined(guarded, "B", disallow_if_then_else=True)
    assert is_inlined(constant, "k", into_consumer=False)
    assert not is_inlined(constant, "k", into_consumer=False, inline_const_tensor=False)
    assert not is_inlined(chain, "S") and not is_inlined(chain, "D")


def test_a_consumer_is_inlined_into_its_producer() -> None:
    assert is_inlined(chain, "D", into_producer=True)
    sch = Schedule(chain)
    sch.annotate("B", "meta_schedule.auto_tensorize", "some")
    assert inlining(into_producer=True).apply(sch, sch.get_block("D")) == [sch]
    assert "D" in names(sch)


def test_an_annotation_keeps_a_block() -> None:
    sch = Schedule(chain)
    sch.annotate("B", "meta_schedule.inline_rule", "disable")
    inlining().apply(sch, sch.get_block("B"))
    assert "B" in names(sch)


def test_constants_without_dimensions_are_inlined() -> None:
    sch = Schedule(constant)
    assert InlineConstantScalars().apply(sch, sch.get_block("k")) == [sch]
    assert names(sch) == {"C"}
    assert InlineConstantScalars().apply(sch, sch.get_block("C")) == [sch] and names(sch) == {"C"}


def custom(name: str) -> Schedule:
    sch = Schedule(matmul(8, 8, 8).func)
    sch.annotate("C", "schedule_rule", name)
    return sch


def test_a_registered_function_schedules_the_blocks_that_name_it() -> None:
    @register_func("meta_schedule.cpu.test_rules_tile", override=True)
    def tile(sch: Schedule, block: Any) -> list[Schedule]:
        i, *_ = sch.get_loops(block)
        sch.split(i, [None, 4])
        return [sch]

    sch = custom("test_rules_tile")
    (made,) = ready(ApplyCustomRule()).apply(sch, sch.get_block("C"))
    assert len(made.get_loops("C")) == 4

    register_func("meta_schedule.cpu.test_rules_tile", lambda sch, block: 5, override=True)
    with pytest.raises((TuneError, TypeError)):
        ready(ApplyCustomRule()).apply(made, made.get_block("C"))


def test_none_keeps_all_rules_away() -> None:
    func = custom("None").mod
    ctx = ms.TuneContext(func, target=TARGET, space_generator="post-order-apply", rand_state=1)
    assert ctx.space_generator is not None and ctx.mod is not None
    for sch in ctx.space_generator.generate_design_space(ctx.mod):
        assert len(sch.get_loops("C")) == 3


def test_a_missing_function_is_named_in_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    sch = custom("no_such_rule")
    with caplog.at_level(logging.WARNING, "tscript.meta_schedule"):
        assert ready(ApplyCustomRule()).apply(sch, sch.get_block("C")) == [sch]
    assert "meta_schedule.cpu.no_such_rule" in caplog.text
    assert "schedule_rule" not in sch.get(sch.get_block("C")).annotations


def test_a_place_is_sampled_for_blocks_with_consumers() -> None:
    found: set[int] = set()
    for seed in range(1, 20):
        sch = Schedule(chain, seed=seed)
        assert RandomComputeLocation().apply(sch, sch.get_block("B")) == [sch]
        assert sch.trace is not None and "sample_compute_location" in sch.trace.script()
        found.add(len(sch.get_loops("B")) if has_block(sch, "B") else -1)
        tscript.build(sch.mod, target=TARGET)
    assert len(found) > 1  # inlined, or at one loop or another
    sch = Schedule(chain)
    RandomComputeLocation().apply(sch, sch.get_block("S"))  # nobody reads it
    assert sch.trace is not None and "sample_compute_location" not in sch.trace.script()


def test_a_block_says_where_its_copy_is_written() -> None:
    sch = Schedule(matmul(16, 16, 16).func)
    sch.annotate("C", "meta_schedule.write_cache_level", [2])
    rule = ready(MultiLevelTiling("SSRSRS", reuse_write=ReuseType("no", (), "local")))
    (made,) = rule.apply(sch, sch.get_block("C"))
    assert made.trace is not None and 'storage_scope="local"' in made.trace.script()
    assert "meta_schedule.write_cache_level" not in made.get(made.get_block("C")).annotations


def test_vector_lengths_fit_the_type() -> None:
    for dtype, wanted in (("float32", [1, 2, 3, 4]), ("float16", [1, 2, 4, 8]), ("int8", [1, 2, 3, 4, 8, 16])):
        assert [n for n in (1, 2, 3, 4, 8, 16) if fits_vector(dtype, n)] == wanted
    sch = Schedule(matmul(16, 16, 16).func)
    rule = ready(MultiLevelTiling("SRS", vector_load_lens=[1, 4, 8], reuse_read=ReuseType("must", (2,), "shared")))
    (made,) = rule.apply(sch, sch.get_block("C"))
    assert made.trace is not None
    text = made.trace.script()
    assert text.count("candidates=[1, 4], probs=[0.5, 0.5]") == 2 and text.count("meta_schedule.cooperative_fetch") == 2


def test_wrong_settings_are_refused() -> None:
    for make in (
        lambda: MultiLevelTiling("SXS"),
        lambda: MultiLevelTiling("SR", tile_binds=["a", "b", "c"]),
        lambda: MultiLevelTiling("SR", reuse_read=ReuseType("must", (3,), "shared")),
        lambda: ReuseType("perhaps"),
    ):
        with pytest.raises(ValueError):
            make()
