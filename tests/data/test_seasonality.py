"""Generated periods are found; data without periods have none."""

import numpy as np
import pytest
from scipy.signal import lfilter

from informer.data.seasonality import find_seasons

TIME = np.arange(2000.0)


def wave(period: float, n: int = 2000) -> np.ndarray:
    return np.sin(2 * np.pi * np.arange(n) / period)


def noise(seed: int, n: int = 2000) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=n)


def periods(values: np.ndarray, *usual: int) -> list[int]:
    return [season.period for season in find_seasons(values, usual_periods=[*usual])]


SHAPES = {
    "sine": lambda phase: np.sin(2 * np.pi * phase),
    "saw": lambda phase: phase,
    "spike": lambda x: (x < 0.2) * 1.0,
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("period", "trend"), [(7, -3), (24, 0), (52, 0.05), (365, 0.05)])
def test_one_period(period: int, shape: str, trend: float) -> None:
    """With the correlation of the values and those a period later as its strength."""
    values = SHAPES[shape](TIME % period / period)
    noisy = 10 * values + noise(period)
    (season,) = find_seasons(1e4 + noisy + trend * TIME)
    assert abs(season.period - period) <= max(1, 0.02 * period)
    by_hand = np.corrcoef(noisy[: -season.period], noisy[season.period :])[0, 1]
    assert season.strength == pytest.approx(by_hand, abs=0.03)
    (clear,) = find_seasons(values)
    assert abs(clear.period - period) <= 0.02 * period
    assert clear.strength == pytest.approx(1, abs=0.03)


def test_periods_within_periods() -> None:
    """A week is stronger than a day within it, since every day equals the same day a week later. Red if the rise
    towards a year, which 900 days do not hold three times, is reported as 42 weeks, or a week hides a year."""
    assert periods(3 * wave(24) + 2 * wave(168) + 0.3 * noise(1)) == [168, 24]
    assert periods(wave(7, 900) + 0.7 * wave(365, 900) + 0.3 * noise(0, 900)) == [7]
    assert sorted(periods(wave(7, 1600) + wave(365, 1600) + 0.3 * noise(0, 1600))) == [7, 364]  # a year in whole weeks


def test_a_day_of_minutes_is_a_day() -> None:
    """Red if hours within days, or noise that lasts for hours, make a day of 1,446 or 1,493 minutes."""
    for seed in range(2):
        day = wave(1440, 100_000) + lfilter([0.07], [1, -0.99], noise(seed, 100_000))
        found = [*periods(day, 1440, 10080), *periods(day + wave(60, 100_000), 1440, 10080)]
        assert 1440 in found
        assert not [period for period in found if 1300 < period < 1600 and period != 1440]


def test_the_calendars_period_is_preferred_only_to_those_that_look_the_same() -> None:
    """Red if noise makes a year of 53 weeks, or days of 25 hours, or if tides of 25 hours are called daily."""
    drawn = [500 + 120 * wave(52, 260) + 40 * noise(seed, 260) for seed in range(20)]
    assert {periods(values)[0] for values in drawn} - {52}
    assert {periods(values, 52)[0] for values in drawn} == {52}
    noisy = [wave(24, 480) + noise(seed, 480) for seed in range(40)]
    assert {period for values in noisy for period in periods(values)} & {48, 72, 96, 120}
    found = {period for values in noisy for period in periods(values, 24, 168)}
    assert 24 in found
    assert not found & {23, 25, 48, 72, 96, 120}
    assert periods(wave(25) + 0.3 * noise(1), 24, 168)[0] == 25
    short = [wave(23, 300) + 0.5 * noise(seed, 300) for seed in range(40)]
    assert sum(periods(values, 24)[0] == 24 for values in short) < 15


@pytest.mark.parametrize("values", [np.zeros(0), np.ones(1), np.full(50, 7.0), TIME * 1e12, noise(4), wave(24, 60)])
def test_what_has_no_season(values: np.ndarray) -> None:
    assert find_seasons(values) == []
