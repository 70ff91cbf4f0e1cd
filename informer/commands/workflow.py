"""`informer forecast`, from the checked configuration to the forecasts, the report and the summary: lines about the
data, the model and the output files. Progress is a live display in a terminal, otherwise a line at intervals.
"""

import re
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from informer.base import progress
from informer.base.console import say
from informer.base.errors import InputError, ReportError, counted, listed, printable, with_addresses
from informer.base.files import write_atomic
from informer.base.start import Interrupted
from informer.checkpoint.paths import FORECASTS, METRICS_FILE, check_output
from informer.commands.plan import (
    Failure,
    failure,
    find_subjects,
    futures_ahead,
    left_out,
    notes_ahead,
    plan,
    rows_and_horizon,
    with_future,
)
from informer.config.commands import ForecastConfig, PredictConfig, ReportConfig
from informer.config.data import DatasetConfig, dataset_words
from informer.config.overrides import Word, shell_command
from informer.config.training import TrainConfig
from informer.data.columns import Columns
from informer.data.diagnosis import Survey
from informer.data.panel import without_ended
from informer.data.seasonality import WEAKEST
from informer.inference.ahead import EFFECTS, NETWORK, Known
from informer.inference.job import predict
from informer.inference.journal import ERROR
from informer.inference.model import Answer, TrainedModel, interval_notes
from informer.inference.totals import LEVELS, totals
from informer.inference.trained import TrainedPanel
from informer.inference.untrained import known_of, targets_of, without_labels
from informer.inference.writing import LONG_FILE, Writer, to_long
from informer.inference.zero import ZeroModel, rows_known
from informer.networks.ops.zero_inputs import HISTORY
from informer.read.frequency import adjective, lasting
from informer.read.series import Series
from informer.read.table import name_of, without
from informer.report.forecasts import add_panel, expectation, written_forecasts
from informer.report.page import Content
from informer.report.run import report
from informer.scoring import forecast_log
from informer.scoring.forecasts import Forecasts, in_zone, joined
from informer.scoring.intervals import NOTHING_LEARNED, Calibration, saved_calibration, validation_rows
from informer.scoring.metrics import shown
from informer.scoring.scores import Scores
from informer.training.folder import RUNS, RunFolder

MOST_NAMES, MOST_SEASONS, MOST_PROBLEMS = 6, 3, 3


def data_line(subject: Survey, target: str | None) -> str:
    """Rows, step, series, time span and columns."""
    panel, series = subject.panel, subject.panel[0]
    rows = f"{sum(map(len, panel)):,} {adjective(series.frequency)} rows"
    several = f" of {len(panel)} series" if len(panel) > 1 else ""
    if several and subject.dataset.series_col:
        several += f" (column {subject.dataset.series_col})"
    ends = min(member.timestamps[0] for member in panel), max(member.timestamps[-1] for member in panel)
    span = " to ".join(map(series.frequency.text, ends))
    if target is None:
        names = f"columns {listed(series.columns, MOST_NAMES)}"
    else:
        names = f"target {target} from {counted(len(series.columns), 'column')}"
    written = f"; {subject.format_note}" if subject.format_note else ""
    return f"{rows}{several}, {span}; {names}{written}"


def quality_line(evaluation: Scores) -> str:
    """The verdict, and the errors of the model and the baselines."""
    only = len(evaluation.columns) == 1
    units, metric = ("original", "mae") if only else ("scaled", evaluation.metric)
    what = "mean absolute error" if only else f"scaled {metric.upper()}"
    values = {name: shown(evaluation.overall(name, units)[metric]) for name in evaluation.names}
    own = values.pop(evaluation.model)
    baselines = ", ".join(f"{name} {value}" for name, value in values.items())
    return f"{evaluation.verdict}; {what} {own} ({baselines}) in {counted(evaluation.windows, 'test forecast')}"


