"""Ridge regression on windows: sums of products over them, the solve, and blocks of windows to hold out.

The inputs of a window are its history minus its mean and, for some maps, the newest rows of all columns minus their
means; the outputs are the rows of its horizon minus the mean of the history. Sums of disjoint windows add up, and a
block is held out by subtracting its sums.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64

from informer.data.windows import Windows
from informer.networks.ops.gaps import history_of

CHUNK = 1024
"""Windows that are in memory at once; of several columns, so many in all."""

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

    def ridge(
        self, penalty: Float64[np.ndarray, " p"], prior: Float64[np.ndarray, "p h"] | float = 0.0
    ) -> Float64[np.ndarray, "p h"]:
        """argmin over w of |X w - y|^2 + (w - prior)^T diag(penalty) (w - prior), with penalties above 0."""
        factor = torch.linalg.cholesky(torch.from_numpy(self.gram + np.diag(penalty)))
        right = torch.from_numpy(self.completed().cross + penalty[:, None] * prior)
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
    lookback: int | None = None,
    steps: Sequence[int] | None = None,
    others: Sequence[int] = (),
    newest: int = 0,
    most: int | None = None,
) -> list[Sums]:
    """Sums over windows for each group of columns: over the columns of the group together.

    A missing row of a history is the last observed one, as in forecasting.

    Args:
        windows: windows.
        groups: columns of the store; each column is forecast from its own history.
        lookback: rows of history that are read; None: all.
        steps: steps of the horizon, counted from 0; None: all.
        others: columns of which the `newest` rows are further inputs.
        most: largest number of windows; more are thinned evenly.
    """
    sizes, store, seq_len = windows.sizes, windows.store, windows.sizes.seq_len
    n = seq_len if lookback is None else lookback
    ahead = sizes.first + np.asarray(range(sizes.pred_len) if steps is None else steps)
    kept = np.concatenate([np.arange(seq_len), ahead])
    starts, columns = _starts(windows), list(dict.fromkeys([*(c for group in groups for c in group), *others]))
    place_of = {column: place for place, column in enumerate(columns)}
    starts = starts[:: -(-len(starts) // most) if most and len(starts) else 1]
    n_inputs, size = n + newest * len(others), max(CHUNK // len(columns), 1)
    totals = [Sums.of(np.zeros((0, n_inputs)), np.zeros((0, len(ahead)))) for _ in groups]
    for begin in range(0, len(starts), size):
        places = torch.from_numpy(starts[begin : begin + size, None, None] + kept[:, None]).to(store.values.device)
        z = store.values[places, torch.tensor(columns, device=places.device)].double().cpu()
        are_missing = z.isnan().numpy()[:, seq_len - n :]
        history = history_of(z[:, :seq_len])
        further = (history[:, seq_len - newest :] - history.mean(dim=1, keepdim=True)).numpy()
        further = further[..., [place_of[each] for each in others]].reshape(len(z), 1, -1)
        history = history[:, seq_len - n :]
        centred = (torch.cat([history, z[:, seq_len:]], dim=1) - history.mean(dim=1, keepdim=True)).numpy()
        for place, group in enumerate(groups):
            of_group = [place_of[column] for column in group]
            usable = _are_observed(are_missing[..., of_group], n)
            rows, more = centred[..., of_group].swapaxes(1, 2)[usable], further.repeat(len(group), axis=1)[usable]
            totals[place] += Sums.of(np.hstack([rows[:, :n], more]), rows[:, n:])
    return totals


def _are_observed(missing: Bool[np.ndarray, "w z c"], n: int) -> Bool[np.ndarray, "w c"]:
    """Whether enough of the n rows of each history, and of its horizon, is observed."""
    least = LEAST_SHARE * (1 - missing.mean(axis=(0, 1)))
    parts = (1 - part.mean(axis=1) for part in (missing[:, :n], missing[:, n:]))
    return np.all([(share >= least) & (share > 0) for share in parts], axis=0)


def _starts(windows: Windows) -> Int64[np.ndarray, " w"]:
    """Store rows at which the windows start, in increasing order."""
    return windows.starts.unique().cpu().numpy()


def runs_of(windows: Windows) -> list[range]:
    """The rows at which windows start, as runs of consecutive rows; windows of two series are never in one."""
    starts = _starts(windows)
    firsts = np.flatnonzero(np.diff(starts, prepend=-2) != 1)
    counts = np.diff(firsts, append=len(starts))
    return [range(first, first + n) for first, n in zip(starts[firsts].tolist(), counts.tolist(), strict=True)]


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
