"""Where the trials of networks run: in this process, or on a Ray cluster, several at a time.

A trial is determined by its settings and the data, so both engines find the same losses, up to the rounding of other
processors or numbers of threads.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, Protocol, final

import torch

from informer import progress
from informer.config.engines import EngineName
from informer.config.schema import TrainConfig
from informer.data.sources import Source
from informer.errors import InputError, counted
from informer.inference.jobs.ray_engine import capacity, cluster
from informer.progress import Status
from informer.search.space import Values, cheapest
from informer.search.trials import OutOfTime, TrialRunner
from informer.training.signals import Interrupted, StopRequest

POLL = 0.2
"""Seconds between looks at a stop request while waiting for a trial."""

RETRIES = 2
"""How often a worker that dies is started again, and its trial repeated; more often, memory is probably short."""


class Result(NamedTuple):
    """A finished trial; the fields are those of `informer.search.record.Trial`."""

    val_loss: float
    seconds: float
    closing_seconds: float


class TrialEngine(Protocol):
    """Runs trials."""

    n_parallel: int
    """Number of trials to begin before waiting for the first of them."""

    def begin(self, runner: TrialRunner, values: Values, *, steps: int, seconds: float) -> Callable[[], Result]:
        """Begin a trial.

        Args:
            runner: knows the settings, the data and the linear forecast from which networks start.
            values, steps, seconds: see `TrialRunner.trial`.

        Returns:
            Waits for the trial, and raises what `TrialRunner.trial` raises.
        """


@final
class Local:
    """In this process, one after the other."""

    n_parallel = 1

    def begin(self, runner: TrialRunner, values: Values, *, steps: int, seconds: float) -> Callable[[], Result]:
        """See `TrialEngine`; the trial runs when its result is asked for."""
        return partial(measured, runner, values, steps=steps, seconds=seconds)


def measured(runner: TrialRunner, values: Values, *, steps: int, seconds: float) -> Result:
    """A trial and its duration."""
    began = runner.clock()
    loss = runner.trial(values, steps=steps, seconds=seconds)
    taken = runner.clock() - began
    return Result(loss, taken, runner.closing_seconds(values, steps=steps))


@contextmanager
def trial_engine(settings: TrainConfig, device: torch.device) -> Iterator[TrialEngine]:
    """The configured engine; a local Ray cluster ends with the context.

    Raises:
        InputError: Ray is not installed, or there is no cluster.
    """
    if settings.engine is EngineName.local:
        yield Local()
        return
    with cluster(settings.workers):
        unit = "GPU" if device.type == "cuda" else "CPU"
        most = capacity(unit)  # further actors would wait forever
        yield OnRay(min(settings.workers or most, most), unit)


@final
class OnRay:
    """On the connected Ray cluster, by actors that each hold the data, one CPU (or GPU) and one thread.

    Args:
        n_parallel: number of actors.
        unit: what an actor needs, "CPU" or "GPU".
    """

    def __init__(self, n_parallel: int, unit: str) -> None:
        self.n_parallel, self._unit = n_parallel, unit
        self._actors: list[Any] = []
        self._begun = 0

    def begin(self, runner: TrialRunner, values: Values, *, steps: int, seconds: float) -> Callable[[], Result]:
        """See `TrialEngine`."""
        if not self._actors:
            self._start(runner)
        actor = self._actors[self._begun % self.n_parallel]
        self._begun += 1
        return partial(self._wait, runner.stop, actor.measured.remote(dict(values), steps, seconds))

    def _start(self, runner: TrialRunner) -> None:
        import ray

        progress.report(Status(doing=f"searching: {counted(self.n_parallel, 'worker')} on Ray"))
        source = ray.put(runner.source)
        make = ray.remote(
            num_cpus=1, num_gpus=int(self._unit == "GPU"), max_restarts=RETRIES, max_task_retries=RETRIES
        )(_Worker).remote  # fmt: skip
        device = "cuda" if self._unit == "GPU" else runner.device.type
        self._actors = [make(runner.settings, source, device) for _ in range(self.n_parallel)]

    def _wait(self, stop: StopRequest, trial: Any) -> Result:
        import ray
        from ray.exceptions import RayError, RayTaskError

        while not ray.wait([trial], timeout=POLL)[0]:
            if stop.signal:
                raise Interrupted(stop.signal)
        try:
            result = ray.get(trial)
        except RayTaskError as error:
            raise error.cause from error
        except RayError as error:
            raise InputError(
                f"engine=ray: a worker of the search was lost {RETRIES + 1} times ({type(error).__name__}), perhaps "
                "because memory was short; continue the search with: informer train resume=RUN"
            ) from error
        if result is None:
            raise OutOfTime
        return Result(*result)


@final
class _Worker:
    """An actor: fits the linear forecast once, then runs trials."""

    def __init__(self, settings: TrainConfig, source: Source, device: str) -> None:
        torch.set_num_threads(1)  # as many as Ray reserves
        self._runner = TrialRunner(
            settings=settings, source=source, device=torch.device(device), stop=StopRequest(), clock=time.monotonic
        )
        lookback = max(maps["lookback"] for maps in settings.model.maps)
        self._runner.n_windows(cheapest(settings, lookback))  # so that no trial is charged for the fit

    def measured(self, values: dict[str, Any], steps: int, seconds: float) -> tuple[float, ...] | None:
        """`Result` as a plain tuple; None if the trial took too long."""
        try:
            return tuple(measured(self._runner, values, steps=steps, seconds=seconds))
        except OutOfTime:
            return None
