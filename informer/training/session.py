"""Shared objects of a training run: settings, data, state and reporting."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isinf
from typing import Any

import torch
from torch import nn

from informer.config.schema import TrainConfig
from informer.data.pipeline import Data
from informer.models.base import ForecastModel
from informer.training.checkpointer import Checkpointer
from informer.training.compiling import Compiled
from informer.training.distributed import Processes
from informer.training.loss import Loss, build_loss
from informer.training.optim import build_optimizer, learning_rate
from informer.training.state import State
from informer.training.stopping import EarlyStopping
from informer.training.tracking.tracker import Tracker
from informer.training.weight_average import WeightAverage


@dataclass(kw_only=True, slots=True)
class Session:
    """One training run, from its first step to its last."""

    settings: TrainConfig
    data: Data
    """Training windows for the steps, validation windows to choose the best epoch."""
    state: State
    network: nn.Module
    """The state's model as called in training steps: compiled, and averaging gradients over processes, if so set."""
    loss: Loss
    """Loss of a training step."""
    val_loss: Loss
    """Loss of the validation windows."""
    tracker: Tracker
    checkpointer: Checkpointer
    processes: Processes
    ends_at: float
    """End of training on the checkpointer's clock; infinite without a time limit."""

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
            settings: complete configuration of the run.
            model: updated in place, on the device of the data.
            tracker: receives curves and progress.
            checkpointer: saves the state after each epoch, at regular intervals, and on a stop request.
            processes: processes that share every batch.
            resumed: saved `State.training()`; None: a new run.
        """
        optimizer = build_optimizer(settings.optim, model)
        average = WeightAverage(model, settings.optim.ema) if settings.optim.ema else None
        stopping = EarlyStopping(settings.trainer.patience)
        state = State(model=model, optimizer=optimizer, stopping=stopping, average=average)
        if resumed is not None:
            state.restore(resumed)
        network = processes.wrap(model)
        return cls(
            settings=settings,
            data=data,
            state=state,
            network=Compiled(network, data.train.starts.device) if settings.compile else network,
            loss=build_loss(settings.loss.of_steps, has_gaps=data.train.store.has_gaps),
            val_loss=build_loss(settings.loss, has_gaps=data.train.store.has_gaps),
            tracker=tracker,
            checkpointer=checkpointer,
            processes=processes,
            ends_at=checkpointer.now() + 60.0 * (settings.trainer.max_minutes or inf),
        )

    @property
    def is_late(self) -> bool:
        """Whether the time limit is reached; a collective operation, so all processes must call it together."""
        if isinf(self.ends_at):
            return False
        return bool(self.processes.maximum([float(self.checkpointer.now() >= self.ends_at)], self.device)[0])

    @property
    def device(self) -> torch.device:
        """Device of data and model."""
        return self.data.train.starts.device

    @property
    def last_step(self) -> int:
        """The last step, unless the run stops early."""
        return self.settings.trainer.n_steps(len(self.data.train))

    @property
    def is_over(self) -> bool:
        """Whether no epoch is in progress or left."""
        progress = self.state.progress
        used_up = progress.epoch >= self.settings.trainer.max_epochs or progress.step >= self.last_step
        return progress.n_seen == 0 and (used_up or self.state.stopping.should_stop or self.is_late)

    def rate(self, done: int) -> float:
        """Learning rate of the step after `done` steps, in the current epoch."""
        return learning_rate(
            self.settings.optim,
            epoch=self.state.progress.epoch + 1,
            done=done / self.last_step,
        )
