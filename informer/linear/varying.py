"""Fit of maps whose weights vary with the state of the window, to the errors of the other linear maps.

What they vary with is chosen by forward selection: each block of rows is forecast by maps that were fitted on the other
blocks, and what lowers these errors by more than its standard error, fitted to the errors on other blocks, is used.
"""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from informer.base.runtime import one_blas_thread
from informer.config.model import VARY_WITH
from informer.data.windows import Windows
from informer.linear.moments import Normal
from informer.linear.select import LEAST_GAIN_OF_INPUT, SURE_OF_INPUT
from informer.networks.forecast_model import ForecastModel, model_output
from informer.networks.models.linear import HARMONICS, LinearMaps, VaryingMaps

PENALTIES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Penalties to choose from, relative to the sum of squares of an input."""

LEAST_PENALTY = 1e-9
"""Added to the penalty of all inputs, relative to their mean, for those that are zero."""

MOST_ROWS, MOST_VALUES = 60_000, 1 << 24
"""Most errors of a step (windows times columns), and of all steps; windows are thinned evenly."""

BATCH = 256


def _solve(products: Normal, penalty: float) -> Float64[np.ndarray, "p h"]:
    """Ridge regression with a penalty relative to the size of each input."""
    sizes = products.gram.diagonal()
    return products.ridge(penalty * sizes + LEAST_PENALTY * sizes.mean())


@torch.inference_mode()
@one_blas_thread
def choose(blocks: Iterable[tuple[LinearMaps, Windows]], season: int, cycles: Sequence[str]) -> tuple[list[str], float]:
    """`model.varying` and `model.varying_penalty`; no names if nothing lowers the errors for sure.

    Args:
        blocks: maps fitted without a block, and the block's windows.
        season: rows of a season.
        cycles: calendar cycles that the maps know.
    """
    samples, scratch = list[_Sample](), None
    for maps, windows in blocks:
        if scratch is None:
            names = [name for name in VARY_WITH if name not in HARMONICS or name in cycles]
            scratch = VaryingMaps(names, maps.own.shape[1], maps.own.shape[2])
            set_season(scratch, season)
        samples.append(_Sample.of(maps, scratch, windows))
    if scratch is None or len(samples) < 2:
        return [], 1.0
    _standardise(scratch, samples)
    products = [sample.products(scratch) for sample in samples]
    owners = np.repeat(scratch.owners, products[0].gram.shape[0] // len(scratch.owners))
    return _forward_selection(products, owners, scratch.names)


@torch.inference_mode()
@one_blas_thread
def fit(maps: LinearMaps, windows: Windows, penalty: float, season: int) -> None:
    """Set the weights of `maps.varying`, fitted to the errors of the other maps on these windows."""
    varying = maps.varying
    assert varying is not None, "the configuration has the same names"
    varying.weight.zero_()
    varying.share.fill_(1.0)
    set_season(varying, season)
    sample = _Sample.of(maps, varying, windows)
    _standardise(varying, [sample])
    products = sample.products(varying)
    weight = _solve(products, penalty)
    varying.weight.copy_(torch.from_numpy(weight).reshape(varying.weight.shape))


def set_season(varying: VaryingMaps, season: int) -> None:
    """The mean of the last season is over this many rows, or over the whole window if it is shorter."""
    varying.newest.zero_()
    varying.newest[-season:] = 1 / min(season, len(varying.newest))


@dataclass(frozen=True, eq=False, slots=True)
class _Sample:
    """Inputs, states and errors of some windows, one row per window and column."""

    inputs: Tensor
    states: Tensor
    errors: Tensor

    @classmethod
    def of(cls, maps: LinearMaps, varying: VaryingMaps, windows: Windows) -> "_Sample":
        """Of evenly spaced windows; an error that is not known counts as zero."""
        columns, device = len(maps.positions), windows.store.values.device
        maps = maps if maps.own.device == device else deepcopy(maps).to(device)
        most = max(min(MOST_ROWS, MOST_VALUES // windows.sizes.pred_len) // columns, 2)
        parts, forecaster = [], ForecastModel.of_maps(maps)
        for batch in windows.thinned(most).batches(BATCH):
            enc_x, dec_x = maps.dims.values(batch)
            history, _ = maps.without_effects(enc_x, batch.enc_mark, dec_x, batch.dec_mark)
            history, date = history[:, :, list(maps.positions)], maps.date(batch.enc_mark[:, -1])
            errors = (batch.target - model_output(forecaster, batch)).nan_to_num(0.0).transpose(1, 2)
            parts.append((varying.inputs(history), varying.states(history, date), errors))
        return cls(*(torch.cat(tensors).flatten(0, 1).cpu() for tensors in zip(*parts, strict=True)))

    def products(self, varying: VaryingMaps) -> Normal:
        """Sums of products, with the states in the units of `varying`."""
        varied = varying.standard(self.states)[:, :, None] * self.inputs[:, None, :]
        z, errors = varied.flatten(1).double().numpy(), self.errors.double().numpy()
        return Normal.of(z, errors)


def _standardise(varying: VaryingMaps, samples: Sequence[_Sample]) -> None:
    """Set mean and standard deviation of the states."""
    states = torch.cat([sample.states for sample in samples])
    varying.centre.copy_(states.mean(dim=0))
    spread = states.std(dim=0, correction=0)
    varying.scale.copy_(torch.where(spread > 0, spread, 1.0))


def _forward_selection(blocks: Sequence[Normal], owners: np.ndarray, names: Sequence[str]) -> tuple[list[str], float]:
    """The names that lower the error on held-out blocks for sure, and the best penalty for all of them.

    Args:
        blocks: products of each block.
        owners: name of VARY_WITH of each input.
        names: names to choose from.
    """

    def best(chosen: Sequence[str]) -> tuple[float, Float64[np.ndarray, "blocks"]]:
        """The penalty with the lowest loss on held-out blocks, and the loss of each block."""
        reading = [block.reading(np.flatnonzero(np.isin(owners, chosen))) for block in blocks]
        total = reduce(add, reading)
        trials = {
            penalty: np.array([block.loss(_solve(total - block, penalty)).sum() for block in reading])
            for penalty in PENALTIES
        }
        return min(trials.items(), key=lambda trial: trial[1].mean())

    chosen, penalty = list[str](), 1.0
    losses = np.array([block.square.sum() for block in blocks])
    while remaining := [name for name in names if name not in chosen]:
        trials = {name: best([*chosen, name]) for name in remaining}
        gains = {name: losses - trial_losses for name, (_, trial_losses) in trials.items()}
        sure = [
            name
            for name, gain in gains.items()
            if gain.mean() > SURE_OF_INPUT * gain.std(ddof=1) / len(gain) ** 0.5
            and gain.mean() > LEAST_GAIN_OF_INPUT * losses.mean()
        ]
        if not sure:
            break
        chosen.append(min(sure, key=lambda name: trials[name][1].mean()))
        penalty, losses = trials[chosen[-1]]
    return chosen, penalty
