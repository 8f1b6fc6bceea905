"""The model that only guesses."""

from __future__ import annotations

from tscript.meta_schedule.cost_model import CostModel, RandomModel


def test_scores_are_in_range_and_follow_from_the_seed():
    first, again = RandomModel(seed=3, max_range=5), RandomModel(seed=3, max_range=5)
    scores = first.predict(None, [None] * 50)
    assert scores.shape == (50,) and (scores >= 0).all() and (scores < 5).all()
    assert scores.tolist() == again.predict(None, [None] * 50).tolist()
    assert not first.is_trained and first.extraction(None) is None


def test_it_goes_on_from_what_was_saved(tmp_path):
    path = str(tmp_path / "state.npz")
    model = CostModel.create("random", seed=1)
    model.predict(None, [None] * 3)
    model.save(path)
    wanted = model.predict(None, [None] * 4).tolist()
    assert RandomModel(path=path).predict(None, [None] * 4).tolist() == wanted
