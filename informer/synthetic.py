"""Generated series, from which a network learns to forecast series it has never seen.

A series is a sum of parts, or the exponential of one, or a level times a season (of light: zero at night), as the file
of a shop, a meter or a sensor might be; then events and the way it was measured change it:

  trend        none, linear, damped, exponential, with kinks
  state        level, slope and season that receive shocks (the innovations form of exponential smoothing; Hyndman,
               Koehler, Ord & Snyder 2008): random walks, levels that return to a mean, local trends, evolving seasons
  walk         a random walk with drift and little else, of short series
  season       one or two, of any length; waves, bumps, hours of work, spikes, saw teeth, steps; a second season makes
               weekdays differ from weekends, or is a year of days; the shape may change slowly
  days         seasons of different size and level, as weather makes them, and holidays
  wave         a Gaussian process by random Fourier features (Rahimi & Recht 2007), by itself or times the season
  noise        white, ARMA(2, 1) or with long memory (1/f), normal or with heavy tails, of constant, slowly changing or
               season-dependent size
  events       level shifts, outliers, temporary changes, some of them after the history
  measurement  bounds (saturation), counts, demand in few periods, rounding, missing rows

Every part is computed for all series of a batch at once; recursions loop over rows. Rows of all arrays are series.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Int64

SEASONS = {1: 20, 4: 8, 7: 11, 12: 17, 24: 19, 48: 8, 96: 5, 144: 1, 288: 2, 52: 4, 365: 1, 0: 6}
"""Lengths of the first season and their weights in the draw; 0 stands for any length from 2 to 200."""
SECONDS = {7: 365, 24: 168, 48: 336, 96: 672, 144: 1008, 12: 0, 4: 0, 1: 0, 52: 0, 288: 0, 365: 0}
"""Second season of each length; 0 for none, and one of 2 to 10 first seasons for other lengths."""
SHORTEST = 8
"""Rows of the shortest history."""


class Generated(NamedTuple):
    """n series of `history` + `horizon` rows.

    `season` and `second` are the lengths a forecaster is given, 1 for none, which are sometimes wrong; `kinds` says
    which series have a part.
    """

    values: Float32[np.ndarray, "n t"]
    observed: Bool[np.ndarray, "n t"]
    season: Int64[np.ndarray, "n"]
    second: Int64[np.ndarray, "n"]
    kinds: dict[str, Bool[np.ndarray, "n"]]


class _Draws:
    """Random draws for n series."""

    def __init__(self, n: int, rng: np.random.Generator) -> None:
        self.n, self.rng = n, rng

    def chance(self, p: float) -> np.ndarray:
        return self.rng.random(self.n) < p

    def between(self, low: float, high: float) -> np.ndarray:
        return self.rng.uniform(low, high, self.n).astype(np.float32)

    def log_between(self, low: float, high: float) -> np.ndarray:
        return np.exp(self.rng.uniform(np.log(low), np.log(high), self.n)).astype(np.float32)

    def normal(self, *shape: int) -> np.ndarray:
        return self.rng.standard_normal((self.n, *shape), dtype=np.float32)

    def uniform(self, *shape: int) -> np.ndarray:
        return self.rng.random((self.n, *shape), dtype=np.float32)

    def sign(self, positive: float) -> np.ndarray:
        return np.where(self.chance(positive), np.float32(1), np.float32(-1))

    def choice(self, shares: Sequence[float]) -> np.ndarray:
        return np.searchsorted(np.cumsum(shares) / np.sum(shares), self.rng.random(self.n))


def generate(n: int, history: int, horizon: int, rng: np.random.Generator) -> Generated:
    """n series. Half of them have `history` observed rows before the horizon, others fewer, down to SHORTEST."""
    draw = _Draws(n, rng)
    rows = draw.log_between(SHORTEST, history + 1).astype(np.int64)
    rows = np.where(draw.chance(0.5), history, np.minimum(rows, history))
    season, second = _lengths(draw, rows)
    t = np.arange(-history, horizon, dtype=np.float32)
    u = np.clip(t / rows[:, None].astype(np.float32), -1, 3)  # -1 to 0 over the observed history

    strength = draw.log_between(0.05, 4)[:, None] * draw.chance(0.8)[:, None]  # of the first season
    shape, has_second, varies = _season(draw, season, second, history + horizon, u)
    seasonal = strength * shape
    is_regular = draw.chance(0.3)  # the season repeats almost exactly, or changes in a smooth way only
    noise_size = np.where(is_regular, draw.log_between(0.002, 0.05), draw.log_between(0.02, 1.2))
    noise_size *= np.where((rows < 120) & draw.chance(0.5), draw.log_between(0.1, 1), 1)  # yearly to weekly totals
    noise_size *= np.where(strength[:, 0] > 0, np.minimum(strength[:, 0], 1.5) ** draw.between(0, 1), 1)
    noise = noise_size[:, None] * _noise(draw, history + horizon, u, shape, heavy := draw.chance(0.25))
    trend, has_trend = _trend(draw, u, rows)
    state, has_state = _state(draw, rows, season, history, horizon)
    wave, has_wave = _wave(draw, t, rows)
    is_walk = (rows < 120) & (draw.chance(0.25) | (season == 1) & draw.chance(0.55))
    trend[is_walk], state[is_walk], wave[is_walk] = 0, _walk(draw, u, rows, is_walk), 0
    noise[is_walk] *= draw.log_between(0.01, 1)[is_walk, None]
    times = draw.chance(0.15) & has_wave & ~is_walk  # the wave changes the size of the season
    for part in (state, wave):
        part[is_regular] *= draw.log_between(0.01, 1)[is_regular, None]
    seasonal[times] *= np.clip(wave[times], -2, 2)
    wave[times] = 0
    total = trend + state + seasonal + wave + noise
    events, has_shift, has_outlier = _events(draw, total, rows, history)
    total += events

    middle, size = _moments(total, rows, history)
    multiplied = draw.choice([0.58, 0.23, 0.14, 0.05])
    is_light = (multiplied == 3) & (season >= 12) & (strength[:, 0] > 0)
    power = draw.log_between(0.03, 0.6)[:, None] / size
    some = np.flatnonzero(multiplied == 1)
    total[some] = np.exp(np.clip((total - middle)[some] * power[some], -6, 6))
    some = np.flatnonzero((multiplied == 2) | is_light)
    relative = seasonal[some] / (np.abs(seasonal[some]).max(1, keepdims=True) + np.float32(1e-3))
    level = np.exp(np.clip((total - middle - seasonal)[some] * power[some], -6, 6))
    light = np.maximum(relative - draw.between(-0.4, 0.4)[some, None], 0)
    swing = np.minimum((power * size)[some], 0.8)
    total[some] = level * np.where(is_light[some, None], light, 1 + swing * relative)
    values, has_bound, has_count = _measure(draw, total, rows, history)
    observed, has_gap = _observed(draw, rows, history, horizon)
    kinds = {
        "trend": has_trend,
        "state": has_state,
        "season": (strength[:, 0] > 0) & (season > 1),
        "second season": has_second,
        "varied seasons": varies & (strength[:, 0] > 0),
        "light": is_light,
        "walk": is_walk,
        "wave": has_wave,
        "heavy tails": heavy,
        "shift": has_shift,
        "outliers": has_outlier,
        "bound": has_bound,
        "counts": has_count,
        "gaps": has_gap,
        "multiplicative": (multiplied == 1) | (multiplied == 2),
    }
    given_season, given_second = _given(draw, season, np.where(has_second, second, 1), rows)
    return Generated(values, observed, given_season, given_second, kinds)


def _moments(values: np.ndarray, rows: np.ndarray, history: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation over the observed history, [n 1]."""
    inside = np.arange(-history, 0) >= -rows[:, None]
    n_rows = rows[:, None].astype(np.float32)
    past = values[:, :history]
    middle = np.where(inside, past, 0).sum(1, keepdims=True) / n_rows
    squares = np.where(inside, past - middle, 0) ** 2
    return middle, np.sqrt(squares.sum(1, keepdims=True) / n_rows) + np.float32(1e-3)


