"""Checks of rows: duplicate, unordered or irregular timestamps, and cells that are not finite numbers.

Each check adds its problems to a report: the first location, the count, what to do, and the setting that helps.

The rows of a table before they become a series; they may still have problems.

Problems of a table, collected and reported together, one line each.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64, Int

from informer.base.errors import InputError, ReportError, listed
from informer.read.frequency import Frequency
from informer.read.number_marks import are_smoother_as_thousands, grouping_advice
from informer.read.table import Table, shown
from informer.read.times import changing_zone, leaves_hours_out, zone_advice


@dataclass(frozen=True, slots=True)
class Rows:
    """Timestamps and values [t c] with their location in the file.

    Args:
        name: name of the table.
        time_col: name of the time column.
        columns: names of the value columns.
        timestamps, values: the rows.
        lines: row numbers as in an editor (from 0 for a frame); an inserted row has the number of the row after it.
    """

    name: str
    time_col: str
    columns: tuple[str, ...]
    timestamps: pd.DatetimeIndex
    values: Float64[np.ndarray, "t c"]
    lines: Int[np.ndarray, "t"]

    def __len__(self) -> int:
        return len(self.timestamps)

    def take(self, rows: slice | np.ndarray) -> "Rows":
        """The selected rows, in this order."""
        return replace(self, timestamps=self.timestamps[rows], values=self.values[rows], lines=self.lines[rows])

    def end(self, n: int) -> "Rows":
        """The last n rows, or all if there are fewer."""
        return self if len(self) <= n else self.take(slice(-n, None))

    def positions(self, names: Sequence[str]) -> list[int]:
        """Indices of the columns with these names."""
        return [position for position, column in enumerate(self.columns) if column in names]

    @property
    def timed(self) -> "Rows":
        """The rows with a time."""
        return self.take(np.asarray(self.timestamps.notna())) if self.timestamps.hasnans else self

    def at(self, row: int, column: str | None = None) -> str:
        """Location of a cell for error messages; without `column`, of the timestamp."""
        return f"{self.name}, row {self.lines[row]}, column {self.time_col if column is None else column!r}"

    @property
    def is_increasing(self) -> bool:
        """Whether timestamps are strictly increasing."""
        return bool((np.diff(self.timestamps.asi8) > 0).all())

    def in_order(self) -> "Rows":
        """The rows sorted by time; of rows with equal times, the first is kept."""
        if self.is_increasing:
            return self
        ordered = self.take(self.timestamps.argsort(kind="stable"))
        return ordered.take(~ordered.timestamps.duplicated())


FEW_ALIKE, MOST_ALIKE = 4, 6
"""Maximum number of problems of the same kind that are listed; of more, maximum number of columns that are named."""

MOST_LINES = 50
"""Maximum number of problems listed; the rest are counted."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem and its repair.

    Args:
        line: message for the user.
        settings: settings that repair it.
        column: column to exclude if they do not.
    """

    line: str
    settings: tuple[str, ...] = ()
    column: str | None = None


@dataclass(slots=True)
class Report:
    """Problems, which are errors; warnings and repairs, for the log."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)

    def add(self, line: str, *settings: str, column: str | None = None) -> None:
        """Record a problem; see `Problem`."""
        self.problems.append(Problem(line, settings, column))

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """Record an InputError in the context as a problem, or a ReportError as several."""
        try:
            yield
        except ReportError as error:
            self.problems += map(Problem, error.lines)
        except InputError as error:
            self.problems.append(Problem(str(error), error.settings))

    def refuse(self) -> None:
        """Raise an error if there are problems.

        Raises:
            ReportError: one line per problem.
        """
        lines = [problem.line for problem in self.problems[:MOST_LINES]]
        if len(self.problems) > MOST_LINES:
            lines.append(f"and {len(self.problems) - MOST_LINES} more problems")
        if lines:
            raise ReportError(lines)


def grouped(problems: Sequence[Problem]) -> list[str]:
    """Lines of problems; if many columns of a table have the same repair, the first and the names of the others."""
    alike: dict[object, list[Problem]] = {}
    for index, problem in enumerate(problems):
        is_of_column = problem.column is not None and bool(problem.settings)
        where = problem.line.partition(", row ")[0]
        alike.setdefault((where, problem.settings) if is_of_column else index, []).append(problem)
    lines = []
    for group in alike.values():
        few = len(group) <= FEW_ALIKE
        lines += [problem.line for problem in (group if few else group[:1])]
        if not few:
            names = listed([str(problem.column) for problem in group[1:]], MOST_ALIKE)
            lines.append(f"the same in {len(group) - 1} more columns: {names}")
    return lines


def count_note(n: int, noun: str) -> str:
    """ " (3 such cells)" for n = 3; empty for n = 1. Follows a sentence about the first."""
    return f" ({n} {noun})" if n > 1 else ""


LARGEST = 1e30
"""Maximum magnitude of a value; larger ones, scaled by a training scaler, could overflow float32."""


