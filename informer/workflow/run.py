"""`informer forecast`, from the checked configuration to the forecasts, the report and the summary."""

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from informer import checkpoint, progress
from informer.checkpoint.format import COMBINED
from informer.checkpoint.paths import forecasting_checkpoint
from informer.config.commands import EvalDataset, PredictConfig
from informer.config.forecast import ForecastConfig
from informer.config.reports import ReportConfig
from informer.console import say
from informer.data.columns import Columns
from informer.data.read.remote import is_remote
from informer.data.scaler import PanelScaler
from informer.errors import InputError, ReportError, counted, printable, with_addresses
from informer.inference.intervals import saved_calibration
from informer.inference.jobs.run import predict
from informer.inference.predictor import interval_notes
from informer.linear.shares import Shares
from informer.progress import Status
from informer.reporting.command import report
from informer.search.stage import train
from informer.training.run_dir import RunFolder
from informer.training.signals import Interrupted
from informer.workflow.closing import FORECASTS, Outcome, closing_lines, data_line, resume_lines, season_line
from informer.workflow.display import Display, displayed
from informer.workflow.plan import Plan, for_training, plan
from informer.workflow.subjects import Failure, Subject, find_subjects

LABEL = 11
"""Width of the labels of the summary."""
TYPED = ("Forecast", "Report", "Repeat", "New rows", "Continue")
"""Labels of paths and commands, which are not wrapped, so that they can be copied; other text is."""


def forecast(settings: ForecastConfig, console: Console) -> tuple[list[Outcome], list[Failure]]:
    """Forecast a file, or each dataset of a folder; returns the results, and the failures.

    Raises:
        InputError: an error the user can fix; problems in the data are listed with their repairs.
        Interrupted: Ctrl-C or SIGTERM; the state was saved.
    """
    with displayed(console, settings.budget) as display:
        display.update(Status(doing=f"reading {with_addresses(settings.input or '')}"))
        subjects, failures = find_subjects(settings)
        reading = display.elapsed / 60
        outcomes: list[Outcome] = []
        for place, subject in enumerate(subjects):
            minutes_left = max(settings.budget - display.elapsed / 60, 0.1 * settings.budget)
            minutes = for_training(minutes_left / (len(subjects) - place), reading / len(subjects))
            began = time.monotonic() - 60 * reading / len(subjects)
            try:
                outcomes.append(
                    _forecast_one(subject, settings, minutes, console, display, began=began, several=len(subjects) > 1)
                )
            except InputError as error:
                if len(subjects) == 1:
                    raise
                failures.append(Failure.of(subject.path, error))
                continue
            for label, text in closing_lines(outcomes[-1], settings):
                _line(console, label, text)
    if not outcomes:
        raise ReportError([line for failure in failures for line in failure.lines])
    for failure in failures:
        _line(console, "Failed", failure.line)
    if failures:
        n_files = sum(outcome.plan.subject.n_files for outcome in outcomes)
        say(console, f"{counted(n_files, 'file')} forecast, {len(failures)} failed")
    return outcomes, failures


def _forecast_one(
    subject: Subject,
    settings: ForecastConfig,
    minutes: float,
    console: Console,
    display: Display,
    *,
    began: float,
    several: bool,
) -> Outcome:
    """Args: minutes: for search, training and scoring; began: when reading it began, by `time.monotonic`."""
    with RunFolder.new(_folder(subject, settings, several=several)) as folder:
        planned = plan(subject, settings, minutes=minutes, run_dir=folder.path)
        _announce(planned, console, several=several)
        quiet = Console(quiet=True)
        with _explained_how_to_continue(folder, subject, settings, console):
            evaluation = train(planned.settings, folder, quiet)
            assert evaluation is not None, "one process, and a new run"
            forecasting = checkpoint.load(forecasting_checkpoint(folder.path))
            calibration = saved_calibration(forecasting, recent=True)
            levels = [level for level in settings.intervals if calibration is not None and calibration.supports(level)]
            written, n_forecasts = _predict(planned, folder.path, levels, settings)
            display.update(Status(doing="writing the report"))
            where = subject.dataset.path or ""
            # recorded addresses are not read again
            data = EvalDataset(path=where) if is_remote(where) else EvalDataset()
            page = report(ReportConfig(input=str(folder.path), device=settings.device, dataset=data), quiet)
    saved = checkpoint.load(folder.path)
    shares, scaler = saved.data.get(COMBINED), PanelScaler.from_state(saved.scaler)
    return Outcome(
        plan=planned,
        evaluation=evaluation,
        trained=folder.settings(),
        constant=scaler.constant_note(Columns(inputs=tuple(saved.inputs), targets=tuple(saved.targets))),
        root=next(iter(scaler.roots(map(saved.inputs.index, saved.targets))), ""),
        shares=Shares.from_plain(shares) if shares else None,
        folder=folder.path,
        forecasts=written,
        n_forecasts=n_forecasts,
        report=page,
        seconds=time.monotonic() - began,
        levels=levels,
        interval_notes=interval_notes(forecasting, calibration, levels),
    )


@contextmanager
def _explained_how_to_continue(
    folder: RunFolder, subject: Subject, settings: ForecastConfig, console: Console
) -> Iterator[None]:
    """After Ctrl-C or SIGTERM, print the commands that complete the forecast from what the run has saved."""
    try:
        yield
    except (Interrupted, KeyboardInterrupt) as stopped:
        if not folder.contains_run:
            raise
        interrupted = stopped if isinstance(stopped, Interrupted) else Interrupted(signal.SIGINT)
        say(console, f"{interrupted}; saved")
        for label, text in resume_lines(folder, subject.path, settings.intervals):
            _line(console, label, text)
        raise interrupted from None


def _folder(subject: Subject, settings: ForecastConfig, *, several: bool) -> Path:
    if settings.output is not None:
        return Path(settings.output) / subject.name if several else Path(settings.output)
    words = [f"{datetime.now():%Y-%m-%d_%H-%M-%S}", Path(subject.name).name, settings.target]
    return Path("runs") / "_".join(word.replace("/", "-") for word in words if word)


def _announce(planned: Plan, console: Console, *, several: bool) -> None:
    """Print the properties of the data before training starts."""
    if several:
        say(console, f"\n{planned.subject.name}")
    _line(console, "Found", data_line(planned))
    _line(console, "Season", season_line(planned))
    for line in planned.subject.repairs:
        _line(console, "Repaired", line)


def _predict(planned: Plan, run: Path, levels: Sequence[int], settings: ForecastConfig) -> tuple[Path, int]:
    """Write the forecasts; returns the file, or the folder of several, and the number of files."""
    progress.report(Status(doing="forecasting"))
    folder = run / FORECASTS
    job = PredictConfig(
        checkpoint=str(run),
        input=planned.subject.path,
        output=str(folder),
        intervals=list(levels),
        device=settings.device,
    )
    predict(job, Console(quiet=True))
    written = sorted(folder.rglob("*.forecast.csv"))
    return (written[0], 1) if len(written) == 1 else (folder, len(written))


def _line(console: Console, label: str, text: str) -> None:
    if console.is_terminal and label in TYPED:
        console.print(Text(f"{label:<{LABEL}}", style="bold cyan"), Text(printable(text)), sep="", soft_wrap=True)
    elif console.is_terminal:
        table = Table.grid()
        table.add_column(width=LABEL, style="bold cyan")
        table.add_column(overflow="fold")
        table.add_row(label, Text(printable(text)))
        console.print(table)
    else:
        say(console, f"{label:<{LABEL}}{text}")
