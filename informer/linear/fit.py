"""Fit linear forecasts: candidates, choice of penalty strengths, and the maps."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from math import inf, isfinite, log2

import numpy as np
import torch

from informer.config.lengths import WindowSizes
from informer.config.model import CalendarEmbed
from informer.data.calendar import Marks, mark_fields
from informer.data.read.frequency import Frequency
from informer.data.windows import Store, Windows
from informer.errors import InputError
from informer.linear.average import best_mean
from informer.linear.blocks import Fold, folds
from informer.linear.covariate_effects import NO_EFFECTS, KnownEffects
from informer.linear.features import Group, OriginFeatures, cycles_of
from informer.linear.forecast import LinearForecast
from informer.linear.held_out import Channel, Once, fold_moments
from informer.linear.moments import Moments, MomentSource, Run, in_order, runs_of
from informer.linear.offered import LinearConfig, lookback_grid
from informer.linear.select import OWN, Choice, CrossValidation, fit_own, fit_shared, has_own_maps, total
from informer.linear.solve import Layout, blended, raw_map
from informer.linear.strengths import Strengths
from informer.linear.sums import Sums
from informer.linear.weights import series_weights
from informer.models.linear import MOST_WEIGHTS, recent_rows
from informer.runtime import one_blas_thread

log = logging.getLogger(__name__)

BLOCKS = 5
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

MOST_FLOPS = 2e12
"""Maximum cost of solving for all maps; beyond this or MOST_WEIGHTS, all columns share one map."""

MomentsOf = Callable[[Channel], Moments]


def prepare(
    train: Windows,
    val: Windows,
    positions: Sequence[int],
    *,
    frequency: Frequency,
    calendar: Marks,
    config: LinearConfig,
) -> "LinearFit":
    """The fit that the data allow.

    Args:
        train, val: windows.
        positions: columns to forecast.
        frequency, calendar: step and calendar marks of the rows.
        config: candidates.

    Raises:
        InputError: a part without windows.
    """
    if not len(train) or not len(val):
        raise InputError("linear forecast: expected training and validation windows, found a part without any")
    runs, n_columns = runs_of(train), train.store.values.shape[1]
    rows = sum(map(len, runs)) // len({run.series for run in runs}) + train.sizes.rows
    fields = mark_fields(frequency, calendar)
    features = OriginFeatures(
        n_columns,
        recent_rows(n_columns - len(config.left_out), train.sizes.seq_len) if config.other_columns else 0,
        cycles_of(fields, rows, frequency.per_day),
        fields,
        calendar if isinstance(calendar, CalendarEmbed) else calendar.kind,
        tuple(config.left_out),
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
        config=config,
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
        config: candidates.
        weights: weight of each channel in the shared map; empty: `series_weights` of the training windows.
        known: effects already subtracted from the rows.
    """

    store: Store
    sizes: WindowSizes
    train: Sequence[Run]
    val: Sequence[Run]
    positions: Sequence[int]
    features: OriginFeatures
    season: int
    repeated: int
    config: LinearConfig
    weights: Sequence[float] = ()
    known: KnownEffects = NO_EFFECTS

    @property
    def channels(self) -> list[Channel]:
        """(series, column) of each map; a series without windows uses the shared map."""
        return [(series, column) for series in range(len(self.store.first_rows)) for column in self.positions]

    def strengths(
        self, left: Callable[[], float] = lambda: inf, most_seconds: float = inf
    ) -> tuple[list[Strengths], str]:
        """Strengths of the maps to average, and the reason as text; chosen by leave-one-block-out unless given.

        Args:
            left: returns the seconds left; the search then stops with the best so far.
            most_seconds: maximum time for fitting all maps once; lookbacks that take longer are not candidates.
        """
        if self.config.chosen:
            return list(self.config.chosen), ""
        choice, best = self.choose(left, most_seconds)
        averaged, loss = best_mean(choice, best, self.config.average)
        cut = ", stopped early: time budget used up" * choice.was_cut
        return averaged, (
            f"; root mean squared error {loss:.4g} over {BLOCKS} blocks of training and validation, best of "
            f"{choice.n_trials} candidates and their means{cut}"
        )

    def choose(self, left: Callable[[], float] = lambda: inf, most_seconds: float = inf) -> tuple[Choice, Strengths]:
        """Search strengths by leave-one-block-out on some steps of the horizon, and on some columns if there are many.

        See `strengths` for the arguments. Returns the finished search, and its best strengths.
        """
        steps = np.unique(np.linspace(0, self.sizes.pred_len - 1, STEPS).round().astype(int))
        source = self._source(steps)
        channels = self._thinned(len(source.kept) + len(self.features.groups))
        blocks = folds(in_order([*self.train, *self.val]), BLOCKS, self.sizes.pred_len)
        channels, by_fold = fold_moments(blocks, channels, lambda channel, runs: self._of(source, runs, channel), left)
        lookbacks = list(self.config.lookbacks) or lookback_grid(self.sizes.seq_len, self.season)
        if isfinite(most_seconds):
            seconds = self._seconds(source, left)
            shares = [((rows + self.sizes.pred_len) / self.sizes.rows) ** 2 for rows in lookbacks]
            in_time = [rows for rows, share in zip(lookbacks, shares, strict=True) if share * seconds <= most_seconds]
            lookbacks = in_time or lookbacks[:1]
        start = min(lookbacks, key=lambda rows: abs(log2(rows / max(START * self.season, self.sizes.pred_len))))
        choice = Choice(
            CrossValidation(
                by_fold, [column for _, column in channels], self._layout(steps), self.channel_weights(channels)
            ),
            offered=self._offered(),
            lookbacks=lookbacks,
            start=start,
            left=left,
            own=OWN if self.config.own_maps and self._affordable() else OWN[:1],
            log=log.debug,
        )
        return choice, choice.run()

    def fit(self, strengths: Sequence[Strengths], runs: Sequence[Run], note: str = "") -> LinearForecast:
        """The mean of the maps of several strengths, fitted on `runs`."""
        source = self._source(np.arange(self.sizes.pred_len))
        return self._fit(strengths, Once(lambda channel: self._of(source, runs, channel), self._room), note)

    def sums(self, strengths: Sequence[Strengths], runs: Sequence[Run]) -> Sums:
        """Moments of `runs`, from which maps of these strengths are fitted."""
        source, keeps = self._source(np.arange(self.sizes.pred_len)), has_own_maps(strengths)
        return Sums.over(
            self.channels, self.channel_weights(self.channels), keeps, lambda channel: self._of(source, runs, channel)
        )

    def fit_from(self, strengths: Sequence[Strengths], sums: Sums) -> LinearForecast:
        """The result of `fit`, from the `sums` of the runs."""
        return self._fit(strengths, sums.own.__getitem__, "", sums.pooled)

    def fit_without(
        self, strengths: Sequence[Strengths], blocks: Sequence[Fold]
    ) -> Iterator[tuple[Fold, LinearForecast]]:
        """Each fold with held-out and fitted windows, and the maps fitted without its held-out ones.

        Blocks longer than windows whose moments all fit into memory are summed once, not for every fold; `blocks` are
        all folds of the same windows.
        """
        channels, usable = self.channels, [bool(block.held and block.fitted) for block in blocks]
        least = self.sizes.rows * len(blocks) * len(self.store.first_rows)
        if (
            sum(len(run) for block in blocks for run in block.held) < least
            or 2 * len(blocks) * len(channels) > self._room
        ):
            yield from ((block, self.fit(strengths, block.fitted)) for block in compress(blocks, usable))
            return
        source = self._source(np.arange(self.sizes.pred_len))
        _, by_fold = fold_moments(blocks, channels, lambda channel, runs: self._of(source, runs, channel), lambda: inf)
        for block, moments in compress(zip(blocks, by_fold, strict=True), usable):
            by_channel = dict(zip(channels, moments.fitted, strict=True))
            yield block, self._fit(strengths, by_channel.__getitem__, "")

    def _seconds(self, source: MomentSource, left: Callable[[], float]) -> float:
        """Estimated seconds for all moments at the longest lookback, from one channel with cached features."""
        self._of(source, self.train, self.channels[0])
        before = left()
        self._of(source, self.train, self.channels[0])
        return len(self.channels) * (before - left())

    @property
    def _room(self) -> int:
        """Number of moments that fit into KEPT_BYTES."""
        return KEPT_BYTES // (8 * (self.sizes.rows + len(self.features.groups)) ** 2)

    @one_blas_thread
    def _fit(
        self, strengths: Sequence[Strengths], moments: MomentsOf, note: str, pooled: Moments | None = None
    ) -> LinearForecast:
        """Fit from the moments of each channel; `pooled` is their weighted sum, if known."""
        layout, channels = self._layout(np.arange(self.sizes.pred_len)), self.channels
        pooled = pooled or total(map(moments, channels), self.channel_weights(channels))
        shared = [fit_shared(pooled, layout, setting) for setting in strengths]
        by_series = len({series for series, _ in channels}) > 1
        has_own = has_own_maps(strengths)
        pairs = list(zip(shared, strengths, strict=True))
        mixed = [blended(weight, layout, setting) for weight, setting in pairs]
        maps = [] if has_own and not by_series else [raw_map(None, mixed, layout, strengths)]
        for channel in channels if has_own else []:
            fits = (fit_own(moments(channel), channel[1], weight, layout, setting) for weight, setting in pairs)
            fitted = [blended(weight, layout, setting) for weight, setting in zip(fits, strengths, strict=True)]
            maps.append(raw_map(channel[1], fitted, layout, strengths))
        weight, level, extra = (torch.from_numpy(np.stack(arrays)) for arrays in zip(*maps, strict=True))
        return LinearForecast(
            positions=self.positions,
            features=self.features,
            weight=weight,
            level=level,
            extra=extra,
            by_series=has_own and by_series,
            chosen=strengths,
            note=note,
        )

    def channel_weights(self, channels: Sequence[Channel]) -> list[float]:
        """Weight of each channel in the shared map."""
        if by_channel := dict(zip(self.channels, self.weights, strict=False)):
            return [by_channel[channel] for channel in channels]
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

    def _thinned(self, size: int) -> list[Channel]:
        channels = self.channels
        affordable = max(12, SELECTION_FLOPS / (BLOCKS * size**3))
        most = min(SELECTION_BYTES / (16 * BLOCKS * size**2), affordable, MOST_CHANNELS)
        return channels[:: -(-len(channels) // max(int(most), 1))]

    def _of(self, source: MomentSource, runs: Sequence[Run], channel: Channel) -> Moments:
        """Moments of one channel."""
        series_runs = source.of_series(runs, channel[0])
        return source.of(channel[1], series_runs, source.feature_products(series_runs))
