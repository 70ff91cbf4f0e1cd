"""Sums of forecasts over series and periods, with intervals that are right for the sum.

Errors of neighbouring steps and of series that sell in one town are correlated: with independent errors the interval of
a sum is too narrow, with the sum of quantiles too wide. So the future is sampled jointly. At step i series s has

  z[s, i] = common[i] + own[s, i]

normal numbers whose correlations by lag, within a series and between two, are those of errors of earlier forecasts in
units of their intervals, and the usual ones (`WITHIN`, `BETWEEN`) where these are few. At each step the k-th largest of
the quantiles of a series is in the path whose z is the k-th largest. So each value keeps the distribution of its
forecast, and the paths have the order of z (a Gaussian copula; R. Schefzik et al. 2013, "Uncertainty Quantification in
Complex Simulation Models Using Ensemble Copula Coupling").

The value of a sum is the mean of its paths, which is the sum of the means of the forecasts. So parts and totals agree,
and a total lies in its interval, where a sum of medians of skewed counts is too low. A series that is the sum of all
others, such as the row of totals of an export, is not counted again.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64

from informer.base.errors import InputError, counted, listed
from informer.base.files import expanded, write_atomic
from informer.base.quantiles import bands_by_level
from informer.checkpoint.paths import PATHS, TOTALS, TOTALS_FACTS
from informer.config.commands import PERIODS, WithSums
from informer.config.conversion import without_nan
from informer.config.data import DatasetConfig
from informer.data.scaler import are_constant
from informer.networks.models.zero import at_level
from informer.read.columns import label
from informer.read.dialect import Dialect
from informer.read.frequency import lasting
from informer.read.series import Series, column_values, series_codes, table_of_file
from informer.scoring.forecasts import Forecasts, in_zone

LEVELS = (20, 40, 60, 80, 95)
"""Levels of the intervals, in percent, that give the distribution of a forecast."""
WITHIN, BETWEEN, USUAL_BLOCKS = 0.4, 0.1, 4
"""Usual correlation of errors of two steps of a series (the mean over the 35 tasks of `scripts/real_files.py`, where it
is 0.1 to 0.7), its share between series, and the horizons of errors that count as much as these."""
FARTHEST = 4.0
"""Largest error, in units of the interval, for correlations."""
N_PATHS, MOST_WRITTEN = 500, 50_000_000
"""Least number of paths, and the largest number of values of their table."""
TOTAL = "total"
"""Name of the sum over all parts."""
LEAST_CONSTANT = 8
"""Rows from which on a series that has never changed is certain not to."""
LEAST_SUMS = 3
"""Rows, and parts, from which on a series that is the sum of the others is no part of a total."""

Tables = Float64[np.ndarray, "o s k h n"]
"""Quantiles at k levels by origin, series, step and column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums of forecasts.

    Args:
        table: a row per group, period and column, see `docs/recipes/forecasts.md`.
        paths: a row per path, series, column and step; None unless asked for.
        facts: `headline`, the largest sum with its intervals, and how such sums were forecast from earlier rows; there
            the `bias` of each column, sum of forecasts / sum of actual values - 1, NaN if not known; the `coverage`,
            share of sums inside the interval, in percent, by level; the number `tested` of these sums; and of the
            largest sum its `value` and its `intervals` by level.
        dialect: format of the input, in which the table is written.
    """

    table: pd.DataFrame
    paths: pd.DataFrame | None
    facts: Mapping[str, Any]
    dialect: Dialect

    @property
    def names(self) -> list[str]:
        """Names of the tables."""
        return [*([] if self.table.empty else [TOTALS]), *([] if self.paths is None else [PATHS])]

    def save(self, folder: Path) -> None:
        """Write the tables, and the headline with the scores."""
        write_atomic(folder / TOTALS_FACTS, json.dumps(without_nan({**self.facts}), indent=1) + "\n")
        if not self.table.empty:
            mark, decimal = self.dialect.parsed_separator, self.dialect.decimal
            text = self.table.to_csv(index=False, sep=mark, decimal=decimal, float_format="%.10g")
            write_atomic(folder / TOTALS, text.encode(self.dialect.encoding))
        if self.paths is not None:
            write_atomic(folder / PATHS, self.paths.to_parquet(index=False))


def cube(
    panel: Sequence[Series], columns: Sequence[str], paths: Forecasts, values: Float64[np.ndarray, "p h"]
) -> Float64[np.ndarray, "o s h n"]:
    """Values of paths by origin, series, step and column; NaN without a path."""
    codes, origins = pd.factorize(paths.keys["origin"], sort=True)
    axes = {"series": [each.name for each in panel], "column": columns}
    place = [codes, *(pd.Index(of).get_indexer(pd.Index(paths.keys[key])) for key, of in axes.items())]
    found = np.full((len(origins), *map(len, axes.values()), values.shape[1]), np.nan)
    ours = np.min(place, axis=0) >= 0
    found[tuple(each[ours] for each in place)] = values[ours]
    return found.swapaxes(2, 3)


def roots_of(
    errors: Float64[np.ndarray, "o s h"], blocks: float
) -> tuple[Float64[np.ndarray, "h h"], Float64[np.ndarray, "h h"]]:
    """Square roots of the covariances over steps of `common` and `own`, from errors in units of intervals at some
    origins, whose horizons cover each other `blocks` times; NaN where an error is not known."""
    h, seen = errors.shape[2], np.isfinite(errors)
    z = np.where(seen, np.clip(errors, -FARTHEST, FARTHEST), 0.0)

    def products(x: np.ndarray) -> np.ndarray:
        return x.reshape(-1, h).T @ x.reshape(-1, h)

    counts = seen.astype(float)
    own, n_own = products(z), products(counts)
    cross, n_cross = products(z.sum(axis=1)) - own, products(counts.sum(axis=1)) - n_own

    def by_lag(sums: np.ndarray, n: np.ndarray) -> np.ndarray:
        return np.array([np.trace(sums, k) / max(np.trace(n, k), 1.0) for k in range(h)])

    lag, share = np.abs(np.subtract.outer(np.arange(h), np.arange(h))), blocks / (blocks + USUAL_BLOCKS)
    within, variance = by_lag(own, n_own), np.trace(own) / max(np.trace(n_own), 1.0) or 1.0
    usual = np.where(np.arange(h) == 0, 1.0, WITHIN)
    between = share * by_lag(cross, n_cross) / variance + (1 - share) * BETWEEN * usual
    within = share * within / variance + (1 - share) * usual
    return _root(between[lag]), _root((within - between)[lag])


def _root(covariance: Float64[np.ndarray, "h h"]) -> Float64[np.ndarray, "h h"]:
    """Square root of the nearest covariance."""
    sizes, vectors = np.linalg.eigh(covariance)
    root: np.ndarray = (vectors * np.sqrt(np.maximum(sizes, 0.0))) @ vectors.T
    return root


def sampled(
    tables: Tables,
    levels: Sequence[float],
    roots: tuple[np.ndarray, np.ndarray],
    floor: Float64[np.ndarray, "s n"],
    rng: np.random.Generator,
    n_paths: int = N_PATHS,
) -> Iterator[Float64[np.ndarray, "o p h n"]]:
    """Paths of each part in turn; those with the same number are joint."""
    shape = tables.shape[-1], n_paths, tables.shape[-2]
    unit, (common, own) = np.eye(len(levels)), roots
    weights = np.stack([at_level(unit, (k + 0.5) / n_paths, levels) for k in range(n_paths)])
    shared = rng.normal(size=shape) @ common
    for part, least in zip(tables.swapaxes(0, 1), floor, strict=True):
        ranks = (shared + rng.normal(size=shape) @ own).argsort(axis=1).argsort(axis=1)
        values = np.einsum("pk,okhn->onph", weights, part)
        paths = np.take_along_axis(values, ranks[None], axis=2).transpose(0, 2, 3, 1)
        yield np.maximum(paths, least)


def interval(sums: Float64[np.ndarray, " p *k"], level: int) -> Float64[np.ndarray, " 2 *k"]:
    """Ends of the interval of a level in percent."""
    ends: np.ndarray = np.quantile(sums, [0.5 - level / 200, 0.5 + level / 200], axis=0)
    return ends


def totals(
    panel: Sequence[Series],
    forecasts: Forecasts,
    settings: WithSums,
    held: Forecasts | None,
    dataset: DatasetConfig,
    path: str,
    *,
    main: str | None = None,
    seed: int = 0,
) -> Totals:
    """Sums of forecasts.

    Args:
        panel, forecasts: the series to sum, and their forecasts with intervals of LEVELS; without one in a column that
            varies, its sums have none.
        settings: sums, levels and paths.
        held: earlier forecasts with intervals of LEVELS; those from the later half of the origins are scored with the
            errors of the others. None: there are none.
        dataset, path: of the file.
        main: the column whose total is the headline; None: the last one.
        seed: of the paths.
    """
    if of_columns := len(panel) == 1 < len(forecasts.columns):  # each is a series, with TOTAL as its column
        one = partial(replace, panel[0], columns=(TOTAL,), series_col="column")
        panel = [one(name=name, values=column_values(panel[0], [name])) for name in forecasts.columns]
        forecasts, held = _with_columns_as_series(forecasts), held and _with_columns_as_series(held)
    rng, columns, n = np.random.default_rng(seed), forecasts.columns, len(forecasts.columns)
    times, rows = _on_one_grid(panel, forecasts)
    is_part, bands = ~_are_sums(panel, columns), bands_by_level(forecasts.bands)

    def at_times(values: Float64[np.ndarray, "p h"]) -> Float64[np.ndarray, "s h n"]:
        return np.stack([values[s * n : (s + 1) * n, steps].T for s, steps in enumerate(rows)])

    center = at_times(forecasts.mean)
    if (n_written := settings.paths or 0) * center.size > MOST_WRITTEN:
        raise InputError(
            f"paths={n_written}: expected at most {MOST_WRITTEN // center.size} paths of {center.size} values"
        )
    known = [at_times(forecasts.bands[name]) for name in bands.values()]
    table = np.stack(known or [center, center], axis=1)
    unknown = np.isnan(table).any(axis=1) | (not known)
    table = np.where(unknown[:, None], center[:, None], table)
    past = [column_values(each, columns) for each in panel]
    low, high = (np.stack([end.reduce(each) for each in past]) for end in (np.fmin, np.fmax))
    n_seen = np.stack([np.isfinite(each).sum(axis=0) for each in past])
    unknown &= ~(are_constant(low, high) & (n_seen >= LEAST_CONSTANT))[:, None]
    floor = np.where((low >= 0) & (table.min(axis=(1, 2)) >= 0), 0.0, -np.inf)
    tested = held if known else None
    facts, roots = _scored(panel, columns, tested, settings.intervals, is_part, floor, rng, len(times))
    n_paths, written = max(N_PATHS, n_written), np.empty((n_written, *center.shape))
    # of each sum the parts and the steps in it; the first is the sum of all
    of = [(is_part[None].astype(float), np.ones((1, len(times))))]
    tables, keys = list[pd.DataFrame](), dict[str, None]()
    for names in settings.lists:
        cells = [] if of_columns else [name for name in names if name not in PERIODS]
        groups, members = _groups(group_cells(panel, cells, dataset, path), is_part, total=settings.total)
        periods, steps = _periods(times, names)
        of.append((members, steps))
        tables.append(groups.merge(periods, how="cross").merge(pd.DataFrame({"column": columns}), how="cross"))
        keys |= dict.fromkeys(cells)
    sums = [np.zeros((n_paths, len(members), len(steps), center.shape[2])) for members, steps in of]
    for s, (paths,) in enumerate(sampled(table[None], [*bands] or [0.4, 0.6], roots, floor, rng, n_paths)):
        written[:, s] = paths[:n_written]
        for own, (members, steps) in zip(sums, of, strict=True):
            own += np.einsum("g,phn,qh->pgqn", members[:, s], paths, steps)
    for each, own, (members, steps) in zip(tables, sums[1:], of[1:], strict=True):
        lacking = np.einsum("gs,shn,qh->gqn", members, unknown.astype(float), steps).ravel() > 0
        each["value"] = own.mean(axis=0).ravel()
        for level in settings.intervals:
            for name, end in zip(("lo", "hi"), interval(own, level), strict=True):
                each[f"{name}{level}"] = np.where(lacking, np.nan, end.ravel())
        for bound in settings.above:
            each[f"above_{bound:g}"] = np.where(lacking, np.nan, 100 * (own > bound).mean(axis=0).ravel())
    joint = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
    joint = joint.reindex(columns=[*keys, *joint.columns.drop([*keys])]).fillna(dict.fromkeys(keys, TOTAL))
    place = columns.index(main) if main in columns else -1
    whole, is_known = sums[0][:, 0, 0, place], not unknown[is_part][..., place].any()
    facts["value"] = float(whole.mean())
    facts["intervals"] = {level: interval(whole, level).tolist() for level in settings.intervals if is_known}
    span = lasting(len(times), panel[0].frequency)
    by_part = [(each.name, bool(known)) for each, known in zip(panel, is_part, strict=True)]
    facts["headline"] = _headline(facts, by_part, columns[place], settings.intervals, span, of_columns=of_columns)
    all_paths = None
    if n_written:  # a row per path, part and step, with a column per target
        p, s, h = (each.ravel() for each in np.indices(written.shape[:3]))
        values = {name: written[..., place].ravel() for place, name in enumerate(columns)}
        of_parts = pd.DataFrame([each.keys for each in panel]).iloc[s].reset_index(drop=True)
        all_paths = pd.concat(
            [pd.DataFrame({"path": p + 1}), of_parts, pd.DataFrame({"time": times[h], **values})], axis=1
        )
    return Totals(table=joint, paths=all_paths, facts=facts, dialect=panel[0].dialect)


def _with_columns_as_series(paths: Forecasts) -> Forecasts:
    return replace(paths, keys=paths.keys.assign(series=paths.keys["column"], column=TOTAL))


def _scored(
    panel: Sequence[Series],
    columns: Sequence[str],
    held: Forecasts | None,
    levels: Sequence[int],
    is_part: Bool[np.ndarray, " s"],
    floor: Float64[np.ndarray, "s n"],
    rng: np.random.Generator,
    horizon: int,
) -> tuple[dict[str, Any], tuple[np.ndarray, np.ndarray]]:
    """Facts about sums over all parts and steps from the later origins, see `Totals`; and the roots of all errors.

    Parts without a forecast at an origin are left out of its sums, origins at which most parts are.
    """
    if held is None or held.mean.shape[1] < horizon:
        facts: dict[str, Any] = {"bias": dict.fromkeys(columns, np.nan), "coverage": {}, "tested": 0}
        return facts, roots_of(np.full((1, 1, horizon), np.nan), 0.0)
    held = held.part(slice(None), horizon)  # the day of a clock change has fewer steps
    bands = bands_by_level(held.bands)
    of = partial(cube, panel, columns, held)
    center, actual, tables = of(held.mean), of(held.actual), np.stack([of(held.bands[x]) for x in bands.values()], 2)
    z = [NormalDist().inv_cdf(level) for level in (min(bands), max(bands))]
    unit = (tables[:, :, -1] - tables[:, :, 0]) / (z[1] - z[0])
    errors = np.moveaxis((actual - center) / np.where(unit > 0, unit, np.nan), 3, 0)[:, :, is_part]
    origins = held.keys["origin"].to_numpy()
    spanned = (origins.max() - origins.min()) / (held.times[0, -1] - origins[0])

    def roots(some: slice) -> tuple[np.ndarray, np.ndarray]:
        part = np.concatenate([*errors[:, some]])
        return roots_of(part.reshape(-1, *errors.shape[2:]), min(1 + spanned, len(center)) * len(part) / len(center))

    half = (len(center) + 1) // 2
    known = np.isfinite(tables.sum(axis=2) + actual).all(axis=(2, 3)) & is_part
    usable = half + np.flatnonzero(2 * known[half:].sum(axis=1) > is_part.sum())
    tables, actual, known = np.nan_to_num(tables[usable]), np.nan_to_num(actual[usable]), known[usable, :, None, None]
    happened = (known * actual).sum(axis=(1, 2))
    sums = np.zeros((len(usable), N_PATHS, len(columns)))
    if len(usable):
        for s, paths in enumerate(sampled(tables, [*bands], roots(slice(half)), floor, rng)):
            sums += known[:, s] * paths.sum(axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        bias = (sums.mean(axis=1) - happened).sum(axis=0) / np.abs(happened.sum(axis=0))
    coverage = dict[int, float]()
    for level in levels if len(usable) else ():
        low, high = interval(sums.swapaxes(0, 1), level)
        coverage[level] = 100 * float(((low <= happened) & (happened <= high)).mean())
    biases = dict(zip(columns, bias.tolist(), strict=True))
    return {"bias": biases, "coverage": coverage, "tested": len(usable)}, roots(slice(None))


def _headline(
    facts: Mapping[str, Any],
    parts: Sequence[tuple[str, bool]],
    column: str,
    levels: Sequence[int],
    span: str,
    *,
    of_columns: bool,
) -> str:
    """The largest sum, and how such sums were forecast from earlier rows; `parts` are names, and whether they count."""
    of = [name for name, counts in parts if counts]
    what = f"sum of {listed(of, 3)}" if of_columns else f"{column} of {len(of)} series" if len(of) > 1 else column
    ends = {level: "{:,.6g} to {:,.6g}".format(*pair) for level, pair in facts["intervals"].items()}
    shown = ", ".join(f"{level} %: {ends.get(level, 'not known, since some forecasts have none')}" for level in levels)
    line = f"{what}, {span}: {facts['value']:,.6g}" + (f" ({shown})" if shown else "")
    if len(of) < len(parts):
        line += f"; {listed([name for name, counts in parts if not counts])} is the sum of the others, so is left out"
    if not facts["tested"]:
        return f"{line}; not tested, since there are too few earlier rows"
    bias = facts["bias"][column]
    covered = "".join(f", {level} % intervals covered {share:.0f} %" for level, share in facts["coverage"].items())
    off = f"were forecast {100 * abs(bias):.1f} % too {'high' if bias >= 0 else 'low'}"
    error = off if np.isfinite(bias) else "add up to 0"
    return f"{line}; {counted(facts['tested'], 'such total')} from earlier rows {error}{covered}"


def _on_one_grid(panel: Sequence[Series], forecasts: Forecasts) -> tuple[pd.DatetimeIndex, list[np.ndarray]]:
    """Times of the series that ends last, and the steps of each series at them."""
    n, last = len(forecasts.columns), max(range(len(panel)), key=lambda s: panel[s].timestamps[-1])
    of = [in_zone(row[there], forecasts.zone) for row, there in zip(forecasts.times, forecasts.are_steps, strict=True)]
    times = of[last * n]
    at = [each.get_indexer(times) for each in of[::n]]
    if lacking := [series.name for series, steps in zip(panel, at, strict=True) if (steps < 0).any()]:
        raise InputError(
            f"total: expected forecasts of all series up to {times[-1]}, found none of {listed(lacking)}, which end "
            f"earlier; set until={panel[last].frequency.text(times[-1]).replace(' ', 'T')} to forecast all up to there"
        )
    return times, at


def _are_sums(panel: Sequence[Series], columns: Sequence[str]) -> Bool[np.ndarray, " s"]:
    """Which series are the sum of all others, in every row that all histories have."""
    last = min(each.timestamps[-1] for each in panel)
    ends = [int(each.timestamps.searchsorted(last, side="right")) for each in panel]
    n = min(ends)
    history = np.stack([column_values(each, columns)[end - n : end] for each, end in zip(panel, ends, strict=True)])
    rows = history[:, np.isfinite(history).all(axis=(0, 2))]
    if rows.shape[1] < LEAST_SUMS or len(rows) < LEAST_SUMS:
        return np.zeros(len(rows), dtype=bool)
    whole = rows.sum(axis=0)
    return np.isclose(2 * rows, whole, rtol=1e-5, atol=0).all(axis=(1, 2)) & rows.any(axis=(1, 2))


def group_cells(panel: Sequence[Series], names: Sequence[str], dataset: DatasetConfig, path: str) -> pd.DataFrame:
    """The cells of each series in these columns: keys of the series, or columns of the file.

    Raises:
        InputError: no such column, or one that changes within a series.
    """
    cells = pd.DataFrame([each.keys for each in panel], index=range(len(panel)))
    if not names:
        return cells[[]]
    series = [each.name for each in panel]
    if from_file := [name for name in names if name not in cells]:
        where = expanded(path)
        if dataset.series_col is None or where.is_dir() or not where.exists():
            raise InputError(f"aggregate: expected columns that name the series, or periods, found {listed(from_file)}")
        table = table_of_file(where, replace(dataset, exclude=[]))
        codes, known = series_codes(table, dataset.series_col)
        for name in from_file:
            if name not in table.columns:
                raise table.missing("aggregate", name)
            firsts = table.frame.groupby(codes)[name].agg(["first", "nunique"])
            if (changing := firsts["nunique"] > 1).any():
                raise InputError(
                    f"aggregate={name}: expected a column that is constant within each series, found "
                    f"{firsts['nunique'].max()} values in {known[int(changing.argmax())]}"
                )
            by_name = {known[code]: label(cell) for code, cell in zip(firsts.index, firsts["first"], strict=True)}
            cells[name] = [by_name.get(each, "") for each in series]
    return cells[list(names)]


def _groups(
    cells: pd.DataFrame, parts: Bool[np.ndarray, " s"], *, total: bool
) -> tuple[pd.DataFrame, Float64[np.ndarray, "g s"]]:
    """Cells of each group of series, and the series in it; the last is the sum over these `parts`, if asked for, or
    without cells."""
    groups = cells.drop_duplicates() if len(cells.columns) else cells.iloc[:0]
    members = [(cells == group).all(axis=1).to_numpy().astype(np.float64) for _, group in groups.iterrows()]
    if total or not len(cells.columns):
        groups = pd.concat([groups, pd.DataFrame(TOTAL, index=[0], columns=cells.columns)])
        members.append(parts.astype(np.float64))
    return groups, np.stack(members)


def _periods(times: pd.DatetimeIndex, names: Sequence[str]) -> tuple[pd.DataFrame, Float64[np.ndarray, "q h"]]:
    """First and last time and number of rows of each sum over steps, and the steps in it: each step and the whole
    horizon, or with a period the steps in each."""
    period = next((name for name in names if name in PERIODS), None)
    if period is None:
        steps = np.concatenate([np.eye(len(times)), np.ones((1, len(times)))])
    else:
        codes = pd.factorize(times.tz_localize(None).to_period(PERIODS[period]))[0]
        steps = (codes == np.arange(codes.max() + 1)[:, None]).astype(float)
    bounds = [(times[np.flatnonzero(one)[0]], times[np.flatnonzero(one)[-1]], int(one.sum())) for one in steps]
    return pd.DataFrame(bounds, columns=["from", "to", "rows"]), steps
