"""The parts of a run one by one: rates, gradients, Adam, losses, patience, means; and what the optimiser gets."""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch
from entry_points import CSV, SMALL, done
from stores import one_series
from torch import Tensor, nn

from informer import checkpoint
from informer.base.errors import InputError
from informer.base.start import StopRequest
from informer.checkpoint.restore import restore_model
from informer.config.model import WindowSizes
from informer.config.training import LossConfig, LossKind, OptimConfig, OptimKind, Schedule, TrainerConfig
from informer.data.windows import Windows
from informer.networks.models.base import ModelDims
from informer.training.loop import mean_loss, window_order
from informer.training.optim import (
    EarlyStopping,
    GuardedAdam,
    build_loss,
    build_optimizer,
    gradient_norm,
    learning_rate,
)
from informer.training.processes import Processes
from informer.training.state import Checkpointer, State


def test_the_rate_halves_each_epoch() -> None:
    halving = OptimConfig(lr=0.8)
    rates = [learning_rate(halving, epoch=epoch, done=0.5) for epoch in (1, 2, 3)]
    assert rates == pytest.approx([0.8, 0.4, 0.2])
    constant = OptimConfig(lr=0.8, schedule=Schedule.constant)
    assert [learning_rate(constant, epoch=epoch, done=0.5) for epoch in (1, 2, 3)] == [0.8] * 3


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 1))


@pytest.mark.parametrize("clip_norm", [None, 0.5, 1e6])
def test_the_norm_is_that_before_clipping(clip_norm: float | None) -> None:
    model = network()
    model(torch.ones(4, 3)).sum().backward()
    gradients = [p.grad.numpy().copy() for p in model.parameters() if p.grad is not None]
    norm = math.sqrt(sum((gradient.astype(float) ** 2).sum() for gradient in gradients))
    assert gradient_norm(model, clip_norm).item() == pytest.approx(norm, rel=1e-6)
    factor = min(1.0, clip_norm / norm) if clip_norm else 1.0
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        np.testing.assert_allclose(parameter.grad, gradient * factor, rtol=1e-5)


@pytest.mark.parametrize("kind", OptimKind)
def test_adam_by_its_formula(kind: OptimKind) -> None:
    """Red if adam does not add its decay to the gradient, or adamw does."""
    model = network()
    optimizer = build_optimizer(OptimConfig(kind=kind, lr=0.01, weight_decay=0.1), model)
    weight = model[0].weight
    w, m, v = weight.detach().double().numpy().copy(), 0.0, 0.0
    for t in (1, 2, 3):
        optimizer.zero_grad()
        model(torch.full((2, 3), float(t))).square().sum().backward()
        g = weight.grad.double().numpy() + (0.1 * w if kind is OptimKind.adam else 0.0)
        w = w - (0.0 if kind is OptimKind.adam else 0.01 * 0.1 * w)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        w = w - 0.01 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        optimizer.step()
        np.testing.assert_allclose(weight.detach(), w, rtol=1e-4, atol=1e-6)


def test_losses_by_their_formulas() -> None:
    forecast, actual = torch.tensor([[0.0, 1.0], [5.0, 2.0]]), torch.tensor([[0.5, 1.0], [2.0, 4.0]])
    expected = {
        LossKind.mse: (0.25 + 0 + 9 + 4) / 4,
        LossKind.mae: (0.5 + 0 + 3 + 2) / 4,
        LossKind.huber: (0.125 + 0 + 2.5 + 1.5) / 4,
    }
    values = {kind: build_loss(LossConfig(kind=kind))(forecast, actual).item() for kind in expected}
    assert values == pytest.approx(expected)


