"""After a search: the best schedule's choices, changed one at a time, as long as that helps."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any, cast

from tscript.meta_schedule.arg_info import ArgInfo
from tscript.meta_schedule.builder.builder import Builder, BuilderInput
from tscript.meta_schedule.database.database import Database
from tscript.meta_schedule.database.record import TuningRecord
from tscript.meta_schedule.measure_callback.remove_build_artifact import RemoveBuildArtifact
from tscript.meta_schedule.postproc.layout_blocks import layout_functions
from tscript.meta_schedule.runner.runner import Runner, RunnerInput
from tscript.meta_schedule.search_strategy.sampler import finish
from tscript.meta_schedule.space_generator.space_generator import SpaceGenerator
from tscript.meta_schedule.tune_context import TuneContext
from tscript.schedule.schedule import Schedule
from tscript.schedule.trace import Trace

_BATCH = 16


def refine(
    contexts: Sequence[TuneContext], database: Database, builder: Builder, runner: Runner, trials: int = 100
) -> None:
    """Measure neighbours of each task's best record, at most `trials`, and go on from one that is faster.

    A neighbour differs in one choice: a prime factor moved from one tile to another, or the next of a list of options.
    All are committed to the database; a table of what was gained is logged.
    """
    rows = ["id | time MS (s) | time DPMS (s) | speedup"]
    for i, context in enumerate(contexts):
        assert context.mod is not None
        found = database.get_top_k(database.commit_workload(context.mod), 1, context.target)
        if not found:
            continue
        before = found[0]
        after = _descend(context, before, database, builder, runner, trials)
        speedup = before.mean_secs / after.mean_secs
        rows.append(f"{i:2} | {before.mean_secs:.6e} | {after.mean_secs:.6e} | {speedup:.3f}")
    logging.getLogger("tscript.meta_schedule").info("\n%s", "\n".join(rows))


def _descend(
    context: TuneContext, best: TuningRecord, database: Database, builder: Builder, runner: Runner, trials: int
) -> TuningRecord:
    seen = {_choices(best.trace)}
    while trials > 0:
        batch: list[Schedule] = []
        for trace in neighbours(best.trace):
            if len(batch) == min(_BATCH, trials):
                break
            if _choices(trace) in seen:
                continue
            seen.add(_choices(trace))
            space = context.space_generator
            postprocs = space.postprocs if isinstance(space, SpaceGenerator) else []
            assert context.mod is not None
            made = finish(context.mod, trace, postprocs, 1, is_fresh=False)
            if isinstance(made, Schedule):
                batch.append(made)
        if not batch:
            break
        trials -= len(batch)
        for record in _measured(context, batch, best, builder, runner):
            database.commit_tuning_record(record)
            if record.is_valid and record.mean_secs < best.mean_secs:
                best = record
    return best


def _measured(
    context: TuneContext, batch: list[Schedule], best: TuningRecord, builder: Builder, runner: Runner
) -> list[TuningRecord]:
    assert context.target is not None
    assert context.mod is not None
    target, args = context.target, ArgInfo.from_entry_func(context.mod)
    built = builder.build([BuilderInput(s.mod, target) for s in batch])
    inputs = [
        RunnerInput(b.artifact_path, target.kind.name, args, context.mod, layout_functions(s.mod))
        for b, s in zip(built, batch, strict=True)
        if b.artifact_path is not None
    ]
    futures = iter(runner.run(inputs))
    records: list[TuningRecord] = []
    for sch, b in zip(batch, built, strict=True):
        ran = next(futures).result() if b.artifact_path is not None else None
        error = b.error_msg or (ran.error_msg if ran is not None else None) or ""
        run_secs = ran.run_secs if ran is not None and ran.run_secs and not error else [1e10]
        assert sch.trace is not None
        records.append(TuningRecord(sch.trace, best.workload, run_secs, target, args, error=error))
    RemoveBuildArtifact.remove(built)
    return records


def _choices(trace: Trace) -> str:
    return str([trace.decisions[i] for i in trace.insts if i in trace.decisions])


def neighbours(trace: Trace) -> Iterator[Trace]:
    """Traces that differ in one choice."""
    for inst, decision in trace.decisions.items():
        for other in _other(decision):
            yield trace.with_decision(inst, other, remove_postproc=True)


def _other(decision: Any) -> Iterator[Any]:
    if isinstance(decision, int):
        yield from (n for n in (decision - 1, decision + 1) if n >= 0)
    elif isinstance(decision, (list, tuple)):
        tiles = [int(n) for n in cast("Sequence[Any]", decision)]
        for i, n in enumerate(tiles):
            prime = next((p for p in range(2, n + 1) if n % p == 0), 0)
            for j in range(len(tiles)):
                if prime and j != i:
                    moved = list(tiles)
                    moved[i] //= prime
                    moved[j] *= prime
                    yield moved


__all__ = ["neighbours", "refine"]
