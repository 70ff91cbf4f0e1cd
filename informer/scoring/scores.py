"""Scores of a model and its baselines on the same paths, kept as sums: as table, JSON and CSV, and in one sentence.

Memory is O(pred_len n), of MASE for each series. All paths have equal weight, in MASE those of a series.
"""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64
from rich.table import Table

from informer.base.errors import counted, listed
from informer.base.files import write_atomic
from informer.checkpoint.paths import BY_SERIES, REPORT
from informer.config.conversion import without_nan
from informer.scoring.backtest import Member
from informer.scoring.bootstrap import Interval, Winner, skill_interval, skill_of, verdict
from informer.scoring.forecasts import Forecasts, Matrix, in_zone
from informer.scoring.metrics import METRICS, RELATIVE, band_cells, scores_table, tidy_csv

SCALED, ORIGINAL = UNITS = ("scaled", "original")
FACTS = ("model", "windows", "metric", "best_baseline", "skill", "verdict", "warning", "problems")
"""Of the scores of all windows, in JSON."""
ROW = ("model", "units", "column", "step", "metric", "value")
_OVER: dict[str, tuple[int, ...]] = {"overall": (-2, -1), "step": (-2,), "column": (-1,)}
"""Axes of sums over which the mean of a view is taken."""
EDGES = np.round(np.linspace(-3.0, 3.0, 61), 10)
"""Bin edges of the histogram of residuals, in scaled units; values outside are counted in the outer bins."""
MOST_WORST, MOST_NAMED, MAX_COLUMNS = 5, 3, 12
"""Series named as the worst, columns named with intervals that are too narrow, and columns with their coverage."""
SHORT, LEAST_VALUES = 10.0, 30
"""Intervals are too narrow if they cover this many points less than their level, on at least so many values."""
SLOTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "hour": lambda times: (times - times.astype("M8[D]")) // np.timedelta64(1, "h"),
    "weekday": lambda times: (times.astype("M8[D]").astype(int) + 3) % 7,
    "month": lambda times: times.astype("M8[M]").astype(int) % 12 + 1,
}
"""Slots of times by which errors are broken down; weekday 0 is Monday, month 1 January."""
_Groups = tuple[Int64[np.ndarray, " p"], Int64[np.ndarray, " _k"], Int64[np.ndarray, " _k"]]
"""Of rows in groups: an order in which those of a group follow one another, where each begins there, and its place."""


