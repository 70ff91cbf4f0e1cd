"""The format of a time column, and its instants.

A column has one format. Its first cell proposes some (`date_formats`), and that one is taken which reads all cells that
any of them reads. If several do, as for the first twelve days of a month, it is the only one with equal steps; dates
that start with the year are ISO 8601. What is still open is a question to the user. Numbers are dates or periods in
digits, counts since 1970, days of a spreadsheet, or numbers of rows. Local times and offsets from UTC are in `zones`.
"""

import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, product
from typing import Literal

import numpy as np
import pandas as pd
from jaxtyping import Float64
from pandas.api.types import is_datetime64_any_dtype, is_float_dtype, is_integer_dtype, is_numeric_dtype

from informer.base.errors import InputError, Repair, TimeError
from informer.config.data import (
    EPOCHS,
    EXCEL,
    HALF_YEAR,
    ISO,
    QUARTER,
    SEASON,
    STEP,
    WEEK,
    DatasetConfig,
    format_problems,
)
from informer.read import time_columns, time_parts
from informer.read.cells import PIECE, codes_of, distinct, is_encoded, text_of
from informer.read.date_text import date_formats, in_english, is_season, month_of, order
from informer.read.frequency import UNIT_NANOS, Frequency
from informer.read.numbered_times import USUAL, USUAL_DAYS, YEARS, are_whole, usual_units
from informer.read.table import Table, shown
from informer.read.workbook import DAYS_TO_1970
from informer.read.zones import OFFSET, in_zone, with_offsets, with_offsets_of_names

log = logging.getLogger(__name__)

FEWEST = 3
"""Minimum number of distinct times that determine a step."""

SAMPLED = 1000
"""Number of cells, spread over a column, that are tried before all of them."""

YEARS_SEEN = range(1500, 2200)
"""First numbers that are taken for years rather than for rows; those above USUAL_DAYS may be digits of dates."""

LAST_SHORT_YEAR = 2045
"""Last year that is written with two digits; 46 is 1946."""

LAST_DAY = 2_958_466
"""First spreadsheet day after the year 9999."""

_LAST = 1e9 * 86_400 * 365.25 * (YEARS.stop - 1970)
"""Nanoseconds from 1970 to the end of YEARS."""

_END_OF_DAY = r"([ T])24([:.]00)"
"""A time that ISO 8601 allows for the start of the next day."""


def times_of(
    table: Table, column: str, config: DatasetConfig, trained_format: str | None, groups: np.ndarray | None
) -> tuple[str | None, pd.DatetimeIndex]:
    """Format and times of a column; arguments and errors as of `find_format` and `parse_timestamps`."""
    time_format = find_format(table, column, config.time_format, trained_format=trained_format)
    return time_format, parse_timestamps(table, column, time_format, timezone=config.timezone, groups=groups)


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
        raise TimeError(problem)
    cells = table.frame[column]
    is_read = is_datetime64_any_dtype(cells)
    if is_read and configured is None and not table.is_frame:  # the times of a long text
        return ISO
    if configured is not None or is_read or not len(cells):
        return configured
    if is_numeric_dtype(cells):
        return _format_of_numbers(table, column, trained_format)
    formats = date_formats(str(cells.iloc[0]).strip())
    if not formats:
        raise _no_date(table, column)
    if len(formats) == 1:
        if trained_format != formats[0] and _may_be_days(table, column, formats[0]):
            raise TimeError(
                f"{table.name}, column {column!r}: cells such as {shown(cells.iloc[0])} may be days, whose year "
                f"is missing; if they are months and years, set dataset.time_format='{formats[0]}'"
            )
        return formats[0]
    if WEEK in formats[-1]:
        return trained_format if trained_format in formats else _period(table, column, formats)
    return _dated(table, column, formats, trained_format)


