"""The interface of attention mechanisms, the sizes fixed at construction, and the shape legend.

Legend for every signature in this package:
  b batch   h heads   l queries   s keys   e features of a query or key   d features of a value
Heads stay in the layout `b h l e`; only `informer.networks.layers.attention_layer` splits and merges them.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

# shapes of operands and results, named once for all mechanisms
Queries = Float[Tensor, "b h l e"]
Keys = Float[Tensor, "b h s e"]
Values = Float[Tensor, "b h s d"]
Outputs = Float[Tensor, "b h l d"]
Matrix = Float[Tensor, "b h l s"]
# rows of a layer, the rows that they ask, which of those exist, and the rows that come out
Rows = Float[Tensor, "b l d"]
Memory = Float[Tensor, "b s d"]
KeyMask = Bool[Tensor, "b s"]
OutRows = Float[Tensor, "b n d"]


@dataclass(frozen=True, slots=True)
class AttentionSpec:
    """Sizes and options of a layer, fixed when the model is built.

    Args:
        n_heads: number of heads h.
        d_head: features e of one query or key.
        len_q: number of queries l.
        len_k: number of keys s.
        causal: row i may only use keys j <= i; requires len_q == len_k.
        dropout: probability of dropping a softmax weight in training.
        layer_index: position of the layer in its stack, counted from 0.

    Raises:
        ValueError: a value out of range.
    """

    n_heads: int
    d_head: int
    len_q: int
    len_k: int
    causal: bool = False
    dropout: float = 0.0
    layer_index: int = 0

    def __post_init__(self) -> None:
        for field in ("n_heads", "d_head", "len_q", "len_k"):
            if getattr(self, field) < 1:
                raise ValueError(f"AttentionSpec.{field}: expected at least 1, found {getattr(self, field)}")
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"AttentionSpec.dropout: expected 0 <= dropout < 1, found {self.dropout}")
        if self.causal and self.len_q != self.len_k:
            raise ValueError(
                f"causal attention needs as many queries as keys, found len_q={self.len_q}, len_k={self.len_k}"
            )


class Attention(nn.Module, ABC):
    """Base class of attention mechanisms.

    `forward` attends at the documented cost. It is linear in v, and `weights` is the matrix that it applies: in eval
    mode `attn(q, k, v) == attn.weights(q, k) @ v`.

    Args:
        spec: sizes and options of the layer.

    Raises:
        ValueError: the mechanism has no causal form, or needs as many queries as keys.
    """

    CAUSAL: ClassVar[bool] = True
    """Whether it has a causal form."""
    CROSS: ClassVar[bool] = True
    """Whether it allows len_q != len_k."""
    COST: ClassVar[str]
    """Time and memory of `forward`, in words."""
    FULL_WHEN: ClassVar[dict[str, Any] | None] = None
    """Parameters with which it equals full attention at any length, or None."""
    KEY_MASK: ClassVar[bool] = False
    """Whether `forward` and `weights` take `mask`, the keys that exist; every query needs one that it may use."""
    LAST_ROWS: ClassVar[bool] = False
    """Whether each row is computed by itself, so that `forward` and `weights` also take the last queries alone."""
    MOVED: ClassVar[tuple[str, ...]] = ()
    """Buffers that training updates; a warm start copies them even if other parameters of the mechanism differ."""

    def __init__(self, spec: AttentionSpec) -> None:
        super().__init__()
        name = type(self).__name__
        if spec.causal and not self.CAUSAL:
            raise ValueError(f"{name} has no causal form: choose another mechanism for the decoder's self-attention")
        if spec.len_q != spec.len_k and not self.CROSS:
            raise ValueError(
                f"{name} needs len_q == len_k, found {spec.len_q} and {spec.len_k}: "
                "use it for self-attention, without model.distil=funnel"
            )
        self.spec = spec

    @property
    def p(self) -> float:
        """Probability of dropping a softmax weight in this call, 0 outside of training."""
        return self.spec.dropout if self.training else 0.0

    @property
    def unread(self) -> tuple[str, ...]:
        """The operands, `query` or `key`, whose values the mechanism does not use."""
        return ()

    @abstractmethod
    def forward(self, q: Queries, k: Keys, v: Values) -> Outputs:
        """Outputs of all queries."""

    def weights(self, q: Queries, k: Keys) -> Matrix:
        """Dense attention matrix in eval mode, for plots: column j is what becomes of a value of 1 at key j alone."""
        one_hot, trains = torch.eye(k.shape[2], dtype=q.dtype, device=q.device), self.training
        self.train(False)
        weights = self.forward(q, k, one_hot.expand(*k.shape[:2], -1, -1))
        self.train(trains)
        return weights

    def check_lengths(self, q: Queries, k: Keys) -> None:
        """Check the lengths of a call, for mechanisms with parameters or a sample for given positions.

        Raises:
            ValueError: the lengths differ from those for which the mechanism was built.
        """
        if (q.shape[2], k.shape[2]) != (self.spec.len_q, self.spec.len_k):
            raise ValueError(
                f"expected {self.spec.len_q} queries and {self.spec.len_k} keys, the lengths it was built for, "
                f"found {q.shape[2]} and {k.shape[2]}"
            )

    def scaled_scores(self, q: Queries, k: Keys, start: int) -> Matrix:
        """e^-0.5 q k^T of rows start, start + 1, ...; causal: -inf at keys after the row."""
        return self.hide_future((q * self.spec.d_head**-0.5) @ k.transpose(-1, -2), start)

    def hide_future(self, scores: Float[Tensor, "*b c s"], start: int) -> Float[Tensor, "*b c s"]:
        """Scores of rows start, start + 1, ...; causal: -inf at keys after the row."""
        if not self.spec.causal:
            return scores
        n_rows, n_keys = scores.shape[-2:]
        rows = torch.arange(start, start + n_rows, device=scores.device)
        return scores.masked_fill(torch.arange(n_keys, device=scores.device) > rows[:, None], float("-inf"))
