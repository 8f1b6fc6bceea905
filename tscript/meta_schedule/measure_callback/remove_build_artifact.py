"""Built code is deleted once it is measured."""

from __future__ import annotations

import shutil
from pathlib import Path

from tscript.meta_schedule.builder.builder import BuilderResult
from tscript.meta_schedule.candidate import MeasureCandidate
from tscript.meta_schedule.measure_callback.measure_callback import MeasureCallback, Tuning
from tscript.meta_schedule.runner.runner import RunnerResult


class RemoveBuildArtifact(MeasureCallback):
    """Deletes the folder that each artifact lies in."""

    def apply(
        self,
        task_scheduler: Tuning,
        task_id: int,
        measure_candidates: list[MeasureCandidate],
        builder_results: list[BuilderResult],
        runner_results: list[RunnerResult],
    ) -> None:
        """Delete what the batch left."""
        self.remove(builder_results)

    @staticmethod
    def remove(builder_results: list[BuilderResult]) -> None:
        """Delete the folders of artifacts."""
        for built in builder_results:
            if built.artifact_path is not None:
                shutil.rmtree(Path(built.artifact_path).parent, ignore_errors=True)
