"""Forecast one file or many: in chunks of fixed size, in order; an invalid file affects only its own forecast.

Inputs and outcomes of a chunk are plain data, so chunks may be processed anywhere (see `ray_engine`). The status of
each file is recorded while the job runs, so that it can be resumed.
"""

import csv
import hashlib
import json
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, fields, replace
from fnmatch import fnmatch
from glob import has_magic
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, NamedTuple, final

from rich.console import Console

from informer import checkpoint
from informer.base.console import logging_to, say, step_bar
from informer.base.errors import InputError, ReportError, counted, is_out_of_memory, listed, with_addresses
from informer.base.files import csv_text, expanded, fingerprint, remove_temporary, write_atomic, writing
from informer.checkpoint.paths import SUMMARY, forecasting_checkpoint, only_output
from informer.config.commands import EngineName, Format, Mode, PredictConfig
from informer.config.data import InputFormat
from informer.data.history import Future, Futures, check_futures
from informer.data.panel import series_names
from informer.inference import ray_engine
from informer.inference.model import Forecast, TrainedModel, log_forecasts
from informer.inference.reader import LEFT_OUT
from informer.inference.writing import LONG_FILE, Writer, long_table, metrics_of, rolled_of, to_long
from informer.read.files import file_sha256, is_partitioned, list_files
from informer.read.series import Series
from informer.read.table import name_of


class InputFile(NamedTuple):
    """A file and its name, which is used in errors, to select its scaler, and in the paths of its forecasts."""

    path: Path
    name: str


def name_sources(paths: Sequence[Path]) -> list[InputFile]:
    """Names as in training (`series_names`), with the file ending if two would be equal otherwise."""
    names = series_names(paths)
    full_names = [str(Path(name).with_name(path.name)) for name, path in zip(names, paths, strict=True)]
    times = Counter(names)
    mixed = [name if times[name] == 1 else long for name, long in zip(names, full_names, strict=True)]
    # a.csv, a.csv.gz and a.csv.csv: the last without its ending equals the first with its ending
    return [
        InputFile(*pair) for pair in zip(paths, mixed if len(set(mixed)) == len(mixed) else full_names, strict=True)
    ]


def match_futures(location: str, sources: Sequence[InputFile]) -> Path | dict[str, Path]:
    """One file of future covariates for all, or one per input file, by name.

    Args:
        location: a file, or a folder or pattern of files named like the input files.
        sources: input files.

    Raises:
        InputError: no such file, or an input file without one.
    """
    futures = list_files("future", location)
    if futures is None:
        return expanded(location)
    by_name = {future.name: future.path for future in name_sources(futures)}
    absent = [source.name for source in sources if source.name not in by_name]
    if absent:
        raise InputError(
            f"future={location}: expected a file for each input, with the same name; found none for {listed(absent)}"
        )
    return {source.name: by_name[source.name] for source in sources}


def future_of(
    model: TrainedModel, futures: Path | Mapping[str, Path] | None, source: InputFile, input_format: InputFormat
) -> Futures | None:
    """Future covariates of one file, if the model reads any.

    Args:
        futures: see `match_futures`; None: they are in the rows at the end of the file itself, which have no target.

    Raises:
        InputError: the file cannot be read.
    """
    path = futures[source.name] if isinstance(futures, Mapping) else futures
    if path is None and model.columns.future_covariates:
        path = source.path
    return None if path is None else model.reader.futures(path, source.name, input_format)


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


