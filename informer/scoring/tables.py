"""Read forecasts, actual values and histories in one of four layouts into a tidy table.

long: one row per series and time (and target): series, time, [column], y, [lo80, hi80, q10]; the first two may have any
name. wide: a time column, then one column per target, with a column of series names if there are several; interval
columns are called OT_lo80. rolling: [series], origin, step, time, column, forecast, [lo80, ...], actual. rows: one row
per series, its name and then its values in order, without times (as the files of the M competitions).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from informer.config.dataset import DatasetConfig
from informer.config.input_format import InputFormat
from informer.data.read.numeric import has_words, number_columns, numbers
from informer.data.read.source import table_of_file
from informer.data.read.table import Table, without
from informer.data.read.time_column import find_time_column
from informer.data.read.timestamps import find_format, parse_timestamps
from informer.data.read.zone import changing_zone, zone_advice
from informer.errors import InputError, listed

KEYS = ("series", "column", "time")
"""Columns of a tidy table before `value` and the bands."""
BAND = re.compile(r"(?:(?P<target>.+)_)?(?P<end>lo|hi|q)(?P<level>\d+(?:\.\d+)?)")
_SERIES = ("unique_id", "series", "id")
_VALUE = ("y", "forecast", "value")
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
    """

    name: str
    frame: pd.DataFrame
    bands: tuple[str, ...] = ()
    timed: bool = True
    in_utc: bool = False


def read_tidy(path: Path, input_format: InputFormat | None = None) -> Tidy:
    """Read a file in one of the four layouts.

    Args:
        input_format: format of the file (delimiter, names of columns, ...). Default: detected.

    Raises:
        InputError: the layout is not recognised, or a cell is not a number.
    """
    config = (input_format or InputFormat()).applied_to(DatasetConfig())
    table = table_of_file(path, config)
    if not len(table.frame):
        raise table.without_rows()
    columns = table.columns
    if {"origin", "step", "column", "forecast"} <= set(columns) and columns[-1] != "step":
        return _long(table, config, time=columns[list(columns).index("step") + 1], value="forecast")
    time = _time_column(table, config)
    if time is None:
        return _rows(table)
    value = next((name for name in _VALUE if name in columns), None)
    if value is not None and (time in _TIME or "column" in columns):
        return _long(table, config, time=time, value=value)
    return _wide(table, config, time)


def _time_column(table: Table, config: DatasetConfig) -> str | None:
    named = [name for name in (config.time_col, *_TIME) if name in table.columns]
    if named:
        return named[0]
    try:
        return find_time_column(table, config.time_col)
    except InputError:
        if config.time_col is not None:
            raise
        return None


class _Kind(NamedTuple):
    """Whether a column of times contains timestamps, and whether these have a zone."""

    timed: bool
    in_utc: bool


def _times(table: Table, column: str, config: DatasetConfig, by: Sequence[str]) -> tuple[pd.Series, _Kind]:
    """Times as timestamps or row numbers, and their kind; each time may occur once per value of the columns `by`."""
    cells = table.frame[column]
    if config.time_format is None and pd.api.types.is_integer_dtype(cells) and int(cells.abs().max()) < 10**7:
        return cells, _Kind(timed=False, in_utc=False)
    groups = table.frame.groupby(list(by), sort=False).ngroup().to_numpy() if by and config.timezone else None
    time_format = find_format(table, column, config.time_format)
    times = parse_timestamps(table, column, time_format, timezone=config.timezone, groups=groups)
    if times.hasnans:
        row = int(np.flatnonzero(times.isna())[0])
        raise InputError(f"{table.at(row, column)}: expected a time, found {cells.iloc[row]!r}")
    kind = _Kind(timed=True, in_utc=times.tz is not None)
    if kind.in_utc:
        times = times.tz_convert("UTC").tz_localize(None)
    return pd.Series(times, index=cells.index), kind


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
    words = without(names, number_columns(table, names))
    bad = [name for name in words if table.frame[name].notna().any()]
    if bad:
        raise InputError(f"{table.name}: expected numbers in the columns {listed(bad)}, found text")
    values, _ = numbers(table, list(names))
    return {name: values[:, i] for i, name in enumerate(names)}


