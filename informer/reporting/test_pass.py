"""One pass over test windows: errors of every forecaster by step, column, hour, weekday and series."""

from collections.abc import Callable, Mapping
from math import gcd

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from informer.data.pipeline import Data
from informer.data.windows import Batch
from informer.metrics import to_float64

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
