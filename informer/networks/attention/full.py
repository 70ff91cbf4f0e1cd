"""Full scaled dot-product attention (Vaswani et al. 2017, "Attention Is All You Need", eq. 1).

  A = softmax(scale * q k^T)        scale = e^-0.5 by default; `attn=dot` is scale = 1 (Luong et al. 2015)

Cost: O(l s) time, O(l + s) memory. Where possible
torch's fused `scaled_dot_product_attention` is used; on the CPU that kernel needs dropout 0 and values as wide as keys,
otherwise chunks of queries are computed.
"""

from functools import partial
from typing import final

import torch
from jaxtyping import Bool
from torch import Tensor

from informer.networks.attention.base import Attention, AttentionSpec, Keys, Matrix, Outputs, Queries, Values
from informer.networks.attention.parameters import positive
from informer.networks.ops import fast
from informer.networks.ops.chunks import map_rows
from informer.networks.ops.dropout import dropout_product


@final
class FullAttention(Attention):
    """Every query attends to every allowed key.

    Args:
        spec: sizes and options of the layer.
        scale: positive factor of q.k; None means e^-0.5.
    """

    COST = "O(L^2) time, O(L) memory"
    KEY_MASK = True
    LAST_ROWS = True
    FULL_WHEN = {"scale": None}  # noqa: RUF012 (a class constant of the contract)

    def __init__(self, spec: AttentionSpec, *, scale: float | None = None) -> None:
        super().__init__(spec)
        self.scale = spec.d_head**-0.5 if scale is None else positive("scale", scale)

    def forward(self, q: Queries, k: Keys, v: Values, mask: Bool[Tensor, "b s"] | None = None) -> Outputs:
        """softmax(scale q k^T) v over the keys in `mask` (None: all), with dropout on the weights in training."""
        allowed, causal, before = None, self.spec.causal, k.shape[2] - q.shape[2]
        if mask is not None:
            allowed = mask[:, None, None, :].expand(-1, -1, q.shape[2], -1)
        if causal and (mask is not None or before):
            past = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril(before)
            allowed, causal = past if allowed is None else allowed & past, False
        if mask is not None or q.is_cuda or (self.p == 0.0 and q.shape[-1] == v.shape[-1]):
            options = {"dropout_p": self.p, "is_causal": causal, "scale": self.scale}
            return fast.attention(q, k, v, attn_mask=allowed, **options)
        return map_rows(partial(self._attend, self.p), q, k, v, width=k.shape[2], causal=self.spec.causal)

    def _attend(self, p: float, q: Tensor, k: Tensor, v: Tensor, start: int) -> Tensor:
        scores = self.hide_future((q * self.scale) @ k.transpose(-1, -2), start)
        return dropout_product(scores.softmax(dim=-1), v, p)

    def weights(self, q: Queries, k: Keys, mask: Bool[Tensor, "b s"] | None = None) -> Matrix:
        """softmax(scale q k^T), faster than by one-hot values."""
        scores = torch.einsum("bhle,bhse->bhls", q, k) * self.scale
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None, :], float("-inf"))
        return self.hide_future(scores, k.shape[2] - q.shape[2]).softmax(dim=-1)
