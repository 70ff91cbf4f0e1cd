"""How data are read, repaired, split and scaled: the nodes `dataset` and `scaler`."""

import codecs
import importlib.util
import re
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import partial
from typing import Annotated, Any, ClassVar, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BeforeValidator

from informer.base.errors import Repair, listed
from informer.config.fields import Checked, fields_of, setting, settings
from informer.config.overrides import changed_settings, elements_of, to_display
from informer.networks.models.config import CalendarEmbed

Fill = Literal["ffill", "linear", "zero", "mask"]
"""What replaces a missing cell. ffill: the last value before it. linear: interpolation between its neighbours. zero: 0.
mask: nothing, it stays missing."""


Duplicates = Literal["first", "mean", "sum"]
"""What to keep of rows with the same timestamp: the first row, their mean, or their sum. With sum, the rows between two
times of `dataset.frequency` are one, and times without rows are 0. With mean too if times are not at its steps, but
times without rows are missing."""


Ended = Literal["skip", "forecast"]
"""What to do about series that ended long before the others: forecast them from their own end, or not at all."""


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

HALF_YEAR = re.compile(rf"[hs] ?{QUARTER}|{QUARTER} ?[hs](?![a-z])", re.IGNORECASE)
"""`QUARTER` that counts half years, as in 2024-H1."""

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
    """

    kind: CalendarEmbed
    fields: tuple[str, ...] = ()
    holidays: tuple[str, ...] = ()


def field_problems(fields: Sequence[str]) -> Iterator[str]:
    """Problem of `dataset.calendar`: unknown or repeated fields, or none."""
    unknown = [name for name in fields if name not in FIELDS]
    if unknown or not fields:
        invalid = listed(unknown) if unknown else "[] (for none: model.embed=none)"
        yield f"dataset.calendar: expected some of {', '.join(FIELDS)}, found {invalid}"
    elif len(set(fields)) < len(fields):
        yield f"dataset.calendar: a field is given twice in {listed(fields)}"


def holiday_problems(regions: Sequence[str]) -> Iterator[str]:
    """Problems of `dataset.holidays`: unknown or repeated countries, or the package for holidays is missing."""
    if len(set(regions)) < len(regions):
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


FeatureMode = Literal["M", "S", "MS"]
"""M: all columns in and out; S: only the target in and out; MS: all columns in, the target out."""


NonNegative = Literal["auto", "all", "none"]
"""Targets whose forecasts and intervals are at least zero. auto: those that are counts or often zero, and never
negative in the training rows."""


Short = Literal["error", "skip", "pad"]
"""What to do with a series that is too short for a window in some part. skip: leave it out, with a warning. pad: repeat
its first row before it, so that targets from the second row on have a full lookback window."""


@settings
class SplitConfig(Checked):
    """The node `dataset.split`: sizes of the training, validation and test part.

    months, rows: sizes of the parts, from the first row on; remaining rows are not used.
    ratio: shares that add up to 1; training and test are rounded down, validation gets the rest.
    dates: the first timestamp after each part (`test: null` is the end of the file).
    """

    NODE: ClassVar[str] = "dataset.split."

    kind: Literal["months", "ratio", "dates", "rows"] = setting(
        "ratio", "Unit of the split: shares, 30-day months, rows, or end dates."
    )
    train: int | float | str | None = setting(0.7, "Size of the training part, or the first time after it.")
    val: int | float | str | None = setting(0.1, "Size of the validation part, or the first time after it.")
    test: int | float | str | None = setting(0.2, "Size of the test part, or the first time after it; null: the end.")


def key_columns(series_col: str | None) -> list[str]:
    """The columns that name the series together: those in the brackets of `[store,item]`, or one."""
    if series_col is None:
        return []
    names = elements_of(series_col) or []
    return names if len(names) > 1 else [series_col]


def plain_settings(dataset: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a dataset from Python, where several columns that name the series may be a list."""
    key = dataset.get("series_col")
    return {**dataset, **({"series_col": to_display(key)} if isinstance(key, list | tuple) else {})}


def is_plain_name(name: str) -> bool:
    """Whether `name` is a file name without folders, on any operating system."""
    return name not in ("", ".", "..") and not set(name) & set("/\\:\0")


