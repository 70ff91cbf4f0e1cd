"""Forecasts of many files in chunks of fixed size, in order; an invalid file affects only its own forecast.

Inputs and outcomes of a chunk are plain data, so chunks may be processed anywhere (see `ray_engine`).

Input files and the names of their forecasts.

Status of each file of a job, recorded while it runs, so that it can be resumed.
"""

import csv
import hashlib
import io
import json
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from fnmatch import fnmatch
from glob import has_magic
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, final

from informer.base.errors import InputError, is_out_of_memory, listed, with_addresses
from informer.base.files import (
    expanded,
    fingerprint,
    remove_temporary,
    write_atomic,
    writing,
)
from informer.checkpoint.paths import check_output
from informer.config.commands import Format
from informer.config.data import InputFormat
from informer.data.history import Future, Futures, check_futures
from informer.data.panel import series_names
from informer.inference.model import Forecast, TrainedModel
from informer.inference.reader import LEFT_OUT
from informer.inference.transfer import SUMMARY
from informer.inference.writing import Writer, metrics_of, rolled_of, to_long
from informer.read.files import file_sha256, is_partitioned, list_files
from informer.read.series import Series

if TYPE_CHECKING:
    from informer.inference.rolling import Rolling


@dataclass(frozen=True, slots=True)
class InputFile:
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


def check_apart(pattern: str, paths: Sequence[Path], output: Path) -> None:
    """Check that the output folder is outside the input pattern, so that a later run does not read forecasts as input.

    Args:
        pattern: the folder or pattern.
        paths: the files it matches.
        output: folder of the forecasts.

    Raises:
        InputError: the output folder is one of the input files' folders.
    """
    taken = output.resolve() in {folder.resolve() for folder in {path.parent for path in paths}}
    if taken or _would_find(pattern, output.resolve()):
        raise InputError(f"output={output}: expected another folder than that of the input files; choose one")


def check_outside(path: Path, output: Path) -> None:
    """Raise an InputError if the output folder is within a partitioned input folder, whose files are all inputs."""
    if is_partitioned(path) and output.resolve().is_relative_to(path.resolve()):
        raise InputError(f"output={output}: expected a folder outside the input {path}; choose one")


def _would_find(pattern: str, folder: Path) -> bool:
    """Whether a pattern matches files in this folder."""
    components = expanded(pattern).parts
    fixed = list(takewhile(lambda component: not has_magic(component), components))
    free, top = components[len(fixed) :], Path(*fixed).resolve()
    if not free or not folder.is_relative_to(top):
        return False
    below = folder.relative_to(top).parts
    return "**" in free or (len(below) == len(free) - 1 and all(map(fnmatch, below, free)))


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

    @property
    def summed_up(self) -> str:
        """The message as one line of at most LONGEST characters."""
        line = " | ".join(self.message.splitlines())
        return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."

    @property
    def left_out(self) -> list[str]:
        """Messages about series that were not forecast."""
        return [line for line in self.message.splitlines() if line.startswith(LEFT_OUT)]

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
        _check_ours(folder / SUMMARY)
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
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([HEADER] if header else [])
        writer.writerows((*row.cells(), self._job) for row in rows)
        return text.getvalue()


