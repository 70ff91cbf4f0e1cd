"""Further training of the pretrained network on the rows of a run, as a member of the average of `model=auto`.

It is trained with the loss of its pretraining on windows of the training part, one column of a window as a series. It
replaces the network that came with the package if it forecasts held-out windows better.
"""

import logging
import time
from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from informer.base import progress
from informer.base.progress import Status
from informer.data.dataset import Data
from informer.data.windows import Batch, Windows
from informer.networks.forecast_model import ForecastModel, read_by_members
from informer.networks.models.zero import HISTORY, HORIZON, Zero, observed_rows, quantile_loss, read
from informer.pretrained.member import PretrainedMember
from informer.pretrained.weights import load

log = logging.getLogger("informer.train")

SERIES, RATE, WARM_UP, LEAST_AVERAGED = 32, 1e-3, 20, 0.02
"""Series of a step, learning rate after WARM_UP steps, and least share of new weights in the average that is kept."""
LEAST_STEPS = 30
"""Fewer steps change little."""
LEAST_GAIN = 0.01
"""Share by which the error on held-out windows must fall."""
MOST_WINDOWS, MOST_FORECASTS = 256, 512
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
    progress.report(Status(doing=f"training the pretrained network further, {steps} steps"))
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
            share, (means, new) = max(LEAST_AVERAGED, 3 / (step + 4)), map(_values, (average, network))
            torch._foreach_lerp_(means, new, share)
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


def _values(network: Zero) -> list[Tensor]:
    return [x.detach() for x in network.parameters()]


@torch.no_grad()
def _series(model: ForecastModel, batch: Batch) -> tuple[Tensor, Tensor]:
    """History [k rows] and target [k pred_len] of every target column of every window, in data units."""
    history, ahead = read_by_members(model, batch, HISTORY)
    target = (batch.target - ahead).double() * batch.scale[:, None] + batch.center[:, None]
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
        batch_size = max(min(MOST_WINDOWS, MOST_FORECASTS // len(data.targets)) // len(held_out), 1)
        fewer = windows.thinned(batch_size)
        batch = fewer.batch(torch.arange(len(fewer)))
        history, ahead = read_by_members(model, batch, HISTORY)
        forecast = (member(history, model.dims.pred_len) - batch.center[:, None]) / batch.scale[:, None] + ahead
        off = (forecast - batch.target).abs()
        total, count = total + float(off.nansum()), count + int((~off.isnan()).sum())
    return total / max(count, 1)
