"""Choose the linear forecasts to average: a few whose mean is best on held-out blocks.

Averaging helps most if forecasts err differently (a short lookback window with the day of the week, a long one without
it), so candidates differ in lookback window, inputs, normalisation and penalties. The error of any mean follows from
the mean products of the candidates' errors, and these from the moments, so comparing means costs no more than the
candidates.

Means are compared by root mean squared error, per column or series and relative to its seasonal naive forecast (RMSSE,
the measure of the M5 competition), averaged over columns and series: in a sum of squared errors a few volatile series
would decide for all. The mean grows by one forecast at a time, each time the one that gives the lowest error. The same
one may be added again, and how often it was is its weight (R. Caruana et al., "Ensemble selection from libraries of
models", ICML 2004).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import log2

import numpy as np
from jaxtyping import Float64

from informer.linear.features import Group
from informer.linear.moments import Moments
from informer.linear.select import Choice, CrossValidation, fit_own, fit_shared
from informer.linear.solve import Layout, blended, raw_map
from informer.linear.strengths import Strengths
from informer.runtime import one_blas_thread

ADDITIONS = 16
"""Number of times a forecast is added to the mean."""

MOST = 36
"""Largest number of candidates."""

TIMES = (1.0, 2.0, 0.5, 4.0)
"""Lookback windows, as multiples of the best one, at which other settings are changed."""

CALENDAR = (Group.day, Group.week, Group.year)


@dataclass(frozen=True, eq=False, slots=True)
class Products:
    """Mean products of the candidates' errors on held-out blocks; they determine the error of any mean of candidates.

    Args:
        errors: mean product of the errors of two candidates, by fold and column or series; NaN without windows.
        weights: weight of the squared errors of each column or series.
    """

    errors: Float64[np.ndarray, "folds channels k k"]
    weights: Float64[np.ndarray, "channels"]

    def losses(self, weights: Float64[np.ndarray, "means k"]) -> Float64[np.ndarray, "means"]:
        """Root mean squared error of weighted means of candidates, averaged over folds and channels."""
        losses = np.zeros(len(weights))
        for fold in self.errors:
            has_windows = np.isfinite(fold[:, 0, 0])
            square = np.einsum("mi,cij,mj->cm", weights, fold[has_windows], weights, optimize=True)
            root = np.sqrt(np.maximum(self.weights[has_windows, None] * square, 0.0))
            losses += root.mean(axis=0) if len(root) else 0.0
        return losses / len(self.errors)

    def best(self, most: int) -> tuple[Float64[np.ndarray, "k"], float]:
        """Weights of the best mean of at most `most` candidates, and its loss."""
        each = np.eye(self.errors.shape[-1])
        counts = np.zeros(len(each))
        for size in range(1, ADDITIONS + 1):
            can_add = (counts > 0) | (np.count_nonzero(counts) < most)
            means = (counts + each[can_add]) / size
            losses = self.losses(means)
            best = int(losses.argmin())
            counts = counts + each[can_add][best]
        return counts / ADDITIONS, float(losses[best])


def best_mean(choice: Choice, best: Strengths, most: int) -> tuple[list[Strengths], float]:
    """Candidates whose maps to average, at most `most`, with their weights and the largest first, and the loss."""
    candidates = [best, *(candidate for candidate in candidates_of(choice, best) if choice.fits(candidate))]
    distinct = [candidate for position, candidate in enumerate(candidates) if candidate not in candidates[:position]]
    affordable = choice.in_time(distinct[:MOST])
    weights, loss = products_of(choice.validation, affordable).best(most)
    averaged = [replace(setting, weight=weight) for setting, weight in zip(affordable, weights.tolist(), strict=True)]
    return sorted((setting for setting in averaged if setting.weight), key=lambda setting: -setting.weight), loss


def candidates_of(choice: Choice, best: Strengths) -> Iterator[Strengths]:
    """The best setting with other lookback windows, and at some of these with other settings changed."""
    current = choice.lookbacks.index(best.lookback)
    near = sorted(choice.lookbacks, key=lambda rows: abs(choice.lookbacks.index(rows) - current))
    yield from (replace(best, lookback=rows) for rows in near)
    groups = {group: penalty for group, penalty in best.groups.items() if group not in CALENDAR}
    for share in TIMES:
        rows = min(choice.lookbacks, key=lambda lookback: abs(log2(lookback / (share * best.lookback))))
        changes = [{"groups": groups}, {"own": 3 * best.own}, {"last": not best.last}, {"naive": 0.0}]
        changes += [{"groups": groups, "own": 3 * best.own, "naive": 0.0, "taper": 1.0}, {"own": best.own / 3}]
        yield from (replace(best, lookback=rows, **change) for change in changes)  # type: ignore[arg-type]


@one_blas_thread
def products_of(validation: CrossValidation, candidates: Sequence[Strengths]) -> Products:
    """Error products of candidates, each fitted to every fold."""
    layout = validation.layout
    errors = []
    for fold, pooled in zip(validation.folds, validation.pooled, strict=True):
        shared = [fit_shared(pooled, layout, candidate) for candidate in candidates]
        by_channel = []
        for column, fitted, held_out in zip(validation.columns, fold.fitted, fold.held, strict=True):
            maps = [
                _on_moments(fit_own(fitted, column, common, layout, candidate), column, layout, candidate)
                for common, candidate in zip(shared, candidates, strict=True)
            ]
            by_channel.append(_error_products(maps, held_out, layout))
        errors.append(np.stack(by_channel))
    return Products(np.stack(errors), np.array(validation.weights))


def _error_products(maps: Sequence[Float64[np.ndarray, "z h"]], held_out: Moments, layout: Layout) -> np.ndarray:
    """Mean product of the errors of every two maps, over the windows and steps of a held-out block of one channel."""
    if not held_out.windows:
        return np.full((len(maps), len(maps)), np.nan)
    inputs = np.r_[0 : layout.seq_len, layout.seq_len + layout.steps : len(held_out.products)]
    future = np.arange(layout.seq_len, layout.seq_len + layout.steps)
    products = held_out.complete(layout.seq_len)
    gram, cross = products[np.ix_(inputs, inputs)], products[np.ix_(inputs, future)]
    flat = np.stack([weight.ravel() for weight in maps])
    quadratic = flat @ np.stack([(gram @ weight).ravel() for weight in maps]).T
    linear = flat @ cross.ravel()
    constant = float(products[future, future].sum())
    return (quadratic - linear[:, None] - linear + constant) / (held_out.windows * layout.steps)


def _on_moments(
    weight: Float64[np.ndarray, "p h"], column: int, layout: Layout, strengths: Strengths
) -> Float64[np.ndarray, "z h"]:
    """The map for raw history and features, see `raw_map`; the level is the mean of the history."""
    history, level, extra = raw_map(column, [blended(weight, layout, strengths)], layout, [strengths])
    return np.concatenate([history + level / layout.seq_len, extra]).astype(np.float64)
