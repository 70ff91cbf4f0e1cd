"""Numbers that are times: years, periods and dates in digits, counts since 1970, days of a spreadsheet."""

import numpy as np
import pandas as pd
from pandas.api.types import is_float_dtype, is_integer_dtype, is_numeric_dtype

from informer.config.data import EXCEL
from informer.read.date_text import USUAL_YEARS
from informer.read.frequency import SECOND, UNIT_NANOS

YEARS = range(1000, 9000)
"""Years for which pandas can compute steps in both directions; near the years 1 and 9999 its offsets fail."""


USUAL_DAYS = (18_264, 73_051)
"""Range of spreadsheet days (1950 to 2099) in which numbers in a time column are taken for days."""

USUAL = {EXCEL: USUAL_DAYS} | {
    unit: (500_000_000 * SECOND // nanos, 1_900_000_000 * SECOND // nanos) for unit, nanos in UNIT_NANOS.items()
}
"""Ranges of numbers by which spreadsheet days and counts since 1970 (1985 to 2030) are recognised."""


def usual_units(cells: pd.Series) -> list[str]:
    """The formats in whose USUAL ranges all numbers are, the finest last; none for years, dates or hours as digits such
    as 2024013123. Counts of several units are of one time whose unit was changed."""
    counts = cells.dropna().to_numpy(np.float64)
    ranges = {unit: (counts >= low) & (counts < high) for unit, (low, high) in USUAL.items()}
    units = [unit for unit, inside in ranges.items() if inside.any()]
    are_all = len(counts) > 0 and sum(int(ranges[unit].sum()) for unit in units) == len(counts)
    return units if are_all and (len(units) == 1 or EXCEL not in units) else []


def changed_unit(cells: pd.Series) -> str | None:
    """The finest of several units of counts since 1970, all rising or falling; None for others."""
    units = usual_units(cells) if are_whole(cells) else []
    return units[-1] if len(units) > 1 and (cells.is_monotonic_increasing or cells.is_monotonic_decreasing) else None


def numbered_periods(cells: pd.Series) -> str | None:
    """The format of numbers such as 202401 or 2024.01 that are years and months, or 202401 that are years and ISO
    weeks, almost all of which follow one another; None for other numbers."""
    numbers = cells.dropna().to_numpy(np.float64)
    size, mark = (100, "") if is_integer_dtype(cells) else (1, ".")
    # 240131 is a day in 2024 rather than a week of 2401
    if not len(numbers) or numbers.min() < size * YEARS.start or numbers.max() >= size * USUAL_YEARS.stop:
        return None
    numbers = numbers * (100 // size)
    whole = np.unique(np.rint(numbers))
    years, parts = whole // 100, whole % 100
    if len(whole) < 3 or parts.min() < 1 or np.abs(numbers - np.rint(numbers)).max() > 1e-6:
        return None
    formats = {f"%Y{mark}%m": [12]} | ({} if mark else {"%G%V": [52, 53]})
    begins = np.diff(years) > 0
    for time_format, in_year in formats.items():
        steps = np.stack([np.diff(years * n + parts) for n in in_year])
        # few are left out from some year to the next, or the numbers are others, such as 240131
        is_usual = (steps == 1).any(axis=0).mean() >= MOSTLY and (not begins.any() or steps[:, begins].min() < 12)
        if is_usual and parts.max() <= max(in_year):
            return time_format
    return None


def are_whole(cells: pd.Series) -> bool:
    """Whether cells are whole numbers, also as floats, as pandas reads them next to empty cells."""
    return is_integer_dtype(cells) or (is_float_dtype(cells) and bool((cells.dropna() % 1 == 0).all()))


def digits_format(cells: pd.Series) -> str | None:
    """The format of whole numbers that are all dates with the year first, such as 20240131, or 2024013123 and more
    digits with times of day (ISO 8601, basic format); None for other numbers."""
    known = cells.dropna() if is_numeric_dtype(cells) else cells[:0]
    least = known.min() if len(known) else 0
    n_clock = next((n for n in range(4) if 10**7 <= least / 100**n < 10**8), None)
    if n_clock is None or not are_whole(cells) or known.max() >= YEARS.stop * 10_000 * 100**n_clock:
        return None
    numbers, time_format = known.astype("int64"), "%Y%m%d" + "%H%M%S"[: 2 * n_clock]
    days = pd.Series((numbers // 100**n_clock).unique()).astype("str")
    clocks = [(numbers // 100**place % 100).max() for place in reversed(range(n_clock))]
    are_clocks = all(most < limit for most, limit in zip(clocks, (24, 60, 60), strict=False))
    are_days = are_clocks and pd.to_datetime(days, format="%Y%m%d", errors="coerce").notna().all()
    return time_format if are_days else None


MOSTLY = 0.9
"""Minimum share of steps one way in a column of counts since 1970."""
