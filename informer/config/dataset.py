"""How data are read, repaired, split and scaled: the nodes `dataset` and `scaler`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any, TypeVar

from informer.config.calendar import Calendar, field_problems, holiday_problems, regions_of
from informer.config.file_format import Hints, format_problems, hint_problems, missing_problems, zone_problems
from informer.config.model import CalendarEmbed
from informer.config.repairs import LONGEST_CELL, Duplicates, Fill, Limits, Repairs
from informer.errors import listed

Value = TypeVar("Value")


class Features(Enum):
    """M: all columns in and out; S: only the target in and out; MS: all columns in, the target out."""

    M = "M"
    S = "S"
    MS = "MS"


class NonNegative(Enum):
    """Targets whose forecasts and intervals are at least zero."""

    auto = "auto"
    """Targets that are counts or often zero, and never negative in the training rows."""
    all = "all"
    none = "none"


class Short(Enum):
    """What to do with a series that is too short for a window in some part."""

    error = "error"
    """Raise an error."""
    skip = "skip"
    """Skip it, with a warning."""
    pad = "pad"
    """Repeat its first row before it, so that targets from the second row on have a full lookback window."""


class SplitKind(Enum):
    """Unit of the split: 30-day months, shares of the rows, end dates of the parts, or rows."""

    months = "months"
    ratio = "ratio"
    dates = "dates"
    rows = "rows"


@dataclass(kw_only=True, slots=True)
class SplitConfig:
    """The node `dataset.split`: sizes of the training, validation and test part.

    months, rows: sizes of the parts, from the first row on; remaining rows are not used.
    ratio: shares that add up to 1; training and test are rounded down, validation gets the rest.
    dates: the first timestamp after each part (`test: null` is the end of the file).
    """

    kind: SplitKind = SplitKind.ratio
    train: int | float | str | None = 0.7
    val: int | float | str | None = 0.1
    test: int | float | str | None = 0.2


class Place(Enum):
    """Settings that locate data; a saved configuration has no say in them."""

    own = "own"
    """Files and folders of the user, who may name them anew when a run is read again."""
    published = "published"
    """Where the file of a named dataset comes from."""


def setting(
    default: Any,
    *,
    reading: bool,
    per_file: bool = False,
    place: Place | None = None,
    repair: Callable[[Sequence[Any]], Any] | None = None,
    is_limit: bool = False,
    is_name: bool = False,
) -> Any:
    """A field of `DatasetConfig` that says what it is; lists of settings follow from it.

    Args:
        default: its value if it is not set, or the class of a new one.
        reading: whether rows that are read depend on it, besides the content of the files.
        per_file: whether the tables that a trained model forecasts may differ in it from the training data.
        place: whether it locates data.
        repair: of a setting that repairs files: one value for several series, from the values that they need.
        is_limit: whether it bounds what is read; a trained model does not change such a bound.
        is_name: whether it names a column or sheet, see `informer.config.overrides`.
    """
    what = {"reading": reading, "per_file": per_file, "place": place, "repair": repair, "is_limit": is_limit}
    what["is_name"] = is_name
    if isinstance(default, type):
        return field(default_factory=default, metadata=what)
    return field(default=default, metadata=what)


def first_set(values: Sequence[Value]) -> Value:
    """One value for several series: the first that is set, or else the first."""
    return next(filter(None, values), values[0])


def union_of(lists: Sequence[Sequence[str]]) -> list[str]:
    """One list for several series: the elements of all lists."""
    return list(dict.fromkeys(element for each in lists for element in each))


def in_all(lists: Sequence[Sequence[str] | None]) -> list[str] | None:
    """One list of columns for several series: those that all lists contain; None stands for all columns."""
    given = [each for each in lists if each is not None]
    return [name for name in given[0] if all(name in other for other in given)] if given else None


def fill_of_all(fills: Sequence[Fill | None]) -> Fill | None:
    """One value for several series: mask if any needs it, otherwise the first that is set."""
    return Fill.mask if Fill.mask in fills else first_set(fills)


def is_plain_name(name: str) -> bool:
    """Whether `name` is a file name without folders, on any operating system."""
    return name not in ("", ".", "..") and not set(name) & set("/\\:\0")


@dataclass(kw_only=True, slots=True)
class DatasetConfig:
    """The node `dataset`: where the data are, how to read, repair and split them.

    Args:
        name: name of the dataset in reports.
        path: data file (CSV, also gzip; parquet; .xlsx), a partitioned folder of parquet files, or a folder or pattern
            of files with one series each; None reads `file` from the data folder.
        file: name of a file in the data folder.
        packaged: read `file` from this package (the sample) instead of the data folder.
        series_col: column with the name of each row's series, if the file contains several; names are read as text, so
            001 and NA stay as they are; None means a single series.
        short: what to do with series that are too short for a window in each part.
        memmap: keep values in cache files instead of in memory, and read CSV files in pieces.
        cache_dir: folder of the cache files; None means `cache` in the data folder.
        time_col: time column; None detects it, and joins columns named year, month, day, hour, minute or quarter.
        clock_col: column with the time of day, if `time_col` contains only dates; None detects it.
        time_format: strptime format of the timestamps (`%Y-Q%q` for quarters, `%G-W%V` for ISO weeks); s, ms, us or ns
            since 1970; or excel for spreadsheet days; None detects it (spreadsheet days only in workbooks).
        timezone: time zone of local times, such as Europe/Berlin; times with a UTC offset are converted to it.
        frequency: step between rows, as a pandas offset; None infers it.
        calendar: fields of date and time that mark each row (hour, weekday, ...); None takes those that change at the
            step of the series.
        holidays: a country or a list of countries (DE, DE-BY), with one mark each for its public holidays.
        columns: value columns, in this order; None takes all numeric columns.
        exclude: columns to ignore.
        exclude_files: names of files in the folder or pattern `path` to ignore.
        target: column to forecast; None takes the last value column.
        categorical: columns with categories, as text or numbers; those not named in future_covariates are past
            covariates.
        static_covariates: columns that are constant within each series, numeric or categorical.
        attributes: file with one row per series, which has `series_col` and static covariates: those that
            `static_covariates` names, by default all other columns.
        split: sizes of the training, validation and test part.
        url: address from which a missing `file` is downloaded; needs `sha256`.
        sha256: checksum of the published file; a download must match it, an existing file that differs is only
            reported.
        hint: where to get a file that has no stable URL.
        sheet: sheet of a workbook, by name or by number from 1; None takes the first.
        separator, decimal, thousands, encoding: format of CSV text; None detects it, thousands="" means no separator.
        missing_values: words (closed, offline) and numbers (-999) that mean a missing value, like an empty cell, except
            in `series_col` and `categorical`.
        sort, duplicates, fill, max_gap: repairs (see `Repairs`), none by default; fill=mask keeps gaps.
        min_observed: with fill=mask, windows are left out if a smaller share of rows than this has an observed target,
            in the lookback window or in the horizon.
        confirm: repairs that may drop more than 10 rows and 1 % of the rows (duplicates).
        max_file_mb, max_line_mb, max_cell: limits of a file's size (see `Limits`); with memmap max_file_mb is not used.
    """

    name: str = setting("csv", reading=False)
    path: str | None = setting(None, reading=False, place=Place.own)
    file: str | None = setting(None, reading=False, place=Place.published)
    packaged: bool = setting(False, reading=False, place=Place.published)
    series_col: str | None = setting(None, reading=True, per_file=True, is_name=True)
    short: Short = setting(Short.error, reading=False, per_file=True)
    memmap: bool = setting(False, reading=False)
    cache_dir: str | None = setting(None, reading=False, place=Place.own)
    time_col: str | None = setting(None, reading=True, per_file=True, is_name=True)
    clock_col: str | None = setting(None, reading=True, per_file=True, is_name=True)
    time_format: str | None = setting(None, reading=True, per_file=True, repair=first_set)
    timezone: str | None = setting(None, reading=True, per_file=True, repair=first_set)
    frequency: str | None = setting(None, reading=True, per_file=True)
    calendar: list[str] | None = setting(None, reading=False)
    holidays: Any = setting(None, reading=False)
    columns: list[str] | None = setting(None, reading=True, repair=in_all)
    exclude: list[str] = setting(list, reading=True)
    exclude_files: list[str] = setting(list, reading=True)
    target: str | None = setting(None, reading=True, is_name=True)
    categorical: list[str] = setting(list, reading=True)
    static_covariates: list[str] = setting(list, reading=True)
    attributes: str | None = setting(None, reading=False, per_file=True, place=Place.own)
    split: SplitConfig = setting(SplitConfig, reading=False)
    url: str | None = setting(None, reading=False, place=Place.published)
    sha256: str | None = setting(None, reading=False, place=Place.published)
    hint: str | None = setting(None, reading=False, place=Place.published)
    sheet: str | None = setting(None, reading=True, per_file=True, is_name=True)
    separator: str | None = setting(None, reading=True, per_file=True)
    decimal: str | None = setting(None, reading=True, per_file=True)
    thousands: str | None = setting(None, reading=True, per_file=True)
    encoding: str | None = setting(None, reading=True, per_file=True)
    missing_values: list[str] = setting(list, reading=True, per_file=True, repair=union_of)
    sort: bool = setting(False, reading=True, per_file=True, repair=first_set)
    duplicates: Duplicates | None = setting(None, reading=True, per_file=True, repair=first_set)
    fill: Fill | None = setting(None, reading=True, per_file=True, repair=fill_of_all)
    max_gap: int | None = setting(None, reading=True, per_file=True)
    min_observed: float = setting(0.5, reading=False, per_file=True)
    confirm: list[str] = setting(list, reading=True, per_file=True, repair=union_of)
    max_file_mb: float = setting(4096.0, reading=True, per_file=True, is_limit=True)
    max_line_mb: float = setting(64.0, reading=True, per_file=True, is_limit=True)
    max_cell: int = setting(LONGEST_CELL, reading=True, per_file=True, is_limit=True)

    def marked(self, kind: CalendarEmbed) -> Calendar:
        """The calendar marks of each row, encoded as `kind`."""
        return Calendar(kind, tuple(self.calendar or ()), regions_of(self.holidays))

    @property
    def limits(self) -> Limits:
        """Limits of the file's size."""
        return Limits(file_mb=self.max_file_mb, line_mb=self.max_line_mb, cell=self.max_cell)

    @property
    def repairs(self) -> Repairs:
        """Repairs that are made before the checks."""
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
        """Columns that are read as text: names of series, categories."""
        return [*([] if self.series_col is None else [self.series_col]), *self.categorical]

    @property
    def hints(self) -> Hints:
        """The format of files as far as it is given."""
        return Hints(
            self.separator, self.decimal, self.thousands, self.encoding, self.sheet, tuple(self.missing_values)
        )

    def problems(self) -> list[str]:
        """One sentence for each value out of range."""
        problems: list[str] = []
        unknown = [name for name in self.confirm if name != "duplicates"]
        if unknown:
            problems.append(f"dataset.confirm: expected names of repairs (duplicates), found {listed(unknown)}")
        if self.max_gap is not None and self.max_gap < 1:
            problems.append(f"dataset.max_gap: expected at least 1, found {self.max_gap}")
        if self.max_gap is not None and self.fill is Fill.mask:
            problems.append("dataset.max_gap: expected none with dataset.fill=mask, which keeps gaps of any length")
        if not 0 < self.min_observed <= 1:
            problems.append(f"dataset.min_observed: expected a share above 0 and at most 1, found {self.min_observed}")
        for name in ("max_file_mb", "max_line_mb"):
            if not getattr(self, name) > 0:
                problems.append(f"dataset.{name}: expected more than 0, found {getattr(self, name)}")
        if not 1 <= self.max_cell <= LONGEST_CELL:
            problems.append(f"dataset.max_cell: expected 1 to {LONGEST_CELL} characters, found {self.max_cell}")
        if self.file is not None and not is_plain_name(self.file):
            problems.append(f"dataset.file: expected the name of a file in data_dir, found {self.file!r}")
        if self.time_format is not None:
            problems += format_problems(self.time_format)
        problems += missing_problems(self.missing_values)
        problems += [*zone_problems(self.timezone), *field_problems(self.calendar), *holiday_problems(self.holidays)]
        return [*problems, *hint_problems(self.separator, self.decimal, self.thousands, self.encoding)]


