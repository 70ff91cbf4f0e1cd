"""Many files, forecast a fixed number at a time in their order: one bad file costs its own forecast and no other.

What a chunk of files needs is plain and its outcome too, so chunks may be worked on anywhere (see `ray_engine`).
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from informer.data.download import file_sha256
from informer.data.future import Future
from informer.data.history import check_futures
from informer.data.source import Series
from informer.errors import InputError
from informer.inference.forecast import TrainedModel
from informer.inference.inputs import Source
from informer.inference.reading import Futures, InputFormat
from informer.inference.result import Forecast
from informer.inference.rolled import metrics_of, rolled_of, write_rolled
from informer.inference.summary import ERROR, Journal, Row, fingerprint
from informer.inference.writing import Format, Writer, to_long

Chunk = list[Source]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is done with every file.

    Args:
        checkpoint: file of the model.
        written: how the files are written, where not as the training data.
        future: file of future covariates, the same for all, or one for each file by its name; None where the model has
            none, or they are in the files themselves.
        horizon: rows to forecast; None: pred_len.
        rolling: forecast from origins all through each file, in place of what follows it.
        stride: rows between two of these origins; None: pred_len.
        levels: of intervals, in percent.
        writer: what becomes of the forecasts.
        batch_size: series that go through the model together.
        many: the files are many.
    """

    checkpoint: Path
    written: InputFormat
    future: Path | Mapping[str, Path] | None
    horizon: int | None
    rolling: bool = False
    stride: int | None = None
    levels: tuple[int, ...]
    writer: Writer
    batch_size: int
    many: bool

    def check(self, model: TrainedModel) -> None:
        """Raise the InputError of what would be wrong for every file."""
        model.check_horizon(self.horizon)
        model.half_widths(self.levels)
        if not self.rolling:
            check_futures(model.columns, given=self.future is not None)
            self.shared_future(model)

    def shared_future(self, model: TrainedModel) -> Futures | None:
        """The future covariates that are the same for all files; None where there are no such."""
        return model.reader.future_file(self.future, self.written) if isinstance(self.future, Path) else None

    def own_future(self, model: TrainedModel, source: Source) -> Futures | None:
        """Those of one file, where each has its own."""
        own = self.future[source.name] if isinstance(self.future, Mapping) else None
        return None if own is None else model.reader.future_file(own, self.written)

    def unique_id(self, source: Source, series: Series) -> str:
        """Name of a series in the one long table."""
        if series.series_col is None:
            return source.name
        return f"{source.name}/{series.name}" if self.many else series.name

    def files_of(self, source: Source) -> list[str]:
        """What is written for a file alone, from the output folder; the first has the forecasts."""
        if self.rolling:
            return [rolled_of(source.name, self.writer.format), metrics_of(source.name)]
        pictures = [self.writer.picture_of(source.name)] if self.writer.plots else []
        return [self.writer.output_of(source.name), *(str(one.relative_to(self.writer.folder)) for one in pictures)]

    def digest(self) -> str:
        """Equal for jobs that give the same forecasts."""
        futures = {"": self.future} if isinstance(self.future, Path) else self.future or {}
        what = {
            "checkpoint": file_sha256(self.checkpoint),
            "future": {name: file_sha256(path) for name, path in futures.items()},
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


def chunks(sources: Sequence[Source], job: Job, journal: Journal) -> Iterator[Chunk]:
    """The files that are not done yet, of `job.batch_size` files in order at a time."""
    for first in range(0, len(sources), job.batch_size):
        part = sources[first : first + job.batch_size]
        todo = [source for source in part if not journal.is_done(source, job.files_of(source))]
        if todo:
            yield todo


def local_engine(model: TrainedModel) -> Engine:
    """One chunk after the other, in this process."""
    return lambda job, chunks: (forecast_files(model, job, chunk) for chunk in chunks)


def forecast_files(model: TrainedModel, job: Job, sources: Chunk) -> Done:
    """Read, forecast together, and write. A file that cannot be continued gets a row that says why."""
    if job.rolling:
        return Done([_roll_file(model, job, source) for source in sources], "")
    rows = {source: _new_row(source) for source in sources}
    histories: dict[Source, list[Series]] = {}
    ahead: list[Future] = []
    shared = job.shared_future(model)
    for source in sources:
        try:
            found = model.reader.file(source.path, job.written, source.name)
            ahead += _known_ahead(model, job, found, shared or job.own_future(model, source))
        except InputError as error:
            rows[source] = replace(rows[source], status=ERROR, message=str(error))
            continue
        rows[source] = _read(rows[source], found)
        histories[source] = found
    forecasts = iter(_forecasts(model, job, [one for found in histories.values() for one in found], ahead))
    written: dict[str, Forecast] = {}
    for source, found in histories.items():
        own = list(islice(forecasts, len(found)))
        try:
            rows[source] = replace(rows[source], output=job.writer.write(source.name, own))
            written |= {job.unique_id(source, one.series): one for one in own}
        except InputError as error:
            rows[source] = replace(rows[source], status=ERROR, message=str(error))
    return Done(list(rows.values()), to_long(written) if job.writer.format is Format.long else "")


def _known_ahead(model: TrainedModel, job: Job, series: Sequence[Series], futures: Futures | None) -> list[Future]:
    """The future covariates of each series; none where there are no futures."""
    ahead = [] if futures is None else [futures.of(one) for one in series]
    for one, future in zip(series, ahead, strict=False):
        model.check_future(one, future, job.horizon)
    return ahead


def _forecasts(model: TrainedModel, job: Job, series: Sequence[Series], ahead: Sequence[Future]) -> Iterator[Forecast]:
    """Of each series, so many at a time that none depends on how many others there are."""
    at_once = job.batch_size if job.many or len(series) > 1 else 1
    for first in range(0, len(series), at_once):
        part = slice(first, first + at_once)
        yield from model.forecast(
            series[part], horizon=job.horizon, levels=job.levels, futures=ahead[part] or None, pad_to=at_once
        )


def _roll_file(model: TrainedModel, job: Job, source: Source) -> Row:
    """Forecast from all origins of one file, and write."""
    row = _new_row(source)
    try:
        panel = model.reader.file(source.path, job.written, source.name, whole=True)
        row = _read(row, panel)
        output = write_rolled(model, panel, source.name, stride=job.stride, levels=job.levels, writer=job.writer)
        return replace(row, output=output)
    except InputError as error:
        return replace(row, status=ERROR, message=str(error))


def _read(row: Row, series: Sequence[Series]) -> Row:
    """With what is known of a file that could be read."""
    origin = max(one.timestamps[-1] for one in series)
    repairs = "\n".join(line for one in series for line in one.repairs)
    return replace(row, rows=str(sum(one.n_rows for one in series)), origin=str(origin), message=repairs)


def _new_row(source: Source) -> Row:
    size, changed = fingerprint(source.path)
    return Row(file=str(source.path), size=size, changed=changed)
