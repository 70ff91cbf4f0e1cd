"""A forecast of one series as a table: timestamps, targets, and what else is known about each row."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64

from informer.data.history import future_index
from informer.data.source import Series
from informer.errors import InputError

UNIQUE_ID = "unique_id"
"""Column that names the series where a table of ours holds several."""
ROLLED = "rolled"
"""Column that marks the rows made from the model's own output; only in forecasts that have such rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What follows a series, in data units.

    Args:
        series: what is continued.
        targets: names of the n columns.
        values: one row a step ahead.
        pred_len: rows that the model gives at once; those after them were made from its own output.
        bands: ends of intervals (lo80, hi80) and quantiles (q10) by the suffix of their columns; NaN in rows after
            pred_len, of whose errors nothing is known.
    """

    series: Series
    targets: tuple[str, ...]
    values: Float64[np.ndarray, "h n"]
    pred_len: int
    bands: Mapping[str, Float64[np.ndarray, "h n"]] = field(default_factory=dict)

    @property
    def timestamps(self) -> pd.DatetimeIndex:
        """Of the rows."""
        return future_index(self.series, len(self.values))

    @property
    def is_rolled(self) -> bool:
        """Some rows were made from the model's own output."""
        return len(self.values) > self.pred_len

    @property
    def rolled(self) -> Bool[np.ndarray, "h"]:
        """Which rows those are."""
        return np.arange(len(self.values)) >= self.pred_len

    @property
    def keys(self) -> list[str]:
        """Names of the columns that say what a row is of: the series where the file has several, and the time."""
        named = [] if self.series.series_col is None else [self.series.series_col]
        return [*named, self.series.time_col]

    def check_finite(self) -> None:
        """Raise the InputError of a forecast that is not finite; of intervals, within pred_len."""
        known = (ends[: self.pred_len] for ends in self.bands.values())
        if not all(np.isfinite(part).all() for part in (self.values, *known)):
            raise InputError(
                f"{self.series.name}: the forecast is not finite; look for extreme values in its last rows"
            )

    def columns(self) -> dict[str, np.ndarray]:
        """Every column beside `keys` by its name, in order.

        Raises:
            InputError: two columns of one name, or a forecast that is not finite.
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

    def frame(self) -> pd.DataFrame:
        """Names and timestamps under the file's own names (`keys`), then `columns`."""
        frame = pd.DataFrame({self.series.time_col: self.timestamps} | self.columns())
        if self.series.series_col is not None:
            frame.insert(0, self.series.series_col, self.series.name)
        return frame