def column_line(evaluation: Scores) -> dict[str, str]:
    """The line about mean absolute errors in the units of each of several columns: the model's (the baselines')."""
    columns, names = evaluation.columns, evaluation.names
    if len(columns) < 2:
        return {}
    by_forecaster = (map(shown, evaluation.values(name, "original", "column")["mae"].tolist()) for name in names)
    of_columns = zip(columns, *by_forecaster, strict=True)
    texts = [f"{listed([name])} {own} ({', '.join(others)})" for name, own, *others in of_columns]
    _, *baselines = names
    more = f" and {len(texts) - MOST_NAMES} more in {METRICS_FILE}" if len(texts) > MOST_NAMES else ""
    return {"By column": f"mean absolute error ({', '.join(baselines)}): {', '.join(texts[:MOST_NAMES])}{more}"}


def _interval_line(
    evaluation: Scores,
    trained: TrainConfig,
    levels: Sequence[int],
    requested: Sequence[int],
    calibration: Calibration | None,
) -> str:
    if calibration is not None and not calibration.is_learned.any():
        return f"none: {NOTHING_LEARNED}"
    if not levels:
        needs = validation_rows(80, trained.pred_len, trained.trainer.calibration or 0.5)
        return (
            f"none: an 80 % interval needs {needs} validation rows in a series (dataset.split.val); provide more rows "
            "or a shorter horizon"
        )
    text = _coverage(evaluation, levels)
    absent = [f"{level} %" for level in requested if level not in levels]
    return f"{text}; too few validation rows for {', '.join(absent)}" if absent else text


def _coverage(evaluation: Scores, levels: Sequence[int]) -> str:
    means = {name: evaluation.overall(evaluation.model, name)["coverage"] for name in evaluation.intervals}
    descriptions = [
        f"{level} %" + (f" cover {means[str(level)]:.0f} %" if str(level) in means else "") for level in levels
    ]
    return ", ".join(descriptions) + (" of the test values" if means else "")


def repeat_command(subject: Survey, settings: ForecastConfig, horizon: int) -> str:
    """The command that repeats the forecast, with all detected settings."""
    usual, ahead = ForecastConfig(), settings.horizon or horizon
    # a day of a clock change has other rows
    words: list[Word] = [subject.path, ("until", settings.until) if settings.until else ("horizon", ahead)]
    for name in (
        "target", "future", "future_covariates", "intervals", "model", "tune", "seed", "device", "total", "aggregate",
        "above", "paths", "plots", "log", "format",
    ):  # fmt: skip
        value = getattr(settings, name)
        words += [(name, value)] if value != getattr(usual, name) else []
    return shell_command("forecast", *words, *dataset_words(subject.dataset))


TOO_SHORT = "not known: the series are too short for a test forecast of {}"
LABEL = 11
"""Width of the labels of the summary."""
TYPED = ("Forecast", "Report", "Repeat", "New rows", "Continue")
"""Labels of paths and commands, which are not wrapped, so that they can be copied; other text is."""


def forecast(settings: ForecastConfig, console: Console) -> tuple[list[dict[str, Any]], list[Failure]]:
    """Forecast a file, or each dataset of a folder; returns the facts about each, and the failures.

    Raises:
        InputError: an error the user can fix; problems in the data are listed with their repairs.
        Interrupted: Ctrl-C or SIGTERM; the state was saved.
    """
    with progress.shown(console):
        began = time.monotonic()
        progress.report(f"reading {with_addresses(settings.input or '')}")
        if settings.output is not None:
            check_output(Path(settings.output), overwrite=settings.overwrite)
        settings, ahead, notes = with_future(settings)
        subjects, failures = find_subjects(settings)
        subjects = [replace(subject, warnings=[*subject.warnings, *notes]) for subject in subjects]
        n_files, answers, errors = 0, list[dict[str, Any]](), list[InputError]()
        for subject in subjects:
            root, name = settings.output, Path(subject.name).name
            if root is not None and len(subjects) > 1:
                root = str(Path(root) / subject.name)
            words = [f"{datetime.now():%Y-%m-%d_%H-%M-%S}", name, settings.target]
            default = Path(RUNS) / "_".join(word.replace("/", "-") for word in words if word)
            title = subject.name if len(subjects) > 1 else None
            try:
                future = f"future={settings.future}" if settings.future else ""
                known = known_of(subject.panel[0], ahead, settings.target, settings.future_covariates, future)
                own = replace(settings, future_covariates=known)
                with RunFolder.for_output(root, default, overwrite=settings.overwrite) as folder:
                    forecast_one = _forecast_untrained if own.untrained else _forecast_trained
                    facts = forecast_one(subject, own, folder, console, began=began, title=title)
                    answers.append({"input": subject.path, **facts})
            except InputError as error:
                if len(subjects) == 1:
                    raise
                failures.append(failure(subject.path, str(error).splitlines()))
                errors.append(error)
                continue
            n_files += subject.n_files
    if not n_files:
        raise ReportError([line for _, lines, _ in failures for line in lines], errors)
    for *_, line in failures:
        _line(console, "Failed", line)
    if failures:
        say(console, f"{counted(n_files, 'file')} forecast, {len(failures)} failed")
    return answers, failures


