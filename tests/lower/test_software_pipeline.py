"""Loops whose iterations overlap compute what they did, or are refused with the reason."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tscript import interp
from tscript.driver import build, lower
from tscript.ir.function import PrimFunc
from tscript.ir.structural import assert_structural_equal
from tscript.ir.well_formed import verify_well_formed
from tscript.lower.pipeline import CPU_PIPELINE, run_passes
from tscript.schedule import Schedule
from tscript.script import from_source
from tscript.support.errors import LoweringError

TO_PIPELINES = [p for n, p in enumerate(CPU_PIPELINE) if n <= [p.name for p in CPU_PIPELINE].index("double_buffers")]


def program(body: str, extent: str = "16", params: str = "") -> PrimFunc:
    """`body` in a function over an input A and an output C of `extent` rows of 4."""
    symbolic = not extent.isdigit()
    head = (
        "a: T.handle, c: T.handle"
        if symbolic
        else f'A: T.Buffer(({extent}, 4), "float32"), C: T.Buffer(({extent}, 4), "float32")'
    )
    lines = ['T.func_attr({"global_symbol": "main", "tir.noalias": True})']
    if symbolic:
        lines += [
            f"{extent} = T.int32()",
            f"A = T.match_buffer(a, ({extent}, 4))",
            f"C = T.match_buffer(c, ({extent}, 4))",
        ]
    text = "\n".join("    " + line for line in [*lines, *body.strip("\n").split("\n")])
    return from_source(f"@T.prim_func\ndef main({head}{params}):\n{text}\n")


def notes(stages: list[int], orders: list[int], more: str = "") -> str:
    return f'annotations={{"software_pipeline_stage": {stages}, "software_pipeline_order": {orders}{more}}}'


LOAD_USE = """
for i in T.serial({extent}, {notes}):
    with T.block("tile"):
        B = T.alloc_buffer((4,))
        for j in range(4):
            with T.block("load"):
                B[j] = A[i, j] * T.float32(2)
        for j in range(4):
            with T.block("use"):
                C[i, j] = B[j] + T.float32(1)
"""


def load_use(extent: str = "16", stages: list[int] | None = None, orders: list[int] | None = None, more: str = ""):
    return program(LOAD_USE.format(extent=extent, notes=notes(stages or [0, 1], orders or [0, 1], more)), extent)


def check(func: PrimFunc, *rows: int, seed: int = 0) -> PrimFunc:
    """The function as pipelined, which computes what `func` does in the interpreter and as native code."""
    rng = np.random.default_rng(seed)
    pipelined = run_passes(func, TO_PIPELINES)
    verify_well_formed(pipelined)
    assert_structural_equal(from_source(pipelined.script()), pipelined)
    native, again = build(func)["main"], interp.compile(pipelined, check_uninitialized=True)
    for count in rows:
        args = [rng.integers(-8, 8, (count, 4)).astype(np.float32) for _ in range(2)]
        expected = [a.copy() for a in args]
        interp.run(func, *expected)
        for run in (again, native):
            got = [a.copy() for a in args]
            run(*got)
            for g, e in zip(got, expected, strict=True):
                np.testing.assert_array_equal(g, e)
    return pipelined


def refused(func: PrimFunc) -> str:
    with pytest.raises(LoweringError) as e:
        lower(func)
    return str(e.value)


def test_loads_run_one_iteration_ahead_into_a_second_version() -> None:
    func = check(load_use(), 16)
    want = from_source(
        """
@T.prim_func
def main(A: T.Buffer((16, 4), "float32"), C: T.Buffer((16, 4), "float32")):
    T.func_attr({"tir.noalias": True})
    with T.block("root"):
        T.reads()
        T.writes()
        with T.block("i_overlapped"):
            B = T.alloc_buffer((2, 4))
            for i in T.unroll(1):
                for j in range(4):
                    with T.block("load"):
                        B[i % 2, j] = A[i, j] * T.float32(2)
            for i in range(1, 16):
                for j in range(4):
                    with T.block("load"):
                        B[i % 2, j] = A[i, j] * T.float32(2)
                for j in range(4):
                    with T.block("use"):
                        C[i - 1, j] = B[(i - 1) % 2, j] + T.float32(1)
            for i in T.unroll(16, 17):
                if i - 1 < 16:
                    for j in range(4):
                        with T.block("use"):
                            C[i - 1, j] = B[(i - 1) % 2, j] + T.float32(1)
