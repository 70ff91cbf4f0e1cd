"""Moments of the fitted and the held-out part of each fold, within a time limit."""

from collections.abc import Callable, Sequence
from functools import reduce
from math import isfinite
from operator import add

import numpy as np

from informer.linear.blocks import Fold
from informer.linear.moments import Moments, Run
from informer.linear.select import FoldMoments

MOMENTS_SHARE = 0.4
"""Largest share of the time limit for computing moments."""

Channel = tuple[int, int]
"""(series, column)."""


def fold_moments(
    blocks: Sequence[Fold],
    channels: Sequence[Channel],
    moments: Callable[[Channel, Sequence[Run]], Moments],
    left: Callable[[], float],
) -> tuple[list[Channel], list[FoldMoments]]:
    """Moments of each fold for as many channels as the time allows (at least one), spread evenly over all.

    Every window is summed once or twice: the moments of a fold's fitted part are the total minus its block and the
    windows close to it.

    Args:
        blocks: the folds.
        channels: channels to sum.
        moments: computes the moments of a channel over runs.
        left: returns the seconds left for the whole choice; at most MOMENTS_SHARE of them are used here.

    Returns:
        The channels used, in their order, and their moments by fold.
    """
    budget, by_channel = left(), dict[Channel, list[tuple[Moments, Moments]]]()
    for n_done, position in enumerate(spread(len(channels))):
        elapsed = budget - left() if isfinite(budget) else 0.0
        if n_done and elapsed * (n_done + 1) / n_done > MOMENTS_SHARE * budget:
            break
        channel = channels[position]
        held_out = [moments(channel, block.held) for block in blocks]
        between = [moments(channel, block.between) for block in blocks]
        summed = reduce(add, held_out)
        fitted = [_without(summed, block_moments, near) for block_moments, near in zip(held_out, between, strict=True)]
        by_channel[channel] = list(zip(fitted, held_out, strict=True))
    used_channels = [channel for channel in channels if channel in by_channel]
    by_fold = zip(*(by_channel[channel] for channel in used_channels), strict=True)
    return used_channels, [FoldMoments(*zip(*pairs, strict=True)) for pairs in by_fold]


def spread(n: int) -> list[int]:
    """0 to n - 1, ordered so that every prefix is spread evenly: first, middle, quarters, ..."""
    step, order = 1 << max(n - 1, 0).bit_length(), [0] if n else []
    while step > 1:
        order += range(step // 2, n, step)
        step //= 2
    return order


def _without(summed: Moments, *excluded: Moments) -> Moments:
    """Moments of windows in none of the parts; exactly zero if there are no such windows."""
    remaining = summed - reduce(add, excluded)
    return remaining if remaining.is_known else Moments(np.zeros_like(remaining.products), 0)


class Once:
    """Caches the moments of up to `most` channels."""

    def __init__(self, compute: Callable[[tuple[int, int]], Moments], most: int) -> None:
        self._compute, self._most = compute, most
        self._known: dict[tuple[int, int], Moments] = {}

    def __call__(self, channel: tuple[int, int]) -> Moments:
        if channel in self._known:
            return self._known[channel]
        moments = self._compute(channel)
        if len(self._known) < self._most:
            self._known[channel] = moments
        return moments
