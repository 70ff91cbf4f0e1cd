"""Findings of monitoring a model, and the verdict."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from jaxtyping import Float64
from scipy.stats import t

from informer.inference.bootstrap import Interval, skill_interval

OFF = 0.05
"""Deviation of coverage from the level that is tolerated before intervals are recalibrated."""

SURE = 0.99
"""Confidence level of the tests of coverage and skill."""

FEWEST_HORIZONS = 8
"""Minimum number of non-overlapping horizons for these tests."""

BINS = 10
MOVED = 0.25
"""Population stability index above which a distribution counts as changed, by convention."""

LEAST = 1e-4
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
        evidence, bound: see `informer.watching.drift.Drift` and `informer.watching.level.Level`.
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
            np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1) / len(values), LEAST
        )
        for values in (reference, current)
    )
    return float(((q - p) * np.log(q / p)).sum())


def skill_of(errors: Mapping[str, Float64[np.ndarray, "origins"]], model: str) -> float:
    """1 - MSE / MSE of the better baseline; NaN where a baseline makes no error."""
    model_mse = float(errors[model].mean())
    baseline_mse = min(float(squared_errors.mean()) for name, squared_errors in errors.items() if name != model)
    return 1 - model_mse / baseline_mse if baseline_mse > 0 else math.nan
