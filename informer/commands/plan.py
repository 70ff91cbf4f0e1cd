"""Choose the training configuration from the data: horizon, columns, split, short series.

Datasets to forecast: a file, files that form one dataset, or files with separate models.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from informer.base.errors import InputError, ReportError, counted, listed, with_addresses
from informer.base.files import expanded
from informer.config.commands import ForecastConfig, RepairMode
from informer.config.data import DatasetConfig, FeatureMode, Short, SplitConfig, SplitKind, repaired
from informer.config.hydra_compose import compose
from informer.config.model import WindowSizes
from informer.config.overrides import shell_command
from informer.config.training import TrainConfig, check
from informer.data.diagnosis import Survey, in_words, seasons_of, survey_file
from informer.data.panel import series_names
from informer.data.seasonality import Season
from informer.read.checks import CONFIRM
from informer.read.files import list_files
from informer.read.series import Series
from informer.read.split import cut_rows, shortage

MOST_LINES = 20
"""Maximum number of problems of one file that are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One dataset, forecast by one model.

    Args:
        path: local path of its file, or folder or pattern of its files.
        name: name for its folder.
        dataset: settings for reading it, with the repairs it needs, and its address if it is remote.
        panel: its series.
        n_files: number of files.
        format_note: format of the first file, if unusual.
        unused: text columns of the first file that are not used.
        settings: settings of the repairs, as overrides on the command line.
        repairs: descriptions of the repairs.
    """

    path: str
    name: str
    dataset: DatasetConfig
    panel: Sequence[Series]
    n_files: int
    format_note: str
    unused: Sequence[str]
    settings: Sequence[str]
    repairs: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A file or dataset that was not forecast.

    Args:
        name: its path.
        lines: problems, and how to fix them.
        n_problems: number of problems, of which `lines` may show a part.
    """

    name: str
    lines: Sequence[str]
    n_problems: int

    @classmethod
    def of(cls, path: str, error: InputError) -> "Failure":
        """A file with an error, one problem per line."""
        lines = str(error).splitlines()
        return cls(name=path, lines=lines, n_problems=len(lines))

    @property
    def line(self) -> str:
        """The first problem, and the number of others."""
        if self.n_problems == 1:
            return self.lines[0]
        others = counted(self.n_problems - 1, "more problem")
        return f"{self.lines[0]} (and {others}: {shell_command('inspect', self.name)})"


def find_subjects(settings: ForecastConfig) -> tuple[list[Subject], list[Failure]]:
    """Read the files, and group them into datasets; returns these, and the files that cannot be forecast.

    Raises:
        ReportError: no file can be forecast; lists the problems, which need `repair=auto` or other settings.
    """
    pattern = settings.input or ""
    many = list_files("input", pattern, settings.dataset.exclude_files)
    paths = [expanded(pattern)] if many is None else many
    surveys: list[Survey] = []
    failures: list[Failure] = []
    for path in paths:
        try:
            survey = survey_file(path, settings.dataset)
        except InputError as error:
            failures.append(Failure.of(str(path), error))
            continue
        lines = _refusal(survey, settings)
        if lines:
            failures.append(Failure(name=str(path), lines=lines, n_problems=len(survey.problems)))
        else:
            surveys.append(survey)
    if not surveys:
        raise ReportError([line for failure in failures for line in failure.lines])
    kinds = {(survey.panel[0].columns, survey.panel[0].frequency.code, survey.dataset.series_col) for survey in surveys}
    if many is not None and len(surveys) > 1 and len(kinds) == 1:
        return [_joined(pattern, surveys, [Path(failure.name).name for failure in failures])], failures
    names = series_names([survey.path for survey in surveys])
    return [_alone(survey, name) for survey, name in zip(surveys, names, strict=True)], failures


def _alone(survey: Survey, name: str) -> Subject:
    return Subject(
        path=str(survey.path),
        name=name,
        dataset=replace(survey.dataset, path=with_addresses(str(survey.path))),
        panel=survey.panel,
        n_files=1,
        format_note=survey.format_note,
        unused=survey.unused,
        settings=in_words(survey.repairs),
        repairs=survey.log,
    )


def _joined(pattern: str, surveys: Sequence[Survey], excluded: Sequence[str]) -> Subject:
    named = zip(surveys, series_names([survey.path for survey in surveys]), strict=True)
    panel = [
        series if survey.dataset.series_col else replace(series, name=name)
        for survey, name in named
        for series in survey.panel
    ]
    repairs = [repair for survey in surveys for repair in survey.repairs]
    dataset = repaired(surveys[0].dataset, repairs)
    return Subject(
        path=pattern,
        name=Path(with_addresses(pattern).rstrip("/*?.")).name or "files",
        dataset=replace(dataset, path=with_addresses(pattern), exclude_files=[*dataset.exclude_files, *excluded]),
        panel=panel,
        n_files=len(surveys),
        format_note=surveys[0].format_note,
        unused=surveys[0].unused,
        settings=in_words(repairs),
        repairs=[line for survey in surveys for line in survey.log],
    )


