"""The tree model: what it learns, keeps, saves and logs."""

from __future__ import annotations

import logging
import sys
import tarfile

import numpy as np
import pytest

from tests.meta_schedule.mock import Matmul, tiles
from tscript.meta_schedule import TuneContext
from tscript.meta_schedule.candidate import MeasureCandidate
from tscript.meta_schedule.cost_model import CostModel, RandomModel, XGBConfig, XGBModel
from tscript.meta_schedule.cost_model.samples import Samples, average_peak_score
from tscript.meta_schedule.feature_extractor import FeatureExtractor
from tscript.meta_schedule.runner import RunnerResult
from tscript.schedule import Schedule

KEY = "made up"


class MadeUp(FeatureExtractor):
    """Gives each candidate the rows that it was made of, and counts how often it is asked."""

    def __init__(self):
        self.asked = 0

    def extract_from(self, context, candidates):
        self.asked += len(candidates)
        return [c.rows for c in candidates]


class Candidate(MeasureCandidate):
    def __init__(self, rows):
        super().__init__(lambda: None, [])
        self.rows = rows


def context():
    return TuneContext(Matmul, target="llvm", rand_state=1)


def problem(count, seed=0):
    """Candidates of two stores; how fast they are follows from sums over both."""
    random = np.random.RandomState(seed)
    found = [Candidate(random.rand(2, 6)) for _ in range(count)]
    secs = [1e-3 / (0.2 + c.rows[:, 0].sum() + (c.rows[:, 1] > 0.5).sum()) for c in found]
    return found, [RunnerResult([t, t, 10 * t], None) for t in secs], np.array(secs)


def spearman(a, b):
    return np.corrcoef(np.argsort(np.argsort(a)), np.argsort(np.argsort(b)))[0, 1]


def trained(count=120, **options):
    model = XGBModel(extractor=MadeUp(), **options)
    candidates, results, _ = problem(count)
    model.update(context(), candidates, results)
    return model


def test_it_ranks_what_it_has_not_seen():
    model = trained()
    candidates, _, secs = problem(80, seed=5)
    assert model.is_trained
    assert spearman(model.predict(context(), candidates), -secs) > 0.85


def test_scores_are_random_before_enough_samples():
    model = XGBModel(extractor=MadeUp(), num_warmup_samples=10)
    candidates, results, _ = problem(9)
    model.update(context(), candidates, results)
    assert not model.is_trained
    scores = model.predict(context(), candidates)
    assert scores.shape == (9,) and len(set(scores)) == 9 and (0 <= scores).all() and (scores < 1).all()
    model.update(context(), *[x[:2] for x in problem(9, seed=1)[:2]])
    assert model.is_trained


def test_scores_do_not_depend_on_threads():
    candidates, _, _ = problem(50, seed=3)
    first, *others = (
        trained(300, config=XGBConfig(nthread=n)).predict(context(), candidates).tolist() for n in (1, 2, 5)
    )
    assert all(o == first for o in others)


def test_little_data_is_learnt_by_one_thread():
    model = XGBModel(extractor=MadeUp(), num_tuning_cores=8)
    assert model._threads_for(np.zeros((100, 164))) == 1
    assert model._threads_for(np.zeros((10000, 164))) == 8
    assert XGBModel(config=XGBConfig(nthread=3))._threads_for(np.zeros((1, 164))) == 3


def test_training_ends_where_every_round_fits_the_data_better():
    model = trained(100, config=XGBConfig(eta=1e-3))
    assert 250 < model._rounds <= 300


def test_features_are_taken_once():
    model = trained(30)
    candidates, results, _ = problem(10, seed=2)
    before = model.extractor.asked
    model.predict(context(), candidates)
    model.predict(context(), candidates)
    model.update(context(), candidates, results)
    assert model.extractor.asked == before + 10


def test_features_that_the_search_extracted_are_used():
    model = XGBModel()
    extract = model.extraction(context())
    assert extract is not None
    sch = tiles(Schedule(Matmul, seed=1))
    key, features = extract(sch)
    candidate = MeasureCandidate(lambda: pytest.fail("the schedule was made again"), [])
    candidate.features[key] = features
    assert model.predict(context(), [candidate]).shape == (1,)
    model.update(context(), [candidate], [RunnerResult([1.0], None)])
    assert model.data.count == 1
    assert np.array_equal(features, model._features(context(), [MeasureCandidate(sch, [])])[0])
    assert XGBModel(extractor=MadeUp()).extraction(context()) is None


