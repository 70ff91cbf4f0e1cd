"""The search of `model=auto`: a closed-form linear forecast first, then networks that start from it.

Leave-one-block-out cross-validation over the training and validation rows chooses the lookback window of the linear
forecast, among lengths suggested by the seasons of the data, and the penalties of its maps. Networks are tried in
different shapes first (tokens, columns mixed or independent); the best shape is then tried with other widths, learning
rates and calendar marks, and the best of all are trained for longer. Every trial is scored on the same validation
windows. The best network is trained for the rest of the budget if its loss is lower than that of the linear forecast by
more than LEAST_GAIN; otherwise the linear forecast is the model. Source for the rounds: K. Jamieson and A. Talwalkar,
"Non-stochastic best arm identification and hyperparameter optimization", AISTATS 2016 (successive halving).
"""

import logging
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import final

from informer.base.errors import counted
from informer.base.start import Interrupted
from informer.config.training import CombineKind, TrainConfig
from informer.linear.fit import BLOCKS, CUT
from informer.linear.maps import varying_in_words
from informer.networks.models.linear import maps_config
from informer.search.space import Values, cheapest, left_open, networks, variants, with_values
from informer.search.trials import Local, OutOfTime, Record, Start, Trial, TrialRunner
from informer.training.combination import LEAST_STEPS, seconds_a_step

log = logging.getLogger(__name__)


PATIENCE = 3.0
"""A budget lasts at most this many times as long where other programs have most of the processor."""


@final
class WorkClock:
    """Seconds since its start in which this thread computed; at least those that passed divided by `patience`.

    What a search finds within a budget therefore does not depend on what else the machine does.

    Args:
        patience: 1: the seconds that passed, for work that is done elsewhere.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience, self._began, self._worked = patience, time.monotonic(), time.thread_time()

    def __call__(self) -> float:
        """The seconds."""
        return max(time.thread_time() - self._worked, (time.monotonic() - self._began) / self._patience)


@final
class Budget:
    """Time budget of a search and its run together.

    Args:
        minutes: length of the budget. None: unlimited.
        clock: returns the current time in seconds. Default: a `WorkClock`.
        spent: seconds that were used before.
    """

    def __init__(self, minutes: float | None, *, clock: Callable[[], float] | None = None, spent: float = 0.0) -> None:
        self.clock = clock or WorkClock()
        self._begin = self.clock() - spent
        self.whole = math.inf if minutes is None else 60 * minutes
        self._end = self._begin + self.whole

    @property
    def left(self) -> float:
        """Seconds left; negative once the budget is used up."""
        return self._end - self.clock()

    @property
    def spent(self) -> float:
        """Seconds used."""
        return self.clock() - self._begin

    def spend(self, seconds: float) -> None:
        """Count `seconds` that were used before this process started."""
        self._begin, self._end = self._begin - seconds, self._end - seconds


MANY_COLUMNS, SECONDS_EACH, MEMBERS_SHARE = 32, 0.35, 0.5
"""From so many columns on, the network that comes trained and theta take so many seconds of a core for each, which they
forecast by itself in a minimum number of windows; and the share of a budget that they may take."""

LEAST_GAIN_OF_FLOOR = 0.002
"""Share by which `model.floor` must lower the loss of the linear forecast to be used."""


def bounded(runner: TrialRunner, start: Start, loss: float) -> tuple[Start, float]:
    """Use `model.floor` if it lowers the validation loss; returns the linear forecast and its loss."""
    if runner.settings.model.floor:
        return start, loss
    words = "not below the smallest value of the history"
    return _better(runner, start, loss, start._replace(floor=True), LEAST_GAIN_OF_FLOOR, words)


def varied(runner: TrialRunner, start: Start, loss: float) -> tuple[Start, float]:
    """Use weights that vary with the window if they lower the errors on held-out blocks for sure, and the validation
    loss."""
    varying, penalty = ((), 1.0) if runner.settings.model.varying else runner.choose_varying(start.seq_len)
    if not varying:
        return start, loss
    other = start._replace(varying=varying, varying_penalty=penalty)
    return _better(runner, start, loss, other, 0.0, varying_in_words(varying, penalty))


def _better(
    runner: TrialRunner, start: Start, loss: float, other: Start, least_gain: float, words: str
) -> tuple[Start, float]:
    """The other linear forecast if its loss is lower by this share, with which later networks then start."""
    runner.begin_with(other)
    found = runner.trial(cheapest(runner.settings, other.seq_len), steps=0, seconds=math.inf)
    if found < (1 - least_gain) * loss:
        return other._replace(note=f"{start.note}; {words} (validation loss {loss:.5f} without)"), found
    runner.begin_with(start)
    return start, loss


FIRST_STEPS, MORE_STEPS = 96, 3
"""Steps of a trial in the first round; each later round keeps the best third and trains it three times as long."""

MOST_EPOCHS = 30
"""Longest run, unless the user sets its length."""

VALIDATIONS = 10
"""Least number of validations during the run."""

LEAST_GAIN = 0.005
"""Share by which a network must lower the loss of the linear forecast to be chosen."""

CLOSE = 0.01
"""Share by which a network may be worse than the linear forecast and still be trained if there is time."""

RUN_STEPS = 10
"""Most steps of the run, as a multiple of the trial's: a trial says little about much longer training."""