def settings_that(**what: Any) -> tuple[str, ...]:
    """Names of the settings that `setting` declares as `what`, such as `reading=True`."""
    return tuple(field.name for field in fields(DatasetConfig) if what.items() <= field.metadata.items())


PUBLISHED, OWN_PLACES = settings_that(place=Place.published), settings_that(place=Place.own)
LOCATION_KEYS = (*PUBLISHED, *OWN_PLACES)
"""Settings that locate the data; the others say how to read and use them."""

REPAIRS = tuple(field.name for field in fields(DatasetConfig) if field.metadata.get("repair"))
"""Settings that repair files."""


def without_location(dataset: Mapping[str, Any]) -> dict[str, Any]:
    """A saved `dataset` node without the settings that locate the data."""
    return {key: value for key, value in dataset.items() if key not in LOCATION_KEYS}


def with_repairs(datasets: Sequence[DatasetConfig]) -> DatasetConfig:
    """The first with every repair that any of them has, and only the columns that all of them keep.

    A repair that a series does not need does not change it.
    """
    joins = {field.name: field.metadata["repair"] for field in fields(DatasetConfig) if field.name in REPAIRS}
    return replace(
        datasets[0], **{name: join([getattr(each, name) for each in datasets]) for name, join in joins.items()}
    )


class ScalerKind(Enum):
    """Scaling fitted on training rows. standard: mean 0, standard deviation 1. minmax: 0 to 1. robust: median 0,
    interquartile range 1. none: no scaling."""

    standard = "standard"
    minmax = "minmax"
    robust = "robust"
    none = "none"


class Transform(Enum):
    """Transform of the targets before scaling, of those whose training values are at least 0; forecasts are converted
    back. A root fits data whose fluctuations grow with their level. none: no transform. sqrt, fourth_root: the root
    (of a negative value: minus the root of its absolute value). auto: chosen on validation data."""

    none = "none"
    sqrt = "sqrt"
    fourth_root = "fourth_root"
    auto = "auto"


@dataclass(kw_only=True, slots=True)
class ScalerConfig:
    """The node `scaler`."""

    kind: ScalerKind = ScalerKind.standard
    transform: Transform = Transform.none
    per_series: bool = True
    """Scale each series by its own training rows; false: by those of all series together."""
