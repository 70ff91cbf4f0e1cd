"""How to train on a file that may not be fit for it: settings that mend its problems, tried before they are told."""

from collections.abc import Sequence
from dataclasses import replace

from informer.data.repair import Duplicates, Fill
from informer.data.report import Problem
from informer.data.source import DatasetConfig, Series, inspect_table
from informer.data.split import cut_rows, shortage
from informer.data.table import Table
from informer.data.windows import WindowSizes

ROUNDS = 4
"""Repairs show what was hidden: sorted rows their gaps, filled ones the columns that cannot be filled."""

LEAST_SEQ_LEN = 4
"""Rows of history below which a model has nothing to learn from."""


def mended(table: Table, config: DatasetConfig, name: str) -> tuple[DatasetConfig, Series] | None:
    """`config` with repairs, without the columns that none mends, and the series it gives; None if nothing helps."""
    for _ in range(ROUNDS):
        series, report = inspect_table(table, config, name)
        if series is not None and not report.problems:
            return config, series
        columns = () if series is None else series.columns
        config = _changed(config, columns, report.problems)
    return None


def fitting_sizes(series: Series, config: DatasetConfig, wanted: WindowSizes) -> WindowSizes | None:
    """The windows wanted, or shorter ones where the parts of the split cannot hold those; None if none fit."""
    sizes = wanted
    while _too_few_rows(series, config, sizes):
        seq_len, pred_len = sizes.seq_len * 3 // 4, max(sizes.pred_len * 3 // 4, 1)
        if seq_len < LEAST_SEQ_LEN:
            return None
        sizes = WindowSizes(seq_len=seq_len, label_len=min(sizes.label_len, seq_len // 2), pred_len=pred_len)
    return sizes


def _changed(config: DatasetConfig, columns: Sequence[str], problems: Sequence[Problem]) -> DatasetConfig:
    """With the repairs that these problems ask for; columns that they have not helped, or cannot, are left out."""
    asked = {setting for problem in problems for setting in problem.settings}
    bad = {problem.column for problem in problems if not problem.settings or config.fill is not None}
    kept = [column for column in columns if column not in bad]
    return replace(
        config,
        sort=config.sort or "dataset.sort=true" in asked,
        duplicates=config.duplicates or (Duplicates.first if "dataset.duplicates=first" in asked else None),
        fill=config.fill or (Fill.linear if "dataset.fill=linear" in asked else None),
        columns=kept if 0 < len(kept) < len(columns) else config.columns,
    )


def _too_few_rows(series: Series, config: DatasetConfig, sizes: WindowSizes) -> bool:
    split = cut_rows(series.timestamps, series.frequency, config.split)
    return shortage(split, len(series), config.split, sizes=sizes, name=series.name) is not None
