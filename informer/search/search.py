"""The story of a search: the closed-form linear forecast first, then networks that begin with it, fewer for longer.

The linear forecast chooses its history, among lengths that the seasons of the data suggest, and the strengths of its
maps by leave-one-block-out over training and validation. Networks come in shapes first (tokens, columns apart or
together); the best shape is tried in other widths, rates and marks. All trials are judged on the same validation
windows. The best network is trained for the rest of the budget if it takes more than LEAST_GAIN off the loss of the
linear forecast; else that is the model. K. Jamieson and A. Talwalkar, "Non-stochastic best arm identification and
hyperparameter optimization", AISTATS 2016 (successive halving).
"""

import logging
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import final

from informer.config.schema import TrainConfig
from informer.errors import counted
from informer.models.linear import LinearModelConfig
from informer.search.budget import Budget
from informer.search.record import Record, Trial
from informer.search.space import Values, cheapest, left_open, networks, variants, with_values
from informer.search.trials import OutOfTime, Start, TrialRunner
from informer.training.signals import Interrupted
from informer.training.steps import epoch_steps, n_steps

log = logging.getLogger(__name__)

FIRST_STEPS, MORE_STEPS = 96, 3
"""Steps of the first round, and how many times more each next one takes of the best 1 / MORE_STEPS of it."""

MOST_EPOCHS = 30
"""Of a run, unless its length is given."""

VALIDATIONS = 10
"""Of a run, at least."""

LEAST_GAIN = 0.005
"""Share of the linear forecast's loss that a network must take off to be worth having."""

LEAST_GAIN_OF_FLOOR = 0.002
"""The same of the bound at the history's smallest value."""

CLOSE = 0.01
"""Share by which a network may be worse than the linear forecast and still be trained with time that is left."""

RUN_STEPS = 10
"""Steps of the run relative to those of its trial, at most: far beyond, nothing is known of it."""

LINEAR_SHARE, TRIALS_SHARE, FILES_SHARE = 0.35, 0.5, 0.05
"""Of the budget: the choice of the linear forecast; of what is left then the trials of networks; and of the budget what
is kept for files and tables."""

SAFE = 1.3
"""Seconds that are kept for each that was measured."""

FITS = 2
"""Times that the linear forecast is fitted after the search, for the run and on all rows; and once for each block that
intervals are calibrated on."""

BLOCKS_SHARE = 0.2
"""Of the budget, that these fits may take; else intervals come from the rows that are kept for them."""

RUN = 1.4
"""Time of a step of the run relative to that of its trial: it validates more often, plots and saves."""


