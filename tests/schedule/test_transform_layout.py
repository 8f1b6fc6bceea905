"""transform_layout: every access goes through the map, parameters change their shape, padding gets its value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.schedule.check import Packed, check_schedule, rejects
from tscript.ir.index_map import IndexMap
from tscript.schedule import Schedule
from tscript.script import ir as I
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
def fourteen(X: T.Buffer((14,), "float32"), Z: T.Buffer((14,), "float32")):
    Y = T.alloc_buffer((14,))
    for i in range(14):
        with T.block("dbl"):
            vi = T.axis.spatial(14, i)
            Y[vi] = X[vi] * T.float32(2)
    for i in range(14):
        with T.block("inc"):
            vi = T.axis.spatial(14, i)
            Z[vi] = Y[vi] + T.float32(1)


@T.prim_func
def rowsum(X: T.Buffer((14, 6), "float32"), Y: T.Buffer((14,), "float32")):
    for k, i in T.grid(6, 14):
        with T.block("sum"):
            vk, vi = T.axis.remap("RS", [k, i])
            with T.init():
                Y[vi] = T.float32(0)
            Y[vi] = Y[vi] + X[vi, vk]


def tile(i: Any, j: Any) -> list[Any]:
    return [j // 4, i, j % 4]


def by_four(i: Any) -> list[Any]:
    return [i // 4, i % 4]


# -- without padding ------------------------------------------------------------------------------


def test_an_intermediate_buffer_is_laid_out_in_tiles():
    sch = check_schedule(
        two,
        lambda s: s.transform_layout("dbl", ("write", 0), lambda i, j: [j // 4, i, j % 4]),
        """
