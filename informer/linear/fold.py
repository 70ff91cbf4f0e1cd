"""The fit for `model.family=linear`: its maps laid out as the network's weights, whatever was chosen."""

from collections.abc import Sequence

import torch
from torch import Tensor

from informer.data.pipeline import Data
from informer.errors import InputError
from informer.linear.features import cycle_turns
from informer.linear.fit import LinearFit, prepare
from informer.linear.forecast import LinearForecast
from informer.linear.moments import joined, runs_of
from informer.linear.offered import LinearConfig
from informer.linear.solve import Strengths, in_words
from informer.models.linear import HARMONICS, Linear, LinearModelConfig


def linear_fit(model: Linear, config: LinearModelConfig, data: Data, lookbacks: Sequence[int] = ()) -> LinearFit:
    """What can be fitted for the network.

    Args:
        lookbacks: rows of history to choose from; none: see `informer.linear.offered.lookback_grid`.

    Raises:
        InputError: see `prepare` and `Strengths.from_plain`.
    """
    static = data.columns.static_covariates  # constant over a window, so that they say nothing there
    offered = LinearConfig(
        own_maps=model.has_own_maps,
        other_columns=model.recent > 0,
        average=config.average,
        left_out=data.columns.positions([one for one in data.inputs if one in (*data.categories, *static)]),
        lookbacks=lookbacks,
        chosen=[Strengths.from_plain(one) for one in config.maps],
    )
    longest = max((one.lookback for one in offered.chosen), default=0)
    if longest > data.sizes.seq_len:
        raise InputError(f"model.maps: expected a lookback of at most {data.sizes.seq_len} (seq_len), found {longest}")
    positions = data.columns.positions(data.targets)
    return prepare(data.train, data.val, positions, frequency=data.frequency, kind=data.calendar, config=offered)


def fit_model(model: Linear, config: LinearModelConfig, data: Data) -> str:
    """Fit the maps and give them to the network; returns what was chosen, in words.

    Raises:
        InputError: see `linear_fit`.
    """
    fit = linear_fit(model, config, data)
    strengths, why = fit.strengths()
    words = in_words(strengths)
    fold(fit.fit(strengths, fit.train), model)
    notes = [f"linear: {words}{why}; fitted on {sum(map(len, fit.train))} windows of training"]
    if config.own_maps and not model.has_own_maps:
        notes.append("one map for all: maps of their own for series and columns would have too many weights")
    if data.categories:
        notes.append(f"not read: {', '.join(data.categories)}, whose cells are categories")
    past = [name for name in data.columns.future_covariates if name not in data.categories]
    if past:
        notes.append(f"only the past is read of {', '.join(past)}")
    return "; ".join(notes)


def refit_model(model: Linear, config: LinearModelConfig, data: Data) -> int:
    """Fit the maps once more with the same strengths on the windows of all parts, test included.

    Returns:
        How many windows they are.

    Raises:
        InputError: see `linear_fit`.
    """
    fit = linear_fit(model, config, data)
    strengths, _ = fit.strengths()  # the same as before: they are chosen on training and validation
    parts = [part for part in (data.train, data.val, data.calibration, data.test) if part is not None]
    runs = joined([], [run for part in parts for run in runs_of(part)])
    fold(fit.fit(strengths, runs), model)
    return sum(map(len, runs))


@torch.no_grad()
def fold(fitted: LinearForecast, model: Linear) -> None:
    """Make the network forecast what `fitted` does.

    forecast = last + W^T (history - last) + level mean(history) + features is linear in the history, so that one map of
    it holds all but the features: W with 1 - sum W added at the last row and level / seq_len at every row.

    Raises:
        InputError: the network has no place for the maps.
    """
    maps = 1 if fitted.by_series and not model.reads_series else len(fitted.weight)
    weight, level, extra = (part[:maps].double() for part in (fitted.weight, fitted.level, fitted.extra))
    if maps not in (1, len(model.own)) or weight.shape[1:] != model.own.shape[1:]:
        raise InputError(f"linear maps of shape {tuple(weight.shape)}: expected {tuple(model.own.shape)}")
    own = weight + level[:, None] / weight.shape[1]
    own[:, -1] += 1 - weight.sum(dim=1)
    model.own.copy_(own)
    _fold_calendar(fitted, extra, model)
    n_others = fitted.features.recent * len(fitted.features.columns)
    model.others.zero_()
    if n_others:
        model.others[:, -n_others:].copy_(extra[:, -n_others:])


def _fold_calendar(fitted: LinearForecast, extra: Tensor, model: Linear) -> None:
    features, sizes = fitted.features, {cycle: 2 * orders for cycle, orders in HARMONICS.items()}
    model.calendar.zero_()
    model.turns.zero_()
    model.phase.zero_()
    model.calendar[:, 0].copy_(extra[:, 0].expand_as(model.calendar[:, 0]))
    read, written = 1, 1
    for place, (cycle, size) in enumerate(sizes.items()):
        if cycle in features.cycles:
            model.calendar[:, written : written + size].copy_(extra[:, read : read + size])
            turns, phase = cycle_turns(features, cycle)
            model.turns[:, place].copy_(turns)
            model.phase[place].copy_(phase)
            read += size
        written += size
