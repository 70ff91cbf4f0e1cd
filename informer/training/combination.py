"""Forecast combination: a weighted average whose weights give the least squared error on held-out windows.

Members are the network, the linear forecast, the seasonal naive, the network that comes trained and the theta model;
see `average_weights`.

The average of the first three is stored in the model's own weights: its forecast is `maps + network`, the network's
output is linear in its head, and the seasonal naive is a linear map of the history. So it is the same model with a
scaled head and other maps. The others are `ForecastModel.members`.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Float64
from rich.box import SIMPLE
from rich.table import Table
from torch import Tensor

from informer.checkpoint.format import COMBINED, MEMBER_ERRORS, Checkpoint
from informer.checkpoint.restore import combination_in, restore_model
from informer.config.training import CombineKind, TrainConfig
from informer.data.dataset import Data
from informer.data.windows import Batch, Windows
from informer.inference.zero import network_seasons
from informer.linear.average import NAMES, CombinationWeights, average_weights, members_of
from informer.linear.maps import add_naive, apply, held_out_blocks
from informer.linear.moments import runs_of, series_weights
from informer.networks.forecast_model import ForecastModel, Member, member_forecasts, model_forecast
from informer.networks.models.linear import LinearMaps, maps_config
from informer.networks.models.zero import HORIZON
from informer.pretrained.member import PretrainedMember
from informer.pretrained.weights import NEWEST
from informer.scoring.baselines import best_seasonal_naive, training_rows
from informer.training.start import is_closed_form
from informer.training.tuning import tuned

log = logging.getLogger("informer.train")

LEAST_HORIZONS = 3
"""Minimum number of non-overlapping horizons in validation for a network to get weight."""

ENOUGH_HORIZONS, FOLDS = 10, 5
"""With fewer non-overlapping horizons of a series in validation, the errors are those on FOLDS blocks of all rows but
test instead."""

FEW_MAPS = 48
"""Number of columns, over all series, up to which the fits on blocks take little time. With more they are made only if
the calibration of intervals needs the same fits, which a time budget may not allow."""

MOST_VALUES, LEAST_WINDOWS = 2000, 64
"""Forecasts of single columns from which the weights are computed; and minimum number of windows."""


def combined(
    checkpoint: Checkpoint, settings: TrainConfig, data: Data, device: torch.device
) -> tuple[Checkpoint, Table]:
    """Choose a combination; returns the checkpoint with its weights applied, and a table of errors and weights."""
    model = restore_model(checkpoint).to(device)
    has_network = checkpoint.step > 0 and model.network is not None
    shares, losses, member = choose(model, settings, data, has_network=has_network)
    log.info(f"forecast: {shares.in_words}, chosen on held-out rows")
    apply(model, shares, repeated_rows(data))
    table = Table(title="forecasts of held-out rows, and their average", title_justify="left", box=SIMPLE, padding=0)
    for heading in ("forecast", "squared error", "weight"):
        table.add_column(heading, justify="left" if heading == "forecast" else "right")
    for name, weight in shares.by_name.items():
        if name in losses:
            table.add_row(name, f"{losses[name]:.5f}", f"{weight:.2f}")
    table.add_row("average", f"{losses['average']:.5f}", "", style="bold")
    facts = checkpoint.data | {COMBINED: shares.to_plain(), MEMBER_ERRORS: losses}
    return replace(checkpoint, weights=model.state_dict(), member=member, data=facts), table


def combiner(checkpoint: Checkpoint, data: Data) -> Callable[[LinearMaps], None]:
    """A function that applies the weights of a checkpoint's combination to newly fitted maps."""
    return partial(add_naive, shares=combination_in(checkpoint), repeated=repeated_rows(data))


@torch.inference_mode()
def choose(
    model: ForecastModel, settings: TrainConfig, data: Data, *, has_network: bool
) -> tuple[CombinationWeights, dict[str, float], dict[str, Tensor] | None]:
    """Choose the weights for a model in eval mode; returns also the mean squared errors of each member and of the
    average, by name; of several series, in units of the seasonal naive's on their training rows; and the weights of the
    pretrained network if it was trained further for `trainer.tune_steps`, which has to wait for enough held-out rows.

    Args:
        model: a network with linear maps, or linear maps.
        settings: configuration of the run.
        data: its validation and calibration windows are forecast; with a network only the calibration windows, if any,
            since early stopping makes its validation error optimistic. Where these are few, see ENOUGH_HORIZONS.
        has_network: the network was trained.
    """
    combine, repeated = settings.trainer.combine, repeated_rows(data)
    parts = [part for part in (data.val, data.calibration) if part is not None]
    parts = parts[-1:] if has_network else parts
    each, horizons = _horizons(parts, data)
    # a decoder that reads its own forecasts is not linear in its head, and neither is a quantile head
    is_linear = model.network is None or not (model.fed_rows or model.quantiles)
    own = ["network"] * (has_network and (horizons >= LEAST_HORIZONS or not is_linear))
    own += ["linear"] * is_linear + ["naive"] * (is_linear and repeated is not None and CombineKind.naive in combine)
    kinds = {"pretrained": CombineKind.zero, "theta": CombineKind.theta}
    local = [name for name, kind in kinds.items() if kind in combine]
    own = own if own or local else ["network"]  # not trained and with quantiles: the maps that it starts from
    seasons = network_seasons(training_rows(data), data.targets) if local else (1, 1)
    equal = CombinationWeights.of(dict.fromkeys(local, 1 / max(len(local), 1)), NEWEST, seasons)
    members, further = [member for _, member in members_of(equal, data.sizes.offset)], None
    steps = settings.trainer.tune_steps if members and can_tune(parts, data) else 0
    if steps and isinstance(members[0], PretrainedMember):
        further = tuned(model, members[0], data, parts, steps=steps, seed=settings.seed)
        members = [member for _, member in members_of(equal, data.sizes.offset, further)]
    held_out: Iterator[tuple[ForecastModel, Windows]] = ((model, part) for part in parts)
    is_short = each < ENOUGH_HORIZONS and further is None  # which has seen the blocks
    if "network" not in own and is_short and _fits_blocks(model, settings, data):
        assert model.maps is not None, "see TrainConfig.problems"
        blocks = held_out_blocks(model.maps, maps_config(settings.model), data, n_blocks=FOLDS)
        held_out = ((ForecastModel.of_maps(fitted), windows) for fitted, windows in blocks if len(windows))
    products, horizons = _products(held_out, own, members, repeated, data, settings.trainer.eval_batch_size)
    weights = average_weights(products, horizons, n_own=len(own))
    shares = CombinationWeights.of(dict(zip(own + local, weights.tolist(), strict=True)), NEWEST, seasons)
    losses = {NAMES[name]: float(products[i, i]) for i, name in enumerate(own + local)}
    return shares, losses | {"average": float(weights @ products @ weights)}, further if shares.pretrained else None


