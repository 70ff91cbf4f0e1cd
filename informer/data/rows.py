"""Rows of a model's series as one CSV file, which any later command reads as they were."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from informer.config.dataset import PLACES, DatasetConfig, Short, SplitConfig
from informer.data.read.categories import Labels
from informer.data.read.source import Series

UNKNOWN = "(unknown)"
"""Cell of a category that training did not have."""

SERIES = "series"
"""Column that names the series where they had no such column, each being a file of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What the rows of `rows_table` are."""

    series_col: str | None
    time_col: str
    timezone: str | None
    frequency: str
    columns: Sequence[str]
    categorical: Sequence[str]


def series_column(names: Sequence[str], series_col: str | None, taken: Sequence[str]) -> str | None:
    """The column that names the series of each row; None for a single series without one.

    Args:
        names: of the series.
        series_col: that of training.
        taken: other columns.
    """
    if series_col is not None or len(names) <= 1:
        return series_col
    return next(name for name in (SERIES, "unique_id", "_series") if name not in taken)


def rows_table(panel: Sequence[Series], labels: Labels, series_col: str | None) -> pd.DataFrame:
    """All rows: the series if a column names it, the time, and the columns, categories as text.

    Args:
        labels: by column, its categories in the order of their numbers, from 1.
    """
    tables = []
    for series in panel:
        table = pd.DataFrame(series.values, columns=list(series.columns))
        for name, own in labels.items():
            words = np.array([UNKNOWN, *own], dtype=object)
            table[name] = words[table[name].to_numpy().astype(int)]
        times = [moment.isoformat(sep=" ") for moment in series.timestamps]
        table.insert(0, series.time_col, pd.Series(times, dtype=object))
        if series_col is not None:
            table.insert(0, series_col, series.name)
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def rows_dataset(trained: DatasetConfig, path: Path, like: Written, split: SplitConfig | None = None) -> DatasetConfig:
    """How the file of `rows_table` is read again.

    Args:
        trained: of the run.
        path: of the file.
        like: what its rows are.
        split: None: as in training.
    """
    usual = DatasetConfig()
    written = ("clock_col", "time_format", "separator", "decimal", "thousands", "encoding", "sort", "duplicates")
    repairs = ("fill", "max_gap", "confirm", "exclude", "exclude_files", "memmap", "packaged")
    found = replace(trained, **{name: getattr(usual, name) for name in (*PLACES, *written, *repairs)})
    return replace(
        found,
        path=str(path),
        series_col=like.series_col,
        short=Short.error,
        time_col=like.time_col,
        timezone=like.timezone,
        frequency=like.frequency,
        columns=list(like.columns),
        categorical=list(like.categorical),
        split=split or trained.split,
    )
