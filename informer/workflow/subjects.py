"""What there is to forecast: a file, files that form one dataset, or files with a model each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from informer.config.dataset import DatasetConfig
from informer.config.forecast import ForecastConfig, Repair
from informer.config.overrides import readable
from informer.data.panel import series_names
from informer.data.read.download import list_files
from informer.data.read.source import Series
from informer.data.survey import Survey, survey_file, with_repairs
from informer.errors import InputError, ReportError, as_given
from informer.files import expanded

MOST_LINES = 20
"""Problems of one file that are reported one by one."""

REPAIRS = ("timezone", "sort", "duplicates", "fill", "columns")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One dataset, which one model forecasts.

    Args:
        path: of its file, or the folder or pattern of its files, on this machine.
        name: for its folder.
        dataset: how to read it, with the repairs that it needs, and with its address if it came from one.
        panel: its series.
        n_files: it consists of.
        written: how the first file is written, where that is not common.
        repairs: lines of what the repairs do.
    """

    path: str
    name: str
    dataset: DatasetConfig
    panel: Sequence[Series]
    n_files: int
    written: str
    repairs: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One file, or dataset, that was not forecast.

    Args:
        name: of it.
        lines: what is wrong.
    """

    name: str
    lines: Sequence[str]

    @property
    def line(self) -> str:
        """The first problem, and how many more there are."""
        more = f" (and {len(self.lines) - 1} more lines: informer inspect {self.name})" if len(self.lines) > 2 else ""
        return f"{self.lines[0]}{more}"


def find_subjects(settings: ForecastConfig) -> tuple[list[Subject], list[Failure]]:
    """Read the files, and say which belong together, and which of several cannot be forecast.

    Raises:
        ReportError: problems of every file, that `repair` does not allow to repair, or that no setting repairs.
    """
    wanted = settings.input or ""
    many = list_files("input", wanted, settings.dataset.exclude_files)
    paths = [expanded(wanted)] if many is None else many
    surveys: list[Survey] = []
    failures: list[Failure] = []
    for path in paths:
        try:
            survey = survey_file(path, settings.dataset)
        except InputError as error:
            failures.append(Failure(name=str(path), lines=str(error).splitlines()))
            continue
        lines = _refusal(survey, settings)
        if lines:
            failures.append(Failure(name=str(path), lines=lines))
        else:
            surveys.append(survey)
    if not surveys:
        raise ReportError([line for failure in failures for line in failure.lines])
    kinds = {(one.panel[0].columns, one.panel[0].frequency.code, one.dataset.series_col) for one in surveys}
    if many is not None and len(surveys) > 1 and len(kinds) == 1:
        return [_joined(wanted, surveys, [Path(failure.name).name for failure in failures])], failures
    names = series_names([one.path for one in surveys])
    return [_alone(survey, name) for survey, name in zip(surveys, names, strict=True)], failures


def _alone(survey: Survey, name: str) -> Subject:
    return Subject(
        path=str(survey.path),
        name=name,
        dataset=replace(survey.dataset, path=as_given(str(survey.path))),
        panel=survey.panel,
        n_files=1,
        written=survey.written,
        repairs=survey.repairs,
    )


def _joined(wanted: str, surveys: Sequence[Survey], excluded: Sequence[str]) -> Subject:
    named = zip(surveys, series_names([one.path for one in surveys]), strict=True)
    panel = [
        series if one.dataset.series_col else replace(series, name=name) for one, name in named for series in one.panel
    ]
    dataset = with_repairs(surveys[0].dataset, [one.dataset for one in surveys])
    return Subject(
        path=wanted,
        name=Path(as_given(wanted).rstrip("/*?.")).name or "files",
        dataset=replace(dataset, path=as_given(wanted), exclude_files=[*dataset.exclude_files, *excluded]),
        panel=panel,
        n_files=len(surveys),
        written=surveys[0].written,
        repairs=[line for one in surveys for line in one.repairs],
    )


def _refusal(survey: Survey, settings: ForecastConfig) -> list[str]:
    """Why a file is not forecast, and what to do; nothing where it can be."""
    if not survey.problems or (settings.repair is Repair.auto and survey.is_readable):
        return []
    lines = [*survey.problems[:MOST_LINES]]
    if len(survey.problems) > MOST_LINES:
        lines.append(
            f"{survey.path.name}: {len(survey.problems) - MOST_LINES} more problems (informer inspect {survey.path})"
        )
    if not survey.is_readable:
        return [*lines, "no setting repairs all of this: fix the file, or set what the lines above name"]
    words = " ".join(repair_settings(survey.dataset))
    return [*lines, f"to repair it on the way, give repair=auto, which sets {words}"]


def repair_settings(dataset: DatasetConfig) -> list[str]:
    """The repairs of a configuration as the command line has them."""
    usual = DatasetConfig()
    found = {name: getattr(dataset, name) for name in REPAIRS if getattr(dataset, name) != getattr(usual, name)}
    return [f"dataset.{name}={readable(value)}" for name, value in found.items()]
