"""The theta model against its equations, fitted by an optimiser, and against another program."""

import numpy as np
import pytest
import torch
from scipy.optimize import lsq_linear

from informer.members.theta import ALPHAS, theta

WALK = [10.0, 11.2, 10.9, 12.4, 13.1, 12.8, 14.0, 15.3, 14.9, 16.2, 17.0, 16.8, 18.1]
T = np.arange(48)
QUARTERS = (200 + 3 * T + 15 * np.sin(T * 1.3) + 10 * np.cos(T * 0.37)) * np.array([0.8, 1.1, 1.3, 0.8])[T % 4]


@pytest.mark.parametrize(
    ("y", "season", "expected"),
    [
        (WALK, 1, [18.377, 18.937, 19.490, 20.038, 20.582]),
        (QUARTERS.round(1), 4, [260.28, 357.25, 425.63, 261.85, 260.28, 357.25]),
    ],
    ids=["walk", "quarters"],
)
def test_forecasts_are_near_those_of_statsforecast(y: np.ndarray, season: int, expected: list[float]) -> None:
    """Its DynamicOptimizedTheta (2.1.1) searches with a simplex; red if a season or the line is another one."""
    values = torch.tensor(y, dtype=torch.float64)[None]
    ours = theta(values, torch.ones_like(values, dtype=torch.bool), season, len(expected))[0].numpy()
    np.testing.assert_allclose(ours, expected, rtol=0.02)


def errors_and_forecasts(
    y: np.ndarray, start: float, w: float, alpha: float, horizon: int
) -> tuple[np.ndarray, np.ndarray]:
    """One-step errors from the second row on, and forecasts: equations 10 to 14 of Fiorucci et al. 2016, row by row."""
    level, mean, slope, intercept = start, 0.0, 0.0, 0.0
    errors, forecasts = [], []
    for t in range(1, len(y) + horizon + 1):
        line = intercept * (1 - alpha) ** (t - 1) + slope * (1 - (1 - alpha) ** t) / alpha
        mu = level + w * line
        row = y[t - 1] if t <= len(y) else mu
        if t <= len(y):
            errors.append(row - mu)
        else:
            forecasts.append(mu)
        level = alpha * row + (1 - alpha) * level
        if t > 1:
            slope = ((t - 2) * slope + 6 * (row - mean) / t) / (t + 1)
        mean = ((t - 1) * mean + row) / t
        intercept = mean - slope * (t + 1) / 2
    return np.array(errors[1:]), np.array(forecasts)


@pytest.mark.parametrize("n", [5, 12, 40])
def test_forecasts_are_those_of_the_least_squares(n: int) -> None:
    """An optimiser finds l_0 and w for every alpha; red if a sum of products or a bound is wrong."""
    rng = np.random.default_rng(n)
    y = 50 + np.cumsum(rng.normal(0.5, 1, size=n))
    best, expected = np.inf, None
    for alpha in ALPHAS.tolist():
        base, _ = errors_and_forecasts(y, 0.0, 0.0, alpha, 1)
        columns = [base - errors_and_forecasts(y, *unit, alpha, 1)[0] for unit in ((1.0, 0.0), (0.0, 1.0))]
        found = lsq_linear(np.stack(columns, axis=1), base, ([-np.inf, 0.0], [np.inf, 1.0]), tol=1e-14)
        errors, forecasts = errors_and_forecasts(y, *found.x, alpha, 7)
        if (total := np.square(errors).sum()) < best:
            best, expected = total, forecasts
    ours = theta(torch.tensor(y)[None], torch.ones(1, n, dtype=torch.bool), 1, 7)[0].numpy()
    np.testing.assert_allclose(ours, expected, rtol=1e-5)


def test_missing_rows_in_front_and_other_series_change_nothing() -> None:
    rng = np.random.default_rng(0)
    y = torch.tensor(100 + np.cumsum(rng.normal(size=(3, 60)), axis=1))
    observed = torch.ones_like(y, dtype=torch.bool)
    observed[1, :35] = False
    together = theta(y, observed, 4, 9)
    alone = theta(y[1:2, 35:], observed[1:2, 35:], 4, 9)
    torch.testing.assert_close(together[1:2], alone)
    torch.testing.assert_close(theta(1e6 * y, observed, 4, 9), 1e6 * together)
    assert (together - y[:, -1:]).abs().max() < 10


@pytest.mark.parametrize("positive", [True, False])
def test_a_season_without_noise_goes_on(positive: bool) -> None:
    """Multiplied or added; red if the season is out of step with the last row."""
    t = np.arange(76)
    pattern = np.array([0.5, 1.5, 1.2, 0.8])
    y = 20 * pattern[t % 4] if positive else 20 * (pattern[t % 4] - 1)
    forecast = theta(torch.tensor(y[:70])[None], torch.ones(1, 70, dtype=torch.bool), 4, 6)[0].numpy()
    np.testing.assert_allclose(forecast, y[70:], atol=1e-9)


@pytest.mark.parametrize("values", [[3.0], [3.0, 4.0], [0.0] * 30, [5.0] * 30])
def test_series_without_a_trend_to_estimate_keep_their_last_value(values: list[float]) -> None:
    forecast = theta(torch.tensor([values], dtype=torch.float64), torch.ones(1, len(values), dtype=torch.bool), 1, 3)
    torch.testing.assert_close(forecast, torch.full((1, 3), values[-1], dtype=torch.float64))
