"""Guesses by a small neural network (PyTorch), trained on the features of what was measured."""

from __future__ import annotations

import io
import json
import logging
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tscript.meta_schedule.cost_model.learner import Learner
from tscript.meta_schedule.cost_model.samples import Floats, Samples, average_peak_score, p_rmse, read_tar, write_tar
from tscript.meta_schedule.feature_extractor import FeatureExtractor, PerStoreFeature
from tscript.meta_schedule.tune_context import TuneContext

_EPSILON = 1e-6
"""Deviation under which a feature tells nothing: it is the same for all."""


@dataclass(frozen=True)
class MLPConfig:
    """The network and how it learns. `loss` is "rank" (who of a batch is faster counts) or "regression" (the score)."""

    hidden: int = 256
    residual_layers: int = 2
    loss: Literal["rank", "regression"] = "rank"
    learning_rate: float = 7e-4
    weight_decay: float = 1e-6
    batch_size: int = 128
    clip: float = 0.5
    test_split: float = 0.2
    full_epochs: int = 50
    incremental_epochs: int = 5
    retrain_share: float = 0.2
    seed: int = 43


class MLPModel(Learner):
    """Scores a candidate by a network: each store is encoded, the stores are summed up, and the sum is decoded.

    The score to learn is the least time of the workload divided by the candidate's, in batches of one workload each.
    New samples are learnt in a few epochs; once those that no full training saw are more than `retrain_share` of all,
    the network starts anew on everything. The epoch that does best on the part held back for tests is kept. The same
    data and seed give the same scores. Raises ImportError without PyTorch, ValueError for settings out of range.

    >>> MLPConfig(hidden=32).batch_size
    128
    """

    def __init__(
        self,
        *,
        extractor: FeatureExtractor | None = None,
        config: MLPConfig | None = None,
        num_warmup_samples: int = 16,
    ) -> None:
        self.config = MLPConfig() if config is None else config
        _require(self.config)
        extractor = PerStoreFeature(extract_workload=True) if extractor is None else extractor
        super().__init__(extractor, num_warmup_samples, self.config.seed)
        self._torch = load_torch()
        self._network: Any = None
        self._mean: Floats = np.zeros(0)
        self._deviation: Floats = np.zeros(0)
        self._untrained = 0
        self._trainings = 0

    # -- files ------------------------------------------------------------------------------------

    def save(self, path: str) -> None:
        """Write the weights and all samples to a tar: `model.npz`, `data.npz` and `state.json`, plain numbers all."""
        state = {"untrained": self._untrained, "trainings": self._trainings}
        parts = {"data.npz": self.data.to_bytes(), "state.json": json.dumps(state).encode()}
        if self._network is not None:
            stream = io.BytesIO()
            weights = {f"w.{name}": w.numpy() for name, w in self._network.state_dict().items()}
            np.savez(stream, mean=self._mean, deviation=self._deviation, **weights)
            parts["model.npz"] = stream.getvalue()
        write_tar(path, parts)
        logging.getLogger("tscript.meta_schedule").info("Saved MLPModel to %s", path)

    def load(self, path: str) -> None:
        """Go on from what was saved; ValueError, leaving the model as it was, for a damaged file, or for a network of
        other sizes than the config says.
        """
        read_tar(path, "MLPModel", self._take)
        logging.getLogger("tscript.meta_schedule").info("Loaded MLPModel from %s", path)

    def _take(self, parts: dict[str, bytes]) -> None:
        data = Samples.from_bytes(parts["data.npz"])
        state: dict[str, int] = json.loads(parts["state.json"])
        untrained, trainings = int(state["untrained"]), int(state["trainings"])
        network: Any = None
        mean, deviation = self._mean, self._deviation
        if "model.npz" in parts:
            with np.load(io.BytesIO(parts["model.npz"]), allow_pickle=False) as saved:
                mean, deviation = saved["mean"], saved["deviation"]
                weights = {n[2:]: self._torch.from_numpy(saved[n]) for n in saved.files if n.startswith("w.")}
            network = self._new_network(len(mean))
            try:
                network.load_state_dict(weights)
            except RuntimeError as e:
                raise ValueError(f"its weights do not fit this network: {e}") from e
        self.data, self._network = data, network
        self._mean, self._deviation = mean, deviation
        self._untrained, self._trainings = untrained, trainings

    # -- learning ---------------------------------------------------------------------------------

    @property
    def _has_model(self) -> bool:
        return self._network is not None

    def _new_network(self, width: int) -> Any:
        return _network(self._torch, width, self.config)

    def _score(self, features: list[Floats]) -> Floats:
        with self._torch.no_grad():
            found: Floats = self._network(*self._tensors(features)).numpy().astype("float64")
        # A ranking has no zero of its own, and a score below 0 would not tell one candidate from another.
        return 1 / (1 + np.exp(-np.clip(found, -30.0, 30.0))) if self.config.loss == "rank" else found

    def _tensors(self, features: list[Floats]) -> tuple[Any, Any, int]:
        """Rows on a common scale, whose each is, and how many candidates there are."""
        rows = (np.concatenate(features) - self._mean) / self._deviation
        owner = np.repeat(np.arange(len(features)), [len(f) for f in features])
        return self._torch.from_numpy(rows.astype("float32")), self._torch.from_numpy(owner), len(features)

    def _learn(self, new: int, context: TuneContext) -> None:
        self._untrained += new
        self._trainings += 1
        full = self._network is None or self._untrained > self.config.retrain_share * self.data.count
        with self._torch.random.fork_rng(devices=[]):
            self._torch.manual_seed(self.config.seed + self._trainings)
            if full:
                self._untrained = 0
                rows = np.concatenate(self.data.packed()[0])
                self._mean, deviation = rows.mean(axis=0), rows.std(axis=0)
                self._deviation = np.where(deviation > _EPSILON, deviation, 1.0)
                self._network = self._new_network(rows.shape[1])
            self._train(self.config.full_epochs if full else self.config.incremental_epochs, context)

    def _train(self, epochs: int, context: TuneContext) -> None:
        config = self.config
        random = np.random.RandomState((config.seed + self._trainings) % 2**32)
        learnt, held = self._split(random)
        optimizer = self._torch.optim.Adam(
            self._network.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
        )
        best: tuple[float, dict[str, Any]] | None = None
        for epoch in range(epochs):
            for features, labels in self._batches(learnt, random):
                optimizer.zero_grad()
                self._loss(self._network(*self._tensors(features)), labels).backward()
                self._torch.nn.utils.clip_grad_norm_(self._network.parameters(), config.clip)
                optimizer.step()
            with self._torch.no_grad():
                losses = [float(self._loss(self._network(*self._tensors(f)), y)) for f, y in held or learnt]
            loss = float(np.mean(losses))
            if best is None or loss < best[0]:
                best = loss, {name: w.clone() for name, w in self._network.state_dict().items()}
            if epoch == epochs - 1 or epoch % 25 == 0:
                context.logger.debug("MLP epoch %3d: loss: %.6f", epoch, loss)
        if best is not None:
            self._network.load_state_dict(best[1])

    def _split(self, random: np.random.RandomState) -> tuple[list[Any], list[Any]]:
        """(features, labels) of each workload: what to learn, and what to judge by."""
        learnt: list[Any] = []
        held: list[Any] = []
        for group in self.data.values():
            labels = group.labels()
            order: list[int] = random.permutation(len(labels)).tolist()
            cut = int(len(order) * self.config.test_split)
            for part, chosen in ((held, order[:cut]), (learnt, order[cut:])):
                if chosen:
                    part.append(([group.features[i] for i in chosen], labels[chosen]))
        return learnt, held

    def _batches(self, groups: list[Any], random: np.random.RandomState) -> list[Any]:
        found: list[Any] = []
        for features, labels in groups:
            order: list[int] = random.permutation(len(labels)).tolist()
            for start in range(0, len(order), self.config.batch_size):
                chosen = order[start : start + self.config.batch_size]
                found.append(([features[i] for i in chosen], labels[chosen]))
        return [found[i] for i in random.permutation(len(found))]

    def _loss(self, scores: Any, labels: Floats) -> Any:
        wanted = self._torch.from_numpy(labels.astype("float32"))
        if self.config.loss == "regression":
            return self._torch.nn.functional.mse_loss(scores, wanted)
        return rank_loss(self._torch, scores, wanted)

    def _report(self, context: TuneContext, scores: Floats, labels: Floats) -> None:
        context.logger.debug(
            "MLP validation: p-rmse: %.6f\ta-peak@32: %.6f", p_rmse(scores, labels),
            average_peak_score(scores, labels, 32),
        )  # fmt: skip


