"""Tables of odd layouts made plain, by one function for each reason.

Each of NORMALISERS takes a table and the settings of its dataset, and returns the table, changed or as it is; what it
changes is logged for the user. A new one needs its function, its place in the list, and a case in `tests/corpus`.
"""

import logging
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pandas as pd

from informer.base.errors import InputError, listed
from informer.config.data import DatasetConfig, key_columns
from informer.read import time_columns, time_parts
from informer.read.cells import decoded, dictionary_encoded, joined_names, without_words
from informer.read.columns import are_plain, number_columns
from informer.read.date_text import date_formats
from informer.read.dialect import TOTAL
from informer.read.number_marks import amounts, may_be_amount
from informer.read.table import Table, without
from informer.read.times import find_format, parse_timestamps
from informer.read.zones import ZONES

log = logging.getLogger(__name__)

LEAST_DATES = 4
"""Minimum number of columns named after dates that are read as rows."""

SHORTEST_DAY = 23
"""Hours of the shortest day."""

SAME_SUM = 5e-3
"""Relative difference up to which numbers are the sums of others, which may be rounded."""

_YEAR_NAME = re.compile(r"X?((?:1[5-9]|20|21)\d\d)(?: \[YR\d{4}\])?")
"""Years as names of columns, also as R and the World Bank write them."""


def prepared(table: Table, config: DatasetConfig) -> Table:
    """The table after all NORMALISERS: its times in one column, its numbers as such, a row for each time of a series.

    Raises:
        InputError: a column that a setting names is missing.
    """
    for normaliser in NORMALISERS:
        table = normaliser(table, config)
    return table


def without_excluded(table: Table, config: DatasetConfig) -> Table:
    """The table without the columns of `dataset.exclude`.

    Raises:
        InputError: one of them, or that of `dataset.clock_col`, is missing.
    """
    for column in without(config.exclude, table.columns):
        raise table.missing("dataset.exclude", column)
    if config.clock_col is not None and config.clock_col not in table.columns:
        raise table.missing("dataset.clock_col", config.clock_col)
    return table.without(config.exclude) if config.exclude else table


def with_missing_values(table: Table, config: DatasetConfig) -> Table:
    """The table with `dataset.missing_values` as missing values; those of CSV text are read as such already."""
    if not config.missing_values:
        return table
    excluded = {*config.as_text, config.time_col, config.clock_col}
    return replace(table, frame=without_words(table.frame, config.missing_values, excluded))


def with_labels(table: Table, config: DatasetConfig) -> Table:
    """The table with the labels of groups of rows in all their rows, if they are in the first one only, as in pivot
    tables and merged cells: the first columns, if the next one repeats, but not within the groups."""
    labels = dict[str, pd.Series]()
    for column in table.columns:
        cells = table.frame[column]
        n_empty = int(cells.isna().sum())
        if not n_empty or 2 * n_empty < len(cells) or pd.isna(cells.iloc[0]):
            break
        labels[column] = cells.ffill()
    if not labels or len(labels) == len(table.columns):
        return table
    rest = table.columns[len(labels)]
    rows = table.frame[[rest]].assign(**labels)
    if rows[rest].isna().any() or not rows[rest].duplicated().any() or rows.duplicated().any():
        return table
    note = f"cells of {listed([*labels])} in the first row of a group are those of all its rows"
    log.info("%s: %s", table.name, note)
    return replace(table, frame=table.frame.assign(**labels), dialect=table.dialect.noting(note))


def with_series_names(table: Table, series_col: str | None) -> Table:
    """The table with one column in place of those that name the series together.

    Raises:
        InputError: some of these columns are missing. (A table without all of them has a single series.)
    """
    keys = key_columns(series_col)
    lacking = without(keys, table.columns)
    if len(keys) < 2 or series_col in table.columns or len(lacking) == len(keys):
        return table
    if lacking:
        raise table.missing("dataset.series_col", lacking[0])
    frame = table.frame.drop(columns=keys)
    names = joined_names(table.frame[keys]).set_axis(frame.index)
    frame.insert(min(map(table.columns.index, keys)), series_col, names)
    return replace(table, frame=frame)