"""
    )
    assert_structural_equal(func, want.with_attr("global_symbol", "main"))


def test_what_is_used_before_it_is_filled_again_needs_one_version() -> None:
    func = check(load_use(orders=[1, 0]), 16)
    assert "B = T.alloc_buffer((4,))" in func.script()


def test_a_double_buffer_has_two_versions_where_one_would_do() -> None:
    text = LOAD_USE.replace(
        'with T.block("load"):', 'with T.block("load"):\n                T.block_attr({{"double_buffer_scope": 0}})'
    )
    func = check(program(text.format(extent="16", notes=notes([0, 1], [1, 0]))), 16)
    assert "B = T.alloc_buffer((2, 4))" in func.script()
    wrong = text.replace('"double_buffer_scope": 0', '"double_buffer_scope": 1')
    assert "block 'load' has double_buffer_scope 1 and writes 1 buffers" in refused(
        program(wrong.format(extent="16", notes=notes([0, 1], [1, 0])))
    )


@pytest.mark.parametrize("stages", [[0, 1], [0, 3], [2, 3], [0, 0]])
@pytest.mark.parametrize("extent", ["1", "2", "3", "n"])
def test_loops_as_long_as_their_stages_or_shorter(extent: str, stages: list[int]) -> None:
    check(load_use(extent, stages, [0, 1]), *([int(extent)] if extent != "n" else range(6)))


def test_a_loop_without_iterations_does_nothing() -> None:
    text = LOAD_USE.format(extent="0", notes=notes([0, 1], [0, 1]))
    check(program(text, "3"), 3)
    check(program(text.replace("serial(0", "serial(4, 3 - 1 - 5"), "3"), 3)


@pytest.mark.parametrize("stages", [[0, 1], [0, 2]])
def test_loops_that_start_elsewhere_and_count_in_other_types(stages: list[int]) -> None:
    for loop in ("2, 9", "T.int64(3), T.int64(16)", "T.int8(1), T.int8(12)", "T.uint8(0), T.uint8(15)"):
        check(program(LOAD_USE.format(extent=loop, notes=notes(stages, [0, 1]))), 16)
    body = LOAD_USE.format(extent="n // 2, n", notes=notes(stages, [0, 1]))
    check(program(body, "n"), *range(7))


def test_three_stages_with_a_condition_and_a_name_around() -> None:
    body = """
for i in T.serial(n, NOTES):
    with T.block("tile"):
        T.where(i % 3 != 1)
        if i != 2:
            k: T.int32 = n - 1 - i
            with T.block("inner"):
                B = T.alloc_buffer((4,))
                D = T.alloc_buffer((4,))
                for j in range(4):
                    B[j] = A[k, j] * T.float32(2)
                for j in range(4):
                    D[j] = B[3 - j] + A[i, j]
                for j in range(4):
                    C[k, j] = D[j] * B[j]
"""
    for stages, orders, versions in (
        ([0, 1, 2], [0, 1, 2], (3, 2)),
        ([0, 1, 2], [2, 1, 0], (3, 1)),
        ([0, 0, 1], [0, 1, 2], (2, 2)),
    ):
        text = check(program(body.replace("NOTES", notes(stages, orders)), "n"), 0, 1, 2, 3, 8).script()
        for name, count in zip("BD", versions, strict=True):
            assert f"{name} = T.alloc_buffer(({count}, 4))" in text or (
                count == 1 and f"{name} = T.alloc_buffer((4,))" in text
            )


def test_statements_of_blocks_inside_count_one_by_one() -> None:
    body = """
for i in T.serial(16, NOTES):
    with T.block("tile"):
        B = T.alloc_buffer((4,))
        for j in range(4):
            B[j] = A[i, j]
        with T.block("both"):
            D = T.alloc_buffer((4,))
            for j in range(4):
                D[j] = B[j] + T.float32(1)
            for j in range(4):
                C[i, j] = D[j] * B[j]
"""
    func = check(program(body.replace("NOTES", notes([0, 1, 2], [0, 1, 2]))), 16)
    assert "D = T.alloc_buffer((2, 4))" in func.script()
    assert "has 2 numbers for 3 statements" in refused(program(body.replace("NOTES", notes([0, 1], [0, 1]))))


@pytest.mark.parametrize("outer", [([0, 1], [0, 1]), ([0, 1, 1, 1], [0, 1, 2, 3])])
@pytest.mark.parametrize("extent", ["1", "2", "8", "n"])
def test_a_pipeline_in_a_pipeline_is_one_statement_or_three(outer: tuple[list[int], list[int]], extent: str) -> None:
    body = """