def _products(
    held_out: Iterator[tuple[ForecastModel, Windows]],
    own: Sequence[str],
    members: Sequence[Member],
    repeated: Tensor | None,
    data: Data,
    batch_size: int,
) -> tuple[Float64[np.ndarray, "k k"], float]:
    """Mean products of the errors of all members; and the number of non-overlapping horizons."""
    units, parts, n_members = _units(data), list[Windows](), len(own) + len(members)
    products, count = np.zeros((n_members, n_members)), 0
    for model, windows in held_out:
        parts.append(windows)
        fewer = windows.thinned(max(MOST_VALUES // len(data.targets), LEAST_WINDOWS))
        for indices in torch.arange(len(fewer)).split(batch_size):
            batch = fewer.batch(indices)
            unit = units[fewer.series(indices).to(units.device)][:, None]
            forecasts = [*_forecasts(model, own, repeated, batch), *member_forecasts(model, members, batch)]
            errors = [unit * (each - batch.target).double().to(unit.device) for each in forecasts]
            known = torch.stack(errors).flatten(1)[:, ~batch.target.isnan().flatten().to(unit.device)].cpu().numpy()
            products += known @ known.T
            count += known.shape[1]
    return products / max(count, 1), _horizons(parts, data)[1]


def _forecasts(
    model: ForecastModel, own: Sequence[str], repeated: Tensor | None, batch: Batch
) -> Iterator[Float[Tensor, "b h n"]]:
    """Scaled forecasts of each member that is part of the model, by itself."""
    maps = model.maps
    assert maps is not None, "see TrainConfig.problems"
    if "network" in own:
        yield model_forecast(model, batch)
    if "linear" in own:
        yield model_forecast(ForecastModel.of_maps(maps), batch)
    if "naive" in own:  # as in `apply`: repeated without known effects, plus those of the horizon
        assert repeated is not None, "only offered with a season"
        enc_x, dec_x = maps.dims.values(batch)
        adjusted, ahead = maps.without_effects(enc_x, batch.enc_mark, dec_x, batch.dec_mark)
        yield adjusted[:, :, list(maps.positions)][:, repeated.to(adjusted.device)] + ahead


def _fits_blocks(model: ForecastModel, settings: TrainConfig, data: Data) -> bool:
    """Whether the maps can be fitted on blocks, see FEW_MAPS."""
    is_cheap = settings.trainer.calibration_blocks == FOLDS or len(data.panel) * len(data.targets) <= FEW_MAPS
    return is_closed_form(model, settings) and is_cheap


def repeated_rows(data: Data) -> Tensor | None:
    """Row of the history that the seasonal naive repeats at each step, for the season that most targets have on
    validation; None if the history does not contain the default season."""
    sizes = data.sizes
    if not 1 <= data.frequency.season <= sizes.seq_len:
        return None
    naive = best_seasonal_naive(data)
    season = Counter(naive.seasons or [naive.season]).most_common(1)[0][0]
    return sizes.seq_len - season + (sizes.offset + torch.arange(sizes.pred_len)) % season


def _units(data: Data) -> Float[Tensor, "series n"]:
    """Factors of each series' errors: 1 / the error of its seasonal naive, as in the linear maps, so that volatile
    series do not dominate; 1 for a single series."""
    positions = data.columns.positions(data.targets)
    channels = [(series, column) for series in range(len(data.panel)) for column in positions]
    period = data.frequency.season
    weights = series_weights(data.train.store, data.sizes, runs_of(data.train), channels, period=period)
    return torch.tensor(weights).sqrt().reshape(len(data.panel), len(positions))


def can_tune(held_out: Sequence[Windows], data: Data) -> bool:
    """Whether these windows are enough to judge the pretrained network after further training."""
    each, horizons = _horizons(held_out, data)
    return each >= LEAST_HORIZONS and horizons >= ENOUGH_HORIZONS and data.sizes.offset < HORIZON


def _horizons(splits: Sequence[Windows], data: Data) -> tuple[float, float]:
    """Number of non-overlapping horizons of a series, and of all series."""
    windows = sum(map(len, splits))
    n_series = len({int(series) for split in splits for series in split.series(torch.arange(len(split)))})
    each = max(windows / n_series, 1.0) / data.sizes.pred_len
    return each, n_series * max(each, 1.0)
