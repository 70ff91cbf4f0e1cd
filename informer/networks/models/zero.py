"""An Informer that forecasts series it has never seen: trained on the generated series of `pretraining`.

Every column is a series of its own. A series is cut into patches; the encoder of the Informer (distilling between its
layers) reads the last 512 rows or more. Its one-pass decoder reads the start token, the last `LABEL` rows, and the
horizon, whose rows hold what simple methods forecast for them from the last `HISTORY` rows: the values one to four
seasons before, and one to three of a second, longer season, means over seasons, the last value, lines and levels. The
rows of the start token hold the same next to their own values, so the decoder sees how well each would have forecast
them.

  x = (y - mean of the last 64 rows) / standard deviation of the history           (float64)
  forecast = asinh(sum_j w_j c_j) + e d

c_j are these forecasts (of `_sources`; the last value where there is no lag), w_j weights that sum to one and start at
lag one, e the mean absolute change over a season within the history, and d the quantiles of a zero-initialised head: a
pattern that repeats exactly costs nothing. Quantiles do not cross. Values are masked where they do not exist, through
attention and distilling, and positions count from the end: a history with missing rows before it gives what it gives
by itself.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Any, NamedTuple, final

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from informer.base.quantiles import MEDIAN
from informer.config.fields import setting
from informer.config.model import Activation, CalendarEmbed, ModelConfig
from informer.networks.attention.base import AttentionSpec
from informer.networks.attention.full import FullAttention
from informer.networks.layers.attention_layer import AttentionLayer
from informer.networks.layers.decoder import DecoderLayer
from informer.networks.layers.encoder import Distil, EncoderLayer, distilled_length, halved_mask
from informer.networks.layers.feed_forward import FeedForward
from informer.networks.layers.quantile_head import QuantileHead
from informer.networks.models.base import Attentions, ModelDims, Network
from informer.networks.ops.gaps import weights_of
from informer.networks.ops.products import Linear

HISTORY, CONTEXT, LABEL, HORIZON, PATCH = 1024, 512, 64, 96, 16
"""Rows: read of a series, of these by the encoder, of the start token, of a forecast, of a patch. A week of quarter
hours has 672 rows."""
LAGS, SECOND_LAGS = 4, 3
"""Seasons back that the decoder reads, of the first and of the second season."""
PHASES = 8
"""Seasons of a recent mean of values at the same place in the season; a power of two."""
LEVELS = (0.025, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.975)
"""Levels of the quantiles."""
N_LAGS = LAGS + SECOND_LAGS
N_MEANS = N_LAGS + 3
N_SOURCES = N_MEANS + 6
"""Sources of a forecast: at lags, with means over seasons, and all; see `_sources`."""
RECENT = 64
"""Rows of the mean that is subtracted."""
LEAST_CHANGE = 0.01
"""Least e, the unit of the deviations."""
MOST = 12.0
"""Greatest |asinh| of a forecast: 80,000 standard deviations."""


class Inputs(NamedTuple):
    """What the network reads of a batch of b series; n patches of the history."""

    patches: Float[Tensor, "b n p"]
    """Values and their changes over a season, each with its mask."""
    patch_mask: Bool[Tensor, "b n"]
    steps: Float[Tensor, "b k q"]
    """Patches of the start token and the horizon: own value, the first source, which of those at lags and of means over
    seasons exist, and distances from the first source of the own value and the other sources."""
    step_mask: Bool[Tensor, "b k"]
    sources: Float[Tensor, "b horizon j"]
    available: Bool[Tensor, "b horizon j"]
    facts: Float[Tensor, "b f"]
    change: Float[Tensor, "b"]
    """Mean absolute change over a season, of asinh x; at least LEAST_CHANGE, and 1 if none is known."""
    centre: Float[Tensor, "b"]
    spread: Float[Tensor, "b"]

    def scaled(self, values: Float[Tensor, "b t"]) -> Float[Tensor, "b t"]:
        """asinh of values in the scale of the network, float32."""
        return ((values.double() - self.centre[:, None]) / self.spread[:, None]).asinh().float()

    def unscaled(self, quantiles: Float[Tensor, "b t q"]) -> Float[Tensor, "b t q"]:
        """The inverse of `scaled`, float64."""
        bounded = quantiles.double().clamp(-MOST, MOST)
        values = (bounded.exp() - (-bounded).exp()) / 2  # sinh, which onnxruntime does not have for float64
        return values * self.spread[:, None, None] + self.centre[:, None, None]


N_FACTS = 8
BATCH = 256


def read(
    values: Float[Tensor, "b t"],
    observed: Bool[Tensor, "b t"],
    season: Int[Tensor, "b"],
    second: Int[Tensor, "b"],
) -> Inputs:
    """Scale histories and cut them into patches.

    Args:
        values: the last rows of each series, finite; anything where not observed.
        observed: which values exist; at least one of each series.
        season, second: rows of the two seasons, 1 for none.
    """
    values, observed = values[:, -HISTORY:], observed[:, -HISTORY:]
    missing_in_front = -values.shape[1] % (4 * PATCH)  # two distillings halve an even number of patches
    values, observed = F.pad(values.double(), (missing_in_front, 0)), F.pad(observed, (missing_in_front, 0))
    n = values.shape[1]
    centre, spread = _statistics(values, observed)
    x = ((values - centre[:, None]) / spread[:, None]).float() * observed
    bounded = x.asinh()

    rows = torch.arange(-LABEL, HORIZON, device=x.device)
    sources, exists = _sources(x, observed, season, second, rows)
    last_value = sources[:, :, N_MEANS]
    has_none = ~exists[:, :, :N_LAGS].any(2)  # for instance because it lies in a first, partial season
    first = torch.where(has_none, last_value, sources[:, :, 0])
    sources = torch.cat([first[:, :, None], sources[:, :, 1:]], dim=2)
    available = torch.cat([exists[:, :, :1] | has_none[:, :, None], exists[:, :, 1:]], dim=2)

    moves, has_move = _moves(bounded, observed, season)
    second_moves, has_second_move = _moves(bounded, observed, second)
    row_moves, has_row_move = _moves(bounded, observed, torch.ones_like(season))
    pairs = (moves, has_move), (second_moves, has_second_move), (row_moves, has_row_move)
    change, second_change, row_change = (_mean(x.abs(), both) for x, both in pairs)
    # zero says that a season repeats exactly if all of it has been seen twice, and otherwise nothing
    is_exact = (season > 1) & (has_move.sum(1) >= season)
    is_second_known = (second > 1) & ((second_change > 0) | (has_second_move.sum(1) >= second))
    change = torch.where((change > 0) | is_exact, change, torch.inf)
    change = torch.where(is_second_known, torch.minimum(change, second_change), change)
    change = torch.where(change.isinf(), 1.0, change).clamp(min=LEAST_CHANGE)

    # the first source, and distances from it of the own value and the other sources, in the unit of the forecast
    bounded_sources, own = sources.asinh(), F.pad(bounded[:, -LABEL:], (0, HORIZON))[:, :, None]
    is_own = F.pad(observed[:, -LABEL:], (0, HORIZON))[:, :, None]
    start = (bounded_sources * _first(available)).sum(2, keepdim=True)
    distances = ((torch.cat([own, bounded_sources[:, :, 1:]], dim=2) - start) / change[:, None, None]).asinh()
    distances = distances * torch.cat([is_own, exists[:, :, 1:]], dim=2)
    steps = torch.cat([own, is_own, start, exists[:, :, :N_MEANS], distances], dim=2)
    start_mask = observed[:, -LABEL:].unflatten(1, (-1, PATCH)).any(2)
    length = n - torch.where(observed, torch.arange(n, device=x.device), n).amin(1)
    facts = [
        season.float().log2() / 8,
        (season == 1).float(),
        second.float().log2() / 8,
        length.float().log2() / 8,
        change.log() / 4,
        (length.float() / season).clamp(max=64).log2() / 4,
        (row_change / change).clamp(0.01, 100).log() / 4,
        (second_change / change).clamp(0.01, 100).log() / 4,
    ]
    channels = [bounded, observed, (moves / change[:, None]).asinh(), has_move]
    patches = torch.stack([x.float() for x in channels], -1).unflatten(1, (-1, PATCH))
    patch_mask = observed.unflatten(1, (-1, PATCH)).any(2)
    patch_mask[:, -1] = True  # attention needs a key
    return Inputs(
        patches=patches.flatten(2),
        patch_mask=patch_mask,
        steps=steps.unflatten(1, (-1, PATCH)).flatten(2),
        step_mask=F.pad(start_mask, (0, HORIZON // PATCH), value=True),
        sources=sources[:, LABEL:],
        available=available[:, LABEL:],
        facts=torch.stack(facts, dim=1),
        change=change,
        centre=centre,
        spread=spread,
    )


def _sources(
    x: Float[Tensor, "b n"], observed: Bool[Tensor, "b n"], season: Tensor, second: Tensor, rows: Int[Tensor, "k"]
) -> tuple[Float[Tensor, "b k j"], Bool[Tensor, "b k j"]]:
    """What simple methods forecast for each of `rows`, counted from the first row after x, and which of it exists.

    Values LAGS seasons and SECOND_LAGS second seasons before; means over PHASES, all, and all second seasons before;
    the last value, lines from it with the mean slope of all rows and of the last season; the means of the last season,
    of all rows, and of the last RECENT rows (0).
    """
    n, back = x.shape[1], torch.arange(x.shape[1], device=x.device)
    lags = torch.cat([_lags(rows, season, LAGS), _lags(rows, second, SECOND_LAGS)], dim=2)  # [b rows lags], positive
    index = n + rows[None, :, None] - lags
    is_inside = index >= 0
    index = index.clamp(min=0)
    has_second = second[:, None, None] > 1
    exists = observed.gather(1, index.flatten(1)).view_as(lags) & is_inside
    exists = torch.cat([exists[:, :, :LAGS], exists[:, :, LAGS:] & has_second], dim=2)
    at_lags = x.gather(1, index.flatten(1)).view_as(lags) * exists

    means, has_mean = [], []
    for each, k, most in ((season, 0, PHASES), (season, 0, n), (second, LAGS, n)):
        mean, count = _phase_mean(x, observed, each, index[:, :, k], most)
        means.append(mean)
        has_mean.append((count > 0) & is_inside[:, :, k])
    has_mean[2] = has_mean[2] & has_second[:, :, 0]

    last = torch.where(observed, back, -1).amax(1)
    last_value = x.gather(1, last[:, None])
    moves, has_move = _moves(x, observed, season)
    ahead = n + rows - last[:, None]  # rows from the last value
    slopes = [_mean(moves, has_move), _mean(moves, has_move, back >= n - season.clamp(min=4)[:, None])]
    lines = [last_value + ahead * (slope / season)[:, None] for slope in slopes]
    levels = [_mean(x, observed, back >= n - season[:, None]), _mean(x, observed), torch.zeros_like(last_value[:, 0])]
    whole = [last_value, *lines, *(level[:, None] for level in levels)]
    others = torch.stack([each.expand(-1, len(rows)) for each in whole], dim=2)
    exists = torch.cat([exists, torch.stack(has_mean, 2), torch.ones_like(others, dtype=torch.bool)], dim=2)
    return torch.cat([at_lags, torch.stack(means, 2), others], dim=2) * exists, exists


def _statistics(values: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
    """Mean of the last observed rows, and standard deviation around it; 1 for a constant series."""
    from_end = observed.flip(1).cumsum(1).flip(1)
    recent = observed & (from_end <= RECENT)
    centre = torch.where(recent, values, 0).sum(1) / recent.sum(1)
    off = torch.where(observed, values - centre[:, None], 0)
    spread = (off.square().sum(1) / observed.sum(1)).sqrt()
    rounding = 1e-9 * torch.where(observed, values.abs(), 0).amax(1)
    return centre, torch.where(spread > rounding, spread, 1.0)


def _lags(rows: Tensor, season: Tensor, n: int) -> Tensor:
    """Distance to the rows one to n seasons before, of those that lie in the history: [b rows n]."""
    ahead = torch.div(rows.clamp(min=0), season[:, None], rounding_mode="floor")
    return (ahead[:, :, None] + torch.arange(1, n + 1, device=rows.device)) * season[:, None, None]


def _moves(x: Tensor, observed: Tensor, season: Tensor) -> tuple[Tensor, Tensor]:
    """x_t - x_(t - season), 0 where one of them is missing, and where both exist."""
    before = torch.arange(x.shape[1], device=x.device) - season[:, None]
    index = before.clamp(min=0)
    pairs = observed & observed.gather(1, index) & (before >= 0)
    return (x - x.gather(1, index)) * pairs, pairs


def _mean(x: Tensor, observed: Tensor, counted: Tensor | bool = True) -> Tensor:
    """Mean of the observed and counted rows of each series, 0 if there are none."""
    used = observed & counted
    total = (x * used).sum(1, dtype=torch.float64)  # so that rows before the history do not change its rounding
    return (total / used.sum(1).clamp(min=1)).to(x.dtype)


def _phase_mean(x: Tensor, observed: Tensor, season: Tensor, index: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Means of the values at `index` and up to `most` - 1 seasons before, and how many there are: [b rows] each."""
    total, count = x * observed, observed.float()
    back = torch.arange(x.shape[1], device=x.device)
    reach = 1
    while reach < most:  # sums of 1, 2, 4, ... values
        before = back - reach * season[:, None]
        inside, earlier = before >= 0, before.clamp(min=0)
        total = total + total.gather(1, earlier) * inside
        count = count + count.gather(1, earlier) * inside
        reach *= 2
    total, count = total.gather(1, index), count.gather(1, index)
    return total / count.clamp(min=1), count


