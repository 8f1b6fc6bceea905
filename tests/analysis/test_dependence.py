"""Which iterations of a loop meet: proofs hold in any order of the iterations, and examples are real."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import tscript
from tscript import interp
from tscript.analysis import loop_conflict, order_conflict, parallel_loops
from tscript.arith import simplify
from tscript.ir import construct as make
from tscript.ir.expr import BufferLoad, IntImm, PrimExpr
from tscript.ir.function import PrimFunc
from tscript.ir.functor import post_order_visit, pre_order_visit, substitute
from tscript.ir.stmt import BufferStore, For, IfThenElse, Stmt
from tscript.script import tir as T


def loops_of(func: PrimFunc) -> list[For]:
    found: list[For] = []
    post_order_visit(func.body, lambda n: found.append(n) if isinstance(n, For) else None)
    return found[::-1]


def _index(rng: random.Random, loops: tuple[str, ...]) -> str:
    parts = [rng.choice(["{0}", "{0} * 2", "{0} * 3", "{0} // 2", "{0} % 2", "{0} % 3", "0"]) for _ in loops]
    terms = [p.format(v) for p, v in zip(parts, loops, strict=True)]
    return " + ".join([*terms, str(rng.choice([0, 0, 1, 2]))])


def _program(seed: int) -> PrimFunc:
    rng = random.Random(seed)
    n, m = rng.choice([1, 2, 4, 5, 6]), rng.choice([1, 2, 3, 4])
    extent = f"i + {m}" if rng.random() < 0.15 else str(m)
    y, z, x = (_index(rng, ("i", "j")) for _ in range(3))
    source = rng.choice(["Y[{z}] + X[{x}]", "X[{x}] * 3", "X[{x}] + i * 7 + j", "Z[{z}] + X[{x}]"]).format(z=z, x=x)
    lines = [f"for i in range({n}):", f"    for j in range({extent}):"]
    if rng.random() < 0.3:
        lines += [f"        if {rng.choice(['i + j < 4', 'j % 2 == 0', 'i > 1'])}:", f"            Y[{y}] = {source}"]
    else:
        lines.append(f"        Y[{y}] = {source}")
    if rng.random() < 0.5:
        lines.append(f"        Z[{_index(rng, ('i', 'j'))}] = Y[{_index(rng, ('i', 'j'))}] + 1")
    header = 'from tscript.script import tir as T\n@T.prim_func\ndef f(X: T.Buffer((64,), "int32"), '
    header += 'Y: T.Buffer((64,), "int32"), Z: T.Buffer((64,), "int32")):\n'
    func = tscript.script.from_source(header + "".join(f"    {line}\n" for line in lines))
    assert isinstance(func, PrimFunc)
    return func


def _run(func: PrimFunc, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    arrays = [rng.integers(-50, 50, 64).astype(np.int32) for _ in range(3)]
    interp.run(func, *arrays)
    return arrays


def _in_other_order(func: PrimFunc, loop: For, rng: random.Random) -> PrimFunc:
    """The iterations of `loop` backwards, after a turn."""
    extent = loop.extent
    turn = make.floormod(make.add(loop.loop_var, rng.randrange(4)), extent)
    other: PrimExpr = make.sub(make.sub(extent, 1), turn)
    new = loop.replace(body=substitute(loop.body, {loop.loop_var: other}))

    def swap(node: Stmt) -> Stmt:
        if node is loop:
            return new
        assert isinstance(node, For)
        return node.replace(body=swap(node.body))

    return func.replace(body=swap(func.body))


def _touched(func: PrimFunc, point: Mapping[str, int], name: str, is_write: bool) -> list[int]:
    """The elements of a buffer that the iteration of all loops given by `point` touches."""
    loops = loops_of(func)
    body = substitute(loops[-1].body, {v.loop_var: IntImm(v.loop_var.dtype, point[v.loop_var.name]) for v in loops})
    found: list[int] = []

    def look(n: object) -> bool:
        if isinstance(n, IfThenElse):
            condition = simplify(n.condition)
            assert isinstance(condition, IntImm)
            return bool(condition.value)
        if isinstance(n, BufferStore if is_write else BufferLoad) and n.buffer.name == name:
            index = simplify(n.indices[0])
            assert isinstance(index, IntImm)
            found.append(index.value)
        return True

    pre_order_visit(body, look)
    return found


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_proofs_hold_in_any_order_and_examples_are_real(first: int) -> None:
    proven = shown = 0
    for seed in range(first, first + 50):
        func = _program(seed)
        for loop in loops_of(func):
            found = loop_conflict(func, loop)
            if found is None:
                proven += 1
                for k in range(3):
                    other = _in_other_order(func, loop, random.Random(k))
                    for a, b in zip(_run(func, seed), _run(other, seed), strict=True):
                        np.testing.assert_array_equal(a, b, err_msg=f"{seed}\n{func.script()}\n{other.script()}")
            elif found.witness is not None:
                shown += 1
                w, name = found.witness, found.write.buffer.name
                assert w.first[loop.loop_var.name] != w.second[loop.loop_var.name]
                assert all(w.first[v.loop_var.name] == w.second[v.loop_var.name] for v in _around(func, loop))
                assert w.element[0] in _touched(func, w.first, name, True)
                assert w.element[0] in _touched(func, w.second, name, found.other.is_write)
    assert proven > 5
    assert shown > 20


def _around(func: PrimFunc, loop: For) -> list[For]:
    loops = loops_of(func)
    return loops[: loops.index(loop)]


def test_which_loops_may_run_at_once() -> None:
    @T.prim_func
    def product(A: T.Buffer((4, 6), "int32"), B: T.Buffer((6, 8), "int32"), C: T.Buffer((4, 8), "int32")):
        for i, j, k in T.grid(4, 8, 6):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = 0
                C[vi, vj] += A[vi, vk] * B[vk, vj]

    assert [v.loop_var.name for v in parallel_loops(product)] == ["i", "j"]
    found = loop_conflict(product, loops_of(product)[2])
    assert found is not None
    assert "iteration (i=0, j=0, k=0) writes C[0, 0], iteration (i=0, j=0, k=1)" in str(found)


def test_sizes_that_are_not_known_get_a_value_in_the_example() -> None:
    @T.prim_func
    def shift(a: T.handle, n: T.int32):
        A = T.match_buffer(a, (n + 1,), "int32")
        for i in range(n):
            A[i] = A[i + 1]

    found = loop_conflict(shift, loops_of(shift)[0])
    assert found is not None
    assert str(found).endswith("iteration (i=1) writes A[1], iteration (i=0) reads it, where n=7")


def test_what_cannot_be_told_is_a_conflict_without_example() -> None:
    @T.prim_func
    def scatter(At: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        for i in range(8):
            B[At[i]] = i

    found = loop_conflict(scatter, loops_of(scatter)[0])
    assert found is not None
    assert not found.is_certain
    assert "may be the same elements" in str(found)


def test_memory_of_each_iteration_is_left_out_and_views_are_seen_through() -> None:
    @T.prim_func
    def own(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        for i in range(8):
            with T.block(""):
                T.reads(A[i])
                T.writes()
                t = T.alloc_buffer((1,), "int32")
                t[0] = A[i]
                B[i] = t[0]

    @T.prim_func
    def views(A: T.Buffer((8,), "int32")):
        for i in range(7):
            with T.block(""):
                T.reads()
                T.writes()
                v = T.match_buffer(A[i : i + 2], (2,), "int32", offset_factor=1)
                v[0] = A[i + 1]

    assert loop_conflict(own, loops_of(own)[0]) is None
    assert loop_conflict(views, loops_of(views)[0]) is not None


def test_other_programs_are_refused_and_pointers_leave_the_answer_open() -> None:
    @T.prim_func
    def opaque(A: T.Buffer((8,), "int32")):
        for i in range(8):
            T.evaluate(T.call_extern("int32", "touch", A.data, i))

    @T.prim_func
    def through_access(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        for i in range(8):
            B[0] = i
            T.evaluate(T.call_extern("int32", "touch", A.access_ptr("rw", offset=i)))

    @T.prim_func
    def of_each(B: T.Buffer((8,), "int32")):
        for i in range(8):
            with T.block(""):
                T.reads()
                T.writes()
                t = T.alloc_buffer((4,), "int32")
                T.evaluate(T.call_extern("int32", "touch", t.data, i))
                B[i] = t[0]

    with pytest.raises(ValueError, match="not part of the program"):
        loop_conflict(opaque, loops_of(_program(0))[0])
    with pytest.raises(TypeError, match="a function or a statement"):
        loop_conflict(3, loops_of(opaque)[0])  # pyright: ignore[reportArgumentType]
    unknown = loop_conflict(opaque, loops_of(opaque)[0])
    assert unknown is not None
    assert not unknown.is_certain
    pointer = next(iter(opaque.buffer_map.values())).data.name
    assert str(unknown) == f"the pointer `{pointer}` is used directly, so what happens to its memory is not known"
    known = loop_conflict(through_access, loops_of(through_access)[0])
    assert known is not None
    assert str(known).endswith("iteration (i=0) writes B[0], iteration (i=1) writes it too")
    assert parallel_loops(opaque) == parallel_loops(through_access) == []
    assert [v.loop_var.name for v in parallel_loops(of_each)] == ["i"]


def test_loops_inside_of_blocks_with_axes_are_looked_at() -> None:
    @T.prim_func
    def rows(X: T.Buffer((6, 4), "int32"), Y: T.Buffer((6, 4), "int32"), Z: T.Buffer((6,), "int32")):
        for i in range(6):
            with T.block("row"):
                v = T.axis.spatial(6, i)
                T.reads(X[v, 0:4])
                T.writes(Y[v, 0:4], Z[v])
                for j in range(4):
                    Y[v, j] = X[v, j] * 2
                for k in range(4):
                    Z[v] = Z[v] + X[v, k]

    assert [v.loop_var.name for v in parallel_loops(rows)] == ["i", "j"]
    k = next(loop for loop in loops_of(rows) if loop.loop_var.name == "k")
    assert str(loop_conflict(rows, k)).endswith("iteration (v=0, k=0) writes Z[0], iteration (v=0, k=1) writes it too")


def test_the_example_for_larger_regions_is_an_element_of_both() -> None:
    @T.prim_func
    def windows(X: T.Buffer((4, 3), "int32"), Y: T.Buffer((9,), "int32")):
        for i in range(4):
            with T.block("window"):
                v = T.axis.spatial(4, i)
                T.reads(X[v, 0:3])
                T.writes(Y[v * 2 : v * 2 + 3])
                for k in range(3):
                    Y[v * 2 + k] = X[v, k]

    @T.prim_func
    def declared(X: T.Buffer((4, 3), "int32"), Y: T.Buffer((9,), "int32")):
        for i in range(4):
            with T.block("window"):
                v = T.axis.spatial(4, i)
                T.reads(X[v, 0:3])
                T.writes(Y[v * 2 : v * 2 + 3])
                for k in range(2):
                    Y[v * 2 + k] = X[v, k]

    found = loop_conflict(windows, loops_of(windows)[0])
    assert str(found) == (
        "block `window` writes `Y[i * 2:i * 2 + 3]`: "
        "iteration (i=0, k=2) writes Y[2], iteration (i=1, k=0) writes it too"
    )
    # More is declared than is done: no example, and what is declared counts.
    open_question = loop_conflict(declared, loops_of(declared)[0])
    assert open_question is not None
    assert not open_question.is_certain


def test_conditions_and_names_around_are_part_of_the_example() -> None:
    @T.prim_func
    def guarded(A: T.Buffer((40,), "int32"), n: T.int32):
        for i in range(8):
            if i > 2:
                with T.LetStmt(i * 4) as base:
                    for j in range(4):
                        A[base + j // 2] = j

    @T.prim_func
    def never(A: T.Buffer((40,), "int32"), n: T.int32):
        for i in range(8):
            if i > 8:
                for j in range(4):
                    A[j // 2] = j

    j = next(loop for loop in loops_of(guarded) if loop.loop_var.name == "j")
    assert str(loop_conflict(guarded, j)).endswith(
        "iteration (i=3, j=0) writes A[12], iteration (i=3, j=1) writes it too"
    )
    other = loop_conflict(never, next(loop for loop in loops_of(never) if loop.loop_var.name == "j"))
    assert other is not None
    assert not other.is_certain


def test_order_of_loops() -> None:
    @T.prim_func
    def cube(A: T.Buffer((9, 9), "int32"), B: T.Buffer((9, 9), "int32")):
        for i, j, k in T.grid(8, 8, 2):
            A[i + 1, j] = A[i, j + k] + 1
        for i in range(8):
            for j in range(i + 1):
                B[i, j] = B[i, j] * 2
        for i in range(8):
            for j in range(4):
                B[i, j] = 0
            for j in range(4):
                B[i, j] = 1

    first, triangle, two = cube.body.seq
    i, j, k = first, first.body, first.body.body
    assert order_conflict(cube, []) is order_conflict(cube, [i, j, k]) is order_conflict(cube, [j]) is None
    assert order_conflict(cube, [i, k, j]) is None
    found = order_conflict(cube, [j, i])
    assert found is not None
    assert str(found).endswith("iteration (i=0, j=1, k=0) writes A[1, 1], iteration (i=1, j=0, k=1) reads it")
    assert str(order_conflict(cube, [k, j, i])).endswith(
        "iteration (i=0, j=0, k=1) writes A[1, 0], iteration (i=1, j=0, k=0) reads it"
    )
    with pytest.raises(ValueError, match="`j` depends on one that would be inside of it"):
        order_conflict(cube, [triangle.body, triangle])
    for other in ([two.body.seq[0], two], [i, i], [i, triangle]):
        with pytest.raises(ValueError, match="are no tight nest"):
            order_conflict(cube, other)
    with pytest.raises(ValueError, match="not part of the program"):
        order_conflict(triangle, [i, j])


def test_order_with_pointers_and_memory() -> None:
    @T.prim_func
    def opaque(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8,), "int32"), At: T.Buffer((8, 8), "int32")):
        for i, j in T.grid(8, 8):
            T.evaluate(T.call_extern("int32", "touch", A.data, i, j))
        for i, j in T.grid(8, 8):
            B[At[i, j]] = i

    pointer, scatter = opaque.body.seq
    assert "used directly" in str(order_conflict(opaque, [pointer.body, pointer]))
    assert "may be the same elements" in str(order_conflict(opaque, [scatter.body, scatter]))
