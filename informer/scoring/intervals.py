"""Intervals around a forecast by conformal prediction with locally scaled errors (Lei et al. 2018, "Distribution-Free
Predictive Inference for Regression", section 5.2).

The half width of a level is, for each step and column, the ceil((n + m) level)-th smallest of n absolute errors on
calibration windows, which are used neither for fitting nor for model selection, or the largest. m is 1 for windows far
apart; k steps ahead those less than INDEPENDENT k rows apart have similar errors, and m is the number of windows that
count as one. Errors are divided by how much each window's history varies, and by how large those of its series are. The
interval covers the level's share of actual values if these are distributed as in the calibration windows; drifting
series make this approximate. Errors are scaled, so each series has intervals in its own units.

Windows whose history does not vary are calibrated separately (Mondrian conformal prediction, V. Vovk et al. 2005,
"Algorithmic Learning in a Random World", section 4.5): before a product is launched every error is zero, which says
nothing about the time after it. A column without any error has no intervals.

Widths of adaptive intervals follow the coverage at earlier origins: calibrated widths are valid for data distributed
like the calibration windows. When a series drifts, the widths of each level are multiplied by a factor m, updated after
every origin whose actual values are all known:

    m <- m exp(rate (missed - (1 - level)))

where `missed` is the share of its steps outside the interval. This is quantile tracking (A. Angelopoulos, E. Candes, R.
Tibshirani, "Conformal PID Control for Time Series Prediction", 2023, section 2.1), a form of adaptive conformal
inference (I. Gibbs and E. Candes, 2021), on the logarithm of the width: over k origins the mean of `missed` differs
from 1 - level by |log m| / (rate k), whatever the data.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, final

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from informer.base.errors import FileError, InputError, ShortError
from informer.checkpoint.format import Checkpoint

DOES_NOT_FIT = "checkpoint: its calibration does not fit the model"
NOTHING_LEARNED = "no calibration window with a varying history had an error, so the widths are not known"
LEVELS = range(1, 100)
"""Percent; whole numbers, so that a checkpoint can store all of them."""
REPORTED_LEVELS = (80, 95)
"""Levels of conformal intervals, in percent."""
POWERS = (0.5, 0.25, 0.75, 0.0, 1.0)
"""Candidate powers of a window's variation."""
LEAST = 0.05
"""Added to the variation of every window, relative to the usual one: errors after a constant history are not zero."""
ROUNDING = 1e-6
"""Scaled errors up to this size are rounding errors."""
RECENT = "recent."
"""Prefix, in a scored checkpoint, of the calibration that includes test errors."""
FACTORS = "factors"
"""Entry of the state with the factors of a panel's series."""
RATE = 0.2
"""Learning rate for forecasts that do not overlap; divided by `delay` if they do."""
Count = TypeVar("Count", int, Tensor)
ByLevel = Float64[np.ndarray, "k n"]


@dataclass(frozen=True, slots=True)
class Variation:
    """Unit of a window's errors: how much its history varies, relative to the usual variation.

    unit = factor ((mean |x_t - x_(t - lag)| + LEAST usual) / ((1 + LEAST) usual))^power over the window's history. The
    mean is the error of a seasonal naive forecast, in which seasons cancel. Above the largest variation of the
    calibration windows the unit is proportional to the variation, since nothing is known there but the scale.

    Args:
        lag: rows of a season; 1 if the history does not contain two seasons.
        power: 0: the same widths for all windows; 1: widths proportional to the variation.
        median, largest: median and maximum of the variation of each target over the calibration windows that vary,
            scaled; 0 without such windows.
        factors: factor of each training series, by number. None: 1, as for series that training did not contain.
    """

    lag: int
    power: float
    median: Float[Tensor, " n"]
    largest: Float[Tensor, " n"]
    factors: Float[Tensor, "s n"] | None = None

    def unit(
        self, differences: Float[Tensor, "b n"], series: Int[Tensor, " b"] | None = None
    ) -> Float[Tensor, "b 1 n"]:
        """Units of windows with these `differences`, of these training series; 1 where no difference is observed."""
        usual, largest = self.median.to(differences), self.largest.to(differences)
        known = differences.minimum(largest)
        relative = (known + LEAST * usual) / ((1 + LEAST) * usual)
        unit = relative**self.power * (differences / known).nan_to_num(1.0)
        unit = torch.where((usual > 0) & ~differences.isnan(), unit, 1.0)
        if series is not None and self.factors is not None:
            factors = F.pad(self.factors, (0, 0, 0, 1), value=1.0).to(unit)
            last = len(self.factors)
            unit = unit * factors[torch.where((series >= 0) & (series < last), series, last).to(unit.device)]
        return unit[:, None]