@final
@dataclass(slots=True)
class Search:
    """One search.

    Args:
        runner: makes the trials.
        record: keeps them.
        budget: of time.
    """

    runner: TrialRunner
    record: Record
    budget: Budget
    not_tried: list[str] = field(default_factory=list)
    """What there was no time for."""
    _trials_end: float = -math.inf
    """Seconds of the budget that trials leave."""

    @property
    def settings(self) -> TrainConfig:
        """Of the run, with keys left open."""
        return self.runner.settings

    def choose(self, seq_lens: Sequence[int]) -> Trial:
        """The trial with the least loss; the linear forecast by itself where no network is clearly better.

        Raises:
            Interrupted: by a signal; the record continues where it stopped.
        """
        start = self._start(seq_lens)
        left = self.budget.left
        self._trials_end = left - TRIALS_SHARE * max(self._room(start), 0.0) if math.isfinite(left) else -math.inf
        self._halve(networks(self.settings, [start.seq_len], n_targets=len(self.runner.source.columns.targets)))
        better = [one for one in self.record.trials if one.steps and one.val_loss < (1 - LEAST_GAIN) * start.val_loss]
        ready = [one for one in better if self._is_ready(one)]
        if len(ready) < len(better):
            self.not_tried.append("a run of better networks, as long as their trials")
        taken = ready or [one for one in self.record.trials if one.steps and self._may_improve(one, start)]
        return min(taken, key=lambda one: one.val_loss, default=start)

    def _may_improve(self, trial: Trial, start: Trial) -> bool:
        """A network that few steps left close to the linear forecast gets the time that is left: the run begins with
        the linear forecast, and keeps it where nothing better comes."""
        is_close = trial.val_loss < (1 + CLOSE) * start.val_loss
        is_cut = math.isfinite(self.budget.whole) and bool(self.not_tried)
        return is_cut and is_close and self._steps_in_time(trial) >= MORE_STEPS * trial.steps

    def _is_ready(self, trial: Trial) -> bool:
        """Whether there is time to train and score it, for as many steps as in its trial."""
        return math.isinf(self.budget.whole) or self._steps_in_time(trial) >= trial.steps

    def resolved(self, trial: Trial) -> TrainConfig:
        """The configuration that trains what was chosen: the linear forecast, or a network for the rest of the budget.

        A length that is given stays.
        """
        chosen = self._network(trial) if trial.steps else self._linear(trial)
        blocks = self._blocks()
        if blocks < self.settings.trainer.calibration_blocks:
            self.not_tried.append("intervals from blocks of all rows")
        return replace(chosen, trainer=replace(chosen.trainer, calibration_blocks=blocks))

    def _network(self, trial: Trial) -> TrainConfig:
        steps = self._run_steps(trial)
        given = [key for key in ("trainer.max_epochs", "trainer.max_steps") if key not in self.settings.search]
        windows = self.runner.n_windows(trial.values)
        trainer = self.settings.trainer
        if trainer.steps_per_epoch is None:
            trainer = replace(trainer, steps_per_epoch=max(min(epoch_steps(trainer, windows), steps // VALIDATIONS), 1))
        epochs = max(-(-steps // epoch_steps(trainer, windows)), 1)
        length = {"trainer.max_epochs": epochs, "trainer.patience": epochs}
        length |= {} if given else {"trainer.max_steps": steps}
        room = self._room(trial)
        minutes = None if math.isinf(room) else max(room, 1.0) / 60
        settings = replace(self.settings, trainer=trainer if not given else self.settings.trainer)
        resolved = with_values(settings, {**trial.values, **left_open(self.settings, length)})
        again = self.settings.trainer.refit
        return replace(resolved, trainer=replace(resolved.trainer, max_minutes=minutes, refit=again))

    def _linear(self, trial: Trial) -> TrainConfig:
        still = with_values(self.settings, {**cheapest(self.settings, trial.seq_len), **trial.values})
        trainer = replace(still.trainer, max_epochs=1, max_steps=0)
        if self.settings.loss.quantiles:  # which linear maps by themselves have none of
            return replace(still, trainer=trainer)
        maps = LinearModelConfig(embed=still.model.marks, maps=trial.maps, floor=still.model.floor)
        return replace(still, model=maps, trainer=replace(trainer, refit=self.settings.trainer.refit))

    def _room(self, trial: Trial) -> float:
        """Seconds that there are to train what was tried."""
        return self.budget.left - self._kept(trial) if math.isfinite(self.budget.whole) else math.inf

    def _kept(self, trial: Trial) -> float:
        """Seconds for all that follows training."""
        fits = (FITS + self._blocks()) * self.fit_seconds
        return FILES_SHARE * self.budget.whole + SAFE * (fits + trial.closing_seconds)

    def _blocks(self) -> int:
        """How many calibrate the intervals."""
        wanted = self.settings.trainer.calibration_blocks
        return wanted if SAFE * (FITS + wanted) * self.fit_seconds <= BLOCKS_SHARE * self.budget.whole else 0

    @property
    def fit_seconds(self) -> float:
        """Of the linear forecast."""
        return next(one for one in self.record.trials if not one.steps).fit_seconds

    def _start(self, seq_lens: Sequence[int]) -> Trial:
        """The linear forecast."""
        known = self.record.known_start()
        if known is None:
            began, seconds = self.budget.clock(), LINEAR_SHARE * self.budget.left
            start = self.runner.start(seq_lens, seconds=seconds)
            if self.runner.stop.signal:  # what was chosen by then is not what would have been
                raise Interrupted(self.runner.stop.signal)
            self.runner.begin_with(start)
            fitting = self.budget.clock()
            values = left_open(self.settings, {"seq_len": start.seq_len})
            loss = self.runner.trial(cheapest(self.settings, start.seq_len), steps=0, seconds=math.inf)
            fitted = self.budget.clock()
            start, loss = self._bounded(start, loss)
            closing = self.runner.closing_seconds(cheapest(self.settings, start.seq_len), steps=0)
            known = Trial(
                values=values, steps=0, val_loss=loss, seconds=self.budget.clock() - began, closing_seconds=closing,
                seq_len=start.seq_len, maps=start.maps, note=start.note, floor=start.floor,
                fit_seconds=fitted - fitting,
            )  # fmt: skip
        else:
            self.runner.begin_with(Start(known.seq_len, known.maps, known.note, known.floor))
            self.budget.spend(known.seconds)
        self.record.add(known)
        log.info(f"linear forecast: {known.note}; validation loss {known.val_loss:.5f}")
        return known

    def _bounded(self, start: Start, loss: float) -> tuple[Start, float]:
        """The forecast that is never below its history's smallest value, where validation prefers it."""
        if self.settings.model.floor:
            return start, loss
        values = {**cheapest(self.settings, start.seq_len), "model.floor": True}
        other = self.runner.trial(values, steps=0, seconds=math.inf)
        if not other < (1 - LEAST_GAIN_OF_FLOOR) * loss:
            return start, loss
        note = f"{start.note}; not below the smallest value of the history (validation loss {loss:.5f} without)"
        start = start._replace(floor=True, note=note)
        self.runner.begin_with(start)
        return start, other

    def _halve(self, entrants: list[Values]) -> None:
        """Rounds until one network is left that more steps do not improve, or time is up.

        First the entrants and variants of the best of them, then the best for longer.
        """
        limit = self._most_steps(entrants[0])
        steps = min(FIRST_STEPS, limit)
        done = self._round(entrants, steps, [0.0] * len(entrants))
        if done:
            others = variants(self.settings, done[0].values)
            done += self._round(others, steps, [done[0].seconds] * len(others))
            done.sort(key=lambda trial: trial.val_loss)
        while done and steps < limit:
            before, kept = self._best_network(), done[: -(-len(done) // MORE_STEPS)]
            longer = min(MORE_STEPS * steps, limit)
            done = self._round([one.values for one in kept], longer, [one.seconds * longer / steps for one in kept])
            if len(kept) == 1 and before and done and done[0].val_loss >= before.val_loss:
                return
            steps = longer

    def _round(self, entrants: list[Values], steps: int, expected: list[float]) -> list[Trial]:
        """Those for which there is time, the best first."""
        done: list[Trial] = []
        for place, values in enumerate(entrants):
            allowed = self._allowed(len(entrants) - place)
            with suppress(OutOfTime):
                if allowed > expected[place]:
                    done.append(self._tried(values, steps, allowed))
        if len(done) < len(entrants):
            self.not_tried.append(f"{len(entrants) - len(done)} of {len(entrants)} networks at {steps} steps")
        done.sort(key=lambda trial: trial.val_loss)
        if done:
            log.info(f"{counted(len(done), 'network')}, {steps} steps: best validation loss {done[0].val_loss:.5f}")
        return done

    def _allowed(self, n_trials: int) -> float:
        """Seconds of the next of so many trials: twice its share, so that rounds of longer ones can follow."""
        return 2 * (self.budget.left - self._trials_end) / (n_trials + 1)

    def _tried(self, values: Values, steps: int, seconds: float) -> Trial:
        trial = self.record.known(values, steps)
        if trial is None:
            began = self.budget.clock()
            loss = self.runner.trial(values, steps=steps, seconds=seconds)
            taken = self.budget.clock() - began
            closing = self.runner.closing_seconds(values, steps=steps)
            trial = Trial(values=values, steps=steps, val_loss=loss, seconds=taken, closing_seconds=closing)
        else:
            self.budget.spend(trial.seconds)
        self.record.add(trial)
        if self.runner.stop.signal:
            raise Interrupted(self.runner.stop.signal)
        return trial

    def _best_network(self) -> Trial | None:
        return min((trial for trial in self.record.trials if trial.steps), key=lambda one: one.val_loss, default=None)

    def _run_steps(self, trial: Trial) -> int:
        """Steps that there is time for, within RUN_STEPS."""
        limit = self._most_steps(trial.values)
        if math.isinf(self.budget.left):
            return trial.steps
        return max(min(self._steps_in_time(trial), RUN_STEPS * trial.steps, limit), 1)

    def _steps_in_time(self, trial: Trial) -> int:
        return int(max(self._room(trial), 0.0) / (RUN * max(trial.seconds, 1e-9) / trial.steps))

    def _most_steps(self, values: Values) -> int:
        """Steps of the longest run; of the run that is asked for where its length is given."""
        trainer = self.settings.trainer
        if "trainer.max_epochs" in self.settings.search:
            trainer = replace(trainer, max_epochs=trainer.max_steps or MOST_EPOCHS)
        return n_steps(trainer, self.runner.n_windows(values))