def with_amounts(table: Table, config: DatasetConfig) -> Table:
    """The table with numbers in place of text that is an amount or a number with a unit, see `amounts`."""
    unchanged = {*config.as_text, config.time_col, config.clock_col}
    changed, dialect = dict[str, np.ndarray](), table.dialect
    for column in without(table.not_numeric, unchanged) if len(table.frame) else ():
        cells = table.frame[column]
        if not may_be_amount(cells.iat[int(cells.notna().to_numpy().argmax())]):
            continue
        codes, texts = pd.factorize(cells)
        if all(isinstance(text, str) for text in texts) and (found := amounts(pd.Series(texts, dtype="str"))):
            changed[column] = np.append(found[0], np.nan)[codes]
            log.info("%s: column %r is read as numbers, %s", table.name, column, found[1])
            if found[1].startswith("<"):  # numbers that are not in the file
                dialect = dialect.noting(f"{column}: {found[1]}")
    return replace(table, frame=table.frame.assign(**changed), dialect=dialect) if changed else table


def years_as_rows(table: Table, config: DatasetConfig) -> Table:
    """The table with a row for each year and a column for each month, if it has them the other way round."""
    years = {column: int(year[1]) for column in table.columns if (year := _YEAR_NAME.fullmatch(column.strip()))}
    others = without(table.columns, years)
    if (
        config.time_col
        or not years
        or len(others) != 1
        or not time_parts.month_columns([*map(str, decoded(table.frame[others[0]]))])
    ):
        return table
    turned = table.frame.set_index(others[0])[[*years]].T.rename_axis(columns=None).rename(columns=str)
    turned.insert(0, "year", [*years.values()])
    return replace(table, frame=turned.set_axis(table.frame.index[:1].repeat(len(years))))


def with_parts_as_rows(table: Table, config: DatasetConfig) -> Table:
    """The table with a row for each month of a year, or for each hour of a date, instead of a column for each, unless
    one of these columns, or other times, are set in `config`.

    Numbers in columns after them, such as the mean of a year, are left out, and so are hours that only some days have
    where they are empty.
    """
    name, columns, parts = "month", time_parts.month_columns(table.columns), list[int | str](range(1, 13))
    if not columns:
        name, (columns, parts) = "hour", time_parts.hour_columns(table.columns)
    if not columns or {*columns} & {*(config.columns or []), *config.as_text, config.target}:
        return table
    rest = table.without(columns)
    if name == "month":
        parts_of_time = time_parts.calendar_parts(rest.columns)
        has_times = config.time_col is None and any(time_parts.are_years(x, rest.frame[x]) for x in parts_of_time)
    else:
        dated = time_columns.dated_columns(rest)
        has_times = config.clock_col is None and bool(dated) and config.time_col in (None, *dated)
    if not has_times or name in rest.columns or without(columns, number_columns(table, columns)):
        return table
    after = number_columns(table, table.columns[table.columns.index(columns[-1]) + 1 :])
    cells = table.frame[columns].to_numpy(np.float64 if are_plain(table, columns) else object)
    row, column = np.nonzero(pd.notna(cells) | (np.arange(len(columns)) < SHORTEST_DAY))
    long = rest.without(after).frame.iloc[row]
    value = "value" if "value" not in long.columns else "_value"
    long[name], long[value] = np.array(parts)[column], cells[row, column]
    line = f"{table.name}: {columns[0]} to {columns[-1]} are read as rows, as by pandas.melt, with {name!r} and "
    log.info(f"{line}{value!r}" + (f"; without {listed(after)}" if after else ""))
    return replace(table, frame=long)


