"""Weights of many series in their shared map."""

from collections.abc import Sequence
from math import nan

import numpy as np

from informer.config.lengths import WindowSizes
from informer.data.windows import Store
from informer.linear.moments import Run

LEAST_ERROR = 0.1
"""Lower bound of a series' error, as a multiple of the median: a series that repeats exactly must not dominate."""


def series_weights(
    store: Store, sizes: WindowSizes, runs: Sequence[Run], channels: Sequence[tuple[int, int]], *, period: int
) -> list[float]:
    """Weights inverse to the mean squared error of the seasonal naive, so that volatile series do not dominate.

    Args:
        store: rows of all series.
        sizes: sizes of a window.
        runs: training windows.
        channels: pairs of series and column.
        period: rows of a season.

    Returns:
        One weight per channel, with mean 1.
    """
    if len(store.first_rows) == 1:
        return [1.0] * len(channels)
    by_series: dict[int, list[Run]] = {}
    for run in runs:
        by_series.setdefault(run.series, []).append(run)
    errors = np.array(
        [_naive_error(store, sizes, by_series.get(series, []), column, period) for series, column in channels]
    )
    valid = errors[np.isfinite(errors) & (errors > 0)]
    if not len(valid):
        return [1.0] * len(channels)
    typical = float(np.median(valid))
    weights = 1 / np.maximum(np.nan_to_num(errors, nan=typical), LEAST_ERROR * typical)
    return list(weights / weights.mean())


def _naive_error(store: Store, sizes: WindowSizes, runs: Sequence[Run], column: int, period: int) -> float:
    """Mean squared change from season to season over the observed rows of these windows; NaN if there is none."""
    if not runs:
        return nan
    rows = store.values[runs[0].first : runs[-1].stop + sizes.rows - 1, column].double()
    if len(rows) <= period:
        return nan
    changes = (rows[period:] - rows[:-period]).square()
    return float(changes[~changes.isnan()].mean())