def test_failures_and_candidates_without_stores():
    model = XGBModel(extractor=MadeUp(), num_warmup_samples=2)
    candidates, results, _ = problem(20)
    results[0] = RunnerResult(None, "it crashed")
    candidates[1].rows = np.zeros((0, 6))
    model.update(context(), candidates, results)
    assert model.data.count == 19
    scores = model.predict(context(), candidates)
    assert scores[1] == 0 and np.isfinite(scores).all() and scores.min() >= 0
    model.update(context(), [], [])
    failed = XGBModel(extractor=MadeUp(), num_warmup_samples=2)
    failed.update(context(), candidates[2:6], [RunnerResult(None, "it crashed")] * 4)
    assert np.isfinite(failed.predict(context(), candidates)).all()


def test_adaptive_training_waits_for_a_fifth_more():
    model = trained(50)
    booster = model._booster
    candidates, results, _ = problem(20, seed=4)
    model.update(context(), candidates[:9], results[:9])
    assert model._booster is booster
    model.update(context(), candidates[9:10], results[9:10])
    assert model._booster is not booster
    eager = trained(50, adaptive_training=False)
    booster = eager._booster
    eager.update(context(), candidates[:1], results[:1])
    assert eager._booster is not booster


def test_saved_and_loaded(tmp_path):
    model = trained(60)
    path = tmp_path / "deep" / "model.tar"
    model.save(str(path))
    with tarfile.open(path) as tar:
        assert sorted(tar.getnames()) == ["data.npz", "model.bin", "state.json"]
    other = XGBModel(extractor=MadeUp())
    other.load(str(path))
    candidates, results, _ = problem(30, seed=7)
    assert other.predict(context(), candidates).tolist() == model.predict(context(), candidates).tolist()
    model.update(context(), candidates, results)
    other.update(context(), candidates, results)
    assert other.predict(context(), candidates).tolist() == model.predict(context(), candidates).tolist()
    assert [p.name for p in path.parent.iterdir()] == ["model.tar"]


def test_a_model_without_trees_or_samples_is_saved_too(tmp_path):
    path = str(tmp_path / "model.tar")
    XGBModel(extractor=MadeUp()).save(path)
    model = XGBModel(extractor=MadeUp())
    model.load(path)
    assert not model.is_trained and model.data.count == 0


@pytest.mark.parametrize("damage", ["cut", "noise", "empty", "trees", "data"])
def test_a_damaged_file_is_reported_and_changes_nothing(tmp_path, damage):
    path = tmp_path / "model.tar"
    trained(40).save(str(path))
    data = path.read_bytes()
    if damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "noise":
        path.write_bytes(b"no tar at all" * 100)
    elif damage == "empty":
        path.write_bytes(b"")
    else:
        name = {"trees": b"model.bin", "data": b"data.npz"}[damage]
        start = data.index(name) + 512
        path.write_bytes(data[:start] + b"\x07" * 4000 + data[start + 4000 :])
    model = trained(50)
    count = model.data.count
    with pytest.raises(ValueError, match=r"is no XGBModel that was saved, or it is damaged"):
        model.load(str(path))
    assert model.data.count == count and model.is_trained
    with pytest.raises(FileNotFoundError):
        model.load(str(tmp_path / "nowhere.tar"))


def test_the_log_reads_as_users_know_it(caplog):
    with caplog.at_level(logging.DEBUG, "tscript.meta_schedule"):
        model = trained(60)
        candidates, results, _ = problem(30, seed=7)
        model.update(context(), candidates, results)
    text = "\n".join(caplog.messages)
    assert "XGB iter   0: tr-p-rmse: 0." in text
    assert "XGB iter  25: tr-p-rmse: 0." in text
    assert "\ttr-a-peak@32: " in text
    assert "XGB validation: p-rmse: 0." in text and "\ta-peak@32: " in text
    assert "XGB stopped. Best iteration: [" in text


def test_groups_are_judged_by_their_own_best():
    data = Samples()
    data.add("a", [np.ones((1, 2))] * 2, [1.0, 2.0])
    data.add("b", [np.ones((3, 2))] * 2, [40.0, 10.0])
    assert data.packed()[1].tolist() == [1.0, 0.5, 0.25, 1.0]
    again = Samples.from_bytes(data.to_bytes())
    assert list(again) == ["a", "b"] and again["b"].costs == [40.0, 10.0]
    assert [f.shape for f in again.packed()[0]] == [(1, 2), (1, 2), (3, 2), (3, 2)]
    assert average_peak_score(np.array([1.0, 2.0]), np.array([1.0, 0.5]), 2) == 0.75


def test_without_xgboost(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(ImportError, match="pip install xgboost-cpu"):
        XGBModel()
    with caplog.at_level(logging.WARNING, "tscript.meta_schedule"):
        assert isinstance(CostModel.create("xgb", num_tuning_cores=1, tree_method="auto"), RandomModel)
    assert "needs the package xgboost" in caplog.text


def test_the_word():
    model = CostModel.create("xgb", num_tuning_cores=3, tree_method="hist")
    assert model._threads == 3 and model._settings["tree_method"] == "hist"
