"""What was seen of a model in service, and what follows from it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from jaxtyping import Float64
from scipy.stats import t

from informer.inference.bootstrap import Interval, skill_interval
from informer.watching.inputs import MOVED

OFF = 0.05
"""Share by which coverage may be off before intervals are calibrated again."""

SURE = 0.99
"""Probability that coverage or skill that is as it should be decides nothing."""

FEWEST_HORIZONS = 8
"""Horizons that do not overlap, without which coverage and skill decide nothing."""


class Verdict(Enum):
    """What to do; the value is the exit status of the command."""

    ok = 0
    recalibrate = 10
    """Forecasts are as before, but intervals cover too much or too little."""
    update = 11
    """Errors changed, and the model is still better than the baselines, or as good: add the later rows to it."""
    retrain = 12
    """A baseline is better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """The drift test of the errors of one column of one series.

    Args:
        series, column: whose errors; `series` is empty where there is one.
        at: time of the forecast value at which it raised an alarm; empty: it did not.
        after: errors until then, from 1; 0: no alarm.
        evidence, bound: natural logarithms of the largest capital, and of its bound.
    """

    series: str
    column: str
    at: str
    after: int
    evidence: float
    bound: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """How far an input is from earlier rows: population stability index and Kolmogorov-Smirnov distance."""

    column: str
    stability_index: float
    ks_distance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """Some origins after each other.

    Args:
        first, last: times of their first forecast values.
        origins: how many.
        mse: scaled, by forecaster.
        skill: against the better baseline.
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
    """All that was seen.

    Args:
        model: name of the forecaster.
        errors: mean squared error of each origin, scaled, by forecaster; the model and its baselines.
        coverage: share of actual values inside the interval, of origins whose horizons do not overlap.
        level: of that interval, in percent; None: the model has no intervals.
        horizon: rows of a forecast.
        alarms: drift tests.
        inputs: distributions of the columns.
        periods: over time.
    """

    model: str
    errors: Mapping[str, Float64[np.ndarray, "origins"]]
    coverage: Float64[np.ndarray, "blocks"]
    level: int | None
    horizon: int
    alarms: Sequence[Alarm]
    inputs: Sequence[Moved]
    periods: Sequence[Period] = field(default_factory=list)

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
        """Interval of the skill over the later half of the origins, of SURE; NaN ends with too few of them."""
        half = len(self.errors[self.model]) // 2
        own, rival = (self.errors[name][half:] for name in (self.model, self.best_baseline))
        if len(own) < FEWEST_HORIZONS * self.horizon:
            return Interval(math.nan, math.nan)
        return skill_interval(own, rival, block=self.horizon, level=SURE)

    @property
    def is_covering(self) -> bool:
        """Intervals cover what they say, within OFF or within noise (a t test over horizons)."""
        n = len(self.coverage)
        if self.level is None or n < FEWEST_HORIZONS:
            return True
        share = self.level / 100
        # few horizons may happen to be alike: never less than the spread of independent values
        spread = max(float(self.coverage.std(ddof=1)), (share * (1 - share) / self.horizon) ** 0.5)
        noise = float(t.ppf((1 + SURE) / 2, n - 1)) * spread / n**0.5
        return abs(float(self.coverage.mean()) - share) <= max(OFF, noise)

    @property
    def moved(self) -> list[str]:
        """Inputs with another distribution."""
        return [one.column for one in self.inputs if one.stability_index > MOVED]

    def decide(self) -> tuple[Verdict, str]:
        """What to do, and why, in one sentence."""
        raised = [one for one in self.alarms if one.after]
        inputs = f"; inputs moved: {', '.join(self.moved)}" if self.moved else ""
        low, high = self.recent_skill
        if high < 0:
            return Verdict.retrain, (
                f"{self.best_baseline} is better than {self.model} on the later half ({SURE:.0%} interval of the skill "
                f"{low:+.1%} to {high:+.1%}){inputs}"
            )
        if raised:
            first = min(raised, key=lambda one: one.after)
            whose = f"{first.series} {first.column}".strip()
            return Verdict.update, (
                f"the errors of {whose} changed, seen at {first.at} after {first.after} forecasts "
                f"({len(raised)} of {len(self.alarms)} tests){inputs}"
            )
        if not self.is_covering:
            return Verdict.recalibrate, (
                f"intervals of {self.level} % cover {self.coverage.mean():.1%} of actual values, and the errors did "
                f"not change meanwhile{inputs}"
            )
        return Verdict.ok, f"errors and coverage are as expected{inputs}"


def skill_of(errors: Mapping[str, Float64[np.ndarray, "origins"]], model: str) -> float:
    """1 - MSE / MSE of the better baseline; NaN where a baseline makes no error."""
    own, rival = float(errors[model].mean()), min(float(one.mean()) for name, one in errors.items() if name != model)
    return 1 - own / rival if rival > 0 else math.nan
