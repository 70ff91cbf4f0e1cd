"""Metrics against loops over every number, written from the definitions."""

import math

import numpy as np
import pytest
import torch

from informer.data.windows import DataUnits
from informer.scoring.metrics import METRICS, ErrorMeans, Errors, MaseScale, seasonal_scale, to_float64


def loops(forecast, actual, scale):
    """The metrics over [w t n] arrays, one number at a time."""
    squared, absolute, percent, symmetric = [], [], [], []
    per_column = {}
    for f, y, column in zip(forecast.ravel(), actual.ravel(), np.indices(actual.shape)[2].ravel(), strict=True):
        squared.append((f - y) ** 2)
        absolute.append(abs(f - y))
        if y != 0:
            percent.append(abs(f - y) / abs(y))
        symmetric.append(0.0 if f == y == 0 else 2 * abs(f - y) / (abs(f) + abs(y)))
        per_column.setdefault(column, []).append(abs(f - y))
    ratios = [np.mean(errors) / scale[c] for c, errors in per_column.items() if not math.isnan(scale[c])]
    return {
        "bias": np.mean(forecast - actual),
        "mse": np.mean(squared),
        "mae": np.mean(absolute),
        "rmse": math.sqrt(np.mean(squared)),
        "mape": 100 * np.mean(percent),
        "smape": 100 * np.mean(symmetric),
        "wape": 100 * sum(absolute) / np.abs(actual).sum(),
        "mase": np.mean(ratios),
    }


@pytest.fixture
def case():
    """Seven windows, five steps, three columns; some actuals are zero, some forecasts too."""
    rng = np.random.default_rng(3)
    forecast, actual = rng.normal(size=(2, 7, 5, 3))
    actual[2, 1, 0] = actual[4, 4, 2] = forecast[4, 4, 2] = 0.0
    return forecast, actual, np.array([0.5, 2.0, 1.25])


def summed(forecast, actual, scale, batch_size=7):
    sums = ErrorMeans(scale)
    for f, y in zip(
        torch.from_numpy(forecast).split(batch_size), torch.from_numpy(actual).split(batch_size), strict=True
    ):
        sums.add_forecast(f, y)
    return sums


@pytest.mark.parametrize("batch_size", [1, 2, 7])
def test_every_view_equals_loops_whatever_the_batches(case, batch_size):
    forecast, actual, scale = case
    sums = summed(*case, batch_size)
    by_step, by_column = sums.by_step(), sums.by_column()
    assert sums.windows == 7
    assert sums.overall() == pytest.approx(loops(forecast, actual, scale))
    for step in range(5):
        expected = loops(forecast[:, step : step + 1], actual[:, step : step + 1], scale)
        assert {name: by_step[name][step] for name in METRICS} == pytest.approx(expected)
    for c in range(3):
        expected = loops(forecast[..., c : c + 1], actual[..., c : c + 1], scale[c : c + 1])
        assert {name: by_column[name][c] for name in METRICS} == pytest.approx(expected)


def test_mape_says_how_many_actuals_it_left_out(case):
    assert summed(*case).zero_actuals == 2


def test_mape_is_nan_when_every_actual_is_zero():
    assert math.isnan(summed(np.ones((2, 1, 1)), np.zeros((2, 1, 1)), np.ones(1)).overall()["mape"])


def test_mase_leaves_an_undefined_column_out_of_averages_only(case):
    forecast, actual, _ = case
    sums = summed(forecast, actual, np.array([0.5, math.nan, 1.25]))
    assert sums.no_mase == [1]
    assert math.isnan(sums.by_column()["mase"][1])
    assert sums.overall()["mase"] == pytest.approx(loops(forecast, actual, [0.5, math.nan, 1.25])["mase"])


def test_a_forecast_that_is_nan_shows_in_every_metric(case):
    forecast, actual, scale = case
    forecast[4, 4, 1] = math.nan
    assert all(math.isnan(value) for value in summed(forecast, actual, scale).overall().values())


def test_original_units_are_the_affine_image_of_scaled_ones(case):
    forecast, actual, scale = (torch.from_numpy(part).float() for part in case)
    centre, spread = torch.tensor([10.0, -3.0, 0.0]), torch.tensor([2.0, 0.5, 7.0])
    # each window is of a series of its own units
    centre, spread = centre + torch.arange(len(actual))[:, None], spread * (1 + torch.arange(len(actual))[:, None])
    errors = Errors(MaseScale(scale.numpy(), 3 * scale.numpy()))
    errors.add(forecast, actual, DataUnits(centre, spread))
    back = [(to_float64(x) * spread[:, None] + centre[:, None]).numpy() for x in (forecast, actual)]
    assert errors.original.overall() == pytest.approx(loops(*back, (3 * scale).numpy()))
    assert errors.scaled.overall() == pytest.approx(loops(forecast.numpy(), actual.numpy(), scale.numpy()))


def test_a_zero_of_the_data_stays_zero_through_float32_scaling():
    values = torch.tensor([0.0, 1.7, 3.1], dtype=torch.float64).reshape(1, 3, 1)
    centre, spread = 1234.567, 0.37
    scaled = ((values - centre) / spread).float()
    errors = Errors(MaseScale(np.ones(1), np.ones(1)))
    errors.add(scaled + 1.0, scaled, DataUnits(torch.full((1, 1), centre), torch.full((1, 1), spread)))
    assert errors.original.zero_actuals == 1
    assert errors.original.overall()["mape"] == pytest.approx(100 * (0.37 / 1.7 + 0.37 / 3.1) / 2, rel=1e-3)


def test_seasonal_scale_by_loops_does_not_cross_series():
    rng = np.random.default_rng(0)
    series = [rng.normal(size=(rows, 2)) for rows in (9, 3, 5)]
    steps = [abs(rows[t] - rows[t - 3]) for rows in series for t in range(3, len(rows))]
    scale = seasonal_scale(series, 3)
    np.testing.assert_allclose(scale, np.mean(steps, axis=0))


def test_seasonal_scale_is_nan_for_a_constant_column_and_for_short_series():
    rows = np.stack([np.ones(6), np.arange(6.0)], axis=1)
    assert np.isnan(seasonal_scale([rows], 2)).tolist() == [True, False]
    assert np.isnan(seasonal_scale([rows], 6)).all()
