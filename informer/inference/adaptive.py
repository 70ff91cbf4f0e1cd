"""Intervals of rolling forecasts that follow the coverage they had so far.

Calibrated widths hold for data like those of calibration. Where a series drifts, forecasts from many origins can be
corrected as actual values come in: each level's widths are multiplied by m, and after every origin whose actual values
are all known

    m <- m exp(rate (missed - (1 - level)))

where `missed` is the share of its steps outside the interval. This is quantile tracking (A. Angelopoulos, E. Candes, R.
Tibshirani, "Conformal PID Control for Time Series Prediction", 2023, section 2.1), a form of adaptive conformal
inference (I. Gibbs and E. Candes, 2021), on the logarithm of the width: over k origins the mean of `missed` differs
from 1 - level by |log m| / (rate k), whatever the data.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import final

import numpy as np
from jaxtyping import Float64

ByColumn = Float64[np.ndarray, "n"]

RATE = 0.2
"""Of forecasts that share no rows."""


@final
class Tracking:
    """Factors of half widths, for the origins of one series in order of time.

    Args:
        levels: of intervals, in percent.
        delay: origins until the last actual value of a forecast is known; at least 1. Forecasts that share rows err
            together, so that each counts 1 / delay.
    """

    def __init__(self, levels: Sequence[int], delay: int) -> None:
        self._levels, self._delay = sorted(levels), delay
        self._log: dict[int, ByColumn] = {level: np.zeros(1) for level in self._levels}  # of each factor
        self._open: deque[Mapping[int, ByColumn]] = deque()

    def __call__(
        self, errors: Float64[np.ndarray, "b h n"], halves: Mapping[int, Float64[np.ndarray, "b h n"]]
    ) -> dict[int, Float64[np.ndarray, "b h n"]]:
        """The half widths of the next origins, of each level at least those of the levels below.

        Args:
            errors: absolute errors of their forecasts, used only once they are known; NaN where nothing is observed.
            halves: calibrated half widths by level, in the unit of the errors.
        """
        adapted = {level: np.empty_like(errors) for level in self._levels}
        for origin, error in enumerate(errors):
            if len(self._open) == self._delay:
                self._learn(self._open.popleft())
            half = np.zeros_like(error)
            for level in self._levels:
                half = np.maximum(half, halves[level][origin] * np.exp(self._log[level]))
                adapted[level][origin] = half
            known = ~np.isnan(error)
            n = np.maximum(known.sum(axis=0), 1)
            missed = {level: (error > adapted[level][origin]).sum(axis=0) / n for level in self._levels}
            usual = {level: 1 - level / 100 for level in self._levels}  # where nothing is observed, nothing is learnt
            self._open.append({level: np.where(known.any(axis=0), missed[level], usual[level]) for level in usual})
        return adapted

    def _learn(self, missed: Mapping[int, ByColumn]) -> None:
        for level, share in missed.items():
            self._log[level] = self._log[level] + RATE / self._delay * (share - (1 - level / 100))
