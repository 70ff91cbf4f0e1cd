"""`informer forecast`, from the checked configuration to the forecasts, the report and the summary.

Progress of a long command: a live display in a terminal, otherwise a line at intervals.

Summary lines of `informer forecast`: the data, the quality of the model, the output files.
"""

import json
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path

import pandas as pd
from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from informer import checkpoint
from informer.base import progress
from informer.base.console import say
from informer.base.errors import InputError, ReportError, counted, listed, printable, skill_text, with_addresses
from informer.base.files import write_atomic
from informer.base.progress import Status, listening
from informer.base.start import Interrupted
from informer.checkpoint.format import COMBINED
from informer.checkpoint.paths import FORECASTS, METRICS_FILE, check_output, forecasting_checkpoint
from informer.commands.plan import (
    Failure,
    Plan,
    Subject,
    find_subjects,
    for_training,
    left_out,
    plan,
    targets_of,
    usual_horizon,
)
from informer.config.commands import ForecastConfig, Format, PredictConfig, ReportConfig
from informer.config.data import DatasetConfig
from informer.config.overrides import Word, changed_settings, shell_command
from informer.config.training import TrainConfig
from informer.data.columns import Columns
from informer.data.history import future_index
from informer.data.scaler import PanelScaler
from informer.data.seasonality import WEAKEST, Season
from informer.inference.job import predict
from informer.inference.model import Forecast, interval_notes
from informer.inference.writing import LONG_FILE, Writer, to_long
from informer.inference.zero import ZeroModel, network_seasons
from informer.linear.maps import CombinationWeights
from informer.pretrained.network import HISTORY
from informer.read.frequency import Frequency, adjective, lasting
from informer.read.table import name_of
from informer.report.command import report
from informer.scoring.bootstrap import Winner
from informer.scoring.intervals import saved_calibration, too_narrow, validation_rows
from informer.scoring.scores import Evaluation
from informer.search.stage import train
from informer.training.folder import RUNS, RunFolder

EVERY = 30.0
"""Seconds between two lines if the output is not a terminal."""

BAR = 24
"""Width of the progress bar in characters."""


