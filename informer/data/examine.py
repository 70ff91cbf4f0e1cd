"""Cells -> rows that follow one step: repairs that were asked for, then every check, all into one report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from informer.data.checks import check_cells, check_order, check_steps, check_times, choose_step
from informer.data.frequency import Frequency
from informer.data.repair import Repairs, repair
from informer.data.report import Report
from informer.data.rows import Rows
from informer.data.table import Table, numbers
from informer.data.timestamps import find_format, parse_timestamps


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What rows are held to.

    Args:
        time_format: of the time column; None finds it.
        frequency: the step expected; None finds it.
        repairs: made before the checks.
        history: rows that are needed, the last ones: older rows are neither checked nor taken. None: all of them.
    """

    time_format: str | None
    frequency: str | None
    repairs: Repairs
    history: int | None


@dataclass(frozen=True, slots=True)
class Examined:
    """Rows in order of time, their step (None where none shows), and the format that read the timestamps.

    `n_rows` counts those too whose time could not be read, or repeats.
    """

    rows: Rows
    frequency: Frequency | None
    time_format: str | None
    n_rows: int


def examine(table: Table, time_col: str, columns: Sequence[str], demands: Demands, report: Report) -> Examined | None:
    """Read, repair and check. The rows are sound where the report has no problems; None where no time can be read."""
    # repairs may move rows, or fill from older ones
    recent = table if demands.history is None or demands.repairs else table.end(demands.history)
    with report.gathering():
        # by all rows: the last ones may not settle it
        time_format = find_format(table, time_col, demands.time_format)
        times = parse_timestamps(recent, time_col, time_format)
        unread = recent.cells(time_col, np.flatnonzero(times.isna()))
        rows, text = read_cells(recent, time_col, columns, times)
        return _examine_rows(rows, unread, text, demands, time_format, report)
    rows, text = read_cells(recent, time_col, columns, timeless(len(recent.frame)))
    check_cells(rows, text, demands.repairs.advice, report)
    return None


def timeless(n: int) -> pd.DatetimeIndex:
    """n times that are not known."""
    return pd.DatetimeIndex(np.full(n, "NaT", "datetime64[s]"))


def read_cells(
    table: Table, time_col: str, columns: Sequence[str], times: pd.DatetimeIndex
) -> tuple[Rows, dict[str, pd.Series]]:
    """Columns as numbers, at these times; and by column the cells that are text, for `check_cells`."""
    values, positions = numbers(table, columns)
    rows = Rows(table.name, time_col, tuple(columns), times, values, table.lines)
    return rows, {column: table.cells(column, where) for column, where in positions.items()}


def _examine_rows(
    rows: Rows,
    unread: pd.Series,
    text: Mapping[str, pd.Series],
    demands: Demands,
    time_format: str | None,
    report: Report,
) -> Examined:
    """`unread`: cells that should have been times, by their lines."""
    read = repair(rows.timed, demands.repairs, demands.frequency, report)
    if demands.history is not None:
        older = read.lines[: -demands.history]
        read = read.take(slice(-demands.history, None))
        if len(older) and not demands.repairs.sort:  # sorted, an unread time may belong anywhere
            unread = unread[unread.index > older[-1]]
    check_times(rows.name, unread, time_format, report)
    check_order(read, report)
    ordered, frequency = read.in_order(), None
    with report.gathering():
        if len(ordered):
            frequency = choose_step(ordered, demands.frequency)
            check_steps(ordered, frequency, unread.index.to_numpy(), demands.repairs.advice, report)
    check_cells(read, text, demands.repairs.advice, report)
    return Examined(ordered, frequency, time_format, len(read) + len(unread))
