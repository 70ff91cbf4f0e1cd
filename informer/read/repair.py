"""From cells to rows with a regular step: requested repairs, then all checks, in one report.

Repairs of rows, made only on request, and reported with their count and first location.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int

from informer.base.errors import InputError
from informer.config.data import Duplicates, Fill, Repairs
from informer.read.checks import (
    Report,
    Rows,
    check_cells,
    check_clock_changes,
    check_order,
    check_steps,
    check_times,
    choose_step,
)
from informer.read.columns import numbers
from informer.read.frequency import Frequency
from informer.read.table import Table
from informer.read.times import find_format, parse_timestamps

MOST_NEW = 10
"""Maximum number of inserted rows per existing row; larger gaps are probably wrong dates."""


FEW_ROWS, FEW_SHARE = 10, 0.01
"""Maximum number of rows, or share of all rows, that a repair may drop without `dataset.confirm`."""

CONFIRM = "dataset.confirm=[duplicates]"
"""The setting that allows a repair to drop more."""

MOSTLY = 0.95
"""Share of rows with the numbers of another row at their time above which the others only differ in text."""


def repair(rows: Rows, repairs: Repairs, frequency: str | None, report: Report) -> Rows:
    """Make the requested repairs as far as possible; the checks report the remaining problems.

    Args:
        rows: the rows with a time.
        repairs: the requested repairs.
        frequency: the expected step; None: inferred.
        report: receives what was repaired.
    """
    if repairs.sort and not rows.is_increasing:
        rows = _sorted(rows, report)
    if repairs.duplicates is not None and not rows.is_increasing:
        rows = _merged(rows, repairs, report)
    if repairs.fill is None:
        return rows
    try:
        step = choose_step(rows, frequency) if rows.is_increasing else None
    except InputError:  # the checks report it
        step = None
    new = np.zeros(len(rows), dtype=bool)
    if step is not None:
        rows, new = _with_missing_rows(rows, step, repairs, report)
    fill = _kept if repairs.keeps_gaps else _filled
    return fill(rows, new, repairs, report)


def _sorted(rows: Rows, report: Report) -> Rows:
    back = np.flatnonzero(np.diff(rows.timestamps.asi8) < 0) + 1
    if len(back):
        report.repairs.append(f"{rows.name}: sort=true moved rows, the first out of order is row {rows.lines[back[0]]}")
    return rows.take(rows.timestamps.argsort(kind="stable"))


def _merged(rows: Rows, repairs: Repairs, report: Report) -> Rows:
    repeated, duplicates = rows.timestamps.duplicated(), repairs.duplicates
    if duplicates is None or not repeated.any():
        return rows
    n_dropped = int(repeated.sum())
    if n_dropped > max(FEW_ROWS, FEW_SHARE * len(rows)) and "duplicates" not in repairs.confirmed:
        alike = _share_alike(rows)
        likeness = f"{alike:.0%} of them have the numbers of another row at their time; " if alike >= MOSTLY else ""
        report.add(
            f"{rows.name}: duplicates={duplicates.value} would drop {n_dropped} of {len(rows)} rows; {likeness}if the "
            "file has many series, set dataset.series_col; if times of day are in a separate column, "
            f"dataset.clock_col; to drop them anyway, {CONFIRM}",
            *([CONFIRM] if likeness else []),
        )
        return rows.take(~repeated)
    first = rows.lines[repeated.argmax()]
    report.repairs.append(
        f"{rows.name}: duplicates={duplicates.value} dropped {repeated.sum()} rows, first row {first}"
    )
    merged = rows.take(~repeated)
    if duplicates is Duplicates.first:
        return merged
    # sort=False: groups in the order of their first rows, like `kept`
    means = pd.DataFrame(rows.values).groupby(rows.timestamps, sort=False).mean()
    values = means.to_numpy(copy=True)
    codes = rows.positions(repairs.categorical)
    values[:, codes] = merged.values[:, codes]
    return replace(merged, values=values)


def _share_alike(rows: Rows) -> float:
    """Share of the rows that repeat a time whose values are those of the first row at that time."""
    repeated, values = rows.timestamps.duplicated(), pd.DataFrame(rows.values)
    firsts = values.groupby(rows.timestamps, sort=False).transform("first").to_numpy()
    same = (rows.values == firsts) | np.isnan(rows.values)
    return float(same[repeated].all(axis=1).mean())


def _with_missing_rows(
    rows: Rows, step: Frequency, repairs: Repairs, report: Report
) -> tuple[Rows, Bool[np.ndarray, "t"]]:
    """Insert empty rows at missing timestamps; returns the rows, and which are new."""
    missing = np.maximum(step.strides(rows.timestamps) - 1, 0)
    if repairs.max_gap is not None:
        missing = np.where(missing > repairs.max_gap, 0, missing)
    if not 0 < missing.sum() <= MOST_NEW * len(rows):
        return rows, np.zeros(len(rows), dtype=bool)
    # the new positions of the old rows
    positions = np.concatenate([[0], np.cumsum(missing + 1)])
    n = int(positions[-1]) + 1
    values = np.full((n, len(rows.columns)), np.nan)
    values[positions] = rows.values
    new = np.ones(n, dtype=bool)
    new[positions] = False
    first = int(np.flatnonzero(missing)[0])
    report.repairs.append(
        f"{rows.name}: fill={repairs.fill.value if repairs.fill else ''} inserted {missing.sum()} missing rows, first "
        f"{step.future(rows.timestamps[first], 1)[0]} before row {rows.lines[first + 1]}"
    )
    lines = rows.lines[np.searchsorted(positions, np.arange(n))]
    return replace(rows, timestamps=_continued(rows.timestamps, missing, step), values=values, lines=lines), new


def _continued(times: pd.DatetimeIndex, missing: Int[np.ndarray, "gaps"], step: Frequency) -> pd.DatetimeIndex:
    """The timestamps with `missing[i]` steps inserted after row i."""
    pieces: list[pd.DatetimeIndex] = []
    start = 0
    for row in map(int, np.flatnonzero(missing)):
        pieces += [times[start : row + 1], step.future(times[row], int(missing[row]))]
        start = row + 1
    return pd.DatetimeIndex(times[:0].append([*pieces, times[start:]]))


def _kept(rows: Rows, new: Bool[np.ndarray, "t"], repairs: Repairs, report: Report) -> Rows:
    """Keep gaps, except in static columns, which have one value, and in categorical columns, where they become 0."""
    empty = np.isnan(rows.values)
    if not empty.any():
        return rows
    values, codes, static = rows.values.copy(), rows.positions(repairs.categorical), rows.positions(repairs.static)
    values[:, static] = pd.DataFrame(values[:, static]).ffill().bfill()
    values[:, codes] = np.nan_to_num(values[:, codes])
    gaps = np.isnan(values) & ~new[:, None]
    if gaps.any():
        row = int(gaps.any(axis=1).argmax())
        report.repairs.append(
            f"{rows.name}: fill=mask keeps {gaps.sum()} empty cells missing, first row {rows.lines[row]}, column "
            f"{rows.columns[int(gaps[row].argmax())]!r}"
        )
    return replace(rows, values=values)


def _filled(rows: Rows, new: Bool[np.ndarray, "t"], repairs: Repairs, report: Report) -> Rows:
    empty, fill = np.isnan(rows.values), repairs.fill
    if not empty.any() or fill is None:
        return rows
    frame = pd.DataFrame(rows.values)
    filled = {
        Fill.ffill: frame.ffill,
        Fill.linear: lambda: frame.interpolate(limit_area="inside"),
        Fill.zero: lambda: frame.fillna(0.0),
    }[fill]()
    codes = rows.positions(repairs.categorical)
    filled.iloc[:, codes] = frame.iloc[:, codes].ffill()
    values = np.where(_in_long_run(empty, repairs.max_gap), np.nan, filled.to_numpy())
    was_filled = empty & ~np.isnan(values) & ~new[:, None]
    if was_filled.any():
        row = int(was_filled.any(axis=1).argmax())
        column = rows.columns[int(was_filled[row].argmax())]
        report.repairs.append(
            f"{rows.name}: fill={fill.value} filled {was_filled.sum()} empty cells, first row {rows.lines[row]}, "
            f"column {column!r}"
        )
    return replace(rows, values=values)


def _in_long_run(empty: Bool[np.ndarray, "t c"], max_gap: int | None) -> Bool[np.ndarray, "t c"]:
    """Cells in runs of more than `max_gap` empty cells, per column."""
    long = np.zeros_like(empty)
    if max_gap is None:
        return long
    for column in np.flatnonzero(empty.any(axis=0)):
        edges = np.flatnonzero(np.diff(empty[:, column].astype(np.int8), prepend=0, append=0))
        for start, stop in edges.reshape(-1, 2):
            long[start:stop, column] = stop - start > max_gap
    return long


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
class CheckedRows:
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


def examine(table: Table, time_col: str, columns: Sequence[str], spec: ReadSpec, report: Report) -> CheckedRows | None:
    """Read, repair and check the rows, which are valid if the report has no problems; None if times cannot be read."""
    # repairs may move rows, or fill from older ones
    n = len(table.frame) if spec.history is None or spec.repairs else min(spec.history, len(table.frame))
    with report.gathering():
        # from all rows, since the last ones may be ambiguous
        time_format, times = spec.times_cache.times_of(table, time_col, spec)
        rows, text = read_cells(table, time_col, columns, times[len(times) - n :])
        if (step := spec.times_cache.step_of(times, spec)) is not None:
            check_cells(rows, text, spec.repairs.for_cells, report)
            return CheckedRows(rows, step, time_format, len(rows))
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
) -> CheckedRows:
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
    return CheckedRows(ordered, frequency, time_format, len(read) + len(unread))