@final
class Scores:
    """Sums of the errors of forecasters on the same paths, and what follows from them.

    The first forecaster that is added is the model; the others are what it is compared with.

    Args:
        columns, series: names, in order; a single series is ("",).
        units: units of the scores, the first of which are those of the skill.
        metric: by which forecasters are compared, `mse` or `mae`.
        block: number of neighbouring windows that overlap; block length of the bootstrap.
        axes: names of SLOTS by which scaled errors are broken down, as is the histogram of the model's residuals.
    """

    def __init__(
        self,
        columns: Sequence[str],
        series: Sequence[str] = ("",),
        *,
        units: Sequence[str] = UNITS,
        metric: str = "mse",
        block: int = 1,
        axes: Sequence[str] = (),
    ) -> None:
        self.columns, self.series, self.units = list(columns), list(series), units
        self._index = {"series": pd.Index(self.series), "column": pd.Index(self.columns)}
        self.metric, self.block = metric, block
        self.notes: list[str] = []
        """How the baselines were fitted."""
        self.problems: Sequence[str] = ()
        """Problems of the data, one line each."""
        self.further: dict[str, Any] = {}
        """Further errors as plain containers, saved with the breakdown."""
        self.baselines: Sequence[Member] = ()
        self.windows_of_series = np.zeros(len(self.series), dtype=np.int64)
        # by forecaster and units, then metric: sums and counts [2 columns steps] or [2 series columns steps], and those
        # of pairs [2 series columns]
        self._sums: dict[tuple[str, str], dict[str, np.ndarray]] = defaultdict(dict)
        self._pairs: dict[tuple[str, str], dict[str, np.ndarray]] = defaultdict(dict)
        self._windows: dict[str, list[np.ndarray]] = {}
        self._slots: dict[str, dict[str, np.ndarray]] = {axis: {} for axis in axes}  # [3 slots]: MSE, MAE, count
        self._residual_counts = np.zeros(len(EDGES) - 1, dtype=np.int64)

    def add(self, name: str, paths: Forecasts, more: Mapping[str, Mapping[str, Matrix]] | None = None) -> None:
        """Add paths of a forecaster; those of one series and origin, a window, follow one another.

        Args:
            name: name of the forecaster.
            paths: forecasts and actual values in data units. A forecast that is NaN makes every metric NaN.
            more: further cells of which means are taken, by name of their units and of the metric, such as `coverage`
                of `80`; there may be fewer steps than in the paths. None: the `band_cells`, and WQL is that of
                `Forecasts.levels` alone.
        """
        if more is None:
            more, paths = band_cells(paths), replace(paths, bands={})
        series, column = self.places(paths.keys)
        groups = _groups(column), _groups(series * len(self.columns) + column)
        scaled = paths.scaled()
        lost = np.isnan(paths.mean) & ~np.isnan(paths.actual)
        for units in self.units:
            own = scaled if units == SCALED else paths
            cells = {key: metric.cells(paths if metric.of_series else own) for key, metric in METRICS.items()}
            known = {key: values for key, values in cells.items() if values is not None}
            self._add((name, units), known, own.actual, lost, groups)
        for units, cells_of in more.items():
            self._add((name, units), cells_of, paths.actual, np.zeros_like(lost), groups)
        self._add_windows(name, scaled, series)

    def places(self, keys: pd.DataFrame) -> tuple[Int64[np.ndarray, " k"], Int64[np.ndarray, " k"]]:
        """Places of the series and of the columns of these keys."""
        series, column = (index.get_indexer(pd.Index(keys[key])) for key, index in self._index.items())
        return series, column

    def _add(
        self,
        key: tuple[str, str],
        cells: Mapping[str, Matrix],
        actual: Matrix,
        lost: np.ndarray,
        groups: tuple[_Groups, _Groups],
    ) -> None:
        """Add cells by step of each column, and of each pair of series and column; `groups` are the paths of each."""
        n, n_series, sums, pairs = len(self.columns), len(self.series), self._sums[key], self._pairs[key]
        for name, values in cells.items():
            metric, steps = METRICS.get(name), values.shape[1]
            missing = np.isnan(values) & ~lost[:, :steps]
            weight = np.abs(actual[:, :steps]) if metric is not None and metric.of_sum else np.ones(values.shape)
            if missing.any():
                values, weight = np.where(missing, 0.0, values), np.where(missing, 0.0, weight)
            of_series = metric is not None and metric.of_series
            shape = (n_series, n, steps) if of_series else (n, steps)
            total, by_pair = (
                sums.setdefault(name, np.zeros((2, *shape))),
                pairs.setdefault(name, np.zeros((2, n_series, n))),
            )
            for place, each in enumerate((values, weight)):
                _add_rows(total[place].reshape(-1, steps), each, groups[of_series])
                _add_rows(by_pair[place].reshape(-1, 1), each.sum(axis=1, keepdims=True), groups[True])

    def _add_windows(self, name: str, scaled: Forecasts, series: np.ndarray) -> None:
        """Errors of each window, by which differences are tested, and by slots of time."""
        is_own = name == next(iter(self._windows), name)
        origins = scaled.keys["origin"].to_numpy()
        begins = np.flatnonzero(np.r_[True, (series[1:] != series[:-1]) | (origins[1:] != origins[:-1])])
        sizes = np.diff(begins, append=len(scaled))
        error = scaled.mean - scaled.actual
        known = np.where(np.isnan(scaled.actual), 0.0, error)
        each = (known**2 if self.metric == "mse" else np.abs(known)).mean(axis=1)
        self._windows.setdefault(name, []).append(np.add.reduceat(each, begins) / sizes)
        if is_own:
            self.windows_of_series += np.bincount(series[begins], minlength=len(self.series))
        if self._slots and is_own:
            finite = error[~np.isnan(error)]
            self._residual_counts += np.histogram(np.clip(finite, EDGES[0], EDGES[-1]), bins=EDGES)[0]
        for axis, by_name in self._slots.items():
            count = np.add.reduceat(~np.isnan(error), begins, axis=0, dtype=int)
            observed = count > 0
            local = in_zone(scaled.times[begins][observed], scaled.zone).tz_localize(None)
            slots = SLOTS[axis](local.to_numpy()).astype(int)
            sums = by_name.setdefault(name, np.zeros((3, 32)))
            for place, cells in enumerate((error**2, np.abs(error))):
                means = np.add.reduceat(np.nan_to_num(cells), begins, axis=0)[observed] / count[observed]
                sums[place] += np.bincount(slots, means, minlength=32)
            sums[2] += np.bincount(slots, minlength=32)

    def values(self, name: str, units: str, view: str = "overall") -> dict[str, np.ndarray]:
        """Means by metric: `overall`, of each `step` or `column` over the others, or of each `series` or `pair` of
        series and column."""
        if view in ("series", "pair"):
            pairs = self._pairs[name, units].items()
            return {metric: _mean(metric, each.sum(axis=2) if view == "series" else each) for metric, each in pairs}
        found = {}
        for metric, sums in self._sums[name, units].items():
            total = sums.sum(axis=_OVER[view])
            found[metric] = _mean(metric, total)
            if sums.ndim == 4:  # the mean of each series first
                known = total[1] > 0
                found[metric] = _mean("", np.stack([np.where(known, found[metric], 0.0), known]).sum(axis=1))
        return found

    def overall(self, name: str, units: str = SCALED) -> dict[str, float]:
        """Means over all series, columns and steps."""
        return {metric: float(value) for metric, value in self.values(name, units).items()}

    def count(self, name: str, units: str, metric: str) -> Float64[np.ndarray, "s n"]:
        """Number of values that count, per series and column."""
        return self._pairs[name, units][metric][1]

    def by_window(self, name: str) -> Float64[np.ndarray, " windows"]:
        """Mean squared (or absolute, see `metric`) scaled error of each window, in the order they were added, in which
        missing values are zero: every observed value has equal weight in their mean."""
        return np.concatenate(self._windows[name])

    @property
    def names(self) -> list[str]:
        """Names of the forecasters, the model first."""
        return list(self._windows)

    @property
    def model(self) -> str:
        """Name of the model."""
        return self.names[0]

    @property
    def windows(self) -> int:
        """Number of windows scored."""
        return int(self.windows_of_series.sum())

    @property
    def best_baseline(self) -> str:
        """The baseline with the lowest error."""
        return min(self.names[1:], key=self._error)

    @property
    def skill(self) -> float:
        """`skill_of` the model's error and that of the best baseline."""
        return skill_of(self._error(self.model), self._error(self.best_baseline))

    @cached_property  # seconds for many windows
    def noise(self) -> Interval:
        """95 % interval of the skill by a paired block bootstrap over windows; nan ends with too few windows."""
        return skill_interval(*map(self.by_window, (self.model, self.best_baseline)), block=self.block)

    @property
    def winner(self) -> Winner:
        """Outcome of the comparison with the best baseline."""
        return Winner.of(self.skill, self.noise)

    @property
    def verdict(self) -> str:
        """That outcome in words."""
        error, baseline = f"scaled {self.metric.upper()}", f"{self.best_baseline}, the best baseline"
        return verdict(error, baseline, self.skill, self.noise)

    def _error(self, name: str) -> float:
        return self.overall(name, self.units[0])[self.metric]

    def _bands(self, metric: str) -> list[str]:
        """Names of the model's intervals (`coverage` and `width` of `80`, `q10_q90`) or quantiles (`pinball` of `q10`)
        with some value."""
        own = {units: sums for (name, units), sums in self._pairs.items() if name == self.model}
        groups = [units for units, sums in own.items() if units not in self.units and metric in sums]
        return [units for units in groups if own[units][metric][1].any()]

    @property
    def intervals(self) -> list[str]:
        """Names of the model's intervals."""
        return self._bands("width")

    @property
    def quantiles(self) -> list[str]:
        """Names of the model's quantiles."""
        return self._bands("pinball")

    @property
    def mean_pinball(self) -> float:
        """Pinball loss over all quantiles, scaled; nan without quantiles."""
        losses = [self.overall(self.model, name)["pinball"] for name in self.quantiles]
        return sum(losses) / len(losses) if losses else math.nan

    @property
    def shortfalls(self) -> dict[str, dict[str, float]]:
        """Coverage in percent of the intervals that are too narrow (SHORT), of all columns (the name "") and of
        each."""
        short: dict[str, dict[str, float]] = {}
        for name in self.intervals:
            n, by_column = self.count(self.model, name, "coverage").sum(axis=0), self._covered(name)
            shares = {"": self.overall(self.model, name)["coverage"]} | (by_column if len(self.columns) > 1 else {})
            cells = zip(shares.items(), [n.sum(), *n], strict=False)
            low = {each: share for (each, share), k in cells if k >= LEAST_VALUES and share < nominal(name) - SHORT}
            short |= {name: low} if low else {}
        return short

    @property
    def warning(self) -> str:
        """That intervals are too narrow; empty if they are not."""
        return too_narrow(self.shortfalls)

    @property
    def breakdown(self) -> dict[str, Any]:
        """By axis the slots that occur, and by metric and forecaster one error for each; `residuals`: bin edges and
        counts; and what is `further`."""
        by_time = {}
        for axis, by_name in self._slots.items():
            used = np.flatnonzero(by_name[self.model][2])
            by_metric = {
                metric: {name: (sums[place] / np.maximum(sums[2], 1))[used].tolist() for name, sums in by_name.items()}
                for place, metric in enumerate(("mse", "mae"))
            }
            by_time[axis] = {"slots": used.tolist()} | by_metric
        found = {"residuals": {"edges": EDGES.tolist(), "counts": self._residual_counts.tolist()}}
        return ({"by_time": by_time, **found} if self._slots else {}) | self.further

    def by_series(self) -> pd.DataFrame:
        """One row per series of a panel, column and forecaster, the series with the highest error of the model first.

        Every observed value of a series has equal weight; a series without observed values is left out.

        Columns: series, column (`all`, and each of several), windows, model, mse_scaled, mae_scaled, mae (in data
        units), and for the model skill: 1 - error / error of the best baseline.
        """
        columns = ["all", *(self.columns if len(self.columns) > 1 else [])]

        def means(name: str, units: str, metric: str) -> np.ndarray:
            overall = self.values(name, units, "series")[metric][:, None]
            return np.hstack([overall, self.values(name, units, "pair")[metric]])[:, : len(columns)]

        own, *others = (means(name, SCALED, self.metric) for name in self.names)
        worst = np.argsort(-own[:, 0], kind="stable")
        shown = worst[~np.isnan(own[worst, 0])]
        with np.errstate(divide="ignore", invalid="ignore"):
            skill = 1 - own / np.min(others, axis=0)
        unknown, names = np.full_like(skill, np.nan), [self.series[place] for place in shown]
        keys = pd.MultiIndex.from_product([names, columns, self.names], names=["series", "column", "model"])
        cells = {
            f"{metric}_scaled" if units == SCALED else metric: [means(name, units, metric) for name in self.names]
            for units, metric in ((SCALED, "mse"), (SCALED, "mae"), (ORIGINAL, "mae"))
        } | {"skill": [skill, *([unknown] * len(others))]}
        table = pd.DataFrame({key: np.stack(each, axis=2)[shown].ravel() for key, each in cells.items()}, index=keys)
        table = table.reset_index().replace([np.inf, -np.inf], np.nan)
        table.insert(2, "windows", np.repeat(self.windows_of_series[shown], len(columns) * len(self.names)))
        return table

    def _worst_series(self) -> str:
        """One line: the series with the highest errors, and the number of series for which a baseline is better."""
        table = self.by_series()
        rows = table[(table["model"] == self.model) & (table["column"] == "all")]
        worst = rows[["series", f"{self.metric}_scaled"]].head(MOST_WORST).to_numpy()
        return (
            f"by series (metrics_by_series.csv): highest scaled {self.metric.upper()} for "
            f"{', '.join(f'{name} {error:.3g}' for name, error in worst)}; "
            f"a baseline is better for {int((rows['skill'] < 0).sum())} of {len(rows)}"
        )

    @property
    def remarks(self) -> list[str]:
        """Notes on the scores: how the baselines were fitted, width and coverage of intervals, what MAPE and MASE
        exclude."""
        remarks = list(self.notes)
        if self.quantiles:
            found = {name: self.overall(self.model, name) for name in self.quantiles}
            losses = ", ".join(f"{name} {each['pinball']:.3g}" for name, each in found.items())
            below = ", ".join(f"{name} {each['coverage']:.1f} %" for name, each in found.items())
            remarks.append(f"pinball loss {self.mean_pinball:.4g} in scaled units ({losses}); not above: {below}")
        for name in self.intervals:
            means = self.overall(self.model, name)
            what = f"intervals of {name} %" if name.isdigit() else f"quantiles {name.replace('_', ' to ')}"
            remarks.append(
                f"{what} cover {means['coverage']:.1f} % of actual values ({self._by_column(name)}), "
                f"{means['width']:.3g} wide in scaled units"
            )
        if len(self.series) > 1:
            remarks.append(self._worst_series())
        has_errors = self.count(self.model, ORIGINAL, "mae")
        if zeros := int((has_errors - self.count(self.model, ORIGINAL, "mape")).sum()):
            remarks.append(f"MAPE in original units excludes {zeros} actual values that are zero")
        lacking = ((has_errors > 0) & (self.count(self.model, ORIGINAL, "mase") == 0)).sum(axis=0).tolist()
        if names := [
            name + (f" in {n} of {len(self.series)} series" if len(self.series) > 1 else "")
            for name, n in zip(self.columns, lacking, strict=True)
            if n
        ]:
            remarks.append(f"MASE is undefined for {', '.join(names)}: rows repeat exactly from season to season")
        return remarks

    def _covered(self, interval: str) -> dict[str, float]:
        """Coverage of each column in percent."""
        return dict(zip(self.columns, self.values(self.model, interval, "column")["coverage"].tolist(), strict=True))

    def _by_column(self, interval: str) -> str:
        """Coverage of each column, or the range if there are more than MAX_COLUMNS."""
        covered = {name: share for name, share in self._covered(interval).items() if not math.isnan(share)}
        ordered = sorted(covered, key=covered.__getitem__)
        names, between = (covered, ", ") if len(covered) <= MAX_COLUMNS else ((ordered[0], ordered[-1]), " to ")
        return between.join(f"{name} {covered[name]:.1f} %" for name in names)

    def facts(self) -> dict[str, Any]:
        """What fits on a screen: verdict, and errors and coverage over all windows."""
        return {name: getattr(self, name) for name in FACTS} | {
            "errors": {name: {units: self.overall(name, units) for units in UNITS} for name in self.names},
            "intervals": {name: self.overall(self.model, name) for name in self.intervals},
        }

    def to_dict(self) -> dict[str, Any]:
        """All scores as plain containers."""
        return {
            **{name: getattr(self, name) for name in ("remarks", *FACTS)},
            "skill_interval": list(self.noise),
            "scores": {name: {units: self._means(name, units) for units in UNITS} for name in self.names},
            "intervals": {name: self._means(self.model, name) for name in self.intervals},
            "mean_pinball": self.mean_pinball,
            "quantiles": {name: self._means(self.model, name) for name in self.quantiles},
            "breakdown": self.breakdown,
        }

    def _means(self, name: str, units: str) -> dict[str, Any]:
        by_column = {metric: values.tolist() for metric, values in self.values(name, units, "column").items()}
        columns = [dict(zip(by_column, values, strict=True)) for values in zip(*by_column.values(), strict=True)]
        return {
            "overall": self.overall(name, units),
            "by_step": {metric: values.tolist() for metric, values in self.values(name, units, "step").items()},
            "by_column": dict(zip(self.columns, columns, strict=True)),
        }

    def rows(self) -> Iterator[tuple[str, str, str, str | int, str, float]]:
        """Tidy rows (see `ROW`): over all, then per step (from 1), then per column."""
        groups = [(name, units, units, "") for name in self.names for units in UNITS]
        groups += [
            (self.model, each, SCALED, each if each.isdigit() else f"_{each}")
            for each in [*self.intervals, *self.quantiles]
        ]
        for name, group, units, suffix in groups:
            overall, by_step, by_column = (self.values(name, group, view) for view in _OVER)
            for metric, value in overall.items():
                yield name, units, "all", "all", metric + suffix, float(value)
                for step, each in enumerate(by_step[metric].tolist(), start=1):
                    yield name, units, "all", step, metric + suffix, each
                for column, each in zip(self.columns, by_column[metric].tolist(), strict=True):
                    yield name, units, column, "all", metric + suffix, each

    def to_csv(self) -> str:
        """`rows` with a header."""
        return tidy_csv(ROW, self.rows())

    def save(self, folder: str | Path) -> None:
        """Write `metrics.json`, `metrics.csv` and, for a panel, `metrics_by_series.csv` into `folder`."""
        metrics, rows = (Path(folder) / name for name in REPORT)
        write_atomic(metrics, json.dumps(without_nan(self.to_dict()), indent=2, allow_nan=False) + "\n")
        write_atomic(rows, self.to_csv())
        if len(self.series) > 1:
            write_atomic(Path(folder) / BY_SERIES, self.by_series().to_csv(index=False))

    def table(self) -> Table:
        """Overall scores, the model first, in scaled and in original units."""
        rows = []
        for units in UNITS:
            none = RELATIVE if units == SCALED else ()
            for name in self.names:
                overall = self.overall(name, units)
                rows.append(((units, name), {key: math.nan if key in none else overall[key] for key in overall}))
        title = f"{counted(self.windows, 'window')}, {counted(len(self.columns), 'column')}"
        return scores_table(("units", "model"), rows, self.model, title)


