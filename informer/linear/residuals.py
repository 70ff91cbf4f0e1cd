"""The linear forecast on rows that it was not fitted on, from all of the time that there is.

Each block of training and validation is forecast with maps fitted on the others, with the strengths that were chosen
(cross-conformal prediction: V. Vovk, "Cross-conformal predictors", 2015): a single later part is of one season, whose
errors need not be those of the next.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy

import numpy as np
import torch

from informer.data.pipeline import Data
from informer.data.windows import Windows
from informer.linear.blocks import folds
from informer.linear.fold import choice, fold, linear_fit
from informer.linear.moments import Run, joined, runs_of
from informer.models.linear import Linear, LinearModelConfig

MOST_WINDOWS = 2000
"""Of all blocks together, evenly spaced."""


def held_out_blocks(
    model: Linear,
    config: LinearModelConfig,
    data: Data,
    *,
    n_blocks: int,
    finish: Callable[[Linear], None] = lambda model: None,
) -> Iterator[tuple[Linear, Windows]]:
    """Windows of training, validation and calibration, block by block, each with maps that were not fitted on it; the
    model stays as it is.

    Args:
        n_blocks: how many.
        finish: what the maps get after they are fitted.

    Raises:
        InputError: see `linear_fit`.
    """
    fit, scratch = linear_fit(model, config, data), deepcopy(model).eval()
    strengths, _ = choice(fit, data)
    parts = [part for part in (data.train, data.val, data.calibration) if part is not None]
    runs = joined([], [run for part in parts for run in runs_of(part)])
    for block, fitted in fit.fit_without(strengths, folds(runs, n_blocks, data.sizes.pred_len)):
        fold(fitted, scratch)
        finish(scratch)
        yield scratch, data.train.at(torch.from_numpy(_starts(block.held))).thinned(MOST_WINDOWS // n_blocks)


def _starts(runs: list[Run]) -> np.ndarray:
    return np.concatenate([np.arange(run.first, run.stop) for run in runs])
