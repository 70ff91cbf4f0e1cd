"""Checks of a table's rows: names, times, their order and steps, clock changes, and cells that are no numbers.

Each adds its problems to a report: the first location, the count, what to do, and the repairs that help.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import get_args

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64, Int

from informer.base.errors import InputError, Repair, TimeError, counted, listed
from informer.config.data import DatasetConfig, Duplicates, Fill
from informer.config.overrides import to_display
from informer.read.date_text import date_formats
from informer.read.frequency import Frequency
from informer.read.number_marks import are_smoother_as_thousands, mark_advice
from informer.read.outliers import MOST_WORDS
from informer.read.rows import LARGEST, OUTLIER, Report, Rows, count_note
from informer.read.table import Table, shown
from informer.read.times import parse_timestamps
from informer.read.zones import in_changing_zone, zone_advice

OF_CELLS = ("text", "infinite", "large", "empty", OUTLIER)
"""Codes of problems of the values of a column."""

_WORD = re.compile(r"[^\W\d]+(?:[ _/-][^\W\d]+)*|[-*.?/]+|#[A-Z/0]+[!?]")
"""Words without digits, signs, and errors of spreadsheets such as #DIV/0!; not numbers with units or other marks."""


CONFIRM = Repair("confirm", ["duplicates"])
"""The setting that allows a repair to drop more than MOST_DROPPED."""

MOST_DROPPED = 0.005
"""Maximum share of rows that a repair may drop without CONFIRM."""

MOSTLY = 0.95
"""Share of rows with the numbers of another row at their time above which the others only differ in text."""

MOSTLY_RISING = 0.9
"""Share of steps that go forward in a file whose order shows which rows are the newest."""

SHORT_END = 0.2
"""Maximum share of rows after a gap of exactly a year for which they are rather taken for rows with a wrong year."""

MANY_MISSING = 0.05
"""Share of missing values above which filled values would distort training and scores."""

MOST_EMPTY = 0.5
"""Maximum share of missing values of a column that lacks the first or last ones, for which they are kept missing."""

MOST_NEW = 10
"""Maximum number of inserted rows per existing row; larger gaps are probably wrong dates."""


def check_names(table: Table, used: Sequence[str] | None, report: Report) -> None:
    """Check that no two columns have the same name; `used`: only of these columns."""
    if repeated := [name for name in table.repeated if used is None or name in used]:
        line = f"{table.name}, row 1: column names repeat: {', '.join(map(repr, repeated))}; rename them"
        report.problems.append(InputError(line, code="names", table=table.name, row=1))


def check_times(
    table: Table,
    column: str,
    times: pd.DatetimeIndex,
    time_format: str | None,
    report: Report,
    name: str | None = None,
    places: Int[np.ndarray, " t"] | None = None,
) -> Int[np.ndarray, " k"]:
    """Check that every cell of the time column is a time; returns the row numbers of the others.

    Args:
        times: what was read with `time_format`.
        name, places: of one of several series, its name and its positions in the table.
    """
    positions = np.flatnonzero(times.isna())
    unread = table.cells(column, positions if places is None else places[positions])
    if len(unread):
        formats = date_formats(str(unread.iloc[0]).strip())
        other = next((each for each in formats if parse_timestamps(table, column, each).notna().all()), None)
        expected = f" like {time_format}" if time_format not in (None, "ISO8601") else ""
        name, row = name or table.name, int(unread.index[0])
        line = (
            f"{name}, row {row}, column {column!r}: expected a date{expected}, found {shown(unread.iloc[0])}"
            f"{count_note(len(unread), 'such cells')}; "
            f"{'fix the cell' if other is None else f'set dataset.time_format={other!r}'}"
        )
        report.problems.append(InputError(line, code="time", table=name, row=row, column=column))
    return unread.index.to_numpy()