def _announce(subject: Survey, settings: ForecastConfig, season: str, console: Console, title: str | None) -> None:
    """Print the properties of the data, below the title of one of several datasets."""
    if title is not None:
        say(console, f"\n{title}")
    _line(console, "Found", data_line(subject, settings.target))
    _line(console, "Season", season)
    for line in alike(subject.log):
        _line(console, "Repaired", line)


_NUMBER, _COUNT = re.compile(r"\d[\d:.,-]*"), re.compile(r"(\d+) (?:missing |empty )?(?:row|value|cell)s?\b")


def alike(lines: Sequence[str]) -> Iterator[str]:
    """Lines about several series, as one line where they differ only in the name before the colon and in numbers; with
    how many rows or values it is in all."""
    groups: dict[str, list[str]] = {}
    for line in lines:
        text = line.partition(": ")[2]
        groups.setdefault(_NUMBER.sub("", text).replace("rows", "row"), []).append(line)
    for same in groups.values():
        counts = [int(found[1]) for found in map(_COUNT.search, same) if found]
        total = f", {sum(counts):,} in all" if len({*counts}) > 1 else ""
        yield same[0] + (f" (and in {len(same) - 1} more{total})" if len(same) > 1 else "")


def _forecast_trained(
    subject: Survey, settings: ForecastConfig, folder: RunFolder, console: Console, *, began: float, title: str | None
) -> dict[str, Any]:
    """Train a model, forecast with it, write the page, and print the summary.

    Args:
        began: when reading the data began, by `time.monotonic`.
        title: name of the data, if they are one of several.
    """
    from informer.inference.leaderboard import gain_of_training
    from informer.training.run import train

    run, frequency = folder.path, subject.panel[0].frequency
    train_settings, seasons, notes = plan(subject, settings, run_dir=run)
    trained = replace(subject, dataset=train_settings.dataset)
    # without those of a few series or columns only
    clear = [lasting(each.period, frequency) for each in seasons if each.strength >= WEAKEST][:MOST_SEASONS]
    _announce(subject, settings, f"repeats every {', '.join(clear)}" if clear else "none found", console, title)
    if subject.n_files == 1:  # files are forecast alone; what is known ahead is looked at before anything is trained
        open_series, closed = without_ended(subject.panel, trained.dataset.ended)
        notes.append(closed)
        if futures := futures_ahead(subject, open_series, settings)[0]:
            notes += notes_ahead(open_series, futures, settings, trained.dataset, train_settings.pred_len)
    quiet = Console(quiet=True)
    with _explained_how_to_continue(folder, subject, settings, console):
        if settings.overwrite:
            folder.clear([Path(subject.path)])
        evaluation = train(train_settings, folder, quiet)
        assert evaluation is not None, "one process, and a new run"
        saved, forecasting, gain = folder.checkpoint(), folder.forecasting, 0.0
        if settings.tune is not None:
            progress.report("comparing with the forecast without training")
            tuned = TrainedModel(saved, device=settings.device, warns=False)
            known = _known_ahead(settings, subject.dataset) if settings.future and settings.model is None else None
            gain = gain_of_training(tuned, ZeroModel(subject.panel, tuned.columns.targets, known=known))
            if not gain:
                folder.clear([Path(subject.path)])
                untuned = replace(settings, tune=None)
                return _forecast_untrained(subject, untuned, folder, console, began=began, title=title, tried=True)
        calibration = saved_calibration(forecasting, recent=True)
        levels = [level for level in settings.intervals if calibration is not None and calibration.supports(level)]
        progress.report("forecasting")
        job = PredictConfig(
            checkpoint=str(run),
            input=subject.path,
            future=settings.future,
            output=str(run / FORECASTS),
            horizon=settings.horizon,
            until=settings.until,
            log=settings.log,
            intervals=levels,
            device=settings.device,
            plots=settings.plots,
            format=settings.format,
        )
        answers = list[Answer]()
        failed = [row for row in predict(job, quiet, answers, forecasting) if row.status == ERROR]
        if not answers:
            raise ReportError([line for row in failed for line in row.message.splitlines()])
        notes += [f"not forecast: {row.file}: {row.summed_up}" for row in failed]
        panel, forecasts = [each for of, _ in answers for each in of], joined(paths for _, paths in answers)
        whole, held = {series.name: series for series in subject.panel}, None  # the model reads the last rows only
        panel = [whole.get(series.name, series) for series in panel]
        if settings.sums:
            tested = TrainedModel(saved, device=settings.device, warns=False)
            held = TrainedPanel(tested, whole=lambda reach: panel).held(forecasts.mean.shape[1], LEVELS)
        notes.append(saved.scaler.constant_note(Columns(inputs=tuple(saved.inputs), targets=tuple(saved.targets))))
        problems = without(evaluation.problems, subject.log)
        notes += [subject.repair_note, *problems[:MOST_PROBLEMS]]
        notes += [f"{len(problems) - MOST_PROBLEMS} more in the report"] if len(problems) > MOST_PROBLEMS else []
        root = next(iter(saved.scaler.roots(map(saved.inputs.index, saved.targets))), None)
        model = saved.settings.model.family + (f" of {root}s" if root else "")
        if settings.tune is not None:
            model += f", trained for {saved.progress.step} more steps (error on held-out rows {100 * gain:.1f} % lower)"
        return _finished(
            *(trained, settings, folder, console),
            panel=panel,
            forecasts=forecasts,
            held=held,
            horizon=train_settings.pred_len,
            content=Content(),
            evaluation=evaluation,
            notes=notes,
            model=f"{model}, reads the last {lasting(train_settings.seq_len, frequency)}",
            quality={"Intervals": _interval_line(evaluation, train_settings, levels, settings.intervals, calibration)},
            more={"New rows": _predict_command(run, subject.path, settings, levels)},
            warnings=interval_notes(forecasting, calibration, levels),
            began=began,
        )


