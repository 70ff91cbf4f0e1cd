"""Dynamic batching: series of concurrent requests are forecast together.

While a batch is forecast, other series arrive; the next batch takes as many of them as fit, in turn from each request,
so that a large request does not delay small ones. A batch never waits to be filled.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import final

from informer.data.future import Future
from informer.data.read.source import Series
from informer.inference.result import Forecast


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