def misplaced_end(rows: Rows) -> Int[np.ndarray, " k"]:
    """The newest rows of a file if they go back to times of other rows, or to before all others: a wrong year or month.

    To sort or merge such rows would lose them. None if the rows before them are fewer or not in the order of time, or
    if they are copies of others, fill gaps, or precede the others without a gap.
    """
    none = np.zeros(0, dtype=np.int64)
    if rows.is_increasing:
        return none
    is_falling = (np.diff(rows.timestamps.asi8) < 0).mean() > 0.5
    order = np.arange(len(rows))[:: -1 if is_falling else 1]
    times = rows.timestamps[order]
    latest = len(times) - 1 - int(times.asi8[::-1].argmax())
    body, end = times[: latest + 1], times[latest + 1 :]
    if not 0 < len(end) < len(body) or (np.diff(body.asi8) >= 0).sum() < MOSTLY_RISING * max(len(body) - 1, 1):
        return none
    distinct, twins = np.unique(body.asi8, return_index=True)
    repeats = np.isin(end.asi8, distinct)
    if repeats.any():
        values = rows.values[order]
        twins = twins[np.searchsorted(distinct, end.asi8[repeats])]
        differs = (values[twins] != values[latest + 1 :][repeats]) & ~np.isnan(values[latest + 1 :][repeats])
        # of equal rows one after the other, any other row is a copy
        is_copy = not differs.any() and bool((values[twins] != values[np.maximum(twins - 1, 0)]).any())
        return none if is_copy else np.sort(order[latest + 1 :])
    together = times.sort_values()
    strides = Frequency.closest(body.unique().sort_values())[0].strides(together) if len(distinct) > 1 else none
    n_before = int((end < body.min()).sum())
    fits = (strides > 0).all() and (n_before == 0 or not len(strides) or strides[n_before - 1] == 1)
    return none if fits else np.sort(order[latest + 1 :])


def check_order(rows: Rows, config: DatasetConfig, report: Report) -> bool:
    """Check that times are unique and increasing; returns whether their steps can be checked."""
    if rows.is_increasing:
        return True
    if len(end := misplaced_end(rows)):
        row, latest = int(end[0]), rows.timestamps.max()
        line = (
            f"expected a time after {latest}, found {rows.timestamps[row]}, {(latest - rows.timestamps[row]).days} "
            f"days before, as with a wrong year or month{count_note(len(end), 'such rows at the end of the times')}; "
            "fix the dates, or remove the rows"
        )
        report.problems.append(rows.problem("end", row, line))
        return False
    repeated = rows.timestamps.duplicated()
    if repeated.any():
        report.problems.append(_duplicates(rows, repeated, config))
    once = np.flatnonzero(~repeated)
    back = np.flatnonzero(np.diff(rows.timestamps.asi8[once]) < 0)
    if len(back):
        before, row = int(once[back[0]]), int(once[back[0] + 1])
        line = (
            f"expected a time after {rows.timestamps[before]}, found {rows.timestamps[row]}"
            f"{count_note(len(back), 'rows go back in time')}; sort the rows by time, or set dataset.sort=true"
        )
        report.problems.append(rows.problem("order", row, line, Repair("sort", True)))
    return True


def _duplicates(rows: Rows, repeated: Bool[np.ndarray, " t"], config: DatasetConfig) -> InputError:
    row, n, first = int(repeated.argmax()), int(repeated.sum()), Repair("duplicates", "first")
    place = f"duplicate timestamp {rows.timestamps[row]}"
    if may_drop(n, len(rows), config):
        line = (
            f"{place}{count_note(n, 'rows repeat a time')}; keep one row per time, or set dataset.duplicates=first, "
            "mean or sum, or, for a file of several series, dataset.series_col"
        )
        return rows.problem("duplicate", row, line, first)
    # share of the repeated rows whose values are those of the first row at their time
    firsts = pd.DataFrame(rows.values).groupby(rows.timestamps, sort=False).transform("first").to_numpy()
    are_alike = ((rows.values == firsts) | np.isnan(rows.values))[repeated].all(axis=1)
    alike = float(are_alike.mean()) if rows.columns else 0.0
    likeness = f", {alike:.0%} of them with the numbers of another row at their time" if alike >= MOSTLY else ""
    sums = f"for sums, {_settings_of('sum', rows)}; " if n >= MANY_MISSING * len(rows) else ""
    line = (
        f"{place} ({n} of {len(rows)} rows repeat a time{likeness}); keep one row per time, or, for a file "
        f"of several series, set dataset.series_col; for times of day in another column, dataset.clock_col; {sums}"
        f"to drop {'this row' if n == 1 else 'these rows'}, dataset.duplicates={config.duplicates or 'first'} "
        "dataset.confirm=[duplicates]"
    )
    return rows.problem("duplicate", row, line, *((first, CONFIRM) if likeness or not sums else ()))