def _lengths(draw: _Draws, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two seasons; most series have at least two first seasons in their history."""
    lengths, shares = np.array(list(SEASONS)), list(SEASONS.values())
    any_length = draw.log_between(2, 201).astype(np.int64)

    def drawn() -> np.ndarray:
        length = lengths[draw.choice(shares)]
        return np.where(length == 0, any_length, length)

    season = drawn()
    for _ in range(3):
        season = np.where((2 * season > rows) & draw.chance(0.95), drawn(), season)
    season = np.where((2 * season > rows) & draw.chance(0.8), 1, season)
    multiple = season * draw.rng.integers(2, 11, draw.n)
    second = multiple
    for first, longer in SECONDS.items():
        second = np.where(season == first, longer or 1, second)
    return season, np.where((second > rows) | ~draw.chance(0.7), 1, second)


def _given(draw: _Draws, season: np.ndarray, second: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The lengths a forecaster is given: sometimes none, and a longer one that is not there."""
    unknown = draw.chance(0.04)
    expected = np.ones_like(season)
    for first, longer in SECONDS.items():
        expected = np.where((season == first) & (longer > 0) & (longer <= rows), longer, expected)
    second = np.where((second == 1) & draw.chance(0.5), expected, np.where(draw.chance(0.1), 1, second))
    return np.where(unknown, 1, season), np.where(unknown, 1, second)


def _trend(draw: _Draws, u: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Smooth trends over u, which is -1 to 0 over the history; stronger and more frequent in short histories."""
    in_short, in_long = draw.choice([0.15, 0.35, 0.2, 0.1, 0.2]), draw.choice([0.45, 0.2, 0.1, 0.1, 0.15])
    kind = np.where(rows < 120, in_short, in_long)[:, None]
    size = np.where(rows < 120, draw.log_between(0.3, 6), draw.log_between(0.2, 5))
    size = (size * draw.sign(0.7)).astype(np.float32)[:, None]
    rate = draw.log_between(0.5, 5)[:, None]
    # many trends slow down: damped ones forecast better than others (Gardner & McKenzie 1985)
    slowing = np.flatnonzero(draw.chance(0.3))
    speed = draw.log_between(1, 20)[slowing, None]
    u = u.copy()
    u[slowing] = np.where(u[slowing] > 0, -np.expm1(-speed * u[slowing]) / speed, u[slowing])
    trend = np.where(kind == 0, np.float32(0), u)
    some = np.flatnonzero(kind == 2)  # damped
    trend[some] = (1 - np.exp(-rate[some] * (u[some] + 1))) / (1 - np.exp(-rate[some]))
    some = np.flatnonzero(kind == 3)  # exponential
    growth = np.minimum(rate[some], 1.5)
    trend[some] = np.expm1(np.minimum(growth * u[some], 3)) / growth
    some = np.flatnonzero(kind == 4)
    for share in (1, 0.4):  # one or two kinks
        at = draw.between(-1, 0.2)[some, None]
        # another slope, or none
        change = np.where(draw.chance(0.4)[:, None], -draw.uniform(1), 2 * draw.normal(1))[some]
        change = change * (draw.uniform(1)[some] < share)
        trend[some] += change * np.maximum(u[some] - at, 0)
    return size * trend, kind[:, 0] > 0


def _state(
    draw: _Draws, rows: np.ndarray, season: np.ndarray, history: int, horizon: int
) -> tuple[np.ndarray, np.ndarray]:
    """Level, damped slope and season that receive shocks; zero at the start of the observed history."""
    n, length = draw.n, history + horizon
    is_used = draw.chance(0.75)
    unit = 1 / np.sqrt(rows).astype(np.float32)
    # the level of some returns to its mean, within a few rows or within hundreds
    kept = np.where(draw.chance(0.4), 1 - 1 / draw.log_between(5, 400), 1).astype(np.float32)
    per_shock = np.where(kept < 1, np.maximum(np.sqrt(1 - kept**2), unit), unit)
    alpha = np.where(draw.chance(0.85), draw.log_between(0.1, 3), 0) * per_shock
    damping = np.where(draw.chance(0.5), 1 - draw.log_between(0.002, 0.3), 1).astype(np.float32)
    per_row = np.where(damping < 1, np.maximum(1 - damping, 1 / rows), 1 / rows).astype(np.float32)
    beta = np.where(draw.chance(0.35), draw.log_between(0.1, 2), 0) * unit * per_row
    gamma = np.where(draw.chance(0.35) & (season > 1), draw.log_between(0.03, 0.6), 0)
    gamma = gamma * np.sqrt(season / rows)
    alpha, beta, gamma = (np.where(is_used, x, 0).astype(np.float32) for x in (alpha, beta, gamma))
    shocks = draw.rng.standard_normal((length, n), dtype=np.float32)
    own = draw.rng.standard_normal((length, n), dtype=np.float32)
    mixed = draw.between(0, 1)  # how far the season has shocks of its own
    active = -rows  # no shocks before the history
    level, slope = np.zeros(n, np.float32), np.zeros(n, np.float32)
    states = np.zeros((length, n), np.float32)
    seasonal = np.zeros((length, n), np.float32)
    flat, column = seasonal.reshape(-1), np.arange(n)
    has_season = gamma > 0
    seasons = np.flatnonzero(has_season)
    for i in range(length):
        started = active <= i - history
        shock = shocks[i] * started
        level = kept * level + damping * slope + alpha * shock
        slope *= damping
        slope += beta * shock
        states[i] = level
        if len(seasons):
            before = i - season[seasons]
            value = np.where(before >= 0, flat[np.maximum(before, 0) * n + column[seasons]], 0)
            part = mixed[seasons]
            value += gamma[seasons] * (part * own[i, seasons] + (1 - part) * shock[seasons]) * started[seasons]
            seasonal[i, seasons] = value
    return np.ascontiguousarray((states + seasonal).T), is_used & ((alpha > 0) | (beta > 0) | has_season)


def _walk(draw: _Draws, u: np.ndarray, rows: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Random walks with drift, as short histories of totals often are, of some series."""
    steps = draw.rng.standard_normal(u[some].shape, dtype=np.float32) * (u[some] > -1)
    size, drift = draw.log_between(0.5, 3) / np.sqrt(rows), draw.log_between(0.3, 6) * draw.sign(0.7)
    return drift[some, None] * u[some] + size[some, None] * np.cumsum(steps, axis=1)


def _season(
    draw: _Draws, season: np.ndarray, second: np.ndarray, length: int, u: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Season of about unit size; which series have a second one, and which seasons that vary by chance."""
    n, widest = draw.n, int(max(season.max(), 2))
    phase = (draw.rng.integers(0, 1 << 20, n)[:, None] + np.arange(length)).astype(np.int32)
    at = phase % season[:, None].astype(np.int32)
    number = phase // season[:, None].astype(np.int32)  # of the season, for instance of the day
    holiday = draw.uniform(length)  # by the number of a season
    is_holiday = holiday < (draw.chance(0.3) * draw.log_between(0.003, 0.05))[:, None]
    shape, other = (_template(draw, season, widest) for _ in range(2))
    total = np.take_along_axis(shape, at, 1)

    some = np.flatnonzero(draw.chance(0.3))  # a slowly changing shape
    turn = draw.between(0.5, 6)[some, None] * u[some] + draw.between(0, 6.3)[some, None]
    change = draw.log_between(0.03, 1)[some, None] * np.sin(turn)
    total[some] += change * np.take_along_axis(other[some], at[some], 1)
    some = np.flatnonzero(draw.chance(0.3))  # it grows or shrinks
    total[some] *= np.maximum(1 + draw.between(-0.6, 0.6)[some, None] * u[some], 0.1)

    has_second = (second > 1) & (season > 1)
    is_year = (second == 365) & (season == 7)
    some = np.flatnonzero(has_second & is_year)
    for k in (1, 2, 3):
        size = draw.between(0.2, 2)[some, None] * draw.normal(1)[some] / k
        angle = (2 * np.pi * k / 365.25) * phase[some].astype(np.float32)
        total[some] += size * np.sin(angle + 6.3 * draw.uniform(1)[some])
    # other second seasons consist of "days" of one first season each, some of which differ
    some = np.flatnonzero(has_second & ~is_year)
    first, alternative = total[some], np.take_along_axis(other[some], at[some], 1)
    n_days = (second // np.maximum(season, 1))[some, None].astype(np.int32)
    day = number[some] % n_days
    daily = np.take_along_axis(draw.normal(10)[some], np.minimum(day, 9), 1)
    is_off = day >= n_days - np.minimum(draw.rng.integers(1, 4, n)[some, None], n_days - 1)
    similar = draw.between(0, 1)[some, None]
    is_off |= np.take_along_axis(is_holiday[some], number[some] - number[some, :1], 1)
    off = draw.between(0, 1.2)[some, None] * (similar * first + (1 - similar) * alternative)
    off += 0.7 * draw.normal(1)[some]
    kind = draw.choice([0.5, 0.25, 0.25])[some, None]
    total[some] = np.select(
        [kind == 0, kind == 1],
        [np.where(is_off, off, first), first * np.maximum(1 + 0.35 * daily, 0)],
        first + 0.6 * daily,
    )
    varies = (season >= 4) & draw.chance(0.35)
    total[varies] = _varied(draw, total[varies], (at / season[:, None].astype(np.float32)), number, varies)
    total[season == 1] = 0
    return total / np.maximum(total.std(1, keepdims=True), np.float32(1e-3)), has_second, varies


def _varied(draw: _Draws, values: np.ndarray, place: np.ndarray, number: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Seasons of different size and level, as weather makes them: random processes over the number of the season."""
    number = number[some] - number[some, :1]
    n_seasons = number.max(initial=0) + 2
    share = draw.chance(0.5)[some, None] * place[some]  # of the way to the next season; 0: they change in steps
    for is_factor, kept in ((True, draw.between(0, 0.9)[some]), (False, draw.between(0, 0.95)[some])):
        states = draw.normal(n_seasons)[some]
        for k in range(1, n_seasons):
            states[:, k] = kept * states[:, k - 1] + np.sqrt(1 - kept**2) * states[:, k]
        here, following = (np.take_along_axis(states, number + k, 1) for k in (0, 1))
        size = (draw.log_between(0.03, 0.8) * draw.chance(0.7))[some, None]
        change = size * (here + share * (following - here))
        values = values * np.exp(change) if is_factor else values + change
    return values


def _template(draw: _Draws, season: np.ndarray, widest: int) -> np.ndarray:
    """One season of each series, mean 0 and deviation 1 over its rows; columns after its last row are unused."""
    n = draw.n
    x = (np.arange(widest, dtype=np.float32) / season[:, None]).astype(np.float32)
    inside = x < 1
    kind = draw.choice([0.3, 0.2, 0.2, 0.12, 0.08, 0.1])
    shape = np.zeros((n, widest), np.float32)

    def some(k: int) -> np.ndarray:
        return np.flatnonzero(kind == k)

    rows = some(0)  # waves
    order = draw.rng.integers(1, 7, n)[rows, None]
    decay = draw.between(0.3, 2)[rows, None]
    for k in range(1, 7):
        size = draw.normal(1)[rows] * (k <= order) / k**decay
        shape[rows] += size * np.sin(2 * np.pi * k * x[rows] + 6.3 * draw.uniform(1)[rows])
    rows = some(1)  # bumps, such as the peaks of a morning and an evening
    for k in range(3):
        distance = np.abs((x[rows] - draw.uniform(1)[rows] + 0.5) % 1 - 0.5)
        width = draw.log_between(0.02, 0.2)[rows, None]
        shape[rows] += draw.normal(1)[rows] / (k + 1) * np.exp(-0.5 * (distance / width) ** 2)
    rows = some(2)  # hours of work or light: a plateau between two edges
    distance = np.abs((x[rows] - draw.uniform(1)[rows] + 0.5) % 1 - 0.5)
    half, edge = draw.between(0.08, 0.4)[rows, None], draw.log_between(0.003, 0.1)[rows, None]
    plateau = 1 / (1 + np.exp(np.clip((distance - half) / edge, -20, 20)))
    dome = np.maximum(1 - (distance / half) ** 2, 0)
    shape[rows] = np.where(draw.chance(0.5)[rows, None], plateau, dome) * draw.sign(0.85)[rows, None]
    shape[rows] += 0.3 * draw.uniform(1)[rows] * np.sin(2 * np.pi * x[rows] + 6.3 * draw.uniform(1)[rows])
    rows = some(3)  # spikes
    share = draw.between(0.05, 1)[rows, None]
    shape[rows] = draw.normal(widest)[rows] * (draw.uniform(widest)[rows] < share)
    rows = some(4)  # saw teeth
    shape[rows] = (x[rows] + draw.uniform(1)[rows]) % 1 * draw.sign(0.5)[rows, None]
    rows = some(5)  # a rough line that closes: a random walk minus its drift
    walk = np.cumsum(draw.normal(widest)[rows], axis=1, dtype=np.float32)
    last = np.take_along_axis(walk, np.minimum(season[rows, None], widest) - 1, 1)
    shape[rows] = walk - last * x[rows]
    steps = draw.chance(0.08)  # in a few steps
    shape[steps] = np.round(2 * shape[steps]) / 2

    shape *= inside
    n_rows = season[:, None].astype(np.float32)
    shape -= shape.sum(1, keepdims=True) / n_rows
    shape *= inside
    size = np.sqrt((shape**2).sum(1, keepdims=True) / n_rows)
    return shape / np.maximum(size, np.float32(0.05))


def _wave(draw: _Draws, t: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian processes with smooth, rough or oscillating kernels; some are products of two."""
    used = draw.chance(0.35)
    wave = np.zeros((draw.n, len(t)), np.float32)
    some = np.flatnonzero(used)
    if not len(some):
        return wave, used
    n_features = 8
    span = np.maximum(rows, 20)[some, None].astype(np.float32)

    def process() -> np.ndarray:
        scale = draw.log_between(0.01, 1)[some, None] * span  # length scale in rows
        spectrum = draw.normal(n_features)[some]
        rough = np.clip(draw.rng.standard_t(3, spectrum.shape), -30, 30)
        spectrum = np.where(draw.chance(0.4)[some, None], rough, spectrum) / scale
        carrier = np.where(draw.chance(0.3)[some, None], 2 * np.pi / (scale * 2), 0)  # an oscillation
        spectrum = np.minimum(np.abs(spectrum + carrier), np.pi).astype(np.float32)
        phase = (2 * np.pi * draw.uniform(n_features)[some]).astype(np.float32)
        total = np.zeros((len(some), len(t)), np.float32)
        for k in range(n_features):
            total += np.sin(spectrum[:, k, None] * t + phase[:, k, None])
        return total * np.float32(np.sqrt(2 / n_features))

    value = process()
    second = draw.chance(0.2)[some]
    value = np.where(second[:, None], value * process(), value)
    wave[some] = draw.log_between(0.05, 1.5)[some, None] * value
    return wave, used


def _noise(draw: _Draws, length: int, u: np.ndarray, shape: np.ndarray, heavy: np.ndarray) -> np.ndarray:
    """White, ARMA(2, 1) and 1/f noise of about unit size, of constant, slowly changing or season-dependent variance."""
    n = draw.n
    e = draw.rng.standard_normal((length, n), dtype=np.float32)
    some = np.flatnonzero(heavy)
    e[:, some] /= np.sqrt(draw.rng.chisquare(3, (length, len(some))) / 3).astype(np.float32)
    np.clip(e, -12, 12, out=e)
    kind = draw.choice([0.25, 0.2, 0.25, 0.3])  # white, fast, slow, long memory
    recursive = (kind == 1) | (kind == 2)
    slow = 1 - draw.log_between(0.01, 0.3)
    one = np.select([kind == 1, kind == 2], [draw.between(-0.5, 0.9), slow], 0)  # the two roots
    two = np.where(recursive & draw.chance(0.4), draw.between(-0.6, 0.8), 0)
    moving = np.where(recursive & draw.chance(0.4), draw.between(-0.8, 0.8), 0).astype(np.float32)
    a, b = (one + two).astype(np.float32), (-one * two).astype(np.float32)
    before, earlier, shock = np.zeros(n, np.float32), np.zeros(n, np.float32), np.zeros(n, np.float32)
    for row in e:  # e becomes the noise
        value = a * before + b * earlier + row + moving * shock
        earlier, before, shock = before, value, row.copy()
        row[:] = value
    e = np.ascontiguousarray(e.T)
    some = np.flatnonzero(kind == 3)
    e[some] = _with_long_memory(draw.rng, draw.between(0.15, 1.2)[some], length)
    inside = u > -1
    n_inside = inside.sum(1, keepdims=True)
    e[some] -= ((e * inside).sum(1, keepdims=True) / n_inside)[some]
    size = np.sqrt((e**2 * inside).sum(1, keepdims=True) / n_inside)
    noise = (e / np.maximum(size, np.float32(0.1) * e.std(1, keepdims=True) + np.float32(1e-6))).astype(np.float32)
    kind = draw.choice([0.7, 0.12, 0.1, 0.08])  # how its size changes
    some = np.flatnonzero(kind == 1)  # slowly
    turn = draw.between(2, 12)[some, None] * u[some] + 6.3 * draw.uniform(1)[some]
    noise[some] *= np.exp(draw.between(0.3, 1.2)[some, None] * np.sin(turn))
    some = np.flatnonzero(kind == 2)  # with the season
    noise[some] *= np.exp(draw.between(-0.8, 0.8)[some, None] * np.clip(shape[some], -2, 2))
    some = np.flatnonzero(kind == 3)  # from one row on
    noise[some] *= np.where(
        u[some] > draw.between(-1, 0.1)[some, None], draw.log_between(0.3, 3)[some, None], np.float32(1)
    )
    return noise


def _with_long_memory(rng: np.random.Generator, power: np.ndarray, length: int) -> np.ndarray:
    """1/f noise: its amplitude falls with a power of the frequency, so that it has memory of all lengths (Mandelbrot &
    Van Ness 1968)."""
    frequency = np.arange(length + 1, dtype=np.float32)  # of twice the rows, whose end joins their beginning
    frequency[0] = np.inf
    parts = rng.standard_normal((2, len(power), length + 1), dtype=np.float32) * frequency ** -power[:, None]
    return np.fft.irfft(parts[0] + 1j * parts[1], axis=1)[:, :length]


def _events(
    draw: _Draws, values: np.ndarray, rows: np.ndarray, history: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Level shifts, outliers and temporary changes, to be added."""
    length = values.shape[1]
    row = np.arange(length)
    _, size = _moments(values, rows, history)
    events = np.zeros_like(values)
    shifted = draw.chance(0.12)
    for share in (1, 0.3):
        some = np.flatnonzero(shifted & draw.chance(share))
        at = history + (rows * draw.between(-1, 0.2))[some, None].astype(np.int64)
        until = np.where(draw.chance(0.25), draw.log_between(2, 100), length)[some, None]  # some end
        events[some] += ((row >= at) & (row < at + until)) * (draw.normal(1) * 1.5 * size)[some]
    has_outlier = draw.chance(0.18)
    some = np.flatnonzero(has_outlier)
    rate = draw.log_between(0.001, 0.03)[some, None]
    hit = draw.rng.random((len(some), length), dtype=np.float32) < rate
    is_upward = draw.chance(0.4)[some, None]
    height = draw.rng.standard_normal(hit.shape, dtype=np.float32) * draw.log_between(1, 6)[some, None]
    events[some] += hit * np.where(is_upward, np.abs(height), height) * size[some]
    return events, shifted, has_outlier


def _measure(
    draw: _Draws, values: np.ndarray, rows: np.ndarray, history: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bounds, counts, demand in few periods and rounding."""
    kind = draw.choice([0.74, 0.05, 0.05, 0.06, 0.05, 0.05])
    middle, spread = _moments(values, rows, history)
    low = middle - draw.between(0.5, 3)[:, None] * spread
    rng = draw.rng

    some = np.flatnonzero(kind == 1)  # nothing below a floor, as of rain or light
    floor = (middle + draw.between(-1.5, 0.8)[:, None] * spread)[some]
    values[some] = np.maximum(values[some], floor)
    some = np.flatnonzero(kind == 2)  # nothing above a ceiling
    values[some] = np.minimum(values[some], (middle + draw.between(-0.8, 1.5)[:, None] * spread)[some])
    some = np.flatnonzero(kind == 3)  # counts
    rate = (values[some] - low[some]) / spread[some] * draw.log_between(0.3, 30)[some, None]
    values[some] = rng.poisson(np.clip(rate, 0, 1e5)).astype(np.float32)
    some = np.flatnonzero(kind == 4)  # demand in few periods
    happens = rng.random((len(some), values.shape[1]), dtype=np.float32) < draw.between(0.05, 0.6)[some, None]
    amounts = np.exp(np.clip((values[some] - middle[some]) / spread[some] * 0.5, -3, 3))
    values[some] = happens * np.ceil(amounts * draw.log_between(0.5, 20)[some, None])
    some = np.flatnonzero(kind == 5)  # a coarse scale
    step = spread[some] * draw.log_between(0.02, 0.7)[some, None]
    values[some] = np.round(values[some] / step) * step
    return values, (kind == 1) | (kind == 2), (kind == 3) | (kind == 4)


def _observed(draw: _Draws, rows: np.ndarray, history: int, horizon: int) -> tuple[np.ndarray, np.ndarray]:
    """Which rows exist: those of the history, without missing stretches, and a horizon no longer than the history."""
    row = np.arange(-history, horizon)
    ahead = np.maximum(rows, 12)[:, None]
    observed = (row >= -rows[:, None]) & (row < ahead)
    with_gaps = draw.chance(0.1) & (rows >= 24)
    for share in (1, 0.5, 0.5):
        some = np.flatnonzero(with_gaps & draw.chance(share))
        start = -(rows * draw.uniform(1)[:, 0]).astype(np.int64)[some, None] - 2
        size = np.minimum(draw.log_between(1, 200).astype(np.int64), rows // 3)[some, None]
        observed[some] &= (row < start) | (row >= np.minimum(start + size, -1))
    scattered = np.flatnonzero(with_gaps & draw.chance(0.4))
    kept = draw.uniform(len(row))[scattered] >= draw.between(0, 0.3)[scattered, None]
    observed[scattered] &= kept | (row >= -1)
    return observed, with_gaps
