"""Sums over windows of a column with gaps.

A missing row of the history counts as the last observed one, as it does when the maps forecast. A missing row of the
future counts nowhere: products with it are sums over the windows in which it is observed, which `Moments` scales to all
windows (available-case analysis: R. Little and D. Rubin, "Statistical Analysis with Missing Data", chapter 3). That is
consistent where what is missing does not depend on the values. Leaving out every window with a gap would leave hardly
any where single cells are missing; windows of which little is observed, where that fails, are left out.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy.lib.stride_tricks import sliding_window_view

LEAST_SHARE = 0.5
"""Of a column's observed rows: a window whose history or future holds a smaller share of observed rows is left out."""


@dataclass(frozen=True, eq=False, slots=True)
class ObservedRows:
    """The rows of one column of one series.

    Args:
        carried: with the last observed value for a missing one; the first, where none is before it; 0 without any.
        zeroed: with 0 for a missing value.
        observed: which are not missing.
    """

    carried: Float64[np.ndarray, "t"]
    zeroed: Float64[np.ndarray, "t"]
    observed: Bool[np.ndarray, "t"]

    @classmethod
    def of(cls, rows: Float64[np.ndarray, "t"]) -> "ObservedRows":
        """From rows in which a missing value is NaN."""
        observed = ~np.isnan(rows)
        return cls(carried_rows(rows[:, None])[:, 0], np.where(observed, rows, 0.0), observed)

    def windows(
        self, starts: Int64[np.ndarray, "w"], seq_len: int, ahead: Int64[np.ndarray, "h"]
    ) -> tuple[Int64[np.ndarray, "k"], Float64[np.ndarray, "k z"], Int64[np.ndarray, "h"]]:
        """Windows of which enough is observed.

        Args:
            starts: their first rows.
            seq_len, ahead: rows of the history, and places of those of the future.

        Returns:
            Places of these windows among `starts`, their history and future, and in how many of them each row of the
            future is observed.
        """
        known, whole = self.observed[starts[:, None] + ahead], sliding_window_view(self.observed, seq_len)[starts]
        least = LEAST_SHARE * self.observed.mean()
        kept = np.flatnonzero((whole.mean(axis=1) >= least) & (known.mean(axis=1) >= least) & whole.any(axis=1))
        first = starts[kept]
        history = sliding_window_view(self.carried, seq_len)[first]
        return kept, np.hstack([history, self.zeroed[first[:, None] + ahead]]), known[kept].sum(axis=0)


def carried_rows(rows: Float64[np.ndarray, "t c"]) -> Float64[np.ndarray, "t c"]:
    """See `ObservedRows.carried`; of several columns."""
    observed = ~np.isnan(rows)
    if observed.all():
        return rows
    places = np.maximum.accumulate(np.where(observed, np.arange(len(rows))[:, None], -1), axis=0)
    places = np.where(places < 0, observed.argmax(axis=0), places)
    return np.nan_to_num(np.take_along_axis(rows, places, axis=0))


def scaled_up(
    products: Float64[np.ndarray, "z z"], windows: int | float, observed: Float64[np.ndarray, "h"], first: int
) -> Float64[np.ndarray, "z z"]:
    """Sums of products of windows as if every row of the future were observed in all of them.

    Args:
        products: in which a missing row of the future is 0.
        windows: how many they are.
        observed: in how many of them each row of the future is observed; above 0.
        first: place of the first row of the future.
    """
    factor = np.ones(len(products))
    factor[first : first + len(observed)] = windows / observed
    found = products * factor * factor[:, None]
    np.fill_diagonal(found, products.diagonal() * factor)
    return found
