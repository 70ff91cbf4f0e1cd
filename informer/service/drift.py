"""Findings of monitoring a model, and the verdict.

Drift test of forecast errors: a conformal test martingale, the Simple Jumper.

V. Vovk, I. Nouretdinov and A. Gammerman, "Testing exchangeability on-line", ICML 2003; V. Vovk et al., "Retrain or not
retrain: conformal test martingales for change-point detection", COPA 2021.

Each error is ranked among all earlier ones. While the errors are exchangeable, the ranks are independent and uniform,
and the capital of a bet against that ever grows by a factor c with probability at most 1 / c (Ville's inequality).
One-step errors are used, since those of longer horizons overlap. Their remaining autocorrelation is estimated and
removed first, so the bound is approximate.

Test of the level of a series: means of its latest rows, compared with the rows before.

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

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import ceil, log

import numpy as np
from jaxtyping import Float64
from scipy.stats import norm, t

from informer.scoring.bootstrap import Interval, skill_interval

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


OFF = 0.05
"""Deviation of coverage from the level that is tolerated before intervals are recalibrated."""

SURE = 0.99
"""Confidence level of the tests of coverage and skill."""

FEWEST_HORIZONS = 8
"""Minimum number of non-overlapping horizons for these tests."""

BINS = 10
MOVED = 0.25
"""Population stability index above which a distribution counts as changed, by convention."""

LEAST_SHARE = 1e-4
"""Minimum share of a bin, so that the logarithm is finite."""


class Verdict(Enum):
    """Recommended action; the value is the exit status of the command."""

    ok = 0
    recalibrate = 10
    """Errors are unchanged, but intervals cover too much or too little."""
    update = 11
    """Errors changed, and the model is no worse than the baselines: update it with the later rows."""
    retrain = 12
    """A baseline is better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """Drift test of the errors, or test of the level of the values, of one column of one series.

    Args:
        series, column: names; `series` is empty for a single series.
        at: time of the value that raised the alarm; empty: no alarm.
        after: number of rows up to the alarm, from 1; 0: no alarm.
        evidence, bound: see `informer.service.drift.Drift` and `informer.service.drift.Level`.
        change: change of the level at the alarm, in standard deviations; None: a test of errors.
    """

    series: str
    column: str
    at: str
    after: int
    evidence: float
    bound: float
    change: float | None = None

    @property
    def whose(self) -> str:
        """Series and column."""
        return f"{self.series} {self.column}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Change of an input's distribution since earlier rows; see `stability_index`."""

    column: str
    stability_index: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """Scores of consecutive origins.

    Args:
        first, last: times of the first forecast value of the first and the last origin.
        origins: number of origins.
        mse: scaled mean squared error by forecaster.
        skill: skill against the better baseline.
        coverage: share of actual values inside the intervals; NaN without intervals.
    """

    first: str
    last: str
    origins: int
    mse: Mapping[str, float]
    skill: float
    coverage: float


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Findings:
    """Findings of monitoring.

    Args:
        model: name of the model.
        errors: scaled mean squared error of each origin, for the model and its baselines, by name.
        coverage: share of actual values inside the interval, for origins with non-overlapping horizons.
        level: interval level in percent; None: the model has no intervals.
        horizon: rows of a forecast.
        alarms: drift tests of errors.
        levels: tests of the level of the targets' values.
        inputs: shifts of the inputs' distributions.
        periods: scores over time.
    """

    model: str
    errors: Mapping[str, Float64[np.ndarray, "origins"]]
    coverage: Float64[np.ndarray, "blocks"]
    level: int | None
    horizon: int
    alarms: Sequence[Alarm]
    inputs: Sequence[Moved]
    periods: Sequence[Period] = field(default_factory=list)
    levels: Sequence[Alarm] = field(default_factory=list)

    @property
    def best_baseline(self) -> str:
        """The baseline with the lowest mean squared error."""
        return min(
            (name for name in self.errors if name != self.model), key=lambda name: float(self.errors[name].mean())
        )

    @property
    def skill(self) -> float:
        """1 - MSE / MSE of the better baseline, over all origins."""
        return skill_of(self.errors, self.model)

    @property
    def recent_skill(self) -> Interval:
        """Interval of the skill over the later half of the origins, at level SURE; NaN ends with too few origins."""
        half = len(self.errors[self.model]) // 2
        model_errors, baseline_errors = (self.errors[name][half:] for name in (self.model, self.best_baseline))
        if len(model_errors) < FEWEST_HORIZONS * self.horizon:
            return Interval(math.nan, math.nan)
        return skill_interval(model_errors, baseline_errors, block=self.horizon, level=SURE)

    @property
    def is_covering(self) -> bool:
        """Whether coverage is within OFF of the level, or within noise (t test over horizons)."""
        n = len(self.coverage)
        if self.level is None or n < FEWEST_HORIZONS:
            return True
        share = self.level / 100
        # a few horizons may agree by chance: at least the standard deviation for independent values
        spread = max(float(self.coverage.std(ddof=1)), (share * (1 - share) / self.horizon) ** 0.5)
        noise = float(t.ppf((1 + SURE) / 2, n - 1)) * spread / n**0.5
        return abs(float(self.coverage.mean()) - share) <= max(OFF, noise)

    @property
    def moved(self) -> list[str]:
        """Inputs whose distribution changed."""
        return [moved.column for moved in self.inputs if moved.stability_index > MOVED]

    def decide(self) -> tuple[Verdict, str]:
        """The verdict, and the reason in one sentence."""
        raised, shifted = ([alarm for alarm in tests if alarm.after] for tests in (self.alarms, self.levels))
        inputs = f"; inputs moved: {', '.join(self.moved)}" if self.moved else ""
        low, high = self.recent_skill
        if high < 0:
            return Verdict.retrain, (
                f"{self.best_baseline} is better than {self.model} on the later half ({SURE:.0%} interval of the skill "
                f"{low:+.1%} to {high:+.1%}){inputs}"
            )
        if raised:
            first = min(raised, key=lambda alarm: alarm.after)
            return Verdict.update, (
                f"the errors of {first.whose} changed, seen at {first.at} after {first.after} forecasts "
                f"({len(raised)} of {len(self.alarms)} tests){inputs}"
            )
        if shifted:
            first = min(shifted, key=lambda alarm: alarm.after)
            return Verdict.update, (
                f"level moved: {first.whose} by {first.change:+.1f} standard deviations, seen at {first.at} "
                f"({len(shifted)} of {len(self.levels)} tests){inputs}"
            )
        if not self.is_covering:
            return Verdict.recalibrate, (
                f"intervals of {self.level} % cover {self.coverage.mean():.1%} of actual values, and the errors did "
                f"not change{inputs}"
            )
        return Verdict.ok, f"errors and coverage are as expected{inputs}"


