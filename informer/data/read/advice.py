"""Find settings that fix the problems of a file; they are tried before they are suggested."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from informer.config.dataset import DatasetConfig
from informer.config.lengths import WindowSizes
from informer.config.repairs import Duplicates, Fill
from informer.data.read.report import Problem
from informer.data.read.source import Series, inspect_table
from informer.data.read.table import Table
from informer.data.split import cut_rows, shortage

ROUNDS = 4
"""Maximum rounds of repairs; a repair may reveal further problems, such as gaps after sorting."""

ZONE = "dataset.timezone="

MOST_EMPTY = 0.5
"""Maximum share of missing values of a column for which gaps are kept (fill=mask)."""

LEAST_SEQ_LEN = 4
"""Minimum rows of history for a useful model."""


def repaired_config(table: Table, config: DatasetConfig, name: str) -> tuple[DatasetConfig, Series] | None:
    """`config` with repairs and without columns that cannot be repaired, and the resulting series; None if no repair
    helps."""
    given = config.fill
    for _ in range(ROUNDS):
        series, report = inspect_table(table, config, name)
        if series is not None and not report.problems:
            return config, series
        if given is None and config.fill is Fill.linear and series is not None and _has_ends(series, report.problems):
            config = replace(config, fill=Fill.mask)
            continue
        columns = () if series is None else series.columns
        config = _changed(config, columns, report.problems)
    return None


def fitting_sizes(series: Series, config: DatasetConfig, wanted: WindowSizes) -> WindowSizes | None:
    """The requested window sizes, or shorter ones if the parts of the split are too short; None if none fit."""
    sizes = wanted
    while _too_few_rows(series, config, sizes):
        seq_len, pred_len = sizes.seq_len * 3 // 4, max(sizes.pred_len * 3 // 4, 1)
        if seq_len < LEAST_SEQ_LEN:
            return None
        sizes = WindowSizes(seq_len=seq_len, label_len=min(sizes.label_len, seq_len // 2), pred_len=pred_len)
    return sizes


def _has_ends(series: Series, problems: Sequence[Problem]) -> bool:
    """Whether a column with missing values at its start or end, which cannot be filled, is mostly observed otherwise,
    so that dropping it would lose too much."""
    late = [problem.column for problem in problems if problem.column in series.columns and problem.settings]
    empty = np.isnan(series.values).mean(axis=0)
    return any(empty[series.columns.index(column)] <= MOST_EMPTY for column in late)


def _changed(config: DatasetConfig, columns: Sequence[str], problems: Sequence[Problem]) -> DatasetConfig:
    """The configuration with repairs for these problems, without columns that cannot be repaired."""
    asked = {setting for problem in problems for setting in problem.settings}
    bad = {problem.column for problem in problems if not problem.settings or config.fill is not None}
    kept = [column for column in columns if column not in bad]
    return replace(
        config,
        sort=config.sort or "dataset.sort=true" in asked,
        duplicates=config.duplicates or (Duplicates.first if "dataset.duplicates=first" in asked else None),
        fill=config.fill or (Fill.linear if "dataset.fill=linear" in asked else None),
        timezone=config.timezone or next((one.partition("=")[2] for one in asked if one.startswith(ZONE)), None),
        columns=kept if 0 < len(kept) < len(columns) else config.columns,
    )


def _too_few_rows(series: Series, config: DatasetConfig, sizes: WindowSizes) -> bool:
    split = cut_rows(series.timestamps, series.frequency, config.split)
    return shortage(split, len(series), config.split, sizes=sizes, name=series.name) is not None
