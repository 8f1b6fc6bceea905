"""parallel, vectorize, bind, unroll: iterations at once, where they do not meet."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.schedule.check import check_schedule, rejects
from tests.schedule.test_split import rowsum, scale
from tscript.schedule import Schedule, ScheduleError
from tscript.script import tir as T
from tscript.testing.workloads import batch_matmul, matmul


def on(block: str, k: int, method: str, *args: str):
    return lambda s: getattr(s, method)(s.get_loops(block)[k], *args)


@pytest.mark.parametrize(
    ("method", "args", "shown", "record"),
    [
        ("parallel", (), "T.parallel(8)", ["Parallel", ["l1"], [], []]),
        ("vectorize", (), "T.vectorized(8)", ["Vectorize", ["l1"], [], []]),
        ("unroll", (), "T.unroll(8)", ["Unroll", ["l1"], [], []]),
        ("bind", ("threadIdx.x",), 'T.thread_binding(8, thread="threadIdx.x")', ["Bind", ["l1"], ["threadIdx.x"], []]),
    ],
)
def test_a_spatial_loop_may_be_of_any_kind(method: str, args: tuple[str], shown: str, record: list) -> None:
    sch = check_schedule(rowsum, on("sum", 0, method, *args))
    assert f"for i in {shown}:" in sch.mod.script()
    assert sch.trace.as_json()[0][-1] == record
    given = "".join(f', thread_axis="{a}"' for a in args)
    assert str(sch.trace).splitlines()[-1] == f"  sch.{method}(loop=l1{given})"


def test_a_kind_replaces_the_last_one_and_annotations_stay() -> None:
    def steps(s: Schedule) -> None:
        i, _ = s.get_loops("sum")
        s.annotate(i, "hint", 3)
        s.bind(i, "blockIdx.x")
        s.parallel(i)

    text = check_schedule(rowsum, steps).mod.script()
    assert 'T.parallel(8, annotations={"hint": 3})' in text and "thread_binding" not in text


@pytest.mark.parametrize(
    ("method", "args"), [("parallel", ()), ("vectorize", ()), ("bind", ("blockIdx.x",)), ("bind", ("vthread.x",))]
)
def test_a_reduction_is_not_run_at_once(method: str, args: tuple[str]) -> None:
    error = rejects(
        rowsum,
        on("sum", 1, method, *args),
        "loop `k` cannot be .* accumulate into the same elements through the reduce axis `vk` of block `sum`",
        ["k", "sum"],
    )
    assert "rfactor" in error.hint and "`k`" in error.hint
    rejects(matmul(2, 2, 4).func, on("C", 2, method, *args), "reduce axis `v_k`", ["k", "C"])


def test_a_reduction_split_stays_a_reduction() -> None:
    def steps(s: Schedule) -> None:
        s.parallel(s.split(s.get_loops("sum")[1], [3, 4])[0])

    rejects(rowsum, steps, "reduce axis `vk`", ["k_0", "sum"])


def test_threads_of_a_group_may_reduce_together() -> None:
    sch = check_schedule(rowsum, on("sum", 1, "bind", "threadIdx.x"), native=False)
    assert 'T.thread_binding(12, thread="threadIdx.x")' in sch.mod.script()


def test_the_batch_loop_is_parallel_before_and_after_decomposition() -> None:
    func = batch_matmul(4, 6, 5, 7).func

    def before(s: Schedule) -> None:
        b, _, _, k = s.get_loops("C")
        s.parallel(b)
        s.decompose_reduction("C", k)

    def after(s: Schedule) -> None:
        b, i, j, k = s.get_loops("C")
        j0, j1 = s.split(j, [None, 2])
        s.reorder(b, i, j0, k, j1)
        s.decompose_reduction("C", k)
        s.parallel(b)
        s.vectorize(j1)
        s.vectorize(s.get_loops("C_init")[-1])

    check_schedule(func, before)
    text = check_schedule(func, after).mod.script()
    assert "T.parallel(4)" in text and text.count("T.vectorized(2)") == 2


def test_fused_loops_are_told_apart_by_quotient_and_remainder() -> None:
    def steps(s: Schedule) -> None:
        i, j, k = s.get_loops("C")
        i0, i1 = s.split(i, [None, 3])
        j0, j1 = s.split(j, [None, 4])
        s.reorder(i0, j0, k, i1, j1)
        s.decompose_reduction("C", k)
        s.parallel(s.fuse(i0, j0))
        s.vectorize(j1)

    check_schedule(matmul(8, 10, 6).func, steps)


def test_neighbours_that_are_written_by_another_iteration_are_seen() -> None:
    @T.prim_func
    def stencil(A: T.Buffer((10,), "int32"), B: T.Buffer((10,), "int32")):
        for i in range(1, 9):
            with T.block("A"):
                v = T.axis.spatial((1, 9), i)
                A[v] = v * 3
            with T.block("B"):
                v = T.axis.spatial((1, 9), i)
                B[v] = A[v - 1]

    error = rejects(stencil, on("A", 0, "parallel"), r"block `A` writes `A\[i\]` and block `B` reads `A\[i - 1\]`")
    assert "iteration (i=1) writes A[1], iteration (i=2) reads it" in str(error)


def test_an_update_in_place_may_be_parallel_only_where_it_stays_with_its_element() -> None:
    @T.prim_func
    def same(A: T.Buffer((8,), "int32")):
        for i in range(8):
            with T.block("A"):
                v = T.axis.spatial(8, i)
                A[v] = A[v] + 1

    @T.prim_func
    def next_one(A: T.Buffer((9,), "int32")):
        for i in range(8):
            with T.block("A"):
                v = T.axis.spatial(8, i)
                A[v] = A[v + 1] + 1

    @T.prim_func
    def one(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        for i in range(8):
            with T.block("A"):
                v = T.axis.spatial(8, i)
                A[0] = B[v]

    down = re.escape("iteration (i=1) writes A[1], iteration (i=0) reads it")
    same_place = re.escape("writes `A[0]`: iteration (i=0) writes A[0], iteration (i=1) writes it too")
    for method in ("parallel", "vectorize"):
        check_schedule(same, on("A", 0, method))
        rejects(
            next_one, on("A", 0, method), re.escape("iteration (i=1) writes A[1], iteration (i=0) reads it"), ["i", "A"]
        )
        rejects(
            one,
            on("A", 0, method),
            re.escape("block `A` writes `A[0]`: iteration (i=0) writes A[0], iteration (i=1) writes it too"),
            ["i", "A"],
        )


def test_rows_that_differ_do_not_meet_whatever_their_columns() -> None:
    @T.prim_func
    def diagonal(A: T.Buffer((6, 6), "int32")):
        for i, j in T.grid(5, 5):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi + 1, vj] = A[vi, vj + 1] + 1

    example = re.escape("iteration (i=0, j=1) writes A[1, 1], iteration (i=1, j=0) reads it")
    for method in ("parallel", "vectorize"):
        check_schedule(diagonal, on("A", 1, method))
        rejects(diagonal, on("A", 0, method), example, ["i", "A"])
    rejects(diagonal, lambda s: s.bind(s.get_loops("A")[0], "threadIdx.x"), example, ["i", "A"])


def test_windows_that_overlap_may_be_rewritten_with_the_same_values() -> None:
    @T.prim_func
    def blur(A: T.Buffer((18,), "int32"), C: T.Buffer((16,), "int32")):
        B = T.alloc_buffer((18,), "int32")
        for i in range(4):
            for a in range(6):
                with T.block("B"):
                    v = T.axis.spatial(18, i * 4 + a)
                    B[v] = A[v] * 2
            for b in range(4):
                with T.block("C"):
                    v = T.axis.spatial(16, i * 4 + b)
                    C[v] = B[v] + B[v + 1] + B[v + 2]

    check_schedule(blur, on("B", 0, "parallel"))


def test_sums_in_a_common_place_are_not_made_at_once() -> None:
    @T.prim_func
    def shared(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4,), "int32")):
        B = T.alloc_buffer((1,), "int32")
        for i in range(4):
            for k in range(8):
                with T.block("B"):
                    v = T.axis.spatial(1, 0)
                    vk = T.axis.reduce(8, k)
                    with T.init():
                        B[v] = 0
                    B[v] = B[v] + A[0, vk]
            with T.block("C"):
                v = T.axis.spatial(4, i)
                C[v] = B[0] + A[v, 0]

    error = rejects(shared, on("B", 0, "parallel"), "block `B` writes `B")
    assert "choose a loop" in error.hint


def test_statements_outside_of_blocks_are_seen() -> None:
    @T.prim_func
    def loose(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        with T.block("root"):
            for i in range(8):
                A[0] = i
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    B[v] = v

    rejects(loose, on("B", 0, "parallel"), "a statement outside of blocks writes `A")


def test_a_scatter_is_as_independent_as_its_axis_declares() -> None:
    @T.prim_func
    def scatter(I: T.Buffer((8,), "int32"), A: T.Buffer((16,), "int32")):
        for i in range(8):
            with T.block("A"):
                v = T.axis.spatial(8, i)
                T.reads(I[v])
                T.writes(A[0:16])
                A[(I[v] + 4) % 8 + 8 * 0] = 1

    check_schedule(scatter, on("A", 0, "parallel"))


def test_memory_is_seen_through_views() -> None:
    @T.prim_func
    def viewed(A: T.Buffer((9,), "int32")):
        with T.block("root"):
            whole = T.match_buffer(A[0:9], (9,), "int32")
            for i in range(8):
                with T.block("A"):
                    v = T.axis.spatial(8, i)
                    whole[v] = A[v + 1] + 1

    rejects(viewed, on("A", 0, "parallel"), r"writes `whole\[i\]` and block `A` reads `A\[i \+ 1\]`", ["i", "A"])


def test_ordered_axes_are_refused() -> None:
    @T.prim_func
    def scan(A: T.Buffer((8,), "int32")):
        for i in range(8):
            with T.block("A"):
                v = T.axis.scan(8, i)
                A[v] = v

    rejects(scan, on("A", 0, "parallel"), "axis `v` of block `A` is Ordered, not spatial", ["i", "A"])


def test_nested_parallel_loops_run() -> None:
    def steps(s: Schedule) -> None:
        i, j, _ = s.get_loops("C")
        s.parallel(i)
        s.parallel(j)

    check_schedule(matmul(4, 5, 6).func, steps)


@pytest.mark.parametrize(("extent", "lanes"), [(2, 8), (10, 4), (7, 8), (8, 8), (1, 4)])
def test_vectors_longer_than_the_loop_are_guarded(extent: int, lanes: int) -> None:
    @T.prim_func
    def f(A: T.Buffer((extent,), "float32"), B: T.Buffer((extent,), "float32")):
        for i in range(extent):
            with T.block("B"):
                v = T.axis.spatial(extent, i)
                B[v] = A[v] * T.float32(2)

    check_schedule(f, lambda s: s.vectorize(s.split(s.get_loops("B")[0], [None, lanes])[1]))


def test_nested_vector_loops_of_sizes_that_do_not_divide() -> None:
    def steps(s: Schedule) -> None:
        i, j, _ = s.get_loops("C")
        s.vectorize(s.split(i, [None, 4])[1])
        s.vectorize(s.split(j, [None, 3])[1])

    check_schedule(matmul(6, 7, 3).func, steps)


def test_a_window_split_thrice_beyond_its_extent() -> None:
    @T.prim_func
    def window(A: T.Buffer((13,), "int32"), B: T.Buffer((9,), "int32")):
        for i, k in T.grid(9, 5):
            with T.block("B"):
                v, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[v] = 0
                B[v] = B[v] + A[v + vk]

    def steps(s: Schedule) -> None:
        i, k = s.get_loops("B")
        s.split(k, [8, 8, 8])
        s.vectorize(s.split(i, [None, 8])[1])

    check_schedule(window, steps)


def test_symbolic_loops_may_be_parallel() -> None:
    check_schedule(scale, lambda s: s.parallel(s.split(s.get_loops("B")[0], [None, 32])[0]), sizes={"n": 3})


def test_threads_are_named_right_and_once() -> None:
    rejects(rowsum, on("sum", 0, "bind", "threadIdx.w"), "there is no thread 'threadIdx.w'", [])
    rejects(rowsum, on("sum", 0, "bind", "thread"), "use threadIdx.x", [])
    rejects(rowsum, lambda s: s.bind(s.get_loops("sum")[0], 3), "named by a text", error=TypeError)

    def twice(s: Schedule) -> None:
        i, j, _ = s.get_loops("C")
        s.bind(i, "threadIdx.x")
        s.bind(j, "threadIdx.x")

    rejects(matmul(4, 5, 6).func, twice, "loop `i`, which is around or inside it, is bound to it", ["j", "i"])


@T.prim_func
def staged(X: T.Buffer((4, 32), "float32"), Z: T.Buffer((4, 32), "float32")):
    Y = T.alloc_buffer((4, 32), scope="shared")
    for i, j in T.grid(4, 32):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = X[vi, vj]
    for i, j in T.grid(4, 32):
        with T.block("Z"):
            vi, vj = T.axis.remap("SS", [i, j])
            Z[vi, vj] = Y[vi, 31 - vj] * 2.0


def filled_together(threads: int, *, scope: str = "shared", outer_first: bool = True) -> Callable[[Schedule], None]:
    """Threads over columns, which together fill a row that each of them reads elsewhere."""

    def steps(s: Schedule) -> None:
        s.set_scope("Y", 0, scope)
        i, j = s.get_loops("Z")
        j0, j1 = s.split(j, [None, 16])
        s.reorder(i, j1, j0)
        s.bind(i, "blockIdx.x")
        if outer_first:
            s.bind(j1, "threadIdx.x")
        s.compute_at("Y", j1)
        copy = s.get_loops("Y")[-1]
        _, lane = s.split(copy, [None, threads])
        s.bind(lane, "threadIdx.x")
        if not outer_first:
            s.bind(j1, "threadIdx.x")

    return steps


def test_threads_fill_shared_memory_together() -> None:
    sch = check_schedule(staged, filled_together(16))
    assert sch.mod.script().count('T.thread_binding(16, thread="threadIdx.x")') == 2
    # Before the outer loop is a thread, what is computed in it is only what one iteration needs.
    rejects(staged, filled_together(2, outer_first=False), "bound to it, and they do not count alike")


def test_threads_that_count_otherwise_or_keep_to_themselves_do_not_work_together() -> None:
    rejects(staged, filled_together(8), "they do not count alike: 16 and 8 iterations")
    rejects(staged, filled_together(16, scope="local"), "what is inside depends on loop `j_1`")

    @T.prim_func
    def whole_rows(X: T.Buffer((4, 16), "float32"), Z: T.Buffer((4, 16), "float32")):
        Y = T.alloc_buffer((4, 16), scope="local")
        for i, j in T.grid(4, 16):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[vi, vj]
        for i, j in T.grid(4, 16):
            with T.block("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(Y[vi, 0:16])
                T.writes(Z[vi, vj])
                Z[vi, vj] = Y[vi, 0] + Y[vi, 15 - vj]

    def steps(s: Schedule) -> None:
        _, j = s.get_loops("Z")
        s.bind(j, "threadIdx.x")
        s.compute_at("Y", j)
        s.bind(s.get_loops("Y")[-1], "threadIdx.x")

    rejects(whole_rows, steps, "each thread has a `Y` of its own", at=["ax0", "j"])


def test_groups_of_threads_do_not_work_together() -> None:
    def steps(s: Schedule) -> None:
        i, j = s.get_loops("Y")
        s.bind(i, "blockIdx.x")
        s.bind(j, "blockIdx.x")

    rejects(staged, steps, "groups of threads do not wait for each other", at=["j", "i"])


def test_checks_can_be_left_to_the_user() -> None:
    @T.prim_func
    def next_one(A: T.Buffer((9,), "int32")):
        for i in range(8):
            with T.block("A"):
                v = T.axis.spatial(8, i)
                A[v] = A[v + 1] + 1

    @T.prim_func
    def beyond_proof(A: T.Buffer((8,), "int32")):
        for i in range(8):
            with T.block("A"):
                v = T.axis.spatial(8, i)
                A[T.bitwise_xor(v, 1)] = A[T.bitwise_xor(v, 1)] + 1

    rejects(beyond_proof, on("A", 0, "parallel"), "which may be the same elements in different iterations")
    sch = Schedule(beyond_proof, enable_check=False)
    sch.parallel(sch.get_loops("A")[0])
    assert "T.parallel(8)" in sch.mod.script()
    # Without proofs, the program is run before and after.
    with pytest.raises(ScheduleError, match="its iterations race"):
        Schedule(next_one, enable_check=False).parallel("i")


def test_loops_are_found_by_name() -> None:
    sch = check_schedule(rowsum, lambda s: s.parallel("i"))
    assert "T.parallel(8)" in sch.mod.script()
    rejects(rowsum, lambda s: s.parallel("x"), "no loop is called 'x'.*\n.*the loops are i, k")


def test_a_virtual_thread_without_an_axis_is_taken_with_a_warning_at_the_call() -> None:
    sch = Schedule(scale)
    loop = sch.get_loops("B")[0]
    with pytest.warns(DeprecationWarning, match="'vthread.x'") as caught:
        sch.bind(loop, "vthread")
    assert caught[0].filename == __file__
    assert 'thread="vthread")' in sch.mod.script()


def test_what_is_done_through_pointers_is_not_known() -> None:
    @T.prim_func
    def opaque(A: T.Buffer((8, 8), "int32")):
        for i, j in T.grid(8, 8):
            with T.block("touch"):
                T.reads()
                T.writes()
                T.evaluate(T.call_extern("int32", "touch", A.data, i, j))

    message = r"may be the same elements in different iterations"
    for steps in (on("touch", 0, "parallel"), lambda s: s.reorder(*reversed(s.get_loops("touch")))):
        rejects(opaque, steps, message)


def test_places_that_are_read_from_memory_may_meet() -> None:
    @T.prim_func
    def scatter(I: T.Buffer((8,), "int32"), A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[I[vi]] = A[vi]

    message = r"may be the same elements in different iterations"
    for kind in ("parallel", "vectorize"):
        rejects(scatter, on("B", 0, kind), message)
    rejects(scatter, lambda s: s.transform_block_layout("B", lambda i: (7 - i,)), message)
