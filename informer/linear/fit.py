"""Linear forecasts from windows: what is offered, what is chosen, and the maps that come of it."""

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
from informer.linear.features import Group, OriginFeatures, cycles_of
from informer.linear.forecast import LinearForecast
from informer.linear.held_out import Channel, Once, fold_moments
from informer.linear.known import NO_EFFECTS, KnownEffects
from informer.linear.moments import Moments, MomentSource, Run, in_order, runs_of
from informer.linear.offered import LinearConfig, lookback_grid
from informer.linear.select import OWN, Choice, CrossValidation, fit_own, fit_shared, has_own_maps, total
from informer.linear.solve import Layout, Strengths, blended, raw_map
from informer.linear.sums import Sums
from informer.linear.weights import series_weights
from informer.models.linear import MOST_WEIGHTS, recent_rows

log = logging.getLogger(__name__)

BLOCKS = 5
NO_SEASON = 24
"""Rows that age is counted in where the frequency has no season."""

START = 3
"""Seasons of the lookback that the search begins with, where the horizon is not longer."""
STEPS = 24
"""Steps of the horizon that strengths are chosen on, evenly spaced."""
SELECTION_BYTES, SELECTION_FLOPS = 1_500_000_000, 1e10
"""Of the moments that strengths are chosen from, and of one trial; columns are thinned evenly beyond."""

MOST_CHANNELS = 48
"""Columns, of all series together, that strengths are chosen on."""
KEPT_BYTES = 1_000_000_000
"""Of moments that are kept for the second reading."""

