"""LSTMa: a recurrent encoder and decoder with attention (Bahdanau, Cho & Bengio 2015, "Neural Machine Translation by
Jointly Learning to Align and Translate"), with LSTM cells. Zhou et al. 2021 compare Informer with it.

  h_i = LSTM_e(W_e x_i + calendar_i, h_(i-1))                     rows of the lookback window
  e_j = W_d [y_(j-1); known_j] + calendar_j                       rows of the horizon
  c_j = sum_i a_ji h_i,  a_j = attention of the query W_a s_(j-1) to the keys U_a h_i
  s_j = LSTM_d([e_j; c_j], s_(j-1))                               from the encoder's last state, s_0
  y_j = W_o [s_j; c_j; e_j] + b                                   the paper's g(y_(j-1), s_j, c_j)

y_0 is the last row of the lookback window (the last observed values), known_j are covariates known ahead. Not as in the
paper: LSTM cells for gated units, an encoder of one direction, whose last state begins the decoder. Cost:
O(seq_len + pred_len) sequential steps, plus attention of one query for each of pred_len rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from informer.networks.attention.base import AttentionSpec
from informer.networks.layers.attention_layer import AttentionLayer
from informer.networks.layers.embedding import CalendarEmbedding
from informer.networks.layers.quantile_head import QuantileHead
from informer.networks.models.base import Attentions, DecMarks, DecValues, EncMarks, EncValues, ModelDims, Network
from informer.networks.models.config import ModelConfig, size
from informer.networks.ops.dropout import Dropout
from informer.networks.ops.gaps import unmasked
from informer.networks.ops.products import Linear


@dataclass(kw_only=True)
class LstmaConfig(ModelConfig):
    """Sizes of LSTMa and its teacher forcing."""

    family: str = "lstma"
    d_model: int = size(64, "Width of inputs and states.", ge=1)
    n_heads: int = size(1, "Attention heads; must divide d_model.", ge=1)
    layers: int = size(1, "Number of LSTM layers, in the encoder and in the decoder.", ge=1)
    dropout: float = size(0.1, "Share of values set to zero in training.", ge=0, lt=1)
    teacher_forcing: float = size(
        1.0,
        "Probability, for each window and row, that the decoder reads the actual value at the first step.",
        ge=0,
        le=1,
    )
    teacher_forcing_end: float = size(0.0, "The same at the last step; it changes linearly in between.", ge=0, le=1)

    @property
    def n_layers(self) -> int:
        """LSTM layers of encoder and decoder together."""
        return 2 * self.layers

    def problems(self) -> Iterator[str]:
        """See `ModelConfig`."""
        yield from super().problems()
        if self.d_model % self.n_heads:
            yield f"model.d_model: expected a multiple of model.n_heads={self.n_heads}, found {self.d_model}"


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
    actual_share: Tensor

    def __init__(
        self, config: LstmaConfig, dims: ModelDims, attentions: Attentions, quantiles: Sequence[float] = ()
    ) -> None:
        super().__init__(config, dims, attentions, quantiles)
        self.masked, self.masks = dims.masked or (), dims.masks
        width, self.pred_len = config.d_model, dims.pred_len
        self.teacher_range = config.teacher_forcing, config.teacher_forcing_end
        for name, positions in (("targets", dims.target_positions), ("known", dims.known)):
            self.register_buffer(name, torch.tensor(list(positions), dtype=torch.long), persistent=False)
        self.register_buffer("actual_share", torch.tensor(config.teacher_forcing), persistent=False)
        has_marks, marks = config.embed != "none", (width, config.embed, dims.mark_sizes)
        self.enc_value = Linear(dims.enc_in, width)
        self.enc_calendar = CalendarEmbedding(*marks) if has_marks else None
        self.dec_value = Linear(dims.c_out + len(dims.known), width)
        self.dec_calendar = CalendarEmbedding(*marks) if has_marks else None
        between = config.dropout if config.layers > 1 else 0.0
        self.encoder = nn.LSTM(width, width, config.layers, batch_first=True, dropout=between)
        self.decoder = nn.LSTM(2 * width, width, config.layers, batch_first=True, dropout=between)
        spec = AttentionSpec(config.n_heads, width // config.n_heads, 1, dims.seq_len, dropout=config.dropout)
        self.attention = AttentionLayer(width, attentions.cross(spec), project_values=False)
        self.dropout = Dropout(config.dropout)
        self.head = QuantileHead(3 * width, dims.c_out, quantiles) if quantiles else Linear(3 * width, dims.c_out)

    def begin_step(self, done: float) -> None:
        """See `Network`; sets how often the decoder reads actual values."""
        first, last = self.teacher_range
        self.actual_share.fill_(first + (last - first) * done)

    def attention_layers(self) -> dict[str, AttentionLayer]:
        """The only attention layer, `cross 1`, which runs once per row of the horizon."""
        return {"cross 1": self.attention}

    def forward(
        self,
        enc_x: EncValues,
        enc_mark: EncMarks,
        dec_x: DecValues,
        dec_mark: DecMarks,
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
        if actual is not None:
            reads_actual = (torch.rand(actual.shape[:2], device=actual.device) < self.actual_share)[:, :, None]
            reads_actual = reads_actual & ~actual.isnan()  # missing values cannot be fed
        last = unmasked(enc_x, self.masked, self.masks)[:, -1:]
        previous, rows = last.index_select(2, self.targets), list[Tensor]()
        for j in range(self.pred_len):
            inputs = self.dec_value(torch.cat([previous, covariates[:, j : j + 1]], dim=2))
            embedded = self.dropout(_embedded(inputs, self.dec_calendar, marks[:, j : j + 1]))
            context = self.attention.attend(state[0][-1][:, None], keys, values)  # the last layer's hidden state
            s, state = self.decoder(torch.cat([embedded, context], dim=2), state)
            rows.append(self.head(torch.cat([self.dropout(torch.cat([s, context], dim=2)), embedded], dim=2)))
            previous = self.point(rows[-1]).to(enc_x.dtype)
            if actual is not None:
                previous = torch.where(reads_actual[:, j : j + 1], actual[:, j : j + 1].to(previous.dtype), previous)
        return torch.cat(rows, dim=1)


def _embedded(values: Tensor, calendar: CalendarEmbedding | None, marks: Tensor) -> Tensor:
    return values if calendar is None else values + calendar(marks)
