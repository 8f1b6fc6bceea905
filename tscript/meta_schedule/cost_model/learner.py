"""What models that learn from features share: where features come from, what is kept, and when it is time to learn."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from typing import Any

import numpy as np

from tscript.ir.hashing import structural_hash
from tscript.meta_schedule.cost_model.cost_model import CostModel, Extraction
from tscript.meta_schedule.cost_model.samples import FAILED, Floats, Samples, average_peak_score, p_rmse
from tscript.meta_schedule.feature_extractor import FeatureExtractor, PerStoreFeature
from tscript.meta_schedule.feature_extractor.per_store_feature import workload_flags
from tscript.meta_schedule.runner.runner import RunnerResult
from tscript.meta_schedule.tune_context import TuneContext
from tscript.schedule.schedule import Schedule


class Learner(CostModel):
    """Keeps what was measured and scores by what it learnt from it; at random before `num_warmup_samples`."""

    def __init__(self, extractor: FeatureExtractor | str, num_warmup_samples: int, seed: int) -> None:
        self.extractor: FeatureExtractor = FeatureExtractor.create(extractor)
        self.num_warmup_samples = num_warmup_samples
        self.data = Samples()
        self._random = np.random.RandomState(seed)

    @property
    @abstractmethod
    def _has_model(self) -> bool:
        """Whether something was learnt."""

    @abstractmethod
    def _score(self, features: list[Floats]) -> Floats:
        """The scores of candidates with at least one row each."""

    @abstractmethod
    def _learn(self, new: int, context: TuneContext) -> None:
        """Learn from all data, of which `new` candidates were added just now."""

    @property
    def is_trained(self) -> bool:
        """Whether there are enough samples, and a model of them."""
        return self._has_model and self.data.count >= self.num_warmup_samples

    def extraction(self, context: TuneContext) -> Extraction | None:
        """Features of a schedule, where they come from its program alone."""
        extractor = self.extractor
        if type(extractor) is not PerStoreFeature:
            return None
        key = _key(extractor)
        gpu = context.target is not None and "gpu" in context.target.keys
        flags = workload_flags(context.mod) if extractor.extract_workload else []

        def extract(sch: Schedule) -> tuple[Hashable, Floats]:
            return key, extractor.rows_of(sch.mod, gpu, flags)

        return extract

    def _features(self, context: TuneContext, candidates: list[Any]) -> list[Floats]:
        """Features of each candidate, which it keeps from then on."""
        key = _key(self.extractor)
        todo = [c for c in candidates if key not in c.features]
        if todo:
            for c, found in zip(todo, self.extractor.extract_from(context, todo), strict=True):
                c.features[key] = np.asarray(found, dtype="float64")
        return [c.features[key] for c in candidates]

    def predict(self, context: TuneContext, candidates: list[Any]) -> Floats:
        """Scores of shape (candidates,): of what was learnt, else random ones from 0 to 1. What stores nothing that
        features tell about scores 0.
        """
        if not self.is_trained:
            return self._random.uniform(0.0, 1.0, len(candidates))
        features = self._features(context, candidates)
        scores = np.zeros(len(candidates))
        known = [i for i, f in enumerate(features) if len(f)]
        if known:
            scores[known] = np.maximum(self._score([features[i] for i in known]), 0.0)
        return scores

    def update(self, context: TuneContext, candidates: list[Any], results: list[RunnerResult]) -> None:
        """Keep what was measured (the median of each, 1e10 seconds for a failure), and learn when it is time."""
        features = self._features(context, candidates)
        costs = [float(np.median(r.run_secs)) if r.run_secs else FAILED for r in results]
        used = [i for i, f in enumerate(features) if len(f)]
        if not used:
            return
        key = _group_key(context)
        kept = [features[i] for i in used]
        kept_costs = [costs[i] for i in used]
        if key in self.data and self._has_model:
            best = min(*self.data[key].costs, *kept_costs)
            self._report(context, self._score(kept), best / np.array(kept_costs))
        self.data.add(key, kept, kept_costs)
        self._learn(len(used), context)

    def _report(self, context: TuneContext, scores: Floats, labels: Floats) -> None:
        context.logger.debug(
            "XGB validation: p-rmse: %.6f\ta-peak@32: %.6f", p_rmse(scores, labels),
            average_peak_score(scores, labels, 32),
        )  # fmt: skip


def _key(extractor: FeatureExtractor) -> Hashable:
    """Under what a candidate keeps the features of an extractor."""
    return repr(extractor) if type(extractor) is PerStoreFeature else id(extractor)


def _group_key(context: TuneContext) -> str:
    if context.mod is None:
        raise ValueError("a cost model learns about a program; this context has no `mod`")
    return f"{structural_hash(context.mod) & (2**64 - 1):016x}"
