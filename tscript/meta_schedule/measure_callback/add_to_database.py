"""Measured candidates become records."""

from __future__ import annotations

import time

from tscript.meta_schedule.builder.builder import BuilderResult
from tscript.meta_schedule.candidate import MeasureCandidate
from tscript.meta_schedule.database.record import FAILED, TuningRecord
from tscript.meta_schedule.measure_callback.measure_callback import MeasureCallback, Tuning
from tscript.meta_schedule.runner.runner import RunnerResult


class AddToDatabase(MeasureCallback):
    """Commits every candidate to the database; one that failed with 1e10 seconds and the reason."""

    def apply(
        self,
        task_scheduler: Tuning,
        task_id: int,
        measure_candidates: list[MeasureCandidate],
        builder_results: list[BuilderResult],
        runner_results: list[RunnerResult],
    ) -> None:
        """Commit the batch."""
        database = task_scheduler.database
        context = task_scheduler.contexts[task_id]
        if database is None or context.mod is None:
            return
        workload = database.commit_workload(context.mod)
        now = round(time.time(), 3)
        for candidate, built, ran in zip(measure_candidates, builder_results, runner_results, strict=True):
            error = built.error_msg or ran.error_msg or ""
            run_secs = [FAILED] if error or not ran.run_secs else ran.run_secs
            trace = candidate.sch.trace
            if trace is not None:
                database.commit_tuning_record(
                    TuningRecord(
                        trace,
                        workload,
                        run_secs,
                        context.target,
                        candidate.args_info,
                        error=error,
                        program=candidate.program,
                        when=now,
                    )
                )
