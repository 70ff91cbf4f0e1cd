"""An Informer that forecasts series it has never seen: trained on the generated series of `informer.synthetic`.

Every column is a series of its own. A series is cut into patches; the encoder of the Informer (distilling between its
layers) reads the last `CONTEXT` rows. Its one-pass decoder reads the start token, the last `LABEL` rows, and the
horizon, whose rows hold what is known about them: the values one to four seasons before, and one to three of a second,
longer season, taken from the last `HISTORY` rows. The rows of the start token hold the same next to their own values,
so the decoder sees how well each season would have forecast them.

  x = (y - mean of the last 64 rows) / standard deviation of the history           (float64)
  forecast = asinh(sum_j w_j c_j) + e d

c_j are the values at the seasonal lags (the last value where there is none), w_j weights that sum to one and start at
lag one, e the mean absolute change over a season within the history, and d the quantiles of a zero-initialised head: a
pattern that repeats exactly costs nothing. Quantiles do not cross. Values are masked where they do not exist, through
attention and distilling, and positions count from the end: a history with missing rows before it gives what it gives
by itself.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, final

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from safetensors import safe_open
from torch import Tensor, nn

from informer.base.errors import InputError, one_of
from informer.config.model import Activation
from informer.networks.attention.base import Attention, AttentionSpec
from informer.networks.attention.full import FullAttention
from informer.networks.layers.attention_layer import AttentionLayer
from informer.networks.layers.decoder import DecoderLayer
from informer.networks.layers.encoder import Distil, EncoderLayer, halved_mask
from informer.networks.layers.feed_forward import FeedForward
from informer.networks.layers.quantile_head import QuantileHead
from informer.networks.ops.products import Linear

HISTORY, CONTEXT, LABEL, HORIZON, PATCH = 1024, 512, 64, 96, 16
"""Rows: read for seasonal lags, read by the encoder, of the start token, of a forecast, of a patch.

