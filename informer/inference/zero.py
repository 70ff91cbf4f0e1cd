"""Forecasts of any series by the network that comes trained, without training, and scores from the series themselves.

The scores are those of forecasts from earlier rows of each series, a horizon apart, next to two forecasts that need no
training either: the seasonal naive, and the mean of the last four seasons (without a season, the last value, and the
mean of the last four). Where columns are known ahead, the same forecasts choose how they are used, see
`informer.inference.ahead`.
"""

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import final

import numpy as np
import pandas as pd
from jaxtyping import Float64

from informer.base.errors import ColumnError, InputError, ShortError, counted, listed
from informer.checkpoint.format import Rule
from informer.config.commands import PredictConfig
from informer.data.history import Future, future_index
from informer.inference.ahead import BOTH, EFFECTS, HISTORY, NETWORK, Candidate, Known, PanelEffects
from informer.inference.cold import Peers, with_new
from informer.inference.model import MOST_ROWS, MOST_VALUES, Answer
from informer.inference.totals import LEVELS
from informer.inference.writing import tidy_table
from informer.members.zero import Histories, network_seasons, pretrained
from informer.networks.models.zero import at_level
from informer.networks.ops.zero_inputs import COUNTED, HORIZON, MIDDLE
from informer.read.series import Series, column_values, row_of
from informer.scoring.forecasts import Forecasts, in_utc, joined, keys_of
from informer.scoring.metrics import seasonal_scale
from informer.scoring.origins import LEAST_HISTORY, Origins, before, every, spread
from informer.scoring.scores import Scores

log = logging.getLogger(__name__)

LEAST_ORIGINS, MOST_ORIGINS, MOST_WINDOWS = 10, 20, 2000
"""Origins of a series that are scored: overlapping horizons make up the first number, if its rows allow; and forecasts
of all series and columns."""
LEAST_GAIN = 0.03
"""Share by which columns must lower the error to be used, and the network on what they leave."""
LEAST_SHARE = 0.6
"""Share of the rows before all such origins, which effects are fitted to."""
AGED = 1.25
"""Origins with up to so many times the rows before them share the seasons that are found before the first."""
MEAN_OF = 4
"""Seasons of the mean that is a baseline."""
CHECKED, CHANCE = 80, 2.0
"""Level in percent whose coverage decides on `ZeroModel.width`, and the standard errors that are chance."""


def rows_known(panel: Sequence[Series], futures: Sequence[Future]) -> int:
    """The steps after its end for which columns known ahead of every series have times; 0 without such columns."""

    def known(series: Series, of: Future) -> int:
        times = of.by_zone(series).unique()
        later = times[times > series.timestamps[-1]]  # which may be at shorter steps
        return int((future_index(series, len(later)) <= later.max()).sum()) if len(later) else 0

    return min(map(known, panel, futures), default=0)