def _refusal(survey: Survey, settings: ForecastConfig) -> list[str]:
    """Why a file cannot be forecast, and what to do; empty if it can."""
    loses_target = survey.is_readable and settings.target in survey.dropped
    can_repair = survey.is_readable and not survey.asks and not loses_target
    if not survey.problems or (settings.repair is RepairMode.auto and can_repair):
        return []
    lines, command = [*survey.problems[:MOST_LINES]], shell_command("inspect", str(survey.path))
    if len(survey.problems) > MOST_LINES:
        lines.append(f"{survey.path.name}: {len(survey.problems) - MOST_LINES} more problems ({command})")
    if not survey.is_readable or loses_target:
        return [*lines, f"repair=auto cannot fix all of this: fix the file, or see {command}"]
    dropped = f" and leaves out {listed(survey.dropped)}" if survey.dropped else ""
    words = in_words([repair for repair in survey.repairs if repair != CONFIRM])
    allowed = f" {in_words([CONFIRM])[0]}" if survey.asks else ""
    return [*lines, f"to repair it, add repair=auto{allowed}, which sets {' '.join(words)}{dropped}"]


MOST_HORIZON = 96
"""Maximum default horizon, in rows."""

SHARE = 10
"""Minimum number of rows of a series per row of a default horizon."""

LEAST_SHARE = 4
"""Minimum number of rows of a series per row of a horizon set by the user."""

LEAST_HORIZON = 4
"""Minimum default horizon from a season, in rows."""

TRAINING = 0.8
"""Share of the budget for search, training and scoring; the rest is for forecasts and the report."""

READINGS = 2.5
"""Estimated time for forecasts and report, in units of the time for reading the data, since both read it again."""

LEAST_TRAIN = 0.5
"""Minimum share of training rows when validation and test need more than the default."""

CALIBRATION_WINDOWS = 5
"""Calibration windows, from the later half of the validation part, that allow an 80 % interval."""

SEASONS_OF_HISTORY = 2
"""Seasons in the history if its length is not searched."""

MOST_COLUMNS = 12
"""Maximum number of columns searched for seasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Plan for one subject.

    Args:
        subject: the data.
        settings: training configuration.
        seasons: seasons of the targets, strongest first.
        horizon: rows to forecast.
        notes: decisions to report to the user.
    """

    subject: Subject
    settings: TrainConfig
    seasons: Sequence[Season]
    horizon: int
    notes: Sequence[str]


