"""The weighted average of network, linear forecast and seasonal naive that does best on validation, as one model.

All three are sums that the model itself can hold: its forecast is `maps + network`, where the network's own output is
linear in its head, and the seasonal naive is a linear map of the history. So an average of the three is the same model
with a scaled head and other maps, and needs nothing of predict, eval, resume or export. J. M. Bates and C. W. J.
Granger, "The combination of forecasts", 1969.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float, Float64
from rich.box import SIMPLE
from rich.table import Table
from torch import Tensor

from informer.checkpoint.format import COMBINED, Checkpoint
from informer.checkpoint.restore import restore_model
from informer.config.model import Decoding
from informer.config.schema import TrainConfig
from informer.data.pipeline import Data
from informer.data.windows import Batch, Windows
from informer.inference.season import best_seasonal_naive
from informer.layers.input_transform import with_quantile_axis
from informer.linear.moments import runs_of
from informer.linear.shares import Shares, apply, maps_of
from informer.linear.weights import series_weights
from informer.models.base import ForecastModel, model_output
from informer.models.informer import Informer
from informer.models.linear import Linear, floored
from informer.ops.gaps import history_of
from informer.training.loss import Loss, build_loss, observed_share

log = logging.getLogger("informer.train")

GRID = 4
"""Weights are multiples of 1 / GRID."""

BLOCKS = 8
"""Of the validation windows, in order: the spread of a difference over them is its standard error."""

LEAST_HORIZONS = 3
"""Horizons that validation has to hold, one after the other, before a single forecast is believed over the average."""

MOST_WINDOWS = 4096
"""Evenly spaced."""


@final
@dataclass(frozen=True, slots=True)
class Combination:
    """What was chosen, and what it was chosen from.

    Args:
        shares: the weights.
        losses: on validation, by name: of each forecast by itself, and of the average.
    """

    shares: Shares
    losses: Mapping[str, float]


def combined(
    saved: Checkpoint, settings: TrainConfig, data: Data, device: torch.device
) -> tuple[Checkpoint, Combination]:
    """The checkpoint with the weights that were chosen in it, and what they were chosen from."""
    model = restore_model(saved).to(device)
    found = choose(model, settings, data, has_network=saved.step > 0 and isinstance(model, Informer))
    log.info(f"forecast: {found.shares.in_words}, chosen on validation")
    apply(model, found.shares, repeated_rows(data))
    facts = saved.data | {COMBINED: found.shares.to_plain()}
    return replace(saved, weights=model.state_dict(), data=facts), found


def combiner(saved: Checkpoint, data: Data) -> Callable[[ForecastModel], None]:
    """What gives maps that are fitted anew the weights of a checkpoint."""
    shares = Shares.from_plain(saved.data[COMBINED]) if COMBINED in saved.data else Shares()
    return partial(apply, shares=shares, repeated=repeated_rows(data))


def table_of(found: Combination) -> Table:
    """The losses, the average's weights with it."""
    table = Table(title="forecasts on validation, and their average", title_justify="left", box=SIMPLE, padding=0)
    for heading in ("forecast", "val loss", "weight"):
        table.add_column(heading, justify="left" if heading == "forecast" else "right")
    names = {"network": "network", "linear": "linear forecast", "naive": "seasonal naive"}
    for key, name in names.items():
        if name in found.losses:
            table.add_row(name, f"{found.losses[name]:.5f}", f"{found.shares.to_plain()[key]:.2f}")
    table.add_row("average", f"{found.losses['average']:.5f}", "", style="bold")
    return table


@torch.inference_mode()
def choose(model: ForecastModel, settings: TrainConfig, data: Data, *, has_network: bool) -> Combination:
    """The weights for a model in eval mode, from its validation windows.

    Args:
        model: a network on linear maps, or linear maps.
        settings: of the run.
        data: its rows for validation and calibration choose; with a network, which looks best on the rows that its
            training was stopped by, only those for calibration, if there are any.
        has_network: the network was trained.
    """
    maps, repeated = maps_of(model), repeated_rows(data)
    assert maps is not None, "see TrainConfig.problems"
    # a decoder that reads its own forecasts is not linear in its head, and a head of quantiles not in its weights
    is_linear = not isinstance(model, Informer) or (model.decoding is Decoding.one_pass and not model.quantiles)
    offered = _offered(has_network=has_network, has_naive=repeated is not None) if is_linear else [Shares(1.0, 0.0)]
    parts = [part for part in (data.val, data.calibration) if part is not None]
    parts = parts[-1:] if has_network else parts
    batch_size = settings.trainer.eval_batch_size
    loss = build_loss(settings.loss, has_gaps=data.val.store.has_gaps)
    losses, counts = [], []
    with _unbounded(model) as floor:
        asked = _Asked(model, maps, repeated, offered, floor)
        units = _units(data)
        for batch, series in (one for part in parts for one in _batches(part, batch_size)):
            losses.append(_losses(asked, batch, units[series.to(units.device)], loss))
            counts.append(observed_share(batch.target) if data.val.store.has_gaps else len(batch.target))
    found = np.concatenate(losses, axis=1) if losses else np.zeros((len(offered), 0))
    windows = sum(map(len, parts))
    each = windows / len({int(series) for part in parts for series in part.series(torch.arange(len(part)))})
    horizons = windows / min(max(each, 1.0), data.sizes.pred_len)
    best = _chosen(found, np.array(counts, dtype=float), offered, horizons)
    means = found @ np.array(counts) / sum(counts)
    singles = {offered[i].in_words.removeprefix("100% "): float(means[i]) for i in _singles(offered)}
    return Combination(offered[best], singles | {"average": float(means[best])})