def _finished(
    subject: Survey,
    settings: ForecastConfig,
    folder: RunFolder,
    console: Console,
    *,
    panel: Sequence[Series],
    forecasts: Forecasts,
    held: Forecasts | None,
    horizon: int,
    content: Content,
    evaluation: Scores | None,
    notes: Sequence[str],
    model: str,
    quality: Mapping[str, str],
    more: Mapping[str, str],
    warnings: Sequence[str],
    began: float,
) -> dict[str, Any]:
    """Write totals and the page, and print the summary and the warnings; returns these and further facts, for programs.

    Args:
        panel, forecasts, held: see `totals`.
        horizon: rows of the forecast.
        content: of the page, without what follows from scores and forecasts.
        evaluation: the scores; None: the series are too short.
        notes, model: on the data, and the model in words.
        quality, more: further lines of the summary by label, after those on errors and at its end.
        warnings: further lines.
        began: when reading the data began, by `time.monotonic`.
    """
    run, frequency, sums = folder.path, subject.panel[0].frequency, None
    if settings.sums:
        sums = totals(panel, forecasts, settings, held, subject.dataset, subject.path, seed=settings.seed)
        sums.save(run)
    progress.report("writing the report")
    content.command = repeat_command(subject, settings, horizon)
    content.expected = expectation(panel, forecasts, held, sums if settings.total or settings.aggregate else None)
    content.save(run)
    page, written = report(ReportConfig(input=str(run)), Console(quiet=True)), written_forecasts(run / FORECASTS)
    where, what = (written[0], "") if len(written) == 1 else (run / FORECASTS, f"{len(written)} files, ")
    longest = lasting(forecasts.mean.shape[1], frequency)
    last = frequency.text(in_zone(forecasts.times[forecasts.are_steps], forecasts.zone).max())
    seconds = int(time.monotonic() - began)
    summary = {
        "Data": "; ".join(filter(None, notes)) or "no problems",
        "Model": f"{model}; ready after {seconds // 60}:{seconds % 60:02d} minutes, in {run}",
        "Quality": TOO_SHORT.format(counted(horizon, "row")),
    }
    if evaluation is not None:
        summary |= {"Quality": quality_line(evaluation), **column_line(evaluation)}
    summary |= {
        **quality,
        "Forecast": f"{where} ({what}{longest} ahead, to {last})",
    }
    if sums is not None:  # the largest sum, its bias on the test part, and the tables
        summary["Total"] = f"{sums.facts['headline']}; {', '.join(str(run / name) for name in sums.names)}"
    summary |= {"Report": str(page), "Repeat": content.command, **more}
    for label, text in [*summary.items(), *(("Warning", note) for note in warnings)]:
        _line(console, label, text)
    facts = {"run": run, "forecast": where, "report": page, "horizon": horizon}
    scores = {} if evaluation is None else evaluation.facts()
    return {**facts, "scores": scores, "summary": summary, "warnings": [*warnings]}


