"""A forecast of one series as a table: timestamps, targets, intervals and quantiles."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from sys import float_info

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64

from informer.data.history import future_index
from informer.data.read.source import Series
from informer.data.scaler import standard_deviation
from informer.errors import InputError

SERIES, TIME = "series", "timestamp"
"""Default column names of tables with one row per value, if the input has no such column."""
ROLLED = "rolled"
"""Column that marks recursively forecast rows; only in forecasts with such rows."""


def key_columns(series: Series, used: Collection[str]) -> tuple[str, str]:
    """Names of the series and time columns in a table with one row per value: those of the input if possible.

    Args:
        series: a series of the input.
        used: the table's other columns; a name of the input that is one of them is not used.
    """
    time = series.time_col if series.time_col and series.time_col not in used else TIME
    names = (series.series_col, SERIES, "unique_id")
    return next(name for name in names if name and name not in (*used, time)), time


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Forecast of a series, in data units.

    Args:
        series: the history.
        targets: names of the n columns.
        values: one row per step of the horizon.
        pred_len: rows of the model's direct output; later rows are forecast recursively.
        offset: steps between the end of the series and the first row.
        bands: ends of intervals (lo80, hi80) and quantiles (q10) by column suffix; NaN where there are none.
        main: the target that plots show; None: the last one.
    """

    series: Series
    targets: tuple[str, ...]
    values: Float64[np.ndarray, "h n"]
    pred_len: int
    offset: int = 0
    bands: Mapping[str, Float64[np.ndarray, "h n"]] = field(default_factory=dict)
    main: str | None = None

    @property
    def timestamps(self) -> pd.DatetimeIndex:
        """Timestamps of the rows."""
        return future_index(self.series, self.offset + len(self.values))[self.offset :]

    @property
    def is_rolled(self) -> bool:
        """Whether some rows are forecast recursively."""
        return len(self.values) > self.pred_len

    @property
    def rolled(self) -> Bool[np.ndarray, "h"]:
        """Which rows are forecast recursively."""
        return np.arange(len(self.values)) >= self.pred_len

    @property
    def keys(self) -> list[str]:
        """Names of the columns that identify a row: the series if the file has several, and the time."""
        named = [] if self.series.series_col is None else [self.series.series_col]
        return [*named, self.series.time_col]

    def check_finite(self) -> None:
        """Raise an InputError if a forecast is not finite, or a band is infinite."""
        if not np.isfinite(self.values).all() or any(np.isinf(ends).any() for ends in self.bands.values()):
            raise InputError(
                f"{self.series.name}: the forecast is not finite; look for extreme values in its last rows"
            )

    def columns(self) -> dict[str, np.ndarray]:
        """Every column except `keys`, by name, in order.

        Raises:
            InputError: two columns with the same name, or a forecast that is not finite.
        """
        self.check_finite()
        columns = dict(zip(self.targets, self.values.T, strict=True))
        more = {
            f"{target}_{suffix}": ends[:, i]
            for i, target in enumerate(self.targets)
            for suffix, ends in self.bands.items()
        } | ({ROLLED: self.rolled} if self.is_rolled else {})
        taken = [name for name in more if name in (*self.keys, *self.targets)]
        if taken:
            raise InputError(f"{self.series.name}: the forecast needs the column {taken[0]!r}; rename yours")
        return columns | more

    def decimals(self, digits: int | None) -> dict[str, int]:
        """Decimal places of every numeric column: `digits` significant digits of its standard deviation.

        Further digits are rounding noise of single precision. A constant column uses its magnitude instead.
        """
        if digits is None:
            return {}
        decimals: dict[str, int] = {}
        for i, target in enumerate(self.targets):
            history = self.series.values[:, self.series.columns.index(target)]
            places = decimals_for(np.concatenate([history, self.values[:, i]]), digits)
            for name in (target, *(f"{target}_{suffix}" for suffix in self.bands)):
                decimals[name] = places
        return decimals

    def frame(self) -> pd.DataFrame:
        """A table of `keys` and `columns`. Errors as in `columns`."""
        frame = pd.DataFrame({self.series.time_col: self.timestamps} | self.columns())
        if self.series.series_col is not None:
            frame.insert(0, self.series.series_col, self.series.name)
        return frame


def rounded(values: Float64[np.ndarray, "*n"], decimals: int) -> Float64[np.ndarray, "*n"]:
    """Values with this many decimal places; unchanged if 10^decimals overflows, as for values of 1e-305."""
    return values.round(decimals) if decimals <= float_info.max_10_exp else values


def decimals_for(values: Float64[np.ndarray, "n"], digits: int) -> int:
    """Decimal places that leave this many digits of the standard deviation, or of the size of a constant column."""
    finite = values[np.isfinite(values)]
    size = (standard_deviation(finite) or float(np.max(np.abs(finite)))) if len(finite) else 0.0
    return digits - 1 - math.floor(math.log10(size)) if size > 0 and math.isfinite(size) else 0