@T.prim_func
def main(X: T.Buffer((8, 12), "float32"), Z: T.Buffer((8, 12), "float32")):
    Y = T.alloc_buffer((3, 8, 4))
    for i, j in T.grid(8, 12):
        with T.block("dbl"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(X[vi, vj])
            T.writes(Y[vj // 4, vi, vj % 4])
            Y[vj // 4, vi, vj % 4] = X[vi, vj] * T.float32(2.0)
    for i, j in T.grid(8, 12):
        with T.block("inc"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(Y[vj // 4, vi, vj % 4])
            T.writes(Z[vi, vj])
            Z[vi, vj] = Y[vj // 4, vi, vj % 4] + T.float32(1.0)
""",
    )
    line = str(sch.trace).splitlines()[-1]
    assert line == (
        '  sch.transform_layout(block=b0, buffer=("write", 0), index_map=lambda i, j: (j // 4, i, j % 4,), '
        "pad_value=None, assume_injective_transform=False)"
    )
    kind, inputs, attrs, outputs = sch.trace.as_json()[0][-1]
    assert (kind, inputs[0], attrs, outputs) == ("TransformLayout", "b0", [0, 1, None, 0], [])
    assert inputs[1].startswith("{")


def test_parameters_take_arguments_of_the_new_shape():
    def steps(s: Schedule) -> None:
        s.transform_layout("dbl", ("read", 0), tile)
        s.transform_layout("inc", "Z", lambda i, j: [i * 12 + j])

    sch = check_schedule(two, steps, packed={0: Packed(tile), 1: Packed(lambda i, j: [i * 12 + j])})
    func = sch.mod["main"]
    assert [[int(e) for e in b.shape] for b in func.buffer_map.values()] == [[3, 8, 4], [96]]


@pytest.mark.parametrize("how", [("read", 0), "Y", "itself"])
def test_the_buffer_is_given_by_place_name_or_itself(how: Any):
    sch = Schedule(two)
    given = sch.get(sch.get_block("inc")).reads[0].buffer if how == "itself" else how
    sch.transform_layout("inc", given, tile)
    assert 'buffer=("read", 0)' in str(sch.trace)
    assert [int(e) for e in sch.get(sch.get_block("inc")).reads[0].buffer.shape] == [3, 8, 4]


def test_a_map_made_beforehand_takes_the_type_of_the_indices():
    made = IndexMap.from_func(lambda i, j: [j, i])
    sch = check_schedule(two, lambda s: s.transform_layout("dbl", ("write", 0), made))
    assert "index_map=lambda i, j: (j, i,)" in str(sch.trace)
    assert [e.dtype for e in sch.get(sch.get_block("dbl")).writes[0].buffer.shape] == ["int32", "int32"]


def test_names_in_a_trace_are_made_unique():
    made = IndexMap.from_func(lambda *sch: [sch[1], sch[0]], ndim=2)
    clash = IndexMap(
        (made.initial_indices[0].copy_with(name="lambda"), made.initial_indices[1].copy_with(name="T")), ()
    )
    clash = clash.replace(final_indices=clash.initial_indices[::-1])
    sch = check_schedule(two, lambda s: s.transform_layout("dbl", ("write", 0), clash))
    assert "index_map=lambda lambda_1, T_1: (T_1, lambda_1,)" in str(sch.trace)


def test_regions_of_several_elements_become_boxes():
    @T.prim_func
    def func(X: T.Buffer((8, 12), "float32"), Z: T.Buffer((8,), "float32")):
        Y = T.alloc_buffer((8, 12))
        for i in range(8):
            with T.block("row"):
                vi = T.axis.spatial(8, i)
                T.reads(X[vi, 0:12])
                T.writes(Y[vi, 0:12])
                for j in range(12):
                    Y[vi, j] = X[vi, j]
        for i in range(8):
            with T.block("use"):
                vi = T.axis.spatial(8, i)
                T.reads(Y[vi, 2:9])
                T.writes(Z[vi])
                Z[vi] = Y[vi, 2] + Y[vi, 8]

    sch = check_schedule(func, lambda s: s.transform_layout("row", ("write", 0), tile))
    assert str(sch.get(sch.get_block("row")).writes[0]) == "Y[0:3, vi, 0:4]"
    assert str(sch.get(sch.get_block("use")).reads[0]) == "Y[0:3, vi, 0:4]"


def test_int64_and_symbolic_shapes():
    @T.prim_func
    def wide(X: T.Buffer((T.int64(8), T.int64(12)), "float32"), Z: T.Buffer((T.int64(8), T.int64(12)), "float32")):
        for i, j in T.grid(T.int64(8), T.int64(12)):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = X[vi, vj] + T.float32(1)

    def steps(s: Schedule) -> None:
        s.transform_layout("B", "X", tile)
        s.transform_layout("B", "Z", lambda i, j: [j * 8 + i, 0])

    packed = {0: Packed(tile), 1: Packed(lambda i, j: [j * 8 + i, 0])}
    sch = check_schedule(wide, steps, packed=packed)
    block = sch.get(sch.get_block("B"))
    assert {e.dtype for r in (*block.reads, *block.writes) for e in r.buffer.shape} == {"int64"}

    @T.prim_func
    def symbolic(x: T.handle, z: T.handle, n: T.int32):
        X = T.match_buffer(x, (n, 8))
        Z = T.match_buffer(z, (n, 8))
        for i, j in T.grid(n, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = X[vi, vj] + T.float32(1)

    layout = lambda i, j: [j // 2, i, j % 2]
    sch = check_schedule(symbolic, lambda s: s.transform_layout("B", "X", layout), packed={0: Packed(layout)})
    assert str(sch.get(sch.get_block("B")).reads[0]) == "X[vj // 2, vi, vj % 2]"


def test_several_writers_nested_blocks_and_unit_dimensions():
    @T.prim_func
    def func(X: T.Buffer((1, 8), "int32"), Z: T.Buffer((1, 8), "int32")):
        Y = T.alloc_buffer((1, 8), "int32")
        for j in range(4):
            with T.block("low"):
                vj = T.axis.spatial(4, j)
                Y[0, vj] = X[0, vj]
        for j in range(4):
            with T.block("high"):
                vj = T.axis.spatial(4, j)
                Y[0, vj + 4] = X[0, vj] - 1
        for o in range(2):
            with T.block("outer"):
                vo = T.axis.spatial(2, o)
                T.reads(Y[0, vo * 4 : vo * 4 + 4])
                T.writes(Z[0, vo * 4 : vo * 4 + 4])
                for j in range(4):
                    with T.block("inner"):
                        vj = T.axis.spatial(4, j)
                        Z[0, vo * 4 + vj] = Y[0, vo * 4 + vj] * 3

    sch = check_schedule(func, lambda s: s.transform_layout("low", "Y", lambda i, j: [j // 4, i, j % 4]))
    assert str(sch.get(sch.get_block("high")).writes[0]) == "Y[1, 0, vj]"
    assert str(sch.get(sch.get_block("outer")).reads[0]) == "Y[vo, 0, 0:4]"
    assert str(sch.get(sch.get_block("inner")).reads[0]) == "Y[vo, 0, vj]"
    check_schedule(
        func,
        lambda s: s.transform_layout("inner", ("write", 0), lambda i, j: [j, i]),
        packed={1: Packed(lambda i, j: [j, i])},
    )


def test_a_swizzle_is_tried_out_on_all_indices():
    sch = check_schedule(two, lambda s: s.transform_layout("dbl", ("write", 0), lambda i, j: [i, j ^ (i % 4)]))
    assert [int(e) for e in sch.get(sch.get_block("dbl")).writes[0].buffer.shape] == [8, 12]

    swizzle = IndexMap.from_func(lambda i, j: [i, j ^ (i % 4)], inverse_index_map=lambda i, j: [i, j ^ (i % 4)])
    sch = check_schedule(two, lambda s: s.transform_layout("dbl", ("write", 0), swizzle))
    assert "tvm.tir.IndexMap.from_func(lambda i, j: (" in str(sch.trace)


def test_dimensions_come_and_go():
    @T.prim_func
    def func(X: T.Buffer((1,), "float32"), Z: T.Buffer((), "float32")):
        with T.block("B"):
            Z[()] = X[0] + T.float32(1)

    def steps(s: Schedule) -> None:
        s.transform_layout("B", "X", lambda i: [])
        s.transform_layout("B", "Z", lambda: [0])

    sch = check_schedule(func, steps, packed={0: Packed(lambda i: []), 1: Packed(lambda: [0])})
    block = sch.get(sch.get_block("B"))
    assert [len(r.buffer.shape) for r in (*block.reads, *block.writes)] == [0, 1]
    assert "index_map=lambda i: ()" in str(sch.trace) and "index_map=lambda: (0,)" in str(sch.trace)


def test_axis_separators_are_set_by_a_step_of_their_own():
    sch = check_schedule(
        two, lambda s: s.transform_layout("dbl", "Y", lambda i, j: [j // 4, i, IndexMap.AXIS_SEPARATOR, j % 4])
    )
    assert str(sch.trace).splitlines()[-1] == (
        '  sch.set_axis_separator(block=b0, buffer=("write", 0), axis_separators=[2])'
    )
    assert [int(e) for e in sch.get(sch.get_block("dbl")).writes[0].buffer.axis_separators] == [2]


# -- with padding ---------------------------------------------------------------------------------


def test_a_nest_over_the_whole_buffer_writes_the_padding_too():
    sch = check_schedule(
        fourteen,
        lambda s: s.transform_layout("inc", ("write", 0), by_four, pad_value=3),
        """
@T.prim_func
def main(X: T.Buffer((14,), "float32"), Z: T.Buffer((4, 4), "float32")):
    Y = T.alloc_buffer((14,))
    for i in range(14):
        with T.block("dbl"):
            vi = T.axis.spatial(14, i)
            T.reads(X[vi])
            T.writes(Y[vi])
            Y[vi] = X[vi] * T.float32(2)
    for axis0, axis1 in T.grid(4, 4):
        with T.block("inc"):
            v_axis0, v_axis1 = T.axis.remap("SS", [axis0, axis1])
            T.reads(Y[v_axis0 * 4 + v_axis1])
            T.writes(Z[v_axis0, v_axis1])
            Z[v_axis0, v_axis1] = T.if_then_else(
                14 <= v_axis0 * 4 + v_axis1, T.float32(3), Y[v_axis0 * 4 + v_axis1] + T.float32(1))
""",
        packed={1: Packed(by_four, 3)},
    )
    assert "pad_value=lambda indices_0, indices_1: (T.float32(3.0),)" in str(sch.trace)


def test_a_reduction_pads_its_init_as_well():
    sch = check_schedule(
        rowsum,
        lambda s: s.transform_layout("sum", "Y", by_four, pad_value=lambda a, b: T.Cast("float32", a * 4 + b)),
        packed={1: Packed(by_four, lambda a, b: a * 4 + b)},
    )
    block = sch.get(sch.get_block("sum"))
    assert [a.var.name for a in block.iter_vars] == ["vk", "v_axis0", "v_axis1"]
    assert str(block.init).splitlines()[-1] == (
        "Y[v_axis0, v_axis1] = T.if_then_else(14 <= v_axis0 * 4 + v_axis1, "
        'T.Cast("float32", v_axis0 * 4 + v_axis1), T.float32(0.0))'
    )


def test_padding_of_an_input_is_a_promise():
    sch = check_schedule(
        fourteen,
        lambda s: s.transform_layout("dbl", "X", by_four, pad_value=0),
        """
@T.prim_func
def main(X: T.Buffer((4, 4), "float32"), Z: T.Buffer((14,), "float32")):
    Y = T.alloc_buffer((14,))
    for axis0, axis1 in T.grid(4, 4):
        with T.block("buffer_X_assumptions"):
            v_axis0, v_axis1 = T.axis.remap("SS", [axis0, axis1])
            T.reads(X[v_axis0, v_axis1])
            T.writes()
            T.evaluate(T.assume(not 14 <= v_axis0 * 4 + v_axis1 or X[v_axis0, v_axis1] == T.float32(0)))
    for i in range(14):
        with T.block("dbl"):
            vi = T.axis.spatial(14, i)
            T.reads(X[vi // 4, vi % 4])
            T.writes(Y[vi])
            Y[vi] = X[vi // 4, vi % 4] * T.float32(2)
    for i in range(14):
        with T.block("inc"):
            vi = T.axis.spatial(14, i)
            T.reads(Y[vi])
            T.writes(Z[vi])
            Z[vi] = Y[vi] + T.float32(1)
""",
        packed={0: Packed(by_four, 0)},
    )
    with pytest.raises(Exception, match="T.assume does not hold"):
        tscript_run(sch, np.full((4, 4), 5, "float32"), np.zeros(14, "float32"))


def tscript_run(sch: Schedule, *args: Any) -> None:
    from tscript import interp

    interp.run(sch.mod["main"], *args)


def test_other_writers_leave_the_padding_to_a_stage_of_its_own():
    def steps(s: Schedule) -> None:
        s.split(s.get_loops("inc")[0], [2, 7])
        s.transform_layout("inc", "Z", by_four, pad_value=-1)

    sch = check_schedule(fourteen, steps, packed={1: Packed(by_four, -1)})
    text = sch.mod.script()
    assert text.index('T.block("inc")') < text.index('T.block("buffer_Z_padding")')
    assert "T.where(14 <= axis0 * 4 + axis1)" in text


def test_a_block_with_other_effects_is_not_run_for_padding():
    @T.prim_func
    def func(X: T.Buffer((14,), "int32"), Y: T.Buffer((14,), "int32"), Z: T.Buffer((14,), "int32")):
        for i in range(14):
            with T.block("both"):
                vi = T.axis.spatial(14, i)
                Y[vi] = X[vi]
                Z[vi] = X[vi] + 1

    sch = check_schedule(
        func, lambda s: s.transform_layout("both", "Y", by_four, pad_value=7), packed={1: Packed(by_four, 7)}
    )
    assert 'T.block("buffer_Y_padding")' in sch.mod.script()


def test_a_nest_that_may_not_run_is_not_relied_on():
    @T.prim_func
    def func(X: T.Buffer((14,), "int32"), Y: T.Buffer((14,), "int32"), n: T.int32):
        for t, i in T.grid(n, 14):
            with T.block("B"):
                vt = T.axis.opaque(n, t)
                vi = T.axis.spatial(14, i)
                Y[vi] = X[vi] + vt

    for n in (0, 3):
        sch = check_schedule(
            func,
            lambda s: s.transform_layout("B", "Y", by_four, pad_value=7),
            sizes={"n": n},
            packed={1: Packed(by_four, 7)},
        )
        assert 'T.block("buffer_Y_padding")' in sch.mod.script()


def test_padding_that_does_not_matter_is_left_alone():
    def steps(s: Schedule) -> None:
        s.transform_layout("dbl", "Y", by_four, pad_value=T.undef())
        s.transform_layout("inc", "Z", by_four, assume_injective_transform=True)

    sch = check_schedule(fourteen, steps, packed={1: Packed(by_four)})
    assert "if_then_else" not in sch.mod.script() and "padding" not in sch.mod.script()


def test_two_layouts_one_after_the_other():
    def steps(s: Schedule) -> None:
        s.transform_layout("dbl", "Y", by_four, pad_value=0)
        s.transform_layout("dbl", "Y", lambda i, j: [j, i])
        s.transform_layout("dbl", "Y", lambda i, j: [i * 4 + j])

    check_schedule(fourteen, steps)


def test_padding_of_symbolic_shapes():
    @T.prim_func
    def func(x: T.handle, z: T.handle, n: T.int32):
        X = T.match_buffer(x, (n,), "float32")
        Z = T.match_buffer(z, (n,), "float32")
        Y = T.alloc_buffer((n,))
        for i in range(n):
            with T.block("Y"):
                v = T.axis.spatial(n, i)
                Y[v] = X[v] * T.float32(2)
        for i in range(n):
            with T.block("Z"):
                v = T.axis.spatial(n, i)
                Z[v] = Y[v] + T.float32(1)

    def steps(s: Schedule) -> None:
        s.transform_layout("Y", "X", by_four, pad_value=4)
        s.transform_layout("Y", "Y", by_four, pad_value=0)
        s.transform_layout("Z", "Z", by_four, pad_value=3)

    for n in (1, 5, 8):
        sch = check_schedule(func, steps, sizes={"n": n}, packed={0: Packed(by_four, 4), 1: Packed(by_four, 3)})
        assert "T.if_then_else(n <= v_axis0 * 4 + v_axis1, T.float32(3.0)" in sch.mod.script()


@pytest.mark.parametrize("after", ["compute_at", "compute_inline", "decompose", "parallel"])
def test_other_steps_before_and_after(after: str):
    def steps(s: Schedule) -> None:
        if after == "parallel":
            s.parallel(s.get_loops("inc")[0])
        s.transform_layout("dbl", "Y", by_four, pad_value=0)
        s.transform_layout("inc", "Z", by_four, pad_value=2)
        if after == "compute_at":
            s.compute_at("dbl", s.get_loops("inc")[0])
        elif after == "compute_inline":
            s.compute_inline("dbl")

    def reduction(s: Schedule) -> None:
        s.transform_layout("sum", "Y", by_four, pad_value=2)
        s.decompose_reduction("sum", s.get_loops("sum")[0])

    if after == "decompose":
        check_schedule(rowsum, reduction, packed={1: Packed(by_four, 2)})
    else:
        check_schedule(fourteen, steps, packed={1: Packed(by_four, 2)})


# -- refusals -------------------------------------------------------------------------------------


def test_maps_that_lose_elements_are_refused():
    rejects(
        two,
        lambda s: s.transform_layout("dbl", "Y", lambda i, j: [i]),
        r"\(0, 0\) and \(0, 1\) go to the same",
        ["dbl"],
    )
    rejects(two, lambda s: s.transform_layout("dbl", "Y", lambda i, j: [i + j]), "cannot be laid out so", ["dbl"])
    rejects(
        two, lambda s: s.transform_layout("dbl", "Y", lambda i, j: [i, j & 6]), "indices .* go to the same", ["dbl"]
    )
    rejects(two, lambda s: s.transform_layout("dbl", "Y", lambda i, j: [i - 1, j]), "negative", ["dbl"])
    rejects(
        two,
        lambda s: s.transform_layout("dbl", "Y", lambda i, j: [i, j & 6], assume_injective_transform=True),
        "not one-to-one",
        ["dbl"],
    )
    wrong = IndexMap.from_func(lambda i, j: [i, j ^ 1], inverse_index_map=lambda i, j: [i, j])
    rejects(two, lambda s: s.transform_layout("dbl", "Y", wrong), "does not undo it", ["dbl"])


def test_a_buffer_of_no_elements_keeps_its_layout():
    @T.prim_func
    def empty(A: T.Buffer((0, 6), "float32"), B: T.Buffer((0, 6), "float32")):
        for i, j in T.grid(0, 6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]

    rejects(empty, lambda s: s.transform_layout("B", "A", lambda i, j: [j, i]), "one of its extents is 0", ["B"])
    rejects(empty, lambda s: s.transform_block_layout("B", lambda i, j: [j, i]), "one of its extents is 0", ["B"])


def test_wrong_arguments_are_refused():
    rejects(two, lambda s: s.transform_layout("dbl", "Y", lambda i: [i]), "takes 1 indices", ["dbl"])
    rejects(two, lambda s: s.transform_layout("dbl", "Y", lambda i, j: [i, j * 0.5]), "no integer", ["dbl"])
    rejects(two, lambda s: s.transform_layout("dbl", "Z", tile), "neither reads nor writes `Z`", ["dbl"])
    rejects(two, lambda s: s.transform_layout("dbl", ("write", 1), tile), "no write number 1", ["dbl"])
    rejects(two, lambda s: s.transform_layout("dbl", 0, tile), "a buffer is given by", error=TypeError)
    rejects(two, lambda s: s.transform_layout("dbl", "Y", 3), "an index map is a function", error=TypeError)


def test_padding_needs_a_value_of_the_right_type():
    rejects(fourteen, lambda s: s.transform_layout("dbl", "Y", by_four), "hold none of the old ones", ["dbl"])

    def pad(value: Any) -> Any:
        return lambda s: s.transform_layout("dbl", "Y", by_four, pad_value=value)

    rejects(fourteen, pad(lambda a: 0.0), "takes 1 indices", ["dbl"])
    rejects(fourteen, pad(lambda a, b: a), "of type int32, but `Y` holds float32", ["dbl"])
    rejects(fourteen, pad(lambda a, b: [0.0, 1.0]), "gives 2 values", ["dbl"])
    nan = lambda s: s.transform_layout("dbl", "X", by_four, pad_value=float("nan"))
    rejects(fourteen, nan, "NaN")


def test_what_depends_on_the_present_layout_is_refused():
    @T.prim_func
    def view(X: T.Buffer((8, 4), "float32"), Z: T.Buffer((8, 4), "float32")):
        for i in range(8):
            with T.block("row"):
                vi = T.axis.spatial(8, i)
                T.reads(X[vi, 0:4])
                T.writes(Z[vi, 0:4])
                V = T.match_buffer(X[vi, 0:4], (4,), offset_factor=1)
                for j in range(4):
                    with T.block("use"):
                        vj = T.axis.spatial(4, j)
                        T.reads(V[vj])
                        T.writes(Z[vi, vj])
                        Z[vi, vj] = V[vj]

    swap = lambda i, j: [j, i]
    rejects(view, lambda s: s.transform_layout("row", "X", swap), "through the view `V`", ["row"])
    rejects(view, lambda s: s.transform_layout("use", ("read", 0), lambda i: [i]), "is a view", ["use"])

    @T.prim_func
    def pointer(X: T.Buffer((8, 4), "float32"), Z: T.Buffer((8, 4), "float32")):
        for i in range(8):
            with T.block("row"):
                vi = T.axis.spatial(8, i)
                T.reads(X[vi, 0:4])
                T.writes(Z[vi, 0:4])
                T.evaluate(T.call_extern("int32", "f", X.data, T.address_of(Z[vi, 0])))

    rejects(pointer, lambda s: s.transform_layout("row", "X", swap), "pointer of `X`")
    rejects(pointer, lambda s: s.transform_layout("row", "Z", swap), "address of an element of `Z`")

    def aligned(s: Schedule) -> None:
        s.storage_align("dbl", 0, 0, 32, 4)
        s.transform_layout("dbl", "Y", tile)

    rejects(two, aligned, "asks for strides", ["dbl"])


def test_a_size_that_only_this_shape_tells_is_kept():
    @T.prim_func
    def func(x: T.handle, z: T.handle):
        n = T.int32()
        X = T.match_buffer(x, (n,), "float32")
        Z = T.match_buffer(z, (8,), "float32")
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                Z[vi] = X[T.min(vi, n - 1)]

    steps = lambda s: s.transform_layout("B", "X", by_four, pad_value=0)
    rejects(func, steps, "knows `n` from the shape of `X` only", ["root"])


def test_writes_that_would_be_no_box_are_refused_beside_other_blocks():
    @T.prim_func
    def func(X: T.Buffer((12,), "float32"), Z: T.Buffer((12,), "float32")):
        Y = T.alloc_buffer((12,))
        for i in range(4):
            with T.block("three"):
                vi = T.axis.spatial(4, i)
                T.reads(X[vi * 3 : vi * 3 + 3])
                T.writes(Y[vi * 3 : vi * 3 + 3])
                for j in range(3):
                    Y[vi * 3 + j] = X[vi * 3 + j]
        for i in range(12):
            with T.block("use"):
                vi = T.axis.spatial(12, i)
                Z[vi] = Y[vi]

    rejects(func, lambda s: s.transform_layout("use", "Y", by_four), "not a box", ["three", "use"])
    check_schedule(func, lambda s: s.transform_layout("use", "Y", lambda i: [i // 6, i % 6 // 3, i % 3]))


def test_a_function_that_others_call_keeps_its_interface():
    @T.prim_func
    def callee(X: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                X[vi] = T.float32(1)

    @I.ir_module
    class Both:
        main = callee

        @T.prim_func
        def other(A: T.Buffer((8,), "float32")):
            Both.main(A.data)

    rejects(Both, lambda s: s.transform_layout("B", "X", lambda i: [i // 4, i % 4]), "is called with", ["root"])
