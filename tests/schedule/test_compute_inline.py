"""compute_inline: values in place of loads, regions found anew, and what is refused."""

from __future__ import annotations

from tests.schedule.check import check_schedule, rejects
from tscript.schedule import Schedule
from tscript.script import tir as T


def inline_b(s: Schedule) -> None:
    s.compute_inline("B")


def test_loads_become_the_stored_expression():
    @T.prim_func
    def func(A: T.Buffer((8, 12), "float32"), C: T.Buffer((8, 12), "float32")):
        B = T.alloc_buffer((8, 12))
        for i, j in T.grid(8, 12):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(8, 12):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + T.float32(1)

    check_schedule(
        func,
        inline_b,
        """
@T.prim_func
def main(A: T.Buffer((8, 12), "float32"), C: T.Buffer((8, 12), "float32")):
    for i, j in T.grid(8, 12):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj])
            T.writes(C[vi, vj])
            C[vi, vj] = A[vi, vj] * T.float32(2) + T.float32(1)
""",
    )


def test_subscripts_are_put_in_as_they_are():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), C: T.Buffer((3,), "float32")):
        B = T.alloc_buffer((5,))
        for i in range(5):
            with T.block("B"):
                vi = T.axis.spatial(5, i)
                B[vi] = A[vi + 1] * T.float32(2)
        for i in range(3):
            with T.block("C"):
                vi = T.axis.spatial(3, i)
                C[vi] = B[vi + 1] + B[3]

    sch = check_schedule(func, inline_b)
    assert "C[vi] = A[vi + 1 + 1] * T.float32(2.0) + A[T.Add(3, 1)] * T.float32(2.0)" in sch.mod.script()


def test_permuted_split_and_joined_subscripts_are_inverted():
    @T.prim_func
    def permuted(A: T.Buffer((8, 12), "float32"), C: T.Buffer((12, 8), "float32")):
        B = T.alloc_buffer((12, 8))
        for i, j in T.grid(8, 12):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vj, vi] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(12, 8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj]

    sch = check_schedule(permuted, inline_b)
    assert "C[vi, vj] = A[vj, vi] * T.float32(2.0)" in sch.mod.script()

    @T.prim_func
    def joined(A: T.Buffer((8, 12), "float32"), C: T.Buffer((96,), "float32")):
        B = T.alloc_buffer((96,))
        for i, j in T.grid(8, 12):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi * 12 + vj] = A[vi, vj]
        for i in range(96):
            with T.block("C"):
                vi = T.axis.spatial(96, i)
                C[vi] = B[vi]

    sch = check_schedule(joined, inline_b)
    assert "C[vi] = A[vi // 12, vi % 12]" in sch.mod.script()

    @T.prim_func
    def split(A: T.Buffer((96,), "float32"), C: T.Buffer((8, 12), "float32")):
        B = T.alloc_buffer((8, 12))
        for i in range(96):
            with T.block("B"):
                vi = T.axis.spatial(96, i)
                B[vi // 12, vi % 12] = A[vi]
        for i, j in T.grid(8, 12):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj]

    sch = check_schedule(split, inline_b)
    assert "C[vi, vj] = A[vi * 12 + vj]" in sch.mod.script()


def test_domains_that_start_elsewhere_unit_axes_and_wide_indices():
    @T.prim_func
    def func(a: T.handle, c: T.handle, n: T.int64):
        A = T.match_buffer(a, (n, 6), "int32")
        C = T.match_buffer(c, (n, 6), "int32")
        B = T.alloc_buffer((n, 1, 6), "int32")
        for i, u, j in T.grid(n, 1, 4):
            with T.block("B"):
                vi, vu = T.axis.remap("SS", [i, u])
                vj = T.axis.spatial((2, 6), j + 2)
                B[vi, 0, vj] = A[vi, vj] * 3 + T.Cast("int32", vu)
        for i, j in T.grid(n, 4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, 0, vj + 2]

    for n in (0, 1, 5):
        check_schedule(func, inline_b, sizes={"n": n})


