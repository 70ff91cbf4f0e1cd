"""Refinements of the linear forecast of a search, used where they lower its validation loss."""

import math

from informer.linear.fold import varying_in_words
from informer.search.space import cheapest
from informer.search.trials import Start, TrialRunner

LEAST_GAIN_OF_FLOOR = 0.002
"""Share by which `model.floor` must lower the loss of the linear forecast to be used."""


def bounded(runner: TrialRunner, start: Start, loss: float) -> tuple[Start, float]:
    """Use `model.floor` if it lowers the validation loss."""
    if runner.settings.model.floor:
        return start, loss
    other = _loss(runner, start._replace(floor=True))
    if not other < (1 - LEAST_GAIN_OF_FLOOR) * loss:
        runner.begin_with(start)
        return start, loss
    note = f"{start.note}; not below the smallest value of the history (validation loss {loss:.5f} without)"
    return start._replace(floor=True, note=note), other


def varied(runner: TrialRunner, start: Start, loss: float) -> tuple[Start, float]:
    """Use weights that vary with the window if they lower the errors on held-out blocks for sure, and the validation
    loss."""
    if runner.settings.model.varying:
        return start, loss
    varying, penalty = runner.choose_varying(start.seq_len)
    refined = start._replace(varying=varying, varying_penalty=penalty)
    other = _loss(runner, refined) if varying else math.inf
    if not other < loss:
        runner.begin_with(start)
        return start, loss
    note = f"{start.note}; {varying_in_words(varying, penalty)} (validation loss {loss:.5f} without)"
    return refined._replace(note=note), other


def _loss(runner: TrialRunner, start: Start) -> float:
    """Validation loss of a linear forecast, with which later networks start."""
    runner.begin_with(start)
    return runner.trial(cheapest(runner.settings, start.seq_len), steps=0, seconds=math.inf)