def _first(available: Tensor) -> Tensor:
    """The first available source of each row."""
    return available & (available.cumsum(2) == 1)


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
            return FeedForward(d_model=d_model, d_ff=d_ff, activation=Activation.gelu, dropout=0.0)

        self.patch = Linear(4 * PATCH, d_model)
        self.step = Linear((6 + N_LAGS + N_SOURCES) * PATCH, d_model)
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
        for parameter in (*self.head.parameters(), *self.copy.parameters()):
            nn.init.zeros_(parameter)

    def forward(self, inputs: Inputs) -> Float[Tensor, "b horizon q"]:
        """Quantiles of LEVELS for the next HORIZON rows, in the scale of `Inputs.scaled`."""
        facts = self.facts(inputs.facts)[:, None]
        n = len(self.patch_position)
        x, mask = self.patch(inputs.patches[:, -n:]), inputs.patch_mask[:, -n:]
        x = x + self.patch_position[-x.shape[1] :] + facts
        for i, layer in enumerate(self.encoder):
            x = layer(x, mask=mask)
            if i < len(self.distils):
                x, mask = self.distils[i](x, mask), halved_mask(mask)
        ahead = self.step(inputs.steps) + self.step_position + facts
        for i, layer in enumerate(self.decoder):
            n_last = HORIZON // PATCH if i == len(self.decoder) - 1 else None
            ahead = layer(ahead, x, n_last, mask=inputs.step_mask, memory_mask=mask)
        deviation = self.head(ahead).flatten(1, 2)
        weights = copy_weights(self.copy(ahead).view(-1, HORIZON, N_SOURCES), inputs.available)
        copied = (weights * inputs.sources).sum(2).asinh()
        return copied[:, :, None] + inputs.change[:, None, None] * deviation

    def predict(
        self,
        values: Float[Tensor, "b t"],
        observed: Bool[Tensor, "b t"],
        season: Int[Tensor, "b"],
        second: Int[Tensor, "b"],
        horizon: int,
    ) -> Float[Tensor, "b horizon q"]:
        """Quantiles in the units of the values, float64, without gradients.

        Beyond HORIZON rows the medians so far become history. The squared distances of later quantiles from the median
        add to those at the end of the block before (mean of its last 24 rows), as variances of independent errors do.

        Arguments as in `read`; BATCH series are forecast at once.
        """
        batches = zip(*(x.split(BATCH) for x in (values, observed, season, second)), strict=True)
        with torch.no_grad():
            return torch.cat([self.rolled(y, seen, one, other, horizon) for y, seen, one, other in batches])

    def rolled(
        self, values: Tensor, observed: Tensor, season: Tensor, second: Tensor, horizon: int
    ) -> Float[Tensor, "b horizon q"]:
        blocks: list[Tensor] = []
        before: Tensor | float = 0.0
        for _ in range(0, horizon, HORIZON):
            inputs = read(values, observed, season, second)
            quantiles = inputs.unscaled(self(inputs))
            median = quantiles[:, :, LEVELS.index(0.5), None]
            off = quantiles - median
            # the root has no gradient at zero
            off = off.sign() * (off.square() + before).clamp(min=1e-200).sqrt()
            before = off[:, -24:].square().mean(1, keepdim=True)
            blocks.append(median + off)
            values = torch.cat([values.double(), median[:, :, 0]], dim=1)
            observed = F.pad(observed, (0, HORIZON), value=True)
        return torch.cat(blocks, dim=1)[:, :horizon]


