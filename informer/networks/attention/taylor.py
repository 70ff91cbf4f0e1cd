"""First-order Taylor attention: exp(q^.k^) cut after the linear term; unit vectors keep it non-negative.

  A_ij = (1 + q^_i.k^_j) / sum_j (1 + q^_i.k^_j)        x^ = x / |x|, 0 for x = 0

Used for segmentation by Li et al. 2020 ("Linear Attention Mechanism", eq. 10-13). Cost: O(l e^2) time, causal or not,
and O(l) memory. A row opposite to all its keys returns the mean of their values. No parameters make it equal to full
attention.
"""

from typing import final

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from informer.networks.attention.base import Attention
from informer.networks.attention.kernels import Features, kernel_attention, kernel_weights, promote_half
from informer.networks.attention.recurrent import KernelState, empty_kernel_state, kernel_step


def _unit(x: Tensor) -> Tensor:
    # Divide by the largest element first, so that squares neither overflow nor underflow; this cancels.
    largest = x.detach().abs().amax(dim=-1, keepdim=True)
    x = x / largest.masked_fill(largest == 0, 1)
    return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).masked_fill(largest == 0, 1)


def _features(x: Tensor) -> Features:
    return Features(F.pad(_unit(x), (0, 1), value=1.0))


def _rounding(x: Tensor) -> float:
    """Rounding error per key of 1 + q^.k^ if it should be 0."""
    return 4 * x.shape[-1] * torch.finfo(torch.promote_types(x.dtype, torch.float32)).eps


@final
class TaylorAttention(Attention):
    """Weights proportional to 1 + cosine."""

    COST = "O(L e^2) time, O(L) memory"

    def forward(
        self, q: Float[Tensor, "b h l e"], k: Float[Tensor, "b h s e"], v: Float[Tensor, "b h s d"]
    ) -> Float[Tensor, "b h l d"]:
        """A v."""
        width, causal = q.shape[-1] + 1, self.spec.causal
        return kernel_attention(q, k, v, _features, _features, width=width, causal=causal, floor=_rounding(q))

    def weights(self, q: Float[Tensor, "b h l e"], k: Float[Tensor, "b h s e"]) -> Float[Tensor, "b h l s"]:
        """1 + cosine, divided by the row sums."""
        scores = 1 + torch.einsum("bhle,bhse->bhls", *(_unit(x) for x in promote_half(q, k)))
        return kernel_weights(scores, causal=self.spec.causal, floor=_rounding(q)).to(q.dtype)

    def initial_state(
        self, batch_size: int, d_value: int | None = None, *, device: torch.device | str | None = None
    ) -> KernelState:
        """The state before the first position; see `informer.networks.attention.recurrent`."""
        return empty_kernel_state(self.spec, batch_size, self.spec.d_head + 1, d_value, device)

    def step(
        self, state: KernelState, q_t: Float[Tensor, "b h e"], k_t: Float[Tensor, "b h e"], v_t: Float[Tensor, "b h d"]
    ) -> tuple[Float[Tensor, "b h d"], KernelState]:
        """The row of the next position, and the state after it."""
        return kernel_step(state, q_t, k_t, v_t, _features, _features, floor=_rounding(q_t))
