"""The linear map that is fitted first: what it is, and that training cannot end below it."""

import json
import os
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from entry_points import SMALL, TENSORBOARD, call, done
from sklearn.linear_model import Ridge
from test_resume import assert_same_run

from informer import checkpoint
from informer.checkpoint.network import build_model
from informer.checkpoint.restore import restore_model
from informer.config.hydra_compose import composed
from informer.config.training import OptimConfig, Schedule
from informer.data.dataset import build_data
from informer.members.baselines import fit_ridge
from informer.networks.forecast_model import model_forecast
from informer.training import loop
from informer.training.optim import learning_rate
from informer.training.start import fit_ridge_skip

PLUS = ["dataset=sample", *SMALL, "model.skip=ridge", "model.instance_norm=true"]


def test_before_training_the_model_is_ridge() -> None:
    """Red if the head does not start at zero, or scaling and the skip do not fit each other."""
    settings = composed([*PLUS, "features=MS", "target=price"])
    data = build_data(settings, torch.device("cpu"))
    slots = {"attn": settings.attn, "decoder_attn": settings.attn, "cross_attn": settings.cross_attn}
    model = build_model(settings.model, data.dims, **slots).eval()
    fit_ridge_skip(model, data)
    ridge = fit_ridge(data.train, data.val, data.columns.positions(data.targets))
    batch = data.test.batch(torch.arange(5))
    torch.testing.assert_close(model_forecast(model, batch), ridge(batch), rtol=1e-4, atol=1e-4)


def test_it_is_the_weighted_fit_on_normalised_windows() -> None:
    """scikit-learn's, a window's squared error counting times its variance, on normalised windows."""
    data = build_data(composed(PLUS), torch.device("cpu"))
    ridge = fit_ridge(data.train, data.val, range(4), penalties=(10.0,))
    batch = data.train.batch(torch.arange(len(data.train)))
    x = batch.enc_x.double().transpose(1, 2).flatten(0, 1).numpy()
    y = batch.target.double().transpose(1, 2).flatten(0, 1).numpy()
    moving = x.std(axis=1) > 0  # the others have no weight, and no normalised form
    x, y = x[moving], y[moving]
    mean, deviation = x.mean(axis=1, keepdims=True), x.std(axis=1, keepdims=True)
    model = Ridge(10.0, fit_intercept=False)
    model.fit((x - mean) / deviation, (y - mean) / deviation, sample_weight=deviation[:, 0] ** 2)
    np.testing.assert_allclose(ridge.weight.numpy(), model.coef_.T, rtol=1e-3, atol=1e-6)


def test_training_cannot_end_below_it(folder: Path) -> None:
    """Red if step 0 does not count: at this rate every step makes it worse."""
    outcome = done("train", *PLUS, "optim.lr=3", "trainer.max_epochs=2", "run_dir=run")
    assert "validation loss before the first step" in outcome.out
    assert "the network reduced the validation loss of ridge by 0.00%" in outcome.out
    best = checkpoint.load(Path("run"))
    assert (best.progress.epoch, best.progress.step) == (0, 0)
    settings = composed(PLUS)
    data = build_data(settings, torch.device("cpu"))
    ridge = fit_ridge(data.train, data.val, range(4))
    batch = data.val.batch(torch.arange(len(data.val)))
    with torch.no_grad():
        ours, theirs = (
            float((forecast - batch.target).square().mean())
            for forecast in (restore_model(best)(*batch[:4]), ridge(batch))
        )
    assert best.progress.best_loss == pytest.approx(theirs, rel=1e-4)
    assert ours == pytest.approx(theirs, rel=1e-4)


@pytest.mark.slow
def test_stopped_before_the_first_step_it_still_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if a run that a signal stops in its first validation continues without it."""
    settings = [*PLUS, TENSORBOARD, "optim.lr=3", "trainer.max_epochs=1"]
    done("train", *settings, "run_dir=whole")
    mean_loss = loop.mean_loss

    def stopped(*arguments: object, **options: object) -> float:
        os.kill(os.getpid(), signal.SIGTERM)
        return mean_loss(*arguments, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(loop, "mean_loss", stopped)
        assert call("train", *settings, "run_dir=run").status == 128 + signal.SIGTERM
    done("train", "resume=run")
    assert_same_run(Path("whole"), Path("run"))
    assert checkpoint.load(Path("run")).progress.epoch == 0


def test_a_series_that_never_changes_is_no_error(folder: Path) -> None:
    """Fails if the improvement over a loss of zero is computed."""
    times = pd.date_range("2024-01-01", periods=400, freq="h")
    pd.DataFrame({"date": times, "y": 5.0}).to_csv("flat.csv", index=False)
    flat = ["dataset=csv", "dataset.path=flat.csv", "target=y", *PLUS[1:], "trainer.max_steps=2", "run_dir=run"]
    done("train", *flat)
    assert Path("run/metrics.json").exists()


def test_what_began_with_other_weights_is_not_called_ridge(folder: Path) -> None:
    done("train", *PLUS, "trainer.max_steps=2", "run_dir=older")
    outcome = call("train", *PLUS, "trainer.max_steps=2", "init_from=older", "run_dir=run")
    assert "reduced the validation loss of the initial weights" in outcome.out


def test_without_a_step_it_is_all_there_is(folder: Path) -> None:
    """A run of no steps is ridge regression, scored and saved as a model."""
    # the baseline may go below zero
    done("train", *PLUS, "trainer.max_steps=0", "non_negative=none", "run_dir=run")
    scores = json.loads(Path("run/metrics.json").read_text())["scores"]
    ours, ridge = (scores[name]["scaled"]["overall"]["mse"] for name in ("informer", "ridge"))
    assert ours == pytest.approx(ridge, rel=1e-4)
    saved = checkpoint.load(Path("run"))
    assert (saved.progress.epoch, saved.progress.step) == (0, 0)
    assert not saved.weights["network.head.weight"].any()


def test_training_leaves_it_as_it_was_fitted(folder: Path) -> None:
    """Red if the optimiser moves it, or a resumed run fits it again to something else."""
    done("train", *PLUS, "trainer.max_epochs=1", "optim.lr=1e-3", "run_dir=run")
    last = checkpoint.load(Path("run/last.safetensors"))
    data = build_data(composed(PLUS), torch.device("cpu"))
    ridge = fit_ridge(data.train, data.val, range(4))
    torch.testing.assert_close(last.weights["skip.weight"], ridge.weight.T.float())
    assert not torch.equal(last.weights["network.head.weight"], torch.zeros_like(last.weights["network.head.weight"]))


def test_a_cosine_over_the_whole_run() -> None:
    """Red if the rate does not begin at lr, pass lr / 2 in the middle and end near 0, whatever the epoch."""
    config = OptimConfig(lr=4.0, schedule=Schedule.cosine)
    rates = [learning_rate(config, epoch=1 + step // 3, done=step / 10) for step in range(10)]
    np.testing.assert_allclose(rates, [2 * (1 + np.cos(np.pi * step / 10)) for step in range(10)])
    assert rates[0] == 4.0
    assert rates[5] == pytest.approx(2.0)
