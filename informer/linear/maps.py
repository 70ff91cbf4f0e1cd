"""The fit for `model.family=linear`, and its maps as weights of the network.

Errors of the linear forecast on rows not used in its fit, over the whole time span of the data.

Each block of training, validation and calibration rows is forecast by maps fitted on the other blocks, with the
penalties already chosen (cross-conformal prediction: V. Vovk, "Cross-conformal predictors", 2015). A single held-out
part at the end may cover only one season, whose errors need not be typical.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace

import torch
from torch import Tensor

from informer.data.calendar import mark_fields
from informer.data.dataset import Data
from informer.data.windows import Windows
from informer.linear.effects import KnownEffects, fit_known
from informer.linear.fit import LinearFit, LinearForecast, prepare
from informer.linear.moments import WindowRun, joined, runs_of
from informer.linear.select import Fold, folds, starts_of
from informer.linear.settings import MapSettings, cycle_turns, in_words
from informer.networks.models.linear import FIRST_PAIRS, HARMONICS, LinearMaps

EFFECTS = "known effects"
"""Key of the known effects in `Data.choices`."""


def linear_fit(model: LinearMaps, data: Data) -> LinearFit:
    """The fit for a network, with known effects subtracted from the rows.

    Args:
        model: the network.
        data: the data.
    """
    unread = (*data.categories, *data.columns.static_covariates)  # codes; constant over a window, so zero as features
    positions = data.columns.positions(data.targets)
    fit = prepare(
        data.train, data.val, positions, frequency=data.frequency, calendar=data.calendar,
        others=data.columns.positions([name for name in data.inputs if name not in unread]) if model.recent else (),
        own_maps=model.has_own_maps, average=model.config.average,
    )  # fmt: skip
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
    return data.choices[EFFECTS]


def fit_model(model: LinearMaps, data: Data, runs: Sequence[WindowRun] | None = None) -> str:
    """Fit the maps and set them as weights of the network; returns a description of the choice.

    Args:
        model: the network.
        data: the settings of the maps are chosen on its training and validation windows.
        runs: windows to fit on; None: the training windows.
    """
    fit = linear_fit(model, data)
    strengths, why = choice(fit, data)
    runs = fit.train if runs is None else runs
    set_weights(fit.fit(strengths, runs), model)
    fold_known(fit.known, model)
    notes = [f"linear: {in_words(strengths)}{why}; fitted on {sum(map(len, runs))} windows of training"]
    if model.config.own_maps and not model.has_own_maps:
        notes.append("one map for all: separate maps for series and columns would have too many weights")
    known_codes = [data.inputs[position] for position in data.known_codes]
    if unread := [name for name in data.categories if name not in known_codes]:
        notes.append(f"not read: {', '.join(unread)} (categorical, not known ahead)")
    if fit.known.weight.size:
        notes.append(known_in_words(fit.known, data))
    return "; ".join(notes)


def choice(fit: LinearFit, data: Data) -> tuple[list[MapSettings], str]:
    """`fit.strengths`, cached by data and candidates."""
    if fit.key not in data.choices:
        data.choices[fit.key] = fit.strengths()
    return data.choices[fit.key]


def known_in_words(known: KnownEffects, data: Data) -> str:
    """The columns, holidays and categories with an effect, as text."""
    fields = mark_fields(data.frequency, data.calendar)
    names = [data.inputs[position] for position in known.columns] + [fields[position] for position in known.marks]
    columns = [(data.inputs[position], code) for position, code in known.codes if code]
    names += [f"{name}={data.categories[name][code - 1]}" for name, code in columns]
    effective = [names[position] for position in known.nonzero]
    return f"known ahead, with an effect on held-out blocks: {', '.join(effective) or 'none'} of {', '.join(names)}"


def all_runs(data: Data, *, with_test: bool = True) -> list[WindowRun]:
    """The windows of all parts, and those that span two parts."""
    parts = [data.train, data.val, data.calibration, *([data.test] if with_test else [])]
    return joined([], [run for part in parts if part is not None for run in runs_of(part)])


@torch.no_grad()
def fold_known(known: KnownEffects, model: LinearMaps) -> None:
    """Set the known effects as weights of the network."""
    if model.effects is not None:
        model.effects.zero_()
        numbers = range(len(known.columns) + len(known.marks))
        rows = [*numbers, *(model.code_rows[column][code] for column, code in known.codes)]
        weight = torch.from_numpy(known.weight).to(model.effects)
        model.effects[torch.tensor(rows)[:, None], torch.tensor(model.positions)] = weight


@torch.no_grad()
def set_weights(fitted: LinearForecast, model: LinearMaps) -> None:
    """Set the weights of the network so that it forecasts like `fitted`.

    forecast = last + W^T (history - last) + level mean(history) + features is linear in the history, so one map of the
    history represents all but the features: W, plus 1 - sum W at the last row and level / seq_len at every row.
    """
    # series that joined after training come last, and are forecast with the shared map
    maps = 1 if fitted.by_series and not model.reads_series else len(model.own)
    weight, level, extra = (tensor[:maps].double() for tensor in (fitted.weight, fitted.level, fitted.extra))
    own_map = weight + level[:, None] / weight.shape[1]
    own_map[:, -1] += 1 - weight.sum(dim=1)
    model.own.copy_(own_map)
    _fold_calendar(fitted, extra, model)
    n_others = fitted.features.recent * len(fitted.features.columns)
    model.others.zero_()
    if n_others:
        model.others[:, -n_others:].copy_(extra[:, -n_others:])


def _fold_calendar(fitted: LinearForecast, extra: Tensor, model: LinearMaps) -> None:
    features, source = fitted.features, 1
    model.calendar.zero_()
    model.turns.zero_()
    model.phase.zero_()
    model.calendar[:, 0].copy_(extra[:, 0].expand_as(model.calendar[:, 0]))
    for index, (cycle, orders) in enumerate(HARMONICS.items()):
        if cycle in features.cycles:
            target, size = FIRST_PAIRS[cycle][0], 2 * orders
            model.calendar[:, target : target + size].copy_(extra[:, source : source + size])
            turns, phase = cycle_turns(features, cycle)
            model.turns[:, index].copy_(turns)
            model.phase[index].copy_(phase)
            source += size


MOST_WINDOWS = 2000
"""Largest number of windows of all blocks together, evenly spaced."""

KEPT_BYTES = 256_000_000
"""Maximum size of the maps of all blocks that are kept for a second use."""


def held_out_blocks(
    model: LinearMaps,
    data: Data,
    *,
    n_blocks: int,
) -> Iterator[tuple[LinearMaps, Windows]]:
    """For each block, the model fitted without it and the block's windows.

    Args:
        model: fitted model; it is not changed. Every block yields the same copy of it, with new weights.
        data: windows of training, validation and calibration rows; all are used.
        n_blocks: number of blocks.
    """
    fit, scratch = linear_fit(model, data), deepcopy(model).eval()
    strengths, _ = choice(fit, data)
    for block, fitted in _fits(
        fit, strengths, folds(all_runs(data, with_test=False), n_blocks, data.sizes.pred_len), data
    ):
        set_weights(fitted, scratch)
        yield scratch, data.train.at(torch.from_numpy(starts_of(block.held)))


def _fits(
    fit: LinearFit, strengths: Sequence[MapSettings], blocks: Sequence[Fold], data: Data
) -> Iterator[tuple[Fold, LinearForecast]]:
    """The maps fitted without each block, cached if they are small: weights of an average and intervals need both."""
    key = repr(("held out", fit.key, strengths, len(blocks)))
    if key in data.choices:
        yield from data.choices[key]
        return
    cached: list[tuple[Fold, LinearForecast]] = []
    size = 0
    for block, fitted in fit.fit_without(strengths, blocks):
        size += fitted.weight.nbytes
        cached = [*cached, (block, fitted)] if size <= KEPT_BYTES else []
        yield block, fitted
    if cached and size <= KEPT_BYTES:
        data.choices[key] = cached