@pytest.mark.parametrize("rows", [1, 5, 8])
def test_the_spectral_loss_by_sums_of_cosines_and_sines(rows: int) -> None:
    rng = np.random.default_rng(rows)
    forecast, actual = rng.normal(size=(2, 4, rows, 3))
    error, sizes = forecast - actual, []
    for k in range(rows // 2 + 1):
        turns = 2 * np.pi * k * np.arange(rows)[:, None] / rows
        real, imaginary = (error * np.cos(turns)).sum(axis=1), (error * np.sin(turns)).sum(axis=1)
        sizes.append(np.hypot(real, imaginary) / np.sqrt(rows))
    loss = build_loss(LossConfig(kind=LossKind.spectral, alpha=0.3))
    value = loss(torch.from_numpy(forecast), torch.from_numpy(actual)).item()
    assert value == pytest.approx(np.abs(error).mean() + 0.3 * np.mean(sizes))


def test_patience() -> None:
    stopping = EarlyStopping(patience=2)
    losses = enumerate([3.0, 2.0, 2.0, 1.0, 5.0, 4.0], start=1)
    states = [(stopping.update(loss, epoch), stopping.should_stop) for epoch, loss in losses]
    assert states == [(True, False), (True, False), (False, False), (True, False), (False, False), (False, True)]
    assert (stopping.best_loss, stopping.best_epoch) == (1, 4)


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_no_number_ends_the_run(loss: float) -> None:
    with pytest.raises(InputError, match="epoch 3: validation loss is"):
        EarlyStopping(patience=2).update(loss, 3)


@pytest.mark.parametrize(("n_windows", "max_steps", "steps"), [(64, None, 4), (65, None, 6), (65, 5, 5), (65, 9, 6)])
def test_steps_of_a_run(n_windows: int, max_steps: int | None, steps: int) -> None:
    assert TrainerConfig(max_epochs=2, batch_size=32, max_steps=max_steps).n_steps(n_windows) == steps


@pytest.mark.parametrize(("per_epoch", "max_steps", "steps"), [(1, None, 2), (3, None, 6), (9, None, 6), (2, 3, 3)])
def test_steps_of_a_run_with_epochs_of_its_own(per_epoch: int, max_steps: int | None, steps: int) -> None:
    """65 windows in batches of 32 are three steps, which an epoch never exceeds."""
    config = TrainerConfig(max_epochs=2, batch_size=32, steps_per_epoch=per_epoch, max_steps=max_steps)
    assert config.n_steps(65) == steps


class _Zero(nn.Module):
    dims = ModelDims(enc_in=1, c_out=1, mark_sizes=(1,), seq_len=3, label_len=1, pred_len=2)
    reads_series, non_negative, members, distribution = False, (), (), None

    def forward(self, enc_x: Tensor, enc_mark: Tensor, dec_x: Tensor, dec_mark: Tensor) -> Tensor:
        return torch.zeros(len(enc_x), 2, enc_x.shape[2]) + float(self.training)


class _Case(NamedTuple):
    windows: Windows
    values: np.ndarray


@pytest.fixture
def case() -> _Case:
    values = np.random.default_rng(0).normal(size=(12, 1)).astype(np.float32)
    store = one_series(torch.from_numpy(values))
    sizes = WindowSizes(seq_len=3, label_len=1, pred_len=2)
    return _Case(Windows(store, starts=torch.arange(8), sizes=sizes, targets=[0]), values)


@pytest.mark.parametrize("batch_size", [1, 3, 8, 100])
def test_every_window_counts_alike_in_the_mean_loss(batch_size: int, case: _Case) -> None:
    expected = np.mean([case.values[start + 3 : start + 5] ** 2 for start in range(8)])
    value = mean_loss(_Zero().train(), case.windows, nn.functional.mse_loss, batch_size, processes=Processes())
    assert value == pytest.approx(expected)


def test_another_seed_or_epoch_is_another_order() -> None:
    """Red if the order of windows forgets one of the two it depends on."""
    sizes = WindowSizes(seq_len=4, label_len=0, pred_len=2)
    windows = Windows(one_series(torch.zeros(60, 1)), starts=torch.arange(50), sizes=sizes, targets=[0])
    drawn = ((1, 1), (1, 1), (2, 1), (1, 2))
    orders = [window_order(windows, seed=seed, epoch=epoch).tolist() for seed, epoch in drawn]
    assert orders[0] == orders[1]
    assert sorted(orders[0]) == list(range(50))
    assert orders[0] != orders[2]
    assert orders[0] != orders[3]


def test_a_save_is_due_every_so_many_minutes() -> None:
    """By a clock in hand; red if it forgets when it saved last."""
    now, saved = [100.0], []
    checkpointer = Checkpointer(
        lambda state, is_best: saved.append(now[0]), every_minutes=10.0, stop=StopRequest(), processes=Processes(),
        clock=lambda: now[0],
    )  # fmt: skip
    model = network()
    state = State(model=model, optimizer=build_optimizer(OptimConfig(), model), stopping=EarlyStopping(3))
    checkpointer.save(state)  # of what was fitted, before the first step: no signal has come yet
    for now[0], due in ((699.0, False), (700.0, True), (1299.0, False), (1300.0, True)):
        assert checkpointer.is_due(together=True) == due
        if due:
            checkpointer.save(state)
    assert saved == [100.0, 700.0, 1300.0]


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
    assert rows["mixed"].progress.best_loss == rows["mse"].progress.best_loss != rows["mae"].progress.best_loss


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
    best, last = (
        restore_model(checkpoint.load(Path("run") / name)) for name in ("best.safetensors", "last.safetensors")
    )
    for average, exact in zip(best.parameters(), expected, strict=True):
        torch.testing.assert_close(average.double(), exact, rtol=1e-5, atol=1e-7)
    for weight, final in zip(last.parameters(), seen[-1], strict=True):
        assert torch.equal(weight, final)
