"""Serve forecasts of a model: reading, limits, batches, responses; independent of HTTP.

Dynamic batching: series of concurrent requests are forecast together.

While a batch is forecast, other series arrive; the next batch takes as many of them as fit, in turn from each request,
so that a large request does not delay small ones. A batch never waits to be filled.

Decode request bodies to series, and encode forecasts as response bodies.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from copy import copy
from dataclasses import dataclass
from email.message import Message
from typing import Any, final

import pandas as pd

import informer
from informer.base.errors import InputError, listed
from informer.config.commands import PredictConfig, ServeConfig
from informer.config.data import InputFormat
from informer.data.history import Future, check_futures
from informer.inference.model import Forecast, TrainedModel, interval_notes
from informer.inference.writing import stamps, to_csv
from informer.read.series import Series
from informer.scoring.intervals import LEVELS


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options shared by all series of a batch.

    Args:
        horizon: rows to forecast; None: pred_len.
        levels: interval levels in percent.
    """

    horizon: int | None = None
    levels: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """One series to forecast, and its future covariates, if any."""

    series: Series
    future: Future | None = None


Forecasting = Callable[[Sequence[Task], Options], Sequence[Forecast]]
"""Forecasts a batch, in order; called in a separate thread, one batch at a time."""

_Answer = asyncio.Future[Forecast]


@final
class _Request:
    """The series of a request that are not forecast yet."""

    def __init__(self, tasks: Sequence[Task], options: Options, loop: asyncio.AbstractEventLoop) -> None:
        self.options = options
        self.answers: list[_Answer] = [loop.create_future() for _ in tasks]
        self.waiting = deque(zip(tasks, self.answers, strict=True))


@final
class Batcher:
    """Gathers series into batches of at most `batch_size` with equal options.

    Args:
        forecast: forecasts a batch.
        batch_size: series per batch.
    """

    def __init__(self, forecast: Forecasting, batch_size: int) -> None:
        self._forecast, self._batch_size = forecast, batch_size
        self._requests: deque[_Request] = deque()
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "forecast")

    async def forecast(self, tasks: Sequence[Task], options: Options) -> list[Forecast]:
        """The forecasts of one request, in order. If it is cancelled, series still waiting are dropped.

        Raises:
            Exception: raised by `forecast` for one of these series by itself.
        """
        request = _Request(tasks, options, asyncio.get_running_loop())
        self._requests.append(request)
        self._arrived.set()
        try:
            return list(await asyncio.gather(*request.answers))
        finally:
            request.waiting.clear()
            for answer in request.answers:
                answer.cancel()

    async def run(self) -> None:
        """Forecast arriving series until cancelled."""
        try:
            while True:
                await self._arrived.wait()
                self._arrived.clear()
                while batch := self._next():
                    await self._answer(*batch)
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def _next(self) -> tuple[list[tuple[Task, _Answer]], Options] | None:
        """The next batch: series in turn from each request with the options of the first; None if none are waiting."""
        self._requests = deque(request for request in self._requests if request.waiting)
        if not self._requests:
            return None
        options = self._requests[0].options
        matching = [request for request in self._requests if request.options == options]
        taken: list[tuple[Task, _Answer]] = []
        while matching and len(taken) < self._batch_size:
            for request in matching[: self._batch_size - len(taken)]:
                taken.append(request.waiting.popleft())
            matching = [request for request in matching if request.waiting]
        self._requests.rotate(-1)  # so that requests with other options get their turn
        return taken, options

    async def _answer(self, batch: Sequence[tuple[Task, _Answer]], options: Options) -> None:
        """Forecast a batch together; if that fails, one by one, since a single series may be the cause."""
        try:
            forecasts = await self._in_thread([task for task, _ in batch], options)
        except Exception as error:
            if len(batch) == 1:
                self._fail(batch[0][1], error)
                return
            for entry in batch:
                await self._answer([entry], options)
            return
        for (_, answer), forecast in zip(batch, forecasts, strict=True):
            if not answer.done():
                answer.set_result(forecast)

    async def _in_thread(self, tasks: list[Task], options: Options) -> Sequence[Forecast]:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._forecast, tasks, options)

    def _fail(self, answer: _Answer, error: Exception) -> None:
        if not answer.done():
            answer.set_exception(error)


CSV, JSON = "text/csv", "application/json"

FRAME, FUTURE = "frame", "future"
"""Keys of a JSON body."""


