"""Random sequences of caching, inlining and splitting keep what a program computes, and replay."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.schedule.check import check_schedule
from tscript.schedule import BlockRV, LoopRV, Schedule, ScheduleError
from tscript.script import tir as T


@T.prim_func
def fan(A: T.Buffer((10, 7), "float32"), D: T.Buffer((10, 7), "float32"), S: T.Buffer((10,), "float32")):
    B = T.alloc_buffer((10, 7))
    C = T.alloc_buffer((7, 10))
    for i, j in T.grid(10, 7):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(10, 7):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vj, vi] = B[vi, vj] + T.float32(1)
    for i, j in T.grid(10, 7):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vj, vi] * B[vi, vj]
    for i, k in T.grid(10, 7):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + C[vk, vi]


@T.prim_func
def window(A: T.Buffer((16,), "float32"), C: T.Buffer((6,), "float32"), D: T.Buffer((12,), "float32")):
    B = T.alloc_buffer((16,))
    P = T.alloc_buffer((20,))
    Q = T.alloc_buffer((4, 5))
    for i in range(16):
        with T.block("B"):
            v = T.axis.spatial(16, i)
            B[v] = A[v] * T.float32(2)
    for i in range(20):
        with T.block("P"):
            v = T.axis.spatial(20, i)
            P[v] = T.if_then_else(v >= 2 and v < 18, B[v - 2], T.float32(7))
    for i in range(20):
        with T.block("Q"):
            v = T.axis.spatial(20, i)
            Q[v // 5, v % 5] = P[v]
    for i in range(6):
        with T.block("C"):
            v = T.axis.spatial(6, i)
            C[v] = B[v + 3]
    for i, j in T.grid(4, 3):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi * 3 + vj] = Q[vi, vj + 1]


@T.prim_func
def nested(A: T.Buffer((8, 12), "float32"), D: T.Buffer((8, 12), "float32"), S: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8, 12))
    for i, j_0 in T.grid(8, 3):
        with T.block("outer"):
            vi, vo = T.axis.remap("SS", [i, j_0])
            T.reads(A[vi, vo * 4 : vo * 4 + 4])
            T.writes(B[vi, vo * 4 : vo * 4 + 4])
            L = T.alloc_buffer((8, 12))
            for j_1 in range(4):
                with T.block("load"):
                    vj = T.axis.spatial(4, j_1)
                    L[vi, vo * 4 + vj] = A[vi, vo * 4 + vj] * T.float32(2)
            for j_1 in range(4):
                with T.block("inner"):
                    vj = T.axis.spatial(4, j_1)
                    B[vi, vo * 4 + vj] = L[vi, vo * 4 + vj] + T.float32(1)
    for i in range(8):
        for j in range(12):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = B[vi, 11 - vj]
        for k in range(12):
            with T.block("S"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    S[vi] = B[vi, 0]
                S[vi] = T.max(S[vi], B[vi, vk])


Step = Callable[[Schedule, random.Random, BlockRV, BlockRV, list[LoopRV]], Any]

STEPS: dict[str, Step] = {
    "split": lambda s, r, b, o, loops: s.split(r.choice(loops), [None, r.choice([2, 3, 4, 8])]),
    "fuse": lambda s, r, b, o, loops: s.fuse(*loops[:2]),
    "cache_read": lambda s, r, b, o, loops: s.cache_read(b, 0, r.choice(["local", "global"]), r.choice([None, [o]])),
    "cache_write": lambda s, r, b, o, loops: s.cache_write(b, 0, "local", r.choice([None, None, [o]])),
    "set_scope": lambda s, r, b, o, loops: s.set_scope(b, 0, r.choice(["shared", "global"])),
    "compute_inline": lambda s, r, b, o, loops: s.compute_inline(b),
    "reverse_compute_inline": lambda s, r, b, o, loops: s.reverse_compute_inline(b),
    "decompose_reduction": lambda s, r, b, o, loops: s.decompose_reduction(b, r.choice(loops)),
}


@pytest.mark.parametrize("func", [fan, window, nested], ids=lambda f: f.__name__)
@pytest.mark.parametrize("seed", range(5))
def test_random_steps_change_no_result(func: Any, seed: int):
    rng = random.Random(seed)

    def steps(s: Schedule) -> None:
        for name in rng.choices(list(STEPS), [2, 1, 3, 3, 1, 1, 1, 1], k=6):
            blocks = s.get_child_blocks(
                s.get_block(rng.choice(["root", "root", "outer"]) if func is nested else "root")
            )
            block, other = rng.choice(blocks), rng.choice(blocks)
            loops = s.get_loops(block)
            before = s.mod.script()
            try:
                STEPS[name](s, rng, block, other, loops)
            except ScheduleError:
                assert s.mod.script() == before

    check_schedule(func, steps, native=False)