for i in T.serial(EXTENT, OUTER):
    with T.block("tile"):
        B = T.alloc_buffer((4,))
        for j in range(4):
            B[j] = A[i, j]
        for j in T.serial(4, INNER):
            with T.block("inner"):
                D = T.alloc_buffer((1,))
                with T.block("first"):
                    D[0] = B[j] + T.float32(1)
                with T.block("second"):
                    C[i, j] = D[0] * B[j]
"""
    body = body.replace("EXTENT", extent).replace("OUTER", notes(*outer)).replace("INNER", notes([0, 1], [0, 1]))
    check(program(body, extent), *([int(extent)] if extent != "n" else range(4)))


def test_asynchronous_stages_are_complete_in_their_turn() -> None:
    func = load_use(more=', "software_pipeline_async_stages": [0]')
    assert "async" not in check(func, 16).script()
    assert "has 3, which is the stage of no statement" in refused(
        load_use(more=', "software_pipeline_async_stages": [3]')
    )


def test_a_copy_made_by_a_schedule_runs_ahead() -> None:
    body = """
for i, j in T.grid(16, 4):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = A[vi, vj] + A[vi, 3 - vj]
"""
    sch = Schedule(program(body))
    i, _ = sch.get_loops("C")
    copy = sch.cache_read("C", 0, "local")
    sch.compute_at(copy, i)
    sch.annotate(i, "software_pipeline_stage", [0, 1])
    sch.annotate(i, "software_pipeline_order", [0, 1])
    # Each iteration has a row of its own of the copy, so that one version is enough.
    text = check(sch.mod["main"], 16).script()
    assert "for i in range(1, 16):" in text and "A_local[i - 1, j] + A_local[i - 1, 3 - j]" in text


# -- what is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loop", "message"),
    [
        (f"T.serial(16, {notes([0], [0, 1])})", "software_pipeline_stage has 1 numbers for 2 statements"),
        (f"T.serial(16, {notes([0, 1], [0, 1, 2])})", "software_pipeline_order has 3 numbers for 2 statements"),
        (f"T.serial(16, {notes([0, 1], [1, 1])})", "two statements have the order 1"),
        (f"T.serial(16, {notes([-1, 1], [0, 1])})", "software_pipeline_stage has -1"),
        (f"T.serial(16, {notes([1, 0], [0, 1])})", "(block 'use') (stage 0, order 1) needs what statement 0"),
        (f"T.serial(16, {notes([0, 0], [1, 0])})", "would run before it"),
        ('T.serial(16, annotations={"software_pipeline_stage": [0, 1]})', "it has no software_pipeline_order"),
        ('T.serial(16, annotations={"software_pipeline_order": [0, 1]})', "it has no software_pipeline_stage"),
        ('T.serial(16, annotations={"software_pipeline_async_stages": [0]})', "it has no software_pipeline_stage"),
        (f"T.serial(16, {notes([0, 1], [0, 1]).replace('[0, 1]', '1')})", "give a list of integers"),
        (f"T.parallel(16, {notes([0, 1], [0, 1])})", "its iterations run as those of a parallel loop"),
        (f"T.vectorized(16, {notes([0, 1], [0, 1])})", "its iterations run as those of a vectorized loop"),
    ],
)  # fmt: skip
def test_lists_that_do_not_fit_are_told(loop: str, message: str) -> None:
    text = LOAD_USE.replace("T.serial({extent}, {notes})", loop)
    found = refused(program(text))
    assert message in found and "\n  try: " in found and "the loop over i" in found


def test_a_body_of_one_statement_is_no_pipeline() -> None:
    func = program(f"for i in T.serial(16, {notes([0], [0])}):\n    for j in range(4):\n        C[i, j] = A[i, j]")
    assert "its body is one statement" in refused(func)


def test_what_later_iterations_would_overwrite_is_told() -> None:
    body = """
B = T.alloc_buffer((4,))
for i in T.serial(16, NOTES):
    for j in range(4):
        B[j] = A[i, j]
    for j in range(4):
        C[i, j] = B[j]
"""
    found = refused(program(body.replace("NOTES", notes([0, 1], [0, 1]))))
    assert "may meet statement 1 (stage 1, order 1) of an earlier one in B" in found and "allocate B inside" in found
    check(program(body.replace("NOTES", notes([0, 1], [1, 0]))), 16)


def test_updates_in_place_may_be_ahead_as_far_as_they_do_not_meet() -> None:
    body = """
for i in T.serial(12, NOTES):
    for j in range(4):
        C[i, j] = C[i, j] + A[i, j]
    for j in range(4):
        C[i + DISTANCE, j] = C[i + DISTANCE, j] * T.float32(2)
