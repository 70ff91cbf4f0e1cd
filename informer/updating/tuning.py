"""Some more steps of a trained network on later rows, from the state of its optimiser."""

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
from informer.training.freezing import freeze
from informer.training.loop import fit
from informer.training.optim import learning_rate
from informer.training.session import Session
from informer.training.signals import StopRequest
from informer.training.state import State, check_training
from informer.training.steps import n_steps
from informer.training.tracker import Tracker

log = logging.getLogger("informer.update")


def last_rate(settings: TrainConfig, training: Mapping[str, Any], n_windows: int) -> float:
    """The learning rate of the last step that a run made.

    Args:
        settings: of the run.
        training: its state at its end.
        n_windows: training windows that it had.
    """
    progress = training["progress"]
    total = max(n_steps(settings.trainer, n_windows), 1)
    done = max(min(progress["step"], total) - 1, 0) / total
    return learning_rate(settings.optim, epoch=max(progress["epoch"], 1), done=done)


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
    """Train the network for some steps; it ends with the weights of the lowest validation loss, the start included.

    Args:
        model: in place, on the device of the data.
        settings: of the run.
        data: later windows to train and validate on.
        training: the state of training at the end of the older run; its optimiser continues.
        steps, lr: how many, and their constant learning rate.

    Returns:
        The state of training after them.

    Raises:
        InputError: the older run has no such state, or a step is not finite.
    """
    if training is None:
        raise InputError("steps: expected a run with the state of its training (last.pt), found none; leave steps out")
    check_training(training)
    trainer = replace(settings.trainer, max_epochs=steps, max_steps=steps, max_minutes=None, patience=steps)
    own = replace(settings, trainer=trainer, optim=replace(settings.optim, lr=lr, schedule=Schedule.constant))
    freeze(model.train(), settings.trainer.freeze)
    best: dict[str, Any] = {}

    def save(state: State, is_best: bool) -> None:
        best["training"] = state.training() | {"events": 0}
        if is_best:
            best["weights"] = {name: part.clone() for name, part in state.scored.state_dict().items()}

    device = data.train.starts.device
    with StopRequest() as stop, Tracker({}, n_steps=steps, console=console) as tracker:
        checkpointer = Checkpointer(save, every_minutes=None, stop=stop, processes=Processes(), device=device)
        session = Session.begin(own, model, data, tracker=tracker, checkpointer=checkpointer, processes=Processes())
        session.state.continue_optimizer(training)
        fit(session)
    floor = model.non_negative
    model.load_state_dict(best["weights"])
    model.non_negative = floor
    model.eval()
    log.info(f"the network took {steps} steps at a learning rate of {lr:.2g}, and has its best weights on validation")
    return best["training"]
