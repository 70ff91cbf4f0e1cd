"""Has the law of a forecaster's errors changed? A conformal test martingale, the Simple Jumper.

V. Vovk, I. Nouretdinov and A. Gammerman, "Testing exchangeability on-line", ICML 2003; V. Vovk et al., "Retrain or not
retrain: conformal test martingales for change-point detection", COPA 2021.

Each error is ranked among all earlier ones. While the errors are exchangeable the ranks are independent and uniform,
and whoever bets against that wins more than a factor c with probability of at most 1 / c, however long one watches
(Ville's inequality). One-step errors are used, since those of longer horizons overlap; what is left of their
autocorrelation is taken out first, by an estimate, so that the bound then holds only about.
"""

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass
from math import log

import numpy as np
from jaxtyping import Float64
from scipy.stats import norm

ALPHA = 0.01
"""Probability of a false alarm, over all errors that are watched together."""

JUMP = 0.01
"""Share of its capital that the bet moves evenly to all directions before each error."""

DIRECTIONS = np.array([-1.0, 0.0, 1.0])
"""Bets on small ranks, on none, on large ones. A further one is on ranks near 1: a model that soon adapts to a new
level errs by much, but not for long."""

WINDOWS = (5, 10, 20, 40)
"""Errors whose mean rank is looked at."""

LEAST = 1e-12
"""Distance of a rank from 1, which rounding could make 0."""

BURN_IN = 100
"""Errors that the autocorrelation is first estimated from."""

LAG = 100
"""Errors before the present one that these estimates leave out: a new level would count as a mean and as
autocorrelation, and its own errors would hide it."""

MOST_PHI = 0.95


@dataclass(frozen=True, slots=True)
class Drift:
    """What a test found.

    Args:
        alarm: first error at which the capital is above its bound; None: nowhere.
        evidence: largest capital, as a natural logarithm.
        bound: above which there is an alarm, as a natural logarithm.
    """

    alarm: int | None
    evidence: float
    bound: float


def find_drift(errors: Float64[np.ndarray, "t"], *, n_tests: int = 1, seed: int = 0) -> Drift:
    """Whether signed one-step errors change in level or size.

    Args:
        errors: in order of time, without NaN.
        n_tests: such tests that are made together.
        seed: of the random numbers that break ties.
    """
    bound = log(2 * n_tests / ALPHA)
    if len(errors) < 2:
        return Drift(None, 0.0, bound)
    generator, plain = np.random.default_rng(seed), whitened(errors)
    ranks = [conformal_ranks(part, generator) for part in (plain, np.abs(plain))]
    # half of the capital is bet on signs and sizes, half on sizes only
    capital = np.logaddexp(*map(simple_jumper, ranks)) - log(2)
    evidence = np.maximum(capital, -log_p_of_windows(ranks[0]))
    above = np.flatnonzero(evidence > bound)
    return Drift(int(above[0]) if len(above) else None, float(evidence.max()), bound)


def log_p_of_windows(ranks: Float64[np.ndarray, "t"]) -> Float64[np.ndarray, "t"]:
    """Logarithm of the probability of a mean of the last ranks as far from 1/2, for the window of WINDOWS that is the
    least likely, times the number of all windows (Bonferroni).

    Ranks become normal scores, whose sum over a window is normal. A model that reads its own history adapts to a new
    level: its errors are off for some rows only, which a window sees before a bet has won.
    """
    scores = norm.ppf(np.clip(ranks, LEAST, 1 - LEAST))
    sums, least = np.concatenate([[0.0], np.cumsum(scores)]), np.zeros(len(ranks))
    for rows in WINDOWS:
        # the mean that was taken out of errors is itself estimated, from those before LAG
        known = np.maximum(np.arange(rows, len(ranks) + 1) - LAG, BURN_IN)
        means = np.abs(sums[rows:] - sums[:-rows]) / (rows * (1 + rows / known)) ** 0.5
        least[rows - 1 :] = np.minimum(least[rows - 1 :], norm.logsf(means) + log(2 * len(WINDOWS) * len(ranks)))
    return least


def whitened(errors: Float64[np.ndarray, "t"]) -> Float64[np.ndarray, "t"]:
    """e_t - mean - phi (e_(t-1) - mean); mean and phi are of the errors before t - LAG, or of the first BURN_IN."""
    before, after = errors[:-1], errors[1:]
    count = np.arange(1, len(errors))
    sums = [np.cumsum(part) for part in (before, after, before * before, before * after)]
    # the estimate for error t reads errors up to t - 1 - LAG
    last = np.minimum(np.maximum(count - 2 - LAG, BURN_IN - 1), len(errors) - 2)
    x, y, xx, xy = (part[last] / count[last] for part in sums)
    phi = np.clip((xy - x * y) / np.maximum(xx - x * x, np.finfo(float).tiny), -MOST_PHI, MOST_PHI)
    return np.concatenate([[(errors[0] - x[0])], after - y - phi * (before - x)])


def conformal_ranks(values: Float64[np.ndarray, "t"], generator: np.random.Generator) -> Float64[np.ndarray, "t"]:
    """(#smaller + U (#equal, itself included)) / t of each value among itself and those before it."""
    earlier: list[float] = []
    ranks = np.empty(len(values))
    for place, (value, share) in enumerate(zip(values.tolist(), generator.random(len(values)), strict=True)):
        low, high = bisect_left(earlier, value), bisect_right(earlier, value)
        ranks[place] = (low + share * (high - low + 1)) / (place + 1)
        insort(earlier, value)
    return ranks


def simple_jumper(ranks: Float64[np.ndarray, "t"]) -> Float64[np.ndarray, "t"]:
    """Logarithm of the capital after each rank r: the share of a direction e is multiplied by 1 + e (r - 1/2), a last
    share by 1 / (2 sqrt(1 - r)); the mean of each factor over uniform ranks is 1."""
    n = len(DIRECTIONS) + 1
    shares, total, found = np.full(n, 1 / n), 0.0, np.empty(len(ranks))
    for place, rank in enumerate(ranks):
        shares = (1 - JUMP) * shares + JUMP / n
        shares = shares * np.append(1 + DIRECTIONS * (rank - 0.5), 0.5 / max(1 - rank, LEAST) ** 0.5)
        factor = shares.sum()
        shares, total = shares / factor, total + log(factor)
        found[place] = total
    return found
