"""Readings far from all others, and numbers that may mean a missing value, such as -200 or 9999."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import numpy as np
from jaxtyping import Float64, Int

from informer.base.errors import Repair
from informer.config.data import DatasetConfig
from informer.config.overrides import to_display
from informer.read.frequency import Frequency
from informer.read.rows import LARGEST, OUTLIER, Report, Rows, count_note
from informer.read.split import cut_rows

MOST_WORDS = 3
"""Maximum number of distinct words in a column of numbers that are proposed as `dataset.missing_values`."""

_CODE = re.compile(r"-?(?:9{2,}(?:\.9+)?|7{3,}|8{3,}|32767|32768|65535|2147483647|9\.9+e[+]\d+|1e[+]\d+)")
"""Numbers as which missing values are usually written."""

LEAST_REPEATED, FAR_NUMBER = 3, 4
"""Minimum number of cells with such a number, and distance in units of the range of the others; see `check_far`."""


FAR, FAR_ABOVE_ZERO = 10.0, 30.0
"""Distance of an outlier from all other values, in units of their range; above amounts that are zero at times."""

LEAST_VALUES, LEAST_SHIFTED = 10, 3
"""Minimum number of values among which one can be an outlier; of alike ones in a row that are a new level instead."""


def outliers(values: Float64[np.ndarray, " t"]) -> Int[np.ndarray, " k"]:
    """Positions of the few values (at most 3, or 0.5 %, on each side) that are far from all others.

    Far means by FAR times the range of the others, which heavy tails and growth do not reach. Of amounts that are zero
    most of the time, the range is that of the others, and a first one is no outlier. Missing values are ignored.
    """
    if len(values) < LEAST_VALUES:
        return np.zeros(0, dtype=np.int64)
    sample = np.sort(values[:: 1 + len(values) // 1000])
    n_known = len(sample) - int(np.isnan(sample).sum())
    low, high = sample[[n_known // 10, n_known * 9 // 10]] if n_known else (0.0, 0.0)
    least, most = np.fmin.reduce(values), np.fmax.reduce(values)
    if max(-least, most) <= LARGEST and most - least <= FAR * (high - low):
        return np.zeros(0, dtype=np.int64)  # usual, and much faster than what follows
    rows = np.flatnonzero(np.abs(values) <= LARGEST)
    numbers = values[rows]
    has_zeros = bool((numbers == 0).any())
    if has_zeros and np.median(numbers) == 0:
        rows = rows[numbers != 0]
    n = len(rows)
    if n < LEAST_VALUES:
        return rows[:0]
    most = min(max(3, n // 200), n // 4)
    numbers = values[rows]
    inner = np.partition(numbers, [most, n // 2, n - most - 1])
    low, center, high = inner[most], abs(inner[n // 2]), inner[n - most - 1]
    above = FAR_ABOVE_ZERO if has_zeros and low >= 0 else FAR
    least = FAR * _spread(low, high, center)
    if numbers.min() >= low - least and numbers.max() <= high + least:
        return rows[:0]
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    gaps = np.diff(ordered)
    first = max((i + 1 for i in range(most) if gaps[i] > least), default=0)
    stop = min((i + 1 for i in range(n - most - 1, n - 1) if gaps[i] > least), default=n)
    for _ in range(2):  # one side may be inside the bound of the other
        spread = _spread(ordered[first], ordered[stop - 1], center)
        first = first if first and gaps[first - 1] > FAR * spread else 0
        stop = stop if stop < n and gaps[stop - 1] > above * spread else n
    far = np.sort(np.r_[order[:first], order[stop:]])
    runs = np.split(far, np.flatnonzero(np.diff(far) > 1) + 1)
    return rows[[row for run in runs if not _is_level(numbers[run]) for row in run]]


def _spread(low: float, high: float, center: float) -> float:
    """The range of values, at least a tenth of their size; ten times the size of a constant."""
    return max(high - low, center / 10) if high > low else 10 * center


def _is_level(run: Float64[np.ndarray, " _"]) -> bool:
    sizes = np.abs(run)
    return len(run) >= LEAST_SHIFTED and abs(np.sign(run).sum()) == len(run) and bool(sizes.max() <= 2 * sizes.min())


def outlier_text(values: Float64[np.ndarray, " t"], far: Int[np.ndarray, " k"]) -> str:
    """The first of these outliers next to the other values."""
    others = np.delete(values, far)
    return f"{values[far[0]]:.10g} is far from all others ({np.nanmin(others):.6g} to {np.nanmax(others):.6g})"


def first_of_test(rows: Rows, config: DatasetConfig) -> int:
    """The first row of the test part, which decides nothing about the rows before it; all rows without such a part."""
    try:
        step = config.frequency or "h"  # counted in months only
        if config.split.kind == "months" and config.frequency is None:
            step = Frequency.closest(rows.timestamps)[0].code
        return cut_rows(rows.timestamps, Frequency.parse(step), config.split).test.start
    except ValueError:  # reported where the rows are divided
        return len(rows)


def outliers_of(rows: Rows, config: DatasetConfig, first: int = 0) -> Iterator[tuple[int, Int[np.ndarray, " k"]]]:
    """Positions of columns, and of their outliers: before row `first` among the rows there, later among all."""
    for position, column in enumerate(rows.columns):
        if column not in (*config.categorical, *config.static_covariates):
            values = rows.values[:, position]
            later = outliers(values)
            far = np.append(outliers(values[:first]), later[later >= first])
            if len(far):
                yield position, far


def check_outliers(rows: Rows, config: DatasetConfig, report: Report) -> None:
    """Check for readings far from all others of their column, unless the user has said what to do about them."""
    for position, far in outliers_of(rows, config) if config.outliers is None else ():
        column = rows.columns[position]
        line = (
            f"{outlier_text(rows.values[:, position], far)}{count_note(len(far), 'such cells')}; if it is wrong, set "
            f"dataset.outliers=missing{'' if config.fill else ' with dataset.fill=mask or ffill'}, if it is right, "
            "dataset.outliers=keep"
        )
        cure = Repair("outliers", "missing")
        report.problems.append(rows.problem(OUTLIER, int(far[0]), line, cure, column=column))


def without_outliers(rows: Rows, config: DatasetConfig, report: Report) -> Rows:
    """The rows with their outliers read as missing."""
    values = rows.values.copy()
    for position, far in outliers_of(rows, config, first_of_test(rows, config)):
        values[far, position] = np.nan
        report.repairs.append(
            f"{rows.at(int(far[0]), rows.columns[position])}: outliers=missing: "
            f"{outlier_text(rows.values[:, position], far)}, read as missing{count_note(len(far), 'such cells')}"
        )
    return replace(rows, values=values)


def check_far(rows: Rows, config: DatasetConfig, report: Report) -> None:
    """Warn of numbers that may mean a missing value, such as -200 or 9999.

    They are the least or largest value of a column with many values, repeated, and far from the others: farther than
    these spread if they are written as such numbers usually are, otherwise negative and four times as far. Those that
    are `outliers` are reported as such.
    """
    if config.outliers == "keep":
        return
    columns: dict[str, list[str]] = {}
    for column, values in zip(rows.columns, rows.values.T, strict=True):
        if column not in (*config.categorical, *config.static_covariates) and (found := far_numbers(values)):
            columns[column] = found
    if not columns:
        return
    report.far = list(dict.fromkeys(chain(*columns.values())))
    are_far = np.isin(rows.values, [float(number) for number in report.far])
    column, numbers = next(iter(columns.items()))
    position = rows.columns.index(column)
    cells, others = are_far[:, position], rows.values[~are_far[:, position], position]
    keep = "" if config.fill is not None else " dataset.fill=mask"
    line = (
        f"{' and '.join(numbers)} in {cells.sum()} of {len(cells)} cells, far from the others ({np.nanmin(others):g} "
        f"to {np.nanmax(others):g}){count_note(len(columns), 'such columns')}; if it means a missing value, set "
        f"dataset.missing_values={to_display(report.far)}{keep}, if it is right, dataset.outliers=keep"
    )
    problem = rows.problem(OUTLIER, int(cells.argmax()), line, column=column)
    if are_far[-1].any():  # which a forecast would continue
        report.problems.append(problem)
    else:
        report.warnings.append(str(problem))


def far_numbers(values: Float64[np.ndarray, " t"]) -> list[str]:
    """Numbers that may mean a missing value, see `check_far`."""
    found: list[str] = []
    rest = values[np.isfinite(values)]
    for _ in range(2 * MOST_WORDS):
        for end, is_least in ((rest.min(), True), (rest.max(), False)) if len(rest) else ():
            code = _CODE.fullmatch(f"{end:.15g}") is not None
            if not (code or end < 0):
                continue
            if np.count_nonzero(rest == end) < LEAST_REPEATED:
                continue
            inner = others = rest[rest != end]
            while len(inner) and _CODE.fullmatch(f"{(edge := inner.min() if is_least else inner.max()):.15g}"):
                inner = inner[inner != edge]
            if not len(inner):
                continue
            low, high = inner.min(), inner.max()
            is_far = max(low - end, end - high) > (1 if code else FAR_NUMBER) * (high - low)
            if is_far and len(np.unique(inner)) >= LEAST_VALUES:
                are_outliers = np.isin(np.flatnonzero(values == end), outliers(values)).all()
                found += [] if are_outliers else [f"{end:.15g}"]
                rest = others
                break
        else:
            break
    return found