MOST_FLOPS = 2e12
"""Of solving for all maps: beyond this or MOST_WEIGHTS, all columns share one."""

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
    """What the data allow to be fitted.

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
        cycles_of(fields, rows, frequency.per_day) if config.calendar else (),
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
    """What the maps are fitted from.

    Args:
        store: rows of all series.
        sizes: of a window; its history is the longest lookback.
        train, val: windows.
        positions: columns that are forecast.
        features: what is read at the last row of a window.
        season: rows of one season, the unit of age.
        repeated: rows that the seasonal naive repeats.
        config: what to offer.
        weights: of each channel in the shared map; none: `series_weights` of the training windows.
        known: effects that the rows are without.
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
        """(series, column) of each map; a series without a window gets the shared one."""
        return [(series, column) for series in range(len(self.store.first_rows)) for column in self.positions]

    def strengths(
        self, left: Callable[[], float] = lambda: inf, most_seconds: float = inf
    ) -> tuple[list[Strengths], str]:
        """Those of the maps to average, and why; chosen by leave-one-block-out unless they are given.

        Args:
            left: seconds until what is best so far is taken.
            most_seconds: that fitting all maps once may take; lookbacks that take longer are not offered.
        """
        if self.config.chosen:
            return list(self.config.chosen), ""
        choice, best = self.choose(left, most_seconds)
        kept, loss = best_mean(choice, best, self.config.average)
        cut = ", cut short by the time there was" * choice.was_cut
        return kept, (
            f"; root mean squared error {loss:.4g} over {BLOCKS} blocks of training and validation, chosen from "
            f"{choice.n_trials} choices and means of them{cut}"
        )

    def choose(self, left: Callable[[], float] = lambda: inf, most_seconds: float = inf) -> tuple[Choice, Strengths]:
        """Strengths by leave-one-block-out, on some steps of the horizon and, where there are many, some columns."""
        steps = np.unique(np.linspace(0, self.sizes.pred_len - 1, STEPS).round().astype(int))
        source = self._source(steps)
        channels = self._thinned(len(source.kept) + len(self.features.groups))
        blocks = folds(in_order([*self.train, *self.val]), BLOCKS, self.sizes.pred_len)
        channels, made = fold_moments(blocks, channels, lambda one, runs: self._of(source, runs, one), left)
        lookbacks = list(self.config.lookbacks) or lookback_grid(self.sizes.seq_len, self.season)
        if isfinite(most_seconds):
            whole = self._seconds(source, left)
            shares = [((rows + self.sizes.pred_len) / self.sizes.rows) ** 2 for rows in lookbacks]
            in_time = [rows for rows, share in zip(lookbacks, shares, strict=True) if share * whole <= most_seconds]
            lookbacks = in_time or lookbacks[:1]
        start = min(lookbacks, key=lambda rows: abs(log2(rows / max(START * self.season, self.sizes.pred_len))))
        choice = Choice(
            CrossValidation(
                made, [column for _, column in channels], self._layout(steps), self.channel_weights(channels)
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
        """The moments that maps of these strengths, fitted on `runs`, follow from."""
        source, keeps = self._source(np.arange(self.sizes.pred_len)), has_own_maps(strengths)
        return Sums.over(
            self.channels, self.channel_weights(self.channels), keeps, lambda one: self._of(source, runs, one)
        )

    def fit_from(self, strengths: Sequence[Strengths], sums: Sums, note: str = "") -> LinearForecast:
        """The same as `fit`, from the `sums` of the runs."""
        return self._fit(strengths, sums.own.__getitem__, note, sums.pooled)

    def fit_without(
        self, strengths: Sequence[Strengths], blocks: Sequence[Fold]
    ) -> Iterator[tuple[Fold, LinearForecast]]:
        """Each block that holds windows and leaves some, with maps fitted on what it leaves.

        Where blocks are longer than windows, and there is room for all moments, each window is summed once, not for
        every block.

        Args:
            blocks: all folds of the same windows.
        """
        channels, usable = self.channels, [bool(block.held and block.fitted) for block in blocks]
        least = self.sizes.rows * len(blocks) * len(self.store.first_rows)
        if (
            sum(len(run) for block in blocks for run in block.held) < least
            or 2 * len(blocks) * len(channels) > self._room
        ):
            yield from ((one, self.fit(strengths, one.fitted)) for one in compress(blocks, usable))
            return
        source = self._source(np.arange(self.sizes.pred_len))
        _, made = fold_moments(blocks, channels, lambda one, runs: self._of(source, runs, one), lambda: inf)
        for block, moments in compress(zip(blocks, made, strict=True), usable):
            own = dict(zip(channels, moments.fitted, strict=True))
            yield block, self._fit(strengths, own.__getitem__, "")

    def _seconds(self, source: MomentSource, left: Callable[[], float]) -> float:
        """Of the moments of all channels for the longest lookback, from those of one, whose features are known."""
        self._of(source, self.train, self.channels[0])
        before = left()
        self._of(source, self.train, self.channels[0])
        return len(self.channels) * (before - left())

    @property
    def _room(self) -> int:
        """Moments that may be kept."""
        return KEPT_BYTES // (8 * (self.sizes.rows + len(self.features.groups)) ** 2)

    def _fit(
        self, strengths: Sequence[Strengths], moments: MomentsOf, note: str, pooled: Moments | None = None
    ) -> LinearForecast:
        """From the moments of each channel; `pooled` is their weighted sum, if it is known."""
        layout, channels = self._layout(np.arange(self.sizes.pred_len)), self.channels
        pooled = pooled or total(map(moments, channels), self.channel_weights(channels))
        shared = [fit_shared(pooled, layout, one) for one in strengths]
        by_series = len({series for series, _ in channels}) > 1
        own = has_own_maps(strengths)
        pairs = list(zip(shared, strengths, strict=True))
        mixed = [blended(weight, layout, one) for weight, one in pairs]
        maps = [] if own and not by_series else [raw_map(None, mixed, layout, strengths)]
        for channel in channels if own else []:
            fits = (fit_own(moments(channel), channel[1], weight, layout, one) for weight, one in pairs)
            fitted = [blended(weight, layout, one) for weight, one in zip(fits, strengths, strict=True)]
            maps.append(raw_map(channel[1], fitted, layout, strengths))
        weight, level, extra = (torch.from_numpy(np.stack(part)) for part in zip(*maps, strict=True))
        return LinearForecast(
            positions=self.positions,
            features=self.features,
            weight=weight,
            level=level,
            extra=extra,
            by_series=own and by_series,
            chosen=strengths,
            note=note,
        )

    def channel_weights(self, channels: Sequence[Channel]) -> list[float]:
        """How much each of them counts in the shared map."""
        if known := dict(zip(self.channels, self.weights, strict=False)):
            return [known[channel] for channel in channels]
        return series_weights(self.store, self.sizes, self.train, channels, period=self.repeated)

    def _layout(self, steps: np.ndarray) -> Layout:
        kept = tuple((self.sizes.offset + steps).tolist())
        return Layout(self.sizes.seq_len, len(kept), self.features, self.season, self.repeated, kept)

    def _source(self, steps: np.ndarray) -> MomentSource:
        """Moments over these steps of the horizon."""
        return MomentSource(self.store, self.sizes.seq_len, self.sizes.reach, self.features, self.sizes.offset + steps)

    def _offered(self) -> list[Group]:
        offered = [Group.bias, *(Group[cycle] for cycle in self.features.cycles)]
        if self.features.recent and self._affordable():
            offered.append(Group.recent)
        # within a year the mean of a window says where in the year it is, which the next year does not repeat
        return [*offered, Group.level] if self.config.level and "year" in self.features.cycles else offered

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
        own = source.of_series(runs, channel[0])
        return source.of(channel[1], own, source.feature_products(own))
