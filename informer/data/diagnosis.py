"""Diagnosis of data: problems of files, settings that repair them, commands that use them; and what a run should know.

A repair is proposed only after the rows were read with it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from informer.base.console import logging_to, say
from informer.base.errors import InputError, Repair, ShortError, counted, listed, printable
from informer.base.files import expanded
from informer.config.commands import InspectConfig
from informer.config.data import DatasetConfig, key_columns, repaired
from informer.config.model import WindowSizes
from informer.config.overrides import changed_settings, shell_command, to_display
from informer.data.scaler import standard_deviation
from informer.data.seasonality import Season, find_seasons
from informer.read import checks
from informer.read.columns import CategoryReader, is_text, repeated_text, separating_column
from informer.read.files import list_files
from informer.read.frequency import Frequency, adjective, lasting
from informer.read.outliers import outlier_text, outliers
from informer.read.rows import FEW_ALIKE, MOST_ALIKE, Report, count_note, grouped
from informer.read.series import Reading, Series, table_of_file
from informer.read.shapes import time_col_of, with_series_names
from informer.read.split import REMEDY, cut_rows, shortage
from informer.read.table import Table, name_of, without
from informer.read.time_columns import looks_dated
from informer.read.time_parts import repeats_calendar

if TYPE_CHECKING:
    from informer.data.dataset import Data  # imports torch

ROUNDS = 5
"""Maximum rounds of repairs; a repair may reveal further problems, such as gaps after sorting."""

LEAST_SEQ_LEN = 4
"""Minimum rows of history for a useful model."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Diagnosis of the rows of one series.

    Args:
        series: the series as read; None if that is not possible.
        report: its problems and warnings, and the repairs that were requested.
        repairs: settings that repair all problems; None if none do.
        repaired: the series as read with them.
    """

    series: Series | None
    report: Report
    repairs: Sequence[Repair] | None
    repaired: Series | None

    @property
    def dropped(self) -> list[str]:
        """Columns with problems that the repairs leave out."""
        columns = () if self.repaired is None else self.repaired.columns
        if columns and self.series is not None:
            return without(self.series.columns, columns)
        affected = (problem.column for problem in self.report.problems if problem.code in checks.OF_CELLS)
        return [name for name in dict.fromkeys(affected) if name is not None and name not in columns]


class Examined:
    """A file that was read, and the diagnosis of each of its series.

    Attributes:
        table: its cells, prepared.
        dataset: the settings; with the column of series names, which is found unless it is set.
        name: name of the file, and of the series if it has one.
        reading: its rows.
        repairs: what all series need.
        repaired: each series with them, and what is said about it.
        diagnoses: of each series.

    Raises:
        InputError: the file cannot be read as a table.
    """

    def __init__(self, path: Path, dataset: DatasetConfig) -> None:
        table = table_of_file(path, dataset)
        key = None if dataset.series_col else series_column(table, dataset)
        if key is not None:
            dataset, keys = replace(dataset, series_col=key), key_columns(key)
            if all(key in table.columns and is_text(table, key) and not table.frame[key].hasnans for key in keys):
                table = with_series_names(table, key)
            else:
                table = table_of_file(path, dataset)  # read again, so that names such as 001 and NA are text
        self.table, self.dataset, self.name = table, dataset, name_of(path)
        self.reading = Reading(table, dataset, self.name, categories=CategoryReader())
        self.repairs: list[Repair] = []
        self.repaired = read = _checked(self.reading)
        own = [list[Repair]() for _ in read]
        for _ in range(ROUNDS):
            cures = [[cure for problem in report.problems for cure in problem.repairs] for _, report in self.repaired]
            every = list[Repair]()
            for cure in chain(*cures):
                every += [] if cure in every else [cure]
            # codes first: their column then has no text and no empty cells
            proposed = [repair for repair in every if repair.setting == "categorical"] or every
            before = repaired(dataset, self.repairs)
            if (config := repaired(before, proposed)) == before:
                break
            self.repairs += [repair for repair in proposed if repair not in self.repairs]
            for k, repairs in enumerate(cures):  # times that could not be read may be those of several series
                of_series = own[min(k, len(own) - 1)]
                of_series += [cure for cure in repairs if cure in proposed and cure not in of_series]
            self.repaired = _checked(Reading(table, config, self.name, categories=CategoryReader()))
        self.diagnoses = [
            Diagnosis(*first, *((cures, series) if series is not None and not report.problems else (None, None)))
            for first, cures, (series, report) in zip(read, own, self.repaired, strict=False)
        ]

    @property
    def cures(self) -> list[Repair]:
        """What repairs the problems of all series; empty if some of them remain."""
        are_whole = all(series is not None and not report.problems for series, report in self.repaired)
        return self.repairs if are_whole else []

    @property
    def problems(self) -> list[InputError]:
        """The problems of all series."""
        return [each for one in self.diagnoses for each in one.report.problems]


def _checked(reading: Reading) -> list[tuple[Series | None, Report]]:
    """All series of a table."""
    found, like = list[tuple[Series | None, Report]](), None
    for k in range(len(reading.names)):
        series, report = reading.check(k, like=like)
        like = like if report.problems else series
        found.append((series, report))
    return found


def in_words(repairs: Sequence[Repair]) -> list[str]:
    """Repairs as overrides on the command line, each setting once."""
    return _settings(repaired(DatasetConfig(), repairs))


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Survey of one file, or of several that form one dataset.

    Args:
        path: local path of the file, or folder or pattern of the files.
        name: name for a folder of its results.
        format_note: format of the (first) file, empty if it is common.
        dataset: settings that read its series, including `repairs`.
        repairs: the repairs that its series need.
        panel: the series read with these settings; empty if no settings can repair the file.
        problems: those before repairs.
        log: one line for each repair.
        unused: columns that the series do not have, except times, unless `dataset` lists the columns.
        dropped: columns with numbers that the repairs leave out.
        warnings: lines on numbers that may mean a missing value, or thousands, and on sums over series.
        far: the repair that reads them as missing; None without such numbers.
        n_files: number of files.
    """

    path: str
    name: str
    format_note: str
    dataset: DatasetConfig
    repairs: Sequence[Repair]
    panel: Sequence[Series]
    problems: Sequence[InputError]
    log: Sequence[str]
    unused: Sequence[str]
    dropped: Sequence[str]
    warnings: Sequence[str]
    far: Repair | None
    n_files: int = 1

    @property
    def is_readable(self) -> bool:
        """Whether the settings read all of its series."""
        return bool(self.panel)

    @property
    def lines(self) -> list[str]:
        """One line for each problem, or for several that are alike."""
        return grouped(self.problems)

    @property
    def asks(self) -> bool:
        """Whether the repairs drop so many rows that the user must confirm it."""
        return any(checks.CONFIRM in problem.repairs for problem in self.problems)

    @property
    def repair_note(self) -> str:
        """How it was repaired; empty if it was not."""
        how = f"repaired with {' '.join(in_words(self.repairs))}" if self.repairs else "repaired as shown above"
        return how if self.log else ""


