"""Sums of products over windows: all that least squares needs to know of them.

With z = [history, future, features] of a window, the moments are sum z z^T. Windows that follow each other share all
rows but one, so that the products of history and future come from running sums along the diagonals, at a cost of
O((seq_len + pred_len)^2) whatever the number of windows, instead of from a matrix product over all of them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from numpy.lib.stride_tricks import sliding_window_view
from scipy import fft
from torch import Tensor

from informer.data.windows import Store, Windows
from informer.linear.features import OriginFeatures

_CHUNK = 4096
"""Windows whose features exist at once."""

FEW = 3
"""Features are few if this many times their number is at most the rows of a window."""


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
        Run(int(series[part[0]]), int(starts[part[0]]), int(starts[part[-1]]) + 1)
        for part in np.split(np.arange(len(starts)), cuts)
    ]


@dataclass(frozen=True, eq=False, slots=True)
class Moments:
    """sum z z^T over windows of one column, z = [history, future, features]; sums of several add up."""

    products: Float64[np.ndarray, "z z"]
    windows: int | float

    def times(self, weight: float) -> "Moments":
        """As if each window counted so many times."""
        return self if weight == 1 else Moments(weight * self.products, weight * self.windows)

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(self.products + other.products, self.windows + other.windows)

    def __sub__(self, other: "Moments") -> "Moments":
        return Moments(self.products - other.products, self.windows - other.windows)


@dataclass(frozen=True, eq=False, slots=True)
class MomentSource:
    """Computes moments of any column of a store over any runs.

    Args:
        store: rows of all series, scaled, and their marks.
        seq_len, reach: rows of a window: of history, and from there to the end of the forecast.
        features: what is read at its last row.
        steps: steps of the future to keep; None: all.
    """

    store: Store
    seq_len: int
    reach: int
    features: OriginFeatures
    steps: np.ndarray | None = None

    @property
    def kept(self) -> np.ndarray:
        """Positions of a window that are kept."""
        steps = np.arange(self.reach) if self.steps is None else self.steps
        return np.concatenate([np.arange(self.seq_len), self.seq_len + steps])

    def feature_products(self, runs: Sequence[Run]) -> Float64[np.ndarray, "e e"]:
        """sum e e^T: the same for all columns."""
        size = len(self.features.groups)
        total = np.zeros((size, size))
        for _, e in self._feature_chunks(runs):
            total += e.T @ e
        return total

    def of(self, column: int, runs: Sequence[Run], feature_products: Float64[np.ndarray, "e e"]) -> Moments:
        """Moments of one column over runs; `feature_products` is that of the same runs."""
        n, kept = self.seq_len + self.reach, self.kept
        own = np.zeros((len(kept), len(kept)))
        for run in runs:
            own += window_products(self._rows(run, column), n, kept)
        mixed = np.zeros((len(feature_products), len(kept)))
        for run, e in self._feature_chunks(runs):
            mixed += feature_window_products(e, self._rows(run, column), n, kept)
        products = np.block([[own, mixed.T], [mixed, feature_products]])
        return Moments(products, sum(map(len, runs)))

    def _rows(self, run: Run, column: int) -> Float64[np.ndarray, "t"]:
        """Of one column, all that windows of a run hold."""
        last = run.stop + self.seq_len + self.reach - 1
        return self.store.values[run.first : last, column].double().cpu().numpy()

    def _feature_chunks(self, runs: Sequence[Run]) -> Iterator[tuple[Run, np.ndarray]]:
        for run in runs:
            for first in range(run.first, run.stop, _CHUNK):
                part = Run(run.series, first, min(first + _CHUNK, run.stop))
                yield part, self._features(part).numpy()

    def _features(self, run: Run) -> Tensor:
        store, k = self.store, self.features.recent
        last = run.first + self.seq_len - 1 + int(store.first_marks[run.series] - store.first_rows[run.series])
        mark = store.marks[last : last + len(run)].cpu()
        if not k:
            return self.features.compose(torch.empty(len(run), 0, store.values.shape[1], dtype=torch.float64), mark)
        rows = store.values[run.first : run.stop + self.seq_len - 1].double().cpu()
        sums = torch.cat([rows.new_zeros(1, rows.shape[1]), rows.cumsum(0)])
        mean = (sums[self.seq_len :] - sums[: -self.seq_len]) / self.seq_len
        recent = rows[self.seq_len - k :].unfold(0, k, 1).transpose(1, 2) - mean[:, None]
        return self.features.compose(recent, mark)


def window_products(
    rows: Float64[np.ndarray, "t"], n: int, kept: np.ndarray | None = None
) -> Float64[np.ndarray, "n n"]:
    """X^T X of all windows of n rows, X being [windows n]; only the positions `kept`.

    Entry (i + 1, j + 1) is entry (i, j) with one product of rows taken away at the beginning and one added at the end.
    """
    kept = np.arange(n) if kept is None else kept
    count = len(rows) - n + 1
    if count < n // 2:
        windows = sliding_window_view(rows, n)[:, kept]
        return windows.T @ windows
    padded = np.concatenate([rows, np.zeros(n)])
    diagonals = np.empty((n, n))
    diagonals[0] = np.correlate(rows, rows[:count], mode="valid")
    leaving = rows[: n - 1, None] * sliding_window_view(padded, n)[: n - 1]
    entering = padded[count : count + n - 1, None] * sliding_window_view(padded, n)[count : count + n - 1]
    diagonals[1:] = entering - leaving
    np.cumsum(diagonals, axis=0, out=diagonals)
    products = np.empty((n, n))
    for row in range(n):
        products[row, row:] = diagonals[row, : n - row]
        products[row:, row] = diagonals[row, : n - row]
    return products[np.ix_(kept, kept)]


def feature_window_products(
    e: Float64[np.ndarray, "w e"], rows: Float64[np.ndarray, "t"], n: int, kept: np.ndarray
) -> Float64[np.ndarray, "e k"]:
    """E^T X for the windows X of n rows, of which `kept`: the correlation of each feature with the rows.

    Of few features by the convolution theorem, of many as a matrix product, which needs all windows in memory.
    """
    if FEW * e.shape[1] > n:
        return e.T @ sliding_window_view(rows, n)[:, kept]
    size = fft.next_fast_len(len(rows), real=True)
    spectrum = fft.rfft(np.ascontiguousarray(e.T), size).conj() * fft.rfft(rows, size)
    return fft.irfft(spectrum, size)[:, kept]


class Once:
    """Computes each thing once, as long as there is room for it."""

    def __init__(self, compute: Callable[[tuple[int, int]], Moments], most: int) -> None:
        self._compute, self._most = compute, most
        self._known: dict[tuple[int, int], Moments] = {}

    def __call__(self, channel: tuple[int, int]) -> Moments:
        if channel in self._known:
            return self._known[channel]
        made = self._compute(channel)
        if len(self._known) < self._most:
            self._known[channel] = made
        return made


def joined(train: Sequence[Run], val: Sequence[Run]) -> list[Run]:
    """Runs of both parts with the windows between, whose futures lie in both."""
    made: list[Run] = []
    for run in in_order([*train, *val]):
        if made and made[-1].series == run.series:
            run = Run(run.series, made.pop().first, run.stop)
        made.append(run)
    return made


def in_order(runs: Sequence[Run]) -> list[Run]:
    """In the order of the store."""
    return sorted(runs, key=lambda run: run.first)
