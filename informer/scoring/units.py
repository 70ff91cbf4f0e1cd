"""Units of scoring: one per series, column and origin, with forecast, actual values and history."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from jaxtyping import Float64

from informer.errors import InputError, counted
from informer.scoring.tables import Tidy, named_alike


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """Forecasts, actual values and histories, one unit each.

    Args:
        names: series and column of each unit.
        forecast, actual: one row per unit, one column per step; NaN if a unit has no such step.
        bands: interval ends and quantiles by suffix (`lo80`).
        histories: values before the first step, oldest first, without gaps.
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
    past = dict(list(history.frame.groupby(["series", "column"], sort=False)))
    names, histories, groups = [], [], []
    without: list[str] = []
    for key, part in rows.groupby(["series", "column", "origin"], sort=False, dropna=False):
        own = past.get(key[:2])
        ordered = part.sort_values("time")
        known = np.empty(0) if own is None else _before(own, ordered["time"].iloc[0], timed=forecasts.timed)
        if not len(known):
            without.append("/".join(str(each) for each in key[:2] if each))
            continue
        names.append((str(key[0]), str(key[1])))
        histories.append(known)
        groups.append(ordered)
    if not groups:
        raise InputError(
            f"{history.name}: expected rows before the first forecast of {without[0] or forecasts.name}, found none"
        )
    if without:
        notes.append(f"skipped {counted(len(without), 'forecast')} without a history, such as {without[0]}")
    steps = max(map(len, groups))
    columns = ["value", "actual", *forecasts.bands]
    stacked = {name: np.full((len(groups), steps), np.nan) for name in columns}
    for i, part in enumerate(groups):
        for name in columns:
            stacked[name][i, : len(part)] = part[name]
    return Units(
        names=names,
        forecast=stacked["value"],
        actual=stacked["actual"],
        bands={name: stacked[name] for name in forecasts.bands},
        histories=histories,
        notes=notes,
    )


def _joined(forecasts: Tidy, actuals: Tidy) -> tuple[pd.DataFrame, list[str]]:
    """Forecast rows with their actual values; rows without one are skipped and counted in a note."""
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
    known = merged["actual"].notna()
    if not known.any():
        some = merged.iloc[0]
        raise InputError(
            f"{actuals.name}: no actual value for any forecast of {forecasts.name} (the first is {some['series']} "
            f"{some['column']} at {some['time']}); expected the same names of series and columns, and the same times"
        )
    notes = [] if known.all() else [f"{int((~known).sum()):,} of {len(merged):,} forecast values have no actual value"]
    return merged[known], notes


def _before(rows: pd.DataFrame, first: object, *, timed: bool) -> Float64[np.ndarray, "_"]:
    """Values before the first forecast, or all values if there are no times."""
    if timed:
        rows = rows[rows["time"] < first].sort_values("time")
    values = rows["value"].to_numpy(dtype=float)
    return values[~np.isnan(values)]
