"""Drift test: means of the latest rows of a series, compared with the rows before.

A model that reads its own history soon reads a new level, and its errors hardly show it. The values do. Means over
windows of rows are compared with the mean before, with seasons removed, in units of the long-run variance V: the
variance of a mean of n rows is about V / n in an autocorrelated series. V is the larger of two estimates from the rows
before,

- the Bartlett sum of autocovariances of the rows, prewhitened by an AR(1) process: W. K. Newey and K. D. West, "A
  simple, positive semi-definite, heteroskedasticity and autocorrelation consistent covariance matrix", Econometrica
  55, 1987; D. W. K. Andrews and J. C. Monahan, "An improved heteroskedasticity and autocorrelation consistent
  covariance matrix estimator", Econometrica 60, 1992;
- n times the variance of means of blocks of n rows (batch means: J. M. Flegal and G. L. Jones, "Batch means and
  spectral variance estimators in Markov chain Monte Carlo", Annals of Statistics 38, 2010). It contains what is slower
  than a window, such as trends, years and random walks, so their continuation raises no alarm.
"""

from dataclasses import dataclass
from math import ceil, log

import numpy as np
from jaxtyping import Float64
from scipy.stats import norm

ALPHA = 0.01
"""Probability of a false alarm, over all series and columns that are tested together."""

WINDOWS = (24, 48, 96)
"""Rows of the windows, each rounded up to whole seasons."""

FEWEST_BLOCKS = 16
"""Minimum number of windows that fit into the rows before; longer windows are left out."""

FARTHEST = 3.0
"""Standard deviations from the mean, with seasons removed, to which values are limited."""

MOST_PHI = 0.97
"""Maximum magnitude of the autocorrelation that is removed before the Bartlett sum (Andrews and Monahan)."""


@dataclass(frozen=True, slots=True)
class Drift:
    """Result of a drift test.

    Args:
        alarm: index of the last row of the first window at which the evidence exceeds the bound; None: no alarm.
        evidence: largest evidence, -log(p), with p corrected for the number of windows.
        bound: threshold of an alarm.
        change: mean of the window with the alarm minus the mean before, in standard deviations of the rows before, with
            seasons removed; 0: no alarm.
    """

    alarm: int | None
    evidence: float
    bound: float
    change: float


def find_drift(
    before: Float64[np.ndarray, "m"], after: Float64[np.ndarray, "t"], *, season: int = 1, n_tests: int = 1
) -> Drift:
    """Test whether the level of a series changes after `before`.

    Args:
        before, after: consecutive values, without NaN.
        season: rows of a season, whose profile is estimated from `before`.
        n_tests: number of tests made together (Bonferroni).
    """
    bound = log(n_tests / ALPHA)
    windows = sorted({ceil(rows / season) * season for rows in WINDOWS})
    windows = [rows for rows in windows if FEWEST_BLOCKS * rows <= len(before) and rows <= len(after)]
    if not windows:
        return Drift(None, 0.0, bound, 0.0)
    profile = np.array([before[phase::season].mean() for phase in range(season)])
    residual = before - profile[np.arange(len(before)) % season]
    moved = after - profile[np.arange(len(before), len(before) + len(after)) % season]
    deviation = float(residual.std())
    if deviation <= np.finfo(float).eps * float(np.abs(before).max()):  # a constant has no noise to compare with
        return Drift(None, 0.0, bound, 0.0)
    # a single outlier moves no level
    residual, moved = (np.clip(values, -FARTHEST * deviation, FARTHEST * deviation) for values in (residual, moved))
    centre, variance = float(residual.mean()), long_run_variance(residual)
    sums = np.concatenate([[0.0], np.cumsum(moved - centre)])
    evidence, change = np.full(len(after), -np.inf), np.zeros(len(after))
    for rows in windows:
        means = (sums[rows:] - sums[:-rows]) / rows
        noise = max(variance, rows * batch_variance(residual, rows)) * (1 / rows + 1 / len(before))
        candidate = -norm.logsf(np.abs(means) / noise**0.5) - log(2 * len(windows) * len(after))
        ends = np.arange(rows - 1, len(after))
        is_more = candidate > evidence[ends]
        evidence[ends[is_more]], change[ends[is_more]] = candidate[is_more], means[is_more]
    above = np.flatnonzero(evidence > bound)
    if not len(above):
        return Drift(None, float(evidence.max()), bound, 0.0)
    return Drift(int(above[0]), float(evidence.max()), bound, float(change[above[0]] / deviation))


def long_run_variance(values: Float64[np.ndarray, "m"]) -> float:
    """Bartlett sum of autocovariances, gamma_0 + 2 sum_k (1 - k / (L + 1)) gamma_k, of e_t = x_t - phi x_(t-1), divided
    by (1 - phi)^2. L is the integer part of 4 (m / 100)^(2/9), from Newey and West, 1994."""
    x = values - values.mean()
    power = float(x[:-1] @ x[:-1])
    phi = float(np.clip(x[:-1] @ x[1:] / power, -MOST_PHI, MOST_PHI)) if power > 0 else 0.0
    e = x[1:] - phi * x[:-1]
    lags = int(4 * (len(e) / 100) ** (2 / 9))
    gamma = [float(e[k:] @ e[: len(e) - k]) / len(e) for k in range(lags + 1)]
    return (gamma[0] + 2 * sum((1 - k / (lags + 1)) * gamma[k] for k in range(1, lags + 1))) / (1 - phi) ** 2


def batch_variance(values: Float64[np.ndarray, "m"], rows: int) -> float:
    """Variance of the means of consecutive blocks of `rows` rows, counted from the end."""
    n = len(values) // rows
    return float(values[len(values) - n * rows :].reshape(n, rows).mean(axis=1).var(ddof=1))
