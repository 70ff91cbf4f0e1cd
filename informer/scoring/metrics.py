"""Metrics of forecasts, a function of paths and a row in METRICS each, and tables of them.

For forecast f, actual y, averaged over paths and steps:

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

Actual values that are missing (NaN) do not count: a mean is over those that are observed. Averages over columns in the
data's own units mix those units; compare models there column by column.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Float64
from rich.box import SIMPLE_HEAD
from rich.table import Table

from informer.base.files import csv_text
from informer.base.quantiles import MEDIAN, central_pairs, quantile_name
from informer.config.conversion import without_nan
from informer.scoring.forecasts import Forecasts, Matrix


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of forecasts: a mean over cells, or a function of it.

    Args:
        cells: value of each cell of some paths; NaN: the cell does not count. None: the paths lack what it needs.
        heading: in tables; empty: not in tables.
        of_mean: applied to the mean.
        is_relative: to actual values: of little meaning in scaled units, where zero is the mean of the training rows.
        of_sum: the sum is divided by that of the sizes of the actual values, instead of the number of cells.
        of_series: the mean over the means of each series, of values free of units.
    """

    cells: Callable[[Forecasts], Matrix | None]
    heading: str = ""
    of_mean: Callable[[np.ndarray], np.ndarray] = lambda mean: mean
    is_relative: bool = False
    of_sum: bool = False
    of_series: bool = False


def _percentage(paths: Forecasts) -> Matrix:
    size = np.abs(paths.actual)
    return 100 * np.abs(paths.mean - paths.actual) / np.where(size == 0, np.nan, size)


def _symmetric(paths: Forecasts) -> Matrix:
    total = np.abs(paths.mean) + np.abs(paths.actual)
    return np.where(total == 0, 0.0, 200 * np.abs(paths.mean - paths.actual) / np.where(total == 0, 1.0, total))


def _quantile_loss(paths: Forecasts) -> Matrix | None:
    """Twice the mean over the quantiles of their pinball loss."""
    losses = [pinball(values, paths.actual[:, : values.shape[1]], level) for level, values in paths.quantiles.items()]
    return 2 * sum(losses[1:], losses[0]) / len(losses) if losses else None


METRICS = {
    "bias": Metric(lambda paths: paths.mean - paths.actual),
    "mse": Metric(lambda paths: (paths.mean - paths.actual) ** 2, "MSE"),
    "mae": Metric(lambda paths: np.abs(paths.mean - paths.actual), "MAE"),
    "rmse": Metric(lambda paths: (paths.mean - paths.actual) ** 2, "RMSE", np.sqrt),
    "mape": Metric(_percentage, "MAPE %", is_relative=True),
    "smape": Metric(_symmetric, "sMAPE %", is_relative=True),
    "wape": Metric(lambda paths: 100 * np.abs(paths.mean - paths.actual), is_relative=True, of_sum=True),
    "mase": Metric(lambda paths: np.abs(paths.mean - paths.actual) / paths.change[:, None], "MASE", of_series=True),
    "wql": Metric(_quantile_loss, "WQL", of_sum=True),
}
HEADINGS = {name: metric.heading for name, metric in METRICS.items() if metric.heading}
"""Metrics in tables."""
RELATIVE = tuple(name for name, metric in METRICS.items() if metric.is_relative)


def pinball(quantile: Matrix, actual: Matrix, level: float) -> Matrix:
    """max(level e, (level - 1) e) of the error e = actual - quantile; its mean is minimal at the level's quantile."""
    error = actual - quantile
    return np.maximum(level * error, (level - 1) * error)


def covered(low: Matrix, high: Matrix, actual: Matrix) -> Matrix:
    """100 where the actual value is between two ends, 0 where it is not, NaN where one of the three is missing."""
    unknown = np.isnan(low) | np.isnan(high) | np.isnan(actual)
    return np.where(unknown, np.nan, 100.0 * ((low <= actual) & (actual <= high)))


