"""Copies of a network made during its training, whose mean forecast has less variance than that of the last one.

G. Huang et al., "Snapshot Ensembles: Train 1, Get M for Free", ICLR 2017; learning-rate restarts: I. Loshchilov and
F. Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", ICLR 2017. Cost: one forward pass per copy.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn


@final
class Snapshots(nn.Module):
    """Earlier states of a network, next to the network itself.

    Args:
        modules: the modules that training changes, by name.
        n: number of networks, the one in training included; at least 2.
    """

    def __init__(self, modules: Mapping[str, nn.Module], n: int) -> None:
        super().__init__()
        self.copies = nn.ModuleList(nn.ModuleDict(deepcopy(dict(modules))) for _ in range(n - 1)).requires_grad_(False)
        shares = torch.zeros(n)
        shares[0] = 1.0
        self.shares: Tensor
        self.register_buffer("shares", shares)

    @torch.no_grad()
    def take(self, modules: Mapping[str, nn.Module]) -> None:
        """Copy the network as it is now; nothing happens once all copies are made."""
        n_taken = int((self.shares > 0).sum())
        if n_taken == len(self.shares):
            return
        self.copies[n_taken - 1].load_state_dict(nn.ModuleDict(dict(modules)).state_dict())
        self.shares[: n_taken + 1] = 1.0 / (n_taken + 1)

    def mean(self, forecasts: Sequence[Float[Tensor, "b h n *q"]]) -> Float[Tensor, "b h n *q"]:
        """Mean forecast of the network and of the copies made so far, given in this order."""
        return torch.tensordot(self.shares.to(forecasts[0]), torch.stack(list(forecasts)), dims=1)
