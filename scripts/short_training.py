"""Helpers of scripts that train many networks for a few steps in one process: exact numbers of steps, scores."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch
from rich.console import Console

from informer.config.schema import TrainConfig
from informer.data.pipeline import Data
from informer.inference.evaluate import evaluate, training_scale
from informer.models.base import ForecastModel, model_forecast
from informer.training.checkpointer import Checkpointer
from informer.training.distributed import Processes
from informer.training.loop import train_epoch
from informer.training.session import Session
from informer.training.signals import StopRequest
from informer.training.tracking.tracker import Tracker

CPU = torch.device("cpu")


def trained_by(settings: TrainConfig, model: ForecastModel, data: Data, steps: Sequence[int]) -> Iterator[float]:
    """Train on the CPU; yields the CPU seconds so far each time that another of `steps` (ascending) is reached.

    Raises:
        InputError: the loss or a gradient is no longer finite.
        Interrupted: by Ctrl-C or SIGTERM.
    """
    with Tracker({}, n_steps=0, console=Console(quiet=True)) as tracker, StopRequest() as stop:
        saver = Checkpointer(
            lambda *_: None, every_minutes=None, stop=stop, processes=Processes(), device=CPU
        )  # fmt: skip
        session = Session.begin(settings, model, data, tracker=tracker, checkpointer=saver, processes=Processes())
        progress, spent = session.state.progress, 0.0
        for last in steps:
            session.settings = replace(settings, trainer=replace(settings.trainer, max_epochs=last + 1, max_steps=last))
            started = time.process_time()
            while progress.step < last:
                train_epoch(session)
                if progress.step < last:  # the epoch is over, and another begins
                    progress.epoch, progress.n_seen = progress.epoch + 1, 0
            spent += time.process_time() - started
            yield spent


def scores_of(model: ForecastModel, data: Data, batch_size: int) -> dict[str, float]:
    """Errors of the test part in scaled units: mse, mae and others; the model is put into eval mode."""
    model.eval()
    errors = evaluate(partial(model_forecast, model), data.test, mase_scale=training_scale(data), batch_size=batch_size)
    return errors.scaled.overall()