def _check_ours(path: Path) -> None:
    """Raise an InputError if the summary was not written by a job, so that it is not overwritten."""
    if not path.exists():
        return
    with writing(path), path.open("rb") as file:
        first = file.readline(len(_FIRST_LINE) + 2).rstrip(b"\r\n")
    if first != _FIRST_LINE:
        raise InputError(
            f"{path}: expected the summary of a job, found another file of that name; choose another output folder"
        )


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
    """Settings for the forecasts of every file.

    Args:
        checkpoint: file of the model.
        input_format: format of the files, if different from the training data.
        future: file of future covariates for all files, or one per file by name; None if the model has none, or the
            files contain them.
        horizon: rows to forecast; None: pred_len.
        rolling: settings of rolling forecasts; None: forecast after the end of each file.
        levels: interval levels in percent.
        writer: writes the forecasts.
        batch_size: series per batch of the model.
        has_many_inputs: whether the input is a folder or pattern.
    """

    checkpoint: Path
    input_format: InputFormat
    future: Path | Mapping[str, Path] | None
    horizon: int | None
    rolling: "Rolling | None" = None
    levels: tuple[int, ...]
    writer: Writer
    batch_size: int
    has_many_inputs: bool

    @property
    def attributes(self) -> Path | None:
        """The file of attributes of the series, if any."""
        return None if self.input_format.attributes is None else expanded(self.input_format.attributes)

    def check(self, model: TrainedModel) -> None:
        """Raise an InputError if no file can be forecast with these settings."""
        model.check_horizon(self.horizon)
        # a rolling forecast warns of what its own scores say
        (model.scored if self.rolling else model).check_levels(self.levels, self.horizon)
        if not self.rolling:
            check_futures(model.columns, has_futures=self.future is not None)
            self.shared_future(model)

    def shared_future(self, model: TrainedModel) -> Futures | None:
        """Future covariates shared by all files, if any."""
        return model.reader.future_file(self.future, self.input_format) if isinstance(self.future, Path) else None

    def own_future(self, model: TrainedModel, source: InputFile) -> Futures | None:
        """Future covariates of one file, if each file has its own."""
        path = self.future[source.name] if isinstance(self.future, Mapping) else None
        return None if path is None else model.reader.future_file(path, self.input_format)

    def name_in_long(self, source: InputFile, series: Series) -> str:
        """Name of a series in the table of all files (format=long)."""
        if series.series_col is None:
            return source.name
        return f"{source.name}/{series.name}" if self.has_many_inputs else series.name

    def files_of(self, source: InputFile) -> list[str]:
        """Files written for one input file, relative to the output folder, the forecasts first."""
        if self.rolling:
            return [rolled_of(source.name, self.writer.format), metrics_of(source.name)]
        pictures = self.writer.pictures_of(source.name)
        return [
            self.writer.output_of(source.name),
            *(str(picture.relative_to(self.writer.folder)) for picture in pictures),
        ]

    def check_files(self, sources: Sequence[InputFile], *, overwrite: bool, resume: bool) -> None:
        """Raise an InputError if an output would overwrite an input file, or an existing one unless that is wanted."""
        futures = [self.future] if isinstance(self.future, Path) else [*(self.future or {}).values()]
        futures += [] if self.attributes is None else [self.attributes]
        outputs = [output for source in sources for output in self.files_of(source)]
        outputs += [SUMMARY, JOURNAL] if self.has_many_inputs else []
        check_output(
            self.writer.folder,
            [self.writer.folder / output for output in dict.fromkeys(outputs)],
            inputs=[self.checkpoint, *(source.path for source in sources), *futures],
            overwrite=overwrite or resume,
            cure=", overwrite=true, or resume=true to continue" if self.has_many_inputs else ", or overwrite=true",
        )

    def digest(self) -> str:
        """Hash of everything that determines the forecasts and their files."""
        futures = {"": self.future} if isinstance(self.future, Path) else self.future or {}
        what = {
            "checkpoint": file_sha256(self.checkpoint),
            "future": {name: file_sha256(path) for name, path in futures.items()},
            "attributes": None if self.attributes is None else file_sha256(self.attributes),
            "written": asdict(self.input_format),
            "horizon": self.horizon,
            "rolling": None if self.rolling is None else asdict(self.rolling),
            "levels": self.levels,
            "format": self.writer.format.value,
            "digits": self.writer.digits,
        }
        return hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()[:16]


class Done(NamedTuple):
    """Outcome of a chunk: one row per file, and with format=long its part of the table."""

    rows: list[Row]
    long_table: str


Engine = Callable[[Job, Iterable[Chunk]], Iterator[Done]]
"""Processes chunks and yields their outcomes in order."""


def chunks(sources: Sequence[InputFile], job: Job, journal: Journal) -> Iterator[Chunk]:
    """The files that are not done yet, `job.batch_size` at a time."""
    for first in range(0, len(sources), job.batch_size):
        batch = sources[first : first + job.batch_size]
        todo = [source for source in batch if not journal.is_done(source, job.files_of(source))]
        if todo:
            yield todo


def local_engine(model: TrainedModel) -> Engine:
    """Process chunks one after the other in this process."""
    return lambda job, chunks: (forecast_files(model, job, chunk) for chunk in chunks)


