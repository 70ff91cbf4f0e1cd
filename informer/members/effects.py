"""Effects of covariates, categories and holidays known over the horizon: y_t = b^T x_t + forecast of the maps.

b is fitted to differences over a season, y_t - y_(t - lag) = b^T (x_t - x_(t - lag)), in which levels and seasons
cancel, so that they are not attributed to a covariate (regression with differenced errors: R. Hyndman and G.
Athanasopoulos, "Forecasting: Principles and Practice", 3rd edition, section 10.1). Which covariates have an effect is
decided on held-out blocks of training and validation rows, so that a date that occurs in only one block is not learned.

A category is 1 in its rows and 0 in others. The most frequent category of a column is left out: effects are differences
from it. A category that training did not contain has the mean effect of those that it did, as in the networks.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from informer.data.windows import Store, Windows
from informer.members.ridge import Sums, joined, runs_of
from informer.networks.models.base import ModelDims

BLOCKS = 5

SURE = 2.0
"""Standard errors over blocks by which one more effect must lower the error."""

LEAST_GAIN = 2e-3
"""Least share by which one more effect must lower the error."""

MOST = 64
"""Largest number of covariates, holidays and categories considered: the first ones, the most frequent categories."""

PENALTY = 1e-6
"""Ridge penalty as a share of each covariate's mean square."""


@final
class KnownEffects(nn.Module):
    """Effects of what is known over the horizon on the targets, in scaled units; zero until they are fitted.

    Args:
        dims: sizes that depend on the data.
    """

    tried: Sequence[int] = ()
    """Rows of `weight` of the covariates, holidays and categories whose effect was looked for."""

    def __init__(self, dims: ModelDims) -> None:
        super().__init__()
        self.columns, self.marks, self.targets = list(dims.regressors), list(dims.holidays), list(dims.target_positions)
        n, self.codes = len(self.columns) + len(self.marks), dict[int, range]()
        for column in dims.known_codes:  # of each code, 0 included: a category that training did not contain
            self.codes[column] = range(n, n := n + 1 + dims.categories[column])
        self.weight = nn.Parameter(torch.zeros(n, len(self.targets)))

    @property
    def nonzero(self) -> list[int]:
        """Rows of those that have an effect."""
        return [row for row in self.tried if bool(self.weight[row].any())]

    def forward(self, values: Float[Tensor, "*l c"], marks: Float[Tensor, "*l m"]) -> Float[Tensor, "*l n"]:
        """Sum of the effects on each target, from rows of all value columns and marks."""
        weight = self.weight.to(values)
        covariates = torch.cat([values[..., self.columns], marks[..., self.marks].to(values)], dim=-1)
        effects = covariates @ weight[: covariates.shape[-1]]
        for column, rows in self.codes.items():
            effects = effects + weight[rows.start : rows.stop][values[..., column].long()]
        return effects

    @torch.no_grad()
    def without(self, store: Store) -> Store:
        """The store with the effects subtracted from the targets."""
        if not self.nonzero:
            return store
        values = store.values.clone()
        for series in range(len(store.first_rows)):
            place = store.rows_of(series)
            values[place, self.targets] -= self(store.values[place], _marks(store, place.start, place.stop))
        return replace(store, values=values)

    def changes(self, windows: Windows, run: range, lag: int) -> Float64[np.ndarray, "t k_and_n"]:
        """Differences over a season of what is tried and of the targets, in the rows of consecutive windows."""
        last, n = run.stop + windows.sizes.rows - 1, len(self.columns) + len(self.marks)
        values, marks = windows.store.values[run.start : last], _marks(windows.store, run.start, last)
        covariates = torch.cat([values[:, self.columns], marks[:, self.marks].to(values)], dim=1)
        code_of = {row: (column, row - rows.start) for column, rows in self.codes.items() for row in rows}
        tried = [
            covariates[:, row] if row < n else (values[:, code_of[row][0]] == code_of[row][1]).to(values)
            for row in self.tried
        ]
        rows = torch.column_stack([*tried, values[:, self.targets]]).double().cpu().numpy()
        changes = rows[lag:] - rows[:-lag]
        return changes[np.isfinite(changes).all(axis=1)]