def dates_as_rows(table: Table, config: DatasetConfig) -> Table:
    """The table with a row for each date of a row, from its first value on, instead of a column for each date.

    A row with the sums of the others that says so is left out.
    """
    dates = {} if config.time_col else _dates_as_columns(table)
    if not dates:
        return table
    frame = table.frame
    if are_plain(table, [*dates]):
        names = frame.drop(columns=[*dates]).astype(str)
        is_total = names.apply(lambda cells: cells.str.match(TOTAL)).any(axis=1)
        sums = frame.loc[~is_total, [*dates]].sum()
        is_total &= pd.Series(np.isclose(frame[[*dates]], sums, rtol=SAME_SUM).all(axis=1), index=frame.index)
        if is_total.any():
            note = f"not read: row {listed([*map(str, table.lines[is_total])])}, the sum of the others"
            frame = frame[~is_total]
            table = replace(table, frame=frame, dialect=table.dialect.noting(note))
    cells = frame[[*dates]].to_numpy(dtype=np.float64 if are_plain(table, [*dates]) else object)
    observed = pd.notna(cells)
    row, column = np.nonzero(np.logical_or.accumulate(observed, axis=1) & observed.any(axis=0))
    time_col, value = (name if name not in frame.columns else f"_{name}" for name in ("date", "value"))
    line = f"{table.name}: {len(dates)} columns named after dates are read as rows, as by pandas.melt, with "
    line += f"{time_col!r} and {value!r}"
    if len(empty := table.lines[~observed.any(axis=1)]):
        line += f"; without rows {listed([*map(str, empty)])}, which have no value"
    log.info(line)
    long = frame.drop(columns=[*dates]).iloc[row]
    times = dictionary_encoded(column, [*dates.values()]).set_axis(long.index)
    long[time_col], long[value] = times, cells[row, column]
    return replace(table, frame=long)


def _dates_as_columns(table: Table) -> dict[str, str]:
    """The dates by the columns that are named after them, if most columns are, and no other has times; else none."""
    dates = {}
    for column in table.columns:
        name = column.strip()
        if year := _YEAR_NAME.fullmatch(name):
            dates[column] = f"{year[1]}-01-01"
        elif date_formats(name):
            dates[column] = name
    others = without(table.columns, dates)
    if len(dates) < LEAST_DATES or len(dates) <= len(others) or without([*dates], number_columns(table, [*dates])):
        return {}
    rest = table.without(dates)
    has_times = time_columns.dated_columns(rest) or time_parts.calendar_parts(others)
    is_named = any(name.strip("<> ").lower() in time_columns.TIME_NAMES for name in others)
    are_months = any(time_parts.month_columns([*map(str, rest.frame[name])]) for name in others)
    return {} if has_times or is_named or are_months else dates


def _named(config: DatasetConfig) -> list[str]:
    """Columns that have another role than times."""
    return [*(config.columns or []), *config.as_text, *filter(None, [config.target, config.time_col])]


def time_col_of(table: Table, config: DatasetConfig) -> str | None:
    """The time column; None where that is a problem, which is reported with all others of the table."""
    with suppress(InputError):
        return time_columns.find_time_column(table, config.time_col)
    return None


def without_averages(table: Table, _config: DatasetConfig) -> Table:
    """The table without the averages of years next to months, quarters or half years, as M13, Q05, S03 (US BLS)."""
    for column in table.not_numeric if any(time_parts.calendar_parts(table.columns)) else ():
        cells = table.frame[column].astype("str")
        is_average = cells.isin(["M13", "Q05", "S03"])
        if is_average.any() and cells[~is_average].str.fullmatch(r"[MQS]\d\d").all():
            log.info("%s: the averages of years in %r are not read", table.name, column)
            return replace(table, frame=table.frame[~is_average])
    return table


