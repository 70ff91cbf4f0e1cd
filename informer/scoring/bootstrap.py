"""Significance of a difference of two mean errors: a paired bootstrap over units, or over blocks of them.

Both forecasters are scored on the same units (windows, series), so units are drawn with replacement and both means use
the same draw (Efron & Tibshirani 1993, "An Introduction to the Bootstrap", chapter 13). Neighbouring windows of a
series overlap, so blocks of neighbours are drawn together (Kuensch 1989, "The Jackknife and the Bootstrap for General
Stationary Observations").
"""

import math
from enum import Enum
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from informer.base.errors import signed_percent, skill_text

DRAWS = 1000
LEVEL = 0.95
LEAST_SKILL = 5e-3
"""Smaller differences matter to nobody, even where thousands of windows make them certain."""
FEWEST_BLOCKS = 3
"""With fewer, resamples hardly differ, and their interval is much too narrow."""
CLEAR = 2.0
"""One error of this many times the other is clear even then."""
_AT_ONCE = 1 << 16
"""Numbers drawn at a time."""


class Interval(NamedTuple):
    """Percentile interval of a statistic over the draws."""

    low: float
    high: float


class Winner(Enum):
    """Outcome of comparing a model with a baseline, in words."""

    model = "better than"
    baseline = "worse than"
    neither = "as good as"
    noise = "cannot be told from"
    few = "too few test forecasts to tell from"
    unknown = "not comparable with"

    @classmethod
    def of(cls, skill: float, interval: Interval) -> "Winner":
        """The outcome, from the skill and its 95 % interval; verdicts, tables and pages all use this rule.

        `neither` if the skill is below LEAST_SKILL, `noise` if its interval contains 0, `few` if there is no interval
        (too few test windows) and neither error is twice the other, `unknown` if the skill is nan.
        """
        if math.isnan(skill):
            return cls.unknown
        if abs(skill) < LEAST_SKILL:
            return cls.neither
        if math.isfinite(skill) and interval.low <= 0.0 <= interval.high:
            return cls.noise
        if math.isnan(interval.low) and 1 - CLEAR < skill < 1 - 1 / CLEAR:
            return cls.few
        return cls.model if skill > 0 else cls.baseline


def skill_of(error: float, baseline_error: float) -> float:
    """1 - error / baseline_error: 1 is perfect, 0 no better, below 0 worse.

    -inf when the baseline makes no error and the model does; nan when one of them is not known.
    """
    if baseline_error == 0.0:
        return 0.0 if error == 0.0 else math.nan if math.isnan(error) else -math.inf
    return 1.0 - error / baseline_error


def verdict(error: str, baseline: str, skill: float, interval: Interval) -> str:
    """The outcome of a comparison with a baseline in words, such as `better than ridge: MSE 4.6 % lower, ...`.

    Args:
        error: name of the error that is compared.
        baseline: name of the baseline.
        skill, interval: see `Winner.of`.
    """
    winner = Winner.of(skill, interval)
    outcome = f"{winner.value} {baseline}"
    if winner is Winner.neither:
        return outcome
    if winner is Winner.unknown:
        return f"{outcome}: {error} not finite"
    ends = " to ".join(map(signed_percent, interval))
    certainty = "" if math.isnan(interval.low) else f", 95 % interval of the skill {ends}"
    return f"{outcome}: {error} {skill_text(skill)}{certainty}"


def skill_interval(
    errors: Float[np.ndarray, " n"], baseline_errors: Float[np.ndarray, " n"], *, block: int = 1
) -> Interval:
    """Interval of 1 - mean(errors) / mean(baseline_errors), with LEVEL of the draws inside.

    Args:
        errors, baseline_errors: one per unit, in the same order; both non-negative.
        block: neighbouring units drawn together; blocks wrap around from the last unit to the first.

    Returns:
        The interval, the same in every call; its ends are NaN with fewer than FEWEST_BLOCKS blocks, or if some draw of
        `baseline_errors` sums to 0.
    """
    n = len(errors)
    if n < FEWEST_BLOCKS * block:
        return Interval(np.nan, np.nan)
    n_blocks = -(-n // block)
    pairs = np.stack([errors, baseline_errors], axis=1).astype(float)
    # sums of the block starting at each unit, from running sums over two rounds
    running = np.concatenate([np.zeros((1, 2)), np.cumsum(np.concatenate([pairs, pairs]), axis=0)])
    sums = running[block : block + n] - running[:n]
    rng = np.random.default_rng(0)
    at_once, skills = max(1, _AT_ONCE // n_blocks), list[np.ndarray]()
    for first in range(0, DRAWS, at_once):
        starts = rng.integers(0, n, size=(min(at_once, DRAWS - first), n_blocks))
        error_sums, other_sums = np.moveaxis(sums[starts].sum(axis=1), -1, 0)
        unknown = np.full_like(error_sums, np.nan)
        skills.append(1.0 - np.divide(error_sums, other_sums, out=unknown, where=other_sums > 0))
    tail = (1.0 - LEVEL) / 2
    low, high = np.quantile(np.concatenate(skills), [tail, 1 - tail])  # NaN with a NaN
    return Interval(float(low), float(high))
