"""Survey of a data file: its series, its problems, and the settings that repair them.

Commands that `informer inspect` proposes: they forecast a file, or train on it.

Find settings that fix the problems of a file; they are tried before they are suggested.

Settings that `informer inspect` suggests for the columns of a file, and the lines about gaps and seasons.

`informer inspect`: reports on files and their problems, and commands that train on them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float64
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from informer.base.console import logging_to, say
from informer.base.errors import InputError, counted, listed, printable
from informer.base.files import expanded
from informer.config.commands import InspectConfig
from informer.config.data import REPAIRS, DatasetConfig, Duplicates, Fill, Short, with_repairs
from informer.config.model import WindowSizes
from informer.config.overrides import changed_settings, shell_command, to_display
from informer.data.panel import LongTable, panel_tables, read_attributes
from informer.data.seasonality import Season, bridged, find_seasons, usual_periods
from informer.read.checks import FEW_ALIKE, MOST_ALIKE, Problem, Report, grouped
from informer.read.columns import CategoryReader, has_numbers, has_words, repeated_text, separating_column, text_columns
from informer.read.files import list_files
from informer.read.frequency import Frequency, adjective, lasting
from informer.read.repair import CONFIRM
from informer.read.series import Series, inspect_table, table_of_file
from informer.read.split import cut_rows, shortage
from informer.read.table import Table, name_of
from informer.read.time_columns import find_time_column, looks_dated, repeats_calendar


def commands(
    path: Path, dataset: DatasetConfig, sizes: WindowSizes | None, *, target: str | None, several: bool
) -> list[str]:
    """Commands that forecast with a report, and that only train; `several`: there is more than one column."""
    train = f"  {training_command(path, dataset, sizes, target)}"
    forecast = forecast_lines(str(path), dataset, target, several=several)
    return [*forecast, "train:    without forecasts and report", train]


def forecast_lines(path: str, dataset: DatasetConfig, target: str | None, *, several: bool) -> list[str]:
    """Command that forecasts with a report; `several` as in `commands`."""
    target_settings = [] if target is None else [("target", target)]
    hint = "" if target_settings or not several else "; target=COLUMN forecasts one column from all"
    command = shell_command("forecast", path, *_dataset_settings(dataset), *target_settings)
    return [f"forecast: with a report; the model is chosen on held-out rows{hint}", f"  {command}"]


def inspect_lines(path: str, dataset: DatasetConfig) -> list[str]:
    """Command that inspects each series of a file."""
    return ["inspect:  each of them", f"  {shell_command('inspect', path, *_dataset_settings(dataset))}"]


def training_command(path: Path, dataset: DatasetConfig, sizes: WindowSizes | None, target: str | None = None) -> str:
    """Shell command that trains on a file with these settings; default settings are left out."""
    lengths = [] if sizes is None else changed_settings("", asdict(sizes), asdict(InspectConfig().sizes))
    last = [] if target is None else [("target", target)]
    return shell_command(
        "train", "dataset=csv", ("dataset.path", path), *_dataset_settings(dataset), *lengths, "model=auto", *last
    )


def _dataset_settings(dataset: DatasetConfig) -> list[str]:
    return changed_settings("dataset", asdict(dataset), asdict(DatasetConfig()))


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


MOST_REPORTS, MOST_ROWS = 3, 40
"""For a file with several series: number of reports, after which only series with problems get one, and table rows."""

TOO_FEW = "rows are too few to train on"

MOST_CELL = 80
"""Longest text in a cell of the table."""


def inspect(settings: InspectConfig, console: Console) -> bool:
    """Print the reports, and a table if there are several files or series.

    Returns:
        Whether all of them can be used for training without changes.

    Raises:
        InputError: the files do not exist, or a single file cannot be read as a table.
    """
    source = settings.input or ""
    files = list_files("input", source)
    several = files is not None or settings.dataset.series_col is not None
    findings: list[Finding] = []
    n_reports = 0
    for path in [expanded(source)] if files is None else files:
        for finding in _findings_of(path, settings, console, is_single=files is None):
            if (
                files is not None
                or len(findings) < MOST_REPORTS
                or (not finding.is_sound and n_reports < 2 * MOST_REPORTS)
            ):
                say(console, "\n".join([*finding.lines, *([""] if several else [])]))
                n_reports += 1
            findings.append(replace(finding, lines=()))
    if len(findings) > n_reports:
        say(console, f"and {len(findings) - n_reports} more series, which the table shows\n")
    if several:
        console.print(_summary(findings))
        for line in _advice_for_all(Path(source), findings, settings):
            say(console, line)
    return all(finding.is_sound for finding in findings)


Advice = tuple[DatasetConfig, WindowSizes | None]
"""Settings for training on a file, and the sizes of windows that fit into it; None if no window fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Findings on one file, or on one series of a file with several.

    Args:
        name: name of the file or series.
        lines: lines of the report.
        n_rows: number of rows.
        n_problems: number of problems.
        span: first timestamp, last timestamp and step; empty if they are not known.
        columns: numeric columns.
        advice: settings for training, if there are any.
        is_short: whether the data have no problems but too few rows.
        proposal: proposed use of the other columns.
    """

    name: str
    lines: Sequence[str]
    n_rows: int = 0
    n_problems: int = 1
    span: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    advice: Advice | None = None
    is_short: bool = False
    proposal: Proposal = NOTHING

    @property
    def is_sound(self) -> bool:
        """Whether it can be used for training without changes."""
        return self.n_problems == 0


def _findings_of(path: Path, settings: InspectConfig, console: Console, *, is_single: bool) -> Iterator[Finding]:
    """Findings on a file, or on each of its series; if `is_single`, an unreadable file raises InputError."""
    dataset = settings.dataset
    try:
        with logging_to(console):
            table = table_of_file(path, dataset)
        attributes = read_attributes(dataset)
        if attributes is not None:
            table, dataset = attributes.joined(table, dataset.series_col, path.name), attributes.named_in(dataset)
        table, dataset = CategoryReader().coded(table, dataset)
        settings = replace(settings, dataset=dataset)
        if dataset.series_col is None:
            yield _finding(path, table, name_of(path), settings, console)
            return
        proposal = Proposal.of(table, dataset, settings.target)
        with logging_to(console):
            table = table.without(text_columns([table], dataset))
        tables = list(LongTable.of(table, dataset.series_col).tables())
    except InputError as error:
        if is_single:
            raise
        yield Finding(name=path.name, lines=[f"file:     {path.name}", "problems: 1", *str(error).splitlines()])
        return
    yield from (replace(_finding(None, rows, name, settings, console), proposal=proposal) for rows, name in tables)


def _finding(path: Path | None, table: Table, name: str, settings: InspectConfig, console: Console) -> Finding:
    """Findings on a table; `path` is its file if that has a single series."""
    key = None if path is None else series_column(table, settings.dataset)
    with logging_to(console):
        rows = table if key is None else table.without([key])
        series, report = inspect_table(rows, settings.dataset, name, sizes=settings.sizes)
    if series is None:
        key = None
    if key is not None:
        report.problems = _within_series(table, key, report)
    command: list[str] = []
    several = series is not None and len(series.columns) > 1
    dataset = settings.dataset if key is None else replace(settings.dataset, series_col=key)
    proposal = Proposal.of(table, dataset, settings.target)
    if key is None:
        advice, verdict = _advice(table, name, settings, report)
        if advice is not None and path is not None:
            command = commands(path, proposal.added(advice[0]), advice[1], target=settings.target, several=several)
    else:
        advice, verdict = None, f"series:   {table.frame[key].nunique():,}, separated by column {key!r}"
        dataset = proposal.added(dataset)
        command = [
            *forecast_lines(str(path), dataset, settings.target, several=several),
            *inspect_lines(str(path), dataset),
        ]
    span = () if series is None else (*_ends(series.timestamps), series.frequency.code)
    return Finding(
        name=table.name,
        lines=[
            *_facts(table, series, settings.dataset.categorical, seasons=key is None),
            *_problems(report),
            *gap_lines(table, settings.dataset, name, report),
            *proposal.lines(),
            *filter(None, [verdict]),
            *command,
        ],
        n_rows=len(table.frame),
        n_problems=len(report.problems),
        span=span,
        columns=() if series is None else series.columns,
        advice=advice,
        is_short=advice is None and verdict.endswith(TOO_FEW),
    )


def _within_series(table: Table, key: str, report: Report) -> list[Problem]:
    """Problems of a file of several series: one for its repeated times, and those of its columns."""
    line = f"{table.name}: times repeat, once for each series of column {key!r}; set dataset.series_col={key}"
    of_times = {"dataset.duplicates=first", "dataset.sort=true"}
    return [Problem(line), *(problem for problem in report.problems if not of_times & {*problem.settings})]


def _summary(findings: Sequence[Finding]) -> RichTable:
    """One row per finding."""
    table = RichTable(
        title=f"{len(findings)} in all, {sum(finding.is_sound for finding in findings)} sound", title_justify="left"
    )
    for heading in ("", "rows", "columns", "problems", "from", "to", "step"):
        table.add_column(heading, overflow="fold")
    rows = sorted(findings, key=lambda finding: finding.is_sound) if len(findings) > MOST_ROWS else findings
    if len(findings) > MOST_ROWS:
        table.caption = f"{len(findings) - MOST_ROWS} more; those with problems come first"
    for finding in rows[:MOST_ROWS]:
        name = (
            finding.name
            if len({other.name.split(", ")[0] for other in findings}) > 1
            else finding.name.partition(", ")[2]
        )
        numbers = (finding.n_rows, len(finding.columns) or "", finding.n_problems or "none")
        table.add_row(
            *(Text(printable(str(cell), MOST_CELL)) for cell in (name or finding.name, *numbers, *finding.span))
        )
    return table


def _ends(timestamps: pd.DatetimeIndex) -> tuple[str, ...]:
    """First and last timestamp, without time of day if both are midnight."""
    ends = timestamps[[0, -1]]
    return tuple(ends.strftime("%Y-%m-%d")) if (ends == ends.normalize()).all() else tuple(map(str, ends))


def _advice_for_all(path: Path, findings: Sequence[Finding], settings: InspectConfig) -> Iterator[str]:
    """Commands that train one model on all findings, or a line that says why this is not possible."""
    advice = [finding.advice for finding in findings if finding.advice is not None]
    if len(advice) > len(findings) / 2:  # series that are only too short are padded
        short = (advice[0][0], None)
        findings = [
            replace(finding, advice=short) if finding.is_short and not finding.advice else finding
            for finding in findings
        ]
        advice = [finding.advice for finding in findings if finding.advice is not None]
    kinds = {(*finding.columns, *finding.span[2:]) for finding in findings}
    if len(advice) < len(findings):
        yield "train:    first fix those without a command, or apply the suggested settings; then train on all"
    elif len(kinds) > 1 or len({str(dataset.columns) for dataset, _ in advice}) > 1:
        yield "train:    one model needs the same columns and step in all; list common columns in dataset.columns"
    else:
        dataset, sizes = _serving_all(advice, settings.sizes)
        if all(finding.proposal == findings[0].proposal for finding in findings):
            dataset = findings[0].proposal.added(dataset)
        yield from commands(path, dataset, sizes, target=settings.target, several=len(findings[0].columns) > 1)


def _serving_all(advice: Sequence[Advice], requested: WindowSizes) -> Advice:
    """One setting for all: every repair that any series needs, and window sizes.

    The sizes are the requested ones if most series are long enough (the others are padded), otherwise those that fit
    into the shortest series.
    """
    datasets, sizes = zip(*advice, strict=True)
    fit = sum(size == requested for size in sizes)
    available = [size for size in sizes if size is not None]
    pads = len(available) < len(sizes) or len(sizes) / 2 < fit < len(sizes)
    dataset = with_repairs(datasets)
    dataset = replace(dataset, short=Short.pad if pads else dataset.short)
    return dataset, requested if 2 * fit > len(sizes) else min(available, key=lambda size: size.seq_len)


def _facts(table: Table, series: Series | None, categorical: Sequence[str], *, seasons: bool) -> Iterator[str]:
    yield f"file:     {table.name}, {counted(len(table.frame), 'row')}, {counted(len(table.columns), 'column')}"
    if table.dialect.uncommon():
        yield f"format:   {table.dialect.uncommon()}"
    if series is None:
        return
    span, step = " to ".join(_ends(series.timestamps)), series.frequency
    yield f"time:     {series.time_col}, {span}, {adjective(step)} (step {step.code})"
    yield f"columns:  {listed(series.columns)}"
    columns = zip(series.columns, series.values.T, strict=True)
    if seasons:
        yield from season_lines([column for column in columns if column[0] not in categorical], step)


def _problems(report: Report) -> Iterator[str]:
    yield from (f"repaired: {line}" for line in report.repairs)
    yield from (f"warning:  {line}" for line in report.warnings)
    yield f"problems: {len(report.problems) or 'none'}"
    yield from grouped(report.problems)


def _advice(table: Table, name: str, settings: InspectConfig, report: Report) -> tuple[Advice | None, str]:
    """Settings for training on a table, and a line about them."""
    repaired = repaired_config(table, settings.dataset, name, confirms=True)
    if repaired is None:
        return None, f"train:    {unrepairable_advice(table)}"
    dataset, series = repaired
    dropped = dropped_columns(report.problems, series)
    if settings.target in dropped:
        return None, f"train:    fix the cells of {settings.target}, and run this again"
    sizes = fitting_sizes(series, dataset, settings.sizes)
    if sizes is None:
        return None, f"train:    {len(series)} {TOO_FEW}"
    how = "fix:      in the commands below" if report.problems else ""
    if dropped:
        how += f"; they leave out {listed(dropped)}: fix the cells named above to keep them"
    how = "\n".join(filter(None, [how, *confirm_lines(table, dataset, settings.dataset, name)]))
    return (dataset, sizes), how
