"""Linear forecasts in closed form: the fit for `model.family=linear`.

A ridge map from a history, minus its mean, to its future is shared by all columns of all series. Where they are
affordable, each column of each series has a map of its own that is shrunk towards the shared one. The penalty of a row
grows with its age. Maps of a few lookbacks, which follow from the seasons, are averaged: a short one reacts faster, a
long one has the week.

Penalties are those with the lowest error on five blocks of training and validation rows, each forecast by maps fitted
on the others: a single part at the end may cover one time of year only. Effects of columns known ahead are subtracted
from the rows first (`informer.members.effects`).
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache, reduce
from math import inf
from operator import add
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from informer.data.calendar import mark_fields
from informer.data.dataset import Data
from informer.data.windows import Windows
from informer.members.effects import KnownEffects, fit_known
from informer.members.maps import LinearMaps
from informer.members.ridge import Sums, blocks_of, joined, window_sums

BLOCKS = 5
"""Blocks on which penalties are chosen."""

STRENGTHS, TAPERS = (1e-1, 1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6), (0.0, 1.0, 2.0)
"""Penalties to choose from, of the shared map, of the difference from it, and of other columns, in windows: a penalty
of 1000 counts as much as 1000 windows. Exponents of a row's age in seasons, with which its penalty grows."""

SEASONS, DAYS, NO_SEASON = 3, 7, 24
"""Lookbacks: this many seasons, a week if a season is a day, and seq_len, but no less than the horizon, for which
shorter ones were worse on blocks of ETTh1. The rows that are taken for a season where there is none."""

NEWEST, LEAST_SQUARE = 0.2, 1e-9
"""Smallest age, in seasons, and mean square of the inputs, that enter a penalty: constant columns keep the shared
map."""

STEPS, MOST_CHANNELS, MOST_BYTES = 24, 48, 800_000_000
"""Steps of the horizon, columns over all series, and bytes of their sums with which penalties are chosen, evenly
spaced: more cost as much again and choose the same."""

MOST_HISTORIES = 300_000
"""Largest number of histories of short series from which the shared map is fitted, evenly spaced."""

MOST_WINDOWS = 2000
"""Largest number of windows of all held-out blocks together from which intervals are calibrated, evenly spaced."""

EFFECTS, PENALTIES = "known effects", "linear penalties"
"""Keys of `Data.choices`."""


@dataclass(frozen=True, slots=True)
class Penalties:
    """Penalties of the maps of one lookback relative to the mean square of an input; inf: not used.

    Args:
        rows: of the lookback.
        season: rows of a season, the unit of age.
        shared, own, others: of the shared map, of the difference from it, and of the newest rows of other columns.
        taper: exponent of a row's age.
    """

    rows: int
    season: int
    shared: float = 1e3
    taper: float = 1.0
    own: float = inf
    others: float = inf

    def __str__(self) -> str:
        names = (f"{name} {getattr(self, name):g}" for name in ("shared", "taper", "own", "others"))
        return f"{self.rows} rows of history with penalties {', '.join(names)}"

    def shared_map(self, pooled: Sums) -> Float64[np.ndarray, "l h"]:
        """The map of all columns, from their sums together."""
        return pooled.ridge(self._of_history(pooled, self.shared))

    def own_map(
        self, sums: Sums, shared: Float64[np.ndarray, "l h"], is_other: Bool[np.ndarray, " e"]
    ) -> Float64[np.ndarray, "l_and_e h"]:
        """The map of a column, from its sums; `is_other`: which inputs after the history are of another column."""
        weight = np.concatenate([shared, np.zeros((len(is_other), shared.shape[1]))])
        if self.own == self.others == inf or not sums.is_known:
            return weight
        used, penalty = np.arange(self.rows), self._of_history(sums, min(self.own, 1e12))
        if self.others < inf:
            further = self.rows + np.flatnonzero(is_other)
            square = np.maximum(sums.gram.diagonal()[further] / max(sums.windows, 1), LEAST_SQUARE)
            used, penalty = np.append(used, further), np.append(penalty, self.others * square)
        weight[used] = sums.reading(used).ridge(penalty, weight[used])
        return weight

    def _of_history(self, sums: Sums, strength: float) -> Float64[np.ndarray, " l"]:
        """The penalty of each row."""
        square = max(sums.gram.diagonal()[: self.rows].mean() / max(sums.windows, 1), LEAST_SQUARE)
        return strength * square * np.maximum(np.arange(self.rows, 0, -1) / self.season, NEWEST) ** self.taper


