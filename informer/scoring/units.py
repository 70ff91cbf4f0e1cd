"""Units of scoring: one per series, column and origin, with forecast, actual values and history."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from jaxtyping import Float64

from informer.data.read.frequency import Frequency
from informer.errors import InputError, counted
from informer.scoring.tables import Tidy, named_alike

MOST_MISSING, MOST_MISSING_SHARE = 1 << 20, 8
"""Missing rows of a history: as many, or as many times its rows, if that is more. Each takes memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """Forecasts, actual values and histories, one unit each.

    Args:
        names: series and column of each unit.
        forecast, actual: one row per unit, one column per step; NaN if a unit has no such step.
        bands: interval ends and quantiles by suffix (`lo80`).
        histories: values before the first step, oldest first, one for each time step; NaN if unknown, except the first.
        notes: remarks for the reader.
    """

    names: Sequence[tuple[str, str]]
    forecast: Float64[np.ndarray, "u h"]
    actual: Float64[np.ndarray, "u h"]
    bands: Mapping[str, Float64[np.ndarray, "u h"]]
    histories: Sequence[Float64[np.ndarray, "_"]]
    notes: Sequence[str] = field(default_factory=tuple)


def gather_units(forecasts: Tidy, actuals: Tidy, history: Tidy) -> Units:
    """Match forecasts with actual values and histories.

    Raises:
        InputError: no forecast has an actual value or a history, a time is repeated, or a forecast is not finite.
    """
    actuals, history = named_alike(forecasts, actuals), named_alike(forecasts, history)
    rows, notes = _joined(forecasts, actuals)
    forecast_keys = set(zip(rows["series"], rows["column"], strict=True))
    rows_of = dict(list(history.frame.groupby(["series", "column"], sort=False)))
    past = {key: _Past.of(rows_of[key], history) for key in rows_of if key in forecast_keys}
    names, histories, groups = [], [], []
    without: list[str] = []
    for key, group in rows.groupby(["series", "column", "origin"], sort=False, dropna=False):
        past_rows = past.get((key[0], key[1]))
        if not group["actual"].notna().any():
            continue
        ordered = group.sort_values("time")
        earlier = np.empty(0) if past_rows is None else past_rows.before(ordered["time"].iloc[0])
        if not len(earlier):
            without.append("/".join(str(each) for each in key[:2] if each))
            continue
        names.append((str(key[0]), str(key[1])))
        histories.append(earlier)
        groups.append(ordered)
    if not groups:
        raise InputError(
            f"{history.name}: expected rows before the first forecast of {without[0] or forecasts.name}, found none"
        )
    if without:
        notes.append(f"skipped {counted(len(without), 'forecast')} without a history, such as {without[0]}")
    steps = max(int(np.flatnonzero(group["actual"].notna())[-1]) + 1 for group in groups)
    columns = ["value", "actual", *forecasts.bands]
    stacked = {name: np.full((len(groups), steps), np.nan) for name in columns}
    for i, group in enumerate(groups):
        for name in columns:
            stacked[name][i, : len(group)] = group[name][:steps]
    return Units(
        names=names,
        forecast=stacked["value"],
        actual=stacked["actual"],
        bands={name: stacked[name] for name in forecasts.bands},
        histories=histories,
        notes=notes,
    )


