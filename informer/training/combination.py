"""Forecast combination: a weighted average of network, linear forecast and seasonal naive, chosen on validation.

The combination is stored in the model's own weights: its forecast is `maps + network`, the network's output is linear
in its head, and the seasonal naive is a linear map of the history. So the average is the same model with a scaled head
and other maps, and predict, eval, resume and export need no special case. J. M. Bates and C. W. J. Granger, "The
combination of forecasts", 1969.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from informer.config.training import TrainConfig
from informer.data.dataset import Data
from informer.data.windows import Batch, Windows
from informer.linear.maps import MOST_WINDOWS as MOST_HELD_OUT
from informer.linear.maps import CombinationWeights, add_naive, apply, held_out_blocks
from informer.linear.moments import runs_of, series_weights
from informer.networks.forecast_model import ForecastModel, at_least_history, model_output
from informer.networks.layers.transform import with_quantile_axis
from informer.networks.models.linear import LinearMaps, maps_config
from informer.networks.ops.gaps import history_of
from informer.scoring.baselines import best_seasonal_naive
from informer.training.optim import Loss, build_loss, observed_share
from informer.training.start import is_closed_form

log = logging.getLogger("informer.train")

GRID = 4
"""Weights are multiples of 1 / GRID."""

BLOCKS = 8
"""Number of consecutive blocks of validation windows, from which standard errors are estimated."""

LEAST_HORIZONS = 3
"""Minimum number of non-overlapping horizons in validation for a network to get weight, and for a single forecast to
exclude worse averages."""

ENOUGH_HORIZONS, FOLDS = 10, 5
"""With fewer non-overlapping horizons of a series in validation, the weight of the seasonal naive is chosen on FOLDS
blocks of all rows but test instead."""

FEW_MAPS = 48
"""Number of columns, over all series, up to which the fits on blocks take little time. With more they are made only if
the calibration of intervals needs the same fits, which a time budget may not allow."""

MOST_WINDOWS, LEAST_WINDOWS, MOST_VALUES = 4096, 64, 1 << 22
"""Maximum and minimum number of evenly spaced windows, and maximum number of their values."""


@final
@dataclass(frozen=True, slots=True)
class Combination:
    """The chosen weights.

    Args:
        shares: weights of network, linear forecast and seasonal naive.
        losses: validation losses of each forecast by itself and of the average, by name.
    """

    shares: CombinationWeights
    losses: Mapping[str, float]


def combined(
    checkpoint: Checkpoint, settings: TrainConfig, data: Data, device: torch.device
) -> tuple[Checkpoint, Combination]:
    """Choose a combination; returns the checkpoint with its weights applied, and the combination."""
    model = restore_model(checkpoint).to(device)
    chosen = choose(model, settings, data, has_network=checkpoint.step > 0 and model.network is not None)
    log.info(f"forecast: {chosen.shares.in_words}, chosen on validation")
    apply(model, chosen.shares, repeated_rows(data))
    facts = checkpoint.data | {COMBINED: chosen.shares.to_plain()}
    return replace(checkpoint, weights=model.state_dict(), data=facts), chosen


def combiner(checkpoint: Checkpoint, data: Data) -> Callable[[LinearMaps], None]:
    """A function that applies the weights of a checkpoint's combination to newly fitted maps."""
    shares = CombinationWeights.from_plain(checkpoint.data.get(COMBINED, CombinationWeights().to_plain()))
    return partial(add_naive, shares=shares, repeated=repeated_rows(data))


def table_of(combination: Combination) -> Table:
    """The losses and the weights as a table."""
    table = Table(title="forecasts on validation, and their average", title_justify="left", box=SIMPLE, padding=0)
    for heading in ("forecast", "val loss", "weight"):
        table.add_column(heading, justify="left" if heading == "forecast" else "right")
    names = {"network": "network", "linear": "linear forecast", "naive": "seasonal naive"}
    for key, name in names.items():
        if name in combination.losses:
            table.add_row(name, f"{combination.losses[name]:.5f}", f"{combination.shares.to_plain()[key]:.2f}")
    table.add_row("average", f"{combination.losses['average']:.5f}", "", style="bold")
    return table


