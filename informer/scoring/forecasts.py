"""The forecasts that backtests, commands and readers of files exchange: a path for each series, column and origin, with
a value per step.

As a file they are one tidy table: series, column, origin, step, time, forecast, ends of intervals (lo80, hi80),
quantiles (q10), actual. In memory they are matrices of paths and steps, a sixth of the size of that table.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64, Shaped

from informer.base.quantiles import BAND, MEDIAN, bands_by_level

KEYS = ("series", "column", "origin")
"""What a path is of."""

Matrix = Float64[np.ndarray, "p h"]


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Forecasts:
    """Paths of one forecaster, in data units.

    Args:
        keys: KEYS of each path; the origin is the last known time, NaT where it is not known.
        times: time of each step without a time zone, or its number; NaT after the end of a path.
        mean: point forecasts; NaN after the end of a path.
        actual: actual values; NaN where they are missing or not known.
        bands: ends of intervals (lo80, hi80) and quantiles (q10) by name; NaN where there are none.
    """

    keys: pd.DataFrame
    times: Shaped[np.ndarray, "p h"]
    mean: Matrix
    actual: Matrix
    bands: Mapping[str, Matrix] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def quantiles(self) -> dict[float, Matrix]:
        """Values by level, increasing; that of the median is the forecast. Empty without bands."""
        if not self.bands:
            return {}
        by_level = {level: self.bands[name] for level, name in bands_by_level(self.bands).items()}
        return dict(sorted(({MEDIAN: self.mean} | by_level).items()))

    @property
    def matrices(self) -> dict[str, np.ndarray]:
        """What a path has at each step, by the name of its column in the table."""
        return {"time": self.times, "forecast": self.mean, **self.bands, "actual": self.actual}

    def table(self) -> pd.DataFrame:
        """The tidy table, without steps after the end of a path."""
        n, h = self.mean.shape
        repeated = self.keys.iloc[np.repeat(np.arange(n), h)].reset_index(drop=True)
        steps = np.tile(np.arange(1, h + 1), n)
        table = repeated.assign(step=steps, **{name: values.ravel() for name, values in self.matrices.items()})
        return table[~np.isnan(self.mean).ravel()].reset_index(drop=True)

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
        found = {"time": np.full(shape, 0 if times.dtype.kind == "i" else np.datetime64("NaT"), times.dtype)}
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

    def of_another(self, mean: Matrix, bands: Mapping[str, Matrix] | None = None) -> "Forecasts":
        """Forecasts of another forecaster for the same paths."""
        return replace(self, mean=mean, bands=bands or {})

    def part(self, paths: slice | Int64[np.ndarray, "k"], steps: int | None = None) -> "Forecasts":
        """Some of the paths, and of their steps the first ones; None: all steps."""
        return replace(
            self,
            keys=self.keys.iloc[paths].reset_index(drop=True),
            times=self.times[paths, :steps],
            mean=self.mean[paths, :steps],
            actual=self.actual[paths, :steps],
            bands={name: values[paths, :steps] for name, values in self.bands.items()},
        )

    def parts(self, most: int = 1 << 17) -> Iterator["Forecasts"]:
        """The paths in pieces of at most so many values, but at least one path: what a processor's cache holds."""
        n = max(most // max(self.mean.shape[1], 1), 1)
        yield from (self.part(slice(first, first + n)) for first in range(0, len(self), n))
