"""Find settings that fix the problems of a file; they are tried before they are suggested."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from informer.config.dataset import DatasetConfig
from informer.config.lengths import WindowSizes
from informer.config.repairs import Duplicates, Fill
from informer.data.read.repair import CONFIRM
from informer.data.read.report import Problem
from informer.data.read.source import Series, inspect_table
from informer.data.read.table import Table
from informer.data.split import cut_rows, shortage

ROUNDS = 5
"""Maximum rounds of repairs; a repair may reveal further problems, such as gaps after sorting."""

MANY_MISSING = 0.05
"""Share of missing values above which filled values would distort training and scores."""

MOST_EMPTY = 0.5
"""Maximum share of missing values of a column for which gaps are kept (fill=mask)."""

LEAST_SEQ_LEN = 4
"""Minimum rows of history for a useful model."""


def repaired_config(
    table: Table, config: DatasetConfig, name: str, *, confirms: bool = False
) -> tuple[DatasetConfig, Series] | None:
    """`config` with repairs and without columns that cannot be repaired, and the resulting series; None if no repair
    helps.

    Args:
        table, config, name: see `inspect_table`.
        confirms: also propose to drop many rows (`dataset.confirm`), if their numbers are those of other rows.
    """
    requested_fill = config.fill
    for _ in range(ROUNDS):
        series, report = inspect_table(table, config, name)
        if series is not None and not report.problems:
            return _with_many_gaps(table, config, name, requested_fill) or (config, series)
        if (
            requested_fill is None
            and config.fill is Fill.linear
            and series is not None
            and _has_ends(series, report.problems)
        ):
            config = replace(config, fill=Fill.mask)
            continue
        columns = () if series is None else series.columns
        config = _changed(config, columns, report.problems)
        if confirms and any(CONFIRM in problem.settings for problem in report.problems):
            config = replace(config, confirm=["duplicates"])
    return None


def _with_many_gaps(
    table: Table, config: DatasetConfig, name: str, requested_fill: Fill | None
) -> tuple[DatasetConfig, Series] | None:
    """`config` that keeps gaps, and its series, if filling them would invent many values; else None."""
    if requested_fill is not None or config.fill is not Fill.linear:
        return None
    masked = replace(config, fill=Fill.mask)
    series, report = inspect_table(table, masked, name)
    if series is None or report.problems or np.isnan(series.values).mean() < MANY_MISSING:
        return None
    return masked, series


def fitting_sizes(series: Series, config: DatasetConfig, longest: WindowSizes) -> WindowSizes | None:
    """The requested window sizes, or shorter ones if the parts of the split are too short; None if none fit."""
    sizes = longest
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
    settings = {setting for problem in problems for setting in problem.settings}
    bad = {problem.column for problem in problems if not problem.settings or config.fill is not None}
    remaining = [column for column in columns if column not in bad]
    return replace(
        config,
        sort=config.sort or "dataset.sort=true" in settings,
        duplicates=config.duplicates or (Duplicates.first if "dataset.duplicates=first" in settings else None),
        fill=config.fill or (Fill.linear if "dataset.fill=linear" in settings else None),
        missing_values=_united(config.missing_values, settings),
        timezone=config.timezone or _value_of("dataset.timezone", settings),
        time_format=config.time_format or _value_of("dataset.time_format", settings),
        columns=remaining if 0 < len(remaining) < len(columns) else config.columns,
    )


def _united(missing_values: Sequence[str], settings: Iterable[str]) -> list[str]:
    """The configured missing values and those of the suggested settings."""
    lists = [
        setting.partition("=[")[2].removesuffix("]")
        for setting in sorted(settings)
        if setting.startswith("dataset.missing_values=")
    ]
    return list(dict.fromkeys([*missing_values, *(word for words in lists for word in words.split(","))]))


def _value_of(key: str, settings: Iterable[str]) -> str | None:
    """The value of the first of the settings with this key; None if there is none."""
    return next((setting.partition("=")[2] for setting in settings if setting.startswith(f"{key}=")), None)


def _too_few_rows(series: Series, config: DatasetConfig, sizes: WindowSizes) -> bool:
    split = cut_rows(series.timestamps, series.frequency, config.split)
    return shortage(split, len(series), config.split, sizes=sizes, name=series.name) is not None
