"""Forecasts, actual values and histories in files of any program, in one of four layouts.

long: one row per series and time (and target): series, time, [column], y, [lo80, hi80, q10]; the first two may have any
name. wide: a time column, then one column per target, with a column of series names if there are several; interval
columns are called OT_lo80. rolling: [series], origin, step, time, column, forecast, [lo80, ...], actual. rows: one row
per series, its name and then its values in order, without times (as the files of the M competitions).
"""

import logging
import re
from collections.abc import Collection, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float64

from informer.base.errors import ColumnError, InputError, ShortError, TimeError, counted, listed
from informer.config.data import STEP, DatasetConfig, InputFormat
from informer.members.baselines import Histories
from informer.read.checks import check_cells, check_clock_changes
from informer.read.columns import has_words, number_columns
from informer.read.frequency import Frequency
from informer.read.grid import on_grid
from informer.read.rows import Report, Rows
from informer.read.series import Reading, table_of_file
from informer.read.table import Table, without
from informer.read.time_columns import find_time_column
from informer.read.zones import check_zones
from informer.scoring.forecasts import Forecasts

log = logging.getLogger(__name__)

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
_ROW = "row of the file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tidy:
    """A table with one row per value.

    Args:
        name: name of the file.
        frame: columns `series`, `column`, `time` (timestamps, or whole numbers in layout rows), `origin` and `actual`
            (NaT and NaN except in layout rolling), `value`, then bands by suffix (`lo80`).
        timed: whether times are timestamps.
        in_utc: whether they had a zone, and are now in UTC.
        notes: remarks on columns that are not used, or whose meaning is assumed.
    """

    name: str
    frame: pd.DataFrame
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
    return _rows(table, config) if time is None else _timed(table, config, time, known)


def _read(
    table: Table, config: DatasetConfig, time: str, names: Sequence[str], by: Sequence[str] = ()
) -> tuple[Rows, bool]:
    """Columns as numbers, NaN for empty cells, at times or numbers of rows; and whether they are times.

    Each time may occur once per value of the columns `by`.
    """
    cells = table.frame[time]
    if config.time_format is None and pd.api.types.is_integer_dtype(cells) and int(cells.abs().max()) < 10**7:
        config = replace(config, time_format=STEP, timezone=None)  # counts have no zone
    keys = [*by] if config.timezone else []
    groups = table.frame.groupby(keys, sort=False, observed=True).ngroup().to_numpy() if keys else None
    how = replace(config, time_col=time, columns=[*names], series_col=None, duplicates=None)
    reading, report = Reading(table, how, table.name, groups=groups), Report()
    rows, is_timed = reading.timed(), config.time_format != STEP
    for column, values in zip(names, rows.values.T, strict=True):  # one at a time: none can be left out
        own = replace(rows, columns=(column,), values=values[:, None])
        check_cells(own, reading.text.get(0, {}), DatasetConfig(fill="mask"), report)
    report.refuse()
    if not by and is_timed and (rounded := on_grid(rows.timestamps, None)) is not None:
        log.info("%s: %s", table.name, rounded[1])
        return replace(rows, timestamps=rounded[0]), True
    return rows, is_timed


def _labels(rows: Rows, *, is_timed: bool) -> np.ndarray:
    """Times of rows, in UTC if they have a zone, or their numbers."""
    times = rows.timestamps.tz_convert("UTC").tz_localize(None) if rows.timestamps.tz is not None else rows.timestamps
    return times.to_numpy() if is_timed else times.as_unit("s").asi8


