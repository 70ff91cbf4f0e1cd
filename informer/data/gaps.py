"""Gaps that stay: which columns have an observed-mask column, and which windows have enough observed rows.

Missing values are NaN in the series and in the rows of the store, so that a batch shows by itself what is missing.
"""

from collections.abc import Sequence
from math import ceil

import numpy as np
from jaxtyping import Bool, Int64

from informer.config.lengths import WindowSizes
from informer.data.categories import Trained
from informer.data.read.source import Series
from informer.data.split import Split
from informer.errors import InputError

NOT_READ = (
    "dataset.fill=mask: the model was trained without it, and reads no gaps; set dataset.fill=ffill, linear or zero, "
    "or train with dataset.fill=mask"
)

ROUNDING = 1e-9
"""Of a share times a number of rows."""


def masks_of(
    panel: Sequence[Series], splits: Sequence[Split], *, keeps_gaps: bool, trained: Trained | None
) -> tuple[int, ...] | None:
    """Places of the columns with an observed-mask column: as in training, if that was before; None: no gaps are read.

    Raises:
        InputError: gaps are to stay, and the model that was trained does not read them.
    """
    if trained is None:
        return gap_columns(panel, splits) if keeps_gaps else None
    if keeps_gaps and trained.masked is None:
        raise InputError(NOT_READ)
    return trained.masked


def gap_columns(panel: Sequence[Series], splits: Sequence[Split]) -> tuple[int, ...]:
    """Places of the columns with a missing value in the training rows of some series.

    A network learns nothing from a mask that is constant over all of training, so other columns have none.
    """
    found = np.zeros(len(panel[0].columns), dtype=bool)
    for series, split in zip(panel, splits, strict=True):
        found |= np.isnan(series.values[split.train.start : split.train.stop]).any(axis=0)
    return tuple(int(place) for place in np.flatnonzero(found))


def observed_rows(panel: Sequence[Series], targets: Sequence[int]) -> Bool[np.ndarray, "rows"]:
    """Rows of all series, one after the other, in which some target is observed."""
    return np.concatenate([~np.isnan(series.values[:, list(targets)]).all(axis=1) for series in panel])


def well_observed(
    starts: Int64[np.ndarray, "n"], observed: Bool[np.ndarray, "rows"], sizes: WindowSizes, least: float
) -> Int64[np.ndarray, "k"]:
    """The windows in which this share of the rows of the history, and of those of the horizon, is observed.

    Args:
        starts: first row of each window.
        observed: see `observed_rows`.
        least: share, above 0.
    """
    before = np.concatenate([[0], np.cumsum(observed)])

    def count(first: int, stop: int) -> Int64[np.ndarray, "n"]:
        return before[starts + stop] - before[starts + first]

    enough = count(0, sizes.seq_len) >= least_rows(sizes.seq_len, least)
    return starts[enough & (count(sizes.first, sizes.rows) >= least_rows(sizes.pred_len, least))]


def seen_before(firsts: Sequence[int], observed: Bool[np.ndarray, "rows"], seq_len: int, least: float) -> list[int]:
    """The first rows of histories in which this share of the rows is observed; see `well_observed`."""
    before = np.concatenate([[0], np.cumsum(observed)])
    needed = least_rows(seq_len, least)
    return [first for first in firsts if before[first + seq_len] - before[first] >= needed]


def least_rows(rows: int, share: float) -> int:
    """Whole rows that are this share of `rows`, at least one."""
    return max(ceil(share * rows - ROUNDING), 1)