def _equal_steps(rows: Rows) -> str:
    """What to do about rows at any time, such as orders or readings."""
    sums, means = _settings_of("sum", rows), _settings_of("mean", rows)
    return f"write rows at equal steps, or set {sums}, or, for means, such as of readings, {means}"


def _settings_of(joined: Duplicates, rows: Rows) -> str:
    """What to set to join the rows of a time, or of a usual period if times are not at equal steps."""
    once = rows.timestamps.unique().sort_values()
    strides = Frequency.closest(once)[0].strides(once) if len(once) > 1 else np.ones(1, np.int64)
    is_even = strides.min() > 0 and 2 * (strides > 1).sum() <= len(strides)
    return f"dataset.duplicates={joined}{'' if is_even else f' dataset.frequency={usual_period(once)}'}"


def may_drop(n: int, n_rows: int, config: DatasetConfig) -> bool:
    """Whether repairs may drop n of these rows without asking, or have been confirmed."""
    return n <= MOST_DROPPED * n_rows or "duplicates" in config.confirm


def check_clock_changes(rows: Rows, report: Report) -> Rows:
    """The rows in the time zone whose clock changes their local times show, which is a problem; as they are without
    one, or if other rows are missing or repeated too, so that the user has to say which it is."""
    if (found := in_changing_zone(rows.timestamps)) is None:
        return rows
    local, is_clear = found
    places = local.argsort(kind="stable")
    steps, passed = np.diff(rows.timestamps[places].asi8), np.diff(local[places].asi8)
    row = int(np.flatnonzero((passed != steps) & (passed == np.median(passed)))[0])
    before, at = places[row], places[row + 1]
    problem = f"no time between {rows.timestamps[before]} and {rows.timestamps[at]}, as when clocks are set forward"
    if steps[row] <= 0:
        problem = f"local time {rows.timestamps[at]} occurs twice, as when clocks are set back"
    line, cures = f"{problem}; {zone_advice(local.tz, is_clear=is_clear)}", [Repair("timezone", str(local.tz))]
    report.problems.append(rows.problem("clock", at, line, *(cures if is_clear else ())))
    return replace(rows, timestamps=local) if is_clear else rows


KIND = ("unit", "multiple", "season")
"""What steps have in common that differ only in their anchor."""


def choose_step(rows: Rows, expected: str | None, *, is_numbered: bool = False) -> Frequency:
    """The step that most of the sorted rows follow.

    Args:
        rows: sorted by time.
        expected: the step set by the user. If only its anchor (weekday, start or end of the month) differs, the file's
            is used.
        is_numbered: whether the rows have numbers instead of times.

    Raises:
        InputError: the rows follow another step than expected, or are too few to determine one.
    """
    times = rows.timestamps
    frequency = Frequency.parse(expected) if expected is not None else None
    if frequency is not None and (frequency.strides(times) == 1).all():
        return frequency
    if len(times) < 2:
        raise TimeError(
            f"{rows.name}: one row does not determine a step; add rows, or forecast without training: informer "
            "forecast FILE dataset.frequency=h (or another step)"
        )
    closest, n_following = Frequency.closest(times)
    closest = replace(closest, is_numbered=is_numbered)
    # the season distinguishes business hours from all hours, and half-months from weeks
    if frequency is None or all(getattr(closest, name) == getattr(frequency, name) for name in KIND):
        return closest if frequency is None or not frequency.closed else frequency
    is_same = frequency.offset == closest.offset and frequency.is_numbered == is_numbered  # with other opening hours
    if is_same and (frequency.hours is None or (frequency.strides(times) > 0).all()):
        return frequency
    if is_same or n_following == len(times):
        cure = "use rows at that step, or train a model on these (dataset.frequency)"
        if is_same:
            plain = replace(frequency, hours=None).code
            cure = f"to read closed hours as gaps, set dataset.frequency={plain} dataset.fill=mask"
        found = f"expected steps of {frequency.code}, found steps of {closest.code}"
        raise TimeError(f"{rows.name}, column {rows.time_col!r}: {found}; {cure}")
    return frequency


