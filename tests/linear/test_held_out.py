"""Moments of folds: the same as summed fold by fold, and no more of them than there is time for."""

import numpy as np
import pytest

from informer.linear.moments import Moments, WindowRun
from informer.linear.select import Fold, fold_moments, folds

SERIES = np.random.default_rng(0).normal(size=(2, 120))


def directly(channel: tuple[int, int], runs: list[WindowRun]) -> Moments:
    """Window by window."""
    own = [run for run in runs if run.series == channel[0]]
    windows = [SERIES[channel[0]][i : i + 9] for run in own for i in range(run.first, run.stop)]
    return Moments(sum((np.outer(one, one) for one in windows), np.zeros((9, 9))), len(windows))


@pytest.fixture
def blocks() -> list[Fold]:
    """Two series; the first has a gap, the second begins at another row."""
    return folds([WindowRun(0, 0, 40), WindowRun(0, 46, 70), WindowRun(1, 10, 100)], 4, 5)


def test_the_same_as_summed_fold_by_fold(blocks: list[Fold]) -> None:
    """Red if a window next to a block is fitted on, or one is taken away twice."""
    channels = [(0, 0), (1, 0)]
    kept, made = fold_moments(blocks, channels, directly, lambda: float("inf"))
    assert kept == channels
    for block, found in zip(blocks, made, strict=True):
        for channel, fitted, held in zip(channels, found.fitted, found.held, strict=True):
            for one, other in ((fitted, directly(channel, block.fitted)), (held, directly(channel, block.held))):
                assert one.windows == other.windows
                np.testing.assert_allclose(one.products, other.products, atol=1e-10)


def test_no_more_channels_than_there_is_time_for(blocks: list[Fold]) -> None:
    """100 seconds, of which 40 are for moments; a channel has 8 sums of a second each."""
    clock = [100.0]

    def slowly(channel: tuple[int, int], runs: list[WindowRun]) -> Moments:
        clock[0] -= 1.0
        return Moments(np.zeros((1, 1)), 1)

    channels = [(0, place) for place in range(16)]
    kept, _ = fold_moments(blocks, channels, slowly, lambda: clock[0])
    assert kept == [(0, 0), (0, 2), (0, 4), (0, 8), (0, 12)]
    assert clock[0] >= 60.0
