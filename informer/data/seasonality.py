"""After how many rows a series comes back to itself: lines of its spectrum that its autocorrelation confirms.

M. Vlachos, P. Yu and V. Castelli, "On periodicity detection and structural periodic similarity", SDM 2005: the spectrum
proposes periods, among them those of every overtone; at a true one the autocorrelation has a hill.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

CYCLES = 3
"""Times that a season must have been seen."""

LEAST_POWER, MOST_LINES = 0.01, 20
"""Share of the variance that a line of the spectrum has to hold to be looked at, and how many are."""

WEAKEST = 0.2
"""Autocorrelation of the least season that is told."""

RISE = 0.1
"""How far the autocorrelation rises to a season from its lowest value before."""

NEARBY, MOST_MULTIPLE = 0.1, 30
"""Share of a period within which another one is the same, or a multiple; and how many times counts as a multiple."""


class Season(NamedTuple):
    """A period in rows, and the autocorrelation at it, 1 being a perfect repeat."""

    period: int
    strength: float


def find_seasons(values: Float64[np.ndarray, "t"], most: int = 3) -> list[Season]:
    """The strongest seasons of a column without its linear trend, and without weaker multiples of them.

    Args:
        values: finite, at equal steps.
        most: seasons to return.

    Returns:
        The strongest first; none of a column that never changes, or that is too short to show one.
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
    told: list[Season] = []
    for season in sorted(found, key=lambda season: -season.strength):
        if not any(_is_multiple(season.period, other.period) for other in told):
            told.append(season)
    return told[:most]


def autocorrelation(values: Float64[np.ndarray, "t"]) -> Float64[np.ndarray, "lags"]:
    """Of the values without their linear trend, at lags 0 to t // CYCLES; zeros where nothing is left."""
    return _correlation(_without_trend(values))


def _without_trend(values: Float64[np.ndarray, "t"]) -> Float64[np.ndarray, "t"]:
    n = len(values)
    if n < 2:
        return np.zeros(n)
    scale = np.abs(values).max() or 1.0
    time, centred = np.arange(n) - (n - 1) / 2, values / scale - (values / scale).mean()
    rest = centred - time * (centred @ time) / (time @ time)
    # rounding alone leaves as much of a straight line
    return rest if np.abs(rest).max() > 1e-10 else np.zeros(n)


def _correlation(rest: Float64[np.ndarray, "t"]) -> Float64[np.ndarray, "lags"]:
    """Through the spectrum of padded values, so that the end does not meet the beginning; means over the pairs."""
    n = len(rest)
    lags = np.arange(n // CYCLES + 1)
    if not rest.any():
        return np.zeros(len(lags))
    covariance = np.fft.irfft(np.abs(np.fft.rfft(rest, 2 * n)) ** 2)[lags] / (n - lags)
    return covariance / covariance[0]


def _proposed(rest: Float64[np.ndarray, "t"]) -> list[float]:
    """Periods of the strongest lines of the spectrum."""
    power = np.abs(np.fft.rfft(rest)) ** 2
    power[:CYCLES] = 0
    lines = [line for line in np.argsort(-power)[:MOST_LINES] if power[line] > LEAST_POWER * power.sum()]
    return [len(rest) / line for line in lines if len(rest) / line >= 2]


def _top_of_hill(correlation: Float64[np.ndarray, "lags"], period: float, n: int) -> int:
    """The best lag between the neighbours of a line, which lie period^2 / n apart."""
    reach = round(period**2 / n)
    first = max(round(period) - reach, 1)
    return first + int(correlation[first : round(period) + reach + 1].argmax())


def _is_multiple(period: int, other: int) -> bool:
    times = max(round(period / other), 1)
    # any long period is near some multiple of a short one: a year of days is one of its own
    return times <= MOST_MULTIPLE and abs(period - times * other) <= NEARBY * other
