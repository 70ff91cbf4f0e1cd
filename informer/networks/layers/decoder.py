"""Decoder: masked self-attention, cross-attention to the encoder, feed-forward (Informer, section 3.3)."""

from collections.abc import Sequence
from typing import Any, final

from jaxtyping import Bool, Float
from torch import Tensor, nn

from informer.networks.attention.base import KeyMask, Memory, OutRows, Rows
from informer.networks.layers.attention_layer import AttentionLayer
from informer.networks.layers.feed_forward import FeedForward
from informer.networks.ops.dropout import Dropout
from informer.networks.ops.recompute import run


@final
class DecoderLayer(nn.Module):
    """Self-attention, cross-attention and feed-forward, each followed by add and LayerNorm."""

    def __init__(
        self,
        self_attention: AttentionLayer,
        cross_attention: AttentionLayer,
        feed_forward: FeedForward,
        *,
        d_model: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.norm3 = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: Rows,
        memory: Memory,
        n_last: int | None = None,
        mask: Bool[Tensor, "b l"] | None = None,
        memory_mask: KeyMask | None = None,
    ) -> OutRows:
        """The last `n_last` output rows (None: all); earlier rows only serve as keys and values of self-attention.

        `mask` and `memory_mask` are the rows of x and of the memory that are keys (None: all).
        """
        rows = x if n_last is None else x[:, -n_last:]
        x = self.norm1(rows + self.dropout(self.self_attention(x, x, n_last, mask)))
        x = self.norm2(x + self.dropout(self.cross_attention(x, memory, mask=memory_mask)))
        return self.norm3(x + self.feed_forward(x))


@final
class Decoder(nn.Module):
    """Decoder layers and a final LayerNorm; the last layer computes only the rows of the forecast."""

    layers: Any

    def __init__(self, layers: Sequence[DecoderLayer], *, d_model: int, pred_len: int, recompute: bool) -> None:
        super().__init__()
        self.recompute = recompute
        self.layers = nn.ModuleList(layers)
        self.norm = nn.LayerNorm(d_model)
        self.pred_len = pred_len

    def forward(self, x: Rows, memory: Memory) -> Float[Tensor, "b pred_len d"]:
        """[b label_len+pred_len d] -> [b pred_len d]."""
        x = run(self.layers[:-1], x, memory, recompute=self.recompute)
        return self.norm(run(self.layers[-1:], x, memory, self.pred_len, recompute=self.recompute))
