"""Linear attention (Katharopoulos et al. 2020, "Transformers are RNNs", eq. 4-7).

  A_ij = f(q_i).f(k_j) / sum_j f(q_i).f(k_j)        f(x) = elu(x) + 1

Cost: O(l e^2) time, causal or not, and O(l) memory. A row whose keys' features are all 0 (elements below about -70 in
float32, -670 in float64) takes the mean of its allowed values. No parameters make it equal to full attention.
"""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from informer.attention.base import Attention
from informer.attention.kernels import Features, kernel_attention, kernel_weights, working


def _key(x: Tensor) -> Features:
    # exp(min(x, 0)) + max(x, 0): elu(x) + 1 without its cancellation, and cheaper to differentiate than a `where`
    positive = x.relu()
    return Features((x - positive).exp() + positive)


def _query(x: Tensor) -> Features:
    # A row of negative elements is scaled to a largest feature of 1, which cancels, unless all of it underflows.
    largest = x.detach().amax(dim=-1, keepdim=True).clamp(max=0)
    positive = x.relu()
    return Features((x - positive - largest.masked_fill(largest.exp() < torch.finfo(x.dtype).tiny, 0)).exp() + positive)


@final
class LinearAttention(Attention):
    """Weights proportional to products of elu(x) + 1."""

    COST = "O(L e^2) time, O(L) memory"

    def forward(
        self, q: Float[Tensor, "b h l e"], k: Float[Tensor, "b h s e"], v: Float[Tensor, "b h s d"]
    ) -> Float[Tensor, "b h l d"]:
        """A v."""
        return kernel_attention(q, k, v, _query, _key, width=q.shape[-1], causal=self.spec.causal)

    def weights(self, q: Float[Tensor, "b h l e"], k: Float[Tensor, "b h s e"]) -> Float[Tensor, "b h l s"]:
        """f(q) f(k)^T over its row sums."""
        q_wide, k_wide = working(q, k)
        largest = q_wide.amax(dim=-1, keepdim=True).clamp(max=0)  # a factor of the row, which cancels
        largest = largest.masked_fill(largest.exp() < torch.finfo(largest.dtype).tiny, 0)
        fq, fk = (torch.where(x > 0, x + 1, x.clamp(max=0).exp()) for x in (q_wide - largest, k_wide))
        scores = torch.einsum("bhlm,bhsm->bhls", fq, fk)
        return kernel_weights(scores, causal=self.spec.causal).to(q.dtype)
