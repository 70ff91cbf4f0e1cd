"""Ridge regression from moments, shrunk towards a given map, with a separate penalty for each input."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf

import numpy as np
from jaxtyping import Float32, Float64
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dpotri

from informer.linear.moments import Moments, Normal
from informer.linear.settings import Group, MapSettings, OriginFeatures

NEWEST = 0.2
"""Smallest age, in seasons, that enters the penalty."""

CONSTANT = 1e-10
"""Windows count as constant whose sum of squares, after the reference is subtracted, is at most this share of it."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Layout of a vector of moments, [history, future, features].

    Args:
        seq_len, steps: rows of the history and of the future.
        features: features after the rows.
        season: rows per season, the unit of age.
        repeated: rows that the seasonal naive repeats.
        kept: steps ahead that are kept, counted from 0. Empty: the first `steps`.
    """

    seq_len: int
    steps: int
    features: OriginFeatures
    season: int
    repeated: int = 1
    kept: tuple[int, ...] = ()

    @property
    def steps_ahead(self) -> np.ndarray:
        """The steps ahead, counted from 0."""
        return np.array(self.kept or range(self.steps))

    def read(self, column: int | None, strengths: MapSettings) -> np.ndarray:
        """Indices of the features that a column's map reads; None: the shared map, which reads no other columns."""
        used_groups = frozenset(group for group, penalty in strengths.groups.items() if penalty < inf)
        return _read(self.features, column, used_groups)


@lru_cache(maxsize=1024)  # uncached, these calls took a quarter of the search time
def _read(features: OriginFeatures, column: int | None, used_groups: frozenset[Group]) -> np.ndarray:
    origin = features.column_of
    positions = np.array(
        [
            position
            for position, group in enumerate(features.groups)
            if group in used_groups
            and (group is not Group.recent or (column is not None and origin[position] != column))
        ],
        dtype=int,
    )
    positions.setflags(write=False)
    return positions


def normal_equations(moments: Moments, layout: Layout, strengths: MapSettings, features: np.ndarray) -> Normal:
    """Regression of [future - reference] on [history - reference, own level, features], for a lookback window and
    normalisation, from moments of raw windows of the longest one."""
    n, lookback, size = layout.seq_len, strengths.lookback, strengths.lookback + len(features)
    rows = np.concatenate([np.arange(n - lookback, n), n + layout.steps + features, np.arange(n, n + layout.steps)])
    shifted = [slice(0, lookback), slice(size, None)]
    products = moments.complete(n)
    z = products[np.ix_(rows, rows)]
    # (I - 1 w^T) z (I - w 1^T), where 1 is one for history and future, and 0 for features
    reference = _reference(lookback, strengths)
    pulled = z[:, :lookback] @ reference
    mean_square = float(reference @ pulled[:lookback])
    for block in shifted:
        pulled[block] -= mean_square / 2
    for block in shifted:
        z[block] -= pulled
        z[:, block] -= pulled[:, None]
    # constant windows leave rounding errors, whose matrix need not be positive definite; the largest row sets their
    # size, since products of rows are differences of sums over all of them
    squares = products.diagonal().copy()
    squares[: n + layout.steps] = squares[: n + layout.steps].max()
    constant = z.diagonal() <= (CONSTANT * squares + moments.rounding)[rows]
    constant[size:] = False
    z[constant] = z[:, constant] = 0
    gram, cross = z[:size, :size], z[:size, size:]
    square = z.diagonal()[size:].copy()
    if strengths.penalty(Group.level) == inf:
        return Normal(gram, cross, square, moments.windows)
    level = products[:n].mean(axis=0)
    mean_of_level = float(level[:n].mean())
    level = level[rows]
    level_reference = float(level[:lookback] @ reference)
    for block in shifted:
        level[block] -= level_reference
    level[constant] = 0
    gram = np.insert(gram, lookback, level[:size], axis=0)
    gram = np.insert(gram, lookback, np.insert(level[:size], lookback, mean_of_level), axis=1)
    return Normal(gram, np.insert(cross, lookback, level[size:], axis=0), square, moments.windows)


def _reference(lookback: int, strengths: MapSettings) -> Float64[np.ndarray, "lookback"]:
    """Weights of the history's rows in what is subtracted from them: their mean, or the last one."""
    if not strengths.last:
        return np.full(lookback, 1 / lookback)
    last = np.zeros(lookback)
    last[-1] = 1
    return last