def survey_file(path: Path, dataset: DatasetConfig) -> Survey:
    """Survey one file.

    Args:
        dataset: known settings. If `series_col` is not given, it is detected.

    Raises:
        InputError: the file cannot be read as a table.
    """
    found = Examined(path, dataset)
    repairs, reports = found.repairs, [report for _, report in found.repaired]
    read = [series for series, report in found.repaired if series is not None and not report.problems]
    read = read if len(read) == len(reports) else []
    log = [
        f"{path.name}: {each.setting}={each.value if isinstance(each.value, str) else listed(each.value)}: "
        f"{UNSEEN[each.setting]}"
        for each in repairs
        if each.setting in UNSEEN
    ]
    log += [line for report in reports for line in report.repairs]
    warnings, far = _far(found)
    return Survey(
        path=str(path),
        name=found.name,
        format_note=found.table.dialect.uncommon(),
        dataset=repaired(found.dataset, repairs),
        repairs=repairs,
        panel=read,
        problems=found.problems,
        log=log,
        unused=_unused(found.table, found.dataset, read),
        dropped=list(dict.fromkeys(name for each in found.diagnoses for name in each.dropped)) if read else [],
        warnings=[*found.reading.report.warnings, *warnings],
        far=Repair("missing_values", far) if far else None,
    )


