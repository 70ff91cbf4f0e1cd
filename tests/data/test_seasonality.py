"""Generated periods are found; data without periods have none."""

import numpy as np
import pytest
from scipy.signal import lfilter

from informer.data.seasonality import autocorrelation, find_seasons

TIME = np.arange(2000.0)


def wave(period: float, shape: str = "sine") -> np.ndarray:
    phase = TIME % period / period
    return {"sine": np.sin(2 * np.pi * phase), "saw": phase, "spike": (phase < 0.2) * 1.0}[shape]


@pytest.mark.parametrize("shape", ["sine", "saw", "spike"])
@pytest.mark.parametrize("period", [7, 24, 52, 365])
@pytest.mark.parametrize("trend", [0, 0.05, -3])
def test_one_period(period: int, shape: str, trend: float) -> None:
    noise = np.random.default_rng(period).normal(size=len(TIME))
    (season,) = find_seasons(1e4 + 10 * wave(period, shape) + trend * TIME + noise)
    assert abs(season.period - period) <= max(1, 0.02 * period)
    assert season.strength > 0.7
    (clear,) = find_seasons(wave(period, shape))
    assert abs(clear.period - period) <= 0.02 * period
    assert clear.strength == pytest.approx(1, abs=0.03)


def test_a_day_within_a_week() -> None:
    """The week is stronger, since every day equals the same day a week later."""
    random = np.random.default_rng(1)
    hours = 3 * wave(24) + 2 * wave(168) + random.normal(size=len(TIME)) * 0.3
    seasons = find_seasons(hours)
    assert [season.period for season in seasons] == [168, 24]


def test_a_strength_is_the_correlation_with_the_values_a_period_later() -> None:
    values = wave(24) + np.random.default_rng(2).normal(size=len(TIME))
    (season,) = find_seasons(values)
    by_hand = np.corrcoef(values[: -season.period], values[season.period :])[0, 1]
    assert season.strength == pytest.approx(by_hand, abs=0.02)


def test_autocorrelation_is_the_loop() -> None:
    values = np.random.default_rng(3).normal(size=61) + np.arange(61) * 0.3
    rest = values - np.polyval(np.polyfit(np.arange(61), values, 1), np.arange(61))
    loop = [np.mean(rest[: 61 - lag] * rest[lag:]) for lag in range(21)]
    np.testing.assert_allclose(autocorrelation(rest, 20), np.array(loop) / loop[0], atol=1e-12)


def test_a_year_cut_off_before_its_third_is_no_season_of_some_weeks() -> None:
    """Red if the rise towards a year, which 900 days do not hold three times, is reported as 42 weeks."""
    days = np.arange(900)
    noise = np.random.default_rng(0).normal(size=900) * 0.3
    values = np.sin(2 * np.pi * days / 7) + 0.7 * np.sin(2 * np.pi * days / 365) + noise
    assert [season.period for season in find_seasons(values)] == [7]


def test_a_day_of_minutes_is_a_day() -> None:
    """Red if hours within days, or noise that lasts for hours, make a day of 1,446 or 1,493 minutes."""
    time = np.arange(100_000)
    for seed in range(4):
        noise = lfilter([0.07], [1, -0.99], np.random.default_rng(seed).normal(size=len(time)))
        day = np.sin(2 * np.pi * time / 1440) + noise
        both = day, day + np.sin(2 * np.pi * time / 60)
        found = [find_seasons(values, usual_periods=[1440, 10080]) for values in both]
        periods = [season.period for seasons in found for season in seasons]
        assert 1440 in periods
        assert not [period for period in periods if 1300 < period < 1600 and period != 1440]


def test_a_week_does_not_hide_the_year() -> None:
    days = np.arange(1600)
    noise = np.random.default_rng(0).normal(size=1600) * 0.3
    values = np.sin(2 * np.pi * days / 7) + np.sin(2 * np.pi * days / 365) + noise
    assert sorted(season.period for season in find_seasons(values)) == [7, 364]  # a year in whole weeks


def test_the_calendars_period_is_preferred_only_to_those_that_look_the_same() -> None:
    """Red if noise makes a year of 53 weeks, or days of 25 hours, or if tides of 25 hours are called daily."""
    weeks = 500 + 120 * np.sin(2 * np.pi * np.arange(260) / 52)
    drawn = [weeks + np.random.default_rng(seed).normal(0, 40, 260) for seed in range(20)]
    assert {find_seasons(values)[0].period for values in drawn} - {52}
    assert {find_seasons(values, usual_periods=[52])[0].period for values in drawn} == {52}
    days = np.sin(2 * np.pi * np.arange(480) / 24)
    noisy = [days + np.random.default_rng(seed).normal(0, 1, 480) for seed in range(40)]
    assert {season.period for values in noisy for season in find_seasons(values)} & {48, 72, 96, 120}
    found = {season.period for values in noisy for season in find_seasons(values, usual_periods=[24, 168])}
    assert 24 in found
    assert not found & {23, 25, 48, 72, 96, 120}
    tides = np.sin(2 * np.pi * TIME / 25) + np.random.default_rng(1).normal(0, 0.3, len(TIME))
    assert find_seasons(tides, usual_periods=[24, 168])[0].period == 25
    short = [wave(23)[:300] + np.random.default_rng(seed).normal(0, 0.5, 300) for seed in range(40)]
    assert sum(find_seasons(values, usual_periods=[24])[0].period == 24 for values in short) < 15


@pytest.mark.parametrize(
    "values",
    [
        np.zeros(0),
        np.ones(1),
        np.full(50, 7.0),
        np.arange(500.0) * 1e12,
        np.random.default_rng(4).normal(size=1000),
        wave(24)[:60],
    ],
)
def test_what_has_no_season(values: np.ndarray) -> None:
    assert find_seasons(values) == []
