"""Many files, forecast a fixed number at a time in their order: one bad file costs its own forecast and no other.

What a chunk of files needs is plain and its outcome too, so chunks may be worked on anywhere (see `ray_engine`).
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

from informer.data.download import file_sha256
from informer.data.future import Future
from informer.data.source import Series
from informer.errors import InputError
from informer.inference.forecast import TrainedModel
from informer.inference.inputs import Source
from informer.inference.reading import InputFormat
from informer.inference.result import Forecast
from informer.inference.rolled import write_rolled
from informer.inference.summary import ERROR, Journal, Row, fingerprint
from informer.inference.writing import Format, Writer, to_long

Chunk = list[Source]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is done with every file.

    Args:
        checkpoint: file of the model.
        written: how the files are written, where not as the training data.
        future: file of future covariates, the same for all; None where the model has none.
        horizon: rows to forecast; None: pred_len.
        rolling: forecast from origins all through each file, in place of what follows it.
        stride: rows between two of these origins; None: pred_len.
        levels: of intervals, in percent.
        writer: what becomes of the forecasts.
        batch_size: files that go through the model together.
    """

    checkpoint: Path
    written: InputFormat
    future: Path | None
    horizon: int | None
    rolling: bool = False
    stride: int | None = None
    levels: tuple[int, ...]
    writer: Writer
    batch_size: int

    def check(self, model: TrainedModel) -> None:
        """Raise the InputError of what would be wrong for every file."""
        model.check_horizon(self.horizon)
        model.half_widths(self.levels)
        self.read_future(model)

    def read_future(self, model: TrainedModel) -> Future | None:
        """The future covariates."""
        return None if self.future is None else model.reader.future_file(self.future, self.written)

    def digest(self) -> str:
        """Equal for jobs that give the same forecasts."""
        what = {
            "checkpoint": file_sha256(self.checkpoint),
            "future": None if self.future is None else file_sha256(self.future),
            "written": asdict(self.written),
            "horizon": self.horizon,
            "rolling": self.rolling,
            "stride": self.stride,
            "levels": self.levels,
            "format": self.writer.format.value,
        }
        return hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()[:16]


class Done(NamedTuple):
    """Outcome of a chunk: a row a file, and its long table where that is what is written."""

    rows: list[Row]
    long: str


Engine = Callable[[Job, Iterable[Chunk]], Iterator[Done]]
"""Works on chunks, whose outcomes come in their order."""


def chunks(sources: Sequence[Source], size: int, journal: Journal) -> Iterator[Chunk]:
    """The files that are not done yet, of `size` files in order at a time."""
    for first in range(0, len(sources), size):
        todo = [source for source in sources[first : first + size] if not journal.is_done(source)]
        if todo:
            yield todo


def local_engine(model: TrainedModel) -> Engine:
    """One chunk after the other, in this process."""
    return lambda job, chunks: (forecast_files(model, job, chunk) for chunk in chunks)


def forecast_files(model: TrainedModel, job: Job, sources: Chunk) -> Done:
    """Read, forecast together, and write. A file that cannot be continued gets a row that says why."""
    if job.rolling:
        return Done([_roll_file(model, job, source) for source in sources], "")
    rows: dict[Source, Row] = {}
    histories: dict[Source, Series] = {}
    future = job.read_future(model)
    for source in sources:
        rows[source] = _new_row(source)
        try:
            series = model.reader.file(source.path, job.written, source.name)
            model.check_future(series, future, job.horizon)
        except InputError as error:
            rows[source] = replace(rows[source], status=ERROR, message=str(error))
            continue
        rows[source] = replace(rows[source], rows=str(series.n_rows), origin=str(series.timestamps[-1]))
        histories[source] = series
    forecasts = model.forecast(
        list(histories.values()),
        horizon=job.horizon,
        levels=job.levels,
        futures=None if future is None else [future] * len(histories),
        pad_to=job.batch_size,
    )
    written: dict[str, Forecast] = {}
    for source, forecast in zip(histories, forecasts, strict=True):
        try:
            rows[source] = replace(rows[source], output=job.writer.write(source.name, forecast))
            written[source.name] = forecast
        except InputError as error:
            rows[source] = replace(rows[source], status=ERROR, message=str(error))
    return Done(list(rows.values()), to_long(written) if job.writer.format is Format.long else "")


def _roll_file(model: TrainedModel, job: Job, source: Source) -> Row:
    """Forecast from all origins of one file, and write."""
    row = _new_row(source)
    try:
        series = model.reader.file(source.path, job.written, source.name, whole=True)
        row = replace(row, rows=str(series.n_rows), origin=str(series.timestamps[-1]))
        output = write_rolled(model, series, source.name, stride=job.stride, levels=job.levels, writer=job.writer)
        return replace(row, output=output)
    except InputError as error:
        return replace(row, status=ERROR, message=str(error))


def _new_row(source: Source) -> Row:
    size, changed = fingerprint(source.path)
    return Row(file=str(source.path), size=size, changed=changed)
