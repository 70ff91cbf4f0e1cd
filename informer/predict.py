"""`python -m informer.predict checkpoint=runs/latest input=FILE output=DIR`: continue a file, or all files of a folder.

One file gives <name>.forecast.csv (one row a step: timestamps, then the targets in their own units) and
<name>.forecast.png. A folder or a pattern such as 'in/*.csv' gives a forecast for each file and summary.csv, which says
what became of every one of them. mode=rolling gives <name>.rolling.csv instead, forecasts from origins all through the
file beside what then came, and <name>.rolling.metrics.csv.
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from informer import checkpoint, cli
from informer.config import EngineName, Mode, PredictConfig
from informer.data.download import list_files
from informer.data.table import name_of
from informer.errors import InputError, ReportError, counted
from informer.files import write_atomic
from informer.forecaster import Forecaster
from informer.inference.batch import Engine, Job, chunks, forecast_files, local_engine
from informer.inference.inputs import Source, check_output, match_futures, name_sources
from informer.inference.ray_engine import ray_engine
from informer.inference.rolled import metrics_of
from informer.inference.summary import ERROR, SUMMARY, Journal
from informer.inference.writing import LONG_FILE, Format, Writer, long_table

EXIT_SOME_FAILED = 1
MOST = 3
"""Errors of a job that the console shows; all are in the summary."""


def main() -> None:
    """Console script `informer-predict`."""
    cli.run("predict", _act)


def _act(settings: PredictConfig) -> None:
    if predict(settings, Console()):
        sys.exit(EXIT_SOME_FAILED)


def predict(settings: PredictConfig, console: Console) -> int:
    """Forecast one file or many; returns how many of the many could not be continued.

    Raises:
        InputError: no readable checkpoint, or a single file that cannot be continued; nothing has been written then.
    """
    wanted = settings.input or ""
    files = list_files("input", wanted)
    path = Path(wanted).expanduser()
    sources = [Source(path, name_of(path))] if files is None else name_sources(files)
    with cli.logging_to(console, quiet=files is not None):
        forecaster = Forecaster.load(settings.checkpoint, device=settings.device.value)
        job = _job(settings, sources, many=files is not None)
        job.check(forecaster.trained)
        if files is None and settings.engine is EngineName.ray:
            raise InputError("engine=ray: expected a folder or a pattern of files, found a single one; leave it out")
        if files is None:
            _predict_one(forecaster, job, sources[0], console)
            return 0
        check_output(wanted, files, job.writer.folder)
        return _predict_many(_engine(settings, forecaster), job, sources, console, resume=settings.resume)


def _engine(settings: PredictConfig, forecaster: Forecaster) -> Engine:
    if settings.engine is EngineName.ray:
        return ray_engine(device=forecaster.trained.device.type, workers=settings.workers)
    return local_engine(forecaster.trained)


def _job(settings: PredictConfig, sources: Sequence[Source], *, many: bool) -> Job:
    rolling = settings.mode is Mode.rolling
    plots = not many and not rolling if settings.plots is None else settings.plots
    return Job(
        checkpoint=checkpoint.locate(Path(settings.checkpoint)),
        written=settings.dataset,
        future=None if settings.future is None else match_futures(settings.future, sources),
        horizon=settings.horizon,
        rolling=rolling,
        stride=settings.stride,
        levels=tuple(settings.intervals),
        writer=Writer(folder=Path(settings.output), format=settings.format, plots=plots),
        batch_size=settings.batch_size,
        many=many,
    )


def _predict_one(forecaster: Forecaster, job: Job, source: Source, console: Console) -> None:
    (row,), table = forecast_files(forecaster.trained, job, [source])
    if row.status == ERROR:
        raise ReportError(row.message.splitlines())
    if job.writer.format is Format.long:
        write_atomic(job.writer.folder / LONG_FILE, table)
    cli.say(console, f"forecast: {job.writer.folder / row.output}")
    if job.rolling:
        cli.say(console, f"metrics:  {job.writer.folder / metrics_of(source.name)}")
    if job.writer.plots:
        cli.say(console, f"plot:     {job.writer.picture_of(source.name)}")


def _predict_many(engine: Engine, job: Job, sources: Sequence[Source], console: Console, *, resume: bool) -> int:
    folder = job.writer.folder
    cli.make_folder(folder)
    journal = Journal(folder, job.digest(), resume=resume)
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
    found = journal.finish(sources)
    failed = [row for row in found if row.status == ERROR]
    for row in failed[:MOST]:
        cli.say(console, f"failed: {row.file}: {row.summed_up}")
    if len(failed) > MOST:
        cli.say(console, f"failed: {len(failed) - MOST} more, see {SUMMARY}")
    before = f" ({len(found) - worked} of them before)" if resume else ""
    cli.say(
        console,
        f"{counted(len(found) - len(failed), 'file')} forecast{before}, {len(failed)} failed: {folder / SUMMARY}",
    )
    return len(failed)


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(
        *columns, TextColumn("eta"), TimeRemainingColumn(), console=console, disable=not console.is_terminal,
        transient=True,
    )  # fmt: skip


if __name__ == "__main__":
    main()
