"""Moments of what each fold is fitted on and of what it holds out, within the time there is."""

from collections.abc import Callable, Sequence
from functools import reduce
from math import isfinite
from operator import add

import numpy as np

from informer.linear.blocks import Fold
from informer.linear.moments import Moments, Run
from informer.linear.select import FoldMoments

MOMENTS_SHARE = 0.4
"""Of the time of a choice, at most, for the moments that it is made from."""

Channel = tuple[int, int]
"""Series and column."""


def fold_moments(
    blocks: Sequence[Fold],
    channels: Sequence[Channel],
    moments: Callable[[Channel, Sequence[Run]], Moments],
    left: Callable[[], float],
) -> tuple[list[Channel], list[FoldMoments]]:
    """Of as many channels as MOMENTS_SHARE of the time allows, spread evenly, and at least one.

    Each window is summed once or twice: a fold is fitted on all of them less its block and the windows next to it.

    Args:
        blocks: the folds.
        channels: to sum.
        moments: of a channel over runs.
        left: seconds until the choice has to be made.

    Returns:
        The channels, in their order, and their moments by fold.
    """
    whole, made = left(), dict[Channel, list[tuple[Moments, Moments]]]()
    for done, place in enumerate(spread(len(channels))):
        used = whole - left() if isfinite(whole) else 0.0
        if done and used * (done + 1) / done > MOMENTS_SHARE * whole:
            break
        channel = channels[place]
        held = [moments(channel, block.held) for block in blocks]
        between = [moments(channel, block.between) for block in blocks]
        summed = reduce(add, held)
        fitted = [_without(summed, own, near) for own, near in zip(held, between, strict=True)]
        made[channel] = list(zip(fitted, held, strict=True))
    kept = [channel for channel in channels if channel in made]
    by_fold = zip(*(made[channel] for channel in kept), strict=True)
    return kept, [FoldMoments(*zip(*pairs, strict=True)) for pairs in by_fold]


def spread(n: int) -> list[int]:
    """0 to n - 1, so that each beginning of the list is spread over all: the first, the middle, the quarters, ..."""
    step, order = 1 << max(n - 1, 0).bit_length(), [0] if n else []
    while step > 1:
        order += range(step // 2, n, step)
        step //= 2
    return order


def _without(whole: Moments, *parts: Moments) -> Moments:
    """Of the windows that are in none of the parts; exactly zero where there are none."""
    rest = whole - reduce(add, parts)
    return rest if rest.is_known else Moments(np.zeros_like(rest.products), 0)


class Once:
    """Computes each thing once, as long as there is room for it."""

    def __init__(self, compute: Callable[[tuple[int, int]], Moments], most: int) -> None:
        self._compute, self._most = compute, most
        self._known: dict[tuple[int, int], Moments] = {}

    def __call__(self, channel: tuple[int, int]) -> Moments:
        if channel in self._known:
            return self._known[channel]
        made = self._compute(channel)
        if len(self._known) < self._most:
            self._known[channel] = made
        return made
