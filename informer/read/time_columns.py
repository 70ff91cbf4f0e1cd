"""The column of a table that has its times.

It is the one of dates with the most detail; else of years, or of dates or counts whose format must be set, or of
numbers of rows. Before it is looked for, the parts of a time in several columns are joined: years with months, days and
hours, with quarters, ISO weeks or days of the year; dates with times of day or numbers of hours.
"""

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import date, time
from itertools import takewhile

import numpy as np
import pandas as pd
from jaxtyping import Int64
from pandas.api.types import (
    is_bool_dtype,
    is_datetime64_any_dtype,
    is_float_dtype,
    is_integer_dtype,
    is_numeric_dtype,
    is_string_dtype,
)

from informer.base.errors import InputError, listed
from informer.config.data import EXCEL, DatasetConfig
from informer.read.cells import decoded, distinct, is_encoded, text_of
from informer.read.date_text import USUAL_YEARS, date_formats, month_of
from informer.read.frequency import SECOND, UNIT_NANOS
from informer.read.table import Table, shown, without

log = logging.getLogger(__name__)

YEARS = range(1000, 9000)
"""Years for which pandas can compute steps in both directions; near the years 1 and 9999 its offsets fail."""

PARTS = {
    "year": (YEARS, "year yr yyyy jahr annee année año anno ano jaar år 年 isoyear meldejahr"),
    "quarter": (range(1, 5), "quarter qtr quartal trimestre kwartaal kvartal"),
    "month": (range(1, 13), "month mnth mon mo mm monat mois mes mês mese maand måned 月"),
    "day": (range(1, 32), "day dd dy tag jour dia día giorno dag dayofmonth 日"),
    "week": (
        range(1, 54),
        "week wk kw isoweek weeknumber weeknum weekofyear woche kalenderwoche meldewoche semaine semana settimana uge "
        "uke vecka",
    ),
    "day of year": (range(1, 367), "dayofyear doy yday julianday jday"),
    "hour": (range(24), "hour hr hours hh stunde heure hora ora uur"),
    "minute": (range(60), "minute minutes"),
    "second": (range(60), "second seconds"),
}
"""The parts of a time: their values, and names of their columns as `_plain` has them."""

_PART_OF = {name: part for part, (_, names) in PARTS.items() for name in names.split()}

_DAYS = {
    ("month", "day"): ("%Y%m%d", "%Y-%m-%d"),
    ("day of year",): ("%Y%j", "%Y-%m-%d"),
    ("week",): ("%G%V%u", "%G-W%V"),
    ("month",): ("%Y%m", "%Y-%m"),
    ("quarter",): ("%Y%m", "%FQ%q"),
}
"""Parts that determine a day or the start of a period together with the year, of which the first that are there are
used; the format of their digits, and of the text in their place."""

_SECONDS = {"hour": 3600, "minute": 60, "second": 1}
"""Parts that follow a day; each needs those before it."""

_MARKED = {"quarter": r"^q(\d)$", "month": r"^m(\d\d)$", "week": r"^k?w ?(\d\d?)$"}
"""Numbers of a part with its mark, in small letters."""


USUAL_DAYS = (18_264, 73_051)
"""Range of spreadsheet days (1950 to 2099) in which numbers in a time column are taken for days."""

