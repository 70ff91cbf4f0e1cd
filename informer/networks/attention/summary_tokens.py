"""Learned tokens that summarise the whole sequence (the global side of ETC, Ainslie et al. 2020).

  U = softmax over j of e^-0.5 g_n.k_j      summary keys U k      summary values U v

The learned queries g replace the projected tokens of the paper's global input. Cost: O(L n_global).
"""

from typing import final

import torch
from torch import Tensor, nn

from informer.networks.attention.base import AttentionSpec
from informer.networks.ops.without_compiler import normal


@final
class Summary(nn.Module):
    """`n_global` learned queries per head, g [h n e], initialised from N(0, I) so that they read different keys."""

    def __init__(self, spec: AttentionSpec, n_global: int) -> None:
        super().__init__()
        self.g = nn.Parameter(normal(spec.n_heads, n_global, spec.d_head))

    def forward(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Summary keys [b h n e] and values [b h n d]."""
        weights = ((self.g.to(k.dtype) * self.g.shape[-1] ** -0.5) @ k.transpose(-1, -2)).softmax(dim=-1)
        return weights @ k, weights @ v


def summary_weights(q: Tensor, k: Tensor, g: Tensor, local: Tensor) -> Tensor:
    """The dense matrix P_local + P_global U of rows that see `local` ([l s] or [h l s]) and the summaries."""
    scale = q.shape[-1] ** -0.5
    reading = torch.softmax(torch.einsum("hne,bhse->bhns", g.to(k.dtype), k) * scale, dim=-1)
    summary_keys = torch.einsum("bhns,bhse->bhne", reading, k)
    near = torch.einsum("bhle,bhse->bhls", q, k).masked_fill(~local, float("-inf"))
    far = torch.einsum("bhle,bhne->bhln", q, summary_keys)
    joint = torch.softmax(torch.cat([near, far], dim=-1) * scale, dim=-1)
    p_local, p_global = joint.split([k.shape[2], g.shape[1]], dim=-1)
    return p_local + p_global @ reading