def plan(subject: Subject, settings: ForecastConfig, *, minutes: float, run_dir: Path) -> Plan:
    """Choose all settings that the user has not set.

    Args:
        subject: the data.
        settings: settings of the user.
        minutes: time budget for search, training and scoring.
        run_dir: run directory.

    Raises:
        InputError: too few rows for the horizon, or no such column.
    """
    panel, dataset, notes = subject.panel, subject.dataset, []
    columns = targets_of(panel[0], settings)
    rows = sorted(map(len, panel))[len(panel) // 2]
    horizon = settings.horizon or usual_horizon(rows, panel[0].frequency.season)
    _check_rows(subject, rows, horizon)
    if dataset.split == SplitConfig():
        split = split_for(rows, horizon)
        if split != dataset.split:
            shares = f"{split.train:g}/{split.val:g}/{split.test:g}"
            notes.append(f"split {shares}, since {rows} rows are too few for the default")
        dataset = replace(dataset, split=split)
    notes += left_out(subject, columns)
    seasons = seasons_of([_before_test(series, dataset.split) for series in panel], columns[-MOST_COLUMNS:])
    seq_len = _history(rows, horizon, [season.period for season in seasons], panel[0].frequency.season)
    sizes = WindowSizes(seq_len=seq_len, label_len=seq_len // 2, pred_len=horizon)
    short = [series.name for series in panel if _is_short(series, replace(subject, dataset=dataset), sizes)]
    if dataset.short is Short.error and 0 < len(short) < len(panel):
        dataset = replace(dataset, short=Short.pad)
        notes.append(f"short=pad for {listed(short, 3)}, too short for the split")
    train = _training(settings, minutes)
    if not train.search:
        train = replace(train, seq_len=seq_len, label_len=seq_len // 2)
    only = settings.target is not None and len(panel[0].columns) == 1
    train = check(
        replace(
            train,
            dataset=dataset,
            pred_len=horizon,
            target=settings.target,
            features=FeatureMode.M if settings.target is None or only else FeatureMode.MS,
            seed=settings.seed,
            device=settings.device,
            run_dir=str(run_dir),
        )
    )
    return Plan(subject=subject, settings=train, seasons=seasons, horizon=horizon, notes=notes)


def for_training(minutes: float, reading: float) -> float:
    """Minutes of a budget for search, training and scoring; `reading` is the time for reading the data."""
    return max(min(TRAINING * minutes, minutes - READINGS * reading), minutes / 2)


def _check_rows(subject: Subject, rows: int, horizon: int) -> None:
    """Raise an InputError if the series have too few rows for the horizon."""
    if LEAST_SHARE * horizon > rows:
        raise InputError(
            f"horizon={horizon}: expected at most {rows // LEAST_SHARE} for {subject.name}, a quarter of the {rows} "
            f"rows of {'its median' if len(subject.panel) > 1 else 'the'} series: training, validation and test need "
            "rows for at least one forecast each"
        )


def usual_horizon(rows: int, season: int, share: int = SHARE) -> int:
    """Default horizon: two seasons, or one, if at most a `share`-th of the rows and MOST_HORIZON; otherwise that
    maximum."""
    most = max(min(MOST_HORIZON, rows // share), 1)
    return next((n for n in (2 * season, season) if LEAST_HORIZON <= n <= most), most)


def split_for(rows: int, horizon: int) -> SplitConfig:
    """The default split, or one with enough validation windows for an 80 % interval and at least one test window."""
    usual = SplitConfig()
    val, test = 2 * (horizon + CALIBRATION_WINDOWS) / rows, (horizon + 1) / rows
    shares = [max(float(usual.val or 0), _rounded_up(val)), max(float(usual.test or 0), _rounded_up(test))]
    if shares == [usual.val, usual.test]:
        return usual
    if sum(shares) > 1 - LEAST_TRAIN:
        shares[1] = _rounded_up(test)
    if sum(shares) > 1 - LEAST_TRAIN:  # too few rows for intervals
        shares = [_rounded_up((horizon + 1) / rows)] * 2
    return SplitConfig(kind=SplitKind.ratio, train=round(1 - sum(shares), 2), val=shares[0], test=shares[1])


def _rounded_up(share: float) -> float:
    return -(-share * 100 // 1) / 100


def targets_of(series: Series, settings: ForecastConfig) -> list[str]:
    target = settings.target
    if target is None:
        return list(series.columns)
    if target not in series.columns:
        raise InputError(f"target={target}: expected a numeric column, one of {listed(series.columns)}")
    return [target]


def left_out(subject: Subject, columns: Sequence[str]) -> Iterator[str]:
    """Notes on columns that are not used, and on rows at the end without a target."""
    if subject.unused:
        words = f"{'column' if len(subject.unused) == 1 else 'columns'} {listed(subject.unused, 3)} not used"
        yield f"{words} ({shell_command('inspect', with_addresses(subject.path))} says how)"
    if n_empty := max(_empty_end(series, columns) for series in subject.panel):
        yield (
            f"the last {n_empty} rows have no {listed(columns, 3)}: the forecast begins after them; to forecast these "
            "rows, end the file before them"
        )


def _empty_end(series: Series, columns: Sequence[str]) -> int:
    """Number of last rows in which none of the columns has a value."""
    values = series.values[:, [series.columns.index(column) for column in columns]]
    observed = np.flatnonzero(np.isfinite(values).any(axis=1))
    return len(series) - 1 - int(observed[-1]) if len(observed) else len(series)


def _before_test(series: Series, split: SplitConfig) -> Series:
    """A series without the rows of its test part, which may decide nothing."""
    first = cut_rows(series.timestamps, series.frequency, split).clip(len(series)).test.start
    return replace(series, timestamps=series.timestamps[:first], values=series.values[:first])


def _history(rows: int, horizon: int, periods: Sequence[int], season: int) -> int:
    """Rows of history if not searched: two periods of the strongest season, at least the horizon, at most a quarter of
    the rows."""
    period = next(iter(periods), season)
    return max(min(max(SEASONS_OF_HISTORY * period, horizon), rows // 4, 1024), 1)


def _is_short(series: Series, subject: Subject, sizes: WindowSizes) -> bool:
    split = cut_rows(series.timestamps, series.frequency, subject.dataset.split).clip(len(series))
    return shortage(split, len(series), subject.dataset.split, sizes=sizes, name=series.name) is not None


def _training(settings: ForecastConfig, minutes: float) -> TrainConfig:
    train = compose({"dataset": "csv", "model": settings.model})
    if train.search:
        trainer = replace(train.trainer, time_budget_minutes=minutes)
        train = replace(train, trainer=trainer)
    return train