def stability_index(reference: Float64[np.ndarray, "t"], current: Float64[np.ndarray, "u"]) -> float:
    """Population stability index: sum of (q - p) ln(q / p) over the deciles of the earlier values, with p and q the
    shares of earlier and later values in each."""
    edges = np.unique(np.quantile(reference, np.linspace(0, 1, BINS + 1)[1:-1]))
    p, q = (
        np.maximum(
            np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1) / len(values),
            LEAST_SHARE,
        )
        for values in (reference, current)
    )
    return float(((q - p) * np.log(q / p)).sum())


def skill_of(errors: Mapping[str, Float64[np.ndarray, "origins"]], model: str) -> float:
    """1 - MSE / MSE of the better baseline; NaN where a baseline makes no error."""
    model_mse = float(errors[model].mean())
    baseline_mse = min(float(squared_errors.mean()) for name, squared_errors in errors.items() if name != model)
    return 1 - model_mse / baseline_mse if baseline_mse > 0 else math.nan


LEVEL_WINDOWS = (24, 48, 96)
"""Rows of the windows, each rounded up to whole seasons."""

FEWEST_BLOCKS = 16
"""Minimum number of windows that fit into the rows before; longer windows are left out."""

FARTHEST = 3.0
"""Standard deviations from the mean, with seasons removed, to which values are limited."""

MOST_LEVEL_PHI = 0.97
"""Maximum magnitude of the autocorrelation that is removed before the Bartlett sum (Andrews and Monahan)."""


@dataclass(frozen=True, slots=True)
class Level:
    """Result of a test of the level.

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


def find_shift(
    before: Float64[np.ndarray, "m"], after: Float64[np.ndarray, "t"], *, season: int = 1, n_tests: int = 1
) -> Level:
    """Test whether the level of a series changes after `before`.

    Args:
        before, after: consecutive values, without NaN.
        season: rows of a season, whose profile is estimated from `before`.
        n_tests: number of tests made together (Bonferroni).
    """
    bound = log(n_tests / ALPHA)
    windows = sorted({ceil(rows / season) * season for rows in LEVEL_WINDOWS})
    windows = [rows for rows in windows if FEWEST_BLOCKS * rows <= len(before) and rows <= len(after)]
    if not windows:
        return Level(None, 0.0, bound, 0.0)
    profile = np.array([before[phase::season].mean() for phase in range(season)])
    residual = before - profile[np.arange(len(before)) % season]
    moved = after - profile[np.arange(len(before), len(before) + len(after)) % season]
    deviation = float(residual.std())
    if deviation <= np.finfo(float).eps * float(np.abs(before).max()):  # a constant has no noise to compare with
        return Level(None, 0.0, bound, 0.0)
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
        return Level(None, float(evidence.max()), bound, 0.0)
    return Level(int(above[0]), float(evidence.max()), bound, float(change[above[0]] / deviation))


def long_run_variance(values: Float64[np.ndarray, "m"]) -> float:
    """Bartlett sum of autocovariances, gamma_0 + 2 sum_k (1 - k / (L + 1)) gamma_k, of e_t = x_t - phi x_(t-1), divided
    by (1 - phi)^2. L is the integer part of 4 (m / 100)^(2/9), from Newey and West, 1994."""
    x = values - values.mean()
    power = float(x[:-1] @ x[:-1])
    phi = float(np.clip(x[:-1] @ x[1:] / power, -MOST_LEVEL_PHI, MOST_LEVEL_PHI)) if power > 0 else 0.0
    e = x[1:] - phi * x[:-1]
    lags = int(4 * (len(e) / 100) ** (2 / 9))
    gamma = [float(e[k:] @ e[: len(e) - k]) / len(e) for k in range(lags + 1)]
    return (gamma[0] + 2 * sum((1 - k / (lags + 1)) * gamma[k] for k in range(1, lags + 1))) / (1 - phi) ** 2


def batch_variance(values: Float64[np.ndarray, "m"], rows: int) -> float:
    """Variance of the means of consecutive blocks of `rows` rows, counted from the end."""
    n = len(values) // rows
    return float(values[len(values) - n * rows :].reshape(n, rows).mean(axis=1).var(ddof=1))
