"""Seasons of a series: spectral lines confirmed by the autocorrelation.

M. Vlachos, P. Yu and V. Castelli, "On periodicity detection and structural periodic similarity", SDM 2005: the spectrum
proposes periods, including those of overtones; at a true period the autocorrelation has a local maximum.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float64

CYCLES = 3
"""Minimum number of times that a season must occur."""

LEAST_POWER, MOST_LINES = 0.01, 20
"""Minimum share of the variance of a spectral line, and maximum number of lines."""

WEAKEST = 0.2
"""Minimum autocorrelation of a season."""

RISE = 0.1
"""Minimum rise of the autocorrelation to a season from its lowest value before."""

NEARBY, MOST_MULTIPLE = 0.1, 30
"""Tolerance, as a share of a period, for equal periods and multiples; and maximum factor of a multiple."""


class Season(NamedTuple):
    """A period in rows, and its autocorrelation; 1 means a perfect repeat."""

    period: int
    strength: float


def find_seasons(values: Float64[np.ndarray, "t"], most: int = 3) -> list[Season]:
    """The strongest seasons of a column after removing its linear trend, without weaker multiples of them.

    Args:
        values: finite values at equal steps.
        most: largest number of seasons.

    Returns:
        Seasons, strongest first; empty for a column that never changes or is too short.
    """
    rest = _without_trend(values)
    if not rest.any():
        return []
    correlation = _correlation(rest)
    found: list[Season] = []
    for period in _proposed(rest):
        lag = _top_of_hill(correlation, period, len(rest))
        strength, aside = float(correlation[lag]), max(round(NEARBY * lag), 1)
        foot = correlation[[lag - aside, min(lag + aside, len(correlation) - 1)]].max()
        if strength > max(foot, WEAKEST, correlation[:lag].min() + RISE):
            found.append(Season(lag, strength))
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
