"""Generated periods are found; data without periods have none."""

import numpy as np
import pytest

from informer.data.read.frequency import Frequency
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
    found = find_seasons(hours)
    assert [season.period for season in found] == [168, 24]


DAYS, HOURS = Frequency.parse("D"), Frequency.parse("h")


@pytest.mark.parametrize("seed", range(4))
def test_a_season_close_to_a_year_is_a_year(seed: int) -> None:
    """Red if the top of a flat hill, which noise moves by days (to 362, 373, 362 and 376), is reported for a year."""
    time = np.arange(3650)
    values = np.sin(2 * np.pi * time / 365.25) + np.random.default_rng(seed).normal(size=3650) * 0.8
    assert abs(find_seasons(values)[0].period - 365) in (3, 8, 11)
    (season,) = find_seasons(values, frequency=DAYS)
    assert season == (365, autocorrelation(values)[365])


def test_a_year_of_weekdays_has_52_weeks() -> None:
    """Weekdays repeat after 364 days, so that days are more alike than after 365."""
    time = np.arange(1500)
    values = np.sin(2 * np.pi * time / 365.25) + (time % 7 < 2) + np.random.default_rng(0).normal(size=1500) * 0.1
    assert {season.period for season in find_seasons(values, frequency=DAYS)} == {7, 364}


def test_a_multiple_of_a_week_is_a_week_unless_it_is_clearly_stronger() -> None:
    """Red if chance makes six or ten weeks of one, or if a fortnight is taken for a week."""
    time = np.arange(365)
    for seed in (2, 5):
        random = np.random.default_rng(seed)
        random.normal(size=3650)
        weak = (time % 7 < 2) * 0.9 + random.normal(size=365)
        assert find_seasons(weak)[0].period in (42, 70)
        assert [season.period for season in find_seasons(weak, frequency=DAYS)] == [7]
    fortnight = 3.0 * (time % 14 == 3) + (time % 7 == 3) + random.normal(size=365) * 0.2
    assert find_seasons(fortnight, frequency=DAYS)[0].period == 14


def test_a_slow_drift_is_no_season_of_hundreds_of_days() -> None:
    """A year of hours has no yearly season yet, and every day is as like the next as the one 80 days later."""
    time = np.arange(8760)
    values = 5 * np.sin(2 * np.pi * time / 24) * (1 + 0.3 * np.sin(2 * np.pi * time / 8760)) + np.cos(time / 1394)
    assert [season.period for season in find_seasons(values, frequency=HOURS)] == [24]


def test_a_strong_season_that_no_calendar_has() -> None:
    """Red if the eleven years of sunspots are dropped for want of a name."""
    months = Frequency.parse("MS")
    values = wave(128) + np.random.default_rng(5).normal(size=len(TIME)) * 0.3
    (season,) = find_seasons(values, frequency=months)
    assert abs(season.period - 128) <= 0.05 * 128


def test_a_strength_is_the_correlation_with_the_values_a_period_later() -> None:
    values = wave(24) + np.random.default_rng(2).normal(size=len(TIME))
    (season,) = find_seasons(values)
    by_hand = np.corrcoef(values[: -season.period], values[season.period :])[0, 1]
    assert season.strength == pytest.approx(by_hand, abs=0.02)


def test_autocorrelation_is_the_loop() -> None:
    values = np.random.default_rng(3).normal(size=61) + np.arange(61) * 0.3
    rest = values - np.polyval(np.polyfit(np.arange(61), values, 1), np.arange(61))
    loop = [np.mean(rest[: 61 - lag] * rest[lag:]) for lag in range(21)]
    np.testing.assert_allclose(autocorrelation(values), np.array(loop) / loop[0], atol=1e-12)


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
