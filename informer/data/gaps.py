"""Missing values (dataset.fill=mask): which columns get a mask column, which windows have enough observed rows.

Missing values stay NaN in the series, the store and the batches.
"""

from collections.abc import Sequence
from math import ceil

import numpy as np
from jaxtyping import Bool, Int64

from informer.config.lengths import WindowSizes
from informer.data.categories import Trained
from informer.data.read.source import Series, column_values
from informer.data.split import Split
from informer.errors import InputError, listed

NOT_READ = (
    "dataset.fill=mask: the model was trained without it, and reads no gaps; set dataset.fill=ffill, linear or zero, "
    "or train with dataset.fill=mask"
)

ROUNDING = 1e-9
"""Tolerance for rounding errors in a share times a number of rows."""


def masks_of(
    panel: Sequence[Series], splits: Sequence[Split], *, keeps_gaps: bool, trained: Trained | None
) -> tuple[int, ...] | None:
    """Positions of the columns with a mask column, as in training if the model is trained; None: gaps are not read.

    Raises:
        InputError: gaps are to be kept, but the trained model does not read them.
    """
    if trained is None:
        return gap_columns(panel, splits) if keeps_gaps else None
    if keeps_gaps and trained.masked is None:
        raise InputError(NOT_READ)
    return trained.masked


def gap_columns(panel: Sequence[Series], splits: Sequence[Split]) -> tuple[int, ...]:
    """Positions of the columns with a missing value in the training rows of some series.

    Other columns have no mask: a network cannot learn from a mask that is constant in training.
    """
    has_gap = np.zeros(len(panel[0].columns), dtype=bool)
    for series, split in zip(panel, splits, strict=True):
        has_gap |= np.isnan(series.values[split.train.start : split.train.stop]).any(axis=0)
    return tuple(int(position) for position in np.flatnonzero(has_gap))


def observed_rows(panel: Sequence[Series], targets: Sequence[int]) -> Bool[np.ndarray, "rows"]:
    """For the rows of all series, one after the other: whether some target is observed."""
    return np.concatenate([~np.isnan(series.values[:, list(targets)]).all(axis=1) for series in panel])


def well_observed(
    starts: Int64[np.ndarray, "n"], observed: Bool[np.ndarray, "rows"], sizes: WindowSizes, min_observed: float
) -> Int64[np.ndarray, "k"]:
    """The windows whose lookback window and horizon each have at least this share of observed rows.

    Args:
        starts: first row of each window.
        observed: see `observed_rows`.
        sizes: sizes of a window.
        min_observed: share above 0.
    """
    before = np.concatenate([[0], np.cumsum(observed)])

    def count(first: int, stop: int) -> Int64[np.ndarray, "n"]:
        return before[starts + stop] - before[starts + first]

    enough = count(0, sizes.seq_len) >= least_rows(sizes.seq_len, min_observed)
    return starts[enough & (count(sizes.first, sizes.rows) >= least_rows(sizes.pred_len, min_observed))]


def seen_before(
    firsts: Sequence[int], observed: Bool[np.ndarray, "rows"], seq_len: int, min_observed: float
) -> list[int]:
    """First rows of the lookback windows that have at least this share of observed rows; see `well_observed`."""
    before = np.concatenate([[0], np.cumsum(observed)])
    needed = least_rows(seq_len, min_observed)
    return [first for first in firsts if before[first + seq_len] - before[first] >= needed]


def least_rows(rows: int, share: float) -> int:
    """Least number of whole rows that make up this share of `rows`, at least one."""
    return max(ceil(share * rows - ROUNDING), 1)


def sparse_history(series: Series, targets: Sequence[str], seq_len: int, min_observed: float) -> str | None:
    """The error message of a history with too few rows with a value of some target; None if there are enough."""
    values = column_values(series, targets)[-seq_len:]
    observed = int((~np.isnan(values)).any(axis=1).sum())
    if observed >= least_rows(len(values), min_observed):
        return None
    return (
        f"{series.name}: expected dataset.min_observed={min_observed:g} of the last {len(values)} rows with "
        f"a value of {listed(targets)}, found {observed} rows; "
        f"{'lower it to forecast anyway' if observed else 'a forecast needs at least one: add later rows'}"
    )