def _far(found: Examined) -> tuple[list[str], list[str]]:
    """The line on numbers that may mean a missing value, if there is one, and these numbers."""
    reports = [diagnosis.report for diagnosis in found.diagnoses if diagnosis.report.far]
    lines = [line for report in reports for line in report.warnings if "dataset.missing_values=" in line]
    line = [f"{line}{count_note(len(lines), 'such series')}" for line in lines[:1]]
    return line, [*dict.fromkeys(name for report in reports for name in report.far)]


UNSEEN = {
    "timezone": "times are local, with its clock changes",
    "missing_values": "read as empty cells",
    "categorical": "read as names of categories",
}
"""What repairs do that change no row, by their setting."""


def _unused(table: Table, dataset: DatasetConfig, panel: Sequence[Series]) -> list[str]:
    if not panel or dataset.columns is not None:
        return []
    keys = {*key_columns(dataset.series_col), dataset.series_col, panel[0].time_col}
    used = keys | {*panel[0].columns, *dataset.static_covariates}
    unused = [column for column in table.columns if column not in used and not column.startswith("Unnamed: ")]
    return [column for column in unused if not looks_dated(table.frame[column])]


def series_column(table: Table, dataset: DatasetConfig) -> str | None:
    """The column with the name of each row's series, if timestamps repeat as in a file of many series; else None."""
    if dataset.duplicates == "sum":  # a time has several rows in any case
        return None
    time_col = time_col_of(table, dataset)
    return None if time_col is None else separating_column(table, time_col, dataset.target)


MOST_SERIES = 4
"""Number of series in which seasons are searched."""


def seasons_of(panel: Sequence[Series], columns: Sequence[str]) -> list[Season]:
    """Seasons of these columns in the longest series, strongest first; strengths are averaged."""
    strengths: dict[int, float] = {}
    looked = 0
    for series in sorted(panel, key=len, reverse=True)[:MOST_SERIES]:
        for column in columns:
            looked += 1
            values = series.values[:, series.columns.index(column)]
            for season in find_seasons(values, usual_periods=series.frequency.seasons):
                strengths[season.period] = strengths.get(season.period, 0.0) + season.strength
    seasons = [Season(period, total / looked) for period, total in strengths.items()]
    return sorted(seasons, key=lambda season: -season.strength)


def commands(
    path: Path, dataset: DatasetConfig, sizes: WindowSizes | None, *, target: str | None, several: bool
) -> list[str]:
    """Commands that forecast with a report, and that only train; `several`: there is more than one column."""
    lengths = [] if sizes is None else changed_settings("", asdict(sizes), asdict(InspectConfig().sizes))
    last = [] if target is None else [("target", target)]
    words = [*_settings(dataset), *lengths]
    train = shell_command("train", "dataset=csv", ("dataset.path", path), *words, *last)
    forecast = _forecast_lines(path, dataset, target, several=several)
    return [*forecast, "train:    a network on these rows", f"  {train}"]


def _forecast_lines(path: Path, dataset: DatasetConfig, target: str | None, *, several: bool) -> list[str]:
    """Command that forecasts with a report; `several` as in `commands`."""
    hint = "; target=COLUMN forecasts one column from all" if several and target is None else ""
    last = [] if target is None else [("target", target)]
    command = shell_command("forecast", str(path), *_settings(dataset), *last)
    return [f"forecast: with the pretrained network, in seconds, and a report{hint}", f"  {command}"]


def _settings(dataset: DatasetConfig) -> list[str]:
    return changed_settings("dataset", asdict(dataset), asdict(DatasetConfig()))


def _too_short(series: Series, config: DatasetConfig, sizes: WindowSizes) -> list[InputError]:
    """The problem of a series without a window in each part of the split."""
    split = cut_rows(series.timestamps, series.frequency, config.split)
    lacking = shortage(split, len(series), config.split, sizes=sizes, name=series.name)
    return [] if lacking is None else [ShortError(lacking + REMEDY, table=series.name)]


