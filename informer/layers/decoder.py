"""Decoder: masked self-attention, cross-attention to the encoder, feed-forward (Informer, section 3.3)."""

from collections.abc import Sequence
from typing import final

from jaxtyping import Float
from torch import Tensor, nn

from informer.attention.dropout import Dropout
from informer.layers.attention_layer import AttentionLayer
from informer.layers.feed_forward import FeedForward


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
        self, x: Float[Tensor, "b l d"], memory: Float[Tensor, "b s d"], n_last: int
    ) -> Float[Tensor, "b n_last d"]:
        """The last `n_last` rows of the layer's output; rows before them only serve self-attention."""
        x = self.norm1(x[:, -n_last:] + self.dropout(self.self_attention(x, x, n_last)))
        x = self.norm2(x + self.dropout(self.cross_attention(x, memory)))
        return self.norm3(x + self.feed_forward(x))


@final
class Decoder(nn.Module):
    """Layers and a final LayerNorm; the last layer computes the forecast's rows alone."""

    def __init__(self, layers: Sequence[DecoderLayer], *, d_model: int, pred_len: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = nn.LayerNorm(d_model)
        self.pred_len = pred_len

    def forward(self, x: Float[Tensor, "b l d"], memory: Float[Tensor, "b s d"]) -> Float[Tensor, "b pred_len d"]:
        """[b label_len+pred_len d] -> [b pred_len d]."""
        for layer in self.layers[:-1]:
            x = layer(x, memory, x.shape[1])
        return self.norm(self.layers[-1](x, memory, self.pred_len))
