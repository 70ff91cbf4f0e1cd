"""Seasons of a series: spectral lines confirmed by the autocorrelation.

M. Vlachos, P. Yu and V. Castelli, "On periodicity detection and structural periodic similarity", SDM 2005: the spectrum
proposes periods, including those of overtones; at a true period the autocorrelation has a local maximum. Where the
step is known, periods of the calendar are proposed too, and replace those that are nearly as long or multiples.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float64

from informer.data.read.frequency import Frequency

CYCLES = 3
"""Minimum number of times that a season must occur."""

LEAST_POWER, MOST_LINES = 0.01, 20
"""Minimum share of the variance of a spectral line, and maximum number of lines."""

WEAKEST = 0.2
"""Minimum autocorrelation of a season."""

RISE = 0.1
"""Minimum rise of the autocorrelation to a season from its lowest value before."""

WEAKEST_OTHER = 0.3
"""Minimum autocorrelation of a season that is not one of the calendar's, if these are known."""

LEAST_AS_CLEAR = 0.75
"""Minimum share of a season's autocorrelation for a calendar period that is nearly as long."""

NEARBY, MOST_MULTIPLE = 0.1, 30
"""Tolerance, as a share of a period, for equal periods and multiples; and maximum factor of a multiple."""


class Season(NamedTuple):
    """A period in rows, and its autocorrelation; 1 means a perfect repeat."""

    period: int
    strength: float


def find_seasons(
    values: Float64[np.ndarray, "t"], most: int = 3, *, frequency: Frequency | None = None
) -> list[Season]:
    """The strongest seasons of a column after removing its linear trend, without weaker multiples of them.

    Args:
        values: finite values at equal steps.
        most: largest number of seasons.
        frequency: the step, whose calendar periods (day, week, year) are preferred; None: not known.

    Returns:
        Seasons, strongest first; empty for a column that never changes or is too short.
    """
    rest = _without_trend(values)
    if not rest.any():
        return []
    correlation = _correlation(rest)
    lags = (_top_of_hill(correlation, period, len(rest)) for period in _proposed(rest))
    found = [one for one in _at(correlation, lags) if _is_peak(correlation, one)]
    if frequency is not None:
        found = _of_calendar(found, correlation, frequency.periods)
    selected: list[Season] = []
    for season in sorted(found, key=lambda season: -season.strength):
        if not any(_is_multiple(season.period, other.period) for other in selected):
            selected.append(season)
    return selected[:most]


def bridged(values: Float64[np.ndarray, "t"]) -> Float64[np.ndarray, "t"]:
    """Values with gaps interpolated, good enough for finding seasons."""
    column = pd.Series(values)
    return column.where(np.isfinite(values)).interpolate(limit_direction="both").fillna(0.0).to_numpy()


def autocorrelation(values: Float64[np.ndarray, "t"]) -> Float64[np.ndarray, "lags"]:
    """Autocorrelation after removing the linear trend, at lags 0 to t // CYCLES; zeros if nothing remains."""
    return _correlation(_without_trend(values))


def _without_trend(values: Float64[np.ndarray, "t"]) -> Float64[np.ndarray, "t"]:
    n = len(values)
    if n < 2:
        return np.zeros(n)
    scale = np.abs(values).max() or 1.0
    time, centred = np.arange(n) - (n - 1) / 2, values / scale - (values / scale).mean()
    rest = centred - time * (centred @ time) / (time @ time)
    # rounding errors leave this much of a straight line
    return rest if np.abs(rest).max() > 1e-10 else np.zeros(n)


