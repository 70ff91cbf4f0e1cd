"""Trials: the linear forecast, or a network that starts from it, scored on the same validation windows."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, NoReturn, final

import torch
from rich.console import Console

from informer import progress
from informer.build import build_data
from informer.config.calendar import DATE_FIELDS
from informer.config.model import InformerConfig, ModelConfig
from informer.config.schema import TrainConfig
from informer.data.calendar import mark_fields
from informer.data.pipeline import Data
from informer.data.sources import Source
from informer.errors import InputError
from informer.inference.evaluate import fit_baselines
from informer.inference.quantile_forecasts import calibrate
from informer.linear.fit import BLOCKS
from informer.linear.fold import linear_fit
from informer.linear.residuals import choose_varying
from informer.linear.shares import maps_of
from informer.linear.strengths import in_words
from informer.models.base import Attentions, ForecastModel, ModelDims
from informer.models.linear import Linear, LinearModelConfig, maps_config
from informer.progress import Status
from informer.runtime import seed_everything
from informer.search.space import Values, cheapest, with_values
from informer.training.checkpointer import Checkpointer
from informer.training.distributed import Processes
from informer.training.initial import freeze, new_network
from informer.training.linear_skip import FittedMaps, fit_skip, start_of
from informer.training.loop import train_epoch, validate
from informer.training.session import Session
from informer.training.signals import StopRequest
from informer.training.state import State
from informer.training.tracking.tracker import Tracker

MOST_WINDOWS, MOST_FORECASTS = 2048, 65_536
"""Most validation windows of a trial, and most windows times target columns."""


FIT_SHARE = 0.03
"""Largest share of the search time for the moments of the chosen maps; solving for separate maps takes several times as
long."""

LEAST_FIT = 0.5
"""Seconds that they may take in any case."""


def _no_attention(spec: object) -> NoReturn:
    raise NotImplementedError("linear maps have no attention")


NO_ATTENTION = Attentions(_no_attention, _no_attention, _no_attention)


Shape = tuple[object, ...]
"""Settings that determine how long a forecast takes."""


class OutOfTime(Exception):
    """A trial has used up its time."""


class Start(NamedTuple):
    """The closed-form linear forecast from which every network starts."""

    seq_len: int
    """Lookback window in rows."""
    maps: list[dict[str, Any]]
    """Penalties of its maps, in the form of the key `model.maps`."""
    note: str
    """The penalties and the reason for them as text."""
    floor: bool = False
    """Whether forecasts are limited to at least the smallest value of their lookback window."""
    varying: Sequence[str] = ()
    varying_penalty: float = 1.0
    """What weights vary with, see `model.varying`, and their penalty."""


@final
@dataclass(slots=True)
class TrialRunner:
    """Runs trials on one dataset.

    Args:
        settings: configuration of the run, with open keys.
        source: series of the trials.
        device: device of the trials.
        stop: reports Ctrl-C and SIGTERM.
        clock: returns the current time in seconds.
    """

    settings: TrainConfig
    source: Source
    device: torch.device
    stop: StopRequest
    clock: Callable[[], float] = time.monotonic
    _paces: dict[Shape, float] = field(default_factory=dict)
    """Seconds per forecast."""
    _baseline: float | None = None
    _given: ModelConfig = field(init=False)
    """Settings of the model before the search."""
    _fitted: dict[Shape, tuple[Data, FittedMaps]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._given = self.settings.model

    def start(self, seq_lens: Sequence[int], *, seconds: float) -> Start:
        """Choose the linear forecast by leave-one-block-out cross-validation over training and validation rows.

        Args:
            seq_lens: lookback windows to choose from, in increasing order.
            seconds: time limit; after it the best choice so far is returned.
        """
        end = self.clock() + seconds
        progress.report(Status(doing="searching: choosing a linear forecast"))
        config = LinearModelConfig()
        with_own_maps = [rows for rows in seq_lens if self._shape(rows, config).has_own_maps]
        lookbacks = with_own_maps or list(seq_lens)
        settings = self._of_length(lookbacks[-1])
        data = build_data(settings, self.device, source=self.source)
        fit = linear_fit(self._shape(lookbacks[-1], config), config, data, lookbacks)
        most = max(FIT_SHARE * seconds, LEAST_FIT)
        strengths, why = fit.strengths(lambda: -math.inf if self.stop.signal else end - self.clock(), most)
        note = f"{in_words(strengths)}{why}"
        return Start(
            max(strength.lookback for strength in strengths), [strength.to_plain() for strength in strengths], note
        )

    def begin_with(self, start: Start) -> None:
        """Start all later networks from this linear forecast, without the dates that it does not need.

        From the time of year a network can learn single dates by heart, so it reads these fields only if the maps do.
        """
        settings, frequency = self.settings, self.source.panel[0].frequency
        if settings.dataset.calendar is None and not any("year" in maps["groups"] for maps in start.maps):
            usual = mark_fields(frequency, settings.model.marks)
            fields = [name for name in usual if name not in DATE_FIELDS]
            if fields and len(fields) < len(usual):
                settings = replace(settings, dataset=replace(settings.dataset, calendar=fields))
        given = self._given
        model = replace(settings.model, maps=start.maps, floor=start.floor or given.floor, varying=given.varying)
        if start.varying:
            model = replace(model, varying=[*start.varying], varying_penalty=start.varying_penalty)
        self.settings = replace(settings, model=model)

    def choose_varying(self, seq_len: int) -> tuple[list[str], float]:
        """What the weights of the linear forecast should vary with, from errors on held-out blocks; their penalty."""
        settings = self._of_length(seq_len)
        data, fitted = self._fit(settings)
        model = new_network(settings, data)
        fitted.give(model)
        maps = maps_of(model)
        assert maps is not None, "the search is of networks with linear maps"
        return choose_varying(maps, maps_config(settings.model), data, n_blocks=BLOCKS)

    def trial(self, values: Values, *, steps: int, seconds: float) -> float:
        """Validation loss of a network after `steps` optimiser steps; infinite if training fails.

        The schedule is that of a run with this number of steps. With 0 steps the loss is that of the linear forecast.

        Raises:
            OutOfTime: training took more than `seconds`.
            Interrupted: on a signal.
        """
        settings = with_values(self.settings, values)
        what = f"searching: {settings.seq_len} rows of history, {'a network' if steps else 'linear forecast'}"
        progress.report(Status(doing=what))
        data, maps = self._fit(settings)
        model = self._network(settings, data, maps)
        trainer = replace(settings.trainer, max_epochs=max(steps, 1), max_steps=steps)
        checkpointer = Checkpointer(
            self._give_up, every_minutes=seconds / 60, stop=self.stop, processes=Processes(), device=self.device,
            clock=self.clock,
        )  # fmt: skip
        with Tracker({}, n_steps=steps, console=Console(quiet=True), activity=what) as tracker:
            session = Session.begin(
                replace(settings, trainer=trainer), model, data, tracker=tracker, checkpointer=checkpointer,
                processes=Processes(),
            )  # fmt: skip
            loss, seconds = _trained_loss(session, self.clock)
        self._paces[_shape_of(settings, steps)] = seconds / len(data.val)
        return loss

    def closing_seconds(self, values: Values, *, steps: int) -> float:
        """Seconds for everything after training: forecasts of all parts that are scored, and the baselines.

        Networks are scored on the test, calibration and validation parts, the linear forecast on test and validation.
        """
        settings = with_values(self.settings, values)
        data = self._fit(settings)[0]
        scored = [data.test, data.calibration, data.val] if steps else [data.test, data.val]
        windows = sum(len(split) for split in scored if split is not None)
        return windows * self._paces.get(_shape_of(settings, steps), 0.0) + self._baseline_seconds(data)

    def _baseline_seconds(self, data: Data) -> float:
        if self._baseline is None:
            began = self.clock()
            calibrate(fit_baselines(data), data)
            self._baseline = self.clock() - began
        return self._baseline

    def n_windows(self, values: Values) -> int:
        """Number of training windows."""
        return len(self._fit(with_values(self.settings, values))[0].train)

    def maps(self, settings: TrainConfig) -> FittedMaps | None:
        """The maps with which a run with these settings begins, if they were fitted."""
        _, maps = self._fitted.get(_maps_key(settings), (None, None))
        return maps if maps is not None and maps.weights else None

    def _of_length(self, seq_len: int) -> TrainConfig:
        return with_values(self.settings, cheapest(self.settings, seq_len))

    def _shape(self, seq_len: int, config: LinearModelConfig) -> Linear:
        """The linear maps for a lookback window, on the meta device."""
        columns, n = self.source.columns, len(self.source.panel)
        dims = ModelDims(
            enc_in=len(columns.inputs),
            c_out=len(columns.targets),
            mark_sizes=(),
            seq_len=seq_len,
            label_len=0,
            pred_len=self.settings.pred_len,
            n_series=n,
            categories=tuple(len(self.source.labels.get(name, ())) for name in columns.inputs),
        )
        with torch.device("meta"):
            return Linear(config, dims, NO_ATTENTION)

    def _fit(self, settings: TrainConfig) -> tuple[Data, FittedMaps]:
        key = _maps_key(settings)
        if key not in self._fitted:
            data = build_data(settings, self.device, source=self.source)
            model = new_network(settings, data)
            note = fit_skip(model, settings, data)
            most = max(min(MOST_WINDOWS, MOST_FORECASTS // len(data.targets)), 1)
            self._fitted[key] = replace(data, val=data.val.thinned(most)), FittedMaps(start_of(model), note or "")
        return self._fitted[key]

    def _network(self, settings: TrainConfig, data: Data, maps: FittedMaps) -> ForecastModel:
        """The network with the weights from which a run with the same seed starts."""
        seed_everything(settings.seed)
        model = new_network(settings, data)
        model.load_state_dict(maps.weights, strict=False)
        freeze(model, settings.trainer.freeze)
        return model.to(self.device)

    def _give_up(self, state: State, is_best: bool) -> None:
        if not self.stop.signal:  # on a signal the checkpointer itself raises Interrupted
            raise OutOfTime


def _maps_key(settings: TrainConfig) -> Shape:
    """Settings that determine the linear maps of a search."""
    return settings.seq_len, settings.model.marks, *settings.model.varying


def _shape_of(settings: TrainConfig, steps: int) -> Shape:
    model = settings.model
    assert isinstance(model, InformerConfig), "see TrainConfig.problems"
    return settings.seq_len, bool(steps), model.d_model, model.patch_len, model.channel_independent


def _trained_loss(session: Session, clock: Callable[[], float]) -> tuple[float, float]:
    """Validation loss after the last step, and the seconds of that validation."""
    progress = session.state.progress
    try:
        while progress.step < session.last_step:
            train_epoch(session)
            progress.epoch, progress.n_seen = progress.epoch + 1, 0
        began = clock()
        loss = validate(session)
    except (InputError, torch.OutOfMemoryError):  # loss or gradient not finite, or not enough GPU memory
        return math.inf, 0.0
    return loss if math.isfinite(loss) else math.inf, clock() - began
