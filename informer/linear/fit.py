"""Fit linear forecasts: candidates, choice of penalty strengths, and the maps.

Choose the linear forecasts to average: a few whose mean is best on held-out blocks.

Averaging helps most if forecasts err differently (a short lookback window with the day of the week, a long one without
it), so candidates differ in lookback window, inputs, normalisation and penalties. The error of any mean follows from
the mean products of the candidates' errors, and these from the moments, so comparing means costs no more than the
candidates.

Means are compared by root mean squared error, per column or series and relative to its seasonal naive forecast (RMSSE,
the measure of the M5 competition), averaged over columns and series: in a sum of squared errors a few volatile series
would decide for all. The mean grows by one forecast at a time, each time the one that gives the lowest error. The same
one may be added again, and how often it was is its weight (R. Caruana et al., "Ensemble selection from libraries of
models", ICML 2004).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from math import inf, isfinite, log2
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from informer.base.runtime import one_blas_thread
from informer.config.data import Calendar
from informer.config.model import WindowSizes
from informer.data.calendar import mark_fields
from informer.data.windows import Store, Windows
from informer.linear import select
from informer.linear.effects import NO_EFFECTS, KnownEffects
from informer.linear.moments import Moments, MomentSource, WindowRun, in_order, runs_of, series_weights
from informer.linear.settings import Group, MapSettings, OriginFeatures, cycles_of, lookback_grid
from informer.linear.solve import Layout, blended, raw_map
from informer.networks.models.linear import MOST_WEIGHTS, recent_rows
from informer.read.frequency import Frequency


@dataclass(frozen=True, eq=False, slots=True)
class LinearForecast:
    """forecast = last + weight^T (history - last) + level mean(history) + extra^T features, for each column.

    Args:
        features: features of a window at its last row.
        weight: one map shared by all columns, one per column, or with `by_series` the shared map followed by one per
            series and column.
        level: weights of the mean of the history.
        extra: weights of the features.
        by_series: maps are separate for each series; the shared one is for new series.
    """

    features: OriginFeatures
    weight: Float[Tensor, "maps seq_len pred_len"]
    level: Float[Tensor, "maps pred_len"]
    extra: Float[Tensor, "maps e pred_len"]
    by_series: bool


ADDITIONS = 16
"""Number of times a forecast is added to the mean."""

MOST = 36
"""Largest number of candidates."""

TIMES = (1.0, 2.0, 0.5, 4.0)
"""Lookback windows, as multiples of the best one, at which other settings are changed."""

CALENDAR = (Group.day, Group.week, Group.year)


@dataclass(frozen=True, eq=False, slots=True)
class Products:
    """Mean products of the candidates' errors on held-out blocks; they determine the error of any mean of candidates.

    Args:
        errors: mean product of the errors of two candidates, by fold and column or series; NaN without windows.
        weights: weight of the squared errors of each column or series.
    """

    errors: Float64[np.ndarray, "folds channels k k"]
    weights: Float64[np.ndarray, "channels"]

    def losses(self, weights: Float64[np.ndarray, "means k"]) -> Float64[np.ndarray, "means"]:
        """Root mean squared error of weighted means of candidates, averaged over folds and channels."""
        losses = np.zeros(len(weights))
        for fold in self.errors:
            has_windows = np.isfinite(fold[:, 0, 0])
            square = np.einsum("mi,cij,mj->cm", weights, fold[has_windows], weights, optimize=True)
            root = np.sqrt(np.maximum(self.weights[has_windows, None] * square, 0.0))
            losses += root.mean(axis=0) if len(root) else 0.0
        return losses / len(self.errors)

    def best(self, most: int) -> tuple[Float64[np.ndarray, "k"], float]:
        """Weights of the best mean of at most `most` candidates, and its loss."""
        each = np.eye(self.errors.shape[-1])
        counts = np.zeros(len(each))
        for size in range(1, ADDITIONS + 1):
            can_add = (counts > 0) | (np.count_nonzero(counts) < most)
            means = (counts + each[can_add]) / size
            losses = self.losses(means)
            best = int(losses.argmin())
            counts = counts + each[can_add][best]
        return counts / ADDITIONS, float(losses[best])


def best_mean(choice: select.ChosenMap, best: MapSettings, most: int) -> tuple[list[MapSettings], float]:
    """Candidates whose maps to average, at most `most`, with their weights and the largest first, and the loss."""
    candidates = [best, *(candidate for candidate in candidates_of(choice, best) if choice.fits(candidate))]
    distinct = [candidate for position, candidate in enumerate(candidates) if candidate not in candidates[:position]]
    affordable = choice.in_time(distinct[:MOST])
    weights, loss = products_of(choice.validation, affordable).best(most)
    averaged = [replace(setting, weight=weight) for setting, weight in zip(affordable, weights.tolist(), strict=True)]
    return sorted((setting for setting in averaged if setting.weight), key=lambda setting: -setting.weight), loss


def candidates_of(choice: select.ChosenMap, best: MapSettings) -> Iterator[MapSettings]:
    """The best setting with other lookback windows, and at some of these with other settings changed."""
    current = choice.lookbacks.index(best.lookback)
    near = sorted(choice.lookbacks, key=lambda rows: abs(choice.lookbacks.index(rows) - current))
    yield from (replace(best, lookback=rows) for rows in near)
    groups = {group: penalty for group, penalty in best.groups.items() if group not in CALENDAR}
    for share in TIMES:
        rows = min(choice.lookbacks, key=lambda lookback: abs(log2(lookback / (share * best.lookback))))
        changes = [{"groups": groups}, {"own": 3 * best.own}, {"last": not best.last}, {"naive": 0.0}]
        changes += [{"groups": groups, "own": 3 * best.own, "naive": 0.0, "taper": 1.0}, {"own": best.own / 3}]
        yield from (replace(best, lookback=rows, **change) for change in changes)  # type: ignore[arg-type]


@one_blas_thread
def products_of(validation: select.CrossValidation, candidates: Sequence[MapSettings]) -> Products:
    """Error products of candidates, each fitted to every fold."""
    layout = validation.layout
    errors = []
    for fold, pooled in zip(validation.folds, validation.pooled, strict=True):
        shared = [select.fit_shared(pooled, layout, candidate) for candidate in candidates]
        by_channel = []
        for column, fitted, held_out in zip(validation.columns, fold.fitted, fold.held, strict=True):
            maps = [
                _on_moments(select.fit_own(fitted, column, common, layout, candidate), column, layout, candidate)
                for common, candidate in zip(shared, candidates, strict=True)
            ]
            by_channel.append(_error_products(maps, held_out, layout))
        errors.append(np.stack(by_channel))
    return Products(np.stack(errors), np.array(validation.weights))


def _error_products(maps: Sequence[Float64[np.ndarray, "z h"]], held_out: Moments, layout: Layout) -> np.ndarray:
    """Mean product of the errors of every two maps, over the windows and steps of a held-out block of one channel."""
    if not held_out.windows:
        return np.full((len(maps), len(maps)), np.nan)
    inputs = np.r_[0 : layout.seq_len, layout.seq_len + layout.steps : len(held_out.products)]
    future = np.arange(layout.seq_len, layout.seq_len + layout.steps)
    products = held_out.complete(layout.seq_len)
    gram, cross = products[np.ix_(inputs, inputs)], products[np.ix_(inputs, future)]
    flat = np.stack([weight.ravel() for weight in maps])
    quadratic = flat @ np.stack([(gram @ weight).ravel() for weight in maps]).T
    linear = flat @ cross.ravel()
    constant = float(products[future, future].sum())
    return (quadratic - linear[:, None] - linear + constant) / (held_out.windows * layout.steps)


def _on_moments(
    weight: Float64[np.ndarray, "p h"], column: int, layout: Layout, strengths: MapSettings
) -> Float64[np.ndarray, "z h"]:
    """The map for raw history and features, see `raw_map`; the level is the mean of the history."""
    history, level, extra = raw_map(column, [blended(weight, layout, strengths)], layout, [strengths])
    return np.concatenate([history + level / layout.seq_len, extra]).astype(np.float64)


BLOCKS = 5
DAYS = 7
"""Days of the second season that is tried as a lookback window before others."""
NO_SEASON = 24
"""Unit of age in rows if the frequency has no season."""

START = 3
"""The search starts with a lookback of this many seasons, or of pred_len rows if that is longer."""
STEPS = 24
"""Maximum number of steps of the horizon on which strengths are chosen, evenly spaced."""
SELECTION_BYTES, SELECTION_FLOPS = 1_500_000_000, 1e10
"""Maximum size of the moments from which strengths are chosen, and cost of one trial; more columns are thinned
evenly."""

MOST_CHANNELS = 48
"""Maximum number of columns, over all series, on which strengths are chosen."""
KEPT_BYTES = 1_000_000_000
"""Maximum size of the moments kept in memory for a second use."""

CUT = ", stopped early: time budget used up"
"""End of the reason for settings, if there was no time for others."""
MOST_FLOPS = 2e12
"""Maximum cost of solving for all maps; beyond this or MOST_WEIGHTS, all columns share one map."""

MomentsOf = Callable[[select.Channel], Moments]


def prepare(
    train: Windows,
    val: Windows,
    positions: Sequence[int],
    *,
    frequency: Frequency,
    calendar: Calendar,
    others: Sequence[int],
    **options: Any,
) -> "LinearFit":
    """The fit that the data allow.

    Args:
        train, val: windows.
        positions: columns to forecast.
        frequency, calendar: step and calendar marks of the rows.
        others: columns whose recent rows the maps of other columns may read.
        options: of `LinearFit`; cross-validation decides which of them are used.
    """
    runs = runs_of(train)
    rows = sum(map(len, runs)) // len({run.series for run in runs}) + train.sizes.rows
    fields = mark_fields(frequency, calendar)
    features = OriginFeatures(
        tuple(others),
        recent_rows(len(others), train.sizes.seq_len),
        cycles_of(fields, rows, frequency.per_day),
        fields,
        calendar.kind,
    )
    return LinearFit(
        store=train.store,
        sizes=train.sizes,
        train=runs,
        val=runs_of(val),
        positions=list(positions),
        features=features,
        season=frequency.season if frequency.season > 1 else NO_SEASON,
        repeated=frequency.season,
        week=frequency.seasons[-1] if frequency.seasons[-1] <= DAYS * frequency.season else 0,
        **options,
    )


@dataclass(frozen=True, eq=False, slots=True)
class LinearFit:
    """Data and candidates of linear maps.

    Args:
        store: rows of all series.
        sizes: sizes of a window; its history is the longest lookback.
        train, val, positions: windows, and the columns to forecast.
        features: features of a window at its last row.
        season, repeated: rows of one season, the unit of age; rows that the seasonal naive repeats.
        week: rows of a week whose season is a day, the lookback window that is tried before others; 0: none.
        own_maps: a map per column or series, shrunk towards the shared one.
        average: largest number of forecasts whose maps are averaged.
        lookbacks: lookback windows to choose from, in increasing order. Empty: see `lookback_grid`.
        chosen: settings of the maps to average, if they are known. Empty: choose them.
        known: effects already subtracted from the rows.
    """

    store: Store
    sizes: WindowSizes
    train: Sequence[WindowRun]
    val: Sequence[WindowRun]
    positions: Sequence[int]
    features: OriginFeatures
    season: int
    repeated: int
    week: int = 0
    own_maps: bool = True
    average: int = 3
    lookbacks: Sequence[int] = ()
    chosen: Sequence[MapSettings] = ()
    known: KnownEffects = NO_EFFECTS

    @property
    def key(self) -> str:
        """What the choice of settings depends on besides the rows."""
        return repr((self.own_maps, self.average, self.lookbacks, self.chosen, self.features, self.positions))

    @property
    def channels(self) -> list[select.Channel]:
        """(series, column) of each map; a series without windows uses the shared map."""
        return [(series, column) for series in range(len(self.store.first_rows)) for column in self.positions]

    def strengths(
        self, left: Callable[[], float] = lambda: inf, most_seconds: float = inf
    ) -> tuple[list[MapSettings], str]:
        """Strengths of the maps to average, and the reason as text; chosen by leave-one-block-out unless given.

        Args:
            left: returns the seconds left; the search then stops with the best so far.
            most_seconds: maximum time for fitting all maps once; lookbacks that take longer are not candidates.
        """
        if self.chosen:
            return list(self.chosen), ""
        choice, best = self.choose(left, most_seconds)
        averaged, loss = best_mean(choice, best, self.average)
        cut = CUT * choice.was_cut
        return averaged, (
            f"; root mean squared error {loss:.4g} over {BLOCKS} blocks of training and validation, best of "
            f"{choice.n_trials} candidates and their means{cut}"
        )

    def choose(
        self, left: Callable[[], float] = lambda: inf, most_seconds: float = inf
    ) -> tuple[select.ChosenMap, MapSettings]:
        """Search strengths by leave-one-block-out on some steps of the horizon, and on some columns if there are many.

        See `strengths` for the arguments. Returns the finished search, and its best strengths.
        """
        steps = np.unique(np.linspace(0, self.sizes.pred_len - 1, STEPS).round().astype(int))
        source = self._source(steps)
        channels = self._thinned(len(source.kept) + len(self.features.groups))
        used = {series for series, _ in channels}
        runs = in_order([run for run in [*self.train, *self.val] if run.series in used])
        blocks = select.folds(runs, BLOCKS, self.sizes.pred_len)
        channels, by_fold = select.fold_moments(blocks, channels, source.of_channel, left)
        lookbacks = list(self.lookbacks) or lookback_grid(self.sizes.seq_len, self.season)
        if isfinite(most_seconds):
            # of all moments at the longest lookback, from one channel with cached features
            source.of_channel(self.channels[0], self.train)
            before = left()
            source.of_channel(self.channels[0], self.train)
            seconds = len(self.channels) * (before - left())
            shares = [((rows + self.sizes.pred_len) / self.sizes.rows) ** 2 for rows in lookbacks]
            in_time = [rows for rows, share in zip(lookbacks, shares, strict=True) if share * seconds <= most_seconds]
            lookbacks = in_time or lookbacks[:1]
        start = min(lookbacks, key=lambda rows: abs(log2(rows / max(START * self.season, self.sizes.pred_len))))
        choice = select.ChosenMap(
            select.CrossValidation(
                by_fold, [column for _, column in channels], self._layout(steps), self.channel_weights(channels)
            ),
            offered=self._offered(),
            lookbacks=lookbacks,
            start=start,
            second=min(lookbacks, key=lambda rows: abs(rows - self.week)) if self.week > start else 0,
            left=left,
            own=select.OWN if self.own_maps and self._affordable() else select.OWN[:1],
        )
        return choice, choice.run()

    def fit(self, strengths: Sequence[MapSettings], runs: Sequence[WindowRun]) -> LinearForecast:
        """The mean of the maps of several strengths, fitted on `runs`."""
        source, kept = self._source(np.arange(self.sizes.pred_len)), dict[select.Channel, Moments]()
        if not select.has_own_maps(strengths):
            weights = np.array(self.channel_weights(self.channels)).reshape(-1, len(self.positions))
            return self._fit(strengths, source.pooled(runs, self.positions, weights))

        def moments(channel: select.Channel) -> Moments:
            found = kept[channel] if channel in kept else source.of_channel(channel, runs)
            if len(kept) < self._room:
                kept[channel] = found
            return found

        return self._fit(strengths, self._total(moments), moments)

    def fit_without(
        self, strengths: Sequence[MapSettings], blocks: Sequence[select.Fold]
    ) -> Iterator[tuple[select.Fold, LinearForecast]]:
        """Each fold with held-out and fitted windows, and the maps fitted without its held-out ones.

        Blocks longer than windows whose moments all fit into memory are summed once, not for every fold; `blocks` are
        all folds of the same windows.
        """
        channels, usable = self.channels, [bool(block.held and block.fitted) for block in blocks]
        least = self.sizes.rows * len(blocks) * len(self.store.first_rows)
        if (
            not select.has_own_maps(strengths)
            or sum(len(run) for block in blocks for run in block.held) < least
            or 2 * len(blocks) * len(channels) > self._room
        ):
            yield from ((block, self.fit(strengths, block.fitted)) for block in compress(blocks, usable))
            return
        source = self._source(np.arange(self.sizes.pred_len))
        _, by_fold = select.fold_moments(blocks, channels, source.of_channel, lambda: inf)
        for block, moments in compress(zip(blocks, by_fold, strict=True), usable):
            by_channel = dict(zip(channels, moments.fitted, strict=True))
            yield block, self._fit(strengths, self._total(by_channel.__getitem__), by_channel.__getitem__)

    def _total(self, moments: MomentsOf) -> Moments:
        return select.total(map(moments, self.channels), self.channel_weights(self.channels))

    @property
    def _room(self) -> int:
        """Number of moments that fit into KEPT_BYTES."""
        return KEPT_BYTES // (8 * (self.sizes.rows + len(self.features.groups)) ** 2)

    @one_blas_thread
    def _fit(
        self, strengths: Sequence[MapSettings], pooled: Moments, moments: MomentsOf | None = None
    ) -> LinearForecast:
        """Fit from the moments of all channels together and, for separate maps, of each."""
        layout, channels = self._layout(np.arange(self.sizes.pred_len)), self.channels
        shared = [select.fit_shared(pooled, layout, setting) for setting in strengths]
        by_series = len({series for series, _ in channels}) > 1
        has_own = moments is not None
        pairs = list(zip(shared, strengths, strict=True))
        mixed = [blended(weight, layout, setting) for weight, setting in pairs]
        maps = [] if has_own and not by_series else [raw_map(None, mixed, layout, strengths)]
        each = [] if moments is None else map(moments, channels)
        for (_, column), own in zip(channels, each, strict=False):
            fits = (select.fit_own(own, column, weight, layout, setting) for weight, setting in pairs)
            fitted = [blended(weight, layout, setting) for weight, setting in zip(fits, strengths, strict=True)]
            maps.append(raw_map(column, fitted, layout, strengths))
        weight, level, extra = (torch.from_numpy(np.stack(arrays)) for arrays in zip(*maps, strict=True))
        return LinearForecast(self.features, weight, level, extra, has_own and by_series)

    def channel_weights(self, channels: Sequence[select.Channel]) -> list[float]:
        """Weight of each channel in the shared map."""
        return series_weights(self.store, self.sizes, self.train, channels, period=self.repeated)

    def _layout(self, steps: np.ndarray) -> Layout:
        steps_ahead = tuple((self.sizes.offset + steps).tolist())
        return Layout(self.sizes.seq_len, len(steps_ahead), self.features, self.season, self.repeated, steps_ahead)

    def _source(self, steps: np.ndarray) -> MomentSource:
        """Moments over these steps of the horizon."""
        return MomentSource(self.store, self.sizes.seq_len, self.sizes.reach, self.features, self.sizes.offset + steps)

    def _offered(self) -> list[Group]:
        offered = [Group.bias, *(Group[cycle] for cycle in self.features.cycles)]
        if self.features.recent and self._affordable():
            offered.append(Group.recent)
        # the mean of the window itself draws long forecasts back to the overall mean; with less than two years it would
        # encode the time of year, which does not generalise
        return [*offered, Group.level] if "year" in self.features.cycles else offered

    def _affordable(self) -> bool:
        inputs = self.sizes.seq_len + len(self.features.groups)
        weights = len(self.channels) * inputs * self.sizes.pred_len
        return weights <= MOST_WEIGHTS and weights * inputs + len(self.channels) * inputs**3 / 3 <= MOST_FLOPS

    def _thinned(self, size: int) -> list[select.Channel]:
        affordable = max(12, SELECTION_FLOPS / (BLOCKS * size**3))
        most = min(SELECTION_BYTES / (16 * BLOCKS * size**2), affordable, MOST_CHANNELS)
        return self.channels[:: -(-len(self.channels) // max(int(most), 1))]
