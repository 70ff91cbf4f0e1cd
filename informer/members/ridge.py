"""Ridge regression on windows: sums of products over them, the solve, and blocks of windows to hold out.

The inputs of a window are its history and, for some maps, further inputs at its last row; the outputs are the rows of
its horizon. Sums of disjoint windows add up, a block is held out by subtracting
its sums, and any part of the history is a part of the sums.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from numpy.lib.stride_tricks import sliding_window_view

from informer.data.windows import Windows
from informer.networks.ops.gaps import history_of

FurtherInputs = Callable[[Windows], Float64[np.ndarray, "w e"]]

CHUNK = 1024
"""Windows that are in memory at once; of several columns, so many in all."""

LONG = 300_000
"""Rows in the windows of a run, counted as often as they are in one, from which running sums are faster than a matrix
product; and at least half as many windows as a window has rows."""

ROUNDING = 1e-12
"""Bound on the error of a difference of sums, relative to the larger one; see `Sums.__sub__`."""

LEAST_SHARE = 0.5
"""Windows count if their history and horizon have at least this times the mean share of observed rows: values carried
over long gaps are no history."""


@dataclass(frozen=True, eq=False, slots=True)
class Sums:
    """Sums of products over windows, of inputs x and outputs y.

    Args:
        gram: sum of x x^T.
        cross: sum of x y^T over the windows in which the output is observed.
        square: sum of y^2 over these.
        windows: number of windows.
        observed: number of windows in which each output is observed.
    """

    gram: Float64[np.ndarray, "p p"]
    cross: Float64[np.ndarray, "p h"]
    square: Float64[np.ndarray, " h"]
    windows: int
    observed: Float64[np.ndarray, " h"]

    @classmethod
    def of(cls, x: Float64[np.ndarray, "w p"], y: Float64[np.ndarray, "w h"]) -> "Sums":
        """From the windows themselves; a missing output is NaN."""
        is_observed = ~np.isnan(y)
        y = np.where(is_observed, y, 0.0)
        return cls(
            _product(x.T, x), _product(x.T, y), (y**2).sum(axis=0), len(x), is_observed.sum(axis=0).astype(np.float64)
        )

    @classmethod
    def zero(cls, p: int, h: int) -> "Sums":
        """Over no window."""
        return cls(np.zeros((p, p)), np.zeros((p, h)), np.zeros(h), 0, np.zeros(h))

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    def __sub__(self, other: "Sums") -> "Sums":
        """The sums without some of the windows; what rounding can have taken from the squares is added to
        them, so that the matrix stays positive definite."""
        rest = Sums(*(getattr(self, name) - getattr(other, name) for name in self.__slots__))
        rest.gram[np.diag_indices(len(rest.gram))] += ROUNDING * self.gram.diagonal()
        return rest

    @property
    def is_known(self) -> bool:
        """Whether every output was observed in some window."""
        return self.windows > 0 and bool((self.observed > 0).all())

    def completed(self) -> "Sums":
        """The sums as if all outputs were observed: each is scaled from the windows in which it is, to all of them.

        This is consistent if values are missing independently of their size (available-case analysis: R. Little and
        D. Rubin, "Statistical Analysis with Missing Data", chapter 3). To leave out every window with a gap would leave
        hardly any where single cells are missing. An output that was never observed is 0.
        """
        if (self.observed == self.windows).all():
            return self
        factor = np.where(self.observed > 0, self.windows / np.maximum(self.observed, 1), 0.0)
        return replace(self, cross=self.cross * factor, square=self.square * factor)

    def reading(self, inputs: Sequence[int] | Int64[np.ndarray, " k"]) -> "Sums":
        """The regression on some of the inputs."""
        rows = np.asarray(inputs, dtype=int)
        return replace(self, gram=self.gram[np.ix_(rows, rows)], cross=self.cross[rows])

    def centred(self, n: int, lookback: int) -> "Sums":
        """The regression of y - m on x - m, where m is the mean of the last `lookback` rows of the history.

        Args:
            n: number of inputs that are history, the first ones; of the others, m is not subtracted.
            lookback: rows of the history that are kept.
        """
        sums, shifted = self.completed(), np.zeros(len(self.gram) - n + lookback)
        shifted[:lookback] = 1.0
        mean_with_x = self.gram[n - lookback :, n - lookback : n].mean(axis=1)
        mean_square, mean_with_y = mean_with_x[:lookback].mean(), sums.cross[n - lookback : n].mean(axis=0)
        half = np.outer(shifted, mean_with_x - mean_square / 2 * shifted)
        cross = sums.cross[n - lookback :] - mean_with_x[:, None] + np.outer(shifted, mean_square - mean_with_y)
        gram = self.gram[n - lookback :, n - lookback :] - half - half.T
        return replace(sums, gram=gram, cross=cross, square=sums.square - 2 * mean_with_y + mean_square)

    def ridge(
        self, penalty: Float64[np.ndarray, " p"], prior: Float64[np.ndarray, "p h"] | float = 0.0
    ) -> Float64[np.ndarray, "p h"]:
        """argmin over w of |X w - y|^2 + (w - prior)^T diag(penalty) (w - prior), with penalties above 0."""
        factor = torch.linalg.cholesky(torch.from_numpy(self.gram + np.diag(penalty)))
        right = torch.from_numpy(self.cross + penalty[:, None] * prior)
        return torch.cholesky_solve(right, factor).numpy()

    def loss(self, weight: Float64[np.ndarray, "p h"]) -> Float64[np.ndarray, " h"]:
        """Sum of squared errors of each output; 0 for one that was never observed."""
        sums = self.completed()
        losses = (weight * (_product(self.gram, weight) - 2 * sums.cross)).sum(axis=0) + sums.square
        return np.where(self.observed > 0, losses, 0.0)


def _product(left: Float64[np.ndarray, "n m"], right: Float64[np.ndarray, "m k"]) -> Float64[np.ndarray, "n k"]:
    """`left @ right` by torch: numpy's threads wait for each other, and on busy cores take several times as long."""
    return (torch.from_numpy(left) @ torch.from_numpy(right)).numpy()