def test_several_readers_loads_in_subscripts_inits_and_inner_blocks():
    @T.prim_func
    def func(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32"), D: T.Buffer((2, 4), "int32")):
        B = T.alloc_buffer((8,), "int32")
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v] % 8
        for i, k in T.grid(8, 3):
            with T.block("C"):
                v, _vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[v] = B[v]
                C[v] = C[v] + A[B[v]]
        for i in range(2):
            with T.block("D"):
                vi = T.axis.spatial(2, i)
                T.reads(B[vi * 4 : vi * 4 + 4])
                T.writes(D[vi, 0:4])
                for j in range(4):
                    with T.block("D_inner"):
                        vj = T.axis.spatial(4, j)
                        D[vi, vj] = B[vi * 4 + vj]

    sch = check_schedule(func, inline_b)
    text = sch.mod.script()
    assert "T.reads(A[vi * 4:vi * 4 + 4])" in text
    assert "B[" not in text and " B = " not in text


def test_reads_declared_by_hand_stay_but_for_the_inlined_buffer():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), E: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8,))
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v] * T.float32(2)
        for i in range(8):
            with T.block("C"):
                v = T.axis.spatial(8, i)
                T.reads(E[0:8], B[v])
                T.writes(C[v])
                C[v] = B[v] + E[v]

    sch = check_schedule(func, inline_b)
    assert "T.reads(E[0:8], A[v])" in sch.mod.script()


def test_a_value_with_a_let_is_copied_for_each_load():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8,))
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                x = T.float32()
                B[v] = T.Let(x * x, where={x: A[v]})
        for i in range(8):
            with T.block("C"):
                v = T.axis.spatial(8, i)
                C[v] = B[v] + B[7 - v]

    check_schedule(func, inline_b)


# -- refused ------------------------------------------------------------------------------------------


@T.prim_func
def chain(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i, k in T.grid(8, 2):
        with T.block("B"):
            v, _vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[v] = T.float32(0)
            B[v] = B[v] + A[v]
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v]


def test_reductions_outputs_and_the_root_are_refused():
    rejects(chain, inline_b, "has a T.init", ["B"])
    rejects(chain, lambda s: s.compute_inline("C"), "`C`, which is used outside", ["C", "root"])
    rejects(chain, lambda s: s.compute_inline("root"), "root of its function", ["root"])


def test_subscripts_that_lose_an_axis_are_refused():
    @T.prim_func
    def func(A: T.Buffer((8, 4), "float32"), C: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((11,))
        for i, j in T.grid(8, 4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi + vj] = A[vi, vj]
        for i in range(8):
            with T.block("C"):
                v = T.axis.spatial(8, i)
                C[v] = B[0]

    rejects(func, lambda s: s.compute_inline("B"), "no pipeline|do not determine")


def test_views_pointers_vectors_effects_and_bodies_of_other_forms_are_refused():
    @T.prim_func
    def view(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8,))
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v]
        for i in range(8):
            with T.block("C"):
                v = T.axis.spatial(8, i)
                T.reads(B[v])
                T.writes(C[v])
                V = T.match_buffer(B[v], (1,), offset_factor=1)
                C[v] = V[0]

    rejects(view, inline_b, "through a view", ["C"])

    @T.prim_func
    def pointer(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8,))
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v]
        with T.block("C"):
            T.reads(B[0:8])
            T.writes(C[0:8])
            T.evaluate(T.call_extern("int32", "f", B.access_ptr("r"), C.access_ptr("w")))

    rejects(pointer, inline_b, "pointer of `B`", ["root"])

    @T.prim_func
    def vector(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8,))
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v]
        for i in range(2):
            with T.block("C"):
                v = T.axis.spatial(2, i)
                T.reads(B[v * 4 : v * 4 + 4])
                T.writes(C[v * 4 : v * 4 + 4])
                C[T.Ramp(v * 4, 1, 4)] = B[T.Ramp(v * 4, 1, 4)]

    rejects(vector, inline_b, "as a vector", ["root"])

    @T.prim_func
    def effect(C: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((8,), "int32")
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = T.call_extern("int32", "next", v)
        for i in range(8):
            with T.block("C"):
                v = T.axis.spatial(8, i)
                C[v] = B[v] + B[v]

    rejects(effect, inline_b, "may have effects", ["B"])

    @T.prim_func
    def branch(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8,))
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                if v < 4:
                    B[v] = A[v]
        for i in range(8):
            with T.block("C"):
                v = T.axis.spatial(8, i)
                C[v] = B[v]

    rejects(branch, inline_b, "more than one store", ["B"])


