"""The cost model learns from what was measured."""

from __future__ import annotations

from tscript.meta_schedule.builder.builder import BuilderResult
from tscript.meta_schedule.candidate import MeasureCandidate
from tscript.meta_schedule.measure_callback.measure_callback import MeasureCallback, Tuning
from tscript.meta_schedule.runner.runner import RunnerResult


class UpdateCostModel(MeasureCallback):
    """Gives the cost model the candidates that were built and either failed or took some time."""

    def apply(
        self,
        task_scheduler: Tuning,
        task_id: int,
        measure_candidates: list[MeasureCandidate],
        builder_results: list[BuilderResult],
        runner_results: list[RunnerResult],
    ) -> None:
        """Let the model learn the batch."""
        model = task_scheduler.cost_model
        if model is None:
            return
        learnt = [
            (c, r)
            for c, b, r in zip(measure_candidates, builder_results, runner_results, strict=True)
            if b.error_msg is None and (r.error_msg is not None or all(s > 0 for s in r.run_secs or ()))
        ]
        if learnt:
            context = task_scheduler.contexts[task_id]
            model.update(context, [c for c, _ in learnt], [r for _, r in learnt])
