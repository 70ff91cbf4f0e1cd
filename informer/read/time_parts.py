"""Times in several columns, or at the starts of intervals, made one column.

Years are joined with months, days and hours, with quarters, ISO weeks or days of the year; dates with times of day or
numbers of hours.
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
from pandas.api.types import is_bool_dtype, is_datetime64_any_dtype, is_float_dtype, is_integer_dtype, is_numeric_dtype

from informer.base.errors import TimeError
from informer.config.data import DatasetConfig
from informer.read.cells import decoded, distinct, is_encoded, text_of
from informer.read.date_text import date_formats, month_of
from informer.read.numbered_times import YEARS, digits_format
from informer.read.table import Table, shown

log = logging.getLogger(__name__)

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


def are_years(column: str, cells: pd.Series) -> bool:
    """Whether a column has the name of a year, and all its cells are years of four digits."""
    return _part(column) == "year" and len(cells) > 0 and repeats_calendar(column, cells)


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
        raise TimeError(
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
        raise TimeError(
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
        for to in _TO.finditer(first) if are_texts(cells) else ():
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
        if column in (time_col, *excluded) or clock_texts(cells, is_named=column in named) is None:
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
    clocks = clock_texts(frame[clock_col], is_named=True)
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
    if not are_texts(cells) or not (formats := date_formats(date)) or re.search("%[HI]", formats[-1]):
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


def clock_texts(cells: pd.Series, *, is_named: bool) -> pd.Series | None:
    """A column of times of day, hours or intervals as text; None if it has other cells.

    Args:
        is_named: whether its name says so, which numbers of hours need. Hours from 1 to 24 are numbers of intervals,
            the first of which begins at midnight.
    """
    if is_numeric_dtype(cells) and not is_bool_dtype(cells):
        return _hours(cells) if is_named else None
    if not are_texts(cells):
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
        cells = pd.to_numeric(text) if are_texts(cells) and text.notna().all() else pd.Series(dtype="int64")
    return cells if parts_of_hour(cells) else None


def are_texts(cells: pd.Series) -> bool:
    """Whether cells are text, or dates or times of day of Python."""
    is_object = cells.dtype == object and isinstance(cells.iloc[0] if len(cells) else "", str | date | time)
    return isinstance(cells.dtype, pd.StringDtype) or is_encoded(cells) or is_object


HEAD = 10_000
"""Number of rows by which columns of times are compared first."""
