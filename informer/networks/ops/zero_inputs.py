"""What the network for any series reads: scaled patches of a history, and what simple methods forecast from it.

Values and means over seasons are those of the last 4,096 rows; scale, changes, levels and lines those of the last
1,024, since older levels say little.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

HISTORY, HORIZON = 4096, 384
"""Rows read of a series, and most rows of a forecast in one pass."""
LEAST_HORIZON = 96
"""Fewest rows of a pass: the decoder is worse with fewer, since it was trained with so many."""
DECILES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
LEVELS = (0.01, 0.05, *DECILES, 0.95, 0.99)
"""Levels of the quantiles."""
MIDDLE = LEVELS.index(0.5)
"""Place of the median."""
CONTEXT, LABEL, PATCH = 512, 64, 16
"""Rows of the history that the encoder reads, of the start token, of a patch."""
LAGS, SECOND_LAGS = 4, 3
"""Seasons back that the decoder reads, of the first and of the second season. A week of quarter hours has 672 rows."""
PHASES = 8
"""Seasons of a recent mean or median of values at the same place in the season."""
DISCOUNTS = (0.0, 0.7, 0.92)
"""What a row counts in a recent level, as a share of what the next one counts."""
N_LAGS = LAGS + SECOND_LAGS
N_MEANS = N_LAGS + 3
N_SHARED = N_MEANS + 6
"""Sources whose weights sum to one: at lags, with means over seasons, values and lines; see `_sources`."""
N_SOURCES = N_SHARED + 4 + len(DISCOUNTS)
"""Sources of a forecast."""
N_CHANNELS = 4 + N_MEANS + 2 * N_SOURCES - N_SHARED
"""Channels of the decoder's patches; see `Inputs.steps`."""
COUNTED = 1024
"""Rows of the scale, mean changes, levels and lines."""
RECENT = 64
"""Rows of the mean that is subtracted."""
N_FACTS = 8
"""Numbers about a series."""
LEAST_CHANGE = 0.01
"""Least e, the unit of the deviations."""
MOST = 12.0
"""Greatest |asinh| of a forecast: 80,000 standard deviations."""
DOUBTS = 4.0
"""Changes at one place of the season are mixed with so many of the mean change."""


class Inputs(NamedTuple):
    """What the network reads of a batch of b series; n patches of the history."""

    patches: Float[Tensor, "b n p"]
    """Values and their changes over a season, each with its mask."""
    patch_mask: Bool[Tensor, "b n"]
    steps: Float[Tensor, "b k q"]
    """Patches of the start token and the horizon: own value, the first source, which of those at lags and of means over
    seasons exist, distances from the first source of the own value and the other sources, which of the sources beyond
    N_SHARED exist, and `ratio`."""
    step_mask: Bool[Tensor, "b k"]
    sources: Float[Tensor, "b horizon j"]
    available: Bool[Tensor, "b horizon j"]
    facts: Float[Tensor, "b f"]
    ratio: Float[Tensor, "b horizon"]
    """Logarithm of the mean change at the place of the row in the season, relative to the mean of all."""
    change: Float[Tensor, " b"]
    """Mean absolute change over a season, of asinh x; at least LEAST_CHANGE, and 1 if none is known."""
    centre: Float[Tensor, " b"]
    spread: Float[Tensor, " b"]

    def scaled(self, values: Float[Tensor, "b t"]) -> Float[Tensor, "b t"]:
        """asinh of values in the scale of the network, float32."""
        return ((values.double() - self.centre[:, None]) / self.spread[:, None]).asinh().float()

    def unscaled(self, quantiles: Float[Tensor, "b t q"]) -> Float[Tensor, "b t q"]:
        """The inverse of `scaled`, float64."""
        bounded = quantiles.double().clamp(-MOST, MOST)
        values = (bounded.exp() - (-bounded).exp()) / 2  # sinh, which onnxruntime does not have for float64
        return values * self.spread[:, None, None] + self.centre[:, None, None]


