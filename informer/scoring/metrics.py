"""Errors of forecasts over many windows, kept as sums: memory is O(pred_len n), of MASE for each series. All windows
have equal weight, in MASE those of a series.

For forecast f, actual y, averaged over windows, steps and columns:

  bias  mean f - y                           units
  MSE   mean (f - y)^2                       squared units
  MAE   mean |f - y|                         units
  RMSE  sqrt(MSE)                            units; the root is taken after averaging
  MAPE  100 mean |f - y| / |y|               percent; actual values of zero are excluded, and counted
  sMAPE 200 mean |f - y| / (|f| + |y|)       percent, 0 to 200; 0 where both are zero
  WAPE  100 sum |f - y| / sum |y|            percent, of all that came; also where some actual values are zero
  MASE  MAE / in-sample MAE of the seasonal naive forecast (`seasonal_scale`) of the same series and column; averaged
        over the columns of a series, then over series (Hyndman & Koehler 2006, "Another look at measures of forecast
        accuracy"; as in the M4 competition); free of units, so it is the same in both
  WQL   weighted quantile loss: 2 sum pinball / sum |y|, mean over the quantiles (Park et al. 2022, "Learning Quantile
        Functions without Quantile Crossing for Distribution-free Time Series Forecasting"); free of units, only of
        forecasters with quantiles

Actual values that are missing (NaN) do not count: a mean is over those that are observed.

Averages over columns in the data's own units mix those units; compare models there column by column.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import count

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from informer.data.windows import DataUnits

AT_ONCE = 1 << 17
"""Values whose errors exist at once: what a processor's cache holds, as each is read many times."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of point forecasts: a mean over cells, or a function of it.

    Args:
        cells: value of each cell from error = forecast - actual, forecast and actual; NaN: the cell does not count.
        heading: in tables; empty: not in tables.
        of_mean: applied to the mean.
        is_relative: to actual values: of little meaning in scaled units, where zero is the mean of the training rows.
        of_sum: the sum is divided by that of the sizes of the actual values, instead of the number of cells.
    """

    cells: Callable[[Tensor, Tensor, Tensor], Tensor]
    heading: str
    of_mean: Callable[[Tensor], Tensor] = lambda mean: mean
    is_relative: bool = False
    of_sum: bool = False


def _percentage(error: Tensor, forecast: Tensor, actual: Tensor) -> Tensor:
    size = actual.abs()
    return 100 * error.abs() / size.masked_fill(size == 0, torch.nan)


def _symmetric(error: Tensor, forecast: Tensor, actual: Tensor) -> Tensor:
    total = forecast.abs() + actual.abs()
    return (200 * error.abs() / total).masked_fill(total == 0, 0.0)


METRICS = {
    "bias": Metric(lambda error, forecast, actual: error, ""),
    "mse": Metric(lambda error, forecast, actual: error.square(), "MSE"),
    "mae": Metric(lambda error, forecast, actual: error.abs(), "MAE"),
    "rmse": Metric(lambda error, forecast, actual: error.square(), "RMSE", Tensor.sqrt),
    "mape": Metric(_percentage, "MAPE %", is_relative=True),
    "smape": Metric(_symmetric, "sMAPE %", is_relative=True),
    "wape": Metric(lambda error, forecast, actual: 100 * error.abs(), "", is_relative=True, of_sum=True),
}
MASE = "mase"
"""The mean of each series, then over series; see the module's docstring."""
WQL = "wql"
"""Of forecasters with quantiles; see the module's docstring."""
HEADINGS = {name: metric.heading for name, metric in METRICS.items() if metric.heading} | {MASE: "MASE", WQL: "WQL"}
"""Metrics in tables."""
OF_SUM = (WQL, *(name for name, metric in METRICS.items() if metric.of_sum))
RELATIVE = tuple(name for name, metric in METRICS.items() if metric.is_relative)

Scores = dict[str, list[float]]
"""Metric name -> values."""

