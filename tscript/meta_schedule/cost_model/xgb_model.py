"""Guesses by trees (XGBoost), trained on the features of what was measured."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import psutil

from tscript.meta_schedule.cost_model.learner import Learner
from tscript.meta_schedule.cost_model.samples import (
    Floats,
    Samples,
    average_peak_score,
    p_rmse,
    read_tar,
    write_tar,
)  # fmt: skip
from tscript.meta_schedule.feature_extractor import FeatureExtractor
from tscript.meta_schedule.tune_context import TuneContext

_GRID = 2.0**20
_MAX_ROUNDS = 300
_SMALL = 1 << 20
"""Numbers up to which more threads wait for each other for longer than they work."""


@dataclass(frozen=True)
class XGBConfig:
    """Settings of XGBoost; `nthread` None takes as many threads as the model is told, else one per physical core."""

    max_depth: int = 10
    gamma: float = 0.001
    min_child_weight: float = 0
    eta: float = 0.2
    seed: int = 43
    nthread: int | None = None
    tree_method: str = "auto"


class XGBModel(Learner):
    """Scores a candidate by the sum of what trees say about its stores.

    The score to learn is the least time of the workload divided by the candidate's. Candidates count by it too: being
    right about fast ones matters most. Before `num_warmup_samples` measurements, scores are random. Training stops
    after `early_stopping_rounds` rounds that make nothing better and after 300 at most, as later ones fit only the
    noise of measurements; with `adaptive_training` it waits until there are a fifth more samples. Little data is
    learnt by one thread unless the config says otherwise: on busy cores, several wait for each other. The same data and
    seed give the same scores with any number of threads. Raises ImportError without xgboost.

    The warm-up is shorter than elsewhere (16 candidates; TVM has 100), as many runs measure 64 in all.

    >>> model = XGBModel(num_warmup_samples=8)
    >>> model.is_trained
    False
    """

    def __init__(
        self,
        *,
        extractor: FeatureExtractor | str = "per-store-feature",
        config: XGBConfig | None = None,
        num_warmup_samples: int = 16,
        early_stopping_rounds: int = 50,
        verbose_eval: int = 25,
        average_peak_n: int = 32,
        adaptive_training: bool = True,
        num_tuning_cores: int | None = None,
        tree_method: str | None = None,
    ) -> None:
        self.config = XGBConfig() if config is None else config
        super().__init__(extractor, num_warmup_samples, self.config.seed)
        self._xgb = load_xgboost()
        self.early_stopping_rounds = early_stopping_rounds
        self.verbose_eval = verbose_eval
        self.average_peak_n = average_peak_n
        self.adaptive_training = adaptive_training
        self._threads = self.config.nthread or num_tuning_cores or psutil.cpu_count(logical=False) or 1
        self._settings = {**asdict(self.config), "base_score": 0.0, "verbosity": 0}
        if tree_method is not None:
            self._settings["tree_method"] = tree_method
        self._booster: Any = None
        self._rounds = 0
        self._last_size = 0
        self._new = 0

    # -- files ------------------------------------------------------------------------------------

    def save(self, path: str) -> None:
        """Write the trees and all samples to a tar: `model.bin`, `data.npz` and `state.json`, plain numbers all."""
        state = {"rounds": self._rounds, "last_size": self._last_size, "new": self._new}
        parts = {"data.npz": self.data.to_bytes(), "state.json": json.dumps(state).encode()}
        if self._booster is not None:
            parts["model.bin"] = bytes(self._booster.save_raw("ubj"))
        write_tar(path, parts)
        logging.getLogger("tscript.meta_schedule").info("Saved XGBModel to %s", path)

    def load(self, path: str) -> None:
        """Go on from what was saved; ValueError, leaving the model as it was, for a damaged file."""
        read_tar(path, "XGBModel", self._take)
        logging.getLogger("tscript.meta_schedule").info("Loaded XGBModel from %s", path)

    def _take(self, parts: dict[str, bytes]) -> None:
        data = Samples.from_bytes(parts["data.npz"])
        state: dict[str, int] = json.loads(parts.get("state.json", b"{}"))
        booster: Any = None
        if "model.bin" in parts:
            booster = self._xgb.Booster({"nthread": self._threads})
            booster.load_model(bytearray(parts["model.bin"]))
        self.data, self._booster = data, booster
        self._rounds = int(state.get("rounds", 0))
        self._last_size, self._new = int(state.get("last_size", 0)), int(state.get("new", 0))

    # -- learning ---------------------------------------------------------------------------------

    @property
    def _has_model(self) -> bool:
        return self._booster is not None

    def _score(self, features: list[Floats]) -> Floats:
        rows, owner = _stacked(features)
        threads = self._threads_for(rows)
        self._booster.set_param({"nthread": threads})
        matrix = self._xgb.DMatrix(rows, nthread=threads)
        found = self._booster.predict(matrix, output_margin=True, iteration_range=(0, self._rounds))
        return np.bincount(owner, found, len(features)).astype("float64")

    def _threads_for(self, rows: Floats) -> int:
        return self._threads if rows.size > _SMALL or self.config.nthread else 1

    def _learn(self, new: int, context: TuneContext) -> None:
        self._new += new
        if self.adaptive_training and self._booster is not None and self._new < self._last_size / 5:
            return
        self._last_size, self._new = self.data.count, 0
        features, labels = self.data.packed()
        rows, owner = _stacked(features)
        threads = self._threads_for(rows)
        matrix = self._xgb.DMatrix(rows, label=labels[owner], nthread=threads)
        rounds = _Rounds(self, context.logger, owner, labels)
        callback: Any = type("Watch", (self._xgb.callback.TrainingCallback,), {"after_iteration": rounds.after})()
        self._booster = self._xgb.train(
            {**self._settings, "nthread": threads}, matrix, num_boost_round=_MAX_ROUNDS,
            obj=rounds.objective, evals=[(matrix, "tr")], custom_metric=rounds.metric, callbacks=[callback],
            verbose_eval=False,
        )  # fmt: skip
        self._rounds = rounds.best + 1
        context.logger.debug("XGB stopped. Best iteration: %s", rounds.text(rounds.best, rounds.best_scores))


class _Rounds:
    """What is told to XGBoost, and heard from it, in each round of a training."""

    def __init__(self, model: XGBModel, logger: logging.Logger, owner: Any, labels: Floats) -> None:
        self.model = model
        self.logger = logger
        self.owner = owner
        self.labels = labels
        self.scores: Floats = np.zeros(len(labels))
        self.best = 0
        self.best_scores = self.scores
        self.least = np.inf

    def _sums(self, found: Floats) -> Floats:
        return np.bincount(self.owner, found, len(self.labels)).astype("float64")

    def objective(self, found: Floats, _: Any) -> tuple[Floats, Floats]:
        """Gradient and curvature of each row. They are on a grid, so that their sums do not depend on the order."""
        weight = self.labels[self.owner]
        gradient = (self._sums(found) - self.labels)[self.owner] * weight
        return np.round(gradient * _GRID) / _GRID, np.maximum(np.round(weight * _GRID), 1) / _GRID

    def metric(self, found: Floats, _: Any) -> tuple[str, float]:
        """The error after a round."""
        self.scores = self._sums(found)
        return "p-rmse", p_rmse(self.scores, self.labels)

    def after(self, _booster: Any, epoch: int, _log: Any) -> bool:
        """Keep the best round; True stops."""
        error = p_rmse(self.scores, self.labels)
        if error < self.least:
            self.least, self.best, self.best_scores = error, epoch, self.scores
        if self.model.verbose_eval and epoch % self.model.verbose_eval == 0:
            self.logger.debug("XGB iter %3d: %s", epoch, self.text(None, self.scores))
        return epoch - self.best >= self.model.early_stopping_rounds

    def text(self, epoch: int | None, scores: Floats) -> str:
        """Errors as the log shows them."""
        n = self.model.average_peak_n
        peak = average_peak_score(scores, self.labels, n)
        text = f"tr-p-rmse: {p_rmse(scores, self.labels):.6f}\ttr-a-peak@{n}: {peak:.6f}"
        return text if epoch is None else f"[{epoch}]\t{text}"


def _stacked(features: list[Floats]) -> tuple[Floats, Any]:
    """All rows, and whose each is."""
    return np.concatenate(features), np.repeat(np.arange(len(features)), [len(f) for f in features])


def load_xgboost() -> Any:
    """The package, loaded when it is first needed. Raises ImportError with what to do."""
    try:
        import xgboost  # noqa: PLC0415 - heavy, and not everyone has it
    except ImportError as e:
        raise ImportError(
            "the cost model 'xgb' needs the package xgboost (pip install xgboost-cpu); without it, tune with "
            "cost_model='random'"
        ) from e
    return xgboost
