"""Visible output of a run: curves and figures, the console's progress bar, the epoch table."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, final

from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from informer import progress
from informer.plots import png
from informer.progress import Status
from informer.training.tracking.sinks import Sink
from informer.training.tracking.step_log import StepRecord

log = logging.getLogger(__name__)

TRAINING = "training"

WARM, MEASURED = 5, 20
"""Warm-up steps, and measured steps, before the time of a run is estimated."""
SOON = 5.0
"""Seconds after which slow steps end the warm-up, and after which they have been measured."""

LONG = 0.5
"""Estimated hours above which a warning is logged."""

EVERY = 30.0
"""Seconds between two log lines without a progress bar."""


@final
class Tracker(AbstractContextManager["Tracker"]):
    """Writes the curves of one run and shows its progress.

    Args:
        sinks: receive the curves; empty for trials and in all processes but the first.
        n_steps: steps of the whole run, for the progress bar's estimate.
        console: for the progress bar, which is only shown in a terminal.
        done: steps of a resumed run before it was stopped.
        activity: name of the activity in progress reports.
        clock: time in seconds.
    """

    EPOCH_HEADER = "epoch   train loss     val loss           lr   samples/s   seconds"

    def __init__(
        self,
        sinks: Mapping[str, Sink],
        *,
        n_steps: int,
        console: Console,
        done: int = 0,
        activity: str = TRAINING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.activity, self._n_steps, self._done, self._first = activity, n_steps, done, done
        self._clock, self._is_piped = clock, not console.is_terminal and not console.quiet
        self._spoke = self._began = clock()
        self._warm: int | None = None
        self._is_estimated = False
        self._sinks = sinks
        self.references: Callable[[], Mapping[str, float]] = dict
        """Returns the validation losses of the baselines by name; called after each epoch."""
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("eta"),
            TimeRemainingColumn(),
            TextColumn("loss {task.fields[loss]}"),
            console=console,
            disable=not console.is_terminal or not n_steps,
            transient=True,
        )
        self.task = self.progress.add_task("training", total=n_steps, completed=done, loss="-")

    def __enter__(self) -> "Tracker":
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()
        for sink in self._sinks.values():
            sink.close()

    @property
    def is_recording(self) -> bool:
        """Whether there are sinks."""
        return bool(self._sinks)

    @property
    def takes_pictures(self) -> bool:
        """Whether any sink keeps pictures."""
        return any(sink.TAKES_PICTURES for sink in self._sinks.values())

    def begin(self) -> None:
        """Start of training: print the header of the epoch table."""
        log.info(self.EPOCH_HEADER)

    def start_loss(self, value: float) -> None:
        """Record the validation loss before the first step, of a model with a fitted linear part."""
        log.info(f"validation loss before the first step: {value:.5f}")
        self.scalars({"val/loss": value}, 0)

    def advance(self) -> None:
        """Record that a step is finished."""
        self.progress.advance(self.task)
        self._done += 1
        self._speak()
        progress.report(Status(doing=f"{self.activity}, step {self._done} of {self._n_steps}"))

    def _speak(self) -> None:
        """Warn once if the run will take long; without a terminal, log the step every `EVERY` seconds."""
        now, steps_run = self._clock(), self._done - self._first
        if self._warm is None and (steps_run >= WARM or now - self._began >= SOON):
            self._warm, self._began = steps_run, now
        elif self._warm is not None and not self._is_estimated:
            measured = steps_run - self._warm
            if measured >= MEASURED or now - self._began >= SOON:
                self._is_estimated = True
                self._warn((now - self._began) / measured * (self._n_steps - self._done) / 3600)
        if self._is_piped and now - self._spoke >= EVERY:
            self._spoke = now
            log.info(f"step {self._done} of {self._n_steps}")

    def _warn(self, hours: float) -> None:
        if hours > LONG and self.activity == TRAINING:
            log.warning(
                f"training may take up to about {hours:.1f} hours; model=auto trainer.time_budget_minutes=10 keeps "
                "to a budget, trainer.steps_per_epoch=500 shortens epochs"
            )

    def steps(self, first: int, records: Sequence[StepRecord]) -> None:
        """Record loss and gradient norm of the steps from `first` on."""
        for step, record in enumerate(records, start=first):
            self.scalars({"train/loss_step": record.loss, "train/gradient_norm": record.gradient_norm}, step)
        for sink in self._sinks.values():
            sink.flush()
        self.progress.update(self.task, loss=f"{records[-1].loss:.4f}")

    def epoch(self, number: int, row: Mapping[str, float], *, is_best: bool) -> None:
        """Record an epoch and log its row; `row` has train_loss, val_loss, lr, samples_per_second, seconds."""
        keys = {"train/loss": "train_loss", "val/loss": "val_loss", "train/learning_rate": "lr"}
        keys["train/samples_per_second"] = "samples_per_second"
        self.scalars({tag: row[key] for tag, key in keys.items()}, number)
        if self.is_recording:
            self.scalars({f"val/loss_{name}": loss for name, loss in self.references().items()}, number)
        log.info(
            f"{number:5d} {row['train_loss']:12.5f} {row['val_loss']:12.5f} {row['lr']:12.2e} "
            f"{row['samples_per_second']:11.0f} {row['seconds']:9.1f}{'  best' if is_best else ''}"
        )

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """Add a point to each of these curves."""
        for sink in self._sinks.values():
            for tag, value in values.items():
                sink.scalar(tag, value, step)

    def figure(self, tag: str, figure: Figure, number: int) -> None:
        """Add a figure of epoch `number`."""
        content = png(figure, dpi=100)
        for sink in self._sinks.values():
            sink.image(tag, content, number)

    def sync(self) -> dict[str, int]:
        """Sync all sinks; returns their positions."""
        return {name: sink.sync() for name, sink in self._sinks.items()}

    def final(self, settings: Mapping[str, Any], metrics: Mapping[str, float], number: int) -> None:
        """Add configuration and scores of a finished run of `number` epochs, and sync."""
        for sink in self._sinks.values():
            sink.final(settings, metrics, number)
        self.sync()
