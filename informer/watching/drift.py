"""Drift test of forecast errors: a conformal test martingale, the Simple Jumper.

V. Vovk, I. Nouretdinov and A. Gammerman, "Testing exchangeability on-line", ICML 2003; V. Vovk et al., "Retrain or not
retrain: conformal test martingales for change-point detection", COPA 2021.

Each error is ranked among all earlier ones. While the errors are exchangeable, the ranks are independent and uniform,
and the capital of a bet against that ever grows by a factor c with probability at most 1 / c (Ville's inequality).
One-step errors are used, since those of longer horizons overlap. Their remaining autocorrelation is estimated and
removed first, so the bound is approximate.
"""

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass
from math import log

import numpy as np
from jaxtyping import Float64
from scipy.stats import norm

ALPHA = 0.01
"""Probability of a false alarm, over all errors that are tested together."""

JUMP = 0.01
"""Share of the capital that is redistributed evenly over all directions before each error."""

DIRECTIONS = np.array([-1.0, 0.0, 1.0])
"""Bets on small ranks, on none, on large ones. A further bet is on ranks near 1: a model that quickly adapts to a new
level has large errors, but only for a short time."""

WINDOWS = (5, 10, 20, 40)
"""Number of errors in the windows whose mean rank is tested."""

LEAST = 1e-12
"""Minimum distance of a rank from 0 and 1."""

BURN_IN = 100
"""Number of errors in the first estimate of the autocorrelation."""

LAG = 100
"""Number of most recent errors left out of these estimates: errors after a change of level would be attributed to mean
and autocorrelation, which would hide the change."""

MOST_PHI = 0.95
"""Maximum magnitude of the estimated autocorrelation."""


@dataclass(frozen=True, slots=True)
class Drift:
    """Result of a drift test.

    Args:
        alarm: index of the first error at which the evidence exceeds the bound; None: no alarm.
        evidence: largest evidence, as a natural logarithm.
        bound: threshold of an alarm, as a natural logarithm.
    """

    alarm: int | None
    evidence: float
    bound: float


def find_drift(errors: Float64[np.ndarray, "t"], *, n_tests: int = 1, seed: int = 0) -> Drift:
    """Test whether signed one-step errors change in level or size.

    Args:
        errors: in time order, without NaN.
        n_tests: number of tests made together (Bonferroni).
        seed: seed of the random numbers that break ties.
    """
    bound = log(2 * n_tests / ALPHA)
    if len(errors) < 2:
        return Drift(None, 0.0, bound)
    generator, plain = np.random.default_rng(seed), whitened(errors)
    ranks = [conformal_ranks(values, generator) for values in (plain, np.abs(plain))]
    # half of the capital is bet on signed errors, half on their magnitudes
    capital = np.logaddexp(*map(simple_jumper, ranks)) - log(2)
    evidence = np.maximum(capital, -log_p_of_windows(ranks[0]))
    above = np.flatnonzero(evidence > bound)
    return Drift(int(above[0]) if len(above) else None, float(evidence.max()), bound)


def log_p_of_windows(ranks: Float64[np.ndarray, "t"]) -> Float64[np.ndarray, "t"]:
    """Logarithm of the smallest p value over the windows that end at each error, times the number of all windows
    (Bonferroni). The test statistic is the mean of the ranks' normal scores.

    A model that reads its own history adapts to a new level: only a few errors change, which a window detects before
    the bet has grown.
    """
    scores = norm.ppf(np.clip(ranks, LEAST, 1 - LEAST))
    sums, least = np.concatenate([[0.0], np.cumsum(scores)]), np.zeros(len(ranks))
    for rows in WINDOWS:
        # the mean that was subtracted from the errors is itself estimated, without the last LAG errors
        n_before = np.maximum(np.arange(rows, len(ranks) + 1) - LAG, BURN_IN)
        means = np.abs(sums[rows:] - sums[:-rows]) / (rows * (1 + rows / n_before)) ** 0.5
        least[rows - 1 :] = np.minimum(least[rows - 1 :], norm.logsf(means) + log(2 * len(WINDOWS) * len(ranks)))
    return least


def whitened(errors: Float64[np.ndarray, "t"]) -> Float64[np.ndarray, "t"]:
    """e_t - mean - phi (e_(t-1) - mean); mean and phi are estimated from the errors before t - LAG, or the first
    BURN_IN."""
    before, after = errors[:-1], errors[1:]
    count = np.arange(1, len(errors))
    totals = [np.cumsum(terms) for terms in (before, after, before * before, before * after)]
    # the estimate for error t reads errors up to t - 1 - LAG
    last = np.minimum(np.maximum(count - 2 - LAG, BURN_IN - 1), len(errors) - 2)
    x, y, xx, xy = (total[last] / count[last] for total in totals)
    phi = np.clip((xy - x * y) / np.maximum(xx - x * x, np.finfo(float).tiny), -MOST_PHI, MOST_PHI)
    return np.concatenate([[(errors[0] - x[0])], after - y - phi * (before - x)])


def conformal_ranks(values: Float64[np.ndarray, "t"], generator: np.random.Generator) -> Float64[np.ndarray, "t"]:
    """(#smaller + U #equal) / t for each value, counted among itself and the values before it; U is uniform."""
    earlier: list[float] = []
    ranks = np.empty(len(values))
    for place, (value, share) in enumerate(zip(values.tolist(), generator.random(len(values)), strict=True)):
        low, high = bisect_left(earlier, value), bisect_right(earlier, value)
        ranks[place] = (low + share * (high - low + 1)) / (place + 1)
        insort(earlier, value)
    return ranks


def simple_jumper(ranks: Float64[np.ndarray, "t"]) -> Float64[np.ndarray, "t"]:
    """Logarithm of the capital after each rank r: the share of direction e is multiplied by 1 + e (r - 1/2), the last
    share by 1 / (2 sqrt(1 - r)). Each factor has mean 1 over uniform ranks."""
    n = len(DIRECTIONS) + 1
    shares, total, log_capital = np.full(n, 1 / n), 0.0, np.empty(len(ranks))
    for place, rank in enumerate(ranks):
        shares = (1 - JUMP) * shares + JUMP / n
        shares = shares * np.append(1 + DIRECTIONS * (rank - 0.5), 0.5 / max(1 - rank, LEAST) ** 0.5)
        factor = shares.sum()
        shares, total = shares / factor, total + log(factor)
        log_capital[place] = total
    return log_capital
