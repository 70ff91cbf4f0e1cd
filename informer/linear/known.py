"""Effects of covariates and holidays known over the horizon: y_t = b^T x_t + forecast of the maps.

b is fitted to differences over a season, y_t - y_(t - lag) = b^T (x_t - x_(t - lag)), in which levels and seasons
cancel, so that they are not attributed to a covariate (regression with differenced errors: R. Hyndman and G.
Athanasopoulos, "Forecasting: Principles and Practice", 3rd edition, section 10.1). Which covariates have an effect is
decided on held-out blocks of training and validation rows, so that a date that occurs in only one block is not learned.
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
"""Standard errors over blocks by which one more effect must lower the error."""

LEAST_GAIN = 2e-3
"""Least share by which one more effect must lower the error."""

MOST = 64
"""Largest number of covariates and holidays considered; the first ones are taken."""

PENALTY = 1e-6
"""Ridge penalty as a share of each covariate's mean square."""


@dataclass(frozen=True, eq=False, slots=True)
class KnownEffects:
    """Effects of known covariates on the targets, in scaled units.

    Args:
        columns, marks: positions of the covariates among the value columns and among the calendar marks.
        weight: effect of each covariate on each target; zero if it has none.
    """

    columns: Sequence[int]
    marks: Sequence[int]
    weight: Float64[np.ndarray, "k n"]

    @property
    def found(self) -> list[int]:
        """Positions of the covariates that have an effect, columns first."""
        return [int(place) for place in np.flatnonzero(self.weight.any(axis=1))]

    def known(self, values: Tensor, marks: Tensor) -> Tensor:
        """Select the covariates from rows of all value columns and marks, [... k]."""
        return torch.cat([values[..., list(self.columns)], marks[..., list(self.marks)].to(values)], dim=-1)

    def __call__(self, values: Tensor, marks: Tensor) -> Tensor:
        """Sum of the effects on each target, [... n]."""
        return self.known(values, marks) @ torch.from_numpy(self.weight).to(values)

    def without(self, store: Store, positions: Sequence[int]) -> Store:
        """The store with the effects subtracted from the targets, whose positions are given."""
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
    """Fit effects on `train`, for the columns and marks that lower the error on held-out blocks of both parts.

    Args:
        train, val: training and validation windows.
        positions: positions of the targets among the value columns.
        columns, marks: positions of the known covariates among value columns and calendar marks.
        lag: rows of a season.

    Returns:
        The effects; zero for covariates that do not help.
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
        blocks = [
            block + _products_of(part, k) for block, part in zip(blocks, np.array_split(rows, BLOCKS), strict=True)
        ]
    chosen = _chosen(blocks)
    if chosen:
        effects.weight[chosen] = reduce(add, (_products_of(rows, k) for rows in changes(runs))).solved(chosen)
    return effects


def _changes(
    windows: Windows, run: Run, effects: KnownEffects, positions: Sequence[int], lag: int
) -> Float64[np.ndarray, "t k_and_n"]:
    """Differences over a season of covariates and targets, in the rows of consecutive windows."""
    store, last = windows.store, run.stop + windows.sizes.rows - 1
    values = store.values[run.first : last].cpu()
    known = effects.known(values, _marks(store, run.series, run.first, last))
    rows = torch.cat([known, values[:, list(positions)]], dim=1).double().numpy()
    found = rows[lag:] - rows[:-lag]
    return found[np.isfinite(found).all(axis=1)]


def _marks(store: Store, series: int, first: int, stop: int) -> Tensor:
    shift = int(store.first_marks[series] - store.first_rows[series])
    return store.marks[first + shift : stop + shift].cpu()


@dataclass(frozen=True, eq=False, slots=True)
class _Products:
    """Sums of products of rows [covariates, targets], with `k` covariates."""

    k: int
    sums: Float64[np.ndarray, "z z"]
    rows: int

    def __add__(self, other: "_Products") -> "_Products":
        return _Products(self.k, self.sums + other.sums, self.rows + other.rows)

    def __sub__(self, other: "_Products") -> "_Products":
        return _Products(self.k, self.sums - other.sums, self.rows - other.rows)

    def solved(self, chosen: Sequence[int]) -> Float64[np.ndarray, "c n"]:
        """Least-squares effects of the chosen covariates."""
        gram = self.sums[np.ix_(chosen, chosen)]
        floor = PENALTY * gram.diagonal() + np.finfo(float).tiny
        return np.linalg.solve(gram + np.diag(floor), self.sums[chosen, self.k :])

    def losses(self, chosen: Sequence[int], weight: Float64[np.ndarray, "c n"]) -> Float64[np.ndarray, "n"]:
        """Mean squared error of each target with these effects."""
        gram, cross = self.sums[np.ix_(chosen, chosen)], self.sums[chosen, self.k :]
        square = self.sums.diagonal()[self.k :] + (weight * (gram @ weight - 2 * cross)).sum(axis=0)
        return np.maximum(square, 0.0) / max(self.rows, 1)


def _products_of(rows: Float64[np.ndarray, "t z"], k: int) -> _Products:
    return _Products(k, rows.T @ rows, len(rows))


def _chosen(blocks: Sequence[_Products]) -> list[int]:
    """Forward selection: add the covariate that lowers the held-out error most, while the gain is significant."""
    whole, chosen = reduce(add, blocks), list[int]()
    usual = whole.losses([], np.zeros((0, whole.sums.shape[1] - whole.k)))
    usual = np.where(usual > 0, usual, 1.0)

    def losses(tried: Sequence[int]) -> Float64[np.ndarray, "blocks"]:
        """Mean over targets of the squared error, relative to the target's mean squared change."""
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