def with_joined_calendar(table: Table, config: DatasetConfig) -> Table:
    """The table with one column of times in place of those of years, months, days and hours, if no other has dates."""
    if config.time_col is not None or time_columns.dated_columns(table):
        return table
    if not (parts := time_parts.find_calendar_columns(table, _named(config))):
        return table
    log.info("%s: times are joined from the columns %s", table.name, listed(list(parts.values())))
    return time_parts.joined_calendar(table, parts)


def without_row_numbers(table: Table, config: DatasetConfig) -> Table:
    """The table without a first column that is named after the number of the row and counts the rows, 1 by 1."""
    first, time_col = table.columns[0] if table.columns else "", time_col_of(table, config)
    if time_col is None or first in (time_col, *_named(config)) or not time_columns.is_row_number(first):
        return table
    cells = table.frame[first]
    if not (time_columns.counts_rows(cells) and cells.is_unique and cells.diff().max() == 1):
        return table
    log.info("%s: column %r numbers the rows, and is not used", table.name, first)
    return table.without([first])


def clocks_of_hours(table: Table, time_col: str, clock_col: str, config: DatasetConfig) -> pd.Series | None:
    """Local times for the numbers of the hours of each day, or of their halves or quarters, of which some day has 23
    or 25 hours; None without such a day, or if no zone has days of these lengths."""
    dates, hours = table.frame[time_col], time_parts.of_the_day(table.frame[clock_col])
    if hours is None:
        return None
    place = pd.factorize(dates)[0]
    lengths, parts = hours.groupby(place).max(), time_parts.parts_of_hour(hours)
    if (lengths.iloc[1:-1] == 24 * parts).all() and lengths.max() <= 24 * parts:
        return None
    days = parse_timestamps(table, time_col, find_format(table, time_col, config.time_format))
    if days.hasnans or days.tz is not None:
        return None
    once, first = np.unique(days, return_index=True)
    found = lengths.to_numpy()[place[first]]
    for zone in ZONES if config.timezone is None else [config.timezone]:
        begin, end = (
            pd.DatetimeIndex(each).tz_localize(zone, nonexistent="shift_forward", ambiguous=np.ones(len(once), bool))
            for each in (once, once + np.timedelta64(1, "D"))
        )
        expected = ((end - begin) // pd.Timedelta(hours=1) * parts).to_numpy()
        if (expected[1:-1] == found[1:-1]).all() and (found <= expected).all():
            past = pd.to_timedelta((hours.to_numpy() - 1) * (60 // parts), unit="min")
            return pd.Series((begin[np.searchsorted(once, days)] + past).strftime("%H:%M"), index=table.frame.index)
    return None


def with_joined_clock(table: Table, config: DatasetConfig) -> Table:
    """The table with the times of day of another column next to their dates."""
    if (time_col := time_col_of(table, config)) is None:
        return table
    clock_col = config.clock_col or time_parts.find_clock_column(table, time_col, _named(config))
    if clock_col in table.columns and clock_col != time_col:
        log.info("%s: times are the dates of %r with the times of day of %r", table.name, time_col, clock_col)
        with suppress(InputError):  # reported with all other problems of the table
            if (clocks := clocks_of_hours(table, time_col, clock_col, config)) is not None:
                table = replace(table, frame=table.frame.assign(**{clock_col: clocks}))
        return time_parts.joined(table, time_col, clock_col, keeps_digits=config.time_format is not None)
    dated = time_columns.dated_columns(table) if config.time_col is None else []
    if unused := without(dated, [time_col]):
        others = listed(unused)
        log.info("%s: times are those of %r, not of %s; dataset.time_col names another", table.name, time_col, others)
    return table


NORMALISERS: tuple[Callable[[Table, DatasetConfig], Table], ...] = (
    without_excluded,
    with_missing_values,
    with_labels,
    lambda table, config: with_series_names(table, config.series_col),
    time_parts.with_starts,
    with_amounts,
    years_as_rows,
    with_parts_as_rows,
    dates_as_rows,
    without_averages,
    with_joined_calendar,
    without_row_numbers,
    with_joined_clock,
)
"""In the order in which they are applied."""
