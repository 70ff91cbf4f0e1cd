"""Which linear forecasts to average: the few whose mean is best on held-out blocks.

Forecasts that err differently (a short history with the day of the week, a long one without) gain most from each other,
so that candidates differ in lookback, inputs, normalisation and shrinkage. The errors of any mean follow from the
products of the candidates' errors, and these from the moments, so that all means cost what the candidates cost.

Means are compared by the root mean squared error of each column or series in units of its seasonal naive (RMSSE, the
measure of the M5 competition), averaged over these: in a sum of squares a few volatile series decide for all. All means
of up to three forecasts are compared, since the best forecast by itself need not be in the best mean; further ones are
added one at a time (R. Caruana et al., "Ensemble selection from libraries of models", ICML 2004).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import log2

import numpy as np
from jaxtyping import Float64

from informer.linear.features import Group
from informer.linear.moments import Moments
from informer.linear.select import Choice, CrossValidation, fit_own, fit_shared
from informer.linear.solve import Layout, Strengths, blended, raw_map

LEAST_GAIN = 1e-3
"""Share of the error that one more forecast has to take away."""

EXHAUSTIVE = 3
"""Forecasts of a mean up to which all means are compared."""

MOST = 36
"""Candidates."""

TIMES = (1.0, 2.0, 0.5, 4.0)
"""Lookbacks, in that of the best, at which other things are changed."""

CALENDAR = (Group.day, Group.week, Group.year)


@dataclass(frozen=True, eq=False, slots=True)
class Products:
    """Products of the candidates' errors on held-out blocks: what the error of any mean of them follows from.

    Args:
        errors: mean product of the errors of two candidates, by fold and column or series; NaN without windows.
        weights: of the squared errors of each column or series.
    """

    errors: Float64[np.ndarray, "folds channels k k"]
    weights: Float64[np.ndarray, "channels"]

    def losses(self, means: Iterable[Sequence[int]]) -> Float64[np.ndarray, "means"]:
        """Root mean squared error of each mean of equally many candidates, averaged over folds and channels."""
        chosen = np.array([list(one) for one in means])
        size = chosen.shape[1]
        losses = np.zeros(len(chosen))
        for fold in self.errors:
            has_windows = np.isfinite(fold[:, 0, 0])
            products = fold[has_windows]
            square = sum(products[:, chosen[:, i], chosen[:, j]] for i in range(size) for j in range(size)) / size**2
            root = np.sqrt(np.maximum(self.weights[has_windows, None] * square, 0.0))
            losses += root.mean(axis=0) if len(root) else 0.0
        return losses / len(self.errors)

    def best(self, most: int) -> tuple[list[int], float]:
        """Of means of at most so many candidates the best, and its loss; a larger one only if it is clearly better."""
        n = self.errors.shape[-1]
        kept, least = self._least([(one,) for one in range(n)])
        for size in range(2, min(most, n) + 1):
            if size <= EXHAUSTIVE:
                means: list[tuple[int, ...]] = list(combinations(range(n), size))
            elif len(kept) == size - 1:
                means = [(*kept, one) for one in range(n) if one not in kept]
            else:
                break
            mean, loss = self._least(means)
            if loss <= (1 - LEAST_GAIN) ** (size - len(kept)) * least:
                kept, least = mean, loss
        return sorted(kept, key=lambda one: float(self.losses([[one]])[0])), least

    def _least(self, means: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], float]:
        losses = self.losses(means)
        place = int(losses.argmin())
        return means[place], float(losses[place])


def best_mean(choice: Choice, best: Strengths, most: int) -> tuple[list[Strengths], float]:
    """The strengths whose maps to average, at most so many, the best one first, and the error of their mean."""
    candidates = [best, *(one for one in candidates_of(choice, best) if choice.fits(one))]
    seen = [one for place, one in enumerate(candidates) if one not in candidates[:place]]
    affordable = choice.in_time(seen[:MOST])
    kept, loss = products_of(choice.validation, affordable).best(most)
    return [affordable[one] for one in kept], loss


def candidates_of(choice: Choice, best: Strengths) -> Iterator[Strengths]:
    """The best strengths with other lookbacks, and at some of these with one more thing changed, or all at once."""
    place = choice.lookbacks.index(best.lookback)
    near = sorted(choice.lookbacks, key=lambda rows: abs(choice.lookbacks.index(rows) - place))
    yield from (replace(best, lookback=rows) for rows in near)
    groups = {group: one for group, one in best.groups.items() if group not in CALENDAR}
    for share in TIMES:
        rows = min(choice.lookbacks, key=lambda one: abs(log2(one / (share * best.lookback))))
        changes = [{"groups": groups}, {"own": 3 * best.own}, {"last": not best.last}, {"naive": 0.0}]
        changes += [{"groups": groups, "own": 3 * best.own, "naive": 0.0, "taper": 1.0}, {"own": best.own / 3}]
        yield from (replace(best, lookback=rows, **change) for change in changes)  # type: ignore[arg-type]


def products_of(validation: CrossValidation, candidates: Sequence[Strengths]) -> Products:
    """From the maps that each fold is fitted."""
    layout = validation.layout
    errors = []
    for fold, pooled in zip(validation.folds, validation.pooled, strict=True):
        shared = [fit_shared(pooled, layout, one) for one in candidates]
        by_channel = []
        for column, fitted, held in zip(validation.columns, fold.fitted, fold.held, strict=True):
            maps = [
                _on_moments(fit_own(fitted, column, common, layout, one), column, layout, one)
                for common, one in zip(shared, candidates, strict=True)
            ]
            by_channel.append(_error_products(maps, held, layout))
        errors.append(np.stack(by_channel))
    return Products(np.stack(errors), np.array(validation.weights))


def _error_products(maps: Sequence[Float64[np.ndarray, "z h"]], held: Moments, layout: Layout) -> np.ndarray:
    """Mean product of the errors of any two maps over the windows and steps of one channel's block."""
    if not held.windows:
        return np.full((len(maps), len(maps)), np.nan)
    inputs = np.r_[0 : layout.seq_len, layout.seq_len + layout.steps : len(held.products)]
    future = np.arange(layout.seq_len, layout.seq_len + layout.steps)
    products = held.complete(layout.seq_len)
    gram, cross = products[np.ix_(inputs, inputs)], products[np.ix_(inputs, future)]
    flat = np.stack([one.ravel() for one in maps])
    quadratic = flat @ np.stack([(gram @ one).ravel() for one in maps]).T
    linear = flat @ cross.ravel()
    constant = float(products[future, future].sum())
    return (quadratic - linear[:, None] - linear + constant) / (held.windows * layout.steps)


def _on_moments(
    weight: Float64[np.ndarray, "p h"], column: int, layout: Layout, strengths: Strengths
) -> Float64[np.ndarray, "z h"]:
    """The map over raw history and features, as `raw_map` lays it out; the level is the mean of the history."""
    history, level, extra = raw_map(column, [blended(weight, layout, strengths)], layout, [strengths])
    return np.concatenate([history + level / layout.seq_len, extra]).astype(np.float64)
