"""What a file's columns may be besides numbers to forecast: categories, or attributes of its series."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from informer.config.dataset import DatasetConfig
from informer.config.reading import Duplicates, Fill
from informer.data.read.numeric import has_numbers, has_words
from informer.data.read.report import Report
from informer.data.read.source import inspect_table, repeated_text
from informer.data.read.table import Table
from informer.data.read.timestamps import find_time_column
from informer.errors import InputError

MANY_MISSING = 0.05
"""Share of values from which on filled ones would be a part of training and of scores."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Settings that nobody gave.

    Args:
        categorical: columns of text that repeats.
        static: columns that are constant within each series, and not the same in all.
    """

    categorical: tuple[str, ...] = ()
    static: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: Table, dataset: DatasetConfig, target: str | None) -> "Proposal":
        """Look at a whole file; nothing is proposed where `dataset` names the columns to read."""
        try:
            time_col = find_time_column(table, dataset.time_col)
        except InputError:  # reported with all else that is wrong with the table
            return cls()
        given = {time_col, dataset.series_col, target, *dataset.categorical, *dataset.static_covariates}
        others = [column for column in table.columns if column not in given]
        if dataset.columns is not None or not len(table.frame) or table.repeated:
            return cls()
        static: list[str] = []
        if dataset.series_col in table.columns:
            groups = table.frame.groupby(dataset.series_col, sort=False, observed=True)[others]
            constant = (groups.nunique(dropna=False) == 1).all()
            static = [name for name in others if constant[name] and table.frame[name].nunique(dropna=False) > 1]
        text = [
            name for name in others if name not in static and has_words(table, name) and not has_numbers(table, name)
        ]
        return cls(tuple(repeated_text(table, text)), tuple(static))

    def added(self, dataset: DatasetConfig) -> DatasetConfig:
        """The settings with these; without them where repairs have to leave out columns."""
        if dataset.columns is not None:
            return dataset
        return replace(
            dataset,
            categorical=[*dataset.categorical, *self.categorical],
            static_covariates=[*dataset.static_covariates, *self.static],
        )


NOTHING = Proposal()


def gap_lines(table: Table, dataset: DatasetConfig, name: str, report: Report) -> Iterator[str]:
    """That many values are missing, and the setting that invents none."""
    if dataset.fill is not None or not any("dataset.fill=linear" in one.settings for one in report.problems):
        return
    ordered = replace(dataset, sort=True, duplicates=dataset.duplicates or Duplicates.first, confirm=["duplicates"])
    series, _ = inspect_table(table, replace(ordered, fill=Fill.mask, max_gap=None), name)
    share = 0.0 if series is None else float(np.isnan(series.values).mean())
    if share >= MANY_MISSING:
        yield (
            f"gaps:     {share:.0%} of the values are missing; dataset.fill=mask keeps them missing, where "
            "dataset.fill=linear would invent them"
        )