def forecast_files(model: TrainedModel, job: Job, sources: Chunk) -> Done:
    """Read, forecast in batches and write these files; a file that fails gets a row with the error."""
    if job.rolling:
        return Done([_roll_file(model, job, source) for source in sources], "")
    rows = {source: _new_row(source) for source in sources}
    histories: dict[InputFile, History] = {}
    shared = job.shared_future(model)
    for source in sources:
        with _noting(job, rows, source):
            panel = model.reader.file(source.path, job.input_format, source.name)
            rows[source] = _with_read_series(rows[source], panel)
            histories[source] = History(panel, _known_ahead(model, job, panel, shared or job.own_future(model, source)))
    written: dict[str, Forecast] = {}
    for source, forecasts in _forecasts_of(model, job, histories, rows).items():
        with _noting(job, rows, source):
            rows[source] = replace(rows[source], output=job.writer.write(source.name, forecasts))
            written |= {job.name_in_long(source, forecast.series): forecast for forecast in forecasts}
    return Done(list(rows.values()), to_long(written, job.writer.digits) if job.writer.format is Format.long else "")


class History(NamedTuple):
    """The series of a file, and the future covariates of each, if any."""

    series: list[Series]
    futures: list[Future]


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
    model: TrainedModel, job: Job, histories: Mapping[InputFile, History], rows: dict[InputFile, Row]
) -> dict[InputFile, list[Forecast]]:
    """Forecasts of all files together; if that fails, file by file, since one may be the cause. Same numbers."""
    try:
        together = [series for history in histories.values() for series in history.series]
        forecasts = iter(
            _forecasts(model, job, together, [future for history in histories.values() for future in history.futures])
        )
        return {source: list(islice(forecasts, len(history.series))) for source, history in histories.items()}
    except Exception:
        if not job.has_many_inputs:
            raise
    by_file: dict[InputFile, list[Forecast]] = {}
    for source, history in histories.items():
        with _noting(job, rows, source):
            by_file[source] = list(_forecasts(model, job, history.series, history.futures))
    return by_file


def _known_ahead(model: TrainedModel, job: Job, series: Sequence[Series], futures: Futures | None) -> list[Future]:
    """Future covariates of each series, checked; empty without futures."""
    ahead = [] if futures is None else [futures.of(member) for member in series]
    for member, future in zip(series, ahead, strict=False):
        model.check_future(member, future, job.horizon)
    return ahead


def _forecasts(model: TrainedModel, job: Job, series: Sequence[Series], ahead: Sequence[Future]) -> Iterator[Forecast]:
    """Forecasts in batches of fixed size, so that no result depends on the number of other series."""
    at_once = job.batch_size if job.has_many_inputs or len(series) > 1 else 1
    for first in range(0, len(series), at_once):
        batch = slice(first, first + at_once)
        yield from model.forecast(
            series[batch], horizon=job.horizon, levels=job.levels, futures=ahead[batch] or None, pad_to=at_once
        )


def _roll_file(model: TrainedModel, job: Job, source: InputFile) -> Row:
    """Forecast from all origins of one file, and write the table."""
    from informer.inference.rolling import write_rolled  # imports baselines and scores

    assert job.rolling is not None, "see `forecast_files`"
    rows = {source: _new_row(source)}
    with _noting(job, rows, source):
        panel = model.reader.file(source.path, job.input_format, source.name, ahead=model.reach(job.horizon))
        rows[source] = _with_read_series(rows[source], panel)
        output, left_out = write_rolled(model, panel, source.name, rolling=job.rolling, writer=job.writer)
        message = "\n".join(filter(None, [rows[source].message, *left_out]))
        rows[source] = replace(rows[source], output=output, message=message)
    return rows[source]


def _with_read_series(row: Row, series: Sequence[Series]) -> Row:
    """Add the row count, origin and repairs of the series that were read."""
    origin = max(member.timestamps[-1] for member in series)
    repairs = "\n".join(line for member in series for line in member.repairs)
    return replace(row, rows=str(sum(member.n_rows for member in series)), origin=str(origin), message=repairs)


def _new_row(source: InputFile) -> Row:
    size, changed = fingerprint(source.path)
    return Row(file=str(source.path), size=size, changed=changed)
