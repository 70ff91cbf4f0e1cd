"""Errors of the linear forecast on rows not used in its fit, over the whole time span of the data.

Each block of training, validation and calibration rows is forecast by maps fitted on the other blocks, with the
penalties already chosen (cross-conformal prediction: V. Vovk, "Cross-conformal predictors", 2015). A single held-out
part at the end may cover only one season, whose errors need not be typical.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy

import torch

from informer.data.pipeline import Data
from informer.data.windows import Windows
from informer.linear import varying
from informer.linear.blocks import Fold, folds, starts_of
from informer.linear.fit import LinearFit
from informer.linear.fold import choice, fit_varying, fold, linear_fit
from informer.linear.forecast import LinearForecast
from informer.linear.moments import joined, runs_of
from informer.linear.strengths import Strengths
from informer.models.linear import Linear, LinearModelConfig

MOST_WINDOWS = 2000
"""Largest number of windows of all blocks together, evenly spaced."""

KEPT_BYTES = 256_000_000
"""Maximum size of the maps of all blocks that are kept for a second use."""


def held_out_blocks(
    model: Linear,
    config: LinearModelConfig,
    data: Data,
    *,
    n_blocks: int,
    finish: Callable[[Linear], None] = lambda model: None,
) -> Iterator[tuple[Linear, Windows]]:
    """For each block, the model fitted without it and the block's windows.

    Args:
        model: fitted model; it is not changed. Every block yields the same copy of it, with new weights.
        config: options of the fit.
        data: windows of training, validation and calibration rows; all are used.
        n_blocks: number of blocks.
        finish: called with the model after each fit.

    Raises:
        InputError: see `linear_fit`.
    """
    for scratch, windows, fitted_on in _blocks(model, config, data, n_blocks):
        fit_varying(scratch, config, data, fitted_on)
        finish(scratch)
        yield scratch, windows


def choose_varying(model: Linear, config: LinearModelConfig, data: Data, *, n_blocks: int) -> tuple[list[str], float]:
    """See `informer.linear.varying.choose`; for maps that are fitted."""
    cycles = linear_fit(model, config, data).features.cycles
    blocks = ((scratch, windows) for scratch, windows, _ in _blocks(model, config, data, n_blocks))
    return varying.choose(blocks, data.frequency.season, cycles)


def _blocks(
    model: Linear, config: LinearModelConfig, data: Data, n_blocks: int
) -> Iterator[tuple[Linear, Windows, Windows]]:
    """The model fitted without each block, the block's windows, and those of the fit."""
    fit, scratch = linear_fit(model, config, data), deepcopy(model).eval()
    strengths, _ = choice(fit, data)
    splits = [split for split in (data.train, data.val, data.calibration) if split is not None]
    runs = joined([], [run for split in splits for run in runs_of(split)])
    for block, fitted in _fits(fit, strengths, folds(runs, n_blocks, data.sizes.pred_len), data):
        fold(fitted, scratch)
        held_out, fitted_on = (data.train.at(torch.from_numpy(starts_of(part))) for part in (block.held, block.fitted))
        yield scratch, held_out, fitted_on


def _fits(
    fit: LinearFit, strengths: Sequence[Strengths], blocks: Sequence[Fold], data: Data
) -> Iterator[tuple[Fold, LinearForecast]]:
    """The maps fitted without each block, cached if they are small: weights of an average and intervals need both."""
    key = repr(("held out", fit.config, fit.features, fit.positions, strengths, blocks))
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