def fit_known(dims: ModelDims, train: Windows, val: Windows, *, lag: int) -> KnownEffects:
    """Fit effects on `train`, for those columns, marks and categories that lower the error on held-out blocks of both
    parts.

    Args:
        dims: sizes that depend on the data, with the positions of what is known.
        train, val: training and validation windows.
        lag: rows of a season.
    """
    effects, runs = KnownEffects(dims).requires_grad_(False), runs_of(train)
    counts = {row: n for column, rows in effects.codes.items() for row, n in _counts(train, runs, column, rows).items()}
    # all but the most frequent category of each column, the most frequent ones first
    usual = {max(rows[1:], key=lambda row: counts[row]) for rows in effects.codes.values()}
    categories = sorted((row for row in counts if counts[row] and row not in usual), key=lambda row: -counts[row])
    effects.tried = [*range(len(effects.columns) + len(effects.marks)), *categories][:MOST]
    if not effects.tried or not runs:
        return effects
    k = len(effects.tried)
    blocks = _summed((effects.changes(train, run, lag) for run in runs_of(joined(train, val))), BLOCKS, k)
    if selected := _forward_selection(blocks):
        (products,) = _summed((effects.changes(train, run, lag) for run in runs), 1, k)
        found = torch.from_numpy(_effects(products, selected))
        effects.weight[torch.tensor(effects.tried)[selected]] = found.to(effects.weight)
    for rows in effects.codes.values():  # a category that training did not contain has the mean effect
        n = sum(counts[row] > 0 for row in rows[1:])
        effects.weight[rows.start] = effects.weight[rows.start : rows.stop].sum(dim=0) / max(n, 1)
    return effects


def _counts(windows: Windows, runs: Sequence[range], column: int, rows: range) -> dict[int, int]:
    """By row of the weights, in how many rows of some windows a column has each of its categories."""
    total = np.zeros(len(rows), dtype=int)
    for run in runs:
        codes = windows.store.values[run.start : run.stop + windows.sizes.rows - 1, column].cpu().numpy()
        total += np.bincount(codes.astype(np.int64), minlength=len(rows))
    return dict(zip(rows[1:], total[1:].tolist(), strict=True))


def _marks(store: Store, first: int, stop: int) -> Tensor:
    """Marks of consecutive rows of one series."""
    shift = int(store.mark_shift[store.series_of(torch.tensor([first], device=store.first_rows.device))[0]])
    return store.marks[first + shift : stop + shift].to(store.values.device)


def _summed(changes: Iterable[Float64[np.ndarray, "t k_and_n"]], n_blocks: int, k: int) -> list[Sums]:
    """Sums of products of the changes of all runs, of which each block has a part; k of the columns are covariates."""
    by_run = ([Sums.of(rows[:, :k], rows[:, k:]) for rows in np.array_split(each, n_blocks)] for each in changes)
    return [reduce(add, block) for block in zip(*by_run, strict=True)]


def _effects(products: Sums, covariates: Sequence[int]) -> Float64[np.ndarray, "c n"]:
    selected = products.reading(covariates)
    return selected.ridge(PENALTY * selected.gram.diagonal() + np.finfo(float).tiny)


def _losses(products: Sums, covariates: Sequence[int], weight: Float64[np.ndarray, "c n"]) -> np.ndarray:
    """Mean squared error of each target with these effects."""
    return np.maximum(products.reading(covariates).loss(weight), 0.0) / max(products.windows, 1)


def _forward_selection(blocks: Sequence[Sums]) -> list[int]:
    """Forward selection: add the covariate that lowers the held-out error most, while the gain is significant.

    Args:
        blocks: changes; effects are fitted on all blocks but one, and then forecast that one.
    """
    total, selected = reduce(add, blocks), list[int]()
    usual = total.square / max(total.windows, 1)
    usual = np.where(usual > 0, usual, 1.0)

    def losses(covariates: Sequence[int]) -> Float64[np.ndarray, " blocks"]:
        """Mean over targets of the squared error, relative to the target's mean squared change."""
        return np.array(
            [(_losses(block, covariates, _effects(total - block, covariates)) / usual).mean() for block in blocks]
        )

    loss = losses(selected)
    while remaining := [candidate for candidate in range(len(total.gram)) if candidate not in selected]:
        best, candidate = min(
            ((losses([*selected, candidate]), candidate) for candidate in remaining), key=lambda trial: trial[0].mean()
        )
        gain = loss - best
        error = gain.std(ddof=1) / len(gain) ** 0.5
        if gain.mean() <= max(SURE * error, LEAST_GAIN * loss.mean()):
            break
        selected, loss = [*selected, candidate], best
    return selected
