"""Trials: the linear forecast, or a network that starts from it, scored on the same validation windows.

They run in this process, or networks on a Ray cluster, several at a time. A trial is determined by its settings and the
data, so both engines find the same losses, up to the rounding of other processors or numbers of threads. Each is a row
in search.csv of the run directory, which is written after every trial.
"""

import csv
import io
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, final

import torch
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from informer.base import progress
from informer.base.errors import InputError, counted, reason_of
from informer.base.files import write_atomic
from informer.base.runtime import seed_everything
from informer.base.start import Interrupted, StopRequest
from informer.build import build_data
from informer.config.commands import EngineName
from informer.config.conversion import read_text
from informer.config.data import DATE_FIELDS, Calendar
from informer.config.model import InformerConfig, ModelConfig
from informer.config.training import SEARCHED, TrainConfig
from informer.data.calendar import mark_fields
from informer.data.dataset import Data, Source
from informer.inference.ray_engine import capacity, cluster
from informer.linear.fit import BLOCKS
from informer.linear.maps import choose_varying, linear_fit
from informer.linear.settings import in_words
from informer.networks.models.base import ModelDims
from informer.networks.models.linear import LinearMaps, LinearModelConfig, maps_config
from informer.scoring.scores import baselines_for
from informer.search.space import Values, cheapest, with_values
from informer.training.combination import can_tune
from informer.training.curves import Tracker
from informer.training.loop import Session, train_epoch, validate
from informer.training.start import FittedMaps, fit_skip, freeze, new_network
from informer.training.state import Checkpointer, State

MOST_SHOWN = 12
"""Trials shown in the table, best first; search.csv contains all."""

HEADINGS = {
    "seq_len": "seq_len",
    "model.d_model": "width",
    "model.dropout": "dropout",
    "model.embed": "marks",
    "model.patch_len": "patch",
    "model.channel_independent": "indep",
    "optim.lr": "lr",
    "optim.ema": "ema",
    "loss.training": "loss",
}
"""Columns of the table by configuration key; the other values follow from these."""

MEASURED, LINEAR = ("steps", "val_loss", "seconds", "closing_seconds"), "linear."
"""Columns of every trial, and what the further ones of the linear forecast begin with."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One trial.

    Args:
        values: values of the searched keys, by dotted key.
        steps: optimiser steps; 0 for the linear forecast.
        val_loss: training loss over the validation windows; infinite if training failed.
        seconds: duration of the trial.
        closing_seconds: estimated time of everything after training, without fits of linear maps.
        start: of a trial of the linear forecast.
        fit_seconds: time to fit the maps of the linear forecast once they are chosen.
    """

    values: Mapping[str, Any]
    steps: int
    val_loss: float
    seconds: float
    closing_seconds: float = 0.0
    start: Start = field(default_factory=lambda: Start(0, [], ""))
    fit_seconds: float = 0.0

    @property
    def key(self) -> tuple[str, ...]:
        """Identifies a trial within a search."""
        return trial_key(self.values, self.steps)

    @property
    def cells(self) -> dict[str, str]:
        """The row of the file, numbers in full precision."""
        measured = {name: getattr(self, name) for name in MEASURED}
        cells = {name: str(value) for name, value in {**self.values, **measured}.items()}
        if self.steps:
            return cells
        start = {**self.start._asdict(), "fit_seconds": self.fit_seconds}
        return cells | {f"{LINEAR}{name}": json.dumps(value) for name, value in start.items()}


def trial_key(values: Mapping[str, Any], steps: int) -> tuple[str, ...]:
    """Values and steps as text, as in the file."""
    return (*(str(values.get(key, "")) for key in SEARCHED), str(steps))