@final
class ZeroModel:
    """The network that comes trained, for the series at hand.

    Args:
        panel: series of any length from 1 row, with NaN where a value is missing.
        columns: the columns to forecast, each by itself.
        device: "auto", "cpu", "cuda", "cuda:1" or "mps".
        known: columns known ahead, which `evaluate` decides how to use; None: there are none.
        futures: their values, of each series.
        new: their values, of each series without history.
        categories: of the columns with categories.
    """

    def __init__(
        self,
        panel: Sequence[Series],
        columns: Sequence[str],
        *,
        device: str = "auto",
        known: Known | None = None,
        futures: Sequence[Future] = (),
        new: Mapping[str, Future] | None = None,
        categories: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.member, self.panel, self.columns, self.known = pretrained(device), panel, columns, known
        self.futures, self.new, self.categories = futures, new or {}, categories or {}
        self.inputs, self.future_covariates = panel[0].columns, known.columns if known else ()
        self.kind = NETWORK if known is None else BOTH
        """How the columns are used; `evaluate` chooses."""
        self.gain = "" if known is None else "the series are too short to say by how much they lower the error"
        """By how much the columns lower the error of earlier forecasts, in words."""
        self.width = 1.0
        """Factor of the intervals around effects, from the coverage of earlier forecasts; `evaluate` chooses."""
        self.usual: int | str | None = None
        """The horizon if none is asked for; None: the rows that are known ahead."""
        self.checked: Forecasts | None = None
        """The forecasts from earlier rows that `evaluate` has made, with intervals of LEVELS too; None: none."""
        self._effects: PanelEffects | None = None
        self._rule: Rule | None = None

    @cached_property
    def seasons(self) -> tuple[int, int]:
        """See `network_seasons`."""
        return network_seasons(self.panel, self.columns)

    def use(self, rule: Rule) -> None:
        """Forecast as far as a rule says, if it does, and with effects that were fitted before, if it has some."""
        self.usual = rule.horizon
        if self.known is not None and rule.series:
            self._rule, self.kind, self.width = rule, rule.kind, rule.width

    def rule(self, horizon: int | str | None) -> Rule:
        """What `use` needs: how columns known ahead are used for forecasts of this horizon, and their effects."""
        self.evaluate(horizon)
        effects = self._fitted(self.panel)
        return Rule(
            series=[series.name for series in self.panel],
            series_col=self.panel[0].series_col,
            step=self.panel[0].frequency.code,
            categories={name: [*labels] for name, labels in self.categories.items()},
            **{"kind": self.kind, "width": self.width, **(effects.facts() if effects else {})},
        )

    def _fitted(self, panel: Sequence[Series]) -> PanelEffects | None:
        """Effects in all rows of a panel, with the penalties that `evaluate` chose; None if they are not used."""
        if self.known is None or self.kind == NETWORK:
            return None
        if self._rule is not None:
            return PanelEffects.of_rule(self._rule, panel, self.columns, self.known)
        penalties = [each.penalty for each in self._effects.by_column] if self._effects else []
        return PanelEffects.fit(panel, self.columns, self.known, penalties=penalties)

    @property
    def name(self) -> str:
        """The network, effects, or both."""
        version = self.member.version
        return {NETWORK: version, EFFECTS: EFFECTS, BOTH: f"{EFFECTS} + {version}"}[self.kind]

    @property
    def usual_horizon(self) -> int | str | None:
        """The horizon that is taken without one; None if nothing says one."""
        return self.usual if self.usual is not None else rows_known(self.panel, self.futures) or None

    def lengths(self, horizon: int | str | None, panel: Sequence[Series] | None = None) -> list[int]:
        """The rows that are forecast of each series; without a horizon the usual one.

        Raises:
            InputError: there is no horizon, or it is too long.
        """
        if (far := self.usual_horizon if horizon is None else horizon) is None:
            raise InputError('horizon: expected the rows to forecast, such as 24, or a span such as "2weeks"')
        rows = [each.frequency.rows_of(far, each.timestamps) for each in (self.panel if panel is None else panel)]
        farthest = min(MOST_ROWS, MOST_VALUES // len(self.columns))
        if max(rows) > farthest:
            raise InputError(
                f"horizon={max(rows)}: expected at most {farthest} rows of {counted(len(self.columns), 'column')}; "
                "forecast fewer, or series with a longer step, such as days for hours"
            )
        return rows

    def steps(self, horizon: int | str | None) -> int:
        """The most rows that are forecast of a series."""
        return max(self.lengths(horizon))

    def parts(self, most: int) -> list["ZeroModel"]:
        """See `TrainedPanel.parts`; with columns known ahead one part, since effects are those of all series."""
        if self.known is not None:
            return [self]
        parts = [copy(self) for _ in range(0, len(self.panel), most)]
        for number, part in enumerate(parts):
            part.seasons, part.panel = self.seasons, self.panel[number * most :][:most]
        return parts

    def answers(self, horizon: int | str | None, *, levels: Sequence[int] = ()) -> list[Answer]:
        """The series with those without history, and their forecasts; arguments and errors as of `forecast`."""
        panel, paths, notes = self.with_new(self.panel, self.forecast(horizon, levels=levels))
        for note in notes:
            log.warning(note)
        return [(panel, paths)]

    def with_new(
        self, panel: Sequence[Series], forecasts: Forecasts
    ) -> tuple[Sequence[Series], Forecasts, Sequence[str]]:
        """A panel and its forecasts with those of series without history, and notes on these; errors as of
        `informer.inference.cold.with_new`."""
        if not self.new or self.known is None:
            return panel, forecasts, []

        def earlier(peers: Sequence[Series], origins: Origins, h: int) -> Forecasts:
            return self.backtest(origins, horizon=h, panel=peers, kinds=[self.kind])[self.kind]

        fitted = self.kind != NETWORK
        peers = Peers.of(panel, forecasts, self.futures, self.known, has_effects=fitted, earlier=earlier)
        return with_new(peers, panel, forecasts, self.new)

    def supported(self, levels: Sequence[int]) -> Sequence[int]:
        """See `TrainedPanel.supported`."""
        return levels

    def held(self, horizon: int | str | None, levels: Sequence[int]) -> Forecasts | None:
        """See `TrainedPanel.held`."""
        self.evaluate(horizon, levels=levels)
        return self.checked

    def forecast(
        self,
        horizon: int | str | None,
        *,
        levels: Sequence[int] = (),
        panel: Sequence[Series] | None = None,
        explained: bool = False,
    ) -> Forecasts:
        """Forecast the rows after each series.

        Args:
            horizon: rows to forecast, or a span or date, see `Frequency.rows_of`; None: see `lengths`. Beyond one pass
                by rolling.
            levels: interval levels in percent; a constant column has none.
            panel: of several series those that are forecast; None: all. `futures` are of these.
            explained: also the sources of the forecasts: the level, each column known ahead and the calendar, as exact
                parts of the effects, and "history", what the network adds to them.

        Raises:
            InputError: a column without any value in its last COUNTED rows, or less than a row to forecast.
        """
        columns, panel = self.columns, self.panel if panel is None else panel
        lengths = self.lengths(horizon, panel)
        if self.known is not None and self.kind != NETWORK and not self.futures:
            raise InputError(f"future: expected the rows ahead of {listed(self.known.columns)}, found none")
        if self.known is not None and self._effects is None and self._rule is None:
            self.evaluate(horizon)
        for series in panel:
            for column, history in zip(columns, column_values(series, columns).T, strict=True):
                if not np.isfinite(history[-COUNTED:]).any():
                    where = f" in its last {COUNTED:,} rows" if np.isfinite(history).any() else ""
                    raise ColumnError(
                        f"{series.name}: column {column!r} has no value{where}; leave it out with dataset.exclude"
                    )
        ahead = list[np.ndarray]()
        for series, future, rows in zip(panel, self.futures, lengths, strict=False):
            ahead.append(future.at(future_index(series, rows), self.known.columns if self.known else ()))
        ends, n = [(place, len(series)) for place, series in enumerate(panel)], len(columns)
        found = self.backtest(ends, horizon=max(lengths), panel=panel, levels=levels, kinds=[self.kind], ahead=ahead)
        paths = found[self.kind].until(np.repeat(lengths, n))
        paths.check_finite()
        if not explained:
            return paths
        sources = dict[str, np.ndarray]()
        for place, (series, known) in enumerate(zip(panel, ahead, strict=True) if self._effects else ()):
            for name, parts in self._effects.contributions(place, series, known).items() if self._effects else ():
                values = sources.setdefault(name, np.full_like(paths.mean, np.nan))
                values[place * n : (place + 1) * n, : len(parts)] = parts.T
        return replace(paths, sources={**sources, HISTORY: paths.mean - sum(sources.values(), np.zeros(1))})

    def backtest(
        self,
        origins: Origins,
        *,
        horizon: int,
        panel: Sequence[Series] | None = None,
        levels: Sequence[int] = (),
        kinds: Sequence[str] | None = None,
        of_constants: bool = False,
        ahead: Sequence[np.ndarray] | None = None,
    ) -> dict[str, Forecasts]:
        """Forecasts from some origins by kind, and those of two baselines, with the actual values. Scaled errors are
        relative to the mean change over a season before the origin.

        Args:
            origins: series, and rows before it; a column without a value in the COUNTED rows before it is zero.
            horizon: rows to forecast.
            panel, levels: see `forecast`.
            kinds: the ways to use columns known ahead; None: `kind`, which forecasts before the first origins choose;
                empty: only the baselines.
            of_constants: also intervals after constant histories, of a single value.
            ahead: of the ends of the series, what is known ahead of them; then effects and seasons are those in all
                rows. None: effects are fitted to the rows before the first origin of each series, and seasons are those
                of the rows before the origin (see AGED).
        """
        panel = self.panel if panel is None else panel
        if kinds is None and self.known is not None:
            self.evaluate(horizon, panel=before(panel, origins))
        kinds = [self.kind] if kinds is None else kinds
        if ahead is not None:
            self._effects = self._fitted(panel)
        elif self.known is not None:
            self._effects = PanelEffects.fit(before(panel, origins), self.columns, self.known)
        columns, n, steps, order = self.columns, len(self.columns), np.arange(horizon), list[int]()
        last, mean = ("seasonal naive", "seasonal mean") if self.seasons[0] > 1 else ("naive", "mean")
        parts, padding = defaultdict[str, list[Forecasts]](list), np.full((horizon, n), np.nan)
        times = [in_utc([each.timestamps, future_index(each, horizon)]) for each in panel]
        by_series = [np.concatenate([column_values(each, columns), padding]) for each in panel]
        for numbers, seasons in self._alike(panel, origins, at_ends=ahead is not None):
            some, histories, found = [origins[each] for each in numbers], list[np.ndarray](), dict[str, Candidate]()
            for place, end in some:
                values = by_series[place][:end]
                histories += list(np.where(np.isfinite(values[-COUNTED:]).any(axis=0), values, 0.0).T)
            past = Histories.of(histories, seasons)
            if NETWORK in kinds:
                quantiles = self.member.quantiles(past, panel[0].frequency, horizon)
                found[NETWORK] = quantiles[:, :, MIDDLE], quantiles
            if self._effects is not None and {*kinds} - {NETWORK}:
                found |= self._effects.candidates(self.member, past, panel, some, ahead or (), horizon)
            scale = seasonal_scale([np.where(past.observed, past.values, np.nan).T], seasons[0])
            names, ends = [panel[s].name for s, _ in some], np.array([times[s][end - 1] for s, end in some])
            paths = Forecasts(
                keys=keys_of(names, columns, ends),
                times=np.stack([times[s][end + steps] for s, end in some]).repeat(n, axis=0),
                mean=past.repeated(horizon, 1),
                actual=np.concatenate([by_series[s][end + steps].T for s, end in some]),
                scale=scale,
                change=scale,
                zone=panel[0].timestamps.tz,
                direct=HORIZON,
            )
            for kind in kinds:
                bands = self._bands(past, found[kind], levels, kind, of_constants=of_constants)
                parts[kind].append(replace(paths, mean=found[kind][0], bands=bands))
            parts[last].append(paths)
            parts[mean].append(replace(paths, mean=past.repeated(horizon, MEAN_OF)))
            order += numbers
        rows = (np.argsort(order)[:, None] * n + np.arange(n)).ravel()
        return {name: joined(each).part(rows) for name, each in parts.items()}

    def _alike(
        self, panel: Sequence[Series], origins: Origins, *, at_ends: bool
    ) -> Iterator[tuple[list[int], tuple[int, int]]]:
        """The numbers of at most MOST_WINDOWS origins that have the same seasons, and these seasons."""
        groups, at_once = defaultdict[int, list[int]](list), max(MOST_WINDOWS // len(self.columns), 1)
        for number, (_, end) in enumerate(origins):
            groups[0 if at_ends else int(np.log(end) / np.log(AGED))].append(number)
        for numbers in groups.values():
            firsts = sorted(dict(sorted((origins[each] for each in numbers), reverse=True)).items())
            early = [] if at_ends else [panel[place].part(slice(end)) for place, end in firsts]
            seasons = network_seasons(early, self.columns) if early else self.seasons
            for first in range(0, len(numbers), at_once):
                yield numbers[first : first + at_once], seasons

    def rolling(self, how: PredictConfig) -> tuple[Sequence[Series], pd.DataFrame]:
        """The series, and forecasts from their earlier rows as the tables of `TrainedPanel`; without `how.from_date`
        from the first forecast that is scored on, a horizon apart unless `how.stride` says otherwise.

        Raises:
            InputError: a series has too few rows, or intervals are to be adaptive, which these are not.
        """
        if how.adaptive:
            raise InputError("adaptive: expected a trained model, found the pretrained network; leave it out")
        start = how.from_date
        steps, origins = self.steps(how.horizon), list[tuple[int, int]]()
        for place, series in enumerate(self.panel):
            first = self._least(series, steps) if start is None else row_of(start, series, "start")
            ends = every(max(first, 1), len(series) - steps, how.stride or steps)
            if not ends:
                raise ShortError(
                    f"{series.name}: expected at least {first + steps} rows for one forecast of {steps} rows, "
                    f"found {len(series)}"
                )
            origins += [(place, end) for end in ends]
        paths = self.backtest(origins, horizon=steps, levels=how.intervals)[self.kind]
        owners = np.repeat([place for place, _ in origins], len(self.columns))
        by_series = (paths.part(np.flatnonzero(owners == place)) for place in range(len(self.panel)))
        return self.panel, pd.concat(map(tidy_table, by_series, self.panel), ignore_index=True)

    def skill(self, how: PredictConfig) -> float:
        """Skill of forecasts from earlier rows; an InputError if the series are too short."""
        if (scores := self.evaluate(how.horizon)) is None:
            rows = counted(self.steps(how.horizon), "row")
            raise ShortError(f"score: the series are too short for a test forecast of {rows}")
        return scores.skill

    def _bands(
        self, past: Histories, found: Candidate, levels: Sequence[int], kind: str, *, of_constants: bool
    ) -> dict[str, Float64[np.ndarray, "n h"]]:
        """Interval ends; those after constant histories only if `of_constants`."""
        points, quantiles = found
        sides = {"lo": -1, "hi": 1}
        ends = {f"{end}{level}": 0.5 + side * level / 200 for level in levels for end, side in sides.items()}
        bands = {name: at_level(quantiles, p) for name, p in ends.items()}
        if kind != NETWORK:
            bands = self._widened(points, bands)
        elif bands:  # those beyond the network's levels may be outside the bounds of its quantiles
            bands = dict(
                zip(bands, np.moveaxis(past.bounded(np.stack([*bands.values()], axis=-1)), -1, 0), strict=True)
            )
        absent = past.are_constant()[:, None] & (not of_constants)
        return {name: np.where(absent, np.nan, each) for name, each in bands.items()}

    def _widened(
        self, points: Float64[np.ndarray, "n h"], bands: Mapping[str, Float64[np.ndarray, "n h"]]
    ) -> dict[str, Float64[np.ndarray, "n h"]]:
        """Interval ends `width` times as far from the forecast; those of amounts are at least zero."""
        assert self._effects is not None
        least = [0.0 if each.is_ratio else -np.inf for each in self._effects.by_column]
        floor = np.tile(least, len(points) // len(least))[:, None]
        return {name: np.maximum(points + self.width * (each - points), floor) for name, each in bands.items()}

    def _least(self, series: Series, horizon: int) -> int:
        """Rows before the first origin that is scored."""
        shortest = max(LEAST_HISTORY, self.seasons[0] + 1, horizon)
        return shortest if self.known is None else max(shortest, int(LEAST_SHARE * len(series)))

    def evaluate(
        self, horizon: int | str | None, *, levels: Sequence[int] = (), panel: Sequence[Series] | None = None
    ) -> Scores | None:
        """Scores of forecasts from at most MOST_ORIGINS earlier rows of each series; None if all are too short.

        Arguments as of `forecast`. Scaled errors are relative to the mean change over a season before the origin. Where
        columns are known ahead, these forecasts choose `kind`.
        """
        horizon, panel, columns = self.steps(horizon), self.panel if panel is None else panel, self.columns
        most = max(MOST_WINDOWS // (len(panel) * len(columns)), 1)
        chosen = panel[:: -(-len(panel) * len(columns) // MOST_WINDOWS)]
        seen, origins, overlap = list[np.ndarray](), list[tuple[int, int]](), 1
        for place, series in enumerate(chosen):
            least = self._least(series, horizon)
            ends = spread(least, len(series) - horizon, min(most, MOST_ORIGINS), apart=horizon, of=LEAST_ORIGINS)
            overlap = max(overlap, min(-(-horizon // ends.step), len(ends)))
            values = column_values(series, columns)
            for end in ends:
                # a column may begin later than others, or end before
                known = np.isfinite(values[max(end - COUNTED, 0) : end]).any(axis=0)
                if known.any():
                    seen.append(known)
                    origins.append((place, end))
        if not origins:
            return None
        kinds = [self.kind] if self.known is None or self._rule else [NETWORK, EFFECTS, BOTH]
        checked, self.width = [*dict.fromkeys([*levels, *LEVELS, CHECKED])], 1.0
        found = self.backtest(origins, horizon=horizon, panel=chosen, levels=checked, kinds=kinds, of_constants=True)
        is_seen = np.concatenate(seen)[:, None]
        found = {name: replace(each, actual=np.where(is_seen, each.actual, np.nan)) for name, each in found.items()}
        by_kind = {kind: mean_error(found[kind]) for kind in kinds}
        enough = (1 + LEAST_GAIN) * min(by_kind.values())
        self.kind = next(kind for kind in kinds if by_kind[kind] <= enough)
        if self.known is not None and self._rule is None:
            self.gain = _gain(self.member.version, self.kind, self.known, by_kind)
        scores = Scores(columns, [series.name for series in chosen], metric="mae", block=overlap)
        scores.notes = ["scaled errors are relative to the mean change over a season before each forecast"]
        own = found[self.kind]
        if self.kind != NETWORK:
            self.width = _width(own) if self._rule is None else self._rule.width
            own = replace(own, bands=self._widened(own.mean, own.bands))
        self.checked = own
        scores.add(self.name, own.with_intervals(levels))
        for name in [name for name in found if name not in kinds]:
            scores.add(name, found[name])
        return scores


def mean_error(paths: Forecasts) -> float:
    """Mean absolute scaled error of observed values; 0 without any."""
    errors = np.abs(paths.actual - paths.mean) / paths.scale[:, None]
    return float(np.nansum(errors) / max(np.isfinite(errors).sum(), 1))


def _width(paths: Forecasts) -> float:
    """Factor by which intervals are to be wider, so that they cover CHECKED percent of the actual values; 1 if what
    they cover differs from it by chance, each path counting as one value since its errors go together."""
    low, high = paths.bands[f"lo{CHECKED}"], paths.bands[f"hi{CHECKED}"]
    above = paths.actual > paths.mean
    to_end = np.where(above, high - paths.mean, paths.mean - low)
    seen = np.isfinite(paths.actual) & (high > low) & (to_end > 0)
    if not seen.any():
        return 1.0
    far, share = np.abs(paths.actual - paths.mean)[seen] / to_end[seen], CHECKED / 100
    chance = CHANCE * np.sqrt(share * (1 - share) / seen.any(axis=1).sum())
    return 1.0 if abs((far <= 1).mean() - share) <= chance else float(np.quantile(far, share))


def _gain(network: str, kind: str, known: Known, errors: Mapping[str, float]) -> str:
    """By how much columns lower the error of earlier forecasts."""
    names = listed(known.columns, 4)
    if kind == NETWORK:
        return f"{names} and the calendar lower the error of earlier forecasts by less than 3 %, so are not used"
    share = f"{100 * (1 - errors[kind] / errors[NETWORK]):.0f} %"
    return f"{names} and the calendar lower the error of earlier forecasts by {share} against {network} alone"
