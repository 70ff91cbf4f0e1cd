"""Repairs on request: rows sorted, merged or joined, missing ones inserted, gaps filled.

They are reported with their count and first location. No repair drops the newest rows. What remains wrong, the checks
report.
"""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pandas as pd
from jaxtyping import Bool

from informer.base.errors import InputError, TimeError, counted
from informer.config.data import DatasetConfig, Duplicates, Fill
from informer.read.checks import MOST_NEW, choose_step, may_drop, misplaced_end, usual_period
from informer.read.frequency import Frequency
from informer.read.outliers import LEAST_VALUES, first_of_test, without_outliers
from informer.read.rows import Report, Rows

EARLY_END = 0.05
"""Share of periods whose last rows may be earlier than those of a whole period."""

A_MONTH = pd.Timedelta(days=28)
"""Least time by which rows at the end of a file of sales go back with a wrong month; others were written late."""


def repair(rows: Rows, config: DatasetConfig, report: Report, *, is_numbered: bool = False) -> Rows:
    """Make the requested repairs as far as possible; the checks report the remaining problems.

    Args:
        rows: the rows with a time.
        report: receives what was repaired.
    """
    if joins_rows(rows.timestamps, config):
        rows = _joined(rows, config, report)
    elif (config.sort or config.duplicates is not None) and not rows.is_increasing and not len(misplaced_end(rows)):
        back = np.flatnonzero(np.diff(rows.timestamps.asi8) < 0) + 1
        if config.sort and len(back):
            first = rows.lines[back[0]]
            report.repairs.append(f"{rows.name}: sort=true moved rows, the first out of order is row {first}")
            rows = rows.take(rows.timestamps.argsort(kind="stable"))
        if config.duplicates is not None:
            rows = _merged(rows, config.duplicates, config, report)
    step, new = None, np.zeros(len(rows), dtype=bool)
    if config.fill is not None and rows.is_increasing:
        with suppress(InputError):  # the checks report it
            step = choose_step(rows, config.frequency, is_numbered=is_numbered)
    if step is not None and config.fill is not None:
        rows, new = _with_missing_rows(rows, step, config.fill, config.max_gap, report)
    if config.outliers == "missing":
        rows = without_outliers(rows, config, report)
    return rows if config.fill is None else _filled(rows, new, config.fill, config, report)


def joins_rows(times: pd.DatetimeIndex, config: DatasetConfig) -> bool:
    """Whether the rows of a period become one, see `Duplicates`."""
    if config.duplicates != "mean" or config.frequency is None:
        return config.duplicates == "sum" and len(times) > 0
    return bool((Frequency.parse(config.frequency).strides(times.dropna().unique().sort_values()) == 0).any())


def _joined(rows: Rows, config: DatasetConfig, report: Report) -> Rows:
    """A row with the sums or means of each period, see `Duplicates`. A sum with an empty cell is missing, unless these
    are filled with 0.

    Codes of categories are those of the period's first row, or of the one before. Rows with a wrong year at the end are
    left to the checks.
    """
    end, once = misplaced_end(rows), rows.timestamps.unique().sort_values()
    if len(once) < 2 or (len(end) and rows.timestamps.max() - rows.timestamps[end].max() >= A_MONTH):
        return rows
    step = Frequency.parse(config.frequency) if config.frequency else Frequency.closest(once)[0]
    if config.frequency is None and (step.strides(once) == 0).any():
        raise TimeError(
            f"{rows.name}, column {rows.time_col!r}: times are not at equal steps; for sums, set dataset.frequency="
            f"{usual_period(once)} next to dataset.duplicates=sum"
        )
    times, codes = step.periods(rows.timestamps)
    order = np.lexsort((~np.isnan(rows.values).any(axis=1), codes))  # an empty cell is reported in its row
    present, firsts = np.unique(codes[order], return_index=True)
    firsts, are_sums = order[firsts], config.duplicates == "sum"
    groups = pd.DataFrame(rows.values).groupby(codes)
    joined, kept = (groups.sum(), np.arange(len(times))) if are_sums else (groups.mean(), present)
    if are_sums and config.fill != "zero":
        joined = joined.where(groups.count().eq(groups.size(), axis=0))
    values = joined.reindex(kept, fill_value=0.0).to_numpy(copy=True)
    fixed = rows.positions([*config.categorical, *config.static_covariates])
    values[:, fixed] = rows.values[firsts[np.searchsorted(present, kept, side="right") - 1]][:, fixed]
    report.repairs.append(
        f"{rows.name}: duplicates={'sum' if are_sums else 'mean'}: {len(kept)} {'sums' if are_sums else 'means'} "
        f"({step.code}) of {len(rows)} rows from {rows.timestamps.min()} to {rows.timestamps.max()}"
        f"{f', {len(kept) - len(present)} without rows are 0' if are_sums else ''}"
    )
    # seconds from the time of each period to its last row; of series, some are seldom sold
    lasts = (pd.Series(rows.timestamps).groupby(codes).max() - times[present]).dt.total_seconds().to_numpy()
    is_short = len(kept) > LEAST_VALUES and lasts[-1] < np.quantile(lasts[:-1], EARLY_END)
    if are_sums and config.series_col is None and is_short:
        report.warnings.append(
            f"{rows.name}: the last sum, {step.text(times[-1])}, is of rows up to {rows.timestamps.max()}, earlier "
            "than in other periods; if more will follow, remove its rows"
        )
    lines = rows.lines[firsts[np.searchsorted(present, kept)]]
    return replace(rows, timestamps=times[kept], values=values, lines=lines)


