"""Linformer (Wang et al. 2020, "Linformer: Self-Attention with Linear Complexity", eq. 7).

  A = softmax(s q (E_h k)^T) F_h        E, F learned [h m s], s = e^-0.5, m = min(proj_len, s)

Keys and values are each projected along time to m rows, which full attention reads. The projections mix all
positions, so there is no causal form, and they fix the number of keys. E and F start from N(0, 1/s), so
that a projected key is as large as a key. A may be negative, and its rows need not sum to 1.

Cost: O((l + s) m) time, O(l + s) memory. Equal to `full` only for E = F = I.
"""

from dataclasses import replace
from typing import final

from torch import nn

from informer.networks.attention.base import Attention, AttentionSpec, Keys, Outputs, Queries, Values
from informer.networks.attention.full import FullAttention
from informer.networks.attention.parameters import at_least, flag
from informer.networks.ops.fast import normal


@final
class LinformerAttention(Attention):
    """Full attention to learned mixtures of the keys.

    Args:
        spec: sizes and options of the layer.
        proj_len: number of rows m to which keys and values are projected; at most the number of keys.
        share_kv: use one projection for both, F = E.
    """

    CAUSAL = False
    COST = "O(L m) time and memory"

    def __init__(self, spec: AttentionSpec, *, proj_len: int = 64, share_kv: bool = False) -> None:
        super().__init__(spec)
        proj_len = min(at_least("proj_len", proj_len, 1), spec.len_k)
        shape = (spec.n_heads, proj_len, spec.len_k)
        self.proj_k = nn.Parameter(normal(*shape, std=spec.len_k**-0.5))
        self.proj_v = self.proj_k if flag("share_kv", share_kv) else nn.Parameter(normal(*shape, std=spec.len_k**-0.5))
        self.attend = FullAttention(replace(spec, len_k=proj_len))

    def forward(self, q: Queries, k: Keys, v: Values) -> Outputs:
        """softmax(s q (E k)^T) (F v), with dropout on the softmax in training."""
        self.check_lengths(q, k)
        return self.attend(q, self.proj_k.to(k.dtype) @ k, self.proj_v.to(v.dtype) @ v)
