"""Index maps that use sampled numbers: the trace keeps the handles, and a replay with other numbers follows them."""

from __future__ import annotations

import json

import pytest

from tests.schedule.check import check_schedule, rejects
from tscript.ir.index_map import IndexMap
from tscript.ir.structural import structural_equal
from tscript.schedule import Schedule, Trace
from tscript.script import tir as T


def two(dtype: str):
    @T.prim_func
    def two(X: T.Buffer((T.IntImm(dtype, 16), T.IntImm(dtype, 24)), "float32"), Z: T.Buffer((16, 24), "float32")):
        Y = T.alloc_buffer((T.IntImm(dtype, 16), T.IntImm(dtype, 24)))
        for i, j in T.grid(T.IntImm(dtype, 16), T.IntImm(dtype, 24)):
            with T.block("dbl"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[vi, vj] * T.float32(2)
        for i, j in T.grid(16, 24):
            with T.block("inc"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = Y[vi, vj] + T.float32(1)

    return two


def relaid(sch: Schedule, decision: list[int] | None = None) -> None:
    loop = sch.get_loops("dbl")[0]
    _, a, b = sch.sample_perfect_tile(loop, 3, 16, decision=decision or [2, 2, 4])
    sch.transform_layout("dbl", ("write", 0), lambda i, j: (i // (a * b), j, i % (a * b)))
    sch.reindex_cache_read("inc", 0, "shared", lambda i, j: (i // b, j, i % b))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_maps_mean_what_the_numbers_are(dtype):
    check_schedule(two(dtype), relaid)


def test_the_trace_keeps_handles_and_follows_other_numbers():
    func = two("int32")
    sch = Schedule(func)
    relaid(sch)
    text = sch.trace.script()
    assert "index_map=lambda i, j: (i // (v4 * v5), j, i % (v4 * v5),)" in text
    sample = next(i for i in sch.trace.insts if i.kind.name == "SamplePerfectTile")
    other = Schedule(func)
    sch.trace.with_decision(sample, [1, 8, 2], remove_postproc=False).apply_to_schedule(other, remove_postproc=False)
    wanted = Schedule(func)
    relaid(wanted, [1, 8, 2])
    assert structural_equal(other.mod, wanted.mod)
    assert not structural_equal(sch.mod, wanted.mod)
    again = Schedule(func)
    form = json.loads(json.dumps(sch.trace.as_json()))
    form[1][0][1] = [1, 8, 2]
    Trace.apply_json_to_schedule(form, again)
    assert structural_equal(again.mod, wanted.mod)
    assert again.trace.script() == wanted.trace.script()
    assert Trace.from_json(form).script() == wanted.trace.script()


def test_an_index_called_like_a_sampled_number_is_told_apart_from_it():
    sch = Schedule(two("int32"))
    b = sch.sample_perfect_tile(sch.get_loops("dbl")[0], 2, 16, decision=[4, 4])[1]
    sch.reindex_cache_read("inc", 0, "shared", lambda v4, j: (v4 // b, j, v4 % b))
    assert "index_map=lambda v4_1, j: (v4_1 // v4, j, v4_1 % v4,)" in sch.trace.script()
    again = Schedule(two("int32"))
    Trace.apply_json_to_schedule(sch.trace.as_json(), again)
    assert structural_equal(again.mod, sch.mod)


def test_a_sample_that_only_a_map_uses_stays():
    sch = Schedule(two("int32"))
    relaid(sch)
    kept = sch.trace.simplified(remove_postproc=False)
    assert [i.kind.name for i in kept.insts if i.kind.has_decision] == ["SamplePerfectTile"]


def test_numbers_of_other_schedules_are_refused():
    other = Schedule(two("int32"))
    factor = other.sample_perfect_tile(other.get_loops("dbl")[0], 2, 16, decision=[4, 4])[1]
    rejects(
        two("int32"),
        lambda sch: sch.transform_layout("dbl", ("write", 0), lambda i, j: (i // factor, j, i % factor)),
        match="uses `v`, which is none of its indices",
    )


def test_a_map_that_the_trace_keeps_as_a_constant_takes_no_samples():
    def steps(sch: Schedule) -> None:
        b = sch.sample_perfect_tile(sch.get_loops("dbl")[0], 2, 16, decision=[4, 4])[1]
        sch.transform_block_layout("dbl", lambda i, j: (j, i // b, i % b))

    rejects(two("int32"), steps, match="the trace keeps this map as a constant")


def test_a_map_given_as_an_object_keeps_its_inverse():
    def steps(sch: Schedule) -> None:
        factor = sch.sample_perfect_tile(sch.get_loops("dbl")[0], 2, 16, decision=[4, 4])[1]
        there = IndexMap.from_func(
            lambda i, j: (i // factor, j, i % factor), inverse_index_map=lambda a, j, b: (a * factor + b, j)
        )
        sch.transform_layout("dbl", ("write", 0), there)

    check_schedule(two("int32"), steps)


def test_json_that_names_an_unknown_number_is_refused():
    sch = Schedule(two("int32"))
    relaid(sch)
    text = json.dumps(sch.trace.as_json()).replace('\\"v4\\"', '\\"v99\\"')
    with pytest.raises(ValueError, match="'v99', which nothing before it gives"):
        Trace.apply_json_to_schedule(json.loads(text), Schedule(two("int32")))
