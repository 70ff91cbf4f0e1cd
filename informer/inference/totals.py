"""Sums of forecasts over series and periods, with intervals that are right for the sum.

Errors of neighbouring steps and of series that sell in one town are correlated: with independent errors the interval of
a sum is too narrow, with the sum of quantiles too wide. So the future is sampled jointly: a path is the forecast of all
series plus one whole block of held-out errors, those of all series at all steps from one origin (a block bootstrap of
residuals; R. Hyndman and G. Athanasopoulos, "Forecasting: Principles and Practice", sections 5.5 and 11.3). Errors are
taken on the transformed scale, relative to the variation of the history, as intervals of single values are.

The forecast of a sum is the sum of the forecasts (bottom-up), so that parts and totals agree. A series that is the sum
of all others, such as the row of totals of an export, is not counted again.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from informer.base.errors import InputError, counted, listed
from informer.base.files import expanded, write_atomic
from informer.checkpoint.paths import PATHS, TOTALS, TOTALS_FACTS
from informer.config.commands import PERIODS, ForecastConfig
from informer.config.conversion import without_nan
from informer.config.data import DatasetConfig
from informer.data.dataset import Data
from informer.data.scaler import powered
from informer.data.windows import Windows
from informer.inference.model import TrainedModel
from informer.inference.zero import ZeroModel
from informer.members.network import ForecastModel
from informer.read.columns import label
from informer.read.frequency import lasting
from informer.read.series import Series, column_values, series_codes, table_of_file
from informer.scoring.backtest import BATCH, Member, backtest
from informer.scoring.forecasts import Forecasts, in_utc, in_zone, joined
from informer.scoring.intervals import differences

Panel = Float64[np.ndarray, "w s h n"]
Cubes = Sequence[Float64[np.ndarray, "_ s _ n"]]
"""Forecasts, actual values and scale by origin, series, step and column."""

Held = tuple[Forecasts, int]
"""Forecasts from common origins that the model was not fitted on, whose scale is the usual size of the errors at the
origin, from the variation of the history; and the number of origins whose horizons do not overlap."""

Fits = Iterable[tuple[ForecastModel, Windows]]
"""Models, and windows that each was not fitted on; a model may change when the next is taken."""

MOST_VALUES, MOST_ORIGINS, MOST_TESTED = 1 << 24, 512, 64
"""Maximum number of held-out values; of origins of blocks; and of origins on which totals are scored."""
MOST_WRITTEN = 50_000_000
"""Maximum number of values of the table of paths."""
LEAST_PATHS, MOST_UNTRAINED = 200, 16
"""Least number of paths; origins of forecasts without training."""
TOTAL = "total"
"""Name of the sum of the columns of a single series."""
LEAST_SUMS = 3
"""Rows, and parts, from which on a series that is the sum of the others is no part of a total."""


def cubes_of(paths: Forecasts, names: Sequence[str], columns: Sequence[str], *, of_columns: bool = False) -> Cubes:
    """Forecasts, actual values and scale by origin, series, step and column; NaN without a forecast of the series from
    an origin. `of_columns`: of a single series with its columns in place of series, and TOTAL as column."""
    codes, origins = pd.factorize(paths.keys["origin"], sort=True)
    keys = paths.keys.assign(series=paths.keys["column"], column=TOTAL) if of_columns else paths.keys
    axes = {"series": names, "column": columns}
    place = (codes, *(pd.Index(of).get_indexer(pd.Index(keys[key])) for key, of in axes.items()))
    found = list[np.ndarray]()
    for values in (paths.mean, paths.actual, paths.scale[:, None]):
        cube = np.full((len(origins), len(names), len(columns), values.shape[1]), np.nan)
        cube[place] = values
        found.append(cube.swapaxes(2, 3))
    return found


def errors_of(cubes: Cubes, power: Float64[np.ndarray, "s n"], rng: np.random.Generator) -> Panel:
    """Errors on the transformed scale in units of the origin; a block with missing values is that of the series at
    another origin, and 0 for a series without any."""
    forecast, actual, units = cubes
    errors = (powered(actual, power[:, None]) - powered(forecast, power[:, None])) / units
    for own in errors.swapaxes(0, 1):
        lacks = np.isnan(own).any(axis=(1, 2))
        if lacks.all():
            own[...] = np.nan_to_num(own)
        elif lacks.any():
            own[lacks] = own[rng.choice(np.flatnonzero(~lacks), lacks.sum())]
    return errors


def sample_paths(
    center: Float64[np.ndarray, "s h n"],
    units: Float64[np.ndarray, "s n"],
    errors: Panel,
    power: Float64[np.ndarray, "s n"],
    chosen: Int[np.ndarray, " p"],
    floor: Float64[np.ndarray, "s n"],
) -> Float64[np.ndarray, "p s h n"]:
    """Joint paths: the forecast plus the blocks of errors of the chosen origins.

    Args:
        center: the forecast.
        units: usual size of the errors after the history of this forecast.
        errors, power: see `errors_of`.
        chosen: origins of the blocks.
        floor: least values.
    """
    exponent = power[:, None]
    moved = powered(center, exponent) + errors[chosen, :, : center.shape[1]] * units[:, None]
    paths = powered(moved, 1 / exponent)
    return np.maximum(paths, floor[:, None])


def interval(
    sums: Float64[np.ndarray, " p *k"], center: float | Float64[np.ndarray, " *k"], level: int, blocks: int
) -> Float64[np.ndarray, " 2 *k"]:
    """Ends of the interval of a level in percent. As in conformal intervals, (n + 1) level / n of the paths are inside
    with errors of n origins whose horizons do not overlap, and there is none (NaN) where that is more than all. The
    forecast `center` is inside, also if nearly all errors have one sign."""
    if blocks < level / (100 - level):
        return np.full((2, *sums.shape[1:]), np.nan)
    inside = level / 100 * (blocks + 1) / blocks
    low, high = np.quantile(sums, [(1 - inside) / 2, (1 + inside) / 2], axis=0)
    return np.stack([np.minimum(low, center), np.maximum(high, center)])


def held_out(model: TrainedModel, data: Data, fits: Fits, names: Sequence[str]) -> Held:
    """Forecasts of held-out windows.

    Args:
        model: the scored model.
        data: of its run.
        fits: models and windows that these were not fitted on.
        names: of the series to sum.
    """
    panel, h, n = data.panel, data.sizes.pred_len, len(data.targets)
    panel = panel if len(panel) > 1 else [replace(panel[0], name=names[0])]
    is_summed = np.array([each.name in names for each in panel])
    every = max(-(-max(map(len, panel)) // max(min(MOST_VALUES // (len(names) * h * n), MOST_ORIGINS), 1)), 1)
    times = in_utc([each.timestamps for each in panel])
    grid, parts, units = np.unique(times), list[Forecasts](), list[np.ndarray]()
    for forecaster, windows in fits:
        series = windows.series(torch.arange(len(windows))).cpu().numpy()
        origins = np.searchsorted(grid, times[windows.starts.cpu().numpy() + data.sizes.first])
        windows = windows.at(windows.starts[torch.from_numpy((origins % every == 0) & is_summed[series])])
        member = replace(Member.of_model(forecaster), non_negative=model.model.non_negative)
        parts += backtest(member, windows, panel, data.targets)
        positions = list(model.columns.positions(data.targets))
        units += [units_of(model, batch.enc_x[:, :, positions]).ravel() for batch in windows.batches(BATCH)]
    paths = replace(joined(parts), scale=np.concatenate(units))
    return paths, max(paths.keys["origin"].nunique() * every // h, 1)


def powers(model: TrainedModel, data: Data, names: Sequence[str]) -> Float64[np.ndarray, "s n"]:
    """Exponents of the transform of each series and column."""
    rows = {each.name: each.values for each in data.panel}
    first, positions = data.panel[0].values, model.columns.positions(data.targets)
    scalers = [model.scaler.of(name, rows.get(name, first)) for name in names]
    ones = np.ones(len(data.inputs))
    return np.stack([(ones if each.power is None else each.power)[positions] for each in scalers])


def units_of(model: TrainedModel, history: Tensor) -> Float64[np.ndarray, "b n"]:
    """Usual size of the errors after these scaled histories of the targets, from their variation."""
    if model.calibration is None:
        return np.ones((len(history), history.shape[2]))
    variation = model.calibration.variation
    return variation.unit(differences(history, variation.lag))[:, 0].double().cpu().numpy()


def held_out_untrained(model: ZeroModel, panel: Sequence[Series], *, horizon: int) -> Held:
    """Forecasts of the network that comes trained, from earlier rows of the series.

    Raises:
        InputError: the series are too short.
    """
    last = max(panel, key=lambda series: (series.timestamps[-1], len(series)))
    least = max(model.seasons[0] + 1, horizon)
    ends = range(len(last) - horizon, least - 1, -max((len(last) - horizon - least) // MOST_UNTRAINED, 1))
    times = [last.timestamps[end - 1] for end in reversed(ends[:MOST_UNTRAINED])]
    if not times:
        raise InputError(
            f"total: expected at least {least + horizon} rows to learn errors of totals, found {len(last)}"
        )
    cuts = [
        (s, int(each.timestamps.searchsorted(time, side="right"))) for time in times for s, each in enumerate(panel)
    ]
    cuts = [(s, cut) for s, cut in cuts if cut >= least and cut + horizon <= len(panel[s])]
    paths = model.backtest(cuts, horizon=horizon, panel=panel)[model.kind]
    return replace(paths, scale=np.ones(len(paths))), max(-(-len(times) * -ends.step // horizon), 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums of forecasts.

    Args:
        table: a row per group, period and column, see `docs/recipes/forecasts.md`.
        paths: a row per path, series, column and step; None unless asked for.
        facts: `headline`, the largest sum with its intervals, and how such sums were forecast on the test part; there
            the `bias` of each column, sum of forecasts / sum of actual values - 1, NaN if not known; the `coverage`,
            share of test totals inside the interval, in percent, by level; and the number `tested` of test totals.
    """

    table: pd.DataFrame
    paths: pd.DataFrame | None
    facts: Mapping[str, Any]

    @property
    def names(self) -> list[str]:
        """Names of the tables."""
        return [*([] if self.table.empty else [TOTALS]), *([] if self.paths is None else [PATHS])]

    def save(self, folder: Path) -> None:
        """Write the tables, and the headline with the scores."""
        write_atomic(folder / TOTALS_FACTS, json.dumps(without_nan({**self.facts}), indent=1) + "\n")
        if not self.table.empty:
            write_atomic(folder / TOTALS, self.table.to_csv(index=False, float_format="%.10g"))
        if self.paths is not None:
            write_atomic(folder / PATHS, self.paths.to_parquet(index=False))