USUAL = {EXCEL: USUAL_DAYS} | {
    unit: (500_000_000 * SECOND // nanos, 1_900_000_000 * SECOND // nanos) for unit, nanos in UNIT_NANOS.items()
}
"""Ranges of numbers by which spreadsheet days and counts since 1970 (1985 to 2030) are recognised."""


def usual_units(cells: pd.Series) -> list[str]:
    """The formats in whose USUAL ranges all numbers are, the finest last; none for years, dates or hours as digits such
    as 2024013123. Counts of several units are of one time whose unit was changed."""
    counts = cells.dropna().to_numpy(np.float64)
    ranges = {unit: (counts >= low) & (counts < high) for unit, (low, high) in USUAL.items()}
    units = [unit for unit, inside in ranges.items() if inside.any()]
    are_all = len(counts) > 0 and sum(int(ranges[unit].sum()) for unit in units) == len(counts)
    return units if are_all and (len(units) == 1 or EXCEL not in units) else []


def number_format(column: str, cells: pd.Series) -> str | None:
    """The format of numbers that are times without doubt: years in a column of that name, periods, dates, and counts
    since 1970 whose unit changes; None for others."""
    if are_years(column, cells):
        return "%Y"
    return numbered_periods(cells) or digits_format(cells) or changed_unit(cells)


def changed_unit(cells: pd.Series) -> str | None:
    """The finest of several units of counts since 1970, all rising or falling; None for others."""
    units = usual_units(cells) if are_whole(cells) else []
    return units[-1] if len(units) > 1 and (cells.is_monotonic_increasing or cells.is_monotonic_decreasing) else None


def are_years(column: str, cells: pd.Series) -> bool:
    """Whether a column has the name of a year, and all its cells are years of four digits."""
    return _part(column) == "year" and len(cells) > 0 and repeats_calendar(column, cells)


def numbered_periods(cells: pd.Series) -> str | None:
    """The format of numbers such as 202401 or 2024.01 that are years and months, or 202401 that are years and ISO
    weeks, almost all of which follow one another; None for other numbers."""
    if not is_numeric_dtype(cells) or len(cells) < 2:
        return None
    numbers = cells.dropna().to_numpy(np.float64)
    size, mark = (100, "") if is_integer_dtype(cells) else (1, ".")
    # 240131 is a day in 2024 rather than a week of 2401
    if not len(numbers) or numbers.min() < size * YEARS.start or numbers.max() >= size * USUAL_YEARS.stop:
        return None
    numbers = numbers * (100 // size)
    whole = np.unique(np.rint(numbers))
    years, parts = whole // 100, whole % 100
    if len(whole) < 3 or parts.min() < 1 or np.abs(numbers - np.rint(numbers)).max() > 1e-6:
        return None
    formats = {f"%Y{mark}%m": [12]} | ({} if mark else {"%G%V": [52, 53]})
    begins = np.diff(years) > 0
    for time_format, in_year in formats.items():
        steps = np.stack([np.diff(years * n + parts) for n in in_year])
        # few are left out from some year to the next, or the numbers are others, such as 240131
        is_usual = (steps == 1).any(axis=0).mean() >= MOSTLY and (not begins.any() or steps[:, begins].min() < 12)
        if is_usual and parts.max() <= max(in_year):
            return time_format
    return None


def are_whole(cells: pd.Series) -> bool:
    """Whether cells are whole numbers, also as floats, as pandas reads them next to empty cells."""
    return is_integer_dtype(cells) or (is_float_dtype(cells) and bool((cells.dropna() % 1 == 0).all()))


def digits_format(cells: pd.Series) -> str | None:
    """The format of whole numbers that are all dates with the year first, such as 20240131, or 2024013123 and more
    digits with times of day (ISO 8601, basic format); None for other numbers."""
    known = cells.dropna() if is_numeric_dtype(cells) else cells[:0]
    least = known.min() if len(known) else 0
    n_clock = next((n for n in range(4) if 10**7 <= least / 100**n < 10**8), None)
    if n_clock is None or not are_whole(cells) or known.max() >= YEARS.stop * 10_000 * 100**n_clock:
        return None
    numbers, time_format = known.astype("int64"), "%Y%m%d" + "%H%M%S"[: 2 * n_clock]
    days = pd.Series((numbers // 100**n_clock).unique()).astype("str")
    clocks = [(numbers // 100**place % 100).max() for place in reversed(range(n_clock))]
    are_clocks = all(most < limit for most, limit in zip(clocks, (24, 60, 60), strict=False))
    are_days = are_clocks and pd.to_datetime(days, format="%Y%m%d", errors="coerce").notna().all()
    return time_format if are_days else None


def repeats_calendar(column: str, cells: pd.Series) -> bool:
    """Whether a column is named after a year, quarter, month, day or hour, and has only such numbers."""
    part = _part(column)
    if part is None or part in ("minute", "second") or not is_integer_dtype(cells):
        return False
    return bool(cells.between(PARTS[part][0].start, PARTS[part][0].stop - 1).all())


def calendar_parts(columns: Sequence[str]) -> list[str]:
    """The columns named after a part of a time."""
    return [column for column in columns if _part(column) is not None]


def month_columns(columns: Sequence[str]) -> list[str]:
    """The columns named after the twelve months, if there is one for each in their order; else none."""
    months = [column for column in columns if month_of(column)]
    return months if [*map(month_of, months)] == list(range(1, 13)) else []


def hour_columns(columns: Sequence[str]) -> tuple[list[str], list[int | str]]:
    """The columns named after the hours of a day, such as H1 to H24, 0 to 23, or 00:00 to 23:30, if there is one for
    each in their order, also for a 25th; and the hours, as numbers or times of day. Else none. Names from 00:30 to
    00:00 are ends of half hours."""
    found = {column: match for column in columns if (match := _HOUR_NAME.fullmatch(column.strip()))}
    clocks = {column: match[2] for column, match in found.items() if match[2]}
    for n in (24, 48, 96) if len(clocks) == len(found) else ():
        texts = [f"{minute // 60:02d}:{minute % 60:02d}" for minute in range(0, 1440, 1440 // n)]
        ends = [[*texts[1:], last] for last in ("00:00", "24:00")]
        if [clock.zfill(5) for clock in clocks.values()] in (texts, *ends):
            return [*clocks], [*texts]
    numbers = {column: int(match[1]) for column, match in found.items() if match[1]}
    first, n = next(iter(numbers.values()), 0), len(numbers)
    is_day = n == 24 or (n == 25 and first == 1)
    is_day &= first in (0, 1) and [*numbers.values()] == [*range(first, first + n)]
    return ([*numbers], [*numbers.values()]) if is_day else ([], [])


def find_calendar_columns(table: Table, excluded: Collection[str]) -> dict[str, str]:
    """The columns of the parts of a time by part, the year first; empty unless there are those of _DAYS.

    Args:
        table: a table without a column of dates.
        excluded: columns with other roles.
    """
    columns: dict[str, str] = {}
    for column in table.columns:
        part = _part(column)
        if part is not None and column not in excluded:
            if part in columns:  # which of the two?
                return {}
            columns[part] = column
    if columns.keys() == {"year"}:  # the next part may have any name if its cells have its mark, as M01 to M12
        columns |= {part: column for column in table.not_numeric if (part := _marked_part(table.frame[column]))}
    if "hour" in columns and of_the_day(hours := table.frame[columns["hour"]]) is not None and hours.max() >= 24:
        del columns["hour"]  # joined to the dates, see `find_clock_column`
    within = next((parts for parts in _DAYS if columns.keys() >= {"year", *parts}), ())
    has_days = within in (("month", "day"), ("day of year",))
    parts = ["year", *within, *takewhile(columns.__contains__, _SECONDS if has_days else ())]
    if not within or any(part in columns for part in ("day", "hour") if part not in parts):
        return {}
    return {part: columns[part] for part in parts}


def joined_calendar(table: Table, parts: Mapping[str, str]) -> Table:
    """The table with one column in place of those of the parts: text such as 2024-01-31, 2024-W05 or 2024Q1, to which
    times of day in text may be joined, or timestamps if there are hours.

    Args:
        parts: see `find_calendar_columns`.

    Raises:
        InputError: a cell is out of range, empty or not a whole number.
    """
    numbers = {part: _numbers(table, part, column) for part, column in parts.items()}
    within = tuple(part for part in parts if part != "year" and part not in _SECONDS)
    digits, written = _DAYS[within]
    keys = numbers["year"]
    for part in within:
        keys = keys * (1000 if part == "day of year" else 100)
        keys = keys + (3 * numbers[part] - 2 if part == "quarter" else numbers[part])
    once, codes = np.unique(10 * keys + 1 if "week" in within else keys, return_inverse=True)
    days = pd.DatetimeIndex(pd.to_datetime(once.astype(str), format=digits, errors="coerce"))
    wrong = np.asarray(days.strftime(digits) != once.astype(str))[codes]  # week 53 would be one of the next year
    if wrong.any():
        row, column = int(wrong.argmax()), parts[within[-1]]
        expected = {"week": "an ISO week of its year", "day": "a day of its month"}.get(within[-1], "a day of its year")
        raise InputError(
            f"{table.at(row, column)}: expected {expected}, found {shown(table.frame[column].iloc[row])}; fix it"
        )
    frame = table.frame.drop(columns=list(parts.values()))
    name = next(name for name in ("date", "time", "timestamp", "_date") if name not in frame.columns)
    if "hour" in parts:
        seconds = sum(numbers[part] * n for part, n in _SECONDS.items() if part in parts)
        cells = pd.Series(days[codes] + pd.to_timedelta(seconds, unit="s"), index=frame.index)
    else:
        texts = (days.to_period("Q") if "quarter" in parts else days).strftime(written)
        cells = pd.Series(np.asarray(texts, dtype=object)[codes], index=frame.index, dtype="str")
    frame.insert(min(table.columns.index(column) for column in parts.values()), name, cells)
    return replace(table, frame=frame)


def _part(column: str) -> str | None:
    """The part of a time that a column is named after."""
    return _PART_OF.get(_plain(column))


def _marked_part(cells: pd.Series) -> str | None:
    """The part of a time that all cells are, each with its mark; None if there is none, or only one number."""
    texts = distinct(cells).dropna().astype("str").drop_duplicates().str.strip().str.lower()
    found = (part for part, pattern in _MARKED.items() if texts.str.fullmatch(pattern).all())
    return next(found, None) if 1 < len(texts) <= 53 else None


def _numbers(table: Table, part: str, column: str) -> Int64[np.ndarray, " t"]:
    """The cells of a part as whole numbers; names of months and numbers with a mark, such as Q1, are numbers too."""
    cells, allowed = decoded(table.frame[column]), PARTS[part][0]
    if isinstance(cells.dtype, pd.StringDtype) or cells.dtype == object:
        cells = text_of(cells).str.strip().str.lower()
        if part in _MARKED:
            cells = cells.str.replace(_MARKED[part], r"\1", regex=True)
        if part == "month":
            cells = cells.map({name: month_of(name) or name for name in cells.dropna().unique()})
    numbers = pd.to_numeric(cells, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    wrong = ~((numbers >= allowed.start) & (numbers < allowed.stop) & (numbers == np.floor(numbers)))
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"{table.at(row, column)}: expected {allowed.start} to {allowed.stop - 1}, found "
            f"{shown(table.frame[column].iloc[row])}; fix it, or name the time column with dataset.time_col"
        )
    return numbers.astype(np.int64)


CLOCK = r"\d{1,2}[:.h]\d{2}(?:[:.]\d{2}(?:[.,]\d+)?)?(?: ?[AaPp][Mm]?)?"
"""A time of day."""

_LABELS = {
    CLOCK: r"(.*)",
    rf"{CLOCK} ?(?:-|\u2013|to) ?{CLOCK}": rf"({CLOCK}).*",
    r"\d{1,2} ?[AaPp][Mm]": r"(.*)",
    r"[Hh][Ee]? ?\d{1,2}|\d{1,2} ?[Hh]|\d\dX?": r"\D*(\d+)\D*",
}
"""Ways to write times of day or hours, and the part that is the time, or the number of an hour; 02X is the second hour
2 of a day on which clocks are set back."""

_HOUR_NAME = re.compile(
    r"(?:h|he|hr|hour|hora|stunde|heure|ora|uur|uhr)?[ _]?(\d\d?)|(\d\d?:\d\d)(?::00)?", re.IGNORECASE
)
"""Names of columns for the hours of a day."""

CLOCK_NAMES = {
    *("time", "clock", "timeofday", "zeit", "uhrzeit", "tijd", "tid", "klockslag", "interval", "he", "hourending"),
    *("settlementperiod", "tradingperiod", "period"),
    *PARTS["hour"][1].split(),
}
"""Names of columns for a time of day, as `_plain` has them; the one right after the dates may have any name."""

_TO = re.compile(r" - | ?\u2013 ?| to |/(?=\d{4}-)|-(?=\d{1,2}:\d{2}(?::\d{2})?$)")
"""What may be between the ends of an interval in one cell."""

_MIDNIGHT = r"[ T]00:00(?::00)?$"
"""The end of a date that is written as a time, as by workbooks."""


def with_starts(table: Table, _config: DatasetConfig) -> Table:
    """The table with columns of intervals, such as 2024-01-01 00:00 - 01:00, replaced by their starts."""
    starts: dict[str, pd.Series] = {}
    for column in table.not_numeric if len(table.frame) else ():
        cells = table.frame[column]
        first = str(cells.array[0]).strip()
        for to in _TO.finditer(first) if _is_text(cells) else ():
            end = first[to.end() :]
            if date_formats(first[: to.start()]) and (date_formats(end) or re.fullmatch(CLOCK, end)):
                texts = text_of(cells).str.strip()
                # an offset from UTC, such as -05:00, has two values at most
                if texts.iloc[:HEAD].str.rsplit(to[0], n=1).str[1].nunique() > 2:
                    log.info("%s: times are the starts of the intervals of %r", table.name, column)
                    starts[column] = texts.str.rsplit(to[0], n=1).str[0]
    return replace(table, frame=table.frame.assign(**starts)) if starts else table


def find_clock_column(table: Table, time_col: str, excluded: Collection[str]) -> str | None:
    """The column of times of day for a column of dates; None unless dates have no time of day and repeat in
    consecutive rows. (A column of sunrise times has one date per row.)

    Args:
        time_col: the column of dates.
        excluded: columns with other roles.
    """
    cells = table.frame[time_col]
    dates = cells if _are_days(cells) else _days(cells)
    if dates is None or not (dates == dates.shift()).any():
        return None
    following = table.columns[table.columns.index(time_col) + 1 :][:1]
    named = [column for column in table.columns if is_clock_name(column)]
    for column in [*named, *following]:
        cells = table.frame[column]
        if column in (time_col, *excluded) or _clocks(cells, is_named=column in named) is None:
            continue
        # hours as numbers rise within each run of rows with one date; one is twice where clocks are set back
        steps = cells.diff()[dates == dates.shift()] if is_integer_dtype(cells) else None
        if steps is None or bool((steps >= 0).all() and (steps > 0).any()):
            return column
    return None


def is_clock_name(column: str) -> bool:
    """Whether a column is named after a time of day."""
    return _plain(column) in CLOCK_NAMES


def _plain(column: str) -> str:
    """The name of a column in small letters, without blanks and other marks between words."""
    return re.sub(r"[\s_.<>-]+", "", column).lower()


def joined(table: Table, time_col: str, clock_col: str, *, keeps_digits: bool) -> Table:
    """The table with times of day appended to its dates, and without the column of times of day.

    `keeps_digits`: dates such as 20240131 are in a format that was set.
    """
    frame = table.frame
    dates = None if keeps_digits and is_integer_dtype(frame[time_col]) else _days(frame[time_col])
    clocks = _clocks(frame[clock_col], is_named=True)
    dates = text_of(frame[time_col]).str.strip() if dates is None else dates
    clocks = text_of(frame[clock_col]).str.strip() if clocks is None else clocks
    times = (dates + " " + clocks).where(frame[time_col].notna() & frame[clock_col].notna())
    return replace(table, frame=frame.assign(**{time_col: times}).drop(columns=clock_col))


def _days(cells: pd.Series) -> pd.Series | None:
    """A column of dates as text; None if it has times of day other than midnight in all rows."""
    if not len(cells) or (len(cells) > HEAD and _days(cells.iloc[:HEAD]) is None):
        return None
    if is_datetime64_any_dtype(cells):
        return cells.dt.strftime("%Y-%m-%d").astype("str") if _are_days(cells) else None
    if digits_format(cells) == "%Y%m%d":
        digits = cells.astype("Int64").astype("str")
        return digits.str[:4] + "-" + digits.str[4:6] + "-" + digits.str[6:]
    first = str(cells.array[0]).strip()
    date = re.sub(_MIDNIGHT, "", first)
    if not _is_text(cells) or not (formats := date_formats(date)) or re.search("%[HI]", formats[-1]):
        return None
    text = text_of(cells).str.strip()
    if date == first:
        return text
    return text.str.replace(_MIDNIGHT, "", regex=True) if text.dropna().str.contains(_MIDNIGHT).all() else None


def _are_days(cells: pd.Series) -> bool:
    """Whether cells are local times at midnight."""
    if not is_datetime64_any_dtype(cells) or cells.dt.tz is not None:
        return False
    return all((each == each.dt.normalize()).all() for each in (cells.iloc[:HEAD], cells))


def _clocks(cells: pd.Series, *, is_named: bool) -> pd.Series | None:
    """A column of times of day, hours or intervals as text; None if it has other cells.

    Args:
        is_named: whether its name says so, which numbers of hours need. Hours from 1 to 24 are numbers of intervals,
            the first of which begins at midnight.
    """
    if is_numeric_dtype(cells) and not is_bool_dtype(cells):
        return _hours(cells) if is_named else None
    if not _is_text(cells):
        return None
    text = text_of(cells).str.strip().astype(object)  # not all engines of pandas 3.0 know lookaheads
    once = pd.Series(text.dropna().unique(), dtype=object)
    for pattern, part in _LABELS.items():
        if len(once) and once.str.fullmatch(pattern).all():
            parts = text.str.extract(f"^{part}$")[0]
            if part.startswith(r"\D"):
                return _hours(pd.to_numeric(parts))
            parts = parts.str.replace(r"^(\d+) ?([AaPp])", r"\1:00 \2", regex=True)
            return parts.str.replace(r" ?([AaPp])$", r" \1m", regex=True)
    return None


def _hours(numbers: pd.Series) -> pd.Series | None:
    """Numbers of times of day as text: hours 0 to 23, 1 to 24, 0 to 2300, 100 to 2400 or 0 to 230000; halves or
    quarters of an hour from 1 to 48 or 96; hours with minutes or parts, as in 13.00, 13.15, 13.30 or 13.0, 13.25, 13.5.
    None for other numbers. A day may have 25 hours."""
    if numbers.isna().any() or not len(numbers):
        return None
    minutes = pd.Series(0, index=numbers.index)
    if is_float_dtype(numbers):
        hundredths = (numbers.clip(-1, 1e9) * 100).round().astype("int64")
        numbers, ends = hundredths // 100, np.unique(hundredths % 100)
        steps = [whole for whole in (60, 100) if np.array_equal(ends * len(ends), np.arange(len(ends)) * whole)]
        if not steps or not numbers.between(0, 24).all():
            return None
        minutes = hundredths % 100 * 60 // steps[0]
    if (parts := parts_of_hour(numbers)) > 1:
        hours, minutes = (numbers - 1) // parts, (numbers - 1) % parts * (60 // parts)
    else:
        if (numbers % 100 == 0).all() and numbers.max() > 2400:  # and seconds
            numbers = numbers // 100
        hours = numbers // 100 if (numbers % 100 == 0).all() and numbers.max() > 24 else numbers
        last = 24 if hours.max() == 25 and hours.shift()[hours == 25].isin((24, 25)).all() else 23
        hours = hours - 1 if hours.max() == last + 1 and hours.min() > 0 else hours
        if not hours.between(0, last).all():
            return None
    return (hours.map("{:02d}:".format) + minutes.map("{:02d}".format)).astype("str")


def parts_of_hour(numbers: pd.Series) -> int:
    """Periods in an hour, 1, 2 or 4, of whole numbers from 1 to those in 23, 24 or 25 hours; 0 for others."""
    last = numbers.max() if len(numbers) and numbers.min() == 1 and numbers.nunique() == numbers.max() else 0
    return next((parts for parts in (1, 2, 4) if last in (23 * parts, 24 * parts, 25 * parts)), 0)


def of_the_day(cells: pd.Series) -> pd.Series | None:
    """The numbers of the hours of each day, or of halves or quarters of them, see `parts_of_hour`, as numbers or text
    such as H1; None for others."""
    if not is_integer_dtype(cells):
        text = text_of(cells).str.extract(r"^\s*[Hh][Ee]? ?(\d{1,2})\s*$")[0]
        cells = pd.to_numeric(text) if _is_text(cells) and text.notna().all() else pd.Series(dtype="int64")
    return cells if parts_of_hour(cells) else None


def _is_text(cells: pd.Series) -> bool:
    """Whether cells are text, or dates or times of day of Python."""
    is_object = cells.dtype == object and isinstance(cells.iloc[0] if len(cells) else "", str | date | time)
    return isinstance(cells.dtype, pd.StringDtype) or is_encoded(cells) or is_object


TIME_NAMES = {"date", "time", "timestamp", "datetime", "date_time", "ds", "dates", "times", "timestamps", "period"}
"""Column names (any case) for a time column."""

ROW_NUMBERS = {"no", "no.", "nr", "number", "index", "idx", "id", "row", "row_id", "rownum", "obs", "instant", "#", ""}
ROW_NUMBERS |= {"t", "step", "steps", "tick", "n", "i", "observation", "unnamed: 0"}
"""Column names (any case) for the numbers of rows."""

HEAD = 10_000
"""Number of rows by which columns of times are compared first."""

MOSTLY = 0.9
"""Minimum share of steps one way in a column of counts since 1970."""

_NUMBERS = r"(?<!\d)(?:19|20)\d\d(?!\d).*\d|\d.*(?<!\d)(?:19|20)\d\d(?!\d)|(?:19|20)\d{6}|\w\W+(?:19|20)\d\d$"
_NUMBERS += r"|^\d{1,2}\D\d{1,2}\D\d{1,2}(?:\D|$)"
"""Text with a year and another number or word, or of at least three numbers."""

_DATE = r"\s*(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})(?:\D|$)"

_BEGINS = re.compile(r"start|begin|open|from|von|since|d[eé]but|desde|inicio", re.IGNORECASE)
_ENDS = re.compile(r"end|stop|close|until|till|bis|fin|hasta|to(?:$|[\W_])", re.IGNORECASE)
"""Names of the beginnings and ends of intervals."""

LEAST_STEPS = 10
"""Minimum number of columns with numbered names that may be steps in time."""

_SHORT_YEAR = re.compile(r"\d{1,3}[-/.]\d{1,2}")
"""Cells such as 1-01, the first month of a first year."""


def find_time_column(table: Table, time_col: str | None) -> str:
    """`time_col`, otherwise the column of dates with the most detail, otherwise of years, otherwise of dates or counts
    since 1970 whose format must be set, otherwise of row numbers.

    A column of dates has one in its first cell. Those with a name in TIME_NAMES are preferred, unless another one has
    the same days and times of day. Of several that are alike, the one with the most distinct times is taken.

    Raises:
        InputError: there is none, or several that differ but are alike in this.
    """
    if time_col is not None:
        if time_col not in table.columns:
            raise table.missing("dataset.time_col", time_col)
        return time_col
    dated = dated_columns(table)
    named = [column for column in table.columns if column.strip("<> ").lower() in TIME_NAMES]
    numbers = [column for column in (named if dated else table.columns) if _are_dates(table.frame[column])]
    preferred = [column for column in named if column in (dated or numbers)] or dated
    preferred += numbers if dated else []
    # a column named time may contain times of day, next to one of dates; else it counts something
    if not preferred and not (named and _clocks(table.frame[named[0]], is_named=True) is None):
        parts = calendar_parts(table.columns)  # a year next to a day is a part of a time
        is_year = len(parts) == 1 and are_years(parts[0], table.frame[parts[0]]) and not month_columns(table.columns)
        preferred = [*(parts if is_year else []), *numbers]
    if preferred := preferred or named[:1]:
        best = _most_distinct(table, preferred)
        finer = [column for column in dated if column != best and _refines(table.frame[column], table.frame[best])]
        return _most_distinct(table, finer) if finer else best
    if unread := [column for column in table.columns if _is_unread(table.frame[column])]:
        return _most_distinct(table, unread)
    if counts := [column for column in table.columns if is_row_number(column) and counts_rows(table.frame[column])]:
        return counts[0]
    raise InputError(f"{table.name}: no time column found among {listed(table.columns)}; {_advice(table)}")


def _are_dates(cells: pd.Series) -> bool:
    """Whether numbers are times whatever the name of their column; days not all in one month, or hours not all of one
    day, where they may count something."""
    time_format = number_format("", cells) if is_numeric_dtype(cells) else None
    if time_format is None or not time_format.startswith("%Y%m%d"):
        return time_format is not None
    return (cells // 100 ** max(time_format.count("%") - 3, 1)).nunique() > 1


def _is_unread(cells: pd.Series) -> bool:
    """Whether cells are times in a format that is not recognised: whole numbers since 1970 that mostly rise or fall, or
    text of one form with a year or at least three numbers, which does not begin with one word, as names do."""
    if is_integer_dtype(cells):
        steps = cells.diff().iloc[1:]
        shares = [float((steps >= 0).mean()), float((steps <= 0).mean())] if len(steps) else [0.0]
        return (
            max(shares) >= MOSTLY
            and bool((steps.abs() > 1).any())
            and bool(usual_units(cells))
            and usual_units(cells) != [EXCEL]
        )
    texts = distinct(cells.iloc[:HEAD]).dropna() if len(cells) and _is_text(cells) else pd.Series(dtype="str")
    texts = texts.astype("str").str.strip()
    if len(texts) < 2 or not texts.str.contains(_NUMBERS).all():
        return False
    forms = texts.str.replace(r"[^\W\d]+\.?", "a", regex=True).str.replace(r"\d+", "1", regex=True)
    words = texts.str.extract(r"^([^\W\d]*)")[0]
    return forms.nunique() == 1 and (words.nunique() > 1 or not words.iloc[0])


def is_row_number(column: str) -> bool:
    """Whether a column is named after the number of a row."""
    return column.strip().lower() in ROW_NUMBERS


def counts_rows(cells: pd.Series) -> bool:
    """Whether whole numbers rise by equal steps from row to row, from the first one again for each series."""
    if len(cells) < 2 or not is_integer_dtype(cells) or cells.hasnans:
        return False
    steps = cells.diff().iloc[1:]
    again = cells.iloc[1:][steps != steps.iloc[0]]
    return bool(steps.iloc[0] >= 1 and cells.iloc[0] >= 0 and (again == cells.iloc[0]).all())


def dated_columns(table: Table) -> list[str]:
    """The columns whose first cell is a date, or whose cells are timestamps."""
    return [column for column in table.not_numeric if looks_dated(table.frame[column])]


def are_rising(cells: pd.Series) -> bool:
    """Whether cells are times that rise from row to row."""
    return is_datetime64_any_dtype(cells) and bool((np.diff(pd.DatetimeIndex(cells).asi8) > 0).all())


def looks_dated(cells: pd.Series) -> bool:
    """Whether the cells are timestamps, or the first one is a date."""
    if is_datetime64_any_dtype(cells):
        return True
    return not is_numeric_dtype(cells) and len(cells) > 0 and bool(date_formats(str(cells.array[0]).strip()))


def has_only_dates(cells: pd.Series) -> bool:
    """Whether all cells are text with a year of four digits, a month and a day, which no number looks like."""
    texts = distinct(cells).dropna()
    return is_string_dtype(texts) and len(texts) > 0 and bool(texts.str.match(_DATE).all())


def _most_distinct(table: Table, columns: list[str]) -> str:
    """The column with the most distinct times, of text rather than of numbers, which may be others; the first of
    columns with equal cells, and of two with the beginnings and ends of intervals.

    Raises:
        InputError: several have as many, but other cells.
    """
    for frame in (table.frame.iloc[:HEAD], table.frame):
        if len(columns) == 1:
            break
        numbers = {column: frame[column].nunique() for column in columns}
        columns = [column for column in columns if numbers[column] == max(numbers.values())]
        texts = [column for column in columns if not is_numeric_dtype(frame[column])]
        columns = texts or [column for column in columns if are_years(column, frame[column])] or columns
    first, *others = columns
    if len(others) == 1 and _begin(table.frame, first, others[0]):
        return first
    differing = [column for column in others if not decoded(table.frame[column]).equals(decoded(table.frame[first]))]
    if differing:
        settings = " or ".join(f"dataset.time_col={column}" for column in (first, *differing))
        raise InputError(
            f"{table.name}: times in the columns {listed([first, *differing])}; name one of them: {settings}"
        )
    return first


def _begin(frame: pd.DataFrame, first: str, last: str) -> bool:
    """Whether two columns are named after the beginnings and ends of intervals, and one begins where its neighbour
    ends, as do times when forecasts were issued and for which they hold."""
    if not (_BEGINS.search(first) and _ENDS.search(last)):
        return False
    cells, others = (decoded(frame[name].iloc[:HEAD]).reset_index(drop=True) for name in (first, last))
    if is_integer_dtype(cells) and is_integer_dtype(others):  # 999 milliseconds before the next one
        shares = [((cells.shift(step) - others).abs() <= 1).iloc[1:-1].mean() for step in (-1, 1)]
    else:
        shares = [(cells == others.shift(step)).iloc[1:-1].mean() for step in (1, -1)]
    return max(shares) >= MOSTLY and not cells.equals(others)


def _refines(cells: pd.Series, others: pd.Series) -> bool:
    """Whether cells have the days of the others, and more distinct times, with times of day that repeat: the times at
    which rows were written do not."""
    cells, others = (decoded(column.iloc[:HEAD]) for column in (cells, others))
    if cells.nunique() <= others.nunique():
        return False
    parts, days = (text_of(column).str.strip().str.extract(r"^([^ T]*)(.*)") for column in (cells, others))
    return parts[0].equals(days[0]) and 2 * parts[1].nunique() <= len(parts)


def _advice(table: Table) -> str:
    """What to do about a table without a time column."""
    if len(table.columns) == 1 and re.search(r"\S(?: {2,}|\t)\S", table.columns[0]):
        return (
            "its columns seem to be separated by blanks, and some cells to be empty: write NA in them, or "
            f"pandas.read_fwf({table.name!r}).to_csv('table.csv', index=False), and read that"
        )
    reading = f"such as pandas.read_csv({table.name!r})"
    steps = [name for name in without(table.columns, table.not_numeric) if re.fullmatch(r"[^\W\d]+_?\d+", name)]
    if len(steps) >= LEAST_STEPS and 2 * len(steps) > len(table.columns):
        columns = [column for column in table.columns if column not in steps]
        return (
            f"if {steps[0]} to {steps[-1]} are steps in time, write one row per step, {reading}.melt({columns}, "
            "var_name='date').assign(date=lambda frame: pandas.Timestamp('2024-01-01') + "
            "pandas.to_timedelta(frame['date'].str.extract(r'(\\d+)$')[0].astype(int), 'D'))"
            ".to_csv('steps.csv', index=False) with your first day"
        )
    for column, cells in table.frame.items():
        cell = str(cells.iloc[0]).strip() if len(cells) else ""
        if not is_numeric_dtype(cells) and _SHORT_YEAR.fullmatch(cell):
            return (
                f"times such as {shown(cell)} in column {column!r} have no year of four digits: write 2001-01 for the "
                "first month of the first year"
            )
        if is_numeric_dtype(cells) and digits_format(cells):
            return f"if {cell} in column {column!r} is a date, set dataset.time_col={column}"
        are_years = is_float_dtype(cells) and cells.between(YEARS.start, YEARS.stop).all()
        if are_years and 0.9 < 12 * cells.diff().median() < 1.1:
            month = f"{int(cells.iloc[0])}-{int(cells.iloc[0] % 1 * 12) + 1:02d}"
            return (
                f"years such as {cell} in column {column!r} need months: frame[{column!r}] = "
                f"pandas.date_range('{month}', periods=len(frame), freq='MS')"
            )
    parts = calendar_parts(table.columns)
    if len(parts) > 1:
        return (
            f"{listed(parts)} may be parts of a time, which needs a year of four digits, a month (or quarter, week, or "
            "day of year), and a day if there are hours; add what is missing, or name a time column with "
            "dataset.time_col"
        )
    first = table.columns[:1]
    numbers = f" (={first[0]} if it numbers the rows)" if first and counts_rows(table.frame[first[0]]) else ""
    return (
        f"name it with dataset.time_col{numbers}; if the file has none, add one, such as frame.insert(0, 'date', "
        "pandas.date_range('2024-01-01', periods=len(frame), freq='D'))"
    )
