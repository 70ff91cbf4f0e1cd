"""Effects of covariates, categories and holidays known over the horizon: y_t = b^T x_t + forecast of the maps.

b is fitted to differences over a season, y_t - y_(t - lag) = b^T (x_t - x_(t - lag)), in which levels and seasons
cancel, so that they are not attributed to a covariate (regression with differenced errors: R. Hyndman and G.
Athanasopoulos, "Forecasting: Principles and Practice", 3rd edition, section 10.1). Which covariates have an effect is
decided on held-out blocks of training and validation rows, so that a date that occurs in only one block is not learned.

A category is 1 in its rows and 0 in others. The most frequent category of a column is left out: effects are differences
from it. A category that training did not contain has the mean effect of those that it did, as in the networks.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from informer.data.windows import Store, Windows
from informer.members.ridge import Sums, joined, runs_of

BLOCKS = 5

SURE = 2.0
"""Standard errors over blocks by which one more effect must lower the error."""

LEAST_GAIN = 2e-3
"""Least share by which one more effect must lower the error."""

MOST = 64
"""Largest number of covariates, holidays and categories considered: the first ones, the most frequent categories."""

PENALTY = 1e-6
"""Ridge penalty as a share of each covariate's mean square."""


@dataclass(frozen=True, eq=False, slots=True)
class KnownEffects:
    """Effects of known covariates on the targets, in scaled units.

    Args:
        columns, marks: positions of the covariates among the value columns and among the calendar marks.
        weight: effect of each covariate on each target; zero if it has none.
        codes: categories, each as the position of its column and its code; last those with code 0, which training did
            not contain.
    """

    columns: Sequence[int]
    marks: Sequence[int]
    weight: Float64[np.ndarray, "k n"]
    codes: Sequence[tuple[int, int]] = ()

    @property
    def nonzero(self) -> list[int]:
        """Positions of the covariates of training that have an effect: columns, then marks, then categories."""
        n = len(self.weight) - sum(not code for _, code in self.codes)
        return [int(position) for position in np.flatnonzero(self.weight[:n].any(axis=1))]

    def known(self, values: Tensor, marks: Tensor) -> Tensor:
        """Select the covariates from rows of all value columns and marks, [... k]."""
        selected = [values[..., list(self.columns)], marks[..., list(self.marks)].to(values)]
        if self.codes:
            positions, codes = zip(*self.codes, strict=True)
            selected.append((values[..., list(positions)] == torch.tensor(codes, device=values.device)).to(values))
        return torch.cat(selected, dim=-1)

    def __call__(self, values: Tensor, marks: Tensor) -> Tensor:
        """Sum of the effects on each target, [... n]."""
        return self.known(values, marks) @ torch.from_numpy(self.weight).to(values)

    def without(self, store: Store, positions: Sequence[int]) -> Store:
        """The store with the effects subtracted from the targets, whose positions are given."""
        if not self.nonzero:
            return store
        values = store.values.clone()
        for series in range(len(store.first_rows)):
            place = store.rows_of(series)
            rows = store.values[place]
            effects = self(rows, _marks(store, place.start, place.stop).to(rows.device))
            values[place, list(positions)] -= effects
        return replace(store, values=values)


NO_EFFECTS = KnownEffects((), (), np.zeros((0, 0)))


def fit_known(
    train: Windows,
    val: Windows,
    positions: Sequence[int],
    *,
    columns: Sequence[int],
    marks: Sequence[int],
    codes: Sequence[int],
    lag: int,
) -> KnownEffects:
    """Fit effects on `train`, for the columns and marks that lower the error on held-out blocks of both parts.

    Args:
        train, val: training and validation windows.
        positions: positions of the targets among the value columns.
        columns, marks: positions of the known numeric covariates among value columns and calendar marks.
        codes: positions of the known categorical covariates among value columns.
        lag: rows of a season.

    Returns:
        The effects; zero for covariates that do not help.
    """
    runs = runs_of(train)
    columns, marks = list(columns)[:MOST], list(marks)[: max(MOST - len(columns), 0)]
    counts = _counts(train, runs, codes)
    # all but the most frequent one of each column, the most frequent ones first
    n_rows = {(column, code): by_code[code] for column, by_code in counts.items() for code in [*by_code][1:]}
    categories = sorted(n_rows, key=lambda category: -n_rows[category])[: max(MOST - len(columns) - len(marks), 0)]
    k = len(columns) + len(marks) + len(categories)
    effects = KnownEffects(columns, marks, np.zeros((k, len(positions))), categories)
    if not k or not runs:
        return effects

    both = runs_of(joined(train, val))
    blocks = _summed((_changes(train, run, effects, positions, lag) for run in both), BLOCKS, k)
    selected = _forward_selection(blocks)
    if selected:
        (products,) = _summed((_changes(train, run, effects, positions, lag) for run in runs), 1, k)
        effects.weight[selected] = _effects(products, selected)
    return _with_unknown(effects, counts)


def _counts(windows: Windows, runs: Sequence[range], columns: Sequence[int]) -> dict[int, dict[int, int]]:
    """By position, the number of rows of each category in some windows, the most frequent category first."""
    counts = {}
    for column in columns:
        counter: Counter[int] = Counter()
        for run in runs:
            rows = windows.store.values[run.start : run.stop + windows.sizes.rows - 1, column].cpu().numpy()
            counter.update(dict(enumerate(np.bincount(rows.astype(np.int64)).tolist())))
        counts[column] = {code: n for code, n in counter.most_common() if code and n}
    return counts


def _with_unknown(effects: KnownEffects, counts: Mapping[int, Mapping[int, int]]) -> KnownEffects:
    """With the mean effect of each column's categories for one that training did not contain."""
    first = len(effects.columns) + len(effects.marks)
    means = [
        effects.weight[[first + i for i, (other, _) in enumerate(effects.codes) if other == column]].sum(axis=0)
        / max(len(by_code), 1)
        for column, by_code in counts.items()
    ]
    weight = np.vstack([effects.weight, *(mean[None] for mean in means)])
    return replace(effects, weight=weight, codes=[*effects.codes, *((column, 0) for column in counts)])


def _changes(
    windows: Windows, run: range, effects: KnownEffects, positions: Sequence[int], lag: int
) -> Float64[np.ndarray, "t k_and_n"]:
    """Differences over a season of covariates and targets, in the rows of consecutive windows."""
    store, last = windows.store, run.stop + windows.sizes.rows - 1
    values = store.values[run.start : last].cpu()
    covariates = effects.known(values, _marks(store, run.start, last))
    rows = torch.cat([covariates, values[:, list(positions)]], dim=1).double().numpy()
    changes = rows[lag:] - rows[:-lag]
    return changes[np.isfinite(changes).all(axis=1)]


def _marks(store: Store, first: int, stop: int) -> Tensor:
    """Marks of consecutive rows of one series."""
    shift = int(store.mark_shift[store.series_of(torch.tensor([first], device=store.first_rows.device))[0]])
    return store.marks[first + shift : stop + shift].cpu()


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
