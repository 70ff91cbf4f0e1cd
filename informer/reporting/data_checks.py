"""Checks of the data for a report: drift, constant columns, repeated values, outliers."""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float64

from informer.data.pipeline import Data
from informer.data.scaler import ROUNDING, standard_deviation

DRIFT = 1.0
"""Minimum distance between the means of training and test rows, in training standard deviations."""
OUTLIER = 10.0
"""Minimum distance from the median, in robust standard deviations."""
STUCK = 0.2
"""Minimum share of rows that repeat the previous row, in a column with many different values."""
MOST, MOST_LINES = 12, 40
"""Maximum number of problems and of notes listed; the rest are counted."""


def data_problems(data: Data) -> list[str]:
    """One sentence per problem, worst first."""
    problems = sorted((each for group in _all(data) for each in group), key=lambda each: -each[0])
    lines = [line for _, line in problems[:MOST]]
    if len(problems) > MOST:
        lines.append(f"and {len(problems) - MOST} more")
    return lines


def _all(data: Data) -> Iterator[list[tuple[float, str]]]:
    several = len(data.panel) > 1
    for series, split in zip(data.panel, data.splits, strict=True):
        for c, column in enumerate(data.inputs):
            if column in (*data.categories, *data.columns.static_covariates):
                continue  # category codes, and columns that are constant by definition
            where = f"{series.name}, {column}" if several else column
            values = (series.values[rows.start : rows.stop, c] for rows in (split.train, split.test))
            train, test = (array[~np.isnan(array)] for array in values)
            if len(train) and len(test):
                yield list(_problems(where, train, test))


def _problems(
    where: str, train: Float64[np.ndarray, "a"], test: Float64[np.ndarray, "b"]
) -> Iterator[tuple[float, str]]:
    spread = standard_deviation(train)
    if spread == 0.0:
        yield 1e3, f"{where}: constant in the training rows ({train[0]:.6g}); the model cannot learn from it"
        return
    shift = float(test.mean() - train.mean()) / spread
    if abs(shift) > DRIFT:
        way = "above" if shift > 0 else "below"
        yield (
            100 + abs(shift),
            (
                f"{where}: the mean of the test rows is {abs(shift):.1f} training standard deviations {way} that "
                "of the training rows; models fitted on old rows may be off"
            ),
        )
    if len(np.unique(train)) > len(train) / 20:
        still = float((np.diff(train) == 0).mean())
        if still > STUCK:
            yield (
                50 + still,
                f"{where}: {still:.0%} of the training rows repeat the previous value; possibly a stuck sensor",
            )
    median = float(np.median(train))
    deviation = 1.4826 * float(np.median(np.abs(train - median)))
    is_noise = deviation <= ROUNDING * np.spacing(abs(median))
    far = 0 if is_noise else int((np.abs(train - median) > OUTLIER * deviation).sum())
    if 0 < far <= max(3, len(train) // 200):
        worst = train[int(np.abs(train - median).argmax())]
        rows = "row is" if far == 1 else "rows are"
        yield (
            10 + far / 1e6,
            (
                f"{where}: {far} training {rows} more than {OUTLIER:g} robust standard deviations from the median "
                f"({worst:.6g} against {median:.6g})"
            ),
        )


def listed_lines(lines: Sequence[str]) -> list[str]:
    """The first lines, and the number of others."""
    return [*lines[:MOST_LINES], *([f"and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else [])]
