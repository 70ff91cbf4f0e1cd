"""One trial: ridge against scikit-learn on windows cut by hand, a network against the run that it stands for."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from entry_points import SMALL, call
from sklearn.linear_model import Ridge
from test_configs import composed

from informer import checkpoint
from informer.build import read_dataset, resolve_decoder
from informer.config import TrainConfig
from informer.inference.baselines import PENALTIES
from informer.runtime import resource
from informer.search.space import cheapest, least_sizes
from informer.search.trials import Laboratory, OutOfTime
from informer.training.signals import StopRequest

TINY = ["model.d_model=8", "model.n_heads=2", "model.d_ff=8", *SMALL[3:], "trainer.calibration=0"]
TRAIN, VAL = 200, 50


def laboratory(*overrides: str, clock: Callable[[], float] = lambda: 0.0) -> Laboratory:
    settings = composed("dataset=sample", "model=auto", *TINY, *overrides)
    settings = replace(settings, decoder_attn=resolve_decoder(settings.attn, {})[0])
    source = read_dataset(settings, least_sizes(settings))
    return Laboratory(settings=settings, source=source, device=torch.device("cpu"), stop=StopRequest(), clock=clock)


def by_hand(seq_len: int, pred_len: int, columns: list[int]) -> tuple[float, float]:
    """Least validation MSE over the penalties, and that penalty; the same forecast origins for every seq_len."""
    values = pd.read_csv(resource("data/sample.csv")).drop(columns="date").to_numpy()
    values = (values - values[:TRAIN].mean(0)) / values[:TRAIN].std(0)
    values = values[:, columns]

    def windows(origins: range) -> tuple[np.ndarray, np.ndarray]:
        x = np.concatenate([values[origin - seq_len : origin].T for origin in origins])
        y = np.concatenate([values[origin : origin + pred_len].T for origin in origins])
        mean = x.mean(1, keepdims=True)
        return x - mean, y - mean

    x, y = windows(range(seq_len, TRAIN - pred_len + 1))
    new_x, new_y = windows(range(TRAIN, TRAIN + VAL - pred_len + 1))
    losses = {
        penalty: float(np.mean((Ridge(penalty, fit_intercept=False).fit(x, y).predict(new_x) - new_y) ** 2))
        for penalty in PENALTIES
    }
    best = min(losses, key=lambda penalty: losses[penalty])
    return losses[best], best


@pytest.mark.parametrize(("overrides", "columns"), [([], [0, 1, 2, 3]), (["features=MS", "target=price"], [2])])
def test_ridge_is_scikit_learns_on_the_same_windows(overrides: list[str], columns: list[int]) -> None:
    """Red if histories are judged on different windows, or on rows of the test part."""
    lab = laboratory(*overrides)
    for seq_len in (6, 24, 60, 90):
        loss, penalty = lab.trial(cheapest(lab.settings, seq_len), steps=0, seconds=math.inf)
        expected, best = by_hand(seq_len, 6, columns)
        assert loss == pytest.approx(expected, rel=1e-4)
        assert penalty == best


def test_a_trial_is_the_run_that_it_stands_for(folder: Path) -> None:
    """Its loss is that of the run with the same settings, to the last bit: after 1.5 epochs, dropout and all."""
    lab = laboratory("optim.lr=3e-3", "seq_len=24", "label_len=12", "seed=3")
    # with which nine steps are better than none: a run keeps the best loss
    values = {**cheapest(lab.settings, 24), "model.embed": "timeF", "model.dropout": 0.05}
    torch.manual_seed(7)  # what was drawn before must not matter
    loss, _ = lab.trial(values, steps=9, seconds=math.inf)
    arguments = ["dataset=sample", "model=informer_plus", *TINY, "optim.schedule=cosine", "optim.lr=3e-3", "seq_len=24"]
    arguments += ["label_len=12", f"model.patch_len={values['model.patch_len']}", "trainer.max_steps=9", "seed=3"]
    assert call("train", *arguments, "trainer.max_epochs=2", "run_dir=run").status == 0
    last = checkpoint.load(Path("run/last.pt"))
    assert last.step == 9
    assert last.val_loss == loss


def test_a_trial_ends_when_its_time_is_up() -> None:
    """A clock that goes on one second each time it is asked; the trial gives up between two steps."""
    seconds = iter(range(10_000))
    lab = laboratory("seq_len=24", "label_len=12", clock=lambda: float(next(seconds)))
    with pytest.raises(OutOfTime):
        lab.trial(cheapest(lab.settings, 24), steps=1000, seconds=5.0)
    assert next(seconds) < 20


def test_a_network_that_diverges_has_no_loss() -> None:
    lab = laboratory("seq_len=24", "label_len=12", "optim.lr=1e30")
    assert lab.trial(cheapest(lab.settings, 24), steps=8, seconds=math.inf)[0] == math.inf


def test_the_test_part_is_not_looked_at(folder: Path) -> None:
    """The same with other values in its rows."""
    frame = pd.read_csv(resource("data/sample.csv")).iloc[:320]
    losses = []
    for name, shift in (("a", 0.0), ("b", 1e3)):
        changed = frame.copy()
        changed.loc[250:, "price"] += shift
        changed.to_csv(f"{name}.csv", index=False)
        lab = laboratory("dataset=csv", f"dataset.path={name}.csv", "trainer.batch_size=64")
        values = cheapest(lab.settings, 24)
        losses.append([lab.trial(values, steps=steps, seconds=math.inf) for steps in (0, 2)])
    assert losses[0] == losses[1]


def test_the_settings_are_left_as_they_are() -> None:
    lab = laboratory("seq_len=24", "label_len=12")
    before: TrainConfig = replace(lab.settings)
    lab.trial(cheapest(lab.settings, 24), steps=1, seconds=math.inf)
    assert lab.settings == before
