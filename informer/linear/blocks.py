"""Blocks of time for cross-validation."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from jaxtyping import Int64

from informer.linear.moments import Run


@dataclass(frozen=True, slots=True)
class Fold:
    """Windows held out, and windows to fit on; no row is in the horizon of both."""

    held: list[Run]
    fitted: list[Run]
    between: list[Run]
    """Windows in neither, because their horizons share rows with those of held-out windows."""


def folds(runs: Sequence[Run], n_blocks: int, pred_len: int) -> list[Fold]:
    """Folds of leave-one-block-out cross-validation: block i is the i-th part of each series' windows.

    Args:
        runs: windows, in order of time within each series.
        n_blocks: number of blocks.
        pred_len: rows of the forecast horizon. Windows closer than this to a held-out one are not used in the fit.
    """
    blocks: list[Fold] = [Fold([], [], []) for _ in range(n_blocks)]
    for _, group in groupby(runs, key=lambda run: run.series):
        series_runs = list(group)
        bounds = np.linspace(0, sum(map(len, series_runs)), n_blocks + 1).round().astype(int)
        for fold, first, stop in zip(blocks, bounds[:-1], bounds[1:], strict=True):
            held_out = _numbered(series_runs, int(first), int(stop))
            fold.held.extend(held_out)
            fold.fitted.extend(_away_from(series_runs, held_out, pred_len) if held_out else series_runs)
            fold.between.extend(_next_to(series_runs, held_out, pred_len) if held_out else [])
    return blocks


def starts_of(runs: Sequence[Run]) -> Int64[np.ndarray, "windows"]:
    """Store rows at which the windows start."""
    return np.concatenate([np.arange(run.first, run.stop) for run in runs])


def _numbered(runs: Sequence[Run], first: int, stop: int) -> list[Run]:
    """Windows number [first, stop) of consecutive runs."""
    selected, n_before = [], 0
    for run in runs:
        low, high = max(first - n_before, 0), min(stop - n_before, len(run))
        if low < high:
            selected.append(Run(run.series, run.first + low, run.first + high))
        n_before += len(run)
    return selected


def _away_from(runs: Sequence[Run], held_out: Sequence[Run], pred_len: int) -> list[Run]:
    low, high = held_out[0].first - pred_len + 1, held_out[-1].stop + pred_len - 1
    return _within(runs, ((runs[0].first, low), (high, runs[-1].stop)))


def _next_to(runs: Sequence[Run], held_out: Sequence[Run], pred_len: int) -> list[Run]:
    first, stop = held_out[0].first, held_out[-1].stop
    return _within(runs, ((first - pred_len + 1, first), (stop, stop + pred_len - 1)))


def _within(runs: Sequence[Run], bounds: Sequence[tuple[int, int]]) -> list[Run]:
    """The windows that begin within any of the bounds."""
    selected = []
    for run in runs:
        for low, high in bounds:
            first, stop = max(run.first, low), min(run.stop, high)
            if first < stop:
                selected.append(Run(run.series, first, stop))
    return selected