"""
    for distance, stages, fine in (
        (0, [0, 1], True), (1, [0, 1], False), (2, [0, 1], True), (2, [0, 2], False), (4, [0, 3], True),
    ):  # fmt: skip
        func = program(body.replace("NOTES", notes(stages, [0, 1])).replace("DISTANCE", str(distance)))
        if fine:
            check(func, 16)
        else:
            assert "of a later iteration may meet" in refused(func)


def test_conditions_that_a_statement_changes_are_told() -> None:
    body = """
for i in T.serial(16, NOTES):
    if C[0, 0] > T.float32(0):
        for j in range(4):
            C[0, j] = A[i, j]
        for j in range(4):
            C[1, j] = A[i, j]
"""
    assert "may change C, on which it depends what" in refused(program(body.replace("NOTES", notes([0, 1], [0, 1]))))


def test_sizes_that_change_and_pointers_into_versions_are_told() -> None:
    body = LOAD_USE.replace("alloc_buffer((4,))", "alloc_buffer((i + 4,))")
    found = refused(program(body.format(extent="16", notes=notes([0, 1], [0, 1]))))
    assert "the size of B is another one in each iteration" in found
    body = """
for i in T.serial(16, NOTES):
    with T.block("tile"):
        B = T.alloc_buffer((4,))
        for j in range(4):
            B[j] = A[i, j]
        with T.block("use"):
            T.reads(B[0:4])
            T.writes(C[i, 0])
            C[i, 0] = T.call_pure_extern("float32", "first", B.data)
"""
    found = refused(program(body.replace("NOTES", notes([0, 1], [0, 1]))))
    assert "B needs 2 versions, but is used through a pointer" in found


def test_calls_without_known_effects_keep_their_order() -> None:
    body = """
for i in T.serial(16, NOTES):
    T.evaluate(T.call_extern("int32", "one", i))
    T.evaluate(T.call_extern("int32", "two", i))
"""
    assert "calls whose effects are not known" in refused(program(body.replace("NOTES", notes([0, 1], [0, 1]))))
    lower(program(body.replace("NOTES", notes([0, 1], [1, 0]))))


def test_a_function_may_not_return_from_a_pipeline() -> None:
    body = """
for i in T.serial(16, NOTES):
    for j in range(4):
        C[i, j] = A[i, j]
    if A[i, 0] > T.float32(0):
        T.evaluate(T.ret(i))
"""
    assert "may end the function" in refused(program(body.replace("NOTES", notes([0, 1], [0, 1]))))


def test_parameters_that_may_overlap_leave_the_loop_as_it_is() -> None:
    func = load_use()
    plain = from_source(func.script().replace('"tir.noalias": T.bool(True)', '"x": 1'))
    lowered = lower(plain)["main"].script()
    assert "% 2" not in lowered and "software_pipeline" not in lowered
    f = build(plain)
    whole = np.arange(17 * 4, dtype=np.float32).reshape(17, 4)
    expected = whole.copy()
    for i in range(16):
        expected[i + 1] = expected[i] * 2 + 1
    f(whole[:-1], whole[1:])
    np.testing.assert_array_equal(whole, expected)


# -- double buffers ----------------------------------------------------------------------------------

DOUBLE = """
for i in T.serial(EXTENT):
    with T.block("tile"):
        B = T.alloc_buffer((4,))
        with T.attr(B.data, "double_buffer_scope", 1):
            for j in range(4):
                B[j] = A[i, j] * T.float32(2)
        for j in range(4):
            C[i, j] = B[j] + T.float32(1)
"""


@pytest.mark.parametrize("extent", ["1", "2", "5", "n"])
def test_memory_is_filled_for_the_next_iteration(extent: str) -> None:
    func = check(program(DOUBLE.replace("EXTENT", extent), extent), *([int(extent)] if extent != "n" else range(4)))
    text = func.script()
    assert "B = T.alloc_buffer((2, 4))" in text and "double_buffer_scope" not in text
    assert text.count('"double_buffer_write"') == (1 if extent == "1" else 2)


def test_double_buffers_in_double_buffers_and_allocated_memory() -> None:
    body = """
for i in T.serial(5):
    B = T.decl_buffer((4,))
    with T.attr(B.data, "double_buffer_scope", 1):
        for j in range(4):
            B[j] = A[i, j] * T.float32(2)
    for j in range(4):
        with T.block("inner"):
            D = T.alloc_buffer((2,))
            with T.attr(D.data, "double_buffer_scope", 1):
                D[1] = B[j]
            C[i, j] = D[1] + B[3 - j]
