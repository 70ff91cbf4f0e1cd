"""The rows of a table before they become a series; they may still have problems."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int


@dataclass(frozen=True, slots=True)
class Rows:
    """Timestamps and values [t c] with their location in the file.

    Args:
        name: name of the table.
        time_col: name of the time column.
        columns: names of the value columns.
        timestamps, values: the rows.
        lines: row numbers as in an editor (from 0 for a frame); an inserted row has the number of the row after it.
    """

    name: str
    time_col: str
    columns: tuple[str, ...]
    timestamps: pd.DatetimeIndex
    values: Float64[np.ndarray, "t c"]
    lines: Int[np.ndarray, "t"]

    def __len__(self) -> int:
        return len(self.timestamps)

    def take(self, rows: slice | np.ndarray) -> "Rows":
        """The selected rows, in this order."""
        return replace(self, timestamps=self.timestamps[rows], values=self.values[rows], lines=self.lines[rows])

    def end(self, n: int) -> "Rows":
        """The last n rows, or all if there are fewer."""
        return self if len(self) <= n else self.take(slice(-n, None))

    def positions(self, names: Sequence[str]) -> list[int]:
        """Indices of the columns with these names."""
        return [position for position, column in enumerate(self.columns) if column in names]

    @property
    def timed(self) -> "Rows":
        """The rows with a time."""
        return self.take(np.asarray(self.timestamps.notna())) if self.timestamps.hasnans else self

    def at(self, row: int, column: str | None = None) -> str:
        """Location of a cell for error messages; without `column`, of the timestamp."""
        return f"{self.name}, row {self.lines[row]}, column {self.time_col if column is None else column!r}"

    @property
    def is_increasing(self) -> bool:
        """Whether timestamps are strictly increasing."""
        return bool((np.diff(self.timestamps.asi8) > 0).all())

    def in_order(self) -> "Rows":
        """The rows sorted by time; of rows with equal times, the first is kept."""
        if self.is_increasing:
            return self
        ordered = self.take(self.timestamps.argsort(kind="stable"))
        return ordered.take(~ordered.timestamps.duplicated())
