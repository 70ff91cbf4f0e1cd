"""The contract of every loss in `LossKind`: the formula of its name, value by value, over what is observed; Adam."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from torch import nn

from informer import Forecaster, InputError
from informer.config.training import DISTRIBUTIONS, WITH_LEVELS, LossConfig, LossKind, OptimConfig, OptimKind
from informer.training.optim import build_loss, build_optimizer

LEVELS = (0.1, 0.5, 0.9)


def huber(given: float, value: float) -> float:
    error = abs(given - value)
    return error**2 / 2 if error < 1 else error - 0.5


def pinball(given: np.ndarray, value: float) -> float:
    errors = value - given
    return float(np.mean(np.maximum(np.array(LEVELS) * errors, (np.array(LEVELS) - 1) * errors)))


def normal(given: np.ndarray, value: float) -> float:
    """Parameters: center, center + scale."""
    return -stats.norm.logpdf(value, given[0], given[1] - given[0])


def student_t(given: np.ndarray, value: float) -> float:
    """Parameters: center, center + scale, center + scale / degrees of freedom."""
    center, scale = given[0], given[1] - given[0]
    return -stats.t.logpdf(value, scale / (given[2] - center), center, scale)


def negative_binomial(given: np.ndarray, value: float) -> float:
    """Parameters: mean, mean + variance beyond that of Poisson by mean, and the values of the counts zero and one."""
    mean, excess = given[0], given[1] - given[0]
    return -stats.nbinom.logpmf(round(value), mean / excess, 1 / (1 + excess))


FORMULAS: dict[LossKind, Callable[..., float]] = {
    "mse": lambda given, value: (given - value) ** 2,
    "mae": lambda given, value: abs(given - value),
    "huber": huber,
    "quantile": pinball,
    "normal": normal,
    "student_t": student_t,
    "negative_binomial": negative_binomial,
}
"""Of a forecast, in which the last axis has quantiles or parameters, and an actual value."""

SHAPE = (4, 5, 3)


def drawn(kind: LossKind) -> tuple[torch.Tensor, torch.Tensor]:
    """An output of a network, and actual values, of which two in five are missing."""
    draw = torch.Generator().manual_seed(7)
    n = {"quantile": 3, "normal": 2, "student_t": 3, "negative_binomial": 4}.get(kind)
    output = torch.rand(*SHAPE, *([n] if n else []), generator=draw, dtype=torch.float64) * 3 + 0.2
    if kind in DISTRIBUTIONS:
        output[..., 0] += 2
        output[..., 1] += output[..., 0]
    if kind == "student_t":
        output[..., 2] = output[..., 0] + 0.3 * (output[..., 1] - output[..., 0])
    if kind == "negative_binomial":
        output[..., 2], output[..., 3] = 0.0, 1.0
    actual = (torch.rand(SHAPE, generator=draw, dtype=torch.float64) * 6).round()
    return output.requires_grad_(), actual.masked_fill(torch.rand(SHAPE, generator=draw) < 0.4, torch.nan)


@pytest.mark.parametrize("kind", [kind for kind in get_args(LossKind) if kind != "spectral"])
def test_a_loss_is_its_formula(kind: LossKind) -> None:
    """Red if a loss has no formula here or another value, or if a missing value counts in the sum, in the number or in
    a gradient, or with weights of rows the loss is not the weighted mean."""
    output, actual = drawn(kind)
    config = LossConfig(kind=kind, quantiles=list(LEVELS) if kind in WITH_LEVELS else [])
    seen = [place for place in np.ndindex(*SHAPE) if not math.isnan(actual[place])]
    expected = np.mean([FORMULAS[kind](output[place].detach().numpy(), actual[place].item()) for place in seen])
    loss = build_loss(config, has_gaps=True)(output, actual)
    # the mean of counts is held above zero by a soft bound, which moves it by at most 0.1 %
    assert loss.item() == pytest.approx(expected, rel=2e-3 if kind == "negative_binomial" else 1e-5)
    loss.backward()
    assert output.grad is not None
    assert torch.equal((output.grad != 0).reshape(*SHAPE, -1).any(-1), ~actual.isnan())
    whole = actual.nan_to_num(1.0)
    assert torch.equal(build_loss(config, has_gaps=True)(output, whole), build_loss(config)(output, whole))
    weight = torch.arange(20, dtype=torch.float64).reshape(4, 5)  # of the rows
    each = [FORMULAS[kind](output[place].detach().numpy(), actual[place].item()) for place in seen]
    expected = np.average(each, weights=[weight[place[:2]].item() for place in seen])
    loss = build_loss(config, has_gaps=True)(output, actual, weight)
    assert loss.item() == pytest.approx(expected, rel=2e-3 if kind == "negative_binomial" else 1e-5)
    assert build_loss(config, has_gaps=True)(output, actual, 0 * weight).item() == 0


def test_weights_of_rows_are_in_the_losses_of_a_run(tmp_path: Path) -> None:
    """Against weighted means of forecasts over all windows, by a network that hardly moves; red if the column is read
    or forecast, is of other rows, or is not in one of the two losses."""
    draw = np.random.default_rng(3)
    times = pd.date_range("2024-01-01", periods=150, freq="D", name="date")
    frame = pd.DataFrame({"date": times, "w": draw.integers(0, 4, 150) * 1.0, "y": draw.normal(size=150)})
    model = Forecaster(
        "tiny", weight_col="w", run_dir=str(tmp_path / "run"), seq_len=12, label_len=6, pred_len=4, scaler="none",
        **{"dataset.split": {"kind": "rows", "train": 90, "val": 30, "test": 30}, "trainer.max_epochs": 1,
           "trainer.batch_size": 999, "trainer.calibration": 0, "trainer.tracker": ["csv"], "optim.lr": 1e-9,
           "model.dropout": 0, "model.distil": "none", "attn": "full", "non_negative": "none"},
    ).fit(frame)  # fmt: skip
    assert model.trained.columns.inputs == ("y",)
    rolled = model.backtest(frame.drop(columns="w"), stride=1)
    ends = rolled.groupby("origin")["date"].transform("max")
    errors = (rolled["forecast"] - rolled["actual"]) ** 2
    weights = rolled["date"].map(frame.set_index("date")["w"])
    losses = pd.read_csv(tmp_path / "run" / "losses.csv").iloc[-1]
    parts = {"train_loss": ends <= times[89], "val_loss": (rolled["origin"] >= times[89]) & (ends <= times[119])}
    for name, rows in parts.items():
        assert losses[name] == pytest.approx(np.average(errors[rows], weights=weights[rows]), rel=1e-4)
    with pytest.raises(InputError, match="weight_col"):  # its members forecast equal rows
        Forecaster(weight_col="w", target="y").leaderboard(frame, models=["naive", "tiny"], horizon=4)


def test_the_spectral_loss_is_its_formula() -> None:
    """By numpy's transform; red if a frequency is left out, or the weight is of the other part."""
    output, actual = drawn("spectral")
    actual = actual.nan_to_num(1.0)
    y, f = actual.numpy(), output.detach().numpy()
    spectrum = np.abs(np.fft.rfft(f - y, axis=1, norm="ortho")).mean()
    expected = np.abs(f - y).mean() + 0.2 * spectrum
    assert build_loss(LossConfig(kind="spectral"))(output, actual).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("kind", get_args(OptimKind))
def test_adam_by_its_formula(kind: OptimKind) -> None:
    """Red if adam does not add its decay to the gradient, or adamw does."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 1))
    optimizer = build_optimizer(OptimConfig(kind=kind, lr=0.01, weight_decay=0.1), model)
    weight = model[0].weight
    w, m, v = weight.detach().double().numpy().copy(), 0.0, 0.0
    for t in (1, 2, 3):
        optimizer.zero_grad()
        model(torch.full((2, 3), float(t))).square().sum().backward()
        g = weight.grad.double().numpy() + (0.1 * w if kind == "adam" else 0.0)
        w = w - (0.0 if kind == "adam" else 0.01 * 0.1 * w)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        w = w - 0.01 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        optimizer.step()
        np.testing.assert_allclose(weight.detach(), w, rtol=1e-4, atol=1e-6)
