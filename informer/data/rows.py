"""Write the rows of a model's series to one CSV file that any later command can read."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from informer.config.data import DatasetConfig, Short, SplitConfig, settings_that
from informer.read.columns import Labels
from informer.read.series import Series

UNKNOWN = "(unknown)"
"""Cell of a category that training did not contain."""

SERIES = "series"
"""Column of series names, if each series came from a file of its own."""


def series_column(names: Sequence[str], series_col: str | None, taken: Sequence[str]) -> str | None:
    """The column with the name of each row's series; None for a single series without one.

    Args:
        names: names of the series.
        series_col: the column in training, if there was one.
        taken: names of the other columns.
    """
    if series_col is not None or len(names) <= 1:
        return series_col
    return next(name for name in (SERIES, "unique_id", "_series") if name not in taken)


def rows_table(panel: Sequence[Series], labels: Labels, series_col: str | None) -> pd.DataFrame:
    """Table of all rows: series (if `series_col` is given), time, and the columns, with categories as text.

    Args:
        labels: categories of each categorical column, in the order of their codes, from 1.
        series_col: column for the names of series, or None.
    """
    tables = []
    for series in panel:
        table = pd.DataFrame(series.values, columns=list(series.columns))
        for name, categories in labels.items():
            texts = np.array([UNKNOWN, *categories], dtype=object)
            table[name] = texts[table[name].to_numpy().astype(int)]
        times = [moment.isoformat(sep=" ") for moment in series.timestamps]
        table.insert(0, series.time_col, pd.Series(times, dtype=object))
        if series_col is not None:
            table.insert(0, series_col, series.name)
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def rows_dataset(
    trained: DatasetConfig,
    path: Path,
    *,
    series_col: str | None,
    time_col: str,
    timezone: str | None,
    frequency: str,
    columns: Sequence[str],
    categorical: Sequence[str],
    split: SplitConfig | None = None,
) -> DatasetConfig:
    """Configuration that reads the file of a `rows_table` with these columns, zone and step.

    Args:
        trained: configuration of the run.
        split: split to use; None: as in training.
    """
    # the file is written in one way, whatever those of training looked like
    kept = (*settings_that(reading=False, place=None), *settings_that(is_limit=True))
    return replace(
        DatasetConfig(**{name: getattr(trained, name) for name in kept}),
        memmap=False,
        target=trained.target,
        static_covariates=trained.static_covariates,
        path=str(path),
        series_col=series_col,
        short=Short.error,
        time_col=time_col,
        timezone=timezone,
        frequency=frequency,
        columns=list(columns),
        categorical=list(categorical),
        split=split or trained.split,
    )
