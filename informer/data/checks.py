"""What can be wrong with rows: times that repeat, go back or leave the step, cells that are no finite number.

Each check adds its problems to a report: where the first is, how many there are, what to do, which setting mends it.
"""

import re
from collections.abc import Mapping

import numpy as np
import pandas as pd
from jaxtyping import Int

from informer.data.frequency import Frequency
from informer.data.report import Report, several
from informer.data.rows import Rows
from informer.data.table import shown
from informer.errors import InputError

LARGEST = 1e30
"""Values that are larger, scaled by a scaler of training, could overflow the float32 of the network."""


def check_times(name: str, unread: pd.Series, time_format: str | None, report: Report) -> None:
    """Every cell of the time column is a time.

    Args:
        name: of the table.
        unread: cells of the column that are none, by their lines.
        time_format: that they should have had.
    """
    if len(unread):
        expected = f" like {time_format}" if time_format not in (None, "ISO8601") else ""
        report.add(
            f"{name}, row {unread.index[0]}, column {unread.name!r}: expected a date{expected}, "
            f"found {shown(unread.iloc[0])}{several(len(unread), 'such cells')}; "
            "mend the cell, or set dataset.time_format"
        )


def check_order(rows: Rows, report: Report) -> None:
    """Every time stands once, after those before it."""
    if rows.is_increasing:
        return
    again = rows.timestamps.duplicated()
    if again.any():
        row = int(again.argmax())
        report.add(
            f"{rows.at(row)}: {rows.timestamps[row]} stands twice{several(int(again.sum()), 'rows repeat a time')}; "
            "keep one row for each time, or set dataset.duplicates=first or mean; "
            "where a column names the series of a row, dataset.series_col",
            "dataset.duplicates=first",
        )
    once = np.flatnonzero(~again)
    back = np.flatnonzero(np.diff(rows.timestamps.asi8[once]) < 0)
    if len(back):
        before, row = int(once[back[0]]), int(once[back[0] + 1])
        report.add(
            f"{rows.at(row)}: expected a time after {rows.timestamps[before]}, found {rows.timestamps[row]}"
            f"{several(len(back), 'rows go back in time')}; sort the rows by time, or set dataset.sort=true",
            "dataset.sort=true",
        )


def choose_step(rows: Rows, wanted: str | None) -> Frequency:
    """The step of rows in order: the one that most of them follow.

    Args:
        wanted: the step expected. Where its anchor (weekday, month's start or end) is not the file's, the file's holds.

    Raises:
        InputError: the rows follow another step than the one expected, or are too few to show one.
    """
    times = rows.timestamps
    frequency = Frequency.parse(wanted) if wanted is not None else None
    if frequency is not None and frequency.follows(times) == len(times):
        return frequency
    if len(times) < 2:
        raise InputError(f"{rows.name}: one row shows no step; set dataset.frequency, such as h or D")
    closest, kept = Frequency.closest(times)
    if frequency is None or _same_step(closest, frequency):
        return closest
    if kept == len(times):
        raise InputError(
            f"{rows.name}, column {rows.time_col!r}: expected steps of {frequency.code}, found steps of "
            f"{closest.code}; set dataset.frequency, or use a file of that step"
        )
    return frequency


def check_steps(rows: Rows, frequency: Frequency, unread: Int[np.ndarray, "k"], advice: str, report: Report) -> None:
    """One step from each row to the next.

    Args:
        rows: in order.
        unread: lines whose time could not be read; a gap around them is theirs.
        advice: what to do about rows that are missing.
    """
    strides = frequency.strides(rows.timestamps)
    if (strides == 1).all():
        return
    beside = np.searchsorted(unread, rows.lines)
    strides = np.where(beside[1:] == beside[:-1], strides, 1)
    gaps, uneven = np.flatnonzero(strides > 1), np.flatnonzero(strides == 0)
    if len(gaps):
        missing = int((strides[gaps] - 1).sum())
        rows_missing = "1 row is missing" if missing == 1 else f"{missing} rows are missing"
        report.add(
            f"{_unexpected(rows, frequency, int(gaps[0]) + 1)}: {rows_missing}"
            f"{f' in {len(gaps)} gaps' if len(gaps) > 1 else ''}; {advice}",
            "dataset.fill=linear",
        )
    if len(uneven):
        report.add(
            f"{_unexpected(rows, frequency, int(uneven[0]) + 1)}{several(len(uneven), 'steps of another length')}; "
            "write rows at equal steps, or set dataset.frequency"
        )


def check_cells(rows: Rows, text: Mapping[str, pd.Series], advice: str, report: Report) -> None:
    """Every value is a number that the network's float32 can hold.

    Args:
        text: by column, its cells that are text, indexed by their lines.
        advice: what to do about cells without a value.
    """
    sound = (np.abs(rows.values) <= LARGEST).all(axis=0)
    for place, column in enumerate(rows.columns):
        if not sound[place] or column in text:  # text may have been filled over
            _check_column(rows, place, text.get(column, pd.Series(dtype=object)), advice, report)


def _check_column(rows: Rows, place: int, text: pd.Series, advice: str, report: Report) -> None:
    column, values = rows.columns[place], rows.values[:, place]
    worded = np.isin(rows.lines, text.index)
    empty, infinite = np.isnan(values) & ~worded, np.isinf(values)
    huge = (np.abs(values) > LARGEST) & ~infinite
    leave_out = "or leave the column out of dataset.columns"
    for bad, expected in ((worded, "a number"), (infinite, "a number"), (huge, f"a number of at most {LARGEST:g}")):
        if bad.any():
            row = int(bad.argmax())
            found = shown(text[rows.lines[row]] if bad is worded else values[row])
            report.add(
                f"{rows.at(row, column)}: expected {expected}, found {found}{several(int(bad.sum()), 'such cells')}; "
                f"{_decimal_advice(found)}, {leave_out}",
                column=column,
            )
    if empty.any():
        report.add(
            f"{rows.at(int(empty.argmax()), column)}: expected a number, found an empty cell or NaN"
            f"{several(int(empty.sum()), 'such cells')}; {advice}, {leave_out}",
            "dataset.fill=linear",
            column=column,
        )


def constant_columns(rows: Rows) -> list[str]:
    """A warning for each column that never changes: it tells a model nothing."""
    still = rows.values.min(axis=0) == rows.values.max(axis=0) if len(rows) > 1 else []
    return [
        f"{rows.name}, column {rows.columns[place]!r}: {rows.values[0, place]:g} in every row; "
        "leave it out with dataset.columns unless it will change"
        for place in np.flatnonzero(still)
    ]


def _decimal_advice(found: str) -> str:
    comma = re.fullmatch(r"'\s*[+-]?\d+,\d+\s*'", found) is not None
    return "if the comma is its decimal mark, set dataset.decimal=','" if comma else "mend the cell"


def _unexpected(rows: Rows, frequency: Frequency, row: int) -> str:
    expected = frequency.future(rows.timestamps[row - 1], 1)[0]
    return f"{rows.at(row)}: expected {expected} (step {frequency.code}), found {rows.timestamps[row]}"


def _same_step(one: Frequency, other: Frequency) -> bool:
    # the season tells business hours from all hours, and half-months from weeks
    return (one.unit, one.multiple, one.season) == (other.unit, other.multiple, other.season)
