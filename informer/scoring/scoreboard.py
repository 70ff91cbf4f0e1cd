"""Scores of forecasts in files compared with baselines: overall, by step and by series, and whether they differ.

The metrics are those of `informer.scoring.metrics`, and OWA: mean of sMAPE and MASE, each divided by that of Naive2 (M4
competition). Coverage is in percent. Baselines from the history only: seasonal naive, ridge, and Naive2.

Read forecasts, actual values and histories in one of four layouts into a tidy table.

long: one row per series and time (and target): series, time, [column], y, [lo80, hi80, q10]; the first two may have any
name. wide: a time column, then one column per target, with a column of series names if there are several; interval
columns are called OT_lo80. rolling: [series], origin, step, time, column, forecast, [lo80, ...], actual. rows: one row
per series, its name and then its values in order, without times (as the files of the M competitions).

Units of scoring: one per series, column and origin, with forecast, actual values and history.
"""

import json
import logging
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64, Int
from rich.console import Console
from rich.table import Table as RichTable
from torch import Tensor

from informer.base.console import logging_to, say
from informer.base.errors import InputError, counted, listed
from informer.base.files import write_atomic
from informer.base.quantiles import MEDIAN, bands_by_level, central_pairs
from informer.checkpoint.paths import check_output
from informer.config.commands import ScoreConfig
from informer.config.conversion import without_nan
from informer.config.data import DatasetConfig, Fill, InputFormat
from informer.config.model import WindowSizes
from informer.data.scaler import standard_deviation
from informer.data.seasonality import bridged
from informer.data.windows import DataUnits, Store, Windows
from informer.read.checks import Report, check_cells, check_doubts, check_times, read_cells
from informer.read.columns import has_words, number_columns
from informer.read.frequency import Frequency, on_grid
from informer.read.series import table_of_file
from informer.read.table import Table, without
from informer.read.time_columns import find_time_column
from informer.read.times import changing_zone, check_zones, find_format, parse_timestamps, zone_advice
from informer.scoring.baselines import fit_ridge, repeated
from informer.scoring.bootstrap import Interval, skill_interval, skill_of, verdict
from informer.scoring.metrics import MASE, OF_SUM, WQL, Means, Scores, mase_cells, pinball, point_cells, seasonal_scale
from informer.scoring.receipts import logged
from informer.scoring.scores import scores_table, tidy_csv

Cells = Float64[np.ndarray, "u h"]


log = logging.getLogger(__name__)


def quantile_forecasts(forecast: Cells, bands: Mapping[str, Cells]) -> dict[float, Cells]:
    """Forecasts by level, that of the median is the forecast; empty if there are neither intervals nor quantiles."""
    by_level = {level: bands[name] for level, name in bands_by_level(bands).items()}
    return dict(sorted(({MEDIAN: forecast} | by_level).items())) if by_level else {}


Histories = Sequence[Float64[np.ndarray, "_"]]


def seasonal_naive(histories: Histories, season: int, steps: int) -> Float64[np.ndarray, "u h"]:
    """Repeat the last season, filling missing values (NaN) from the season before, or the last observed value if there
    is none; of a history shorter than a season, the last value."""
    columns = (torch.tensor(history)[None, :, None] for history in histories)
    ahead = torch.arange(steps)
    each = [repeated(rows, [season if rows.shape[1] >= season else 1], ahead)[0, :, 0] for rows in columns]
    return torch.stack(each).numpy()


def seasonal_naive_quantiles(
    histories: Histories, season: int, forecast: Float64[np.ndarray, "u h"], levels: Sequence[float]
) -> dict[float, Float64[np.ndarray, "u h"]]:
    """Quantiles around `seasonal_naive` by level; NaN where a history has too few errors.

    Quantile q is the end of a conformal interval of level w = |2 q - 1|: its half width is the ceil((n + 1) w)-th
    smallest of the n absolute errors of the seasonal naive at the same step ahead over the unit's history, without
    missing values (NaN).

    Args:
        forecast: the result of `seasonal_naive`.
        levels: levels of the quantiles.
    """
    widths = sorted({round(abs(2 * level - 1), 8) for level in levels} - {0.0})
    halves = np.stack([_half_widths(history, season, forecast.shape[1], widths) for history in histories])
    quantiles = {}
    for level in levels:
        width = round(abs(2 * level - 1), 8)
        half = halves[:, widths.index(width)] if width else np.zeros_like(forecast)
        quantiles[level] = forecast + math.copysign(1.0, level - 0.5) * half
    return quantiles


