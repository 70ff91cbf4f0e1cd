"""Attention to pooled keys and values (Dai et al. 2020, "Funnel-Transformer"; Zhu et al. 2019, "Asymmetric Non-local
Neural Networks", for the pyramid).

  A = softmax(s q (P k)^T) P        s = e^-0.5

  avg       row r of P averages keys r * ratio, ..., (r + 1) * ratio - 1; the last run may be shorter
  conv      row r of P contains ratio learned taps at the same positions, one kernel per head, shared by all channels
            and by keys and values; initialised to 1 / ratio; the last run uses the taps that have a key
  pyramid   for each count n, n rows: row r averages keys floor(r s / n), ..., ceil((r + 1) s / n) - 1

A run contains past and future keys, so there is no causal form. The softmax weighs runs, not keys: a short last run
counts as much as a full one.

Cost: O(l s / ratio) time, O(l + s) memory. Reduces to `full` for ratio = 1.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from informer.networks.attention.base import Attention, AttentionSpec, Keys, Outputs, Queries, Values
from informer.networks.attention.full import FullAttention
from informer.networks.attention.parameters import at_least, choice


@final
class PooledAttention(Attention):
    """Full attention to a shorter sequence of pooled keys and values.

    Args:
        spec: sizes and options of the layer.
        ratio: number of keys in a run.
        kind: `avg` or `conv`; `conv` has a learned `kernel` [h ratio].
        pyramid: pool to these counts instead of to runs, e.g. [1, 3, 6, 8]; only with `avg`.
    """

    CAUSAL = False
    COST = "O(L^2 / ratio) time, O(L) memory"
    FULL_WHEN = {"ratio": 1}  # noqa: RUF012 (a class constant of the contract)

    def __init__(
        self, spec: AttentionSpec, *, ratio: int = 4, kind: str = "avg", pyramid: Sequence[int] | None = None
    ) -> None:
        super().__init__(spec)
        self.ratio = at_least("ratio", ratio, 1)
        if not isinstance(pyramid, Sequence | None) or isinstance(pyramid, str):
            raise ValueError(f"pyramid: expected a list of counts such as [1, 3, 6, 8], found {pyramid!r}")
        self.pyramid = None if pyramid is None else tuple(at_least("pyramid", n, 1) for n in pyramid)
        if choice("kind", kind, ("avg", "conv")) == "conv" and self.pyramid is not None:
            raise ValueError("pyramid: expected kind=avg, its rows are averages, found kind=conv")
        if self.pyramid == ():
            raise ValueError("pyramid: expected at least one count, found none")
        self.kernel = nn.Parameter(torch.full((spec.n_heads, ratio), 1 / ratio)) if kind == "conv" else None
        n_pooled = -(-spec.len_k // ratio) if self.pyramid is None else sum(self.pyramid)
        self.attend = FullAttention(replace(spec, len_k=n_pooled))

    def forward(self, q: Queries, k: Keys, v: Values) -> Outputs:
        """softmax(s q (P k)^T) (P v), with dropout on the softmax in training."""
        return self.attend(q, self._pool(k), self._pool(v))

    def _pool(self, x: Tensor) -> Tensor:
        """P x [b h m e], for x [b h s e]."""
        if self.pyramid is not None:
            return torch.cat([F.adaptive_avg_pool2d(x, (n, x.shape[-1])) for n in self.pyramid], dim=2)
        n_keys = x.shape[2]
        ratio = min(self.ratio, n_keys)  # longer runs are not possible
        n_runs = -(-n_keys // ratio)
        short = n_runs * ratio - n_keys
        runs = (F.pad(x, (0, 0, 0, short)) if short else x).unflatten(2, (n_runs, ratio))
        if self.kernel is not None:
            return (self.kernel.to(x.dtype)[:, None, None, :ratio] @ runs).squeeze(3)
        lengths = torch.arange(n_keys, 0, -ratio, device=x.device).clamp(max=ratio)
        return runs.sum(dim=3) / lengths[:, None]
