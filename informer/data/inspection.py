"""`informer inspect`: reports on files and their problems, and commands that train on them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from informer.config.commands import InspectConfig
from informer.config.dataset import DatasetConfig, Short, with_repairs
from informer.config.lengths import WindowSizes
from informer.console import logging_to, say
from informer.data.attributes import read_attributes
from informer.data.long import LongTable
from informer.data.proposals import NOTHING, Proposal, confirm_lines, gap_lines, season_lines, unrepairable_advice
from informer.data.proposed_commands import commands, forecast_lines, inspect_lines
from informer.data.read.advice import fitting_sizes, repaired_config
from informer.data.read.categories import CategoryReader
from informer.data.read.download import list_files
from informer.data.read.report import Problem, Report, grouped
from informer.data.read.source import Series, inspect_table, table_of_file
from informer.data.read.step_words import adjective
from informer.data.read.table import Table, name_of
from informer.data.read.value_columns import text_columns
from informer.data.survey import dropped_columns, series_column
from informer.errors import InputError, counted, listed, printable
from informer.files import expanded

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
