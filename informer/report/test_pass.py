"""One pass over test windows: errors of every forecaster by step, column, hour, weekday and series.

Selects the series and columns that a page shows in full, and forecasts them throughout the test part.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64, Int, Int64
from torch import Tensor

from informer.data.dataset import Data
from informer.data.windows import Batch
from informer.inference.model import TrainedModel
from informer.networks.forecast_model import model_output
from informer.report.content import Origin, SeriesScore, Track
from informer.scoring.metrics import to_float64

Forecast = Callable[[Batch], Tensor]
"""Scaled targets of a batch."""

MAX_WINDOWS, MAX_VALUES = 10_000, 1 << 23
"""Maximum number of windows that a report forecasts, and of values in them; more are thinned evenly."""
LEAST_WINDOWS = 24
"""Minimum number of windows, whatever the number of values."""
CYCLES = 210
"""2 3 5 7: a stride without a common factor covers every hour, weekday and month equally often."""
EDGES = np.round(np.linspace(-3.0, 3.0, 61), 10)
"""Bin edges of the histogram of residuals, in scaled units; values outside are counted in the outer bins."""


def chosen_windows(n: int, *, values: int = 1) -> Tensor:
    """Indices of evenly spaced windows whose stride has no common factor with calendar cycles.

    Args:
        n: number of windows.
        values: values per window.
    """
    stride = -(-n // max(min(MAX_WINDOWS, MAX_VALUES // values), LEAST_WINDOWS))
    while stride > 1 and gcd(stride, CYCLES) > 1:
        stride += 1
    return torch.arange(0, n, stride)


class TestPass:
    """Sums of errors over the observed values of windows, in scaled units without the transform (`Units.standard`).

    Args:
        data: its test windows are forecast.
        names: names of the forecasters, the model first.
    """

    __test__ = False  # otherwise pytest would collect it because of its name

    def __init__(self, data: Data, names: list[str]) -> None:
        self.names, self.data = names, data
        p, n, s = data.sizes.pred_len, len(data.targets), len(data.panel)
        times = [series.timestamps for series in data.panel]
        self._hour = np.concatenate([index.hour for index in times])
        self._weekday = np.concatenate([index.day_of_week for index in times])
        self._month = np.concatenate([index.month - 1 for index in times])
        self._slots = {
            name: {power: {"hour": np.zeros(24), "weekday": np.zeros(7), "month": np.zeros(12)} for power in (1, 2)}
            for name in names
        }
        self.slot_counts = {"hour": np.zeros(24), "weekday": np.zeros(7), "month": np.zeros(12)}
        self.by_cell = {name: {power: np.zeros((p, n)) for power in (1, 2)} for name in names}
        self.cell_counts = np.zeros((p, n))
        self.by_series = {name: np.zeros((s, n)) for name in names}
        self.series_counts = np.zeros((s, n))
        self.series_windows = np.zeros(s, dtype=np.int64)
        self.residual_sum = np.zeros((p, n))
        self.counts = np.zeros(len(EDGES) - 1, dtype=np.int64)

    @torch.inference_mode()
    def run(self, forecasts: Mapping[str, Forecast], indices: Tensor, batch_size: int) -> None:
        """Forecast these test windows and add their errors."""
        windows, sizes = self.data.test, self.data.sizes
        for batch_indices in indices.split(batch_size):
            batch = windows.batch(batch_indices)
            first = windows.starts[batch_indices.to(windows.starts.device)].cpu().numpy() + sizes.first
            rows = first[:, None] + np.arange(sizes.pred_len)
            series = windows.series(batch_indices).cpu().numpy()
            self.series_windows += np.bincount(series, minlength=len(self.series_windows))
            observed = ~batch.target.isnan().cpu().numpy()
            self.cell_counts += observed.sum(axis=0)
            np.add.at(self.series_counts, series, observed.sum(axis=1))
            slots = {"hour": self._hour[rows], "weekday": self._weekday[rows], "month": self._month[rows]}
            for axis, places in slots.items():
                observed_slots = places[observed.any(axis=2)]
                self.slot_counts[axis] += np.bincount(observed_slots, minlength=len(self.slot_counts[axis]))
            actual = batch.units.standard(to_float64(batch.target)).cpu()
            for name, forecast in forecasts.items():
                error = (batch.units.standard(to_float64(forecast(batch))).cpu() - actual).numpy()
                if name == self.names[0]:
                    self._add_residuals(error)
                self._add(name, error, series, slots)

    def _add_residuals(self, error: Float64[np.ndarray, "b pred_len n"]) -> None:
        self.residual_sum += np.nansum(error, axis=0)
        self.counts += np.histogram(np.clip(error[~np.isnan(error)], EDGES[0], EDGES[-1]), bins=EDGES)[0]

    def _add(
        self,
        name: str,
        error: Float64[np.ndarray, "b pred_len n"],
        series: Int64[np.ndarray, "b"],
        slots: Mapping[str, np.ndarray],
    ) -> None:
        missing = np.isnan(error)
        size, n_known = np.where(missing, 0.0, np.abs(error)), np.maximum((~missing).sum(axis=2), 1)
        for power, values in ((1, size), (2, size**2)):
            self.by_cell[name][power] += values.sum(axis=0)
            by_row = (values.sum(axis=2) / n_known).ravel()
            for axis, places in slots.items():
                sums = self._slots[name][power][axis]
                sums += np.bincount(places.ravel(), weights=by_row, minlength=len(sums))
        squared = size**2
        np.add.at(self.by_series[name], series, squared.sum(axis=1))

    def by_slot(self, name: str, power: int, axis: str) -> Float64[np.ndarray, "_"]:
        """Mean of |error|^power by hour, weekday or month; NaN without rows."""
        counts = self.slot_counts[axis]
        return np.divide(self._slots[name][power][axis], counts, out=np.full(len(counts), np.nan), where=counts > 0)

    def series_mse(self, name: str) -> Float64[np.ndarray, "s n"]:
        """Scaled MSE of each series and column; NaN without observed values."""
        counts = self.series_counts
        sums = self.by_series[name]
        return np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)


def iso(times: pd.DatetimeIndex) -> list[str]:
    """Timestamps as local text, without the time of day if all are midnight."""
    local = times.tz_localize(None)
    return list(local.strftime("%Y-%m-%d" if bool((local == local.normalize()).all()) else "%Y-%m-%d %H:%M:%S"))


MAX_TRACKS = 48
MAX_ORIGINS = 40
NUMBERS = 350_000
"""Maximum number of forecast values on a page, about 8 bytes each."""
ROWS = 250_000
"""Maximum number of actual values on a page."""
LEVELS = (80, 95)
"""Levels of intervals, in percent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTracks:
    """Selected pairs (series, column), as indices in the panel and the targets, and the reason as text."""

    pairs: Sequence[tuple[int, int]]
    reason: str