def fit_model(maps: LinearMaps, data: Data, windows: Windows | None = None) -> str:
    """Fit the maps and set them as weights of the network; returns a description of the choice.

    Args:
        maps: the network.
        data: penalties are chosen on its training and validation windows.
        windows: windows to fit on; None: the training windows.
    """
    windows = data.train if windows is None else windows
    (chosen, error), known = _chosen(maps, data), effects_of(data)
    _fit(maps, data, windows, chosen)
    notes = [
        f"linear: {'mean of maps of' if len(chosen) > 1 else 'maps of'} {'; '.join(map(str, chosen))}; root mean "
        f"squared error {error:.4g} over {BLOCKS} blocks of training and validation; fitted on {len(windows)} windows "
        "of training"
    ]
    if not maps.has_own_maps:
        notes.append("one map for all: separate maps for series and columns would have too many weights")
    known_codes = [data.inputs[position] for position in data.dims.known_codes]
    if unread := [name for name in data.categories if name not in known_codes]:
        notes.append(f"not read: {', '.join(unread)} (categorical, not known ahead)")
    if maps.effects is not None:
        maps.effects.load_state_dict(known.state_dict())
        notes.append(known_in_words(known, data))
    return "; ".join(notes)


@torch.no_grad()
def _fit(maps: LinearMaps, data: Data, windows: Windows, chosen: Sequence[Penalties]) -> None:
    """Set the weights of the network to the mean of the maps of each lookback, fitted on the windows."""
    windows, targets = _without_effects(windows, data), maps.positions
    most, n_inputs = MOST_HISTORIES // len(targets), maps.weight.shape[2]

    def weight(found: Sequence[np.ndarray]) -> Tensor:
        """Of the longest history minus its mean, in place of one of the rows of a lookback minus their mean."""
        total = np.zeros((n_inputs, maps.weight.shape[1]))
        for each, own in zip(chosen, found, strict=True):
            first = windows.sizes.seq_len - each.rows
            total[first : windows.sizes.seq_len] += own[: each.rows] + (1 - own[: each.rows].sum(axis=0)) / each.rows
            total[windows.sizes.seq_len : first + len(own)] += own[each.rows :]
        return torch.from_numpy(total.T / len(chosen))

    pooled = (window_sums(windows, [targets], lookback=each.rows, most=most)[0] for each in chosen)
    shared = [each.shared_map(sums) for each, sums in zip(chosen, pooled, strict=True)]
    maps.weight[:] = weight(shared)
    if not maps.has_own_maps or all(each.own == each.others == inf for each in chosen):
        return
    for series, part in by_series(windows):
        first = 1 + int(windows.store.numbers[series]) * len(targets) if maps.reads_series else 0
        sums = zip(*(own_sums(maps, part, [[c] for c in targets], each.rows) for each in chosen), strict=True)
        for place, (column, of_column) in enumerate(zip(targets, sums, strict=True), start=first):
            found = zip(chosen, of_column, shared, strict=True)
            maps.weight[place] = weight([each.own_map(own, of, maps.are_other(column)) for each, own, of in found])


def own_sums(
    maps: LinearMaps, windows: Windows, columns: Sequence[Sequence[int]], lookback: int, **more: Any
) -> list[Sums]:
    """Sums of each column with the newest rows of the others."""
    return window_sums(windows, columns, lookback=lookback, others=maps.read, newest=maps.newest, **more)


def _chosen(maps: LinearMaps, data: Data) -> tuple[list[Penalties], float]:
    """Penalties of each lookback, and the root mean squared error of the best one on held-out blocks; chosen once."""
    if PENALTIES in data.choices:
        return data.choices[PENALTIES]
    season = data.frequency.season if data.frequency.season > 1 else NO_SEASON
    week, sizes = data.frequency.seasons[-1], data.sizes
    rows = {SEASONS * season, week if week <= DAYS * season else 0, sizes.seq_len}
    least = max(sizes.pred_len, maps.newest)
    lookbacks = sorted({min(max(each, least), sizes.seq_len) for each in rows if each})
    windows = _without_effects(joined(data.train, data.val), data)
    found = [_best(maps, windows, Penalties(each, season)) for each in lookbacks]
    return data.choices.setdefault(PENALTIES, ([each for each, _ in found], min(error for _, error in found)))


def _best(maps: LinearMaps, windows: Windows, start: Penalties) -> tuple[Penalties, float]:
    """Penalties by coordinate descent, and their root mean squared error on blocks."""
    blocks = list(_blocks(maps, windows, start.rows))

    @cache
    def loss(penalties: Penalties) -> float:
        total = 0.0
        for columns, fitted, held in blocks:
            shared = penalties.shared_map(reduce(add, (own.reading(range(start.rows)) for own in fitted)))
            for column, own, part in zip(columns, fitted, held, strict=True):
                total += part.loss(penalties.own_map(own, shared, maps.are_other(column))).sum()
        return float(total)

    for name in ["shared", "taper", *(["own", "others", "own"] if maps.has_own_maps else [])]:
        values = TAPERS if name == "taper" else STRENGTHS
        start = min([start, *(replace(start, **{name: value}) for value in values)], key=loss)  # type: ignore[arg-type]
    n_errors = sum(part.observed.sum() for _, _, held in blocks for part in held)
    return start, float((loss(start) / max(n_errors, 1)) ** 0.5)


