"""What a file holds, found without being asked: its series, what is wrong, and the settings that repair it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from informer.config.dataset import DatasetConfig
from informer.config.reading import Fill
from informer.data.panel import panel_tables
from informer.data.read.advice import repaired_config
from informer.data.read.report import Problem, grouped
from informer.data.read.source import Series, inspect_table, table_of_file
from informer.data.read.table import Table, name_of
from informer.data.read.timestamps import find_time_column
from informer.data.seasonality import Season, bridged, find_seasons
from informer.errors import InputError

FEW = 10
"""Rows for each of its values, on average, that a column which names series has at least."""

MOST_REPEATED = 0.01
"""Share of rows that may repeat the time of their series in it; they are for the checks to find."""

MOST_SERIES = 4
"""Series whose seasons are looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """One file.

    Args:
        path: of it.
        written: how it is written, where that is not common.
        dataset: settings that read its series, with the repairs that it needs.
        panel: the series, as these settings give them; empty where no setting helps.
        problems: lines of what is wrong without repairs.
        repairs: lines of what the repairs do.
        n_rows: of the file.
    """

    path: Path
    written: str
    dataset: DatasetConfig
    panel: Sequence[Series]
    problems: Sequence[str]
    repairs: Sequence[str]
    n_rows: int

    @property
    def is_readable(self) -> bool:
        """The settings read all of its series."""
        return bool(self.panel)


def survey_file(path: Path, dataset: DatasetConfig) -> Survey:
    """Look at one file.

    Args:
        path: of it.
        dataset: what is known of it; the column that names its series is found where it is not given.

    Raises:
        InputError: it cannot be read as a table.
    """
    table = table_of_file(path, dataset)
    found = None if dataset.series_col else series_column(table, dataset)
    if found is not None:
        dataset = replace(dataset, series_col=found)
        table = table_of_file(path, dataset)  # names as they are written there: 001
    tables = list(panel_tables(table, name_of(path), dataset))
    problems: list[Problem] = []
    repaired: list[DatasetConfig] = []
    for own, name, config in tables:
        _, report = inspect_table(own, config, name)
        problems += report.problems
        if report.problems:
            better = repaired_config(own, config, name)
            if better is None:
                return _survey(path, table, dataset, [], problems, [])
            repaired.append(better[0])
    given, dataset = dataset, with_repairs(dataset, repaired)
    panel: list[Series] = []
    repairs: list[str] = []
    if dataset.timezone != given.timezone:
        repairs.append(f"{path.name}: timezone={dataset.timezone}: times are local, with its clock changes")
    for own, name, config in tables:
        series, report = inspect_table(own, with_repairs(config, repaired), name)
        if series is None or report.problems:
            return _survey(path, table, dataset, [], [*problems, *report.problems], repairs)
        panel.append(series)
        repairs += report.repairs
    return _survey(path, table, dataset, panel, problems, repairs)


def _survey(
    path: Path,
    table: Table,
    dataset: DatasetConfig,
    panel: Sequence[Series],
    problems: Sequence[Problem],
    repairs: Sequence[str],
) -> Survey:
    return Survey(
        path=path,
        written=table.dialect.uncommon(),
        dataset=dataset,
        panel=panel,
        problems=grouped(problems),
        repairs=repairs,
        n_rows=len(table.frame),
    )


def series_column(table: Table, dataset: DatasetConfig) -> str | None:
    """The column that names the series of each row, if times repeat as those of many series do."""
    try:
        time_col = find_time_column(table, dataset.time_col)
    except InputError:  # reported with all else that is wrong with the table
        return None
    rows = table.frame
    if not len(rows) or len(rows) < 2 * rows[time_col].nunique():
        return None
    others = (name for name in table.columns if name not in (time_col, dataset.target))
    few = (name for name in others if rows[name].nunique() * FEW <= len(rows))
    repeated = {name: float(rows.duplicated([name, time_col]).mean()) for name in few}
    best = min(repeated, key=lambda name: repeated[name], default=None)
    return best if best is not None and repeated[best] <= MOST_REPEATED else None


def common_fill(wanted: Sequence[Fill | None]) -> Fill | None:
    """One that serves all: `mask` where another cannot fill some."""
    return Fill.mask if Fill.mask in wanted else next(filter(None, wanted), None)


def with_repairs(dataset: DatasetConfig, repaired: Sequence[DatasetConfig]) -> DatasetConfig:
    """Every repair that one of `repaired` asks for, which changes nothing where nothing is wrong; columns that all
    of them keep."""
    if not repaired:
        return dataset
    lists = [one.columns for one in repaired if one.columns is not None]
    columns = dataset.columns
    if lists:
        columns = [name for name in lists[0] if all(name in other for other in lists)]
    return replace(
        dataset,
        columns=columns,
        sort=any(one.sort for one in repaired),
        duplicates=next((one.duplicates for one in repaired if one.duplicates), dataset.duplicates),
        fill=common_fill([one.fill for one in repaired]) or dataset.fill,
        timezone=next((one.timezone for one in repaired if one.timezone), dataset.timezone),
    )


def seasons_of(panel: Sequence[Series], columns: Sequence[str]) -> list[Season]:
    """The seasons of these columns over some of the series, the clearest first; strengths are means."""
    strengths: dict[int, float] = {}
    looked = 0
    for series in _longest(panel):
        for column in columns:
            looked += 1
            for season in find_seasons(bridged(series.values[:, series.columns.index(column)])):
                strengths[season.period] = strengths.get(season.period, 0.0) + season.strength
    found = [Season(period, total / looked) for period, total in strengths.items()]
    return sorted(found, key=lambda season: -season.strength)


def _longest(panel: Sequence[Series]) -> list[Series]:
    return sorted(panel, key=len, reverse=True)[:MOST_SERIES]
