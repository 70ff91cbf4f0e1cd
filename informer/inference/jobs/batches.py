"""Forecasts of many files in chunks of fixed size, in order; an invalid file affects only its own forecast.

Inputs and outcomes of a chunk are plain data, so chunks may be processed anywhere (see `ray_engine`).
"""

import hashlib
import json
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from informer.config.commands import Format
from informer.config.input_format import InputFormat
from informer.data.future import Future, Futures
from informer.data.history import check_futures
from informer.data.read.download import file_sha256
from informer.data.read.source import Series
from informer.errors import InputError, is_out_of_memory
from informer.files import check_no_input_overwritten, expanded, fingerprint
from informer.inference.jobs.inputs import InputFile
from informer.inference.jobs.summary import ERROR, Journal, Row
from informer.inference.jobs.transfer import SUMMARY
from informer.inference.jobs.writing import Writer, to_long
from informer.inference.predictor import TrainedModel
from informer.inference.result import Forecast
from informer.inference.rolling.tables import metrics_of, rolled_of

if TYPE_CHECKING:  # forecasting after the end of files, which fits and scores nothing, starts faster without these
    from informer.inference.rolling.scores import Rolling

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

    def check_inputs(self, sources: Sequence[InputFile]) -> None:
        """Raise an InputError if an output would overwrite an input file."""
        futures = [self.future] if isinstance(self.future, Path) else [*(self.future or {}).values()]
        futures += [] if self.attributes is None else [self.attributes]
        outputs = [output for source in sources for output in self.files_of(source)]
        check_no_input_overwritten(
            [self.checkpoint, *(source.path for source in sources), *futures],
            (
                self.writer.folder / output
                for output in dict.fromkeys((*outputs, *((SUMMARY,) if self.has_many_inputs else ())))
            ),
            "output",
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
            rows[source] = _read(rows[source], panel)
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
    from informer.inference.rolling.forecasts import write_rolled  # imports baselines and scores

    assert job.rolling is not None, "see `forecast_files`"
    rows = {source: _new_row(source)}
    with _noting(job, rows, source):
        panel = model.reader.file(source.path, job.input_format, source.name, ahead=model.reach(job.horizon))
        rows[source] = _read(rows[source], panel)
        output, left_out = write_rolled(model, panel, source.name, rolling=job.rolling, writer=job.writer)
        message = "\n".join(filter(None, [rows[source].message, *left_out]))
        rows[source] = replace(rows[source], output=output, message=message)
    return rows[source]


def _read(row: Row, series: Sequence[Series]) -> Row:
    """Add the row count, origin and repairs of the series that were read."""
    origin = max(member.timestamps[-1] for member in series)
    repairs = "\n".join(line for member in series for line in member.repairs)
    return replace(row, rows=str(sum(member.n_rows for member in series)), origin=str(origin), message=repairs)


def _new_row(source: InputFile) -> Row:
    size, changed = fingerprint(source.path)
    return Row(file=str(source.path), size=size, changed=changed)
