"""Synthesizer (Tay et al. 2020, "Synthesizer: Rethinking Self-Attention for Transformer Models"): weights that do not
compare queries with keys.

  random    A = softmax(R_h)                          R learned [h l s]
  dense     A = softmax(relu(q W1_h) W2_h)            W1 learned [h e e], W2 learned [h e s]

Causal rows take their softmax over j <= i. The parameters fix the lengths, and keys are never read. `dense` is
unscaled full attention of the queries relu(q W1) with W2 as keys, so it uses the fused kernel. `random` is computed in
chunks of rows; one matrix, and in training one dropout mask, is used for the whole batch.

Cost: O(l s) time. Memory: O(l s) for the parameters of random, O(s) for those of dense, O(l + s) for the rest.
No parameters make it equal to another mechanism.
"""

from functools import partial
from typing import final

import torch
from torch import Tensor, nn

from informer.networks.attention.base import Attention, AttentionSpec, Keys, Outputs, Queries, Values
from informer.networks.attention.full import FullAttention
from informer.networks.attention.parameters import choice
from informer.networks.ops.chunks import map_rows
from informer.networks.ops.dropout import dropout
from informer.networks.ops.fast import normal


@final
class SynthesizerAttention(Attention):
    """Learned weights, the same for every input (`random`) or computed from each query (`dense`).

    Args:
        spec: sizes and options of the layer.
        kind: `random` has `scores` (R, from N(0, 1)); `dense` has `hidden` (W1) and `keys` (W2), both from N(0, 1/e).
    """

    COST = "O(L^2) time; random: O(L^2) parameters"

    def __init__(self, spec: AttentionSpec, *, kind: str = "random") -> None:
        super().__init__(spec)
        self.kind = choice("kind", kind, ("random", "dense"))
        h, e = spec.n_heads, spec.d_head
        if self.kind == "random":
            self.scores = nn.Parameter(normal(h, spec.len_q, spec.len_k))
        else:
            self.hidden = nn.Parameter(normal(h, e, e, std=e**-0.5))
            self.keys = nn.Parameter(normal(h, e, spec.len_k, std=e**-0.5))
            self.attend = FullAttention(spec, scale=1.0)

    @property
    def unread(self) -> tuple[str, ...]:
        """`key`, and for `random` also `query`."""
        return ("query", "key") if self.kind == "random" else ("key",)

    def forward(self, q: Queries, k: Keys, v: Values) -> Outputs:
        """softmax(R) v or softmax(relu(q W1) W2) v, with dropout on the weights in training."""
        self.check_lengths(q, k)
        if self.kind == "dense":
            keys = self.keys.to(q.dtype).transpose(-1, -2).contiguous().expand(q.shape[0], -1, -1, -1)
            return self.attend((q @ self.hidden.to(q.dtype)).relu(), keys, v)
        scores = self.scores.to(v.dtype)[None]
        return map_rows(partial(self._mix, self.p), scores, v, width=v.shape[2], causal=self.spec.causal)

    def _mix(self, p: float, scores: Tensor, v: Tensor, start: int) -> Tensor:
        scores = self.hide_future(scores[0, :, :, : v.shape[2]], start)
        mix = dropout(scores.softmax(dim=-1), p)
        return torch.einsum("hls,bhsd->bhld", mix, v)
