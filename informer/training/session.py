"""What the steps of a training run share: settings, data, state, and reporting."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isinf
from typing import Any

import torch
from torch import nn

from informer.config.schema import TrainConfig
from informer.data.pipeline import Data
from informer.models.base import ForecastModel
from informer.training.average import Average
from informer.training.checkpointer import Checkpointer
from informer.training.distributed import Processes
from informer.training.loss import Loss, build_loss
from informer.training.optim import build_optimizer, learning_rate
from informer.training.state import State
from informer.training.steps import n_steps
from informer.training.stopping import EarlyStopping
from informer.training.tracker import Tracker


@dataclass(kw_only=True, slots=True)
class Session:
    """One training run, from its first step to its last."""

    settings: TrainConfig
    data: Data
    """Training windows are learnt from, validation windows choose the best epoch."""
    state: State
    network: nn.Module
    """The state's model as called in training; several processes average its gradients."""
    loss: Loss
    tracker: Tracker
    checkpointer: Checkpointer
    processes: Processes
    ends_at: float
    """On the checkpointer's clock; infinite where training has no bound of time."""

    @classmethod
    def begin(
        cls,
        settings: TrainConfig,
        model: ForecastModel,
        data: Data,
        *,
        tracker: Tracker,
        checkpointer: Checkpointer,
        processes: Processes,
        resumed: Mapping[str, Any] | None = None,
    ) -> "Session":
        """A new or resumed training run.

        Args:
            settings: of the run, without open keys.
            model: updated in place, on the device of the data.
            tracker: receives curves and progress.
            checkpointer: saves the state after each epoch, at regular intervals, and when asked to stop.
            processes: that share every batch.
            resumed: `State.training` at the time of the save; None: a new run.
        """
        optimizer = build_optimizer(settings.optim, model)
        average = Average(model, settings.optim.ema) if settings.optim.ema else None
        stopping = EarlyStopping(settings.trainer.patience)
        state = State(model=model, optimizer=optimizer, stopping=stopping, average=average)
        if resumed is not None:
            state.restore(resumed)
        return cls(
            settings=settings,
            data=data,
            state=state,
            network=processes.wrap(model),
            loss=build_loss(settings.loss, has_gaps=data.train.store.has_gaps),
            tracker=tracker,
            checkpointer=checkpointer,
            processes=processes,
            ends_at=checkpointer.now() + 60.0 * (settings.trainer.max_minutes or inf),
        )

    @property
    def is_late(self) -> bool:
        """The time of training is used up; all processes ask at the same moment, and agree."""
        if isinf(self.ends_at):
            return False
        return bool(self.processes.largest([float(self.checkpointer.now() >= self.ends_at)], self.device)[0])

    @property
    def device(self) -> torch.device:
        """Device of data and model."""
        return self.data.train.starts.device

    @property
    def last_step(self) -> int:
        """The last step, unless the run stops early."""
        return n_steps(self.settings.trainer, len(self.data.train))

    @property
    def is_over(self) -> bool:
        """Whether no epoch is in progress or left."""
        progress = self.state.progress
        used_up = progress.epoch >= self.settings.trainer.max_epochs or progress.step >= self.last_step
        return progress.n_seen == 0 and (used_up or self.state.stopping.should_stop or self.is_late)

    def rate(self, done: int) -> float:
        """Learning rate of the step after `done` steps, in the current epoch."""
        return learning_rate(self.settings.optim, epoch=self.state.progress.epoch + 1, done=done / self.last_step)
