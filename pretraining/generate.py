"""Generated series: a mixture of families, changed in a few ways, and partly observed.

Every family has the same weight (an equal mixture of many generators is as good as the best one:
https://arxiv.org/abs/2606.09912). Some series are then reversed in time, turned upside down, mixed with another one, or
change their size; some have bounds, are counted or rounded; some miss rows, or have a stretch that was filled.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Int64

from pretraining.draws import SECONDS, Draws, at
from pretraining.families import FAMILIES
from pretraining.parts import measured


class Generated(NamedTuple):
    """n series of `history` + `horizon` rows, in random order.

    `season` and `second` are the lengths a forecaster is given, 1 for none, which are sometimes wrong; `family` is the
    index in `FAMILIES`.
    """

    values: Float32[np.ndarray, "n t"]
    observed: Bool[np.ndarray, "n t"]
    season: Int64[np.ndarray, " n"]
    second: Int64[np.ndarray, " n"]
    family: Int64[np.ndarray, " n"]


def generate(n: int, history: int, horizon: int, rng: np.random.Generator) -> Generated:
    """n series. Of most families half have `history` observed rows before the horizon, others fewer, down to 8."""
    family = np.arange(n) % len(FAMILIES)
    made = list[tuple[Draws, np.ndarray, np.ndarray, np.ndarray]]()
    for index, function in enumerate(FAMILIES.values()):
        if count := int((family == index).sum()):
            made.append((own := Draws(count, history, horizon, rng), *function(own)))
    draw = Draws(n, history, horizon, rng)
    order = rng.permutation(n)
    draw.rows = np.concatenate([own.rows for own, *_ in made])[order]
    values, season, second = (np.concatenate(parts)[order] for parts in list(zip(*made, strict=True))[1:])
    family = np.sort(family)[order]
    is_count = family == list(FAMILIES).index("counts")
    values = np.where(is_count[:, None], values, measured(draw, _augmented(draw, values, ~is_count)))
    observed = _observed(draw, values)
    return Generated(values.astype(np.float32), observed, *_given(draw, season, second), family)


def _augmented(draw: Draws, values: np.ndarray, any_value: np.ndarray) -> np.ndarray:
    """Some series reversed in time; and of those that may have any value some mirrored, mixed, or of changing size."""
    values = values.copy()
    some = np.flatnonzero(draw.chance(0.06))
    index = np.arange(draw.length)
    first = (draw.history - draw.rows)[some, None]
    values[some] = at(values[some], np.where(index < first, index, first + draw.length - 1 - index))
    middle, size = draw.moments(values)
    unit = (values - middle) / size
    mirrored, mixed, modulated = (any_value & draw.chance(p) for p in (0.15, 0.1, 0.08))
    # a limit, since a size over the history says little of series that change late
    partner, share = np.clip(np.roll(unit, 1, axis=0), -20, 20), draw.between(0.5, 0.95)[:, None]
    unit[mixed] = (share * unit + (1 - share) * partner)[mixed]
    turn = draw.between(1, 8)[modulated, None] * draw.u[modulated] + 6.3 * draw.uniform(1)[modulated]
    unit[modulated] *= np.exp(draw.between(0.2, 1)[modulated, None] * np.sin(turn))
    unit[mirrored] *= -1
    changed = mirrored | mixed | modulated
    values[changed] = (middle + size * unit)[changed]
    return values


def _given(draw: Draws, season: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The lengths a forecaster is given: sometimes none, and a longer one that is not there."""
    unknown = draw.chance(0.04)
    expected = np.ones_like(season)
    for first, longer in SECONDS.items():
        expected = np.where((season == first) & (longer > 0) & (longer <= draw.rows), longer, expected)
    second = np.where((second == 1) & draw.chance(0.5), expected, np.where(draw.chance(0.1), 1, second))
    return np.where(unknown, 1, season), np.where(unknown, 1, second)


def _observed(draw: Draws, values: np.ndarray) -> np.ndarray:
    """Which rows exist: those of the history, without missing stretches, and a horizon no longer than the history.

    Some missing stretches were filled, with the value before them, zero or a line: `values` changes there.
    """
    rows, row = draw.rows, np.arange(-draw.history, draw.horizon)
    observed = (row >= -rows[:, None]) & (row < np.maximum(rows, 12)[:, None])
    with_gaps = draw.chance(0.1) & (rows >= 24)
    filled = draw.choice([0.6, 0.15, 0.1, 0.15])
    for share in (1, 0.5, 0.5):
        for i in np.flatnonzero(with_gaps & draw.chance(share)):
            start = int(-rows[i] * draw.rng.random()) - 2
            size = min(int(np.exp(draw.rng.uniform(0, np.log(200)))), int(rows[i]) // 3)
            first, last = max(start + draw.history, 1), min(start + size, -1) + draw.history
            if filled[i] == 0:
                observed[i, first:last] = False
            else:
                line = np.linspace(values[i, first - 1], values[i, last], max(last - first, 0))
                values[i, first:last] = (values[i, first - 1], 0, line)[filled[i] - 1]
    scattered = np.flatnonzero(with_gaps & (filled == 0) & draw.chance(0.4))
    kept = draw.uniform(len(row))[scattered] >= draw.between(0, 0.3)[scattered, None]
    observed[scattered] &= kept | (row >= -1)
    return observed