@settings
class InputFormat(Checked):
    """How a table is read and repaired: of a table to forecast, what differs from the training data.

    A value that is not set means as in training; limits are those of the reader.
    """

    NODE: ClassVar[str] = "dataset."

    series_col: str | None = setting(
        None,
        "Column with the name of each row's series, or columns, [store,item]; null: one series.",
        is_name=True,
    )
    short: Short | None = setting(None, "What to do with series that are too short for a window.")
    time_col: str | None = setting(None, "Time column; null: detected.", is_name=True)
    clock_col: str | None = setting(None, "Column with the time of day; null: detected.", is_name=True)
    time_format: str | None = setting(
        None,
        "strptime format of the times (%Y-Q%q: quarters, %G-W%V: ISO weeks), s, ms, us, ns, excel or step.",
        check=format_problems,
    )
    timezone: str | None = setting(None, "Time zone of local times, such as Europe/Berlin.", check=zone_problems)
    frequency: str | None = setting(
        None, "Step between rows: h, 15min, B, C-MonTueSat, 30min-MonTue0830-1730, step; null: inferred."
    )
    sheet: str | None = setting(None, "Sheet of a workbook, by name or number from 1.", is_name=True)
    separator: str | None = setting(None, "Sign between cells; null: detected.")
    decimal: str | None = setting(None, "Decimal sign; null: detected.")
    thousands: str | None = setting(None, "Sign between thousands, '' for none.")
    encoding: str | None = setting(None, "Encoding of text; null: detected.", check=encoding_problems)
    skip_rows: int | None = setting(None, "Lines above the names of the columns.", ge=0)
    header: int | None = setting(None, "Lines with names of columns; 0: column_1, column_2, ...", ge=0, le=9)
    missing_values: list[str] = setting(
        list,
        "Words and numbers, such as [closed,-999], that mean a missing value.",
        check=missing_problems,
    )
    sort: bool | None = setting(None, "Sort rows by time.")
    duplicates: Duplicates | None = setting(
        None, "What to keep of rows with the same time; sum, mean: of each period of frequency."
    )
    fill: Fill | None = setting(None, "How to fill empty cells and missing rows; mask keeps them missing.")
    max_gap: int | None = setting(None, "Longest run of rows to fill; null: no limit.", ge=1)
    outliers: Literal["keep", "missing"] | None = setting(
        None, "What to do about readings far from all others; null: warn, and ask before forecasting."
    )
    ended: Ended | None = setting(None, "Whether series that ended before most others are forecast.")
    min_observed: float | None = setting(
        None, "With fill=mask, least share of rows with a target in a window.", gt=0, le=1
    )
    confirm: list[str] = setting(list, "Repairs that may drop more than 0.5 % of the rows: [duplicates].")
    max_file_mb: float = setting(4096.0, "Limit of a file's size in MB.", gt=0)
    max_line_mb: float = setting(64.0, "Limit of the size of a line in MB.", gt=0)
    max_cell: int = setting(LONGEST_CELL, "Limit of the characters of a cell.", ge=1, le=LONGEST_CELL)
    max_columns: int = setting(10_000, "Limit of the columns of a file.", ge=1)
    max_cells: int = setting(500_000_000, "Limit of rows times columns.", ge=1)
    max_ratio: float = setting(200.0, "Limit of the unpacked size, as a multiple of the file's.", ge=1)

    def applied_to(self, dataset: "DatasetConfig") -> "DatasetConfig":
        """`dataset` with the values set here and the limits."""
        usual = type(self)()
        changed = {name: getattr(self, name) for name in fields_of(type(self))}
        changed = {name: x for name, x in changed.items() if name in LIMIT_KEYS or x != getattr(usual, name)}
        return replace(dataset, **changed)

    def problems(self) -> Iterator[str]:
        """See `Checked`."""
        if unknown := [name for name in self.confirm if name != "duplicates"]:
            yield f"dataset.confirm: expected names of repairs (duplicates), found {listed(unknown)}"
        if self.max_gap is not None and self.fill == "mask":
            yield "dataset.max_gap: expected none with dataset.fill=mask, which keeps gaps of any length"
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


def _listed(value: Any) -> Any:
    """A list of one word, which stands for itself; null for none."""
    return [] if value in (None, "null") else [value] if isinstance(value, str) else value


