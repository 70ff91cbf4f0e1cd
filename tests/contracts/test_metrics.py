"""The contract of every metric in `METRICS`: the formula of its name in numpy, and finite where cells are."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from informer.data.windows import DataUnits
from informer.scoring.metrics import METRICS, Errors

FORMULAS: dict[str, Callable[..., float]] = {
    "bias": lambda f, y: np.mean(f - y),
    "mse": lambda f, y: np.mean((f - y) ** 2),
    "mae": lambda f, y: np.mean(np.abs(f - y)),
    "rmse": lambda f, y: np.sqrt(np.mean((f - y) ** 2)),
    "mape": lambda f, y: 100 * np.mean(np.abs((f - y) / y)),
    "smape": lambda f, y: 200 * np.mean(np.abs(f - y) / (np.abs(f) + np.abs(y))),
    "wape": lambda f, y: 100 * np.abs(f - y).sum() / np.abs(y).sum(),
}
"""Over windows, steps and columns; a metric without a formula here fails."""


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_is_its_formula(name: str) -> None:
    """Red if a metric has no formula, another value, or depends on how windows are put into batches."""
    generator = np.random.default_rng(0)
    forecast, actual = generator.normal(10, 3, (2, 6, 4, 3))
    for sizes in ((6,), (1, 5)):
        errors = Errors(np.ones((1, 3)))
        for f, y in zip(torch.tensor(forecast).split(sizes), torch.tensor(actual).split(sizes), strict=True):
            errors.add(f, y, DataUnits(torch.zeros(len(f), 3), torch.ones(len(f), 3)))
        means = errors.scaled
        assert means.overall()[name] == pytest.approx(FORMULAS[name](forecast, actual))
        for step, value in enumerate(means.by_step()[name]):
            assert value == pytest.approx(FORMULAS[name](forecast[:, step], actual[:, step]))
        for column, value in enumerate(means.by_column()[name]):
            expected = FORMULAS[name](forecast[..., column], actual[..., column])
            assert value == pytest.approx(expected)


@pytest.mark.parametrize("name", METRICS)
def test_a_perfect_forecast_has_no_error(name: str) -> None:
    """Red if a metric of a forecast without errors is not 0."""
    errors = Errors(np.ones((1, 3)))
    actual = torch.rand(2, 4, 3, dtype=torch.float64) + 1
    errors.add(actual, actual, DataUnits(torch.zeros(2, 3), torch.ones(2, 3)))
    assert errors.scaled.overall()[name] == 0
