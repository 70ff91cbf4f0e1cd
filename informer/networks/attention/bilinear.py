"""Bilinear ("general") attention (Luong, Pham & Manning 2015, "Effective Approaches to Attention-based Neural Machine
Translation", section 3.1).

  A = softmax_j(q_i^T W_h k_j)        W_h learned, one [e e] matrix per head, initialised to e^-0.5 I

Cost: that of full attention plus O(l e^2): it is unscaled full attention of the queries W^T q, so it uses the fused
kernel. Reduces to `full` for W = e^-0.5 I, the initial value.
"""

from typing import final

import torch
from torch import nn

from informer.networks.attention.base import Attention, AttentionSpec, Keys, Outputs, Queries, Values
from informer.networks.attention.full import FullAttention
from informer.networks.ops.fast import is_shape_only


@final
class BilinearAttention(Attention):
    """Scores from a learned bilinear form.

    Args:
        spec: sizes and options of the layer. `weight` is W [h e e].
    """

    COST = "O(L^2) time, O(L) memory"
    LAST_ROWS = True

    def __init__(self, spec: AttentionSpec) -> None:
        super().__init__(spec)
        weight = torch.empty(spec.n_heads, spec.d_head, spec.d_head)
        if not is_shape_only():
            weight.copy_(torch.eye(spec.d_head) * spec.d_head**-0.5)
        self.weight = nn.Parameter(weight)
        self.attend = FullAttention(spec, scale=1.0)

    def forward(self, q: Queries, k: Keys, v: Values) -> Outputs:
        """softmax(q W k^T) v, with dropout on the weights in training."""
        return self.attend(q @ self.weight.to(q.dtype), k, v)