def test_inputs_that_are_overwritten_before_the_reader_runs_are_refused():
    @T.prim_func
    def later(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8,))
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v]
        for i in range(8):
            with T.block("A"):
                v = T.axis.spatial(8, i)
                A[v] = T.float32(0)
        for i in range(8):
            with T.block("C"):
                v = T.axis.spatial(8, i)
                C[v] = B[v]

    rejects(later, inline_b, "no pipeline of stages.*overwrites", ["root"])

    @T.prim_func
    def temporary(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        Q = T.alloc_buffer((1,))
        B = T.alloc_buffer((8,))
        for i in range(8):
            with T.block("Q"):
                v = T.axis.spatial(8, i)
                Q[0] = A[v]
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = Q[0]
        for i in range(8):
            with T.block("C"):
                v = T.axis.spatial(8, i)
                C[v] = B[v]

    rejects(temporary, inline_b, "makes anew", ["B", "Q", "i", "C"])


def test_a_temporary_of_its_own_for_each_iteration_may_be_read_later():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        Q = T.alloc_buffer((8,))
        B = T.alloc_buffer((8,))
        for i in range(8):
            with T.block("Q"):
                v = T.axis.spatial(8, i)
                Q[v] = A[v]
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = Q[v]
        for i in range(8):
            with T.block("C"):
                v = T.axis.spatial(8, i)
                C[v] = B[v]

    check_schedule(func, inline_b)


@T.prim_func
def batch_of_one(A: T.Buffer((1, 6), "float32"), C: T.Buffer((1, 6), "float32")):
    B = T.alloc_buffer((1, 6))
    for n, i in T.grid(1, 6):
        with T.block("B"):
            vn, vi = T.axis.remap("SS", [n, i])
            B[vn, vi] = A[vn, vi] * T.float32(2)
    for n, i in T.grid(1, 6):
        with T.block("C"):
            vn, vi = T.axis.remap("SS", [n, i])
            C[vn, vi] = B[vn, 5 - vi] + T.float32(1)


def test_an_axis_of_one_value_is_replaced_by_the_subscript_too() -> None:
    sch = check_schedule(batch_of_one, lambda s: s.compute_inline("B"))
    assert str(sch.get(sch.get_block("C")).reads) == "(A[vn, 5 - vi],)"


def test_regions_around_know_where_an_axis_is_only_if_a_dimension_has_all_of_it():
    @T.prim_func
    def tiled(A: T.Buffer((8,), "float32"), C: T.Buffer((4,), "float32")):
        B = T.alloc_buffer((3, 2))
        for i in range(6):
            with T.block("B"):
                v = T.axis.spatial(6, i)
                B[v // 2, v % 2] = A[v] * 2.0
        for i in range(1, 4):
            with T.block("outer"):
                T.reads(B[0:2, 0:2])
                T.writes(C[i])
                with T.block("C"):
                    v = T.axis.spatial(4, i)
                    C[v] = B[v // 2, v % 2]

    sch = check_schedule(tiled, lambda s: s.compute_inline("B"))
    assert str(sch.get(sch.get_block("outer")).reads[0]) == "A[0:6]"


def test_regions_around_start_where_the_axis_does():
    @T.prim_func
    def shifted(A: T.Buffer((8,), "float32"), C: T.Buffer((6,), "float32")):
        B = T.alloc_buffer((8,))
        for i in range(1, 7):
            with T.block("B"):
                v = T.axis.spatial((1, 7), i)
                B[v + 1] = A[v] * 2.0
        for i in range(3):
            with T.block("outer"):
                vo = T.axis.spatial(3, i)
                T.reads(B[vo * 2 + 2 : vo * 2 + 4])
                T.writes(C[vo * 2 : vo * 2 + 2])
                for j in range(2):
                    with T.block("C"):
                        vj = T.axis.spatial(2, j)
                        C[vo * 2 + vj] = B[vo * 2 + vj + 2]

    sch = check_schedule(shifted, lambda s: s.compute_inline("B"))
    assert str(sch.get(sch.get_block("outer")).reads[0]) == "A[vo * 2 + 1:vo * 2 + 1 + 2]"