def _half_widths(
    history: Float64[np.ndarray, "_"], season: int, steps: int, widths: Sequence[float]
) -> Float64[np.ndarray, "w h"]:
    """Half widths of intervals of the levels `widths`, between 0 and 1; NaN if there are too few errors."""
    # rows between a value and the one repeated there
    ahead = np.arange(1, steps + 1)
    lags = ahead if len(history) < season else season * -(-ahead // season)
    halves = np.full((len(widths), steps), np.nan)
    for lag in np.unique(lags):
        errors = np.abs(history[lag:] - history[:-lag])
        errors = np.sort(errors[~np.isnan(errors)])
        for i, width in enumerate(widths):
            rank = math.ceil(round((len(errors) + 1) * width, 6))
            if rank <= len(errors):
                halves[i, lags == lag] = errors[rank - 1]
    return halves


def naive2(histories: Histories, season: int, steps: int) -> Float64[np.ndarray, "u h"]:
    """The last value of the seasonally adjusted history, with seasonality added back.

    A history counts as seasonal if its autocorrelation at one season passes the 90 % test; the adjustment is a
    multiplicative classical decomposition (Makridakis, Spiliotis & Assimakopoulos 2020, "The M4 Competition", section
    2.3 and its public code). Missing values (NaN) are interpolated linearly.
    """
    forecasts = []
    for history in map(bridged, histories):
        factors = seasonal_factors(history, season) if is_seasonal(history, season) else np.ones(season)
        places = np.arange(len(history), len(history) + steps) % season
        forecasts.append(history[-1] / factors[(len(history) - 1) % season] * factors[places])
    return np.stack(forecasts)


def ridge(histories: Histories, season: int, steps: int) -> tuple[Float64[np.ndarray, "u h"], str] | None:
    """The package's ridge baseline, fitted on all histories together, and a note about it.

    The penalty is chosen on the last `steps` rows of the histories, twice as many if values are missing. Each history
    is scaled by its own mean and standard deviation; missing values (NaN) are ignored. Returns None if fewer than two
    windows fit into every history, or if some step is observed in no window.
    """
    shortest = min(map(len, histories))
    # one window of the last rows may not observe every step
    held_out_rows = 2 * steps if any(np.isnan(history).any() for history in histories) else steps
    seq_len = min(max(2 * season, 2 * steps), shortest - steps - held_out_rows)
    if seq_len < max(2, season):
        return None
    sizes = WindowSizes(seq_len=seq_len, label_len=0, pred_len=steps)
    center = np.array([np.nanmean(history) for history in histories])[:, None]
    spread = np.array([standard_deviation(history) for history in histories])[:, None]
    scale = np.where(spread > 0, spread, 1.0)
    scaled = [(history - c) / s for history, c, s in zip(histories, center, scale, strict=True)]
    firsts = np.cumsum([0, *map(len, scaled[:-1])])
    store = Store(
        values=torch.from_numpy(np.concatenate(scaled)[:, None]).float(),
        marks=torch.zeros(sum(map(len, scaled)), 0),
        first_rows=torch.from_numpy(firsts),
        mark_shift=torch.zeros(len(firsts), dtype=torch.long),
        units=DataUnits(torch.from_numpy(center), torch.from_numpy(scale)),
        numbers=torch.full((len(scaled),), -1),
    )
    ends = [(first, first + len(history)) for first, history in zip(firsts, scaled, strict=True)]
    train = [np.arange(first, end - held_out_rows - sizes.rows + 1) for first, end in ends]
    val = [np.arange(end - held_out_rows - seq_len, end - sizes.rows + 1) for _, end in ends]
    fitted_on, held_out = (
        Windows(store, starts=torch.from_numpy(np.concatenate(each)), sizes=sizes, targets=[0]) for each in (train, val)
    )
    try:
        fitted = fit_ridge(fitted_on, held_out, [0])
    except InputError:  # of steps that are never observed
        return None
    last = torch.from_numpy(np.stack([history[-seq_len:] for history in scaled])[:, :, None]).float()
    return fitted.mapped(last)[:, :, 0].double().numpy() * scale + center, fitted.note


def is_seasonal(history: Float64[np.ndarray, "_"], season: int) -> bool:
    """Whether the autocorrelation at one season exceeds its 90 % limits (Bartlett); False below three seasons."""
    n = len(history)
    if season < 2 or n < 3 * season:
        return False
    centred = history - history.mean()
    total = float(centred @ centred)
    if total == 0.0:
        return False
    correlation = np.array([centred[lag:] @ centred[: n - lag] for lag in range(1, season + 1)]) / total
    limit = 1.645 * np.sqrt((1 + 2 * (correlation[:-1] ** 2).sum()) / n)
    return bool(abs(correlation[-1]) > limit)


def seasonal_factors(history: Float64[np.ndarray, "_"], season: int) -> Float64[np.ndarray, "m"]:
    """Multiplicative seasonal indices with mean 1, by position in the season: mean ratios to a moving average."""
    half = season // 2
    weights = np.full(season, 1.0 / season) if season % 2 else np.r_[0.5, np.ones(season - 1), 0.5] / season
    trend = np.convolve(history, weights, mode="valid")
    ratios = history[half : half + len(trend)] / trend
    places = np.arange(half, half + len(trend)) % season
    factors = np.array([ratios[places == place].mean() for place in range(season)])
    return factors / factors.mean()


KEYS = ("series", "column", "time")
"""Columns of a tidy table before `value` and the bands."""

_NUMBER = r"(\d*\.?\d+)"
BANDS = (
    # lo80; Nixtla: NHITS-lo-80; R: Lo 80
    (rf"(?:(?P<target>.+?)[-_ .])?(?P<end>lo|hi)[-_ .]?(?P<level>{_NUMBER})", None),
    (rf"(?P<level>{_NUMBER})%_(?P<end>lower|upper)", None),  # fable
    (rf"(?:(?P<target>.+?)[-_ .])?(?:q|ql|p|quantile_)(?P<quantile>{_NUMBER})", None),  # q10, p10; darts: y_q0.1
    (r"(?P<quantile>0?\.\d+)", None),  # AutoGluon, GluonTS
    (rf"(?P<target>.+) (?P<quantile>{_NUMBER})%", None),  # NeuralProphet
    (r"(?P<target>.+)-(?P<quantile>median)", None),  # Nixtla
    (r"(?P<target>yhat)_(?P<end>lower|upper)", (80, "Prophet")),
    (r"(?P<target>mean)_ci_(?P<end>lower|upper)", (95, "statsmodels")),
)
"""Names of interval ends and quantiles; if the level is not part of the name, the default of the program."""
POINTS = ("yhat", "Point Forecast", "Point.Forecast", "predictions", "mean", ".mean", "forecast", "y", "value")
"""Names of point forecasts, the first of which is scored."""
_SERIES = ("unique_id", "item_id", "series", "id")
_VALUE = ("y", "forecast", "value", "target")
_TIME = ("ds", "timestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tidy:
    """A table with one row per value.

    Args:
        name: name of the file.
        frame: columns `series`, `column`, `time` (timestamps, or whole numbers in layout rows), `value`, then bands by
            suffix (`lo80`); in layout rolling also `origin` and `actual`.
        bands: suffixes of the bands, in order.
        timed: whether times are timestamps.
        in_utc: whether they had a zone, and are now in UTC.
        notes: remarks on columns that are not used, or whose meaning is assumed.
    """

    name: str
    frame: pd.DataFrame
    bands: tuple[str, ...] = ()
    timed: bool = True
    in_utc: bool = False
    notes: tuple[str, ...] = ()


def read_tidy(path: Path, input_format: InputFormat | None = None, *, known: Collection[str] | None = None) -> Tidy:
    """Read a file in one of the four layouts.

    Args:
        input_format: format of the file (delimiter, names of columns, ...). Default: detected.
        known: for a file of forecasts, the columns of the actual values or the history, as far as they are known.

    Raises:
        InputError: the layout is not recognised, or a cell is not a number.
    """
    config = (input_format or InputFormat()).applied_to(DatasetConfig())
    table = table_of_file(path, config)
    if not len(table.frame):
        raise table.without_rows()
    columns = table.columns
    if {"origin", "step", "column", "forecast"} <= set(columns) and columns[-1] != "step":
        time: str | None = columns[list(columns).index("step") + 1]
    else:
        time = next((name for name in (config.time_col, *_TIME) if name in columns), None)
        with suppress(InputError) if config.time_col is None else nullcontext():
            time = time or find_time_column(table, config.time_col)
    return _rows(table) if time is None else _timed(table, config, time, known)


def _times(table: Table, column: str, config: DatasetConfig, by: Sequence[str]) -> tuple[pd.Series, bool, bool]:
    """Times as timestamps or row numbers, whether they are timestamps, and whether these had a zone.

    Each time may occur once per value of the columns `by`.
    """
    cells = table.frame[column]
    if config.time_format is None and pd.api.types.is_integer_dtype(cells) and int(cells.abs().max()) < 10**7:
        return cells, False, False
    groups = table.frame.groupby(list(by), sort=False).ngroup().to_numpy() if by and config.timezone else None
    time_format = find_format(table, column, config.time_format)
    times = parse_timestamps(table, column, time_format, timezone=config.timezone, groups=groups)
    report = Report()
    check_times(table, column, times, time_format, report)
    report.refuse()
    if not by and (rounded := on_grid(times, None)) is not None:
        times, note = rounded
        log.info("%s: %s", table.name, note)
    in_utc = times.tz is not None
    return pd.Series(times.tz_convert("UTC").tz_localize(None) if in_utc else times, index=cells.index), True, in_utc


def _series_column(table: Table, config: DatasetConfig, candidates: Sequence[str]) -> str | None:
    if config.series_col is not None:
        if config.series_col not in table.columns:
            raise table.missing("dataset.series_col", config.series_col)
        return config.series_col
    named = [name for name in _SERIES if name in candidates]
    worded = [name for name in candidates if name != "column" and has_words(table, name)]
    return next(iter([*named, *worded]), None)


def _numbers(table: Table, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Columns as numbers, NaN for empty cells."""
    report, unknown = Report(), pd.DatetimeIndex(np.full(len(table.frame), "NaT", "datetime64[s]"))
    check_doubts(table, names, report)
    rows, text = read_cells(table, "", names, unknown)
    for column, values in zip(names, rows.values.T, strict=True):  # one at a time: none can be left out
        check_cells(
            replace(rows, columns=(column,), values=values[:, None]), text, DatasetConfig(fill=Fill.mask), report
        )
    report.refuse()
    report.warn()
    return dict(zip(names, rows.values.T, strict=True))


def _timed(table: Table, config: DatasetConfig, time: str, known: Collection[str] | None) -> Tidy:
    """A table in layout long, wide or rolling; `known` as in `read_tidy`."""
    columns = list(table.columns)
    is_long = "column" in columns and any(name in columns for name in POINTS)  # as this package writes it
    origin = next((name for name in ("origin", "cutoff") if name in columns), None)
    origin = origin if is_long or known is not None else None
    keys = [time, "rolled", *filter(None, [origin]), *(["column", "step", "actual"] if is_long else [])]
    others = without(columns, keys)
    # of a long table: [series], origin, step, time; or series, time, column
    leading = columns[: columns.index(origin or time)]
    is_written = is_long and config.series_col is None and len(leading) == 1
    series = leading[0] if is_written else _series_column(table, config, others)
    groups = list(filter(None, [series, "column" if is_long else None, origin]))
    times, timed, in_utc = _times(table, time, config, groups)
    if not groups and times.duplicated().any():
        again = times[times.duplicated()].iloc[0]
        zone = changing_zone(pd.DatetimeIndex(times)) if timed else None
        raise InputError(
            f"{table.name}, column {time}: duplicate timestamp {again}; name the column that separates the series, "
            "dataset.series_col=NAME"
            if zone is None
            else f"{table.name}, column {time}: local time {again} occurs twice, as when clocks are set back; "
            f"{zone_advice(zone)}"
        )
    numeric = {*number_columns(table, others), *_VALUE, *POINTS}  # text in the latter is an error
    values = [name for name in others if name in numeric and name != series]
    one_value = is_long or (known is None and (time in _TIME or series in _SERIES[:2]))
    roles, notes = _roles(table.name, values, known, one_value=one_value, has_origin=origin is not None)
    if not roles:
        raise InputError(f"{table.name}: expected columns of numbers next to {time}, found {listed(others)}")
    used = list(dict.fromkeys(name for by_role in roles.values() for name in by_role.values()))
    if (unused := without(others, [*used, *filter(None, [series])])) and known is not None:
        advice = ""
        if any(re.search(r"(low|high|upp)(er)?(_bound)?$", name, re.I) for name in unused):
            target = next(iter(roles))
            advice = (
                f"; the names of the ends of an interval contain its level, such as {target}_lo95 and {target}_hi95"
            )
        notes.append(f"{table.name}: columns that are not scored: {listed(unused)}{advice}")
    cells = _numbers(table, [*used, *(["actual"] if is_long and "actual" in columns else [])])
    keyed = pd.DataFrame({"time": times, "series": table.frame[series].astype(str) if series else ""})
    if "actual" in cells:
        keyed["actual"] = cells["actual"]
    if origin is not None:
        keyed["origin"] = _times(table, origin, config, [])[0]
    frames = [
        keyed.assign(
            column=table.frame["column"].astype(str) if is_long else target,
            **{role: cells[name] for role, name in by_role.items()},
        )
        for target, by_role in roles.items()
    ]
    bands = dict.fromkeys(role for by_role in roles.values() for role in by_role if role != "value")
    return Tidy(
        name=table.name,
        frame=pd.concat(frames, ignore_index=True),
        bands=tuple(bands),
        timed=timed,
        in_utc=in_utc,
        notes=tuple(notes),
    )


def _roles(
    file: str, values: Sequence[str], known: Collection[str] | None, *, one_value: bool, has_origin: bool
) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Columns of each target by what they contain: `value`, or the suffix of a band; and notes for the reader.

    Args:
        values: the columns of numbers.
        known: as in `read_tidy`.
        one_value: whether one column has all values.
        has_origin: whether the rows are those of several origins.
    """
    names = POINTS if known is not None else _VALUE
    named = next((name for name in names if name in values), None)
    bands, notes = _bands(values, known, named) if known is not None else ({}, [])
    points = without(values, bands)
    if known is not None and "y" in points and not one_value:
        forecasts = [name for name in points if name in {target for target, _ in bands.values()} - {"y"}]
        others = without(points, [*known, "y"])
        if has_origin or forecasts or named != "y":
            points.remove("y")
            named = named if named != "y" else None
        elif others and "y" in known:
            raise InputError(
                f"{file}: expected one forecast of y, found y and {listed(others)}; if y has actual values, remove it, "
                "otherwise remove the others"
            )
    targets = [name for name in points if known and name in known]
    if one_value or not targets:
        targets = [named] if named is not None and (one_value or known is not None) else points
    medians = {target or next(iter(known or ["y"])): name for name, (target, band) in bands.items() if band == "q50"}
    found = {target: target for target in targets} or medians
    prefixes = {target for target, _ in bands.values()} - {None}
    any_prefix = one_value or (len(found) == 1 and len(prefixes) < 2)
    return {
        target: {"value": name}
        | {
            band: column
            for column, (prefix, band) in bands.items()
            if prefix == target or (len(found) == 1 and (prefix is None or any_prefix))
        }
        for target, name in found.items()
    }, notes


def _bands(
    names: Sequence[str], known: Collection[str], named: str | None
) -> tuple[dict[str, tuple[str | None, str]], list[str]]:
    """Target, if its name has one, and suffix (`lo80`, `q10`) of each band; and notes on levels that are assumed.

    A name of a target is never a band: one in `known`, or that bands of other columns begin with.
    """
    found = {}
    for (pattern, default), name in product(BANDS, without(names, known)):
        if name not in found and (match := re.fullmatch(pattern, name, re.IGNORECASE)):
            found[name] = match.groupdict(), default
    targets = {parts.get("target") for parts, _ in found.values()}
    # without a named target, lo80 may be a column of its own
    found = {
        name: each for name, each in found.items() if name not in targets and (each[0].get("target") or known or named)
    }
    levels = [parts["quantile"] for parts, _ in found.values() if parts.get("quantile", "median") != "median"]
    unit = 100 if all(float(level) < 1 for level in levels) else 1
    bands, notes = {}, []
    for name, (parts, default) in found.items():
        if (quantile := parts.get("quantile")) is not None:
            level = 50.0 if quantile == "median" else unit * float(quantile)
            end = "q"
        else:
            end = {"lower": "lo", "upper": "hi"}.get(parts["end"].lower(), parts["end"].lower())
            level = float(parts.get("level") or 0)
        if default is not None:
            level, program = default
            notes.append(
                f"{parts['target']}: the level of its interval is not in the file; taken for {level} %, the default of "
                f"{program}"
            )
        bands[name] = parts.get("target"), f"{end}{level:.10g}"
    return bands, list(dict.fromkeys(notes))


def _rows(table: Table) -> Tidy:
    """Values to the right of the name; empty cells at the end of a row are not values."""
    first, *value_columns = table.columns
    if not value_columns or has_words(table, value_columns[0]):
        raise InputError(
            f"{table.name}: expected a time column, or one row per series (its name, then its values), found columns "
            f"{listed(table.columns)}; name the time column, dataset.time_col=NAME"
        )
    values = np.stack(list(_numbers(table, value_columns).values()), axis=1)
    observed = ~np.isnan(values)
    lengths = np.where(observed.any(axis=1), observed.shape[1] - observed[:, ::-1].argmax(axis=1), 0)
    frame = pd.DataFrame(
        {
            "series": np.repeat(table.frame[first].astype(str).to_numpy(), lengths),
            "column": "y",
            "time": np.concatenate([np.arange(1, n + 1) for n in lengths]),
            "value": np.concatenate([row[:n] for row, n in zip(values, lengths, strict=True)]),
        }
    )
    return Tidy(name=table.name, frame=frame, timed=False)


def named_alike(forecasts: Tidy, table: Tidy) -> Tidy:
    """`table` with the series (or column) name of `forecasts`, if both have only one.

    Raises:
        InputError: the times of only one of them have a zone.
    """
    if forecasts.timed and table.timed:
        zone, expected = ("UTC" if each.in_utc else None for each in (table, forecasts))
        check_zones(table.name, zone, expected, forecasts.name)
    frame = table.frame
    for key in ("series", "column"):
        names, other_names = forecasts.frame[key].unique(), frame[key].unique()
        if len(names) == len(other_names) == 1 and names[0] != other_names[0]:
            frame = frame.assign(**{key: names[0]})
    return replace(table, frame=frame)


MOST_MISSING, MOST_MISSING_SHARE = 1 << 20, 8
"""Missing rows of a history: as many, or as many times its rows, if that is more. Each takes memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredUnits:
    """Forecasts, actual values and histories, one unit each.

    Args:
        names: series and column of each unit.
        forecast, actual: one row per unit, one column per step; NaN if a unit has no such step.
        bands: interval ends and quantiles by suffix (`lo80`).
        histories: values before the first step, oldest first, one for each time step; NaN if unknown, except the first.
        notes: remarks for the reader.
    """

    names: Sequence[tuple[str, str]]
    forecast: Float64[np.ndarray, "u h"]
    actual: Float64[np.ndarray, "u h"]
    bands: Mapping[str, Float64[np.ndarray, "u h"]]
    histories: Sequence[Float64[np.ndarray, "_"]]
    notes: Sequence[str] = field(default_factory=tuple)


def gather_units(forecasts: Tidy, actuals: Tidy, history: Tidy) -> ScoredUnits:
    """Match forecasts with actual values and histories.

    Raises:
        InputError: no forecast has an actual value or a history, a time is repeated, or a forecast is not finite.
    """
    actuals, history = named_alike(forecasts, actuals), named_alike(forecasts, history)
    rows, notes = _joined(forecasts, actuals)
    notes = [*forecasts.notes, *notes]
    forecast_keys = set(zip(rows["series"], rows["column"], strict=True))
    rows_of = dict(list(history.frame.groupby(["series", "column"], sort=False)))
    past = {key: rows_of[key].set_index("time")["value"].sort_index() for key in rows_of if key in forecast_keys}
    has_step = {key: history.timed and len(each) > 1 for key, each in past.items()}
    steps_of = {
        key: step_of(pd.DatetimeIndex(each.index), history.name) if has_step[key] else None
        for key, each in past.items()
    }
    names, histories, groups = [], [], []
    without: list[str] = []
    for key, group in rows.groupby(["series", "column", "origin"], sort=False, dropna=False):
        pair = str(key[0]), str(key[1])
        if not group["actual"].notna().any():
            continue
        ordered = group.sort_values("time")
        earlier = _before(past[pair], steps_of[pair], ordered["time"].iloc[0], history) if pair in past else np.empty(0)
        if not len(earlier):
            without.append("/".join(filter(None, pair)))
            continue
        names.append(pair)
        histories.append(earlier)
        groups.append(ordered)
    if not groups:
        raise InputError(
            f"{history.name}: expected rows before the first forecast of {without[0] or forecasts.name}, found none"
        )
    if without:
        notes.append(f"skipped {counted(len(without), 'forecast')} without a history, such as {without[0]}")
    steps = max(int(np.flatnonzero(group["actual"].notna())[-1]) + 1 for group in groups)
    columns = ["value", "actual", *forecasts.bands]
    stacked = {name: np.full((len(groups), steps), np.nan) for name in columns}
    for i, group in enumerate(groups):
        for name in columns:
            stacked[name][i, : len(group)] = group[name][:steps]
    return ScoredUnits(
        names=names,
        forecast=stacked["value"],
        actual=stacked["actual"],
        bands={name: stacked[name] for name in forecasts.bands},
        histories=histories,
        notes=notes,
    )


def _joined(forecasts: Tidy, actuals: Tidy) -> tuple[pd.DataFrame, list[str]]:
    """Forecast rows with their actual values, NaN for rows without one, which are counted in a note."""
    if forecasts.timed != actuals.timed:
        raise InputError(f"{actuals.name}: expected times as in {forecasts.name}; one of them has one row per series")
    frame = forecasts.frame.drop(columns="actual", errors="ignore")
    if "origin" not in frame:
        frame = frame.assign(origin=np.datetime64("NaT", "ns"))
    keys = ["series", "column", "time"]
    for each, rows, by in ((forecasts, frame, [*keys, "origin"]), (actuals, actuals.frame, keys)):
        again = rows.duplicated(by)
        if again.any():
            first = rows[again].iloc[0]
            raise InputError(f"{each.name}: duplicate row for {first['series'] or first['column']} at {first['time']}")
    truth = actuals.frame[[*keys, "value"]].rename(columns={"value": "actual"})
    merged = frame.merge(truth, on=keys, how="left")
    if not np.isfinite(merged["value"]).all():
        raise InputError(f"{forecasts.name}: expected a finite forecast in each row, found an empty cell or infinity")
    has_actual, known = merged["actual"].notna(), truth["column"].unique()
    if not has_actual.any():
        some, last = merged.iloc[0], truth["time"].max()
        if frame["time"].min() > last and (frame["series"].isin(truth["series"]) & frame["column"].isin(known)).any():
            raise InputError(
                f"{actuals.name}: no actual value for any forecast of {forecasts.name} yet: the forecasts begin at "
                f"{frame['time'].min()}, the actual values end at {last}"
            )
        raise InputError(
            f"{actuals.name}: no actual value for any forecast of {forecasts.name} (the first is {some['series']} "
            f"{some['column']} at {some['time']}); expected the same names of series and columns "
            f"({listed(list(known))}), and the same times"
        )
    n_missing = int((~has_actual).sum())
    notes = [f"{n_missing:,} of {len(merged):,} forecast values have no actual value"] if n_missing else []
    return merged, notes


def step_of(times: pd.DatetimeIndex, name: str) -> Frequency:
    """The step of the times of one series, some of which may be missing.

    Raises:
        InputError: the times are not whole multiples of one step apart.
    """
    try:
        step, regular = Frequency.closest(times)
    except ValueError as error:
        raise InputError(f"{name}: {error}; set season=24") from error
    if not (step.strides(times) > 0).all():
        raise InputError(
            f"{name}: no regular step: {step.code} holds for the first {regular} rows only; score rows that are whole "
            "steps apart"
        )
    return step


def _before(
    past: pd.Series, step: Frequency | None, first: pd.Timestamp | np.integer, history: Tidy
) -> Float64[np.ndarray, "_"]:
    """Values before the first forecast, one for each step of the time from the first known one; of files without times,
    all of them.

    Args:
        past: values of one series by time, in order.
        step: of their times; None for a single one, and for files without times.
    """
    n = int(past.index.searchsorted(first)) if history.timed else len(past)
    values, times = past.to_numpy(dtype=float)[:n], past.index[:n]
    if n and step is not None:
        # rows may be missing right before the forecast, too
        strides = step.strides(pd.DatetimeIndex(times.append(pd.DatetimeIndex([first]))))
        if not strides[-1]:
            raise InputError(
                f"{history.name}: expected steps of {step.code} up to the forecast at {first}, found {times[-1]}"
            )
        missing = int(strides.sum()) - n
        if missing > max(MOST_MISSING, MOST_MISSING_SHARE * n):
            raise InputError(
                f"{history.name}: expected a history up to the forecast at {first}, found {n:,} rows and {missing:,} "
                f"missing ones at steps of {step.code}, up to {times[-1]}; leave out what is far before, or add the "
                "rows in between"
            )
        places = np.concatenate([[0], np.cumsum(strides)])
        values = np.full(int(places[-1]), np.nan)
        values[places[:-1]] = past[:n]
    observed = np.flatnonzero(~np.isnan(values))
    return values[observed[0] :] if len(observed) else values[:0]


OWN, NAIVE, NAIVE2 = "forecast", "seasonal naive", "naive2"
ROW = ("forecaster", "series", "column", "step", "metric", "value")
DIFFERENCES = ("mse", "mase")
WRITTEN = ("scores.json", "scores.csv")


def sentence(difference: Mapping[str, Any]) -> str:
    """One of `Scoreboard.differences` in words."""
    forecaster, baseline, metric, skill, *ends = difference.values()
    return f"{forecaster}: {verdict(metric.upper(), baseline, skill, Interval(*ends))}"


@dataclass(slots=True, kw_only=True)
class Scoreboard:
    """Scores by forecaster, then by metric.

    Args:
        overall: one value per metric.
        by_step: one value per step ahead.
        by_series: one value per series and column, in the order of `names`.
        names: pairs of series and column.
        differences: skill compared with each baseline, 1 - error / error of the baseline: `forecaster`, `baseline`,
            `metric`, `skill`, and `low` and `high`, its 95 % interval by paired bootstrap.
        notes: remarks for the reader.
    """

    overall: dict[str, dict[str, float]]
    by_step: dict[str, Scores]
    by_series: dict[str, Scores]
    names: Sequence[tuple[str, str]]
    differences: list[dict[str, Any]]
    notes: list[str] = field(default_factory=list)

    def rows(self) -> Iterator[tuple[str, str, str, str | int, str, float]]:
        """Tidy rows (see `ROW`)."""
        for name, by_metric in self.overall.items():
            for metric, value in by_metric.items():
                yield name, "all", "all", "all", metric, value
                for step, each in enumerate(self.by_step[name][metric], start=1):
                    yield name, "all", "all", step, metric, each
                for (series, column), each in zip(self.names, self.by_series[name][metric], strict=True):
                    yield name, series, column, "all", metric, each

    def to_dict(self) -> dict[str, Any]:
        """Overall scores, scores by step, and differences, as plain containers for JSON."""
        names = ("overall", "by_step", "differences", "notes")
        return cast(dict[str, Any], without_nan({name: getattr(self, name) for name in names}))

    def save(self, folder: Path) -> None:
        """Write scores.json and scores.csv."""
        as_json = json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"
        for name, content in zip(WRITTEN, (as_json, tidy_csv(ROW, self.rows())), strict=True):
            write_atomic(folder / name, content)

    def table(self) -> RichTable:
        """Overall scores, the forecast first, without coverage; RMSE and MAPE, for which there is no room, are in the
        files."""
        rows = [
            ((name,), {metric: each for metric, each in scores.items() if not re.match("rmse|mape|coverage", metric)})
            for name, scores in self.overall.items()
        ]
        return scores_table(["forecaster"], rows, OWN)

    def coverage(self) -> Iterator[str]:
        """One line on the intervals of each forecaster that has some."""
        for name, scores in self.overall.items():
            covered = [f"{m.removeprefix('coverage')} % cover {scores[m]:.1f} %" for m in scores if "coverage" in m]
            if covered:
                yield f"intervals of {name}: {', '.join(covered)} of the actual values"


def score_units(by_model: Mapping[str, ScoredUnits], season: int) -> Scoreboard:
    """Score forecasts of the same values by one or several models, and baselines on the same cells.

    Args:
        by_model: forecasts with actual values and histories, by the name of the forecaster.
        season: rows per season of the histories.

    Raises:
        InputError: a model has forecasts of other values than the first.
    """
    own, units = next(iter(by_model.items()))
    # baselines are scored in the cells in which the forecast has an actual value
    actual = np.where(np.isnan(units.forecast), np.nan, units.actual)
    for name, each in by_model.items():
        values = np.where(np.isnan(each.forecast), np.nan, each.actual)
        if units.names != each.names or not np.array_equal(actual, values, equal_nan=True):
            raise InputError(f"forecasts: expected those of {name} at the times of {own}; score a file of each alone")
    notes = list(dict.fromkeys(note for each in by_model.values() for note in each.notes))
    forecasts = {name: each.forecast for name, each in by_model.items()}
    forecasts[NAIVE] = seasonal_naive(units.histories, season, actual.shape[1])
    if (fitted := ridge(units.histories, season, actual.shape[1])) is not None:
        forecasts["ridge"] = fitted[0]
    notes.append(fitted[1] if fitted else "no ridge baseline: a history is too short for it, or too little is observed")
    forecasts[NAIVE2] = naive2(units.histories, season, actual.shape[1])
    scales = np.array([seasonal_scale([history[:, None]], season)[0] for history in units.histories])
    if np.isnan(scales).any():
        notes.append(f"MASE is undefined for {counted(int(np.isnan(scales).sum()), 'forecast')}: a constant history")
    quantiles = {name: quantile_forecasts(each.forecast, each.bands) for name, each in by_model.items()}
    if (bands := next(filter(None, quantiles.values()), None)) is not None:
        quantiles[NAIVE] = _naive_quantiles(bands, units.histories, season, forecasts[NAIVE], actual, notes)
    names = list(dict.fromkeys(units.names))
    place = {name: i for i, name in enumerate(names)}
    owners = torch.tensor([place[name] for name in units.names])
    means, errors = dict[str, Means](), dict[str, dict[str, np.ndarray]]()
    for name, values in forecasts.items():
        point = point_cells(_cells(values), _cells(actual))
        point |= mase_cells(_cells(values), _cells(actual), torch.from_numpy(scales)[:, None])
        errors[name] = {metric: point[metric][:, :, 0].numpy() for metric in DIFFERENCES}
        means[name] = Means(len(names))
        levels = quantiles.get(name, {})
        inside = _inside_cells(levels, actual) if name in by_model else {}
        # twice the pinball loss of each level, whose mean over the sizes of the actual values is the weighted one
        losses = {f"{WQL} {x}": 2 * pinball(_cells(values), _cells(actual), x) for x, values in levels.items()}
        of_sum = [*OF_SUM, *losses]
        means[name].add(point | inside | losses, actual=_cells(actual), of_sum=of_sum, groups=owners)
    return Scoreboard(
        overall=_views({name: each.overall() for name, each in means.items()}),
        by_step=_views({name: each.by_step() for name, each in means.items()}),
        by_series=_views({name: each.by_groups() for name, each in means.items()}),
        names=names,
        differences=[each for name in by_model for each in _differences(errors, name, owners.numpy())],
        notes=notes,
    )


def _naive_quantiles(
    bands: Mapping[float, Cells], histories: Histories, season: int, naive: Cells, actual: Cells, notes: list[str]
) -> dict[float, Cells]:
    """Quantiles of the seasonal naive at the levels of `bands`, in the same cells; none where a history is too short,
    which is added to the notes."""
    found, is_short = seasonal_naive_quantiles(histories, season, naive, list(bands)), np.zeros(len(naive), bool)
    for level, values in found.items():
        is_scored = ~np.isnan(bands[level] + actual)
        is_short |= (is_scored & np.isnan(values)).any(axis=1)
        found[level] = np.where(is_scored, values, np.nan)
    if not is_short.any():
        return found
    notes.append(
        f"no WQL of the seasonal naive: the history of {counted(int(is_short.sum()), 'forecast')} is too short for "
        "quantiles of these levels"
    )
    return {}


def _cells(values: Cells) -> Float64[Tensor, "u h 1"]:
    return torch.from_numpy(values)[:, :, None]


def _inside_cells(quantiles: Mapping[float, Cells], actual: Cells) -> dict[str, Tensor]:
    """100 if the actual value is inside the interval of a level, 0 if not, NaN if one of them is missing."""
    cells = {}
    for low, high in central_pairs(list(quantiles)):
        inside = 100.0 * ((quantiles[low] <= actual) & (actual <= quantiles[high]))
        unknown = np.isnan(quantiles[low] + quantiles[high] + actual)
        cells[f"coverage{round(100 * (high - low), 6):g}"] = _cells(np.where(unknown, np.nan, inside))
    return cells


def _views(scores: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """With OWA, and the mean of the weighted quantile losses of the levels."""
    reference, views = scores[NAIVE2], {}
    for name, by_metric in scores.items():
        arrays = {metric: np.array(values) for metric, values in by_metric.items()}
        view = {metric: values for metric, values in arrays.items() if " " not in metric}
        pairs = [(arrays[metric], np.array(reference[metric])) for metric in ("smape", "mase")]
        ratios = [np.divide(own, of, out=np.full(own.shape, np.nan), where=of > 0) for own, of in pairs]
        view["owa"] = np.mean(ratios, axis=0)
        if levels := [values for metric, values in arrays.items() if metric.startswith(f"{WQL} ")]:
            view[WQL] = np.mean(levels, axis=0)
        views[name] = {metric: values.tolist() for metric, values in view.items()}
    return views


def _differences(
    errors: Mapping[str, Mapping[str, Cells]], forecaster: str, owners: Int[np.ndarray, "u"]
) -> list[dict[str, Any]]:
    """Skill compared with each baseline; resamples units, of MASE the series if there are several, or blocks of steps
    if there is only one unit."""
    differences: list[dict[str, Any]] = []
    for name, metric in product([each for each in (NAIVE, "ridge") if each in errors], DIFFERENCES):
        own, baseline = errors[forecaster][metric], errors[name][metric]
        several, block = len(own) > 1, 1 if len(own) > 1 else math.isqrt(own.shape[1])
        own, baseline = (pd.DataFrame(each).mean(axis=1).to_numpy() if several else each[0] for each in (own, baseline))
        if metric == MASE and owners.max() > 0:
            own, baseline = (pd.Series(each).groupby(owners).mean().to_numpy() for each in (own, baseline))
        valid = ~np.isnan(own + baseline)
        own, baseline = own[valid], baseline[valid]
        if len(own):
            skill = skill_of(float(own.mean()), float(baseline.mean()))
            interval = skill_interval(own, baseline, block=block)
            words = {"forecaster": forecaster, "baseline": name, "metric": metric}
            differences.append(words | {"skill": skill} | interval._asdict())
    return differences


def by_model(forecasts: Tidy, actuals: Tidy) -> dict[str, Tidy]:
    """Forecasts of several models of one column by model, or the forecasts of one."""
    names, known = forecasts.frame["column"].unique(), actuals.frame["column"].unique()
    if len(names) == 1 or len(known) > 1 or known[0] in names:
        return {OWN: forecasts}
    models = {name: forecasts.frame[forecasts.frame["column"] == name].assign(column=known[0]) for name in names}
    return {
        name: replace(
            forecasts, frame=frame, bands=tuple(band for band in forecasts.bands if frame[band].notna().any())
        )
        for name, frame in models.items()
    }


def score(settings: ScoreConfig, console: Console) -> Scoreboard:
    """Print the scores, and write them to `settings.output` if given.

    Raises:
        InputError: a file cannot be read, or the files do not match.
    """
    names = settings.log or settings.forecasts, settings.actuals, settings.history or settings.actuals
    paths = [Path(name or "") for name in names]
    if settings.output:
        written = [Path(settings.output, name) for name in WRITTEN]
        check_output(Path(settings.output), written, inputs=paths, overwrite=settings.overwrite)
    with logging_to(console, quiet=True):
        actuals, history = (read_tidy(path, settings.dataset) for path in paths[1:])
        known = set(actuals.frame["column"])
        forecasts = read_log(paths[0]) if settings.log else read_tidy(paths[0], settings.dataset, known=known)
        models = by_model(forecasts, actuals)
        season = settings.season or _season(history)
        scoreboard = score_units({name: gather_units(each, actuals, history) for name, each in models.items()}, season)
    console.print(scoreboard.table())
    for line in [*scoreboard.coverage(), *scoreboard.notes, *map(sentence, scoreboard.differences)]:
        say(console, line)
    if settings.output:
        scoreboard.save(Path(settings.output))
        say(console, f"scores: {settings.output}")
    return scoreboard


def read_log(path: Path) -> Tidy:
    """The forecasts of a log, see `informer.scoring.receipts`."""
    frame, notes = logged(path)
    in_utc = pd.Timestamp(frame["time"].iloc[0]).tz is not None
    times = {name: pd.to_datetime(frame[name], format="ISO8601", utc=True) for name in ("time", "origin")}
    frame = frame.assign(**{name: each.dt.tz_localize(None) for name, each in times.items()})
    bands = [str(name) for name in frame if name not in ("series", "column", "time", "origin", "value")]
    return Tidy(name=str(path), frame=frame, bands=tuple(bands), in_utc=in_utc, notes=tuple(notes))


def _season(history: Tidy) -> int:
    """Rows per season for the time step of the first series."""
    if not history.timed:
        raise InputError(f"season: expected a number, since {history.name} has no times; set season=24")
    first = history.frame.iloc[0]
    rows = history.frame[(history.frame["series"] == first["series"]) & (history.frame["column"] == first["column"])]
    times = pd.DatetimeIndex(rows["time"].sort_values())
    return step_of(times, history.name).season
