"""Effects of columns and holidays that are known over the horizon: y_t = b^T x_t + what the maps forecast.

b is fitted to changes over a season, y_t - y_(t - lag) = b^T (x_t - x_(t - lag)), in which levels and seasons cancel,
so that a covariate gets no credit for them (regression with differenced errors: R. Hyndman and G. Athanasopoulos,
"Forecasting: Principles and Practice", 3rd edition, section 10.1). Which of them have an effect is chosen on blocks of
training and validation: a date that occurs in one block only is never learnt by heart.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from informer.data.windows import Store, Windows
from informer.linear.moments import Run, joined, runs_of

BLOCKS = 5

SURE = 2.0
"""Standard errors over blocks by which one more effect has to lower the error."""

LEAST_GAIN = 2e-3
"""Share of the error that it has to take away."""

MOST = 64
"""Columns and holidays that are looked at: the first ones."""

PENALTY = 1e-6
"""Of the mean square of each."""


@dataclass(frozen=True, eq=False, slots=True)
class KnownEffects:
    """Effects on the targets, in scaled units.

    Args:
        columns, marks: positions among the value columns and among the calendar marks.
        weight: of each of them on each target; zero where none was found.
    """

    columns: Sequence[int]
    marks: Sequence[int]
    weight: Float64[np.ndarray, "k n"]

    @property
    def found(self) -> list[int]:
        """Places of those that have an effect, columns first."""
        return [int(place) for place in np.flatnonzero(self.weight.any(axis=1))]

    def known(self, values: Tensor, marks: Tensor) -> Tensor:
        """Of rows of all value columns and marks, those that are known, [... k]."""
        return torch.cat([values[..., list(self.columns)], marks[..., list(self.marks)].to(values)], dim=-1)

    def __call__(self, values: Tensor, marks: Tensor) -> Tensor:
        """Sum of the effects on each target, [... n]."""
        return self.known(values, marks) @ torch.from_numpy(self.weight).to(values)

    def without(self, store: Store, positions: Sequence[int]) -> Store:
        """The rows less the effects; `positions` of the targets."""
        if not self.found:
            return store
        values = store.values.clone()
        ends = [*store.first_rows.tolist()[1:], len(values)]
        for series, (first, stop) in enumerate(zip(store.first_rows.tolist(), ends, strict=True)):
            rows = store.values[first:stop]
            values[first:stop, list(positions)] -= self(rows, _marks(store, series, first, stop).to(rows.device))
        return replace(store, values=values)


NO_EFFECTS = KnownEffects((), (), np.zeros((0, 0)))


def fit_known(
    train: Windows, val: Windows, positions: Sequence[int], *, columns: Sequence[int], marks: Sequence[int], lag: int
) -> KnownEffects:
    """Effects of those columns and marks that have one on held-out blocks of both parts, fitted on `train`.

    Args:
        positions: of the targets among the value columns.
        columns, marks: of the known ones.
        lag: rows of a season.
    """
    columns, marks = list(columns)[:MOST], list(marks)[: max(MOST - len(columns), 0)]
    k = len(columns) + len(marks)
    effects = KnownEffects(columns, marks, np.zeros((k, len(positions))))
    runs = runs_of(train)
    if not k or not runs:
        return effects

    def changes(runs: Sequence[Run]) -> Iterator[Float64[np.ndarray, "t k_and_n"]]:
        return (_changes(train, run, effects, positions, lag) for run in runs)

    blocks = [_Products(k, np.zeros((k + len(positions),) * 2), 0)] * BLOCKS
    for rows in changes(joined(runs, runs_of(val))):
        blocks = [block + _of(part, k) for block, part in zip(blocks, np.array_split(rows, BLOCKS), strict=True)]
    chosen = _chosen(blocks)
    if chosen:
        effects.weight[chosen] = reduce(add, (_of(rows, k) for rows in changes(runs))).solved(chosen)
    return effects


def _changes(
    windows: Windows, run: Run, effects: KnownEffects, positions: Sequence[int], lag: int
) -> Float64[np.ndarray, "t k_and_n"]:
    """Of what is known and of the targets, over a season, of the rows of windows that follow each other."""
    store, last = windows.store, run.stop + windows.sizes.rows - 1
    values = store.values[run.first : last].cpu()
    known = effects.known(values, _marks(store, run.series, run.first, last))
    rows = torch.cat([known, values[:, list(positions)]], dim=1).double().numpy()
    found = rows[lag:] - rows[:-lag]
    return found[np.isfinite(found).all(axis=1)]


def _marks(store: Store, series: int, first: int, stop: int) -> Tensor:
    """Of these rows of the store."""
    shift = int(store.first_marks[series] - store.first_rows[series])
    return store.marks[first + shift : stop + shift].cpu()


@dataclass(frozen=True, eq=False, slots=True)
class _Products:
    """Sums of products of rows [known, targets]: `k` known ones."""

    k: int
    sums: Float64[np.ndarray, "z z"]
    rows: int

    def __add__(self, other: "_Products") -> "_Products":
        return _Products(self.k, self.sums + other.sums, self.rows + other.rows)

    def __sub__(self, other: "_Products") -> "_Products":
        return _Products(self.k, self.sums - other.sums, self.rows - other.rows)

    def solved(self, chosen: Sequence[int]) -> Float64[np.ndarray, "c n"]:
        """Effects of the chosen ones, by least squares."""
        gram = self.sums[np.ix_(chosen, chosen)]
        floor = PENALTY * gram.diagonal() + np.finfo(float).tiny
        return np.linalg.solve(gram + np.diag(floor), self.sums[chosen, self.k :])

    def losses(self, chosen: Sequence[int], weight: Float64[np.ndarray, "c n"]) -> Float64[np.ndarray, "n"]:
        """Mean squared error of each target with these effects of the chosen ones."""
        gram, cross = self.sums[np.ix_(chosen, chosen)], self.sums[chosen, self.k :]
        square = self.sums.diagonal()[self.k :] + (weight * (gram @ weight - 2 * cross)).sum(axis=0)
        return np.maximum(square, 0.0) / max(self.rows, 1)


def _of(rows: Float64[np.ndarray, "t z"], k: int) -> _Products:
    return _Products(k, rows.T @ rows, len(rows))


def _chosen(blocks: Sequence[_Products]) -> list[int]:
    """Added one at a time, the one that lowers the error of held-out blocks most, as long as one is sure to."""
    whole, chosen = reduce(add, blocks), list[int]()
    usual = whole.losses([], np.zeros((0, whole.sums.shape[1] - whole.k)))
    usual = np.where(usual > 0, usual, 1.0)

    def losses(tried: Sequence[int]) -> Float64[np.ndarray, "blocks"]:
        """Mean over targets, each relative to how much it changes."""
        return np.array([(one.losses(tried, (whole - one).solved(tried)) / usual).mean() for one in blocks])

    loss = losses(chosen)
    while rest := [place for place in range(whole.k) if place not in chosen]:
        found, place = min(((losses([*chosen, place]), place) for place in rest), key=lambda one: one[0].mean())
        gain = loss - found
        error = gain.std(ddof=1) / len(gain) ** 0.5
        if gain.mean() <= max(SURE * error, LEAST_GAIN * loss.mean()):
            break
        chosen, loss = [*chosen, place], found
    return chosen
