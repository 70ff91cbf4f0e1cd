"""Continue training a network for some steps on later rows, with its optimiser's state."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rich.console import Console

from informer.config.schema import TrainConfig
from informer.config.training import Schedule
from informer.data.pipeline import Data
from informer.errors import InputError
from informer.models.base import ForecastModel
from informer.training.checkpointer import Checkpointer
from informer.training.distributed import Processes
from informer.training.initial import freeze
from informer.training.loop import fit
from informer.training.optim import learning_rate
from informer.training.session import Session
from informer.training.signals import StopRequest
from informer.training.state import State, check_training
from informer.training.tracking.tracker import Tracker

log = logging.getLogger("informer.update")


def last_rate(settings: TrainConfig, training: Mapping[str, Any], n_windows: int) -> float:
    """The learning rate of the last step of a run.

    Args:
        settings: configuration of the run.
        training: final state of its training.
        n_windows: number of its training windows.
    """
    progress = training["progress"]
    total = max(settings.trainer.n_steps(n_windows), 1)
    share_done = max(min(progress["step"], total) - 1, 0) / total
    return learning_rate(settings.optim, epoch=max(progress["epoch"], 1), done=share_done)


def tuned(
    model: ForecastModel,
    settings: TrainConfig,
    data: Data,
    training: Mapping[str, Any] | None,
    *,
    steps: int,
    lr: float,
    console: Console,
) -> dict[str, Any]:
    """Train the network for some steps, and load the weights with the lowest validation loss, initial ones included.

    Args:
        model: modified in place; on the device of the data.
        settings, data: configuration of the new run, and later windows to train and validate on.
        training: final training state of the older run, with the state of its optimiser.
        steps, lr: number of steps, and their constant learning rate.
        console: for the progress bar.

    Returns:
        The training state after the last step.

    Raises:
        InputError: the older run has no training state, or a step is not finite.
    """
    if training is None:
        raise InputError("steps: expected a run with its training state (last.pt), found none; omit steps")
    check_training(training)
    trainer = replace(settings.trainer, max_epochs=steps, max_steps=steps, max_minutes=None, patience=steps)
    tuning = replace(settings, trainer=trainer, optim=replace(settings.optim, lr=lr, schedule=Schedule.constant))
    freeze(model.train(), settings.trainer.freeze)
    best: dict[str, Any] = {}

    def save(state: State, is_best: bool) -> None:
        best["training"] = state.training() | {"events": 0}
        if is_best:
            best["weights"] = {name: tensor.clone() for name, tensor in state.scored.state_dict().items()}

    device = data.train.starts.device
    with StopRequest() as stop, Tracker({}, n_steps=steps, console=console) as tracker:
        checkpointer = Checkpointer(save, every_minutes=None, stop=stop, processes=Processes(), device=device)
        session = Session.begin(tuning, model, data, tracker=tracker, checkpointer=checkpointer, processes=Processes())
        session.state.continue_optimizer(training)
        fit(session)
    floor = model.non_negative
    model.load_state_dict(best["weights"])
    model.non_negative = floor
    model.eval()
    log.info(f"network: {steps} steps at learning rate {lr:.2g}; kept the weights of lowest validation loss")
    return best["training"]
