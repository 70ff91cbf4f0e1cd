"""Find the format of a time column, and parse it.

Choose among several date formats for a column: by all rows, then by the step between them.

A format is valid if no other one reads cells that it cannot read. If several are valid, as for the first twelve days of
a month, the only one with equal steps is chosen. Dates that start with the year are read as ISO 8601, unless the rows
contradict it.

Local times and clock changes: resolve repeated hours, and detect the time zone of a file.

When clocks are set back, an hour occurs twice; its second occurrence in the file is the later one. When they are set
forward, an hour is skipped.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import tzinfo
from itertools import islice, product
from typing import Literal

import numpy as np
import pandas as pd
from jaxtyping import Float64
from pandas.api.types import is_datetime64_any_dtype, is_float_dtype, is_integer_dtype, is_numeric_dtype

from informer.base.errors import InputError, Repair
from informer.config.data import EPOCHS, EXCEL, ISO, QUARTER, SEASON, STEP, WEEK, DatasetConfig, format_problems
from informer.read import time_columns
from informer.read.cells import PIECE, codes_of, distinct, is_encoded, text_of
from informer.read.date_text import HALF, date_formats, in_english, is_season, month_of, order
from informer.read.frequency import SECOND, UNIT_NANOS, Frequency, nanos_of
from informer.read.table import Table, shown
from informer.read.workbook import DAYS_TO_1970

log = logging.getLogger(__name__)


FEWEST = 3
"""Minimum number of distinct times that determine a step."""

_ISO_DATE = re.compile(r"\s*\d{4}-(\d\d)-(\d\d)")


def _settled(table: Table, column: str, formats: Sequence[str], trained_format: str | None) -> str:
    """The format of a column, among those that can read its first cell, the most common first.

    Raises:
        InputError: the rows contradict each other or the training data, or leave the order ambiguous.
    """
    cells = table.frame[column]
    if len(formats) == 1:
        if _may_be_days(table, column, formats[0]) and trained_format != formats[0]:
            raise InputError(
                f"{table.name}, column {column!r}: cells such as {shown(cells.iloc[0])} may be days, whose year "
                f"is missing; if they are months and years, set dataset.time_format='{formats[0]}'"
            )
        return formats[0]
    if WEEK in formats[-1]:
        return _period(table, column, formats) if trained_format not in formats else str(trained_format)
    if formats[0] == ISO and trained_format in (None, ISO) and _has_day_above_12(cells):
        return ISO
    for sample in (cells.iloc[: time_columns.HEAD], cells):  # the first ones suffice for most columns
        times = {time_format: _read_as(table, column, sample, time_format) for time_format in formats}
        holding = _holding(table, column, sample, times)
        if len(holding) == 1:
            if trained_format in formats and trained_format != holding[0]:
                raise InputError(
                    f"{table.name}, column {column!r}: expected dates like {trained_format} as in training, found "
                    f"dates like {holding[0]}; if that is right, set dataset.time_format='{holding[0]}'"
                )
            return holding[0]
    for time_format in holding:
        if trained_format is not None and order(time_format) == order(trained_format):
            return time_format
    return _by_step(table, column, {time_format: times[time_format] for time_format in holding})


def _read_as(table: Table, column: str, cells: pd.Series, time_format: str) -> pd.DatetimeIndex:
    """Some cells of a column with a format; NaT for those in another one."""
    return parse_timestamps(replace(table, frame=cells.to_frame(column)), column, time_format)


def _may_be_days(table: Table, column: str, time_format: str) -> bool:
    """Whether cells such as Jan-19, a month with a number, have the same month in most consecutive rows."""
    if "%d" in time_format or "%y" not in time_format or not re.search("%[bB]", time_format):
        return False
    times = _read_as(table, column, table.frame[column].iloc[: time_columns.HEAD], time_format).dropna()
    changes = np.diff(times.year * 12 + times.month)
    return 2 * int((changes % 12 == 0).sum() - (changes == 0).sum()) > int((changes != 0).sum())


def _period(table: Table, column: str, formats: Sequence[str]) -> str:
    """The format of years with a number such as 1990-1: seasons such as 2003/04, if most are; months; ISO weeks, if
    some number is above 12; or quarters, if more than four rows have the numbers 1 to 4.

    Raises:
        InputError: the numbers 01 to 04 may be quarters, or the first months of each year.
    """
    month, *others, week = formats
    quarter, cells = [each for each in others if QUARTER in each], distinct(table.frame[column])
    year = re.match(r"\s*\d{4}([/.-])", str(cells.iloc[0]))
    season = f"%Y{year[1]}%y" if year else ""
    if season and len(cells) > 1 and 2 * len(_read_as(table, column, cells, season).dropna()) > len(cells):
        return season
    times = _read_as(table, column, cells, month)
    if times.hasnans and len(_read_as(table, column, cells, week).dropna()) > len(times.dropna()):
        return week
    if not quarter or set(times.month.dropna()) != {1, 2, 3, 4} or times.nunique() <= 4:
        return month
    if f"0{QUARTER}" in quarter[0]:
        raise InputError(
            f"{table.name}, column {column!r}: cells such as {shown(cells.iloc[0])} may be months or quarters, since "
            f"none is above 04; set dataset.time_format='{quarter[0]}' or '{month}'"
        )
    log.info(f"{table.name}, column {column!r}: numbers 1 to 4 are quarters (dataset.time_format='{quarter[0]}')")
    return quarter[0]


def _has_day_above_12(cells: pd.Series) -> bool:
    """Fast check of ISO dates: the last part is above 12 in some row, the middle one never."""
    dates = distinct(cells).astype(str).str[:10].dropna().unique()
    month_days = [(int(match[1]), int(match[2])) for match in map(_ISO_DATE.match, dates) if match]
    return any(last > 12 for _, last in month_days) and not any(middle > 12 for middle, _ in month_days)


def _holding(table: Table, column: str, cells: pd.Series, times: Mapping[str, pd.DatetimeIndex]) -> list[str]:
    """The formats that read every cell that any of them reads.

    Raises:
        InputError: no cell is a date, or day and month are swapped between rows.
    """
    masks: dict[str, np.ndarray] = {time_format: np.asarray(parsed.notna()) for time_format, parsed in times.items()}
    readable = np.logical_or.reduce(list(masks.values()))
    if not readable.any():
        raise _no_date(table, column)
    holding = [time_format for time_format, mask in masks.items() if (mask == readable).all()]
    if holding:
        return holding
    best, other = sorted(masks, key=lambda time_format: -int(masks[time_format].sum()))[:2]
    first, second = (int((masks[a] & ~masks[b]).argmax()) for a, b in ((best, other), (other, best)))
    row, before = max(first, second), min(first, second)
    raise InputError(
        f"{table.at(row, column)}: day and month are swapped, {shown(cells.iloc[row])} against "
        f"{shown(cells.iloc[before])} in row {table.lines[before]}; use one order for all dates"
    )


def _by_step(table: Table, column: str, times: Mapping[str, pd.DatetimeIndex]) -> str:
    """The only format with equal steps; ISO 8601 if all formats start with the year.

    Raises:
        InputError: the order is ambiguous.
    """
    usual, two_digits = next(iter(times)), any("%y" in time_format for time_format in times)
    regular = [time_format for time_format, parsed in times.items() if not two_digits and has_equal_steps(parsed)]
    # eight digits may start or end with their year
    year_first = order(usual) == ("year", "month", "day") and all(
        order(time_format)[0] == "year" for time_format in times
    )
    if year_first and not two_digits and (usual in regular or not regular):
        return usual
    if len(regular) == 1 and not year_first:
        return regular[0]
    cell = shown(table.frame[column].iloc[0])
    choices = " or ".join(f"'{time_format}'" for time_format in times)
    raise InputError(
        f"{table.name}, column {column!r}: the order of day, month and year is ambiguous in all rows, such as {cell}; "
        f"set dataset.time_format={choices}"
    )


def has_equal_steps(times: pd.DatetimeIndex) -> bool:
    """Whether the distinct sorted times are one step apart."""
    unique = times[times.notna()].unique().sort_values()
    return len(unique) >= FEWEST and Frequency.closest(unique)[1] == len(unique)


ZONES = (
    "Europe/Berlin",
    "Europe/London",
    "Europe/Helsinki",
    "America/New_York",
    "America/Chicago",
    "America/Denver",
    "America/Los_Angeles",
    "Australia/Sydney",
    "America/Santiago",
    "Pacific/Auckland",
)
"""One zone for each rule of clock changes and offset from UTC, as far as these are usual; others cannot be told from
them. Of local times, without offsets, only the rule is known: the first zone with it."""

OFFSET = re.compile(r"(?:[Zz]|UTC|GMT|[+-]\d{2}(?::?\d{2})?)\s*$")
"""The end of a time with an offset from UTC."""

_CLOCK_OFFSET = re.compile(r"\d[Tt ]\d\d.*?([Zz]|UTC|GMT|[+-]\d{2}(?::?\d{2})?)\s*$")
"""A date and a time of day with an offset from UTC."""

HOUR = 3600 * SECOND


def in_zone(
    times: pd.DatetimeIndex, zone: str, table: Table, column: str, groups: np.ndarray | None = None
) -> pd.DatetimeIndex:
    """Localize local times to a zone; times with an offset are converted.

    Args:
        times: times of the rows of a table; NaT stays.
        zone: time zone, such as Europe/Berlin.
        table, column: for errors.
        groups: name of the series of each row; None: one series.

    Raises:
        InputError: a local time that does not exist in the zone.
    """
    if times.tz is not None:
        return times.tz_convert(zone)
    local = _localized(times, zone, groups)
    left_out = np.flatnonzero(np.asarray(local.isna()) & np.asarray(times.notna()))
    if len(left_out):
        row = int(left_out[0])
        more = f" ({len(left_out)} such rows)" if len(left_out) > 1 else ""
        raise InputError(
            f"{table.at(row, column)}: {times[row]} does not exist in {zone}, where clocks were set forward{more}; "
            "remove the row, or set the zone that the times are in, dataset.timezone"
        )
    return local


def _localized(times: pd.DatetimeIndex, zone: str, groups: np.ndarray | None) -> pd.DatetimeIndex:
    """Local times in a zone; NaT for times that do not exist in it."""
    keys = {"time": times} if groups is None else {"time": times, "group": groups}
    repeats = pd.DataFrame(keys).duplicated().to_numpy()
    present = times[times.notna()]
    goes_back = len(present) > 1 and present[0] > present[-1]
    return times.tz_localize(zone, ambiguous=repeats if goes_back else ~repeats, nonexistent="NaT")


def clocks_of_hours(table: Table, time_col: str, clock_col: str, config: DatasetConfig) -> pd.Series | None:
    """Local times for the numbers of the hours of each day, or of their halves or quarters, of which some day has 23
    or 25 hours; None without such a day, or if no zone has days of these lengths."""
    dates, hours = table.frame[time_col], time_columns.of_the_day(table.frame[clock_col])
    if hours is None:
        return None
    lengths, parts = hours.groupby(pd.factorize(dates)[0]).max(), time_columns.parts_of_hour(hours)
    if (lengths.iloc[1:-1] == 24 * parts).all() and lengths.max() <= 24 * parts:
        return None
    time_format = find_format(table, time_col, config.time_format)
    days = parse_timestamps(table, time_col, time_format)
    if days.hasnans or days.tz is not None:
        return None
    once, first = np.unique(days, return_index=True)
    found, inner = lengths.to_numpy()[pd.factorize(dates)[0][first]], slice(1, -1)
    for zone in ZONES if config.timezone is None else [config.timezone]:
        begin, end = (
            pd.DatetimeIndex(each).tz_localize(zone, nonexistent="shift_forward", ambiguous=np.ones(len(once), bool))
            for each in (once, once + np.timedelta64(1, "D"))
        )
        expected = ((end - begin) // pd.Timedelta(hours=1) * parts).to_numpy()
        if (expected[inner] == found[inner]).all() and (found <= expected).all():
            local = begin[np.searchsorted(once, days)] + pd.to_timedelta(
                (hours.to_numpy() - 1) * (60 // parts), unit="min"
            )
            return pd.Series(local.strftime("%H:%M"), index=table.frame.index)
    return None


def with_offsets(text: pd.Series, time_format: str, table: Table, column: str) -> pd.DatetimeIndex:
    """Times with different UTC offsets, in the zone of ZONES with these offsets, otherwise in UTC.

    Raises:
        InputError: some have no offset.
    """
    bare = np.flatnonzero(~text.str.contains(OFFSET).to_numpy(dtype=bool, na_value=True))
    if len(bare):
        raise InputError(
            f"{table.at(int(bare[0]), column)}: expected an offset from UTC as in other rows, found "
            f"{shown(text.iloc[bare[0]])}; use one time zone, such as UTC, for all rows"
        )
    times = pd.DatetimeIndex(pd.to_datetime(text.to_numpy(dtype=object), format=time_format, errors="coerce", utc=True))
    # such as +01:00, +0100 or +01, in minutes; 0 without one
    parts = text.str.extract(r"([+-])(\d{2}):?(\d{2})?\s*$").fillna("0")
    sizes = parts[1].astype(int) * 60 + parts[2].astype(int)
    offsets = np.where(parts[0] == "-", -sizes, sizes)
    for zone in ZONES:
        local = times.tz_convert(zone)
        own = ((local.tz_localize(None) - times.tz_localize(None)) / pd.Timedelta("1min")).to_numpy()
        if (own == offsets)[times.notna()].all():
            return local
    return times


def changing_zone(times: pd.DatetimeIndex) -> str | None:
    """The zone whose clock changes explain every repeated and every missing time; None without such changes.

    Args:
        times: local times of one series, in the order of the file.
    """
    if len(times) < 3 or times.tz is not None or times.hasnans:
        return None
    distinct = times.unique().sort_values()
    if len(distinct) < 2:
        return None
    frequency, _ = Frequency.closest(distinct)
    nanos = nanos_of(frequency.offset)
    if nanos is None or nanos > HOUR or not (times.has_duplicates or leaves_hours_out(times)):
        return None
    for zone in ZONES:
        local = _localized(times, zone, None)
        if not local.hasnans and local.is_monotonic_increasing and (frequency.strides(local) == 1).all():
            return zone
    return None


def zone_advice(zone: str) -> str:
    """What to set for local times with the clock changes of a zone."""
    return f"set dataset.timezone={zone}, or another zone with the same clock changes"


def check_zones(name: str, zone: tzinfo | str | None, other: tzinfo | str | None, where: str) -> None:
    """Check that times which are compared have a time zone both, or neither.

    Args:
        name: what has the times in `zone`.
        where: what has the times in `other`.

    Raises:
        InputError: only one of them has a zone.
    """
    if (zone is None) != (other is None):
        expected, found = ("without a time zone" if each is None else f"in {each}" for each in (other, zone))
        cure = "set their zone, such as dataset.timezone=UTC" if zone is None else "write them without a zone"
        raise InputError(f"{name}: expected times {expected} as in {where}, found times {found}; {cure}")


def leaves_hours_out(times: pd.DatetimeIndex) -> bool:
    """Whether steps are equal but for some that are an hour longer, as when clocks are set forward."""
    steps, hour = np.diff(times.asi8), HOUR // UNIT_NANOS[times.unit]
    low, high = steps.min(), steps.max()
    return bool(0 < low <= hour and high == low + hour and ((steps == low) | (steps == high)).all())


LAST_DAY = 2_958_466
"""First spreadsheet day after the year 9999."""

_LAST = 1e9 * 86_400 * 365.25 * (time_columns.YEARS.stop - 1970)
"""Nanoseconds from 1970 to the end of YEARS."""

_END_OF_DAY = r"[ T]24(?:[:.]00)+"
"""A time that ISO 8601 allows for the start of the next day."""

LAST_SHORT_YEAR = 2045
"""Last year that is written with two digits; 46 is 1946."""

_WORD = re.compile(r"\s*(?:[A-Za-z]+|[+-].*)\s*$")
"""Cells that pandas reads as a time with any format (now, today), and years with a sign."""


YEARS_SEEN = range(1500, 2200)
"""First numbers that are taken for years rather than for rows; those above USUAL_DAYS may be digits of dates."""


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
    is_read = is_datetime64_any_dtype(table.frame[column])
    if is_read and configured is None and not table.is_frame:  # the times of a long text
        return ISO
    if configured is not None or is_read or not len(table.frame):
        return configured

    may_be_days = is_numeric_dtype(table.frame[column]) and (table.to_1970 or trained_format == EXCEL)
    if may_be_days and time_columns.usual_unit(table.frame[column]) == EXCEL:
        begin = pd.Timestamp(-(table.to_1970 or DAYS_TO_1970), unit="D")
        log.info(f"{table.name}, column {column!r}: numbers of days since {begin:%Y-%m-%d} (dataset.time_format=excel)")
        return EXCEL
    if trained_format == STEP and is_integer_dtype(table.frame[column]):
        return STEP
    return _settled(table, column, _formats(table, column), trained_format)


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
    counts = times.asi8  # their extremes need no copy, unlike those of times; a missing time is the smallest
    ends = [times[int(place)] for place in (counts.argmin(), counts.argmax())] if len(times) else []
    if not all(pd.notna(end) and end.year in time_columns.YEARS for end in ends):
        times = pd.DatetimeIndex(times.where(times.year.isin(time_columns.YEARS)))
    return times if timezone is None else in_zone(times, timezone, table, column, groups)


def times_of(
    table: Table, column: str, config: DatasetConfig, trained_format: str | None, groups: np.ndarray | None
) -> tuple[str | None, pd.DatetimeIndex]:
    """Format and times of a column; arguments and errors as of `find_format` and `parse_timestamps`."""
    time_format = find_format(table, column, config.time_format, trained_format=trained_format)
    return time_format, parse_timestamps(table, column, time_format, timezone=config.timezone, groups=groups)


def _formats(table: Table, column: str) -> tuple[str, ...]:
    """Possible formats of the first cell."""
    cells = table.frame[column]
    if time_columns.are_years(column, cells):
        return ("%Y",)
    if digits := time_columns.numbered_periods(cells) or time_columns.digits_format(cells):
        return (digits,)
    if is_numeric_dtype(cells):
        first = next(iter(cells[np.isfinite(cells.to_numpy(np.float64, na_value=np.nan))]), np.nan)
        start = f"{table.name}, column {column!r}: expected dates, found numbers such as {first}"
        unit = time_columns.usual_unit(cells)
        if unit == EXCEL:
            begin = _of_days(np.array([first], np.float64), DAYS_TO_1970)[0].round("s")
            raise InputError(
                f"{start}; if these are spreadsheet days, starting at {begin}, set dataset.time_format=excel; "
                "otherwise name the time column with dataset.time_col"
            )
        if unit is not None:
            begin = pd.Timestamp(int(first), unit=EPOCHS[unit])
            raise InputError(
                f"{start}; if these are counts of {unit} since 1970, starting at {begin} UTC, set "
                f"dataset.time_format={unit}; otherwise name the time column with dataset.time_col"
            )
        if time_columns.counts_rows(cells) and first < time_columns.USUAL_DAYS[0] and first not in YEARS_SEEN:
            log.info("%s, column %r: numbers of rows instead of times (dataset.time_format=step)", table.name, column)
            return (STEP,)
        known = _set_formats(table, column)
        usual = "(%Y, %Y%m%d, s, ms, us, ns since 1970, excel for spreadsheet dates, or step for numbers of rows)"
        raise InputError(
            f"{start}; set dataset.time_format{'=' + ' or '.join(known) if known else ' ' + usual}, or name the "
            "time column with dataset.time_col",
            *([Repair("time_format", known[0])] if len(known) == 1 else []),
        )
    formats = date_formats(str(cells.iloc[0]).strip())
    if not formats:
        raise _no_date(table, column)
    return formats


def _no_date(table: Table, column: str) -> InputError:
    cell, formats = table.frame[column].iloc[0], _set_formats(table, column)
    is_worded = any(not month_of(word) for word in re.findall(r"[^\W\d_]{3,}", str(cell)))
    cure = f"dataset.time_format={' or '.join(map(repr, formats))}" if formats else "dataset.time_format"
    return InputError(
        f"{table.at(0, column)}: expected a date such as 2024-01-31 13:00, found {shown(cell)}; "
        f"{'write such dates' if is_worded and not formats else f'set {cure}'}, or name the time column with "
        "dataset.time_col",
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

MOST_FORMATS = 10_000
"""Number of formats that are tried."""


def _set_formats(table: Table, column: str) -> list[str]:
    """Formats that read all cells of a column, which has none of `date_formats`; of several, those with equal steps."""
    cells = distinct(table.frame[column]).dropna()
    if is_integer_dtype(cells):  # which have lost their leading zeros
        cells = cells.astype("str").str.zfill(len(str(cells.max())))
    parts = re.split(r"(\d+|[^\W\d]+)", str(cells.iloc[0]).strip().replace("%", "%%")) if len(cells) else []
    options = [
        _DIRECTIVES.get(len(part), ()) if part.isdigit() else ("%b" if month_of(part) else part,) for part in parts
    ]
    found: dict[str, pd.DatetimeIndex] = {}
    for choice in islice(product(*options), MOST_FORMATS):
        letters = re.findall("%([a-zA-Z])", "".join(choice))
        clock = [letter for letter in letters if letter in "HMS"]
        has_day = {"Y", "y"} & {*letters} and ("j" in letters or ("d" in letters and {"m", "b"} & {*letters}))
        if len({*letters}) < len(letters) or not has_day or clock not in ([], [*"HM"], [*"HMS"]):
            continue
        for sample in (cells.iloc[:1], cells):
            times = _read_as(table, column, sample, "".join(choice))
            if times.hasnans:
                break
        else:
            found["".join(choice)] = times
    regular = [time_format for time_format, times in found.items() if has_equal_steps(times)]
    return regular if len(found) > 1 and regular else [*found]


def _parse(table: Table, column: str, time_format: str) -> pd.DatetimeIndex:
    cells = table.frame[column]
    try:
        if time_format == EXCEL:
            days = pd.to_numeric(cells, errors="coerce").to_numpy(np.float64, na_value=np.nan)
            return _of_days(days, table.to_1970 or DAYS_TO_1970)
        if time_format in EPOCHS:
            counts = pd.to_numeric(cells, errors="coerce")
            if time_format == STEP and (broken := (counts % 1 != 0) & counts.notna()).any():
                row = int(broken.to_numpy().argmax())
                raise InputError(
                    f"{table.at(row, column)}: expected a whole number (dataset.time_format=step), found "
                    f"{shown(cells.iloc[row])}"
                )
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
    if is_float_dtype(cells) and time_format == "%Y.%m":  # a number has lost the last zero of October
        cells = cells.map("{:.2f}".format)
    if re.fullmatch("(?:%[YymdHMSj])+", time_format) and time_columns.are_whole(cells):
        # a number has lost its leading zeros
        width = sum({"Y": 4, "j": 3}.get(letter, 2) for letter in time_format[1::2])
        cells = cells.astype("Int64").astype("str").str.zfill(width)
    if time_format.endswith("%Z"):
        return _with_names(text_of(cells), time_format, table, column)
    if time_format == ISO and (plain := _plain_times(cells)) is not None:
        return plain
    codes, texts = None, cells
    if is_encoded(cells):
        codes, once = codes_of(cells)
        texts = pd.Series([*once.astype(str), None], dtype="str")  # the last for empty cells (code -1)
    begins = range(0, max(len(texts), 1), PIECE)
    try:
        first, *others = (_times_of(texts.iloc[begin : begin + PIECE], time_format) for begin in begins)
        if not isinstance(times := first.append(others) if others else first, pd.DatetimeIndex):
            raise ValueError("several offsets from UTC")
    except ValueError:
        if time_format != ISO and "%z" not in time_format:
            raise
        return with_offsets(text_of(cells), time_format, table, column)
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


def _with_names(text: pd.Series, time_format: str, table: Table, column: str) -> pd.DatetimeIndex:
    """Times with names of offsets, such as CET and CEST; in UTC if this is the only name."""
    names = text.str.extract(r"([A-Z]+)\s*$")[0]
    days = [pd.Timestamp(2024, month, 1, tz=zone) for zone in ("UTC", *ZONES) for month in (1, 7)]
    offsets = {str(day.tzname()): day.strftime("%z") for day in days} | {"MEZ": "+0100", "MESZ": "+0200"}
    bare = np.flatnonzero(text.notna() & ~names.isin(offsets))
    if len(bare):
        raise InputError(
            f"{table.at(int(bare[0]), column)}: expected the name of a time zone such as CET, CEST, EST or EDT, found "
            f"{shown(text.iloc[bare[0]])}; write offsets from UTC, such as +01:00"
        )
    numbered = text.str.replace(HALF, r" \1m", regex=True).str.replace(r"[A-Z]+\s*$", "", regex=True)
    numbered += names.map(offsets)
    times = with_offsets(numbered, time_format.replace("%Z", "%z"), table, column)
    return times if names.nunique() > 1 else times.tz_convert("UTC")


def _times_of(cells: pd.Series, time_format: str) -> pd.DatetimeIndex:
    text = cells if isinstance(cells.dtype, pd.StringDtype) else text_of(cells)
    objects = text.to_numpy(dtype=object)
    # cells that are empty, or text that pandas reads as a time although it is not a date
    are_dates = (isinstance(cell, str) and (cell[:1].isdigit() or not _WORD.match(cell)) for cell in objects.tolist())
    no_date = ~np.fromiter(are_dates, dtype=bool, count=len(objects))
    if _mixes_offsets(objects[~no_date]):
        raise ValueError("several offsets from UTC")
    objects, time_format = _starts(objects, time_format)
    # most times are unique, so a cache would not pay off
    times = pd.to_datetime(objects, format=time_format, errors="coerce", cache=False)
    if times.hasnans:  # months in other languages, or with a weekday
        times = _with_names_of_months(times, objects, time_format)
    if times.hasnans and (late := text.str.contains(_END_OF_DAY).to_numpy(dtype=bool, na_value=False)).any():
        begins = np.array([re.sub(r"([ T])24(?=[:.]00)", r"\g<1>00", cell) for cell in text[late]], dtype=object)
        next_days = pd.to_datetime(begins, format=time_format, errors="coerce", cache=False) + pd.Timedelta("1D")
        times = pd.DatetimeIndex(pd.Series(times).mask(late, pd.Series(next_days, np.flatnonzero(late))))
    if no_date.any():
        times = pd.DatetimeIndex(times.where(~no_date))
    if "%y" in time_format and (late := np.asarray(times.year > LAST_SHORT_YEAR)).any():  # of the century before
        times = pd.DatetimeIndex(times.where(~late, times - pd.DateOffset(years=100)))
    return times.tz_localize("UTC") if re.search(r"(?<!%)[Zz]$", time_format) else times


def _mixes_offsets(dates: np.ndarray) -> bool:
    """Whether the first time has an offset from UTC, and others have another one or none.

    pandas 2 warns about several offsets, and gives a time without one that of the others.
    """
    if not len(dates) or not _CLOCK_OFFSET.search(str(dates[0])):
        return False
    ends = {(match := _CLOCK_OFFSET.search(str(date))) and match[1] for date in dates}
    return len({end and re.sub("[Zz]|UTC|GMT", "+00", end).replace(":", "").ljust(5, "0") for end in ends}) > 1


def _with_names_of_months(times: pd.DatetimeIndex, cells: np.ndarray, time_format: str) -> pd.DatetimeIndex:
    """The times with those of missing ones that can be read `in_english`."""
    short = time_format.replace("%B", "%b").replace("%b.", "%b")
    texts = {int(row): in_english(str(cells[row])) for row in np.flatnonzero(times.isna())}
    english = {row: text for row, text in texts.items() if short != time_format or text != cells[row]}
    if not english:
        return times
    read = pd.to_datetime(np.array([*english.values()], dtype=object), format=short, errors="coerce", cache=False)
    return times if read.isna().all() else pd.DatetimeIndex(pd.Series(times).fillna(pd.Series(read, [*english])))


def _starts(cells: np.ndarray, time_format: str) -> tuple[np.ndarray, str]:
    """The first day of quarters, seasons and ISO weeks, and its format; other cells and formats as they are."""
    if SEASON.fullmatch(time_format):
        years = [re.fullmatch(r"\s*(\d{4})[/.-](\d\d|\d{4})\s*", str(cell)) for cell in cells]
        return np.array([year[1] if year and is_season(*year.groups()) else None for year in years], dtype=object), "%Y"
    if QUARTER in time_format:
        pattern = re.escape(time_format).replace("%Y", r"(?P<year>\d{4})").replace("%y", r"(?P<year>\d\d)")
        pattern = pattern.replace(f"{QUARTER}st", f"{QUARTER}(?:st|nd|rd|th)").replace(QUARTER, "(?P<quarter>[1-4])")
        matches = [re.fullmatch(pattern, str(cell).strip(), re.IGNORECASE) for cell in cells]
        days = [None if match is None else f"{match['year']}-{3 * int(match['quarter']) - 2}-01" for match in matches]
        return np.array(days, dtype=object), "%y-%m-%d" if "%y" in time_format else "%Y-%m-%d"
    if WEEK in time_format and not re.search("%[uwaA]", time_format):
        return np.array([f"{cell} 1" for cell in cells], dtype=object), f"{time_format} %u"
    return cells, time_format


def _of_days(days: Float64[np.ndarray, " t"], to_1970: int) -> pd.DatetimeIndex:
    """Times of spreadsheet days, of which `to_1970` are before 1970, rounded to minutes or seconds if all are within
    rounding error of these."""
    seconds = np.where(np.abs(days) < LAST_DAY, days, np.nan) * 86_400
    finite = seconds[np.isfinite(seconds)]
    for unit, noise in ((60, 0.5), (1, 0.1)):
        if (np.abs(finite - np.round(finite / unit) * unit) <= noise).all():
            seconds = np.round(seconds / unit) * unit
            break
    counts = np.round((seconds - to_1970 * 86_400) * 1000)
    return pd.to_datetime(counts, unit="ms", errors="coerce").as_unit("ms")


def _of_floats(counts: Float64[np.ndarray, " t"], unit: Literal["s", "ms", "us", "ns"]) -> pd.DatetimeIndex:
    """Times of float counts since 1970, in the finest unit that is exact: in ns, 1700000000.1 s would be 95 ns off."""
    nanos = counts * float(pd.Timedelta(1, unit).value)
    nanos = np.where(np.abs(nanos) < _LAST, nanos, np.nan)
    noise = np.spacing(np.nanmax(np.abs(nanos), initial=0.0))
    finest: Literal["ns", "us", "ms"] = "ns" if noise < 1 else "us" if noise < 1_000 else "ms"
    rounded = np.round(nanos / pd.Timedelta(1, finest).value)
    return pd.to_datetime(rounded, unit=finest, errors="coerce").as_unit(finest)
