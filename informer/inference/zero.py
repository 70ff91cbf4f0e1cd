"""Forecasts of any series by the network that comes trained, without training, and scores from the series themselves.

The scores are those of forecasts from earlier rows of each series, a horizon apart, next to two forecasts that need no
training either: the seasonal naive, and the mean of the last four seasons (without a season, the last value, and the
mean of the last four).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64

from informer.base.errors import InputError
from informer.base.quantiles import MEDIAN
from informer.base.runtime import pick_device
from informer.data.diagnosis import seasons_of
from informer.data.scaler import are_constant, is_amount
from informer.data.seasonality import WEAKEST
from informer.inference.model import Forecast
from informer.linear.average import average_weights
from informer.linear.theta import theta
from informer.networks.models.zero import HISTORY, HORIZON, LEVELS, at_level
from informer.pretrained.weights import NEWEST, load
from informer.read.series import Series, column_values
from informer.scoring.bootstrap import Winner, skill_interval
from informer.scoring.intervals import LEAST_VALUES, SHORT

MODEL = "forecast"
"""Its name next to the baselines."""
MOST_COLUMNS = 12
"""Columns in which seasons are looked for."""
LEAST_ORIGINS, MOST_ORIGINS, MOST_WINDOWS = 10, 20, 2000
"""Origins of a series that are scored: overlapping horizons make up the first number, if its rows allow; and forecasts
of all series and columns."""
LEAST_HISTORY = 8
"""Rows before an origin that is scored."""
MEAN_OF = 4
"""Seasons of the mean that is a baseline."""


@dataclass(frozen=True, slots=True)
class Histories:
    """The last rows of n series, the newest at the right, with their two seasons."""

    values: Float64[np.ndarray, "n t"]
    observed: Bool[np.ndarray, "n t"]
    seasons: tuple[int, int]

    @classmethod
    def of(cls, columns: Sequence[np.ndarray], seasons: tuple[int, int]) -> "Histories":
        """From columns with NaN where a value is missing."""
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

    def last(self) -> Float64[np.ndarray, "n"]:
        """The last observed value."""
        n, rows = self.values.shape
        return self.values[np.arange(n), rows - 1 - self.observed[:, ::-1].argmax(axis=1)]

    def are_constant(self) -> Bool[np.ndarray, "n"]:
        """Which series never change."""
        low = np.where(self.observed, self.values, np.inf).min(axis=1)
        return are_constant(low, np.where(self.observed, self.values, -np.inf).max(axis=1))

    def change(self) -> Float64[np.ndarray, "n"]:
        """Mean absolute change over a season, the unit of scaled errors (MASE); NaN where no change is known."""
        season = self.seasons[0]
        both = self.observed[:, season:] & self.observed[:, :-season]
        changes = np.abs(self.values[:, season:] - self.values[:, :-season]) * both
        counts = both.sum(axis=1)
        return np.where(counts, changes.sum(axis=1) / np.maximum(counts, 1), np.nan)

    def bounded(self, quantiles: Float64[np.ndarray, "n h q"]) -> Float64[np.ndarray, "n h q"]:
        """Those of amounts at least zero; a history that never changes is continued, all quantiles equal."""
        zeros = ((self.values == 0) & self.observed).sum(axis=1)
        whole = (self.values == np.round(self.values)).all(axis=1)
        are_amounts = is_amount(self.values.min(axis=1), zeros, self.observed.sum(axis=1), whole=whole)
        quantiles = np.where(self.are_constant()[:, None, None], self.last()[:, None, None], quantiles)
        return np.maximum(quantiles, np.where(are_amounts, 0.0, -np.inf)[:, None, None])


@final
@dataclass(frozen=True)
class ZeroScores:
    """Errors of forecasts from w earlier origins, of all series and columns, in the order of time within each.

    Args:
        columns: index of each window's column.
        actual: values that followed, NaN where missing.
        quantiles: forecast quantiles at LEVELS.
        baselines: forecasts by name.
        scale: mean absolute change over a season before the origin.
        overlap: neighbouring windows whose horizons overlap.
    """

    columns: Int64[np.ndarray, "w"]
    actual: Float64[np.ndarray, "w h"]
    quantiles: Float64[np.ndarray, "w h q"]
    baselines: Mapping[str, Float64[np.ndarray, "w h"]]
    scale: Float64[np.ndarray, "w"]
    overlap: int

    @cached_property
    def errors(self) -> dict[str, Float64[np.ndarray, "w"]]:
        """Mean absolute error of each window, MODEL and the baselines; NaN without an actual value."""
        forecasts = {MODEL: self.quantiles[:, :, LEVELS.index(MEDIAN)], **self.baselines}
        counts = np.isfinite(self.actual).sum(axis=1)
        sums = {name: np.nansum(np.abs(values - self.actual), axis=1) for name, values in forecasts.items()}
        return {name: np.where(counts, total / np.maximum(counts, 1), np.nan) for name, total in sums.items()}

    @cached_property
    def scaled(self) -> dict[str, Float64[np.ndarray, "w"]]:
        """`errors` divided by `scale`, of the windows where both exist."""
        usable = (self.scale > 0) & np.isfinite(self.errors[MODEL])
        return {name: errors[usable] / self.scale[usable] for name, errors in self.errors.items()}

    @property
    def best_baseline(self) -> str:
        """The baseline with the lowest scaled error."""
        return min(self.baselines, key=lambda name: self.scaled[name].sum())

    @property
    def skill(self) -> float:
        """1 - scaled error / that of the best baseline; NaN without a window."""
        if not len(self.scaled[MODEL]):
            return np.nan
        return float(1 - self.scaled[MODEL].mean() / self.scaled[self.best_baseline].mean())

    @property
    def winner(self) -> Winner:
        """Outcome of the comparison with the best baseline."""
        errors, others = self.scaled[MODEL], self.scaled[self.best_baseline]
        return Winner.of(self.skill, skill_interval(errors, others, block=self.overlap))

    def coverage(self, level: int) -> float:
        """Share of the actual values within the intervals of a level, in percent."""
        low, high = (at_level(self.quantiles, p) for p in tails(level))
        known = np.isfinite(self.actual)
        return float(100 * ((low <= self.actual) & (self.actual <= high))[known].mean())

    def shortfalls(self, levels: Sequence[int]) -> dict[str, dict[str, float]]:
        """The intervals that are too narrow, for `informer.scoring.intervals.too_narrow`."""
        covered = {level: self.coverage(level) for level in levels}
        enough = np.isfinite(self.actual).sum() >= LEAST_VALUES
        return {str(level): {"": share} for level, share in covered.items() if enough and share < level - SHORT}

    def metrics(self, names: Sequence[str], levels: Sequence[int]) -> dict[str, Any]:
        """For `metrics.json`: errors of each column and in total, and the coverage of intervals."""
        by_column = {
            name: {
                forecaster: float(np.nanmean(errors[self.columns == place]))
                for forecaster, errors in self.errors.items()
                if np.isfinite(errors[self.columns == place]).any()
            }
            for place, name in enumerate(names)
        }
        return {
            "windows": len(self.actual),
            "horizon": self.actual.shape[1],
            "skill": self.skill,
            "mase": {name: float(errors.mean()) for name, errors in self.scaled.items() if len(errors)},
            "mae": by_column,
            "coverage": {str(level): self.coverage(level) for level in levels},
        }


def tails(level: int) -> tuple[float, float]:
    """Levels of the two quantiles that enclose `level` percent."""
    return 0.5 - level / 200, 0.5 + level / 200


def network_seasons(panel: Sequence[Series], columns: Sequence[str]) -> tuple[int, int]:
    """Rows of the two seasons that the network is given, 1 for none: those of the calendar, or others that the data
    have and the calendar has not."""
    calendar = [period for period in panel[0].frequency.seasons if 1 < period <= HISTORY]
    found = [x.period for x in seasons_of(panel, columns[-MOST_COLUMNS:]) if x.strength >= WEAKEST]
    found = [period for period in found if period <= HISTORY]
    if not found or found[0] in calendar:
        periods = calendar
    elif calendar and calendar[0] in found:
        periods = [calendar[0], found[0]]
    else:
        periods = found[:2]
    first, second, *_ = [*sorted(periods[:2]), 1, 1]
    return first, second


@final
class ZeroModel:
    """The network that comes trained, for the series at hand.

    Args:
        version: one of `informer.pretrained.weights.VERSIONS`.
        device: "auto", "cpu", "cuda", "cuda:1" or "mps".
        with_theta: the forecast is an average of its own and that of the theta model, with its quantiles moved there;
            the weights are those of `backtest`, and equal before it.
    """

    def __init__(self, version: str = NEWEST, *, device: str = "auto", with_theta: bool = False) -> None:
        self.version = version
        self.theta = 0.5 if with_theta else 0.0
        self.device = pick_device(device)
        self.network = load(version).to(self.device)

    def forecast(
        self,
        panel: Sequence[Series],
        columns: Sequence[str],
        seasons: tuple[int, int],
        *,
        horizon: int,
        levels: Sequence[int] = (),
    ) -> list[Forecast]:
        """Forecast the rows after each series.

        Args:
            panel: series of any length from 1 row, with NaN where a value is missing.
            columns: the columns to forecast, each by itself.
            seasons: see `network_seasons`.
            horizon: rows to forecast; from the HORIZON-th on by rolling.
            levels: interval levels in percent; a constant column has none.

        Raises:
            InputError: a column without any value.
        """
        histories = [column for series in panel for column in column_values(series, columns).T]
        for place, history in enumerate(histories):
            if not np.isfinite(history).any():
                series, name = panel[place // len(columns)], columns[place % len(columns)]
                raise InputError(f"{series.name}: column {name!r} has no value; leave it out with dataset.exclude")
        past = Histories.of(histories, seasons)
        own, moved = self._members(past, horizon)
        quantiles = past.bounded(own + self.theta * moved[:, :, None])
        by_series = quantiles.reshape(len(panel), len(columns), horizon, len(LEVELS)).swapaxes(1, 2)
        constant = past.are_constant().reshape(len(panel), len(columns))
        return [
            Forecast(
                series=series,
                targets=tuple(columns),
                values=rows[..., LEVELS.index(MEDIAN)],
                pred_len=HORIZON,
                bands={
                    f"{end}{level}": np.where(constant[place], np.nan, at_level(rows, p))
                    for level in levels
                    for end, p in zip(("lo", "hi"), tails(level), strict=True)
                },
            )
            for place, (series, rows) in enumerate(zip(panel, by_series, strict=True))
        ]

    def backtest(
        self,
        panel: Sequence[Series],
        columns: Sequence[str],
        seasons: tuple[int, int],
        *,
        horizon: int,
    ) -> ZeroScores | None:
        """Scores of forecasts from at most MOST_ORIGINS earlier rows of each series; None if all are too short."""
        per_series = max(MOST_WINDOWS // (len(panel) * len(columns)), 1)
        least = max(LEAST_HISTORY, seasons[0] + 1, horizon)
        histories, actual, places, overlap = [], [], [], 1
        for series in panel[:: -(-len(panel) * len(columns) // MOST_WINDOWS)]:
            stride = min(max((len(series) - horizon - least) // LEAST_ORIGINS, 1), horizon)
            ends = range(len(series) - horizon, least - 1, -stride)[: min(per_series, MOST_ORIGINS)]
            overlap = max(overlap, min(-(-horizon // stride), len(ends)) * len(columns))
            values = column_values(series, columns).T
            for end, (place, column) in product(reversed(ends), enumerate(values)):
                if np.isfinite(column[:end]).any():
                    histories.append(column[:end])
                    actual.append(column[end : end + horizon])
                    places.append(place)
        if not histories:
            return None
        past = Histories.of(histories, seasons)
        quantiles, moved, actuals, scale = *self._members(past, horizon), np.stack(actual), past.change()
        if self.theta:
            halves = np.arange(len(quantiles)) < len(quantiles) // 2
            shares = [self._share(quantiles, moved, actuals, scale, chosen, overlap) for chosen in (~halves, halves)]
            self.theta = self._share(quantiles, moved, actuals, scale, halves | True, overlap)
            # of each half with the weights from the other, so that no forecast is scored on what chose it
            moved = moved * np.where(halves, *shares)[:, None]
        return ZeroScores(
            columns=np.array(places),
            actual=actuals,
            quantiles=past.bounded(quantiles + moved[:, :, None]),
            baselines={
                "seasonal naive" if seasons[0] > 1 else "naive": past.repeated(horizon, 1),
                "seasonal mean" if seasons[0] > 1 else "mean": past.repeated(horizon, MEAN_OF),
            },
            scale=scale,
            overlap=overlap,
        )

    @property
    def name(self) -> str:
        """The forecast in words."""
        return f"{self.theta:.0%} theta + {1 - self.theta:.0%} {self.version}" if self.theta else self.version

    def _share(
        self,
        quantiles: Float64[np.ndarray, "w h q"],
        moved: Float64[np.ndarray, "w h"],
        actual: Float64[np.ndarray, "w h"],
        scale: Float64[np.ndarray, "w"],
        chosen: Bool[np.ndarray, "w"],
        overlap: int,
    ) -> float:
        """Weight of the theta model, from some windows."""
        usable = chosen & (scale > 0)
        error = (quantiles[:, :, LEVELS.index(MEDIAN)] - actual)[usable] / scale[usable, None]
        errors = np.stack([error, error + moved[usable] / scale[usable, None]]).reshape(2, -1)
        known = errors[:, np.isfinite(errors).all(axis=0)]
        if not known.size:
            return 0.5
        return float(average_weights(known @ known.T / known.shape[1], usable.sum() / overlap)[1])

    def _members(
        self, past: Histories, horizon: int
    ) -> tuple[Float64[np.ndarray, "n h q"], Float64[np.ndarray, "n h"]]:
        """Quantiles of the network at LEVELS, and how far the theta forecasts are from their median."""
        largest = np.abs(past.values).max(axis=1)
        unit = np.exp2(np.floor(np.log2(np.where(largest > 0, largest, 1.0))))  # squares neither vanish nor overflow
        values = torch.from_numpy(past.values / unit[:, None]).to(self.device)
        observed = torch.from_numpy(past.observed).to(self.device)
        first, second = (torch.full((len(values),), season, device=self.device) for season in past.seasons)
        forecast = self.network.predict(values, observed, first, second, horizon)
        median = forecast[:, :, LEVELS.index(MEDIAN)]
        other = theta(values, observed, past.seasons[0], horizon) if self.theta else median
        return forecast.cpu().numpy() * unit[:, None, None], (other - median).cpu().numpy() * unit[:, None]