def _groups(places: Int64[np.ndarray, " p"]) -> _Groups:
    order = np.argsort(places, kind="stable")
    firsts = np.flatnonzero(np.diff(places[order], prepend=-1))
    return order, firsts, places[order][firsts]


def _add_rows(total: Float64[np.ndarray, "_ h"], rows: Matrix, groups: _Groups) -> None:
    """Add the sum of each group of rows to the total at its place."""
    order, firsts, places = groups
    total[places] += np.add.reduceat(rows[order], firsts, axis=0)


def _mean(metric: str, sums: np.ndarray) -> np.ndarray:
    """sums[0] / sums[1]; NaN where nothing counts."""
    mean = np.divide(sums[0], sums[1], out=np.full(np.shape(sums[0]), np.nan), where=sums[1] > 0)
    return METRICS[metric].of_mean(mean) if metric in METRICS else mean


def nominal(name: str) -> float:
    """Level in percent of intervals by their name: `80`, or `q10_q90`."""
    low, _, high = name.partition("_")
    return float(high[1:]) - float(low[1:]) if high else float(low)


def too_narrow(short: Mapping[str, Mapping[str, float]]) -> str:
    """A sentence about `Scores.shortfalls`; empty if no interval is too narrow."""
    parts = []
    for name, covered in short.items():
        columns = [f"{column} {share:.0f} %" for column, share in covered.items() if column]
        listing = listed(columns, MOST_NAMED) if "" not in covered else f"{covered['']:.0f} %"
        listing += f" ({listed(columns, MOST_NAMED)})" if columns and "" in covered else ""
        parts.append(f"those of {nominal(name):g} % cover {listing}")
    return f"intervals are too narrow: {', '.join(parts)} of the test values" if parts else ""
