"""Linear maps whose weights vary with the state of the window: the daily profile of a load, for example, differs on
weekends (T. Hastie and R. Tibshirani, "Varying-Coefficient Models", 1993).
"""

from collections.abc import Mapping, Sequence
from math import pi

import torch
from jaxtyping import Float
from torch import Tensor, nn

from informer.config.model import VARY_WITH

COSINES, NEWEST = 32, 24
"""Inputs of a long window: its COSINES lowest cosine components and its NEWEST last rows."""

LIMIT = 3.0
"""States are limited to this many standard deviations, so that unusual windows do not extrapolate."""

LEAST_SPREAD = 0.05
"""Added to the standard deviation of a window before its logarithm is taken, in scaled units."""


class VaryingMaps(nn.Module):
    """forecast = sum over states r of r W_r^T inputs, for all columns and series alike.

    `inputs` are a constant and the history minus its mean: its rows, or of a long window its lowest cosine components
    and its last rows. Each name of VARY_WITH stands for one or two states of the window, standardised with mean and
    standard deviation over the training windows: cosine and sine of the time of `day`, `week` or `year` at its last
    row; its `spread`, the logarithm of the standard deviation; the mean of its last `season` and its `last` value, both
    minus the mean. Weights are zero until they are fitted.

    Args:
        names: what the weights vary with.
        seq_len, pred_len: rows of the window and of the forecast.
        cycles: positions of the first cosine and sine of each cycle in `Linear.date`.
    """

    weight: Tensor
    """Of each state."""
    centre: Tensor
    scale: Tensor
    """Mean and standard deviation of each state."""
    newest: Tensor
    """Weights of the rows in the mean of the last season."""
    share: Tensor
    """Weight of these maps in the forecast; below 1 if it is averaged with another."""
    basis: Tensor

    def __init__(
        self, names: Sequence[str], seq_len: int, pred_len: int, cycles: Mapping[str, tuple[int, int]]
    ) -> None:
        super().__init__()
        self.names, self.cycles = [name for name in VARY_WITH if name in names], dict(cycles)
        n = len(self.owners)
        basis = input_basis(seq_len)
        for name, buffer in (
            ("weight", torch.zeros(n, 1 + basis.shape[1], pred_len)),
            ("centre", torch.zeros(n)),
            ("scale", torch.ones(n)),
            ("newest", torch.zeros(seq_len)),
            ("share", torch.ones(())),
        ):
            self.register_buffer(name, buffer)
        self.register_buffer("basis", basis, persistent=False)

    @property
    def owners(self) -> list[str]:
        """For each state, the name that stands for it."""
        return [name for name in self.names for _ in range(2 if name in self.cycles else 1)]

    def forward(
        self, history: Float[Tensor, "b seq_len n"], date: Float[Tensor, "b e"]
    ) -> Float[Tensor, "b pred_len n"]:
        """What these maps add to the forecast, in scaled units.

        Args:
            history: lookback window of the targets, without gaps.
            date: see `Linear.date`.
        """
        states, inputs = self.standard(self.states(history, date)), self.inputs(history)
        varied = states[..., :, None] * inputs[..., None, :]
        forecast = varied.flatten(-2) @ self.weight.to(history).flatten(0, 1)
        return (self.share.to(forecast) * forecast).transpose(1, 2)

    def inputs(self, history: Float[Tensor, "b seq_len n"]) -> Float[Tensor, "b n k"]:
        """The inputs, the constant first."""
        rows = (history - history.mean(dim=1, keepdim=True)).transpose(1, 2)
        return torch.cat([torch.ones_like(rows[..., :1]), rows @ self.basis.to(rows)], dim=-1)

    def standard(self, states: Float[Tensor, "*b s"]) -> Float[Tensor, "*b s"]:
        """The states in standard deviations from their mean, limited to LIMIT."""
        return ((states - self.centre.to(states)) / self.scale.to(states)).clamp(-LIMIT, LIMIT)

    def states(self, history: Float[Tensor, "b seq_len n"], date: Float[Tensor, "b e"]) -> Float[Tensor, "b n s"]:
        """The states before they are standardised."""
        mean, columns = history.mean(dim=1), []
        for name in self.names:
            if name in self.cycles:
                columns += [date[:, position, None].expand_as(mean) for position in self.cycles[name]]
            elif name == "spread":
                columns.append((history.std(dim=1, correction=0) + LEAST_SPREAD).log())
            else:
                newest = (
                    history[:, -1] if name == "last" else torch.einsum("bln,l->bn", history, self.newest.to(history))
                )
                columns.append(newest - mean)
        return torch.stack(columns, dim=-1)


def input_basis(seq_len: int) -> Float[Tensor, "seq_len k"]:
    """Vectors on which the rows of a window are projected: all rows of a short window."""
    if seq_len <= COSINES + NEWEST:
        return torch.eye(seq_len)
    rows, orders = torch.arange(seq_len, dtype=torch.float64)[:, None], torch.arange(1, COSINES + 1)
    cosines = (2 / seq_len) ** 0.5 * (pi * (rows + 0.5) * orders / seq_len).cos()
    return torch.cat([cosines.float(), torch.eye(seq_len)[:, -NEWEST:]], dim=1)
