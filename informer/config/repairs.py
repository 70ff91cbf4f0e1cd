"""Repairs of rows, and limits of file sizes."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Fill(Enum):
    """What replaces a missing cell. ffill: the last value before it. linear: interpolation between its neighbours.
    zero: 0. mask: nothing, it stays missing."""

    ffill = "ffill"
    linear = "linear"
    zero = "zero"
    mask = "mask"


class Duplicates(Enum):
    """What to keep of rows with the same timestamp: the first row, or their mean."""

    first = "first"
    mean = "mean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repairs:
    """The requested repairs.

    Args:
        sort: sort rows by time.
        duplicates: how to merge rows with the same timestamp.
        fill: how to fill empty cells and missing rows.
        max_gap: longest run of rows to fill; None means no limit.
        confirmed: repairs that may drop more than a few rows.
        categorical: columns of codes, which are never averaged: duplicates keep their first value, and missing rows
            repeat the last one.
        static: columns that are constant within a series, which are filled even with fill=mask.
    """

    sort: bool = False
    duplicates: Duplicates | None = None
    fill: Fill | None = None
    max_gap: int | None = None
    confirmed: Sequence[str] = ()
    categorical: Sequence[str] = ()
    static: Sequence[str] = ()

    @property
    def keeps_gaps(self) -> bool:
        """Whether missing values stay missing."""
        return self.fill is Fill.mask

    def __bool__(self) -> bool:
        return self.sort or self.duplicates is not None or self.fill is not None

    @property
    def advice(self) -> str:
        """Advice for the empty cells and missing rows that remain."""
        if self.fill is None:
            return "set dataset.fill=ffill, linear or zero, or mask, which keeps gaps"
        if self.keeps_gaps:  # a gap this long means wrong dates
            return "more rows than dataset.fill=mask puts in: fix the dates"
        limit = "" if self.max_gap is None else f" within dataset.max_gap={self.max_gap}"
        return f"dataset.fill={self.fill.value} cannot fill it{limit}: fix the file"

    @property
    def for_cells(self) -> str | None:
        """Advice for empty cells only; None if they are not a problem."""
        return None if self.keeps_gaps else self.advice


LONGEST_CELL = 131_072
"""Longest cell, in characters, that Python's csv module can read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a data file's size.

    Args:
        file_mb: uncompressed size in MB; None: no limit, for files that are read in pieces.
        line_mb: size of one line in MB.
        cell: characters of one cell, at most LONGEST_CELL.
    """

    file_mb: float | None = 4096.0
    line_mb: float = 64.0
    cell: int = LONGEST_CELL
