"""LSTMa: a recurrent encoder and decoder with attention (Bahdanau, Cho & Bengio 2015, "Neural Machine Translation by
Jointly Learning to Align and Translate"), with LSTM cells. Zhou et al. 2021 compare Informer with it.

  h_i = LSTM_e(W_e x_i + calendar_i, h_(i-1))                     rows of the lookback window
  s_j = LSTM_d(W_d [y_(j-1); known_j] + calendar_j, s_(j-1))      rows of the horizon, from the encoder's last state
  c_j = sum_i a_ji h_i,  a_j = attention of the query W_a s_j to the keys U_a h_i
  y_j = W_o [s_j; c_j] + b

y_0 is the last row of the lookback window (the last observed values), known_j are covariates known ahead. Cost:
O(seq_len + pred_len) sequential steps, plus attention of one query for each of pred_len rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from informer.config.model import CalendarEmbed, ModelConfig
from informer.networks.attention.base import AttentionSpec
from informer.networks.layers.attention_layer import AttentionLayer
from informer.networks.layers.embedding import CalendarEmbedding
from informer.networks.layers.quantile_head import QuantileHead
from informer.networks.models.base import Attentions, ModelDims, Network, point
from informer.networks.ops.dropout import Dropout
from informer.networks.ops.gaps import unmasked
from informer.networks.ops.products import Linear


@dataclass(kw_only=True, slots=True)
class LstmaConfig(ModelConfig):
    """Sizes of LSTMa and its teacher forcing."""

    family: str = "lstma"
    d_model: int = 64
    """Width of inputs and states."""
    n_heads: int = 1
    """Number of attention heads; must divide d_model."""
    layers: int = 1
    """Number of LSTM layers, in the encoder and in the decoder."""
    dropout: float = 0.1
    teacher_forcing: float = 1.0
    """Probability that the decoder reads the actual value instead of its own forecast, at the first training step.
    Drawn separately for each window and row."""
    teacher_forcing_end: float = 0.0
    """The same probability at the last step; it changes linearly in between."""

    @property
    def n_layers(self) -> int:
        """LSTM layers of encoder and decoder together."""
        return 2 * self.layers

    def problems(self) -> list[str]:
        """One sentence for each value out of range."""
        problems = super(LstmaConfig, self).problems()  # plain super() fails: slots=True creates a new class
        for name in ("d_model", "n_heads", "layers"):
            if getattr(self, name) < 1:
                problems.append(f"model.{name}: expected at least 1, found {getattr(self, name)}")
        if self.n_heads >= 1 and self.d_model % self.n_heads:
            problems.append(f"model.d_model: expected a multiple of model.n_heads={self.n_heads}, found {self.d_model}")
        if not 0.0 <= self.dropout < 1.0:
            problems.append(f"model.dropout: expected 0 <= dropout < 1, found {self.dropout}")
        for name in ("teacher_forcing", "teacher_forcing_end"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                problems.append(f"model.{name}: expected a probability from 0 to 1, found {getattr(self, name)}")
        return problems


@final
class Lstma(Network):
    """LSTM encoder, and an LSTM decoder that forecasts step by step; it does not read the start token.

    Args:
        config: sizes that the user chooses.
        dims: sizes that depend on the data.
        attentions: only `cross` is used, with one query at a time.
        quantiles: quantile levels to forecast; the decoder reads its median. Empty: point forecasts.
    """

    CONFIG = LstmaConfig
    INPUT_PARTS = ("enc_value.", "dec_value.")
    CALENDAR_PARTS = ("enc_calendar.", "dec_calendar.")
    HEAD_PARTS = ("head.", "dec_value.")
    LEARNS_FROM_ACTUAL = True

    targets: Tensor
    known: Tensor
    teaching: Tensor

    def __init__(
        self, config: LstmaConfig, dims: ModelDims, attentions: Attentions, quantiles: Sequence[float] = ()
    ) -> None:
        super().__init__(config, dims, attentions, quantiles)
        self.masked, self.masks = dims.masked or (), dims.masks
        width, self.pred_len = config.d_model, dims.pred_len
        self.teacher_range = config.teacher_forcing, config.teacher_forcing_end
        for name, positions in (("targets", dims.target_positions), ("known", dims.known)):
            self.register_buffer(name, torch.tensor(list(positions), dtype=torch.long), persistent=False)
        self.register_buffer("teaching", torch.tensor(config.teacher_forcing), persistent=False)
        self.enc_value, self.enc_calendar = Linear(dims.enc_in, width), _calendar(config, dims)
        self.dec_value, self.dec_calendar = Linear(dims.c_out + len(dims.known), width), _calendar(config, dims)
        between = config.dropout if config.layers > 1 else 0.0
        self.encoder = nn.LSTM(width, width, config.layers, batch_first=True, dropout=between)
        self.decoder = nn.LSTM(width, width, config.layers, batch_first=True, dropout=between)
        spec = AttentionSpec(config.n_heads, width // config.n_heads, 1, dims.seq_len, dropout=config.dropout)
        self.attention = AttentionLayer(width, attentions.cross(spec), project_values=False)
        self.dropout = Dropout(config.dropout)
        self.head = QuantileHead(2 * width, dims.c_out, quantiles) if quantiles else Linear(2 * width, dims.c_out)

    def begin_step(self, done: float) -> None:
        """See `Network`; sets how often the decoder reads actual values."""
        first, last = self.teacher_range
        self.teaching.fill_(first + (last - first) * done)

    def attention_layers(self) -> dict[str, AttentionLayer]:
        """The only attention layer, `cross 1`, which runs once per row of the horizon."""
        return {"cross 1": self.attention}

    def forward(
        self,
        enc_x: Float[Tensor, "b seq_len c"],
        enc_mark: Float[Tensor, "b seq_len m"],
        dec_x: Float[Tensor, "b dec_len c"],
        dec_mark: Float[Tensor, "b dec_len m"],
        actual: Float[Tensor, "b pred_len n"] | None = None,
    ) -> Float[Tensor, "b pred_len n *q"]:
        """See `Network`.

        Args:
            enc_x, enc_mark: lookback window and its calendar marks.
            dec_x, dec_mark: only the last pred_len rows are read: covariates known ahead, and calendar marks.
            actual: actual values for teacher forcing in training. None: the decoder always reads its own forecasts.
        """
        memory, state = self.encoder(self.dropout(_embedded(self.enc_value(enc_x), self.enc_calendar, enc_mark)))
        keys, values = self.attention.memory_heads(memory)
        covariates = dec_x[:, -self.pred_len :].index_select(2, self.known)
        marks = dec_mark[:, -self.pred_len :]
        is_taught = None if actual is None else torch.rand(actual.shape[:2], device=actual.device) < self.teaching
        if actual is not None and is_taught is not None:
            is_taught = is_taught[:, :, None] & ~actual.isnan()  # missing values cannot be fed
        last = unmasked(enc_x, self.masked, self.masks)[:, -1:]
        previous, rows = last.index_select(2, self.targets), list[Tensor]()
        for j in range(self.pred_len):
            inputs = self.dec_value(torch.cat([previous, covariates[:, j : j + 1]], dim=2))
            embedded = self.dropout(_embedded(inputs, self.dec_calendar, marks[:, j : j + 1]))
            s, state = self.decoder(embedded, state)
            context = self.attention.attend(s, keys, values)
            rows.append(self.head(self.dropout(torch.cat([s, context], dim=2))))
            previous = point(rows[-1], self.quantiles).to(enc_x.dtype)
            if actual is not None and is_taught is not None:
                previous = torch.where(is_taught[:, j : j + 1], actual[:, j : j + 1].to(previous.dtype), previous)
        return torch.cat(rows, dim=1)


def _calendar(config: LstmaConfig, dims: ModelDims) -> CalendarEmbedding | None:
    return (
        None if config.embed is CalendarEmbed.none else CalendarEmbedding(config.d_model, config.embed, dims.mark_sizes)
    )


def _embedded(values: Tensor, calendar: CalendarEmbedding | None, marks: Tensor) -> Tensor:
    return values if calendar is None else values + calendar(marks)
