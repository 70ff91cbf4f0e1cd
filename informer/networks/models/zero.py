"""An Informer that forecasts series it has never seen: trained on the generated series of `pretraining`.

Every column is a series of its own. A series is cut into patches; the encoder of the Informer (distilling between its
layers) reads the last 512 rows or more. Its one-pass decoder reads the start token, the last `LABEL` rows, and the
horizon, whose rows hold what simple methods forecast for them from up to HISTORY rows: the values one to four seasons
before, and one to three of a second, longer season, means and medians over seasons, the last value, lines and levels
(see `informer.networks.ops.zero_inputs`). The rows of the start token hold the same next to their own values, so the
decoder sees how well each would have forecast them.

  x = (y - mean of the last 64 rows) / standard deviation of the history           (float64)
  forecast = asinh(sum_j w_j c_j) + e d

c_j are these forecasts (the last value where there is no lag), w_j weights that sum to one and start at lag one, e the
mean absolute change over a season within the history times a learnt power of that at the same place of the season, and
d the quantiles of a zero-initialised head: a pattern that repeats exactly costs nothing. Quantiles do not
cross. Values are masked where they do not exist, through attention and distilling, and positions count from the end: a
history with missing rows before it gives what it gives by itself.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Any, final

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from informer.networks.attention.base import AttentionSpec
from informer.networks.attention.full import FullAttention
from informer.networks.layers.attention_layer import AttentionLayer
from informer.networks.layers.decoder import DecoderLayer
from informer.networks.layers.encoder import Distil, EncoderLayer, distilled_length, halved_mask
from informer.networks.layers.feed_forward import FeedForward
from informer.networks.layers.quantile_head import MEDIAN, QuantileHead
from informer.networks.models.base import Attentions, DecMarks, DecValues, EncMarks, EncValues, ModelDims, Network
from informer.networks.models.config import CalendarEmbed, ModelConfig, size
from informer.networks.ops.gaps import weights_of
from informer.networks.ops.products import Linear
from informer.networks.ops.zero_inputs import (
    CONTEXT,
    HORIZON,
    LABEL,
    LEAST_HORIZON,
    LEVELS,
    MIDDLE,
    N_CHANNELS,
    N_FACTS,
    N_SHARED,
    N_SOURCES,
    PATCH,
    Inputs,
    first_available,
    read,
)

BATCH = 256
"""Series that are forecast at once."""


@final
class Zero(nn.Module):
    """The network.

    Args:
        d_model, d_ff, n_heads: widths, and heads of each attention layer.
        encoder_layers, decoder_layers: numbers of layers.
        distil: halve the sequence between layers of the encoder.
    """

    def __init__(
        self,
        *,
        d_model: int,
        d_ff: int,
        n_heads: int = 4,
        encoder_layers: int = 3,
        decoder_layers: int = 2,
        distil: bool = True,
    ) -> None:
        super().__init__()
        start, ahead, length = LABEL // PATCH, HORIZON // PATCH, CONTEXT // PATCH

        def attend(len_q: int, len_k: int, index: int) -> AttentionLayer:
            spec = AttentionSpec(n_heads, d_model // n_heads, len_q, len_k, layer_index=index)
            return AttentionLayer(d_model, FullAttention(spec))

        def feed_forward() -> FeedForward:
            return FeedForward(d_model=d_model, d_ff=d_ff, activation="gelu", dropout=0.0)

        self.patch = Linear(4 * PATCH, d_model)
        self.step = Linear(N_CHANNELS * PATCH, d_model)
        self.facts = Linear(N_FACTS, d_model)
        self.patch_position = nn.Parameter(0.02 * torch.randn(length, d_model))
        self.step_position = nn.Parameter(0.02 * torch.randn(start + ahead, d_model))
        self.encoder, self.distils = nn.ModuleList(), nn.ModuleList()
        for i in range(encoder_layers):
            layer = EncoderLayer(attend(length, length, i), feed_forward(), d_model=d_model, dropout=0.0)
            self.encoder.append(layer)
            if distil and i < min(encoder_layers - 1, 2):  # `read` makes patches by fours
                self.distils.append(Distil(d_model, norm=False))
                length = distilled_length(length)
        self.decoder = nn.ModuleList(
            DecoderLayer(
                # not causal: no row of the horizon holds anything but the past
                attend(start + ahead, start + ahead, i),
                attend(ahead if i == decoder_layers - 1 else start + ahead, length, i),
                feed_forward(),
                d_model=d_model,
                dropout=0.0,
            )
            for i in range(decoder_layers)
        )
        self.head = QuantileHead(d_model, PATCH, LEVELS)
        self.copy = Linear(d_model, PATCH * N_SOURCES)
        self.unit = Linear(d_model, 1)
        for output in (self.head, self.copy, self.unit):
            for parameter in output.parameters():
                nn.init.zeros_(parameter)

    def forward(self, inputs: Inputs) -> Float[Tensor, "b horizon q"]:
        """Quantiles for the next rows, in the scale of `Inputs.scaled`."""
        facts = self.facts(inputs.facts)[:, None]
        n = len(self.patch_position)
        x, mask = self.patch(inputs.patches[:, -n:]), inputs.patch_mask[:, -n:]
        x = x + self.patch_position[-x.shape[1] :] + facts
        for i, layer in enumerate(self.encoder):
            x = layer(x, mask=mask)
            if i < len(self.distils):
                x, mask = self.distils[i](x, mask), halved_mask(mask)
        ahead = self.step(inputs.steps) + self.step_position[: inputs.steps.shape[1]] + facts
        for i, layer in enumerate(self.decoder):
            n_last = inputs.steps.shape[1] - LABEL // PATCH if i == len(self.decoder) - 1 else None
            ahead = layer(ahead, x, n_last, mask=inputs.step_mask, memory_mask=mask)
        deviation = self.head(ahead).flatten(1, 2)
        weights = copy_weights(self.copy(ahead).view(inputs.available.shape), inputs.available)
        copied = (weights * inputs.sources).sum(2).asinh()
        power = self.unit(ahead).repeat_interleave(PATCH, 1)
        unit = inputs.change[:, None, None] * (power * inputs.ratio[:, :, None]).exp()
        return copied[:, :, None] + unit * deviation

    def predict(
        self,
        values: Float[Tensor, "b t"],
        observed: Bool[Tensor, "b t"],
        season: Int[Tensor, " b"],
        second: Int[Tensor, " b"],
        horizon: int,
    ) -> Float[Tensor, "b horizon q"]:
        """Quantiles in the units of the values, float64, without gradients.

        Beyond the rows of one pass the medians so far become history. The squared distances of later quantiles from the
        median add to those at the end of the block before (mean of its last 24 rows), as variances of independent
        errors do.

        Arguments as in `read`; BATCH series are forecast at once.
        """
        batches = zip(*(x.split(BATCH) for x in (values, observed, season, second)), strict=True)
        with torch.no_grad():
            return torch.cat([self.rolled(y, seen, one, other, horizon) for y, seen, one, other in batches])

    def rolled(
        self, values: Tensor, observed: Tensor, season: Tensor, second: Tensor, horizon: int
    ) -> Float[Tensor, "b horizon q"]:
        """`predict` for one batch, with gradients."""
        blocks: list[Tensor] = []
        before: Tensor | float = 0.0
        left = horizon
        while left > 0:
            size = min(max(-(-left // PATCH) * PATCH, LEAST_HORIZON), HORIZON)
            inputs = read(values, observed, season, second, size)
            quantiles = inputs.unscaled(self(inputs))
            median = quantiles[:, :, MIDDLE, None]
            off = quantiles - median
            # the root has no gradient at zero
            off = off.sign() * (off.square() + before).clamp(min=1e-200).sqrt()
            before = off[:, -24:].square().mean(1, keepdim=True)
            blocks.append(median + off)
            values = torch.cat([values.double(), median[:, :, 0]], dim=1)
            observed = F.pad(observed, (0, size), value=True)
            left -= size
        return torch.cat(blocks, dim=1)[:, :horizon]


@dataclass(kw_only=True)
class ZeroConfig(ModelConfig):
    """Weights and sizes of the network for any series."""

    family: str = "zero"
    embed: CalendarEmbed = "none"
    weights: str | None = size("zero-3", "Pretrained weights that training starts from; null: random ones.")
    seasons: list[int] = size(list, "Rows of the two seasons, 1 for none; []: found in the training rows.")
    d_model: int = size(128, "Width of every layer.", ge=1)
    n_heads: int = size(4, "Attention heads; must divide d_model.", ge=1)
    d_ff: int = size(512, "Hidden width of the feed-forward blocks.", ge=1)
    encoder_layers: int = size(3, "Number of encoder layers.", ge=1)
    decoder_layers: int = size(2, "Number of decoder layers.", ge=1)
    distil: bool = size(True, "Halve the patches between encoder layers.")

    @property
    def is_fitted_first(self) -> bool:
        """See `ModelConfig`."""
        return self.weights is not None

    @property
    def n_layers(self) -> int:
        """Layers of encoder and decoder together."""
        return self.encoder_layers + self.decoder_layers

    def problems(self) -> Iterator[str]:
        """See `ModelConfig`."""
        yield from super().problems()
        if len(self.seasons) not in (0, 2) or any(season < 1 for season in self.seasons):
            yield f"model.seasons: expected two lengths, 1 for none, found {list(self.seasons)}"
        if self.d_model % self.n_heads:
            yield f"model.d_model: expected a multiple of model.n_heads={self.n_heads}, found {self.d_model}"


@final
class ZeroNetwork(Network):
    """The network as a family: each target by itself, from its own lookback window; other columns are not read.

    Its attention is full attention, with which the weights were trained.
    """

    CONFIG = ZeroConfig

    def __init__(
        self, config: ZeroConfig, dims: ModelDims, attentions: Attentions, quantiles: Sequence[float] = ()
    ) -> None:
        super().__init__(config, dims, attentions, quantiles)
        self.dims, self.offset, self.seasons = dims, config.offset, config.seasons or [1, 1]
        sizes = ("d_model", "n_heads", "d_ff", "encoder_layers", "decoder_layers", "distil")
        self.zero = Zero(**{name: getattr(config, name) for name in sizes})

    def forward(
        self, enc_x: EncValues, enc_mark: EncMarks, dec_x: DecValues, dec_mark: DecMarks
    ) -> Float[Tensor, "b pred_len n *q"]:
        """See `Network`."""
        x, dims = enc_x, self.dims
        if dims.masked:
            x = x.masked_fill(weights_of(x, dims.masked, dims.masks) < 0.5, torch.nan)
        history = x[:, :, list(dims.target_positions)]
        all_levels = each_column(self.zero.rolled, history, self.seasons, dims.pred_len, offset=self.offset)
        levels = torch.stack([at_level(all_levels, level) for level in self.quantiles or (MEDIAN,)], dim=-1).to(enc_x)
        return levels if self.quantiles else levels[..., 0]


def each_column(
    forecast: Callable[[Tensor, Tensor, Tensor, Tensor, int], Tensor],
    history: Float[Tensor, "b t n"],
    seasons: Sequence[int],
    horizon: int,
    *,
    offset: int,
) -> Float[Tensor, "b horizon n q"]:
    """Quantiles of each column as a series of its own.

    Args:
        forecast: `Zero.predict` or `Zero.rolled`.
        history: missing values are NaN, and the first row may be repeated in front.
        seasons: rows of the two seasons, 1 for none.
        horizon, offset: rows to forecast, and rows between them and the history.
    """
    x = history.transpose(1, 2).flatten(0, 1)
    first, second = (torch.full_like(x[:, 0], season, dtype=torch.int64) for season in seasons)
    quantiles = forecast(x.nan_to_num(0.0), observed_rows(x), first, second, offset + horizon)
    return quantiles[:, offset:].unflatten(0, (history.shape[0], history.shape[2])).transpose(1, 2)


def observed_rows(x: Float[Tensor, "b t"]) -> Bool[Tensor, "b t"]:
    """Which values exist. Leading rows that repeat the first one are read once: they may be padding, and before the
    first change nothing is known of a series. The last row counts if there is no other."""
    same = (x != x[:, :1]).cumsum(dim=1) == 0
    repeated = same & same.roll(-1, dims=1)
    repeated[:, -1] = False
    observed = ~x.isnan() & ~repeated
    observed[:, -1] |= ~observed.any(dim=1)
    return observed


def at_level(quantiles: Any, level: float, levels: Sequence[float] = LEVELS) -> Any:
    """A quantile between those of `levels`, which are the last axis of a tensor or array: linear in the quantile of a
    normal distribution, beyond them too."""
    z, normal = [NormalDist().inv_cdf(p) for p in levels], NormalDist().inv_cdf(level)
    right = min(max(bisect_left(z, normal), 1), len(z) - 1)
    share = (normal - z[right - 1]) / (z[right] - z[right - 1])
    return quantiles[..., right - 1] + share * (quantiles[..., right] - quantiles[..., right - 1])


def copy_weights(raw: Float[Tensor, "b t j"], available: Bool[Tensor, "b t j"]) -> Float[Tensor, "b t j"]:
    """Weights that sum to one over the available sources: one for the first of them, plus raw minus its mean.

    Raw 0.3 and 0.1 of two sources gives 1.1 and -0.1; raw zeros, as at the start of training, copy the first source. Of
    the sources beyond N_SHARED raw is added as it is, and taken from the first source.
    """
    first, known = first_available(available)[:, :, :N_SHARED], available[:, :, :N_SHARED]
    shared, added = (raw * available).tensor_split([N_SHARED], dim=2)
    weights = first + (shared - shared.sum(2, keepdim=True) / known.sum(2, keepdim=True)) * known
    return torch.cat([weights - first * added.sum(2, keepdim=True), added], dim=2)


def quantile_loss(
    quantiles: Float[Tensor, "b t q"], inputs: Inputs, values: Float[Tensor, "b t"], observed: Bool[Tensor, "b t"]
) -> Float[Tensor, ""]:
    """Mean over observed values of the quantile loss in the scale of the network; every series counts about equally,
    relative to a naive forecast's error."""
    target = inputs.scaled(values).clamp(-8, 8)
    weight = observed / (inputs.change[:, None] + 0.01)
    return (pinball(quantiles, target) * weight).sum() / observed.sum()


def pinball(
    quantiles: Float[Tensor, "b t q"], target: Float[Tensor, "b t"], levels: Sequence[float] = LEVELS
) -> Float[Tensor, "b t"]:
    """Quantile loss, the mean over the levels."""
    level = _on(quantiles.device, tuple(levels))
    error = target[:, :, None] - quantiles
    return torch.maximum(level * error, (level - 1) * error).mean(2)


@cache
def _on(device: torch.device, levels: tuple[float, ...]) -> Tensor:
    return torch.tensor(levels, device=device)  # made once, since a recorded CUDA graph copies nothing from the CPU
