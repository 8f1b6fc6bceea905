"""What cost models learn from: features and times of measured candidates, by workload; and how good a guess is."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FAILED: Final = 1e10
"""The time of a candidate that could not be measured."""


@dataclass
class Group:
    """The candidates of one workload: features (rows, numbers) and seconds of each."""

    features: list[Floats] = field(default_factory=list[Floats])
    costs: list[float] = field(default_factory=list[float])

    def labels(self) -> Floats:
        """The least time divided by that of each, so that 1 is best."""
        costs = np.array(self.costs, dtype="float64")
        return costs.min() / costs if len(costs) else costs


class Samples(dict[str, Group]):
    """Groups by the hash of their workload."""

    @property
    def count(self) -> int:
        """All candidates."""
        return sum(len(g.costs) for g in self.values())

    def add(self, key: str, features: Iterable[Floats], costs: Iterable[float]) -> None:
        """More candidates of a workload."""
        group = self.setdefault(key, Group())
        group.features += features
        group.costs += costs

    def packed(self) -> tuple[list[Floats], Floats]:
        """The features of all candidates, and their labels."""
        features = [f for g in self.values() for f in g.features]
        return features, np.concatenate([g.labels() for g in self.values()] or [np.zeros(0)])

    def to_bytes(self) -> bytes:
        """As arrays of plain numbers."""
        features = [f for g in self.values() for f in g.features]
        stream = io.BytesIO()
        np.savez_compressed(
            stream,
            keys=np.array(list(self), dtype="U"),
            sizes=np.array([len(g.costs) for g in self.values()], dtype="int64"),
            rows=np.array([len(f) for f in features], dtype="int64"),
            features=np.concatenate(features) if features else np.zeros((0, 0)),
            costs=np.array([c for g in self.values() for c in g.costs], dtype="float64"),
        )
        return stream.getvalue()

    @staticmethod
    def from_bytes(data: bytes) -> Samples:
        """What `to_bytes` gave; ValueError where numbers do not fit together."""
        with np.load(io.BytesIO(data), allow_pickle=False) as saved:
            keys, sizes, rows = saved["keys"], saved["sizes"], saved["rows"]
            features: Floats = saved["features"]
            costs: Floats = saved["costs"]
        total = int(sizes.sum())
        if len(keys) != len(sizes) or len(rows) != total or len(costs) != total or int(rows.sum()) != len(features):
            raise ValueError("the numbers of groups, candidates and rows do not fit together")
        result = Samples()
        sizes_of: list[int] = sizes.tolist()
        ends: list[int] = np.cumsum(rows).tolist()
        parts: list[Floats] = [features[a:b] for a, b in zip([0, *ends], ends, strict=False)]
        names: list[str] = keys.tolist()
        start = 0
        for key, size in zip(names, sizes_of, strict=True):
            stop = start + size
            result.add(key, parts[start:stop], [float(c) for c in costs[start:stop]])
            start = stop
        return result


def p_rmse(scores: Floats, labels: Floats) -> float:
    """Root of the mean squared error.

    >>> p_rmse(np.array([1.0, 0.5]), np.array([1.0, 0.1])).__round__(3)
    0.283
    """
    return float(np.sqrt(np.mean((scores - labels) ** 2)))


def average_peak_score(scores: Floats, labels: Floats, n: int) -> float:
    """How close to the best one comes by measuring first what is thought best, averaged over the first `n` tries.

    >>> average_peak_score(np.array([3.0, 2.0, 1.0]), np.array([0.5, 1.0, 0.2]), 2)
    0.75
    """
    chosen = labels[np.argsort(-scores, kind="stable")[:n]]
    best_so_far: Floats = np.maximum.accumulate(chosen)
    return float(best_so_far.mean()) / float(labels.max())


def write_tar(path: str, parts: Mapping[str, bytes]) -> None:
    """A tar of these files; at any moment `path` is whole: the old one or the new."""
    part = Path(f"{path}.{os.getpid()}.part")
    part.parent.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(part, "w") as tar:
            for name, data in parts.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def read_tar(path: str, model: str, take: Callable[[dict[str, bytes]], None]) -> None:
    """Hand the files of a tar to `take`. Raises ValueError, with what is wrong, for a file that is no saved `model`."""
    try:
        parts: dict[str, bytes] = {}
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                stream = tar.extractfile(member)
                if stream is not None:
                    parts[member.name] = stream.read()
        if "data.npz" not in parts:
            raise ValueError("it has no data.npz")
        take(parts)
    except (tarfile.TarError, zipfile.BadZipFile, ValueError, KeyError, EOFError) as e:
        raise ValueError(f"{path} is no {model} that was saved, or it is damaged: {e}") from e