MOST_WORDS = 3
"""Maximum number of distinct words in a column of numbers that are proposed as `dataset.missing_values`."""

_WORD = re.compile(r"[^\W\d]+(?:[ _-][^\W\d]+)*|[-*.?/]+")
"""Words without digits, and signs; not numbers with units or other marks."""


def check_times(name: str, unread: pd.Series, time_format: str | None, report: Report) -> None:
    """Check that every cell of the time column is a time.

    Args:
        name: name of the table.
        unread: cells of the column that are not times, by line number.
        time_format: the expected format.
    """
    if len(unread):
        expected = f" like {time_format}" if time_format not in (None, "ISO8601") else ""
        report.add(
            f"{name}, row {unread.index[0]}, column {unread.name!r}: expected a date{expected}, "
            f"found {shown(unread.iloc[0])}{count_note(len(unread), 'such cells')}; "
            "fix the cell, or set dataset.time_format"
        )


def check_order(rows: Rows, report: Report) -> None:
    """Check that times are unique and increasing."""
    if rows.is_increasing:
        return
    repeated = rows.timestamps.duplicated()
    if repeated.any():
        row = int(repeated.argmax())
        report.add(
            f"{rows.at(row)}: duplicate timestamp {rows.timestamps[row]}"
            f"{count_note(int(repeated.sum()), 'rows repeat a time')}; "
            "keep one row per time, or set dataset.duplicates=first or mean, or, for a file of several series, "
            "dataset.series_col",
            "dataset.duplicates=first",
        )
    once = np.flatnonzero(~repeated)
    back = np.flatnonzero(np.diff(rows.timestamps.asi8[once]) < 0)
    if len(back):
        before, row = int(once[back[0]]), int(once[back[0] + 1])
        report.add(
            f"{rows.at(row)}: expected a time after {rows.timestamps[before]}, found {rows.timestamps[row]}"
            f"{count_note(len(back), 'rows go back in time')}; sort the rows by time, or set dataset.sort=true",
            "dataset.sort=true",
        )


def check_clock_changes(rows: Rows, report: Report) -> bool:
    """Whether local times repeat and lack hours like the clock changes of a time zone; reports them as one problem."""
    times = rows.timestamps
    if rows.is_increasing and not (len(times) > 2 and leaves_hours_out(times)):
        return False
    zone = changing_zone(times)
    if zone is None:
        return False
    if rows.is_increasing:
        row = int(np.diff(times.asi8).argmax()) + 1
        problem = f"no time between {times[row - 1]} and {times[row]}, as when clocks are set forward"
    else:
        row = int(times.duplicated().argmax())
        problem = f"local time {times[row]} occurs twice, as when clocks are set back"
    report.add(f"{rows.at(row)}: {problem}; {zone_advice(zone)}", f"dataset.timezone={zone}")
    return True


def choose_step(rows: Rows, expected: str | None) -> Frequency:
    """The step that most of the sorted rows follow.

    Args:
        rows: sorted by time.
        expected: the step set by the user. If only its anchor (weekday, start or end of the month) differs, the file's
            is used.

    Raises:
        InputError: the rows follow another step than expected, or are too few to determine one.
    """
    times = rows.timestamps
    frequency = Frequency.parse(expected) if expected is not None else None
    if frequency is not None and frequency.follows(times) == len(times):
        return frequency
    if len(times) < 2:
        raise InputError(f"{rows.name}: one row does not determine a step; set dataset.frequency, such as h or D")
    closest, n_following = Frequency.closest(times)
    if frequency is None or _same_step(closest, frequency):
        return closest
    if n_following == len(times):
        raise InputError(
            f"{rows.name}, column {rows.time_col!r}: expected steps of {frequency.code}, found steps of "
            f"{closest.code}; use rows at that step, or train a model on these (dataset.frequency)"
        )
    return frequency


def check_steps(rows: Rows, frequency: Frequency, unread: Int[np.ndarray, "k"], advice: str, report: Report) -> None:
    """Check that consecutive rows are one step apart.

    Args:
        rows: sorted by time.
        frequency: the step.
        unread: line numbers of unreadable times; gaps around them are not reported.
        advice: what to do about missing rows.
        report: receives the problems.
    """
    strides = frequency.strides(rows.timestamps)
    if (strides == 1).all():
        return
    before = np.searchsorted(unread, rows.lines)
    strides = np.where(before[1:] == before[:-1], strides, 1)
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
            f"{_unexpected(rows, frequency, int(uneven[0]) + 1)}{count_note(len(uneven), 'steps of another length')}; "
            "write rows at equal steps, or set dataset.frequency"
        )


def check_cells(rows: Rows, text: Mapping[str, pd.Series], advice: str | None, report: Report) -> None:
    """Check that every value is a number of at most LARGEST.

    Args:
        text: text cells by column, indexed by line number.
        advice: what to do about empty cells; None: they are allowed.
        report: receives the problems.
    """
    sound = are_sound(rows.values)
    for position, column in enumerate(rows.columns):
        if not sound[position] or column in text:  # a text cell may have been filled
            _check_column(rows, position, text.get(column, pd.Series(dtype=object)), advice, report)


