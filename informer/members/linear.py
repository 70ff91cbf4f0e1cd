"""Linear forecasts in closed form: the fit for `model.family=linear`.

A ridge map is shared by all columns of all series. Where they are affordable, each column of each series has a map of
its own that is shrunk towards the shared one, and that also reads the newest rows of the other columns. Both read the
calendar. Maps of a few lookbacks, which follow from the seasons, are averaged: a short one reacts faster, a long one
has the week.

Every penalty is the one with the lowest error on five blocks of training and validation rows, each forecast by maps
fitted on the others. Effects of columns known ahead are subtracted from the rows first (`informer.members.effects`).
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from functools import reduce
from math import inf
from operator import add

import numpy as np
import torch
from jaxtyping import Float64

from informer.data.calendar import RANGES, mark_fields
from informer.data.dataset import Data
from informer.data.windows import Windows
from informer.members.effects import KnownEffects, fit_known
from informer.members.maps import FIRST_PAIRS, HARMONICS, LinearMaps
from informer.members.ridge import Sums, blocks_of, joined, window_sums
from informer.networks.models.config import CalendarEmbed
from informer.networks.ops.gaps import history_of

BLOCKS = 5
"""Blocks on which penalties are chosen. A single part at the end may cover one time of year only."""

SEASONS, DAYS, NO_SEASON = 3, 7, 24
"""Lookbacks: this many seasons, a week if a season is a day, and seq_len, but no less than the horizon, for which
shorter ones were worse on blocks of ETTh1. The rows that are taken for a season where there is none."""

SHARED, OWN, FURTHER = (1e0, 1e1, 1e2, 1e3, 1e4, 1e5), (1e1, 1e2, 1e3, 1e4, 1e5, 1e6), (1e0, 1e1, 1e2, 1e3, 1e4, 1e5)
TAPERS = (0.0, 1.0, 2.0)
"""Penalties to choose from, of the shared map, of the difference from it, and of further inputs, in windows: a penalty
of 1000 counts as much as 1000 windows. Exponents of a row's age in seasons, with which its penalty grows."""

NEWEST, LEAST_SQUARE = 0.2, 1e-9
"""Smallest age, in seasons, and mean square of an input, that enter a penalty: constant columns keep the shared map."""

STEPS, MOST_CHANNELS, MOST_BYTES = 24, 48, 800_000_000
"""Steps of the horizon, columns over all series, and bytes of their sums with which penalties are chosen, evenly
spaced: more cost as much again and choose the same."""

MOST_HISTORIES = 300_000
"""Largest number of histories of short series from which the shared map is fitted, evenly spaced."""

MOST_WINDOWS = 2000
"""Largest number of windows of all held-out blocks together from which intervals are calibrated, evenly spaced."""

EFFECTS, SETTINGS = "known effects", "linear settings"
"""Keys of `Data.choices`."""


@dataclass(frozen=True, slots=True)
class MapSettings:
    """Penalties of the maps of one lookback, relative to the mean square of an input; inf: not used."""

    taper: float = 1.0
    shared: float = 1e3
    calendar: float = inf
    year: float = inf
    own: float = inf
    others: float = inf

    def __str__(self) -> str:
        return ", ".join(f"{each.name} {getattr(self, each.name):g}" for each in fields(self))


