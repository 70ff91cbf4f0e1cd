"""One trial: ridge regression alone, or a network beside it for some steps; both on the same validation windows."""

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import final

import torch
from rich.console import Console

from informer.build import SLOTS, build_data, build_model, dims_of
from informer.config import TrainConfig
from informer.data.pipeline import Data, Source
from informer.errors import InputError
from informer.inference.baselines import RidgeForecast, fit_ridge
from informer.layers.embedding import CalendarEmbed
from informer.model import Informer
from informer.runtime import seed_everything
from informer.search.space import Values, with_values
from informer.training.distributed import Processes
from informer.training.early_stopping import EarlyStopping
from informer.training.freezing import freeze
from informer.training.highway import set_highway
from informer.training.keeper import Keeper
from informer.training.loop import Session, train_epoch, validate
from informer.training.loss import build_loss
from informer.training.optim import build_optimizer
from informer.training.signals import StopRequest
from informer.training.state import State
from informer.training.tracker import Tracker

MOST_WINDOWS, MOST_FORECASTS = 2048, 65_536
"""Validation windows that judge a trial, and those times targets."""


class OutOfTime(Exception):
    """A trial took longer than it may."""


@final
@dataclass(slots=True)
class Laboratory:
    """Makes trials of one dataset.

    Args:
        settings: of the run, with keys left open.
        source: the series that trials are made of.
        device: where.
        stop: Ctrl-C and SIGTERM.
        clock: seconds since some moment.
    """

    settings: TrainConfig
    source: Source
    device: torch.device
    stop: StopRequest
    clock: Callable[[], float] = time.monotonic
    _fitted: dict[tuple[int, CalendarEmbed], tuple[Data, RidgeForecast]] = field(default_factory=dict)

    def trial(self, values: Values, *, steps: int, seconds: float) -> tuple[float, float]:
        """Loss of a network after so many steps, as a run of that length would have it, and the penalty of its ridge.

        After none it is ridge alone. The loss of a network that fails is infinite.

        Raises:
            OutOfTime: not done after `seconds`.
            Interrupted: by a signal.
        """
        settings = with_values(self.settings, values)
        data, ridge = self._fit(settings)
        model = self._network(settings, data, ridge)
        optimizer = build_optimizer(settings.optim, model)
        state = State(model=model, optimizer=optimizer, stopping=EarlyStopping(settings.trainer.patience))
        trainer = replace(settings.trainer, max_epochs=max(steps, 1), max_steps=steps)
        keeper = Keeper(
            self._give_up, every_minutes=seconds / 60, stop=self.stop, processes=Processes(), device=self.device,
            clock=self.clock,
        )  # fmt: skip
        with Tracker(Path(os.devnull), n_steps=steps, console=Console(quiet=True)) as tracker:
            session = Session(
                state=state, network=model, data=data, device=self.device, trainer=trainer, optim=settings.optim,
                loss=build_loss(settings.loss), precision=settings.precision, seed=settings.seed, tracker=tracker,
                keeper=keeper, processes=Processes(),
            )  # fmt: skip
            return _trained_loss(session), ridge.penalty

    def n_windows(self, values: Values) -> int:
        """Training windows with this history."""
        return len(self._fit(with_values(self.settings, values))[0].train)

    def keep(self, seq_lens: list[int]) -> None:
        """Forget the data laid out for other histories."""
        self._fitted = {key: fitted for key, fitted in self._fitted.items() if key[0] in seq_lens}

    def _fit(self, settings: TrainConfig) -> tuple[Data, RidgeForecast]:
        key = settings.seq_len, settings.model.embed
        if key not in self._fitted:
            data = build_data(settings, self.device, source=self.source)
            same = (ridge for (seq_len, _), (_, ridge) in self._fitted.items() if seq_len == settings.seq_len)
            ridge = next(same, None) or fit_ridge(data.train, data.val, data.columns.positions(data.targets))
            most = max(min(MOST_WINDOWS, MOST_FORECASTS // len(data.targets)), 1)
            self._fitted[key] = replace(data, val=data.val.thinned(most)), ridge
        return self._fitted[key]

    def _network(self, settings: TrainConfig, data: Data, ridge: RidgeForecast) -> Informer:
        """As a run under the same seed begins it."""
        seed_everything(settings.seed)
        slots = {slot: getattr(settings, slot) for slot in SLOTS}
        model = build_model(settings.model, dims_of(data), **slots, quantiles=settings.loss.quantiles).to(self.device)
        assert model.highway is not None
        set_highway(model.highway.weight, ridge)
        freeze(model, settings.trainer.freeze)
        return model

    def _give_up(self, state: State, is_best: bool) -> None:
        if not self.stop.signal:  # which the keeper answers itself
            raise OutOfTime


def _trained_loss(session: Session) -> float:
    """Validation loss after the last step."""
    progress = session.state.progress
    try:
        while progress.step < session.last_step:
            train_epoch(session)
            progress.epoch, progress.n_seen = progress.epoch + 1, 0
        loss = validate(session)
    except (InputError, torch.OutOfMemoryError):  # a loss or a gradient that is not finite; a GPU too small
        return math.inf
    return loss if math.isfinite(loss) else math.inf
