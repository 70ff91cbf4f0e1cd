"""The contract of every loss in `LossKind`: the formula of its name, value by value, over what is observed."""

import math
from collections.abc import Callable
from typing import get_args

import numpy as np
import pytest
import torch
from scipy import stats

from informer.config.training import DISTRIBUTIONS, WITH_LEVELS, LossConfig, LossKind
from informer.training.optim import build_loss

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
    a gradient."""
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


def test_the_spectral_loss_is_its_formula() -> None:
    """By numpy's transform; red if a frequency is left out, or the weight is of the other part."""
    output, actual = drawn("spectral")
    actual = actual.nan_to_num(1.0)
    y, f = actual.numpy(), output.detach().numpy()
    spectrum = np.abs(np.fft.rfft(f - y, axis=1, norm="ortho")).mean()
    expected = np.abs(f - y).mean() + 0.2 * spectrum
    assert build_loss(LossConfig(kind="spectral"))(output, actual).item() == pytest.approx(expected, rel=1e-5)
