"""annotate, unannotate, add_unit_loop, reorder_block_iter_var, enter_postproc."""

from __future__ import annotations

import numpy as np
import pytest

from tests.schedule.check import check_schedule, rejects
from tests.schedule.test_split import rowsum
from tscript.schedule import Schedule, Trace
from tscript.script import tir as T
from tscript.testing.workloads import matmul


@pytest.mark.parametrize(
    ("value", "shown", "record", "in_json"),
    [
        (3, "3", "3", 3),
        (-1, "-1", "-1", -1),
        (1 << 40, "T.int64(1099511627776)", "1099511627776", 1 << 40),
        (True, "1", "1", 1),
        (np.int64(7), "7", "7", 7),
        (0.5, "T.float32(0.5)", "0.5", 0.5),
        (2.0, "T.float32(2.0)", "2.0", 2.0),
        ("text", '"text"', '"text"', '"text"'),
        ([1, "a", 2.5], '[1, "a", T.float32(2.5)]', '[1, "a", 2.5]', [1, '"a"', 2.5]),
        ([True], "[T.bool(True)]", "[True]", [True]),
        ([], "[]", "[]", []),
        ({"a": 1, "b": [2, "c"]}, '{"a": 1, "b": [2, "c"]}', '{"a": 1, "b": [2, "c"]}', {"a": 1, "b": [2, "c"]}),
    ],
)
def test_values_of_annotations(value: object, shown: str, record: str, in_json: object) -> None:
    sch = check_schedule(rowsum, lambda s: s.annotate(s.get_block("sum"), "k", value), native=False)
    assert f'T.block_attr({{"k": {shown}}})' in sch.mod.script()
    assert str(sch.trace).splitlines()[-1] == f'  sch.annotate(block_or_loop=b0, ann_key="k", ann_val={record})'
    assert sch.trace.as_json()[0][-1] == ["Annotate", ["b0", in_json], ["k"], []]


def test_sampled_numbers_are_evaluated_and_recorded_as_handles() -> None:
    def steps(s: Schedule) -> None:
        v = s.sample_categorical([4, 8], [1.0, 0.0], decision=0)
        b = s.get_block("sum")
        s.annotate(b, "one", v)
        s.annotate(b, "sum", v * 2 + 1)
        s.annotate(b, "list", [v, 3])
        s.annotate(b, "dict", {"x": v})

    sch = check_schedule(rowsum, steps)
    assert 'T.block_attr({"dict": {"x": 4}, "list": [4, 3], "one": 4, "sum": 9})' in sch.mod.script()
    assert 'ann_key="sum", ann_val=v0 * 2 + 1)' in str(sch.trace) and "ann_val=[v0, 3]" in str(sch.trace)


def test_an_annotation_that_is_there_stays() -> None:
    def steps(s: Schedule) -> None:
        i, _ = s.get_loops("sum")
        s.annotate(i, "k", 1)
        s.annotate(i, "k", 2)

    sch = check_schedule(rowsum, steps)
    assert 'annotations={"k": 1}' in sch.mod.script() and str(sch.trace).count("annotate") == 2


def test_annotations_are_removed_by_key() -> None:
    def steps(s: Schedule) -> None:
        b = s.get_block("sum")
        s.annotate(b, "k", 1)
        s.annotate(b, "l", 2)
        s.unannotate(b, "k")

    sch = check_schedule(rowsum, steps)
    assert 'T.block_attr({"l": 2})' in sch.mod.script()
    assert sch.trace.as_json()[0][-1] == ["Unannotate", ["b0"], ["k"], []]
    assert str(sch.trace).splitlines()[-1] == '  sch.unannotate(block_or_loop=b0, ann_key="k")'


def test_annotations_that_are_none_are_refused() -> None:
    block = lambda s: s.get_block("sum")
    rejects(rowsum, lambda s: s.annotate(block(s), "k", {"a": {"b": 1}}), "nesting goes no deeper", error=TypeError)
    rejects(rowsum, lambda s: s.annotate(block(s), "k", [[1]]), "nesting goes no deeper", error=TypeError)
    rejects(rowsum, lambda s: s.annotate(block(s), "k", {1: 1}), "keys of a dict", error=TypeError)
    rejects(rowsum, lambda s: s.annotate(block(s), "k", object()), "an annotation is a text", error=TypeError)
    rejects(rowsum, lambda s: s.annotate(block(s), 3, 1), "key of an annotation", error=TypeError)
    rejects(rowsum, lambda s: s.unannotate(block(s), "k"), "block `sum` has no annotation 'k'.*\n.*are: none", ["sum"])


def test_a_unit_loop_goes_around_a_block_or_a_loop() -> None:
    def steps(s: Schedule) -> None:
        block = s.get_block("sum")
        u = s.add_unit_loop(block)
        outer = s.add_unit_loop(s.get_loops(block)[0])
        assert [s.get(rv).loop_var.name for rv in s.get_loops(block)] == ["u", "i", "k", "u"]
        assert s.get(u).body.block is s.get(block) and s.get(outer).loop_var.name == "u"

    sch = check_schedule(rowsum, steps)
    assert sch.trace.as_json()[0][1] == ["AddUnitLoop", ["b0"], [], ["l1"]]
    assert str(sch.trace).splitlines()[3] == "  l1 = sch.add_unit_loop(block_or_loop=b0)"
    rejects(rowsum, lambda s: s.add_unit_loop(s.get_block("root")), "block `root` is the root", ["root"])


def test_a_unit_loop_around_a_statement_of_a_sequence() -> None:
    @T.prim_func
    def two(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        for i in range(4):
            with T.block("A"):
                v = T.axis.spatial(4, i)
                A[v] = v
            with T.block("B"):
                v = T.axis.spatial(4, i)
                B[v] = v

    check_schedule(two, lambda s: s.add_unit_loop(s.get_block("B")))


def test_axes_take_another_order_with_their_bindings() -> None:
    sch = check_schedule(matmul(4, 5, 6).func, lambda s: s.reorder_block_iter_var(s.get_block("C"), [2, 0, 1]))
    assert 'v_k, v_i, v_j = T.axis.remap("RSS", [k, i, j])' in sch.mod.script()
    assert sch.trace.as_json()[0][-1] == ["ReorderBlockIterVar", ["b0", [2, 0, 1]], [], []]
    assert str(sch.trace).splitlines()[-1] == "  sch.reorder_block_iter_var(block=b0, new_order=[2, 0, 1])"


@pytest.mark.parametrize("order", [[0, 1], [0, 0, 1], [0, 1, 3], [], [0, 1, 2, 3]])
def test_what_is_no_order_of_the_axes_is_refused(order: list[int]) -> None:
    rejects(
        matmul(4, 5, 6).func,
        lambda s: s.reorder_block_iter_var(s.get_block("C"), order),
        "no order of the axes of block `C`.*\n.*0: v_i, 1: v_j, 2: v_k",
        ["C"],
    )


def test_post_processing_is_marked_and_can_be_left_out() -> None:
    def steps(s: Schedule) -> None:
        i, _ = s.get_loops("sum")
        s.unroll(i)
        s.enter_postproc()
        s.parallel(i)

    sch = check_schedule(rowsum, steps)
    assert sch.trace.as_json()[0][3] == ["EnterPostproc", [], [], []]
    assert sch.trace.as_python(remove_postproc=True)[-1] == "sch.unroll(loop=l1)"
    other = Schedule(rowsum)
    sch.trace.apply_to_schedule(other, True)
    assert "T.unroll(8)" in other.mod.script()
    assert isinstance(sch.trace.simplified(True), Trace) and len(sch.trace.simplified(True).insts) == 3
