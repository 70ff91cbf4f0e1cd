"""Repairs of rows, and limits on files."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Fill(Enum):
    """Value of a missing cell: the last one before it, linear interpolation between its neighbours, or zero; mask: it
    stays missing."""

    ffill = "ffill"
    linear = "linear"
    zero = "zero"
    mask = "mask"


class Duplicates(Enum):
    """What to keep of rows with the same timestamp: the first, or their mean."""

    first = "first"
    mean = "mean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repairs:
    """The requested repairs.

    Args:
        sort: rows by time.
        duplicates: rows with the same timestamp become one.
        fill: empty cells, and the rows of missing timestamps.
        max_gap: longest run of rows to fill; None fills any.
        confirmed: names of repairs that may drop more than a few rows.
        categorical: columns of codes, which are never averaged: of duplicate rows they keep the first value, and where
            rows are missing they repeat the one before.
        static: columns that are constant, which fill=mask therefore fills.
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
        """How to handle the remaining empty cells and missing rows."""
        if self.fill is None:
            return "set dataset.fill=ffill, linear or zero, or mask, which keeps gaps"
        if self.keeps_gaps:  # dates so far apart that they are wrong
            return "more rows than dataset.fill=mask puts in: fix the dates"
        limit = "" if self.max_gap is None else f" within dataset.max_gap={self.max_gap}"
        return f"dataset.fill={self.fill.value} cannot fill it{limit}: fix the file"

    @property
    def for_cells(self) -> str | None:
        """The same for empty cells only; None: they are no problem."""
        return None if self.keeps_gaps else self.advice


LONGEST_CELL = 131_072
"""Characters of a cell that Python's csv module can read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on a data file.

    Args:
        file_mb: uncompressed size; None: unlimited, for files that are read in pieces.
        line_mb: size of one line.
        cell: characters of one cell, at most LONGEST_CELL.
    """

    file_mb: float | None = 4096.0
    line_mb: float = 64.0
    cell: int = LONGEST_CELL
