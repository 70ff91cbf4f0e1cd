"""Forecast combination: a weighted average whose weights give the least squared error on held-out windows.

Members are the network, the linear forecast, the seasonal naive, the network that comes trained and the theta model;
see `average_weights`.

The average of the first three is stored in the model's own weights: its forecast is `maps + network`, the network's
output is linear in its head, and the seasonal naive is a linear map of the history. So it is the same model with a
scaled head and other maps. The others are `ForecastModel.members`.

Further training of the pretrained network on the rows of a run: with the loss of its pretraining on windows of the
training part, one column of a window as a series. It replaces the network that came with the package if it forecasts
held-out windows better.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial

import numpy as np
import torch
from jaxtyping import Float, Float64
from rich.table import Table
from torch import Tensor

from informer.base import progress
from informer.base.console import text_table
from informer.checkpoint.format import COMBINED, MEMBER_ERRORS, Checkpoint
from informer.checkpoint.restore import combination_in, restore_model
from informer.config.training import CombineKind, TrainConfig
from informer.data.dataset import Data
from informer.data.panel import training_rows
from informer.data.windows import Batch, Windows
from informer.inference.zero import network_seasons
from informer.linear.average import NAMES, CombinationWeights, average_weights, members_of
from informer.linear.maps import add_naive, apply, held_out_blocks
from informer.linear.moments import runs_of, series_weights
from informer.networks.forecast_model import ForecastModel, Member, member_forecasts, model_forecast, read_by_members
from informer.networks.models.linear import LinearMaps, maps_config
from informer.networks.models.zero import Zero, observed_rows, quantile_loss
from informer.networks.ops.zero_inputs import HISTORY, HORIZON, read
from informer.pretrained.member import PretrainedMember
from informer.pretrained.weights import NEWEST, load
from informer.scoring.baselines import best_seasonal_naive
from informer.training.start import is_closed_form

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
    rows = [(name, f"{losses[name]:.5f}", f"{x:.2f}") for name, x in shares.by_name.items() if name in losses]
    rows.append(("average", f"{losses['average']:.5f}", ""))
    title = "forecasts of held-out rows, and their average"
    table = text_table(("forecast", "squared error", "weight"), rows, title=title, bold="average")
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
    seasons = network_seasons(training_rows(data.panel, data.splits), data.targets) if local else (1, 1)
    equal = CombinationWeights.of(dict.fromkeys(local, 1 / max(len(local), 1)), NEWEST, seasons)
    members, further = [member for _, member in members_of(equal, data.sizes.offset)], None
    steps = settings.trainer.tune_steps if members and can_tune(parts, data) else 0
    if steps and isinstance(members[0], PretrainedMember):
        further = tuned(model, members[0], data, parts, steps=steps, seed=settings.seed)
        members = [member for _, member in members_of(equal, data.sizes.offset, further)]
    held_out: Iterator[tuple[ForecastModel, Windows]] = ((model, part) for part in parts)
    is_short = each < ENOUGH_HORIZONS and further is None  # which has seen the blocks
    is_cheap = settings.trainer.calibration_blocks == FOLDS or len(data.panel) * len(data.targets) <= FEW_MAPS
    if "network" not in own and is_short and is_cheap and is_closed_form(model, settings):
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


SERIES, RATE, WARM_UP, LEAST_AVERAGED = 32, 1e-3, 20, 0.02
"""Series of a step, learning rate after WARM_UP steps, and least share of new weights in the average that is kept."""
LEAST_STEPS = 30
"""Fewer steps change little."""
LEAST_GAIN = 0.01
"""Share by which the error on held-out windows must fall."""
TUNING_WINDOWS, TUNING_FORECASTS = 256, 512
"""Held-out windows, and forecasts of single columns, from which the error is computed."""


@cache
def seconds_a_step() -> float:
    """Seconds of this thread that a step takes on this machine, the faster of two."""
    network, times = load(), [time.thread_time()]
    x = torch.arange(HISTORY + HORIZON).repeat(SERIES, 1).double().sin()
    season = torch.full((SERIES,), 24)
    for _ in range(2):
        _loss(network, x[:, :HISTORY], x[:, HISTORY:], season, season, 0).backward()
        times.append(time.thread_time())
    return min(times[1] - times[0], times[2] - times[1])


def tuned(
    model: ForecastModel, member: PretrainedMember, data: Data, held_out: Sequence[Windows], *, steps: int, seed: int
) -> dict[str, Tensor] | None:
    """Weights of the member's network after further training; None if it forecasts held-out windows no better.

    Args:
        model: the model whose average it is a member of: the effects of its columns known ahead are not the network's.
        held_out: windows that decide.
        steps: optimiser steps.
        seed: of the windows drawn.
    """
    progress.report(f"training the pretrained network further, {steps} steps")
    generator = torch.Generator().manual_seed(seed)
    n_windows = -(-SERIES // len(data.targets))
    with torch.inference_mode(False), torch.enable_grad():
        network, average = (load(member.version).to(data.train.starts.device) for _ in range(2))
        optimizer = torch.optim.AdamW(network.train().parameters(), lr=RATE, betas=(0.9, 0.98), weight_decay=0.01)
        for step in range(steps):
            indices = torch.randint(len(data.train), (n_windows,), generator=generator)
            history, target = _series(model, data.train.batch(indices))
            drawn = torch.randperm(len(target), generator=generator)[:SERIES].to(target.device)
            one, other = (torch.full_like(drawn, season) for season in member.seasons)
            optimizer.param_groups[0]["lr"] = RATE * min((step + 1) / WARM_UP, 1) * (1 - step / steps)
            loss = _loss(network, history[drawn], target[drawn], one, other, member.offset)
            if not loss.isfinite():  # no value of these windows was observed
                continue
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            means, new = ([x.detach() for x in one.parameters()] for one in (average, network))
            torch._foreach_lerp_(means, new, max(LEAST_AVERAGED, 3 / (step + 4)))
    weights = {name: x.detach().cpu() for name, x in average.state_dict().items()}
    further = PretrainedMember(member.version, member.seasons, offset=member.offset, weights=weights)
    errors = [_error(model, each, held_out, data) for each in (member, further)]
    is_better = errors[1] < (1 - LEAST_GAIN) * errors[0]
    change = f"{errors[1] / errors[0] - 1:+.1%}" if errors[0] else "nothing"
    log.info(
        f"pretrained network: {steps} steps of further training change its error on held-out rows by {change}"
        f"{'' if is_better else ': not used'}"
    )
    return weights if is_better else None


@torch.no_grad()
def _series(model: ForecastModel, batch: Batch) -> tuple[Tensor, Tensor]:
    """History [k rows] and target [k pred_len] of every target column of every window, in data units."""
    history, ahead = read_by_members(model, batch, HISTORY)
    target = batch.units.unscaled(batch.target - ahead)
    return tuple(x.transpose(1, 2).flatten(0, 1) for x in (history, target))  # type: ignore[return-value]


def _loss(network: Zero, history: Tensor, target: Tensor, first: Tensor, second: Tensor, offset: int) -> Tensor:
    inputs = read(history.nan_to_num(0.0), observed_rows(history), first, second)
    target = target[:, : HORIZON - offset]
    quantiles = network(inputs)[:, offset : offset + target.shape[1]]
    return quantile_loss(quantiles, inputs, target.nan_to_num(0.0), ~target.isnan())


def _error(model: ForecastModel, member: PretrainedMember, held_out: Sequence[Windows], data: Data) -> float:
    """Mean absolute error in scaled units."""
    total, count = 0.0, 0
    for windows in held_out:
        batch_size = max(min(TUNING_WINDOWS, TUNING_FORECASTS // len(data.targets)) // len(held_out), 1)
        fewer = windows.thinned(batch_size)
        batch = fewer.batch(torch.arange(len(fewer)))
        (forecast,) = member_forecasts(model, [member], batch)
        off = (forecast - batch.target).abs()
        total, count = total + float(off.nansum()), count + int((~off.isnan()).sum())
    return total / max(count, 1)