def rank_loss(torch: Any, scores: Any, labels: Any) -> Any:
    """The logistic loss of each pair in the wrong order, by how much swapping the two would change the discounted
    gain of the ranking (LambdaRank: Burges, "From RankNet to LambdaRank to LambdaMART", 2010), averaged over pairs.
    """
    count = len(labels)
    place = torch.empty(count, dtype=scores.dtype)
    place[torch.argsort(scores.detach(), descending=True, stable=True)] = torch.arange(count, dtype=scores.dtype)
    discount = 1 / torch.log2(place + 2)
    gain = 2**labels - 1
    ideal = torch.sort(gain, descending=True).values / torch.log2(torch.arange(count, dtype=scores.dtype) + 2)
    change = (gain[:, None] - gain[None, :]).abs() * (discount[:, None] - discount[None, :]).abs()
    pairs = labels[:, None] > labels[None, :]
    loss = torch.nn.functional.softplus(-(scores[:, None] - scores[None, :])) * change
    return loss[pairs].sum() / ideal.sum().clamp_min(_EPSILON)


def _network(torch: Any, width: int, config: MLPConfig) -> Any:
    """Encoder of stores, residual layers on their sum, decoder to one number."""
    nn = torch.nn
    hidden = config.hidden

    def forward(self: Any, rows: Any, owner: Any, count: int) -> Any:
        summed = torch.zeros(count, hidden).index_add(0, owner, self.encoder(rows))
        found = self.norm(summed)
        for layer in self.layers:
            found = found + layer(found)
        return self.decoder(found).squeeze(-1)

    network = type("Network", (nn.Module,), {"forward": forward})()
    network.encoder = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
    network.norm = nn.LayerNorm(hidden)
    network.layers = nn.ModuleList(
        nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU()) for _ in range(config.residual_layers)
    )
    network.decoder = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))
    return network


def _require(config: MLPConfig) -> None:
    if config.loss not in ("rank", "regression"):
        raise ValueError(f"the loss of an MLPModel is 'rank' or 'regression', not {config.loss!r}")
    for name in ("hidden", "batch_size", "full_epochs", "incremental_epochs"):
        if getattr(config, name) < 1:
            raise ValueError(f"{name} of an MLPModel is at least 1, not {getattr(config, name)}")
    if not 0 <= config.test_split < 1:
        raise ValueError(f"test_split of an MLPModel is at least 0 and less than 1, not {config.test_split}")


def load_torch() -> Any:
    """The package, loaded when it is first needed. Raises ImportError with what to do."""
    try:
        # Heavy, and not everyone has it.
        import torch  # noqa: PLC0415 # pyright: ignore[reportMissingImports]
    except ImportError as e:
        raise ImportError(
            "the cost model 'mlp' needs PyTorch (pip install torch); without it, tune with cost_model='xgb' or 'random'"
        ) from e
    return torch