def check_steps(
    rows: Rows, frequency: Frequency, unread: Int[np.ndarray, " k"], config: DatasetConfig, report: Report
) -> int:
    """Check that consecutive rows are one step apart; returns the number of missing rows.

    Args:
        rows: sorted by time.
        frequency: the step.
        unread: line numbers of unreadable times; gaps around them are not reported.
        config: the repairs that were made.
        report: receives the problems.
    """
    strides = frequency.strides(rows.timestamps)
    if (strides == 1).all():
        return 0
    before = np.searchsorted(unread, rows.lines)
    strides = np.where(before[1:] == before[:-1], strides, 1)
    gaps, uneven = np.flatnonzero(strides > 1), np.flatnonzero(strides == 0)
    missing = int((strides[gaps] - 1).sum())
    has_step = 2 * len(uneven) <= len(strides)
    if len(gaps) and has_step:
        last, fill = int(gaps[-1]), fill_for(rows, missing)
        fills = missing <= MOST_NEW * len(rows) and (config.max_gap or missing) >= int(strides.max()) - 1
        year = frequency.future(rows.timestamps[last], 1)[0].tz_localize(None) + pd.DateOffset(years=1)
        if rows.timestamps[last + 1].tz_localize(None) == year and len(rows) - last < SHORT_END * len(rows):
            fills, note = False, "the last rows continue those of a year before, as with a wrong year: fix the dates"
        elif not fills and 2 * len(gaps) > len(strides):  # as orders, whose times are those of minutes
            note = _equal_steps(rows)
        else:
            note = _fill_advice(config, get_args(Fill) if fills else [])
        line = f"{'1 row is' if missing == 1 else f'{missing} rows are'} missing"
        line = f": {line}{f' in {len(gaps)} gaps' if len(gaps) > 1 else ''}; {note}"
        cures = [Repair("fill", fill)] if fills and config.fill is None else []
        report.problems.append(_unexpected("gap", rows, frequency, int(gaps[0]) + 1, line, *cures))
    if len(uneven):
        cure = "write rows at equal steps" if has_step else _equal_steps(rows)
        line = f"{count_note(len(uneven), 'steps of another length')}; {cure}"
        report.problems.append(_unexpected("uneven", rows, frequency, int(uneven[0]) + 1, line))
    return missing


def fill_for(rows: Rows, n_missing: int) -> Fill:
    """How to fill sorted rows, of which others are missing: mask if much would be invented, or cannot be interpolated.

    Columns that lack their first or last values, and most of all, are not counted.
    """
    empty = np.isnan(rows.values)
    ends, shares = empty[[0, -1]].any(axis=0), empty.mean(axis=0)
    used = ~(ends & (shares > MOST_EMPTY))
    missing = (empty[:, used].mean() if used.any() else 0.0) * len(rows) + n_missing
    masks = ends[used].any() or missing >= MANY_MISSING * (len(rows) + n_missing)
    return "mask" if masks else "linear"


def _fill_advice(config: DatasetConfig, fills: Sequence[str]) -> str:
    """What to do about empty cells or missing rows that these settings fill."""
    if config.fill is None and fills:
        *others, last = [fill for fill in fills if fill != "mask"]
        words = f"{', '.join(others)} or {last}" if others else last
        return f"set dataset.fill={words}, or mask, which keeps gaps"
    if config.fill is None or config.keeps_gaps:  # a gap this long means wrong dates
        which = "dataset.fill" if config.fill is None else "dataset.fill=mask"
        return f"more rows than {which} puts in: fix the dates"
    limit = "" if config.max_gap is None else f" within dataset.max_gap={config.max_gap}"
    return f"dataset.fill={config.fill} cannot fill it{limit}: fix the file"


