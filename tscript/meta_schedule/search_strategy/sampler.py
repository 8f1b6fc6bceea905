"""From a trace to a finished schedule, many at once: the work that a search spends its time on.

Each attempt has a seed of its own, so that what comes of it does not depend on which process does it, or when.
"""

from __future__ import annotations

import itertools
import multiprocessing
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tscript.ir.function import IRModule
from tscript.meta_schedule.cost_model.cost_model import Extraction
from tscript.meta_schedule.mutator.mutator import Mutator
from tscript.meta_schedule.postproc.postproc import Postproc
from tscript.schedule.schedule import Schedule
from tscript.schedule.trace import Trace


@dataclass(frozen=True)
class Attempt:
    """A trace to be finished: with new samples (`is_fresh`), changed by a mutator (its number), or as it is."""

    trace: Trace
    seed: int
    is_fresh: bool = False
    mutator: int | None = None


@dataclass
class Outcome:
    """What became of an attempt: the whole trace and the hash of its program, or the reason why there is none."""

    trace: Trace | None
    shash: int = 0
    reason: str = ""
    features: dict[Hashable, NDArray[np.float64]] = field(default_factory=dict[Hashable, NDArray[np.float64]])


@dataclass
class _Task:
    mod: IRModule
    postprocs: Sequence[Postproc]
    mutators: Sequence[Mutator]
    hash_of: Callable[[IRModule], int]
    extract: Extraction | None


# Workers are forked, and find what they work on here: rules of users need not be picklable.
_tasks: dict[int, _Task] = {}
_tokens = itertools.count()


def finish(mod: IRModule, trace: Trace, postprocs: Sequence[Postproc], seed: int, is_fresh: bool) -> Schedule | str:
    """The schedule that a trace and the postprocessors make, or the reason why they make none.

    `is_fresh` leaves the decisions of the trace aside and samples anew.
    """
    sch = Schedule(mod, seed=seed, error_render_level="none")
    plan = Trace(trace.insts) if is_fresh else trace
    try:
        plan.apply_to_schedule(sch, remove_postproc=True)
        sch.enter_postproc()
        for p in postprocs:
            if not p.apply(sch):
                return f"{type(p).__name__} rejected it"
    except Exception as e:  # whatever goes wrong costs this candidate only
        first = str(e).strip().splitlines()
        return f"{type(e).__name__}: {first[0] if first else 'no message'}"
    return sch


def _attempt(task: _Task, attempt: Attempt) -> Outcome:
    trace = attempt.trace
    if attempt.mutator is not None:
        changed = task.mutators[attempt.mutator].apply(trace, attempt.seed)
        if changed is None:
            return Outcome(None, reason=f"{type(task.mutators[attempt.mutator]).__name__} found nothing to change")
        trace = changed
    made = finish(task.mod, trace, task.postprocs, attempt.seed, attempt.is_fresh)
    if isinstance(made, str):
        return Outcome(None, reason=made)
    assert made.trace is not None
    outcome = Outcome(made.trace, task.hash_of(made.mod))
    if task.extract is not None:
        key, features = task.extract(made)
        outcome.features[key] = features
    return outcome


def _attempts_of(token: int, packed: list[tuple[Any, int, bool, int | None]]) -> list[Any]:
    """What a worker does: its part of the attempts, as plain values both ways."""
    task = _tasks[token]
    results: list[Any] = []
    for trace, seed, is_fresh, mutator in packed:
        o = _attempt(task, Attempt(Trace.from_json(trace), seed, is_fresh, mutator))
        results.append((None if o.trace is None else o.trace.as_json(), o.shash, o.reason, o.features))
    return results


class Sampler:
    """Finishes traces of one program, in this process or in several."""

    def __init__(
        self,
        mod: IRModule,
        postprocs: Sequence[Postproc],
        mutators: Sequence[Mutator],
        hash_of: Callable[[IRModule], int],
        *,
        extract: Extraction | None = None,
        processes: int = 1,
    ) -> None:
        self._task = _Task(mod, postprocs, mutators, hash_of, extract)
        self._token = next(_tokens)
        self._processes = processes if sys.platform == "linux" else 1
        self._pool: ProcessPoolExecutor | None = None
        self.failures: Counter[str] = Counter()
        _tasks[self._token] = self._task

    def run(self, attempts: Sequence[Attempt]) -> list[Outcome]:
        """One outcome for each attempt, in order. Reasons of failures are counted in `failures`."""
        # A process is worth its while only for many attempts.
        parts = min(self._processes, len(attempts) // 8)
        if parts <= 1:
            outcomes = [_attempt(self._task, a) for a in attempts]
        else:
            outcomes = self._in_processes(attempts, parts)
        self.failures.update(o.reason for o in outcomes if o.trace is None)
        return outcomes

    def _in_processes(self, attempts: Sequence[Attempt], parts: int) -> list[Outcome]:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self._processes, multiprocessing.get_context("fork"))
        forms: dict[int, Any] = {}
        packed: list[tuple[Any, int, bool, int | None]] = []
        for a in attempts:
            form = forms.get(id(a.trace))
            if form is None:
                form = forms[id(a.trace)] = a.trace.as_json(remove_postproc=True)
            packed.append((form, a.seed, a.is_fresh, a.mutator))
        # Small parts even out attempts that fail early; their results come back in order.
        size = max(4, len(packed) // (4 * parts))
        chunks = [packed[i : i + size] for i in range(0, len(packed), size)]
        results = self._pool.map(_attempts_of, [self._token] * len(chunks), chunks)
        return [
            Outcome(None if trace is None else Trace.from_json(trace), shash, reason, features)
            for chunk in results
            for trace, shash, reason, features in chunk
        ]

    def schedule(self, trace: Trace) -> Schedule:
        """The schedule of a whole trace that was finished before."""
        sch = Schedule(self._task.mod)
        trace.apply_to_schedule(sch, remove_postproc=False)
        return sch

    def close(self) -> None:
        """Let the processes go."""
        _tasks.pop(self._token, None)
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
