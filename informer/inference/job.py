"""Forecast one file or many: in chunks of fixed size, in order; an invalid file affects only its own forecast.

Inputs and outcomes of a chunk are plain data, so chunks may be processed anywhere (see `ray_engine`).
"""

import hashlib
import json
import logging
import os
import traceback
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatch
from functools import partial
from glob import has_magic
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple, final

import numpy as np
import torch
from rich.console import Console

from informer import checkpoint
from informer.base.console import logging_to, say, step_bar
from informer.base.errors import FileError, InputError, counted, is_out_of_memory, listed
from informer.base.files import expanded, replacing, write_atomic, writing
from informer.checkpoint.paths import SUMMARY, forecasting_checkpoint, only_output
from informer.config.commands import PredictConfig
from informer.data.history import Future, check_futures
from informer.data.panel import series_names
from informer.inference import ray_engine
from informer.inference.journal import ERROR, Journal, Row
from informer.inference.model import Answer, TrainedModel
from informer.inference.totals import LEVELS, totals
from informer.inference.trained import TrainedPanel
from informer.inference.writing import LONG_FILE, Writer, long_table, metrics_of, rolled_of, to_long, write_pieces
from informer.read.files import file_sha256, is_partitioned, list_files
from informer.read.series import Series
from informer.scoring import forecast_log
from informer.scoring.forecasts import joined

log = logging.getLogger(__name__)


class InputFile(NamedTuple):
    """A file and its name, which is used in errors, to select its scaler, and in the paths of its forecasts; and the
    file of its future covariates, if there is one."""

    path: Path
    name: str
    future: Path | None = None


def name_sources(paths: Sequence[Path], future: str | None = None) -> list[InputFile]:
    """Files with names as in training (`series_names`), with the file ending if two would be equal otherwise.

    Args:
        paths: the files.
        future: a file of future covariates for all, or a folder or pattern of files named like these.

    Raises:
        InputError: no such future covariates, or a file without them.
    """
    names = series_names(paths)
    full_names = [str(Path(name).with_name(path.name)) for name, path in zip(names, paths, strict=True)]
    times = Counter(names)
    mixed = [name if times[name] == 1 else long for name, long in zip(names, full_names, strict=True)]
    # a.csv, a.csv.gz and a.csv.csv: the last without its ending equals the first with its ending
    sources = list(map(InputFile, paths, mixed if len(set(mixed)) == len(mixed) else full_names))
    if future is None:
        return sources
    if (futures := list_files("future", future)) is None:
        return [source._replace(future=expanded(future)) for source in sources]
    by_name = {each.name: each.path for each in name_sources(futures)}
    if absent := [source.name for source in sources if source.name not in by_name]:
        raise FileError(
            f"future={future}: expected a file for each input, with the same name; found none for {listed(absent)}"
        )
    return [source._replace(future=by_name[source.name]) for source in sources]


