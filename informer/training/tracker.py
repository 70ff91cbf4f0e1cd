"""What a run leaves to look at: TensorBoard curves and figures, the console's progress bar, the epoch table."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, final

from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch.utils.tensorboard.summary import hparams

from informer.plots import png
from informer.training.events import EventFile
from informer.training.step_log import StepRecord

log = logging.getLogger(__name__)


@final
class Tracker(AbstractContextManager["Tracker"]):
    """Writes the curves of one run and shows its progress.

    Args:
        events: path of TensorBoard's file.
        n_steps: steps of the whole run, for the progress bar's estimate.
        console: where the bar is drawn; nothing is drawn if it is no terminal.
        done: steps of a resumed run that were done before.
        length: bytes of its event file that belong to them.
    """

    EPOCH_HEADER = "epoch   train loss     val loss           lr   samples/s   seconds"

    def __init__(self, events: Path, *, n_steps: int, console: Console, done: int = 0, length: int = 0) -> None:
        self.events = EventFile(events, length=length)
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
        self.events.close()

    def begin(self) -> None:
        """Training starts: the head of the epoch table."""
        log.info(self.EPOCH_HEADER)

    def advance(self) -> None:
        """One step is done."""
        self.progress.advance(self.task)

    def steps(self, first: int, records: Sequence[StepRecord]) -> None:
        """Loss and gradient norm of the steps from `first` on."""
        for step, record in enumerate(records, start=first):
            self.events.scalar("train/loss_step", record.loss, step)
            self.events.scalar("train/gradient_norm", record.gradient_norm, step)
        self.events.flush()
        self.progress.update(self.task, loss=f"{records[-1].loss:.4f}")

    def epoch(self, number: int, row: Mapping[str, float], *, is_best: bool) -> None:
        """Curves and one row of the epoch table; `row` holds train_loss, val_loss, lr, samples_per_second, seconds."""
        for tag, key in [
            ("train/loss", "train_loss"),
            ("val/loss", "val_loss"),
            ("train/learning_rate", "lr"),
            ("train/samples_per_second", "samples_per_second"),
        ]:
            self.events.scalar(tag, row[key], number)
        log.info(
            f"{number:5d} {row['train_loss']:12.5f} {row['val_loss']:12.5f} {row['lr']:12.2e} "
            f"{row['samples_per_second']:11.0f} {row['seconds']:9.1f}{'  best' if is_best else ''}"
        )

    def figure(self, tag: str, figure: Figure, number: int) -> None:
        """A picture of epoch `number`."""
        self.events.image(tag, png(figure, dpi=100), number)

    def final(self, settings: Mapping[str, Any], metrics: Mapping[str, float]) -> None:
        """Hyper-parameters beside the metrics they led to."""
        plain = {
            key: value if isinstance(value, (bool, int, float, str)) else str(value) for key, value in settings.items()
        }
        for summary in hparams(plain, dict(metrics)):
            self.events.summary(summary)
        for tag, value in metrics.items():
            self.events.scalar(tag, value, 0)
