"""reorder accepts exactly the orders in which no two iterations that touch the same element change places."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest

from tests.schedule.check import check_schedule, rejects
from tscript import interp
from tscript.ir.function import PrimFunc
from tscript.parser import from_source
from tscript.schedule import Schedule, ScheduleError
from tscript.schedule.conflicts import find_exchange_conflict
from tscript.script import tir as T

SIZE = 48


@dataclass
class Program:
    """A nest of loops with blocks that write A, one after the other: subscripts of what each writes and reads."""

    func: PrimFunc
    names: list[str]
    extents: list[int]
    accesses: list[tuple[str, bool]]

    def elements(self, point: Sequence[int], is_write: bool) -> set[tuple[int, int]]:
        """What the iteration at `point` writes (or reads)."""
        values = dict(zip(self.names, point, strict=True))
        return {eval(text, {}, values) for text, write in self.accesses if write == is_write}

    def exchanges(self, order: Sequence[int]) -> bool:
        """Whether any two iterations that touch the same element, one writing it, change places."""
        points = list(product(*map(range, self.extents)))
        writes = {p: self.elements(p, True) for p in points}
        touches = {p: writes[p] | self.elements(p, False) for p in points}
        by_element: dict[tuple[int, int], list[tuple[int, ...]]] = {}
        for p in points:
            for e in touches[p]:
                by_element.setdefault(e, []).append(p)
        for e, some in by_element.items():
            for p in some:
                for q in some if e in writes[p] else ():
                    new = [tuple(v[k] for k in order) for v in (p, q)]
                    if p != q and (p < q) != (new[0] < new[1]):
                        return True
        return False


def _subscript(rng: random.Random, names: Sequence[str]) -> str:
    one = rng.choice(names)
    forms = [f"{one}", f"{one} + 1", f"{one} + 1", f"{one} + 2", f"{one} * 2", f"{one} // 2 + 1", f"{one} % 2", "0"]
    two = rng.choice(names)
    forms += [f"{one} + {two}", f"{one} * 3 + {two}", f"{one} * 2 + {two} + 1", f"{one} + 4 - {two}"]
    return rng.choice(forms)


def _program(seed: int) -> Program:
    rng = random.Random(seed)
    names = ["i", "j", "k"][: rng.choice([2, 2, 3])]
    extents = [rng.choice([1, 2, 3, 4, 5]) for _ in names]
    accesses: list[tuple[str, bool]] = []
    lines = [f"for {', '.join(names)} in T.grid({', '.join(map(str, extents))}):"]
    plain = rng.random() < 0.6
    for b in range(rng.choice([1, 1, 2])):

        def pair() -> str:
            if plain:
                return ", ".join(f"{n} + {rng.choice([0, 1, 1, 2])}" for n in rng.sample(names, 2))
            return f"{_subscript(rng, names)}, {_subscript(rng, names)}"

        target, *sources = [pair() for _ in range(rng.choice([2, 3]))]
        accesses += [(f"({target})", True), *((f"({s})", False) for s in sources)]
        axes = ", ".join(f"v{n}" for n in names)
        in_axes = [_with_axes(t, names) for t in (target, *sources)]
        value = " + ".join(f"A[{s}] * {k + 2}" for k, s in enumerate(in_axes[1:]))
        lines += [
            f'    with T.block("B{b}"):',
            f'        {axes} = T.axis.remap("{"S" * len(names)}", [{", ".join(names)}])',
            f"        A[{in_axes[0]}] = {value} + {b + 1}",
        ]
    head = f'from tscript.script import tir as T\n@T.prim_func\ndef f(A: T.Buffer(({SIZE}, {SIZE}), "int32")):\n'
    func = from_source(head + "".join(f"    {line}\n" for line in lines))
    assert isinstance(func, PrimFunc)
    return Program(func, names, extents, accesses)


def _with_axes(text: str, names: Sequence[str]) -> str:
    return "".join(f"v{c}" if c in names else c for c in text)


def _result(func: PrimFunc) -> np.ndarray:
    a = np.random.default_rng(1).integers(-9, 9, (SIZE, SIZE)).astype(np.int32)
    interp.run(func, a)
    return a


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_random_orders(first: int) -> None:
    accepted = refused = changed = 0
    for seed in range(first, first + 50):
        p = _program(seed)
        rng = random.Random(seed)
        order = rng.sample(range(len(p.names)), len(p.names))
        sch = Schedule(p.func)
        loops = sch.get_loops("B0")
        moved = [loops[k] for k in order]
        found = find_exchange_conflict(sch.state, *([sch.get_sref(rv) for rv in some] for some in (loops, moved)))
        try:
            sch.reorder(*moved)
        except ScheduleError:
            refused += 1
            assert p.exchanges(order), f"{seed}: refused without need: {order}\n{p.func.script()}"
            assert found is not None
            conflict = found[2]
            w = conflict.witness
            assert w is not None, f"{seed}: {conflict}"
            one, two = ([at[n] for n in p.names] for at in (w.first, w.second))
            assert w.element in p.elements(one, True)
            assert w.element in p.elements(two, conflict.other.is_write)
            turned = [[point[k] for k in order] for point in (one, two)]
            assert one != two
            assert (one < two) != (turned[0] < turned[1]), f"{seed}: {conflict}, {order}"
            decide = [next(n for n in names if w.first[n] != w.second[n]) for names in _orders(p.names, order)]
            assert [r.loop.loop_var.name for r in found[:2]] == decide
        else:
            accepted += 1
            changed += order != sorted(order) and any(n > 1 for n in p.extents)
            assert found is None
            np.testing.assert_array_equal(
                _result(sch.mod["main"]), _result(p.func), err_msg=f"{seed}\n{p.func.script()}"
            )
    assert refused >= 3
    assert changed >= 5
    assert accepted + refused == 50


def _orders(names: Sequence[str], order: Sequence[int]) -> tuple[Sequence[str], list[str]]:
    return names, [names[k] for k in order]


@pytest.mark.parametrize(
    ("target", "source"),
    [
        ("i + 1, j + 1", "A[vi, vj + 1] + A[vi + 1, vj]"),
        ("i + 1, j + 1", "A[vi, vj]"),
        ("i + 1, j", "A[vi, vj // 2]"),
        ("i, j + 1", "A[vi // 4, vj]"),
    ],
)
@pytest.mark.parametrize("extent", ["n", "1 << 12", "5"])
def test_sizes_do_not_matter_where_distances_are_known(target: str, source: str, extent: str) -> None:
    text = f"""
