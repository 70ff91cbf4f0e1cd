"""Moments of all channels over the same windows, sufficient statistics of maps with given strengths.

Moments of disjoint windows add up, except for rounding, so a fit on all rows needs only the earlier moments and the
later rows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from informer.linear.held_out import Channel
from informer.linear.moments import Moments


@dataclass(frozen=True, eq=False, slots=True)
class Sums:
    """Moments of channels over windows.

    Args:
        pooled: weighted sum over all channels.
        own: moments of each channel; empty if all channels share one map.
    """

    pooled: Moments
    own: Mapping[Channel, Moments]

    @classmethod
    def over(
        cls, channels: Sequence[Channel], weights: Sequence[float], keeps: bool, moments: Callable[[Channel], Moments]
    ) -> "Sums":
        """Sum the moments of each channel, one channel at a time.

        Args:
            channels, weights: all channels, at least one, and their weights.
            keeps: also keep the moments of each channel.
            moments: returns the moments of a channel.
        """
        pooled, by_channel = None, {}
        for channel, weight in zip(channels, weights, strict=True):
            channel_moments = moments(channel)
            weighted = channel_moments.times(weight)
            pooled = weighted if pooled is None else pooled + weighted
            if keeps:
                by_channel[channel] = channel_moments
        assert pooled is not None, "at least one channel"
        return cls(pooled, by_channel)

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(
            self.pooled + other.pooled, {channel: self.own[channel] + other.own[channel] for channel in self.own}
        )

    def __sub__(self, other: "Sums") -> "Sums":
        return Sums(
            self.pooled - other.pooled, {channel: self.own[channel] - other.own[channel] for channel in self.own}
        )


def packed(products: Float64[np.ndarray, "z z"]) -> Float64[np.ndarray, "t"]:
    """The upper triangle of a symmetric matrix, row by row."""
    return products[np.triu_indices(len(products))]


def unpacked(triangle: Float64[np.ndarray, "t"], size: int) -> Float64[np.ndarray, "z z"]:
    """The symmetric matrix of `size` rows whose `packed` upper triangle is `triangle`."""
    products = np.zeros((size, size))
    rows, columns = np.triu_indices(size)
    products[rows, columns] = triangle
    products[columns, rows] = triangle
    return products
