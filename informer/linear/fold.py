"""The fit for `model.family=linear`, and its maps as weights of the network."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from informer.data.calendar import mark_fields
from informer.data.pipeline import Data
from informer.data.windows import Windows
from informer.errors import InputError, listed
from informer.linear import varying
from informer.linear.covariate_effects import KnownEffects, fit_known
from informer.linear.features import cycle_turns
from informer.linear.fit import LinearFit, prepare
from informer.linear.forecast import LinearForecast
from informer.linear.moments import Run, joined, runs_of
from informer.linear.offered import LinearConfig
from informer.linear.strengths import Strengths, in_words
from informer.models.linear import HARMONICS, Linear, LinearModelConfig

EFFECTS = "known effects"
"""Key of the known effects in `Data.choices`."""


def linear_fit(model: Linear, config: LinearModelConfig, data: Data, lookbacks: Sequence[int] = ()) -> LinearFit:
    """The fit for a network, with known effects subtracted from the rows.

    Args:
        model: the network.
        config: its configuration.
        data: the data.
        lookbacks: candidate rows of history; empty: see `informer.linear.offered.lookback_grid`.

    Raises:
        InputError: see `prepare` and `Strengths.from_plain`.
    """
    static = data.columns.static_covariates  # constant over a window, so its features would be zero
    offered = LinearConfig(
        own_maps=model.has_own_maps,
        other_columns=model.recent > 0,
        average=config.average,
        left_out=data.columns.positions([name for name in data.inputs if name in (*data.categories, *static)]),
        lookbacks=lookbacks,
        chosen=[Strengths.from_plain(plain) for plain in config.maps],
    )
    longest = max((setting.lookback for setting in offered.chosen), default=0)
    if longest > data.sizes.seq_len:
        raise InputError(f"model.maps: expected a lookback of at most {data.sizes.seq_len} (seq_len), found {longest}")
    positions = data.columns.positions(data.targets)
    fit = prepare(data.train, data.val, positions, frequency=data.frequency, calendar=data.calendar, config=offered)
    known = effects_of(data)
    return replace(fit, store=known.without(fit.store, positions), known=known)


def effects_of(data: Data) -> KnownEffects:
    """Effects of future covariates, categories and holidays, fitted once; shared by maps, intervals and ridge."""
    if EFFECTS not in data.choices:
        data.choices[EFFECTS] = fit_known(
            data.train,
            data.val,
            data.columns.positions(data.targets),
            columns=data.regressors,
            marks=data.holidays,
            codes=data.known_codes,
            lag=data.frequency.season,
        )
    effects: KnownEffects = data.choices[EFFECTS]
    return effects


def fit_model(model: Linear, config: LinearModelConfig, data: Data) -> str:
    """Fit the maps and set them as weights of the network; returns a description of the choice.

    Raises:
        InputError: see `linear_fit`.
    """
    fit = linear_fit(model, config, data)
    strengths, why = choice(fit, data)
    fold(fit.fit(strengths, fit.train), model)
    fold_known(fit.known, model)
    fit_varying(model, config, data, data.train)
    notes = [f"linear: {in_words(strengths)}{why}; fitted on {sum(map(len, fit.train))} windows of training"]
    if config.own_maps and not model.has_own_maps:
        notes.append("one map for all: separate maps for series and columns would have too many weights")
    known_codes = [data.inputs[position] for position in data.known_codes]
    if unread := [name for name in data.categories if name not in known_codes]:
        notes.append(f"not read: {', '.join(unread)} (categorical, not known ahead)")
    if fit.known.weight.size:
        notes.append(known_in_words(fit.known, data))
    if config.varying:
        notes.append(varying_in_words(config.varying, config.varying_penalty))
    return "; ".join(notes)


def fit_varying(model: Linear, config: LinearModelConfig, data: Data, windows: Windows) -> None:
    """Fit the part of the maps whose weights vary, if there is one, to the errors of the others on these windows."""
    if model.varying is not None:
        varying.fit(model, windows, config.varying_penalty, data.frequency.season)


def choice(fit: LinearFit, data: Data) -> tuple[list[Strengths], str]:
    """`fit.strengths`, cached by data and candidates."""
    key = repr((fit.config, fit.features, fit.positions))
    if key not in data.choices:
        data.choices[key] = fit.strengths()
    return data.choices[key]


def known_in_words(known: KnownEffects, data: Data) -> str:
    """The columns, holidays and categories with an effect, as text."""
    fields = mark_fields(data.frequency, data.calendar)
    names = [data.inputs[position] for position in known.columns] + [fields[position] for position in known.marks]
    columns = [(data.inputs[position], code) for position, code in known.codes if code]
    names += [f"{name}={data.categories[name][code - 1]}" for name, code in columns]
    effective = [names[position] for position in known.nonzero]
    return f"known ahead, with an effect on held-out blocks: {', '.join(effective) or 'none'} of {', '.join(names)}"


def all_runs(data: Data) -> list[Run]:
    """The windows of all parts and those that span two parts."""
    splits = [split for split in (data.train, data.val, data.calibration, data.test) if split is not None]
    return joined([], [run for split in splits for run in runs_of(split)])


def varying_in_words(chosen: Sequence[str], penalty: float) -> str:
    """What the weights vary with, as text."""
    names = {
        "day": "time of day", "week": "day of week", "year": "time of year", "spread": "variation of the history",
        "season": "mean of the last season", "last": "last value",
    }  # fmt: skip
    return f"weights vary with {listed([names[name] for name in chosen])} (penalty {penalty:g})"


@torch.no_grad()
def fold_known(known: KnownEffects, model: Linear) -> None:
    """Set the known effects as weights of the network."""
    if model.effects is not None:
        model.effects.zero_()
        numbers = range(len(known.columns) + len(known.marks))
        rows = [*numbers, *(model.code_rows[column][code] for column, code in known.codes)]
        weight = torch.from_numpy(known.weight).to(model.effects)
        model.effects[torch.tensor(rows)[:, None], torch.tensor(model.positions)] = weight


@torch.no_grad()
def fold(fitted: LinearForecast, model: Linear) -> None:
    """Set the weights of the network so that it forecasts like `fitted`.

    forecast = last + W^T (history - last) + level mean(history) + features is linear in the history, so one map of the
    history represents all but the features: W, plus 1 - sum W at the last row and level / seq_len at every row.

    Raises:
        InputError: the maps' shape differs from the network's.
    """
    maps = 1 if fitted.by_series and not model.reads_series else len(fitted.weight)
    weight, level, extra = (tensor[:maps].double() for tensor in (fitted.weight, fitted.level, fitted.extra))
    if maps not in (1, len(model.own)) or weight.shape[1:] != model.own.shape[1:]:
        raise InputError(f"linear maps of shape {tuple(weight.shape)}: expected {tuple(model.own.shape)}")
    own_map = weight + level[:, None] / weight.shape[1]
    own_map[:, -1] += 1 - weight.sum(dim=1)
    model.own.copy_(own_map)
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
    source, target = 1, 1
    for index, (cycle, size) in enumerate(sizes.items()):
        if cycle in features.cycles:
            model.calendar[:, target : target + size].copy_(extra[:, source : source + size])
            turns, phase = cycle_turns(features, cycle)
            model.turns[:, index].copy_(turns)
            model.phase[index].copy_(phase)
            source += size
        target += size
