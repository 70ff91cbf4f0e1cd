"""Forecasts of any series by the network that comes trained, without training, and scores from the series themselves.

The scores are those of forecasts from earlier rows of each series, a horizon apart, next to two forecasts that need no
training either: the seasonal naive, and the mean of the last four seasons (without a season, the last value, and the
mean of the last four).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np
import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from informer.base.errors import InputError
from informer.base.quantiles import MEDIAN
from informer.base.runtime import pick_device
from informer.data.diagnosis import LEAST_COUNTED, seasons_of
from informer.data.scaler import are_constant, is_amount
from informer.data.seasonality import WEAKEST
from informer.inference.model import Forecast
from informer.linear.average import average_weights, weights_in_words
from informer.linear.theta import theta
from informer.networks.models.zero import at_level
from informer.networks.ops.zero_inputs import COUNTED, HISTORY
from informer.pretrained.weights import NEWEST, load
from informer.read.series import Series, column_values
from informer.scoring.intervals import interval_scores
from informer.scoring.metrics import Errors, Means, seasonal_scale
from informer.scoring.scores import Evaluation

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
    def of(cls, columns: Sequence[np.ndarray], seasons: tuple[int, int], most: int = HISTORY) -> "Histories":
        """From columns with NaN where a value is missing; at most `most` rows."""
        rows = min(most, max(map(len, columns)))
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
        """Mean absolute change over a season, the unit of scaled errors (MASE); NaN where there is none."""
        return seasonal_scale([np.where(self.observed, self.values, np.nan).T], self.seasons[0])

    def bounded(self, quantiles: Float64[np.ndarray, "n h q"]) -> Float64[np.ndarray, "n h q"]:
        """Those of amounts at least zero; a history that never changes is continued, all quantiles equal; those of
        counters, which have never fallen, do not fall."""
        zeros = ((self.values == 0) & self.observed).sum(axis=1)
        whole = (self.values == np.round(self.values)).all(axis=1)
        are_amounts = is_amount(self.values.min(axis=1), zeros, self.observed.sum(axis=1), whole=whole)
        last = self.last()[:, None, None]
        quantiles = np.where(self.are_constant()[:, None, None], last, quantiles)
        known = np.where(self.observed, self.values, -np.inf)
        rise = ((known == np.maximum.accumulate(known, axis=1)) | ~self.observed).all(axis=1)
        are_counters = (rise & (self.observed.sum(axis=1) >= LEAST_COUNTED))[:, None, None]
        quantiles = np.where(are_counters, np.maximum.accumulate(np.maximum(quantiles, last), axis=1), quantiles)
        return np.maximum(quantiles, np.where(are_amounts, 0.0, -np.inf)[:, None, None])


def tails(level: int) -> tuple[float, float]:
    """Levels of the two quantiles that enclose `level` percent."""
    return 0.5 - level / 200, 0.5 + level / 200


def network_seasons(panel: Sequence[Series], columns: Sequence[str], most: int = HISTORY) -> tuple[int, int]:
    """Rows of the two seasons that the network is given, at most `most`, 1 for none: those of the calendar, or others
    that the data have and the calendar has not."""
    calendar = [period for period in panel[0].frequency.seasons if 1 < period <= most]
    found = [x.period for x in seasons_of(panel, columns[-MOST_COLUMNS:]) if x.strength >= WEAKEST]
    found = [period for period in found if period <= most]
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
        horizon: int | str,
        levels: Sequence[int] = (),
    ) -> list[Forecast]:
        """Forecast the rows after each series.

        Args:
            panel: series of any length from 1 row, with NaN where a value is missing.
            columns: the columns to forecast, each by itself.
            seasons: see `network_seasons`.
            horizon: rows to forecast, or a span or date, see `Frequency.rows_of`; beyond one pass by rolling.
            levels: interval levels in percent; a constant column has none.

        Raises:
            InputError: a column without any value in its last COUNTED rows, or less than a row to forecast.
        """
        lengths = [series.frequency.rows_of(horizon, series.timestamps) for series in panel]
        histories = [column for series in panel for column in column_values(series, columns).T]
        for place, history in enumerate(histories):
            if not np.isfinite(history[-COUNTED:]).any():
                name = f"{panel[place // len(columns)].name}: column {columns[place % len(columns)]!r}"
                where = f" in its last {COUNTED:,} rows" if np.isfinite(history).any() else ""
                raise InputError(f"{name} has no value{where}; leave it out with dataset.exclude")
        past, version = Histories.of(histories, seasons, self.network.version.history), self.network.version
        own, moved = self._members(past, most := max(lengths))
        quantiles = past.bounded(own + self.theta * moved[:, :, None])
        by_series = quantiles.reshape(len(panel), len(columns), most, len(version.levels)).swapaxes(1, 2)
        constant = past.are_constant().reshape(len(panel), len(columns))
        return [
            Forecast(
                series=series,
                targets=tuple(columns),
                values=rows[:n, :, version.levels.index(MEDIAN)],
                pred_len=version.horizon,
                bands={
                    f"{end}{level}": np.where(constant[place], np.nan, at_level(rows[:n], p, version.levels))
                    for level in levels
                    for end, p in zip(("lo", "hi"), tails(level), strict=True)
                },
            )
            for place, (series, n, rows) in enumerate(zip(panel, lengths, by_series, strict=True))
        ]

    def backtest(
        self,
        panel: Sequence[Series],
        columns: Sequence[str],
        seasons: tuple[int, int],
        *,
        horizon: int,
        levels: Sequence[int] = (),
    ) -> Evaluation | None:
        """Scores of forecasts from at most MOST_ORIGINS earlier rows of each series; None if all are too short.

        Arguments as of `forecast`. Scaled errors are relative to the mean change over a season before the origin.
        """
        most = max(MOST_WINDOWS // (len(panel) * len(columns)), 1)
        least = max(LEAST_HISTORY, seasons[0] + 1, horizon)
        chosen = panel[:: -(-len(panel) * len(columns) // MOST_WINDOWS)]
        histories, actual, owners, overlap = list[np.ndarray](), list[np.ndarray](), list[int](), 1
        for place, series in enumerate(chosen):
            stride = min(max((len(series) - horizon - least) // LEAST_ORIGINS, 1), horizon)
            ends = range(len(series) - horizon, least - 1, -stride)[: min(most, MOST_ORIGINS)]
            overlap = max(overlap, min(-(-horizon // stride), len(ends)))
            values = column_values(series, columns)
            for end in reversed(ends):
                # a column may begin later than others, or end before
                known = np.isfinite(values[max(end - COUNTED, 0) : end]).any(axis=0)
                if known.any():
                    histories += list(np.where(known, values[:end], 0.0).T)
                    actual += list(np.where(known, values[end : end + horizon], np.nan).T)
                    owners.append(place)
        if not histories:
            return None
        past, known_levels = Histories.of(histories, seasons, self.network.version.history), self.network.version.levels
        quantiles, moved, actuals, scale = *self._members(past, horizon), np.stack(actual), past.change()
        if self.theta:
            share = partial(self._share, quantiles, moved, actuals, scale, overlap * len(columns))
            halves = np.arange(len(quantiles)) < len(quantiles) // 2
            # of each half with the weights from the other, so that no forecast is scored on what chose it
            moved = moved * np.where(halves, share(~halves), share(halves))[:, None]
            self.theta = share(halves | True)
        quantiles = past.bounded(quantiles + moved[:, :, None])
        last, mean = ("seasonal naive", "seasonal mean") if seasons[0] > 1 else ("naive", "mean")
        forecasts = {
            self.name: quantiles[:, :, known_levels.index(MEDIAN)],
            last: past.repeated(horizon, 1),
            mean: past.repeated(horizon, MEAN_OF),
        }

        def windows(rows: Float64[np.ndarray, "wn h"]) -> Float64[Tensor, "w h n"]:
            return torch.from_numpy(rows).unflatten(0, (-1, len(columns))).transpose(1, 2)

        unit, groups = scale[:, None], torch.tensor(owners)
        changes = torch.from_numpy(scale).unflatten(0, (-1, len(columns)))
        unknown = np.full((len(chosen), len(columns)), np.nan)  # those of MASE are of each origin
        errors = {name: Errors(unknown, metric="mae") for name in forecasts}
        for name, rows in forecasts.items():
            scaled, scaled_actual, own, actual_values = map(windows, (rows / unit, actuals / unit, rows, actuals))
            errors[name].add_in_both(scaled, scaled_actual, own, actual_values, groups, changes)
        intervals = {level: Means() for level in levels}
        for level, means in intervals.items():
            low, high = (at_level(quantiles, p, known_levels) for p in tails(level))
            inside, width = (low <= actuals) & (actuals <= high), (high - low) / unit
            means.add(interval_scores(windows(inside), windows(width), windows(actuals).isnan()))
        return Evaluation(
            model=self.name,
            columns=columns,
            errors=errors,
            notes=["scaled errors are relative to the mean change over a season before each forecast"],
            intervals={str(level): means for level, means in intervals.items()},
            series=[series.name for series in chosen] if len(chosen) > 1 else [],
            block=overlap,
        )

    @property
    def name(self) -> str:
        """The forecast in words."""
        return weights_in_words({"theta": self.theta, self.version: 1 - self.theta}).removeprefix("100% ")

    def _share(
        self,
        quantiles: Float64[np.ndarray, "w h q"],
        moved: Float64[np.ndarray, "w h"],
        actual: Float64[np.ndarray, "w h"],
        scale: Float64[np.ndarray, "w"],
        overlap: int,
        chosen: Bool[np.ndarray, "w"],
    ) -> float:
        """Weight of the theta model, from some windows."""
        usable = chosen & ~np.isnan(scale)
        error = (quantiles[:, :, self.network.version.levels.index(MEDIAN)] - actual)[usable] / scale[usable, None]
        errors = np.stack([error, error + moved[usable] / scale[usable, None]]).reshape(2, -1)
        known = errors[:, np.isfinite(errors).all(axis=0)]
        if not known.size:
            return 0.5
        return float(average_weights(known @ known.T / known.shape[1], usable.sum() / overlap)[1])

    def _members(
        self, past: Histories, horizon: int
    ) -> tuple[Float64[np.ndarray, "n h q"], Float64[np.ndarray, "n h"]]:
        """Quantiles of the network, and how far the theta forecasts are from their median."""
        largest = np.abs(past.values).max(axis=1)
        unit = np.exp2(np.floor(np.log2(np.where(largest > 0, largest, 1.0))))  # squares neither vanish nor overflow
        values = torch.from_numpy(past.values / unit[:, None]).to(self.device)
        observed = torch.from_numpy(past.observed).to(self.device)
        first, second = (torch.full((len(values),), season, device=self.device) for season in past.seasons)
        forecast = self.network.predict(values, observed, first, second, horizon)
        median = forecast[:, :, self.network.version.levels.index(MEDIAN)]
        other = theta(values, observed, past.seasons[0], horizon) if self.theta else median
        return forecast.cpu().numpy() * unit[:, None, None], (other - median).cpu().numpy() * unit[:, None]