def totals(
    panel: Sequence[Series],
    forecasts: Forecasts,
    settings: ForecastConfig,
    held: Sequence[Held],
    dataset: DatasetConfig,
    path: str,
    *,
    units: Float64[np.ndarray, "s n"] | None = None,
    power: Float64[np.ndarray, "s n"] | None = None,
    non_negative: Sequence[int] = (),
    main: str | None = None,
) -> Totals:
    """Sums of forecasts.

    Args:
        panel, forecasts: the series to sum, and their forecasts.
        settings: sums, levels and paths; the seed of the paths.
        held: held-out forecasts, in order; totals of the later half, or the last of several, are scored with the errors
            of the earlier ones.
        dataset, path: of the file.
        units, power: usual size of the errors now, and exponent of the transform, of each series and column; None: 1.
        non_negative: columns that are at least zero.
        main: the column whose total is the headline; None: the last one.
    """
    rng, levels = np.random.default_rng(settings.seed), settings.intervals
    times, center = _on_one_grid(panel, forecasts)
    columns, parts = forecasts.columns, [series.keys for series in panel]
    cells = group_cells(panel, [name for name in settings.aggregate if name not in PERIODS], dataset, path)
    names, ones = [series.name for series in panel], np.ones((len(panel), len(columns)))
    history = _last_rows(panel, columns)
    units, power = (ones if each is None else each for each in (units, power))
    floor = np.where(np.isin(np.arange(len(columns)), non_negative), 0.0, -np.inf) * ones
    if of_columns := len(panel) == 1 and len(columns) > 1:  # its columns are the parts
        units, power, floor = units.T, power.T, floor.T
        names, parts, columns, center = columns, [{"column": name} for name in columns], [TOTAL], center.swapaxes(0, 2)
        history = history.swapaxes(0, 2)
        cells = pd.DataFrame(index=range(len(names)))
    cubes, blocks = (
        [cubes_of(paths, names, columns, of_columns=of_columns) for paths, _ in held],
        [each for _, each in held],
    )
    if len(held) == 1:
        half, blocks = (len(cubes[0][0]) + 1) // 2, [max(blocks[0] // 2, 1)] * 2
        cubes = [[each[part] for each in cubes[0]] for part in (slice(half), slice(half, None))]
    is_part = ~_are_sums(history)
    bias, coverage, tested = scores(cubes[0], blocks[0], cubes[-1], levels, power, floor, rng, is_part)
    n_blocks, every = sum(blocks), [*map(np.concatenate, zip(*cubes, strict=True))]
    errors, n_written = errors_of(every, power, rng), settings.paths or 0
    n_paths = max(len(errors), LEAST_PATHS, n_written)
    chosen = rng.permutation(np.resize(np.arange(len(errors)), n_paths))  # each origin as often as the others
    if n_written * center.size > MOST_WRITTEN:
        raise InputError(
            f"paths={n_written}: expected at most {MOST_WRITTEN // center.size} paths of {center.size} values"
        )
    groups, members = _groups(cells, is_part if settings.total or not len(cells.columns) else None)
    periods, steps = _periods(times, settings.aggregate)
    sums, whole, written = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
    for some in np.array_split(chosen, -(-n_paths * center.size // MOST_VALUES)):
        paths = sample_paths(center, units, errors, power, some, floor)
        sums.append(np.einsum("gs,pshn,qh->pgqn", members, paths, steps))
        whole.append(paths[:, is_part].sum(axis=(1, 2)))
        written.append(paths[: max(n_written - sum(map(len, written)), 0)])
    by_path, values = np.concatenate(sums), np.einsum("gs,shn,qh->gqn", members, center, steps)
    rows = product(groups.itertuples(index=False), periods.itertuples(index=False), columns)
    table = pd.DataFrame(
        [(*group, *period, column) for group, period, column in rows],
        columns=[*groups.columns, *periods.columns, "column"],
    ).assign(value=values.ravel())
    for level in levels:
        low, high = interval(by_path, values, level, n_blocks).reshape(2, -1)
        table[f"lo{level}"], table[f"hi{level}"] = low, high
    for bound in settings.above:
        table[f"above_{bound:g}"] = 100 * (by_path > bound).mean(axis=0).ravel()
    place = columns.index(main) if main in columns else -1
    whole_paths, total = np.concatenate(whole)[:, place], center[is_part, :, place].sum()
    ends = {level: interval(whole_paths, total, level, n_blocks) for level in levels}
    of = [name for name, each in zip(names, is_part, strict=True) if each]
    what = f"{columns[place]} of {len(of)} series" if not of_columns else f"sum of {listed(of, 3)}"
    few = f"not known, errors of {n_blocks} horizons are too few"
    shown = ", ".join(
        f"{level} %: {few if np.isnan(low) else f'{low:,.6g} to {high:,.6g}'}" for level, (low, high) in ends.items()
    )
    headline = f"{what}, {lasting(len(times), panel[0].frequency)}: {total:,.6g} ({shown})"
    if len(of) < len(names):
        headline += f"; {listed([name for name in names if name not in of])} is the sum of the others, so is left out"
    if tested:
        covered = "".join(f", {level} % intervals covered {share:.0f} %" for level, share in coverage.items())
        side = "high" if bias[place] >= 0 else "low"
        headline += (
            f"; on the test part {counted(tested, 'such total')} were forecast {100 * abs(bias[place]):.1f} % too "
            f"{side}{covered}"
        )
    all_paths = _paths_table(np.concatenate(written), parts, times, columns) if n_written else None
    biases = dict(zip(columns, bias.tolist(), strict=True))
    facts = {"headline": headline, "bias": biases, "coverage": coverage, "tested": tested}
    has_table = settings.total or settings.aggregate
    return Totals(table=table if has_table else table.iloc[:0], paths=all_paths, facts=facts)


def scores(
    earlier: Cubes,
    blocks: int,
    later: Cubes,
    levels: Sequence[int],
    power: Float64[np.ndarray, "s n"],
    floor: Float64[np.ndarray, "s n"],
    rng: np.random.Generator,
    is_part: Bool[np.ndarray, " s"],
) -> tuple[Float64[np.ndarray, " n"], dict[int, float], int]:
    """Bias of totals over all parts and steps of the later origins, the share of them inside intervals from the earlier
    errors in percent, and their number. Parts without a forecast at an origin are left out of its totals, origins at
    which most parts are."""
    mean, happened, units = later
    known = np.isfinite(mean + happened).all(axis=(2, 3)) & is_part
    usable = np.flatnonzero(2 * known.sum(axis=1) > is_part.sum())
    usable = usable[:: -(-len(usable) // MOST_TESTED) or 1]
    errors, every = errors_of(earlier, power, rng), np.arange(len(earlier[0]))
    sums = np.zeros((2, power.shape[1]))
    inside: dict[int, list[np.ndarray]] = {level: [] for level in levels}
    for w in usable:
        there = known[w]
        actual, forecast = (values[w, there].sum(axis=(0, 1)) for values in (happened, mean))
        sums += [forecast, actual]
        paths = sample_paths(mean[w, there], units[w, there, 0], errors[:, there], power[there], every, floor[there])
        for level in levels:
            low, high = interval(paths.sum(axis=(1, 2)), forecast, level, blocks)
            inside[level] += [] if np.isnan(low).all() else [(low <= actual) & (actual <= high)]
    with np.errstate(divide="ignore", invalid="ignore"):
        bias = (sums[0] - sums[1]) / np.abs(sums[1])
    return bias, {level: 100 * float(np.mean(hits)) for level, hits in inside.items() if hits}, len(usable)


def _on_one_grid(
    panel: Sequence[Series], forecasts: Forecasts
) -> tuple[pd.DatetimeIndex, Float64[np.ndarray, "s h n"]]:
    """Times of the series that ends last, and the forecasts of all series at them."""
    n, last = len(forecasts.columns), max(range(len(panel)), key=lambda s: panel[s].timestamps[-1])
    of = [in_zone(row[there], forecasts.zone) for row, there in zip(forecasts.times, forecasts.are_steps, strict=True)]
    times = of[last * n]
    at = [each.get_indexer(times) for each in of[::n]]
    if lacking := [series.name for series, steps in zip(panel, at, strict=True) if (steps < 0).any()]:
        raise InputError(
            f"total: expected forecasts of all series up to {times[-1]}, found none of {listed(lacking)}, which end "
            f"earlier; set until={panel[last].frequency.text(times[-1]).replace(' ', 'T')} to forecast all up to there"
        )
    return times, np.stack([forecasts.mean[s * n : (s + 1) * n, steps].T for s, steps in enumerate(at)])


def _last_rows(panel: Sequence[Series], columns: Sequence[str]) -> Float64[np.ndarray, "s t n"]:
    """The last rows of all histories, of the same times; none where these end at different ones."""
    n = min(map(len, panel)) if len({each.timestamps[-1] for each in panel}) == 1 else 0
    return np.stack([column_values(each, columns)[len(each) - n :] for each in panel])


def _are_sums(history: Float64[np.ndarray, "s t n"]) -> Bool[np.ndarray, " s"]:
    """Which parts are the sum of all others, in every row of their history that all have."""
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
    cells: pd.DataFrame, parts: Bool[np.ndarray, " s"] | None
) -> tuple[pd.DataFrame, Float64[np.ndarray, "g s"]]:
    """Cells of each group of series, and the series in it; the sum over these `parts` is the last."""
    groups = cells.drop_duplicates() if len(cells.columns) else cells.iloc[:0]
    members = [(cells == group).all(axis=1).to_numpy().astype(np.float64) for _, group in groups.iterrows()]
    if parts is not None:
        groups = pd.concat([groups, pd.DataFrame(TOTAL, index=[0], columns=cells.columns)])
        members.append(parts.astype(np.float64))
    return groups, np.stack(members)


def _periods(times: pd.DatetimeIndex, aggregate: Sequence[str]) -> tuple[pd.DataFrame, Float64[np.ndarray, "q h"]]:
    """First and last time and number of rows of each sum over steps, and the steps in it: each step and the whole
    horizon, or with a period the steps in each."""
    period = next((name for name in aggregate if name in PERIODS), None)
    if period is None:
        steps = np.concatenate([np.eye(len(times)), np.ones((1, len(times)))])
    else:
        codes = pd.factorize(times.tz_localize(None).to_period(PERIODS[period]))[0]
        steps = (codes == np.arange(codes.max() + 1)[:, None]).astype(float)
    bounds = [(times[np.flatnonzero(one)[0]], times[np.flatnonzero(one)[-1]], int(one.sum())) for one in steps]
    return pd.DataFrame(bounds, columns=["from", "to", "rows"]), steps


def _paths_table(
    paths: Float64[np.ndarray, "p s h n"],
    parts: Sequence[Mapping[str, str]],
    times: pd.DatetimeIndex,
    columns: Sequence[str],
) -> pd.DataFrame:
    """A row per path, part and step, with a column per target."""
    n, s, h, _ = paths.shape
    keys = pd.DataFrame(list(parts), index=range(s))
    table = {"path": np.repeat(np.arange(1, n + 1), s * h)}
    table |= {name: np.tile(np.repeat(keys[name].to_numpy(), h), n) for name in keys.columns}
    values = {name: paths[..., place].ravel() for place, name in enumerate(columns)}
    return pd.DataFrame({**table, "time": times[np.tile(np.arange(h), n * s)], **values})
