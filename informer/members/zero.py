"""The forecast of any series without training: the pretrained Informer, and theta where a step is long.

  forecast = (1 - w) (zero(x) - zero(-x)) / 2 + w theta(x)

zero(x) is the network's forecast of the series, -zero(-x) that of its mirror image: most generated series that it was
trained on favour no direction, so both are forecasts of x, and their errors partly cancel. w is `THETA` where a step is
a week or longer and theta leaves no season in the series, otherwise 0: theta removes none in most histories of less
than four seasons, and would flatten that of the network. Quantiles are averaged level by level, and theta moves all of
them by the same amount.

Errors relative to the seasonal naive on 24 data sets that chose nothing else (mean absolute scaled error / quantile
loss, geometric means; overall weighted average of four panels; lower is better):

                                  9 short        4 panels   11 longer      all
  zero(x)                         .858 / .885    .852       .642 / .536    .704 / .654
  with theta from a week on       .834 / .866    .828       .638 / .532    .691 / .643
  and with the mirror image       .825 / .856    .826       .632 / .528    .684 / .637

Theta on all steps gives .750. Weights learned at earlier origins of each series give .700 to .718.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import final

import numpy as np
import torch
from jaxtyping import Bool, Float64

from informer.base.runtime import pick_device
from informer.data.diagnosis import LEAST_COUNTED, seasons_of
from informer.data.scaler import are_constant, is_amount, is_share
from informer.data.seasonality import WEAKEST
from informer.members.theta import leaves_season, theta
from informer.networks.ops.zero_inputs import COUNTED, HISTORY, LEVELS, MIDDLE
from informer.pretrained.weights import NEWEST, load
from informer.read.frequency import Frequency, Unit
from informer.read.series import Series

THETA = 1 / 3
"""Weight of theta where a step is a week or longer, and no season is left in it."""
FARTHEST = 4.0
"""Outer quantiles are at most so many times as far from the median as those of 10 and 90 %, since after a few rows they
may be 30 times as far. On development data 1 and 99 % still have 97.4 to 99.2 % between them, of 12 rows too."""
LONG = (Unit.week, Unit.month, Unit.quarter, Unit.year)
"""Units of these steps."""
MOST_COLUMNS = 12
"""Columns in which seasons are looked for."""
STRONG = 0.5
"""Least autocorrelation of a season in place of a shorter one of the calendar: wandering levels have weaker ones."""


@dataclass(frozen=True, slots=True)
class Histories:
    """The last rows of n series, the newest at the right, with their two seasons."""

    values: Float64[np.ndarray, "n t"]
    observed: Bool[np.ndarray, "n t"]
    seasons: tuple[int, int]

    @classmethod
    def of(cls, columns: Sequence[np.ndarray], seasons: tuple[int, int]) -> "Histories":
        """From columns with NaN where a value is missing; the last HISTORY rows."""
        rows = min(HISTORY, max(map(len, columns)))
        values = np.full((len(columns), rows), np.nan)
        for row, column in zip(values, columns, strict=True):
            end = column[-rows:]
            row[rows - len(end) :] = end
        observed = np.isfinite(values)
        return cls(np.where(observed, values, 0.0), observed, seasons)

    def repeated(self, horizon: int, n_seasons: int) -> Float64[np.ndarray, "n h"]:
        """Mean of the last `n_seasons` seasons, of as many as exist; the last value where there is none."""
        n, rows = self.values.shape
        season, step = self.seasons[0], np.arange(horizon)
        total, count = np.zeros((n, horizon)), np.zeros((n, horizon))
        for k in range(1, n_seasons + 1):
            place = rows - k * season + step % season
            inside = place >= 0
            seen = self.observed[:, place * inside] & inside
            total += np.where(seen, self.values[:, place * inside], 0.0)
            count += seen
        return np.where(count, total / np.maximum(count, 1), self.last()[:, None])

    def last(self) -> Float64[np.ndarray, " n"]:
        """The last observed value."""
        n, rows = self.values.shape
        return self.values[np.arange(n), rows - 1 - self.observed[:, ::-1].argmax(axis=1)]

    def are_constant(self) -> Bool[np.ndarray, " n"]:
        """Which series never change."""
        low = np.where(self.observed, self.values, np.inf).min(axis=1)
        return are_constant(low, np.where(self.observed, self.values, -np.inf).max(axis=1))

    def bounded(self, quantiles: Float64[np.ndarray, "n h q"]) -> Float64[np.ndarray, "n h q"]:
        """Those of amounts at least zero, of shares at most the whole; a history that never changes is continued, all
        quantiles equal; those of counters, which have never fallen, do not fall."""
        count = self.observed.sum(axis=1)
        zeros = ((self.values == 0) & self.observed).sum(axis=1)
        whole = (self.values == np.round(self.values)).all(axis=1)
        are_amounts = is_amount(self.values.min(axis=1), zeros, count, whole=whole)
        last = self.last()[:, None, None]
        quantiles = np.where(self.are_constant()[:, None, None], last, quantiles)
        known = np.where(self.observed, self.values, -np.inf)
        rise = ((known == np.maximum.accumulate(known, axis=1)) | ~self.observed).all(axis=1)
        are_counters = rise & (count >= LEAST_COUNTED)
        quantiles = np.where(
            are_counters[:, None, None], np.maximum.accumulate(np.maximum(quantiles, last), axis=1), quantiles
        )
        most = known.max(axis=1)
        reached = (known == most[:, None]).sum(axis=1)
        are_shares = is_share(self.values.min(axis=1), most, reached, count, whole=whole) & ~are_counters
        low, high = np.where(are_amounts, 0.0, -np.inf), np.where(are_shares, most, np.inf)
        return np.clip(quantiles, low[:, None, None], high[:, None, None])


def network_seasons(panel: Sequence[Series], columns: Sequence[str]) -> tuple[int, int]:
    """Rows of the two seasons that the network is given, 1 for none: those of the calendar, or others that the data
    have and the calendar has not. The first has at most COUNTED rows, whose changes are the scale."""
    calendar = [period for period in panel[0].frequency.seasons if 1 < period <= HISTORY]
    seasons = [x for x in seasons_of(panel, columns[-MOST_COLUMNS:]) if x.strength >= WEAKEST and x.period <= HISTORY]
    found = [season.period for season in seasons]
    is_doubtful = found and calendar and found[0] > calendar[0] and seasons[0].strength < STRONG
    if not found or found[0] in calendar or is_doubtful:
        periods = calendar
    elif calendar and calendar[0] in found:
        periods = [calendar[0], found[0]]
    else:
        periods = found[:2]
    first, second, *_ = [*sorted(periods[:2]), 1, 1]
    return (first, second) if first <= COUNTED else (1, 1)


@final
class Pretrained:
    """The pretrained network with its rule.

    Args:
        version: one of `informer.pretrained.weights.VERSIONS`.
        device: "auto", "cpu", "cuda", "cuda:1" or "mps".
    """

    def __init__(self, version: str = NEWEST, *, device: str = "auto") -> None:
        self.version, self.device = version, pick_device(device)
        self.network = load(version).to(self.device)

    def quantiles(self, past: Histories, frequency: Frequency, horizon: int) -> Float64[np.ndarray, "n h q"]:
        """Quantiles at the levels of the network of the rows after each history, within the bounds of its values."""
        scaled, unit = _in_units(past.values)
        level = past.last()[:, None] / unit
        # changes keep their digits at any level, since the network's numbers are of single precision
        moved, own = _in_units(np.where(past.observed, scaled - level, 0.0))
        values = torch.from_numpy(moved).to(self.device)
        observed = torch.from_numpy(past.observed).to(self.device)
        first, second = (torch.full((len(values),), season, device=self.device) for season in past.seasons)
        plain, mirrored = (self.network.predict(x, observed, first, second, horizon) for x in (values, -values))
        forecast = ((plain - mirrored.flip(2)) / 2).cpu().numpy() * own[..., None] + level[..., None]
        if frequency.unit in LONG:
            season = past.seasons[0]
            history = torch.from_numpy(scaled).to(self.device)
            by_theta = theta(history, observed, season, horizon).cpu().numpy()
            joins = ~leaves_season(history, observed, season).cpu().numpy()
            moved_by = THETA * joins[:, None] * (by_theta - forecast[:, :, MIDDLE])
            forecast = forecast + moved_by[..., None]
        middle, low, high = (forecast[:, :, [place]] for place in (MIDDLE, LEVELS.index(0.1), LEVELS.index(0.9)))
        forecast = np.clip(forecast, middle - FARTHEST * (middle - low), middle + FARTHEST * (high - middle))
        return past.bounded(forecast * unit[..., None])


@cache
def pretrained(device: str = "auto") -> Pretrained:
    """The newest pretrained network, loaded once for each device."""
    return Pretrained(device=device)


def _in_units(x: Float64[np.ndarray, "n t"]) -> tuple[Float64[np.ndarray, "n t"], Float64[np.ndarray, "n 1"]]:
    """Rows divided by powers of two near their largest numbers, whose squares do not overflow, and these powers."""
    largest = np.abs(x).max(axis=1, keepdims=True)
    unit = np.exp2(np.floor(np.log2(np.where(largest > 0, largest, 1.0))))
    return x / unit, unit
