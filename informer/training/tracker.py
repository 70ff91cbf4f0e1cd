"""What a run leaves to look at: TensorBoard curves and figures, the console's progress bar, the epoch table."""

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, final

from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams

log = logging.getLogger(__name__)


@final
class Tracker(AbstractContextManager["Tracker"]):
    """Writes the curves of one run and shows its progress.

    Args:
        run_dir: folder of the event file.
        n_steps: steps of the whole run, for the progress bar's estimate.
        console: where the bar is drawn; nothing is drawn if it is no terminal.
    """

    EPOCH_HEADER = "epoch   train loss     val loss           lr   samples/s   seconds"

    def __init__(self, run_dir: Path, *, n_steps: int, console: Console) -> None:
        self.writer = SummaryWriter(str(run_dir))
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("eta"),
            TimeRemainingColumn(),
            TextColumn("loss {task.fields[loss]}"),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self.task = self.progress.add_task("training", total=n_steps, loss="-")

    def __enter__(self) -> "Tracker":
        self.progress.start()
        log.info(self.EPOCH_HEADER)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()
        self.writer.close()

    def advance(self) -> None:
        """One step is done."""
        self.progress.advance(self.task)

    def steps(self, last_step: int, losses: list[float], norms: list[float]) -> None:
        """Loss and gradient norm of the steps that end with `last_step`."""
        first = last_step - len(losses) + 1
        for i, (loss, norm) in enumerate(zip(losses, norms, strict=True)):
            self.writer.add_scalar("train/loss_step", loss, first + i)
            self.writer.add_scalar("train/gradient_norm", norm, first + i)
        self.progress.update(self.task, loss=f"{losses[-1]:.4f}")

    def epoch(self, number: int, row: Mapping[str, float], *, is_best: bool) -> None:
        """Curves and one row of the epoch table; `row` holds train_loss, val_loss, lr, samples_per_second, seconds."""
        for tag, key in [
            ("train/loss", "train_loss"),
            ("val/loss", "val_loss"),
            ("train/learning_rate", "lr"),
            ("train/samples_per_second", "samples_per_second"),
        ]:
            self.writer.add_scalar(tag, row[key], number)
        log.info(
            f"{number:5d} {row['train_loss']:12.5f} {row['val_loss']:12.5f} {row['lr']:12.2e} "
            f"{row['samples_per_second']:11.0f} {row['seconds']:9.1f}{'  best' if is_best else ''}"
        )

    def figure(self, tag: str, figure: Figure, number: int) -> None:
        """A picture of epoch `number`."""
        self.writer.add_figure(tag, figure, number, close=False)

    def final(self, settings: Mapping[str, Any], metrics: Mapping[str, float]) -> None:
        """Hyper-parameters beside the metrics they led to."""
        plain = {
            key: value if isinstance(value, (bool, int, float, str)) else str(value) for key, value in settings.items()
        }
        for summary in hparams(plain, dict(metrics)):
            self.writer._get_file_writer().add_summary(summary)
        for tag, value in metrics.items():
            self.writer.add_scalar(tag, value)