LINEAR_SHARE, TRIALS_SHARE, FILES_SHARE = 0.35, 0.5, 0.05
"""Shares of the budget for choosing the linear forecast and for writing files and tables; TRIALS_SHARE is the part of
the remaining time that goes to trials of networks."""

TUNING_SHARE = 0.5
"""Largest share of the remaining time that is kept for further training of the pretrained network."""

VARYING_SHARE = 0.2
"""Largest share of the remaining time for choosing what the weights of the linear forecast vary with."""

SAFE = 1.3
"""Seconds reserved per second measured."""

FITS = 2
"""Fits of the linear forecast after the search: for the run, and on all rows. Each calibration block adds one."""

BLOCKS_SHARE, FEWEST_BLOCKS = 0.35, 3
"""Largest share of the budget for these fits, and fewest calibration blocks; if these take more, intervals use the rows
reserved for calibration, which are of one season and may cover too little."""

RUN = 1.4
"""Time of a step in the run relative to one in its trial: the run validates more often, plots and saves."""


@final
@dataclass(slots=True)
class Search:
    """One search.

    Args:
        runner: runs the trials.
        record: stores them.
        budget: time for the search and the run.
        engine: where trials of networks run. Default: in this process.
    """

    runner: TrialRunner
    record: Record
    budget: Budget
    engine: Local = field(default_factory=Local)
    not_tried: list[str] = field(default_factory=list)
    """Steps skipped because the time budget was used up."""
    enough: float = 0.0
    """Estimated seconds of a budget with time for them."""
    _trials_end: float = -math.inf
    """Seconds of the budget that must be left when trials end."""
    _tuning: float = 0.0
    """Seconds that are kept for further training of the pretrained network."""

    @property
    def settings(self) -> TrainConfig:
        """Configuration of the run, with some keys still open."""
        return self.runner.settings

    def choose(self, seq_lens: Sequence[int]) -> Trial:
        """The trial to train: the one with the lowest validation loss, or the linear forecast if no network is better.

        Raises:
            Interrupted: on a signal; the search can be resumed from its record.
        """
        start = self._start(seq_lens)
        seconds = self.budget.left
        if math.isfinite(seconds):
            if self.runner.can_tune(cheapest(self.settings, start.start.seq_len)):
                self._tuning = min(self._tuning_seconds(), TUNING_SHARE * max(self._room(start), 0.0))
            self._trials_end = seconds - TRIALS_SHARE * max(self._room(start), 0.0)
        self._halve(networks(self.settings, start.start.seq_len, n_targets=len(self.runner.source.columns.targets)))
        better = [trial for trial in self._networks() if trial.val_loss < (1 - LEAST_GAIN) * start.val_loss]
        # with time to train and score them for at least as many steps as their trials had
        has_limit = math.isfinite(self.budget.whole)
        ready = [trial for trial in better if not has_limit or self._steps_in_time(trial) >= trial.steps]
        if len(ready) < len(better):
            self._skip("a run of better networks, as long as their trials", 2 * self.budget.whole)
        taken = ready or [trial for trial in self._networks() if self._may_improve(trial, start)]
        return min(taken, key=lambda trial: trial.val_loss, default=start)

    def _may_improve(self, trial: Trial, start: Trial) -> bool:
        """Whether a network close to the linear forecast gets the remaining time, because its trial was cut short.

        The run starts from the linear forecast, so it cannot become worse on validation data.
        """
        is_close = trial.val_loss < (1 + CLOSE) * start.val_loss
        is_cut = math.isfinite(self.budget.whole) and bool(self.not_tried)
        return is_cut and is_close and self._steps_in_time(trial) >= MORE_STEPS * trial.steps

    def resolved(self, trial: Trial) -> TrainConfig:
        """The configuration of the run that trains the chosen model.

        A network gets the rest of the budget, unless the user has set the length of training.
        """
        chosen = self._network(trial) if trial.steps else self._linear(trial)
        blocks = self._blocks()
        if blocks < (n_blocks := self.settings.trainer.calibration_blocks):
            blocks_text = f"{n_blocks} blocks, not {blocks}" if blocks else "blocks of all rows"
            self._skip(f"intervals from {blocks_text}", SAFE * (FITS + n_blocks) * self.fit_seconds / BLOCKS_SHARE)
        members = self._members()
        if len(members) < len(self.settings.trainer.combine):
            enough = self._members_seconds() / MEMBERS_SHARE
            self._skip("an average with the network that comes trained and theta", enough)
        return replace(chosen, trainer=replace(chosen.trainer, calibration_blocks=blocks, combine=members))

    def _members(self) -> list[CombineKind]:
        """Members of the average; of many columns without those that take longer than the budget allows."""
        members, is_slow = self.settings.trainer.combine, self._members_seconds() > MEMBERS_SHARE * self.budget.whole
        slow = (CombineKind.zero, CombineKind.theta) if is_slow else ()
        return [kind for kind in members if kind not in slow]

    def _members_seconds(self) -> float:
        """Time of the members that forecast each of many columns by itself."""
        n_columns = len(self.runner.source.columns.targets)
        return SECONDS_EACH * n_columns if n_columns >= MANY_COLUMNS else 0.0

    def _network(self, trial: Trial) -> TrainConfig:
        steps = trial.steps
        if math.isfinite(self.budget.left):  # as many as there is time for
            steps = max(min(self._steps_in_time(trial), RUN_STEPS * steps, self._most_steps(trial.values)), 1)
        fixed_lengths = [key for key in ("trainer.max_epochs", "trainer.max_steps") if key not in self.settings.search]
        windows = self.runner.n_windows(trial.values)
        trainer = self.settings.trainer
        if trainer.steps_per_epoch is None:
            trainer = replace(trainer, steps_per_epoch=max(min(trainer.epoch_steps(windows), steps // VALIDATIONS), 1))
        epochs = max(-(-steps // trainer.epoch_steps(windows)), 1)
        length = {"trainer.max_epochs": epochs, "trainer.patience": epochs}
        length |= {} if fixed_lengths else {"trainer.max_steps": steps}
        room = self._room(trial)
        # steps are counted, so that the command can be repeated; by the clock end only runs whose length is given
        minutes = None if math.isinf(room) or not fixed_lengths else max(room, 1.0) / 60
        settings = replace(self.settings, trainer=trainer if not fixed_lengths else self.settings.trainer)
        resolved = with_values(settings, {**trial.values, **left_open(self.settings, length)})
        again = self.settings.trainer.refit
        tune_steps = self._tune_steps(self._tuning) if self.runner.can_tune(trial.values) else 0
        trainer = replace(resolved.trainer, max_minutes=minutes, refit=again, tune_steps=tune_steps)
        return replace(resolved, trainer=trainer)

    def _linear(self, trial: Trial) -> TrainConfig:
        still = with_values(self.settings, {**cheapest(self.settings, trial.start.seq_len), **trial.values})
        trainer = replace(still.trainer, max_epochs=1, max_steps=0)
        trainer = replace(trainer, tune_steps=self._tune_steps(self._tuning + self._room(trial)))
        if self.settings.loss.quantiles:  # the linear family has no quantiles: use a network that is not trained
            return replace(still, trainer=trainer)
        maps = replace(maps_config(still.model), embed=still.model.marks, floor=still.model.floor)
        return replace(still, model=maps, trainer=replace(trainer, refit=self.settings.trainer.refit))

    def _tune_steps(self, seconds: float) -> int:
        """Steps of further training of the pretrained network in so many seconds; 0 if there is time for few only, and
        where it is no member."""
        wanted, whole = self.settings.trainer.tune_steps, self._tuning_seconds()
        if not whole:
            return 0
        if whole <= max(seconds, 0.0) or math.isinf(self.budget.whole):
            return wanted
        steps = int(wanted * max(seconds, 0.0) / whole)
        steps = steps if steps >= LEAST_STEPS else 0
        self._skip(f"{wanted - steps} of {wanted} steps of the pretrained network", self.budget.whole + whole - seconds)
        return steps

    def _tuning_seconds(self) -> float:
        """Time of all steps of further training of the pretrained network; 0 where it is no member."""
        trainer = self.settings.trainer
        is_member = trainer.tune_steps > 0 and CombineKind.zero in self._members()
        return SAFE * trainer.tune_steps * seconds_a_step() if is_member else 0.0

    def _room(self, trial: Trial) -> float:
        """Seconds left for training this trial's model."""
        return self.budget.left - self._kept(trial) if math.isfinite(self.budget.whole) else math.inf

    def _kept(self, trial: Trial) -> float:
        """Seconds reserved for everything after training."""
        fits = (FITS + self._blocks()) * self.fit_seconds
        return FILES_SHARE * self.budget.whole + SAFE * (fits + trial.closing_seconds) + self._tuning

    def _blocks(self) -> int:
        """Number of calibration blocks that the budget allows: at least FEWEST_BLOCKS, or none."""
        n_blocks, fit = self.settings.trainer.calibration_blocks, SAFE * self.fit_seconds
        room = BLOCKS_SHARE * self.budget.whole - FITS * fit
        if room >= n_blocks * fit:
            return n_blocks
        return int(room / fit) if room >= FEWEST_BLOCKS * fit else 0

    @property
    def fit_seconds(self) -> float:
        """Seconds of one fit of the linear forecast."""
        return next(trial for trial in self.record.trials if not trial.steps).fit_seconds

    def _start(self, seq_lens: Sequence[int]) -> Trial:
        trial = next((known for known in self.record.before.values() if not known.steps), None)
        if trial is None:
            began, seconds = self.budget.clock(), LINEAR_SHARE * self.budget.left
            start = self.runner.start(seq_lens, seconds=seconds)
            if self.runner.stop.signal:  # an interrupted choice may differ from the full one: do not record it
                raise Interrupted(self.runner.stop.signal)
            self.runner.begin_with(start)
            fitting = self.budget.clock()
            values = left_open(self.settings, {"seq_len": start.seq_len})
            loss = self.runner.trial(cheapest(self.settings, start.seq_len), steps=0, seconds=math.inf)
            fit_seconds = self.budget.clock() - fitting
            if CUT in start.note:
                self._skip("other settings of the linear forecast", 2 * self.budget.whole)
            start, loss = bounded(self.runner, start, loss)
            wanted = SAFE * (BLOCKS + 1) * fit_seconds / VARYING_SHARE
            if wanted <= self.budget.left:
                start, loss = varied(self.runner, start, loss)
            else:
                self._skip("weights that vary with the window", self.budget.spent + wanted)
            closing = self.runner.closing_seconds(cheapest(self.settings, start.seq_len), steps=0)
            trial = Trial(
                values=values, steps=0, val_loss=loss, seconds=self.budget.clock() - began, closing_seconds=closing,
                start=start._replace(varying=[*start.varying]), fit_seconds=fit_seconds,
            )  # fmt: skip
        else:
            self.runner.begin_with(trial.start)
            self.budget.spend(trial.seconds)
        self.record.add(trial)
        log.info(f"linear forecast: {trial.start.note}; validation loss {trial.val_loss:.5f}")
        return trial

    def _halve(self, entrants: list[Values]) -> None:
        """Run rounds until one network is left that more steps do not improve, or until time is up.

        The first round tries all entrants, then variants of the best one; later rounds train the best for longer.
        """
        limit = self._most_steps(entrants[0])
        steps = min(FIRST_STEPS, limit)
        trials = self._round(entrants, steps, [0.0] * len(entrants))
        if trials:
            candidates = variants(self.settings, trials[0].values)
            trials += self._round(candidates, steps, [trials[0].seconds] * len(candidates))
            trials.sort(key=lambda trial: trial.val_loss)
        while trials and steps < limit:
            before = min(self._networks(), key=lambda trial: trial.val_loss, default=None)
            survivors = trials[: -(-len(trials) // MORE_STEPS)]
            longer = min(MORE_STEPS * steps, limit)
            expected = [trial.seconds * longer / steps for trial in survivors]
            trials = self._round([trial.values for trial in survivors], longer, expected)
            if len(survivors) == 1 and before and trials and trials[0].val_loss >= before.val_loss:
                return
            steps = longer

    def _round(self, entrants: list[Values], steps: int, expected: list[float]) -> list[Trial]:
        """Trials of the entrants that fit into the time, best first."""
        trials: list[Trial] = []
        for place in range(0, len(entrants), self.engine.n_parallel):
            allowed = self._allowed(-(-(len(entrants) - place) // self.engine.n_parallel))
            group = list(zip(entrants, expected, strict=True))[place : place + self.engine.n_parallel]
            begun = [self._begun(values, steps, allowed) for values, seconds in group if allowed > seconds]
            for finish in begun:
                with suppress(OutOfTime):
                    trials.append(finish())
        if len(trials) < len(entrants):
            missing = len(entrants) - len(trials)
            each = max([*(trial.seconds for trial in trials), *expected])
            more = missing * each / TRIALS_SHARE if each else self.budget.whole
            self._skip(f"{missing} of {len(entrants)} networks at {steps} steps", self.budget.whole + more)
        trials.sort(key=lambda trial: trial.val_loss)
        if trials:
            log.info(f"{counted(len(trials), 'network')}, {steps} steps: best validation loss {trials[0].val_loss:.5f}")
        return trials

    def _skip(self, what: str, seconds: float) -> None:
        """Note what is not tried; a budget of so many seconds would have time for it."""
        self.not_tried.append(what)
        self.enough = max(self.enough, seconds)

    def _allowed(self, n_trials: int) -> float:
        """Seconds for the next of `n_trials` in a row: twice its share, so that rounds with more steps can follow."""
        return 2 * (self.budget.left - self._trials_end) / (n_trials + 1)

    def _begun(self, values: Values, steps: int, seconds: float) -> Callable[[], Trial]:
        """Begin a trial; the result waits for it and records it."""
        recorded = self.record.known(values, steps)
        if recorded is not None:
            self.budget.spend(recorded.seconds / self.engine.n_parallel)
            return lambda: self._recorded(recorded)
        wait = self.engine.begin(self.runner, values, steps=steps, seconds=seconds)
        return lambda: self._recorded(wait())

    def _recorded(self, trial: Trial) -> Trial:
        self.record.add(trial)
        if self.runner.stop.signal:
            raise Interrupted(self.runner.stop.signal)
        return trial

    def _networks(self) -> list[Trial]:
        return [trial for trial in self.record.trials if trial.steps]

    def _steps_in_time(self, trial: Trial) -> int:
        return int(max(self._room(trial), 0.0) / (RUN * max(trial.seconds, 1e-9) / trial.steps))

    def _most_steps(self, values: Values) -> int:
        """Steps of the longest possible run, or of the run whose length the user has set."""
        trainer = self.settings.trainer
        if "trainer.max_epochs" in self.settings.search:
            trainer = replace(trainer, max_epochs=trainer.max_steps or MOST_EPOCHS)
        return trainer.n_steps(self.runner.n_windows(values))
