"""How much each of many series counts in the maps that they share."""

from collections.abc import Sequence
from math import nan

import numpy as np

from informer.config.lengths import WindowSizes
from informer.data.windows import Store
from informer.linear.moments import Run

LEAST_ERROR = 0.1
"""Lower bound of a series' error, in medians over all: one that repeats exactly must not count for all."""


def series_weights(
    store: Store, sizes: WindowSizes, runs: Sequence[Run], channels: Sequence[tuple[int, int]], *, period: int
) -> list[float]:
    """One over the mean square of the seasonal naive's errors, so that a volatile series does not count more; mean 1.

    Args:
        runs: training windows.
        channels: pairs of series and column.
        period: rows of a season.
    """
    if len(store.first_rows) == 1:
        return [1.0] * len(channels)
    by_series: dict[int, list[Run]] = {}
    for run in runs:
        by_series.setdefault(run.series, []).append(run)
    errors = np.array([_naive_error(store, sizes, by_series.get(one, []), column, period) for one, column in channels])
    known = errors[np.isfinite(errors) & (errors > 0)]
    if not len(known):
        return [1.0] * len(channels)
    typical = float(np.median(known))
    weights = 1 / np.maximum(np.nan_to_num(errors, nan=typical), LEAST_ERROR * typical)
    return list(weights / weights.mean())


def _naive_error(store: Store, sizes: WindowSizes, runs: Sequence[Run], column: int, period: int) -> float:
    """Mean squared change from one season to the next over the observed rows of these windows; NaN if there is none."""
    if not runs:
        return nan
    rows = store.values[runs[0].first : runs[-1].stop + sizes.rows - 1, column].double()
    if len(rows) <= period:
        return nan
    changes = (rows[period:] - rows[:-period]).square()
    return float(changes[~changes.isnan()].mean())