def _format_of_numbers(table: Table, column: str, trained_format: str | None) -> str:
    """The format of numbers. Days of a spreadsheet and counts of one unit since 1970 may be other numbers: the error
    says which they seem to be."""
    cells, units = table.frame[column], usual_units(table.frame[column])
    if units == [EXCEL] and (table.to_1970 or trained_format == EXCEL):
        begin = pd.Timestamp(-(table.to_1970 or DAYS_TO_1970), unit="D")
        log.info(f"{table.name}, column {column!r}: numbers of days since {begin:%Y-%m-%d} (dataset.time_format=excel)")
        return EXCEL
    if trained_format == STEP and is_integer_dtype(cells):
        return STEP
    if found := time_columns.number_format(column, cells):
        if found in EPOCHS:
            log.info(f"{table.name}, column {column!r}: counts of {' and of '.join(units)} since 1970")
        return found
    first = next(iter(cells[np.isfinite(cells.to_numpy(np.float64, na_value=np.nan))]), np.nan)
    start = f"{table.name}, column {column!r}: expected dates, found numbers such as {first}"
    if units:
        what, zone = ("spreadsheet days", "") if units == [EXCEL] else (f"counts of {units[0]} since 1970", " UTC")
        begin = _of_days([first], DAYS_TO_1970)[0].round("s") if not zone else pd.Timestamp(int(first), unit=units[0])
        raise TimeError(
            f"{start}; if these are {what}, starting at {begin}{zone}, set dataset.time_format={units[0]}; otherwise "
            "name the time column with dataset.time_col"
        )
    if time_columns.counts_rows(cells) and first < USUAL_DAYS[0] and first not in YEARS_SEEN:
        log.info("%s, column %r: numbers of rows instead of times (dataset.time_format=step)", table.name, column)
        return STEP
    known = _set_formats(table, column)
    usual = "(%Y, %Y%m%d, s, ms, us, ns since 1970, excel for spreadsheet dates, or step for numbers of rows)"
    raise TimeError(
        f"{start}; set dataset.time_format{'=' + ' or '.join(known) if known else ' ' + usual}, or name the "
        "time column with dataset.time_col",
        *([Repair("time_format", known[0])] if len(known) == 1 else []),
    )


