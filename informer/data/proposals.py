"""Settings that `informer inspect` suggests for the columns of a file, and the lines about gaps and seasons."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64

from informer.config.dataset import DatasetConfig
from informer.config.overrides import to_display
from informer.config.repairs import Duplicates, Fill
from informer.data.read.advice import MANY_MISSING
from informer.data.read.calendar_columns import repeats_calendar
from informer.data.read.frequency import Frequency
from informer.data.read.numeric import has_numbers, has_words
from informer.data.read.repair import CONFIRM
from informer.data.read.report import FEW_ALIKE, MOST_ALIKE, Report
from informer.data.read.source import inspect_table
from informer.data.read.step_words import lasting
from informer.data.read.table import Table
from informer.data.read.time_column import find_time_column
from informer.data.read.value_columns import repeated_text
from informer.data.seasonality import Season, bridged, find_seasons, usual_periods
from informer.errors import InputError, listed

MOST_SEASONS = 12
"""Largest number of columns whose seasons are reported, counted from the last, which is the default target."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Column settings to add to those of the user.

    Args:
        categorical: text columns whose values repeat.
        static: columns that are constant within each series but differ between series.
        exclude: columns of years, months, days or hours next to the time column.
    """

    categorical: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: Table, dataset: DatasetConfig, target: str | None) -> "Proposal":
        """The proposal for a whole file; empty if `dataset` lists the columns to read."""
        try:
            time_col = find_time_column(table, dataset.time_col)
        except InputError:  # reported together with the table's other problems
            return cls()
        assigned = {time_col, dataset.series_col, target, *dataset.categorical, *dataset.static_covariates}
        candidates = [column for column in table.columns if column not in assigned]
        if dataset.columns is not None or not len(table.frame) or table.repeated:
            return cls()
        exclude = tuple(column for column in candidates if repeats_calendar(column, table.frame[column]))
        candidates = [column for column in candidates if column not in exclude]
        static: list[str] = []
        if dataset.series_col in table.columns:
            groups = table.frame.groupby(dataset.series_col, sort=False, observed=True)[candidates]
            constant = (groups.nunique(dropna=False) == 1).all()
            static = [name for name in candidates if constant[name] and table.frame[name].nunique(dropna=False) > 1]
        text = [
            name
            for name in candidates
            if name not in static and has_words(table, name) and not has_numbers(table, name)
        ]
        return cls(tuple(repeated_text(table, text)), tuple(static), exclude)

    def lines(self) -> Iterator[str]:
        """The line that reports columns which repeat the time."""
        if self.exclude:
            setting = f"dataset.exclude={to_display(self.exclude)}"
            yield f"calendar: {listed(self.exclude)} repeat the time; {setting} leaves them out"

    def added(self, dataset: DatasetConfig) -> DatasetConfig:
        """`dataset` with the proposed settings, unless repairs have restricted its columns."""
        if dataset.columns is not None:
            return dataset
        return replace(
            dataset,
            exclude=[*dataset.exclude, *self.exclude],
            categorical=[*dataset.categorical, *self.categorical],
            static_covariates=[*dataset.static_covariates, *self.static],
        )


NOTHING = Proposal()


def gap_lines(table: Table, dataset: DatasetConfig, name: str, report: Report) -> Iterator[str]:
    """The line that reports a large share of missing values, with the setting that keeps them missing."""
    if dataset.fill is not None or not any("dataset.fill=linear" in problem.settings for problem in report.problems):
        return
    ordered = replace(dataset, sort=True, duplicates=dataset.duplicates or Duplicates.first, confirm=["duplicates"])
    series, _ = inspect_table(table, replace(ordered, fill=Fill.mask, max_gap=None), name)
    share = 0.0 if series is None else float(np.isnan(series.values).mean())
    if share >= MANY_MISSING:
        yield (
            f"gaps:     {share:.0%} of the values are missing; dataset.fill=mask keeps them missing, where "
            "dataset.fill=linear would invent them"
        )


def confirm_lines(table: Table, dataset: DatasetConfig, configured: DatasetConfig, name: str) -> Iterator[str]:
    """Lines on the rows that a proposed `dataset.confirm` would drop; none if `configured` already has it."""
    if dataset.confirm != configured.confirm:
        _, report = inspect_table(table, replace(dataset, confirm=configured.confirm), name)
        yield from (f"confirm:  {problem.line}" for problem in report.problems if CONFIRM in problem.settings)


def unrepairable_advice(table: Table) -> str:
    """Advice for a table that no setting can repair."""
    repeated = table.repeated
    if not repeated:
        return "fix the file, or apply the suggested settings, and run this again"
    # pandas names the second of two columns ISE, ISE.1
    names = [name for name in table.columns[1:] if not {name, name.rpartition(".")[0]} & set(repeated)]
    return (
        f"give each column {listed(repeated)} a name of its own in row 1, or leave them out: "
        f"dataset.columns={to_display(names)}"
    )


def season_lines(columns: Sequence[tuple[str, Float64[np.ndarray, "t"]]], frequency: Frequency) -> Iterator[str]:
    """Lines on the seasons of the last columns; many columns with the same periods share a line."""
    alike: dict[tuple[int, ...], dict[str, list[Season]]] = {}
    heading = "seasons: " if len(columns) <= MOST_SEASONS else f"seasons of the last {MOST_SEASONS} columns:"
    for column, values in columns[-MOST_SEASONS:]:
        seasons = find_seasons(bridged(values), usual_periods=usual_periods(frequency))
        if seasons:
            alike.setdefault(tuple(season.period for season in seasons), {})[column] = seasons
    for group in alike.values():
        if len(group) <= FEW_ALIKE:
            entries = [(name, "repeats", {name: seasons}) for name, seasons in group.items()]
        else:
            entries = [(listed(list(group), MOST_ALIKE), "repeat", group)]
        yield from (
            f"{heading} {names} {repeat} every {_in_words(by_column, frequency)}"
            for names, repeat, by_column in entries
        )


def _in_words(alike: Mapping[str, Sequence[Season]], frequency: Frequency) -> str:
    """The periods, strongest first, with their autocorrelation; for several columns, its range."""
    descriptions = []
    for seasons in zip(*alike.values(), strict=True):
        low, high = (f"{end(season.strength for season in seasons):.2f}" for end in (min, max))
        strength, n = low if low == high else f"{low} to {high}", seasons[0].period
        descriptions.append(f"{lasting(n, frequency)} ({n} rows, correlation {strength})")
    return ", ".join(descriptions)