@dataclass(frozen=True, eq=False, slots=True)
class LinearFit:
    """How the maps of a network are fitted to some data.

    Args:
        maps: the network, whose calendar reads the marks of the data.
        positions: columns of the store that are forecast.
        lookbacks: rows of history of the maps that are averaged.
        season: rows of a season, the unit of age.
        groups: positions, among the inputs after the history, of those with one penalty.
    """

    maps: LinearMaps
    positions: Sequence[int]
    lookbacks: Sequence[int]
    season: int
    groups: Mapping[str, Sequence[int]]

    @classmethod
    def of(cls, maps: LinearMaps, data: Data) -> "LinearFit":
        """For a network, whose `turns` and `phase` are set."""
        season = data.frequency.season if data.frequency.season > 1 else NO_SEASON
        week = data.frequency.seasons[-1]
        rows = {SEASONS * season, week if week <= DAYS * season else 0, data.sizes.seq_len}
        least, most = data.sizes.pred_len, data.sizes.seq_len
        lookbacks = sorted({min(max(each, least), most) for each in rows if each})
        groups = {"calendar": [0], "year": list[int]()}
        for cycle in set_cycles(maps, data):
            first = FIRST_PAIRS[cycle][0]
            groups["year" if cycle == "year" else "calendar"] += range(first, first + 2 * HARMONICS[cycle])
        return cls(maps, data.columns.positions(data.targets), lookbacks, season, groups)

    @property
    def n_shared(self) -> int:
        """Inputs of the shared map: the longest history and the calendar."""
        return sum(self.maps.own.shape[1:2] + self.maps.calendar.shape[1:2])

    def calendar(self, windows: Windows) -> Float64[np.ndarray, "w e"]:
        """Calendar at the last rows of the histories."""
        store, lasts = windows.store, windows.starts + windows.sizes.seq_len - 1
        marks = store.marks[(lasts + store.mark_shift[store.series_of(lasts)]).to(store.marks.device)]
        return self.maps.date(marks.to(self.maps.turns.device)).double().cpu().numpy()

    def further(self, windows: Windows) -> Float64[np.ndarray, "w e"]:
        """All inputs after the history."""
        if not self.maps.recent:
            return self.calendar(windows)
        rows = windows.starts[:, None] + torch.arange(windows.sizes.seq_len, device=windows.starts.device)
        recent = self.maps.recent_rows(history_of(windows.store.values[rows.to(windows.store.values.device)]))
        return np.hstack([self.calendar(windows), recent.double().cpu().numpy()])

    def shared_map(self, pooled: Sums, lookback: int, settings: MapSettings) -> Float64[np.ndarray, "p h"]:
        """The map of all columns, from sums that are centred on a lookback."""
        used, penalty = self._penalty(pooled, lookback, settings, settings.shared)
        weight = np.zeros_like(pooled.cross)
        weight[used] = pooled.reading(used).ridge(penalty)
        return weight

    def own_map(
        self, sums: Sums, position: int, shared: Float64[np.ndarray, "p h"], lookback: int, settings: MapSettings
    ) -> Float64[np.ndarray, "q h"]:
        """The map of a column, shrunk towards the shared one, from sums that are centred on a lookback."""
        weight = np.zeros_like(sums.cross)
        weight[: len(shared)] = shared
        if settings.own == settings.others == inf or not sums.is_known:
            return weight
        used, penalty = self._penalty(sums, lookback, settings, min(settings.own, 1e12), position)
        weight[used] = sums.reading(used).ridge(penalty, weight[used])
        return weight

    def _penalty(
        self, sums: Sums, lookback: int, settings: MapSettings, strength: float, position: int | None = None
    ) -> tuple[np.ndarray, Float64[np.ndarray, " k"]]:
        """Inputs that a map reads, and the penalty of each; position: the column, for its own map."""
        square = np.maximum(sums.gram.diagonal() / max(sums.windows, 1), LEAST_SQUARE)
        age = np.maximum(np.arange(lookback, 0, -1) / self.season, NEWEST)
        used, penalty = [np.arange(lookback)], [strength * age**settings.taper * square[:lookback].mean()]
        for name, places in self.groups.items():
            if getattr(settings, name) < inf:
                used.append(lookback + np.array(places, dtype=int))
                penalty.append(getattr(settings, name) * square[used[-1]])
        if position is not None and settings.others < inf:
            columns, first = np.tile(self.maps.read, self.maps.recent), lookback + self.maps.calendar.shape[1]
            rows_ago = np.repeat(np.arange(self.maps.recent, 0, -1), len(self.maps.read))
            used.append(first + np.flatnonzero(columns != position))
            penalty.append(settings.others * rows_ago[columns != position] * square[used[-1]])
        return np.concatenate(used), np.concatenate(penalty)

    def whole(self, weight: Float64[np.ndarray, "p h"], lookback: int) -> Float64[np.ndarray, "q h"]:
        """A map of the longest history itself, in place of one of the rows of a lookback minus their mean."""
        n = self.maps.own.shape[1]
        history = np.zeros((n, weight.shape[1]))
        history[n - lookback :] = weight[:lookback] + (1 - weight[:lookback].sum(axis=0)) / lookback
        return np.concatenate([history, weight[lookback:]])

    def fit(self, windows: Windows, settings: Mapping[int, MapSettings]) -> None:
        """Set the weights of the network to the mean of the maps of each lookback, fitted on the windows."""
        n, most = windows.sizes.seq_len, MOST_HISTORIES // len(self.positions)
        pooled = window_sums(windows, [self.positions], further=self.calendar, most=most)[0]
        shared = {rows: self.shared_map(pooled.centred(n, rows), rows, each) for rows, each in settings.items()}
        self._set(slice(None), np.mean([self.whole(weight, rows) for rows, weight in shared.items()], axis=0))
        if not self.maps.has_own_maps or all(each.own == each.others == inf for each in settings.values()):
            return
        for series, part in by_series(windows):
            for place, own in enumerate(window_sums(part, [[c] for c in self.positions], further=self.further)):
                weights = [
                    self.whole(
                        self.own_map(own.centred(n, rows), self.positions[place], shared[rows], rows, each), rows
                    )
                    for rows, each in settings.items()
                ]
                number = int(windows.store.numbers[series]) if self.maps.reads_series else 0
                first = 1 + number * len(self.positions) if self.maps.reads_series else 0
                self._set(slice(first + place, first + place + 1), np.mean(weights, axis=0))

    @torch.no_grad()
    def _set(self, maps: slice, weight: Float64[np.ndarray, "p h"]) -> None:
        begin = 0
        for part in (self.maps.own, self.maps.calendar, self.maps.others):
            rows = torch.from_numpy(weight[begin : begin + part.shape[1]])
            part[maps] = rows.to(part) if len(rows) else torch.zeros_like(part[maps])
            begin += part.shape[1]

    def chosen(self, windows: Windows) -> tuple[dict[int, MapSettings], float]:
        """Settings of each lookback, and the root mean squared error on held-out blocks of their mean."""
        blocks, found, maps = list(self._blocks(windows)), dict[int, MapSettings](), list[list[list[np.ndarray]]]()
        for lookback in self.lookbacks:
            candidates = _Candidates(self, lookback, blocks)
            found[lookback] = candidates.best()
            maps.append(candidates.maps(found[lookback]))
        means = [list(np.mean(each, axis=0)) for each in zip(*maps, strict=True)]
        n_errors = sum(block.pooled_held.observed.sum() for block in blocks)
        return found, float((sum(losses_of(blocks, means)) / max(n_errors, 1)) ** 0.5)

    def _blocks(self, windows: Windows) -> Iterator["Block"]:
        """Sums of each block over some steps and columns."""
        steps = np.unique(np.linspace(0, windows.sizes.pred_len - 1, STEPS).round().astype(int)).tolist()
        series = dict(by_series(windows))
        channels = [(each, column) for each in series for column in self.positions]
        size = windows.sizes.seq_len + self.further(windows.at(windows.starts[:0])).shape[1]
        most = min(len(channels), MOST_CHANNELS, max(1, MOST_BYTES // (16 * BLOCKS * size * (size + len(steps)))))
        channels = [channels[place] for place in np.linspace(0, len(channels) - 1, most).round().astype(int)]
        by_number = {number: [column for each, column in channels if each == number] for number, _ in channels}
        starts = torch.cat([series[number].starts for number in by_number])

        def sums(part: Windows) -> list[Sums]:
            of_series, none = dict(by_series(part)), part.at(part.starts[:0])
            each = (
                window_sums(of_series.get(number, none), [[c] for c in columns], steps=steps, further=self.further)
                for number, columns in by_number.items()
            )
            return [one for part_sums in each for one in part_sums]

        blocks = [(sums(held), between) for held, _, between in blocks_of(windows.at(starts), BLOCKS)]
        total = [reduce(add, each) for each in zip(*(held for held, _ in blocks), strict=True)]
        columns = [column for each in by_number.values() for column in each]
        for held, between in blocks:
            fitted = [whole - (own + near) for whole, own, near in zip(total, held, sums(between), strict=True)]
            pooled = (reduce(add, (one.reading(range(self.n_shared)) for one in each)) for each in (fitted, held))
            yield Block(columns, fitted, held, *pooled)


@dataclass(frozen=True, eq=False, slots=True)
class Block:
    """A held-out block: columns, and by column the sums of the windows to fit on and of those held out; and both summed
    over the columns, for the shared map."""

    columns: Sequence[int]
    fitted: Sequence[Sums]
    held: Sequence[Sums]
    pooled_fitted: Sums
    pooled_held: Sums


class _Candidates:
    """Settings of one lookback, compared on blocks."""

    def __init__(self, fit: LinearFit, lookback: int, blocks: Sequence[Block]) -> None:
        self._fit, self._lookback, self._blocks = fit, lookback, blocks
        n = fit.maps.own.shape[1]
        self._pooled = [block.pooled_fitted.centred(n, lookback) for block in blocks]
        self._own = [[sums.centred(n, lookback) for sums in block.fitted] for block in blocks if fit.maps.has_own_maps]
        self._losses = dict[MapSettings, np.ndarray]()

    def best(self) -> MapSettings:
        """Coordinate descent: one penalty after the other, the cheap ones of the shared map first.

        Further inputs are used where they lower the error by more than a standard error over blocks.
        """
        own = {"own": OWN, "others": FURTHER if self._fit.maps.recent else ()} if self._own else {}
        best = MapSettings()
        year = FURTHER if self._fit.groups["year"] else ()
        shared = {"shared": SHARED, "taper": TAPERS, "calendar": FURTHER, "year": year}
        for name, values in [*shared.items(), *own.items(), *list(own.items())[:1], ("shared", SHARED)]:
            trials = [best, *(replace(best, **{name: value}) for value in values)]
            found = min(trials, key=lambda settings: self.losses(settings).sum())
            without = found if name in ("shared", "taper", "own") else replace(best, **{name: inf})
            gain = self.losses(without) - self.losses(found)
            best = found if without == found or gain.mean() > gain.std(ddof=1) / len(gain) ** 0.5 else without
        return best

    def losses(self, settings: MapSettings) -> Float64[np.ndarray, " blocks"]:
        """Sum of squared errors on each block."""
        if settings not in self._losses:
            if settings.own == settings.others == inf:
                whole = (self._fit.whole(shared, self._lookback) for shared in self._shared(settings))
                pairs = zip(self._blocks, whole, strict=True)
                losses = [block.pooled_held.loss(weight).sum() for block, weight in pairs]
            else:
                losses = losses_of(self._blocks, self.maps(settings))
            self._losses[settings] = np.array(losses)
        return self._losses[settings]

    def maps(self, settings: MapSettings) -> list[list[np.ndarray]]:
        """For each block and column, the map of the longest history and of all inputs."""
        found = []
        for number, (block, shared) in enumerate(zip(self._blocks, self._shared(settings), strict=True)):
            sums = self._own[number] if self._own else block.fitted
            weights = (
                self._fit.own_map(*each, shared, self._lookback, settings)
                for each in zip(sums, block.columns, strict=True)
            )
            found.append([self._fit.whole(weight, self._lookback) for weight in weights])
        return found

    def _shared(self, settings: MapSettings) -> Iterator[np.ndarray]:
        return (self._fit.shared_map(sums, self._lookback, settings) for sums in self._pooled)


def losses_of(blocks: Sequence[Block], maps: Sequence[Sequence[np.ndarray]]) -> list[float]:
    """Sum of squared errors of the maps of each block and column on the windows held out, by block."""
    each = (zip(block.held, of_block, strict=True) for block, of_block in zip(blocks, maps, strict=True))
    return [float(sum(held.loss(weight).sum() for held, weight in pairs)) for pairs in each]


def by_series(windows: Windows) -> Iterator[tuple[int, Windows]]:
    """The number in the store of each series that has windows, and its windows."""
    starts = windows.starts.unique()
    series, counts = windows.store.series_of(starts).unique_consecutive(return_counts=True)
    for number, part in zip(series.tolist(), starts.split(counts.tolist()), strict=True):
        yield number, windows.at(part)


def effects_of(data: Data) -> KnownEffects:
    """Effects of future covariates, categories and holidays, fitted once; shared by maps, intervals and ridge."""
    if EFFECTS not in data.choices:
        data.choices[EFFECTS] = fit_known(
            data.train,
            data.val,
            data.columns.positions(data.targets),
            columns=data.dims.regressors,
            marks=data.dims.holidays,
            codes=data.dims.known_codes,
            lag=data.frequency.season,
        )
    return data.choices[EFFECTS]


def every_window(data: Data, *, with_test: bool = True) -> Windows:
    """The windows of all parts, and those that span two parts."""
    parts = [data.train, data.val, data.calibration, *([data.test] if with_test else [])]
    return joined(*(part for part in parts if part is not None))


def _without_effects(windows: Windows, data: Data) -> Windows:
    """The windows over rows from which known effects are subtracted."""
    positions = data.columns.positions(data.targets)
    store = effects_of(data).without(windows.store, positions)
    return Windows(store, starts=windows.starts, sizes=windows.sizes, targets=positions)


def fit_model(maps: LinearMaps, data: Data, windows: Windows | None = None) -> str:
    """Fit the maps and set them as weights of the network; returns a description of the choice.

    Args:
        maps: the network.
        data: the settings of the maps are chosen on its training and validation windows.
        windows: windows to fit on; None: the training windows.
    """
    fit, windows = LinearFit.of(maps, data), data.train if windows is None else windows
    settings, error = _settings(fit, data)
    fit.fit(_without_effects(windows, data), settings)
    known = effects_of(data)
    fold_known(known, maps)
    each = "; ".join(f"{rows} rows of history with penalties {penalties}" for rows, penalties in settings.items())
    notes = [
        f"linear: {'mean of maps of' if len(settings) > 1 else 'maps of'} {each}; root mean squared error {error:.4g} "
        f"over {BLOCKS} blocks of training and validation; fitted on {len(windows)} windows of training"
    ]
    if not maps.has_own_maps:
        notes.append("one map for all: separate maps for series and columns would have too many weights")
    known_codes = [data.inputs[position] for position in data.dims.known_codes]
    if unread := [name for name in data.categories if name not in known_codes]:
        notes.append(f"not read: {', '.join(unread)} (categorical, not known ahead)")
    if known.weight.size:
        notes.append(known_in_words(known, data))
    return "; ".join(notes)


def _settings(fit: LinearFit, data: Data) -> tuple[dict[int, MapSettings], float]:
    """The choice on training and validation windows, made once."""
    if SETTINGS not in data.choices:
        data.choices[SETTINGS] = fit.chosen(_without_effects(joined(data.train, data.val), data))
    return data.choices[SETTINGS]


def known_in_words(known: KnownEffects, data: Data) -> str:
    """The columns, holidays and categories with an effect, as text."""
    marks = mark_fields(data.frequency, data.calendar)
    names = [data.inputs[position] for position in known.columns] + [marks[position] for position in known.marks]
    columns = [(data.inputs[position], code) for position, code in known.codes if code]
    names += [f"{name}={data.categories[name][code - 1]}" for name, code in columns]
    effective = [names[position] for position in known.nonzero]
    return f"known ahead, with an effect on held-out blocks: {', '.join(effective) or 'none'} of {', '.join(names)}"


@torch.no_grad()
def fold_known(known: KnownEffects, maps: LinearMaps) -> None:
    """Set the known effects as weights of the network."""
    if maps.effects is not None:
        maps.effects.zero_()
        numbers = range(len(known.columns) + len(known.marks))
        rows = [*numbers, *(maps.code_rows[column][code] for column, code in known.codes)]
        weight = torch.from_numpy(known.weight).to(maps.effects)
        maps.effects[torch.tensor(rows)[:, None], torch.tensor(maps.positions)] = weight


def held_out_blocks(maps: LinearMaps, data: Data, *, n_blocks: int) -> Iterator[tuple[LinearMaps, Windows]]:
    """For each block of training, validation and calibration rows, the maps fitted without it and its windows.

    The penalties are those already chosen (cross-conformal prediction: V. Vovk, "Cross-conformal predictors", 2015). A
    single held-out part at the end may cover only one season, whose errors need not be typical.

    Args:
        maps: fitted maps; they are not changed. Every block yields the same copy of them, with new weights.
        data: windows of training, validation and calibration rows; all are used.
        n_blocks: number of blocks.
    """
    scratch = deepcopy(maps).eval()
    fit = LinearFit.of(scratch, data)
    settings, _ = _settings(fit, data)
    for held, fitted, _ in blocks_of(every_window(data, with_test=False), n_blocks):
        if len(held) and len(fitted):
            fit.fit(_without_effects(fitted, data), settings)
            yield scratch, held


@torch.no_grad()
def set_cycles(maps: LinearMaps, data: Data) -> list[str]:
    """Set how the network reads the calendar from the marks; returns the cycles that a series has at least twice.

    The number of turns since a cycle began is a linear function of the marks, `turns` and `phase` of the network.
    """
    names, n_rows = mark_fields(data.frequency, data.calendar), sum(len(split.train) for split in data.splits)
    maps.turns.zero_()
    maps.phase.zero_()
    if data.frequency.per_day is None:
        return []
    days, found = n_rows / len(data.splits) / data.frequency.per_day, list[str]()
    for place, (cycle, length) in enumerate(CYCLES.items()):
        if 2 / data.frequency.per_day > length or days < 2 * length:
            continue
        of_unit = _days_of_unit(cycle, names)
        for name, in_days in of_unit.items():
            least, span = RANGES[name]
            is_scaled = data.calendar.kind is CalendarEmbed.timeF  # (field - least) / span - 1/2
            maps.turns[names.index(name), place] = in_days * (span if is_scaled else 1) / length
            maps.phase[place] += in_days * (least + span / 2 if is_scaled else 0) / length
        found += [cycle] if of_unit else []
    return found


CYCLES = {"day": 1.0, "week": 7.0, "year": 365.25}
"""Days of each cycle of the calendar, in the order of HARMONICS."""


def _days_of_unit(cycle: str, names: Sequence[str]) -> dict[str, float]:
    """Days that one unit of each mark is of a cycle, which is their sum; empty if the marks do not show the cycle."""
    hours = {"hour": 1 / 24, "minute": 1 / 1440, "second": 1 / 86400}
    if "minute" not in names:
        hours["quarter_hour"] = 1 / 96
    month = CYCLES["year"] / 12  # of average length: off by at most four days
    years = ({"dayofyear": 1.0, **hours}, {"week": 7.0}, {"month": month, "day": 1.0, **hours})
    choices = {"day": [hours], "week": [{"weekday": 1.0, **hours}], "year": years}
    for units in choices[cycle]:
        if next(iter(units)) in names:
            return {name: days for name, days in units.items() if name in names}
    return {}
