"""Lengths of a window."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from informer.errors import InputError

LONGEST = 10_000_000
"""Largest number of rows of a part of a window; more could exceed the range of timestamps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSizes:
    """Numbers of rows of a window.

    Args:
        seq_len: lookback window, at least 1.
        label_len: start token of the decoder (the end of the lookback window), 0 to seq_len.
        pred_len: forecast horizon, at least 1.
        offset: rows between lookback window and horizon, which are neither read nor forecast.

    Raises:
        InputError: a length out of range.
    """

    seq_len: int
    label_len: int
    pred_len: int
    offset: int = 0

    def __post_init__(self) -> None:
        lengths = (("seq_len", 1), ("label_len", 0), ("pred_len", 1), ("offset", 0))
        for name, least in lengths:
            length = getattr(self, name)
            if not least <= length <= LONGEST:
                key = "model.offset" if name == "offset" else name
                bound = f"at least {least}" if length < least else f"at most {LONGEST}"
                raise InputError(f"{key}: expected {bound}, found {length}")
        if self.label_len > self.seq_len:
            raise InputError(
                f"label_len: expected at most seq_len={self.seq_len} (the start token is the end of the history), "
                f"found {self.label_len}"
            )

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "WindowSizes":
        """The lengths in a saved configuration."""
        lengths = {name: config[name] for name in ("seq_len", "label_len", "pred_len")}
        return cls(**lengths, offset=config["model"].get("offset") or 0)

    @property
    def first(self) -> int:
        """Index in a window of the first row of the horizon."""
        return self.seq_len + self.offset

    @property
    def reach(self) -> int:
        """Rows from the end of the lookback window to the end of the horizon."""
        return self.offset + self.pred_len

    @property
    def rows(self) -> int:
        """Rows of one window."""
        return self.seq_len + self.reach

    def starts(self, rows: range) -> range:
        """First rows of the windows whose horizon lies in `rows`; their lookback window may start before it."""
        return range(max(rows.start - self.first, 0), max(rows.stop - self.rows + 1, 0))

    def least_rows(self, first_row: int) -> int:
        """Rows that a part starting at `first_row` needs for one window."""
        return self.pred_len + max(self.first - first_row, 0)
