"""Forecasts of any series by the network that comes trained, without training, and scores from the series themselves.

The scores are those of forecasts from earlier rows of each series, a horizon apart, next to two forecasts that need no
training either: the seasonal naive, and the mean of the last four seasons (without a season, the last value, and the
mean of the last four). Where columns are known ahead, the same forecasts choose how they are used, see
`informer.inference.ahead`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import final

import numpy as np
import pandas as pd
from jaxtyping import Float64

from informer.base.errors import InputError, listed
from informer.inference.ahead import BOTH, EFFECTS, HISTORY, NETWORK, Candidate, Known, PanelEffects, candidates
from informer.inference.model import Forecast
from informer.inference.rolling import named, tidy_table
from informer.members.zero import Histories, pretrained
from informer.networks.models.zero import at_level
from informer.networks.ops.zero_inputs import COUNTED
from informer.read.series import Series, column_values
from informer.scoring.forecasts import Forecasts, keys_of
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
        self._penalties: list[float] = []
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
        kind, left = NETWORK, None
        if self.known is not None and self.kind != NETWORK:
            self._effects = PanelEffects(panel, columns, self.known, penalties=self._penalties)
            origins = [(place, len(series)) for place, series in enumerate(panel)]
            left = self._effects.remainders(panel, origins, dict(enumerate(ahead)), most, seasons, version.history)
            kind = self.kind
        found = candidates(self.member, past, left, panel[0].frequency, most, [kind])[kind]
        shape = len(panel), len(columns), most
        values = {name: rows.reshape(shape).swapaxes(1, 2) for name, rows in self._values(past, found, levels).items()}
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
        kinds: Sequence[str] = (),
    ) -> tuple[Histories, dict[str, Candidate]]:
        """Histories before some origins, and the forecasts of each kind from there, a row for each origin and column.

        Args:
            origins: series, and rows before it; a column without a value in the COUNTED rows before it is zero.
            kinds: the ways to use columns known ahead; none: `kind`. Their effects are fitted to the rows before the
                first origin of each series.
        """
        histories = list[np.ndarray]()
        before = [min((end for s, end in origins if s == place), default=len(each)) for place, each in enumerate(panel)]
        for place, end in origins:
            values = column_values(panel[place], columns)[:end]
            histories += list(np.where(np.isfinite(values[-COUNTED:]).any(axis=0), values, 0.0).T)
        rows, left = self.member.network.version.history, None
        past = Histories.of(histories, seasons, rows)
        if self.known is not None:
            effects = PanelEffects(panel, columns, self.known, rows=before)
            left = effects.remainders(panel, origins, {}, horizon, seasons, rows)
            self._penalties = [each.penalty for each in effects.by_column]
        return past, candidates(self.member, past, left, panel[0].frequency, horizon, kinds or [self.kind])

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
        ends = [
            range(max(first, 1), len(series) - horizon + 1, stride or horizon)
            for first, series in zip(firsts, panel, strict=True)
        ]
        for series, of, first in zip(panel, ends, firsts, strict=True):
            if not of:
                raise InputError(
                    f"{series.name}: expected at least {first + horizon} rows for one forecast of {horizon} rows, "
                    f"found {len(series)}"
                )
        origins = [(place, end) for place, of in enumerate(ends) for end in of]
        past, found = self.backtest(panel, columns, seasons, origins, horizon=horizon)
        values = self._values(past, found[self.kind], levels)
        tables, done = list[pd.DataFrame](), 0
        for series, of in zip(panel, ends, strict=True):
            rows = np.array(of)[:, None] + np.arange(horizon)
            part = slice(done * len(columns), (done := done + len(of)) * len(columns))
            shaped = {
                name: each[part].reshape(len(of), len(columns), horizon).swapaxes(1, 2) for name, each in values.items()
            }
            shaped["actual"] = column_values(series, columns)[rows]
            table = tidy_table(series, columns, rows, shaped, pred_len=self.member.network.version.horizon)
            tables.append(named(table, series))
        return pd.concat(tables, ignore_index=True)

    def _values(
        self, past: Histories, found: Candidate, levels: Sequence[int]
    ) -> dict[str, Float64[np.ndarray, "n h"]]:
        """Forecasts and interval ends; a constant history has none."""
        (points, quantiles), grid = found, self.member.network.version.levels
        ends = {f"{end}{level}": p for level in levels for end, p in zip(("lo", "hi"), tails(level), strict=True)}
        constant = past.are_constant()[:, None]
        return {"forecast": points} | {
            name: np.where(constant, np.nan, at_level(quantiles, p, grid)) for name, p in ends.items()
        }

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
        actual, owners, origins, overlap = list[np.ndarray](), list[int](), list[tuple[int, int]](), 1
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
                    actual += list(np.where(known, values[end : end + horizon], np.nan).T)
                    owners.append(place)
                    origins.append((place, end))
        if not origins:
            return None
        kinds = [NETWORK] if self.known is None else [NETWORK, EFFECTS, BOTH]
        past, found = self.backtest(chosen, columns, seasons, origins, horizon=horizon, kinds=kinds)
        version, actuals = self.member.network.version, np.stack(actual)
        scale = seasonal_scale([np.where(past.observed, past.values, np.nan).T], seasons[0])
        by_kind = {kind: _mean_error(point, actuals, scale) for kind, (point, _) in found.items()}
        enough = (1 + LEAST_GAIN) * min(by_kind.values())
        self.kind = next(kind for kind in kinds if by_kind[kind] <= enough)
        points, quantiles = found[self.kind]
        if self.known is not None:
            self.gain = _gain(self.member.version, self.kind, self.known, by_kind)
        last, mean = ("seasonal naive", "seasonal mean") if seasons[0] > 1 else ("naive", "mean")
        forecasts = {
            self.name: points,
            last: past.repeated(horizon, 1),
            mean: past.repeated(horizon, MEAN_OF),
        }

        scores = Scores(columns, [series.name for series in chosen], metric="mae", block=overlap)
        scores.notes = ["scaled errors are relative to the mean change over a season before each forecast"]
        ahead = np.array([end for _, end in origins])[:, None] + np.arange(horizon)
        names = [chosen[place].name for place in owners]
        paths = Forecasts(
            keys=keys_of(names, columns, ahead[:, 0]),
            times=ahead.repeat(len(columns), axis=0),
            mean=points,
            actual=actuals,
            scale=scale,
            change=scale,
        )
        bands, missing = dict[str, dict[str, np.ndarray]](), np.isnan(actuals)
        for level in levels:
            low, high = (at_level(quantiles, p, version.levels) for p in tails(level))
            cells = {"coverage": 100.0 * ((low <= actuals) & (actuals <= high)), "width": (high - low) / scale[:, None]}
            bands[str(level)] = {name: np.where(missing, np.nan, each) for name, each in cells.items()}
        for name, rows in forecasts.items():
            scores.add(name, replace(paths, mean=rows), bands if name == self.name else {})
        return scores


def _mean_error(
    points: Float64[np.ndarray, "n h"], actuals: Float64[np.ndarray, "n h"], scale: Float64[np.ndarray, " n"]
) -> float:
    """Mean absolute scaled error of observed values; 0 without any."""
    errors = np.abs(actuals - points) / scale[:, None]
    return float(np.nansum(errors) / max(np.isfinite(errors).sum(), 1))


def _gain(network: str, kind: str, known: Known, errors: Mapping[str, float]) -> str:
    """By how much columns lower the error of earlier forecasts."""
    names = listed(known.columns, 4)
    if kind == NETWORK:
        return f"{names} and the calendar lower the error of earlier forecasts by less than 3 %, so are not used"
    share = f"{100 * (1 - errors[kind] / errors[NETWORK]):.0f} %"
    return f"{names} and the calendar lower the error of earlier forecasts by {share} against {network} alone"
