"""Adaptive intervals of rolling forecasts: their widths follow the coverage at earlier origins.

Calibrated widths are valid for data distributed like the calibration windows. When a series drifts, the widths of each
level are multiplied by a factor m, updated after every origin whose actual values are all known:

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
"""Learning rate for forecasts that do not overlap; divided by `delay` if they do."""


@final
class Tracking:
    """Factors of half widths for the origins of one series, in time order.

    Args:
        levels: interval levels in percent.
        delay: origins until the last actual value of a forecast is known, at least 1. Errors of overlapping forecasts
            are correlated, so each counts 1 / delay.
    """

    def __init__(self, levels: Sequence[int], delay: int) -> None:
        self._levels, self._delay = sorted(levels), delay
        self._log: dict[int, ByColumn] = {level: np.zeros(1) for level in self._levels}  # of each factor
        self._open: deque[Mapping[int, ByColumn]] = deque()

    def __call__(
        self, errors: Float64[np.ndarray, "b h n"], halves: Mapping[int, Float64[np.ndarray, "b h n"]]
    ) -> dict[int, Float64[np.ndarray, "b h n"]]:
        """Half widths of the next origins; they never decrease from one level to the next.

        Args:
            errors: absolute errors of their forecasts, used only once they are known; NaN where the actual value is
                missing.
            halves: calibrated half widths by level, in the units of the errors.
        """
        adapted = {level: np.empty_like(errors) for level in self._levels}
        for origin, error in enumerate(errors):
            if len(self._open) == self._delay:
                self._learn(self._open.popleft())
            half = np.zeros_like(error)
            for level in self._levels:
                half = np.maximum(half, halves[level][origin] * np.exp(self._log[level]))
                adapted[level][origin] = half
            observed = ~np.isnan(error)
            n = np.maximum(observed.sum(axis=0), 1)
            missed = {level: (error > adapted[level][origin]).sum(axis=0) / n for level in self._levels}
            usual = {level: 1 - level / 100 for level in self._levels}  # no update without an observation
            self._open.append({level: np.where(observed.any(axis=0), missed[level], usual[level]) for level in usual})
        return adapted

    def _learn(self, missed: Mapping[int, ByColumn]) -> None:
        for level, share in missed.items():
            self._log[level] = self._log[level] + RATE / self._delay * (share - (1 - level / 100))
