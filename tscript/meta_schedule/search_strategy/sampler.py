"""From a trace to a finished schedule, many at once: the work that a search spends its time on.

Each attempt has a seed of its own, so that what comes of it does not depend on which process does it, or when.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tscript.ir.function import IRModule
from tscript.meta_schedule.cost_model.cost_model import Extraction
from tscript.meta_schedule.mutator.mutator import Mutator
from tscript.meta_schedule.mutator.traced_samples import before_postproc
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
    known: dict[str, Outcome] = field(default_factory=dict[str, "Outcome"])


_CHUNK_SEC = 120.0
"""How long a process may take for its part of the attempts, before it counts as hanging."""
_MOST_KNOWN = 500
"""Outcomes that a process keeps, in case that other attempts come to the same choices."""
_POOL_ATTEMPTS = 4000
"""Attempts after which the processes are replaced, so that memory which rules leak is bounded."""

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
        return reason_of(e)
    return sch


def reason_of(e: Exception) -> str:
    """An exception in one line."""
    first = str(e).strip().splitlines()
    return f"{type(e).__name__}: {first[0] if first else 'no message'}"


def _attempt(task: _Task, attempt: Attempt) -> Outcome:
    trace = attempt.trace
    if attempt.mutator is not None:
        changed = task.mutators[attempt.mutator].apply(trace, attempt.seed)
        if changed is None:
            return Outcome(None, reason=f"{type(task.mutators[attempt.mutator]).__name__} found nothing to change")
        trace = changed
    if attempt.is_fresh:
        return _finished(task, trace, attempt)
    # Small changes often lead to the same choices again; without a sample to draw, what becomes of them is the same.
    choices = _choices(trace)
    if choices is None:
        return _finished(task, trace, attempt)
    outcome = task.known.get(choices)
    if outcome is None:
        if len(task.known) >= _MOST_KNOWN:
            task.known.clear()
        outcome = task.known[choices] = _finished(task, trace, attempt)
    return outcome


def _choices(trace: Trace) -> str | None:
    """A text that stands for a trace without its postprocessing part; None if samples are still to be drawn."""
    for inst in before_postproc(trace):
        if inst.kind.name.startswith("Sample") and trace.decisions.get(inst) is None:
            return None
    return json.dumps(trace.as_json(remove_postproc=True))


def _finished(task: _Task, trace: Trace, attempt: Attempt) -> Outcome:
    made = finish(task.mod, trace, task.postprocs, attempt.seed, attempt.is_fresh)
    if isinstance(made, str):
        return Outcome(None, reason=made)
    assert made.trace is not None
    outcome = Outcome(made.trace, task.hash_of(made.mod))
    if task.extract is not None:
        key, features = task.extract(made)
        outcome.features[key] = features
    return outcome


_Packed = tuple[Any, int, bool, int | None]


def _attempts_of(token: int, packed: list[_Packed]) -> list[Any]:
    """What a worker does: its part of the attempts, as plain values both ways."""
    task = _tasks[token]
    results: list[Any] = []
    for trace, seed, is_fresh, mutator in packed:
        o = _attempt(task, Attempt(Trace.from_json(trace), seed, is_fresh, mutator))
        results.append((None if o.trace is None else o.trace.as_json(), o.shash, o.reason, o.features))
    return results


class Sampler:
    """Finishes traces of one program, in this process or in several.

    An attempt that raises, takes its process down or never ends costs itself (the latter two also those handed to the
    same process with it), and its reason is counted.
    """

    def __init__(
        self,
        mod: IRModule,
        postprocs: Sequence[Postproc],
        mutators: Sequence[Mutator],
        hash_of: Callable[[IRModule], int],
        *,
        extract: Extraction | None = None,
        processes: int = 1,
        chunk_sec: float = _CHUNK_SEC,
    ) -> None:
        self._task = _Task(mod, postprocs, mutators, hash_of, extract)
        self._token = next(_tokens)
        self._processes = processes if sys.platform == "linux" else 1
        self._chunk_sec = chunk_sec
        self._pool: ProcessPoolExecutor | None = None
        self._pool_attempts = 0
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
        forms: dict[int, Any] = {}
        packed: list[_Packed] = []
        for a in attempts:
            form = forms.get(id(a.trace))
            if form is None:
                form = forms[id(a.trace)] = a.trace.as_json(remove_postproc=True)
            packed.append((form, a.seed, a.is_fresh, a.mutator))
        # Small parts even out attempts that fail early; their results come back in order.
        size = max(4, len(packed) // (4 * parts))
        chunks = [packed[i : i + size] for i in range(0, len(packed), size)]
        self._pool_attempts += len(packed)
        if self._pool_attempts > _POOL_ATTEMPTS:
            self._end_pool()
            self._pool_attempts = len(packed)
        results = self._answers(chunks)
        # A process that dies fails all that wait for the pool; each part gets a second chance, alone.
        for k, chunk in enumerate(chunks):
            if results[k] is None:
                (results[k],) = self._answers([chunk])
        return [o for k, chunk in enumerate(chunks) for o in _unpacked(results[k], len(chunk))]

    def _answers(self, chunks: Sequence[list[_Packed]]) -> list[list[Any] | None]:
        """What the processes make of each part; None for one that got no answer."""
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                self._processes,
                multiprocessing.get_context("fork"),
                initializer=gc.freeze,  # what was there before the fork is not looked through again and again
            )
        futures: list[Future[list[Any]]] = [self._pool.submit(_attempts_of, self._token, chunk) for chunk in chunks]
        answers: list[list[Any] | None] = []
        deadline = time.monotonic() + self._chunk_sec
        for future in futures:
            try:
                answers.append(future.result(max(0.0, deadline - time.monotonic())))
                deadline = time.monotonic() + self._chunk_sec
            except (BrokenProcessPool, CancelledError, FutureTimeout):
                answers.append(None)
                self._end_pool()
        return answers

    def schedule(self, trace: Trace) -> Schedule:
        """The schedule of a whole trace that was finished before."""
        sch = Schedule(self._task.mod)
        trace.apply_to_schedule(sch, remove_postproc=False)
        return sch

    def _end_pool(self) -> None:
        if self._pool is not None:
            processes: Any = getattr(self._pool, "_processes", None) or {}
            self._pool.shutdown(wait=False, cancel_futures=True)
            for process in list(processes.values()):
                with contextlib.suppress(OSError, ValueError):
                    process.kill()
            self._pool = None

    def close(self) -> None:
        """Let the processes go."""
        _tasks.pop(self._token, None)
        self._end_pool()


def _unpacked(results: list[Any] | None, count: int) -> list[Outcome]:
    if results is None:
        return [Outcome(None, reason="the process that tried it died or did not answer") for _ in range(count)]
    return [
        Outcome(None if trace is None else Trace.from_json(trace), shash, reason, features)
        for trace, shash, reason, features in results
    ]
