"""Find the format of a time column, and parse it."""

import logging
import re
from dataclasses import replace
from typing import Literal

import numpy as np
import pandas as pd
from jaxtyping import Float64
from pandas.api.types import is_datetime64_any_dtype, is_float_dtype, is_integer_dtype, is_numeric_dtype

from informer.config.file_format import EPOCHS, EXCEL, ISO, QUARTER, WEEK, format_problems
from informer.data.read.calendar_columns import YEARS, are_years
from informer.data.read.cells import codes_of, decoded, is_encoded
from informer.data.read.date_order import settle
from informer.data.read.date_text import date_formats
from informer.data.read.table import Table, shown
from informer.data.read.time_pieces import joined, times_of_codes
from informer.data.read.zone import in_zone, with_offsets
from informer.errors import InputError

log = logging.getLogger(__name__)

EXCEL_TO_1970 = 25_569
"""Days from the start of spreadsheet dates to 1970."""

LAST_DAY = 2_958_466
"""First spreadsheet day after the year 9999."""

USUAL_SECONDS = (500_000_000, 1_900_000_000)
"""Counts of seconds since 1970 that are recognised: 1985 to 2030."""

USUAL_DAYS = (18_264, 73_051)
"""Range of spreadsheet days (1950 to 2099) in which numbers in a time column are taken for days."""

_LAST = 1e9 * 86_400 * 365.25 * (YEARS.stop - 1970)
"""Nanoseconds from 1970 to the end of YEARS."""

PIECE = 1 << 16
"""Number of cells converted to Python strings at once, since these take several times their space."""

_WORD = re.compile(r"\s*(?:[A-Za-z]+|[+-].*)\s*$")
"""Cells that pandas reads as a time with any format (now, today), and years with a sign."""


def find_format(table: Table, column: str, configured: str | None, *, trained_format: str | None = None) -> str | None:
    """The format of a column's dates (see `parse_timestamps`), configured or detected; None for timestamps or no rows.

    Args:
        table, column: the column.
        configured: format set by the user, if any.
        trained_format: format of a model's training data, which resolves ambiguous dates.

    Raises:
        InputError: no valid format, or the column is ambiguous; the order of day and month is never guessed.
    """
    for problem in format_problems(configured) if configured is not None else []:
        raise InputError(problem)
    if configured is not None or is_datetime64_any_dtype(table.frame[column]) or not len(table.frame):
        return configured

    if (
        is_numeric_dtype(table.frame[column])
        and _looks_like_days(table.frame[column])
        and (table.of_sheet or trained_format == EXCEL)
    ):
        log.info(f"{table.name}, column {column!r}: numbers of days since 1899-12-30 (dataset.time_format=excel)")
        return EXCEL

    def parse(cells: pd.Series, time_format: str) -> pd.DatetimeIndex:
        return parse_timestamps(replace(table, frame=cells.to_frame()), column, time_format)

    return settle(table, column, _formats(table, column), parse, trained_format=trained_format)


def parse_timestamps(
    table: Table,
    column: str,
    time_format: str | None,
    *,
    timezone: str | None = None,
    groups: np.ndarray | None = None,
) -> pd.DatetimeIndex:
    """The timestamps of a column, NaT for cells that are not timestamps or outside YEARS.

    Args:
        table, column: the column.
        time_format: strptime format, ISO8601, s, ms, us, ns for counts since 1970, or excel for days since 1899-12-30;
            not needed if the cells are timestamps.
        timezone: zone of local times; times with an offset are converted to it.
        groups: for local times, the name of the series of each row; None: one series.

    Raises:
        InputError: some cells have an offset from UTC and others none, or a local time does not exist in its zone.
    """
    cells = table.frame[column]
    if time_format is None or is_datetime64_any_dtype(cells):
        times = pd.DatetimeIndex(cells, name=None)
    else:
        times = _parse(table, column, time_format)
    if len(times) and not _are_in_years(times):
        times = pd.DatetimeIndex(times.where(times.year.isin(YEARS)))
    return times if timezone is None else in_zone(times, timezone, table, column, groups)


def _are_in_years(times: pd.DatetimeIndex) -> bool:
    """Whether all times are in YEARS, and none is missing."""
    counts = times.asi8  # their extremes need no copy, unlike those of times; a missing time is the smallest
    first, last = times[int(counts.argmin())], times[int(counts.argmax())]
    return bool(pd.notna(first)) and first.year in YEARS and last.year in YEARS


