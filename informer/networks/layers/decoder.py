"""Decoder: masked self-attention, cross-attention to the encoder, feed-forward (Informer, section 3.3)."""

from collections.abc import Sequence
from typing import Any, final

from jaxtyping import Bool, Float
from torch import Tensor, nn

from informer.networks.attention.recurrent import RecurrentAttention
from informer.networks.layers.attention_layer import AttentionLayer
from informer.networks.layers.feed_forward import FeedForward
from informer.networks.ops.dropout import Dropout
from informer.networks.ops.recompute import run

States = list[tuple[Tensor, Tensor, Any]]
"""For each layer keys and values of the memory, and the state of self-attention."""


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
        x: Float[Tensor, "b l d"],
        memory: Float[Tensor, "b s d"],
        n_last: int | None = None,
        mask: Bool[Tensor, "b l"] | None = None,
        memory_mask: Bool[Tensor, "b s"] | None = None,
    ) -> Float[Tensor, "b n d"]:
        """The last `n_last` output rows (None: all); earlier rows only serve as keys and values of self-attention.

        `mask` and `memory_mask` are the rows of x and of the memory that are keys (None: all).
        """
        rows = x if n_last is None else x[:, -n_last:]
        x = self.norm1(rows + self.dropout(self.self_attention(x, x, n_last, mask)))
        x = self.norm2(x + self.dropout(self.cross_attention(x, memory, mask=memory_mask)))
        return self.norm3(x + self.feed_forward(x))

    def steps(
        self, x: Float[Tensor, "b l d"], keys: Float[Tensor, "b h s e"], values: Float[Tensor, "b h s e"], state: Any
    ) -> tuple[Float[Tensor, "b l d"], Any]:
        """The output of the next rows, and the state of self-attention after them.

        Keys and values are the `memory_heads` of cross-attention.
        """
        attended, state = self.self_attention.steps(x, state)
        x = self.norm1(x + self.dropout(attended))
        x = self.norm2(x + self.dropout(self.cross_attention.attend(x, keys, values)))
        return self.norm3(x + self.feed_forward(x)), state


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

    def forward(self, x: Float[Tensor, "b l d"], memory: Float[Tensor, "b s d"]) -> Float[Tensor, "b pred_len d"]:
        """[b label_len+pred_len d] -> [b pred_len d]."""
        x = run(self.layers[:-1], x, memory, recompute=self.recompute)
        return self.norm(run(self.layers[-1:], x, memory, self.pred_len, recompute=self.recompute))

    def has_steps(self) -> bool:
        """Whether `steps` gives the rows of `forward`: every mechanism is a `RecurrentAttention`, so that rows of
        cross-attention do not depend on each other, with features that stay the same, and no layer has `mix`."""
        layers = [each for layer in self.layers for each in (layer.self_attention, layer.cross_attention)]
        redrawn = self.training and any(getattr(layer.attention, "redraw_every", 0) for layer in layers)
        able = all(isinstance(layer.attention, RecurrentAttention) and not layer.mix for layer in layers)
        return able and not redrawn

    def begin(self, memory: Float[Tensor, "b s d"]) -> States:
        """The states before the first row."""
        return [
            (
                *layer.cross_attention.memory_heads(memory),
                layer.self_attention.attention.initial_state(memory.shape[0], device=memory.device),
            )
            for layer in self.layers
        ]

    def steps(self, x: Float[Tensor, "b l d"], states: States) -> tuple[Float[Tensor, "b l d"], States]:
        """The output of the next rows, and the states after them; those given stay as they are."""
        after: States = []
        for layer, (keys, values, state) in zip(self.layers, states, strict=True):
            x, new = layer.steps(x, keys, values, state)
            after.append((keys, values, new))
        return self.norm(x), after