def _known_ahead(settings: ForecastConfig, dataset: DatasetConfig) -> Known:
    names = tuple(settings.future_covariates)
    return Known(names, tuple(name for name in names if name in dataset.categorical), tuple(dataset.holidays))


def _forecast_untrained(
    subject: Survey, settings: ForecastConfig, folder: RunFolder, console: Console, *, began: float, title: str | None,
    tried: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Forecast with the pretrained network and effects of columns known ahead, score it at earlier origins of the
    series, write the page, and print the summary. Arguments as in `_forecast_trained`; `tried`: after a
    training that did not lower the error."""
    columns, dataset = targets_of(subject.panel[0], settings.target, settings.future_covariates), subject.dataset
    said = ""
    if settings.target is None:
        columns, said = without_labels(subject.panel[0], columns)
    panel = [replace(series, series_col=dataset.series_col) for series in subject.panel]
    open_series, closed = without_ended(panel, dataset.ended) if subject.n_files == 1 else (panel, "")
    known, far = None, list[str]()
    futures, new = futures_ahead(subject, open_series, settings)
    if futures:
        if settings.ahead is None and (rows := rows_known(open_series, futures)):  # without rows `Future.at` says so
            settings = replace(settings, horizon=str(rows))
        known = _known_ahead(settings, dataset)
    _, horizon = rows_and_horizon(subject, settings)
    if futures:
        far = notes_ahead(open_series, futures, settings, dataset, horizon)
    model = ZeroModel(panel, columns, device=settings.device, known=known, futures=futures, new=new)
    season = ", ".join(lasting(season, panel[0].frequency) for season in model.seasons if season > 1) or "none"
    if not tried:
        _announce(subject, settings, season, console, title)
    evaluation = model.evaluate(horizon, levels=settings.intervals)
    levels = [*dict.fromkeys([*settings.intervals, *LEVELS])]
    wide = model.forecast(settings.ahead or horizon, levels=levels, panel=open_series)
    written_series, forecasts, cold = model.with_new(open_series, wide.with_intervals(settings.intervals))
    if settings.overwrite:
        folder.clear([Path(subject.path)])
    _write_zero(subject, written_series, forecasts, folder.path / FORECASTS, settings)
    if settings.log is not None:
        is_unnamed = subject.n_files == len(open_series) == 1 and not open_series[0].keys
        forecast_log.append(Path(settings.log), [forecasts], model=model.name, is_unnamed=is_unnamed)
    what = f"{model.member.version}, which reads up to the last {HISTORY:,} rows and was trained on generated series"
    if model.kind != NETWORK:
        part = "with the widths of" if model.kind == EFFECTS else "and what is left by"
        what = f"effects of {listed(settings.future_covariates, 4)} and the calendar, {part} {what}"
    if tried:
        what += "; training on the file did not lower the error on held-out rows, so it is not used"
    notes, quality = [*left_out(subject, columns), said, closed, *far, *cold], dict[str, str]()
    about = [TOO_SHORT.format(counted(horizon, "row"))] if evaluation is None else []
    if evaluation is not None:
        evaluation.save(folder.path)
        quality["Intervals"] = _coverage(evaluation, settings.intervals) or "none"
    if known is not None:
        quality["Columns"] = model.gain
        about.append(model.gain)
    content = Content(
        title=f"Forecast: {subject.name}",
        subtitle=what,
        model=model.name,
        verdict=" ".join(f"{line[0].upper()}{line[1:]}." for line in about),
        problems=[*filter(None, notes), *alike(subject.log)],
    )
    add_panel(content, written_series, forecasts)
    return _finished(
        *(subject, settings, folder, console),
        panel=open_series,
        forecasts=wide,
        held=model.checked,
        horizon=horizon,
        content=content,
        evaluation=evaluation,
        notes=[*notes, subject.repair_note],
        model=what,
        quality=quality,
        more={},
        warnings=[evaluation.warning] if evaluation is not None and evaluation.warning else [],
        began=began,
    )


def _write_zero(
    subject: Survey, panel: Sequence[Series], forecasts: Forecasts, folder: Path, settings: ForecastConfig
) -> None:
    """A file with the name of the input, in its format if it is CSV, or one long table for several files."""
    digits = PredictConfig().digits
    if subject.n_files == 1:
        writer = Writer(folder=folder, format=settings.format, plots=settings.plots, digits=digits)
        writer.write(name_of(Path(subject.path)), panel, forecasts)
    if subject.n_files > 1 or settings.format == "long":
        write_atomic(folder / LONG_FILE, to_long(panel, forecasts, [series.name for series in panel], digits))


@contextmanager
def _explained_how_to_continue(
    folder: RunFolder, subject: Survey, settings: ForecastConfig, console: Console
) -> Iterator[None]:
    """After Ctrl-C or SIGTERM, print the commands that complete the forecast from what the run has saved."""
    try:
        yield
    except (Interrupted, KeyboardInterrupt) as stopped:
        if not folder.contains_run:
            raise
        interrupted = stopped if isinstance(stopped, Interrupted) else Interrupted(signal.SIGINT)
        say(console, f"{interrupted}; saved")
        run, levels = folder.path, settings.intervals
        if not folder.is_finished:
            _line(console, "Continue", shell_command("train", ("resume", run)))
        else:  # only intervals that the run has
            calibration = saved_calibration(folder.forecasting, recent=True)
            levels = [level for level in levels if calibration is not None and calibration.supports(level)]
        output: list[Word] = [("output", run / FORECASTS), "overwrite=true"]
        _line(console, "Forecast", _predict_command(run, subject.path, settings, levels, *output))
        _line(console, "Report", shell_command("report", str(run)))
        raise interrupted from None


def _predict_command(run: Path, path: str, settings: ForecastConfig, levels: Sequence[int], *arguments: Word) -> str:
    future: list[Word] = [("future", settings.future)] if settings.future else []
    intervals = [("intervals", list(levels))] if levels else []
    return shell_command("predict", ("checkpoint", run), ("input", path), *future, *arguments, *intervals)


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
