"""How data are read, repaired, split and scaled: the nodes `dataset` and `scaler`."""

import codecs
import importlib.util
import re
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, make_dataclass, replace
from datetime import datetime
from enum import Enum
from functools import partial
from typing import Any, ClassVar, Literal, TypeVar, get_type_hints
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from informer.base.errors import InputError, Repair, listed
from informer.config.fields import Checked, setting
from informer.config.model import CalendarEmbed
from informer.config.overrides import TextKey, changed_settings, text_value, to_display


class Fill(Enum):
    """What replaces a missing cell. ffill: the last value before it. linear: interpolation between its neighbours.
    zero: 0. mask: nothing, it stays missing."""

    ffill = "ffill"
    linear = "linear"
    zero = "zero"
    mask = "mask"


class Duplicates(Enum):
    """What to keep of rows with the same timestamp: the first row, their mean, or their sum. With sum, the rows between
    two times of `dataset.frequency` are one, and times without rows are 0. With mean too if times are not at its steps,
    but times without rows are missing."""

    first = "first"
    mean = "mean"
    sum = "sum"


class Outliers(Enum):
    """What to do about readings far from all others of their series and column. keep: nothing. missing: read them as
    missing values."""

    keep = "keep"
    missing = "missing"


class Ended(Enum):
    """What to do about series that ended long before the others: forecast them from their own end, or not at all."""

    skip = "skip"
    forecast = "forecast"


LONGEST_CELL = 131_072
"""Longest cell, in characters, that Python's csv module can read."""


DECIMALS, THOUSANDS = (".", ","), ("", ",", ".", "'", " ")
"""Characters allowed in numbers."""

TAB = r"\t"
"""A tab as written on the command line."""

ISO = "ISO8601"
"""ISO 8601: year first, from dates to fractions of a second."""

EXCEL = "excel"
"""Days since 1899-12-30 with the time of day as fraction, as in spreadsheets."""

STEP = "step"
"""Numbers of rows, such as 1, 2, 3, instead of times; read as counts of seconds since 1970."""

EPOCHS: dict[str, Literal["s", "ms", "us", "ns"]] = {"s": "s", "ms": "ms", "us": "us", "ns": "ns", STEP: "s"}
"""Values of `time_format` for counts since 1970."""

QUARTER, WEEK = "%q", "%V"
"""Directives of quarters, which go with the year, and of ISO weeks, which go with their year %G: `%Y-Q%q`, `%G-W%V`."""

SEASON = re.compile("%Y[/.-]%y")
"""A year with the next one, such as 2003/04."""

SPANS = {
    **dict.fromkeys(["s", "sec", "second"], "seconds"),
    **dict.fromkeys(["min", "minute"], "minutes"),
    **dict.fromkeys(["h", "hour"], "hours"),
    **dict.fromkeys(["d", "day"], "days"),
    **dict.fromkeys(["w", "week"], "weeks"),
    "month": "months",
    **dict.fromkeys(["y", "year"], "years"),
}
"""Units of a span of time, which may have a plural s."""


def span_problems(span: str) -> Iterator[str]:
    """Problem of `horizon`, which is a number of rows or a span of time, such as 2weeks."""
    number, unit = span_of(span)
    if unit not in ("", *SPANS):
        units = ", ".join(dict.fromkeys(SPANS.values()))
        yield f"horizon: expected a number of rows, or of {units}, such as 2weeks, found {span!r}"
    elif number < 1:
        yield f"horizon: expected at least 1, found {span}"


def date_problems(date: str, name: str = "until") -> Iterator[str]:
    """Problem of a setting that is an ISO date, with or without a time of day."""
    try:
        is_date = re.match(r"\d{4}-\d\d-\d\d", date) is not None and bool(datetime.fromisoformat(date))
    except ValueError:
        is_date = False
    if not is_date:
        yield f"{name}: expected a date such as 2024-06-30 or 2024-06-30T12:00, found {date!r}"