def _correlation(rest: Float64[np.ndarray, "t"]) -> Float64[np.ndarray, "lags"]:
    """Computed from the spectrum of zero-padded values, so that the series does not wrap around; means over pairs."""
    n = len(rest)
    lags = np.arange(n // CYCLES + 1)
    if not rest.any():
        return np.zeros(len(lags))
    covariance = np.fft.irfft(np.abs(np.fft.rfft(rest, 2 * n)) ** 2)[lags] / (n - lags)
    return covariance / covariance[0]


def _at(correlation: Float64[np.ndarray, "lags"], lags: Iterable[int]) -> list[Season]:
    """Seasons of these periods, unless the series is too short for them."""
    return [Season(lag, float(correlation[lag])) for lag in lags if lag < len(correlation)]


def _is_peak(correlation: Float64[np.ndarray, "lags"], season: Season) -> bool:
    """Whether a season is strong, and its lag a local maximum of the autocorrelation after a lower value."""
    rise = float(correlation[: season.period].min()) + RISE
    return _is_top(correlation, season) and season.strength > max(WEAKEST, rise)


def _of_calendar(
    found: Sequence[Season], correlation: Float64[np.ndarray, "lags"], periods: Sequence[int]
) -> list[Season]:
    """The seasons with calendar periods in place of those nearly as long and of multiples, and without weak others.

    Args:
        found: seasons.
        correlation: autocorrelation of the column.
        periods: calendar periods in rows.
    """
    usual = _at(correlation, periods)
    peaks = [one for one in usual if _is_peak(correlation, one)]
    noise = 2 / (CYCLES * len(correlation)) ** 0.5  # the autocorrelation of white noise exceeds it at one lag in 40
    kept = list(peaks)
    for season in found:
        near = [one for one in usual if _are_near(season, one)]
        parts = [one for one in usual if 2 * one.period <= season.period and _is_multiple(season.period, one.period)]
        same = [one for one in near if one.strength >= LEAST_AS_CLEAR * season.strength] or [
            one for one in parts if one.strength >= max(season.strength - noise, noise) and _is_top(correlation, one)
        ]
        if same:
            kept += same if same[0] in near else [max(same, key=lambda one: one.strength)]
        elif season.strength >= WEAKEST_OTHER and all(
            _is_top(correlation, season, one.period, noise) for one in peaks if 2 * one.period <= season.period
        ):
            kept.append(season)
    return _one_of_each(kept, noise)


def _is_top(correlation: Float64[np.ndarray, "lags"], season: Season, step: int = 1, least: float = 0.0) -> bool:
    """Whether the autocorrelation is higher by at least this than at lags nearby that differ by multiples of a step."""
    aside = step * max(round(NEARBY * season.period / step), 1)
    foot = correlation[[season.period - aside, min(season.period + aside, len(correlation) - 1)]].max()
    return bool(season.strength > foot + least)


def _one_of_each(seasons: Sequence[Season], noise: float) -> list[Season]:
    """The longest of the strongest of each group that is nearly as long: a year has 365 days, unless 52 weeks fit."""
    kept: list[Season] = []
    for season in sorted(seasons, key=lambda one: -one.strength):
        if not any(_are_near(season, one) for one in kept):
            alike = [one for one in seasons if _are_near(one, season) and one.strength >= season.strength - noise]
            kept.append(max(alike, key=lambda one: one.period))
    return kept


def _are_near(one: Season, other: Season) -> bool:
    return abs(one.period - other.period) <= NEARBY * other.period


def _proposed(rest: Float64[np.ndarray, "t"]) -> list[float]:
    """Periods of the strongest spectral lines."""
    power = np.abs(np.fft.rfft(rest)) ** 2
    power[:CYCLES] = 0
    lines = [line for line in np.argsort(-power)[:MOST_LINES] if power[line] > LEAST_POWER * power.sum()]
    return [len(rest) / line for line in lines if len(rest) / line >= 2]


def _top_of_hill(correlation: Float64[np.ndarray, "lags"], period: float, n: int) -> int:
    """The lag with the highest autocorrelation between the neighbours of a spectral line, at distance period^2 / n."""
    reach = round(period**2 / n)
    first = max(round(period) - reach, 1)
    return first + int(correlation[first : round(period) + reach + 1].argmax())


def _is_multiple(period: int, other: int) -> bool:
    times = max(round(period / other), 1)
    # any long period is close to some multiple of a short one: 365 days is not a multiple of a week
    return times <= MOST_MULTIPLE and abs(period - times * other) <= NEARBY * other