def window_sums(
    windows: Windows,
    groups: Sequence[Sequence[int]],
    *,
    steps: Sequence[int] | None = None,
    further: FurtherInputs | None = None,
    most: int | None = None,
) -> list[Sums]:
    """Sums over windows for each group of columns: over the columns of the group together.

    A missing row of a history is the last observed one, as in forecasting. From the rows of each window a
    constant is subtracted, which does not change maps that add the mean of their history.

    Args:
        windows: windows.
        groups: columns of the store; each column is forecast from its own history.
        steps: steps of the horizon, counted from 0; None: all.
        further: the inputs besides the history, of some windows.
        most: largest number of windows that are not part of a long run; more are thinned evenly.
    """
    sizes, values, n = windows.sizes, windows.store.values, windows.sizes.seq_len
    ahead = sizes.first + np.asarray(range(sizes.pred_len) if steps is None else steps)
    kept = np.concatenate([np.arange(n), ahead])

    def inputs(starts: Int64[np.ndarray, " w"]) -> Float64[np.ndarray, "w e"]:
        return np.zeros((len(starts), 0)) if further is None else further(windows.at(torch.from_numpy(starts)))

    starts, columns = _starts(windows), [column for group in groups for column in group]
    firsts, counts = _runs(starts)
    are_long = (counts >= sizes.rows // 2) & (counts * sizes.rows >= LONG) & (not windows.store.has_gaps)
    width = inputs(starts[:0]).shape[1]
    totals = [Sums.zero(n + width, len(ahead)) for _ in groups]
    for first, count in zip(firsts[are_long], counts[are_long], strict=True):
        rows = values[first : first + count + sizes.rows - 1, columns].double().cpu().numpy()
        of_groups = np.split((rows - rows.mean(axis=0)).T, np.cumsum([len(group) for group in groups])[:-1])
        x_z, x_x = np.zeros((len(groups), width, len(kept))), np.zeros((width, width))
        for begin in range(0, count if width else 0, CHUNK):
            x = inputs(first + np.arange(begin, min(begin + CHUNK, count)))
            x_x += _product(x.T, x)
            for place, group in enumerate(of_groups):
                x_z[place] += x.T @ sliding_window_view(group.sum(axis=0), sizes.rows)[begin : begin + len(x), kept]
        for place, group in enumerate(of_groups):
            z_z = sum(_running_products(column, sizes.rows)[np.ix_(kept, kept)] for column in group)
            gram = np.block([[z_z[:n, :n], x_z[place, :, :n].T], [x_z[place, :, :n], len(group) * x_x]])
            cross = np.concatenate([z_z[:n, n:], x_z[place, :, n:]])
            observed = np.full(len(ahead), float(count * len(group)))
            totals[place] += Sums(gram, cross, z_z.diagonal()[n:], int(count) * len(group), observed)
    short = starts[np.repeat(~are_long, counts)]
    thinned = short[:: -(-len(short) // most) if most and len(short) else 1]
    size = max(CHUNK // len(columns), 1)
    for begin in range(0, len(thinned), size):
        chunk = thinned[begin : begin + size]
        places = torch.from_numpy(chunk[:, None, None] + kept[:, None]).to(values.device)
        z = values[places, torch.tensor(columns, device=values.device)].double().cpu()
        are_missing = z.isnan().numpy()
        z = torch.cat([history_of(z[:, :n]), z[:, n:]], dim=1)
        x, centred = inputs(chunk), (z - z[:, :n].mean(dim=1, keepdim=True)).numpy()
        for column, place in enumerate(place for place, group in enumerate(groups) for _ in group):
            usable = _are_observed(are_missing[..., column], n)
            rows = centred[usable, :, column]
            totals[place] += Sums.of(np.hstack([rows[:, :n], x[usable]]), rows[:, n:])
    return totals


def _are_observed(missing: Bool[np.ndarray, "w z"], n: int) -> Bool[np.ndarray, " w"]:
    """Whether enough of the n rows of each history, and of its horizon, is observed."""
    least = LEAST_SHARE * (1 - missing.mean())
    parts = (1 - part.mean(axis=1) for part in (missing[:, :n], missing[:, n:]))
    return np.all([(share >= least) & (share > 0) for share in parts], axis=0)


def _running_products(rows: Float64[np.ndarray, " t"], n: int) -> Float64[np.ndarray, "n n"]:
    """X^T X of all windows of n consecutive rows, with X [windows n], in O(n^2) after one correlation.

    Consecutive windows share all rows but one: entry (i + 1, j + 1) is entry (i, j) minus the first product of rows
    plus one after the last.
    """
    count = len(rows) - n + 1
    padded = np.concatenate([rows, np.zeros(n)])
    shifted = sliding_window_view(padded, n)
    along = np.empty((n, n))  # entry (i, i + lag) in row i and column lag
    along[0] = np.correlate(rows, rows[:count], mode="valid")
    along[1:] = padded[count : count + n - 1, None] * shifted[count : count + n - 1]
    along[1:] -= rows[: n - 1, None] * shifted[: n - 1]
    np.cumsum(along, axis=0, out=along)
    products = np.empty((n, n))
    for row in range(n):
        products[row, row:] = products[row:, row] = along[row, : n - row]
    return products


def _starts(windows: Windows) -> Int64[np.ndarray, " w"]:
    """Store rows at which the windows start, in increasing order."""
    return windows.starts.unique().cpu().numpy()


def _runs(starts: Int64[np.ndarray, " w"]) -> tuple[Int64[np.ndarray, " r"], Int64[np.ndarray, " r"]]:
    """First rows, and numbers, of windows that start at consecutive rows, which are in one series."""
    firsts = np.flatnonzero(np.diff(starts, prepend=-2) != 1)
    return starts[firsts], np.diff(firsts, append=len(starts))


def runs_of(windows: Windows) -> list[range]:
    """The rows at which windows start, as runs of consecutive rows; windows of two series are never in one."""
    return [range(first, first + count) for first, count in np.transpose(_runs(_starts(windows))).tolist()]


def joined(*parts: Windows) -> Windows:
    """All windows of each series from the first to the last in any of the parts, also those that span two parts."""
    windows = parts[0].at(torch.cat([part.starts for part in parts]).unique())
    series = windows.store.series_of(windows.starts)
    changes = series.diff().nonzero().flatten().cpu() + 1
    groups = windows.starts.cpu().tensor_split(changes)
    return windows.at(torch.cat([torch.arange(int(each[0]), int(each[-1]) + 1) for each in groups if len(each)]))


def blocks_of(windows: Windows, n: int) -> Iterator[tuple[Windows, Windows, Windows]]:
    """For each of n blocks of time: its windows, the windows to fit on, and those between, which are in neither since
    their horizons share rows with those of the block.

    Block i is the i-th part of each series' windows; a series of fewer windows is in some of the blocks only.
    """
    starts = torch.from_numpy(_starts(windows))
    series, reach = windows.store.series_of(starts.to(windows.starts.device)).cpu(), windows.sizes.pred_len
    counts = torch.bincount(series)
    counts = counts[counts > 0]
    firsts, number = counts.cumsum(0) - counts, torch.arange(len(counts)).repeat_interleave(counts)
    bounds = [firsts + (counts * i / n).round().long() for i in range(n + 1)]
    place = torch.arange(len(starts))
    for first, stop in pairwise(bounds):
        is_held = (place >= first[number]) & (place < stop[number])
        begin, end = starts[first.clamp(max=len(starts) - 1)] - reach, starts[stop - 1] + reach
        is_near = (starts > begin[number]) & (starts < end[number]) & (stop > first)[number]
        yield tuple(windows.at(starts[part]) for part in (is_held, ~is_near, is_near & ~is_held))  # type: ignore[misc]
