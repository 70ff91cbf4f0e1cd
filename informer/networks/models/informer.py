"""Informer (Zhou et al. 2021, "Informer: Beyond Efficient Transformer for Long Sequence Time-Series Forecasting").

  memory   = encoder(embedding(lookback window))                        attention and distilling; stacks form a pyramid
  forecast = head(decoder(embedding([start token, horizon]), memory))   the whole horizon in one pass

The horizon of the decoder's input is zero, except in columns known ahead, and has its calendar marks.
"""

import re
from collections.abc import Sequence
from typing import final

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from informer.networks.attention.base import AttentionSpec
from informer.networks.attention.global_local import GlobalLocalAttention
from informer.networks.layers.attention_layer import AttentionLayer
from informer.networks.layers.decoder import Decoder, DecoderLayer
from informer.networks.layers.embedding import Embedding
from informer.networks.layers.encoder import Encoder, EncoderLayer, EncoderStack, stack_lengths
from informer.networks.layers.feed_forward import FeedForward
from informer.networks.layers.quantile_head import QuantileHead
from informer.networks.models.base import Attentions, DecMarks, DecValues, EncMarks, EncValues, ModelDims, Network
from informer.networks.models.config import InformerConfig
from informer.networks.ops.products import Linear


def decoder_input(history: Float[Tensor, "b l c"], label_len: int, pred_len: int) -> Float[Tensor, "b dec_len c"]:
    """X_de of eq. 6: the start token, which is the end of the history, then zeros in place of the horizon."""
    return F.pad(history[:, history.shape[1] - label_len :], (0, 0, 0, pred_len))


@final
class Informer(Network):
    """Encoder of distilling stacks, and a decoder that reads a start token. Arguments as in `Network`."""

    CONFIG = InformerConfig
    INPUT_PARTS = ("enc_embedding.value.", "dec_embedding.value.")
    CALENDAR_PARTS = ("enc_embedding.calendar.", "dec_embedding.calendar.")
    HEAD_PARTS = ("head.",)

    def __init__(
        self, config: InformerConfig, dims: ModelDims, attentions: Attentions, quantiles: Sequence[float] = ()
    ) -> None:
        super().__init__(config, dims, attentions, quantiles)
        d_model, gate, recompute = config.d_model, config.gate, config.activation_checkpointing

        def embedding(length: int) -> Embedding:
            return Embedding(
                n_values=dims.enc_in, d_model=d_model, length=length, kind=config.embed,
                mark_sizes=dims.mark_sizes, dropout=config.dropout, causal=config.embed_padding == "causal",
            )  # fmt: skip

        def spec(len_q: int, len_k: int, index: int, *, causal: bool = False) -> AttentionSpec:
            return AttentionSpec(config.n_heads, d_model // config.n_heads, len_q, len_k, causal, config.dropout, index)

        def feed_forward() -> FeedForward:
            return FeedForward(d_model=d_model, d_ff=config.d_ff, activation=config.activation, dropout=config.dropout)

        def encoder_layer(index: int, len_q: int, len_k: int) -> EncoderLayer:
            mechanism = attentions.encoder(spec(len_q, len_k, index))
            if config.global_tokens:
                mechanism = GlobalLocalAttention(mechanism, n_tokens=config.global_tokens)
            attention = AttentionLayer(d_model, mechanism, gate=gate)
            return EncoderLayer(attention, feed_forward(), d_model=d_model, dropout=config.dropout)

        def decoder_layer(index: int) -> DecoderLayer:
            # the last layer computes only the rows of the forecast
            cross_rows = dims.pred_len if index == config.decoder_layers - 1 else dims.dec_len
            masked = attentions.decoder(spec(dims.dec_len, dims.dec_len, index, causal=True))
            cross = attentions.cross(spec(cross_rows, self.encoder.out_length, index))
            return DecoderLayer(
                AttentionLayer(d_model, masked, mix=config.mix, gate=gate), AttentionLayer(d_model, cross, gate=gate),
                feed_forward(), d_model=d_model, dropout=config.dropout,
            )  # fmt: skip

        self.enc_embedding, self.dec_embedding = embedding(dims.seq_len), embedding(dims.dec_len)
        lengths = stack_lengths(dims.seq_len, len(config.encoder_stacks), config.stack_fractions)
        self.encoder = Encoder(
            EncoderStack(
                encoder_layer, n_layers=n_layers, length=length, d_model=d_model, shortening=config.distil,
                norm=config.distil_norm, recompute=recompute, n_tokens=config.global_tokens,
            )
            for n_layers, length in zip(config.encoder_stacks, lengths, strict=True)
        )  # fmt: skip
        layers = [decoder_layer(i) for i in range(config.decoder_layers)]
        self.decoder = Decoder(layers, d_model=d_model, pred_len=dims.pred_len, recompute=recompute)
        self.head = QuantileHead(d_model, dims.c_out, quantiles) if quantiles else Linear(d_model, dims.c_out)

    def forward(
        self, enc_x: EncValues, enc_mark: EncMarks, dec_x: DecValues, dec_mark: DecMarks
    ) -> Float[Tensor, "b pred_len n *q"]:
        """See `Network`."""
        return self.decode(self.encode(enc_x, enc_mark), dec_x, dec_mark)

    def encode(self, x: Float[Tensor, "b seq_len c"], mark: Float[Tensor, "b seq_len m"]) -> Float[Tensor, "b s d"]:
        """The memory of a lookback window."""
        return self.encoder(self.enc_embedding(x, mark))

    def decode(
        self, memory: Float[Tensor, "b s d"], x: Float[Tensor, "b dec_len c"], mark: Float[Tensor, "b dec_len m"]
    ) -> Float[Tensor, "b pred_len n *q"]:
        """The forecast from start token and horizon, in one pass."""
        return self.head(self.decoder(self.dec_embedding(x, mark), memory))

    def attention_layers(self) -> dict[str, AttentionLayer]:
        """Attention layers by place: `encoder 1.2` (stack, layer), `decoder 1` (self-attention), `cross 1`."""
        slots = {"attention": "encoder", "self_attention": "decoder", "cross_attention": "cross"}
        layers = {}
        for name, module in self.named_modules():
            if isinstance(module, AttentionLayer):
                numbers = ".".join(str(int(number) + 1) for number in re.findall(r"\d+", name))
                layers[f"{slots[name.rpartition('.')[2]]} {numbers}"] = module
        return layers