def read(
    values: Float[Tensor, "b t"],
    observed: Bool[Tensor, "b t"],
    season: Int[Tensor, " b"],
    second: Int[Tensor, " b"],
    horizon: int = HORIZON,
) -> Inputs:
    """Scale histories and cut them into patches.

    Args:
        values: the last rows of each series, finite; anything where not observed.
        observed: which values exist; at least one of each series.
        season, second: rows of the two seasons, 1 for none.
        horizon: rows to forecast, a multiple of PATCH.
    """
    values, observed = values[:, -HISTORY:], observed[:, -HISTORY:]
    missing_in_front = -values.shape[1] % (4 * PATCH)  # two distillings halve an even number of patches
    values, observed = F.pad(values.double(), (missing_in_front, 0)), F.pad(observed, (missing_in_front, 0))
    centre, spread = _statistics(values[:, -COUNTED:], observed[:, -COUNTED:])
    x = ((values - centre[:, None]) / spread[:, None]).float() * observed

    rows = torch.arange(-LABEL, horizon, device=x.device)
    sources, exists = _sources(x, observed, season, second, rows)
    bounded, observed = x[:, -COUNTED:].asinh(), observed[:, -COUNTED:]
    n = bounded.shape[1]
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
    bounded_sources, own = sources.asinh(), F.pad(bounded[:, -LABEL:], (0, horizon))[:, :, None]
    is_own = F.pad(observed[:, -LABEL:], (0, horizon))[:, :, None]
    start = (bounded_sources * first_available(available)).sum(2, keepdim=True)
    distances = ((torch.cat([own, bounded_sources[:, :, 1:]], dim=2) - start) / change[:, None, None]).asinh()
    distances = distances * torch.cat([is_own, exists[:, :, 1:]], dim=2)
    ratio = _ratio(moves.abs(), has_move, season, rows)
    known = exists[:, :, :N_MEANS], exists[:, :, N_SHARED:]
    steps = torch.cat([own, is_own, start, known[0], distances, known[1], ratio[:, :, None]], dim=2)
    start_mask = observed[:, -LABEL:].unflatten(1, (-1, PATCH)).any(2)
    length = n - torch.where(observed, torch.arange(n, device=x.device), n).amin(1)
    facts = [
        season.float().log2() / 8,
        (season == 1).float(),
        second.float().log2() / 8,
        length.float().log2() / 8,
        change.log() / 4,
        (length.float() / season).clamp(max=64).log2() / 4,
        (row_change / change).clamp(0.01, 100.0).log() / 4,
        (second_change / change).clamp(0.01, 100.0).log() / 4,
    ]
    channels = [bounded, observed, (moves / change[:, None]).asinh(), has_move]
    patches = torch.stack([x.float() for x in channels], -1).unflatten(1, (-1, PATCH))
    patch_mask = observed.unflatten(1, (-1, PATCH)).any(2)
    patch_mask[:, -1] = True  # attention needs a key
    return Inputs(
        patches=patches.flatten(2),
        patch_mask=patch_mask,
        steps=steps.unflatten(1, (-1, PATCH)).flatten(2),
        step_mask=F.pad(start_mask, (0, horizon // PATCH), value=True),
        sources=sources[:, LABEL:],
        available=available[:, LABEL:],
        facts=torch.stack(facts, dim=1),
        ratio=ratio[:, LABEL:],
        change=change,
        centre=centre,
        spread=spread,
    )


def _whole(
    x: Float[Tensor, "b n"], observed: Bool[Tensor, "b n"], season: Tensor, rows: Int[Tensor, " k"]
) -> Float[Tensor, "b k 6"]:
    """The last value, two lines and three levels, as in `_sources`."""
    n, back = x.shape[1], torch.arange(x.shape[1], device=x.device)
    last = torch.where(observed, back, -1).amax(1)
    last_value = x.gather(1, last[:, None])
    moves, has_move = _moves(x, observed, season)
    ahead = n + rows - last[:, None]  # rows from the last value
    slopes = [_mean(moves, has_move), _mean(moves, has_move, back >= n - season.clamp(min=4)[:, None])]
    lines = [last_value + ahead * (slope / season)[:, None] for slope in slopes]
    levels = [_mean(x, observed, back >= n - season[:, None]), _mean(x, observed), torch.zeros_like(last_value[:, 0])]
    whole = [last_value, *lines, *(level[:, None] for level in levels)]
    return torch.stack([each.expand(-1, len(rows)) for each in whole], dim=2)


def _sources(
    x: Float[Tensor, "b n"], observed: Bool[Tensor, "b n"], season: Tensor, second: Tensor, rows: Int[Tensor, " k"]
) -> tuple[Float[Tensor, "b k j"], Bool[Tensor, "b k j"]]:
    """What simple methods forecast for each of `rows`, counted from the first row after x, and which of it exists.

    Values LAGS seasons and SECOND_LAGS second seasons before; means over PHASES seasons, all seasons of COUNTED rows,
    and PHASES second seasons before; the last value, lines from it with the mean slope of all rows and of the last
    season; the means of the last season, of all rows, and of the last RECENT rows (0). Then those beyond N_SHARED:
    medians over PHASES first and second seasons, which ignore single spikes; the last season plus its mean change over
    the last three; recent levels (DISCOUNTS) of what differs from the mean over PHASES seasons, plus that mean; and the
    mean over all seasons of x.
    """
    n, back = x.shape[1], torch.arange(x.shape[1], device=x.device)
    lags = torch.cat([_lags(rows, season, PHASES), _lags(rows, second, PHASES)], dim=2)
    index = n + rows[None, :, None] - lags
    exists = observed.gather(1, index.clamp(min=0).flatten(1)).view_as(lags) & (index >= 0)
    exists = torch.cat([exists[:, :, :PHASES], exists[:, :, PHASES:] & (second > 1)[:, None, None]], dim=2)
    at_lags = x.gather(1, index.clamp(min=0).flatten(1)).view_as(lags) * exists
    both = [(at_lags[:, :, part], exists[:, :, part]) for part in (slice(PHASES), slice(PHASES, None))]
    (first, has_first), (other, has_other) = both
    (mean, seen), (other_mean, other_seen) = ((v.sum(2) / e.sum(2).clamp(min=1), e.any(2)) for v, e in both)
    parts = (x[:, -COUNTED:], observed[:, -COUNTED:]), (x, observed)
    (total, count), (long_total, long_count) = (_at_phase(*part, season, rows) for part in parts)
    medians = [_median(v, e) for v, e in both]

    moves, has_move = _moves(x, observed, season)
    lately = back >= n - (3 * season).clamp(min=8)[:, None]
    drift = _mean(moves, has_move, lately)[:, None] * (lags[:, :, 0] / season[:, None])
    has_drift = has_first[:, :, 0] & (has_move & lately).any(1, keepdim=True)

    has_season = season[:, None] > 1
    shape, is_known = mean * has_season, seen | ~has_season
    usable = observed[:, -LABEL:] & is_known[:, :LABEL]
    off = (x[:, -LABEL:] - shape[:, :LABEL]) * usable
    age = usable.flip(1).cumsum(1).flip(1) - 1  # of a usable row, in usable rows
    levels = []
    for discount in DISCOUNTS:
        weight = usable * (discount**age if discount else age == 0)
        levels.append((off * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True).clamp(min=1e-6) + shape)
    has_level = is_known & usable.any(1, keepdim=True)

    others = _whole(x[:, -COUNTED:], observed[:, -COUNTED:], season, rows)
    found = [
        *first[:, :, :LAGS].unbind(2), *other[:, :, :SECOND_LAGS].unbind(2),
        mean, total / count.clamp(min=1), other_mean, *others.unbind(2),
        *medians, first[:, :, 0] + drift, *levels, long_total / long_count.clamp(min=1),
    ]  # fmt: skip
    always = torch.ones_like(seen)
    has = [
        *has_first[:, :, :LAGS].unbind(2), *has_other[:, :, :SECOND_LAGS].unbind(2),
        seen, count > 0, other_seen, *[always] * others.shape[2],
        seen, other_seen, has_drift, *[has_level] * len(levels), long_count > 0,
    ]  # fmt: skip
    return torch.stack(found, 2) * torch.stack(has, 2), torch.stack(has, 2)


def _at_phase(
    x: Float[Tensor, "b n"], counted: Bool[Tensor, "b n"], season: Tensor, rows: Int[Tensor, " k"]
) -> tuple[Float[Tensor, "b k"], Float[Tensor, "b k"]]:
    """Sums of all values before each of `rows` at the same place in the season, and how many there are."""
    n = x.shape[1]
    # counted from the end, so that places of a season longer than the history are not beyond n
    phase, place = torch.arange(n - 1, -1, -1, device=x.device) % season[:, None], (-1 - rows) % season[:, None]
    is_inside, sums = place < n, list[Tensor]()
    for each in (x.double() * counted, counted.double()):
        total = torch.zeros_like(each).scatter_add(1, phase, each).gather(1, place.clamp(max=n - 1)) * is_inside
        own = each[:, -LABEL:]  # rows of the start token know nothing of themselves and those after them
        back, reach = torch.arange(LABEL, device=x.device), 1
        while reach < LABEL:
            after = back + reach * season[:, None]
            own = own + own.gather(1, after.clamp(max=LABEL - 1)) * (after < LABEL)
            reach *= 2
        sums.append((total - F.pad(own, (0, len(rows) - LABEL))).float())
    return sums[0], sums[1]


def _ratio(
    changes: Float[Tensor, "b n"], counted: Bool[Tensor, "b n"], season: Tensor, rows: Int[Tensor, " k"]
) -> Float[Tensor, "b k"]:
    """Logarithm of the mean change at the place of each row in the season, relative to the mean of all."""
    total, count = _at_phase(changes, counted, season, rows)
    mean = _mean(changes, counted)[:, None]
    own = (total + DOUBTS * mean) / (count + DOUBTS)
    return torch.where(mean > 0, (own / mean.clamp(min=1e-12)).clamp(min=0.02), 1.0).log()


def _median(x: Float[Tensor, "b k m"], exists: Bool[Tensor, "b k m"]) -> Float[Tensor, "b k"]:
    """Median of the values that exist."""
    ordered, count = x.masked_fill(~exists, torch.inf).sort(2).values, exists.sum(2, keepdim=True)
    middle = torch.cat([(count - 1).clamp(min=0) // 2, count // 2], dim=2)
    return torch.where(count > 0, ordered.gather(2, middle), 0.0).mean(2)


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


def first_available(available: Tensor) -> Tensor:
    """The first available source of each row."""
    return available & (available.cumsum(2) == 1)