JOURNAL = f".{SUMMARY}.unfinished"
OK, ERROR = "ok", "error"
LONGEST = 2000
"""Maximum length of a message in the summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Status of one file.

    Args:
        file: its path.
        status: OK or ERROR.
        rows: number of rows.
        origin: its last timestamp.
        output: file of the forecast, relative to the output folder.
        message: the problems, one line each; without problems, the repairs.
        size, changed: size of the file when it was read, in bytes, and its time of change, in nanoseconds since 1970.
    """

    file: str
    status: str = OK
    rows: str = ""
    origin: str = ""
    output: str = ""
    message: str = ""
    size: str
    changed: str

    @classmethod
    def of(cls, source: InputFile) -> "Row":
        """The row of a file that is not read yet."""
        size, changed = fingerprint(source.path)
        return cls(file=str(source.path), size=size, changed=changed)

    def read(self, panel: Sequence[Series]) -> "Row":
        """With the row count, origin and repairs of the series that were read."""
        origin = max(series.timestamps[-1] for series in panel)
        repairs = "\n".join(line for series in panel for line in series.repairs)
        return replace(self, rows=str(sum(series.n_rows for series in panel)), origin=str(origin), message=repairs)

    @property
    def summed_up(self) -> str:
        """The message as one line of at most LONGEST characters."""
        line = " | ".join(self.message.splitlines())
        return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."

    @property
    def left_out(self) -> list[str]:
        """Messages about series that were not forecast."""
        return [line for line in self.message.splitlines() if line.startswith(LEFT_OUT)]

    @property
    def is_complete(self) -> bool:
        """Whether all of its series were forecast."""
        return self.status == OK and not self.left_out

    def to_dict(self, folder: Path) -> dict[str, Any]:
        """The file, its forecast in the output folder, and messages, as plain containers for JSON."""
        output = str(folder / self.output) if self.output else None
        return {"file": self.file, "status": self.status, "forecast": output, "messages": self.message.splitlines()}

    def cells(self) -> list[str]:
        """Cells of the summary in the order of HEADER, without line breaks and without the job."""
        return [self.summed_up if name == "message" else getattr(self, name) for name in HEADER[:-1]]


HEADER = (*(field.name for field in fields(Row)), "job")
_FIRST_LINE = ",".join(HEADER).encode()


@final
class Journal:
    """The rows of a job: appended to a hidden file in the output folder, and finally written as the summary.

    Args:
        folder: existing output folder.
        job: digest of the job.
        outputs: all files that the job may write, relative to the folder.
        resume: keep the rows of the same job.

    Raises:
        InputError: the folder has a summary not written by a job, or cannot be written.
    """

    def __init__(self, folder: Path, job: str, outputs: Iterable[str], *, resume: bool) -> None:
        self._folder = folder
        if (path := folder / SUMMARY).exists():
            with writing(path), path.open("rb") as file:
                first = file.readline(len(_FIRST_LINE) + 2).rstrip(b"\r\n")
            if first != _FIRST_LINE:
                raise InputError(
                    f"{path}: expected the summary of a job, found another file of that name; choose another output "
                    "folder"
                )
        remove_temporary(folder / output for output in (SUMMARY, JOURNAL, *outputs))
        self._job = job
        rows = [*_read_rows(folder / SUMMARY, job), *_read_rows(folder / JOURNAL, job)] if resume else []
        self._rows = {row.file: row for row in rows}
        write_atomic(folder / JOURNAL, _encoded(self._text(self._rows.values(), header=True)))
        with writing(folder / SUMMARY):
            (folder / SUMMARY).unlink(missing_ok=True)

    def is_done(self, source: InputFile, outputs: Sequence[str]) -> bool:
        """Whether the same file was forecast by the same job, and all its outputs exist.

        Args:
            outputs: files that the job would write for it, relative to the folder, the forecasts first.
        """
        row = self._rows.get(str(source.path))
        return (
            row is not None
            and row.status == OK
            and (row.size, row.changed) == fingerprint(source.path)
            and row.output == outputs[0]
            and all((self._folder / output).exists() for output in outputs)
        )

    def add(self, rows: Sequence[Row]) -> None:
        """Record the status of some files, after their forecasts were written."""
        self._rows |= {row.file: row for row in rows}
        path = self._folder / JOURNAL
        with writing(path), path.open("ab") as file:
            file.write(_encoded(self._text(rows)))

    def finish(self, sources: Iterable[InputFile]) -> list[Row]:
        """Write the summary with one row per file, in the order of `sources`; returns the rows."""
        rows = [self._rows[str(source.path)] for source in sources]
        write_atomic(self._folder / SUMMARY, _encoded(with_addresses(self._text(rows, header=True))))
        (self._folder / JOURNAL).unlink()
        return rows

    def _text(self, rows: Iterable[Row], *, header: bool = False) -> str:
        return csv_text([*([HEADER] if header else []), *((*row.cells(), self._job) for row in rows)])


def _encoded(text: str) -> bytes:
    """As UTF-8; file names that are not valid UTF-8 keep their bytes."""
    return text.encode(errors="surrogateescape")


def _read_rows(path: Path, job: str) -> list[Row]:
    """The rows of a job in a summary or journal; a truncated journal may end within a row."""
    if not path.exists():
        return []
    with writing(path), path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        lines = list(_lines(csv.reader(file)))
    return [Row(**dict(zip(HEADER[:-1], line, strict=False))) for line in lines if line[len(HEADER) - 1 :] == [job]]


