"""What a run leaves in its folder besides records, so that the next one goes on: random numbers and the cost model."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from tscript.ir.hashing import structural_hash
from tscript.meta_schedule.builder.builder import BuilderResult
from tscript.meta_schedule.candidate import MeasureCandidate
from tscript.meta_schedule.cost_model.cost_model import CostModel
from tscript.meta_schedule.measure_callback.measure_callback import MeasureCallback, Tuning
from tscript.meta_schedule.runner.runner import RunnerResult
from tscript.meta_schedule.tune_context import TuneContext

FILE = "tuning_state.json"


class RunState(MeasureCallback):
    """Saves, after each batch, the random state of every task, and the cost model if it is the run's own.

    `begin` and `resume` bring them back: a task that starts from the same seed goes on with the numbers where the
    earlier run stopped, instead of drawing the same samples again. Files are replaced as a whole, so a run that is
    killed leaves the state after its last batch. What cannot be read is left aside with a warning: the search then
    starts anew.
    """

    def __init__(self, work_dir: str | Path, model: CostModel | None, model_word: str) -> None:
        self.folder = Path(work_dir)
        self._model = model
        self._model_path = self.folder / f"cost_model.{model_word}"
        self._contexts: list[TuneContext] = []
        self._seeds: dict[str, int] = {}
        self._states: dict[str, Any] = {}

    def begin(self, contexts: Sequence[TuneContext]) -> None:
        """Note the seeds, and take over the cost model that an earlier run left."""
        self._states = self._read()
        self._contexts = list(contexts)
        self._seeds = {_key(c): c.rand_state for c in contexts}
        if self._model is not None and self._model_path.exists():
            try:
                self._model.load(str(self._model_path))
            except Exception as e:
                _log().warning("%s cannot be read, the cost model learns anew: %s", self._model_path, e)

    def resume(self) -> None:
        """Take over the random numbers of an earlier run, once the spaces are generated (which takes some)."""
        for context in self._contexts:
            key = _key(context)
            saved = self._states.get(key)
            if isinstance(saved, dict):
                values = cast("dict[str, Any]", saved)
                if values.get("seed") == self._seeds[key] and type(values.get("state")) is int:
                    context.rng.seed(values["state"])

    def apply(
        self,
        task_scheduler: Tuning,
        task_id: int,
        measure_candidates: list[MeasureCandidate],
        builder_results: list[BuilderResult],
        runner_results: list[RunnerResult],
    ) -> None:
        """Save the state after a batch."""
        context = task_scheduler.contexts[task_id]
        key = _key(context)
        self._states[key] = {"seed": self._seeds.get(key, -1), "state": context.rand_state}
        if self._model is not None and measure_candidates:
            part = self._model_path.with_suffix(self._model_path.suffix + ".part")
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                with _quiet():  # the name of the part would only puzzle readers of the log
                    self._model.save(str(part))
                os.replace(part, self._model_path)
            except Exception as e:  # a model that cannot be saved is no reason to stop measuring
                _log().warning("the cost model could not be saved to %s: %s", self._model_path, e)
        part = self.folder / f"{FILE}.part"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            part.write_text(json.dumps(self._states), encoding="utf-8")
            os.replace(part, self.folder / FILE)
        except OSError as e:
            _log().warning("%s could not be saved, a later run would draw the same samples: %s", self.folder / FILE, e)

    def _read(self) -> dict[str, Any]:
        path = self.folder / FILE
        if not path.exists():
            return {}
        try:
            found: Any = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as e:
            _log().warning("%s cannot be read, the search starts anew: %s", path, e)
            return {}
        return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _key(context: TuneContext) -> str:
    """A task by its program, target and name."""
    program = 0 if context.mod is None else structural_hash(next(iter(context.mod.functions.values())))
    return f"{context.task_name}|{program}|{context.target}"


@contextmanager
def _quiet() -> Generator[None, None, None]:
    logger = _log()
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)


def _log() -> logging.Logger:
    return logging.getLogger("tscript.meta_schedule")
