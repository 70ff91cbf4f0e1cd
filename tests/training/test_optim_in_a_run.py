"""What the optimiser gets step by step in a run: the scheduled rate, the clipped gradient, the loss of the steps."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from entry_points import CSV, SMALL, done

from informer import checkpoint
from informer.checkpoint.restore import restore_model
from informer.training.optim import GuardedAdam

SAMPLE = ["dataset=sample", *SMALL, CSV, "run_dir=run"]


def watch(monkeypatch: pytest.MonkeyPatch, name: str, read: object) -> list[float]:
    """What `read` finds in the optimiser before each call of its method."""
    seen: list[float] = []
    step = getattr(GuardedAdam, name)

    def watched(self: GuardedAdam, *arguments: object) -> object:
        seen.append(read(self.param_groups[0]))
        return step(self, *arguments)

    monkeypatch.setattr(GuardedAdam, name, watched)
    return seen


def test_each_step_has_the_rate_of_the_schedule(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if the schedule only changes the curve in TensorBoard."""
    seen = watch(monkeypatch, "step_while_finite", lambda group: group["lr"])
    done("train", *SAMPLE, "optim.schedule=cosine", "optim.lr=4e-3", "trainer.max_steps=10")
    np.testing.assert_allclose(seen, [2e-3 * (1 + np.cos(np.pi * i / 10)) for i in range(10)])


@pytest.mark.parametrize("clip_norm", [None, 0.01])
def test_each_step_has_the_clipped_gradient(
    clip_norm: float | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red if `optim.clip_norm` is read and not applied."""

    def norm(group: dict[str, list[torch.Tensor]]) -> float:
        gradients = [parameter.grad for parameter in group["params"] if parameter.grad is not None]
        return float(torch.nn.utils.get_total_norm(gradients))

    seen = watch(monkeypatch, "step", norm)
    given = [] if clip_norm is None else [f"optim.clip_norm={clip_norm}"]
    done("train", *SAMPLE, *given, "trainer.max_steps=3")
    assert (max(seen) <= 0.01 * (1 + 1e-5)) == (clip_norm is not None), seen


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


def test_the_model_is_the_average_of_the_weights(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a loop over the weights after each step; red if it begins late, or the last weights are saved in its place."""
    ema, seen = 0.6, list[list[torch.Tensor]]()
    step = GuardedAdam.step_while_finite

    def watched(self: GuardedAdam, *arguments: torch.Tensor) -> None:
        for when in ("before", "after"):
            if when == "after" or not seen:
                seen.append([parameter.detach().clone() for parameter in self.param_groups[0]["params"]])
            if when == "before":
                step(self, *arguments)

    monkeypatch.setattr(GuardedAdam, "step_while_finite", watched)
    done("train", *SAMPLE, f"optim.ema={ema}", "trainer.max_steps=12", "trainer.max_epochs=1")
    expected = [weight.double() for weight in seen[0]]
    for n, weights in enumerate(seen[1:]):
        kept = min(ema, (1 + n) / (10 + n))
        expected = [kept * old + (1 - kept) * new.double() for old, new in zip(expected, weights, strict=True)]
    best, last = (restore_model(checkpoint.load(Path("run") / name)) for name in ("best.pt", "last.pt"))
    for average, exact in zip(best.parameters(), expected, strict=True):
        torch.testing.assert_close(average.double(), exact, rtol=1e-5, atol=1e-7)
    for weight, final in zip(last.parameters(), seen[-1], strict=True):
        assert torch.equal(weight, final)
