"""What the optimiser gets in a run."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from entry_points import CSV, SMALL, done
from torch.optim.optimizer import register_optimizer_step_pre_hook

from informer import checkpoint
from informer.checkpoint import restore_model

SAMPLE = ["dataset=sample", *SMALL, CSV, "run_dir=run"]


@contextlib.contextmanager
def watching(read: Callable[[dict[str, Any]], Any]) -> Iterator[list[Any]]:
    """What `read` finds in the optimiser before each of its steps."""
    seen: list[Any] = []
    hook = register_optimizer_step_pre_hook(lambda optimizer, *_: seen.append(read(optimizer.param_groups[0])))
    try:
        yield seen
    finally:
        hook.remove()


def weights(group: dict[str, Any]) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in group["params"]]


def test_each_step_has_the_rate_of_the_schedule(folder: Path) -> None:
    """Red if the schedule only changes the curve in TensorBoard."""
    with watching(lambda group: group["lr"]) as seen:
        done("train", *SAMPLE, "optim.schedule=cosine", "optim.lr=4e-3", "trainer.max_steps=10")
    np.testing.assert_allclose(seen, [2e-3 * (1 + np.cos(np.pi * i / 10)) for i in range(10)])


@pytest.mark.slow
def test_each_step_has_the_clipped_gradient(folder: Path) -> None:
    """Red if `optim.clip_norm` is read and not applied."""

    def norm(group: dict[str, list[torch.Tensor]]) -> float:
        gradients = [parameter.grad for parameter in group["params"] if parameter.grad is not None]
        return float(torch.nn.utils.get_total_norm(gradients))

    with watching(norm) as seen:
        done("train", *SAMPLE, "optim.clip_norm=0.01", "trainer.max_steps=3")
    assert seen == pytest.approx([0.01] * 3)


@pytest.mark.slow
def test_steps_may_have_another_loss_than_validation(folder: Path) -> None:
    """Fails if `loss.training` does not change the gradient, or changes the loss by which epochs are compared."""
    steps = ("trainer.max_steps=1", "trainer.max_epochs=1", "optim.lr=1e-12")
    rows = {}
    for name, losses in {"mse": ("mse", "null"), "mae": ("mae", "null"), "mixed": ("mse", "mae")}.items():
        kind, training = losses
        keys = [f"loss={kind}", f"loss.training={training}", f"run_dir={name}", *steps]
        done("train", *SAMPLE, *keys)
        rows[name] = pd.read_csv(f"{name}/losses.csv").iloc[-1]
    assert rows["mixed"].train_loss == rows["mae"].train_loss != rows["mse"].train_loss
    assert rows["mixed"].val_loss == rows["mse"].val_loss != rows["mae"].val_loss


def test_the_model_is_the_average_of_the_weights(folder: Path) -> None:
    """By a loop over the weights after each step; red if it begins late, or the last weights are saved in its place."""
    ema = 0.6
    with watching(weights) as seen:
        done("train", *SAMPLE, f"optim.ema={ema}", "trainer.max_steps=12", "trainer.max_epochs=1")
    best, last = (
        restore_model(checkpoint.load(Path("run") / name)) for name in ("best.safetensors", "last.safetensors")
    )
    seen.append([parameter.detach() for parameter in last.parameters()])
    expected = [weight.double() for weight in seen[0]]
    for n, new_weights in enumerate(seen[1:]):
        kept = min(ema, (1 + n) / (10 + n))
        expected = [kept * old + (1 - kept) * new.double() for old, new in zip(expected, new_weights, strict=True)]
    for average, exact in zip(best.parameters(), expected, strict=True):
        torch.testing.assert_close(average.double(), exact, rtol=1e-5, atol=1e-7)
