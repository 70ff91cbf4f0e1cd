"""Hard attention: every query takes the value of its best key (Xu et al. 2015, "Show, Attend and Tell"), trained by
the straight-through Gumbel-softmax estimator (Jang, Gu & Poole 2017, "Categorical Reparameterization").

  forward    A = one_hot(argmax_j(s q_i.k_j + g_ij)), the first of equals        s = e^-0.5
  backward   gradient of softmax_j((s q_i.k_j + g_ij) / temperature)
  g          -log(-log(uniform)) noise in training if `gumbel`, else 0

Values get the gradient of the one-hot matrix, queries and keys that of the soft one. There is no dropout, because it
would zero whole rows.

Cost: O(l s) time over chunks of queries, O(l + s) memory plus one chunk. In eval it equals `topk` with k=1 if no keys
tie; without noise, its soft matrix at temperature 1 is that of `full`.
"""

from functools import partial
from typing import final

import torch
from torch import Tensor

from informer.networks.attention.base import Attention, AttentionSpec, Keys, Outputs, Queries, Values
from informer.networks.attention.parameters import flag, positive
from informer.networks.ops.chunks import map_rows

LEAST = 1e-6
"""Lower temperatures make float32 scores infinite."""


@final
class HardAttention(Attention):
    """One key per query, with a straight-through gradient.

    Args:
        spec: sizes and options of the layer.
        temperature: temperature of the softmax that gives the gradient; lower is closer to the one-hot and noisier.
        gumbel: add Gumbel noise to the scores in training.
    """

    COST = "O(L^2) time, O(L) memory"
    LAST_ROWS = True

    def __init__(self, spec: AttentionSpec, *, temperature: float = 1.0, gumbel: bool = True) -> None:
        super().__init__(spec)
        self.temperature = positive("temperature", temperature, minimum=LEAST)
        self.gumbel = flag("gumbel", gumbel)

    def forward(self, q: Queries, k: Keys, v: Values) -> Outputs:
        """The value of each query's best key."""
        noisy = self.training and self.gumbel
        return map_rows(partial(self._attend, noisy), q, k, v, width=k.shape[2], causal=self.spec.causal)

    def _attend(self, noisy: bool, q: Tensor, k: Tensor, v: Tensor, start: int) -> Tensor:
        scores = self.scaled_scores(q, k, start)
        if noisy:
            scores = scores + gumbel_noise(scores)
        best = scores.argmax(dim=-1, keepdim=True)
        if not torch.is_grad_enabled():
            return v.gather(2, best.expand(-1, -1, -1, v.shape[3]))
        soft = (scores / self.temperature).softmax(dim=-1)
        # soft - soft is exactly 0 and carries the gradient: the weights stay exactly one-hot
        one_hot = (soft - soft.detach()).scatter_add_(-1, best, torch.ones_like(best, dtype=soft.dtype))
        return one_hot @ v


def gumbel_noise(like: Tensor) -> Tensor:
    """Standard Gumbel noise of `like`'s shape and type, -log(-log u) of uniform u.

    Drawn in float32: half precision cannot hold u near 1. The clamp keeps u = 0, one draw in 2^24, from giving -inf.
    """
    uniform = torch.rand_like(like, dtype=torch.float32).clamp_(min=2.0**-25)
    return uniform.log_().neg_().log_().neg_().to(like.dtype)