def _looks_like_days(cells: pd.Series) -> bool:
    """Whether all numbers are in USUAL_DAYS, unlike years, dates as digits or counts since 1970."""
    days = pd.to_numeric(cells).to_numpy(np.float64, na_value=np.nan)
    days = days[np.isfinite(days)]
    return len(days) > 0 and bool((days >= USUAL_DAYS[0]).all() and (days < USUAL_DAYS[1]).all())


def _unit_since_1970(cells: pd.Series) -> str | None:
    """The unit in which all numbers are times in USUAL_SECONDS; None for hours as digits such as 2024013123."""
    counts = pd.to_numeric(cells).to_numpy(np.float64, na_value=np.nan)
    counts = counts[np.isfinite(counts)]
    if not len(counts):
        return None
    for unit, size in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        if counts.min() >= USUAL_SECONDS[0] * size and counts.max() < USUAL_SECONDS[1] * size:
            return unit
    return None


def _first_day(cells: pd.Series) -> str | None:
    """The first of numbers that are all dates with the year first, such as 20240131; None if they are not."""
    if not is_integer_dtype(cells) or not cells.between(YEARS.start * 10_000, YEARS.stop * 10_000).all():
        return None
    days = pd.to_datetime(cells.astype(str), format="%Y%m%d", errors="coerce")
    return f"{days.iloc[0]:%Y-%m-%d}" if days.notna().all() and (cells % 100 > 12).any() else None


def _formats(table: Table, column: str) -> tuple[str, ...]:
    """Possible formats of the first cell; May is a full and a short month name, so cells with other months decide."""
    cells = table.frame[column]
    if are_years(column, cells):
        return ("%Y",)
    if is_numeric_dtype(cells):
        start = f"{table.name}, column {column!r}: expected dates, found numbers such as {cells.iloc[0]}"
        if _looks_like_days(cells):
            begin = _of_days(cells.iloc[:1].to_numpy(np.float64))[0].round("s")
            raise InputError(
                f"{start}; if these are spreadsheet days, starting at {begin}, set dataset.time_format=excel; "
                "otherwise name the time column with dataset.time_col"
            )
        if unit := _unit_since_1970(cells):
            begin = pd.Timestamp(int(cells.iloc[0]), unit=unit)
            raise InputError(
                f"{start}; if these are counts of {unit} since 1970, starting at {begin} UTC, set "
                f"dataset.time_format={unit}; otherwise name the time column with dataset.time_col"
            )
        if day := _first_day(cells):
            raise InputError(
                f"{start}; if these are days, starting at {day}, set dataset.time_format=%Y%m%d; otherwise name the "
                "time column with dataset.time_col",
                "dataset.time_format=%Y%m%d",
            )
        raise InputError(
            f"{start}; set dataset.time_format (%Y, %Y%m%d, s, ms, us, ns since 1970, or excel for spreadsheet dates), "
            "or name the time column with dataset.time_col"
        )
    first = str(cells.iloc[0]).strip()
    formats = date_formats(first)
    if formats and "may" in first.lower():
        other_formats = (date_formats(cell.strip()) for cell in map(str, cells) if "may" not in cell.lower())
        formats = next(filter(None, other_formats), formats)
    if not formats:
        raise InputError(
            f"{table.at(0, column)}: expected a date such as 2024-01-31 13:00, found {shown(cells.iloc[0])}; "
            "set dataset.time_format, or name the time column with dataset.time_col"
        )
    return formats


def _parse(table: Table, column: str, time_format: str) -> pd.DatetimeIndex:
    cells = table.frame[column]
    try:
        if time_format == EXCEL:
            return _of_days(pd.to_numeric(cells, errors="coerce").to_numpy(np.float64, na_value=np.nan))
        if time_format in EPOCHS:
            counts = pd.to_numeric(cells, errors="coerce")
            if is_float_dtype(counts):
                return _of_floats(counts.to_numpy(np.float64, na_value=np.nan), EPOCHS[time_format])
            return pd.DatetimeIndex(pd.to_datetime(counts, unit=EPOCHS[time_format], errors="coerce"), name=None)
        return _parse_text(table, column, time_format)
    except InputError:
        raise
    except (ValueError, KeyError, re.error) as error:
        raise InputError(
            f"{table.name}, column {column!r}: not readable as {time_format} ({error}); set dataset.time_format"
        ) from error


