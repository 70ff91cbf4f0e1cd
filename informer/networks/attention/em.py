"""Expectation-maximisation attention (Li et al. 2019, "Expectation-Maximization Attention Networks", section 3).

  repeat n_steps times:   Z = softmax_n(k mu^T)           share of each base per key, mu [n e]   (expectation)
                          P = Z over its column sums      share of each key per base
                          mu = P^T k, scaled to length 1  weighted means of the keys            (maximisation)
  A = softmax_n(q mu^T) P^T                               values are rebuilt from the base values P^T v

Queries use the bases of the last Z: for q = k, A v is the paper's Z mu with v instead of x. The initial bases are
buffers, which training moves towards the mean of each batch's last bases; eval does not change them.

Cost: O(L n_bases n_steps) time and O(L n_bases) memory. A has at most rank n_bases; no parameters make it equal to
full attention. The bases mix keys of all positions, so there is no causal form.
"""

from typing import final

import torch
import torch.nn.functional as F
from torch import Tensor

from informer.networks.attention.base import Attention, AttentionSpec, Keys, Outputs, Queries, Values
from informer.networks.attention.kernels import promote_half
from informer.networks.attention.moving_average import new_average, over_processes
from informer.networks.attention.parameters import at_least, flag, share
from informer.networks.ops.fast import is_shape_only, normal, outside_graphs


@final
class EMAttention(Attention):
    """Queries attend to a few bases, which expectation-maximisation fits to the keys.

    Args:
        spec: sizes and options of the layer.
        n_bases: bases per head.
        n_steps: number of expectation-maximisation steps.
        momentum: weight of the initial bases in their average with those of a training batch; 1 never changes them.
        unit_bases: scale each base to length 1 after each step, as the paper does for stability.
    """

    CAUSAL = False
    COST = "O(L n_bases n_steps) time, O(L n_bases) memory"
    MOVED = ("bases",)

    def __init__(
        self,
        spec: AttentionSpec,
        *,
        n_bases: int = 64,
        n_steps: int = 3,
        momentum: float = 0.9,
        unit_bases: bool = True,
    ) -> None:
        super().__init__(spec)
        self.n_bases = at_least("n_bases", n_bases, 1)
        self.n_steps = at_least("n_steps", n_steps, 1)
        self.momentum = share("momentum", momentum)
        self.unit_bases = flag("unit_bases", unit_bases)
        self.bases: Tensor
        bases = normal(spec.n_heads, n_bases, spec.d_head)
        self.register_buffer("bases", bases if is_shape_only() else F.normalize(bases, dim=-1))

    def forward(self, q: Queries, k: Keys, v: Values) -> Outputs:
        """Fit the bases to the keys and attend to them; training also updates the initial bases."""
        dtype = v.dtype
        q, k, v = promote_half(q, k, v)
        bases = self.bases.to(k.dtype)
        for step in range(self.n_steps):
            # Softmax over positions of the logarithms: divides by the column sums without dividing by 0.
            responsibilities = (k @ bases.transpose(-1, -2)).log_softmax(dim=-1).softmax(dim=2).transpose(-1, -2)
            if step == self.n_steps - 1 and not (self.training and self.momentum < 1):
                break
            new = responsibilities @ k
            if self.unit_bases:
                new = F.normalize(new, dim=-1)
            if step == self.n_steps - 1:
                self._move(new.detach())
            else:
                bases = new
        return ((q @ bases.transpose(-1, -2)).softmax(dim=-1) @ (responsibilities @ v)).to(dtype)

    @outside_graphs
    @torch.no_grad()
    def _move(self, last: Tensor) -> None:
        """Update the average with the mean of a batch's last bases [b h n e]. The buffer is replaced, not modified: a
        pending backward pass may still need the old one."""
        total = over_processes(torch.cat([last.sum(dim=0).flatten(), last.new_full((1,), len(last))]))
        mean = (total[:-1] / total[-1]).view_as(self.bases)
        self.bases = new_average(self.bases, mean, self.momentum)