def span_of(span: str) -> tuple[int, str]:
    """Number and unit of a span, a unit of SPANS if it is a valid one."""
    match = re.fullmatch(r"(-?\d{1,18})\s*([a-z]*)", span.strip().lower())
    return (0, "?") if match is None else (int(match[1]), match[2].removesuffix("s") or match[2])


_DIRECTIVES = "aAwdbBmyYHIpMSfzZjUWVGuq%"
"""Directives that can be read: those of pandas' strptime, and %q."""


def format_problems(time_format: str) -> Iterator[str]:
    """Problem of `dataset.time_format`: directives that cannot be read, or twice the same."""
    if time_format in (ISO, EXCEL, *EPOCHS):
        return
    directives = re.findall(r"%(.?)", time_format)
    unknown = [letter for letter in directives if letter == "" or letter not in _DIRECTIVES]
    repeated = sorted({letter for letter in directives if letter != "%" and directives.count(letter) > 1})
    quarter_without_year = "q" in directives and set(directives) not in ({"q", "Y"}, {"q", "y"})
    if unknown or repeated or quarter_without_year or not directives:
        wrong = f"%{unknown[0]}" if unknown else f"%{repeated[0]} twice" if repeated else repr(time_format)
        yield (
            f"dataset.time_format: expected ISO8601, excel, s, ms, us, ns, step or one such as %d/%m/%Y %H:%M, found "
            f"{wrong}"
        )


def missing_problems(words: Sequence[str]) -> Iterator[str]:
    """Problem of `dataset.missing_values`: an empty word, or one with a blank at either end, which no cell has."""
    if wrong := [word for word in words if word != word.strip() or not word]:
        yield f"dataset.missing_values: expected words such as closed, found {listed(list(map(repr, wrong)))}"


_SIGNS = "".join(sign for sign in string.printable if sign != "\\") + ".xn--tda.\\u002c"
"""Signs of a table, and ways to write others with them: the escapes of Python and of domain names."""


def encoding_problems(name: str) -> Iterator[str]:
    """Problem of `dataset.encoding`: no character set, or one in which a byte of ASCII means something else, so that
    separators and line ends are not where they seem to be (EBCDIC, UTF-7, unicode_escape). UTF-16 and UTF-32 are read.
    """
    try:
        is_wide = codecs.lookup(name).name.startswith(("utf-16", "utf-32"))
        is_known = is_wide or _SIGNS.encode().decode(name) == _SIGNS
    except (LookupError, ValueError):
        is_known = False
    if not is_known:
        yield (
            f"dataset.encoding: expected a text encoding such as latin-1, found {name!r}; convert EBCDIC and escaped "
            "text to UTF-8"
        )


def zone_problems(zone: str) -> Iterator[str]:
    """Problem of `dataset.timezone`: not the name of a time zone."""
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        yield f"dataset.timezone: expected the name of a time zone such as Europe/Berlin, found {zone!r}"


FIELDS = ("second", "minute", "quarter_hour", "hour", "weekday", "day", "dayofyear", "week", "month")
"""Allowed values of `dataset.calendar`."""


@dataclass(frozen=True, slots=True)
class Calendar:
    """Calendar marks of each row.

    Args:
        kind: encoding of the marks.
        fields: names from FIELDS. Empty: the fields that change from row to row at the step of the series.
        holidays: countries or parts of countries (DE, DE-BY), with one mark each.

    Raises:
        InputError: unknown field or country, or the package for holidays is missing.
    """

    kind: CalendarEmbed
    fields: tuple[str, ...] = ()
    holidays: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for problem in [*(field_problems(self.fields) if self.fields else ()), *holiday_problems(self.holidays)]:
            raise InputError(problem)


def field_problems(fields: Sequence[str]) -> Iterator[str]:
    """Problem of `dataset.calendar`: unknown or repeated fields, or none."""
    unknown = [name for name in fields if name not in FIELDS]
    if unknown or not fields:
        invalid = listed(unknown) if unknown else "[] (for none: model.embed=none)"
        yield f"dataset.calendar: expected some of {', '.join(FIELDS)}, found {invalid}"
    elif len(set(fields)) < len(fields):
        yield f"dataset.calendar: a field is given twice in {listed(fields)}"