def _joined(forecasts: Tidy, actuals: Tidy) -> tuple[pd.DataFrame, list[str]]:
    """Forecast rows with their actual values, NaN for rows without one, which are counted in a note."""
    if forecasts.timed != actuals.timed:
        raise InputError(f"{actuals.name}: expected times as in {forecasts.name}; one of them has one row per series")
    frame = forecasts.frame.drop(columns="actual", errors="ignore")
    if "origin" not in frame:
        frame = frame.assign(origin=np.datetime64("NaT", "ns"))
    keys = ["series", "column", "time"]
    for each, rows, by in ((forecasts, frame, [*keys, "origin"]), (actuals, actuals.frame, keys)):
        again = rows.duplicated(by)
        if again.any():
            first = rows[again].iloc[0]
            raise InputError(f"{each.name}: duplicate row for {first['series'] or first['column']} at {first['time']}")
    truth = actuals.frame[[*keys, "value"]].rename(columns={"value": "actual"})
    merged = frame.merge(truth, on=keys, how="left")
    if not np.isfinite(merged["value"]).all():
        raise InputError(f"{forecasts.name}: expected a finite forecast in each row, found an empty cell or infinity")
    has_actual = merged["actual"].notna()
    if not has_actual.any():
        some = merged.iloc[0]
        raise InputError(
            f"{actuals.name}: no actual value for any forecast of {forecasts.name} (the first is {some['series']} "
            f"{some['column']} at {some['time']}); expected the same names of series and columns, and the same times"
        )
    n_missing = int((~has_actual).sum())
    notes = [f"{n_missing:,} of {len(merged):,} forecast values have no actual value"] if n_missing else []
    return merged, notes


def step_of(times: pd.DatetimeIndex, name: str) -> Frequency:
    """The step of the times of one series, some of which may be missing.

    Raises:
        InputError: the times are not whole multiples of one step apart.
    """
    try:
        step, regular = Frequency.closest(times)
    except ValueError as error:
        raise InputError(f"{name}: {error}; set season=24") from error
    if not (step.strides(times) > 0).all():
        raise InputError(
            f"{name}: no regular step: {step.code} holds for the first {regular} rows only; score rows that are whole "
            "steps apart"
        )
    return step


@dataclass(frozen=True, slots=True)
class _Past:
    """The rows of one series in the order of their times; `step` is None for files without times."""

    name: str
    times: pd.DatetimeIndex
    values: Float64[np.ndarray, "_"]
    step: Frequency | None

    @classmethod
    def of(cls, rows: pd.DataFrame, history: Tidy) -> "_Past":
        if not history.timed:
            return cls(history.name, pd.DatetimeIndex([]), rows["value"].to_numpy(dtype=float), None)
        rows = rows.sort_values("time")
        times = pd.DatetimeIndex(rows["time"])
        step = step_of(times, history.name) if len(times) > 1 else None
        return cls(history.name, times, rows["value"].to_numpy(dtype=float), step)

    def before(self, first: pd.Timestamp | np.integer) -> Float64[np.ndarray, "_"]:
        """Values before the first forecast, one for each step of the time from the first known one; of files without
        times, all of them."""
        if not len(self.times):
            return _from_first_known(self.values)
        n = int(self.times.searchsorted(first))
        if n == 0 or self.step is None:
            return _from_first_known(self.values[:n])
        # rows may be missing right before the forecast, too
        strides = self.step.strides(pd.DatetimeIndex(self.times[:n].append(pd.DatetimeIndex([first]))))
        if not strides[-1]:
            raise InputError(
                f"{self.name}: expected steps of {self.step.code} up to the forecast at {first}, found "
                f"{self.times[n - 1]}"
            )
        missing = int(strides.sum()) - n
        if missing > max(MOST_MISSING, MOST_MISSING_SHARE * n):
            raise InputError(
                f"{self.name}: expected a history up to the forecast at {first}, found {n:,} rows and {missing:,} "
                f"missing ones at steps of {self.step.code}, up to {self.times[n - 1]}; leave out what is far before, "
                "or add the rows in between"
            )
        places = np.concatenate([[0], np.cumsum(strides)])
        values = np.full(int(places[-1]), np.nan)
        values[places[:-1]] = self.values[:n]
        return _from_first_known(values)


def _from_first_known(values: Float64[np.ndarray, "_"]) -> Float64[np.ndarray, "_"]:
    observed = np.flatnonzero(~np.isnan(values))
    return values[observed[0] :] if len(observed) else values[:0]