def _check_apart(pattern: str, paths: Sequence[Path] | None, output: Path) -> None:
    """Raise an InputError if the output folder is one of the input files' folders, or a later run would read forecasts
    in it as input.

    Args:
        pattern: the folder or pattern, or a single file, which may be a partitioned folder.
        paths: the files it matches; None: it is a single file.
    """
    with writing(output):
        place, folder = expanded(pattern), output.resolve()
    if paths is None:
        if is_partitioned(place) and folder.is_relative_to(place.resolve()):  # all of its files are inputs
            raise InputError(f"output={output}: expected a folder outside the input {place}; choose one")
        return
    fixed = list(takewhile(lambda component: not has_magic(component), place.parts))
    free, top = place.parts[len(fixed) :], Path(*fixed).resolve()
    is_found = False
    if free and folder.is_relative_to(top):
        below = folder.relative_to(top).parts
        is_found = "**" in free or (len(below) == len(free) - 1 and all(map(fnmatch, below, free)))
    if is_found or folder in {path.parent.resolve() for path in paths}:
        raise InputError(f"output={output}: expected another folder than that of the input files; choose one")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What the forecasts of every file have in common.

    Args:
        checkpoint: file of the model.
        settings: horizon, levels, batch size, mode, and the format of the files, if different from the training data.
        writer: writes the forecasts.
        has_many_inputs: whether the input is a folder or pattern.
        kept: a list to which the series of each file and their forecasts are added, with the local engine.
        more: levels of intervals that these have too, which are not written.
    """

    checkpoint: Path
    settings: PredictConfig
    writer: Writer
    has_many_inputs: bool
    kept: list[Answer] | None = None
    more: Sequence[int] = ()

    @classmethod
    def of(
        cls, settings: PredictConfig, sources: Sequence[InputFile], *, many: bool, kept: list[Answer] | None = None
    ) -> "Job":
        """The job of a command, for these files."""
        plotted = tuple(dict.fromkeys(settings.plot_series))
        names = [source.name for source in sources]
        if unknown := [name for name in plotted if many and name not in names]:
            raise InputError(
                f"plot_series={unknown[0]}: no such file in {settings.input}, expected some of {listed(names)}"
            )
        writer = Writer(
            folder=Path(settings.output),
            format=settings.format,
            plots=settings.plots or bool(plotted),
            digits=settings.digits,
            files=plotted if many else (),
            series=() if many else plotted,
        )
        path = checkpoint.locate(located(settings))
        return cls(checkpoint=path, settings=settings, writer=writer, has_many_inputs=many, kept=kept)

    @property
    def is_rolling(self) -> bool:
        """Whether forecasts are from every origin of a file, not from its end."""
        return self.settings.mode == "rolling"

    def check(self, model: TrainedModel, sources: Sequence[InputFile]) -> None:
        """Raise an InputError if no file can be forecast with these settings."""
        model.check_horizon(self.settings.ahead)
        # a rolling forecast warns of what its own scores say
        (model.scored if self.is_rolling else model).check_levels(self.settings.intervals, self.settings.ahead)
        futures = {source.future for source in sources if source.future}
        if futures:
            check_futures(model.columns.future_covariates, has_futures=True)
        if len(futures) == 1:  # a file that they share is no error of each
            model.reader.futures(futures.pop(), "future", self.settings.dataset)

    def name_in_long(self, source: InputFile, series: Series) -> str:
        """Name of a series in the table of all files (format=long)."""
        if series.series_col is None:
            return source.name
        return f"{source.name}/{series.name}" if self.has_many_inputs else series.name

    def files_of(self, source: InputFile) -> list[str]:
        """Files written for one input file, relative to the output folder, the forecasts first."""
        if self.is_rolling:
            return [rolled_of(source.name, self.writer.format), metrics_of(source.name)]
        pictures = self.writer.pictures_of(source.name)
        return [
            self.writer.output_of(source.name),
            *(str(picture.relative_to(self.writer.folder)) for picture in pictures),
        ]

    def only_output(self, sources: Sequence[InputFile]) -> AbstractContextManager[None]:
        """No other command writes to the output folder; an InputError if an output would overwrite an input file, or an
        existing one unless that is wanted."""
        outputs = [output for source in sources for output in self.files_of(source)]
        outputs += [SUMMARY] if self.has_many_inputs else []
        futures = {source.future for source in sources if source.future}
        return only_output(
            self.writer.folder,
            [self.writer.folder / output for output in dict.fromkeys(outputs)],
            inputs=[self.checkpoint, *(source.path for source in sources), *futures],
            overwrite=self.settings.overwrite or self.settings.resume,
            cure=", overwrite=true, or resume=true to continue" if self.has_many_inputs else ", or overwrite=true",
        )

    def digest(self, sources: Sequence[InputFile]) -> str:
        """Hash of everything that determines the forecasts and their files."""
        settings, hashes = self.settings, {path: file_sha256(path) for _, _, path in sources if path}
        what = {
            "checkpoint": file_sha256(self.checkpoint),
            "future": {source.name: hashes[source.future] for source in sources if source.future},
            "written": asdict(settings.dataset),
            "horizon": settings.ahead,
            "rolling": [str(each) for each in (settings.mode, settings.stride, settings.from_date, settings.adaptive)],
            "levels": settings.intervals,
            "format": self.writer.format,
            "digits": self.writer.digits,
        }
        return hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()[:16]


Done = tuple[list[Row], list[str]]
"""Outcome of a chunk of files: one row per file, and with format=long the table of each that was forecast."""


def chunks(sources: Sequence[InputFile], job: Job, journal: Journal) -> Iterator[list[InputFile]]:
    """The files that are not done yet, `batch_size` at a time, or fewer where each worker of a cluster gets some."""
    size, workers = job.settings.batch_size, 1
    if job.settings.engine == "ray":
        workers = job.settings.workers or os.cpu_count() or 1
    size = max(min(size, -(-len(sources) // workers)), 1)
    for first in range(0, len(sources), size):
        batch = sources[first : first + size]
        if todo := [source for source in batch if not journal.is_done(source.path, job.files_of(source))]:
            yield todo


def _outcomes(model: TrainedModel, job: Job, todo: Iterable[list[InputFile]]) -> Iterator[Done]:
    """Process chunks, in this process or on a cluster (see `ray_engine.mapped`), and yield their outcomes in order."""
    if job.settings.engine == "local":
        yield from (forecast_files(model, job, chunk) for chunk in todo)
        return
    device, workers = model.device.type, job.settings.workers
    yield from ray_engine.mapped(_Worker, (job, device), [*todo], device=device, workers=workers)


@final
class _Worker:
    """Processes chunks with a model of its own, in the folder and with the threads of the process that began the
    work."""

    def __init__(self, folder: Path, threads: int, job: Job, device: str) -> None:
        os.chdir(folder)
        torch.set_num_threads(threads)
        self._job, self._model = job, TrainedModel.load(job.checkpoint, device=device)

    def work(self, chunk: Sequence[InputFile]) -> Done:
        """See `forecast_files`."""
        return forecast_files(self._model, self._job, chunk)


def forecast_files(model: TrainedModel, job: Job, sources: Sequence[InputFile]) -> Done:
    """Read, forecast in batches and write these files; a file that fails gets a row with the error."""
    rows, settings = {source: Row.of(source.path) for source in sources}, job.settings
    if job.is_rolling:
        for source in sources:
            with _noting(job, rows, source):
                _roll_file(model, job, rows, source)
        return list(rows.values()), []
    histories: dict[InputFile, tuple[list[Series], list[Future]]] = {}
    for source in sources:
        with _noting(job, rows, source):
            path, name, path_ahead = source
            panel, ahead = model.reader.read(
                path, name, settings.dataset, future=path_ahead, future_name=name, is_shared=job.has_many_inputs
            )
            rows[source] = rows[source].read(panel)
            histories[source] = panel, ahead
    done = dict[InputFile, Answer]()
    for source, (series, paths) in _forecasts(model, job, histories, rows).items():
        with _noting(job, rows, source):
            answer = series, paths.with_intervals(settings.intervals)
            output = job.writer.write(source.name, *answer, main=model.columns.main)
            rows[source], done[source] = replace(rows[source], output=output), answer
            if job.kept is not None:
                job.kept.append((series, paths))
    if settings.log is not None:
        is_unnamed = not job.has_many_inputs and all(not panel[0].keys for panel, _ in done.values())
        parts = [paths for _, paths in done.values()]
        forecast_log.append(Path(settings.log), parts, model=model.checkpoint.sha256[:12], is_unnamed=is_unnamed)
    if settings.format != "long":
        return list(rows.values()), []
    # a date or a month is as many rows as the end of a series says, so other chunks may be rolled
    varies = settings.ahead is not None and not settings.ahead.isdigit()
    names = {source: [job.name_in_long(source, series) for series in panel] for source, (panel, _) in done.items()}
    tables = [to_long(*done[source], names[source], settings.digits, marks_rolled=varies) for source in done]
    return list(rows.values()), tables


@contextmanager
def _noting(job: Job, rows: dict[InputFile, Row], source: InputFile) -> Iterator[None]:
    """Record an error in one of many files as its row."""
    try:
        yield
        return
    except Exception as error:
        if not job.has_many_inputs:
            raise
        if isinstance(error, InputError):
            message = str(error)
        elif is_out_of_memory(error):
            message = f"{source.path}: out of memory; use a smaller file, a smaller batch_size or a shorter horizon"
        else:
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno}"
            message = f"{source.path}: {where}: {error}; this is a bug: please report it"
    rows[source] = replace(rows[source], status=ERROR, message=message)


def _forecasts(
    model: TrainedModel,
    job: Job,
    histories: Mapping[InputFile, tuple[list[Series], list[Future]]],
    rows: dict[InputFile, Row],
) -> dict[InputFile, Answer]:
    """Forecasts of all files together; if that fails, file by file, since one may be the cause. Same numbers: batches
    have a fixed size, so that no result depends on the number of other series."""

    def of(files: Collection[InputFile]) -> dict[InputFile, Answer]:
        tables = [histories[file] for file in files]
        are_many = job.has_many_inputs or sum(len(panel) for panel, _ in tables) > 1
        at_once = job.settings.batch_size if are_many else 1
        horizon, levels = job.settings.ahead, [*dict.fromkeys([*job.settings.intervals, *job.more])]
        answers = TrainedPanel(model, lambda: tables).answers(horizon, levels=levels, at_once=at_once)
        return dict(zip(files, answers, strict=True))

    try:
        return of(histories) if histories else {}
    except Exception:
        if not job.has_many_inputs:
            raise
    by_file: dict[InputFile, Answer] = {}
    for source in histories:
        with _noting(job, rows, source):
            by_file |= of([source])
    return by_file


def _roll_file(model: TrainedModel, job: Job, rows: dict[InputFile, Row], source: InputFile) -> None:
    """Forecast from every `stride`-th origin of each series of a file, and write the table and its scores."""
    how, name, writer = job.settings, source.name, job.writer
    panel = model.reader.series(source.path, name, how.dataset, ahead=model.reach(how.horizon))
    rows[source], output = rows[source].read(panel), rolled_of(name, writer.format)
    subject = TrainedPanel(model)
    chosen, left_out = subject.starts(panel, how)
    scores = subject.scores_of(chosen, how)
    pieces = subject.tables_of(chosen, how, scores=scores, digits=writer.digits if writer.format == "csv" else None)
    with replacing(writer.folder / output) as temporary:
        write_pieces(temporary, writer.format, pieces)
        # before the table is renamed, which marks it as done
        write_atomic(writer.folder / metrics_of(name), scores.to_csv(), durable=False)
    means, n = scores.overall(scores.model), counted(scores.windows, "origin")
    mase = f", MASE {means['mase']:.4g}" if np.isfinite(means["mase"]) else ""
    log.info(f"{name}: {n}, MSE {means['mse']:.4g} and MAE {means['mae']:.4g} in scaled units{mase}")
    for line in filter(None, [f"{scores.model}: {scores.verdict}", scores.warning]):
        log.info(line)
    message = "\n".join(filter(None, [rows[source].message, *left_out]))
    rows[source] = replace(rows[source], output=output, message=message)


MOST = 3
"""Maximum number of errors on the console; all are in the summary."""


def predict(
    settings: PredictConfig,
    console: Console,
    kept: list[Answer] | None = None,
    saved: checkpoint.Checkpoint | None = None,
) -> list[Row]:
    """Forecast one file or many.

    Args:
        console: for messages.
        kept: see `Job`.
        saved: content of the checkpoint; None: it is read.

    Returns:
        The status of each file.

    Raises:
        InputError: no readable checkpoint, or a single file that cannot be forecast; nothing is written then.
    """
    pattern = settings.input or ""
    files, path = list_files("input", pattern), expanded(pattern)
    sources = name_sources([path] if files is None else files, settings.future)
    with logging_to(console, quiet=files is not None):
        model = TrainedModel(saved or checkpoint.load(located(settings)), device=settings.device)
        summed = list[Answer]() if kept is None and settings.sums else kept
        job = Job.of(settings, sources, many=files is not None, kept=summed)
        if summed is not None:
            job = replace(job, more=model.scored.member.supported(LEVELS))
        job.check(model, sources)
        if settings.engine == "ray":
            if files is None:
                raise InputError("engine=ray: only for a folder or pattern of files, found a single file; leave it out")
            ray_engine.check_installed()
        _check_apart(pattern, files, job.writer.folder)
        with job.only_output(sources):
            rows = (_predict_one if files is None else _predict_many)(model, job, sources, console)
            if kept is None and summed:
                tested = TrainedModel.load(Path(settings.checkpoint), device=settings.device)
                dataset = settings.dataset.applied_to(tested.checkpoint.settings.dataset)
                panel, paths = [each for of, _ in summed for each in of], joined(of for _, of in summed)
                held = TrainedPanel(tested, whole=partial(_whole, tested, job, sources)).held(
                    paths.mean.shape[1], LEVELS
                )
                sums = totals(panel, paths, settings, held, dataset, pattern, main=model.columns.main)
                sums.save(job.writer.folder)
                say(console, f"total:    {sums.facts['headline']}")
            return rows


def _whole(model: TrainedModel, job: Job, sources: Sequence[InputFile], reach: int) -> Iterator[Series]:
    """All rows of the series of some files, of those that are long enough."""
    for path, name, _ in sources:
        with suppress(InputError):
            yield from model.reader.series(path, name, job.settings.dataset, ahead=reach)


def located(settings: PredictConfig) -> Path:
    """Path of the checkpoint: the one refitted on all rows if there is one, except for rolling forecasts."""
    return Path(settings.checkpoint) if settings.mode == "rolling" else forecasting_checkpoint(settings.checkpoint)


def _predict_one(model: TrainedModel, job: Job, sources: Sequence[InputFile], console: Console) -> list[Row]:
    (row,), tables = forecast_files(model, job, sources)
    for table in tables:
        write_atomic(job.writer.folder / LONG_FILE, table)
    say(console, f"forecast: {job.writer.folder / row.output}")
    if job.is_rolling:
        say(console, f"metrics:  {job.writer.folder / metrics_of(sources[0].name)}")
    for picture in job.writer.pictures_of(sources[0].name):
        say(console, f"plot:     {picture}")
    for line in row.left_out:
        say(console, line)
    return [row]


def _predict_many(model: TrainedModel, job: Job, sources: Sequence[InputFile], console: Console) -> list[Row]:
    folder, resume = job.writer.folder, job.settings.resume
    outputs = [output for source in sources for output in job.files_of(source)]
    journal, worked = Journal(folder, job.digest(sources), outputs, resume=resume), 0
    with long_table(folder, job.writer.format) as append, step_bar(console) as progress:
        task = progress.add_task("forecasting", total=len(sources))
        for rows, tables in _outcomes(model, job, chunks(sources, job, journal)):
            for table in tables:
                append(table)
            journal.add(rows)
            progress.advance(task, len(rows))
            worked += len(rows)
    all_rows = journal.finish(source.path for source in sources)
    failed = [row for row in all_rows if row.status == ERROR]
    for row in failed[:MOST]:
        # most messages begin with the path or name of the file
        reason = row.summed_up.removeprefix(f"{row.file}: ").removeprefix(f"{Path(row.file).name}: ")
        say(console, f"failed: {row.file}: {reason}")
    if len(failed) > MOST:
        say(console, f"failed: {len(failed) - MOST} more, see {SUMMARY}")
    for row in [row for row in all_rows if row.left_out][:MOST]:
        say(console, row.left_out[0])
    before = f" ({len(all_rows) - worked} of them already done)" if resume else ""
    n_forecast = counted(len(all_rows) - len(failed), "file")
    say(console, f"{n_forecast} forecast{before}, {len(failed)} failed: {folder / SUMMARY}")
    return all_rows
