"""Informer (Zhou et al. 2021, "Informer: Beyond Efficient Transformer for Long Sequence Time-Series Forecasting")."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, final

from jaxtyping import Float
from torch import Tensor, nn

from informer.attention.base import Attention, AttentionSpec
from informer.layers.attention_layer import AttentionLayer
from informer.layers.decoder import Decoder, DecoderLayer
from informer.layers.embedding import CalendarEmbed, Embedding
from informer.layers.encoder import Encoder, EncoderLayer, EncoderStack
from informer.layers.feed_forward import Activation, FeedForward
from informer.layers.framing import Framing, Highway, LinearHighway, beside
from informer.layers.linear import Linear
from informer.layers.quantile_head import QuantileHead
from informer.layers.recompute import Recompute


@dataclass(kw_only=True, slots=True)
class ModelConfig:
    """What the user chooses of the network; the defaults are the paper's size."""

    d_model: int = 512
    """Width of every layer."""
    n_heads: int = 8
    """Attention heads; divides d_model."""
    d_ff: int = 2048
    """Width inside the feed-forward blocks."""
    encoder_stacks: list[int] = field(default_factory=lambda: [2])
    """Layers of each encoder stack; stack i reads the last seq_len / 2^i rows. [2] Informer, [3, 2, 1] its pyramid."""
    decoder_layers: int = 1
    dropout: float = 0.05
    activation: Activation = Activation.gelu
    embed: CalendarEmbed = CalendarEmbed.timeF
    distil: bool = True
    """Halve the sequence between the layers of a stack."""
    mix: bool = False
    """Merge the heads of decoder self-attention in transposed order, as the authors' code does."""
    activation_checkpointing: bool = False
    """Keep the input of every layer alone and compute the layer again in the backward pass: same numbers, less memory,
    more time."""
    reversible: bool = False
    """Reversible layers (LayerNorm before attention and feed-forward, two streams): the backward pass recovers what it
    needs from the output of each run of layers between distilling steps."""

    instance_norm: bool = False
    """Centre and scale each window by its own history, and the forecast back."""
    highway: Highway = Highway.none
    """A linear map from history to forecast beside the network, whose head then starts at zero."""
    patch_len: int = 1
    """Rows of a token; divides seq_len, label_len and pred_len."""
    channel_independent: bool = False
    """Forecast each target from its own history (and the columns that are no target), with one network for all."""

    @property
    def recompute(self) -> Recompute:
        """What of a layer is computed again in the backward pass."""
        if self.reversible:
            return Recompute.stretches
        return Recompute.layers if self.activation_checkpointing else Recompute.nothing

    def problems(self) -> list[str]:
        """Every value out of range, one sentence each."""
        found = [
            f"model.{name}: expected at least 1, found {value}"
            for name, value in [
                ("d_model", self.d_model),
                ("n_heads", self.n_heads),
                ("d_ff", self.d_ff),
                ("decoder_layers", self.decoder_layers),
                ("patch_len", self.patch_len),
                *((f"encoder_stacks[{i}]", n) for i, n in enumerate(self.encoder_stacks)),
            ]
            if value < 1
        ]
        if not self.encoder_stacks:
            found.append("model.encoder_stacks: expected at least one stack, found []")
        if self.n_heads >= 1 and self.d_model % self.n_heads:
            found.append(f"model.d_model: expected a multiple of model.n_heads={self.n_heads}, found {self.d_model}")
        if not 0.0 <= self.dropout < 1.0:
            found.append(f"model.dropout: expected 0 <= dropout < 1, found {self.dropout}")
        if self.reversible and self.activation_checkpointing:
            found.append("model.reversible: expected model.activation_checkpointing=false beside it, found true")
        return found

    def length_problems(self, seq_len: int, label_len: int, pred_len: int) -> list[str]:
        """What does not go with these rows of history, start token and horizon, one sentence each."""
        lengths = {"seq_len": seq_len, "label_len": label_len, "pred_len": pred_len}
        found = [
            f"model.patch_len: expected a divisor of {name}={length}, found {self.patch_len}"
            for name, length in lengths.items()
            if length % max(1, self.patch_len)
        ]
        least = 2 ** (len(self.encoder_stacks) - 1) * self.patch_len
        if self.encoder_stacks and seq_len < least:
            found.append(
                f"seq_len: expected at least {least} for {len(self.encoder_stacks)} encoder stacks, found {seq_len}"
            )
        return found