def _blocks(maps: LinearMaps, windows: Windows, rows: int) -> Iterator[tuple[list[int], list[Sums], list[Sums]]]:
    """For each block some columns, over all series, and of each sums of the windows to fit on and of those held out."""
    steps = np.unique(np.linspace(0, windows.sizes.pred_len - 1, STEPS).round().astype(int)).tolist()
    series, size = dict(by_series(windows)), rows + maps.newest * len(maps.read)
    channels = [(each, column) for each in series for column in maps.positions]
    most = min(len(channels), MOST_CHANNELS, max(1, MOST_BYTES // (16 * BLOCKS * size * (size + len(steps)))))
    channels = [channels[place] for place in np.linspace(0, len(channels) - 1, most).round().astype(int)]
    by_number = {number: [[column] for each, column in channels if each == number] for number, _ in channels}

    def sums(part: Windows) -> list[Sums]:
        of_series, none = dict(by_series(part)), part.at(part.starts[:0])
        parts = (own_sums(maps, of_series.get(each, none), of, rows, steps=steps) for each, of in by_number.items())
        return [one for part_sums in parts for one in part_sums]

    windows = windows.at(torch.cat([series[number].starts for number in by_number]))
    blocks = [(sums(held), sums(between)) for held, _, between in blocks_of(windows, BLOCKS)]
    total = [reduce(add, each) for each in zip(*(held for held, _ in blocks), strict=True)]
    columns = [column for of in by_number.values() for (column,) in of]
    for held, between in blocks:
        yield columns, [whole - (own + near) for whole, own, near in zip(total, held, between, strict=True)], held


def by_series(windows: Windows) -> Iterator[tuple[int, Windows]]:
    """The number in the store of each series that has windows, and its windows."""
    starts = windows.starts.unique()
    series, counts = windows.store.series_of(starts).unique_consecutive(return_counts=True)
    for number, part in zip(series.tolist(), starts.split(counts.tolist()), strict=True):
        yield number, windows.at(part)


def effects_of(data: Data) -> KnownEffects:
    """Effects of future covariates, categories and holidays, fitted once; shared by maps, intervals and ridge."""
    if EFFECTS not in data.choices:
        data.choices[EFFECTS] = fit_known(data.dims, data.train, data.val, lag=data.frequency.season)
    return data.choices[EFFECTS]


def every_window(data: Data, *, with_test: bool = True) -> Windows:
    """The windows of all parts, and those that span two parts."""
    parts = [data.train, data.val, data.calibration, *([data.test] if with_test else [])]
    return joined(*(part for part in parts if part is not None))


def _without_effects(windows: Windows, data: Data) -> Windows:
    """The windows over rows from which known effects are subtracted."""
    store = effects_of(data).without(windows.store)
    return Windows(store, starts=windows.starts, sizes=windows.sizes, targets=data.dims.target_positions)


def known_in_words(known: KnownEffects, data: Data) -> str:
    """The columns, holidays and categories with an effect, as text."""
    marks = mark_fields(data.frequency, data.calendar)
    names = [data.inputs[position] for position in known.columns] + [marks[position] for position in known.marks]
    for column in known.codes:
        names += [f"{data.inputs[column]}={label}" for label in ("", *data.categories[data.inputs[column]])]
    tried, effective = ([names[row] for row in rows] for rows in (known.tried, known.nonzero))
    return f"known ahead, with an effect on held-out blocks: {', '.join(effective) or 'none'} of {', '.join(tried)}"


def held_out_blocks(maps: LinearMaps, data: Data, *, n_blocks: int) -> Iterator[tuple[LinearMaps, Windows]]:
    """For each block of training, validation and calibration rows, the maps fitted without it and its windows.

    The penalties are those already chosen (cross-conformal prediction: V. Vovk, "Cross-conformal predictors", 2015). A
    single held-out part at the end may cover only one season, whose errors need not be typical.

    Args:
        maps: fitted maps; they are not changed. Every block yields the same copy of them, with new weights.
        data: windows of training, validation and calibration rows; all are used.
        n_blocks: number of blocks.
    """
    scratch, (chosen, _) = deepcopy(maps).eval(), _chosen(maps, data)
    for held, fitted, _ in blocks_of(every_window(data, with_test=False), n_blocks):
        if len(held) and len(fitted):
            _fit(scratch, data, fitted, chosen)
            yield scratch, held