QuantileForecast = Callable[[slice], Iterable[tuple[float, Float[Tensor, "k within n"]]]]
"""Level and scaled values of each quantile for these windows of a batch, one level at a time, since all of them need
several times the memory of the forecast. There may be fewer steps than in the forecast."""


def to_float64(x: Tensor) -> Tensor:
    """`x` as float64, on its device, or on the CPU if the device has no float64."""
    return (x.cpu() if x.device.type == "mps" else x).double()


def seasonal_scale(blocks: Iterable[Float[np.ndarray, "_ n"]], season: int) -> Float64[np.ndarray, "*n"]:
    """Denominator of MASE: mean |y_t - y_(t - season)| per column of a series.

    Args:
        blocks: rows of the series in one or several arrays [t n], each beginning with the last `season` rows of the one
            before.
        season: steps in one season, at least 1.

    Returns:
        In the units of `blocks`; nan if the column repeats exactly from season to season or has no rows a season apart:
        MASE is then undefined. Without blocks a single nan.
    """
    total, n = np.zeros(()), np.zeros((), dtype=np.int64)
    for rows in blocks:
        differences = np.abs(rows[season:].astype(float) - rows[:-season])
        total = total + np.nansum(differences, axis=0)
        n = n + (~np.isnan(differences)).sum(axis=0)
    scale = np.divide(total, n, out=np.full(np.shape(total), np.nan), where=n > 0)
    return np.where(scale > 0, scale, np.nan)


class Means:
    """Running means of values by name: per step and column, and for groups of windows per column.

    Args:
        n_groups: number of groups, such as series; 0: none.
    """

    def __init__(self, n_groups: int = 0) -> None:
        self.windows = 0
        self.group_windows = torch.zeros(n_groups, dtype=torch.long)
        self._sums: dict[str, Tensor] = {}  # of MASE also per group
        self._groups: dict[str, Tensor] = {}

    def add(
        self,
        values: Mapping[str, Float[Tensor, "b h n"]],
        *,
        actual: Float[Tensor, "b h n"] | None = None,
        of_sum: Collection[str] = OF_SUM,
        counted: Bool[Tensor, "b h n"] | None = None,
        groups: Int[Tensor, "b"] | None = None,
    ) -> None:
        """Add the windows of one batch; NaN do not count.

        Args:
            actual, of_sum: actual values, and the names of values that are relative to the sum of their sizes.
            counted: cells that count even if they are NaN, which is then the mean.
            groups: group of each window.
        """
        n = len(next(iter(values.values())))
        self.windows += n
        if groups is not None:
            groups = groups.cpu()
            self.group_windows.index_add_(0, groups, torch.ones(n, dtype=torch.long))
        for name, cells in values.items():
            missing = cells.isnan() if counted is None else cells.isnan() & ~counted
            known = to_float64(cells)
            sizes = to_float64(actual.abs()) if name in of_sum and actual is not None else known.new_ones(())
            both = [known, sizes.expand_as(known)]
            if missing.any():
                both = [known.masked_fill(missing, 0.0), both[1].masked_fill(missing, 0.0)]
            if name == MASE and groups is not None:
                if name not in self._sums:
                    shape = 2, len(self.group_windows), *known.shape[1:]
                    self._sums[name] = torch.zeros(shape, dtype=torch.float64)
                for sums, added in zip(self._sums[name], both, strict=True):
                    sums.index_add_(0, groups, added.cpu())
            else:
                self._sums[name] = self._sums.get(name, 0.0) + torch.stack([each.sum(dim=0) for each in both]).cpu()
            if groups is not None:
                by_window = torch.stack([each.sum(dim=1) for each in both]).cpu()
                if name not in self._groups:
                    shape = 2, len(self.group_windows), by_window.shape[2]
                    self._groups[name] = torch.zeros(shape, dtype=torch.float64)
                cells = (groups[:, None] * by_window.shape[2] + torch.arange(by_window.shape[2])).flatten()
                for sums, added in zip(self._groups[name], by_window, strict=True):
                    sums.view(-1).index_add_(0, cells, added.flatten())  # rows would be added one by one

    def count(self, name: str) -> Float64[Tensor, "h n"]:
        """Number of values that count, per step and column."""
        return self._sums[name][1]

    def overall(self) -> dict[str, float]:
        """Means over all steps and columns."""
        return {name: values[0] for name, values in self._means(-2, -1).items()}

    def by_step(self) -> Scores:
        """Means per step, over all columns."""
        return self._means(-1)

    def by_column(self) -> Scores:
        """Means per column, over all steps."""
        return self._means(-2)

    def counts(self, name: str) -> Float64[Tensor, "g n"]:
        """Number of values that count, per group and column."""
        return self._groups[name][1]

    def by_group(self, name: str, *, columns: bool = False) -> Float64[np.ndarray, "g *n"]:
        """Mean of each group, with `columns` of each of its columns; nan where nothing counts."""
        total, n = self._groups[name] if columns else self._groups[name].sum(dim=-1)
        return _finished(name, total, n).numpy()

    def by_groups(self) -> Scores:
        """Means of each group, over all steps and columns."""
        return {name: self.by_group(name).tolist() for name in self._groups}

    def _means(self, *axes: int) -> Scores:
        means = {}
        for name in self._sums:
            total, n = self._sums[name].sum(dim=axes)
            mean = _finished(name, total, n)
            if self._sums[name].ndim == 4:  # the mean of each group first
                has_values = n > 0
                mean = mean.masked_fill(~has_values, 0.0).sum(dim=0) / has_values.sum(dim=0)
            means[name] = mean.flatten().tolist()
        return means