@settings
class DatasetConfig(InputFormat):
    """The node `dataset`: where the data are, how to read, repair and split them."""

    name: str = setting("csv", "Name of the dataset in reports.")
    path: str | None = setting(
        None,
        "CSV (also gzip), parquet or workbook; or a folder or pattern of files, with one series each.",
        is_address=True,
    )
    file: str | None = setting(None, "Name of a file in data_dir.")
    packaged: bool = setting(False, "Read file from this package.")
    short: Short = setting("error", "What to do with series that are too short for a window.")
    since: str | None = setting(
        None, "Date of the first row that is read.", check=partial(date_problems, name="dataset.since")
    )
    calendar: list[str] | None = setting(
        None,
        f"Marks of each row, of {', '.join(FIELDS)}; null: those that change from row to row.",
        check=field_problems,
    )
    holidays: Annotated[list[str], BeforeValidator(_listed)] = setting(
        list, "Countries or their parts, DE or [DE-BY,FR], with one mark each for public holidays.",
        check=holiday_problems,
    )  # fmt: skip
    columns: list[str] | None = setting(None, "Value columns, in this order; null: all numeric ones.")
    exclude: list[str] = setting(list, "Columns to ignore.")
    exclude_files: list[str] = setting(list, "Names of files in path to ignore.")
    target: str | None = setting(None, "Column to forecast by default; null: the last value column.", is_name=True)
    categorical: list[str] = setting(list, "Columns with categories, as text or numbers.")
    static_covariates: list[str] = setting(list, "Columns that are constant within each series.")
    split: SplitConfig = setting(SplitConfig)
    url: str | None = setting(None, "Address of a missing file; needs sha256.")
    sha256: str | None = setting(None, "Checksum of the published file.")
    hint: str | None = setting(None, "Where to get a file without url.")
    sort: bool = setting(False, "Sort rows by time.")
    ended: Ended = setting("skip", "Whether series that ended before most others are forecast.")
    min_observed: float = setting(0.5, "With fill=mask, least share of rows with a target in a window.", gt=0, le=1)

    def marked(self, kind: CalendarEmbed) -> Calendar:
        """The calendar marks of each row, encoded as `kind`."""
        return Calendar(kind, tuple(self.calendar or ()), tuple(self.holidays))

    @property
    def keeps_gaps(self) -> bool:
        """Whether missing values stay missing."""
        return self.fill == "mask"

    @property
    def as_text(self) -> list[str]:
        """Columns that are read as text: names of series, categories."""
        return [*dict.fromkeys([*key_columns(self.series_col), *filter(None, [self.series_col]), *self.categorical])]

    def problems(self) -> Iterator[str]:
        """See `Checked`."""
        yield from super().problems()
        if self.file is not None and not is_plain_name(self.file):
            yield f"dataset.file: expected the name of a file in data_dir, found {self.file!r}"


LIMIT_KEYS = ("max_file_mb", "max_line_mb", "max_cell", "max_columns", "max_cells", "max_ratio")
"""Settings that bound what is read; a trained model does not change such a bound."""
PUBLISHED = ("file", "packaged", "url", "sha256", "hint")
"""Settings of where the file of a named dataset comes from."""
LOCATION_KEYS = (*PUBLISHED, "path")
"""Settings that locate the data, in which a saved configuration has no say; the others say how to read and use them."""


def repaired(dataset: DatasetConfig, repairs: Iterable[Repair]) -> DatasetConfig:
    """`dataset` with these repairs; what it sets itself has priority, and lists are joined.

    A repair that a series does not need does not change it.
    """
    for repair in repairs:
        joined: Any
        own, new = getattr(dataset, repair.setting), repair.value
        if repair.setting == "columns":
            joined = new if own is None else [name for name in own if name in new]
        elif isinstance(new, list):
            joined = [*dict.fromkeys([*own, *new])]
        else:
            joined = "mask" if "mask" in (own, new) else own or new
        dataset = replace(dataset, **{repair.setting: joined})
    return dataset


def without_location(dataset: Mapping[str, Any]) -> dict[str, Any]:
    """A saved `dataset` node without the settings that locate the data."""
    return {key: value for key, value in dataset.items() if key not in LOCATION_KEYS}


ScalerKind = Literal["standard", "minmax", "robust", "none"]
"""Scaling fitted on training rows. standard: mean 0, standard deviation 1. minmax: 0 to 1. robust: median 0,
interquartile range 1. none: no scaling."""


Transform = Literal["none", "sqrt", "fourth_root", "auto"]
"""Transform of the targets before scaling, of those whose training values are at least 0; forecasts are converted back.
A root fits data whose fluctuations grow with their level. none: no transform. sqrt, fourth_root: the root (of a
negative value: minus the root of its absolute value). auto: chosen on validation data."""


@settings
class ScalerConfig(Checked):
    """The node `scaler`."""

    NODE: ClassVar[str] = "scaler."

    kind: ScalerKind = setting("standard", "Scaling, fitted on training rows; chosen with scaler=NAME.")
    transform: Transform = setting("none", "Transform of the targets before scaling; auto: by validation rows.")
    per_series: bool = setting(True, "Scale each series by its own training rows; false: by those of all series.")


def dataset_words(dataset: DatasetConfig) -> list[str]:
    """Settings of a file's data that differ from the defaults, except its path, as words of a command."""
    usual = DatasetConfig()
    return changed_settings("dataset", asdict(replace(dataset, name=usual.name, path=None)), asdict(usual))