class UnknownType(InputError):
    """The body is neither CSV nor JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """The body of a request.

    Args:
        content: CSV text, or JSON `{"frame": ..., "future": ...}`; a table is a mapping of column names to lists, or a
            list of rows.
        type: CSV or JSON.
        charset: encoding of CSV text; None: detected.
    """

    content: bytes
    type: str
    charset: str | None = None

    @classmethod
    def of(cls, content: bytes, content_type: str) -> "Body":
        """A body with its type from the Content-Type header.

        Raises:
            UnknownType: another type.
        """
        header = Message()
        header["Content-Type"] = content_type
        media_type = header.get_content_type() if content_type else "none"
        if media_type not in (CSV, JSON):
            raise UnknownType(f"Content-Type: expected {CSV} or {JSON}, found {media_type}")
        charset = header.get_param("charset")
        return cls(content=content, type=media_type, charset=charset if isinstance(charset, str) else None)


def read_tasks(
    model: TrainedModel, body: Body, input_format: InputFormat, *, name: str = FRAME, options: Options
) -> list[Task]:
    """The series of a request, checked against the model.

    Args:
        body: body of the request.
        input_format: format of CSV text, if different from the training data.
        name: name of a single series; if each series has its own scaler, it selects the scaler.
        options: options of the forecast.

    Raises:
        InputError: the series cannot be forecast.
    """
    if body.type == CSV:
        series, futures = model.reader.content(body.content, _encoded(input_format, body), name), None
    else:
        frame, ahead = _json_tables(body.content)
        series = model.reader.frame(frame, name)
        futures = None if ahead is None else model.reader.future_frame(ahead, FUTURE)
    if body.type == CSV and model.columns.future_covariates:
        names = listed(model.columns.future_covariates)
        raise InputError(f"future: expected future values of {names}; send JSON with {FRAME} and {FUTURE}")
    check_futures(model.columns, has_futures=futures is not None)
    tasks = [Task(history, None if futures is None else futures.of(history)) for history in series]
    for task in tasks:
        if task.future is not None:
            model.check_future(task.series, task.future, options.horizon)
    return tasks


def _encoded(input_format: InputFormat, body: Body) -> InputFormat:
    if body.charset is None:
        return input_format
    encoded = copy(input_format)
    encoded.encoding = body.charset
    problems = encoded.problems()
    if problems:
        raise InputError(f"Content-Type: {problems[0]}")
    return encoded


def _json_tables(content: bytes) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"body: expected JSON, found: {error or 'too many levels'}") from error
    if not isinstance(body, dict) or FRAME not in body or not set(body) <= {FRAME, FUTURE}:
        keys = listed(list(body)) if isinstance(body, dict) else f"a {type(body).__name__}"
        raise InputError(f'body: expected {{"{FRAME}": TABLE}} and, if needed, "{FUTURE}", found {keys}')
    future = body.get(FUTURE)
    return _table(body[FRAME], FRAME), None if future is None else _table(future, FUTURE)


def _table(data: Any, name: str) -> pd.DataFrame:
    """A table from a mapping of columns or a list of rows."""
    if isinstance(data, list) and data and all(isinstance(row, dict) for row in data):
        names = list(data[0])
        odd = next((number for number, row in enumerate(data) if list(row) != names), None)
        if odd is not None:
            raise InputError(
                f"{name}, row {odd}: expected the columns {listed(names)}, found {listed(list(data[odd]))}"
            )
        data = {key: [row[key] for row in data] for key in names}
    if not isinstance(data, dict) or not data or not all(isinstance(cells, list) for cells in data.values()):
        raise InputError(f"{name}: expected columns with a list of values each, or a list of rows")
    _check_cells(data, name)
    return pd.DataFrame(data)


def _check_cells(columns: Mapping[str, Sequence[Any]], name: str) -> None:
    lengths = {key: len(cells) for key, cells in columns.items()}
    if len(set(lengths.values())) > 1:
        shortest, longest = min(lengths, key=lambda key: lengths[key]), max(lengths, key=lambda key: lengths[key])
        raise InputError(
            f"{name}: expected columns of equal length, found {lengths[longest]} values of {longest!r} and "
            f"{lengths[shortest]} of {shortest!r}"
        )
    for key, cells in columns.items():
        for row, cell in enumerate(cells):
            is_large = isinstance(cell, int) and abs(cell) > 2**63 - 1
            if not isinstance(cell, str | float | int | None) or is_large:
                kind = "a number beyond 64 bits" if is_large else f"a {type(cell).__name__}"
                raise InputError(f"{name}, row {row}, column {key!r}: expected a number or text, found {kind}")


def to_body(forecasts: Sequence[Forecast], kind: str) -> tuple[bytes, str]:
    """Encode the forecasts of a request; returns the content and its Content-Type.

    CSV is as `informer predict` writes it; JSON is `{"forecast": {column: [...]}}` with the same cells, missing ones
    null.

    Raises:
        InputError: a forecast that is not finite, or two columns with the same name.
    """
    if kind == CSV:
        return to_csv(forecasts, PredictConfig().digits), f"{CSV}; charset={forecasts[0].series.dialect.encoding}"
    table: dict[str, list[Any]] = {}
    for forecast in forecasts:
        names = {key: [forecast.series.name] * len(forecast.values) for key in forecast.keys[:-1]}
        columns = {name: _cells(values) for name, values in forecast.columns().items()}
        for name, cells in (names | {forecast.keys[-1]: list(stamps(forecast))} | columns).items():
            table.setdefault(name, []).extend(cells)
    return json.dumps({"forecast": table}, allow_nan=False).encode(), JSON


def _cells(values: Any) -> list[Any]:
    cells: list[Any] = values.tolist()
    return [None if cell != cell else cell for cell in cells]


MOST_NAMES = 100
"""Maximum number of series names, and of categories of a column, in a description."""


class Busy(InputError):
    """Too many requests in progress."""


@final
class Service:
    """Answers requests with one model.

    Args:
        model: the model; the limit on series is set in its reader.
        settings: limits and the format of tables.
    """

    def __init__(self, model: TrainedModel, settings: ServeConfig) -> None:
        self.model, self.settings = model, settings
        self.batcher = Batcher(self._forecast, settings.batch_size)
        model.reader.most_series = settings.max_series
        # one thread, since reading turns pandas' warnings into errors, a setting of the whole process
        self._reading = ThreadPoolExecutor(1, "read")
        self._in_progress = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Forecast batches within the context."""
        batches = asyncio.create_task(self.batcher.run())
        try:
            yield
        finally:
            batches.cancel()
            with suppress(asyncio.CancelledError):
                await batches
            self._reading.shutdown(wait=False, cancel_futures=True)

    @asynccontextmanager
    async def admitted(self) -> AsyncIterator[None]:
        """Count a request as in progress within the context.

        Raises:
            Busy: too many requests are in progress.
        """
        if self._in_progress >= self.settings.max_requests:
            raise Busy(f"busy: {self._in_progress} requests in progress, at most max_requests; try again")
        self._in_progress += 1
        try:
            yield
        finally:
            self._in_progress -= 1

    async def answer(self, body: Body, options: Options, *, name: str, kind: str) -> tuple[bytes, str]:
        """The forecasts for the body of a request, encoded, and their Content-Type.

        Args:
            body: body of the request.
            options: options of the forecast.
            name: name of a single series.
            kind: content type of the response.

        Raises:
            InputError: an error the client can fix.
        """
        self.check(options)
        loop = asyncio.get_running_loop()
        tasks = await loop.run_in_executor(self._reading, self._read, body, options, name)
        forecasts = await self.batcher.forecast(tasks, options)
        return await loop.run_in_executor(self._reading, to_body, forecasts, kind)

    def check(self, options: Options) -> None:
        """Raise an InputError if options are invalid for the model, or exceed a limit."""
        most = max(self.settings.max_horizon, self.model.sizes.pred_len)
        if options.horizon is not None and options.horizon > most:
            raise InputError(f"horizon: expected at most {most}, found {options.horizon}")
        self.model.check_horizon(options.horizon)
        self.model.check_levels(options.levels, options.horizon)

    def _read(self, body: Body, options: Options, name: str) -> list[Task]:
        return read_tasks(self.model, body, self.settings.dataset, name=name or FRAME, options=options)

    def _forecast(self, tasks: Sequence[Task], options: Options) -> Sequence[Forecast]:
        """Forecast a batch, padded to a fixed size, so that no forecast depends on the other series."""
        futures = [task.future for task in tasks if task.future is not None]
        return self.model.forecast(
            [task.series for task in tasks],
            horizon=options.horizon,
            levels=options.levels,
            futures=futures or None,
            pad_to=self.settings.batch_size,
        )

    def description(self) -> dict[str, Any]:
        """Inputs and outputs of the model, and the limits on requests."""
        model, settings = self.model, self.settings
        checkpoint, calibration = model.checkpoint, model.calibration
        levels = [] if calibration is None else [level for level in LEVELS if calibration.supports(level)]
        return {
            "version": informer.__version__,
            "model": checkpoint.config["model"].get("family", "informer"),
            "targets": list(model.columns.targets),
            "inputs": list(model.columns.inputs),
            "future_covariates": list(model.columns.future_covariates),
            "static_covariates": list(model.columns.static_covariates),
            "categories": {name: list(labels)[:MOST_NAMES] for name, labels in checkpoint.categories.items()},
            "time_column": checkpoint.data["time_col"],
            "series_column": checkpoint.config["dataset"].get("series_col"),
            "series": checkpoint.series[:MOST_NAMES],
            "n_series": max(1, len(checkpoint.series)),
            "step": checkpoint.frequency,
            "seq_len": model.sizes.seq_len,
            "pred_len": model.sizes.pred_len,
            "quantiles": list(model.quantiles),
            "intervals": levels,
            "interval_notes": interval_notes(checkpoint, calibration, levels),
            "limits": {
                name: getattr(settings, name)
                for name in ("max_mb", "max_series", "max_horizon", "max_requests", "timeout", "batch_size")
            },
        }
