"""Sums of products over windows, the sufficient statistics of least squares.

With z = [history, future, features] of a window, the moments are sum z z^T.

Sums over windows of a column with gaps.

A missing row of the lookback window is replaced by the last observed one, as in forecasting. A missing row of the
horizon is skipped: a product with it is summed over the windows in which it is observed, and `Moments` scales the sum
to all windows (available-case analysis: R. Little and D. Rubin, "Statistical Analysis with Missing Data", chapter 3).
This is consistent if values are missing independently of their size. Leaving out every window with a gap would leave
hardly any if single cells are missing. Windows with few observed values, for which replacing fails, are left out.

Sums of products of overlapping windows.

Consecutive windows share all rows but one, so the products are running sums along diagonals: O(n^2) for windows of n
rows after one correlation over the rows, instead of a matrix product over all windows.

Weights of many series in their shared map.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import nan

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from numpy.lib.stride_tricks import as_strided, sliding_window_view
from torch import Tensor

from informer.config.model import WindowSizes
from informer.data.windows import Store, Windows
from informer.linear.settings import OriginFeatures
from informer.networks.ops.gaps import history_of

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
    return history_of(torch.from_numpy(rows)[None])[0].numpy()


_CHUNK = 8192
"""Windows of one matrix product."""

_BATCH = 1 << 22
"""Numbers in the rows of one product over many series."""

_MOST_STRIDE = 8
"""Largest stride of windows for which running sums are faster than a matrix product."""


def window_products(
    rows: Float64[np.ndarray, "t"], n: int, kept: np.ndarray | None = None, *, stride: int = 1
) -> Float64[np.ndarray, "n n"]:
    """X^T X of the windows of n rows that begin at rows 0, stride, 2 stride, ..., with X [windows n]; only the rows and
    columns `kept`.

    Entry (i + stride, j + stride) is entry (i, j) minus the first product of rows plus one after the last.
    """
    kept = np.arange(n) if kept is None else kept
    every = sliding_window_view(rows, n)[::stride]
    count = len(every)
    if count < n // 2 or stride > _MOST_STRIDE:
        chunks = (every[first : first + _CHUNK, kept] for first in range(0, count, _CHUNK))
        return sum((chunk.T @ chunk for chunk in chunks), np.zeros((len(kept), len(kept))))
    padded = np.concatenate([rows, np.zeros(n)])
    shifted, end = sliding_window_view(padded, n), stride * count
    diagonals = np.empty((n, n))
    for phase in range(min(stride, n)):
        # correlate is fast for rows next to each other
        diagonals[phase] = (
            np.correlate(rows, rows[:count], mode="valid") if stride == 1 else
            rows[phase : phase + end : stride][:count] @ shifted[phase : phase + end : stride][:count]
        )  # fmt: skip
    overlap = max(n - stride, 0)
    leaving = rows[:overlap, None] * shifted[:overlap]
    entering = padded[end : end + overlap, None] * shifted[end : end + overlap]
    diagonals[stride:] = entering - leaving
    for phase in range(min(stride, n)):
        np.cumsum(diagonals[phase::stride], axis=0, out=diagonals[phase::stride])
    products = np.empty((n, n))
    for row in range(n):
        products[row, row:] = diagonals[row, : n - row]
        products[row:, row] = diagonals[row, : n - row]
    return products[np.ix_(kept, kept)]


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
class WindowRun:
    """Windows that begin at consecutive rows [first, stop) of the store, all in one series."""

    series: int
    first: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.first


def runs_of(windows: Windows) -> list[WindowRun]:
    """Windows as runs, in the order of the store."""
    starts = windows.starts if (windows.starts.diff() > 0).all() else windows.starts.unique()
    return as_runs(starts.cpu().numpy(), windows.store.series_of(starts).cpu().numpy())


def as_runs(starts: Int64[np.ndarray, "w"], series: Int64[np.ndarray, "w"]) -> list[WindowRun]:
    """Windows that begin at these rows in increasing order, each in its series, as runs."""
    is_first = np.append(True, (np.diff(starts) != 1) | (np.diff(series) != 0))[: len(starts)]
    firsts, lasts = np.flatnonzero(is_first), np.flatnonzero(np.roll(is_first, -1))
    ends = (starts[lasts] + 1).tolist()
    return [WindowRun(*run) for run in zip(series[firsts].tolist(), starts[firsts].tolist(), ends, strict=True)]


@dataclass(frozen=True, eq=False, slots=True)
class Moments:
    """sum z z^T over windows of one column, z = [history, future, features]; moments of disjoint windows add up.

    Args:
        products: the sum; a missing value of the future counts as 0.
        windows: number of windows.
        observed: number of windows in which each row of the future is observed; None: all. See
            `informer.linear.moments`.
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
        factor = np.ones(len(self.products))
        factor[first : first + len(self.observed)] = self.windows / self.observed
        scaled = self.products * factor * factor[:, None]
        np.fill_diagonal(scaled, self.products.diagonal() * factor)
        return scaled

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
class Normal:
    """Sums of products of the inputs and outputs of a regression, over windows; sums of disjoint windows add up.

    Args:
        gram: of inputs with inputs.
        cross: of inputs with outputs.
        square: of each output with itself.
        windows: number of windows.
    """

    gram: Float64[np.ndarray, "p p"]
    cross: Float64[np.ndarray, "p h"]
    square: Float64[np.ndarray, "h"]
    windows: int | float

    @classmethod
    def of(cls, inputs: Float64[np.ndarray, "w p"], outputs: Float64[np.ndarray, "w h"]) -> "Normal":
        """From the rows themselves."""
        return cls(inputs.T @ inputs, inputs.T @ outputs, (outputs**2).sum(axis=0), len(inputs))

    def __add__(self, other: "Normal") -> "Normal":
        return Normal(
            self.gram + other.gram, self.cross + other.cross, self.square + other.square, self.windows + other.windows
        )

    def __sub__(self, other: "Normal") -> "Normal":
        return Normal(
            self.gram - other.gram, self.cross - other.cross, self.square - other.square, self.windows - other.windows
        )

    def reading(self, inputs: Sequence[int] | np.ndarray) -> "Normal":
        """The regression on some of the inputs."""
        rows = np.asarray(inputs, dtype=int)
        return replace(self, gram=self.gram[np.ix_(rows, rows)], cross=self.cross[rows])

    def ridge(self, penalty: Float64[np.ndarray, "p"]) -> Float64[np.ndarray, "p h"]:
        """Ridge regression, also where rounding left a matrix that is not positive definite; `solve` is faster."""
        return np.linalg.solve(self.gram + np.diag(penalty + np.finfo(float).tiny), self.cross)

    def loss(self, weight: Float64[np.ndarray, "p h"]) -> Float64[np.ndarray, "h"]:
        """Sum of squared errors of each output."""
        return (weight * (self.gram @ weight - 2 * self.cross)).sum(axis=0) + self.square


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
    _spectra: dict[WindowRun, np.ndarray] = field(default_factory=dict)
    _squares: dict[tuple[WindowRun, ...], np.ndarray] = field(default_factory=dict)
    _latest: dict[tuple[int, int], ObservedRows | None] = field(default_factory=dict)
    _grouped: dict[int, tuple[Sequence[WindowRun], dict[int, list[WindowRun]]]] = field(default_factory=dict)

    @property
    def kept(self) -> np.ndarray:
        """Rows of a window that are kept: its history and `steps`."""
        steps = np.arange(self.reach) if self.steps is None else self.steps
        return np.concatenate([np.arange(self.seq_len), self.seq_len + steps])

    def of_series(self, runs: Sequence[WindowRun], series: int) -> list[WindowRun]:
        """The runs of one series; `runs` must not change."""
        key = id(runs)  # unique, because the list is kept alive
        if key not in self._grouped:
            by_series: dict[int, list[WindowRun]] = {}
            for run in runs:
                by_series.setdefault(run.series, []).append(run)
            self._grouped[key] = runs, by_series
        return self._grouped[key][1].get(series, [])

    def feature_products(self, runs: Sequence[WindowRun]) -> Float64[np.ndarray, "e e"]:
        """sum e e^T over the features e, which are the same for all columns."""
        key = tuple(runs)
        if key not in self._squares:
            size = len(self.features.groups)
            total = np.zeros((size, size))
            for chunk in self._chunks(runs):
                e = self._features_of(chunk)
                total += e.T @ e
            self._squares[key] = total
        return self._squares[key]

    def of_channel(self, channel: tuple[int, int], runs: Sequence[WindowRun]) -> Moments:
        """Moments of a column of a series over its runs among these; `runs` must not change."""
        return self.of(channel[1], self.of_series(runs, channel[0]))

    def of(self, column: int, runs: Sequence[WindowRun]) -> Moments:
        """Moments of one column over runs of one series."""
        rows = self._rows_of(column, runs)
        if rows is not None:
            return self._observed(rows, runs)
        n, kept = self.seq_len + self.reach, self.kept
        own_products = np.zeros((len(kept), len(kept)))
        for run in runs:
            own_products += window_products(self._rows(run, column), n, kept)
        mixed = self._mixed(column, runs)[:, kept]
        products = np.block([[own_products, mixed.T], [mixed, self.feature_products(runs)]])
        return Moments(products, sum(map(len, runs)))

    def _observed(self, rows: ObservedRows, runs: Sequence[WindowRun]) -> Moments:
        """Moments of a column with gaps; empty if some row of the future is never observed."""
        kept = self.kept
        total = np.zeros((len(kept) + len(self.features.groups),) * 2)
        windows, counts = 0, np.zeros(len(kept) - self.seq_len)
        for chunk in self._chunks(runs):
            starts = np.arange(chunk.first, chunk.stop) - int(self.store.first_rows[chunk.series])
            usable, z, observed = rows.windows(starts, self.seq_len, kept[self.seq_len :])
            z = np.hstack([z, self._features_of(chunk)[usable]])
            total += z.T @ z
            windows, counts = windows + len(usable), counts + observed
        moments = Moments(total, windows, counts)
        return moments if moments.is_known else Moments(np.zeros_like(total), 0)

    def _rows_of(self, column: int, runs: Sequence[WindowRun]) -> ObservedRows | None:
        """Rows of a column, of the series of `runs`; None if nothing is missing."""
        if not self.store.has_gaps or not runs:
            return None
        key = runs[0].series, column
        if key not in self._latest:
            self._latest.clear()
            rows = self.store.values[self.store.rows_of(key[0]), column].double().cpu().numpy()
            self._latest[key] = ObservedRows.of(rows) if np.isnan(rows).any() else None
        return self._latest[key]

    def _mixed(self, column: int, runs: Sequence[WindowRun]) -> Float64[np.ndarray, "e n"]:
        """sum e z^T over windows z. For long runs it is a correlation, computed by Fourier transforms whose products
        are summed and transformed back once."""
        n, size = self.seq_len + self.reach, self._size
        mixed = np.zeros((len(self.features.groups), n))
        total: np.ndarray | None = None
        for chunk in self._chunks(runs):
            rows = self._rows(chunk, column)
            if len(chunk) < n or FEW * len(mixed) > n:
                mixed += self._features_of(chunk).T @ sliding_window_view(rows, n)
            else:
                product = self._spectrum(chunk) * np.fft.rfft(rows, size)[:, None]
                total = product if total is None else total + product
        return mixed if total is None else mixed + np.fft.irfft(total, size, axis=0)[:n].T

    @property
    def _size(self) -> int:
        """Rows of a Fourier transform, of which at least seven eighths start a window."""
        return max(_SIZE, 1 << (8 * (self.seq_len + self.reach) - 1).bit_length())

    def _spectrum(self, run: WindowRun) -> np.ndarray:
        """Conjugate Fourier transform of a run's features along its windows, cached for other columns."""
        if run in self._spectra:
            return self._spectra[run]
        spectrum = np.fft.rfft(self._features_of(run), self._size, axis=0).conj()
        if (len(self._spectra) + 1) * spectrum.nbytes <= _KEPT_BYTES:
            self._spectra[run] = spectrum
        return spectrum

    def _rows(self, run: WindowRun, column: int) -> Float64[np.ndarray, "t"]:
        """All rows of one column that the windows of a run contain."""
        last = run.stop + self.seq_len + self.reach - 1
        return self.store.values[run.first : last, column].double().cpu().numpy()

    def _chunks(self, runs: Sequence[WindowRun]) -> Iterator[WindowRun]:
        """The windows as runs whose rows fit into one Fourier transform."""
        return _parts(runs, self._size - self.seq_len - self.reach + 1)

    def pooled(self, runs: Sequence[WindowRun], columns: Sequence[int], weights: Float64[np.ndarray, "s c"]) -> Moments:
        """Weighted sum of the moments of several columns and of all series, as `of` gives them one by one.

        Of the products of all rows that windows of one run contain, summed over series, the products within each
        window are sums along diagonals. So the cost of a series is that of one row of a matrix product.
        """
        n, kept = self.seq_len + self.reach, self.kept
        along, mixed = np.zeros((n, n)), np.zeros((len(self.features.groups), n))
        squares, windows, others = np.zeros((len(mixed), len(mixed))), 0.0, list[Moments]()
        gaps = self.store.values.isnan().any(dim=1) if self.store.has_gaps else torch.zeros(0)
        with_gaps = {*self.store.series_of(gaps.nonzero().flatten()).tolist()}
        for run_series in sorted(with_gaps & {run.series for run in runs}):
            for column, weight in zip(columns, weights[run_series].tolist(), strict=True):
                others.append(self.of_channel((run_series, column), runs).times(weight))
        for batch in self._alike([run for run in runs if run.series not in with_gaps]):
            length, series = len(batch[0]), [run.series for run in batch]
            firsts = torch.tensor([run.first for run in batch])
            rows = self._gathered(firsts, length + n - 1)[:, :, columns].numpy()
            share = weights[series]
            flat = rows.swapaxes(1, 2).reshape(-1, rows.shape[1])
            gram = np.zeros((rows.shape[1], rows.shape[1] + n))
            np.matmul((flat * share.reshape(-1, 1)).T, flat, out=gram[:, : rows.shape[1]])
            diagonals = as_strided(gram, (n, rows.shape[1]), (gram.strides[1], gram.strides[0] + gram.strides[1]))
            sums = np.concatenate([np.zeros((n, 1)), np.cumsum(diagonals, axis=1)], axis=1)
            along += sums[:, length:][:, :n] - sums[:, :n]
            features, group = self._features(batch)
            weight, mean = (np.zeros((len(features), *each.shape[1:])) for each in (share.sum(axis=1), rows[:, :, 0]))
            np.add.at(weight, group, share.sum(axis=1))
            np.add.at(mean, group, (rows * share[:, None]).sum(axis=2))
            for place in range(length):
                mixed += features[:, place].T @ mean[:, place : place + n]
            flat_features = features.reshape(-1, len(mixed))
            squares += (flat_features * np.repeat(weight, length)[:, None]).T @ flat_features
            windows += length * float(share.sum())
        own_products = np.zeros((n, n))
        for row in range(n):
            own_products[row, row:] = own_products[row:, row] = along[: n - row, row]
        own_products, mixed = own_products[np.ix_(kept, kept)], mixed[:, kept]
        return sum(others, Moments(np.block([[own_products, mixed.T], [mixed, squares]]), windows))

    def _alike(self, runs: Sequence[WindowRun]) -> Iterator[list[WindowRun]]:
        """The windows as runs of at most as many windows as a window has rows, those of one length together."""
        most, by_length = self.seq_len + self.reach, dict[int, list[WindowRun]]()
        for part in _parts(runs, most):
            by_length.setdefault(len(part), []).append(part)
        for length, parts in by_length.items():
            size = max(1, _BATCH // ((length + most) * self.store.values.shape[1]))
            yield from (parts[first : first + size] for first in range(0, len(parts), size))

    def _gathered(self, firsts: Int64[Tensor, "b"], n: int) -> Float64[Tensor, "b n c"]:
        rows = (firsts[:, None] + torch.arange(n)).flatten()
        return self.store.values[rows.to(self.store.values.device)].double().cpu().unflatten(0, (len(firsts), n))

    def _features(self, runs: Sequence[WindowRun]) -> tuple[Float64[np.ndarray, "g w e"], Int64[np.ndarray, "r"]]:
        """Features of the windows of runs of one length without gaps, once for runs that share them, and the number of
        each run among these."""
        store, k, length = self.store, self.features.recent, len(runs[0])
        firsts, series = (torch.tensor([getattr(run, name) for run in runs]) for name in ("first", "series"))
        shift = store.mark_shift.cpu()
        lasts, group = (firsts + self.seq_len - 1 + shift[series]), torch.arange(len(runs))
        if not k:
            lasts, group = lasts.unique(return_inverse=True)
        rows = (lasts[:, None] + torch.arange(length)).flatten()
        mark = store.marks[rows.to(store.marks.device)].cpu()
        recent = torch.empty(len(mark), 0, len(self.features.columns), dtype=torch.float64)
        if k:
            values = self._gathered(firsts, length + self.seq_len - 1)[:, :, self.features.columns]
            recent = _recent(values, self.seq_len, k).flatten(0, 1)
        return self.features.compose(recent, mark).unflatten(0, (len(lasts), length)).numpy(), group.numpy()

    def _features_of(self, run: WindowRun) -> Float64[np.ndarray, "w e"]:
        """Features of the windows of one run, in which values may be missing."""
        store, k = self.store, self.features.recent
        if not k or not store.has_gaps:
            return self._features([run])[0][0]
        last = run.first + self.seq_len - 1 + int(store.mark_shift[run.series])
        # also earlier rows, from which values may be carried forward
        first = max(run.first - self.seq_len, int(store.first_rows[run.series]))
        rows = store.values[first : run.stop + self.seq_len - 1].double().cpu()
        rows = torch.from_numpy(carried_rows(rows.numpy()))[run.first - first :, self.features.columns]
        recent = _recent(rows[None], self.seq_len, k)[0]
        return self.features.compose(recent, store.marks[last : last + len(run)].cpu()).numpy()


def _parts(runs: Sequence[WindowRun], most: int) -> Iterator[WindowRun]:
    """The windows as runs of at most this many."""
    for run in runs:
        for first in range(run.first, run.stop, most):
            yield WindowRun(run.series, first, min(first + most, run.stop))


def _recent(rows: Float64[Tensor, "b t c"], seq_len: int, k: int) -> Float64[Tensor, "b w k c"]:
    """The last k rows of each window of seq_len rows, minus the mean of the window."""
    sums = torch.cat([rows.new_zeros(len(rows), 1, rows.shape[2]), rows.cumsum(1)], dim=1)
    mean = (sums[:, seq_len:] - sums[:, :-seq_len]) / seq_len
    return rows[:, seq_len - k :].unfold(1, k, 1).transpose(2, 3) - mean[:, :, None]


def joined(train: Sequence[WindowRun], val: Sequence[WindowRun]) -> list[WindowRun]:
    """Runs of both parts, and of the windows between them that span both."""
    merged: list[WindowRun] = []
    for run in in_order([*train, *val]):
        if merged and merged[-1].series == run.series:
            run = WindowRun(run.series, merged.pop().first, run.stop)
        merged.append(run)
    return merged


def in_order(runs: Sequence[WindowRun]) -> list[WindowRun]:
    """Runs in the order of the store."""
    return sorted(runs, key=lambda run: run.first)


LEAST_ERROR = 0.1
"""Lower bound of a series' error, as a multiple of the median: a series that repeats exactly must not dominate."""


def series_weights(
    store: Store, sizes: WindowSizes, runs: Sequence[WindowRun], channels: Sequence[tuple[int, int]], *, period: int
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
    errors = _naive_errors(store, sizes, runs, sorted({column for _, column in channels}), period)
    errors = np.array([errors[channel] for channel in channels])
    valid = errors[np.isfinite(errors) & (errors > 0)]
    if not len(valid):
        return [1.0] * len(channels)
    typical = float(np.median(valid))
    weights = 1 / np.maximum(np.nan_to_num(errors, nan=typical), LEAST_ERROR * typical)
    return list(weights / weights.mean())


def _naive_errors(
    store: Store, sizes: WindowSizes, runs: Sequence[WindowRun], columns: Sequence[int], period: int
) -> Float64[np.ndarray, "s c"]:
    """Mean squared change from season to season over the observed rows of these windows; NaN if there is none."""
    errors = np.full((len(store.first_rows), store.values.shape[1]), nan)
    first, end = dict[int, int](), dict[int, int]()
    for run in runs:
        first.setdefault(run.series, run.first)
        end[run.series] = run.stop + sizes.rows - 1
    long = [series for series in first if end[series] - first[series] > period]
    size = 0
    for place, series in enumerate(long):  # series one after the other in the store, up to _BATCH rows
        size += 1
        if place + 1 < len(long) and end[long[place + 1]] - first[long[place + 1 - size]] <= _BATCH:
            continue
        part, size = long[place + 1 - size : place + 1], 0
        begin = first[part[0]]
        rows = store.values[begin : end[series], columns].double().cpu().numpy()
        changes = (rows[period:] - rows[:-period]) ** 2
        observed, ends = ~np.isnan(changes), [(first[each] - begin, end[each] - period - begin) for each in part]
        padding = np.zeros((1, len(columns)))  # a sum may end with the last row
        sums, counts = (
            np.add.reduceat(np.concatenate([terms, padding]), np.ravel(ends), axis=0)[::2]
            for terms in (np.where(observed, changes, 0.0), observed.astype(np.float64))
        )
        with np.errstate(invalid="ignore"):  # 0 / 0
            errors[np.ix_(part, columns)] = sums / counts
    return errors
