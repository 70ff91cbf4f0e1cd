"""Sums over windows of a column with gaps.

A missing row of the lookback window is replaced by the last observed one, as in forecasting. A missing row of the
horizon is skipped: a product with it is summed over the windows in which it is observed, and `Moments` scales the sum
to all windows (available-case analysis: R. Little and D. Rubin, "Statistical Analysis with Missing Data", chapter 3).
This is consistent if values are missing independently of their size. Leaving out every window with a gap would leave
hardly any if single cells are missing. Windows with few observed values, for which replacing fails, are left out.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy.lib.stride_tricks import sliding_window_view

LEAST_SHARE = 0.5
"""Windows are left out if their lookback window or horizon has less than this times the column's share of observed
rows."""


@dataclass(frozen=True, eq=False, slots=True)
class ObservedRows:
    """Rows of one column of one series.

    Args:
        carried: rows with missing values replaced by the last observed one, at the start by the first; 0 if none is.
        zeroed: rows with missing values replaced by 0.
        observed: True where a value is not missing.
    """

    carried: Float64[np.ndarray, "t"]
    zeroed: Float64[np.ndarray, "t"]
    observed: Bool[np.ndarray, "t"]

    @classmethod
    def of(cls, rows: Float64[np.ndarray, "t"]) -> "ObservedRows":
        """From rows whose missing values are NaN."""
        observed = ~np.isnan(rows)
        return cls(carried_rows(rows[:, None])[:, 0], np.where(observed, rows, 0.0), observed)

    def windows(
        self, starts: Int64[np.ndarray, "w"], seq_len: int, ahead: Int64[np.ndarray, "h"]
    ) -> tuple[Int64[np.ndarray, "k"], Float64[np.ndarray, "k z"], Int64[np.ndarray, "h"]]:
        """Windows with enough observed values.

        Args:
            starts: first rows of the windows.
            seq_len: rows of the lookback window.
            ahead: offsets of the horizon's rows from the first row of the window.

        Returns:
            Indices of these windows in `starts`, their lookback windows and horizons, and for each row of the
            horizon the number of windows in which it is observed.
        """
        in_horizon, in_lookback = (
            self.observed[starts[:, None] + ahead],
            sliding_window_view(self.observed, seq_len)[starts],
        )
        least = LEAST_SHARE * self.observed.mean()
        usable = np.flatnonzero(
            (in_lookback.mean(axis=1) >= least) & (in_horizon.mean(axis=1) >= least) & in_lookback.any(axis=1)
        )
        first = starts[usable]
        history = sliding_window_view(self.carried, seq_len)[first]
        return usable, np.hstack([history, self.zeroed[first[:, None] + ahead]]), in_horizon[usable].sum(axis=0)


def carried_rows(rows: Float64[np.ndarray, "t c"]) -> Float64[np.ndarray, "t c"]:
    """`ObservedRows.carried` for several columns."""
    observed = ~np.isnan(rows)
    if observed.all():
        return rows
    indices = np.maximum.accumulate(np.where(observed, np.arange(len(rows))[:, None], -1), axis=0)
    indices = np.where(indices < 0, observed.argmax(axis=0), indices)
    return np.nan_to_num(np.take_along_axis(rows, indices, axis=0))


def scaled_up(
    products: Float64[np.ndarray, "z z"], windows: int | float, observed: Float64[np.ndarray, "h"], first: int
) -> Float64[np.ndarray, "z z"]:
    """Scale sums of products to what they would be if all rows of the horizon were observed in all windows.

    Args:
        products: sums in which a missing row of the horizon counts as 0.
        windows: number of windows.
        observed: number of windows in which each row of the horizon is observed; above 0.
        first: position of the horizon's first row.
    """
    factor = np.ones(len(products))
    factor[first : first + len(observed)] = windows / observed
    scaled = products * factor * factor[:, None]
    np.fill_diagonal(scaled, products.diagonal() * factor)
    return scaled
