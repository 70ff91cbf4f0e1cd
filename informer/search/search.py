"""The story of a search: ridge regression on every history, then networks on the best two, fewer of them for longer.

Networks come in shapes first (tokens, columns apart or together); the best shape is tried in other widths, rates and
marks. All trials are judged on the same validation windows, whatever their history. A trial of a network is the run
that would follow, under the same seed: what is chosen is trained again, to the same weights, and saved as any run. So a
trial may take no more than the run itself leaves of the budget. K. Jamieson and A. Talwalkar, "Non-stochastic best arm
identification and hyperparameter optimization", AISTATS 2016 (successive halving).
"""

import logging
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, final

from informer.config import SEARCHED, TrainConfig
from informer.conversion import flat, to_plain
from informer.data.panel import divide
from informer.data.pipeline import Source
from informer.errors import counted
from informer.search.record import Record, Trial
from informer.search.space import Values, cheapest, left_open, networks, variants, with_values
from informer.search.trials import Laboratory, OutOfTime
from informer.training.config import epoch_steps, n_steps
from informer.training.signals import Interrupted

log = logging.getLogger(__name__)

FIRST_STEPS, MORE_STEPS = 64, 3
"""Steps of the first round, and how many times more each next one takes of the best 1 / MORE_STEPS of it."""

MOST_EPOCHS = 30
"""Of a run, unless its length is given."""

CLOSE = 0.005
"""Share of the least loss of ridge within which a shorter history will do as well."""

LEAST_GAIN = 0.005
"""Share of ridge's loss that a network must take off to be worth having."""

RUN = 1.25
"""Time of a run beside that of its trial: it validates every epoch, draws and saves."""


@final
class Budget:
    """Time for search and run together.

    Args:
        minutes: None is no bound.
        clock: seconds since some moment.
    """

    def __init__(self, minutes: float | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._begin = clock()
        self._end = math.inf if minutes is None else self._begin + 60 * minutes

    @property
    def left(self) -> float:
        """Seconds."""
        return self._end - self.clock()

    @property
    def spent(self) -> float:
        """Seconds."""
        return self.clock() - self._begin

    def spend(self, seconds: float) -> None:
        """Take away what was used before."""
        self._begin, self._end = self._begin - seconds, self._end - seconds


@final
@dataclass(slots=True)
class Search:
    """One search.

    Args:
        lab: makes the trials.
        record: keeps them.
        budget: of time.
    """

    lab: Laboratory
    record: Record
    budget: Budget
    not_tried: list[str] = field(default_factory=list)
    """What there was no time for."""

    @property
    def settings(self) -> TrainConfig:
        """Of the run, with keys left open."""
        return self.lab.settings

    def choose(self, seq_lens: Sequence[int]) -> Trial:
        """The trial with the least loss; ridge alone where no network is clearly better.

        Raises:
            Interrupted: by a signal; the record goes on where it stopped.
        """
        ridge = self._histories(seq_lens)
        seq_lens = [self._seq_len(trial.values) for trial in _two(ridge)]
        self.lab.keep(seq_lens)
        self._halve(networks(self.settings, seq_lens, n_targets=len(self.lab.source.columns.targets)))
        network = self._best_network()
        return network if network and network.val_loss < (1 - LEAST_GAIN) * ridge[0].val_loss else ridge[0]

    def resolved(self, trial: Trial) -> TrainConfig:
        """The configuration that trains what was chosen, for as long as its trial; a length that is given stays."""
        given = [key for key in ("trainer.max_epochs", "trainer.max_steps") if key not in self.settings.search]
        steps = self._most_steps(trial.values) if given else trial.steps
        per_epoch = epoch_steps(self.settings.trainer, self.lab.n_windows(trial.values))
        epochs = max(-(-steps // per_epoch), 1)
        length = {"trainer.max_epochs": epochs, "trainer.patience": epochs}
        length |= {} if given else {"trainer.max_steps": steps}
        return with_values(self.settings, {**trial.values, **left_open(self.settings, length)})

    def _histories(self, seq_lens: Sequence[int]) -> list[Trial]:
        """Ridge alone on each, the best first."""
        done: list[Trial] = []
        for place, seq_len in enumerate(seq_lens):
            if done and self.budget.left < 2 * max(trial.seconds for trial in done):
                self.not_tried.append(f"seq_len {', '.join(map(str, seq_lens[place:]))}")
                break
            done.append(self._tried(cheapest(self.settings, seq_len), 0, math.inf))
            done.sort(key=lambda trial: trial.val_loss)
            self.lab.keep([self._seq_len(trial.values) for trial in _two(done)])
        log.info(f"ridge alone, validation loss: {'; '.join(self._ridge_phrase(trial) for trial in done)}")
        return done

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
        """Seconds of the next of so many trials: twice its share, and time for the run that may follow."""
        best, left = self._best_network(), self.budget.left
        reserved = RUN * best.seconds if best else 0.0
        return min(2 * left / (n_trials + 1), left / (1 + RUN), left - reserved)

    def _tried(self, values: Values, steps: int, seconds: float) -> Trial:
        trial = self.record.known(values, steps)
        if trial is None:
            began = self.budget.clock()
            loss, penalty = self.lab.trial(values, steps=steps, seconds=seconds)
            took = self.budget.clock() - began
            trial = Trial(values=values, steps=steps, penalty=penalty, val_loss=loss, seconds=took)
        else:
            self.budget.spend(trial.seconds)
        self.record.add(trial)
        if self.lab.stop.signal:
            raise Interrupted(self.lab.stop.signal)
        return trial

    def _best_network(self) -> Trial | None:
        return min((trial for trial in self.record.trials if trial.steps), key=lambda one: one.val_loss, default=None)

    def _seq_len(self, values: Values) -> int:
        return with_values(self.settings, values).seq_len

    def _ridge_phrase(self, trial: Trial) -> str:
        return f"seq_len={self._seq_len(trial.values)} {trial.val_loss:.5f}"

    def _most_steps(self, values: Values) -> int:
        """Steps of the longest run; of the run that is asked for where its length is given."""
        trainer = self.settings.trainer
        if "trainer.max_epochs" in self.settings.search:
            trainer = replace(trainer, max_epochs=trainer.max_steps or MOST_EPOCHS)
        return n_steps(trainer, self.lab.n_windows(values))


def _two(ridge: Sequence[Trial]) -> list[Trial]:
    """The shortest history that is nearly as good as the best, and the best, or the next one."""
    best, *others = ridge
    close = [trial for trial in others if trial.val_loss <= (1 + CLOSE) * best.val_loss]
    shortest = min([best, *close], key=lambda trial: trial.values.get("seq_len", 0))
    return [best, *others[:1]] if shortest is best else [shortest, best]


def comparable(settings: TrainConfig, source: Source, seq_lens: Sequence[int]) -> Source:
    """Series that are long enough for every history, so that all are judged on the same windows."""
    widest = with_values(settings, cheapest(settings, max(seq_lens)))
    kept = {series.name for series in divide(source.panel, settings.dataset, widest.sizes)[0]}
    return replace(source, panel=[series for series in source.panel if series.name in kept])


def given_values(settings: TrainConfig) -> dict[str, Any]:
    """Those of the searched keys that are not open."""
    return {
        key: value for key, value in flat(to_plain(settings)).items() if key in set(SEARCHED) - set(settings.search)
    }
