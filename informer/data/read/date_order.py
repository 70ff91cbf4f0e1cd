"""Choose among several date formats for a column: by all rows, then by the step between them.

A format is valid if no other one reads cells that it cannot read. If several are valid, as for the first twelve days of
a month, the only one with equal steps is chosen. Dates that start with the year are read as ISO 8601, unless the rows
contradict it.
"""

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from informer.config.file_format import ISO
from informer.data.read.cells import distinct
from informer.data.read.date_text import order
from informer.data.read.frequency import Frequency
from informer.data.read.table import Table, shown
from informer.errors import InputError

HEAD = 10_000
"""Number of rows checked first; they suffice for most columns."""

PIECE = 1 << 18
"""Number of rows whose dates are extracted at once."""

FEWEST = 3
"""Minimum number of distinct times that determine a step."""

_ISO_DATE = re.compile(r"\s*\d{4}-(\d\d)-(\d\d)")

Parse = Callable[[pd.Series, str], pd.DatetimeIndex]
"""Parses cells with a format; NaT for cells in another format."""


def settle(
    table: Table, column: str, formats: Sequence[str], parse: Parse, *, trained_format: str | None = None
) -> str:
    """The format of a column, among those that can read its first cell.

    Args:
        table, column: the column.
        formats: candidates, the most common first.
        parse: parses cells.
        trained_format: format of a model's training data, which resolves ambiguity.

    Raises:
        InputError: the rows contradict each other or the training data, or leave the order ambiguous.
    """
    if len(formats) == 1:
        return formats[0]
    cells = table.frame[column]
    if formats[0] == ISO and trained_format in (None, ISO) and _has_day_above_12(cells):
        return ISO
    for sample in (cells.iloc[:HEAD], cells):
        times = {time_format: parse(sample, time_format) for time_format in formats}
        holding = _holding(table, column, sample, times)
        if len(holding) == 1:
            return _as_trained(table, column, holding[0], formats, trained_format)
    alike = [
        time_format
        for time_format in holding
        if trained_format is not None and order(time_format) == order(trained_format)
    ]
    if alike:
        return alike[0]
    return _by_step(table, column, {time_format: times[time_format] for time_format in holding})


def _has_day_above_12(cells: pd.Series) -> bool:
    """Fast check of ISO dates: the last part is above 12 in some row, the middle one never."""
    texts = distinct(cells)
    dates: set[str] = set()
    for begin in range(0, len(texts), PIECE):
        dates.update(str(text)[:10] for text in texts.iloc[begin : begin + PIECE].tolist())
    month_days = [(int(match[1]), int(match[2])) for match in map(_ISO_DATE.match, dates) if match]
    return any(last > 12 for _, last in month_days) and not any(middle > 12 for middle, _ in month_days)


def _holding(table: Table, column: str, cells: pd.Series, times: Mapping[str, pd.DatetimeIndex]) -> list[str]:
    """The formats that read every cell that any of them reads.

    Raises:
        InputError: there is none: day and month are swapped between rows.
    """
    masks: dict[str, np.ndarray] = {time_format: np.asarray(parsed.notna()) for time_format, parsed in times.items()}
    readable = np.logical_or.reduce(list(masks.values()))
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


def _as_trained(table: Table, column: str, time_format: str, formats: Sequence[str], trained: str | None) -> str:
    """`time_format`; an InputError if the training dates had another order."""
    if trained in formats and trained != time_format:
        raise InputError(
            f"{table.name}, column {column!r}: expected dates like {trained} as in training, found dates like "
            f"{time_format}; if that is right, set dataset.time_format='{time_format}'"
        )
    return time_format


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
    """Whether the distinct sorted times are one step apart; the same day of every nth month counts as a step."""
    unique = times[times.notna()].unique().sort_values()
    if len(unique) < FEWEST:
        return False
    months = unique.year.to_numpy() * 12 + unique.month.to_numpy()
    same_day = len(np.unique(unique.day)) == 1 and len(np.unique((unique - unique.normalize()).asi8)) == 1
    if same_day and len(set(np.diff(months).tolist())) == 1:
        return True
    return Frequency.closest(unique)[1] == len(unique)