def _series_column(table: Table, config: DatasetConfig, candidates: Sequence[str]) -> str | None:
    if config.series_col is not None:
        if config.series_col not in table.columns:
            raise table.missing("dataset.series_col", config.series_col)
        return config.series_col
    named = [name for name in _SERIES if name in candidates]
    worded = [name for name in candidates if name != "column" and has_words(table, name)]
    return next(iter([*named, *worded]), None)


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
    numeric = {*number_columns(table, others), *_VALUE, *POINTS}  # text in the latter is an error
    values = [name for name in others if name in numeric and name != series]
    one_value = is_long or (known is None and (time in _TIME or series in _SERIES[:2]))
    roles, notes = _roles(table.name, values, known, one_value=one_value, has_origin=origin is not None)
    if not roles:
        raise ColumnError(f"{table.name}: expected columns of numbers next to {time}, found {listed(others)}")
    used = list(dict.fromkeys(name for by_role in roles.values() for name in by_role.values()))
    if (unused := without(others, [*used, *filter(None, [series])])) and known is not None:
        advice = ""
        if any(re.search(r"(low|high|upp)(er)?(_bound)?$", name, re.I) for name in unused):
            target = next(iter(roles))
            advice = (
                f"; the names of the ends of an interval contain its level, such as {target}_lo95 and {target}_hi95"
            )
        notes.append(f"{table.name}: columns that are not scored: {listed(unused)}{advice}")
    names = [*used, *(["actual"] if is_long and "actual" in columns else [])]
    rows, is_timed = _read(table, config, time, names, groups)
    if not groups and (again := rows.timestamps.duplicated()).any():
        report = Report()
        check_clock_changes(rows, report)
        report.refuse()
        place, times = int(again.argmax()), _labels(rows, is_timed=is_timed)
        line = f"duplicate timestamp {pd.Index(times)[place]}; name the column that separates the series, "
        raise rows.problem("duplicate", place, f"{line}dataset.series_col=NAME")
    cells = dict(zip(names, rows.values.T, strict=True))
    issued = None if origin is None else _read(table, config, origin, names[:1])
    keyed = pd.DataFrame(
        {
            "time": _labels(rows, is_timed=is_timed),
            "series": table.frame[series].astype(str).to_numpy() if series else "",
            "actual": cells.get("actual", np.nan),
            "origin": np.datetime64("NaT", "ns") if issued is None else _labels(issued[0], is_timed=issued[1]),
        }
    )
    frames = [
        keyed.assign(
            column=table.frame["column"].astype(str).to_numpy() if is_long else target,
            **{role: cells[name] for role, name in by_role.items()},
        )
        for target, by_role in roles.items()
    ]
    frame = pd.concat(frames, ignore_index=True)
    in_utc = rows.timestamps.tz is not None
    return Tidy(name=table.name, frame=frame, timed=is_timed, in_utc=in_utc, notes=tuple(notes))


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
            raise ColumnError(
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


def _rows(table: Table, config: DatasetConfig) -> Tidy:
    """Values to the right of the name; empty cells at the end of a row are not values."""
    first, *value_columns = table.columns
    if not value_columns or has_words(table, value_columns[0]):
        raise ColumnError(
            f"{table.name}: expected a time column, or one row per series (its name, then its values), found columns "
            f"{listed(table.columns)}; name the time column, dataset.time_col=NAME"
        )
    numbered = replace(table, frame=table.frame.assign(**{_ROW: np.arange(len(table.frame))}))
    values, n = (
        pd.DataFrame(_read(numbered, replace(config, time_format=None), _ROW, value_columns)[0].values),
        len(value_columns),
    )
    is_value = values.bfill(axis=1).notna().to_numpy().ravel()
    keys = {"series": np.repeat(table.frame[first].astype(str).to_numpy(), n), "column": "y"}
    times = {"time": np.tile(np.arange(1, n + 1), len(values)), "origin": np.datetime64("NaT", "ns")}
    frame = pd.DataFrame({**keys, **times, "actual": np.nan, "value": values.to_numpy().ravel()})[is_value]
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


def matched(forecasts: Tidy, actuals: Tidy, history: Tidy) -> tuple[Forecasts, Histories, list[str]]:
    """Forecasts with their actual values up to the last step that has one, the history before each path, and remarks.

    A history has a value for each time step, oldest first, NaN where it is missing, except the first. Paths without an
    actual value or without a history are left out.

    Raises:
        InputError: no forecast has an actual value or a history, a time is repeated, or a forecast is not finite.
    """
    actuals, history = named_alike(forecasts, actuals), named_alike(forecasts, history)
    rows, notes = _joined(forecasts, actuals)
    paths = Forecasts.of_table(rows)
    paths = paths.part(np.flatnonzero(~np.isnan(paths.actual).all(axis=1)))
    of_paths = pd.MultiIndex.from_frame(paths.keys[["series", "column"]])
    past = {
        pair: values.set_index("time")["value"].sort_index()
        for pair, values in history.frame.groupby(["series", "column"], sort=False)
        if pair in of_paths
    }
    steps = {
        pair: step_of(pd.DatetimeIndex(values.index), history.name)
        for pair, values in past.items()
        if history.timed and len(values) > 1
    }
    histories = [
        _before(past[pair], steps.get(pair), first, history) if pair in past else np.empty(0)
        for pair, first in zip(of_paths, pd.Index(paths.times[:, 0]), strict=True)
    ]
    has_history = np.array([len(values) > 0 for values in histories])
    lacking = ["/".join(filter(None, pair)) for pair in of_paths[~has_history]]
    if not has_history.any():
        raise ShortError(
            f"{history.name}: expected rows before the first forecast of {lacking[0] or forecasts.name}, found none"
        )
    if lacking:
        notes.append(f"skipped {counted(len(lacking), 'forecast')} without a history, such as {lacking[0]}")
    paths = paths.part(np.flatnonzero(has_history))
    last = int(np.flatnonzero(~np.isnan(paths.actual).all(axis=0))[-1])
    known = [values for values in histories if len(values)]
    return paths.part(slice(None), last + 1), known, [*forecasts.notes, *notes]


def _joined(forecasts: Tidy, actuals: Tidy) -> tuple[pd.DataFrame, list[str]]:
    """Forecast rows with their actual values, NaN for rows without one, which are counted in a note."""
    if forecasts.timed != actuals.timed:
        raise TimeError(f"{actuals.name}: expected times as in {forecasts.name}; one of them has one row per series")
    frame = forecasts.frame.drop(columns="actual", errors="ignore").rename(columns={"value": "forecast"})
    keys = ["series", "column", "time"]
    for each, rows, by in ((forecasts, frame, [*keys, "origin"]), (actuals, actuals.frame, keys)):
        again = rows.duplicated(by)
        if again.any():
            first = rows[again].iloc[0]
            raise TimeError(f"{each.name}: duplicate row for {first['series'] or first['column']} at {first['time']}")
    truth = actuals.frame[[*keys, "value"]].rename(columns={"value": "actual"})
    merged = frame.merge(truth, on=keys, how="left")
    if not np.isfinite(merged["forecast"]).all():
        raise InputError(f"{forecasts.name}: expected a finite forecast in each row, found an empty cell or infinity")
    has_actual, known = merged["actual"].notna(), truth["column"].unique()
    if not has_actual.any():
        some, last = merged.iloc[0], truth["time"].max()
        if frame["time"].min() > last and (frame["series"].isin(truth["series"]) & frame["column"].isin(known)).any():
            raise TimeError(
                f"{actuals.name}: no actual value for any forecast of {forecasts.name} yet: the forecasts begin at "
                f"{frame['time'].min()}, the actual values end at {last}"
            )
        raise TimeError(
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
        raise TimeError(f"{name}: {error}; set season=24") from error
    if not (step.strides(times) > 0).all():
        raise TimeError(
            f"{name}: no regular step: {step.code} holds for the first {regular} rows only; score rows that are whole "
            "steps apart"
        )
    return step.without_holidays(times)


def _before(
    past: pd.Series, step: Frequency | None, first: pd.Timestamp | np.integer, history: Tidy
) -> Float64[np.ndarray, " _"]:
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
            raise TimeError(
                f"{history.name}: expected steps of {step.code} up to the forecast at {first}, found {times[-1]}"
            )
        missing = int(strides.sum()) - n
        if missing > max(MOST_MISSING, MOST_MISSING_SHARE * n):
            raise TimeError(
                f"{history.name}: expected a history up to the forecast at {first}, found {n:,} rows and {missing:,} "
                f"missing ones at steps of {step.code}, up to {times[-1]}; leave out what is far before, or add the "
                "rows in between"
            )
        places = np.concatenate([[0], np.cumsum(strides)])
        values = np.full(int(places[-1]), np.nan)
        values[places[:-1]] = past[:n]
    observed = np.flatnonzero(~np.isnan(values))
    return values[observed[0] :] if len(observed) else values[:0]
