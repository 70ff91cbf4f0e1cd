"""Datasets to forecast: a file, files that form one dataset, or files with separate models."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from informer.config.dataset import REPAIRS, DatasetConfig, with_repairs
from informer.config.forecast import ForecastConfig, Repair
from informer.config.overrides import shell_command, to_display
from informer.data.panel import series_names
from informer.data.read.download import list_files
from informer.data.read.source import Series
from informer.data.survey import Survey, survey_file
from informer.errors import InputError, ReportError, counted, listed, with_addresses
from informer.files import expanded

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
        repairs: descriptions of the repairs.
    """

    path: str
    name: str
    dataset: DatasetConfig
    panel: Sequence[Series]
    n_files: int
    format_note: str
    unused: Sequence[str]
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
        repairs=survey.repairs,
    )


def _joined(pattern: str, surveys: Sequence[Survey], excluded: Sequence[str]) -> Subject:
    named = zip(surveys, series_names([survey.path for survey in surveys]), strict=True)
    panel = [
        series if survey.dataset.series_col else replace(series, name=name)
        for survey, name in named
        for series in survey.panel
    ]
    dataset = with_repairs([survey.dataset for survey in surveys])
    return Subject(
        path=pattern,
        name=Path(with_addresses(pattern).rstrip("/*?.")).name or "files",
        dataset=replace(dataset, path=with_addresses(pattern), exclude_files=[*dataset.exclude_files, *excluded]),
        panel=panel,
        n_files=len(surveys),
        format_note=surveys[0].format_note,
        unused=surveys[0].unused,
        repairs=[line for survey in surveys for line in survey.repairs],
    )


def _refusal(survey: Survey, settings: ForecastConfig) -> list[str]:
    """Why a file cannot be forecast, and what to do; empty if it can."""
    loses_target = survey.is_readable and settings.target in survey.dropped
    if not survey.problems or (settings.repair is Repair.auto and survey.is_readable and not loses_target):
        return []
    lines, command = [*survey.problems[:MOST_LINES]], shell_command("inspect", str(survey.path))
    if len(survey.problems) > MOST_LINES:
        lines.append(f"{survey.path.name}: {len(survey.problems) - MOST_LINES} more problems ({command})")
    if not survey.is_readable or loses_target:
        return [*lines, f"repair=auto cannot fix all of this: fix the file, or see {command}"]
    words = " ".join(repair_settings(survey.dataset, settings.dataset))
    dropped = f" and leaves out {listed(survey.dropped)}" if survey.dropped else ""
    return [*lines, f"to repair it, add repair=auto, which sets {words}{dropped}"]


def repair_settings(dataset: DatasetConfig, given: DatasetConfig) -> list[str]:
    """The repairs of a configuration that were not `given`, as command-line overrides."""
    changed = {name: getattr(dataset, name) for name in REPAIRS if getattr(dataset, name) != getattr(given, name)}
    return [f"dataset.{name}={to_display(value)}" for name, value in changed.items()]