def regions_of(holidays: Any) -> tuple[str, ...]:
    """The value of `dataset.holidays`, one country or several, as a tuple; the elements are not checked."""
    if holidays is None:
        return ()
    return tuple(holidays) if isinstance(holidays, list | tuple) else (holidays,)


def holiday_problems(holidays: Any) -> Iterator[str]:
    """Problems of `dataset.holidays`: unknown or repeated countries, or the package for holidays is missing."""
    regions = regions_of(holidays)
    if not all(isinstance(region, str) for region in regions):
        yield f"dataset.holidays: expected a country or a list of them, such as [DE,FR], found {str(holidays)[:80]}"
    elif len(set(regions)) < len(regions):
        yield f"dataset.holidays: a country is given twice in {listed(regions)}"
    elif regions and importlib.util.find_spec("holidays") is None:
        yield "dataset.holidays needs the package holidays: pip install holidays"
    else:
        for region in regions:
            yield from _region_problems(region)


def _region_problems(region: str) -> Iterator[str]:
    from holidays.utils import list_supported_countries  # imported here because only this check needs it

    supported = list_supported_countries(include_aliases=True)
    country, _, subdivision = region.partition("-")
    if country not in supported:
        yield (
            f"dataset.holidays: expected the two capital letters of a country (one of {len(supported)}, such as DE, "
            f"FR, US), or with a part, such as DE-BY, found {region[:20]!r}"
        )
    elif "-" in region and subdivision not in supported[country]:
        subdivisions = ", ".join(supported[country]) or "none: give the country"
        yield f"dataset.holidays: {country} has no part {subdivision[:20]!r}; its parts are {subdivisions}"


Value = TypeVar("Value")


class FeatureMode(Enum):
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


def key_columns(series_col: str | None) -> list[str]:
    """The columns that name the series together: those in the brackets of `[store,item]`, or one."""
    names = None if series_col is None else text_value(series_col, TextKey(True, False, False))
    if isinstance(names, list) and len(names) > 1:
        return names
    return [] if series_col is None else [series_col]


