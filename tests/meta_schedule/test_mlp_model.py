"""The network as a cost model: what it learns, keeps, saves and refuses."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import tarfile

import numpy as np
import pytest

from tests.meta_schedule.mock import Matmul, MockBuilder, MockRunner, tiles
from tests.meta_schedule.test_xgb_model import MadeUp, context, problem, spearman
from tscript import meta_schedule as ms
from tscript.meta_schedule.candidate import MeasureCandidate
from tscript.meta_schedule.cost_model import CostModel, MLPConfig, MLPModel
from tscript.meta_schedule.runner import RunnerResult
from tscript.schedule import Schedule

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
SMALL = {"hidden": 32, "learning_rate": 5e-3, "batch_size": 32}


def trained(count=120, **options):
    model = MLPModel(extractor=MadeUp(), config=MLPConfig(**{**SMALL, **options}))
    candidates, results, _ = problem(count)
    model.update(context(), candidates, results)
    return model


def scores_of(model, count=40, seed=5):
    return model.predict(context(), problem(count, seed)[0])


@needs_torch
@pytest.mark.parametrize("loss", ["rank", "regression"])
def test_it_ranks_what_it_has_not_seen(loss):
    model = trained(200, loss=loss)
    candidates, _, secs = problem(80, seed=5)
    scores = model.predict(context(), candidates)
    assert model.is_trained and (scores >= 0).all()
    assert spearman(scores, -secs) > 0.8


@needs_torch
def test_the_same_data_and_seed_give_the_same_scores():
    torch = importlib.import_module("torch")

    torch.manual_seed(1)
    first = scores_of(trained())
    torch.manual_seed(2)
    state = torch.random.get_rng_state()
    assert scores_of(trained()).tolist() == first.tolist()
    assert torch.equal(torch.random.get_rng_state(), state), "a user's random numbers are left alone"
    assert scores_of(trained(seed=44)).tolist() != first.tolist()


@needs_torch
def test_a_saved_model_scores_the_same_and_goes_on_the_same(tmp_path):
    path = tmp_path / "deep" / "model.tar"
    model = trained(60)
    model.save(str(path))
    with tarfile.open(path) as tar:
        assert sorted(tar.getnames()) == ["data.npz", "model.npz", "state.json"]
    other = MLPModel(extractor=MadeUp(), config=MLPConfig(**SMALL))
    other.load(str(path))
    assert scores_of(other).tolist() == scores_of(model).tolist()
    for count, seed in ((8, 7), (40, 8)):  # learnt in a few epochs, then anew
        for m in (model, other):
            m.update(context(), *problem(count, seed)[:2])
        assert other.data.count == model.data.count
        assert scores_of(other).tolist() == scores_of(model).tolist()


@needs_torch
def test_few_new_samples_are_added_and_many_start_anew():
    model = trained(60)
    network = model._network
    before = scores_of(model).tolist()
    model.update(context(), *problem(8, seed=7)[:2])
    assert model._network is network and model._untrained == 8
    assert scores_of(model).tolist() != before
    model.update(context(), *problem(20, seed=8)[:2])
    assert model._network is not network and model._untrained == 0


@needs_torch
def test_before_and_beyond_what_can_be_learnt():
    model = MLPModel(extractor=MadeUp(), config=MLPConfig(**SMALL))
    assert not model.is_trained and len(set(scores_of(model))) == 40
    candidates, results, _ = problem(20)
    results[0] = RunnerResult(None, "it crashed")
    candidates[1].rows = np.zeros((0, 6))
    model.update(context(), candidates, results)
    assert model.data.count == 19 and model.is_trained
    scores = model.predict(context(), candidates)
    assert scores[1] == 0 and np.isfinite(scores).all()
    for rest in (candidates[2:3], candidates[2:6]):  # one alone, and nothing but failures
        other = MLPModel(extractor=MadeUp(), config=MLPConfig(**SMALL), num_warmup_samples=1)
        other.update(context(), rest, [RunnerResult(None, "it crashed")] * len(rest))
        assert np.isfinite(other.predict(context(), candidates)).all()


@needs_torch
@pytest.mark.parametrize("damage", ["noise", "weights", "sizes"])
def test_a_damaged_file_is_reported_and_changes_nothing(tmp_path, damage):
    path = tmp_path / "model.tar"
    trained(40, hidden=16 if damage == "sizes" else 32).save(str(path))
    data = path.read_bytes()
    if damage == "noise":
        path.write_bytes(b"no tar at all" * 100)
    elif damage == "weights":
        start = data.index(b"model.npz") + 512
        path.write_bytes(data[:start] + b"\x07" * 4000 + data[start + 4000 :])
    model = trained(50)
    before = scores_of(model).tolist()
    with pytest.raises(ValueError, match="is no MLPModel that was saved, or it is damaged"):
        model.load(str(path))
    assert model.data.count == 50 and scores_of(model).tolist() == before


@needs_torch
def test_features_of_programs_have_the_flags_of_the_workload():
    model = CostModel.create("mlp")
    assert isinstance(model, MLPModel)
    extract = model.extraction(context())
    assert extract is not None
    key, features = extract(tiles(Schedule(Matmul, seed=1)))
    assert features.shape[1] == 172
    candidate = MeasureCandidate(lambda: pytest.fail("the schedule was made again"), [])
    candidate.features[key] = features
    model.update(context(), [candidate], [RunnerResult([1.0], None)])
    assert model.data.count == 1


@needs_torch
def test_it_guides_a_search(tmp_path):
    model = MLPModel(config=MLPConfig(hidden=16, full_epochs=3), num_warmup_samples=8)
    database = ms.tune_tir(
        Matmul, "llvm -num-cores 1", str(tmp_path), 24, num_trials_per_iter=8, builder=MockBuilder(),
        runner=MockRunner(), cost_model=model, space=tiles, seed=3,
    )  # fmt: skip
    assert model.is_trained and model.data.count == len(database) >= 16


@needs_torch
def test_a_second_run_goes_on_with_what_the_first_learnt(tmp_path):
    def run(trials):
        ms.tune_tir(
            Matmul, "llvm -num-cores 1", str(tmp_path), trials, num_trials_per_iter=8, builder=MockBuilder(),
            runner=MockRunner(), cost_model="mlp", space=tiles, seed=3,
        )  # fmt: skip

    run(16)
    first = {p.name for p in tmp_path.rglob("*") if "mlp" in p.name or "cost_model" in p.name}
    assert first, "the model is saved beside the records"
    run(24)
    saved = [p for p in tmp_path.rglob("*") if p.name in first and p.is_file()]
    model = MLPModel()
    model.load(str(saved[0]))
    assert model.is_trained and model.data.count > 16


def test_without_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"pip install torch.*cost_model='xgb'"):
        CostModel.create("mlp")


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"loss": "best"}, "not 'best'"), ({"hidden": 0}, "hidden"), ({"test_split": 1.0}, "test_split")],
)
def test_settings_out_of_range_are_refused(options, reason):
    with pytest.raises(ValueError, match=reason):
        MLPModel(config=MLPConfig(**options))
