"""From cells to rows with a regular step: requested repairs, then all checks, in one report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from informer.config.repairs import Repairs
from informer.data.read.checks import (
    check_cells,
    check_clock_changes,
    check_order,
    check_steps,
    check_times,
    choose_step,
)
from informer.data.read.frequency import Frequency
from informer.data.read.numeric import numbers
from informer.data.read.repair import repair
from informer.data.read.report import Report
from informer.data.read.rows import Rows
from informer.data.read.table import Table
from informer.data.read.timestamps import find_format, parse_timestamps

MOST_KEPT = 100_000
"""Maximum number of rows of a cached time column."""


@dataclass(slots=True)
class TimesCache:
    """Cache of the last time column, since the files of a dataset often have the same one."""

    _last: tuple[pd.Series, tuple[str | None, ...], tuple[str | None, pd.DatetimeIndex]] | None = None
    """Cells, settings, and result; replaced as a whole, so that it is safe with threads."""
    _sound: tuple[pd.DatetimeIndex, tuple[str | None, int | None], Frequency] | None = None
    """Times without a problem, settings, and step; replaced as a whole."""

    def times_of(self, table: Table, column: str, spec: "ReadSpec") -> tuple[str | None, pd.DatetimeIndex]:
        """Format and times of a column, from the cache if its cells are equal.

        Raises:
            InputError: see `find_format` and `parse_timestamps`.
        """
        cells = table.frame[column]
        is_text = isinstance(cells.dtype, pd.StringDtype) and len(cells) <= MOST_KEPT
        settings, last = (spec.time_format, spec.trained_format, spec.timezone), self._last
        if is_text and last is not None and last[1] == settings and last[0].array.equals(cells.array):
            return last[2]
        time_format = find_format(table, column, spec.time_format, trained_format=spec.trained_format)
        parsed = time_format, parse_timestamps(table, column, time_format, timezone=spec.timezone)
        if is_text:
            self._last = cells, settings, parsed
        return parsed

    def step_of(self, times: pd.DatetimeIndex, spec: "ReadSpec") -> Frequency | None:
        """The step of times that were checked without a problem; None if they were not, or may be repaired."""
        last = self._sound
        is_known = last is not None and last[0] is times and last[1] == (spec.frequency, spec.history)
        return last[2] if last is not None and is_known and not spec.repairs else None

    def keep_step(self, times: pd.DatetimeIndex, spec: "ReadSpec", step: Frequency) -> None:
        """Record the step of times that were checked without a problem, if `times_of` keeps them."""
        if self._last is not None and self._last[2][1] is times:
            self._sound = times, (spec.frequency, spec.history), step


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSpec:
    """How to read and check the rows.

    Args:
        time_format: format of the time column; None: detected.
        trained_format: format of a model's training data, which resolves ambiguous dates.
        timezone: time zone of local times; None: as written.
        frequency: the expected step; None: inferred.
        repairs: repairs before the checks.
        history: number of rows needed from the end; of older rows only the times are read and checked. None: all rows.
        times_cache: cache of time columns.
    """

    time_format: str | None
    trained_format: str | None
    timezone: str | None = None
    frequency: str | None
    repairs: Repairs
    history: int | None
    times_cache: TimesCache = field(default_factory=TimesCache)


@dataclass(frozen=True, slots=True)
class Examined:
    """Sorted rows, their step and the format of the timestamps.

    Args:
        rows: sorted by time, without duplicate times.
        frequency: the step; None if unknown.
        time_format: format of the time column; None for timestamps.
        n_rows: number of rows, including those with unreadable or duplicate times.
    """

    rows: Rows
    frequency: Frequency | None
    time_format: str | None
    n_rows: int


def examine(table: Table, time_col: str, columns: Sequence[str], spec: ReadSpec, report: Report) -> Examined | None:
    """Read, repair and check the rows, which are valid if the report has no problems; None if times cannot be read."""
    # repairs may move rows, or fill from older ones
    n = len(table.frame) if spec.history is None or spec.repairs else min(spec.history, len(table.frame))
    with report.gathering():
        # from all rows, since the last ones may be ambiguous
        time_format, times = spec.times_cache.times_of(table, time_col, spec)
        rows, text = read_cells(table, time_col, columns, times[len(times) - n :])
        if (step := spec.times_cache.step_of(times, spec)) is not None:
            check_cells(rows, text, spec.repairs.for_cells, report)
            return Examined(rows, step, time_format, len(rows))
        unread = table.cells(time_col, np.flatnonzero(times.isna()))
        lines = rows.lines if n == len(times) else table.lines
        all_rows = Rows(table.name, time_col, (), times, np.empty((len(times), 0)), lines)
        examined = _examine_rows(rows, all_rows, unread, text, spec, time_format, report)
        if examined.frequency is not None and not (spec.repairs or report.problems):
            spec.times_cache.keep_step(times, spec, examined.frequency)
        return examined
    rows, text = read_cells(table, time_col, columns, timeless(n))
    check_cells(rows, text, spec.repairs.for_cells, report)
    return None


def timeless(n: int) -> pd.DatetimeIndex:
    """n missing times."""
    return pd.DatetimeIndex(np.full(n, "NaT", "datetime64[s]"))


def read_cells(
    table: Table, time_col: str, columns: Sequence[str], times: pd.DatetimeIndex
) -> tuple[Rows, dict[str, pd.Series]]:
    """Columns as numbers at these times of the last rows, and their text cells by column, for `check_cells`."""
    values, positions = numbers(table, columns, len(times))
    rows = Rows(table.name, time_col, tuple(columns), times, values, table.lines[len(table.frame) - len(times) :])
    return rows, {column: table.end(len(times)).cells(column, where) for column, where in positions.items()}


def _examine_rows(
    rows: Rows,
    all_rows: Rows,
    unread: pd.Series,
    text: Mapping[str, pd.Series],
    spec: ReadSpec,
    time_format: str | None,
    report: Report,
) -> Examined:
    """Repair and check rows.

    Args:
        all_rows: all rows of the table, without values.
        unread: cells that are not times, by line number.
    """
    read = repair(rows.timed, spec.repairs, spec.frequency, report)
    check_times(rows.name, unread, time_format, report)
    # the last rows are the latest only if all are sorted
    every = read if len(rows) == len(all_rows) else all_rows.timed
    changes = check_clock_changes(every, report)
    if not changes:
        check_order(every, report)
    if spec.history is not None:
        read = read.end(spec.history)
    ordered, frequency = read.in_order(), None
    with report.gathering():
        if len(ordered):
            frequency = choose_step(ordered, spec.frequency)
            if not changes:
                check_steps(ordered, frequency, unread.index.to_numpy(), spec.repairs.advice, report)
    check_cells(read, text, spec.repairs.for_cells, report)
    return Examined(ordered, frequency, time_format, len(read) + len(unread))
