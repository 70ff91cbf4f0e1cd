"""Rows of a table as numbers at times, with their places in the file; and the report of what is wrong with them."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int

from informer.base.errors import InputError, Repair, ReportError, listed

log = logging.getLogger(__name__)


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
    lines: Int[np.ndarray, " t"]

    def __len__(self) -> int:
        return len(self.timestamps)

    def take(self, rows: slice | np.ndarray, name: str | None = None) -> "Rows":
        """The selected rows, in this order."""
        # a slice of an index is not unique in pandas 2 if the whole is not, which times of several series are not
        times = pd.DatetimeIndex(self.timestamps.array[rows], name=self.timestamps.name)
        values, lines = self.values[rows], self.lines[rows]
        return Rows(name or self.name, self.time_col, self.columns, times, values, lines)

    def end(self, n: int | None) -> "Rows":
        """The last n rows, or all if there are fewer; None: all."""
        return self if n is None else self.take(slice(-n, None))

    def positions(self, names: Sequence[str]) -> list[int]:
        """Indices of the columns with these names."""
        return [position for position, column in enumerate(self.columns) if column in names]

    def at(self, row: int, column: str | None = None) -> str:
        """Location of a cell for error messages; without `column`, of the timestamp."""
        return f"{self.name}, row {self.lines[row]}, column {self.time_col if column is None else column!r}"

    def problem(self, code: str, row: int, line: str, *repairs: Repair, column: str | None = None) -> InputError:
        """A problem of a cell, see `InputError`; without `column`, of the timestamp."""
        line, at = f"{self.at(row, column)}: {line}", int(self.lines[row])
        return InputError(line, *repairs, code=code, table=self.name, row=at, column=column or self.time_col)

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
"""Maximum number of problems of the same kind that are listed; of more, maximum number of columns or series that are
named."""

MOST_LINES = 50
"""Maximum number of problems listed; the rest are counted."""


@dataclass(slots=True)
class Report:
    """Problems, which are errors, except that readings far from all others are errors to a forecast only; warnings and
    repairs, for the log."""

    problems: list[InputError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)
    far: list[str] = field(default_factory=list)
    """Numbers far from the others that may mean a missing value, see `check_far`."""

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """Record an InputError in the context as a problem, or a ReportError as several."""
        try:
            yield
        except InputError as error:  # is made again, since its traceback would keep the rows in memory
            if isinstance(error, ReportError):
                self.problems += error.problems
            else:
                self.problems.append(type(error)(str(error), *error.repairs, code=error.code))

    def refuse(self) -> None:
        """Raise an error if there are problems; otherwise log the warnings.

        Raises:
            ReportError: one line per problem.
        """
        problems = [problem for problem in self.problems if problem.code != OUTLIER]
        if not problems:
            for line in [*self.warnings, *grouped(self.problems)]:
                log.warning(line)
            return
        lines = grouped(problems)
        if len(lines) > MOST_LINES + 1:  # one more line is as long as its count
            lines[MOST_LINES:] = [f"and {len(lines) - MOST_LINES} more problems"]
        raise ReportError(lines, problems)


def grouped(problems: Sequence[InputError]) -> list[str]:
    """Lines of problems; of many alike, in columns of a table or in series, the first, and where the others are."""
    alike: dict[object, list[InputError]] = {}
    for index, problem in enumerate(problems):
        # what leaves out its column has another cure in each
        cures = [repair for repair in problem.repairs if repair.setting != "columns"]
        kind = (problem.code, str(cures), None if cures else problem.column)
        alike.setdefault(kind if problem.table else index, []).append(problem)
    lines: list[str] = []
    for group in alike.values():
        few = len(group) <= FEW_ALIKE
        lines += map(str, group if few else group[:1])
        if not few:
            tables = dict.fromkeys(each.table.rpartition(", ")[2] for each in group if each.table != group[0].table)
            names, what = ([*tables], "series") if tables else ([str(each.column) for each in group[1:]], "columns")
            lines.append(f"the same in {len(names)} more {what}: {listed(names, MOST_ALIKE)}")
    return lines


def count_note(n: int, noun: str) -> str:
    """ " (3 such cells)" for n = 3; empty for n = 1. Follows a sentence about the first."""
    return f" ({n} {noun})" if n > 1 else ""


OUTLIER = "outlier"
"""Code of the problem of a reading far from all others."""


LARGEST = 1e30
"""Maximum magnitude of a value; larger ones, scaled by a training scaler, could overflow float32."""