def check_cells(
    rows: Rows, text: Mapping[str, pd.Series], config: DatasetConfig, report: Report, fill: Fill | None = None
) -> None:
    """Check that every value is a number of at most LARGEST.

    Args:
        text: text cells by column, indexed by line number.
        config: the repairs that were made.
        report: receives the problems.
        fill: proposal for empty cells, see `fill_for`; None: they cannot be filled.
    """
    sound = in_range(*extremes(rows.values, np.array([0])))[0]
    are_empty = np.isnan(rows.values).all(axis=0) & ~np.isin(rows.columns, [*text])
    if 1 < are_empty.sum() < len(are_empty) and not config.keeps_gaps:  # one problem, since they may be thousands
        names, others = ([*compress(rows.columns, where)] for where in (are_empty, ~are_empty))
        line = f"{len(names)} columns without a value, {listed(names, 6)}; exclude them with dataset.exclude"
        cure = Repair("columns", others)
        report.problems.append(rows.problem("empty", 0, line, cure, column=names[0]))
        sound = sound | are_empty
    for position, column in enumerate(rows.columns):
        if not sound[position] or column in text:  # a text cell may have been filled
            _check_column(rows, position, text.get(column, pd.Series(dtype=object)), config, fill, report)


def with_zeros(rows: Rows, text: Mapping[str, pd.Series]) -> Rows:
    """The rows with 0 for cells with text, which are reported."""
    values = rows.values.copy()
    for column, cells in text.items():
        values[np.isin(rows.lines, cells.index), rows.columns.index(column)] = 0.0
    return replace(rows, values=values)


def extremes(
    values: Float64[np.ndarray, "t c"], starts: Int[np.ndarray, " s"]
) -> tuple[Float64[np.ndarray, "s c"], Float64[np.ndarray, "s c"]]:
    """The least and the largest value of each column in groups of rows that begin there; NaN where one is missing."""
    if not len(values):
        return np.zeros((1, values.shape[1])), np.zeros((1, values.shape[1]))
    return np.minimum.reduceat(values, starts, axis=0), np.maximum.reduceat(values, starts, axis=0)


def in_range(low: Float64[np.ndarray, "*n"], high: Float64[np.ndarray, "*n"]) -> Bool[np.ndarray, "*n"]:
    """Whether values between these, which are NaN where one is missing, are numbers of at most LARGEST."""
    return (high <= LARGEST) & (low >= -LARGEST)


def _check_column(
    rows: Rows, position: int, text: pd.Series, config: DatasetConfig, fill: Fill | None, report: Report
) -> None:
    column, values = rows.columns[position], rows.values[:, position]
    worded = np.isin(rows.lines, text.index)
    empty, infinite = np.isnan(values) & ~worded, np.isinf(values)
    huge = (np.abs(values) > LARGEST) & ~infinite
    others = [name for name in rows.columns if name != column]
    leave_out = ", or exclude the column with dataset.exclude" if others else ""
    without = [Repair("columns", others)] if others else []
    most = f"a number of at most {LARGEST:g}"
    kinds = ("text", worded, "a number"), ("infinite", infinite, "a number"), ("large", huge, most)
    for code, bad, expected in kinds:
        if bad.any():
            row, n_bad = int(bad.argmax()), int(bad.sum())
            if bad is worded:  # of columns that became rows, several have the same line
                n_bad = min(n_bad, len(text))
            cell = shown(text[text.index == rows.lines[row]].iloc[0] if bad is worded else values[row])
            words = missing_words(text, len(rows)) if bad is worded else []
            advice = f"fix the cell, if it means a missing value set dataset.missing_values=[{','.join(words)}]"
            cure = Repair("missing_values", words)
            is_one = len(np.unique(values[np.isfinite(values)])) == 1 and any(map(str.isalpha, "".join(words)))
            if is_one and column != config.target:
                cure = Repair("categorical", [column])  # such as 0 for no holiday, a and b for two kinds
                advice += f", if all cells are names of categories dataset.categorical={to_display([column])}"
            line = (
                f"expected {expected}, found {cell}{count_note(n_bad, 'such cells')}; "
                f"{advice if words else mark_advice(cell[1:-1])}{leave_out}"
            )
            report.problems.append(rows.problem(code, row, line, *([cure] if words else without), column=column))
    if empty.any() and not config.keeps_gaps:
        is_kept = config.fill is None and fill is not None and not empty.all()
        ends = empty[[0, -1]]
        fills = ["ffill"] * (not ends[0]) + ["linear"] * (not ends.any()) + ["zero"]
        advice = _fill_advice(config, fills) if is_kept or config.fill is not None else "fix the file"
        few = not (ends.any() and empty.mean() > MOST_EMPTY)
        count = count_note(int(empty.sum()), "such cells")
        line = f"expected a number, found an empty cell or NaN{count}; {advice}{leave_out}"
        cures = [Repair("fill", fill)] if is_kept and few else without
        report.problems.append(rows.problem("empty", int(empty.argmax()), line, *cures, column=column))


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
        if column not in table.doubts:
            continue
        (cell, row), mark = table.doubts[column], table.dialect.decimal
        row += table.first_row
        both = f"{cell.replace(mark, '')} or {cell.replace(mark, '.')}"
        line = (
            f"{table.name}, row {row}, column {column!r}: {cell!r} may be {both}, "
            f"because three digits follow every {mark!r} of the column; set dataset.thousands='{mark}' or "
            f"dataset.decimal='{mark}'"
        )
        if table.dialect.separator != ",":
            report.problems.append(InputError(line, code="marks", table=table.name, row=row, column=column))
        else:
            values = table.frame[column].dropna().to_numpy()
            if are_smoother_as_thousands(values, values != np.floor(values)):
                report.warnings.append(line)


