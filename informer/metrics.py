"""Point-forecast errors over many windows, kept as sums: memory is O(pred_len n) and every window weighs the same.

For forecast f, actual y, averaged over windows, steps and columns:

  MSE   mean (f - y)^2                       squared units
  MAE   mean |f - y|                         units
  RMSE  sqrt(MSE)                            units; the root is taken after averaging
  MAPE  100 mean |f - y| / |y|               percent; actuals that are zero are left out, and counted
  sMAPE 200 mean |f - y| / (|f| + |y|)       percent, 0 to 200; 0 where both are zero
  MASE  MAE / in-sample MAE of the seasonal naive forecast, per column, then averaged over columns
        (Hyndman & Koehler 2006, "Another look at measures of forecast accuracy"); free of units

Averages over columns in the data's own units mix those units; compare models there column by column.
"""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

METRICS = ("mse", "mae", "rmse", "mape", "smape", "mase")

Scores = dict[str, list[float]]
"""Metric name -> values."""


def wide(x: Tensor) -> Tensor:
    """`x` as float64, where it lies, or on the CPU where the device has no float64."""
    return (x.cpu() if x.device.type == "mps" else x).double()


def seasonal_scale(series: Iterable[Float[Tensor, "_ n"]], season: int) -> Float[Tensor, "n"]:
    """Denominator of MASE: mean |y_t - y_(t - season)| per column over all series, none crossing into the next.

    Args:
        series: training rows, one tensor [t n] a series.
        season: steps in one season, at least 1.

    Returns:
        float64, in the units of `series`; nan where the column never changes from season to season or no series is
        longer than a season: MASE is undefined there.
    """
    if season < 1:
        raise ValueError(f"season: expected at least 1, found {season}")
    total, n = torch.zeros(()), 0
    for rows in map(wide, series):
        total = total + (rows[season:] - rows[:-season]).abs().sum(dim=0)
        n += max(len(rows) - season, 0)
    scale = total / n
    return scale.where(scale > 0, torch.nan)


class ErrorSums:
    """Running sums per (step, column) in one system of units.

    Args:
        mase_scale: `seasonal_scale` of the training rows, in these units.
    """

    def __init__(self, mase_scale: Float[Tensor, "n"]) -> None:
        self.mase_scale = wide(mase_scale)
        self.windows = 0
        self._sums: Tensor | None = None

    def add(self, forecast: Float[Tensor, "b pred_len n"], actual: Float[Tensor, "b pred_len n"]) -> None:
        """Count the windows of one batch."""
        forecast, actual = wide(forecast), wide(actual)
        error, size = (forecast - actual).abs(), actual.abs()
        total = forecast.abs() + size
        parts = torch.stack(
            [
                error.square().sum(dim=0),
                error.sum(dim=0),
                (error / size).masked_fill(size == 0, 0.0).sum(dim=0),
                (size == 0).double().sum(dim=0),
                (error / total).masked_fill(total == 0, 0.0).sum(dim=0),
            ]
        )
        self._sums = parts if self._sums is None else self._sums + parts
        self.windows += len(forecast)

    @property
    def zero_actuals(self) -> int:
        """Values that MAPE leaves out because the actual is zero."""
        return int(self._totals()[3].sum())

    @property
    def no_mase(self) -> list[int]:
        """Columns for which MASE is undefined; they are left out of its averages."""
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

    def _totals(self) -> Float[Tensor, "5 pred_len n"]:
        if self._sums is None:
            raise ValueError("metrics: expected at least one window, found none")
        return self._sums

    def _reduce(self, *, steps: bool, columns: bool) -> Scores:
        """Metrics with the named axes averaged away; nan where nothing is defined."""
        totals = self._totals()
        axes = [axis for axis, gone in ((-2, steps), (-1, columns)) if gone]
        squared, absolute, percentage, zeros, symmetric = totals.sum(dim=axes)
        count = self.windows * totals[0].numel() // squared.numel()
        scale = self.mase_scale.to(totals.device).expand_as(totals[1])
        undefined = scale.isnan()
        ratio = (totals[1] / self.windows / scale).masked_fill(undefined, 0.0)
        found = {
            "mse": squared / count,
            "mae": absolute / count,
            "rmse": (squared / count).sqrt(),
            "mape": 100 * percentage / (count - zeros),
            "smape": 200 * symmetric / count,
            "mase": ratio.sum(dim=axes) / (~undefined).sum(dim=axes),
        }
        return {name: values.flatten().tolist() for name, values in found.items()}


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

    def add(
        self,
        forecast: Float[Tensor, "b pred_len n"],
        actual: Float[Tensor, "b pred_len n"],
        *,
        center: Float[Tensor, "b n"],
        scale: Float[Tensor, "b n"],
    ) -> None:
        """Count the windows of one batch of scaled values; scaled * scale + center are data units, window by window."""
        self.scaled.add(forecast, actual)
        self.original.add(*(_original(values, wide(center), wide(scale)) for values in (forecast, actual)))


def _original(
    scaled: Float[Tensor, "b pred_len n"], center: Float[Tensor, "b n"], scale: Float[Tensor, "b n"]
) -> Float[Tensor, "b pred_len n"]:
    # A zero of the data comes back from its float32 scaled value as rounding noise, which MAPE would divide by.
    values = wide(scaled) * scale[:, None] + center[:, None]
    noise = 4 * torch.finfo(torch.float32).eps * center[:, None].abs()
    return values.masked_fill(values.abs() <= noise, 0.0)
