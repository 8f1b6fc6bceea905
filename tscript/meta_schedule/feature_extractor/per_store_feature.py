"""Features of each stored buffer: what is computed, how memory is used, and in which loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tscript.ir.function import IRModule, PrimFunc
from tscript.ir.functor import post_order_visit
from tscript.ir.stmt import Block
from tscript.meta_schedule.feature_extractor.computation import computation, product, scaled
from tscript.meta_schedule.feature_extractor.feature_extractor import FeatureExtractor
from tscript.meta_schedule.feature_extractor.index_form import Loop
from tscript.meta_schedule.feature_extractor.reuse import NUMBERS_PER_BUFFER, Touches, buffer_uses
from tscript.meta_schedule.feature_extractor.stores import Memory, Store, stores_of
from tscript.meta_schedule.tune_context import TuneContext

COMPUTATION = 57
ALLOCATION = 4
NEST = 3
_WORKLOADS = (
    ("softmax",), ("max", "min"), ("add",), ("batch_matmul",), ("matmul",), ("depthwiseconv2d",),
    ("conv2d_winograd",), ("conv2d",),
)  # fmt: skip


@dataclass(frozen=True)
class PerStoreFeature(FeatureExtractor):
    """A row for each stored buffer, in order of its first store, from one walk of the program.

    A row holds 57 numbers on the computation, 18 for each of `buffers_per_store` buffers, a curve of
    `arith_intensity_curve_num_samples` numbers, 4 on the allocation, 3 on the nest, and with `extract_workload` 8 flags
    that guess the workload from names of blocks. Numbers but flags are log2(|x| + 1). A later store to the same buffer
    replaces what the earlier one said. Loops whose extent is no constant count as one iteration; the row of a store
    that never runs is 0.

    >>> from tscript import meta_schedule as ms
    >>> from tscript.meta_schedule.candidate import MeasureCandidate
    >>> from tscript.schedule import Schedule
    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def double(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    ...     for i in range(16):
    ...         with T.block("B"):
    ...             vi = T.axis.spatial(16, i)
    ...             B[vi] = A[vi] * 2.0
    >>> [rows] = PerStoreFeature().extract_from(ms.TuneContext(double), [MeasureCandidate(Schedule(double), [])])
    >>> rows.shape, round(float(rows[0, 2]), 2)
    ((1, 164), 4.09)
    """

    buffers_per_store: int = 5
    arith_intensity_curve_num_samples: int = 10
    cache_line_bytes: int = 64
    extract_workload: bool = False

    @property
    def length(self) -> int:
        """Numbers in a row."""
        numbers = COMPUTATION + NUMBERS_PER_BUFFER * self.buffers_per_store + self.arith_intensity_curve_num_samples
        return numbers + ALLOCATION + NEST + (len(_WORKLOADS) if self.extract_workload else 0)

    def extract_from(self, context: TuneContext, candidates: list[Any]) -> list[NDArray[np.float64]]:
        """For each candidate an array of shape (rows, `length`)."""
        gpu = context.target is not None and "gpu" in context.target.keys
        flags = workload_flags(context.mod) if self.extract_workload else []
        return [self.rows_of(c.sch.mod, gpu, flags) for c in candidates]

    def rows_of(self, mod: IRModule, is_gpu: bool = False, more: list[float] | None = None) -> NDArray[np.float64]:
        """The rows of a program, each with the numbers `more` at its end."""
        rows: list[list[float]] = []
        for func in mod.functions.values():
            rows += self._of_function(func, is_gpu)
        ends = more or []
        return np.array([[*row, *ends] for row in rows], dtype="float64").reshape(len(rows), self.length)

    def _of_function(self, func: PrimFunc, is_gpu: bool) -> list[list[float]]:
        touches: Touches = {}
        rows: dict[Memory, list[float]] = {}
        for store in stores_of(func):
            if product(store.loops) == 0:
                rows.setdefault(store.accesses[0].memory, [0.0] * (self.length - self._flags))
            else:
                rows[store.accesses[0].memory] = self._row(store, is_gpu, touches)
        return list(rows.values())

    @property
    def _flags(self) -> int:
        return len(_WORKLOADS) if self.extract_workload else 0

    def _row(self, store: Store, is_gpu: bool, touches: Touches) -> list[float]:
        row, float_ops = computation(store, is_gpu)
        uses, touched = buffer_uses(store, touches, self.cache_line_bytes)
        for use in uses[: self.buffers_per_store]:
            row += use.features(len(store.loops))
        row += [0.0] * (NUMBERS_PER_BUFFER * max(self.buffers_per_store - len(uses), 0))
        row += self._curve(store.loops, touched, float_ops)
        target = store.accesses[0].memory
        times, around = product(store.loops), product(target.around)
        elements = int(np.prod(target.shape, dtype="int64"))
        row += map(scaled, (elements * target.item_bytes, elements * around, around, times / max(around, 1)))
        unroll = next((v.auto_unroll for v in reversed(store.loops) if v.auto_unroll is not None), 0)
        row += map(scaled, (times, len(store.loops), unroll))
        return row

    def _curve(self, loops: tuple[Loop, ...], touched: list[int], float_ops: float) -> list[float]:
        """Operations per byte, after ever larger parts of the operations."""
        samples = self.arith_intensity_curve_num_samples
        if not loops or float_ops <= 0:
            return [0.0] * samples
        done: list[float] = []
        intensity: list[float] = []
        so_far = float_ops / product(loops)
        for loop, data in zip(reversed(loops), reversed(touched), strict=True):
            so_far *= loop.times
            done.append(so_far)
            intensity.append(so_far / max(data, 1))
        points = [done[-1] * (k + 1) / samples for k in range(samples)]
        return [scaled(float(x)) for x in np.interp(points, done, intensity)]


def workload_flags(mod: IRModule | None) -> list[float]:
    """Which of 8 kinds of workload a program is, by the names of its blocks."""
    names: list[str] = []

    def look(node: object) -> None:
        if isinstance(node, Block):
            names.append(node.name_hint.lower())

    for func in () if mod is None else mod.functions.values():
        post_order_visit(func.body, look)
    flags = [0.0] * len(_WORKLOADS)
    for k, words in enumerate(_WORKLOADS):
        if any(w in name for name in names for w in words):
            flags[k] = 1.0
            break
    return flags
