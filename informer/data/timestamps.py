"""The time column of a table: which it is, and what its text means."""

import re
from typing import Literal

import numpy as np
import pandas as pd
from jaxtyping import Float64
from pandas.api.types import is_datetime64_any_dtype, is_float_dtype, is_numeric_dtype
from pandas.tseries.api import guess_datetime_format

from informer.data.table import Table, listed, shown
from informer.errors import InputError

NAMES = {"date", "time", "timestamp", "datetime", "date_time", "ds", "dates", "times", "timestamps", "period"}
"""Column names, in any case, that mean time."""

YEARS = range(1000, 9000)
"""Years in which pandas can count steps forth and back; near the years 1 and 9999 its offsets fail."""

_LAST = 1e9 * 86_400 * 365.25 * (YEARS.stop - 1970)
"""Nanoseconds from 1970 to the end of YEARS."""

EPOCHS: dict[str, Literal["s", "ms", "us", "ns"]] = {"s": "s", "ms": "ms", "us": "us", "ns": "ns"}
"""Values of `time_format` that count from 1970."""

_CLOCK = r"(?:(?P<gap>[ T])(?P<clock>\d{1,2}:\d{2})(?P<seconds>:\d{2})?(?P<fraction>\.\d+)?(?P<half> ?[AaPp][Mm])?)?"
_DAY_MONTH = re.compile(r"\d{1,2}(?P<sep>[/.-])\d{1,2}(?P=sep)(?P<year>\d{4}|\d{2})" + _CLOCK)
_YEAR_FIRST = re.compile(r"\d{4}(?P<sep>[/.-])\d{1,2}(?P=sep)\d{1,2}" + _CLOCK)
_ISO = re.compile(r"\d{4}-\d{2}(-\d{2}([ T]\d{2}\b.*)?)?")


def find_time_column(table: Table, wanted: str | None) -> str:
    """`wanted`, else the first column with a name of NAMES, else the first whose first cell is a date.

    Raises:
        InputError: none of these.
    """
    if wanted is not None:
        if wanted not in table.columns:
            raise table.missing("dataset.time_col", wanted)
        return wanted
    named = [column for column in table.columns if column.strip().lower() in NAMES]
    dated = (column for column in table.columns if _looks_dated(table.frame[column]))
    found = named[0] if named else next(dated, None)
    if found is None:
        raise InputError(
            f"{table.name}: no time column found among {listed(table.columns)}; name it with dataset.time_col"
        )
    return found


def find_format(table: Table, column: str, wanted: str | None) -> str | None:
    """The format of a column's dates (see `parse_timestamps`): `wanted`, else found; None for timestamps or no rows.

    Raises:
        InputError: the column does not settle it; the order of day and month is never guessed.
    """
    if wanted is not None or is_datetime64_any_dtype(table.frame[column]) or not len(table.frame):
        return wanted
    return _find_format(table, column)


def parse_timestamps(table: Table, column: str, time_format: str | None) -> pd.DatetimeIndex:
    """The timestamps, NaT where a cell is none, or one outside of YEARS.

    Args:
        time_format: strptime format, ISO8601, or s, ms, us, ns for counts since 1970; not needed where the cells are
            timestamps.

    Raises:
        InputError: the cells are of more than one time zone.
    """
    cells = table.frame[column]
    if time_format is None or is_datetime64_any_dtype(cells):
        times = pd.DatetimeIndex(cells, name=None)
    else:
        times = _parse(table, column, time_format)
    if not len(times) or (times.min().year in YEARS and times.max().year in YEARS):
        return times
    return pd.DatetimeIndex(times.where(times.year.isin(YEARS)))


def _looks_dated(cells: pd.Series) -> bool:
    if is_datetime64_any_dtype(cells):
        return True
    if is_numeric_dtype(cells) or not len(cells):
        return False
    first = str(cells.iloc[0]).strip()
    enough = sum(letter.isdigit() for letter in first) > 2
    return enough and (_DAY_MONTH.fullmatch(first) is not None or _guess_format(first) is not None)


def _guess_format(text: str) -> str | None:
    """The format of a date whose order is plain: year first, or a month's name."""
    if _ISO.fullmatch(text):
        return "ISO8601"
    year_first = _YEAR_FIRST.fullmatch(text)
    if year_first is not None:
        return f"%Y{year_first['sep']}%m{year_first['sep']}%d" + _clock_format(year_first)
    return guess_datetime_format(text) if text else None


def _is_in_may(text: str) -> bool:
    """The month whose name is as long in full as in short, and does not tell which is written."""
    return "may" in text.lower()