def _finished(name: str, total: Tensor, n: Tensor) -> Tensor:
    mean = total / n.where(n > 0, torch.nan)
    return METRICS[name].of_mean(mean) if name in METRICS else mean


def point_cells(
    forecast: Float[Tensor, "b h n"], actual: Float[Tensor, "b h n"]
) -> dict[str, Float64[Tensor, "b h n"]]:
    """Every metric of every cell, without MASE."""
    forecast, actual = to_float64(forecast), to_float64(actual)
    error = forecast - actual
    return {name: metric.cells(error, forecast, actual) for name, metric in METRICS.items()}


def mase_cells(
    forecast: Float[Tensor, "b h n"], actual: Float[Tensor, "b h n"], scale: Float[Tensor, "b n"]
) -> dict[str, Float64[Tensor, "b h n"]]:
    """MASE of every cell; `scale` is the `seasonal_scale` of each window's series."""
    forecast = to_float64(forecast)
    error = forecast - to_float64(actual).to(forecast.device)
    return {MASE: error.abs() / scale[:, None].to(error.device)}


class ErrorMeans(Means):
    """Metrics of forecasts in one system of units.

    Args:
        n_groups: see `Means`.
        mase: MASE, which is the same in all units.
    """

    def __init__(self, n_groups: int, mase: Means) -> None:
        super().__init__(n_groups)
        self._mase, self._quantiles = mase, Means()

    def add_forecast(
        self, forecast: Float[Tensor, "b h n"], actual: Float[Tensor, "b h n"], groups: Int[Tensor, "b"] | None = None
    ) -> None:
        """Add the windows of one batch; a forecast that is NaN makes every metric NaN."""
        forecast = to_float64(forecast)
        lost = forecast.isnan() & ~actual.isnan().to(forecast.device)
        cells = point_cells(forecast, actual.to(forecast.device))
        self.add(cells, actual=actual.to(forecast.device), counted=lost if lost.any() else None, groups=groups)

    def add_pinball(self, loss: Float[Tensor, "b within n"], actual: Float[Tensor, "b within n"]) -> None:
        """Add pinball losses, means over the quantiles, of the windows of one batch."""
        missing = actual.isnan().to(loss.device)
        cells = {WQL: (2 * loss).masked_fill(missing, torch.nan)}
        self._quantiles.add(cells, actual=actual.to(loss.device), counted=loss.isnan() & ~missing)

    @property
    def zero_actuals(self) -> int:
        """Number of values that MAPE excludes because the actual value is zero."""
        return int((self.count("mae") - self.count("mape")).sum())

    def _means(self, *axes: int) -> Scores:
        return super()._means(*axes) | self._mase._means(*axes) | self._quantiles._means(*axes)