def inside_cells(paths: Forecasts) -> dict[str, Matrix]:
    """`covered` by the intervals between all quantiles, by level: `coverage80`."""
    by_level = paths.quantiles
    pairs = central_pairs([*by_level])
    return {f"coverage{round(100 * (b - a), 6):g}": covered(by_level[a], by_level[b], paths.actual) for a, b in pairs}


def band_cells(paths: Forecasts) -> dict[str, dict[str, Matrix]]:
    """What intervals and quantiles are scored by, in scaled units; NaN where there is none or no actual value.

    Coverage in percent and width of intervals by level (`80`) and of central quantiles (`q10_q90`); of quantiles
    (`q10`) pinball loss and coverage, the percentage of actual values not above.
    """
    scale, cells = paths.scale[:, None], dict[str, dict[str, Matrix]]()

    def scored(low: Matrix, high: Matrix) -> dict[str, Matrix]:
        inside = covered(low, high, paths.actual[:, : low.shape[1]])
        return {"coverage": inside, "width": np.where(np.isnan(inside), np.nan, (high - low) / scale)}

    for name in paths.bands:
        if name.startswith("lo"):
            cells[name[2:]] = scored(paths.bands[name], paths.bands[f"hi{name[2:]}"])
    names = {level: quantile_name(level) for level in paths.levels}
    if not paths.bands or not all(level == MEDIAN or name in paths.bands for level, name in names.items()):
        return cells  # quantiles from intervals
    # where they are all equal there are none
    known = [np.isnan(paths.bands[name]) for name in names.values() if name in paths.bands]
    own = {}
    for level, values in paths.levels.items():
        missing = known[0][:, : values.shape[1]] if known else np.isnan(values)
        own[level] = np.where(missing, np.nan, values)
    for low, high in central_pairs([*own]):
        cells[f"{names[low]}_{names[high]}"] = scored(own[low], own[high])
    for level, values in own.items():
        actual = paths.actual[:, : values.shape[1]]
        below = covered(np.full_like(values, -np.inf), values, actual)
        cells[names[level]] = {"pinball": pinball(values, actual, level) / scale, "coverage": below}
    return cells


def seasonal_scale(blocks: Iterable[Float[np.ndarray, "_ n"]], season: int) -> Float64[np.ndarray, " *n"]:
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


def tidy_csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """CSV text with a header; undefined and infinite values are empty cells."""
    return csv_text([header, *(without_nan(list(row)) for row in rows)])


def scores_table(
    keys: Sequence[str], rows: Sequence[tuple[Sequence[str], Mapping[str, float]]], own: str, title: str | None = None
) -> Table:
    """Overall scores as a table for the terminal.

    Args:
        keys: headings of the names of a row.
        rows: names of each row and its values by metric, in groups of equal first names if there are several names.
        own: the last name of the rows in bold.
        title: above the table.
    """
    # no rules between columns, so that nine columns fit into 80 characters
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=0)
    for key in keys:
        table.add_column(key)
    used = dict.fromkeys(metric for _, values in rows for metric in values)
    metrics = [name for name in [*HEADINGS, *(each for each in used if each not in METRICS)] if name in used]
    for metric in metrics:
        other = f"in {metric.removeprefix('coverage')} %" if metric.startswith("coverage") else metric.upper()
        table.add_column(HEADINGS.get(metric, other), justify="right")
    for place, (names, values) in enumerate(rows):
        cells = (shown(values.get(metric, math.nan)) for metric in metrics)
        is_last = place + 1 == len(rows) or (len(keys) > 1 and rows[place + 1][0][0] != names[0])
        table.add_row(*names, *cells, style="bold" if names[-1] == own else None, end_section=is_last)
    return table


def shown(value: float) -> str:
    """A score: at most 8 characters for usual values, so that nine columns fit into 80: 12346 rather than 1.235e+04."""
    if math.isnan(value):
        return "-"
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}".replace("e+", "e")