def choose(mse: Float64[np.ndarray, "s n"], max_tracks: int, main: int = -1) -> ShownTracks:
    """Select at most `max_tracks` pairs: the worst, the best, and others evenly between, by scaled MSE.

    At least one pair is of the column `main`: if none would be, its worst series replaces another.
    """
    scored = [(int(s), int(c)) for s, c in zip(*np.nonzero(~np.isnan(mse)), strict=True)]
    ordered = sorted(scored, key=lambda pair: -mse[pair])
    what = "series" if mse.shape[1] == 1 else "columns" if mse.shape[0] == 1 else "pairs of series and column"
    if len(ordered) <= max_tracks:
        everything = f"all {len(ordered)} {what}" if len(ordered) > 1 else ""
        return ShownTracks(pairs=ordered, reason=everything and f"The page shows {everything}.")
    third = max_tracks // 3
    middle = ordered[third:-third]
    spread = [middle[int(i)] for i in np.linspace(0, len(middle) - 1, max_tracks - 2 * third)]
    first = next(pair for pair in ordered if pair[1] == main % mse.shape[1])
    chosen = {*ordered[:third], *spread, *ordered[-third:]}
    if not any(pair[1] == first[1] for pair in chosen):
        chosen = {*chosen} - {spread[-1]} | {first}
    why = (
        f"The page shows {len(chosen)} of {len(ordered):,} {what}, so that it stays small: the {third} with the "
        f"largest error, the {third} with the smallest, and {len(chosen) - 2 * third} spread evenly between them. "
        "The table below lists the scores of all."
    )
    return ShownTracks(pairs=[pair for pair in ordered if pair in chosen], reason=why)


