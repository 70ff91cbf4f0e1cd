"""Informer (Zhou et al. 2021, "Informer: Beyond Efficient Transformer for Long Sequence Time-Series Forecasting")."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import final

from jaxtyping import Float, Int
from torch import Tensor, nn

from informer.base.errors import InputError
from informer.config.model import Decoding, InformerConfig, LinearSkip
from informer.networks.attention.base import Attention, AttentionSpec
from informer.networks.attention.global_local import GlobalLocalAttention
from informer.networks.layers.attention_layer import AttentionLayer
from informer.networks.layers.categories import CategoryColumns, CategoryLayout, SeriesColumns
from informer.networks.layers.decoder import Decoder, DecoderLayer, step_by_step
from informer.networks.layers.embedding import Embedding
from informer.networks.layers.encoder import Encoder, EncoderLayer, EncoderStack, stack_lengths
from informer.networks.layers.feed_forward import FeedForward
from informer.networks.layers.input_transform import InputTransform, LinearSkipLayer, NetworkInputs, with_quantile_axis
from informer.networks.layers.quantile_head import QuantileHead
from informer.networks.models.base import Attentions, ForecastModel, ModelDims, point
from informer.networks.models.linear import LinearModel, at_least_history, maps_config
from informer.networks.ops.products import Linear


@dataclass(frozen=True, slots=True)
class _Blueprint:
    """Builds the parts of one network."""

    config: InformerConfig
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
        config = self.config
        lengths = stack_lengths(self.dims.seq_len, len(config.encoder_stacks), config.stack_fractions)
        return Encoder(
            [
                EncoderStack(
                    self.encoder_layer,
                    n_layers=n_layers,
                    length=length,
                    d_model=config.d_model,
                    shortening=config.distil,
                    distil_norm=config.distil_norm,
                    recompute=config.activation_checkpointing,
                    n_tokens=config.global_tokens,
                )
                for n_layers, length in zip(config.encoder_stacks, lengths, strict=True)
            ]
        )

    def decoder(self, memory_len: int) -> Decoder:
        layers = [self.decoder_layer(i, memory_len) for i in range(self.config.decoder_layers)]
        config = self.config
        return Decoder(
            layers, d_model=config.d_model, pred_len=self.dims.pred_len, recompute=config.activation_checkpointing
        )

    def encoder_layer(self, index: int, len_q: int, len_k: int) -> EncoderLayer:
        mechanism = self.attentions.encoder(self.spec(len_q, len_k, index))
        attention = self.global_local(mechanism) if self.config.global_tokens else self.attention_layer(mechanism)
        return EncoderLayer(attention, self.feed_forward(), d_model=self.config.d_model, dropout=self.config.dropout)

    def attention_layer(self, mechanism: Attention) -> AttentionLayer:
        return AttentionLayer(self.config.d_model, mechanism)

    def global_local(self, local: Attention) -> AttentionLayer:
        """Attention with learned global tokens in front of the rows, which `local` attends."""
        n = self.config.global_tokens
        spec = replace(local.spec, len_q=local.spec.len_q + n, len_k=local.spec.len_k + n)
        try:
            attention = GlobalLocalAttention(spec, local, n_tokens=n)
        except ValueError as error:
            raise InputError(f"model.global_tokens: {error}") from error
        return self.attention_layer(attention)

    def decoder_layer(self, index: int, memory_len: int) -> DecoderLayer:
        config, rows = self.config, self.dims.dec_len
        cross_rows = self.dims.pred_len if index == config.decoder_layers - 1 else rows
        self_attention = self.attentions.decoder(self.spec(rows, rows, index, causal=True))
        cross_attention = self.attentions.cross(self.spec(cross_rows, memory_len, index))
        return DecoderLayer(
            AttentionLayer(config.d_model, self_attention, mix=config.mix),
            self.attention_layer(cross_attention),
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
class Informer(ForecastModel):
    """Encoder of distilling stacks, and a decoder that forecasts the whole horizon in one pass or step by step.

    Arguments as in `ForecastModel`.
    """

    READS_CATEGORIES = True
    CONFIG = InformerConfig
    INPUT_PARTS = ("categories.", "enc_embedding.value.", "dec_embedding.value.")
    SERIES_PARTS = ("series_columns.",)
    CALENDAR_PARTS = ("enc_embedding.calendar.", "dec_embedding.calendar.")
    HEAD_PARTS = ("head.",)

    def __init__(
        self, config: InformerConfig, dims: ModelDims, attentions: Attentions, quantiles: Sequence[float] = ()
    ) -> None:
        super().__init__(config, dims, attentions, quantiles)
        self.categories = CategoryColumns(dims.categories) if dims.categories else None
        width = config.series_embedding
        self.series_columns = SeriesColumns(dims.n_series, width) if width else None
        self.reads_series = width > 0
        embedded = dims.embedded
        n_masks = len({*dims.target_positions} & {*(dims.masked or ())})  # mask columns of targets
        inside = _inside(replace(embedded, enc_in=embedded.enc_in + width, masked=None), config, n_masks)
        blueprint = _Blueprint(config, inside, attentions)
        self.decoding, self.step, self.floor = config.decoding, config.patch_len, config.floor
        self.input_transform = _input_transform(config, dims)
        self.enc_embedding = blueprint.embedding(inside.enc_in, inside.seq_len)
        self.dec_embedding = blueprint.embedding(inside.enc_in, inside.dec_len)
        self.encoder = blueprint.encoder()
        self.decoder = blueprint.decoder(self.encoder.out_length)
        sizes = config.d_model, inside.c_out
        self.head = QuantileHead(*sizes, quantiles) if quantiles else Linear(*sizes)
        self.skip: LinearSkipLayer | None = None
        self.maps: LinearModel | None = None
        if config.skip is LinearSkip.maps:
            self.maps = LinearModel(maps_config(config), dims, attentions).requires_grad_(False)
            self.reads_series = self.reads_series or self.maps.reads_series
        elif config.skip is not LinearSkip.none:
            self.skip = LinearSkipLayer(dims.seq_len, dims.pred_len, learnt=config.skip is LinearSkip.linear)
        if config.skip is not LinearSkip.none:
            for parameter in self.head.parameters():
                nn.init.zeros_(parameter)

    def attention_layers(self) -> dict[str, AttentionLayer]:
        """Attention layers by place: `encoder 1.2` (stack, layer), `decoder 1` (self-attention), `cross 1`."""
        slots = {"attention": "encoder", "self_attention": "decoder", "cross_attention": "cross"}
        layers = {}
        for name, module in self.named_modules():
            if isinstance(module, AttentionLayer):
                numbers = ".".join(str(int(number) + 1) for number in re.findall(r"\d+", name))
                layers[f"{slots[name.rpartition('.')[2]]} {numbers}"] = module
        return layers

    def linear_skip(self) -> nn.Parameter | None:
        """See `ForecastModel`; the weight is learned with the network or fitted before training."""
        return None if self.skip is None else self.skip.weight

    def forward(
        self,
        enc_x: Float[Tensor, "b seq_len enc_in"],
        enc_mark: Float[Tensor, "b seq_len m"],
        dec_x: Float[Tensor, "b dec_len enc_in"],
        dec_mark: Float[Tensor, "b dec_len m"],
        series: Int[Tensor, "b"] | None = None,
    ) -> Float[Tensor, "b pred_len c_out *q"]:
        """Forecast of the scaled targets, with a last axis of quantiles if the network has any.

        Args:
            enc_x, enc_mark: lookback window and its calendar marks.
            dec_x, dec_mark: last label_len rows of the lookback window followed by the horizon, and their marks. Over
                the horizon all columns are zero except those known ahead.
            series: number of each window's training series, see `ForecastModel.reads_series`.
        """
        start = None if self.maps is None else self.maps(enc_x, enc_mark, dec_x, dec_mark, series)
        if self.categories is not None:
            enc_x, dec_x = self.categories(enc_x), self.categories(dec_x)
        if self.series_columns is not None:
            assert series is not None, "see `ForecastModel.reads_series`"
            enc_x, dec_x = (self.series_columns(rows, series) for rows in (enc_x, dec_x))
        inside = self.input_transform(enc_x, enc_mark, dec_x, dec_mark)
        memory = self.encoder(self.enc_embedding(inside.enc_x, inside.enc_mark))
        if self.decoding is Decoding.one_pass:
            forecast = self._decode(memory, inside, enc_x, start)
            is_bounded = self.floor and not self.training  # values below the bound would get no gradient
            return at_least_history(forecast, self.input_transform.target_history(enc_x)) if is_bounded else forecast

        def decode(fed: Tensor, n_fed: int) -> Tensor:
            fed_inputs = self.input_transform(enc_x, enc_mark, fed, dec_mark, n_fed)
            return self._decode(memory, fed_inputs, enc_x, start)

        return step_by_step(
            decode,
            dec_x,
            label_len=self.input_transform.label_len,
            step=self.step,
            targets=self.input_transform.targets,
            point=partial(point, quantiles=self.quantiles),
            masks=[position for position in self.input_transform.own_masks if position < enc_x.shape[2]],
        )

    def _decode(
        self,
        memory: Float[Tensor, "bn s d"],
        inside: NetworkInputs,
        enc_x: Float[Tensor, "b seq_len enc_in"],
        start: Float[Tensor, "b pred_len c_out"] | None,
    ) -> Float[Tensor, "b pred_len c_out *q"]:
        """One pass of the decoder, in the scale of the input windows."""
        out = self.head(self.decoder(self.dec_embedding(inside.dec_x, inside.dec_mark), memory))
        forecast = self.input_transform.undo(out, enc_x)
        if start is not None:
            return forecast + with_quantile_axis(start, forecast)
        if self.skip is not None:
            return forecast + with_quantile_axis(self.skip(self.input_transform.target_history(enc_x)), forecast)
        if self.input_transform.instance_norm:
            return forecast + with_quantile_axis(self.input_transform.target_means(enc_x), forecast)
        return forecast


def _input_transform(config: InformerConfig, dims: ModelDims) -> InputTransform:
    # embedding vectors of categories are not normalised; they are zero where a category is not known ahead
    layout, inside = CategoryLayout(dims.categories), dims.embedded
    n_inputs = inside.enc_in + config.series_embedding
    vectors = (*layout.positions(layout.codes), *range(inside.enc_in, n_inputs))
    columns = layout if dims.categories else CategoryLayout((0,) * dims.enc_in)
    masks = columns.positions(dims.masks)  # not normalised either
    return InputTransform(
        n_inputs=n_inputs,
        targets=inside.target_positions,
        known=sorted({*inside.known, *vectors, *masks}),
        label_len=dims.label_len,
        pred_len=dims.pred_len,
        instance_norm=config.instance_norm,
        channel_independent=config.channel_independent,
        patch_len=config.patch_len,
    ).with_gaps(columns.positions(dims.masked or ()), masks)


def _inside(dims: ModelDims, config: InformerConfig, n_masks: int) -> ModelDims:
    """Sizes of the network inside `InputTransform`; `n_masks` is the number of targets with gaps."""
    rows, independent = config.patch_len, config.channel_independent
    single = 1 + min(n_masks, 1) + dims.enc_in - dims.c_out - n_masks
    return replace(
        dims,
        enc_in=rows * (single if independent else dims.enc_in),
        c_out=rows * (1 if independent else dims.c_out),
        seq_len=dims.seq_len // rows,
        label_len=dims.label_len // rows,
        pred_len=dims.pred_len // rows,
    )