def constant_columns(rows: Rows, may_be: Sequence[str] = ()) -> list[str]:
    """A warning for each constant column, except those in `may_be`."""
    if len(rows) < 2:
        return []
    low, high = (each.reduceat(rows.values, [0], axis=0)[0] for each in (np.fmin, np.fmax))  # NaN without values
    still = low == high
    return [
        f"{rows.name}, column {rows.columns[position]!r}: {low[position]:g} in every row; "
        "exclude it with dataset.exclude unless it will change"
        for position in np.flatnonzero(still)
        if rows.columns[position] not in may_be
    ]


def _unexpected(code: str, rows: Rows, frequency: Frequency, row: int, line: str, *repairs: Repair) -> InputError:
    times = frequency.future(rows.timestamps[row - 1], 1)[0], rows.timestamps[row]
    expected, found = map(frequency.text if frequency.is_numbered else str, times)
    return rows.problem(code, row, f"expected {expected} (step {frequency.code}), found {found}{line}", *repairs)


def usual_period(once: pd.DatetimeIndex) -> str:
    """The shortest of hours, days, weeks and months of which at least half have one of these times."""
    wall = once.tz_localize(None)
    for code in ("h", "D"):
        if 2 * wall.floor(code).nunique() >= (wall[-1] - wall[0]) // pd.Timedelta(1, code) + 1:
            return code
    return "W" if 2 * wall.to_period("W").nunique() >= (wall[-1] - wall[0]).days / 7 else "MS"


def ends_without(table: Table, column: str | None) -> bool:
    """Whether the last row of a table has no value in a column."""
    return column in table.frame.columns and len(table.frame) > 0 and bool(pd.isna(table.frame[column].iloc[-1]))


def until_observed(rows: Rows, text: Mapping[str, pd.Series], config: DatasetConfig) -> tuple[Rows, str]:
    """The rows up to the last with a value, unless `config` fills those after it with zeros or the last value, and to
    the last with a target if a column has values in all later ones; and a line about the others, "" without any. Text
    counts as a value."""
    target = None if config.keeps_gaps else config.target
    if not len(rows) or (not np.isnan(rows.values[-1]).any() and rows.is_increasing):
        return rows, ""
    is_observed = ~np.isnan(rows.values)
    for column, cells in text.items():
        is_observed[:, rows.columns.index(column)] |= np.isin(rows.lines, cells.index)
    is_ahead = rows.timestamps > rows.timestamps[is_observed.any(axis=1)].max()
    is_ahead &= config.fill not in ("zero", "ffill")
    line, rows = "no values, and not read: the forecast begins there", rows.take(~is_ahead)
    if target in rows.columns:
        is_observed, times = is_observed[~is_ahead], rows.timestamps
        has_plan = times > times[is_observed[:, rows.columns.index(target)]].max()
        if has_plan.any() and is_observed[has_plan].all(axis=0).any():
            line, rows, is_ahead = f"no {target}, and read as ahead of it", rows.take(~has_plan), has_plan
    return rows, f"{counted(int(is_ahead.sum()), 'row')} at the end with {line}" if is_ahead.any() else ""