def plain_settings(dataset: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a dataset from Python, where several columns that name the series may be a list."""
    key = dataset.get("series_col")
    return {**dataset, **({"series_col": to_display(key)} if isinstance(key, list | tuple) else {})}


def is_plain_name(name: str) -> bool:
    """Whether `name` is a file name without folders, on any operating system."""
    return name not in ("", ".", "..") and not set(name) & set("/\\:\0")


@dataclass(kw_only=True, slots=True)
class DatasetConfig(Checked):
    """The node `dataset`: where the data are, how to read, repair and split them.

    Args:
        name: name of the dataset in reports.
        path: data file (CSV, also gzip; parquet; .xlsx), a partitioned folder of parquet files, or a folder or pattern
            of files with one series each; None reads `file` from the data folder.
        file: name of a file in the data folder.
        packaged: read `file` from this package (the sample) instead of the data folder.
        series_col: column with the name of each row's series, if the file contains several, or columns that name it
            together, [store,item]; names are read as text, so 001 and NA stay as they are; None means a single series.
        short: what to do with series that are too short for a window in each part.
        time_col: time column; None detects it, and joins columns named year, month, day, hour, minute or quarter.
        clock_col: column with the time of day, if `time_col` contains only dates; None detects it.
        time_format: strptime format of the timestamps (`%Y-Q%q` for quarters, `%G-W%V` for ISO weeks, `%Y/%y` for
            seasons); s, ms, us or ns since 1970; excel for spreadsheet days; step for numbers of rows, such as 1, 2,
            3; None detects it (spreadsheet days only in workbooks).
        timezone: time zone of local times, such as Europe/Berlin; times with a UTC offset are converted to it.
        frequency: step between rows, as a pandas offset, also on open weekdays (C-MonTueSat), within opening hours
            (30min-MonTueWedThuFri0830-1730-Sat0900-1200) or of numbered rows (step); None infers it.
        calendar: fields of date and time that mark each row (hour, weekday, ...); None takes those that change at the
            step of the series.
        holidays: a country or a list of countries (DE, DE-BY), with one mark each for its public holidays.
        columns: value columns, in this order; None takes all numeric columns.
        exclude: columns to ignore.
        exclude_files: names of files in the folder or pattern `path` to ignore.
        target: column to forecast; None takes the last value column. Rows at the end without it, but with values of
            another column, are ahead of the series, unless fill=mask.
        categorical: columns with categories, as text or numbers; those not named in future_covariates are past
            covariates.
        static_covariates: columns that are constant within each series, numeric or categorical.
        split: sizes of the training, validation and test part.
        url: address from which a missing `file` is downloaded; needs `sha256`.
        sha256: checksum of the published file; a download must match it, an existing file that differs is only
            reported.
        hint: where to get a file that has no stable URL.
        sheet: sheet of a workbook, by name or by number from 1; None takes the first.
        separator, decimal, thousands, encoding: format of CSV text; None detects it, thousands="" means no separator.
        skip_rows: number of lines, or rows of a sheet, above the names of the columns; None finds them.
        header: number of lines with names of columns, which are joined; 0: none, columns are column_1, column_2, ...
        missing_values: words (closed, offline) and numbers (-999) that mean a missing value, like an empty cell, except
            in `series_col` and `categorical`.
        sort: sort rows by time.
        duplicates: how to merge rows with the same timestamp; codes of categories are never averaged. sum, of sales or
            calls, adds those of each period of `frequency` (h, D, W, MS; as pandas resamples, so W from Monday to
            Sunday), with 0 for periods between the first and the last that have none.
        fill: how to fill empty cells and missing rows; mask keeps them missing, except in static columns.
        max_gap: longest run of rows to fill; None means no limit.
        outliers: what to do about readings far from all others of their column; None warns of them, and asks before
            they are forecast from.
        ended: whether series of a file are forecast that ended more than a season before the others (closed stores), if
            at least 80 % of all series end within it, half of them at the same time; they are trained on in any case.
        min_observed: with fill=mask, windows are left out if a smaller share of rows than this has an observed target,
            in the lookback window or in the horizon.
        confirm: repairs that may drop more than 0.5 % of the rows (duplicates).
        max_file_mb, max_line_mb, max_cell: limits of a file's uncompressed size in MB, of the size of one line in MB,
            and of the characters of one cell.
        max_columns, max_cells, max_ratio: limits of a file's columns, of its rows times columns, and of what it is
            unpacked to as a multiple of its size.
    """

    NODE: ClassVar[str] = "dataset."

    # `repair`, of a setting that a `Repair` may change: the value that serves several; the others: see `settings_that`
    name: str = setting("csv", reading=False)
    path: str | None = setting(None, reading=False, place=Place.own, is_address=True)
    file: str | None = setting(None, reading=False, place=Place.published)
    packaged: bool = setting(False, reading=False, place=Place.published)
    series_col: str | None = setting(None, reading=True, of_cells=True, per_file=True, is_name=True, repair=first_set)
    short: Short = setting(Short.error, reading=False, per_file=True)
    time_col: str | None = setting(None, reading=True, per_file=True, is_name=True)
    clock_col: str | None = setting(None, reading=True, per_file=True, is_name=True)
    time_format: str | None = setting(None, reading=True, per_file=True, repair=first_set, check=format_problems)
    since: str | None = setting(None, reading=True, check=partial(date_problems, name="dataset.since"))
    timezone: str | None = setting(None, reading=True, per_file=True, repair=first_set, check=zone_problems)
    frequency: str | None = setting(None, reading=True, per_file=True)
    calendar: list[str] | None = setting(None, reading=False, check=field_problems)
    holidays: Any = setting(None, reading=False, check=holiday_problems)
    columns: list[str] | None = setting(None, reading=True, repair=in_all)
    exclude: list[str] = setting(list, reading=True, repair=union_of)
    exclude_files: list[str] = setting(list, reading=True)
    target: str | None = setting(None, reading=True, is_name=True)
    categorical: list[str] = setting(list, reading=True, of_cells=True, repair=union_of)
    static_covariates: list[str] = setting(list, reading=True, repair=union_of)
    split: SplitConfig = setting(SplitConfig, reading=False)
    url: str | None = setting(None, reading=False, place=Place.published)
    sha256: str | None = setting(None, reading=False, place=Place.published)
    hint: str | None = setting(None, reading=False, place=Place.published)
    sheet: str | None = setting(None, reading=True, of_cells=True, per_file=True, is_name=True)
    separator: str | None = setting(None, reading=True, of_cells=True, per_file=True)
    decimal: str | None = setting(None, reading=True, of_cells=True, per_file=True)
    thousands: str | None = setting(None, reading=True, of_cells=True, per_file=True)
    encoding: str | None = setting(None, reading=True, of_cells=True, per_file=True, check=encoding_problems)
    skip_rows: int | None = setting(None, reading=True, of_cells=True, per_file=True, least=0)
    header: int | None = setting(None, reading=True, of_cells=True, per_file=True, least=0, most=9)
    missing_values: list[str] = setting(
        list, reading=True, of_cells=True, per_file=True, repair=union_of, check=missing_problems
    )
    sort: bool = setting(False, reading=True, per_file=True, repair=first_set)
    duplicates: Duplicates | None = setting(None, reading=True, per_file=True, repair=first_set)
    fill: Fill | None = setting(None, reading=True, per_file=True, repair=fill_of_all)
    max_gap: int | None = setting(None, reading=True, per_file=True, least=1)
    outliers: Outliers | None = setting(None, reading=True, per_file=True, repair=first_set)
    ended: Ended = setting(Ended.skip, reading=False, per_file=True)
    min_observed: float = setting(0.5, reading=False, per_file=True, above=0, most=1)
    confirm: list[str] = setting(list, reading=True, per_file=True, repair=union_of)
    max_file_mb: float = setting(4096.0, reading=True, of_cells=True, per_file=True, is_limit=True, above=0)
    max_line_mb: float = setting(64.0, reading=True, of_cells=True, per_file=True, is_limit=True, above=0)
    max_cell: int = setting(
        LONGEST_CELL, reading=True, of_cells=True, per_file=True, is_limit=True, least=1, most=LONGEST_CELL
    )
    max_columns: int = setting(10_000, reading=True, of_cells=True, per_file=True, is_limit=True, least=1)
    max_cells: int = setting(500_000_000, reading=True, of_cells=True, per_file=True, is_limit=True, least=1)
    max_ratio: float = setting(200.0, reading=True, of_cells=True, per_file=True, is_limit=True, least=1)

    def marked(self, kind: CalendarEmbed) -> Calendar:
        """The calendar marks of each row, encoded as `kind`."""
        return Calendar(kind, tuple(self.calendar or ()), regions_of(self.holidays))

    @property
    def repairs_rows(self) -> bool:
        """Whether rows are repaired before the checks."""
        merges, fills, masks = self.duplicates is not None, self.fill is not None, self.outliers is Outliers.missing
        return self.sort or merges or fills or masks

    @property
    def keeps_gaps(self) -> bool:
        """Whether missing values stay missing."""
        return self.fill is Fill.mask

    @property
    def as_text(self) -> list[str]:
        """Columns that are read as text: names of series, categories."""
        return [*dict.fromkeys([*key_columns(self.series_col), *filter(None, [self.series_col]), *self.categorical])]

    def _joint_problems(self) -> Iterator[str]:
        if unknown := [name for name in self.confirm if name != "duplicates"]:
            yield f"dataset.confirm: expected names of repairs (duplicates), found {listed(unknown)}"
        if self.max_gap is not None and self.fill is Fill.mask:
            yield "dataset.max_gap: expected none with dataset.fill=mask, which keeps gaps of any length"
        if self.file is not None and not is_plain_name(self.file):
            yield f"dataset.file: expected the name of a file in data_dir, found {self.file!r}"
        if (mark := self.separator) not in (None, TAB):
            if len(mark) != 1:
                yield f"dataset.separator: expected one character, found {mark!r}"
            elif not mark.isascii() or mark.isalnum() or mark in "\"'\r\n\0+-.":
                yield f"dataset.separator: expected a separator such as , ; | or a tab, found {mark!r}"
        for name, allowed in (("decimal", DECIMALS), ("thousands", THOUSANDS)):
            if (mark := getattr(self, name)) is not None and mark not in allowed:
                yield f"dataset.{name}: expected one of {' '.join(map(repr, allowed))}, found {mark!r}"
        if self.thousands and self.thousands == self.decimal:
            yield f"dataset.thousands: must differ from dataset.decimal={self.decimal!r}"


def settings_that(**what: Any) -> tuple[str, ...]:
    """Names of the dataset's settings that are declared as `what`.

    Args:
        reading: whether rows that are read depend on it, besides the content of the files.
        of_cells: True where the cells of a file already depend on it, before rows are made of them.
        per_file: True where the tables that a trained model forecasts may differ in it from the training data.
        place: whether it locates data, and which.
        is_limit: True where it bounds what is read; a trained model does not change such a bound.
    """
    return tuple(
        field.name
        for field in fields(DatasetConfig)
        if all(field.metadata.get(key) == value for key, value in what.items())
    )


PUBLISHED, OWN_PLACES = settings_that(place=Place.published), settings_that(place=Place.own)
LOCATION_KEYS = (*PUBLISHED, *OWN_PLACES)
"""Settings that locate the data; the others say how to read and use them."""


def repaired(dataset: DatasetConfig, repairs: Iterable[Repair]) -> DatasetConfig:
    """`dataset` with these repairs; what it sets itself has priority, and lists are joined.

    A repair that a series does not need does not change it.
    """
    joins = {field.name: field.metadata["repair"] for field in fields(DatasetConfig) if "repair" in field.metadata}
    for repair in repairs:
        joined = joins[repair.setting]([getattr(dataset, repair.setting), repair.value])
        dataset = replace(dataset, **{repair.setting: joined})
    return dataset


def without_location(dataset: Mapping[str, Any]) -> dict[str, Any]:
    """A saved `dataset` node without the settings that locate the data."""
    return {key: value for key, value in dataset.items() if key not in LOCATION_KEYS}


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


def dataset_words(dataset: DatasetConfig) -> list[str]:
    """Settings of a file's data that differ from the defaults, except its path, as words of a command."""
    usual = DatasetConfig()
    return changed_settings("dataset", asdict(replace(dataset, name=usual.name, path=None)), asdict(usual))


def optional_settings(*bases: type, **what: Any) -> Any:
    """A dataclass with the settings of a dataset that are declared as `what`; each may be None, which is the default.

    mypy knows no classes made by a call: it takes their attributes for Any.
    """
    hints = get_type_hints(DatasetConfig)
    optional = [
        (entry.name, hints[entry.name] | None, field(default=None, metadata=entry.metadata))
        for entry in fields(DatasetConfig)
        if entry.name in settings_that(**what)
    ]
    return make_dataclass("Settings", optional, bases=bases, kw_only=True, slots=True)


@dataclass(kw_only=True, slots=True)
class InputFormat(optional_settings(Checked, per_file=True)):  # type: ignore[misc]
    """Format of a table to forecast, if different from the training data; null: as in training."""

    def applied_to(self, dataset: DatasetConfig) -> DatasetConfig:
        """`dataset` with the values set here; limits that are not set here get their defaults."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        limits = {name: getattr(DatasetConfig(), name) for name in settings_that(is_limit=True)}
        return replace(dataset, **limits | {name: value for name, value in values.items() if value is not None})

    def problems(self) -> list[str]:
        """One sentence for each value out of range."""
        return self.applied_to(DatasetConfig()).problems()