def are_sound(values: Float64[np.ndarray, "t c"]) -> Bool[np.ndarray, "c"]:
    """Whether all values of each column are numbers in range; does not copy the values."""
    if not len(values):
        return np.ones(values.shape[1], dtype=bool)
    return (values.max(axis=0) <= LARGEST) & (values.min(axis=0) >= -LARGEST)


def _check_column(rows: Rows, position: int, text: pd.Series, advice: str | None, report: Report) -> None:
    column, values = rows.columns[position], rows.values[:, position]
    worded = np.isin(rows.lines, text.index)
    empty, infinite = np.isnan(values) & ~worded, np.isinf(values)
    huge = (np.abs(values) > LARGEST) & ~infinite
    leave_out = "or exclude the column with dataset.exclude"
    for bad, expected in ((worded, "a number"), (infinite, "a number"), (huge, f"a number of at most {LARGEST:g}")):
        if bad.any():
            row = int(bad.argmax())
            cell = shown(text[rows.lines[row]] if bad is worded else values[row])
            words = missing_words(text, len(rows)) if bad is worded else []
            setting = f"dataset.missing_values=[{','.join(words)}]"
            report.add(
                f"{rows.at(row, column)}: expected {expected}, found {cell}{count_note(int(bad.sum()), 'such cells')}; "
                f"{f'fix the cell, if it means a missing value set {setting}' if words else _decimal_advice(cell)}, "
                f"{leave_out}",
                *([setting] if words else []),
                column=column,
            )
    if empty.any() and advice is not None:
        report.add(
            f"{rows.at(int(empty.argmax()), column)}: expected a number, found an empty cell or NaN"
            f"{count_note(int(empty.sum()), 'such cells')}; {advice}, {leave_out}",
            "dataset.fill=linear",
            column=column,
        )


def missing_words(text: pd.Series, n_rows: int) -> list[str]:
    """The words in a column of numbers, if they are few and in fewer cells than numbers: they may mean a missing value.

    Args:
        text: cells of the column that are not numbers.
        n_rows: number of rows.
    """
    words = [str(word) for word in text.unique()[: MOST_WORDS + 1]]
    is_usual = 0 < len(words) <= MOST_WORDS and 2 * len(text) < n_rows
    return words if is_usual and all(map(_WORD.fullmatch, words)) else []


def check_doubts(table: Table, columns: Sequence[str], report: Report) -> None:
    """Check for columns that are ambiguous by a factor of a thousand.

    In comma-separated files the point is nearly always the decimal mark, so these only get a warning, and only if the
    values are smoother with the other reading.
    """
    for column in columns:
        doubt = table.doubts.get(column)
        if doubt is None:
            continue
        mark = table.dialect.decimal
        both = f"{doubt.cell.replace(mark, '')} or {doubt.cell.replace(mark, '.')}"
        line = (
            f"{table.name}, row {doubt.row + table.first_row}, column {column!r}: {doubt.cell!r} may be {both}, "
            f"because three digits follow every {mark!r} of the column; set dataset.thousands='{mark}' or "
            f"dataset.decimal='{mark}'"
        )
        if table.dialect.separator != ",":
            report.add(line)
        else:
            values = table.frame[column].dropna().to_numpy()
            if are_smoother_as_thousands(values, values != np.floor(values)):
                report.warnings.append(line)


def constant_columns(rows: Rows, may_be: Sequence[str] = ()) -> list[str]:
    """A warning for each constant column, except those in `may_be`."""
    # NaN for a column without values
    low, high = np.fmin.reduce(rows.values), np.fmax.reduce(rows.values)
    still = low == high if len(rows) > 1 else []
    return [
        f"{rows.name}, column {rows.columns[position]!r}: {low[position]:g} in every row; "
        "exclude it with dataset.exclude unless it will change"
        for position in np.flatnonzero(still)
        if rows.columns[position] not in may_be
    ]


def _decimal_advice(cell: str) -> str:
    comma = re.fullmatch(r"'\s*[+-]?\d+,\d+\s*'", cell) is not None
    of_commas = "if the comma is its decimal mark, set dataset.decimal=','" if comma else "fix the cell"
    return grouping_advice(cell.strip("'\"")) or of_commas


def _unexpected(rows: Rows, frequency: Frequency, row: int) -> str:
    expected = frequency.future(rows.timestamps[row - 1], 1)[0]
    return f"{rows.at(row)}: expected {expected} (step {frequency.code}), found {rows.timestamps[row]}"


def _same_step(one: Frequency, other: Frequency) -> bool:
    # the season distinguishes business hours from all hours, and half-months from weeks
    return (one.unit, one.multiple, one.season) == (other.unit, other.multiple, other.season)
