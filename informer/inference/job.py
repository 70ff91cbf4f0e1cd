"""Forecast one file or many, from the checked configuration to the written files."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from rich.progress import Progress

from informer import checkpoint
from informer.base.console import logging_to, say
from informer.base.errors import InputError, ReportError, counted, listed
from informer.base.files import expanded, only_writer, write_atomic
from informer.checkpoint.paths import forecasting_checkpoint
from informer.config.commands import EngineName, Format, Mode, PredictConfig
from informer.inference.files import (
    ERROR,
    Engine,
    InputFile,
    Job,
    Journal,
    check_apart,
    check_outside,
    chunks,
    forecast_files,
    local_engine,
    match_futures,
    name_sources,
)
from informer.inference.model import TrainedModel
from informer.inference.ray_engine import ray_engine
from informer.inference.transfer import SUMMARY
from informer.inference.writing import LONG_FILE, Writer, long_table, metrics_of
from informer.read.files import list_files
from informer.read.table import name_of

MOST = 3
"""Maximum number of errors on the console; all are in the summary."""


def predict(settings: PredictConfig, console: Console) -> int:
    """Forecast one file or many.

    Args:
        console: for messages.

    Returns:
        For a single file, the number of messages about series left out; for many, the number of files that failed plus
        the number of files with series left out.

    Raises:
        InputError: no readable checkpoint, or a single file that cannot be forecast; nothing is written then.
    """
    pattern = settings.input or ""
    files = list_files("input", pattern)
    path = expanded(pattern)
    sources = [InputFile(path, name_of(path))] if files is None else name_sources(files)
    with logging_to(console, quiet=files is not None):
        model = TrainedModel.load(located(settings), device=settings.device)
        job = _job(settings, sources, many=files is not None)
        job.check(model)
        if files is None and settings.engine is EngineName.ray:
            raise InputError("engine=ray: only for a folder or pattern of files, found a single file; leave it out")
        job.check_files(sources, overwrite=settings.overwrite, resume=settings.resume)
        if files is None:
            check_outside(path, job.writer.folder)
            return _predict_one(model, job, sources[0], console)
        check_apart(pattern, files, job.writer.folder)
        with only_writer(job.writer.folder, "output"):
            return _predict_many(_engine(settings, model), job, sources, console, resume=settings.resume)


def located(settings: PredictConfig) -> Path:
    """Path of the checkpoint: the one refitted on all rows if there is one, except for rolling forecasts."""
    return Path(settings.checkpoint) if settings.mode is Mode.rolling else forecasting_checkpoint(settings.checkpoint)


def _engine(settings: PredictConfig, model: TrainedModel) -> Engine:
    if settings.engine is EngineName.ray:
        return ray_engine(device=model.device.type, workers=settings.workers)
    return local_engine(model)


def _job(settings: PredictConfig, sources: Sequence[InputFile], *, many: bool) -> Job:
    levels, rolling = tuple(settings.intervals), None
    if settings.mode is Mode.rolling:
        from informer.inference.rolling import Rolling  # imports baselines and scores

        rolling = Rolling(
            horizon=settings.horizon,
            stride=settings.stride,
            start=settings.from_date,
            levels=levels,
            adaptive=settings.adaptive,
        )
    plots = not many and rolling is None if settings.plots is None else settings.plots
    plotted = tuple(dict.fromkeys(settings.plot_series))
    unknown = [name for name in plotted if many and name not in {source.name for source in sources}]
    if unknown:
        names = listed([source.name for source in sources])
        raise InputError(f"plot_series={unknown[0]}: no such file in {settings.input}, expected some of {names}")
    return Job(
        checkpoint=checkpoint.locate(located(settings)),
        input_format=settings.dataset,
        future=None if settings.future is None else match_futures(settings.future, sources),
        horizon=settings.horizon,
        rolling=rolling,
        levels=levels,
        writer=Writer(
            folder=Path(settings.output),
            format=settings.format,
            plots=plots or bool(plotted),
            digits=settings.digits,
            files=plotted if many else (),
            series=() if many else plotted,
        ),
        batch_size=settings.batch_size,
        has_many_inputs=many,
    )


def _predict_one(model: TrainedModel, job: Job, source: InputFile, console: Console) -> int:
    (row,), table = forecast_files(model, job, [source])
    if row.status == ERROR:
        raise ReportError(row.message.splitlines())
    if job.writer.format is Format.long:
        write_atomic(job.writer.folder / LONG_FILE, table)
    say(console, f"forecast: {job.writer.folder / row.output}")
    if job.rolling:
        say(console, f"metrics:  {job.writer.folder / metrics_of(source.name)}")
    for picture in job.writer.pictures_of(source.name):
        say(console, f"plot:     {picture}")
    for line in row.left_out:
        say(console, line)
    return len(row.left_out)


def _predict_many(engine: Engine, job: Job, sources: Sequence[InputFile], console: Console, *, resume: bool) -> int:
    folder = job.writer.folder
    outputs = [output for source in sources for output in job.files_of(source)]
    journal = Journal(folder, job.digest(), outputs, resume=resume)
    long = job.writer.format is Format.long
    table: AbstractContextManager[Callable[[str], None]] = (
        long_table(folder) if long else nullcontext(lambda text: None)
    )
    worked = 0
    with table as append, _progress(console) as progress:
        task = progress.add_task("forecasting", total=len(sources))
        for rows, lines in engine(job, chunks(sources, job, journal)):
            append(lines)
            journal.add(rows)
            progress.advance(task, len(rows))
            worked += len(rows)
    all_rows = journal.finish(sources)
    failed = [row for row in all_rows if row.status == ERROR]
    for row in failed[:MOST]:
        # most messages begin with the path or name of the file
        reason = row.summed_up.removeprefix(f"{row.file}: ").removeprefix(f"{Path(row.file).name}: ")
        say(console, f"failed: {row.file}: {reason}")
    if len(failed) > MOST:
        say(console, f"failed: {len(failed) - MOST} more, see {SUMMARY}")
    partial = [row for row in all_rows if row.left_out]
    for row in partial[:MOST]:
        say(console, row.left_out[0])
    before = f" ({len(all_rows) - worked} of them already done)" if resume else ""
    say(
        console,
        f"{counted(len(all_rows) - len(failed), 'file')} forecast{before}, {len(failed)} failed: {folder / SUMMARY}",
    )
    return len(failed) + len(partial)


def _progress(console: Console) -> "Progress":
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(
        *columns, TextColumn("eta"), TimeRemainingColumn(), console=console, disable=not console.is_terminal,
        transient=True,
    )  # fmt: skip