def repeated_rows(data: Data) -> Tensor | None:
    """The row of the history that the seasonal naive repeats at each step, with the season that most targets have on
    validation; None where the history does not hold that of the step."""
    sizes = data.sizes
    if not 1 <= data.frequency.season <= sizes.seq_len:
        return None
    naive = best_seasonal_naive(data)
    season = Counter(naive.seasons or [naive.season]).most_common(1)[0][0]
    return sizes.seq_len - season + (sizes.offset + torch.arange(sizes.pred_len)) % season


def _offered(*, has_network: bool, has_naive: bool) -> list[Shares]:
    """All weights on the grid, those with the most of the linear forecast first."""
    wanted = [
        (network / GRID, (GRID - network - naive) / GRID, naive / GRID)
        for network in range(GRID + 1 if has_network else 1)
        for naive in range(GRID + 1 - network if has_naive else 1)
    ]
    return [Shares(*one) for one in sorted(wanted, key=lambda one: (-one[1], one[2]))]


def _singles(offered: list[Shares]) -> list[int]:
    return [place for place, one in enumerate(offered) if max(one.network, one.linear, one.naive) == 1.0]


def _batches(windows: Windows, batch_size: int) -> Iterator[tuple[Batch, Tensor]]:
    """In order, at least so many that blocks can be made of them; and the series of each window."""
    thinned = windows.thinned(MOST_WINDOWS)
    size = max(min(batch_size, len(thinned) // BLOCKS), 1)
    for indices in torch.arange(len(thinned)).split(size):
        yield thinned.batch(indices), thinned.series(indices)


def _units(data: Data) -> Float[Tensor, "series n"]:
    """What errors of each series are multiplied by: one over that of its seasonal naive, as in the linear maps, so that
    a volatile series does not decide for all; 1 for a single series."""
    positions = data.columns.positions(data.targets)
    channels = [(series, column) for series in range(len(data.panel)) for column in positions]
    period = data.frequency.season
    weights = series_weights(data.train.store, data.sizes, runs_of(data.train), channels, period=period)
    return torch.tensor(weights).sqrt().reshape(len(data.panel), len(positions))


class _Asked(NamedTuple):
    """What averages are made of: the model, its maps, the rows that are repeated, the weights, whether with a floor."""

    model: ForecastModel
    maps: Linear
    repeated: Tensor | None
    offered: list[Shares]
    floor: bool


@contextmanager
def _unbounded(model: ForecastModel) -> Iterator[bool]:
    """The model without its floor, which is that of the average; whether there is one."""
    assert isinstance(model, Informer | Linear), "the families with linear maps"
    floor, model.floor = model.floor, False
    try:
        yield floor
    finally:
        model.floor = floor


def _losses(asked: _Asked, batch: Batch, units: Float[Tensor, "b n"], loss: Loss) -> Float64[np.ndarray, "shares 1"]:
    """Loss of each average of model, linear maps and seasonal naive over one batch, errors in units of their own."""
    whole, linear = (model_output(model, batch).float() for model in asked[:2])
    history, naive = history_of(batch.enc_x[:, :, list(asked.maps.positions)]), torch.zeros_like(linear)
    if asked.repeated is not None:  # what `apply` makes of it: known effects are those of the horizon
        enc_x, dec_x = asked.maps.inputs(batch)
        left, ahead = asked.maps.without_effects(enc_x, batch.enc_mark, dec_x, batch.dec_mark)
        naive = left[:, :, list(asked.maps.positions)][:, asked.repeated.to(history.device)] + ahead
    linear, naive = (with_quantile_axis(one, whole) for one in (linear, naive))
    forecasts = (one.network * whole + one.linear * linear + one.naive * naive for one in asked.offered)
    bounded = (floored(one, history) if asked.floor else one for one in forecasts)
    unit = units[:, None].to(whole)
    wide = with_quantile_axis(unit, whole)
    return np.array([[float(loss(one * wide, batch.target * unit))] for one in bounded])


def _chosen(
    losses: Float64[np.ndarray, "shares n"], counts: Float64[np.ndarray, "n"], offered: list[Shares], horizons: float
) -> int:
    """The average nearest to the linear forecast that is not worse than the best one by more than a standard error,
    nor than the best single forecast, where validation is long enough to say which that is."""
    bounds = np.unique(np.linspace(0, len(counts), BLOCKS + 1).round().astype(int))
    blocks = np.stack([losses[:, a:b] @ counts[a:b] / counts[a:b].sum() for a, b in pairwise(bounds)], axis=1)
    means = losses @ counts / counts.sum()
    best, n_blocks = int(means.argmin()), blocks.shape[1]
    if n_blocks < 2:
        return 0
    # blocks that share rows do not vary by themselves
    overlap = max(n_blocks / horizons, 1.0) ** 0.5
    error = overlap * (blocks - blocks[best]).std(axis=1, ddof=1) / n_blocks**0.5
    allowed = (means - means[best] <= error) & (means <= means[0])
    if horizons >= LEAST_HORIZONS:
        allowed &= means <= means[_singles(offered)].min()
    return int(np.flatnonzero(allowed)[0])