def penalties(
    normal: Normal, layout: Layout, strengths: MapSettings, features: np.ndarray
) -> Float64[np.ndarray, "p #h"]:
    """Penalty of each input for each step ahead, for `shared` or `own` equal to 1; [p, 1] if the same for all steps."""
    lookback = strengths.lookback
    square = normal.gram.diagonal() / max(normal.windows, 1)
    rows = np.arange(lookback, 0, -1)
    age = np.maximum(rows / layout.season, NEWEST)
    floor = np.finfo(float).tiny + 1e-9 * square[:lookback].mean()
    history = (age**strengths.taper * max(float(square[:lookback].mean()), floor))[:, None]
    if strengths.aligned != 1:
        lag = rows[:, None] + layout.steps_ahead
        history = np.where(lag % layout.repeated == 0, strengths.aligned * history, history)
    further = np.maximum(square[lookback:], floor)
    all_groups = layout.features.groups
    groups = [all_groups[position] for position in features]
    if strengths.penalty(Group.level) < inf:
        groups.insert(0, Group.level)
    ages = np.ones(len(groups))  # of each feature in rows: 1 for the newest row of other columns
    if k := layout.features.recent:
        n_columns = len(layout.features.columns)
        first = len(all_groups) - k * n_columns  # of the recent rows, which come last
        is_recent = features >= first
        ages[len(groups) - len(features) :][is_recent] = k - (features[is_recent] - first) // n_columns
    inputs = further * ages * np.array([strengths.groups[group] for group in groups])
    return np.concatenate([history, np.broadcast_to(inputs[:, None], (len(inputs), history.shape[1]))])


def solve(
    normal: Normal, penalty: Float64[np.ndarray, "p #h"], prior: Float64[np.ndarray, "p h"] | None = None
) -> Float64[np.ndarray, "p h"]:
    """For each step, argmin |X w - y|^2 + (w - prior)^T diag(penalty) (w - prior); prior None means 0.

    One factorisation serves all steps: an input's largest penalty over the steps is in it, and steps with a lower one
    are corrected by the matrix inversion lemma (M. Woodbury, "Inverting modified matrices", 1950).
    """
    right = normal.cross if prior is None else normal.cross + penalty * prior
    largest = penalty.max(axis=1)
    factor = cho_factor(normal.gram + np.diag(largest), lower=True, overwrite_a=True, check_finite=False)
    weight = cho_solve(factor, right, check_finite=False)
    excess = largest[:, None] - penalty
    if not excess.any():
        return weight
    inverse = np.tril(dpotri(factor[0], lower=True)[0])
    inverse += np.tril(inverse, -1).T
    _, groups = np.unique(excess, axis=1, return_inverse=True)
    for steps in (np.flatnonzero(groups == group) for group in np.unique(groups)):
        lowered = np.flatnonzero(excess[:, steps[0]])
        columns = inverse[:, lowered]
        core = np.diag(1 / excess[lowered, steps[0]]) - columns[lowered]
        weight[:, steps] += columns @ np.linalg.solve(core, weight[np.ix_(lowered, steps)])
    return weight


def blended(weight: Float64[np.ndarray, "p h"], layout: Layout, strengths: MapSettings) -> Float64[np.ndarray, "p h"]:
    """The map averaged with that of the seasonal naive, whose forecast is one of the rows that the map reads."""
    if not strengths.naive:
        return weight
    steps = layout.steps_ahead
    mixed = (1 - strengths.naive) * weight
    mixed[strengths.lookback - layout.repeated + steps % layout.repeated, np.arange(len(steps))] += strengths.naive
    return mixed


def raw_map(
    column: int | None, weights: Sequence[Float64[np.ndarray, "_ h"]], layout: Layout, strengths: Sequence[MapSettings]
) -> tuple[Float32[np.ndarray, "seq h"], Float32[np.ndarray, "h"], Float32[np.ndarray, "e h"]]:
    """Mean of maps by the `weight` of their settings, as weights of the raw history, its mean and the features.

    The history weights of a step sum to 1.
    """
    n, steps = layout.seq_len, layout.steps
    history, level, extra = np.zeros((n, steps)), np.zeros(steps), np.zeros((len(layout.features.groups), steps))
    total = sum(setting.weight for setting in strengths)
    for weight, setting in zip(weights, strengths, strict=True):
        share = setting.weight / total
        scaled, reference, lookback = share * weight, np.zeros(n), setting.lookback
        reference[n - lookback :] = _reference(lookback, setting)
        history[n - lookback :] += scaled[:lookback]
        history += np.outer(reference, share - scaled[:lookback].sum(axis=0))
        further = scaled[lookback:]
        if setting.penalty(Group.level) < inf:
            level += further[0]
            further = further[1:]
        extra[layout.read(column, setting)] += further
    return tuple(array.astype(np.float32) for array in (history, level, extra))  # type: ignore[return-value]
