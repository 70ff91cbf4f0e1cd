"""Sums of products over windows, the sufficient statistics of least squares.

With z = [history, future, features] of a window, the moments are sum z z^T.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float64
from numpy.lib.stride_tricks import sliding_window_view
from torch import Tensor

from informer.data.windows import Store, Windows
from informer.linear.features import OriginFeatures
from informer.linear.observed import ObservedRows, carried_rows, scaled_up
from informer.linear.products import window_products

_SIZE = 8192
"""Rows of a Fourier transform, unless a window is longer than an eighth of that."""

FEW = 3
"""The Fourier transform is used if FEW times the number of features is at most the rows of a window; with more
features a matrix product is faster."""

ROUNDING = 1e-14
"""Bound on the rounding error of a difference of sums, relative to the larger one."""

_KEPT_BYTES = 256_000_000
"""Maximum size of the cache of transformed features."""


@dataclass(frozen=True, slots=True)
class Run:
    """Windows that begin at consecutive rows [first, stop) of the store, all in one series."""

    series: int
    first: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.first


def runs_of(windows: Windows) -> list[Run]:
    """Windows as runs, in the order of the store."""
    starts = np.unique(windows.starts.cpu().numpy())
    if not len(starts):
        return []
    series = np.searchsorted(windows.store.first_rows.cpu().numpy(), starts, side="right") - 1
    cuts = np.flatnonzero((np.diff(starts) != 1) | (np.diff(series) != 0)) + 1
    return [
        Run(int(series[indices[0]]), int(starts[indices[0]]), int(starts[indices[-1]]) + 1)
        for indices in np.split(np.arange(len(starts)), cuts)
    ]


@dataclass(frozen=True, eq=False, slots=True)
class Moments:
    """sum z z^T over windows of one column, z = [history, future, features]; moments of disjoint windows add up.

    Args:
        products: the sum; a missing value of the future counts as 0.
        windows: number of windows.
        observed: number of windows in which each row of the future is observed; None: all. See
            `informer.linear.observed`.
        rounding: bound on the rounding error of each diagonal entry, if the sum is a difference of sums.
    """

    products: Float64[np.ndarray, "z z"]
    windows: int | float
    observed: Float64[np.ndarray, "h"] | None = None
    rounding: Float64[np.ndarray, "z"] | float = 0.0

    def complete(self, first: int) -> Float64[np.ndarray, "z z"]:
        """The products scaled as if all rows of the future, from index `first` on, were observed in every window."""
        if self.observed is None:
            return self.products
        return scaled_up(self.products, self.windows, self.observed, first)

    def times(self, weight: float) -> "Moments":
        """The moments with each window weighted."""
        observed = None if self.observed is None else weight * self.observed
        if weight == 1:
            return self
        return Moments(weight * self.products, weight * self.windows, observed, weight * self.rounding)

    def __add__(self, other: "Moments") -> "Moments":
        rounding = self.rounding + other.rounding
        return Moments(self.products + other.products, self.windows + other.windows, self._counts(other, 1), rounding)

    def __sub__(self, other: "Moments") -> "Moments":
        rounding = self.rounding + other.rounding + ROUNDING * self.products.diagonal()
        return Moments(self.products - other.products, self.windows - other.windows, self._counts(other, -1), rounding)

    def _counts(self, other: "Moments", sign: int) -> Float64[np.ndarray, "h"] | None:
        if self.observed is None and other.observed is None:
            return None
        counts, other_counts = (
            moments.windows if moments.observed is None else moments.observed for moments in (self, other)
        )
        return np.asarray(counts + sign * other_counts, dtype=np.float64)

    @property
    def is_known(self) -> bool:
        """Whether every row of the future was observed at least once."""
        return bool(self.windows) and (self.observed is None or bool((self.observed > 0.5).all()))


@dataclass(frozen=True, eq=False, slots=True)
class MomentSource:
    """Computes moments of any column of a store over any runs.

    Args:
        store: rows of all series, scaled, and their marks.
        seq_len, reach: rows of a window's history, and rows from there to the end of the forecast.
        features: features of a window at the last row of its history.
        steps: rows of the future to keep; None: all.
    """

    store: Store
    seq_len: int
    reach: int
    features: OriginFeatures
    steps: np.ndarray | None = None
    _spectra: dict[Run, np.ndarray] = field(default_factory=dict)
    _squares: dict[tuple[Run, ...], np.ndarray] = field(default_factory=dict)
    _latest: dict[tuple[int, int], ObservedRows | None] = field(default_factory=dict)
    _grouped: dict[int, tuple[Sequence[Run], dict[int, list[Run]]]] = field(default_factory=dict)

    @property
    def kept(self) -> np.ndarray:
        """Rows of a window that are kept: its history and `steps`."""
        steps = np.arange(self.reach) if self.steps is None else self.steps
        return np.concatenate([np.arange(self.seq_len), self.seq_len + steps])

    def of_series(self, runs: Sequence[Run], series: int) -> list[Run]:
        """The runs of one series; `runs` must not change."""
        key = id(runs)  # unique, because the list is kept alive
        if key not in self._grouped:
            by_series: dict[int, list[Run]] = {}
            for run in runs:
                by_series.setdefault(run.series, []).append(run)
            self._grouped[key] = runs, by_series
        return self._grouped[key][1].get(series, [])

    def feature_products(self, runs: Sequence[Run]) -> Float64[np.ndarray, "e e"]:
        """sum e e^T over the features e, which are the same for all columns."""
        key = tuple(runs)
        if key not in self._squares:
            size = len(self.features.groups)
            total = np.zeros((size, size))
            for chunk in self._chunks(runs):
                e = self._features(chunk).numpy()
                total += e.T @ e
            self._squares[key] = total
        return self._squares[key]

    def of(self, column: int, runs: Sequence[Run], feature_products: Float64[np.ndarray, "e e"]) -> Moments:
        """Moments of one column over runs of one series; `feature_products` must be of the same runs."""
        rows = self._rows_of(column, runs)
        if rows is not None:
            return self._observed(rows, runs)
        n, kept = self.seq_len + self.reach, self.kept
        own_products = np.zeros((len(kept), len(kept)))
        for run in runs:
            own_products += window_products(self._rows(run, column), n, kept)
        mixed = self._mixed(column, runs)[:, kept]
        products = np.block([[own_products, mixed.T], [mixed, feature_products]])
        return Moments(products, sum(map(len, runs)))

    def _observed(self, rows: ObservedRows, runs: Sequence[Run]) -> Moments:
        """Moments of a column with gaps; empty if some row of the future is never observed."""
        kept = self.kept
        total = np.zeros((len(kept) + len(self.features.groups),) * 2)
        windows, counts = 0, np.zeros(len(kept) - self.seq_len)
        for chunk in self._chunks(runs):
            starts = np.arange(chunk.first, chunk.stop) - int(self.store.first_rows[chunk.series])
            usable, z, observed = rows.windows(starts, self.seq_len, kept[self.seq_len :])
            z = np.hstack([z, self._features(chunk).numpy()[usable]])
            total += z.T @ z
            windows, counts = windows + len(usable), counts + observed
        moments = Moments(total, windows, counts)
        return moments if moments.is_known else Moments(np.zeros_like(total), 0)

    def _rows_of(self, column: int, runs: Sequence[Run]) -> ObservedRows | None:
        """Rows of a column, of the series of `runs`; None if nothing is missing."""
        if not self.store.has_gaps or not runs:
            return None
        key = runs[0].series, column
        if key not in self._latest:
            self._latest.clear()
            ends = [*self.store.first_rows[1:].tolist(), len(self.store.values)]
            rows = self.store.values[int(self.store.first_rows[key[0]]) : ends[key[0]], column].double().cpu().numpy()
            self._latest[key] = ObservedRows.of(rows) if np.isnan(rows).any() else None
        return self._latest[key]

    def _mixed(self, column: int, runs: Sequence[Run]) -> Float64[np.ndarray, "e n"]:
        """sum e z^T over windows z. For long runs it is a correlation, computed by Fourier transforms whose products
        are summed and transformed back once."""
        n, size = self.seq_len + self.reach, self._size
        mixed = np.zeros((len(self.features.groups), n))
        total: np.ndarray | None = None
        for chunk in self._chunks(runs):
            rows = self._rows(chunk, column)
            if len(chunk) < n or FEW * len(mixed) > n:
                mixed += self._features(chunk).numpy().T @ sliding_window_view(rows, n)
            else:
                product = self._spectrum(chunk) * np.fft.rfft(rows, size)[:, None]
                total = product if total is None else total + product
        return mixed if total is None else mixed + np.fft.irfft(total, size, axis=0)[:n].T

    @property
    def _size(self) -> int:
        """Rows of a Fourier transform, of which at least seven eighths start a window."""
        return max(_SIZE, 1 << (8 * (self.seq_len + self.reach) - 1).bit_length())

    def _spectrum(self, run: Run) -> np.ndarray:
        """Conjugate Fourier transform of a run's features along its windows, cached for other columns."""
        if run in self._spectra:
            return self._spectra[run]
        spectrum = np.fft.rfft(self._features(run).numpy(), self._size, axis=0).conj()
        if (len(self._spectra) + 1) * spectrum.nbytes <= _KEPT_BYTES:
            self._spectra[run] = spectrum
        return spectrum

    def _rows(self, run: Run, column: int) -> Float64[np.ndarray, "t"]:
        """All rows of one column that the windows of a run contain."""
        last = run.stop + self.seq_len + self.reach - 1
        return self.store.values[run.first : last, column].double().cpu().numpy()

    def _chunks(self, runs: Sequence[Run]) -> Iterator[Run]:
        """The windows as runs whose rows fit into one Fourier transform."""
        most = self._size - self.seq_len - self.reach + 1
        for run in runs:
            for first in range(run.first, run.stop, most):
                yield Run(run.series, first, min(first + most, run.stop))

    def _features(self, run: Run) -> Tensor:
        store, k = self.store, self.features.recent
        last = run.first + self.seq_len - 1 + int(store.first_marks[run.series] - store.first_rows[run.series])
        mark = store.marks[last : last + len(run)].cpu()
        if not k:
            return self.features.compose(
                torch.empty(len(run), 0, len(self.features.columns), dtype=torch.float64), mark
            )
        # with gaps, also earlier rows, from which values may be carried forward
        first = max(run.first - self.seq_len, int(store.first_rows[run.series])) if store.has_gaps else run.first
        rows = store.values[first : run.stop + self.seq_len - 1].double().cpu()
        rows = torch.from_numpy(carried_rows(rows.numpy()))[run.first - first :] if store.has_gaps else rows
        rows = rows[:, self.features.columns] if self.features.left_out else rows
        sums = torch.cat([rows.new_zeros(1, rows.shape[1]), rows.cumsum(0)])
        mean = (sums[self.seq_len :] - sums[: -self.seq_len]) / self.seq_len
        recent = rows[self.seq_len - k :].unfold(0, k, 1).transpose(1, 2) - mean[:, None]
        return self.features.compose(recent, mark)


def joined(train: Sequence[Run], val: Sequence[Run]) -> list[Run]:
    """Runs of both parts, and of the windows between them that span both."""
    merged: list[Run] = []
    for run in in_order([*train, *val]):
        if merged and merged[-1].series == run.series:
            run = Run(run.series, merged.pop().first, run.stop)
        merged.append(run)
    return merged


def in_order(runs: Sequence[Run]) -> list[Run]:
    """Runs in the order of the store."""
    return sorted(runs, key=lambda run: run.first)
