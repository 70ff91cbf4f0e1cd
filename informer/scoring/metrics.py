"""Point-forecast errors over many windows, kept as sums: memory is O(pred_len n) and all windows have equal weight.

For forecast f, actual y, averaged over windows, steps and columns:

  MSE   mean (f - y)^2                       squared units
  MAE   mean |f - y|                         units
  RMSE  sqrt(MSE)                            units; the root is taken after averaging
  MAPE  100 mean |f - y| / |y|               percent; actual values of zero are excluded, and counted
  sMAPE 200 mean |f - y| / (|f| + |y|)       percent, 0 to 200; 0 where both are zero
  MASE  MAE / in-sample MAE of the seasonal naive forecast, per column, then averaged over columns
        (Hyndman & Koehler 2006, "Another look at measures of forecast accuracy"); free of units
  WQL   weighted quantile loss: 2 sum pinball / sum |y|, mean over the quantiles (Park et al. 2022, "Learning Quantile
        Functions without Quantile Crossing for Distribution-free Time Series Forecasting"); free of units, only of
        forecasters with quantiles

Actual values that are missing (NaN) do not count: a mean is over those that are observed.

Averages over columns in the data's own units mix those units; compare models there column by column.
"""

from collections.abc import Callable, Iterable
from itertools import count
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from informer.data.windows import DataUnits

AT_ONCE = 1 << 17
"""Values whose errors exist at once: what a processor's cache holds, as each is read many times."""

METRICS = ("mse", "mae", "rmse", "mape", "smape", "mase")
WQL = "wql"
"""Of forecasters with quantiles; see the module's docstring."""
PERCENT = ("mape", "smape")
"""Relative to actual values: of little meaning in scaled units, where zero is the mean of the training rows."""

Scores = dict[str, list[float]]
"""Metric name -> values."""

QuantileForecast = Callable[[slice], Iterable[tuple[float, Float[Tensor, "k within n"]]]]
"""Level and scaled values of each quantile for these windows of a batch, one level at a time, since all of them need
several times the memory of the forecast. There may be fewer steps than in the forecast."""


def to_float64(x: Tensor) -> Tensor:
    """`x` as float64, on its device, or on the CPU if the device has no float64."""
    return (x.cpu() if x.device.type == "mps" else x).double()


def seasonal_scale(series: Iterable[Float[Tensor, "_ n"]], season: int) -> Float[Tensor, "n"]:
    """Denominator of MASE: mean |y_t - y_(t - season)| per column over all series, never across series.

    Args:
        series: training rows, one tensor [t n] per series.
        season: steps in one season, at least 1.

    Returns:
        float64, in the units of `series`; nan if the column repeats exactly from season to season or no series is
            longer than a season: MASE is then undefined.
    """
    if season < 1:
        raise ValueError(f"season: expected at least 1, found {season}")
    total, n = torch.zeros(()), torch.zeros((), dtype=torch.long)
    for rows in map(to_float64, series):
        differences = (rows[season:] - rows[:-season]).abs()
        missing = differences.isnan()
        total = total + differences.masked_fill(missing, 0.0).sum(dim=0)
        n = n + max(len(rows) - season, 0) - missing.sum(dim=0)
    scale = total / n
    return scale.where(scale > 0, torch.nan)


class ErrorSums:
    """Running sums per (step, column) in one system of units.

    Args:
        mase_scale: `seasonal_scale` of the training rows, in these units.
    """

    def __init__(self, mase_scale: Float[Tensor, "n"]) -> None:
        self.mase_scale = to_float64(mase_scale)
        self.windows = 0
        self._sums: Tensor | None = None
        self._quantile_sums: Tensor | None = None

    def add(self, forecast: Float[Tensor, "b pred_len n"], actual: Float[Tensor, "b pred_len n"]) -> None:
        """Add the windows of one batch."""
        forecast, actual = to_float64(forecast), to_float64(actual)
        missing = actual.isnan()
        error, size = (forecast - actual).abs().masked_fill(missing, 0.0), actual.abs()
        total = forecast.abs() + size
        sums = torch.stack(
            [
                error.square().sum(dim=0),
                error.sum(dim=0),
                (error / size).masked_fill((size == 0) | missing, 0.0).sum(dim=0),
                (size == 0).double().sum(dim=0),
                (error / total).masked_fill((total == 0) | missing, 0.0).sum(dim=0),
                (~missing).double().sum(dim=0),
            ]
        )
        self._sums = sums if self._sums is None else self._sums + sums
        self.windows += len(forecast)

    def add_pinball(self, loss: Float[Tensor, "b within n"], actual: Float[Tensor, "b within n"]) -> None:
        """Add pinball losses, means over the quantiles, of the windows of one batch."""
        actual = to_float64(actual)
        missing = actual.isnan()
        sums = torch.stack([part.masked_fill(missing, 0.0).sum(dim=0) for part in (to_float64(loss), actual.abs())])
        self._quantile_sums = sums if self._quantile_sums is None else self._quantile_sums + sums

    @property
    def zero_actuals(self) -> int:
        """Number of values that MAPE excludes because the actual value is zero."""
        return int(self._totals()[3].sum())

    @property
    def no_mase(self) -> list[int]:
        """Columns for which MASE is undefined; excluded from its averages."""
        return self.mase_scale.isnan().nonzero()[:, 0].tolist()

    def overall(self) -> dict[str, float]:
        """Each metric over all steps and columns."""
        return {name: values[0] for name, values in self._reduce(steps=True, columns=True).items()}

    def by_step(self) -> Scores:
        """Each metric per horizon step, over all columns."""
        return self._reduce(steps=False, columns=True)

    def by_column(self) -> Scores:
        """Each metric per column, over all steps."""
        return self._reduce(steps=True, columns=False)

    def _totals(self) -> Float[Tensor, "6 pred_len n"]:
        if self._sums is None:
            raise ValueError("metrics: expected at least one window, found none")
        return self._sums

    def _reduce(self, *, steps: bool, columns: bool) -> Scores:
        """Metrics averaged over the named axes; nan if undefined."""
        totals = self._totals()
        axes = [axis for axis, gone in ((-2, steps), (-1, columns)) if gone]
        squared, absolute, percentage, zeros, symmetric, count = totals.sum(dim=axes)
        scale = self.mase_scale.to(totals.device).expand_as(totals[1])
        undefined = scale.isnan()
        ratio = (totals[1] / self.windows / scale).masked_fill(undefined, 0.0)
        share = (totals[5] / self.windows).masked_fill(undefined, 0.0)  # 1 in cells that nothing is missing of
        metrics = {
            "mse": squared / count,
            "mae": absolute / count,
            "rmse": (squared / count).sqrt(),
            "mape": 100 * percentage / (count - zeros),
            "smape": 200 * symmetric / count,
            "mase": ratio.sum(dim=axes) / share.sum(dim=axes),
        }
        if self._quantile_sums is not None:
            loss, size = self._quantile_sums.sum(dim=axes)
            metrics[WQL] = 2 * loss / size.where(size > 0, torch.nan)
        return {name: values.flatten().tolist() for name, values in metrics.items()}