def _trial_of(row: Mapping[str, str]) -> Trial:
    """The trial of a row; raises KeyError or ValueError if the row is damaged."""
    values: dict[str, Any] = {key: row[key] for key in SEARCHED if row.get(key)}
    measured: dict[str, Any] = {name: float(row[name]) for name in MEASURED if name != "steps"}
    trial = Trial(values=values, steps=int(row["steps"]), **measured)
    if trial.steps:
        return trial
    kinds = (int, list, str, bool, list, float, float)
    linear = [json.loads(row[f"{LINEAR}{name}"]) for name in (*Start._fields, "fit_seconds")]
    if wrong := [kind.__name__ for kind, value in zip(kinds, linear, strict=True) if not isinstance(value, kind)]:
        raise ValueError(f"linear forecast: no {wrong[0]}")
    start = Start(*linear[:-1])
    return replace(
        trial, values={"seq_len": start.seq_len} if "seq_len" in values else {}, start=start, fit_seconds=linear[-1]
    )


@final
@dataclass(slots=True)
class Record:
    """The trials of a search.

    Args:
        path: the file, rewritten after each trial; trials of an interrupted search are read from it.
        trials: trials of this process, including those taken from the file.
    """

    path: Path
    trials: list[Trial] = field(default_factory=list)
    before: dict[tuple[str, ...], Trial] = field(init=False)
    """Those of the file, by `Trial.key`."""

    def __post_init__(self) -> None:
        text = read_text(self.path) if self.path.exists() else ""
        try:
            self.before = {trial.key: trial for trial in map(_trial_of, csv.DictReader(io.StringIO(text), restval=""))}
        except (csv.Error, KeyError, TypeError, ValueError) as error:
            raise InputError(f"{self.path}: expected the trials of a search, found: {reason_of(error)}") from error

    def known(self, values: Mapping[str, Any], steps: int) -> Trial | None:
        """The trial if the file contains it, else None."""
        trial = self.before.get(trial_key(values, steps))
        return None if trial is None else replace(trial, values=values)

    def add(self, trial: Trial) -> None:
        """Store a finished trial and report progress."""
        self.trials.append(trial)
        linear = min((recorded.val_loss for recorded in self.trials if not recorded.steps), default=None)
        best = min(recorded.val_loss for recorded in self.trials)
        progress.report(best=best, baseline=linear, baseline_name="linear forecast")
        text = io.StringIO()
        rows = self.before | {recorded.key: recorded for recorded in self.trials}
        names = [key for key in SEARCHED if any(key in recorded.values for recorded in rows.values())]
        start = [f"{LINEAR}{name}" for name in (*Start._fields, "fit_seconds")]
        writer = csv.DictWriter(text, [*names, *MEASURED, *start], lineterminator="\n", restval="")
        writer.writeheader()
        writer.writerows(recorded.cells for recorded in rows.values())
        write_atomic(self.path, text.getvalue())

    def table(self, chosen: Trial) -> Table:
        """A table of the linear forecast and the best networks, with the chosen trial in bold."""
        start = [trial for trial in self.trials if not trial.steps]
        networks = sorted((trial for trial in self.trials if trial.steps), key=lambda trial: trial.val_loss)
        title = f"search: the linear forecast, {counted(len(networks), 'trial')} of networks"
        table = Table(title=title, title_justify="left", box=SIMPLE, padding=0)  # as wide as a terminal, 80 columns
        headings = {key: name for key, name in HEADINGS.items() if any(key in trial.values for trial in self.trials)}
        for heading in (*headings.values(), "steps", "val loss", "s"):
            table.add_column(heading, justify="right")
        for trial in [*start, *networks[:MOST_SHOWN]]:
            cells = [f"{trial.values.get(key, '')}" for key in headings]
            cells.append(str(trial.steps) if trial.steps else "linear")
            cells += [f"{trial.val_loss:.5f}" if math.isfinite(trial.val_loss) else "failed", f"{trial.seconds:.1f}"]
            table.add_row(*cells, style="bold" if trial is chosen else None, end_section=trial in start)
        return table


MOST_WINDOWS, MOST_FORECASTS = 2048, 65_536
"""Most validation windows of a trial, and most windows times target columns."""


FIT_SHARE = 0.03
"""Largest share of the search time for the moments of the chosen maps; solving for separate maps takes several times as
long."""

LEAST_FIT = 0.5
"""Seconds that they may take in any case."""


