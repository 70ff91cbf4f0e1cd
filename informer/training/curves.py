"""Visible output of a run: curves and figures, the console's progress bar, the epoch table.

Curves and pictures after an epoch, on validation windows: interval and quantile scores, forecasts, attention maps,
weight norms, and the losses of the baselines.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, final

import numpy as np
import torch
from rich.console import Console
from torch import Tensor

from informer.base import progress
from informer.base.console import step_bar
from informer.config.training import DISTRIBUTIONS, TrainConfig, TrainerConfig
from informer.data.dataset import Data
from informer.data.windows import Batch
from informer.members.attention_maps import attention_figures
from informer.members.baselines import FittedBaseline
from informer.members.network import ForecastModel, model_forecast
from informer.scoring.backtest import Member, backtest
from informer.scoring.intervals import REPORTED_LEVELS
from informer.scoring.metrics import band_cells, pinball
from informer.scoring.residuals import residuals_of
from informer.training.optim import build_loss, mean_loss
from informer.training.sinks import Sink, Values, draws

if TYPE_CHECKING:
    from matplotlib.figure import Figure

log = logging.getLogger(__name__)


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
        sinks: receive the curves; empty in all processes but the first.
        n_steps: steps of the whole run, for the progress bar's estimate.
        console: for the progress bar, which is only shown in a terminal.
        done: steps of a resumed run before it was stopped.
        is_limited: whether a time limit ends the run, so that its length is no surprise.
    """

    EPOCH_HEADER = "epoch   train loss     val loss           lr   samples/s   seconds"

    def __init__(
        self,
        sinks: Sequence[Sink],
        *,
        n_steps: int,
        console: Console,
        done: int = 0,
        is_limited: bool = False,
    ) -> None:
        self._n_steps, self._done, self._first = n_steps, done, done
        self._is_piped = not console.is_terminal and not console.quiet
        self._spoke = self._began = time.monotonic()
        self._warm: int | None = None
        self._is_estimated = is_limited
        self._sinks = sinks
        self.references: Callable[[], Mapping[str, float]] = dict
        """Returns the validation losses of the baselines by name; called after each epoch."""
        self.progress = step_bar(console, "loss {task.fields[loss]}", is_shown=n_steps > 0)
        self.task = self.progress.add_task("training", total=n_steps, completed=done, loss="-")

    def __enter__(self) -> "Tracker":
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()
        for sink in self._sinks:
            sink.close()

    @property
    def is_recording(self) -> bool:
        """Whether there are sinks."""
        return bool(self._sinks)

    @property
    def takes_pictures(self) -> bool:
        """Whether matplotlib is installed and any sink keeps pictures."""
        return draws() and any(sink.TAKES_PICTURES for sink in self._sinks)

    def begin(self) -> None:
        """Start of training: print the header of the epoch table."""
        log.info(self.EPOCH_HEADER)

    def start_loss(self, value: float) -> None:
        """Record the validation loss before the first step, of a model with a fitted linear part."""
        log.info(f"validation loss before the first step: {value:.5f}")
        if self.is_recording:
            self.log(0, {"val/loss": value} | self._of_baselines())

    def advance(self) -> None:
        """Record that a step is finished."""
        self.progress.advance(self.task)
        self._done += 1
        self._speak()
        progress.report(f"training, step {self._done} of {self._n_steps}")

    def _speak(self) -> None:
        """Warn once if the run will take long; without a terminal, log the step every `EVERY` seconds."""
        now, steps_run = time.monotonic(), self._done - self._first
        if self._warm is None and (steps_run >= WARM or now - self._began >= SOON):
            self._warm, self._began = steps_run, now
        elif self._warm is not None and not self._is_estimated:
            measured = steps_run - self._warm
            if measured >= MEASURED or now - self._began >= SOON:
                self._is_estimated = True
                hours = (now - self._began) / measured * (self._n_steps - self._done) / 3600
                if hours > LONG:
                    log.warning(
                        f"training may take up to about {hours:.1f} hours; trainer.max_minutes=10 "
                        "stops it, trainer.steps_per_epoch=500 shortens epochs"
                    )
        if self._is_piped and now - self._spoke >= EVERY:
            self._spoke = now
            log.info(f"step {self._done} of {self._n_steps}")

    def steps(self, first: int, records: Sequence[tuple[float, float]]) -> None:
        """Record loss and gradient norm of the steps from `first` on."""
        for step, (loss, gradient_norm) in enumerate(records, start=first):
            self.log(step, {"train/loss_step": loss, "train/gradient_norm": gradient_norm})
        self.flush()
        self.progress.update(self.task, loss=f"{records[-1][0]:.4f}")

    def epoch(self, number: int, row: Mapping[str, float], *, is_best: bool) -> None:
        """Record an epoch and log its row; `row` has train_loss, val_loss, lr, samples_per_second, seconds."""
        keys = {"train/loss": "train_loss", "val/loss": "val_loss", "train/learning_rate": "lr"}
        keys["train/samples_per_second"] = "samples_per_second"
        if self.is_recording:
            self.log(number, {tag: row[key] for tag, key in keys.items()} | self._of_baselines())
        log.info(
            f"{number:5d} {row['train_loss']:12.5f} {row['val_loss']:12.5f} {row['lr']:12.2e} "
            f"{row['samples_per_second']:11.0f} {row['seconds']:9.1f}{'  best' if is_best else ''}"
        )

    def _of_baselines(self) -> dict[str, float]:
        return {f"val/loss_{name}": loss for name, loss in self.references().items()}

    def log(self, step: int, values: Values) -> None:
        """Add a point to each of these curves, and these pictures."""
        for sink in self._sinks:
            sink.log(step, values)

    def flush(self) -> None:
        """Make everything visible to other programs."""
        for sink in self._sinks:
            sink.flush()

    def final(self, settings: Mapping[str, Any], metrics: Mapping[str, float], number: int) -> None:
        """Add configuration and scores of a finished run of `number` epochs."""
        for sink in self._sinks:
            sink.final(settings, metrics, number)
        self.flush()