def fitting_sizes(series: Series, config: DatasetConfig, longest: WindowSizes) -> WindowSizes | None:
    """The requested window sizes, or shorter ones if the parts of the split are too short; None if none fit."""
    sizes = longest
    while _too_short(series, config, sizes):
        seq_len, pred_len = sizes.seq_len * 3 // 4, max(sizes.pred_len * 3 // 4, 1)
        if seq_len < LEAST_SEQ_LEN:
            return None
        sizes = WindowSizes(seq_len=seq_len, label_len=min(sizes.label_len, seq_len // 2), pred_len=pred_len)
    return sizes


MOST_SEASONS = 12
"""Largest number of columns whose seasons are reported, counted from the last, which is the default target."""


def season_lines(columns: Sequence[tuple[str, Float64[np.ndarray, " t"]]], frequency: Frequency) -> Iterator[str]:
    """Lines on the seasons of the last columns; many columns with the same periods share a line."""
    alike: dict[tuple[int, ...], dict[str, list[Season]]] = {}
    heading = "seasons: " if len(columns) <= MOST_SEASONS else f"seasons of the last {MOST_SEASONS} columns:"
    for column, values in columns[-MOST_SEASONS:]:
        seasons = find_seasons(values, usual_periods=frequency.seasons)
        if seasons:
            alike.setdefault(tuple(season.period for season in seasons), {})[column] = seasons
    for group in alike.values():
        if len(group) > FEW_ALIKE:
            yield f"{heading} {listed(list(group), MOST_ALIKE)} repeat every {_in_words(group, frequency)}"
            continue
        for name, seasons in group.items():
            yield f"{heading} {name} repeats every {_in_words({name: seasons}, frequency)}"


def _in_words(alike: Mapping[str, Sequence[Season]], frequency: Frequency) -> str:
    """The periods, strongest first, with their autocorrelation; for several columns, its range."""
    descriptions = []
    for seasons in zip(*alike.values(), strict=True):
        low, high = (f"{end(season.strength for season in seasons):.2f}" for end in (min, max))
        strength, n = low if low == high else f"{low} to {high}", seasons[0].period
        descriptions.append(f"{lasting(n, frequency)} ({n} rows, correlation {strength})")
    return ", ".join(descriptions)


def proposals(table: Table, dataset: DatasetConfig, target: str | None) -> list[Repair]:
    """Settings for the columns of a whole file; none if `dataset` lists the columns to read.

    Columns of years, months, days or hours next to the time column are excluded, text that repeats is categorical, and
    columns that are constant within each series but differ between series are static.
    """
    if (time_col := time_col_of(table, dataset)) is None:
        return []
    table = with_series_names(table, dataset.series_col)
    assigned = {time_col, dataset.series_col, target, *dataset.categorical, *dataset.static_covariates}
    candidates = [column for column in table.columns if column not in assigned]
    if dataset.columns is not None or not len(table.frame) or table.repeated:
        return []
    exclude = [column for column in candidates if repeats_calendar(column, table.frame[column])]
    candidates = [column for column in candidates if column not in exclude]
    static: list[str] = []
    if dataset.series_col in table.columns:
        groups = table.frame.groupby(dataset.series_col, sort=False, observed=True)[candidates]
        constant = (groups.nunique(dropna=False) == 1).all()
        static = [name for name in candidates if constant[name] and table.frame[name].nunique(dropna=False) > 1]
    text = [name for name in candidates if name not in static and is_text(table, name)]
    text = [] if dataset.duplicates == "sum" else text  # a sum is of several categories
    settings = {"exclude": exclude, "categorical": [*repeated_text(table, text)], "static_covariates": static}
    return [Repair(setting, names) for setting, names in settings.items() if names]


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


MOST_REPORTS, MOST_ROWS = 3, 40
"""For a file with several series: number of reports, after which only series with problems get one, and table rows."""

MOST_CELL = 80
"""Longest text in a cell of the table."""


def inspect(settings: InspectConfig, console: Console) -> "list[Finding]":
    """Print the reports, and a table if there are several files or series.

    Returns:
        The findings on each file or series; the lines of a large number of reports are not kept.

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
            is_reported = not finding.is_sound and n_reports < 2 * MOST_REPORTS
            if files is not None or len(findings) < MOST_REPORTS or is_reported:
                say(console, "\n".join([*finding.lines, *([""] if several else [])]))
                n_reports += 1
            findings.append(finding if len(findings) < MOST_REPORTS else replace(finding, lines=()))
    if len(findings) > n_reports:
        say(console, f"and {len(findings) - n_reports} more series, which the table shows\n")
    if several:
        console.print(_summary(findings))
        for line in _advice_for_all(Path(source), findings, settings):
            say(console, line)
    return findings


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Findings on one file, or on one series of a file with several.

    Args:
        name: name of the file or series.
        lines: lines of the report.
        n_rows: number of rows.
        problems: what must be repaired first.
        span: first timestamp, last timestamp and step; empty if they are not known.
        columns: numeric columns.
        repairs: settings for reading it, None if there are none.
        sizes: sizes of windows that fit into it; None if no window fits, and it can be read only.
        proposed: settings for its other columns, see `proposals`.
    """

    name: str
    lines: Sequence[str]
    n_rows: int = 0
    problems: Sequence[InputError] = ()
    span: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    repairs: Sequence[Repair] | None = None
    sizes: WindowSizes | None = None
    proposed: Sequence[Repair] = ()

    @property
    def is_sound(self) -> bool:
        """Whether it can be used for training without changes."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """As plain containers for JSON; `settings` repair the problems, null if none do."""
        settings = None if self.sizes is None else in_words([*(self.repairs or ()), *self.proposed])
        facts = {"name": self.name, "rows": self.n_rows, "columns": [*self.columns], "problems": len(self.problems)}
        found = [
            {"code": each.code, "table": each.table, "row": each.row, "column": each.column, "line": str(each)}
            | {"settings": in_words(each.repairs)}
            for each in self.problems
        ]
        return facts | {"found": found, "span": [*self.span], "settings": settings, "report": [*self.lines]}


def _findings_of(path: Path, settings: InspectConfig, console: Console, *, is_single: bool) -> Iterator[Finding]:
    """Findings on a file, or on each of its series; if `is_single`, an unreadable file raises InputError."""
    dataset = replace(settings.dataset, target=settings.target or settings.dataset.target)
    try:
        with logging_to(console):
            found = Examined(path, dataset)
    except InputError as error:
        if is_single:
            raise
        lines = [f"file:     {path.name}", "problems: 1", *str(error).splitlines()]
        yield Finding(name=path.name, lines=lines, problems=[error])
        return
    proposed = proposals(found.table, found.dataset, settings.target)
    is_long = settings.dataset.series_col is None and found.dataset.series_col is not None
    if is_long and found.reading.is_timed:
        yield _long(path, found, proposed, settings)
        return
    for k in range(len(found.diagnoses)):
        yield _finding(path if settings.dataset.series_col is None else None, found, k, proposed, settings)


def _long(path: Path, found: Examined, proposed: Sequence[Repair], settings: InspectConfig) -> Finding:
    """Findings on a file of several series, whose column of names was found."""
    key, name, n_rows = found.dataset.series_col, found.table.name, len(found.table.frame)
    first = next((each.series for each in found.diagnoses if each.series is not None), None)
    columns = () if first is None else first.columns
    names, cures = key_columns(key), found.cures
    long = _configured(replace(settings.dataset, series_col=key), cures, proposed)
    keys = f"column {names[0]!r}" if len(names) == 1 else f"columns {listed(names)}"
    line = f"{name}: times repeat, once for each series of {keys}; set dataset.series_col={key}"
    problems = [InputError(line, Repair("series_col", key), code="series", table=name), *found.problems]
    lines = [
        *_facts(found.table, name, n_rows, first, None),
        *(f"warning:  {line}" for line in _far(found)[0]),
        f"problems: {len(problems)}",
        *grouped(problems),
        *_calendar_lines(proposed),
        f"series:   {len(found.diagnoses):,}, separated by {keys}",
        *(_fix_lines([*dict.fromkeys(chain(*(each.dropped for each in found.diagnoses)))]) if cures else []),
        *_forecast_lines(path, long, settings.target, several=len(columns) > 1),
        "inspect:  each of them",
        f"  {shell_command('inspect', str(path), *_settings(long))}",
    ]
    return Finding(
        name=name,
        lines=lines,
        n_rows=n_rows,
        problems=problems,
        span=_span(first),
        columns=columns,
        proposed=proposed,
    )


def _finding(
    path: Path | None, found: Examined, k: int, proposed: Sequence[Repair], settings: InspectConfig
) -> Finding:
    """Findings on a series; `path` is its file if that has a single series."""
    reading, diagnosis, target = found.reading, found.diagnoses[k], settings.target
    report, series, name, n_rows = diagnosis.report, diagnosis.series, reading.label(k), reading.lengths[k]
    repairs, sizes, conclusion = _advice(reading.table, diagnosis, settings, path)
    columns, problems, gaps = () if series is None else series.columns, [*report.problems], list[str]()
    is_masked = settings.dataset.fill is None and Repair("fill", "mask") in (diagnosis.repairs or ())
    values = diagnosis.repaired.values if is_masked and diagnosis.repaired is not None else np.zeros(1)
    if (share := float(np.isnan(values).mean())) >= checks.MANY_MISSING:
        kept = "dataset.fill=mask keeps them missing, where dataset.fill=linear would invent them"
        gaps = [f"gaps:     {share:.0%} of the values are missing; {kept}"]
    problems += [] if series is None else _too_short(series, settings.dataset, settings.sizes)
    if sizes is not None and path is not None:
        whole = _configured(settings.dataset, repairs or (), proposed)
        conclusion += commands(path, whole, sizes, target=target, several=len(columns) > 1)
    lines = [
        *_facts(reading.table, name, n_rows, series, reading.config.categorical),
        *(f"repaired: {line}" for line in report.repairs),
        *(f"warning:  {line}" for line in report.warnings),
        f"problems: {len(problems) or 'none'}",
        *grouped(problems),
        *gaps,
        *(_calendar_lines(proposed) if path is not None else ()),
        *conclusion,
    ]
    return Finding(
        name=name,
        lines=lines,
        n_rows=n_rows,
        problems=problems,
        span=_span(series),
        columns=columns,
        repairs=repairs,
        sizes=sizes,
        proposed=proposed,
    )


def _calendar_lines(proposed: Sequence[Repair]) -> Iterator[str]:
    for each in proposed:
        if each.setting == "exclude":
            excluded = to_display(each.value)
            yield f"calendar: {listed(each.value)} repeat the time; dataset.exclude={excluded} leaves them out"


def _configured(dataset: DatasetConfig, repairs: Sequence[Repair], proposed: Sequence[Repair]) -> DatasetConfig:
    """`dataset` with repairs, and with settings for other columns unless the repairs restrict the columns."""
    dataset = repaired(dataset, repairs)
    return dataset if dataset.columns is not None else repaired(dataset, proposed)


def _summary(findings: Sequence[Finding]) -> RichTable:
    n_sound = sum(finding.is_sound for finding in findings)
    table = RichTable(title=f"{len(findings)} in all, {n_sound} sound", title_justify="left")
    for heading in ("", "rows", "columns", "problems", "from", "to", "step"):
        table.add_column(heading, overflow="fold")
    rows, n_files = findings, len({finding.name.split(", ")[0] for finding in findings})
    if len(findings) > MOST_ROWS:
        rows = sorted(findings, key=lambda finding: finding.is_sound)
        table.caption = f"{len(findings) - MOST_ROWS} more; those with problems come first"
    for finding in rows[:MOST_ROWS]:
        name = finding.name if n_files > 1 else finding.name.partition(", ")[2] or finding.name
        numbers = (finding.n_rows, len(finding.columns) or "", len(finding.problems) or "none")
        table.add_row(*(Text(printable(str(cell), MOST_CELL)) for cell in (name, *numbers, *finding.span)))
    return table


def _span(series: Series | None) -> tuple[str, ...]:
    """First and last timestamp, without time of day if both are midnight, or the numbers of numbered rows; the step."""
    if series is None:
        return ()
    ends, step = series.timestamps[[0, -1]], series.frequency
    if step.is_numbered:
        return *map(step.text, ends), step.code
    are_days = (ends == ends.normalize()).all()
    return *(ends.strftime("%Y-%m-%d") if are_days else map(str, ends)), step.code


def _advice_for_all(path: Path, findings: Sequence[Finding], settings: InspectConfig) -> Iterator[str]:
    """Commands that train one model on all findings, or a line that says why this is not possible."""
    sound = [finding for finding in findings if finding.sizes is not None]
    if len(sound) > len(findings) / 2:  # series that are only too short are padded
        sound = [finding for finding in findings if finding.repairs is not None]
    kinds = {(*finding.columns, *finding.span[2:]) for finding in findings}
    datasets = [repaired(settings.dataset, finding.repairs or ()) for finding in sound]
    if len(sound) < len(findings):
        yield "train:    first fix those without a command, or apply the suggested settings; then train on all"
    elif len(kinds) > 1 or len({str(dataset.columns) for dataset in datasets}) > 1:
        yield "train:    one model needs the same columns and step in all; list common columns in dataset.columns"
    else:
        repairs = [repair for finding in sound for repair in finding.repairs or ()]
        # the requested sizes if most series are long enough, otherwise those that fit into the shortest series
        fit = sum(finding.sizes == settings.sizes for finding in sound)
        available = [finding.sizes for finding in sound if finding.sizes is not None]
        pads = len(available) < len(sound) or len(sound) / 2 < fit < len(sound)
        sizes = settings.sizes if 2 * fit > len(sound) else min(available, key=lambda size: size.seq_len)
        dataset = replace(settings.dataset, short="pad" if pads else settings.dataset.short)
        alike = all(finding.proposed == findings[0].proposed for finding in findings)
        dataset = _configured(dataset, repairs, findings[0].proposed if alike else ())
        yield from commands(path, dataset, sizes, target=settings.target, several=len(findings[0].columns) > 1)


def _facts(
    table: Table, name: str, n_rows: int, series: Series | None, categorical: Sequence[str] | None
) -> Iterator[str]:
    """Lines on a series of a table; `categorical`: its columns without seasons, None: no lines on these."""
    yield f"file:     {name}, {counted(n_rows, 'row')}, {counted(len(table.columns), 'column')}"
    if table.dialect.uncommon():
        yield f"format:   {table.dialect.uncommon()}"
    if series is None:
        return
    step, (first, last, code) = series.frequency, _span(series)
    yield f"time:     {series.time_col}, {first} to {last}, {adjective(step)} (step {code})"
    yield f"columns:  {listed(series.columns)}"
    columns = zip(series.columns, series.values.T, strict=True)
    if categorical is not None:
        yield from season_lines([column for column in columns if column[0] not in categorical], step)


def _advice(
    table: Table, diagnosis: Diagnosis, settings: InspectConfig, path: Path | None
) -> tuple[Sequence[Repair] | None, WindowSizes | None, list[str]]:
    """Repairs and sizes of windows for training on a series of a table, and lines about them; see `Finding`."""
    series, repairs, dropped = diagnosis.repaired, diagnosis.repairs, diagnosis.dropped
    if series is None or repairs is None:
        return None, None, [f"train:    {unrepairable_advice(table)}"]
    if settings.target in dropped:
        return None, None, [f"train:    fix the cells of {settings.target}, and run this again"]
    fitted = repaired(settings.dataset, repairs)
    observed = np.isfinite(series.values).any(axis=1).mean()
    sizes = fitting_sizes(series, fitted, settings.sizes) if observed >= fitted.min_observed else None
    if sizes is None:
        lines = [f"train:    {counted(len(series), 'row')} are too few to train on"]
        if path is not None:
            lines += ["forecast: without training", f"  {shell_command('forecast', str(path), *_settings(fitted))}"]
        return repairs, None, lines
    return repairs, sizes, _fix_lines(dropped) if diagnosis.report.problems else []


def _fix_lines(dropped: Sequence[str]) -> list[str]:
    """What the commands do about the problems above; `dropped` are the columns that they leave out."""
    without = f"; they leave out {listed(dropped)}: fix the cells named above to keep them" if dropped else ""
    return [f"fix:      in the commands below{without}"]


LEAST_COUNTED = 100
"""Minimum number of rows that never fall to be called a counter."""

DRIFT = 1.0
"""Minimum distance between the means of training and test rows, in training standard deviations."""
STUCK, MOST_STRETCHES = 0.2, 3
"""Minimum share of rows that repeat the previous row, in a column with many different values; number of stretches of a
value above which it is usual, such as nights without sun and months without demand."""
MOST_FOUND, MOST_REPAIRS = 12, 40
"""Maximum number of problems and of repairs listed; the rest are counted."""


def data_problems(data: "Data") -> list[str]:
    """Repairs, then drift, constant columns, repeated values and outliers, worst first; one sentence each."""
    repairs = [line for series in data.panel for line in series.repairs]
    problems = sorted(_all_columns(data), key=lambda each: -each[0])
    lines = []
    for all_lines, most in ((repairs, MOST_REPAIRS), ([line for _, line in problems], MOST_FOUND)):
        lines += [*all_lines[:most], *([f"and {len(all_lines) - most} more"] if len(all_lines) > most else [])]
    return lines


def _all_columns(data: "Data") -> Iterator[tuple[float, str]]:
    """Problems of training and test rows, each with its weight."""
    several = len(data.panel) > 1
    for series, split in zip(data.panel, data.splits, strict=True):
        for c, column in enumerate(data.inputs):
            if column in (*data.categories, *data.columns.static_covariates):
                continue  # category codes, and columns that are constant by definition
            where = f"{series.name}, {column}" if several else column
            values = (series.values[rows.start : rows.stop, c] for rows in (split.train, split.test))
            train, test = (array[~np.isnan(array)] for array in values)
            if len(train) and len(test):
                yield from _of_column(where, train, test)
            far = outliers(series.values[:, c])
            for row in far[:1]:
                others = f" ({len(far)} such values)" if len(far) > 1 else ""
                yield 10, f"{where}, {series.timestamps[row]}: {outlier_text(series.values[:, c], far)}{others}"


def _of_column(
    where: str, train: Float64[np.ndarray, " a"], test: Float64[np.ndarray, " b"]
) -> Iterator[tuple[float, str]]:
    if (spread := standard_deviation(train)) == 0.0:
        yield 1e3, f"{where}: constant in the training rows ({train[0]:.6g}); the model cannot learn from it"
        return
    shift = float(test.mean() - train.mean()) / spread
    if len(train) >= LEAST_COUNTED and all((np.diff(part) >= 0).all() for part in (train, test)) and shift > 0:
        yield 100 + shift, f"{where}: never falls, as a counter; its differences say more, and can be forecast instead"
    elif abs(shift) > DRIFT:
        way = "above" if shift > 0 else "below"
        line = f"{where}: the mean of the test rows is {abs(shift):.1f} training standard deviations {way} that of the "
        yield 100 + abs(shift), f"{line}training rows; models fitted on old rows may be off"
    if len(np.unique(train)) > len(train) / 20:
        starts = np.flatnonzero(np.append(True, np.diff(train) != 0))
        _, value, stretches = np.unique(train[starts], return_inverse=True, return_counts=True)
        repeats = np.diff(starts, append=len(train)) - 1
        still = float(repeats[stretches[value] <= MOST_STRETCHES].sum() / (len(train) - 1))
        if still > STUCK:
            line = f"{where}: {still:.0%} of the training rows repeat the previous value; possibly a stuck sensor"
            yield 50 + still, line
