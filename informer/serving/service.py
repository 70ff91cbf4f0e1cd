"""Serve forecasts of a model: reading, limits, batches, responses; independent of HTTP."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any, final

import informer
from informer.config.serving import ServeConfig
from informer.errors import InputError
from informer.inference.intervals import LEVELS
from informer.inference.predictor import TrainedModel, interval_notes
from informer.inference.result import Forecast
from informer.serving.batching import Batcher, Options, Task
from informer.serving.bodies import FRAME, Body, read_tasks, to_body

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