class Display:
    """Current activity, best score so far, time left.

    Args:
        minutes: time budget.
        clock: time in seconds.
    """

    def __init__(self, minutes: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self.clock = 60 * minutes, clock
        self.status = Status(doing="starting")
        self._began = clock()
        self._spinner = Spinner("dots")

    def update(self, status: Status) -> None:
        """Update the fields that `status` sets."""
        values = {name: getattr(status, name) for name in ("doing", "best", "baseline", "baseline_name")}
        self.status = replace(self.status, **{name: value for name, value in values.items() if value is not None})

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self.clock() - self._began

    @property
    def time_left(self) -> str:
        """Time left of the budget, as text."""
        seconds_left = self.seconds - self.elapsed
        if seconds_left <= 0:
            return "budget used, finishing"
        return f"{_minutes(seconds_left)} left of {_minutes(self.seconds)}"

    @property
    def best(self) -> str:
        """Best score so far compared with the baseline, as text; empty before the first score."""
        status = self.status
        if status.best is None:
            return ""
        text = f"best validation loss so far {status.best:.4g}"
        if status.baseline is None:
            return text
        name = status.baseline_name or "baseline"
        if status.best >= status.baseline:
            return f"{text}: {name}"
        return f"{text}, {100 * (1 - status.best / status.baseline):.1f} % below {name} ({status.baseline:.4g})"

    @property
    def line(self) -> str:
        """The display as one line."""
        return "; ".join(filter(None, [printable(self.status.doing or ""), self.best, self.time_left]))

    def __rich__(self) -> RenderableType:
        """The display as a table: activity, best score, progress bar."""
        table = Table.grid(padding=(0, 1))
        table.add_row(self._spinner, Text(printable(self.status.doing or ""), style="bold", overflow="ellipsis"))
        if self.best:
            table.add_row("", Text(self.best))
        bar = Table.grid(padding=(0, 1))
        bar.add_row(
            ProgressBar(total=self.seconds, completed=min(self.elapsed, self.seconds), width=BAR),
            Text(self.time_left, style="dim"),
        )
        table.add_row("", bar)
        return table


@contextmanager
def displayed(console: Console, minutes: float) -> Iterator[Display]:
    """Show progress reports within the context."""
    display = Display(minutes)
    with listening(display.update):
        if console.is_terminal:
            with Live(display, console=console, refresh_per_second=8, transient=True):
                yield display
        else:
            with _plain_lines(console, display):
                yield display


@contextmanager
def _plain_lines(console: Console, display: Display) -> Iterator[None]:
    """Print a line every `EVERY` seconds, from a separate thread."""
    over = threading.Event()

    def speak() -> None:
        while not over.wait(EVERY):
            say(console, display.line)

    thread = threading.Thread(target=speak, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


ZERO = "zero"
"""`model=zero`: the network that comes trained."""
ZERO_SHARE = 3
"""Rows of a series per row of its default horizon: nothing is split off for training."""
MOST_NAMES, MOST_SEASONS = 6, 3
SHOWN = 5e-4
"""Smaller skills are 0.0 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Result of one plan.

    Args:
        evaluation: scores on held-out rows.
        trained: complete configuration of the trained model.
        constant: note on targets that are constant in training; empty without any.
        root: name of the root of the targets that is modelled; empty: the values are.
        shares: weights of network, linear forecast and seasonal naive; None: no combination.
        folder: run directory.
        forecasts: the forecast file, or the folder of several.
        n_forecasts: number of forecast files.
        report: path of the page.
        seconds: total time, reading included.
        levels: interval levels in percent.
        interval_notes: see `informer.inference.model.interval_notes`.
    """

    plan: Plan
    evaluation: Evaluation
    trained: TrainConfig
    constant: str
    root: str
    shares: CombinationWeights | None
    folder: Path
    forecasts: Path
    n_forecasts: int
    report: Path
    seconds: float
    levels: Sequence[int]
    interval_notes: Sequence[str]


def closing_lines(outcome: Outcome, settings: ForecastConfig) -> Iterator[tuple[str, str]]:
    """Label and text of each line that follows `data_line` and `season_line`."""
    plan = outcome.plan
    how = f"with {' '.join(plan.subject.settings)}" if plan.subject.settings else "as set"
    notes = [*plan.notes, outcome.constant, f"repaired {how}" if plan.subject.repairs else ""]
    yield "Data", "; ".join(filter(None, notes)) or "no problems"
    yield "Model", _model_line(outcome)
    yield "Quality", quality_line(outcome.evaluation)
    yield "Intervals", _interval_line(outcome, settings.intervals)
    yield "Forecast", _forecast_line(outcome)
    yield "Report", str(outcome.report)
    yield "Repeat", repeat_command(plan, settings)
    yield "New rows", _predict_command(outcome.folder, plan.subject.path, outcome.levels)
    for note in outcome.interval_notes:
        yield "Warning", note


def resume_lines(run: RunFolder, path: str, levels: Sequence[int]) -> Iterator[tuple[str, str]]:
    """Label and text of the commands that complete an interrupted forecast of the file `path`."""
    if not run.is_finished:
        yield "Continue", shell_command("train", ("resume", run.path))
    else:  # only intervals that the run has
        calibration = saved_calibration(checkpoint.load(forecasting_checkpoint(run.path)), recent=True)
        levels = [level for level in levels if calibration is not None and calibration.supports(level)]
    yield "Forecast", _predict_command(run.path, path, levels, ("output", run.path / FORECASTS), "overwrite=true")
    yield "Report", shell_command("report", str(run.path))


def _predict_command(run: Path, path: str, levels: Sequence[int], *arguments: Word) -> str:
    intervals = [("intervals", list(levels))] if levels else []
    return shell_command("predict", ("checkpoint", run), ("input", path), *arguments, *intervals)


def data_line(subject: Subject, target: str | None) -> str:
    """Rows, step, series, time span and columns."""
    panel, series = subject.panel, subject.panel[0]
    rows = f"{sum(map(len, panel)):,} {adjective(series.frequency)} rows"
    several = f" of {len(panel)} series"
    if len(panel) == 1:
        several = ""
    elif subject.dataset.series_col:
        several += f" (column {subject.dataset.series_col})"
    first, last = min(member.timestamps[0] for member in panel), max(member.timestamps[-1] for member in panel)
    names = (
        listed(series.columns, MOST_NAMES)
        if target is None
        else f"{target} from {counted(len(series.columns), 'column')}"
    )
    written = f"; {subject.format_note}" if subject.format_note else ""
    return f"{rows}{several}, {_span(first, last)}; {'columns' if target is None else 'target'} {names}{written}"


def _span(first: pd.Timestamp, last: pd.Timestamp) -> str:
    """Time span as text, without times of day if both are midnight."""
    days_only = first == first.normalize() and last == last.normalize()
    return " to ".join(f"{time:%Y-%m-%d}" if days_only else f"{time:%Y-%m-%d %H:%M}" for time in (first, last))


def season_line(seasons: Sequence[Season], frequency: Frequency) -> str:
    """Seasons of the targets, without those of a few series or columns only."""
    clear = [season.period for season in seasons if season.strength >= WEAKEST]
    if not clear:
        return "none found"
    return f"repeats every {', '.join(lasting(period, frequency) for period in clear[:MOST_SEASONS])}"


def _frequency(plan: Plan) -> Frequency:
    return plan.subject.panel[0].frequency


def _model_line(outcome: Outcome) -> str:
    model, frequency = outcome.trained, _frequency(outcome.plan)
    how = outcome.shares.in_words.removeprefix("100% ") if outcome.shares else model.model.family
    how += f" of {outcome.root}s" if outcome.root else ""
    return f"{how}, reads the last {lasting(model.seq_len, frequency)}; {_ready(outcome.seconds, outcome.folder)}"


def _ready(seconds: float, folder: Path) -> str:
    return f"ready after {_minutes(seconds)} minutes, in {folder}"


def quality_line(evaluation: Evaluation) -> str:
    """The verdict, and the errors of the model and the baselines."""
    only = len(evaluation.columns) == 1
    units, metric, what = ("original", "mae", "mean absolute error") if only else ("scaled", "mse", "scaled MSE")
    values = {name: getattr(errors, units).overall()[metric] for name, errors in evaluation.errors.items()}
    model_error = values.pop(evaluation.model)
    baselines = ", ".join(f"{name} {value:.4g}" for name, value in values.items())
    figures = f"{what} {model_error:.4g} ({baselines}) in {counted(evaluation.windows, 'test forecast')}"
    return f"{_quality(evaluation)}; {figures}"


def _quality(evaluation: Evaluation) -> str:
    """The verdict in a few words."""
    if not math.isfinite(evaluation.skill):
        return evaluation.verdict.removesuffix(".")
    return _compared("MSE", evaluation.skill, evaluation.best_baseline, evaluation.winner, evaluation.windows)


def _compared(metric: str, skill: float, rival: str, winner: Winner, windows: int) -> str:
    """The outcome of a comparison with the better baseline in a few words."""
    than = f"{metric} {skill_text(skill)} {'than' if skill > -1 else 'as'} {rival}'s"
    if winner is Winner.neither:
        return f"as good as {rival}" + (f" ({than})" if abs(skill) >= SHOWN else "")
    if winner is Winner.noise:
        return f"cannot be told from {rival} ({than})"
    if winner is Winner.few:
        return f"{than}, but {counted(windows, 'test forecast')} cannot decide"
    return f"better than both baselines, {than}" if winner is Winner.model else f"worse than {rival}, {than}"


def _interval_line(outcome: Outcome, requested: Sequence[int]) -> str:
    if not outcome.levels:
        return _no_intervals(outcome)
    if outcome.constant and not outcome.evaluation.intervals:
        return "none: the targets are constant"
    means = {name: interval.overall()["coverage"] for name, interval in outcome.evaluation.intervals.items()}
    descriptions = [
        f"{level} %" + (f" cover {means[str(level)]:.0f} %" if str(level) in means else "") for level in outcome.levels
    ]
    text = ", ".join(descriptions) + (" of the test values" if means else "")
    absent = [level for level in requested if level not in outcome.levels]
    return f"{text}; too few validation rows for {', '.join(f'{level} %' for level in absent)}" if absent else text


def _no_intervals(outcome: Outcome) -> str:
    """Message that there are no intervals, and how many rows they need."""
    trained = outcome.trained
    needs = validation_rows(80, trained.pred_len, trained.trainer.calibration or 0.5)
    return (
        f"none: an 80 % interval needs {needs} validation rows in a series (dataset.split.val); provide more rows or "
        "a shorter horizon"
    )


def _day_or_time(time: pd.Timestamp) -> str:
    return f"{time:%Y-%m-%d}" if time == time.normalize() else f"{time:%Y-%m-%d %H:%M}"


def _forecast_line(outcome: Outcome) -> str:
    plan = outcome.plan
    last = max(future_index(series, plan.horizon)[-1] for series in plan.subject.panel)
    what = f"{outcome.n_forecasts} files, " if outcome.n_forecasts > 1 else ""
    ahead = f"{lasting(plan.horizon, _frequency(plan))} ahead, to {_day_or_time(last)}"
    return f"{outcome.forecasts} ({what}{ahead})"


def repeat_command(plan: Plan, settings: ForecastConfig) -> str:
    """The command that repeats the forecast, with all detected settings."""
    words: list[Word] = [plan.subject.path, ("horizon", plan.horizon)]
    words += [("target", settings.target)] if settings.target is not None else []
    words += [f"budget={settings.budget:g}"]
    usual = ForecastConfig()
    for name in ("intervals", "model", "seed", "device"):
        value = getattr(settings, name)
        words += [(name, value)] if value != getattr(usual, name) else []
    return shell_command("forecast", *words, *dataset_words(plan.settings.dataset))


def dataset_words(dataset: DatasetConfig) -> list[str]:
    """Settings of the data that differ from the defaults, except its path."""
    return changed_settings("dataset", asdict(replace(dataset, path=None)), asdict(DatasetConfig()))


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
        if settings.output is not None:
            check_output(Path(settings.output), overwrite=settings.overwrite)
        subjects, failures = find_subjects(settings)
        reading = display.elapsed / 60
        outcomes: list[Outcome] = []
        n_files = 0
        for place, subject in enumerate(subjects):
            minutes_left = max(settings.budget - display.elapsed / 60, 0.1 * settings.budget)
            minutes = for_training(minutes_left / (len(subjects) - place), reading / len(subjects))
            began = time.monotonic() - 60 * reading / len(subjects)
            try:
                if settings.model == ZERO:
                    _forecast_zero(subject, settings, console, began=began, several=len(subjects) > 1)
                    n_files += subject.n_files
                    continue
                outcomes.append(
                    _forecast_one(subject, settings, minutes, console, display, began=began, several=len(subjects) > 1)
                )
            except InputError as error:
                if len(subjects) == 1:
                    raise
                failures.append(Failure.of(subject.path, error))
                continue
            n_files += subject.n_files
            for label, text in closing_lines(outcomes[-1], settings):
                _line(console, label, text)
    if not n_files:
        raise ReportError([line for failure in failures for line in failure.lines])
    for failure in failures:
        _line(console, "Failed", failure.line)
    if failures:
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
    with _folder(subject, settings, several=several) as folder:
        planned = plan(subject, settings, minutes=minutes, run_dir=folder.path)
        _announce(planned, console, several=several)
        quiet = Console(quiet=True)
        with _explained_how_to_continue(folder, subject, settings, console):
            if settings.overwrite:
                folder.clear([Path(subject.path)])
            evaluation = train(planned.settings, folder, quiet)
            assert evaluation is not None, "one process, and a new run"
            forecasting = checkpoint.load(forecasting_checkpoint(folder.path))
            calibration = saved_calibration(forecasting, recent=True)
            levels = [level for level in settings.intervals if calibration is not None and calibration.supports(level)]
            written, n_forecasts = _predict(planned, folder.path, levels, settings)
            display.update(Status(doing="writing the report"))
            page = report(ReportConfig(input=str(folder.path)), quiet)
    saved = checkpoint.load(folder.path)
    shares, scaler = saved.data.get(COMBINED), PanelScaler.from_state(saved.scaler)
    return Outcome(
        plan=planned,
        evaluation=evaluation,
        trained=folder.settings(),
        constant=scaler.constant_note(Columns(inputs=tuple(saved.inputs), targets=tuple(saved.targets))),
        root=next(iter(scaler.roots(map(saved.inputs.index, saved.targets))), ""),
        shares=CombinationWeights.from_plain(shares) if shares else None,
        folder=folder.path,
        forecasts=written,
        n_forecasts=n_forecasts,
        report=page,
        seconds=time.monotonic() - began,
        levels=levels,
        interval_notes=interval_notes(forecasting, calibration, levels),
    )


def _forecast_zero(
    subject: Subject, settings: ForecastConfig, console: Console, *, began: float, several: bool
) -> None:
    """Forecast with the network that comes trained, score it at earlier origins of the series, print the summary."""
    columns = targets_of(subject.panel[0], settings)
    panel = [replace(series, series_col=subject.dataset.series_col) for series in subject.panel]
    frequency = panel[0].frequency
    rows = sorted(map(len, panel))[len(panel) // 2]
    horizon = settings.horizon or usual_horizon(rows, frequency.season, ZERO_SHARE)
    if several:
        say(console, f"\n{subject.name}")
    _line(console, "Found", data_line(subject, settings.target))
    model = ZeroModel(device=settings.device)
    seasons = network_seasons(panel, columns)
    _line(console, "Season", ", ".join(lasting(season, frequency) for season in seasons if season > 1) or "none")
    for line in subject.repairs:
        _line(console, "Repaired", line)
    with _folder(subject, settings, several=several) as folder:
        forecasts = model.forecast(panel, columns, seasons, horizon=horizon, levels=settings.intervals)
        scores = model.backtest(panel, columns, seasons, horizon=horizon)
        if settings.overwrite:
            folder.clear([Path(subject.path)])
        written = _write_zero(subject, forecasts, folder.path / FORECASTS)
        metrics = {} if scores is None else scores.metrics(columns, settings.intervals)
        text = json.dumps({"model": model.version, **metrics}, indent=1)
        write_atomic(folder.path / METRICS_FILE, text + "\n")
    _line(console, "Data", "; ".join(left_out(subject, columns)) or "no problems")
    ready = _ready(time.monotonic() - began, folder.path)
    what = f"{model.version}, which comes trained on generated series; reads up to the last {HISTORY:,} rows"
    _line(console, "Model", f"{what}; {ready}")
    if scores is None:
        _line(console, "Quality", f"not known: the series are too short for a test forecast of {horizon} rows")
    else:
        errors = ", ".join(f"{name} {error.mean():.4g}" for name, error in scores.scaled.items())
        verdict = _compared("error", scores.skill, scores.best_baseline, scores.winner, len(scores.actual))
        _line(
            console,
            "Quality",
            f"{verdict}; mean absolute error in units of the mean change over a season: {errors}, in "
            f"{counted(len(scores.actual), 'test forecast')}",
        )
        covered = ", ".join(f"{level} % cover {scores.coverage(level):.0f} %" for level in settings.intervals)
        _line(console, "Intervals", f"{covered} of the test values" if covered else "none")
    last = max(forecast.timestamps[-1] for forecast in forecasts)
    ahead = f"{lasting(horizon, frequency)} ahead, to {_day_or_time(last)}"
    _line(console, "Forecast", f"{written} ({ahead})")
    words: list[Word] = [subject.path, ("model", ZERO), ("horizon", horizon)]
    words += [("target", settings.target)] if settings.target is not None else []
    words += [("intervals", settings.intervals)] if settings.intervals != ForecastConfig().intervals else []
    _line(console, "Repeat", shell_command("forecast", *words, *dataset_words(subject.dataset)))
    if scores is not None and (note := too_narrow(scores.shortfalls(settings.intervals))):
        _line(console, "Warning", note)


def _write_zero(subject: Subject, forecasts: Sequence[Forecast], folder: Path) -> Path:
    """A file with the name and format of the input, or one long table for several files."""
    digits = PredictConfig().digits
    if subject.n_files == 1:
        writer = Writer(folder=folder, format=Format.csv, plots=True, digits=digits)
        return folder / writer.write(name_of(Path(subject.path)), forecasts)
    table = to_long({forecast.series.name: forecast for forecast in forecasts}, digits)
    write_atomic(folder / LONG_FILE, table)
    return folder / LONG_FILE


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


def _folder(subject: Subject, settings: ForecastConfig, *, several: bool) -> AbstractContextManager[RunFolder]:
    root, name = settings.output, _name(subject, settings)
    path = str(Path(root) / subject.name) if root is not None and several else root
    return RunFolder.for_output(path, Path(RUNS) / name, overwrite=settings.overwrite)


def _name(subject: Subject, settings: ForecastConfig) -> str:
    words = [f"{datetime.now():%Y-%m-%d_%H-%M-%S}", Path(subject.name).name, settings.target]
    return "_".join(word.replace("/", "-") for word in words if word)


def _announce(planned: Plan, console: Console, *, several: bool) -> None:
    """Print the properties of the data before training starts."""
    if several:
        say(console, f"\n{planned.subject.name}")
    _line(console, "Found", data_line(planned.subject, planned.settings.target))
    _line(console, "Season", season_line(planned.seasons, _frequency(planned)))
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