class MaseScale(NamedTuple):
    """`seasonal_scale` of the training rows in both systems of units."""

    scaled: Float[Tensor, "n"]
    original: Float[Tensor, "n"]


class Errors:
    """Errors of one forecaster in scaled units and in the data's own.

    Args:
        mase_scale: in both units.
    """

    def __init__(self, mase_scale: MaseScale) -> None:
        self.scaled = ErrorSums(mase_scale.scaled)
        self.original = ErrorSums(mase_scale.original)
        self._windows: list[Float64[np.ndarray, "b 4"]] = []

    def by_window(self) -> Float64[np.ndarray, "windows 3"]:
        """Scaled MSE, scaled MAE and MAE in the data's units of each window, in the order they were added; 0 for a
        window of which nothing is observed."""
        return np.concatenate(self._windows)[:, :3] if self._windows else np.empty((0, 3))

    def shares(self) -> Float64[np.ndarray, "windows"]:
        """Share of the actual values of each window that is observed: its weight in a mean over windows."""
        return np.concatenate(self._windows)[:, 3] if self._windows else np.empty(0)

    def add(
        self,
        forecast: Float[Tensor, "b pred_len n"],
        actual: Float[Tensor, "b pred_len n"],
        units: DataUnits,
        quantiles: QuantileForecast | None = None,
    ) -> None:
        """Add the windows of one batch of scaled values."""
        few = max(AT_ONCE // max(forecast[0].numel(), 1), 1) if len(forecast) else 1
        chunks = zip(forecast.split(few), actual.split(few), units.split(few), strict=True)
        for begin, chunk in zip(count(step=few), chunks, strict=False):
            self._add(*chunk)
            if quantiles is not None:
                self._add_quantiles(quantiles(slice(begin, begin + few)), *chunk[1:])

    def _add(self, forecast: Tensor, actual: Tensor, units: DataUnits) -> None:
        in_standard = [units.standard(values) for values in (forecast, actual)]
        in_original = [_original(values, units) for values in (forecast, actual)]
        self.scaled.add(*in_standard)
        self.original.add(*in_original)
        missing = to_float64(actual).isnan()
        share = (~missing).double().mean(dim=(1, 2))
        error, absolute = (
            (to_float64(predicted) - to_float64(observed)).abs().masked_fill(missing, 0.0)
            for predicted, observed in (in_standard, in_original)
        )
        measures = (error.square(), error, absolute)
        means = [measure.mean(dim=(1, 2)) / share.clamp(min=1 / error[0].numel()) for measure in measures]
        self._windows.append(torch.stack([*means, share], dim=1).cpu().numpy())

    def _add_quantiles(self, quantiles: Iterable[tuple[float, Tensor]], actual: Tensor, units: DataUnits) -> None:
        standard, n = units.standard(actual), 0
        total = torch.zeros_like(standard)
        for level, values in quantiles:
            # in place, in half the time that `pinball` takes: level e - min(e, 0)
            error = standard[:, : values.shape[1]] - units.standard(values)
            total = total[:, : values.shape[1]].add_(error, alpha=level).sub_(error.clamp_(max=0))
            n += 1
        actual, standard = actual[:, : total.shape[1]], standard[:, : total.shape[1]]
        loss = to_float64(total) / n
        self.scaled.add_pinball(loss, standard)
        # differences in the data's units are a multiple of those of `DataUnits.standard`
        factor = (units.scale if units.untransformed_scale is None else units.untransformed_scale)[:, None]
        self.original.add_pinball(loss.to(factor.device) * factor, units.original(actual))


def _original(scaled: Float[Tensor, "b pred_len n"], units: DataUnits) -> Float[Tensor, "b pred_len n"]:
    # A zero in the data is rounding noise after conversion from float32 scaled values, and MAPE would divide by it.
    values = units.unscaled(scaled)
    noise = 4 * torch.finfo(torch.float32).eps * units.center[:, None].abs()
    return units.untransformed(values.masked_fill(values.abs() <= noise, 0.0))


def pinball(
    quantile: Float[Tensor, "b pred_len n"], actual: Float[Tensor, "b pred_len n"], level: float
) -> Float[Tensor, "b pred_len n"]:
    """max(level e, (level - 1) e) of the error e = actual - quantile; its mean is minimal at the level's quantile."""
    error = actual - quantile
    return torch.maximum(level * error, (level - 1) * error)
