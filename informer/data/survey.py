"""Survey of a data file: its series, its problems, and the settings that repair them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from informer.config.dataset import REPAIRS, DatasetConfig, with_repairs
from informer.data.panel import panel_tables
from informer.data.read.advice import repaired_config
from informer.data.read.report import Problem, grouped
from informer.data.read.separating import separating_column
from informer.data.read.source import Series, inspect_table, table_of_file
from informer.data.read.table import Table, name_of
from informer.data.read.time_column import find_time_column, looks_dated
from informer.data.seasonality import Season, bridged, find_seasons, usual_periods
from informer.errors import InputError, listed

MOST_SERIES = 4
"""Number of series in which seasons are searched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Survey of one file.

    Args:
        format_note: description of its format, empty if it is common.
        dataset: settings that read its series, including the repairs it needs.
        panel: the series read with these settings; empty if no settings can repair the file.
        problems: one line for each problem before repairs.
        repairs: one line for each repair.
        n_rows: number of rows of the file.
        unused: columns that the series do not have, except times, unless `dataset` lists the columns.
        dropped: columns with numbers that the repairs leave out.
    """

    path: Path
    format_note: str
    dataset: DatasetConfig
    panel: Sequence[Series]
    problems: Sequence[str]
    repairs: Sequence[str]
    n_rows: int
    unused: Sequence[str]
    dropped: Sequence[str]

    @property
    def is_readable(self) -> bool:
        """Whether the settings read all of its series."""
        return bool(self.panel)


def survey_file(path: Path, dataset: DatasetConfig) -> Survey:
    """Survey one file.

    Args:
        dataset: known settings. If `series_col` is not given, it is detected.

    Raises:
        InputError: the file cannot be read as a table.
    """
    table = table_of_file(path, dataset)
    series_col = None if dataset.series_col else series_column(table, dataset)
    if series_col is not None:
        dataset = replace(dataset, series_col=series_col)
        table = table_of_file(path, dataset)  # read again, so that names such as 001 are text
    tables = list(panel_tables(table, name_of(path), dataset))
    problems: list[Problem] = []
    repaired: list[DatasetConfig] = []
    for rows, name, config in tables:
        _, report = inspect_table(rows, config, name)
        problems += report.problems
        if report.problems:
            better = repaired_config(rows, config, name)
            if better is None:
                return _survey(path, table, dataset, [], problems, [])
            # `config` has what is known of the series besides, such as the format of its times
            changed = {name: getattr(better[0], name) for name in REPAIRS}
            changed = {name: value for name, value in changed.items() if value != getattr(config, name)}
            repaired.append(replace(dataset, **changed))
    original, dataset = dataset, with_repairs([dataset, *repaired])
    panel: list[Series] = []
    repairs: list[str] = []
    if dataset.timezone != original.timezone:
        repairs.append(f"{path.name}: timezone={dataset.timezone}: times are local, with its clock changes")
    if dataset.missing_values != original.missing_values:
        repairs.append(f"{path.name}: missing_values={listed(dataset.missing_values)}: read as empty cells")
    for rows, name, config in tables:
        series, report = inspect_table(rows, with_repairs([config, *repaired]), name)
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
        format_note=table.dialect.uncommon(),
        dataset=dataset,
        panel=panel,
        problems=grouped(problems),
        repairs=repairs,
        n_rows=len(table.frame),
        unused=_unused(table, dataset, panel),
        dropped=dropped_columns(problems, panel[0]) if panel else [],
    )


def dropped_columns(problems: Sequence[Problem], series: Series) -> list[str]:
    """Columns with problems that a repaired series does not have."""
    affected = (problem.column for problem in problems if problem.column is not None)
    return [name for name in dict.fromkeys(affected) if name not in series.columns]


def _unused(table: Table, dataset: DatasetConfig, panel: Sequence[Series]) -> list[str]:
    if not panel or dataset.columns is not None:
        return []
    used = {panel[0].time_col, dataset.series_col, *panel[0].columns, *dataset.static_covariates}
    columns = [column for column in table.columns if not column.startswith("Unnamed: ")]  # without row numbers
    unused = {column: table.frame[column] for column in columns if column not in used}
    return [column for column, cells in unused.items() if not looks_dated(cells)]


def series_column(table: Table, dataset: DatasetConfig) -> str | None:
    """The column with the name of each row's series, if timestamps repeat as in a file of many series; else None."""
    try:
        time_col = find_time_column(table, dataset.time_col)
    except InputError:  # reported together with the table's other problems
        return None
    return separating_column(table, time_col, dataset.target)


def seasons_of(panel: Sequence[Series], columns: Sequence[str]) -> list[Season]:
    """Seasons of these columns in the longest series, strongest first; strengths are averaged."""
    strengths: dict[int, float] = {}
    looked = 0
    for series in _longest(panel):
        for column in columns:
            looked += 1
            values = bridged(series.values[:, series.columns.index(column)])
            for season in find_seasons(values, usual_periods=usual_periods(series.frequency)):
                strengths[season.period] = strengths.get(season.period, 0.0) + season.strength
    seasons = [Season(period, total / looked) for period, total in strengths.items()]
    return sorted(seasons, key=lambda season: -season.strength)


def _longest(panel: Sequence[Series]) -> list[Series]:
    return sorted(panel, key=len, reverse=True)[:MOST_SERIES]
