"""Covariates as they were known: several rows for a time, each with the time at which it was issued.

A value counts from its issue on, a measured one, whose issue is empty, from its own time on, before all that was issued
until then. A row of the history has the newest values that were issued by its own time, and a
forecast those of later rows that were issued by its origin, the last row of its history.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64, Int64

from informer.base.errors import InputError, listed
from informer.config.data import DatasetConfig
from informer.config.overrides import to_display
from informer.read.table import Table
from informer.read.times import check_zones, find_format, parse_timestamps


@dataclass(frozen=True, slots=True)
class Issues:
    """Every value as it was issued, in the order of the times, and for a time in the order of its issues.

    Args:
        columns: names of the value columns.
        timestamps, issued: time of each row, and time of its issue.
        values: the rows; NaN where an issue has no value.
    """

    columns: tuple[str, ...]
    timestamps: pd.DatetimeIndex
    issued: pd.DatetimeIndex
    values: Float64[np.ndarray, "e c"]

    def of(self, known: Sequence[str], name: str) -> "Issues":
        """The issues of the columns that are known ahead; the others must have one value for each time.

        Args:
            known: names of these columns.
            name: name of the series in errors.

        Raises:
            InputError: another column changes from issue to issue, or no column is known ahead.
        """
        if not known:
            raise InputError(
                f"dataset.issued_at: {name} has no columns known ahead, which are issued; name them in "
                "future_covariates=[...]"
            )
        frame = pd.DataFrame(self.values, columns=list(self.columns)).drop(columns=list(known))
        least, most = (getattr(frame.groupby(self.timestamps), end)() for end in ("min", "max"))
        differs = (least != most).to_numpy() & least.notna().to_numpy()
        if differs.any():
            row, place = (int(each[0]) for each in np.nonzero(differs))
            raise InputError(
                f"{name}, column {frame.columns[place]!r}: expected one value for {least.index[row]}, found "
                f"{least.iat[row, place]:g} and {most.iat[row, place]:g} in its issues; name it in future_covariates, "
                f"or leave it out with dataset.exclude={to_display([frame.columns[place]])}"
            )
        places = [self.columns.index(column) for column in known]
        return replace(self, columns=tuple(known), values=self.values[:, places])


def with_issues(table: Table, config: DatasetConfig) -> Table:
    """The table with the column `dataset.issued_at` read as times of issue, and no longer among its columns.

    Of a local time that occurs twice it is the second, so that nothing is read before it was issued.

    Raises:
        InputError: no such column, or a cell in it is not a time.
    """
    column = config.issued_at
    if column is None or table.issued is not None:
        return table
    if column not in table.columns:
        raise table.missing("dataset.issued_at", column)
    given = replace(table, frame=table.frame.loc[table.frame[column].notna(), [column]])
    times = pd.DatetimeIndex([])
    if len(given.frame):
        times = parse_timestamps(given, column, find_format(given, column, config.time_format))
    if config.timezone is not None and times.tz is None:
        second = np.full(len(times), False)
        times = times.tz_localize(config.timezone, ambiguous=second, nonexistent="shift_forward")
    if times.hasnans:
        row = int(times.isna().argmax())
        raise InputError(
            f"{given.at(row, column)}: expected the time of an issue, or an empty cell in rows of measured values, "
            f"found {str(given.frame[column].iloc[row])!r}; fix the cell"
        )
    issued = pd.Series(times, index=given.frame.index).reindex(table.frame.index)
    return replace(table.without([column]), issued=issued)


def issue_groups(table: Table, names: np.ndarray | None = None) -> np.ndarray | None:
    """The rows that were issued together, as numbers: local times that repeat in them are those of a clock change.

    Args:
        names: names of the series of each row, if there are several.
    """
    if table.issued is None:
        return names
    keys = pd.DataFrame(
        {"issued": table.issued.loc[table.frame.index].to_numpy(), "name": 0 if names is None else names}
    )
    return keys.groupby(["issued", "name"], sort=False, dropna=False).ngroup().to_numpy()


def issue_times(table: Table, times: pd.DatetimeIndex) -> tuple[pd.DatetimeIndex, Bool[np.ndarray, "t"]]:
    """The time at which each row of a table was issued, its own time if that is empty; and whether it is.

    Args:
        times: of the rows.

    Raises:
        InputError: only one of both has a time zone.
    """
    assert table.issued is not None, "of a table with issues"
    issued = pd.DatetimeIndex(table.issued.loc[table.frame.index], name=None)
    is_empty = np.asarray(issued.isna())
    if is_empty.all():
        return times, is_empty
    check_zones(f"{table.name}, dataset.issued_at", issued.tz, times.tz, "the time column")
    issued = issued if times.tz is None else issued.tz_convert(times.tz)
    return pd.DatetimeIndex(issued.where(~is_empty, times)), is_empty


def in_order(times: pd.DatetimeIndex, issued: pd.DatetimeIndex, last: Bool[np.ndarray, "t"]) -> Int64[np.ndarray, "t"]:
    """Positions of the rows by time, those of a time by issue, and of the same issue the `last` ones last."""
    return np.lexsort((last, issued.as_unit("ns").asi8, times.as_unit("ns").asi8))


def newest(frame: pd.DataFrame, times: pd.DatetimeIndex) -> pd.DataFrame:
    """For each time the last value of each column that is not missing; the rows are in the order of `in_order`."""
    return frame.groupby(times, sort=False).last()


def issued_twice(issues: Issues, is_empty: Bool[np.ndarray, "e"]) -> tuple[int, str] | None:
    """Position and text of a value that differs from another one of the same time and issue; None if there is none.

    Args:
        is_empty: which rows do not say when they were issued.
    """
    frame = pd.DataFrame(issues.values, columns=list(issues.columns))
    first = frame.groupby([issues.timestamps, issues.issued, is_empty], sort=False).transform("first")
    differs = ((frame != first) & frame.notna()).to_numpy()
    if not differs.any():
        return None
    row = int(differs.any(axis=1).argmax())
    when = "without a time of issue" if is_empty[row] else f"issued at {issues.issued[row]}"
    return row, f"another value of {listed(frame.columns[differs[row]].tolist())} for {issues.timestamps[row]}, {when}"