@torch.inference_mode()
def choose(model: ForecastModel, settings: TrainConfig, data: Data, *, has_network: bool) -> Combination:
    """Choose the weights for a model in eval mode.

    Args:
        model: a network with linear maps, or linear maps.
        settings: configuration of the run.
        data: the weights are chosen on its validation and calibration windows; with a network only on the calibration
            windows, if any, since early stopping makes its validation loss optimistic. Where these are short, see
            ENOUGH_HORIZONS.
        has_network: the network was trained.
    """
    maps, repeated = model.maps, repeated_rows(data)
    assert maps is not None, "see TrainConfig.problems"
    # a decoder that reads its own forecasts is not linear in its head, and neither is a quantile head
    is_linear = model.network is None or not (model.fed_rows or model.quantiles)
    offered = (
        _offered(has_network=has_network, has_naive=repeated is not None)
        if is_linear
        else [CombinationWeights(1.0, 0.0)]
    )
    splits = [split for split in (data.val, data.calibration) if split is not None]
    splits = splits[-1:] if has_network else splits
    loss, units = build_loss(settings.loss, has_gaps=data.val.store.has_gaps), _units(data)
    score = partial(_scored, units=units, loss=loss, batch_size=settings.trainer.eval_batch_size)
    losses_by_batch, counts = score(_Forecasters(model, maps, repeated, offered), splits)
    each, horizons = _horizons(splits, data)
    candidates, singles = list(range(len(offered))), _singles(offered)
    fits_blocks = is_closed_form(model, settings) and (
        settings.trainer.calibration_blocks == FOLDS or len(data.panel) * len(data.targets) <= FEW_MAPS
    )
    if is_linear and repeated is not None and each < ENOUGH_HORIZONS and fits_blocks:
        naive = _naive_share(maps, repeated, settings, data, score)
        candidates = [place for place in candidates if offered[place].naive == naive]
        singles = [0, len(candidates) - 1]
    if is_linear and horizons < LEAST_HORIZONS:
        candidates = [place for place in candidates if not offered[place].network]
        singles = [0, len(candidates) - 1]
    best = candidates[_chosen(losses_by_batch[candidates], counts, horizons, singles)]
    means = losses_by_batch @ counts / counts.sum()
    losses = {offered[i].in_words.removeprefix("100% "): float(means[i]) for i in _singles(offered)}
    return Combination(offered[best], losses | {"average": float(means[best])})


def repeated_rows(data: Data) -> Tensor | None:
    """Row of the history that the seasonal naive repeats at each step, for the season that most targets have on
    validation; None if the history does not contain the default season."""
    sizes = data.sizes
    if not 1 <= data.frequency.season <= sizes.seq_len:
        return None
    naive = best_seasonal_naive(data)
    season = Counter(naive.seasons or [naive.season]).most_common(1)[0][0]
    return sizes.seq_len - season + (sizes.offset + torch.arange(sizes.pred_len)) % season


def _offered(*, has_network: bool, has_naive: bool) -> list[CombinationWeights]:
    """All weights on the grid, largest weight of the linear forecast first."""
    all_weights = [
        (network / GRID, (GRID - network - naive) / GRID, naive / GRID)
        for network in range(GRID + 1 if has_network else 1)
        for naive in range(GRID + 1 - network if has_naive else 1)
    ]
    return [
        CombinationWeights(*weights) for weights in sorted(all_weights, key=lambda weights: (-weights[1], weights[2]))
    ]


def _singles(offered: list[CombinationWeights]) -> list[int]:
    return [place for place, shares in enumerate(offered) if max(shares.network, shares.linear, shares.naive) == 1.0]