def _merged(rows: Rows, duplicates: Duplicates, config: DatasetConfig, report: Report) -> Rows:
    repeated = rows.timestamps.duplicated()
    n = int(repeated.sum())
    if not n or not may_drop(n, len(rows), config):
        return rows
    first = rows.lines[repeated.argmax()]
    report.repairs.append(f"{rows.name}: duplicates={duplicates} dropped {n} rows, first row {first}")
    merged = rows.take(~repeated)
    if duplicates == "first":
        return merged
    # sort=False: groups in the order of their first rows, like `kept`
    means = pd.DataFrame(rows.values).groupby(rows.timestamps, sort=False).mean()
    values = means.to_numpy(copy=True)
    codes = rows.positions(config.categorical)
    values[:, codes] = merged.values[:, codes]
    return replace(merged, values=values)


def _with_missing_rows(
    rows: Rows, step: Frequency, fill: Fill, max_gap: int | None, report: Report
) -> tuple[Rows, Bool[np.ndarray, " t"]]:
    """Insert empty rows at missing timestamps; returns the rows, and which are new."""
    missing = np.maximum(step.strides(rows.timestamps) - 1, 0)
    if max_gap is not None:
        missing = np.where(missing > max_gap, 0, missing)
    if not 0 < missing.sum() <= MOST_NEW * len(rows):
        return rows, np.zeros(len(rows), dtype=bool)
    first = int(np.flatnonzero(missing)[0])
    report.repairs.append(
        f"{rows.name}: fill={fill} inserted {counted(int(missing.sum()), 'missing row')}, first "
        f"{step.future(rows.timestamps[first], 1)[0]} before row {rows.lines[first + 1]}"
    )
    inserted = [step.future(rows.timestamps[row], int(missing[row])) for row in map(int, np.flatnonzero(missing))]
    times = pd.DatetimeIndex(rows.timestamps.append(inserted).sort_values())
    places = rows.timestamps.searchsorted(times)  # of the row at each time, or the one after it
    new = np.asarray(rows.timestamps[places] != times)
    values = np.where(new[:, None], np.nan, rows.values[places])
    return replace(rows, timestamps=times, values=values, lines=rows.lines[places]), new


def _filled(rows: Rows, new: Bool[np.ndarray, " t"], fill: Fill, config: DatasetConfig, report: Report) -> Rows:
    """Fill gaps; mask keeps them, except in static columns, which have one value, and in categorical columns, where
    they become 0."""
    empty = np.isnan(rows.values)
    if not empty.any():
        return rows
    frame, codes = pd.DataFrame(rows.values), rows.positions(config.categorical)
    filled = {
        "ffill": frame.ffill,
        "linear": lambda: _interpolated(frame, first_of_test(rows, config)),
        "zero": lambda: frame.fillna(0.0),
        "mask": frame.copy,
    }[fill]()
    if fill == "mask":
        static = rows.positions(config.static_covariates)
        filled.iloc[:, static] = frame.iloc[:, static].ffill().bfill()
        filled.iloc[:, codes] = filled.iloc[:, codes].fillna(0.0)
    else:
        filled.iloc[:, codes] = frame.iloc[:, codes].ffill()
    values = filled.to_numpy(copy=True)
    if config.max_gap is not None:  # an empty cell is in the run of the last value before it
        runs = pd.DataFrame(empty).apply(lambda cells: cells.groupby((~cells).cumsum()).transform("sum"))
        values[empty & (runs > config.max_gap).to_numpy()] = np.nan
    said = (np.isnan(values) if fill == "mask" else empty & ~np.isnan(values)) & ~new[:, None]
    if said.any():
        row = int(said.any(axis=1).argmax())
        done = f"keeps {said.sum()} empty cells missing" if fill == "mask" else f"filled {said.sum()} empty cells"
        report.repairs.append(
            f"{rows.name}: fill={fill} {done}, first row {rows.lines[row]}, column "
            f"{rows.columns[int(said[row].argmax())]!r}"
        )
    return replace(rows, values=values)


def _interpolated(frame: pd.DataFrame, first: int) -> pd.DataFrame:
    """Gaps between values filled linearly; before row `first` without the values from there on."""
    filled = frame.interpolate(limit_area="inside")
    before = frame.iloc[:first].interpolate(limit_area="inside").ffill()
    filled.iloc[:first] = before.where(filled.iloc[:first].notna())
    return filled