@dataclass(slots=True, kw_only=True)
class Tracks:
    """Data for the display of single series.

    Args:
        times: timestamps of the tracks.
        tracks: tracks, worst first.
        table: scores of every pair, worst first.
        reason: see `ShownTracks`.
    """

    times: list[Sequence[str]] = field(default_factory=list)
    tracks: list[Track] = field(default_factory=list)
    table: list[SeriesScore] = field(default_factory=list)
    reason: str = ""


def gather_tracks(
    model: TrainedModel,
    data: Data,
    *,
    baselines: Mapping[str, Forecast],
    mse: Mapping[str, Float64[np.ndarray, "s n"]],
    name: str,
    series_windows: np.ndarray,
) -> Tracks:
    """Select series and columns, and forecast them.

    Args:
        data: its test windows are forecast.
        baselines: further forecasts to plot, by name.
        mse: scaled MSE of the model and of the baselines for its skill, by name.
        name: name of the model in `mse`.
        series_windows: number of scored windows of each series.
    """
    lines = 1 + len(baselines) + 2 * len(_levels(model)) + 2 * len(model.quantiles)
    choice, n_origins = _that_fit(mse[name], lines * data.sizes.pred_len, data)
    skill = _skill(mse, name)
    gathered = Tracks(reason=choice.reason)
    by_series: dict[int, list[int]] = {}
    for s, c in choice.pairs:
        by_series.setdefault(s, []).append(c)
    tracks: dict[tuple[int, int], Track] = {}
    for s, columns in by_series.items():
        indices = _origins(data, s, n_origins)
        begin, end = _rows(data, s, indices, ROWS // len(choice.pairs))
        ahead = _ahead(model, data, s, end, name)
        lines_of, bands_of = _forecasts(model, data, indices, baselines, name)
        starts = data.test.starts[indices].cpu().numpy() - int(data.test.store.first_rows[s]) + data.sizes.first
        gathered.times.append(iso(data.panel[s].timestamps[begin:end]))
        for c in columns:
            tracks[s, c] = Track(
                series=data.panel[s].name if len(data.panel) > 1 else "",
                column=data.targets[c],
                times=len(gathered.times) - 1,
                actual=data.panel[s].values[begin:end, data.inputs.index(data.targets[c])].tolist(),
                origins=[
                    *(_origin(int(at) - begin, i, c, lines_of, bands_of) for i, at in enumerate(starts) if at >= begin),
                    *([] if ahead is None else [ahead(c, end - begin)]),
                ],
                mse=float(mse[name][s, c]),
                skill=float(skill[s, c]),
            )
    gathered.tracks = [tracks[pair] for pair in choice.pairs]
    gathered.table = _table(data, choice, mse[name], skill, series_windows)
    return gathered


def _that_fit(mse: Float64[np.ndarray, "s n"], per_origin: int, data: Data) -> tuple[ShownTracks, int]:
    """The pairs that fit on a page, and the number of their origins.

    Args:
        per_origin: numbers on the page per origin.
    """
    main = data.targets.index(data.columns.main or data.targets[-1])
    choice = choose(mse, max(6, min(MAX_TRACKS, NUMBERS // (5 * per_origin))), main)
    return choice, max(1, min(MAX_ORIGINS, NUMBERS // (max(1, len(choice.pairs)) * per_origin)))


def _skill(mse: Mapping[str, Float64[np.ndarray, "s n"]], name: str) -> Float64[np.ndarray, "s n"]:
    """1 - MSE / MSE of the best other forecaster, for each series and column; NaN without others."""
    rivals = np.stack([values for key, values in mse.items() if key != name])
    best = rivals.min(axis=0) if len(rivals) else np.full_like(mse[name], np.nan)
    return 1.0 - np.divide(mse[name], best, out=np.full_like(best, np.nan), where=best > 0)


def _origin(
    row: int, i: int, c: int, lines: Mapping[str, np.ndarray], bands: Mapping[str, tuple[np.ndarray, np.ndarray]]
) -> Origin:
    """The forecasts of column c from the i-th origin, whose first row is `row` of the track."""
    return Origin(
        row=row,
        lines={key: values[i, :, c].tolist() for key, values in lines.items()},
        bands={key: (low[i, :, c].tolist(), high[i, :, c].tolist()) for key, (low, high) in bands.items()},
    )


def _table(
    data: Data,
    choice: ShownTracks,
    mse: Float64[np.ndarray, "s n"],
    skill: Float64[np.ndarray, "s n"],
    series_windows: np.ndarray,
) -> list[SeriesScore]:
    """Scores of every pair, worst first."""
    place = {pair: i for i, pair in enumerate(choice.pairs)}
    rows = [
        SeriesScore(
            series=data.panel[s].name if len(data.panel) > 1 else "",
            column=data.targets[c],
            windows=int(series_windows[s]),
            mse=float(mse[s, c]),
            skill=float(skill[s, c]),
            track=place.get((s, c), -1),
        )
        for s in range(len(data.panel))
        for c in range(len(data.targets))
    ]
    return sorted(rows, key=lambda row: (np.isnan(row.mse), -row.mse))


def _ahead(model: TrainedModel, data: Data, s: int, end: int, name: str) -> Callable[[int, int], Origin] | None:
    """A function of column and row that returns the forecast after the end of the data; None if the test part ends
    earlier, or the forecast would need future covariates."""
    if end != len(data.panel[s]) or data.columns.future_covariates:
        return None
    (forecast,) = model.forecast([data.panel[s]], levels=_levels(model))
    bands = paired_bands(forecast.bands)
    return lambda column, row: Origin(
        row=row,
        times=iso(forecast.timestamps),
        lines={name: forecast.values[:, column].tolist()},
        bands={key: (low[:, column].tolist(), high[:, column].tolist()) for key, (low, high) in bands.items()},
    )


def _levels(model: TrainedModel) -> list[int]:
    return [level for level in LEVELS if model.calibration is not None and model.calibration.supports(level)]


def _origins(data: Data, s: int, max_origins: int) -> Int[Tensor, "o"]:
    """Indices of evenly spaced test windows of one series, without overlap, at most `max_origins`."""
    first = int(data.test.store.first_rows[s])
    stop = first + len(data.panel[s])
    in_series = ((data.test.starts >= first) & (data.test.starts < stop)).nonzero()[:, 0]
    stride = max(data.sizes.pred_len, -(-len(in_series) // max_origins))
    return in_series.flip(0)[::stride].flip(0)  # always includes the newest origin


def _rows(data: Data, s: int, indices: Tensor, most: int) -> tuple[int, int]:
    """Rows of the series from the first history to the last horizon; the most recent ones if there are too many."""
    starts = data.test.starts[indices].cpu().numpy() - int(data.test.store.first_rows[s])
    end = int(starts[-1]) + data.sizes.rows
    return max(int(starts[0]), end - max(most, data.sizes.rows)), end


@torch.inference_mode()
def _forecasts(
    model: TrainedModel, data: Data, indices: Tensor, baselines: Mapping[str, Forecast], name: str
) -> tuple[dict[str, np.ndarray], dict[str, tuple[np.ndarray, np.ndarray]]]:
    """Lines and bands in data units, [origins pred_len n]."""
    batch, model = data.test.batch(indices), model.scored
    output = model_output(model.model, batch)
    lines = {name: model.rows(batch, output)}
    lines |= {key: batch.in_units(forecast(batch)).cpu().numpy() for key, forecast in baselines.items()}
    ends = model.bands(batch, output, model.halves(batch, _levels(model)))
    return lines, paired_bands(ends)


def paired_bands(ends: Mapping[str, np.ndarray]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Pair interval ends by suffix, `lo80` with `hi80` and `q10` with `q90`; widest first."""
    by_level: dict[float, tuple[str, np.ndarray, np.ndarray]] = {}
    for suffix, low in ends.items():
        if suffix.startswith("lo") and f"hi{suffix[2:]}" in ends:
            by_level[float(suffix[2:])] = (f"{suffix[2:]} %", low, ends[f"hi{suffix[2:]}"])
        elif suffix.startswith("q") and float(suffix[1:]) < 50:
            mirrored = (key for key in ends if key[0] == "q" and math.isclose(float(key[1:]), 100 - float(suffix[1:])))
            upper = next(mirrored, None)
            if upper is not None:
                level = 100 - 2 * float(suffix[1:])
                by_level[level] = (f"{level:g} %", low, ends[upper])
    return {name: (low, high) for _, (name, low, high) in sorted(by_level.items(), reverse=True)}
