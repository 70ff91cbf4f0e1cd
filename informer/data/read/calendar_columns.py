"""Join columns of years, months, days, hours and minutes, or of years and quarters, to one column of times."""

import calendar
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pandas as pd
from jaxtyping import Int64
from pandas.api.types import is_integer_dtype

from informer.data.read.cells import decoded
from informer.data.read.table import Table, shown
from informer.errors import InputError

YEARS = range(1000, 9000)
"""Years for which pandas can compute steps in both directions; near the years 1 and 9999 its offsets fail."""

NAMES = {
    "year": {"year", "yr", "yyyy", "jahr", "annee", "année", "año", "anno", "jaar", "år"},
    "quarter": {"quarter", "qtr", "quartal", "trimestre", "kwartaal", "kvartal"},
    "month": {"month", "mnth", "mon", "mo", "mm", "monat", "mois", "mes", "mese", "maand", "måned"},
    "day": {"day", "dd", "dy", "tag", "jour", "dia", "día", "giorno", "dag", "day of month", "day_of_month"},
    "hour": {"hour", "hr", "hours", "hh", "stunde", "heure", "hora", "ora", "uur"},
    "minute": {"minute", "minutes"},
    "second": {"second", "seconds"},
}
"""Column names (any case) of each part of a time."""

RANGES = {
    "year": YEARS,
    "quarter": range(1, 5),
    "month": range(1, 13),
    "day": range(1, 32),
    "hour": range(24),
    "minute": range(60),
    "second": range(60),
}
"""Values of each part."""

_FINER = ("month", "day", "hour", "minute", "second")
"""Parts that follow the year; each needs those before it."""

_SECONDS = {"hour": 3600, "minute": 60, "second": 1}

_MONTHS = {
    name.lower(): number
    for names in (calendar.month_name, calendar.month_abbr)
    for number, name in enumerate(names)
    if name
}
_QUARTERS = {f"q{number}": number for number in RANGES["quarter"]}


def are_years(column: str, cells: pd.Series) -> bool:
    """Whether a column has the name of a year, and all its cells are years of four digits."""
    in_range = _part(column) == "year" and is_integer_dtype(cells) and len(cells) > 0
    return in_range and bool(cells.between(YEARS.start, YEARS.stop - 1).all())


def repeats_calendar(column: str, cells: pd.Series) -> bool:
    """Whether a column is named after a year, quarter, month, day or hour, and has only such numbers."""
    part = _part(column)
    if part is None or part in ("minute", "second") or not is_integer_dtype(cells):
        return False
    return bool(cells.between(RANGES[part].start, RANGES[part].stop - 1).all())


def calendar_parts(columns: Sequence[str]) -> list[str]:
    """The columns named after a part of a time."""
    return [column for column in columns if _part(column) is not None]


def month_columns(columns: Sequence[str]) -> list[str]:
    """The columns named after the twelve months, if there is one for each in their order; else none."""
    months = [column for column in columns if column.strip().lower() in _MONTHS]
    return months if [_MONTHS[column.strip().lower()] for column in months] == list(RANGES["month"]) else []


def find_calendar_columns(table: Table, excluded: Collection[str]) -> dict[str, str]:
    """The columns of the parts of a time by part, the year first; empty unless there is at least a month or quarter.

    Args:
        table: a table without a column of dates.
        excluded: columns with other roles.
    """
    columns: dict[str, str] = {}
    for column in table.columns:
        part = _part(column)
        if part is not None and column not in excluded:
            if part in columns:  # which of the two?
                return {}
            columns[part] = column
    parts = ["year"]
    for part in _FINER:
        if part not in columns:
            break
        parts.append(part)
    if parts == ["year"] and "quarter" in columns:
        parts.append("quarter")
    if (
        "year" not in columns
        or len(parts) == 1
        or any(part in columns for part in ("day", "hour") if part not in parts)
    ):
        return {}
    return {part: columns[part] for part in parts}


def joined_calendar(table: Table, parts: Mapping[str, str]) -> Table:
    """The table with one column in place of those of the parts: text such as 2024-01-31 or 2024Q1, to which times of
    day in text may be joined, or timestamps if there are hours.

    Args:
        parts: see `find_calendar_columns`.

    Raises:
        InputError: a cell is out of range, empty or not a whole number.
    """
    numbers = {part: _numbers(table, part, column) for part, column in parts.items()}
    unit: Literal["M", "D"] = "D" if "day" in parts else "M"
    month = numbers["month"] if "month" in parts else 3 * numbers["quarter"] - 2
    months = (12 * (numbers["year"] - 1970) + month - 1).astype("datetime64[M]")
    times = months.astype(f"datetime64[{unit}]")
    if "day" in parts:
        times = times + (numbers["day"] - 1)
        _check_days(table, parts["day"], times.astype("datetime64[M]") != months)
    if "hour" in parts:
        times = times.astype("datetime64[s]") + sum(
            numbers[part] * _SECONDS[part] for part in _SECONDS if part in parts
        )
    position = min(table.columns.index(column) for column in parts.values())
    frame = table.frame.drop(columns=list(parts.values()))
    name = next(name for name in ("date", "time", "timestamp", "_date") if name not in frame.columns)
    cells = pd.Series(times if "hour" in parts else _written(times, "quarter" in parts), index=frame.index)
    frame.insert(position, name, cells)
    return replace(table, frame=frame)


def _written(times: np.ndarray, as_quarters: bool) -> pd.Series:
    """Days or months as text, each distinct one made once."""
    distinct, indices = np.unique(times, return_inverse=True)
    texts = np.datetime_as_string(distinct).tolist()
    if as_quarters:
        texts = [f"{text[:4]}Q{(int(text[5:]) + 2) // 3}" for text in texts]
    return pd.Series(np.array(texts, dtype=object)[indices], dtype="str")


def _check_days(table: Table, column: str, wrong: np.ndarray) -> None:
    if wrong.any():
        row = int(wrong.argmax())
        cell = shown(table.frame[column].iloc[row])
        raise InputError(f"{table.at(row, column)}: expected a day of its month, found {cell}; fix it")


def _part(column: str) -> str | None:
    """The part of a time that a column is named after."""
    name = column.strip().lower()
    return next((part for part, names in NAMES.items() if name in names), None)


def _numbers(table: Table, part: str, column: str) -> Int64[np.ndarray, "t"]:
    """The cells of a part as whole numbers; names of months and Q1 to Q4 are numbers too."""
    cells, allowed = decoded(table.frame[column]), RANGES[part]
    if isinstance(cells.dtype, pd.StringDtype) or cells.dtype == object:
        names = {"month": _MONTHS, "quarter": _QUARTERS}.get(part, {})
        lower = cells.astype(str).str.strip().str.lower()
        cells = lower.map(names).where(lower.isin(names), pd.to_numeric(lower, errors="coerce"))
    numbers = pd.to_numeric(cells, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    wrong = ~((numbers >= allowed.start) & (numbers < allowed.stop) & (numbers == np.floor(numbers)))
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"{table.at(row, column)}: expected {allowed.start} to {allowed.stop - 1}, found "
            f"{shown(table.frame[column].iloc[row])}; fix it, or name the time column with dataset.time_col"
        )
    return numbers.astype(np.int64)
