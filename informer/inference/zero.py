"""Forecasts of any series by the network that comes trained, without training, and scores from the series themselves.

The scores are those of forecasts from earlier rows of each series, a horizon apart, next to two forecasts that need no
training either: the seasonal naive, and the mean of the last four seasons (without a season, the last value, and the
mean of the last four). Where columns are known ahead, the same forecasts choose how they are used, see
`informer.inference.ahead`.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import final

import numpy as np
import pandas as pd
from jaxtyping import Float64

from informer.base.errors import InputError, listed
from informer.inference.ahead import BOTH, EFFECTS, HISTORY, NETWORK, Candidate, Known, PanelEffects, candidates
from informer.inference.model import Forecast
from informer.inference.rolling import tidy_table
from informer.members.zero import Histories, pretrained
from informer.networks.models.zero import at_level
from informer.networks.ops.zero_inputs import COUNTED
from informer.read.series import Series, column_values
from informer.scoring.backtest import in_utc
from informer.scoring.forecasts import Forecasts, joined, keys_of
from informer.scoring.metrics import seasonal_scale
from informer.scoring.scores import Scores

LEAST_ORIGINS, MOST_ORIGINS, MOST_WINDOWS = 10, 20, 2000
"""Origins of a series that are scored: overlapping horizons make up the first number, if its rows allow; and forecasts
of all series and columns."""
LEAST_GAIN = 0.03
"""Share by which columns must lower the error to be used, and the network on what they leave."""
LEAST_HISTORY = 8
"""Rows before an origin that is scored."""
LEAST_SHARE = 0.6
"""Share of the rows before all such origins, which effects are fitted to."""
MEAN_OF = 4
"""Seasons of the mean that is a baseline."""
CHECKED, CHANCE = 80, 2.0
"""Level in percent whose coverage decides on `ZeroModel.width`, and the standard errors that are chance."""


def tails(level: int) -> tuple[float, float]:
    """Levels of the two quantiles that enclose `level` percent."""
    return 0.5 - level / 200, 0.5 + level / 200


@final
class ZeroModel:
    """The network that comes trained, for the series at hand.

    Args:
        device: "auto", "cpu", "cuda", "cuda:1" or "mps".
        known: columns known ahead, which `evaluate` decides how to use; None: there are none.
    """

    def __init__(self, device: str = "auto", known: Known | None = None) -> None:
        self.member, self.known = pretrained(device), known
        self.kind = NETWORK if known is None else BOTH
        """How the columns are used; `evaluate` chooses."""
        self.gain = "" if known is None else "the series are too short to say by how much they lower the error"
        """By how much the columns lower the error of earlier forecasts, in words."""
        self.width = 1.0
        """Factor of the intervals around effects, from the coverage of earlier forecasts; `evaluate` chooses."""
        self._effects: PanelEffects | None = None

    @property
    def name(self) -> str:
        """The network, effects, or both."""
        version = self.member.version
        return {NETWORK: version, EFFECTS: EFFECTS, BOTH: f"{EFFECTS} + {version}"}[self.kind]

    def forecast(
        self,
        panel: Sequence[Series],
        columns: Sequence[str],
        seasons: tuple[int, int],
        *,
        horizon: int | str,
        levels: Sequence[int] = (),
        ahead: Sequence[Float64[np.ndarray, "h k"]] = (),
    ) -> list[Forecast]:
        """Forecast the rows after each series.

        Args:
            panel: series of any length from 1 row, with NaN where a value is missing.
            columns: the columns to forecast, each by itself.
            seasons: see `network_seasons`.
            horizon: rows to forecast, or a span or date, see `Frequency.rows_of`; beyond one pass by rolling.
            levels: interval levels in percent; a constant column has none.
            ahead: values of the columns known ahead in the rows to forecast of each series.

        Raises:
            InputError: a column without any value in its last COUNTED rows, or less than a row to forecast.
        """
        lengths = [series.frequency.rows_of(horizon, series.timestamps) for series in panel]
        histories = [column for series in panel for column in column_values(series, columns).T]
        for place, history in enumerate(histories):
            if not np.isfinite(history[-COUNTED:]).any():
                name = f"{panel[place // len(columns)].name}: column {columns[place % len(columns)]!r}"
                where = f" in its last {COUNTED:,} rows" if np.isfinite(history).any() else ""
                raise InputError(f"{name} has no value{where}; leave it out with dataset.exclude")
        version = self.member.network.version
        past, most = Histories.of(histories, seasons, version.history), max(lengths)
        kind, left, before = NETWORK, None, self._effects
        if self.known is None or self.kind == NETWORK:
            self._effects = None
        else:
            penalties = [] if before is None else [each.penalty for each in before.by_column]
            self._effects = PanelEffects(panel, columns, self.known, penalties=penalties)
            origins = [(place, len(series)) for place, series in enumerate(panel)]
            left = self._effects.remainders(panel, origins, dict(enumerate(ahead)), most, seasons, version.history)
            kind = self.kind
        found = candidates(self.member, past, left, panel[0].frequency, most, [kind])[kind]
        by_name = {"forecast": found[0], **self._bands(past, found, levels, kind)}
        shape = len(panel), len(columns), most
        values = {name: rows.reshape(shape).swapaxes(1, 2) for name, rows in by_name.items()}
        points = values.pop("forecast")
        return [
            Forecast(
                series=series,
                targets=tuple(columns),
                values=points[place, :n],
                pred_len=version.horizon,
                bands={name: rows[place, :n] for name, rows in values.items()},
            )
            for place, (series, n) in enumerate(zip(panel, lengths, strict=True))
        ]

    def explained(
        self, forecasts: Sequence[Forecast], ahead: Sequence[Float64[np.ndarray, "h k"]] = ()
    ) -> list[Forecast]:
        """The forecasts that `forecast` has just made, each with its sources: the level, each column known ahead and
        the calendar, as exact parts of the effects, and "history", what the network adds to them."""
        explained = list[Forecast]()
        for place, forecast in enumerate(forecasts):
            parts = {} if self._effects is None else self._effects.contributions(place, forecast.series, ahead[place])
            effect = sum(parts.values(), np.zeros_like(forecast.values))
            explained.append(replace(forecast, sources={**parts, HISTORY: forecast.values - effect}))
        return explained

    def backtest(
        self,
        panel: Sequence[Series],
        columns: Sequence[str],
        seasons: tuple[int, int],
        origins: Sequence[tuple[int, int]],
        *,
        horizon: int,
        levels: Sequence[int] = (),
        kinds: Sequence[str] = (),
        of_constants: bool = False,
    ) -> dict[str, Forecasts]:
        """Forecasts from some origins by kind, and those of two baselines. Scaled errors are relative to the mean
        change over a season before the origin.

        Args:
            panel, columns, seasons, levels: see `forecast`.
            origins: series, and rows before it; a column without a value in the COUNTED rows before it is zero.
            horizon: rows to forecast.
            kinds: the ways to use columns known ahead; none: `kind`. Their effects are fitted to the rows before the
                first origin of each series.
            of_constants: also intervals after constant histories, of a single value.
        """
        before = [min((end for s, end in origins if s == place), default=len(each)) for place, each in enumerate(panel)]
        effects = None if self.known is None else PanelEffects(panel, columns, self.known, rows=before)
        self._effects = effects
        rows, times, n = self.member.network.version.history, [in_utc(each) for each in panel], len(columns)
        by_series = [column_values(each, columns) for each in panel]
        last, mean = ("seasonal naive", "seasonal mean") if seasons[0] > 1 else ("naive", "mean")
        parts, at_once = defaultdict[str, list[Forecasts]](list), max(MOST_WINDOWS // n, 1)
        for some in (origins[first : first + at_once] for first in range(0, len(origins), at_once)):
            histories = list[np.ndarray]()
            for place, end in some:
                values = by_series[place][:end]
                histories += list(np.where(np.isfinite(values[-COUNTED:]).any(axis=0), values, 0.0).T)
            past, left = Histories.of(histories, seasons, rows), None
            if effects is not None:
                left = effects.remainders(panel, some, {}, horizon, seasons, rows)
            scale = seasonal_scale([np.where(past.observed, past.values, np.nan).T], seasons[0])
            steps = np.arange(horizon)
            paths = Forecasts(
                keys=keys_of(
                    [panel[s].name for s, _ in some], columns, np.array([times[s][end - 1] for s, end in some])
                ),
                times=np.stack([times[s][end + steps] for s, end in some]).repeat(n, axis=0),
                mean=past.repeated(horizon, 1),
                actual=np.concatenate([by_series[s][end + steps].T for s, end in some]),
                scale=scale,
                change=scale,
                zone=panel[0].timestamps.tz,
            )
            found = candidates(self.member, past, left, panel[0].frequency, horizon, kinds or [self.kind])
            for kind, each in found.items():
                bands = self._bands(None if of_constants else past, each, levels, kind)
                parts[kind].append(replace(paths, mean=each[0], bands=bands))
            parts[last].append(paths)
            parts[mean].append(replace(paths, mean=past.repeated(horizon, MEAN_OF)))
        return {name: joined(each) for name, each in parts.items()}

    def rolling(
        self,
        panel: Sequence[Series],
        columns: Sequence[str],
        seasons: tuple[int, int],
        *,
        horizon: int,
        levels: Sequence[int] = (),
        stride: int | None = None,
        first_rows: Sequence[int] | None = None,
    ) -> pd.DataFrame:
        """Forecasts from earlier rows of each series with the actual values, as the tables of `roll_panel`.

        Args:
            panel, columns, seasons, levels: see `forecast`.
            horizon: rows to forecast.
            stride: rows between origins; None: the horizon.
            first_rows: first row to forecast of each series; None: that of the first forecast that is scored.

        Raises:
            InputError: a series has too few rows.
        """
        firsts = [self._least(series, seasons, horizon) for series in panel] if first_rows is None else first_rows
        tables, origins = list[pd.DataFrame](), list[tuple[int, int]]()
        for place, (series, first) in enumerate(zip(panel, firsts, strict=True)):
            ends = range(max(first, 1), len(series) - horizon + 1, stride or horizon)
            if not ends:
                raise InputError(
                    f"{series.name}: expected at least {first + horizon} rows for one forecast of {horizon} rows, "
                    f"found {len(series)}"
                )
            origins += [(place, end) for end in ends]
        paths = self.backtest(panel, columns, seasons, origins, horizon=horizon, levels=levels)[self.kind]
        owners = np.repeat([place for place, _ in origins], len(columns))
        for place, series in enumerate(panel):
            own = paths.part(np.flatnonzero(owners == place))
            tables.append(tidy_table(own, series, self.member.network.version.horizon))
        return pd.concat(tables, ignore_index=True)

    def _bands(
        self, past: Histories | None, found: Candidate, levels: Sequence[int], kind: str
    ) -> dict[str, Float64[np.ndarray, "n h"]]:
        """Interval ends; a constant history has none."""
        points, quantiles = found
        ends = {f"{end}{level}": p for level in levels for end, p in zip(("lo", "hi"), tails(level), strict=True)}
        bands = {name: at_level(quantiles, p, self.member.network.version.levels) for name, p in ends.items()}
        if kind != NETWORK:
            bands = self._widened(points, bands)
        absent = False if past is None else past.are_constant()[:, None]
        return {name: np.where(absent, np.nan, each) for name, each in bands.items()}

    def _widened(
        self, points: Float64[np.ndarray, "n h"], bands: Mapping[str, Float64[np.ndarray, "n h"]]
    ) -> dict[str, Float64[np.ndarray, "n h"]]:
        """Interval ends `width` times as far from the forecast; those of amounts are at least zero."""
        assert self._effects is not None
        least = [0.0 if each.is_ratio else -np.inf for each in self._effects.by_column]
        floor = np.tile(least, len(points) // len(least))[:, None]
        return {name: np.maximum(points + self.width * (each - points), floor) for name, each in bands.items()}

    def _least(self, series: Series, seasons: tuple[int, int], horizon: int) -> int:
        """Rows before the first origin that is scored."""
        shortest = max(LEAST_HISTORY, seasons[0] + 1, horizon)
        return shortest if self.known is None else max(shortest, int(LEAST_SHARE * len(series)))

    def evaluate(
        self,
        panel: Sequence[Series],
        columns: Sequence[str],
        seasons: tuple[int, int],
        *,
        horizon: int,
        levels: Sequence[int] = (),
    ) -> Scores | None:
        """Scores of forecasts from at most MOST_ORIGINS earlier rows of each series; None if all are too short.

        Arguments as of `forecast`. Scaled errors are relative to the mean change over a season before the origin. Where
        columns are known ahead, these forecasts choose `kind`.
        """
        most = max(MOST_WINDOWS // (len(panel) * len(columns)), 1)
        chosen = panel[:: -(-len(panel) * len(columns) // MOST_WINDOWS)]
        seen, origins, overlap = list[np.ndarray](), list[tuple[int, int]](), 1
        for place, series in enumerate(chosen):
            least = self._least(series, seasons, horizon)
            stride = min(max((len(series) - horizon - least) // LEAST_ORIGINS, 1), horizon)
            ends = range(len(series) - horizon, least - 1, -stride)[: min(most, MOST_ORIGINS)]
            overlap = max(overlap, min(-(-horizon // stride), len(ends)))
            values = column_values(series, columns)
            for end in reversed(ends):
                # a column may begin later than others, or end before
                known = np.isfinite(values[max(end - COUNTED, 0) : end]).any(axis=0)
                if known.any():
                    seen.append(known)
                    origins.append((place, end))
        if not origins:
            return None
        kinds, checked, self.width = [NETWORK], levels, 1.0
        if self.known is not None:
            kinds, checked = [NETWORK, EFFECTS, BOTH], [*{*levels, CHECKED}]
        found = self.backtest(
            chosen, columns, seasons, origins, horizon=horizon, levels=checked, kinds=kinds, of_constants=True
        )
        is_seen = np.concatenate(seen)[:, None]
        found = {name: replace(each, actual=np.where(is_seen, each.actual, np.nan)) for name, each in found.items()}
        by_kind = {kind: _mean_error(found[kind]) for kind in kinds}
        enough = (1 + LEAST_GAIN) * min(by_kind.values())
        self.kind = next(kind for kind in kinds if by_kind[kind] <= enough)
        if self.known is not None:
            self.gain = _gain(self.member.version, self.kind, self.known, by_kind)
        scores = Scores(columns, [series.name for series in chosen], metric="mae", block=overlap)
        scores.notes = ["scaled errors are relative to the mean change over a season before each forecast"]
        own = found[self.kind]
        if self.kind != NETWORK:
            self.width = _width(own)
            own = replace(own, bands=self._widened(own.mean, own.bands))
        scores.add(
            self.name, replace(own, bands={name: own.bands[name] for name in own.bands if int(name[2:]) in levels})
        )
        for name in [name for name in found if name not in kinds]:
            scores.add(name, found[name])
        return scores


def _mean_error(paths: Forecasts) -> float:
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
