"""The line and the record of each kind of step, as text and JSON of traces have them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tests.schedule.check import check_replay
from tscript.ir.structural import assert_structural_equal
from tscript.schedule import Schedule, Trace
from tscript.schedule.instruction import InstructionKind
from tscript.script import tir as T


@T.prim_func
def two(X: T.Buffer((8, 12), "float32"), Z: T.Buffer((8, 12), "float32")):
    Y = T.alloc_buffer((8, 12))
    for i, j in T.grid(8, 12):
        with T.block("dbl"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = X[vi, vj] * T.float32(2)
    for i, j in T.grid(8, 12):
        with T.block("inc"):
            vi, vj = T.axis.remap("SS", [i, j])
            Z[vi, vj] = Y[vi, vj] + T.float32(1)


@T.prim_func
def rowsum(X: T.Buffer((8, 12), "float32"), Y: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, 12):
        with T.block("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                Y[vi] = 0.0
            Y[vi] = Y[vi] + X[vi, vk]


class Form(NamedTuple):
    """Steps of which the last is of some kind, its line in text, its record in JSON, and its decision."""

    func: Any
    steps: Callable[[Schedule], Any]
    line: str
    record: list[Any]
    decision: Any = None


def inner(s: Schedule, block: str = "dbl") -> Any:
    return s.get_loops(block)[1]


# Handles count from 0 over all that the steps before give: get_block gives b0, get_loops of two loops l1 and l2.
FORMS: list[Form] = [
    Form(
        two,
        lambda s: s.get_block("dbl"),
        'b0 = sch.get_block(name="dbl", func_name="main")',
        ["GetBlock", [], ["dbl", "main"], ["b0"]],
    ),
    Form(two, lambda s: s.get_loops("dbl"), "l1, l2 = sch.get_loops(block=b0)", ["GetLoops", ["b0"], [], ["l1", "l2"]]),
    Form(
        two,
        lambda s: s.get_child_blocks(s.get_block("root")),
        "b1, b2 = sch.get_child_blocks(b0)",
        ["GetChildBlocks", ["b0"], [], ["b1", "b2"]],
    ),
    Form(
        two,
        lambda s: s.get_producers("inc"),
        "b1, = sch.get_producers(block=b0)",
        ["GetProducers", ["b0"], [], ["b1"]],
    ),
    Form(
        two,
        lambda s: s.get_consumers("inc"),
        "sch.get_consumers(block=b0)",
        ["GetConsumers", ["b0"], [], []],
    ),
    Form(
        two,
        lambda s: s.get_output_blocks("root"),
        "b1, = sch.get_output_blocks(block=b0)",
        ["GetOutputBlocks", ["b0"], [], ["b1"]],
    ),
    Form(
        two,
        lambda s: s.sample_categorical([2, 4], [0.25, 0.75], decision=1),
        "v0 = sch.sample_categorical(candidates=[2, 4], probs=[0.25, 0.75], decision=1)",
        ["SampleCategorical", [], [[2, 4], [0.25, 0.75]], ["v0"]],
        1,
    ),
    Form(
        two,
        lambda s: s.sample_perfect_tile(inner(s), n=2, max_innermost_factor=8, decision=[3, 4]),
        "v3, v4 = sch.sample_perfect_tile(loop=l2, n=2, max_innermost_factor=8, decision=[3, 4])",
        ["SamplePerfectTile", ["l2"], [2, 8], ["v3", "v4"]],
        [3, 4],
    ),
    Form(
        two,
        lambda s: s.sample_partitioned_tile(inner(s), n=3, partition_pos=1, innerpart_factor=4, decision=[3, 2, 2]),
        "v3, v4, v5 = sch.sample_partitioned_tile(loop=l2, n=3, partition_pos=1, innerpart_factor=4, "
        "decision=[3, 2, 2])",
        ["SamplePartitionedTile", ["l2"], [3, 1, 4], ["v3", "v4", "v5"]],
        [3, 2, 2],
    ),
    Form(
        two,
        lambda s: s.sample_compute_location("dbl", decision=0),
        "l1 = sch.sample_compute_location(block=b0, decision=0)",
        ["SampleComputeLocation", ["b0"], [], ["l1"]],
        0,
    ),
    Form(
        two,
        lambda s: s.merge(inner(s), inner(s, "inc")),
        "l6 = sch.merge(l2, l5)",
        ["Merge", ["l2", "l5"], [], ["l6"]],
    ),
    Form(
        two,
        lambda s: s.fuse(*s.get_loops("dbl")),
        "l3 = sch.fuse(l1, l2, preserve_unit_iters=True)",
        ["Fuse", ["l1", "l2"], [1], ["l3"]],
    ),
    Form(
        two,
        lambda s: s.split(inner(s), [None, 3, 2], preserve_unit_iters=False, disable_predication=True),
        "l3, l4, l5 = sch.split(loop=l2, factors=[None, 3, 2], preserve_unit_iters=False, disable_predication=True)",
        ["Split", ["l2", "None", 3, 2], [0, 1], ["l3", "l4", "l5"]],
    ),
    Form(
        two,
        lambda s: s.loop_partition(inner(s), [5, None]),
        "l3, l4 = sch.loop_partition(loop=l2, factors=[5, None], preserve_unit_iters=True)",
        ["LoopPartition", ["l2", 5, "None"], [1], ["l3", "l4"]],
    ),
    Form(
        two,
        lambda s: s.reorder(*reversed(s.get_loops("dbl"))),
        "sch.reorder(l2, l1)",
        ["Reorder", ["l2", "l1"], [], []],
    ),
    Form(two, lambda s: s.reorder(), "sch.reorder()", ["Reorder", [], [], []]),
    Form(
        two,
        lambda s: s.reorder_block_iter_var(s.get_block("dbl"), [1, 0]),
        "sch.reorder_block_iter_var(block=b0, new_order=[1, 0])",
        ["ReorderBlockIterVar", ["b0", [1, 0]], [], []],
    ),
    Form(
        two,
        lambda s: s.add_unit_loop(s.get_block("dbl")),
        "l1 = sch.add_unit_loop(block_or_loop=b0)",
        ["AddUnitLoop", ["b0"], [], ["l1"]],
    ),
    Form(two, lambda s: s.parallel(inner(s)), "sch.parallel(loop=l2)", ["Parallel", ["l2"], [], []]),
    Form(two, lambda s: s.vectorize(inner(s)), "sch.vectorize(loop=l2)", ["Vectorize", ["l2"], [], []]),
    Form(two, lambda s: s.unroll(inner(s)), "sch.unroll(loop=l2)", ["Unroll", ["l2"], [], []]),
    Form(
        two,
        lambda s: s.bind(inner(s), "threadIdx.x"),
        'sch.bind(loop=l2, thread_axis="threadIdx.x")',
        ["Bind", ["l2"], ["threadIdx.x"], []],
    ),
    Form(
        two,
        lambda s: s.cache_read("inc", 0, "shared.dyn"),
        'b1 = sch.cache_read(block=b0, read_buffer_index=0, storage_scope="shared.dyn")',
        ["CacheRead", ["b0", []], [0, "shared.dyn"], ["b1"]],
    ),
    Form(
        two,
        lambda s: s.cache_read(s.get_block("inc"), "Y", "local", consumer_blocks=["inc"]),
        'b2 = sch.cache_read(block=b0, read_buffer_index=0, storage_scope="local", consumer_blocks=[b1])',
        ["CacheRead", ["b0", ["b1"]], [0, "local"], ["b2"]],
    ),
    Form(
        two,
        lambda s: s.cache_write("inc", 0, "local"),
        'b1 = sch.cache_write(block=b0, write_buffer_index=0, storage_scope="local")',
        ["CacheWrite", ["b0", []], [0, "local"], ["b1"]],
    ),
    Form(
        two,
        lambda s: s.cache_write(s.get_block("dbl"), 0, "local", consumer_blocks=["inc"]),
        'b2 = sch.cache_write(block=b0, write_buffer_index=0, storage_scope="local", consumer_blocks=[b1])',
        ["CacheWrite", ["b0", ["b1"]], [0, "local"], ["b2"]],
    ),
    Form(
        two,
        lambda s: s.compute_at(s.get_block("dbl"), s.get_loops("inc")[0]),
        "sch.compute_at(block=b0, loop=l2, preserve_unit_loops=False, index=-1)",
        ["ComputeAt", ["b0", "l2"], [0, -1], []],
    ),
    Form(
        two,
        lambda s: s.reverse_compute_at(s.get_block("inc"), s.get_loops("dbl")[0], preserve_unit_loops=True, index=1),
        "sch.reverse_compute_at(block=b0, loop=l2, preserve_unit_loops=True, index=1)",
        ["ReverseComputeAt", ["b0", "l2"], [1, 1], []],
    ),
    Form(two, lambda s: s.compute_inline("dbl"), "sch.compute_inline(block=b0)", ["ComputeInline", ["b0"], [], []]),
    Form(
        two,
        lambda s: s.reverse_compute_inline("inc"),
        "sch.reverse_compute_inline(block=b0)",
        ["ReverseComputeInline", ["b0"], [], []],
    ),
    Form(
        rowsum,
        lambda s: s.decompose_reduction(s.get_block("sum"), s.get_loops("sum")[1]),
        "b4 = sch.decompose_reduction(block=b0, loop=l3)",
        ["DecomposeReduction", ["b0", "l3"], [], ["b4"]],
    ),
    Form(
        two,
        lambda s: s.storage_align("dbl", 0, axis=-2, factor=32, offset=8),
        "sch.storage_align(block=b0, buffer_index=0, axis=-2, factor=32, offset=8)",
        ["StorageAlign", ["b0"], [0, -2, 32, 8], []],
    ),
    Form(
        two,
        lambda s: s.set_scope("dbl", "Y", "shared"),
        'sch.set_scope(block=b0, buffer_index=0, storage_scope="shared")',
        ["SetScope", ["b0"], [0, "shared"], []],
    ),
    Form(
        two,
        lambda s: s.annotate(s.get_block("dbl"), "k", True),
        'sch.annotate(block_or_loop=b0, ann_key="k", ann_val=1)',
        ["Annotate", ["b0", 1], ["k"], []],
    ),
    Form(
        two,
        lambda s: s.annotate(inner(s), "k", "float"),
        'sch.annotate(block_or_loop=l2, ann_key="k", ann_val="float")',
        ["Annotate", ["l2", '"float"'], ["k"], []],
    ),
    Form(
        two,
        lambda s: (s.annotate(s.get_block("dbl"), "k", 1), s.unannotate(s.get_block("dbl"), "k")),
        'sch.unannotate(block_or_loop=b1, ann_key="k")',
        ["Unannotate", ["b1"], ["k"], []],
    ),
    Form(two, lambda s: s.enter_postproc(), "sch.enter_postproc()", ["EnterPostproc", [], [], []]),
]


@pytest.mark.parametrize("form", FORMS, ids=[f.line.partition("sch.")[2] for f in FORMS])
def test_a_step_has_its_line_and_its_record(form: Form) -> None:
    sch = Schedule(form.func, seed=3)
    form.steps(sch)
    assert str(sch.trace).splitlines()[-1] == "  " + form.line
    instructions, decisions = sch.trace.as_json()
    assert instructions[-1] == form.record
    assert decisions == ([] if form.decision is None else [[len(instructions) - 1, form.decision]])
    check_replay(form.func, sch)


def test_the_kinds_that_may_be_dropped_are_those_that_ask_or_draw() -> None:
    pure = {"GetBlock", "GetLoops", "GetChildBlocks", "GetProducers", "GetConsumers", "GetOutputBlocks"}
    drawn = {"SampleCategorical", "SamplePerfectTile", "SamplePartitionedTile", "SampleComputeLocation"}
    kinds = InstructionKind.registry.values()
    assert {k.name for k in kinds if k.is_pure} == pure | drawn
    assert {k.name for k in kinds if k.has_decision} == drawn
    assert [k.name for k in kinds if k.is_postproc] == ["EnterPostproc"]


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({}, "a trace in JSON is"),
        ([[], {}], "a trace in JSON is"),
        ([[], [3]], "a decision is"),
        ([[["GetBlock", [], ["C", "main"], [7]]], []], "instruction 0 gives 7"),
        ([[["GetBlock", [], ["C", "main"], ["q0"]]], []], "instruction 0 gives 'q0': handles are named b, l or v"),
        ([[["GetLoops", ["b0"], [], ["l1"]]], []], "'b0', which nothing before it gives"),
        ([[["Grow", [], [], []]], []], "no instruction kind 'Grow'"),
    ],
)
def test_a_trace_is_not_read_from_what_is_none(form, message):
    with pytest.raises(ValueError, match=message):
        Trace.from_json(form)


def test_a_trace_of_a_newer_tool_is_read():
    sch = Schedule(two)
    sch.parallel(sch.get_loops("dbl")[0])
    text = json.dumps(sch.trace.as_json())
    again = Schedule(two)
    Trace.apply_json_to_schedule(json.loads(text.replace("GetBlock", "GetSBlock")), again)
    assert_structural_equal(again.mod, sch.mod)
    assert json.dumps(again.trace.as_json()) == text