MOST_WINDOWS = 512
"""Maximum number of windows per part on which intervals are tracked, evenly spaced; on a long validation part they
would otherwise take longer than the loss."""


def track_epoch(tracker: Tracker, model: ForecastModel, data: Data, epoch: int, trainer: TrainerConfig) -> None:
    """Write the curves and pictures of an epoch, also those of `trainer.track_also`; leaves the model in eval mode.

    Args:
        tracker: receives them; what it does not keep is not computed.
        model: the network that is validated.
        data: its validation part is used.
        epoch: number of the epoch.
        trainer: says what is tracked, and the windows per batch.
    """
    if not tracker.is_recording:
        return
    model.eval()
    values: dict[str, float | bytes] = {}
    if tracker.takes_pictures:
        from informer.base.plots import png

        values["val/forecast"] = png(forecast_figure(model, data), dpi=100)
    values |= interval_curves(model, data, batch_size=trainer.eval_batch_size)
    if "weights" in trainer.track_also:
        values |= {f"weights/{name}": float(parameter.detach().norm()) for name, parameter in model.named_parameters()}
    if "attention" in trainer.track_also and tracker.takes_pictures:
        from informer.base.plots import png

        window = data.val.batch(torch.tensor([len(data.val) // 2]))
        for name, figure in attention_figures(model, window, ["validation window"]):
            values[f"attention/{name}"] = png(figure, dpi=100)
    tracker.log(epoch, values)


@torch.inference_mode()
def interval_curves(model: ForecastModel, data: Data, *, batch_size: int) -> dict[str, float]:
    """Coverage (percent), width and pinball loss on validation windows, scaled, by tag.

    Intervals are calibrated on the calibration windows, as at the end of the run; their pinball loss is that of their
    ends as quantiles. Empty without quantiles and calibration windows.
    """
    quantiles, calibration = model.quantiles, None
    if data.calibration is not None:
        errors_of = residuals_of(data, batch_size)
        calibration = errors_of(model, data.calibration, most=MOST_WINDOWS, n_rolled=0).calibration()
    if not quantiles and calibration is None:
        return {}
    member = Member.of_model(model, calibration)
    windows, levels = data.val.thinned(MOST_WINDOWS), member.supported(REPORTED_LEVELS)
    sums = defaultdict[str, np.ndarray](lambda: np.zeros(2))  # and numbers, by tag
    for paths in backtest(member, windows, data.panel, data.targets, batch_size=batch_size, levels=levels):
        cells, scaled = band_cells(paths), paths.scaled()
        for level in levels:
            ends = {f"lo{level}": 0.5 - level / 200, f"hi{level}": 0.5 + level / 200}
            losses = [pinball(scaled.bands[name], scaled.actual, share) for name, share in ends.items()]
            cells[str(level)]["pinball"] = (losses[0] + losses[1]) / 2
        for name, each in cells.items():
            for metric in each if "width" in each else ("pinball",):
                sums[f"val/{metric}_{name}"] += np.nansum(each[metric]), (~np.isnan(each[metric])).sum()
    return {tag: float(total / n) for tag, (total, n) in sums.items()}


@torch.inference_mode()
def forecast_figure(model: ForecastModel, data: Data) -> "Figure":
    """Plot forecasts and actual values of three evenly spaced validation windows, in scaled units."""
    from informer.base.plots import plot_windows

    model.eval()
    batch = data.val.batch(torch.linspace(0, len(data.val) - 1, 3).long())
    target_positions = [data.inputs.index(name) for name in data.targets]
    history, predicted, actual = (
        x.float().cpu().numpy()
        for x in (batch.enc_x[:, :, target_positions], model_forecast(model, batch), batch.target)
    )
    return plot_windows(history, predicted, actual, data.targets, target=data.columns.main)


@torch.inference_mode()
def reference_losses(baselines: Sequence[FittedBaseline], data: Data, settings: TrainConfig) -> dict[str, float]:
    """Validation loss of each baseline, by name; with a quantile loss its forecast is scored as every quantile. None
    with the likelihood of a distribution, which a single forecast does not have."""
    if settings.loss.kind in DISTRIBUTIONS:
        return {}
    n_quantiles = len(settings.loss.quantiles)
    loss = build_loss(settings.loss, has_gaps=not data.val.store.counts_equal)

    def as_quantiles(baseline: FittedBaseline, batch: Batch) -> Tensor:
        forecast = baseline(batch)
        return forecast.unsqueeze(-1).expand(*forecast.shape, n_quantiles) if n_quantiles else forecast

    size = settings.trainer.eval_batch_size
    return {tag_of(each.name): mean_loss(partial(as_quantiles, each), data.val, loss, size) for each in baselines}


def tag_of(name: str) -> str:
    """The name without spaces, for use in a tag."""
    return name.replace(" ", "_")