@dataclass(kw_only=True, slots=True, frozen=True)
class ModelDims:
    """What the data decides of the network."""

    enc_in: int
    """Value columns of the encoder's input."""
    dec_in: int
    """Value columns of the decoder's input."""
    c_out: int
    """Forecast columns."""
    mark_sizes: tuple[int, ...]
    """One entry a calendar mark column: its vocabulary size (1 for real-valued marks)."""
    seq_len: int
    label_len: int
    pred_len: int
    targets: tuple[int, ...] = ()
    """Where the forecast columns stand among the encoder's; empty: they are the first."""
    known: tuple[int, ...] = ()
    """Columns of the decoder's input whose values over the horizon are given."""

    @property
    def target_positions(self) -> tuple[int, ...]:
        """`targets`, written out."""
        return self.targets or tuple(range(self.c_out))

    def inside(self, config: "ModelConfig") -> "ModelDims":
        """The sizes of what the network itself reads and writes, behind `Framing`."""
        rows, apart = config.patch_len, config.channel_independent
        n_others = self.enc_in - self.c_out
        return replace(
            self,
            enc_in=rows * (1 + n_others if apart else self.enc_in),
            dec_in=rows * (1 + n_others if apart else self.dec_in),
            c_out=rows * (1 if apart else self.c_out),
            seq_len=self.seq_len // rows,
            label_len=self.label_len // rows,
            pred_len=self.pred_len // rows,
        )

    @property
    def dec_len(self) -> int:
        """Rows of the decoder's input: start token and horizon."""
        return self.label_len + self.pred_len


AttentionFactory = Callable[[AttentionSpec], Attention]


class Attentions(NamedTuple):
    """The mechanisms of the three slots."""

    encoder: AttentionFactory
    decoder: AttentionFactory
    cross: AttentionFactory


