"""Families of generated series: each is a function of the draws, and all have the same weight in the mixture.

A family returns values [n t] and the two seasons of each series, 1 for none. It may first shorten the histories. The
first four are sums and products of the parts in `pretraining.parts`; the others are processes of their own.
"""

from collections.abc import Callable

import numpy as np

from pretraining.draws import Draws, at, recursive
from pretraining.parts import events_of, noise_of, season_of, state_of, template, trend_of, walk_of, wave_of

Made = tuple[np.ndarray, np.ndarray, np.ndarray]


def _sum(draw: Draws, strength: np.ndarray, season: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Trend, state, season, wave, noise and events, and the season in it."""
    shape = season_of(draw, season, second)
    seasonal = strength * shape
    is_regular = draw.chance(0.3)  # the season repeats almost exactly, or changes in a smooth way only
    noise_size = np.where(is_regular, draw.log_between(0.002, 0.05), draw.log_between(0.02, 1.2))
    noise_size *= np.where((draw.rows < 120) & draw.chance(0.5), draw.log_between(0.1, 1), 1)  # yearly to weekly totals
    noise_size *= np.where(strength[:, 0] > 0, np.minimum(strength[:, 0], 1.5) ** draw.between(0, 1), 1)
    noise = noise_size[:, None] * noise_of(draw, shape)
    state, wave = state_of(draw, season), wave_of(draw, 0.35)
    for part in (state, wave):
        part[is_regular] *= draw.log_between(0.01, 1)[is_regular, None]
    times = draw.chance(0.15) & wave.any(1)  # the wave changes the size of the season
    seasonal[times] *= np.clip(wave[times], -2, 2)
    wave[times] = 0
    total = trend_of(draw) + state + seasonal + wave + noise
    return (total + events_of(draw, total)).astype(np.float32), seasonal


def _strength(draw: Draws, share: float) -> np.ndarray:
    return draw.log_between(0.05, 4)[:, None] * draw.chance(share)[:, None]


def sums(draw: Draws) -> Made:
    """Trend, state, one or two seasons, a wave, noise and events, added."""
    season, second = draw.season_lengths()
    return _sum(draw, _strength(draw, 0.8), season, second)[0], season, second


def products(draw: Draws) -> Made:
    """The exponential of such a sum, or a level times a season."""
    season, second = draw.season_lengths()
    total, seasonal = _sum(draw, _strength(draw, 0.8), season, second)
    middle, size = draw.moments(total)
    power = draw.log_between(0.03, 0.6)[:, None] / size
    level = np.exp(np.clip((total - middle - seasonal) * power, -6, 6))
    relative = seasonal / (np.abs(seasonal).max(1, keepdims=True) + np.float32(1e-3))
    whole = np.exp(np.clip((total - middle) * power, -6, 6))
    is_whole = draw.chance(0.6)[:, None]
    return np.where(is_whole, whole, level * (1 + np.minimum(power * size, 0.8) * relative)), season, second


def light(draw: Draws) -> Made:
    """What the sun drives: zero at night, a dome by day, of a size that clouds change; days grow longer and shorter."""
    season, second = draw.days(1)
    place = ((draw.t + draw.uniform(1) * season[:, None]) % season[:, None]) / season[:, None].astype(np.float32)
    year = np.sin(2 * np.pi * (draw.t / (365 * season[:, None]) + draw.uniform(1)))
    half = draw.between(0.15, 0.32)[:, None] * (1 + draw.between(0, 0.35)[:, None] * year)
    dome = np.maximum(1 - (np.abs(place - 0.5) / half) ** 2, 0) ** draw.between(0.5, 2)[:, None]
    dome *= 1 + draw.between(0, 0.4)[:, None] * year
    hours = draw.log_between(0.5, 30) * season / 24
    clouds = recursive(draw.normal(draw.length), np.exp(-1 / hours)) / np.sqrt(hours)[:, None]
    clear = 1 / (1 + np.exp(np.clip(draw.between(-3, 2)[:, None] + draw.log_between(0.3, 3)[:, None] * clouds, -9, 9)))
    least = draw.between(0, 0.5)[:, None]
    return (dome * (least + (1 - least) * clear)).astype(np.float32), season, np.where(draw.chance(0.3), second, 1)


def walks(draw: Draws) -> Made:
    """A random walk with drift and little else, or its exponential; mostly short."""
    draw.shorten(0.7)
    season, second = draw.season_lengths()
    season = np.where(draw.chance(0.6), 1, season)
    shape = season_of(draw, season, np.ones_like(second))
    total = walk_of(draw) + (draw.log_between(0.01, 1) * draw.between(0, 1))[:, None] * shape
    total += draw.log_between(0.01, 0.5)[:, None] * noise_of(draw, shape)
    middle, size = draw.moments(total)
    power = draw.log_between(0.1, 0.8)[:, None] / size
    is_power = draw.chance(0.4)[:, None]
    return np.where(is_power, np.exp(np.clip((total - middle) * power, -5, 5)), total), season, np.ones_like(season)


def regimes(draw: Draws) -> Made:
    """Two to four regimes with a level, slope, season and noise of their own, which last for a random time."""
    season, second = draw.season_lengths()
    shape, noise = season_of(draw, season, second), noise_of(draw, np.zeros_like(draw.u))
    switches = draw.rng.random((draw.n, draw.length)) < 1 / draw.log_between(8, np.maximum(draw.rows, 20))[:, None]
    number = np.cumsum(switches, 1) % 64
    regime = at(draw.rng.integers(0, draw.rng.integers(2, 5, draw.n)[:, None], (draw.n, 64)), number)
    level = at(draw.normal(4) * draw.log_between(0.3, 3)[:, None], regime)
    slope = at(draw.normal(4) * (draw.chance(0.5) * draw.log_between(0.3, 5) / draw.rows)[:, None], regime)
    sizes = at(np.exp(draw.normal(4)), regime)
    amplitude = at(np.exp(0.7 * draw.normal(4)) * (draw.uniform(4) < 0.85), regime)
    total = np.cumsum(slope, 1) + draw.log_between(0.1, 2)[:, None] * amplitude * shape
    speed = np.where(draw.chance(0.4), 1 - 1 / draw.log_between(2, 50), 0)  # some levels are approached
    total += recursive(level * (1 - speed[:, None]), speed)
    return (total + draw.log_between(0.03, 0.5)[:, None] * sizes * noise).astype(np.float32), season, second


def shocks(draw: Draws) -> Made:
    """Shocks that come at random and are recovered from, in full or in part, with or without an overshoot."""
    season, second = draw.season_lengths()
    shape = season_of(draw, season, second)
    rate = draw.log_between(0.7, 15) / draw.rows
    hits = draw.rng.random((draw.n, draw.length)) < np.minimum(rate, 0.2)[:, None]
    mostly = draw.sign(0.5)[:, None]
    heights = np.exp(0.6 * draw.normal(draw.length)) * np.where(draw.uniform(draw.length) < 0.8, mostly, -mostly)
    impulses = (hits * heights * draw.log_between(0.5, 6)[:, None]).astype(np.float32)
    lasting = draw.log_between(1, np.maximum(draw.rows / 4, 4))
    recovery = recursive(impulses, np.exp(-1 / lasting))
    overshoot = recursive(impulses, np.exp(-1 / (3 * lasting))) * (draw.chance(0.3) * draw.between(0, 0.6))[:, None]
    kept = np.cumsum(impulses, 1) * (draw.chance(0.4) * draw.between(0, 0.7))[:, None]
    total = recovery - overshoot + kept + _strength(draw, 0.7) * shape + trend_of(draw) * draw.chance(0.3)[:, None]
    return (total + draw.log_between(0.02, 0.6)[:, None] * noise_of(draw, shape)).astype(np.float32), season, second


def flattening(draw: Draws) -> Made:
    """Trends that become flatter, end or turn, from a row before or after the end of the history on."""
    draw.shorten(0.7, 400)
    season, second = draw.season_lengths()
    u = draw.u
    rest = np.maximum(u - draw.between(-0.9, 0.3)[:, None], 0)  # since the trend began to change
    speed = draw.log_between(0.7, 30)[:, None]
    damped = -np.expm1(-speed * rest) / speed
    later = draw.between(-0.6, 0.5)[:, None]  # slope in the end, as a share of the first one
    kind = draw.choice([0.4, 0.3, 0.3])[:, None]
    changed = np.select([kind == 0, kind == 1], [damped, later * rest], 0.7 * damped + 0.3 * later * rest)
    power = draw.between(0.2, 1)[:, None]
    trend = u - rest + changed
    trend = np.where(draw.chance(0.25)[:, None], np.maximum(u + 1.02, 0.02) ** power, trend)
    total = (draw.sign(0.65) * draw.log_between(0.5, 8))[:, None] * trend
    shape = season_of(draw, season, second)
    seasonal = _strength(draw, 0.7) * shape
    grows = draw.chance(0.4)[:, None]
    total += np.where(grows, seasonal * np.maximum(1 + 0.5 * trend, 0.1), seasonal)
    total += draw.log_between(0.02, 0.6)[:, None] * noise_of(draw, shape) + 0.3 * state_of(draw, season)
    return total.astype(np.float32), season, second


def spikes(draw: Draws) -> Made:
    """Spikes at a few places of the season, of varying height and sometimes absent, and others at any row."""
    season, second = draw.season_lengths()
    season = np.where((season < 7) & (draw.rows >= 21), np.where(draw.rows >= 72, 24, 7), season)
    second = np.where(second % season == 0, second, 1)
    at_row = (draw.rng.integers(0, 1 << 20, draw.n)[:, None] + np.arange(draw.length)).astype(np.int64)
    number, place = at_row // season[:, None], at_row % season[:, None]
    number -= number[:, :1]
    total = draw.log_between(0.02, 0.5)[:, None] * noise_of(draw, np.zeros_like(draw.u))
    total += draw.log_between(0.02, 1)[:, None] * season_of(draw, season, second)
    n_seasons = int(number.max()) + 1
    for k in range(3):
        height = draw.log_between(1, 12) * draw.sign(0.85) * ((k == 0) | draw.chance(0.4))
        varied = np.exp(draw.log_between(0.02, 0.8)[:, None] * draw.normal(n_seasons))
        varied *= draw.uniform(n_seasons) < np.where(draw.chance(0.5), 1, draw.between(0.3, 1))[:, None]
        moved = draw.rng.integers(-1, 2, varied.shape) * (draw.uniform(n_seasons) < draw.between(-0.5, 0.5)[:, None])
        centre = (draw.uniform(1) * season[:, None]).astype(np.int64) + at(moved, number)
        width = np.where(season >= 12, draw.rng.integers(1, 4, draw.n), 1)[:, None]
        total += height[:, None] * at(varied, number) * ((place - centre) % season[:, None] < width)
    alone = draw.rng.random((draw.n, draw.length)) < (draw.chance(0.4) * draw.log_between(0.001, 0.02))[:, None]
    total += alone * draw.log_between(2, 12)[:, None] * draw.uniform(draw.length)
    return total.astype(np.float32), season, second


def counts(draw: Draws) -> Made:
    """Counts of a rate that a season, a trend and slow changes move; some with few positive rows, with stretches of
    zeros (nothing in stock), before a launch or after an end."""
    season, second = draw.season_lengths()
    shape = season_of(draw, season, second)
    slow = recursive(draw.normal(draw.length), lasting := np.exp(-1 / draw.log_between(3, 300)))
    slow *= np.sqrt(1 - lasting**2).astype(np.float32)[:, None]
    log_rate = np.log(draw.log_between(0.03, 60))[:, None] + draw.between(0, 1.2)[:, None] * np.clip(shape, -3, 3)
    log_rate += draw.between(0, 0.6)[:, None] * slow + draw.between(-1.2, 1.2)[:, None] * draw.u
    dispersed = draw.chance(0.5)[:, None] * draw.log_between(0.1, 2)[:, None] + np.float32(1e-3)
    rate = np.exp(np.clip(log_rate, -8, 8)) * draw.rng.standard_gamma(1 / dispersed, draw.u.shape) * dispersed
    values = draw.rng.poisson(np.minimum(rate, 1e5)).astype(np.float32)
    packs = np.where(draw.chance(0.2), draw.rng.integers(2, 25, draw.n), 1)[:, None]
    lasting = draw.log_between(3, 60)[:, None]
    switches = draw.rng.random(values.shape) < 1 / lasting
    in_stock = at(draw.uniform(256), np.cumsum(switches, 1) % 256) >= (draw.chance(0.3) * draw.between(0, 0.6))[:, None]
    launched = draw.u >= np.where(draw.chance(0.15), draw.between(-1, -0.2), -1)[:, None]
    ended = draw.u > np.where(draw.chance(0.05), draw.between(-0.5, 0.2), 9)[:, None]
    return values * packs * in_stock * launched * ~ended, season, second


def day_by_week(draw: Draws) -> Made:
    """Steps of an hour or less: days of three kinds, mixed by weekday, shifted and scaled, with weather of days and
    noise of the day's size; all as they are, positive, or exponential."""
    season, second = draw.days(3)
    clock = draw.rng.integers(0, 1 << 20, draw.n)[:, None] + np.arange(draw.length)
    day, place = clock // season[:, None], clock % season[:, None]
    weekday, day = day % 7, day - day[:, :1]
    n_days = int(day.max()) + 2
    kinds = np.zeros((draw.n, 7), np.int64)
    kinds[:, 5:] = np.where(draw.chance(0.8), draw.rng.integers(1, 3, draw.n), 0)[:, None]
    kinds[:, 6] = np.where(draw.chance(0.4), 2, kinds[:, 6])
    free = draw.chance(0.2)  # weekdays of any kind, as of tariffs or shifts
    kinds[free] = draw.rng.integers(0, 3, (draw.n, 7))[free]
    mixed = at(0.15 * draw.log_between(0.1, 2)[:, None] * draw.normal(7), weekday)
    similar = draw.between(0, 0.9)[:, None]
    widest = int(season.max())
    base = template(draw, season, widest)
    shapes = [base, *(similar * base + (1 - similar) * template(draw, season, widest) for _ in range(2))]
    delay = (draw.chance(0.3) * draw.between(0, 0.08) * season).astype(np.int64)
    kind = at(kinds, weekday)
    moved = (place + delay[:, None] * (kind > 0)) % season[:, None]
    total = np.select([kind == 0, kind == 1], [at(shapes[0], moved), at(shapes[1], moved)], at(shapes[2], moved))
    total = total * (1 + mixed) + at(np.cumsum(0.5 * draw.normal(3), 1), kind) + mixed
    kept = draw.between(0, 0.95)
    weather = recursive(draw.normal(n_days), kept) * np.sqrt(1 - kept**2)[:, None]
    share = place / season[:, None].astype(np.float32)  # of the way to the next day
    changed = at(weather, day) + share * (at(weather, day + 1) - at(weather, day))
    scaled = draw.chance(0.5)[:, None]
    size = draw.log_between(0.03, 1)[:, None]
    total = np.where(scaled, total * np.exp(0.5 * size * changed), total + size * changed)
    noise = noise_of(draw, np.clip(total, -3, 3)) * draw.log_between(0.01, 0.5)[:, None]
    noise = np.where(draw.chance(0.5)[:, None], noise * (0.1 + np.abs(total - total.min(1, keepdims=True))) / 3, noise)
    total = total + noise + draw.log_between(0.05, 1)[:, None] * (trend_of(draw) + wave_of(draw, 0.5))
    way = draw.choice([0.5, 0.2, 0.3])[:, None]
    positive = np.maximum(total - draw.between(-2, 0)[:, None], 0)
    power = draw.log_between(0.1, 0.8)[:, None]
    values = np.select([way == 0, way == 1], [total, positive], np.exp(np.clip(power * total, -5, 5)))
    return values.astype(np.float32), season, np.where(draw.chance(0.1), 1, second)


def holidays(draw: Draws) -> Made:
    """Days or hours with a week and a year, and holidays at a date, at a weekday near a date, or that move with the
    moon; before and after them values differ too."""
    per_day = np.where(draw.chance(0.75) | (draw.rows < 500), 1, 24)
    season, second = np.where(per_day == 1, 7, 24), np.where(per_day == 1, 365, 168)
    total = _strength(draw, 1) * season_of(draw, season, second)
    clock = draw.rng.integers(0, 1 << 20, draw.n)[:, None] + np.arange(draw.length)
    day = clock // per_day[:, None]
    year = np.floor(day / 365.2425)
    dates = draw.rng.random((draw.n, 8)) * 365
    effects = draw.normal(8) * draw.log_between(0.5, 5)[:, None] * (draw.uniform(8) < draw.between(0.1, 1)[:, None])
    moves = draw.choice([0.4, 0.3, 0.3])[:, None]
    for k in range(8):
        centre = np.floor(year * 365.2425 + dates[:, k, None])
        weekday = centre - (centre - k) % 7
        moon = np.floor(centre - (year * 10.88) % 29.53)
        distance = day - np.select([moves == 0, moves == 1], [centre, weekday], moon)
        before, after = (draw.chance(0.4) * draw.log_between(0.3, 4))[:, None], draw.log_between(0.3, 2)[:, None]
        lasting = np.where(distance < 0, before + np.float32(1e-2), after)
        total += effects[:, k, None] * np.exp(-np.abs(distance) / lasting) * (distance < 20)
    total += trend_of(draw) * 0.5 + draw.log_between(0.03, 0.5)[:, None] * noise_of(draw, np.zeros_like(draw.u))
    power = (draw.chance(0.5) * draw.between(0.05, 0.5))[:, None]
    total = np.where(power > 0, np.exp(np.clip(power * total, -6, 6)), total)
    return total.astype(np.float32), season, np.where(second <= draw.rows, second, 1)


def steps(draw: Draws) -> Made:
    """Steps at random times, stocks that fall and are refilled, ramps up and down, and sums that start again."""
    season, second = draw.season_lengths()
    shape = season_of(draw, season, second)
    wait = draw.log_between(4, np.maximum(draw.rows / 3, 8))[:, None]
    jumps = (draw.rng.random((draw.n, draw.length)) < 1 / wait) * draw.normal(draw.length)
    kept = np.where(draw.chance(0.5), 1, 0.9)
    staircase = recursive((jumps + 0.02 * (jumps != 0) * draw.normal(1)).astype(np.float32), kept)
    held = np.maximum.accumulate(np.where(jumps != 0, np.arange(draw.length), 0), 1)
    staircase = np.where((kept == 1)[:, None], staircase, at(staircase, held))
    demand = np.maximum(1 + 0.5 * np.clip(shape, -2, 2) + draw.between(0, 1)[:, None] * draw.normal(draw.length), 0)
    used = np.cumsum(demand / wait, 1) + draw.uniform(1)
    ramp = np.abs((used % 1) - 0.5) * 2
    falling = 1 - used % 1
    whole = np.cumsum(demand, 1) / draw.rows[:, None]
    again = whole - at(whole, held)
    kind = draw.choice([0.35, 0.25, 0.15, 0.15, 0.1])[:, None]
    rounded = np.round(shape * 1.5)
    total = np.select(
        [kind == k for k in range(4)], [staircase, falling, ramp, again * draw.rows[:, None] / wait], rounded
    )
    noise = (draw.chance(0.6) * draw.log_between(0.005, 0.2))[:, None] * draw.normal(draw.length)
    seasonal = (draw.chance(0.3) * draw.between(0, 0.5))[:, None] * shape
    return (draw.sign(0.7)[:, None] * total + noise + seasonal).astype(np.float32), season, second


def growth(draw: Draws) -> Made:
    """Growth to a limit, as a logistic, Gompertz or exponential curve or as what is new in each row, with a season and
    noise of the level's size."""
    draw.shorten(0.6, 400)
    season, second = draw.season_lengths()
    speed, middle = draw.log_between(2, 20)[:, None], draw.between(-1.1, 0.5)[:, None]
    z = np.clip(speed * (draw.u - middle), -30, 30)
    logistic = 1 / (1 + np.exp(-z))
    curves = [logistic, np.exp(-np.exp(np.clip(-z, -30, 4))), 4 * logistic * (1 - logistic)]
    kind = draw.choice([0.4, 0.25, 0.15, 0.2])[:, None]
    level = np.select([kind == k for k in range(3)], curves, 1 - np.exp(-np.maximum(z + speed, 0) / 3))
    level = draw.between(0, 0.5)[:, None] + np.where(draw.chance(0.15)[:, None], 1 - level, level)
    shape = season_of(draw, season, second)
    relative = draw.log_between(0.01, 0.4)[:, None] * np.clip(shape, -2.4, 2.4)
    noise = draw.log_between(0.005, 0.25)[:, None] * np.clip(noise_of(draw, shape), -4, 4)
    return (level * np.exp(relative + noise)).astype(np.float32), season, second


def volatile(draw: Draws) -> Made:
    """Levels times noise whose size changes: by itself (stochastic volatility), with the season and with the level."""
    season, second = draw.season_lengths()
    shape = season_of(draw, season, second)
    kept = 1 - 1 / draw.log_between(3, 200)
    log_size = recursive(draw.normal(draw.length), kept) * np.sqrt(1 - kept**2)[:, None] * draw.between(0, 1.2)[:, None]
    log_size += draw.between(-0.6, 0.6)[:, None] * np.clip(shape, -2.5, 2.5)
    noise = np.exp(np.clip(log_size, -4, 2.5)) * np.clip(draw.normal(draw.length), -5, 5)
    drift = state_of(draw, season) + 0.5 * trend_of(draw)
    log_level = 0.5 * np.clip(drift, -4, 4) + draw.between(0, 0.6)[:, None] * np.clip(shape, -3, 3)
    size = draw.log_between(0.03, 0.6)[:, None]
    is_return = draw.chance(0.2)[:, None]  # noise around zero, or a walk of it
    returns = np.where(draw.chance(0.5)[:, None], np.cumsum(size * noise, 1) * 0.3, size * noise)
    values = np.where(is_return, returns, np.exp(np.clip(log_level + size * noise, -6, 6)))
    return values.astype(np.float32), season, second


def cycles(draw: Draws) -> Made:
    """Oscillations without a fixed period: driven by noise, of changing frequency, or smooth processes; some skewed."""
    season, _ = draw.season_lengths()
    period = draw.log_between(4, np.maximum(draw.rows / 2, 8))
    damping = np.exp(-1 / (period * draw.log_between(0.3, 10)))
    root = 2 * damping * np.cos(2 * np.pi / period)
    driven = recursive(draw.normal(draw.length), root, -(damping**2))
    drift = 1 + draw.between(0, 0.5)[:, None] * recursive(0.02 * draw.normal(draw.length), np.full(draw.n, 0.999))
    phase = np.cumsum(2 * np.pi * np.clip(drift, 0.3, 3) / period[:, None], 1) + 6.3 * draw.uniform(1)
    chirp = np.sin(phase) + draw.between(-0.4, 0.4)[:, None] * np.sin(2 * phase)
    kind = draw.choice([0.35, 0.3, 0.35])[:, None]
    driven /= draw.moments(driven)[1]
    total = np.select([kind == 0, kind == 1], [driven, chirp], wave_of(draw, 1))
    total += draw.log_between(0.01, 0.5)[:, None] * noise_of(draw, np.zeros_like(total))
    skewed = np.exp(np.clip(draw.between(0.3, 1)[:, None] * total / draw.moments(total)[1], -5, 5))
    values = np.where(draw.chance(0.3)[:, None], skewed, total)
    given = draw.chance(0.5)  # else a season that is not there
    return values.astype(np.float32), np.where(given, 1, season), np.ones_like(season)


FAMILIES: dict[str, Callable[[Draws], Made]] = {
    family.__name__: family
    for family in (
        sums, products, light, walks, regimes, shocks, flattening, spikes, counts, day_by_week, holidays, steps, growth,
        volatile, cycles,
    )
}  # fmt: skip
