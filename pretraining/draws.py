"""Random draws for a batch of series, and the lengths of their seasons."""

from collections.abc import Sequence

import numpy as np
from scipy.signal import lfilter

SEASONS = {1: 20, 4: 8, 7: 11, 12: 17, 24: 19, 48: 8, 96: 5, 144: 1, 288: 2, 52: 4, 365: 1, 0: 6}
"""Lengths of the first season and their weights in the draw; 0 stands for any length from 2 to 200."""
SECONDS = {7: 365, 24: 168, 48: 336, 96: 672, 144: 1008, 288: 2016, 12: 0, 4: 0, 1: 0, 52: 0, 365: 0}
"""Second season of each length; 0 for none, and one of 2 to 10 first seasons for other lengths."""
SHORTEST = 8
"""Rows of the shortest history."""


class Draws:
    """Random draws for n series of `history` + `horizon` rows, of which half have `history` observed rows.

    `rows` is the number of observed rows [n]; `t` counts rows from the first one ahead, and `u` is -1 to 0 over the
    observed history.
    """

    def __init__(self, n: int, history: int, horizon: int, rng: np.random.Generator) -> None:
        self.n, self.history, self.horizon, self.rng = n, history, horizon, rng
        self.length = history + horizon
        shorter = np.minimum(self.log_between(SHORTEST, history + 1).astype(np.int64), history)
        self.rows = np.where(self.chance(0.5), history, shorter)

    @property
    def t(self) -> np.ndarray:
        return np.arange(-self.history, self.horizon, dtype=np.float32)

    @property
    def u(self) -> np.ndarray:
        return np.clip(self.t / self.rows[:, None].astype(np.float32), -1, 3)

    def chance(self, p: float) -> np.ndarray:
        return self.rng.random(self.n) < p

    def between(self, low: float, high: float) -> np.ndarray:
        return self.rng.uniform(low, high, self.n).astype(np.float32)

    def log_between(self, low: float, high: float | np.ndarray) -> np.ndarray:
        return np.exp(self.rng.uniform(np.log(low), np.log(high), self.n)).astype(np.float32)

    def normal(self, *shape: int) -> np.ndarray:
        return self.rng.standard_normal((self.n, *shape), dtype=np.float32)

    def uniform(self, *shape: int) -> np.ndarray:
        return self.rng.random((self.n, *shape), dtype=np.float32)

    def sign(self, positive: float) -> np.ndarray:
        return np.where(self.chance(positive), np.float32(1), np.float32(-1))

    def choice(self, shares: Sequence[float]) -> np.ndarray:
        return np.searchsorted(np.cumsum(shares) / np.sum(shares), self.rng.random(self.n))

    def shorten(self, share: float, most: int = 200) -> None:
        """Give a share of the series at most `most` observed rows."""
        fewer = np.minimum(self.log_between(SHORTEST, most + 1).astype(np.int64), self.rows)
        self.rows = np.where(self.chance(share), fewer, self.rows)

    def season_lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """Two seasons, 1 for none; most series have at least two first seasons in their history."""
        lengths, shares = np.array(list(SEASONS)), list(SEASONS.values())
        any_length = self.log_between(2, 201).astype(np.int64)

        def drawn() -> np.ndarray:
            length = lengths[self.choice(shares)]
            return np.where(length == 0, any_length, length)

        season = drawn()
        for _ in range(3):
            season = np.where((2 * season > self.rows) & self.chance(0.95), drawn(), season)
        season = np.where((2 * season > self.rows) & self.chance(0.8), 1, season)
        second = season * self.rng.integers(2, 11, self.n)
        for first, longer in SECONDS.items():
            second = np.where(season == first, longer or 1, second)
        return season, np.where((second > self.rows) | ~self.chance(0.7), 1, second)

    def days(self, least: float = 2) -> tuple[np.ndarray, np.ndarray]:
        """Rows of a day and of a week, of a step of an hour or less; `least` days of most series are observed."""
        per_day = np.array([24, 48, 96, 288])
        kind = self.choice([0.4, 0.2, 0.25, 0.15])
        kind = np.minimum(kind, np.maximum(np.searchsorted(least * per_day, self.rows, side="right") - 1, 0))
        return per_day[kind], 7 * per_day[kind]

    def moments(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and deviation over the observed history, [n 1]."""
        inside = np.arange(-self.history, 0) >= -self.rows[:, None]
        n_rows = self.rows[:, None].astype(np.float32)
        past = values[:, : self.history]
        middle = np.where(inside, past, 0).sum(1, keepdims=True) / n_rows
        squares = np.where(inside, past - middle, 0) ** 2
        return middle, np.sqrt(squares.sum(1, keepdims=True) / n_rows) + np.float32(1e-3)


def recursive(inputs: np.ndarray, *factors: np.ndarray) -> np.ndarray:
    """y_t = x_t + sum_k a_k y_(t-k) of each series, with factors a_1, a_2 ... [n]."""
    polynomials = np.stack([np.ones_like(factors[0]), *(-a for a in factors)], axis=1).astype(np.float32)
    one = np.ones(1, np.float32)
    return np.stack([lfilter(one, a, x) for a, x in zip(polynomials, inputs, strict=True)])


def at(table: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Entries of each row of a table [n k] at indices [n t]."""
    return np.take_along_axis(table, index, 1)
