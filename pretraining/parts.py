"""Parts of generated series, each for all series of a batch at once, [n t].

A trend; a level, slope and season that receive shocks; a season; a wave; noise; events; and the way values are
measured. Seasons, waves and noise have about unit size over the history.
"""

import numpy as np

from pretraining.draws import Draws, recursive


def trend_of(draw: Draws) -> np.ndarray:
    """Smooth trends over u, which is -1 to 0 over the history; stronger and more frequent in short histories."""
    u, rows = draw.u, draw.rows
    in_short, in_long = draw.choice([0.15, 0.35, 0.2, 0.1, 0.2]), draw.choice([0.45, 0.2, 0.1, 0.1, 0.15])
    kind = np.where(rows < 120, in_short, in_long)[:, None]
    size = np.where(rows < 120, draw.log_between(0.3, 6), draw.log_between(0.2, 5))
    size = (size * draw.sign(0.7)).astype(np.float32)[:, None]
    rate = draw.log_between(0.5, 5)[:, None]
    # many trends slow down: damped ones forecast better than others (Gardner & McKenzie 1985)
    slowing = np.flatnonzero(draw.chance(0.3))
    speed = draw.log_between(1, 20)[slowing, None]
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
    return size * trend


def state_of(draw: Draws, season: np.ndarray) -> np.ndarray:
    """Level, damped slope and season that receive shocks; zero at the start of the observed history."""
    rows = draw.rows
    is_used = draw.chance(0.75)
    unit = 1 / np.sqrt(rows).astype(np.float32)
    # the level of some returns to its mean, within a few rows or within hundreds
    kept = np.where(draw.chance(0.4), 1 - 1 / draw.log_between(5, 400), 1).astype(np.float32)
    per_shock = np.where(kept < 1, np.maximum(np.sqrt(1 - kept**2), unit), unit)
    alpha = np.where(draw.chance(0.85), draw.log_between(0.1, 3), 0) * per_shock
    damping = np.where(draw.chance(0.5), 1 - draw.log_between(0.002, 0.3), 1).astype(np.float32)
    per_row = np.where(damping < 1, np.maximum(1 - damping, 1 / rows), 1 / rows).astype(np.float32)
    beta = np.where(draw.chance(0.35), draw.log_between(0.1, 2), 0) * unit * per_row
    size = draw.log_between(0.03, 0.6) * np.sqrt(season / rows)
    gamma = np.where(draw.chance(0.35) & (season > 1), size, 0)
    of_level, of_slope, of_season = np.where(is_used, [alpha, beta, gamma], 0).astype(np.float32)[:, :, None]
    shocks = draw.normal(draw.length) * (draw.u > -1)  # none before the history
    slope = recursive(of_slope * shocks, damping)
    states = recursive(of_level * shocks + damping[:, None] * np.pad(slope, ((0, 0), (1, 0)))[:, :-1], kept)
    mixed = draw.between(0, 1)[:, None]  # how far the season has shocks of its own
    for i in np.flatnonzero(of_season):
        own = mixed[i] * draw.rng.standard_normal(draw.length, dtype=np.float32) * (draw.u[i] > -1)
        steps = np.pad(of_season[i] * (own + (1 - mixed[i]) * shocks[i]), (0, -draw.length % season[i]))
        states[i] += steps.reshape(-1, season[i]).cumsum(0, dtype=np.float32).ravel()[: draw.length]
    return states


def walk_of(draw: Draws) -> np.ndarray:
    """Random walks with drift, as short histories of totals often are."""
    steps = draw.normal(draw.length) * (draw.u > -1)
    size, drift = draw.log_between(0.5, 3) / np.sqrt(draw.rows), draw.log_between(0.3, 6) * draw.sign(0.7)
    return drift[:, None] * draw.u + size.astype(np.float32)[:, None] * np.cumsum(steps, axis=1)


def season_of(draw: Draws, season: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Seasons of about unit size: days of one or several kinds, a year of days, holidays, days that vary by chance."""
    n, length, u, widest = draw.n, draw.length, draw.u, int(max(season.max(), 2))
    phase = (draw.rng.integers(0, 1 << 20, n)[:, None] + np.arange(length)).astype(np.int32)
    at = phase % season[:, None].astype(np.int32)
    number = phase // season[:, None].astype(np.int32)  # of the season, for instance of the day
    holiday = draw.uniform(length)  # by the number of a season
    is_holiday = holiday < (draw.chance(0.3) * draw.log_between(0.003, 0.05))[:, None]
    shape, other = (template(draw, season, widest) for _ in range(2))
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
    return total / np.maximum(total.std(1, keepdims=True), np.float32(1e-3))


def _varied(draw: Draws, values: np.ndarray, place: np.ndarray, number: np.ndarray, some: np.ndarray) -> np.ndarray:
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


def template(draw: Draws, season: np.ndarray, widest: int) -> np.ndarray:
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


def wave_of(draw: Draws, share: float) -> np.ndarray:
    """Gaussian processes with smooth, rough or oscillating kernels, zero but for a share; some are products of two."""
    t, n_features = draw.t, 8
    wave = np.zeros((draw.n, draw.length), np.float32)
    some = np.flatnonzero(draw.chance(share))
    span = np.maximum(draw.rows, 20)[some, None].astype(np.float32)

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
    return wave


def noise_of(draw: Draws, shape: np.ndarray) -> np.ndarray:
    """White, ARMA(2, 1) and 1/f noise of about unit size, of constant, slowly changing or season-dependent variance.

    Args:
        shape: the season that the size of some follows.
    """
    u, length = draw.u, draw.length
    e = draw.normal(length)
    some = np.flatnonzero(draw.chance(0.25))  # heavy tails
    e[some] /= np.sqrt(draw.rng.chisquare(3, (len(some), length)) / 3).astype(np.float32)
    np.clip(e, -12, 12, out=e)
    kind = draw.choice([0.25, 0.2, 0.25, 0.3])  # white, fast, slow, long memory
    slow = 1 - draw.log_between(0.01, 0.3)
    one = np.select([kind == 1, kind == 2], [draw.between(-0.5, 0.9), slow], 0)  # the two roots
    two = np.where(draw.chance(0.4), draw.between(-0.6, 0.8), 0)
    moving = np.where(draw.chance(0.4), draw.between(-0.8, 0.8), 0).astype(np.float32)
    some = np.flatnonzero((kind == 1) | (kind == 2))
    e[some, 1:] += moving[some, None] * e[some, :-1]
    if len(some):
        e[some] = recursive(e[some], (one + two)[some], (-one * two)[some])
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


def events_of(draw: Draws, values: np.ndarray) -> np.ndarray:
    """Level shifts, outliers and temporary changes, to be added."""
    length, rows, history = draw.length, draw.rows, draw.history
    row = np.arange(length)
    _, size = draw.moments(values)
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
    return events


def measured(draw: Draws, values: np.ndarray) -> np.ndarray:
    """The values with bounds, as counts, as demand in few periods, or rounded; most are left as they are."""
    kind = draw.choice([0.74, 0.05, 0.05, 0.06, 0.05, 0.05])
    middle, spread = draw.moments(values)
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
    return values