def _find_format(table: Table, column: str) -> str:
    cells = table.frame[column]
    place = f"{table.name}, column {column!r}"
    if is_numeric_dtype(cells):
        raise InputError(
            f"{place}: expected dates, found numbers such as {cells.iloc[0]}; set dataset.time_format "
            "(%Y, %Y%m%d, or s, ms, us, ns since 1970), or name the time column with dataset.time_col"
        )
    first = str(cells.iloc[0]).strip()
    short = _DAY_MONTH.fullmatch(first)
    if short is not None:
        return _day_month_format(table, column, short)
    guess = _guess_format(first)
    if guess is not None and _is_in_may(first):
        guess = next(
            filter(None, (_guess_format(cell.strip()) for cell in map(str, cells) if not _is_in_may(cell))), guess
        )
    if guess is None:
        raise InputError(
            f"{table.at(0, column)}: expected a date such as 2024-01-31 13:00, found {shown(cells.iloc[0])}; "
            "set dataset.time_format, or name the time column with dataset.time_col"
        )
    return guess


def _day_month_format(table: Table, column: str, first: re.Match[str]) -> str:
    """The format of dates that begin with day and month, in the order that some day above 12 proves."""
    rest = first["sep"] + ("%Y" if len(first["year"]) == 4 else "%y") + _clock_format(first)
    day_first, month_first = (f"%{one}{first['sep']}%{two}{rest}" for one, two in ("dm", "md"))
    cells = table.frame[column].astype(str)
    parts = cells.str.extract(r"^\s*(\d{1,2})[/.-](\d{1,2})")
    above = (parts.apply(pd.to_numeric, errors="coerce") > 12).to_numpy()
    settled = above.any(axis=0)
    if settled.all():
        rows = above.argmax(axis=0).tolist()
        raise InputError(
            f"{table.at(max(rows), column)}: day and month change places, {cells.iloc[max(rows)]!r} against "
            f"{cells.iloc[min(rows)]!r} in row {min(rows) + table.first_row}; write all dates alike"
        )
    if not settled.any() or len(first["year"]) == 2:
        raise InputError(
            f"{table.name}, column {column!r}: {first[0]!r} does not tell day, month and year apart, and no row does; "
            f"set dataset.time_format='{day_first}' or '{month_first}'"
        )
    return day_first if settled[0] else month_first


def _clock_format(first: re.Match[str]) -> str:
    if first["clock"] is None:
        return ""
    hour = "%I" if first["half"] else "%H"
    half = first["half"].replace(first["half"].strip(), "%p") if first["half"] else ""
    seconds = ":%S" if first["seconds"] else ""
    return f"{first['gap']}{hour}:%M{seconds}{'.%f' if first['fraction'] else ''}{half}"


def _parse(table: Table, column: str, time_format: str) -> pd.DatetimeIndex:
    cells = table.frame[column]
    try:
        if time_format in EPOCHS:
            counts = pd.to_numeric(cells, errors="coerce")
            if is_float_dtype(counts):
                return _of_floats(counts.to_numpy(np.float64, na_value=np.nan), EPOCHS[time_format])
            return pd.DatetimeIndex(pd.to_datetime(counts, unit=EPOCHS[time_format], errors="coerce"), name=None)
        # most times stand once, so that a table of those seen costs more than it saves
        text = cells if isinstance(cells.dtype, pd.StringDtype) else cells.astype(str)
        return pd.to_datetime(text.to_numpy(dtype=object), format=time_format, errors="coerce", cache=False)
    except ValueError as error:
        raise InputError(
            f"{table.name}, column {column!r}: not readable as {time_format} ({error}); write every time in one zone, "
            "such as UTC, or set dataset.time_format"
        ) from error


def _of_floats(counts: Float64[np.ndarray, "t"], unit: Literal["s", "ms", "us", "ns"]) -> pd.DatetimeIndex:
    """Times of counts since 1970 in the finest unit that they hold: in ns, 1700000000.1 s would be 95 ns less."""
    nanos = counts * float(pd.Timedelta(1, unit).value)
    sane = np.abs(nanos[np.abs(nanos) < _LAST])
    noise = np.spacing(sane.max(initial=0.0))
    finest: Literal["ns", "us", "ms"] = "ns" if noise < 1 else "us" if noise < 1_000 else "ms"
    whole = np.round(nanos / pd.Timedelta(1, finest).value)
    return pd.to_datetime(whole, unit=finest, errors="coerce").as_unit(finest)
