"""Refinements of the linear forecast of a search."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from test_configs import composed

from informer.config.training import TrainConfig
from informer.search.search import bounded, varied
from informer.search.trials import Start

START = Start(24, [], "24 rows")


class Runner:
    """A TrialRunner whose losses are given."""

    def __init__(self, settings: TrainConfig, loss: Callable[[Start], float]) -> None:
        self.settings, self._loss = settings, loss

    def begin_with(self, start: Start) -> None:
        self.start = start

    def choose_varying(self, seq_len: int) -> tuple[list[str], float]:
        assert seq_len == START.seq_len
        return ["day", "last"], 0.3

    def trial(self, values: object, *, steps: int, seconds: float) -> float:
        assert steps == 0
        return self._loss(self.start)


def runner(loss: Callable[[Start], float], *overrides: str) -> Runner:
    return Runner(composed("dataset=sample", "model=auto", "model.skip=maps", *overrides), loss)


@pytest.mark.parametrize(("other", "used"), [(0.9, True), (0.9985, False), (1.2, False)])
def test_a_floor_is_used_if_it_lowers_the_loss(other: float, *, used: bool) -> None:
    """Red if a gain of 0.15 % is enough, or later networks begin with a floor that was not chosen."""
    tried = runner(lambda start: other if start.floor else 1.0)
    start, loss = bounded(tried, START, 1.0)
    assert (start.floor, loss) == (used, other if used else 1.0)
    assert tried.start.floor == used
    assert ("not below the smallest value" in start.note) == used


@pytest.mark.parametrize(("other", "used"), [(0.9, True), (1.0, False), (float("nan"), False)])
def test_weights_vary_if_that_lowers_the_loss(other: float, *, used: bool) -> None:
    """Red if held-out blocks alone decide, or the note does not say what was chosen."""
    tried = runner(lambda start: other if start.varying else 1.0)
    start, loss = varied(tried, START, 1.0)
    assert (list(start.varying), loss) == (["day", "last"] if used else [], other if used else 1.0)
    assert list(tried.start.varying) == list(start.varying)
    assert ("weights vary with time of day, last value (penalty 0.3)" in start.note) == used


def test_what_the_user_has_set_is_kept() -> None:
    tried = runner(lambda start: pytest.fail("nothing to try"))
    tried.settings = replace(tried.settings, model=replace(tried.settings.model, varying=["week"], floor=True))
    assert varied(tried, START, 1.0) == bounded(tried, START, 1.0) == (START, 1.0)
