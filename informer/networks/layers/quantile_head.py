"""Quantiles that cannot cross, for each forecast column (with the increments of Park et al. 2022, "Learning Quantile
Functions without Quantile Crossing for Distribution-free Time Series Forecasting").

  median  q_m = raw_m
  above   q_i = q_(i-1) + softplus(raw_i + gap_i)
  below   q_i = q_(i+1) - softplus(raw_i + gap_i)

The gaps are constants: with raw = 0 the result is the quantiles of a standard normal, a good start for scaled data.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import NormalDist
from typing import final

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from informer.networks.ops.products import Linear

MEDIAN = 0.5
"""The level of the point forecast."""


@final
class QuantileHead(nn.Module):
    """Maps decoder rows to quantiles in increasing order.

    Args:
        d_model: width of the rows.
        n_columns: number of forecast columns.
        levels: quantile levels between 0 and 1, increasing, with 0.5 among them.

    Raises:
        ValueError: the levels are not valid.
    """

    gaps: Tensor

    def __init__(self, d_model: int, n_columns: int, levels: Sequence[float]) -> None:
        super().__init__()
        if MEDIAN not in levels or not all(low < high for low, high in pairwise([0.0, *levels, 1.0])):
            raise ValueError(f"quantiles: expected increasing levels between 0 and 1, 0.5 among them, found {levels}")
        self.levels, self.n_levels, self.median = tuple(levels), len(levels), list(levels).index(MEDIAN)
        self.linear = Linear(d_model, n_columns * len(levels))
        self.register_buffer("gaps", torch.tensor(_gaps(levels)), persistent=False)

    def forward(self, x: Float[Tensor, "b l d"]) -> Float[Tensor, "b l n q"]:
        """Quantiles of every column at every row."""
        raw = rearrange(self.linear(x), "b l (n q) -> b l n q", q=self.n_levels)
        steps = F.softplus(raw + self.gaps).unbind(-1)
        quantiles = [raw[..., self.median]]
        # one after the other: rounding in another order of summation could make two quantiles cross
        for step in steps[self.median + 1 :]:
            quantiles.append(quantiles[-1] + step)
        for step in reversed(steps[: self.median]):
            quantiles.insert(0, quantiles[0] - step)
        return torch.stack(quantiles, dim=-1)


def _gaps(levels: Sequence[float]) -> list[float]:
    """softplus(gap) is the distance to the next quantile towards the median in a standard normal; 0 at the median."""
    quantiles, median = [NormalDist().inv_cdf(level) for level in levels], list(levels).index(MEDIAN)
    gaps = [math.log(math.expm1(high - low)) for low, high in pairwise(quantiles)]
    return [*gaps[:median], 0.0, *gaps[median:]]
