"""The linear map that is fitted first: what it is, and that training cannot end below it."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from entry_points import CSV, SMALL, done

from informer import checkpoint

PLUS = ["dataset=sample", *SMALL, "model.skip=ridge", "model.instance_norm=true"]


def test_training_cannot_end_below_it(folder: Path) -> None:
    """Red if step 0 does not count, since at this rate every step makes it worse, or if epochs are compared by the loss
    of the steps."""
    outcome = done("train", *PLUS, CSV, "optim.lr=3", "loss.training=mae", "trainer.max_epochs=2", "run_dir=run")
    assert "validation loss before the first step" in outcome.out
    assert "the network reduced the validation loss of ridge by 0.00%" in outcome.out
    best = checkpoint.load(Path("run"))
    assert (best.progress.epoch, best.progress.step) == (0, 0)
    scores = json.loads(Path("run/metrics.json").read_text())["scores"]
    ours, ridge = (scores[name]["scaled"]["overall"]["mse"] for name in ("informer", "ridge"))
    assert ours == pytest.approx(ridge, rel=1e-4)
    losses = pd.read_csv("run/losses.csv")
    assert (losses["val_loss"][1:] > best.progress.best_loss).all()
    np.testing.assert_allclose(losses["ridge"], best.progress.best_loss, rtol=1e-4)


def test_a_series_that_never_changes_is_no_error(folder: Path) -> None:
    """Fails if the improvement over a loss of zero is computed."""
    times = pd.date_range("2024-01-01", periods=400, freq="h")
    pd.DataFrame({"date": times, "y": 5.0}).to_csv("flat.csv", index=False)
    flat = ["dataset=csv", "dataset.path=flat.csv", "target=y", *PLUS[1:], "trainer.max_steps=2", "run_dir=run"]
    done("train", *flat)
    assert Path("run/metrics.json").exists()


def test_without_a_step_it_is_all_there_is_and_training_leaves_it_so(folder: Path) -> None:
    """A run of no steps is ridge regression, scored and saved as a model. Red if the optimiser moves it, or if what a
    run begins with is called ridge although it is another run's weights."""
    # the baseline may go below zero
    done("train", *PLUS, "trainer.max_steps=0", "non_negative=none", "run_dir=fitted")
    scores = json.loads(Path("fitted/metrics.json").read_text())["scores"]
    ours, ridge = (scores[name]["scaled"]["overall"]["mse"] for name in ("informer", "ridge"))
    assert ours == pytest.approx(ridge, rel=1e-4)
    saved = checkpoint.load(Path("fitted"))
    assert (saved.progress.epoch, saved.progress.step) == (0, 0)
    assert not saved.weights["network.head.weight"].any()
    outcome = done("train", *PLUS, "trainer.max_epochs=1", "optim.lr=1e-3", "init_from=fitted", "run_dir=run")
    assert "validation loss of the initial weights" in outcome.out
    last = checkpoint.load(Path("run/last.safetensors"))
    assert torch.equal(last.weights["maps.weight"], saved.weights["maps.weight"])
    assert last.weights["network.head.weight"].any()