def _dated(table: Table, column: str, formats: Sequence[str], trained_format: str | None) -> str:
    """The format of dates in one of several orders of day, month and year.

    Raises:
        InputError: the rows contradict each other or the training data, or leave the order ambiguous.
    """
    cells = table.frame[column]
    for sample in (cells.iloc[:: max(len(cells) // SAMPLED, 1)], cells):
        times = {each: _read_as(table, column, sample, each) for each in formats}
        masks = {each: np.asarray(parsed.notna()) for each, parsed in times.items()}
        readable = np.logical_or.reduce([*masks.values()])
        holding = [each for each in formats if readable.any() and (masks[each] == readable).all()]
        if len(holding) == 1:
            if trained_format in formats and trained_format != holding[0]:
                raise TimeError(
                    f"{table.name}, column {column!r}: expected dates like {trained_format} as in training, found "
                    f"dates like {holding[0]}; if that is right, set dataset.time_format='{holding[0]}'"
                )
            return holding[0]
    if not readable.any():
        raise _no_date(table, column)
    if not holding:
        best, other = sorted(formats, key=lambda each: -int(masks[each].sum()))[:2]
        before, row = sorted(int((masks[a] & ~masks[b]).argmax()) for a, b in ((best, other), (other, best)))
        raise TimeError(
            f"{table.at(row, column)}: day and month are swapped, {shown(cells.iloc[row])} against "
            f"{shown(cells.iloc[before])} in row {table.lines[before]}; use one order for all dates"
        )
    if trained_format is not None and (as_trained := [x for x in holding if order(x) == order(trained_format)]):
        return as_trained[0]
    has_short_years = any("%y" in each for each in holding)
    regular = [each for each in holding if not has_short_years and has_equal_steps(times[each])]
    # eight digits may start or end with their year
    starts_with_year = all(order(each)[0] == "year" for each in holding) and order(holding[0])[1] == "month"
    if starts_with_year and not has_short_years and (holding[0] in regular or not regular):
        return holding[0]
    if len(regular) == 1 and not starts_with_year:
        return regular[0]
    raise TimeError(
        f"{table.name}, column {column!r}: the order of day, month and year is ambiguous in all rows, such as "
        f"{shown(cells.iloc[0])}; set dataset.time_format={' or '.join(map(repr, holding))}"
    )


def _period(table: Table, column: str, formats: Sequence[str]) -> str:
    """The format of years with a number such as 1990-1: seasons such as 2003/04, if most are; ISO weeks, if some number
    is above 12; quarters, if more than four rows have the numbers 1 to 4; else months.

    Raises:
        InputError: the numbers 01 to 04 may be quarters, or the first months of each year.
    """
    cells = distinct(table.frame[column])
    times = {each: _read_as(table, column, cells, each) for each in formats}
    n_read = {each: int(np.count_nonzero(parsed.notna())) for each, parsed in times.items()}
    for season in filter(SEASON.fullmatch, formats):
        if 2 * n_read[season] > len(cells) > 1:
            return season
    if n_read[formats[-1]] > n_read[formats[0]]:
        return formats[-1]
    quarter, month = next((each for each in formats if QUARTER in each), None), times[formats[0]]
    if quarter is None or {*month.month.dropna()} != {1, 2, 3, 4} or month.nunique() <= 4:
        return formats[0]
    if f"0{QUARTER}" in quarter:
        raise TimeError(
            f"{table.name}, column {column!r}: cells such as {shown(cells.iloc[0])} may be months or quarters, since "
            f"none is above 04; set dataset.time_format='{quarter}' or '{formats[0]}'"
        )
    log.info(f"{table.name}, column {column!r}: numbers 1 to 4 are quarters (dataset.time_format='{quarter}')")
    return quarter


def _may_be_days(table: Table, column: str, time_format: str) -> bool:
    """Whether cells such as Jan-19, a month with a number, have the same month in most consecutive rows."""
    if not re.fullmatch("%[bB][^%]*%y", time_format):
        return False
    times = _read_as(table, column, table.frame[column].iloc[: time_parts.HEAD], time_format).dropna()
    changes = np.diff(times.year * 12 + times.month)
    return 2 * int((changes % 12 == 0).sum() - (changes == 0).sum()) > int((changes != 0).sum())


def has_equal_steps(times: pd.DatetimeIndex) -> bool:
    """Whether the distinct sorted times are one step apart."""
    unique = times[times.notna()].unique().sort_values()
    return len(unique) >= FEWEST and Frequency.closest(unique)[1] == len(unique)


def _read_as(table: Table, column: str, cells: pd.Series, time_format: str) -> pd.DatetimeIndex:
    """Some cells of a column with a format; NaT for those in another one."""
    return parse_timestamps(replace(table, frame=cells.to_frame(column)), column, time_format)


def _no_date(table: Table, column: str) -> InputError:
    cell = table.frame[column].iloc[0]
    formats = [] if pd.isna(cell) else _set_formats(table, column)  # none reads an empty cell
    is_worded = any(not month_of(word) for word in re.findall(r"[^\W\d_]{3,}", str(cell)))
    cure = f"set dataset.time_format={' or '.join(map(repr, formats))}" if formats else "set dataset.time_format"
    others = table.frame[column].dropna().head(1)
    cure = "fix the cell" if pd.isna(cell) else "write such dates" if is_worded and not formats else cure
    if len(others) == 0 or not pd.isna(cell) or not date_formats(str(others.iloc[0]).strip()):
        cure += ", or name the time column with dataset.time_col"
    return TimeError(
        f"{table.at(0, column)}: expected a date such as 2024-01-31 13:00, found {shown(cell)}; {cure}",
        *([Repair("time_format", formats[0])] if len(formats) == 1 else []),
    )


_DIRECTIVES = {
    **dict.fromkeys([1, 2], ("%d", "%m", "%H", "%M", "%S", "%y")),
    3: ("%j",),
    4: ("%Y", "%H%M"),
    6: ("%H%M%S", "%y%m%d", "%d%m%y", "%m%d%y", "%Y%m"),
    7: ("%Y%j",),
    8: ("%Y%m%d", "%d%m%Y", "%m%d%Y"),
}
"""What a number may be in a date, by its digits."""

MOST_NUMBERS = 7
"""Numbers of a date with a time of day, from the year to parts of a second."""
MOST_FORMATS = 10_000
"""Number of formats that are tried."""


def _set_formats(table: Table, column: str) -> list[str]:
    """Formats that read all cells of a column, which has none of `date_formats`; of several, those with equal steps."""
    cells = distinct(table.frame[column]).dropna()
    if is_integer_dtype(cells):  # which have lost their leading zeros
        cells = cells.astype("str").str.zfill(len(str(cells.max())))
    parts = re.split(r"(\d+|[^\W\d]+)", str(cells.iloc[0]).strip().replace("%", "%%")) if len(cells) else []
    if sum(map(str.isdigit, parts)) > MOST_NUMBERS:
        return []
    options = [
        _DIRECTIVES.get(len(part), ()) if part.isdigit() else ("%b" if month_of(part) else part,) for part in parts
    ]
    found: dict[str, pd.DatetimeIndex] = {}
    for choice in map("".join, islice(product(*options), MOST_FORMATS)):
        letters = "".join(re.findall("%([a-zA-Z])", choice))
        day = "j" in letters or ("d" in letters and {"m", "b"} & {*letters})
        is_time = {"Y", "y"} & {*letters} and day and re.sub("[^HMS]", "", letters) in ("", "HM", "HMS")
        if is_time and len({*letters}) == len(letters) and _read_as(table, column, cells[:1], choice).notna().all():
            found[choice] = _read_as(table, column, cells, choice)
    found = {time_format: times for time_format, times in found.items() if not times.hasnans}
    regular = [time_format for time_format, times in found.items() if has_equal_steps(times)]
    return regular if len(found) > 1 and regular else [*found]


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
    try:
        if time_format is None or is_datetime64_any_dtype(cells):
            times = pd.DatetimeIndex(cells, name=None)
        elif time_format == EXCEL:
            days = pd.to_numeric(cells, errors="coerce").to_numpy(np.float64, na_value=np.nan)
            times = _of_days(days, table.to_1970 or DAYS_TO_1970)
        elif time_format in EPOCHS:
            times = _of_counts(table, column, time_format)
        else:
            times = _of_text(table, column, time_format)
    except (ValueError, KeyError, re.error) as error:
        if isinstance(error, InputError):
            raise
        raise TimeError(
            f"{table.name}, column {column!r}: not readable as {time_format} ({error}); set dataset.time_format"
        ) from error
    counts = times.asi8  # their extremes need no copy, unlike those of times; a missing time is the smallest
    ends = [times[int(place)] for place in (counts.argmin(), counts.argmax())] if len(times) else []
    if not all(pd.notna(end) and end.year in YEARS for end in ends):
        times = pd.DatetimeIndex(times.where(times.year.isin(YEARS)))
    return times if timezone is None else in_zone(times, timezone, table, column, groups)


def _of_counts(table: Table, column: str, unit: str) -> pd.DatetimeIndex:
    """Times of counts since 1970; where these are of several units, those of `unit` are the finest."""
    counts = pd.to_numeric(table.frame[column], errors="coerce")
    if unit == STEP and (broken := (counts % 1 != 0) & counts.notna()).any():
        row = int(broken.to_numpy().argmax())
        cell = shown(table.frame[column].iloc[row])
        raise TimeError(f"{table.at(row, column)}: expected a whole number (dataset.time_format=step), found {cell}")
    if len(units := usual_units(counts)) > 1 and unit == units[-1]:
        for other in units[:-1]:
            counts = counts.mask(counts < USUAL[other][1], counts * (UNIT_NANOS[other] // UNIT_NANOS[unit]))
    if not is_float_dtype(counts):
        return pd.DatetimeIndex(pd.to_datetime(counts, unit=EPOCHS[unit], errors="coerce"), name=None)
    # in the finest unit that is exact: in ns, 1700000000.1 s would be 95 ns off
    nanos = counts.to_numpy(np.float64, na_value=np.nan) * float(pd.Timedelta(1, EPOCHS[unit]).value)
    nanos = np.where(np.abs(nanos) < _LAST, nanos, np.nan)
    noise = np.spacing(np.nanmax(np.abs(nanos), initial=0.0))
    finest: Literal["ns", "us", "ms"] = "ns" if noise < 1 else "us" if noise < 1_000 else "ms"
    rounded = np.round(nanos / pd.Timedelta(1, finest).value)
    return pd.to_datetime(rounded, unit=finest, errors="coerce").as_unit(finest)


def _of_days(cells: Float64[np.ndarray, " t"] | list[float], to_1970: int) -> pd.DatetimeIndex:
    """Times of spreadsheet days, of which `to_1970` are before 1970, rounded to minutes or seconds if all are within
    rounding error of these."""
    days = np.asarray(cells, np.float64)
    seconds = np.where(np.abs(days) < LAST_DAY, days, np.nan) * 86_400
    finite = seconds[np.isfinite(seconds)]
    for unit, noise in ((60, 0.5), (1, 0.1)):
        if (np.abs(finite - np.round(finite / unit) * unit) <= noise).all():
            seconds = np.round(seconds / unit) * unit
            break
    counts = np.round((seconds - to_1970 * 86_400) * 1000)
    return pd.to_datetime(counts, unit="ms", errors="coerce").as_unit("ms")


def _of_text(table: Table, column: str, time_format: str) -> pd.DatetimeIndex:
    """Times of text, and of digits as text."""
    cells = table.frame[column]
    if is_float_dtype(cells) and time_format == "%Y.%m":  # a number has lost the last zero of October
        cells = cells.map("{:.2f}".format, na_action="ignore")
    elif re.fullmatch("(?:%[YymdHMSj])+", time_format) and are_whole(cells):  # and its leading zeros
        width = sum({"Y": 4, "j": 3}.get(letter, 2) for letter in time_format[1::2])
        cells = cells.astype("Int64").astype("str").str.zfill(width)
    elif time_format == ISO and (plain := _plain_times(cells)) is not None:
        return plain
    codes, texts = None, cells
    if is_encoded(cells):
        codes, once = codes_of(cells)
        texts = pd.Series([*once.astype(str), None], dtype="str")  # the last for empty cells (code -1)
    elif not isinstance(cells.dtype, pd.StringDtype):
        texts = text_of(cells)
    is_named = time_format.endswith("%Z")
    if is_named:
        texts, time_format = with_offsets_of_names(texts, table, column), time_format.replace("%Z", "%z")
    no_dates = texts.isin(["now", "today"])  # which pandas reads with any format
    if time_format == ISO:
        no_dates |= texts.str.contains(r"^\s*[+-]", na=False)  # years with a sign
    texts = texts.mask(no_dates) if no_dates.any() else texts
    if time_format == ISO or "%z" in time_format:
        timed = texts[texts.str.contains(r"\d[Tt ]\d\d", na=False)]
        ends = timed.str.extract(rf"\d[Tt ]\d\d.*?({OFFSET})")[0].astype(object).unique()
        signs = (re.sub("[Zz]|UTC|GMT", "+00", str(end).strip()).replace(":", "").ljust(5, "0") for end in ends)
        if is_named or len({*signs}) > 1:
            times = with_offsets(texts, time_format, table, column)
            return times if len(ends) > 1 or not is_named else times.tz_convert("UTC")
    texts, time_format = _first_days(texts, time_format)
    first, *others = (
        _of_piece(texts.iloc[begin : begin + PIECE], time_format) for begin in range(0, max(len(texts), 1), PIECE)
    )
    times = pd.DatetimeIndex(first.append(others)) if others else first
    if "%y" in time_format and (late := np.asarray(times.year > LAST_SHORT_YEAR)).any():  # of the century before
        times = pd.DatetimeIndex(times.where(~late, times - pd.DateOffset(years=100)))
    times = times.tz_localize("UTC") if re.search(r"(?<!%)[Zz]$", time_format) else times
    return times if codes is None else times.take(codes)


def _plain_times(cells: pd.Series) -> pd.DatetimeIndex | None:
    """Times in ISO 8601 without offsets from UTC, all at once; None if a cell is another one."""
    import pyarrow
    import pyarrow.compute

    if not isinstance(cells.dtype, pd.StringDtype):
        return None
    try:
        text = pyarrow.array(cells, pyarrow.string(), from_pandas=True)
        return pd.DatetimeIndex(pyarrow.compute.cast(text, pyarrow.timestamp("us")).to_numpy(zero_copy_only=False))
    except pyarrow.ArrowInvalid:
        return None


def _of_piece(texts: pd.Series, time_format: str) -> pd.DatetimeIndex:
    """Times of text in one format of pandas, also with names of months in other languages, and with 24:00."""

    def read(cells: pd.Series, how: str) -> pd.DatetimeIndex:  # most are unique, so a cache would not pay off
        return pd.to_datetime(cells.to_numpy(dtype=object), format=how, errors="coerce", cache=False)

    times = read(texts, time_format)
    if not times.hasnans:
        return times
    rest, missing = texts[times.isna()], np.flatnonzero(times.isna())
    begins = rest.str.replace(_END_OF_DAY, r"\g<1>00\g<2>", regex=True)
    if (late := (begins != rest) & rest.notna()).any():
        next_days = read(begins[late], time_format) + pd.Timedelta("1D")
        times = _filled(times, missing[late], next_days)
    is_worded = rest.str.contains(r"[^\d\s:./,;T_+-]", na=False)
    if is_worded.any():
        short, worded = time_format.replace("%B", "%b").replace("%b.", "%b"), rest[is_worded]
        english = worded.map({cell: in_english(cell) for cell in worded.unique()})
        if short != time_format or (english != worded).any():
            times = _filled(times, missing[is_worded], read(english, short))
    return times


def _filled(times: pd.DatetimeIndex, places: np.ndarray, others: pd.DatetimeIndex) -> pd.DatetimeIndex:
    """The times with others at these places."""
    return times if others.isna().all() else pd.DatetimeIndex(pd.Series(times).fillna(pd.Series(others, places)))


def _first_days(texts: pd.Series, time_format: str) -> tuple[pd.Series, str]:
    """The first day of quarters, half years, seasons and ISO weeks, and its format; other cells and formats as they
    are."""
    if WEEK in time_format and not re.search("%[uwaA]", time_format):
        return texts + " 1", f"{time_format} %u"
    if SEASON.fullmatch(time_format):
        pattern, how = r"(?P<y>\d{4})[/.-](?P<last>\d\d|\d{4})", "%Y-%m"
    elif QUARTER in time_format:
        pattern = re.escape(time_format).replace("%Y", r"(?P<y>\d{4})").replace("%y", r"(?P<y>\d\d)")
        pattern = pattern.replace(f"{QUARTER}st", f"{QUARTER}(?:st|nd|rd|th)").replace(QUARTER, "(?P<q>[1-4])")
        how = "%y-%m" if "%y" in time_format else "%Y-%m"
    else:
        return texts, time_format
    n_months = 6 if HALF_YEAR.search(time_format) else 3
    months = dict[str, str]()
    for cell in texts.dropna().unique():
        match = re.fullmatch(pattern, cell.strip(), re.IGNORECASE)
        parts = match.groupdict() if match else {}
        if "q" in parts:
            months[cell] = f"{parts['y']}-{n_months * (int(parts['q']) - 1) + 1}"
        elif parts and is_season(parts["y"], parts["last"]):
            months[cell] = f"{parts['y']}-1"
    return texts.map(months), how