@dataclass(frozen=True, slots=True)
class _Blueprint:
    """Makes the parts of one network from the same three things."""

    config: ModelConfig
    dims: ModelDims
    attentions: Attentions

    def embedding(self, n_values: int, length: int) -> Embedding:
        return Embedding(
            n_values=n_values,
            d_model=self.config.d_model,
            length=length,
            kind=self.config.embed,
            mark_sizes=self.dims.mark_sizes,
            dropout=self.config.dropout,
        )

    def encoder(self) -> Encoder:
        return Encoder(
            [
                EncoderStack(
                    self.encoder_layer,
                    n_layers=n_layers,
                    length=self.dims.seq_len // 2**i,
                    d_model=self.config.d_model,
                    distil=self.config.distil,
                    recompute=self.config.recompute,
                )
                for i, n_layers in enumerate(self.config.encoder_stacks)
            ]
        )

    def decoder(self, memory_len: int) -> Decoder:
        layers = [self.decoder_layer(i, memory_len) for i in range(self.config.decoder_layers)]
        config = self.config
        return Decoder(layers, d_model=config.d_model, pred_len=self.dims.pred_len, recompute=config.recompute)

    def encoder_layer(self, index: int, length: int) -> EncoderLayer:
        attention = AttentionLayer(self.config.d_model, self.attentions.encoder(self.spec(length, length, index)))
        return EncoderLayer(attention, self.feed_forward(), d_model=self.config.d_model, dropout=self.config.dropout)

    def decoder_layer(self, index: int, memory_len: int) -> DecoderLayer:
        config, rows = self.config, self.dims.dec_len
        cross_rows = self.dims.pred_len if index == config.decoder_layers - 1 else rows
        self_attention = self.attentions.decoder(self.spec(rows, rows, index, causal=True))
        cross_attention = self.attentions.cross(self.spec(cross_rows, memory_len, index))
        return DecoderLayer(
            AttentionLayer(config.d_model, self_attention, mix=config.mix),
            AttentionLayer(config.d_model, cross_attention),
            self.feed_forward(),
            d_model=config.d_model,
            dropout=config.dropout,
        )

    def spec(self, len_q: int, len_k: int, index: int, *, causal: bool = False) -> AttentionSpec:
        n_heads = self.config.n_heads
        return AttentionSpec(n_heads, self.config.d_model // n_heads, len_q, len_k, causal, self.config.dropout, index)

    def feed_forward(self) -> FeedForward:
        config = self.config
        return FeedForward(
            d_model=config.d_model, d_ff=config.d_ff, activation=config.activation, dropout=config.dropout
        )


@final
class Informer(nn.Module):
    """Encoder of distilling stacks, decoder that gives the whole horizon in one pass.

    Args:
        config: sizes the user chose.
        dims: sizes the data decides.
        attentions: makers of the three kinds of attention.
        quantiles: levels to forecast of each column, in increasing order, the median among them; none: one value each.
    """

    def __init__(
        self, config: ModelConfig, dims: ModelDims, attentions: Attentions, quantiles: Sequence[float] = ()
    ) -> None:
        super().__init__()
        inside = dims.inside(config)
        blueprint = _Blueprint(config, inside, attentions)
        self.framing = _framing(config, dims)
        self.enc_embedding = blueprint.embedding(inside.enc_in, inside.seq_len)
        self.dec_embedding = blueprint.embedding(inside.dec_in, inside.dec_len)
        self.encoder = blueprint.encoder()
        self.decoder = blueprint.decoder(self.encoder.out_length)
        self.quantiles = tuple(quantiles)
        self.head = (
            QuantileHead(config.d_model, inside.c_out, quantiles) if quantiles else Linear(config.d_model, inside.c_out)
        )
        self.highway: LinearHighway | None = None
        if config.highway is not Highway.none:
            self.highway = LinearHighway(dims.seq_len, dims.pred_len, learnt=config.highway is Highway.linear)
            for parameter in self.head.parameters():
                nn.init.zeros_(parameter)

    def attention_layers(self) -> dict[str, AttentionLayer]:
        """Every attention by its place: `encoder 1.2` (stack, layer), `decoder 1` (its self-attention), `cross 1`."""
        slots = {"attention": "encoder", "self_attention": "decoder", "cross_attention": "cross"}
        found = {}
        for name, part in self.named_modules():
            if isinstance(part, AttentionLayer):
                numbers = ".".join(str(int(number) + 1) for number in re.findall(r"\d+", name))
                found[f"{slots[name.rpartition('.')[2]]} {numbers}"] = part
        return found

    def forward(
        self,
        enc_x: Float[Tensor, "b seq_len enc_in"],
        enc_mark: Float[Tensor, "b seq_len m"],
        dec_x: Float[Tensor, "b dec_len dec_in"],
        dec_mark: Float[Tensor, "b dec_len m"],
    ) -> Float[Tensor, "b pred_len c_out *q"]:
        """Forecast of the scaled targets, or all its quantiles where the network has any.

        Args:
            enc_x, enc_mark: history and its calendar marks.
            dec_x, dec_mark: the last label_len rows of the history, then zeros for the horizon; marks of those rows.
        """
        inside = self.framing(enc_x, enc_mark, dec_x, dec_mark)
        memory = self.encoder(self.enc_embedding(inside.enc_x, inside.enc_mark))
        out = self.head(self.decoder(self.dec_embedding(inside.dec_x, inside.dec_mark), memory))
        forecast = self.framing.undo(out, enc_x)
        if self.highway is not None:
            return forecast + beside(self.highway(self.framing.own(enc_x)), forecast)
        if self.framing.instance_norm:
            return forecast + beside(self.framing.own(enc_x).mean(dim=1, keepdim=True), forecast)
        return forecast


def _framing(config: ModelConfig, dims: ModelDims) -> Framing:
    return Framing(
        n_inputs=dims.enc_in,
        targets=dims.target_positions,
        known=dims.known,
        label_len=dims.label_len,
        pred_len=dims.pred_len,
        instance_norm=config.instance_norm,
        channel_independent=config.channel_independent,
        patch_len=config.patch_len,
    )
