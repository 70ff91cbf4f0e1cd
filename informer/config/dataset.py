"""How data is read, repaired, split and scaled: the nodes `dataset` and `scaler`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from informer.config.calendar import Calendar, field_problems, holiday_problems, places_of
from informer.config.file_format import Hints, format_problems, hint_problems, zone_problems
from informer.config.model import CalendarEmbed
from informer.config.reading import LONGEST_CELL, Duplicates, Fill, Limits, Repairs
from informer.errors import listed


class Features(Enum):
    """M: all columns in and out; S: only the target in and out; MS: all columns in, the target out."""

    M = "M"
    S = "S"
    MS = "MS"


class NonNegative(Enum):
    """Targets whose forecasts and intervals do not go below zero."""

    auto = "auto"
    """Those that are counts, or often zero, and never negative in training rows."""
    all = "all"
    none = "none"


class Short(Enum):
    """What to do with a series that is too short for a window in some part."""

    error = "error"
    """Raise an error."""
    skip = "skip"
    """Skip it, with a warning."""
    pad = "pad"
    """Repeat its first row before it, so that targets from its second row on have a full history."""


class SplitKind(Enum):
    """Unit of the split: 30-day months, shares of the rows, end dates of the parts, or rows."""

    months = "months"
    ratio = "ratio"
    dates = "dates"
    rows = "rows"


@dataclass(kw_only=True, slots=True)
class SplitConfig:
    """The node `dataset.split`.

    months, rows: sizes of the parts, from the first row on; remaining rows are not used.
    ratio: shares that add up to 1; training and test are rounded down, validation takes the rest.
    dates: the first timestamp after each part (`test: null` is the end of the file).
    """

    kind: SplitKind = SplitKind.ratio
    train: int | float | str | None = 0.7
    val: int | float | str | None = 0.1
    test: int | float | str | None = 0.2


PLACES = ("path", "file", "packaged", "url", "sha256", "hint", "cache_dir")
"""Fields of `DatasetConfig` with locations; the other fields say how to read the data."""


def without_places(dataset: Mapping[str, Any]) -> dict[str, Any]:
    """The saved node `dataset` without locations."""
    return {key: value for key, value in dataset.items() if key not in PLACES}


def is_plain_name(name: str) -> bool:
    """Whether a name is a plain file name, without folders, on any operating system."""
    return name not in ("", ".", "..") and not set(name) & set("/\\:\0")


@dataclass(kw_only=True, slots=True)
class DatasetConfig:
    """The node `dataset`: the source of the data, how to read and how to split it.

    Args:
        name: of the dataset, in reports.
        path: the file, CSV (also gzip), parquet or .xlsx, a partitioned folder of parquet files, or a folder or pattern
            of files with one series each; None takes `file` from the data folder.
        file: file name in the data folder, without folders.
        packaged: `file` ships with this package (the sample) instead.
        series_col: the column with the name of each row's series, if one file has many; names keep their spelling (001,
            NA); None: a single series.
        short: what to do with series too short for a window in each part.
        memmap: keep values in cache files instead of in memory, and read CSV files in pieces.
        cache_dir: the folder of these files; None: `cache` in the data folder.
        time_col: the time column; None detects it.
        clock_col: the column with times of day, if `time_col` has only dates; None detects it.
        time_format: strptime format of the timestamps; s, ms, us or ns since 1970; or excel for spreadsheet days; None
            detects it (days only in workbooks).
        timezone: of local times, such as Europe/Berlin; times with an offset from UTC are converted to it.
        frequency: step between rows; None infers it.
        calendar: fields of the date and time that mark each row (hour, weekday, ...); None takes those that change at
            this step.
        holidays: a country or a list of them (DE, DE-BY): a mark for each says whether the day is a holiday there.
        columns: the value columns, in this order; None takes all numeric columns.
        exclude: columns to ignore.
        exclude_files: names of files of the folder or pattern `path` to leave out.
        target: the column to forecast; None takes the last value column.
        categorical: columns whose cells are categories, of text or of numbers; those not named in future_covariates are
            past covariates.
        static_covariates: columns that are constant within each series, of numbers or categories.
        split: how rows are divided into training, validation and test.
        url: where to download `file` if it is missing; needs `sha256`.
        sha256: of the published file; required of a downloaded file, a mismatch of an existing one is only reported.
        hint: where to get a file without a stable URL.
        sheet: of a workbook, its name, or its number from 1; None takes the first.
        separator, decimal, thousands, encoding: of CSV text; None detects them, thousands="" means no separator.
        sort, duplicates, fill, max_gap: repairs (see `Repairs`), none by default; fill=mask keeps gaps as they are.
        min_observed: with fill=mask, the share of the rows of a window's history, and of its horizon, in which some
            target is observed; windows with less are left out.
        confirm: names of repairs that may drop more than 10 rows and 1 % of the rows (duplicates).
        max_file_mb, max_line_mb, max_cell: limits (see `Limits`); with memmap the file may have any size.
    """

    name: str = "csv"
    path: str | None = None
    file: str | None = None
    packaged: bool = False
    series_col: str | None = None
    short: Short = Short.error
    memmap: bool = False
    cache_dir: str | None = None
    time_col: str | None = None
    clock_col: str | None = None
    time_format: str | None = None
    timezone: str | None = None
    frequency: str | None = None
    calendar: list[str] | None = None
    holidays: Any = None
    columns: list[str] | None = None
    exclude: list[str] = field(default_factory=list)
    exclude_files: list[str] = field(default_factory=list)
    target: str | None = None
    categorical: list[str] = field(default_factory=list)
    static_covariates: list[str] = field(default_factory=list)
    split: SplitConfig = field(default_factory=SplitConfig)
    url: str | None = None
    sha256: str | None = None
    hint: str | None = None
    sheet: str | None = None
    separator: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    sort: bool = False
    duplicates: Duplicates | None = None
    fill: Fill | None = None
    max_gap: int | None = None
    min_observed: float = 0.5
    confirm: list[str] = field(default_factory=list)
    max_file_mb: float = 4096.0
    max_line_mb: float = 64.0
    max_cell: int = LONGEST_CELL

    def marked(self, kind: CalendarEmbed) -> Calendar:
        """What marks each row, written as `kind`."""
        return Calendar(kind, tuple(self.calendar or ()), places_of(self.holidays))

    @property
    def limits(self) -> Limits:
        """Limits on the file."""
        return Limits(file_mb=self.max_file_mb, line_mb=self.max_line_mb, cell=self.max_cell)

    @property
    def repairs(self) -> Repairs:
        """Repairs before the checks."""
        return Repairs(
            sort=self.sort,
            duplicates=self.duplicates,
            fill=self.fill,
            max_gap=self.max_gap,
            confirmed=self.confirm,
            categorical=self.categorical,
            static=self.static_covariates,
        )

    @property
    def keeps_gaps(self) -> bool:
        """Whether missing values stay missing."""
        return self.fill is Fill.mask

    @property
    def as_text(self) -> list[str]:
        """Columns whose cells are read as they are written: names of series, categories."""
        return [*([] if self.series_col is None else [self.series_col]), *self.categorical]

    @property
    def hints(self) -> Hints:
        """The given format of files."""
        return Hints(self.separator, self.decimal, self.thousands, self.encoding, self.sheet)

    def problems(self) -> list[str]:
        """All values out of range, one sentence each."""
        found: list[str] = []
        unknown = [name for name in self.confirm if name != "duplicates"]
        if unknown:
            found.append(f"dataset.confirm: expected names of repairs (duplicates), found {listed(unknown)}")
        if self.max_gap is not None and self.max_gap < 1:
            found.append(f"dataset.max_gap: expected at least 1, found {self.max_gap}")
        if self.max_gap is not None and self.fill is Fill.mask:
            found.append("dataset.max_gap: expected none with dataset.fill=mask, which keeps gaps of any length")
        if not 0 < self.min_observed <= 1:
            found.append(f"dataset.min_observed: expected a share above 0 and at most 1, found {self.min_observed}")
        for name in ("max_file_mb", "max_line_mb"):
            if not getattr(self, name) > 0:
                found.append(f"dataset.{name}: expected more than 0, found {getattr(self, name)}")
        if not 1 <= self.max_cell <= LONGEST_CELL:
            found.append(f"dataset.max_cell: expected 1 to {LONGEST_CELL} characters, found {self.max_cell}")
        if self.file is not None and not is_plain_name(self.file):
            found.append(f"dataset.file: expected the name of a file in data_dir, found {self.file!r}")
        if self.time_format is not None:
            found += format_problems(self.time_format)
        found += [*zone_problems(self.timezone), *field_problems(self.calendar), *holiday_problems(self.holidays)]
        return [*found, *hint_problems(self.separator, self.decimal, self.thousands, self.encoding)]


class ScalerKind(Enum):
    """standard: mean 0, deviation 1; minmax: 0 to 1; robust: median 0, interquartile range 1; none: unscaled."""

    standard = "standard"
    minmax = "minmax"
    robust = "robust"
    none = "none"


@dataclass(kw_only=True, slots=True)
class ScalerConfig:
    """The node `scaler`."""

    kind: ScalerKind = ScalerKind.standard
    per_series: bool = False
    """Scale each series by its own training rows instead of those of all series."""
