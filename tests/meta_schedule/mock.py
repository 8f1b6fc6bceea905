"""A program with a small space, and parts of tuning that measure nothing."""

from __future__ import annotations

import zlib

from tscript.meta_schedule.builder import Builder, BuilderInput, BuilderResult
from tscript.meta_schedule.runner import Runner, RunnerFuture, RunnerInput, RunnerResult
from tscript.schedule import Schedule
from tscript.script import ir as I
from tscript.script import tir as T


@I.ir_module
class Matmul:
    @T.prim_func
    def main(A: T.Buffer((32, 64), "float32"), B: T.Buffer((64, 48), "float32"), C: T.Buffer((32, 48), "float32")):
        T.func_attr({"tir.noalias": True})
        for i, j, k in T.grid(32, 48, 64):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = 0.0
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def tiles(sch: Schedule) -> Schedule:
    """A space of some hundred schedules."""
    block = sch.get_block("C", "main")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, sch.sample_perfect_tile(i, n=2))
    j0, j1 = sch.split(j, sch.sample_perfect_tile(j, n=2))
    k0, k1 = sch.split(k, sch.sample_perfect_tile(k, n=2))
    sch.reorder(i0, j0, k0, k1, i1, j1)
    return sch


class MockBuilder(Builder):
    """Builds nothing: the path of an artifact tells which program it is of. Keeps the programs in `seen`."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.batches: list[int] = []

    def build(self, build_inputs: list[BuilderInput]) -> list[BuilderResult]:
        """A path for each program."""
        texts = [str(i.mod) for i in build_inputs]
        self.seen += texts
        self.batches.append(len(texts))
        return [BuilderResult(f"/nowhere/{zlib.crc32(t.encode())}/x", None) for t in texts]


class MockRunner(Runner):
    """Measures nothing: the time follows from the program."""

    def run(self, runner_inputs: list[RunnerInput]) -> list[RunnerFuture]:
        """A made-up time for each program, always the same for the same one."""
        times = [1e-6 * (1 + int(i.artifact_path.split("/")[2]) % 100000) for i in runner_inputs]
        return [RunnerFuture.of(RunnerResult([t], None)) for t in times]