def _parse_text(table: Table, column: str, time_format: str) -> pd.DatetimeIndex:
    cells = table.frame[column]
    codes, texts = None, cells
    if is_encoded(cells):
        codes, once = codes_of(cells)
        texts = pd.Series([*once.astype(str), None], dtype="str")  # the last for empty cells (code -1)
    begins = range(0, max(len(texts), 1), PIECE)
    try:
        pieces = (_times_of(texts.iloc[begin : begin + PIECE], time_format) for begin in begins)
        times = joined(pieces, len(texts))
    except ValueError:
        if time_format != ISO and "%z" not in time_format:
            raise
        return with_offsets(decoded(cells).astype(str), time_format, table, column)
    return times if codes is None else times_of_codes(times, codes)


def _times_of(cells: pd.Series, time_format: str) -> pd.DatetimeIndex:
    text = cells if isinstance(cells.dtype, pd.StringDtype) else cells.astype(str)
    objects = text.to_numpy(dtype=object)
    no_date = np.array([_is_no_date(cell) for cell in objects.tolist()], dtype=bool)
    objects, time_format = _starts(objects, time_format)
    # most times are unique, so a cache would not pay off
    times = pd.to_datetime(objects, format=time_format, errors="coerce", cache=False)
    if no_date.any():
        times = pd.DatetimeIndex(times.where(~no_date))
    return times.tz_localize("UTC") if re.search(r"(?<!%)[Zz]$", time_format) else times


def _starts(cells: np.ndarray, time_format: str) -> tuple[np.ndarray, str]:
    """The first day of quarters and ISO weeks, and its format; other cells and formats as they are."""
    if QUARTER in time_format:
        pattern = re.escape(time_format).replace("%Y", r"(?P<year>\d{4})").replace(QUARTER, "(?P<quarter>[1-4])")
        matches = [re.fullmatch(pattern, str(cell)) for cell in cells]
        days = [
            None if match is None else f"{match['year']}-{3 * int(match['quarter']) - 2:02d}-01" for match in matches
        ]
        return np.array(days, dtype=object), "%Y-%m-%d"
    if WEEK in time_format and not re.search("%[uwaA]", time_format):
        return np.array([f"{cell} 1" for cell in cells], dtype=object), f"{time_format} %u"
    return cells, time_format


def _is_no_date(cell: object) -> bool:
    """Whether a cell is empty, or text that pandas reads as a time although it is not a date."""
    return not isinstance(cell, str) or (not cell[:1].isdigit() and _WORD.match(cell) is not None)


def _of_days(days: Float64[np.ndarray, "t"]) -> pd.DatetimeIndex:
    """Times of spreadsheet days, rounded to minutes or seconds if all are within rounding error of these."""
    seconds = np.where(np.abs(days) < LAST_DAY, days, np.nan) * 86_400
    finite = seconds[np.isfinite(seconds)]
    for unit, noise in ((60, 0.5), (1, 0.1)):
        if (np.abs(finite - np.round(finite / unit) * unit) <= noise).all():
            seconds = np.round(seconds / unit) * unit
            break
    counts = np.round((seconds - EXCEL_TO_1970 * 86_400) * 1000)
    return pd.to_datetime(counts, unit="ms", errors="coerce").as_unit("ms")


def _of_floats(counts: Float64[np.ndarray, "t"], unit: Literal["s", "ms", "us", "ns"]) -> pd.DatetimeIndex:
    """Times of float counts since 1970, in the finest unit that is exact: in ns, 1700000000.1 s would be 95 ns off."""
    nanos = counts * float(pd.Timedelta(1, unit).value)
    sane = np.abs(nanos[np.abs(nanos) < _LAST])
    noise = np.spacing(sane.max(initial=0.0))
    finest: Literal["ns", "us", "ms"] = "ns" if noise < 1 else "us" if noise < 1_000 else "ms"
    rounded = np.round(nanos / pd.Timedelta(1, finest).value)
    return pd.to_datetime(rounded, unit=finest, errors="coerce").as_unit(finest)