from tscript.script import tir as T
@T.prim_func
def wave(a: T.handle, n: T.int32):
    A = T.match_buffer(a, ({extent} + 2, {extent} + 2), "int32")
    for i, j in T.grid({extent}, {extent}):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[{_with_axes(target, "ij")}] = {source} + 1
"""
    func = from_source(text)
    check_schedule(func, lambda s: s.reorder(*reversed(s.get_loops("A"))), run="<<" not in extent)


def test_a_wave_in_tiles_may_be_run_by_columns_of_tiles() -> None:
    @T.prim_func
    def wave(A: T.Buffer((13, 17), "int32")):
        for i, j in T.grid(12, 16):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi + 1, vj + 1] = A[vi, vj + 1] + A[vi + 1, vj] * 2

    def tiles(s: Schedule) -> None:
        i, j = s.get_loops("A")
        i0, i1 = s.split(i, [None, 4])
        j0, j1 = s.split(j, [None, 4])
        s.reorder(i0, j0, i1, j1)
        s.reorder(j0, i0, j1, i1)

    check_schedule(wave, tiles)

    def fused(s: Schedule) -> None:
        i, j = s.get_loops("A")
        i0, i1 = s.split(s.fuse(i, j), [None, 16])
        s.reorder(i1, i0)

    check_schedule(wave, fused)


def test_each_pair_of_accesses_is_held_to_its_own_loops() -> None:
    @T.prim_func
    def two(A: T.Buffer((9, 8), "int32"), B: T.Buffer((8, 9), "int32")):
        for i, j in T.grid(8, 8):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi + 1, vj] = A[vi, vj] + 1
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj + 1] = B[vi, vj] * 2

    check_schedule(two, lambda s: s.reorder(*reversed(s.get_loops("A"))))


def test_conditions_count() -> None:
    @T.prim_func
    def lower_part(A: T.Buffer((9, 9), "int32")):
        for i, j in T.grid(8, 8):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.where(j <= i)
                A[vi, vj] = A[vj, vi] + 1

    @T.prim_func
    def whole(A: T.Buffer((9, 9), "int32")):
        for i, j in T.grid(8, 8):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi + 1, vj] = A[vj, vi] + 1

    check_schedule(lower_part, lambda s: s.reorder(*reversed(s.get_loops("A"))))
    rejects(whole, lambda s: s.reorder(*reversed(s.get_loops("A"))), "the new order would run them the other way round")


def test_subscripts_read_from_memory_are_refused_without_an_example() -> None:
    @T.prim_func
    def scatter(At: T.Buffer((8, 8), "int32"), A: T.Buffer((8,), "int32")):
        for i, j in T.grid(8, 8):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[At[vi, vj]] = A[At[vi, vj]] * 2 + 1

    rejects(
        scatter,
        lambda s: s.reorder(*reversed(s.get_loops("A"))),
        "loop `i` cannot go inside loop `j`: .*which may be the same elements in different iterations",
        ["i", "j", "A"],
    )