def _batches(windows: Windows, batch_size: int, n_targets: int) -> Iterator[tuple[Batch, Tensor]]:
    """Batches of thinned windows in order, at least BLOCKS of them if possible, and the series of each window."""
    most = MOST_VALUES // (windows.sizes.pred_len * n_targets)
    thinned = windows.thinned(min(max(most, LEAST_WINDOWS), MOST_WINDOWS))
    size = max(min(batch_size, len(thinned) // BLOCKS), 1)
    for indices in torch.arange(len(thinned)).split(size):
        yield thinned.batch(indices), thinned.series(indices)


def _units(data: Data) -> Float[Tensor, "series n"]:
    """Factors of each series' errors: 1 / the error of its seasonal naive, as in the linear maps, so that volatile
    series do not dominate; 1 for a single series."""
    positions = data.columns.positions(data.targets)
    channels = [(series, column) for series in range(len(data.panel)) for column in positions]
    period = data.frequency.season
    weights = series_weights(data.train.store, data.sizes, runs_of(data.train), channels, period=period)
    return torch.tensor(weights).sqrt().reshape(len(data.panel), len(positions))


class _Forecasters(NamedTuple):
    """The model, its maps, the rows that the seasonal naive repeats, and the candidate weights."""

    model: ForecastModel
    maps: LinearMaps
    repeated: Tensor | None
    offered: list[CombinationWeights]


_Score = Callable[[_Forecasters, Sequence[Windows]], tuple[np.ndarray, np.ndarray]]


def _scored(
    forecasters: _Forecasters,
    splits: Sequence[Windows],
    *,
    units: Float[Tensor, "series n"],
    loss: Loss,
    batch_size: int,
) -> tuple[Float64[np.ndarray, "shares batches"], Float64[np.ndarray, "batches"]]:
    """Loss of each candidate average on each batch of the parts, and the weight of the batch."""
    losses, counts = [np.zeros((len(forecasters.offered), 0))], []
    with _unbounded(forecasters.model) as floor:
        for batch, series in (pair for split in splits for pair in _batches(split, batch_size, units.shape[1])):
            losses.append(_losses(forecasters, batch, units[series.to(units.device)], loss, floor=floor))
            counts.append(float(observed_share(batch.target)) if splits[0].store.has_gaps else float(len(batch.target)))
    return np.concatenate(losses, axis=1), np.array(counts)


def _horizons(splits: Sequence[Windows], data: Data) -> tuple[float, float]:
    """Number of non-overlapping horizons of a series, and of all series."""
    windows = sum(map(len, splits))
    n_series = len({int(series) for split in splits for series in split.series(torch.arange(len(split)))})
    each = max(windows / n_series, 1.0) / data.sizes.pred_len
    return each, n_series * max(each, 1.0)


@contextmanager
def _unbounded(model: ForecastModel) -> Iterator[bool]:
    """Removes the model's floor, which applies to the average instead; yields whether there is one."""
    floor, model.floor = model.floor, False
    try:
        yield floor
    finally:
        model.floor = floor


def _losses(
    forecasters: _Forecasters, batch: Batch, units: Float[Tensor, "b n"], loss: Loss, *, floor: bool
) -> Float64[np.ndarray, "shares 1"]:
    """Loss of each candidate average on one batch, with errors in `units`."""
    model, maps = forecasters.model, forecasters.maps
    alone = ForecastModel.of_maps(maps)
    alone.floor = False
    output, linear = (model_output(each, batch).float() for each in (model, alone))
    history, naive = history_of(batch.enc_x[:, :, list(maps.positions)]), torch.zeros_like(linear)
    if forecasters.repeated is not None:  # as in `apply`: repeated without known effects, plus those of the horizon
        enc_x, dec_x = maps.dims.values(batch)
        adjusted, ahead = maps.without_effects(enc_x, batch.enc_mark, dec_x, batch.dec_mark)
        naive = adjusted[:, :, list(maps.positions)][:, forecasters.repeated.to(history.device)] + ahead
    linear, naive = (with_quantile_axis(forecast, output) for forecast in (linear, naive))
    forecasts = (
        shares.network * output + shares.linear * linear + shares.naive * naive for shares in forecasters.offered
    )
    bounded = (at_least_history(forecast, history) if floor else forecast for forecast in forecasts)
    unit = units[:, None].to(output)
    wide = with_quantile_axis(unit, output)
    return np.array([[float(loss(forecast * wide, batch.target * unit))] for forecast in bounded])


def _chosen(
    losses: Float64[np.ndarray, "shares n"], counts: Float64[np.ndarray, "n"], horizons: float, singles: Sequence[int]
) -> int:
    """Index of the first candidate (the linear forecast comes first) within one standard error of the best one. It must
    not be worse than the first nor, if validation has LEAST_HORIZONS, than the best of `singles`."""
    bounds = np.unique(np.linspace(0, len(counts), BLOCKS + 1).round().astype(int))
    blocks = np.stack([losses[:, a:b] @ counts[a:b] / counts[a:b].sum() for a, b in pairwise(bounds)], axis=1)
    means = losses @ counts / counts.sum()
    best, n_blocks = int(means.argmin()), blocks.shape[1]
    if n_blocks < 2:
        return 0
    # blocks with overlapping horizons are correlated
    overlap = max(n_blocks / horizons, 1.0) ** 0.5
    error = overlap * (blocks - blocks[best]).std(axis=1, ddof=1) / n_blocks**0.5
    allowed = (means - means[best] <= error) & (means <= means[0])
    if horizons >= LEAST_HORIZONS:
        allowed &= means <= means[list(singles)].min()
    return int(np.flatnonzero(allowed)[0])


def _naive_share(maps: LinearMaps, repeated: Tensor, settings: TrainConfig, data: Data, score: "_Score") -> float:
    """Weight of the seasonal naive, by cross-validation on blocks of all rows but test: the lowest mean loss relative
    to the maps without it, with a gain in all blocks but one."""
    candidates, relative_losses = _offered(has_network=False, has_naive=True), []
    for fitted, held_out in held_out_blocks(maps, maps_config(settings.model), data, n_blocks=FOLDS):
        if len(held_out):
            windows = held_out.thinned(MOST_HELD_OUT // FOLDS)
            losses, counts = score(_Forecasters(ForecastModel.of_maps(fitted), fitted, repeated, candidates), [windows])
            means = losses @ counts
            relative_losses.append(means / means[0] if means[0] > 0 else np.ones_like(means))
    if not relative_losses:
        return 0.0
    ratios = np.stack(relative_losses)
    gains = (ratios < 1).sum(axis=0) >= len(ratios) - 1
    gains[0] = True
    return candidates[int(np.where(gains, ratios.mean(axis=0), np.inf).argmin())].naive