def differences(history: Float[Tensor, "b seq_len n"], lag: int) -> Float[Tensor, "b n"]:
    """Mean absolute difference of observed rows `lag` apart; NaN without any."""
    absolute = (history[:, lag:] - history[:, :-lag]).abs()
    means = absolute.mean(dim=1)
    return torch.where(means.isnan(), absolute.nanmean(dim=1), means)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Half widths of conformal intervals, for pred_len rows and, with enough windows, for rows forecast recursively.

    Args:
        windows: largest number n of errors of a column, at its first step.
        half_widths: scaled half widths by level, for a window of usual variation; infinite where there is no interval:
            n is too small for the level, or the column has no errors to learn from.
        variation: scales the half widths by window.
        still: half widths after a history without variation, which are not scaled.
    """

    windows: int
    half_widths: Float[Tensor, "99 steps n"]
    variation: Variation
    still: Float[Tensor, "99 steps n"]

    def half_width(
        self,
        level: int,
        history: Float[Tensor, "b seq_len n"],
        steps: int | None = None,
        constant: Bool[Tensor, "b n"] | None = None,
        series: Int[Tensor, " b"] | None = None,
    ) -> Float[Tensor, "b steps n"]:
        """Scaled half widths of the interval of a level in percent, after this scaled history of the targets.

        Args:
            level: in percent; see `check`.
            history: on any device, which is that of the result.
            steps: only the first steps.
            constant: targets without intervals as long as they do not vary; see `DataUnits`.
            series: numbers of the training series, see `Batch`; None: new series.
        """
        variation = differences(history, self.variation.lag)
        varying, still = (table[level - 1, :steps].to(variation) for table in (self.half_widths, self.still))
        if constant is not None:
            still = still.where(~constant[:, None], torch.inf)
        return torch.where((variation == 0)[:, None], still, varying * self.variation.unit(variation, series))

    def check(self, level: int) -> None:
        """Raise an InputError if no column has an interval of this level."""
        if self.supports(level):
            return
        if not self.is_learned.any():
            raise InputError(f"intervals={level}: {NOTHING_LEARNED}; leave intervals out, or train on rows that vary")
        raise ShortError(
            f"intervals={level}: expected at least {min_windows(level)} calibration windows, the model had "
            f"{self.windows}; choose a lower level, or train with a longer validation part (dataset.split.val)"
        )

    def supports(self, level: int) -> bool:
        """Whether some column has intervals of this level."""
        return bool(self._finite[level - 1, 0].any())

    @property
    def _finite(self) -> Bool[Tensor, "99 steps n"]:
        return self.half_widths.isfinite() | self.still.isfinite()

    @property
    def is_learned(self) -> Bool[Tensor, " n"]:
        """Which columns have intervals."""
        return self._finite[0, 0]

    def steps(self, level: int) -> int:
        """Number of steps with intervals of a level."""
        return int(self._finite[level - 1].any(dim=1).sum())

    def state(self) -> dict[str, Tensor]:
        """Tensors to store in a checkpoint."""
        return {
            "windows": torch.tensor(self.windows),
            "half_widths": self.half_widths,
            "still": self.still,
            "lag": torch.tensor(self.variation.lag),
            "power": torch.tensor(self.variation.power),
            "usual": self.variation.median,
            "largest": self.variation.largest,
            **({} if self.variation.factors is None else {FACTORS: self.variation.factors}),
        }


def rank(level: Count, n: Count, overlap: int | Tensor = 1) -> Count:
    """Rank of the half width among n errors, from 1; above n if n is too small for the level.

    Args:
        overlap: m, see above.
    """
    return -(-(n + overlap) * level // 100)  # type: ignore[return-value]


def min_windows(level: int) -> int:
    """Minimum number of errors for a level."""
    return next(n for n in range(1, 100) if rank(level, n) <= n)


def validation_rows(level: int, pred_len: int, share: float) -> int:
    """Minimum number of validation rows so that their last share calibrates an interval of this level.

    Args:
        level: in percent.
        pred_len: rows of a forecast.
        share: `trainer.calibration`.
    """
    return math.ceil((min_windows(level) + pred_len - 1) / share)


def saved_calibration(checkpoint: Checkpoint, *, recent: bool = False) -> Calibration | None:
    """The calibration in a checkpoint; None without one.

    Args:
        recent: the one for forecasts after the end of the data, which includes errors on test rows.

    Raises:
        InputError: it does not fit the model.
    """
    stored = checkpoint.calibration
    newer = {name.removeprefix(RECENT): tensor for name, tensor in stored.items() if name.startswith(RECENT)}
    scored = {name: tensor for name, tensor in stored.items() if not name.startswith(RECENT)}
    if not (state := newer if recent and newer else scored):
        return None
    n, whole = len(checkpoint.targets), {"windows", "lag"}
    steps = max([checkpoint.settings.pred_len, *(each.shape[1] for each in state.values() if each.ndim == 3)])
    shapes: dict[str, tuple[int, ...]] = {name: (len(LEVELS), steps, n) for name in ("half_widths", "still")}
    shapes |= {"windows": (), "lag": (), "power": (), "usual": (n,), "largest": (n,)}
    shapes |= {FACTORS: (*state[FACTORS].shape[:1], n)} if FACTORS in state else {}
    if {*state} != {*shapes} or not all(
        each.dtype is (torch.int64 if name in whole else torch.float32)
        and tuple(each.shape) == shapes[name]
        and (each >= 0).all()
        and not (name in ("usual", "largest") and each.isinf().any())
        for name, each in state.items()
    ):
        raise FileError(f"{DOES_NOT_FIT}: expected tensors of at least 0 of these shapes, finite variations: {shapes}")
    usual, largest, lag, power = (state[name] for name in ("usual", "largest", "lag", "power"))
    if int(lag) < 1 or float(power) not in POWERS:
        raise FileError(f"{DOES_NOT_FIT}: expected a lag of at least 1, a power of {sorted(POWERS)}")
    variation = Variation(int(lag), float(power), usual, largest, state.get(FACTORS))
    return Calibration(int(state["windows"]), state["half_widths"], variation, state["still"])


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
        self._usual = 1 - np.array(self._levels)[:, None] / 100
        self._log = np.zeros_like(self._usual)  # of the factors, by level and column
        self._open = deque[ByLevel]()

    def __call__(
        self, errors: Float64[np.ndarray, "b h n"], halves: Mapping[int, Float64[np.ndarray, "b h n"]]
    ) -> dict[int, Float64[np.ndarray, "b h n"]]:
        """Half widths of the next origins; they never decrease from one level to the next.

        Args:
            errors: absolute errors of their forecasts, used only once they are known; NaN where the actual value is
                missing.
            halves: calibrated half widths by level, in the units of the errors.
        """
        adapted = np.stack([halves[level] for level in self._levels])
        for error, half in zip(errors, adapted.swapaxes(0, 1), strict=True):
            if len(self._open) == self._delay:
                self._log = self._log + RATE / self._delay * (self._open.popleft() - self._usual)
            half[:] = np.maximum.accumulate(half * np.exp(self._log)[:, None], axis=0)
            n = (~np.isnan(error)).sum(axis=0)
            missed = (error > half).sum(axis=1) / np.maximum(n, 1)
            self._open.append(np.where(n > 0, missed, self._usual))  # no update without an observation
        return dict(zip(self._levels, adapted, strict=True))