Shape = tuple[object, ...]
"""Settings that determine how long a forecast takes."""


class OutOfTime(Exception):
    """A trial has used up its time."""


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
        progress.report("searching: choosing a linear forecast")
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
            usual = mark_fields(frequency, Calendar(settings.model.marks))
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
        maps = model.maps
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
        progress.report(what)
        data, maps = self._fit(settings)
        seed_everything(settings.seed)  # the weights from which a run with the same seed starts
        model = new_network(settings, data)
        maps.give(model)
        freeze(model, settings.trainer.freeze)
        trainer = replace(settings.trainer, max_epochs=max(steps, 1), max_steps=steps)
        checkpointer = Checkpointer(self._give_up, every_minutes=seconds / 60, stop=self.stop, clock=self.clock)
        with Tracker({}, n_steps=steps, console=Console(quiet=True), activity=what) as tracker:
            run = replace(settings, trainer=trainer)
            session = Session.begin(run, model.to(self.device), data, tracker=tracker, checkpointer=checkpointer)
            state, loss, seconds = session.state, math.inf, 0.0
            with suppress(InputError, torch.OutOfMemoryError):  # loss or gradient not finite, or too little memory
                while state.step < session.last_step:
                    train_epoch(session)
                    state.epoch, state.n_seen = state.epoch + 1, 0
                began = self.clock()
                loss = validate(session)
                seconds = self.clock() - began
        self._paces[_shape_of(settings, steps)] = seconds / len(data.val)
        return loss if math.isfinite(loss) else math.inf

    def closing_seconds(self, values: Values, *, steps: int) -> float:
        """Seconds for everything after training: forecasts of all parts that are scored, and the baselines.

        Networks are scored on the test, calibration and validation parts, the linear forecast on test and validation.
        """
        settings = with_values(self.settings, values)
        data = self._fit(settings)[0]
        scored = [data.test, data.calibration, data.val] if steps else [data.test, data.val]
        windows = sum(len(split) for split in scored if split is not None)
        if self._baseline is None:
            began = self.clock()
            baselines_for(data)
            self._baseline = self.clock() - began
        return windows * self._paces.get(_shape_of(settings, steps), 0.0) + self._baseline

    def can_tune(self, values: Values) -> bool:
        """Whether the rows that a trained network is not chosen on can judge the pretrained one after training."""
        data, _ = self._fit(with_values(self.settings, values))
        return can_tune([data.calibration or data.val], data)

    def n_windows(self, values: Values) -> int:
        """Number of training windows."""
        return len(self._fit(with_values(self.settings, values))[0].train)

    def maps(self, settings: TrainConfig) -> FittedMaps | None:
        """The maps with which a run with these settings begins, if they were fitted."""
        return self._fitted.get(_maps_key(settings), (None, None))[1]

    def _of_length(self, seq_len: int) -> TrainConfig:
        return with_values(self.settings, cheapest(self.settings, seq_len))

    def _shape(self, seq_len: int, config: LinearModelConfig) -> LinearMaps:
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
            return LinearMaps(config, dims)

    def _fit(self, settings: TrainConfig) -> tuple[Data, FittedMaps]:
        key = _maps_key(settings)
        if key not in self._fitted:
            data = build_data(settings, self.device, source=self.source)
            model = new_network(settings, data)
            note = fit_skip(model, settings, data)
            most = max(min(MOST_WINDOWS, MOST_FORECASTS // len(data.targets)), 1)
            assert model.maps is not None, "the search is of networks with linear maps"
            fitted = FittedMaps(model.maps.state_dict(), note or "")
            self._fitted[key] = replace(data, val=data.val.thinned(most)), fitted
        return self._fitted[key]

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


POLL = 0.2
"""Seconds between looks at a stop request while waiting for a trial."""

RETRIES = 2
"""How often a worker that dies is started again, and its trial repeated; more often, memory is probably short."""


class Local:
    """Runs trials in this process, one after the other."""

    n_parallel = 1
    """Number of trials to begin before waiting for the first of them."""

    def begin(self, runner: TrialRunner, values: Values, *, steps: int, seconds: float) -> Callable[[], Trial]:
        """Begin a trial; here it runs when its result is asked for.

        Args:
            runner: knows the settings, the data and the linear forecast from which networks start.
            values, steps, seconds: see `TrialRunner.trial`.

        Returns:
            Waits for the trial, and raises what `TrialRunner.trial` raises.
        """
        return partial(measured, runner, values, steps=steps, seconds=seconds)


def measured(runner: TrialRunner, values: Values, *, steps: int, seconds: float) -> Trial:
    """A trial with its duration."""
    began = runner.clock()
    loss = runner.trial(values, steps=steps, seconds=seconds)
    taken, closing = runner.clock() - began, runner.closing_seconds(values, steps=steps)
    return Trial(values=values, steps=steps, val_loss=loss, seconds=taken, closing_seconds=closing)


@contextmanager
def trial_engine(settings: TrainConfig, device: torch.device) -> Iterator[Local]:
    """The configured engine; a local Ray cluster ends with the context.

    Raises:
        InputError: Ray is not installed, or there is no cluster.
    """
    if settings.engine is EngineName.local:
        yield Local()
        return
    with cluster(settings.workers):
        unit = "GPU" if device.type == "cuda" else "CPU"
        most = capacity(unit)  # further actors would wait forever
        yield OnRay(min(settings.workers or most, most), unit)


@final
class OnRay(Local):
    """On the connected Ray cluster, by actors that each hold the data, one CPU (or GPU) and one thread.

    Args:
        n_parallel: number of actors.
        unit: what an actor needs, "CPU" or "GPU".
    """

    def __init__(self, n_parallel: int, unit: str) -> None:
        self.n_parallel, self._unit = n_parallel, unit
        self._actors: list[Any] = []
        self._begun = 0

    def begin(self, runner: TrialRunner, values: Values, *, steps: int, seconds: float) -> Callable[[], Trial]:
        """See `Local`."""
        if not self._actors:
            self._start(runner)
        actor = self._actors[self._begun % self.n_parallel]
        self._begun += 1
        return partial(self._wait, runner.stop, actor.measured.remote(dict(values), steps, seconds))

    def _start(self, runner: TrialRunner) -> None:
        import ray

        progress.report(f"searching: {counted(self.n_parallel, 'worker')} on Ray")
        source = ray.put(runner.source)
        make = ray.remote(
            num_cpus=1, num_gpus=int(self._unit == "GPU"), max_restarts=RETRIES, max_task_retries=RETRIES
        )(_Worker).remote  # fmt: skip
        device = "cuda" if self._unit == "GPU" else runner.device.type
        self._actors = [make(runner.settings, source, device) for _ in range(self.n_parallel)]

    def _wait(self, stop: StopRequest, trial: Any) -> Trial:
        import ray
        from ray.exceptions import RayError, RayTaskError

        while not ray.wait([trial], timeout=POLL)[0]:
            if stop.signal:
                raise Interrupted(stop.signal)
        try:
            result: Trial | None = ray.get(trial)
        except RayTaskError as error:
            raise error.cause from error
        except RayError as error:
            raise InputError(
                f"engine=ray: a worker of the search was lost {RETRIES + 1} times ({type(error).__name__}), perhaps "
                "because memory was short; continue the search with: informer train resume=RUN"
            ) from error
        if result is None:
            raise OutOfTime
        return result


@final
class _Worker:
    """An actor: fits the linear forecast once, then runs trials."""

    def __init__(self, settings: TrainConfig, source: Source, device: str) -> None:
        torch.set_num_threads(1)  # as many as Ray reserves
        self._runner = TrialRunner(settings, source, torch.device(device), StopRequest())
        lookback = max(maps["lookback"] for maps in settings.model.maps)
        self._runner.n_windows(cheapest(settings, lookback))  # so that no trial is charged for the fit

    def measured(self, values: dict[str, Any], steps: int, seconds: float) -> Trial | None:
        """The trial; None if it took too long."""
        try:
            return measured(self._runner, values, steps=steps, seconds=seconds)
        except OutOfTime:
            return None