def _long(table: Table, config: DatasetConfig, *, time: str, value: str) -> Tidy:
    columns = [name for name in table.columns if name not in (time, value, "column", "step", "origin", "actual")]
    # in forecasts of many series the bands are named after the target: y_lo80 next to y
    bands = {name: match["end"] + match["level"] for name in columns if (match := BAND.fullmatch(name))}
    # columns of a file written by this package are in this order: [series], origin, step, time; or series, time, column
    leading = _before(table.columns, "origin" if "origin" in table.columns else time)
    is_written = config.series_col is None and "column" in table.columns and len(leading) == 1
    candidates = [name for name in columns if name not in bands]
    series = leading[0] if is_written else _series_column(table, config, candidates)
    by = [name for name in (series, "column", "origin") if name in table.columns]
    times, kind = _times(table, time, config, by)
    frame = pd.DataFrame({"time": times})
    frame["series"] = table.frame[series].astype(str) if series else ""
    frame["column"] = table.frame["column"].astype(str) if "column" in table.columns else value
    extra = [name for name in ("actual",) if name in table.columns]
    for name, cells in _numbers(table, [value, *bands, *extra]).items():
        frame["value" if name == value else bands.get(name, name)] = cells
    if "origin" in table.columns:
        frame["origin"] = _times(table, "origin", config, [])[0]
    return Tidy(name=table.name, frame=frame, bands=tuple(bands.values()), **kind._asdict())


def _before(columns: Sequence[str], name: str) -> Sequence[str]:
    """Columns to the left of `name`."""
    return list(columns)[: list(columns).index(name)]


def _wide(table: Table, config: DatasetConfig, time: str) -> Tidy:
    columns = [name for name in table.columns if name not in (time, "rolled")]
    series = _series_column(table, config, columns)
    times, kind = _times(table, time, config, [series] if series else [])
    if series is None and times.duplicated().any():
        again = times[times.duplicated()].iloc[0]
        zone = changing_zone(pd.DatetimeIndex(times)) if kind.timed else None
        raise InputError(
            f"{table.name}, column {time}: duplicate timestamp {again}; name the column that separates the series, "
            "dataset.series_col=NAME"
            if zone is None
            else f"{table.name}, column {time}: local time {again} occurs twice, as when clocks are set back; "
            f"{zone_advice(zone)}"
        )
    values = list(number_columns(table, [name for name in columns if name != series]))
    bands = {name: match for name in values if (match := BAND.fullmatch(name)) and match["target"] in values}
    targets = [name for name in values if name not in bands]
    if not targets:
        raise InputError(f"{table.name}: expected columns of numbers next to {time}, found {listed(columns)}")
    cells = _numbers(table, values)
    suffixes = list(dict.fromkeys(match["end"] + match["level"] for match in bands.values()))
    frames = []
    for target in targets:
        frame = pd.DataFrame({"time": times, "value": cells[target]})
        frame["series"] = table.frame[series].astype(str) if series else ""
        frame["column"] = target
        for suffix in suffixes:
            name = f"{target}_{suffix}"
            frame[suffix] = cells[name] if name in bands else np.nan
        frames.append(frame)
    return Tidy(name=table.name, frame=pd.concat(frames, ignore_index=True), bands=tuple(suffixes), **kind._asdict())


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
    """`table` with the series (or column) name of `forecasts`, if both have only one."""
    frame = table.frame
    for key in ("series", "column"):
        names, other_names = forecasts.frame[key].unique(), frame[key].unique()
        if len(names) == len(other_names) == 1 and names[0] != other_names[0]:
            frame = frame.assign(**{key: names[0]})
    return replace(table, frame=frame)
