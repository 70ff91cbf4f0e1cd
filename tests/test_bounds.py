"""The default forecast: bounds of amounts, shares and counters at every level of the intervals, and short seasons."""

import numpy as np
import pandas as pd
import pytest

from informer import Forecaster

LEVELS = [50, 80, 95, 99]


def forecast(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends of intervals, [steps, levels]."""
    days = pd.date_range("2024-01-01", periods=len(values), freq="D")
    table = Forecaster().predict(pd.DataFrame({"day": days, "y": values}), horizon=14, intervals=LEVELS)
    lower, upper = ([f"y_{end}{level}" for level in LEVELS] for end in ("lo", "hi"))
    return table[lower].to_numpy(), table[upper].to_numpy()


@pytest.mark.parametrize("seed", range(5))
def test_intervals_of_amounts_begin_at_zero(seed: int) -> None:
    """Red if an end beyond the levels of the network is below zero."""
    rng = np.random.default_rng(seed)
    weekly = 2 * np.sin(2 * np.pi * np.arange(200) / 7)
    lower, upper = forecast(np.clip(rng.uniform(0, 3) + weekly + rng.normal(0, 1, 200), 0, None).round(2))
    assert lower.min() == 0
    assert (upper > lower).all()


@pytest.mark.parametrize(("most", "digits"), [(100, 1), (100, 0), (1, 3)])
def test_intervals_of_shares_end_at_the_whole(most: int, digits: int) -> None:
    """Red if an availability in percent is above 100; a temperature that seldom was 100 may rise."""
    rng = np.random.default_rng(0)
    share = 0.97 + 0.02 * np.sin(2 * np.pi * np.arange(300) / 7) + rng.normal(0, 0.015, 300)
    _, upper = forecast((most * np.clip(share, 0, 1)).round(digits))
    assert upper.max() == most
    for n, n_whole in ((300, 1), (600, 5)):
        below = (90 + 9 * np.sin(2 * np.pi * np.arange(n) / 7) + rng.normal(0, 0.3, n)).round(2)
        below[below.argsort()[-n_whole:]] = 100
        assert forecast(below)[1].max() > 100


@pytest.mark.parametrize("n", [26, 36, 44])
def test_a_season_seen_two_to_four_times_stays_in_the_forecast(n: int) -> None:
    """Red if the forecast is flatter than the season: its errors were twice those of the same month a year before."""
    rng, place = np.random.default_rng(n), np.arange(n + 12)
    truth = 100 + 20 * np.sin(2 * np.pi * place / 12)
    months = pd.date_range("2020-01-01", periods=n, freq="MS")
    frame = pd.DataFrame({"month": months, "y": truth[:n] + rng.normal(0, 3, n)})
    found = Forecaster().predict(frame, horizon=12)["y"].to_numpy()
    a_year_before = frame["y"].to_numpy()[-12:]
    assert np.abs(found - truth[n:]).mean() < 1.2 * np.abs(a_year_before - truth[n:]).mean()