class Errors:
    """Errors of one forecaster in scaled units and in the data's own.

    Args:
        mase_scale: `seasonal_scale` of the training rows of each series, in the data's units.
        metric: the metric by which forecasters are compared, `mse` or `mae`.
    """

    def __init__(self, mase_scale: Float[np.ndarray, "s n"], metric: str = "mse") -> None:
        self._mase, self._scale = Means(len(mase_scale)), torch.as_tensor(mase_scale).double()
        self.scaled, self.original = (ErrorMeans(len(mase_scale), self._mase) for _ in range(2))
        self.metric = metric
        self._windows: list[np.ndarray] = []

    @property
    def no_mase(self) -> Bool[np.ndarray, "s n"]:
        """Series and columns for which MASE is undefined; excluded from its averages."""
        has_errors, has_mase = self.original.counts("mae") > 0, self._mase.counts(MASE) > 0
        return (has_errors & ~has_mase).numpy()

    def by_window(self) -> Float64[np.ndarray, "windows"]:
        """Sum of squared (or absolute, see `metric`) scaled errors of each window, in the order they were added,
        relative to the number of cells: every observed value has equal weight in their mean."""
        return np.concatenate(self._windows) if self._windows else np.empty(0)

    def add(
        self,
        forecast: Float[Tensor, "b pred_len n"],
        actual: Float[Tensor, "b pred_len n"],
        units: DataUnits,
        quantiles: QuantileForecast | None = None,
        series: Int[Tensor, "b"] | None = None,
    ) -> None:
        """Add the windows of one batch of scaled values; `series` is the index of each window's series, None: the
        first."""
        series = torch.zeros(len(forecast), dtype=torch.long) if series is None else series.cpu()
        few = max(AT_ONCE // max(forecast[0].numel(), 1), 1) if len(forecast) else 1
        chunks = zip(forecast.split(few), actual.split(few), units.split(few), strict=True)
        for begin, chunk in zip(count(step=few), chunks, strict=False):
            self._add(*chunk, series[begin : begin + few])
            if quantiles is not None:
                self._add_quantiles(quantiles(slice(begin, begin + few)), *chunk[1:])

    def _add(self, forecast: Tensor, actual: Tensor, units: DataUnits, series: Tensor) -> None:
        scaled, scaled_actual = (to_float64(units.standard(values)) for values in (forecast, actual))
        own, own_actual = _original(forecast, units), _original(actual, units)
        self.add_in_both(scaled, scaled_actual, own, own_actual, series, self._scale[series])

    def add_in_both(
        self,
        scaled: Float64[Tensor, "b h n"],
        scaled_actual: Float64[Tensor, "b h n"],
        original: Float64[Tensor, "b h n"],
        actual: Float64[Tensor, "b h n"],
        series: Int[Tensor, "b"],
        scale: Float64[Tensor, "b n"],
    ) -> None:
        """Add windows of forecasts and actual values in both units, with the denominators of MASE in the data's."""
        lost = original.isnan() & ~actual.isnan().to(original.device)
        self._mase.add(mase_cells(original, actual, scale), counted=lost if lost.any() else None, groups=series)
        self.scaled.add_forecast(scaled, scaled_actual, series)
        self.original.add_forecast(original, actual, series)
        error = (scaled - scaled_actual).masked_fill(scaled_actual.isnan(), 0.0)
        sizes = error.square() if self.metric == "mse" else error.abs()
        self._windows.append(sizes.mean(dim=(1, 2)).cpu().numpy())

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
