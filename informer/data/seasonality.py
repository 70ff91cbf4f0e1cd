"""Seasons of a series: spectral lines confirmed by the autocorrelation.

M. Vlachos, P. Yu and V. Castelli, "On periodicity detection and structural periodic similarity", SDM 2005: the spectrum
proposes periods, including those of overtones; at a true period the autocorrelation has a local maximum.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float64

from informer.data.scaler import ROUNDING
from informer.read.rows import LARGEST

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

WITHIN = 4
"""A season of at most this part of a longer one is averaged out before the longer one is confirmed."""

SAME_LINE = 1.5
"""Two periods may be the same if their spectral lines are closer than this."""

MOST_SEASONS = 3

LAST_ROWS = 1 << 17
"""Number of rows from the end that show the seasons, 91 days of minutes; more would only cost time."""


class Season(NamedTuple):
    """A period in rows, and its autocorrelation; 1 means a perfect repeat."""

    period: int
    strength: float


def find_seasons(values: Float64[np.ndarray, " t"], usual_periods: Sequence[int] = ()) -> list[Season]:
    """The MOST_SEASONS strongest seasons of a column after removing its linear trend, without weaker multiples of them.

    Args:
        values: values at equal steps, of which the last ones are read; gaps are interpolated.
        usual_periods: periods of the calendar, preferred to others that the series cannot distinguish from them, and to
            multiples of them.

    Returns:
        Seasons, strongest first; empty for a column that never changes or is too short.
    """
    residual = _without_trend(bridged(values[-LAST_ROWS:]))
    if not residual.any():
        return []
    longest = len(residual) // CYCLES
    # further lags show whether the correlation falls again after the longest season
    correlation = autocorrelation(residual, min(longest + round(NEARBY * longest) + 1, len(residual) - 1))
    lags = sorted({_top_of_hill(correlation[: longest + 1], period, len(residual)) for period in _proposed(residual)})
    candidates: list[Season] = []
    for lag in lags:
        width = max((season.period for season in candidates if WITHIN * season.period <= lag), default=1)
        if not _is_hill(_averaged(correlation, width), lag):
            continue
        usual = [n for n in usual_periods if n <= longest]
        repeats = {n: correlation[n::n].mean() for n in (lag, *usual)}
        noise = 2 / math.sqrt(len(residual))  # of autocorrelations, two standard deviations
        # where the lines are the same, noise decides; else the usual period must repeat better
        doubt = {n: noise * (abs(len(residual) / n - len(residual) / lag) < SAME_LINE) for n in usual}
        near = (n for n in usual if abs(n - lag) <= NEARBY * lag and repeats[n] >= repeats[lag] - doubt[n])
        within = (n for n in usual if 1.5 * n <= lag and _is_multiple(lag, n) and _is_hill(correlation, n))
        shorter = (n for n in within if max(correlation[n] - correlation[lag], repeats[n] - repeats[lag]) >= -noise)
        period = next(near, None) or next(shorter, None) or lag
        strength = float(correlation[period])
        if strength > max(WEAKEST, correlation[:lag].min() + RISE):
            candidates.append(Season(period, strength))
    selected: list[Season] = []
    for season in sorted(candidates, key=lambda season: -season.strength):
        if not any(_is_multiple(season.period, other.period) for other in selected):
            selected.append(season)
    return selected[:MOST_SEASONS]


def bridged(values: Float64[np.ndarray, " t"]) -> Float64[np.ndarray, " t"]:
    """Values with gaps interpolated, good enough for finding seasons."""
    column = pd.Series(values)
    return column.where(np.abs(values) <= LARGEST).interpolate(limit_direction="both").fillna(0.0).to_numpy()


def _without_trend(values: Float64[np.ndarray, " t"]) -> Float64[np.ndarray, " t"]:
    n = len(values)
    if n < 2:
        return np.zeros(n)
    changes = values - values[0]
    scale = np.abs(changes).max() or 1.0
    time, centred = np.arange(n) - (n - 1) / 2, changes / scale - (changes / scale).mean()
    residual = centred - time * (centred @ time) / (time @ time)
    # rounding errors leave this much of a straight line
    noise = max(1e-10, ROUNDING * np.spacing(np.abs(values).max()) / scale)
    return residual if np.abs(residual).max() > noise else np.zeros(n)


def autocorrelation(residual: Float64[np.ndarray, " t"], longest: int) -> Float64[np.ndarray, " lags"]:
    """Autocorrelation at lags 0 to `longest` of values that are not all zero, as means over pairs.

    Computed from the spectrum of zero-padded values, so that the series does not wrap around.
    """
    n, lags = len(residual), np.arange(longest + 1)
    covariance = np.fft.irfft(np.abs(np.fft.rfft(residual, 2 * n)) ** 2)[lags] / (n - lags)
    return covariance / covariance[0]


def _proposed(residual: Float64[np.ndarray, " t"]) -> list[float]:
    """Periods of the strongest spectral lines."""
    power = np.abs(np.fft.rfft(residual)) ** 2
    power[:CYCLES] = 0
    lines = [line for line in np.argsort(-power)[:MOST_LINES] if power[line] > LEAST_POWER * power.sum()]
    return [len(residual) / line for line in lines if len(residual) / line >= 2]


def _top_of_hill(correlation: Float64[np.ndarray, " lags"], period: float, n: int) -> int:
    """The lag with the highest autocorrelation between the neighbours of a spectral line, at distance period^2 / n."""
    reach = round(period**2 / n)
    first = max(round(period) - reach, 1)
    return first + int(correlation[first : round(period) + reach + 1].argmax())


def _averaged(correlation: Float64[np.ndarray, " lags"], width: int) -> Float64[np.ndarray, " lags"]:
    """Mean over `width` lags around each lag, which removes a season of that length; fewer lags at the ends."""
    if width == 1:
        return correlation
    sums = np.concatenate([[0.0], np.cumsum(correlation)])
    lags = np.arange(len(correlation))
    first, stop = (lags - width // 2).clip(0), (lags + width - width // 2).clip(max=len(correlation))
    return (sums[stop] - sums[first]) / (stop - first)


def _is_hill(correlation: Float64[np.ndarray, " lags"], lag: int) -> bool:
    """Whether the correlation is higher at `lag` than NEARBY before and after it."""
    aside = max(round(NEARBY * lag), 1)
    return bool(correlation[lag] > correlation[[lag - aside, min(lag + aside, len(correlation) - 1)]].max())


def _is_multiple(period: int, other: int) -> bool:
    times = max(round(period / other), 1)
    # any long period is close to some multiple of a short one: 365 days is not a multiple of a week
    return times <= MOST_MULTIPLE and abs(period - times * other) <= NEARBY * other
