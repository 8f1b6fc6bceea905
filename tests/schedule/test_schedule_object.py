"""The schedule itself: handles and how they die, names, copies, seeds, options; traces and their forms."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import tscript
from tests.schedule.check import check_schedule, rejects
from tests.schedule.test_split import rowsum
from tscript.ir.function import IRModule
from tscript.ir.structural import structural_equal
from tscript.schedule import BlockRV, InstructionKind, Schedule, ScheduleError, StmtSRef, Trace
from tscript.schedule.primitive import METHODS
from tscript.script import ir as I
from tscript.script import tir as T
from tscript.testing.watched import WatchedSchedule
from tscript.testing.workloads import matmul, softmax


def fresh(**options: Any) -> Schedule:
    return Schedule(matmul(8, 8, 8).func, **options)


def tiled(sch: Schedule) -> Schedule:
    i, _, _ = sch.get_loops(sch.get_block("C"))
    sch.split(i, sch.sample_perfect_tile(i, n=2))
    sch.get_child_blocks(sch.get_block("root"))
    return sch


# -- handles --------------------------------------------------------------------------------------


def test_a_handle_says_how_its_loop_went() -> None:
    sch = fresh()
    i, j, _ = sch.get_loops("C")
    sch.split(i, [None, 4])
    with pytest.raises(ValueError, match="no longer exists: it was split into i_0, i_1 by step 2"):
        sch.get(i)
    with pytest.raises(ValueError, match="no longer exists"):
        sch.parallel(i)
    assert sch.get(j).loop_var.name == "j"


def test_a_block_handle_survives_what_happens_to_its_loops() -> None:
    sch = fresh()
    block = sch.get_block("C")
    sch.fuse(*sch.get_loops(block)[:2])
    sch.decompose_reduction(block, sch.get_loops(block)[0])
    assert sch.get(block).name_hint == "C_update"
    assert isinstance(sch.get_sref(block), StmtSRef)
    assert sch.get(sch.get_sref(block)) is sch.get(block)
    assert sch.get_sref(sch.get(block)) is sch.get_sref(block)


def test_handles_of_another_schedule_are_refused() -> None:
    one, other = fresh(), fresh()
    with pytest.raises(IndexError, match="handles belong to the schedule"):
        other.get_loops(one.get_block("C"))
    for wrong in (3, None, 1.5):
        with pytest.raises(TypeError):
            other.get_loops(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="signature"):
        other.split()  # type: ignore[call-arg]


def test_a_forgotten_handle_is_unknown() -> None:
    sch = fresh()
    block = sch.get_block("C")
    sch.remove_rv(block)
    with pytest.raises(IndexError):
        sch.get(block)
    with pytest.raises(IndexError):
        sch.remove_rv(block)


def test_sampled_numbers_take_part_in_arithmetic() -> None:
    sch = fresh(seed=3)
    i, j, _ = sch.get_loops("C")
    a, b = sch.sample_perfect_tile(i, n=2)
    assert sch.get(a) * sch.get(b) == 8
    assert sch.get(a * b + 1) == 9
    sch.split(j, [a, b])


# -- names ----------------------------------------------------------------------------------------


def test_blocks_and_loops_are_accepted_by_name() -> None:
    sch = fresh()
    assert len(sch.get_loops("C")) == 3
    sch.split("i", [None, 4])
    sch.parallel("i_0")
    assert "T.parallel(2)" in sch.mod.script()
    with pytest.raises(ScheduleError, match="no loop is called 'z'(?s:.*)the loops are i_0, i_1, j, k"):
        sch.parallel("z")
    with pytest.raises(ScheduleError, match="has no block 'D'(?s:.*)its blocks are root, C"):
        sch.get_block("D")
    again = Schedule(matmul(8, 8, 8).func)
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert structural_equal(again.mod, sch.mod)


def test_loops_are_accepted_by_name_where_several_are_taken() -> None:
    sch = fresh()
    sch.reorder("k", "i")
    sch.fuse("j", "i")
    assert [sch.get(r).loop_var.name for r in sch.get_loops("C")] == ["k", "j_i_fused"]


REFUSED_BY_NAME: list[Callable[[Schedule], Any]] = [
    lambda s: s.cache_read("C", 7, "local"),
    lambda s: s.cache_read("C", 0, "local", consumer_blocks=["C", "root"]),
    lambda s: s.compute_inline("C"),
    lambda s: s.compute_at("C", "k"),
    lambda s: s.decompose_reduction("root", "k"),
    lambda s: s.split("i", [2, 2]),
    lambda s: s.fuse("i", "k"),
    lambda s: s.reorder("i", "z"),
    lambda s: s.parallel("k"),
    lambda s: s.get_producers("root"),
    # Not only what a schedule refuses: wrong types and values, too.
    lambda s: s.storage_align("C", 0, "axis", 2, 1),
    lambda s: s.sample_perfect_tile("i", n=0),
    lambda s: s.annotate("C", "key", object()),
]


@pytest.mark.parametrize("step", REFUSED_BY_NAME)
def test_a_refused_step_leaves_nothing_of_what_it_found_by_name(step: Callable[[Schedule], Any]) -> None:
    sch = WatchedSchedule(matmul(8, 8, 8).func)
    sch.split(sch.get_loops("C")[1], [2, None])
    with pytest.raises((ScheduleError, TypeError, ValueError)):
        step(sch)
    sch.require_untouched()
    assert [i.kind.name for i in sch.trace.insts] == ["GetBlock", "GetLoops", "Split"]


def test_a_loop_is_found_by_name_through_a_block_that_is_found_by_name() -> None:
    @T.prim_func
    def twice(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("same"):
                vi = T.axis.spatial(4, i)
                A[vi] = 1.0
            with T.block("other"):
                vi = T.axis.spatial(4, i)
                B[vi] = 1.0
        for j in range(4):
            with T.block("same"):
                vj = T.axis.spatial(4, j)
                A[vj] = 2.0

    check_schedule(twice, lambda s: s.unroll("i"))
    rejects(twice, lambda s: s.unroll("j"), "2 blocks of main are called 'same'")


def test_the_newer_spelling_is_the_same_step() -> None:
    sch = fresh()
    assert sch.get(sch.get_sblock("C")).name_hint == "C"
    assert "sch.get_block(" in str(sch.trace)


@I.ir_module
class Two:
    @T.prim_func
    def f(A: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("a"):
                vi = T.axis.spatial(4, i)
                A[vi] = 1.0

    @T.prim_func
    def g(A: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("a"):
                vi = T.axis.spatial(4, i)
                A[vi] = 2.0


def test_a_module_of_several_functions_needs_a_focus() -> None:
    sch = Schedule(Two)
    with pytest.raises(ValueError, match="work_on"):
        sch.get_block("a")
    sch.work_on("g")
    block = sch.get_block("a")
    assert sch.get_block("a", func_name="f") is not block
    sch.split(sch.get_loops(block)[0], [2, 2])
    assert "i_0" not in sch.mod["f"].script()
    assert "i_0" in sch.mod["g"].script()
    with pytest.raises(KeyError, match="has no function 'h'"):
        sch.work_on("h")


# -- options --------------------------------------------------------------------------------------


def test_the_same_seed_draws_the_same() -> None:
    draws = [str(tiled(Schedule(matmul(64, 8, 8).func, seed=s)).trace) for s in (5, 5, 6, 7, 8, 9)]
    assert draws[0] == draws[1]
    assert len(set(draws)) > 2
    for bad, error in ((0, ValueError), (2147483648, ValueError), (1.5, TypeError), (True, TypeError)):
        with pytest.raises(error):
            fresh(seed=bad)


def test_random_numbers_are_those_of_the_minimal_standard_generator() -> None:
    sch = fresh(seed=1)
    assert sch.fork_seed() == 48271 * 32767 % 1999999973
    assert sch.rng.state == 48271
    sch.seed(0)
    assert sch.rng.state == 1


def test_a_copy_is_independent_and_shares_handles() -> None:
    sch = fresh(seed=4)
    block = sch.get_block("C")
    other = sch.copy()
    other.fuse(*other.get_loops(block)[:2])
    assert "fused" in other.mod.script()
    assert "fused" not in sch.mod.script()
    assert len(other.trace.insts) == len(sch.trace.insts) + 2
    assert len(sch.get_loops(block)) == 3


@pytest.mark.parametrize(("mask", "error"), [("some", ValueError), (1.5, TypeError)])
def test_bad_masks_are_refused(mask: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="debug_mask"):
        fresh(debug_mask=mask)


def test_errors_are_rendered_as_asked() -> None:
    texts: dict[str, str] = {}
    for level in ("detail", "fast", "none"):
        sch = fresh(error_render_level=level)
        i, _, k = sch.get_loops("C")
        with pytest.raises(ScheduleError) as caught:
            sch.fuse(i, k)
        texts[level] = str(caught.value)
    assert texts["none"] == "(not rendered)"
    assert "\n" not in texts["fast"]
    assert texts["detail"].startswith(texts["fast"])
    assert "^^^" in texts["detail"] and "with T.block" in texts["detail"]
    with pytest.raises(ValueError, match="error_render_level"):
        fresh(error_render_level="loud")


def test_what_is_no_program_is_refused() -> None:
    with pytest.raises(TypeError, match="made of a function or a module"):
        Schedule(3)  # type: ignore[arg-type]


def test_an_untraced_schedule_records_nothing() -> None:
    sch = Schedule._create_non_traced(matmul(4, 4, 4).func)
    sch.fuse(*sch.get_loops(sch.get_block("C"))[:2])
    assert sch.trace is None


def test_the_given_program_is_never_changed() -> None:
    func = softmax(4, 4).func
    before = func.script()
    sch = Schedule(func)
    sch.compute_inline("T_exp")
    assert func.script() == before
    module = sch.mod
    text = module.script()
    sch.parallel(sch.get_loops("T_softmax")[0])
    assert module.script() == text


def test_completion_offers_what_users_call_and_nothing_else() -> None:
    offered = [n for n in dir(fresh()) if not n.startswith("_")]
    others = {
        "copy", "fork_seed", "func_working_on", "get", "get_sref", "mod", "remove_rv", "seed", "show", "state", "trace",
        "work_on", "undo", "checkpoint", "changes", "save", "load", "unchecked", "verify",
    }  # fmt: skip
    aliases = {"get_sblock", "reorder_sblock_iter_var"}
    questions = {"can_decompose_padding"}
    assert set(offered) - questions == {*METHODS, *others, *aliases}
    assert {"__init__", "_repr_html_"} <= set(dir(fresh()))


def test_every_mask_is_taken_that_says_what_to_check() -> None:
    for given, becomes in (("none", 0), ("all", 3), (-1, -1), (2, 2), (True, 1), (False, 0)):
        assert fresh(debug_mask=given).state.debug_mask == becomes


@T.prim_func
def scan(A: T.Buffer((8,), "float32")):
    for i in range(7):
        with T.block("A"):
            vi = T.axis.spatial(7, i)
            A[vi + 1] = A[vi] + 1.0


def test_checks_can_be_left_out() -> None:
    with pytest.raises(ScheduleError, match=r"iteration \(i=0\) writes A\[1\], iteration \(i=1\) reads it"):
        Schedule(scan).parallel("i")
    # Without the checks of meaning, steps are compared; without that too, experts are on their own.
    with pytest.raises(ScheduleError, match=r"(?s)changes what the program computes.*its iterations race"):
        Schedule(scan, enable_check=False).parallel("i")
    expert = Schedule(scan, enable_check=False, check="none")
    expert.parallel("i")
    assert "T.parallel(7)" in expert.mod.script()
    with pytest.raises(ScheduleError, match=r"iteration \(i=0\) writes A\[1\], iteration \(i=1\) reads it"):
        Schedule(scan, enable_check=True).copy().parallel("i")
    expert.copy().vectorize("i")
    # What is no program otherwise is still refused.
    with pytest.raises(ScheduleError, match="factors"):
        Schedule(scan, enable_check=False).split("i", [2, 2])


def test_a_function_called_main_is_in_focus_and_work_on_is_no_step() -> None:
    main = Schedule(IRModule({"other": Two["f"], "main": Two["g"]}))
    assert main.func_working_on is not None and main.func_working_on.name_hint == "main"
    only = Schedule(IRModule({"alone": Two["f"]}))
    assert only.func_working_on is not None and only.func_working_on.name_hint == "alone"
    several = Schedule(Two)
    assert several.func_working_on is None
    several.work_on("g")
    several.work_on("f")
    assert several.trace is not None and not several.trace.insts
    several.get_block("a")
    assert str(several.trace).endswith('b0 = sch.get_block(name="a", func_name="f")')


def test_a_schedule_gives_what_its_handles_stand_for_and_its_live_trace() -> None:
    sch = fresh(seed=1)
    i, _, _ = sch.get_loops("C")
    assert sch.get(sch.get_sref(i)) is sch.get(i)
    elsewhere = fresh()
    foreign = elsewhere.get(elsewhere.split("i", [2, None])[0])
    with pytest.raises(ValueError, match="not part of this schedule"):
        sch.get_sref(foreign)
    with pytest.raises(IndexError, match="belong to the schedule"):
        sch.get(fresh().get_block("C"))
    trace = sch.trace
    assert trace is not None
    before = len(trace.insts)
    sch.parallel(i)
    assert sch.trace is trace and len(trace.insts) == before + 1


def test_seeds_are_taken_as_the_generator_takes_them() -> None:
    sch = fresh(seed=5)
    for seed, becomes in ((7, 7), (0, 1), (2147483647, 1), (2 * 2147483647 + 5, 5)):
        sch.seed(seed)
        assert sch.rng.state == becomes
    sch.seed(-1)
    assert 0 < sch.rng.state < 2147483647
    sch.seed(9)
    moved = sch.rng.state
    sch.copy()
    assert sch.rng.state != moved


def test_a_sampled_number_can_be_forgotten_too() -> None:
    sch = fresh(seed=1)
    v = sch.sample_categorical([2, 4], [0.5, 0.5])
    other = sch.copy()
    sch.remove_rv(v)
    with pytest.raises(ValueError, match="no number of this schedule"):
        sch.get(v)
    assert other.get(v) in (2, 4)


def test_showing_an_untraced_schedule_shows_its_program(capsys: pytest.CaptureFixture[str]) -> None:
    Schedule._create_non_traced(matmul(4, 4, 4).func).show(black_format=False)
    text = capsys.readouterr().out
    assert "@T.prim_func" in text and "apply_trace" not in text


# -- traces ---------------------------------------------------------------------------------------


def test_a_printed_trace_runs_as_it_stands() -> None:
    sch = tiled(fresh(seed=2))
    scope: dict[str, Any] = {}
    exec(str(sch.trace).replace("from tvm import", "from tscript import"), {"tir": tscript.tir}, scope)
    other = fresh()
    scope["apply_trace"](other)
    assert structural_equal(other.mod, sch.mod)
    assert str(other.trace) == str(sch.trace)


def test_json_is_plain_and_replays() -> None:
    sch = tiled(fresh(seed=2))
    text = json.dumps(sch.trace.as_json())
    other = fresh()
    Trace.apply_json_to_schedule(json.loads(text), other)
    assert json.dumps(other.trace.as_json()) == text
    assert structural_equal(other.mod, sch.mod)


def test_simplified_drops_what_nothing_uses() -> None:
    sch = tiled(fresh(seed=2))
    kept = [i.kind.name for i in sch.trace.simplified(remove_postproc=False).insts]
    assert kept == ["GetBlock", "GetLoops", "SamplePerfectTile", "Split"]


def test_a_decision_can_be_changed_and_is_repaired_on_replay() -> None:
    sch = tiled(fresh(seed=2))
    inst = next(i for i in sch.trace.insts if i.kind.has_decision)
    for decision, becomes in (([2, 4], [2, 4]), ([8, 1], [8, 1]), ([3, 5], [1, 8])):
        other = fresh()
        sch.trace.with_decision(inst, decision, remove_postproc=True).apply_to_schedule(other, remove_postproc=False)
        assert list(other.trace.decisions.values()) == [becomes]
    provided = fresh()
    sch.trace.apply_to_schedule(provided, False, lambda inst, inputs, attrs, decision: [1, 8] if decision else decision)
    assert list(provided.trace.decisions.values()) == [[1, 8]]


def test_append_and_pop() -> None:
    sch = tiled(fresh(seed=2))
    count = len(sch.trace.insts)
    last = sch.trace.pop()
    assert last is not None and len(sch.trace.insts) == count - 1
    sch.trace.append(last)
    assert len(sch.trace.insts) == count
    assert Trace().pop() is None
    assert str(Trace()) == "# from tvm import tir\ndef apply_trace(sch: tir.Schedule) -> None:\n  pass"


def test_postprocessing_is_cut_off_when_asked() -> None:
    sch = fresh()
    sch.get_block("C")
    sch.enter_postproc()
    sch.parallel(sch.get_loops("C")[0])
    assert len(sch.trace.as_python(remove_postproc=True)) == 1
    other = fresh()
    sch.trace.apply_to_schedule(other, remove_postproc=True)
    assert "parallel" not in other.mod.script()


@pytest.mark.parametrize(
    ("record", "what"),
    [
        (3, "instructions, decisions"),
        ([[], 3], "instructions, decisions"),
        ([[3], []], "an instruction is"),
        ([[["Nothing", [], [], []]], []], "no instruction kind 'Nothing'"),
        ([[["GetLoops", ["b7"], [], []]], []], "b7"),
        ([[["Fuse", [], [], ["l0"]]], []], "attributes"),
        ([[["GetBlock", [], ["C", "main"], ["b0", "b1"]]], []], "gives 1 handles"),
        ([[["Split", ["__import__('os')", "2"], [1, 0], ["l0", "l1"]]], []], "which nothing before it gives"),
        ([[], [[1]]], "a decision is"),
    ],
)
def test_damaged_json_is_refused(record: Any, what: str) -> None:
    with pytest.raises((ValueError, IndexError, TypeError), match=what):
        Trace.apply_json_to_schedule(record, fresh())


def test_kinds_are_known_by_name() -> None:
    assert InstructionKind.get("GetBlock").is_pure
    assert not InstructionKind.get("Split").is_pure
    assert isinstance(fresh().get_block("C"), BlockRV)


def test_arithmetic_on_sampled_numbers_is_stored_and_read_again() -> None:
    def steps(s: Schedule) -> None:
        i, k = s.get_loops("sum")
        v = s.sample_categorical([4, 8], [0.5, 0.5])
        s.split(i, [None, T.min(v, 4)])
        s.split(k, [(T.max(v // 4, 1) + 2) % 5 + 1, None])

    sch = check_schedule(rowsum, steps)
    (inputs,) = [record[1] for record in sch.trace.as_json()[0] if record[0] == "Split" and "T.min" in str(record)]
    assert inputs[2] == "T.min(v3, 4)"
    damaged = json.loads(json.dumps(sch.trace.as_json()).replace("T.min(v3, 4)", "T.min(v3; 4)"))
    with pytest.raises(ValueError, match="nothing before it gives"):
        Trace.apply_json_to_schedule(damaged, Schedule(rowsum))