"""
    text = check(program(body, "5"), 5).script()
    assert "B = T.alloc_buffer((2, 4))" in text and "D = T.alloc_buffer((2, 2))" in text


def test_double_buffers_that_cannot_be_are_told() -> None:
    body = """
B = T.alloc_buffer((4,))
for i in T.serial(16):
    with T.attr(B.data, "double_buffer_scope", 1):
        for j in range(4):
            B[j] = A[i, j]
    for j in range(4):
        C[i, j] = B[j]
"""
    assert "no loop around has it as memory of its own" in refused(program(body))
    late = DOUBLE.replace("A[i, j] * T.float32(2)", "C[(i + 15) % 16, j]").replace("EXTENT", "16")
    assert "do not overlap" in refused(program(late))
    assert "is a parallel one" in refused(program(DOUBLE.replace("T.serial(EXTENT)", "T.parallel(16)")))
    off = DOUBLE.replace('scope", 1', 'scope", 0').replace("EXTENT", "16")
    assert "B = T.alloc_buffer((4,))" in check(program(off), 16).script()


def test_functions_without_pipelines_stay_the_same_object() -> None:
    func = program("for i, j in T.grid(16, 4):\n    C[i, j] = A[i, j]")
    for p in CPU_PIPELINE:
        if p.name in ("pipeline_loops", "double_buffers"):
            assert p.run(func).body is func.body


# -- at random ---------------------------------------------------------------------------------------


def random_pipeline(rng: random.Random) -> PrimFunc:
    """A loop over statements that read inputs, results and memory of the loop, with stages and orders at random."""
    count = rng.randint(2, 5)
    local = [f"B{n}" for n in range(rng.randint(1, 3))]
    filled: list[str] = []
    lines: list[str] = []
    for _ in range(count):
        sources = ["A[i, j]", "A[(i + 1) % ROWS, j]", "T.float32(3)"] + [
            f"{b}[{rng.choice(['j', '3 - j'])}]" for b in filled
        ]
        sources += [rng.choice(["C[i, j]", "C[ROWS - 1 - i, j]"])] if rng.random() < 0.3 else []
        value = f"{rng.choice(sources)} {rng.choice('+-')} {rng.choice(sources)}"
        target = rng.choice([*[b for b in local if b not in filled], "C", "C", "S"])
        if target == "C":
            row = rng.choice(["i", "i", "(i + 1) % ROWS", "0"])
            statement = [f"C[{row}, j] = {value}"]
        elif target == "S":
            statement = [f"C[ROWS - 1, j] = C[ROWS - 1, j] + {value}"]
        else:
            filled.append(target)
            statement = [f"{target}[j] = {value}"]
        lines.append("for j in range(4):")
        if rng.random() < 0.3:
            lines.append(f"    if {rng.choice(['i % 2 == 0', 'j < 3', 'i + j < 5'])} or i < 0:")
            statement = [f"{s}" for s in statement] if target in ("C", "S") else statement
            if target in ("C", "S"):
                lines.append(f"        {statement[0]}")
                continue
            lines[-1] = "    if i > -1:"
            lines.append(f"        {statement[0]}")
            continue
        lines.append(f"    {statement[0]}")
    stages = sorted(rng.randint(0, 3) for _ in range(count))
    if rng.random() < 0.2:
        rng.shuffle(stages)
    orders = list(range(count))
    if rng.random() < 0.5:
        rng.shuffle(orders)
    head = [f"for i in T.serial(ROWS, {notes(stages, orders)}):", '    with T.block("body"):']
    body = [*head, *(f"        {b} = T.alloc_buffer((4,))" for b in local), *("        " + x for x in lines)]
    extent = rng.choice(["1", "2", "3", "7", "n"])
    return program("\n".join(body).replace("ROWS", extent), extent)


def test_random_pipelines_compute_the_same_or_are_refused() -> None:
    accepted = 0
    for seed in range(60):
        func = random_pipeline(random.Random(seed))
        shape: Any = func.buffer_map[func.params[0]].shape[0]
        fixed = getattr(shape, "value", None)
        try:
            check(func, *((1, 2, 5) if fixed is None else (fixed,)), seed=seed)
        except LoweringError as e:
            assert "do not overlap" in str(e)
            continue
        except Exception as e:
            raise AssertionError(f"seed {seed}: {e}\n{func.script()}") from e
        accepted += 1
    assert accepted >= 15, accepted