@dataclass(kw_only=True, slots=True)
class ZeroConfig(ModelConfig):
    """Weights and sizes of the network for any series."""

    family: str = "zero"
    embed: CalendarEmbed = CalendarEmbed.none
    weights: str | None = "zero-2"
    """Weights that training starts from, one of `informer.pretrained.weights.VERSIONS`; null: random ones."""
    seasons: list[int] = setting(list, least=1)
    """Rows of the two seasons, 1 for none. Empty: found in the training rows."""
    d_model: int = setting(128, least=1)
    """Width of every layer."""
    n_heads: int = setting(4, least=1)
    """Attention heads; must divide d_model."""
    d_ff: int = setting(512, least=1)
    """Hidden width of the feed-forward blocks."""
    encoder_layers: int = setting(3, least=1)
    """Number of encoder layers."""
    decoder_layers: int = setting(2, least=1)
    """Number of decoder layers."""
    distil: bool = True
    """Halve the patches between encoder layers."""

    @property
    def is_fitted_first(self) -> bool:
        """See `ModelConfig`."""
        return self.weights is not None

    @property
    def n_layers(self) -> int:
        """Layers of encoder and decoder together."""
        return self.encoder_layers + self.decoder_layers

    def _joint_problems(self) -> Iterator[str]:
        yield from super(ZeroConfig, self)._joint_problems()  # plain super() fails: slots=True creates a new class
        if len(self.seasons) not in (0, 2):
            yield f"model.seasons: expected two lengths, 1 for none, found {list(self.seasons)}"
        if self.n_heads >= 1 and self.d_model % self.n_heads:
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
        self,
        enc_x: Float[Tensor, "b seq_len c"],
        enc_mark: Float[Tensor, "b seq_len m"],
        dec_x: Float[Tensor, "b dec_len c"],
        dec_mark: Float[Tensor, "b dec_len m"],
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


def at_level(quantiles: Any, level: float) -> Any:
    """A quantile between those of LEVELS, which are the last axis of a tensor or array: linear in the quantile of a
    normal distribution, beyond them too."""
    z, normal = [NormalDist().inv_cdf(p) for p in LEVELS], NormalDist().inv_cdf(level)
    right = min(max(bisect_left(z, normal), 1), len(z) - 1)
    share = (normal - z[right - 1]) / (z[right] - z[right - 1])
    return quantiles[..., right - 1] + share * (quantiles[..., right] - quantiles[..., right - 1])


def copy_weights(raw: Float[Tensor, "b t j"], available: Bool[Tensor, "b t j"]) -> Float[Tensor, "b t j"]:
    """Weights that sum to one over the available sources: one for the first of them, plus raw minus its mean."""
    kept = raw * available
    return _first(available) + (kept - kept.sum(2, keepdim=True) / available.sum(2, keepdim=True)) * available


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