def _lines(reader: Iterator[list[str]]) -> Iterator[list[str]]:
    """The readable lines; files of unreadable lines are forecast again."""
    while True:
        try:
            yield next(reader)
        except StopIteration:
            return
        except csv.Error:
            continue


Chunk = list[InputFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What the forecasts of every file have in common.

    Args:
        checkpoint: file of the model.
        settings: horizon, levels, batch size, mode, and the format of the files, if different from the training data.
        future: file of future covariates for all files, or one per file by name; None if the model has none, or the
            files contain them.
        writer: writes the forecasts.
        has_many_inputs: whether the input is a folder or pattern.
        kept: a list to which the forecasts are added, with the local engine.
    """

    checkpoint: Path
    settings: PredictConfig
    future: Path | Mapping[str, Path] | None = None
    writer: Writer
    has_many_inputs: bool
    kept: list[Forecast] | None = None

    @classmethod
    def of(cls, settings: PredictConfig, sources: Sequence[InputFile], *, many: bool) -> "Job":
        """The job of a command, for these files."""
        plotted = tuple(dict.fromkeys(settings.plot_series))
        names = [source.name for source in sources]
        if unknown := [name for name in plotted if many and name not in names]:
            raise InputError(
                f"plot_series={unknown[0]}: no such file in {settings.input}, expected some of {listed(names)}"
            )
        return cls(
            checkpoint=checkpoint.locate(located(settings)),
            settings=settings,
            future=None if settings.future is None else match_futures(settings.future, sources),
            writer=Writer(
                folder=Path(settings.output),
                format=settings.format,
                plots=settings.plots or bool(plotted),
                digits=settings.digits,
                files=plotted if many else (),
                series=() if many else plotted,
            ),
            has_many_inputs=many,
        )

    @property
    def is_rolling(self) -> bool:
        """Whether forecasts are from every origin of a file, not from its end."""
        return self.settings.mode is Mode.rolling

    def check(self, model: TrainedModel) -> None:
        """Raise an InputError if no file can be forecast with these settings."""
        model.check_horizon(self.settings.ahead)
        # a rolling forecast warns of what its own scores say
        (model.scored if self.is_rolling else model).check_levels(self.settings.intervals, self.settings.ahead)
        if not self.is_rolling and self.future is not None:
            check_futures(model.columns, has_futures=True)
            if isinstance(self.future, Path):
                model.reader.futures(self.future, "future", self.settings.dataset)

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
        futures = [self.future] if isinstance(self.future, Path) else [*(self.future or {}).values()]
        outputs = [output for source in sources for output in self.files_of(source)]
        outputs += [SUMMARY, JOURNAL] if self.has_many_inputs else []
        return only_output(
            self.writer.folder,
            [self.writer.folder / output for output in dict.fromkeys(outputs)],
            inputs=[self.checkpoint, *(source.path for source in sources), *futures],
            overwrite=self.settings.overwrite or self.settings.resume,
            cure=", overwrite=true, or resume=true to continue" if self.has_many_inputs else ", or overwrite=true",
        )

    def digest(self) -> str:
        """Hash of everything that determines the forecasts and their files."""
        futures = {"": self.future} if isinstance(self.future, Path) else self.future or {}
        settings = self.settings
        what = {
            "checkpoint": file_sha256(self.checkpoint),
            "future": {name: file_sha256(path) for name, path in futures.items()},
            "written": asdict(settings.dataset),
            "horizon": self.settings.ahead,
            "rolling": [str(each) for each in (settings.mode, settings.stride, settings.from_date, settings.adaptive)],
            "levels": settings.intervals,
            "format": self.writer.format.value,
            "digits": self.writer.digits,
        }
        return hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()[:16]


Done = tuple[list[Row], str]
"""Outcome of a chunk: one row per file, and with format=long its part of the table."""


def chunks(sources: Sequence[InputFile], job: Job, journal: Journal) -> Iterator[Chunk]:
    """The files that are not done yet, `job.settings.batch_size` at a time."""
    for first in range(0, len(sources), job.settings.batch_size):
        batch = sources[first : first + job.settings.batch_size]
        todo = [source for source in batch if not journal.is_done(source, job.files_of(source))]
        if todo:
            yield todo


def _outcomes(model: TrainedModel, job: Job, todo: Iterable[Chunk]) -> Iterator[Done]:
    """Process chunks, in this process or on a cluster (see `ray_engine.mapped`), and yield their outcomes in order."""
    if job.settings.engine is EngineName.local:
        yield from (forecast_files(model, job, chunk) for chunk in todo)
        return
    items = [{"paths": [str(path) for path, _ in chunk], "names": [name for _, name in chunk]} for chunk in todo]
    device = model.device.type
    for done in ray_engine.mapped(_Worker, (job, device), items, device=device, workers=job.settings.workers):
        yield [Row(**row) for row in done["rows"]], done["long"]


def forecast_files(model: TrainedModel, job: Job, sources: Chunk) -> Done:
    """Read, forecast in batches and write these files; a file that fails gets a row with the error."""
    if job.is_rolling:
        return [_roll_file(model, job, source) for source in sources], ""
    rows = {source: Row.of(source) for source in sources}
    histories: dict[InputFile, tuple[list[Series], list[Future]]] = {}
    for source in sources:
        with _noting(job, rows, source):
            panel = model.reader.series(source.path, source.name, job.settings.dataset)
            rows[source] = rows[source].read(panel)
            futures = future_of(model, job.future, source, job.settings.dataset)
            ahead = [] if futures is None else [futures(series) for series in panel]
            for series, future in zip(panel, ahead, strict=False):
                model.check_future(series, future, job.settings.ahead)
            histories[source] = panel, ahead
    written: dict[str, Forecast] = {}
    for source, forecasts in _forecasts_of(model, job, histories, rows).items():
        with _noting(job, rows, source):
            rows[source] = replace(rows[source], output=job.writer.write(source.name, forecasts))
            if job.kept is not None:
                job.kept.extend(forecasts)
            written |= {job.name_in_long(source, forecast.series): forecast for forecast in forecasts}
    if job.writer.format is not Format.long:
        return list(rows.values()), ""
    # a date or a month is as many rows as the end of a series says, so other chunks may be rolled
    varies = job.settings.ahead is not None and not job.settings.ahead.isdigit()
    return list(rows.values()), to_long(written, job.writer.digits, marks_rolled=varies)


@contextmanager
def _noting(job: Job, rows: dict[InputFile, Row], source: InputFile) -> Iterator[None]:
    """Record an error in a file as its row: InputError and out of memory; with many files also internal errors."""
    try:
        yield
    except InputError as error:
        rows[source] = replace(rows[source], status=ERROR, message=str(error))
    except Exception as error:
        if is_out_of_memory(error):
            message = f"{source.path}: out of memory; use a smaller file, a smaller batch_size or a shorter horizon"
            rows[source] = replace(rows[source], status=ERROR, message=message)
            return
        if not job.has_many_inputs:
            raise
        place = traceback.extract_tb(error.__traceback__)[-1]
        message = f"{source.path}: {type(error).__name__} in {Path(place.filename).name}:{place.lineno}: {error}"
        rows[source] = replace(rows[source], status=ERROR, message=f"{message}; this is a bug: please report it")


def _forecasts_of(
    model: TrainedModel,
    job: Job,
    histories: Mapping[InputFile, tuple[list[Series], list[Future]]],
    rows: dict[InputFile, Row],
) -> dict[InputFile, list[Forecast]]:
    """Forecasts of all files together; if that fails, file by file, since one may be the cause. Same numbers."""
    try:
        together = [one for series, _ in histories.values() for one in series]
        forecasts = _forecasts(model, job, together, [one for _, ahead in histories.values() for one in ahead])
        return {source: list(islice(forecasts, len(series))) for source, (series, _) in histories.items()}
    except Exception:
        if not job.has_many_inputs:
            raise
    by_file: dict[InputFile, list[Forecast]] = {}
    for source, history in histories.items():
        with _noting(job, rows, source):
            by_file[source] = list(_forecasts(model, job, *history))
    return by_file


def _forecasts(model: TrainedModel, job: Job, series: Sequence[Series], ahead: Sequence[Future]) -> Iterator[Forecast]:
    """Forecasts in batches of fixed size, so that no result depends on the number of other series."""
    at_once = job.settings.batch_size if job.has_many_inputs or len(series) > 1 else 1
    for first in range(0, len(series), at_once):
        batch = slice(first, first + at_once)
        yield from model.forecast(
            series[batch],
            horizon=job.settings.ahead,
            levels=job.settings.intervals,
            futures=ahead[batch] or None,
            pad_to=at_once,
        )


def _roll_file(model: TrainedModel, job: Job, source: InputFile) -> Row:
    """Forecast from all origins of one file, and write the table."""
    from informer.inference.rolling import write_rolled  # imports baselines and scores

    of = job.settings
    rows = {source: Row.of(source)}
    with _noting(job, rows, source):
        panel = model.reader.series(source.path, source.name, of.dataset, ahead=model.reach(of.horizon))
        rows[source] = rows[source].read(panel)
        output, left_out = write_rolled(model, panel, source.name, rolling=of, writer=job.writer)
        message = "\n".join(filter(None, [rows[source].message, *left_out]))
        rows[source] = replace(rows[source], output=output, message=message)
    return rows[source]


MOST = 3
"""Maximum number of errors on the console; all are in the summary."""


def predict(
    settings: PredictConfig,
    console: Console,
    kept: list[Forecast] | None = None,
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
    files = list_files("input", pattern)
    path = expanded(pattern)
    sources = [InputFile(path, name_of(path))] if files is None else name_sources(files)
    with logging_to(console, quiet=files is not None):
        saved = saved or checkpoint.load(located(settings))
        model = TrainedModel(saved, device=settings.device)
        job = replace(
            Job.of(settings, sources, many=files is not None), kept=[] if settings.log and kept is None else kept
        )
        job.check(model)
        if files is None and settings.engine is EngineName.ray:
            raise InputError("engine=ray: only for a folder or pattern of files, found a single file; leave it out")
        if settings.engine is EngineName.ray:
            ray_engine.check_installed()
        _check_apart(pattern, files, job.writer.folder)
        with job.only_output(sources):
            if files is None:
                return _predict_one(model, job, sources[0], console)
            return _predict_many(model, job, sources, console)


def located(settings: PredictConfig) -> Path:
    """Path of the checkpoint: the one refitted on all rows if there is one, except for rolling forecasts."""
    return Path(settings.checkpoint) if settings.mode is Mode.rolling else forecasting_checkpoint(settings.checkpoint)


@final
class _Worker:
    """Processes chunks of plain containers with a model of its own; repeating one changes nothing."""

    def __init__(self, job: Job, device: str) -> None:
        self._job, self._model = job, TrainedModel.load(job.checkpoint, device=device)

    def __call__(self, chunk: dict[str, Any]) -> dict[str, Any]:
        sources = [InputFile(Path(path), name) for path, name in zip(chunk["paths"], chunk["names"], strict=True)]
        rows, long = forecast_files(self._model, self._job, sources)
        return {"rows": [asdict(row) for row in rows], "long": long}


def _log(model: TrainedModel, job: Job, first: int) -> int:
    """Add the forecasts from the `first` on to the log, if there is one; returns the number of all."""
    kept = job.kept or []
    if job.settings.log is not None:
        model_id, one = model.checkpoint.sha256[:12], not job.has_many_inputs
        log_forecasts(job.settings.log, kept[first:], model=model_id, of_one_file=one)
    return len(kept)


def _predict_one(model: TrainedModel, job: Job, source: InputFile, console: Console) -> list[Row]:
    (row,), table = forecast_files(model, job, [source])
    if row.status == ERROR:
        raise ReportError(row.message.splitlines())
    if job.writer.format is Format.long:
        write_atomic(job.writer.folder / LONG_FILE, table)
    _log(model, job, 0)
    say(console, f"forecast: {job.writer.folder / row.output}")
    if job.is_rolling:
        say(console, f"metrics:  {job.writer.folder / metrics_of(source.name)}")
    for picture in job.writer.pictures_of(source.name):
        say(console, f"plot:     {picture}")
    for line in row.left_out:
        say(console, line)
    return [row]


def _predict_many(model: TrainedModel, job: Job, sources: Sequence[InputFile], console: Console) -> list[Row]:
    folder, resume = job.writer.folder, job.settings.resume
    outputs = [output for source in sources for output in job.files_of(source)]
    journal = Journal(folder, job.digest(), outputs, resume=resume)
    worked = logged = 0
    with long_table(folder, job.writer.format) as append, step_bar(console) as progress:
        task = progress.add_task("forecasting", total=len(sources))
        for rows, lines in _outcomes(model, job, chunks(sources, job, journal)):
            append(lines)
            logged = _log(model, job, logged)
            journal.add(rows)  # what is not logged yet is forecast again by resume=true
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
    return all_rows
