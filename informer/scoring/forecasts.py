"""The forecasts that backtests, commands and readers of files exchange: a path for each series, column and origin, with
a value per step.

As a file they are one tidy table: series, column, origin, step, time, forecast, ends of intervals (lo80, hi80),
quantiles (q10), actual. In memory they are matrices of paths and steps, a sixth of the size of that table.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64, Int64, Shaped

from informer.base.errors import InputError
from informer.base.quantiles import BAND, MEDIAN, bands_by_level

KEYS = ("series", "column", "origin")
"""What a path is of."""

GROUPS, UNITS = ("bands", "levels", "sources"), ("center", "scale", "change")
"""Fields of `Forecasts`: matrices by name, and numbers of paths."""

Matrix = Float64[np.ndarray, "p h"]


def in_zone(times: Shaped[np.ndarray, " t"] | pd.Series, zone: tzinfo | None) -> pd.DatetimeIndex:
    """Times in UTC in a time zone; without one as they are."""
    index = pd.DatetimeIndex(times)
    return index if zone is None else index.tz_localize("UTC").tz_convert(zone)


def in_utc(indices: Sequence[pd.DatetimeIndex]) -> Shaped[np.ndarray, " t"]:
    """Times one after the other without a time zone, in UTC if they have one; an error of pandas if one is beyond the
    range of the finest of their units."""
    first, *others = (each if each.tz is None else each.tz_convert("UTC").tz_localize(None) for each in indices)
    times: np.ndarray = first.append(others).to_numpy()
    return times


def keys_of(series: Sequence[str], columns: Sequence[str], origins: Shaped[np.ndarray, " w"]) -> pd.DataFrame:
    """KEYS of the paths of windows, of each one the columns in order."""
    n = len(columns)
    names = pd.Series(np.repeat(np.array(series, dtype=object), n), dtype=object)  # of files, perhaps not UTF-8
    return pd.DataFrame({"series": names, "column": np.tile(columns, len(series)), "origin": np.repeat(origins, n)})


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Forecasts:
    """Paths of one forecaster, in data units.

    Args:
        keys: KEYS of each path; the origin is the last known time, NaT where it is not known.
        times: time of each step, in UTC if there is a zone, or its number; NaT after the end of a path.
        mean: point forecasts; NaN after the end of a path.
        actual: actual values; NaN where they are missing or not known.
        bands: ends of intervals (lo80, hi80) and quantiles (q10) by name; NaN where there are none.
        levels: quantiles by level, of all or of the first steps, if they are not those of the bands.
        center, scale: of the column in training, for errors in scaled units; one for all paths, or one of each.
        change: mean change of the column over a season in training, the unit of MASE; as `center`.
        zone: time zone of the origins and times; None: they have none.
        direct: steps of one pass, after which a forecast continues from itself; None: all.
        sources: of an explained forecast, what adds up to `mean`, by name.
    """

    keys: pd.DataFrame
    times: Shaped[np.ndarray, "p h"]
    mean: Matrix
    actual: Matrix
    bands: Mapping[str, Matrix] = field(default_factory=dict)
    levels: Mapping[float, Float64[np.ndarray, "p _"]] = field(default_factory=dict)
    center: Float64[np.ndarray, " _"] = field(default_factory=lambda: np.zeros(1))
    scale: Float64[np.ndarray, " _"] = field(default_factory=lambda: np.ones(1))
    change: Float64[np.ndarray, " _"] = field(default_factory=lambda: np.full(1, np.nan))
    zone: tzinfo | None = None
    direct: int | None = None
    sources: Mapping[str, Matrix] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def quantiles(self) -> Mapping[float, Float64[np.ndarray, "p _"]]:
        """Values by level, increasing; of those of the bands that of the median is the forecast. Empty without any."""
        if self.levels or not self.bands:
            return self.levels
        by_level = {level: self.bands[name] for level, name in bands_by_level(self.bands).items()}
        return dict(sorted(({MEDIAN: self.mean} | by_level).items()))

    @property
    def are_steps(self) -> Bool[np.ndarray, "p h"]:
        """Which steps are before the end of their path."""
        return ~np.isnan(self.mean)

    @property
    def rolled(self) -> Bool[np.ndarray, "p h"]:
        """Which steps continue the forecast from itself."""
        steps = np.arange(self.mean.shape[1])
        return self.are_steps & (steps >= (len(steps) if self.direct is None else self.direct))

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        names: list[str] = self.keys["column"].unique().tolist()
        return names

    def table(self) -> pd.DataFrame:
        """The tidy table, without steps after the end of a path."""
        n, h = self.mean.shape
        repeated = self.keys.iloc[np.repeat(np.arange(n), h)].reset_index(drop=True)
        steps = np.tile(np.arange(1, h + 1), n)
        matrices = {"time": self.times, "forecast": self.mean, **self.bands, "actual": self.actual}
        table = repeated.assign(step=steps, **{name: values.ravel() for name, values in matrices.items()})
        if self.zone is not None:
            table = table.assign(**{name: in_zone(table[name], self.zone) for name in ("origin", "time")})
        return table[self.are_steps.ravel()].reset_index(drop=True)

    @classmethod
    def of_table(cls, table: pd.DataFrame) -> "Forecasts":
        """From a tidy table, whose rows of a path are in any order and become its steps by time; paths are in order of
        their first row."""
        numbers, order = (
            table.groupby(list(KEYS), sort=False, dropna=False).ngroup().to_numpy(),
            table["time"].argsort(),
        )
        steps = np.empty(len(table), dtype=np.int64)
        steps[order] = pd.Series(numbers[order]).groupby(numbers[order]).cumcount()
        place, shape = (numbers, steps), (int(numbers.max()) + 1, int(steps.max()) + 1)
        times = table["time"].to_numpy()
        found = {"time": np.full(shape, _nothing(times.dtype), times.dtype)}
        bands = [str(name) for name in table.columns if BAND.fullmatch(str(name))]
        found |= {name: np.full(shape, np.nan) for name in ("forecast", "actual", *bands)}
        for name, values in found.items():
            values[place] = table[name]
        return cls(
            keys=table[list(KEYS)].drop_duplicates(ignore_index=True),
            times=found["time"],
            mean=found["forecast"],
            actual=found["actual"],
            bands={name: found[name] for name in bands},
        )

    def mapped(self, of: Callable[[np.ndarray], np.ndarray], **other: Any) -> "Forecasts":
        """The same with a function of all matrices but the times, and with other fields."""
        groups: dict[str, Any] = {
            group: {name: of(each) for name, each in getattr(self, group).items()} for group in GROUPS
        }
        return replace(self, mean=of(self.mean), actual=of(self.actual), **groups, **other)

    def scaled(self) -> "Forecasts":
        """The same in scaled units, without sources."""
        center, scale = self.center[:, None], self.scale[:, None]
        own = replace(self, sources={}).mapped(lambda each: (each - center) / scale)
        return replace(own, change=self.change / self.scale, center=np.zeros(1), scale=np.ones(1))

    def part(self, paths: slice | Int64[np.ndarray, " k"], steps: int | None = None) -> "Forecasts":
        """Some of the paths, and of their steps the first ones; None: all steps."""
        keys = self.keys.iloc[paths].reset_index(drop=True)
        units = {name: getattr(self, name) for name in UNITS}
        units = {name: each[paths] if len(each) == len(self) else each for name, each in units.items()}
        return self.mapped(lambda each: each[paths, :steps], keys=keys, times=self.times[paths, :steps], **units)

    def with_intervals(self, levels: Sequence[int]) -> "Forecasts":
        """The same with only the intervals of these levels."""
        wanted = {f"{end}{level}" for level in levels for end in ("lo", "hi")}
        bands = {name: each for name, each in self.bands.items() if name.startswith("q") or name in wanted}
        return replace(self, bands=bands)

    def check_finite(self) -> None:
        """Raise an InputError if a forecast is not finite, or a band is infinite."""
        are_wrong = ~(pd.isna(self.times) | np.isfinite(self.mean)).all(axis=1)
        for ends in self.bands.values():
            are_wrong |= np.isinf(ends).any(axis=1)
        if are_wrong.any():
            name = self.keys["series"].iloc[int(are_wrong.argmax())]
            raise InputError(f"{name}: the forecast is not finite; look for extreme values in its last rows")

    def until(self, ends: Int64[np.ndarray, " p"]) -> "Forecasts":
        """The same, of each path only so many steps."""
        is_after = np.arange(self.mean.shape[1]) >= ends[:, None]
        times = np.where(is_after, _nothing(self.times.dtype), self.times)
        cut = self.mapped(lambda each: np.where(is_after[:, : each.shape[1]], np.nan, each))
        return replace(cut, times=times)


def _nothing(of: np.dtype[Any]) -> Any:
    """What stands for a missing value in a matrix."""
    return {"i": 0, "M": np.datetime64("NaT")}.get(of.kind, np.nan)


def joined(parts: Iterable[Forecasts]) -> Forecasts:
    """The paths of several parts of the same forecasts, in order."""
    first, *others = all_of = [*parts]
    if not others:
        return first

    def stacked(values: Sequence[np.ndarray]) -> np.ndarray:
        longest = max(each.shape[1] for each in values)
        lacking = [np.full((len(x), longest - x.shape[1]), _nothing(x.dtype), x.dtype) for x in values]
        return np.concatenate([np.concatenate(each, axis=1) for each in zip(values, lacking, strict=True)])

    found: dict[str, Any] = {name: stacked([getattr(p, name) for p in all_of]) for name in ("times", "mean", "actual")}
    for group in GROUPS:
        by_part = [getattr(part, group) for part in all_of]
        found[group] = {name: stacked([each[name] for each in by_part]) for name in by_part[0]}
    for name in UNITS:
        found[name] = np.concatenate([np.broadcast_to(getattr(part, name), len(part)) for part in all_of])
    return replace(first, keys=pd.concat([part.keys for part in all_of], ignore_index=True), **found)
