"""The number of scored test windows fits the remaining time."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
from data_cases import made

from informer.scoring.scores import compare
from informer.training import run as scoring
from informer.training.run import SearchResult


class Scorer:
    """Scores with a simulated clock: a fixed cost, and a cost per window."""

    def __init__(self, seconds: float, each: float, fixed: float) -> None:
        self.left, self.each, self.fixed, self.scored = seconds, each, fixed, []

    def __call__(self, model, data, **_):
        self.left -= self.fixed + self.each * len(data.test)
        self.scored.append(len(data.test))
        return compare(lambda batch: batch.target, data.test, data=data, baselines=[])


@pytest.mark.parametrize(
    ("seconds", "refit", "most"),
    [(1000.0, False, 96), (80.0, False, 32), (80.0, True, 24), (0.0, False, 20), (math.inf, True, 96)],
)
def test_windows_are_thinned_to_the_time_that_is_left(monkeypatch, tmp_path, seconds, refit, most) -> None:
    """A second each and 5 for any number: of 80 seconds two probes of 4 and 12 windows leave 54, of which 9 and those
    of a fit are kept; every third window is what 45 are enough for, every fourth 30."""
    data = made(tmp_path)
    assert len(data.test) == 96
    scorer = Scorer(seconds, 1.0, 5.0)
    monkeypatch.setattr(scoring, "score", scorer)
    monkeypatch.setattr(scoring, "SAFE", 1.0)
    for name, value in (("PROBE", 4), ("MORE", 3), ("LEAST", 20), ("LEAST_VALUES", 1)):
        monkeypatch.setattr(scoring, name, value)
    settings, model = (
        SimpleNamespace(trainer=SimpleNamespace(eval_batch_size=32, refit=refit)),
        SimpleNamespace(members=()),
    )
    searched = SearchResult(None, 15.0, lambda: scorer.left)
    scored = scoring._scored(model, settings, data, None, [], searched)
    assert scored.windows == scorer.scored[-1] == most
    assert any("evenly spaced of 96 test windows" in note for note in scored.notes) == (most < 96)
    assert scored.block == math.ceil(5 / math.ceil(96 / most))
    alone = scoring._scored(model, settings, replace(data), None, [], None)
    assert alone.windows == 96