A week of quarter hours has 672 rows: 1,024 rows hold such a season while the encoder reads half of them."""
LAGS, SECOND_LAGS = 4, 3
"""Seasons back that the decoder reads, of the first and of the second season."""
LEVELS = (0.025, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.975)
"""Levels of the quantiles."""
N_LAGS = LAGS + SECOND_LAGS
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
    """Patches of the start token and the horizon: own values and those at the lags, each with its mask, and distances
    from the first lag of: own value, other lags, last value, mean."""
    step_mask: Bool[Tensor, "b k"]
    sources: Float[Tensor, "b horizon j"]
    available: Bool[Tensor, "b horizon j"]
    facts: Float[Tensor, "b f"]
    change: Float[Tensor, "b"]
    """Mean absolute change over a season, of asinh x; at least LEAST_CHANGE."""
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


N_FACTS = 6

VERSIONS = {"zero-1": "285d245c27e09256ae0d1bb8ac081f5440888aae9d094c006bb77cce6f81cc3f"}
"""Weights in the package, the newest last, and their sha256."""
NEWEST = list(VERSIONS)[-1]


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
    lags = torch.cat([_lags(rows, season, LAGS), _lags(rows, second, SECOND_LAGS)], dim=2)  # [b rows lags], positive
    index = n + rows[None, :, None] - lags
    is_inside = index >= 0
    index = index.clamp(min=0).flatten(1)
    exists = observed.gather(1, index).view_as(lags) & is_inside
    exists[:, :, LAGS:] &= second[:, None, None] > 1
    back = torch.arange(n, device=x.device)
    last = torch.where(observed, back, -1).amax(1)
    length = n - torch.where(observed, back, n).amin(1)
    last_value = x.gather(1, last[:, None])[:, :, None]
    has_none = ~exists.any(2, keepdim=True)  # of this row, for instance because it lies in a first, partial season
    sources = torch.where(has_none, last_value, x.gather(1, index).view_as(lags) * exists)
    available = torch.cat([exists[:, :, :1] | has_none, exists[:, :, 1:]], dim=2)

    moves, has_move = _moves(bounded, observed, season)
    change, second_change = _mean_size(moves, has_move), _mean_size(*_moves(bounded, observed, second))
    change = torch.where((second > 1) & (second_change > 0), torch.minimum(change, second_change), change)
    change = torch.where(change > 0, change, 1.0).clamp(min=LEAST_CHANGE)

    # values, and distances from the value at the first lag in the unit of the forecast
    bounded_sources, own = sources.asinh(), F.pad(bounded[:, -LABEL:], (0, HORIZON))[:, :, None]
    at_lags = bounded_sources * exists
    is_own = F.pad(observed[:, -LABEL:], (0, HORIZON))[:, :, None]
    start = (bounded_sources * _first(available)).sum(2, keepdim=True)
    others = torch.cat([own, at_lags[:, :, 1:], last_value.asinh().expand_as(own), torch.zeros_like(own)], dim=2)
    is_other = F.pad(torch.cat([is_own, exists[:, :, 1:]], dim=2), (0, 2), value=True)
    distances = ((others - start) / change[:, None, None]).asinh() * is_other
    steps = torch.cat([own, is_own, at_lags, exists, distances], dim=2)
    start_mask = observed[:, -LABEL:].unflatten(1, (-1, PATCH)).any(2)
    facts = [
        season.float().log2() / 8,
        (season == 1).float(),
        second.float().log2() / 8,
        length.float().log2() / 8,
        change.log() / 4,
        (length.float() / season).clamp(max=64).log2() / 4,
    ]
    channels = [bounded, observed, (moves / change[:, None]).asinh(), has_move]
    patches = torch.stack([x[:, -CONTEXT:].float() for x in channels], -1).unflatten(1, (-1, PATCH))
    patch_mask = observed[:, -CONTEXT:].unflatten(1, (-1, PATCH)).any(2)
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


def _mean_size(x: Tensor, counted: Tensor) -> Tensor:
    """Mean |x| of the counted rows; x is 0 in others, and so is the mean if there are none."""
    return x.abs().sum(1) / counted.sum(1).clamp(min=1)


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
        attention: mechanism of all layers; it must take a mask of keys.
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
        attention: type[Attention] = FullAttention,
    ) -> None:
        super().__init__()
        start, ahead, length = LABEL // PATCH, HORIZON // PATCH, CONTEXT // PATCH

        def attend(len_q: int, len_k: int, index: int) -> AttentionLayer:
            spec = AttentionSpec(n_heads, d_model // n_heads, len_q, len_k, layer_index=index)
            return AttentionLayer(d_model, attention(spec))

        def feed_forward() -> FeedForward:
            return FeedForward(d_model=d_model, d_ff=d_ff, activation=Activation.gelu, dropout=0.0)

        self.patch = Linear(4 * PATCH, d_model)
        self.step = Linear((4 + 3 * N_LAGS) * PATCH, d_model)
        self.facts = Linear(N_FACTS, d_model)
        self.patch_position = nn.Parameter(0.02 * torch.randn(length, d_model))
        self.step_position = nn.Parameter(0.02 * torch.randn(start + ahead, d_model))
        self.encoder, self.distils = nn.ModuleList(), nn.ModuleList()
        for i in range(encoder_layers):
            layer = EncoderLayer(attend(length, length, i), feed_forward(), d_model=d_model, dropout=0.0)
            self.encoder.append(layer)
            if distil and i < min(encoder_layers - 1, 2):  # `read` makes patches by fours
                self.distils.append(Distil(d_model, norm=False))
                length = (length + 1) // 2
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
        self.copy = Linear(d_model, PATCH * N_LAGS)
        for parameter in (*self.head.parameters(), *self.copy.parameters()):
            nn.init.zeros_(parameter)

    def forward(self, inputs: Inputs) -> Float[Tensor, "b horizon q"]:
        """Quantiles of LEVELS for the next HORIZON rows, in the scale of `Inputs.scaled`."""
        facts = self.facts(inputs.facts)[:, None]
        x, mask = self.patch(inputs.patches), inputs.patch_mask
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
        weights = copy_weights(self.copy(ahead).view(-1, HORIZON, N_LAGS), inputs.available)
        copied = (weights * inputs.sources).sum(2).asinh()
        return copied[:, :, None] + inputs.change[:, None, None] * deviation

    @torch.no_grad()
    def predict(
        self,
        values: Float[Tensor, "b t"],
        observed: Bool[Tensor, "b t"],
        season: Int[Tensor, "b"],
        second: Int[Tensor, "b"],
        horizon: int,
    ) -> Float[Tensor, "b horizon q"]:
        """Quantiles in the units of the values, float64.

        Beyond HORIZON rows the medians so far become history. The squared distances of later quantiles from the median
        add to those at the end of the block before (mean of its last 24 rows), as variances of independent errors do.

        Arguments as in `read`.
        """
        blocks: list[Tensor] = []
        before: Tensor | float = 0.0
        for _ in range(0, horizon, HORIZON):
            inputs = read(values, observed, season, second)
            quantiles = inputs.unscaled(self(inputs))
            median = quantiles[:, :, LEVELS.index(0.5), None]
            off = quantiles - median
            off = off.sign() * (off.square() + before).sqrt()
            before = off[:, -24:].square().mean(1, keepdim=True)
            blocks.append(median + off)
            values = torch.cat([values.double(), median[:, :, 0]], dim=1)
            observed = F.pad(observed, (0, HORIZON), value=True)
        return torch.cat(blocks, dim=1)[:, :horizon]


def weights_path(version: str) -> Path:
    """The file of one of VERSIONS."""
    return Path(__file__).with_name(f"{version}.safetensors")


def load(version: str = NEWEST) -> Zero:
    """The trained network, in eval mode on the CPU.

    Raises:
        InputError: no such version, or a damaged file.
    """
    if version not in VERSIONS:
        raise one_of("version of the pretrained network", version, list(VERSIONS))
    path = weights_path(version)
    if not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != VERSIONS[version]:
        raise InputError(f"{path}: missing or damaged; install informer-forecasting again")
    with safe_open(path, framework="pt") as file:
        network = Zero(**json.loads(file.metadata()["network"]))
        network.load_state_dict({name: file.get_tensor(name).float() for name in file.keys()})  # noqa: SIM118
    return network.eval()


def copy_weights(raw: Float[Tensor, "b t j"], available: Bool[Tensor, "b t j"]) -> Float[Tensor, "b t j"]:
    """Weights that sum to one over the available sources: one for the first of them, plus raw minus its mean."""
    kept = raw * available
    return _first(available) + (kept - kept.sum(2, keepdim=True) / available.sum(2, keepdim=True)) * available


def pinball(
    quantiles: Float[Tensor, "b t q"], target: Float[Tensor, "b t"], levels: Sequence[float] = LEVELS
) -> Float[Tensor, "b t"]:
    """Quantile loss, the mean over the levels."""
    level = torch.tensor(levels, device=quantiles.device)
    error = target[:, :, None] - quantiles
    return torch.maximum(level * error, (level - 1) * error).mean(2)
