"""Effects of columns known ahead and of the calendar: what a regression says of each row of a series.

  y_t = u (a + sum_c f_c(x_ct)) + remainder_t              least squares
  y_t = u exp(a + sum_c f_c(x_ct)) remainder_t             Poisson regression, for counts and amounts

u is the unit of the series. f_c is a natural cubic spline of a numeric column, with knots at quantiles and linear
outside of them (T. Hastie, R. Tibshirani and J. Friedman, "The Elements of Statistical Learning", 2nd edition, section
5.2.1), or a number for each category. The calendar is one more such column: harmonics of the day and of the year as far
as the step and the rows show them, weekdays, their products with the harmonics of the day, a trend and holidays.

The coefficients b_s of series s minimise its deviance + penalty |b_s - b|^2, where b are those of all series together:
a series with few rows, or without a promotion so far, has the effects of the others. The penalty is the one of
`PENALTIES` with the smallest deviance in blocks of rows that were left out.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pandas as pd
from jaxtyping import Float64

from informer.data.calendar import holiday_mark
from informer.data.scaler import is_amount
from informer.read.frequency import DAY, Frequency

KNOTS = 7
"""Knots of a spline, at equally spaced quantiles."""
MOST_CATEGORIES = 64
"""Categories of a column with a coefficient of their own, the most frequent ones."""
DAY_HARMONICS, YEAR_HARMONICS = 6, 3
YEAR = 365.25 * DAY
LEVEL, CALENDAR = "level", "calendar"
"""Names of the parts of an effect that are not of a column."""
FAR = 0.5
"""Values farther outside the history than this share of its range are read as if they were there."""
PENALTIES = (0.1, 1.0, 10.0, 100.0, 1000.0)
"""In rows: a standardised coefficient with a penalty of 10 is shrunk as by 10 rows that deny it."""
BLOCKS, BLOCK_ROWS = 4, 20_000
"""Blocks of rows left out in turn, and rows of a series that choose the penalty."""
MOST_POOLED, MOST_CHOOSING, MOST_ROWS = 64, 12, 100_000
"""Series that the shared coefficients are fitted to, those that choose the penalty, and rows read of each."""
LEVEL_STEPS = 3
"""Times that the shared coefficients of ratios and the levels of series are fitted in turn."""
LEAST = 0.01
"""Ratios to an effect below this share of the unit are not formed."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The functions of a regression, from the rows of a panel.

    Args:
        columns: names of the columns known ahead.
        knots: of the spline of each numeric column; fewer than three: it is linear.
        categories: codes of each categorical column, see `informer.read.columns`.
        limits: least and greatest value that is read of each numeric column.
        day, year: harmonics of the day and of the year.
        weekday: whether weekdays differ.
        holidays: countries or parts of countries.
        start: time from which the trend counts, in nanoseconds since 1970.
    """

    columns: tuple[str, ...]
    knots: Mapping[str, Sequence[float]]
    categories: Mapping[str, Sequence[float]]
    limits: Mapping[str, tuple[float, float]]
    day: int
    year: int
    weekday: bool
    holidays: tuple[str, ...]
    start: int

    @classmethod
    def of(
        cls,
        times: pd.DatetimeIndex,
        known: Float64[np.ndarray, "t k"],
        columns: Sequence[str],
        *,
        categorical: Sequence[str],
        step: Frequency,
        holidays: Sequence[str],
    ) -> "Terms":
        """Those that these rows of a panel can show; `times` are of its longest series."""
        knots, categories, limits = dict[str, list[float]](), dict[str, list[float]](), dict[str, tuple[float, float]]()
        for name, values in zip(columns, known.T, strict=True):
            values = values[np.isfinite(values)]
            if name in categorical:
                codes, counts = np.unique(values, return_counts=True)
                categories[name] = codes[np.argsort(-counts, kind="stable")][:MOST_CATEGORIES].tolist()
                continue
            knots[name] = np.unique(np.quantile(values, np.linspace(0, 1, KNOTS))).tolist() if len(values) else []
            limits[name] = limits_of(values)
        span = (times[-1] - times[0]).value
        row = span / max(len(times) - 1, 1)
        is_timed = not step.is_numbered
        return cls(
            columns=tuple(columns),
            knots=knots,
            categories=categories,
            limits=limits,
            day=min(DAY_HARMONICS, int(DAY / row / 2)) if is_timed and row > 0 and span >= 2 * DAY else 0,
            year=min(YEAR_HARMONICS, int(YEAR / row / 2)) if is_timed and row > 0 and span >= 1.9 * YEAR else 0,
            weekday=is_timed and 0 < row < 3 * DAY and span >= 14 * DAY,
            holidays=tuple(holidays) if is_timed else (),
            start=times.as_unit("ns").asi8[0].item(),
        )

    @property
    def size(self) -> int:
        """Number of all functions; those of a damaged file, which do not go together, have none."""
        is_whole = {*self.columns} == {*self.knots, *self.categories} and {*self.knots} == {*self.limits}
        if not is_whole or any((np.diff(knots) <= 0).any() for knots in self.knots.values()):
            return 0
        of_columns = [max(len(knots) - 1, 0) for knots in self.knots.values()] + [*map(len, self.categories.values())]
        n_days, n_years = 2 * max(self.day, 0), 2 * max(self.year, 0)
        return sum(of_columns) + 1 + n_days + n_years + 7 * (1 + n_days) * self.weekday + len(self.holidays)

    def at(self, times: pd.DatetimeIndex, known: Float64[np.ndarray, "t k"]) -> dict[str, Float64[np.ndarray, "t m"]]:
        """Values of all functions, by column and for the calendar."""
        values = {}
        for name, column in zip(self.columns, known.T, strict=True):
            if name in self.categories:
                values[name] = (column[:, None] == np.array(self.categories[name])).astype(np.float64)
            else:
                values[name] = spline(column.clip(self.limits[name][0], self.limits[name][1]), self.knots[name])
        local = times.tz_localize(None).as_unit("ns")
        clock = (local - local.normalize()).asi8 / DAY
        trend = (times.as_unit("ns").asi8 - self.start) / YEAR
        day, year = harmonics(clock, self.day), harmonics((local.day_of_year + clock) / 365.25, self.year)
        parts = [trend[:, None], day, year]
        if self.weekday:
            days = np.eye(7)[local.day_of_week]
            parts += [days, (days[:, :, None] * day[:, None]).reshape(len(times), -1)]
        parts += [holiday_mark(times, region)[:, None] for region in self.holidays]
        return {**values, CALENDAR: np.hstack(parts)}


def limits_of(values: Float64[np.ndarray, " t"]) -> tuple[float, float]:
    """Least and greatest value that is read of a numeric column with this history."""
    values = values[np.isfinite(values)]
    low, high = (values.min(), values.max()) if len(values) else (0.0, 0.0)
    return float(low - FAR * (high - low)), float(high + FAR * (high - low))


def far_ahead(
    columns: Sequence[str], known: Float64[np.ndarray, "t k"], ahead: Float64[np.ndarray, "h k"]
) -> list[str]:
    """A note on each numeric column that has values ahead outside of `limits_of` its history."""
    notes = []
    for name, past, then in zip(columns, known.T, ahead.T, strict=True):
        low, high = limits_of(past)
        outside = then[(then < low) | (then > high)]
        if len(outside):
            worst = outside[np.abs(outside - (low + high) / 2).argmax()]
            found = f"{len(outside):,} of {len(then):,} rows ahead are far outside its history, such as {worst:g}"
            notes.append(f"column {name}: {found}; it was {np.nanmin(past):g} to {np.nanmax(past):g}; check its unit")
    return notes


def spline(values: Float64[np.ndarray, " t"], knots: Sequence[float]) -> Float64[np.ndarray, "t m"]:
    """Basis of natural cubic splines without its constant: N_1 = x, N_(k+1) = d_k - d_(K-1), in units of the range."""
    if len(knots) < 2:
        return np.zeros((len(values), 0))
    span = knots[-1] - knots[0]
    x, at = (values - knots[0]) / span, (np.array(knots) - knots[0]) / span
    cubes = np.maximum(x[:, None] - at, 0) ** 3
    bends = (cubes[:, :-1] - cubes[:, -1:]) / (at[-1] - at[:-1])
    return np.column_stack([x, bends[:, :-1] - bends[:, -1:]])


def harmonics(turns: Any, n: int) -> Float64[np.ndarray, "t m"]:
    """Cosines and sines of 1 to n times these turns."""
    angles = 2 * np.pi * np.asarray(turns, dtype=np.float64)[:, None] * np.arange(1, n + 1)
    return np.hstack([np.cos(angles), np.sin(angles)])


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """Fitted effects of a panel.

    Args:
        terms: the functions.
        is_ratio: whether effects multiply.
        center, scale: mean and deviation of each function.
        weights: coefficients of each series.
        level, unit: a and u of each series.
        penalty: the penalty that was chosen.
    """

    terms: Terms
    is_ratio: bool
    center: Float64[np.ndarray, " m"]
    scale: Float64[np.ndarray, " m"]
    weights: Float64[np.ndarray, "s m"]
    level: Float64[np.ndarray, " s"]
    unit: Float64[np.ndarray, " s"]
    penalty: float

    @classmethod
    def fit(
        cls,
        times: Sequence[pd.DatetimeIndex],
        known: Sequence[Float64[np.ndarray, "t k"]],
        values: Sequence[Float64[np.ndarray, " t"]],
        terms: Terms,
        *,
        penalty: float | None = None,
    ) -> "Effects":
        """Fit to the rows of each series; those where its value is NaN are left out.

        Args:
            times, known, values: of each series.
            penalty: None: chosen.
        """
        n, pooled = len(values), evenly(len(values), MOST_POOLED)
        observed = np.concatenate([column[np.isfinite(column)] for column in values])
        whole = bool((observed == np.round(observed)).all())
        least = observed.min(initial=np.inf)
        is_ratio = bool(is_amount(least, (observed == 0).sum(), len(observed), whole=whole))
        unit = np.array([_unit(column[np.isfinite(column)], is_ratio=is_ratio) for column in values])

        def rows(s: int) -> tuple[np.ndarray, np.ndarray]:
            """Functions, not standardised, and values of a series in its unit."""
            used = slice(max(len(values[s]) - MOST_ROWS, 0), None)
            return np.hstack([*terms.at(times[s][used], known[s][used]).values()]), values[s][used] / unit[s]

        together = [rows(s) for s in pooled]
        stacked = np.concatenate([x for x, _ in together])
        center, spread = np.nanmean(stacked, axis=0), np.nanstd(stacked, axis=0)
        scale = np.where(spread > 1e-9, spread, np.inf)  # what never changes has no effect

        def standard(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            seen = np.isfinite(y)
            return np.nan_to_num((x[seen] - center) / scale), y[seen]  # a missing value has the mean effect

        together = [(x, y) for x, y in itertools.starmap(standard, together) if len(y)]
        shared, levels = np.zeros(len(center)), np.zeros(len(together))
        within = [x - x.mean(axis=0) for x, _ in together]  # differences between series are levels
        for _ in range(0 if len(together) < 2 else LEVEL_STEPS if is_ratio else 1):
            y = np.concatenate([y / np.exp(level) for (_, y), level in zip(together, levels, strict=True)])
            shared = _solved(np.concatenate(within), y, np.zeros(len(center)), 1.0, is_ratio=is_ratio)[:-1]
            parts = [np.exp(np.minimum(x @ shared, MOST_LOG)) for x in within]
            means = [y.mean() / part.mean() for (_, y), part in zip(together, parts, strict=True)]
            levels = np.log(np.maximum(means, LEAST)) if is_ratio else levels
        if penalty is None:
            choosing = [together[place] for place in evenly(len(together), MOST_CHOOSING)]
            penalty = min(PENALTIES, key=lambda each: _left_out(choosing, shared, each, is_ratio=is_ratio))
        weights = np.empty((n, len(center) + 1))
        for s in range(n):
            weights[s] = _solved(*standard(*rows(s)), shared, penalty, is_ratio=is_ratio)
        return cls(
            terms=terms,
            is_ratio=is_ratio,
            center=center,
            scale=scale,
            weights=weights[:, :-1],
            level=weights[:, -1],
            unit=unit,
            penalty=penalty,
        )

    def contributions(
        self, s: int, times: pd.DatetimeIndex, known: Float64[np.ndarray, "t k"]
    ) -> dict[str, Float64[np.ndarray, " t"]]:
        """Part of the level, of each column and of the calendar in the rows of series s; their sum is the effect.

        Factors f_c of a level l become the summands l (F - 1) log f_c / log F with F their product (B. W. Ang,
        "The LMDI approach to decomposition analysis", 2005), which add up to l F - l.
        """
        level, parts = self._parts(s, times, known)
        if not self.is_ratio:
            return {LEVEL: level, **{name: self.unit[s] * part for name, part in parts.items()}}
        total = sum(parts.values(), np.zeros(len(times)))
        change = np.where(total == 0, 1.0, np.expm1(total) / np.where(total == 0, 1.0, total))
        return {LEVEL: level, **{name: level * change * part for name, part in parts.items()}}

    def _parts(self, s: int, times: pd.DatetimeIndex, known: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """The level, and f of each column and of the calendar: shares of the unit, or logarithms of factors."""
        terms, done, parts = self.terms.at(times, known), 0, dict[str, np.ndarray]()
        level = self.unit[s] * np.full(len(times), np.exp(self.level[s]) if self.is_ratio else self.level[s])
        for name, columns in terms.items():
            own = slice(done, done := done + columns.shape[1])
            parts[name] = np.nan_to_num((columns - self.center[own]) / self.scale[own]) @ self.weights[s, own]
        return level, parts

    def predict(self, s: int, times: pd.DatetimeIndex, known: Float64[np.ndarray, "t k"]) -> Float64[np.ndarray, " t"]:
        """The effect in the rows of series s, an expected value."""
        level, parts = self._parts(s, times, known)
        if self.is_ratio:
            return np.stack([level, *map(np.exp, parts.values())]).prod(axis=0)
        return np.stack([level, *(self.unit[s] * part for part in parts.values())]).sum(axis=0)

    def remainder(self, s: int, values: Float64[np.ndarray, " t"], effect: Float64[np.ndarray, " t"]) -> np.ndarray:
        """What is left of the values of series s: a ratio (NaN where nothing was expected), or a difference."""
        if self.is_ratio:
            left = np.where(effect > LEAST * self.unit[s], values / np.maximum(effect, 1e-300), np.nan)
        else:
            left = values - effect
        return left if np.isfinite(left).any() else np.full(len(values), float(self.is_ratio))


def evenly(n: int, most: int) -> list[int]:
    """At most `most` of n places, evenly spaced."""
    return sorted({*np.linspace(0, n - 1, min(n, most)).round().astype(int).tolist()})


def _unit(values: Float64[np.ndarray, " t"], *, is_ratio: bool) -> float:
    """Mean of amounts, deviation of others; 1 where that is zero."""
    size = (values.mean() if is_ratio else values.std()) if len(values) else 0.0
    return float(size) if size > 0 else 1.0


def _left_out(
    series: Sequence[tuple[np.ndarray, np.ndarray]], shared: np.ndarray, penalty: float, *, is_ratio: bool
) -> float:
    """Mean deviance per row in blocks that were left out of the fit."""
    losses = []
    for x, y in series:
        every = -(-len(y) // BLOCK_ROWS)
        x, y = x[::every], y[::every]
        for block in np.array_split(np.arange(len(y)), BLOCKS):
            kept = np.delete(np.arange(len(y)), block)
            if not len(block) or not len(kept):
                continue
            weights = _solved(x[kept], y[kept], shared, penalty / every, is_ratio=is_ratio)
            eta = x[block] @ weights[:-1] + weights[-1]
            loss = np.exp(np.minimum(eta, MOST_LOG)) - y[block] * eta if is_ratio else (y[block] - eta) ** 2
            losses.append(loss.mean())
    return float(np.mean(losses)) if losses else 0.0


MOST_LOG = 30.0
"""Largest logarithm of an effect while it is fitted."""


def _solved(x: np.ndarray, y: np.ndarray, prior: np.ndarray, penalty: float, *, is_ratio: bool) -> np.ndarray:
    """Coefficients, the level last, that minimise the deviance + penalty |b - prior|^2, by Newton's method; without
    rows the prior."""
    if not len(y):
        return np.append(prior, 0.0)
    x = np.column_stack([x, np.ones(len(y))])
    prior = np.append(prior, 0.0)
    denied = np.append(np.full(len(prior) - 1, penalty), 1e-6)
    if not is_ratio:
        return prior + np.linalg.solve(x.T @ x + np.diag(denied), x.T @ (y - x @ prior))
    start = np.exp(np.clip(x @ prior, -MOST_LOG, MOST_LOG)).mean()
    b = prior + np.append(np.zeros(len(prior) - 1), np.log(max(y.mean(), 1e-3) / start))
    for _ in range(30):
        mean = np.exp(np.minimum(x @ b, MOST_LOG))
        slope = x.T @ (y - mean) - denied * (b - prior)
        step = np.linalg.solve((x.T * mean) @ x + np.diag(denied), slope)
        change = np.abs(x @ step).max()
        b = b + step * min(1.0, 2 / max(change, 1e-300))  # a step from far away may go too far
        if change < 1e-6:
            break
    return b
