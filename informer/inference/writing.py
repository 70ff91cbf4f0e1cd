"""Write forecasts as files: CSV or parquet per input file, or one long table, and plots of them with their history."""

import csv
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float64

from informer.base.errors import ColumnError, InputError, listed
from informer.base.files import csv_text, file_stems, replacing, write_atomic
from informer.base.quantiles import paired_bands
from informer.config.commands import Format
from informer.config.data import EPOCHS, EXCEL, HALF_YEAR, QUARTER, SEASON
from informer.data.scaler import standard_deviation
from informer.read.frequency import Unit
from informer.read.series import Series, column_values
from informer.read.table import without
from informer.read.workbook import DAYS_TO_1970
from informer.scoring.forecasts import Forecasts, Matrix, in_zone

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from informer.base.plots import Band

LONG_FILE = "forecasts.csv"
LONG = ("column", "y")
"""Columns of the long table between those of series and time and those of intervals."""


def rolled_of(name: str, form: Format) -> str:
    """Path of the rolling forecasts of a file, relative to the folder."""
    return f"{name}.rolling.{form}"


def metrics_of(name: str) -> str:
    """Path of the scores of rolling forecasts of a file, relative to the folder."""
    return f"{name}.rolling.metrics.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """Writes forecasts to a folder.

    Args:
        folder: output folder.
        format: file format.
        plots: also plot each forecast.
        digits: significant digits of numbers in text, see `to_csv`; None: all.
        files: names of the files to plot; empty: all.
        series: series of a file to plot, one picture each; empty: the first series.
    """

    folder: Path
    format: Format
    plots: bool
    digits: int | None = None
    files: tuple[str, ...] = ()
    series: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.plots:  # refused before anything is forecast if matplotlib is missing
            import informer.base.plots  # noqa: F401
        if self.format == "xlsx" and find_spec("xlsxwriter") is None:
            raise InputError("format=xlsx: expected XlsxWriter, found none; pip install XlsxWriter")

    def write(self, name: str, panel: Sequence[Series], paths: Forecasts, *, main: str | None = None) -> str:
        """Write the forecasts of one file's series; returns the path of the table relative to the folder.

        Only the first series is plotted, unless `series` names others; `main`: the target that plots show.

        Raises:
            InputError: the path cannot be written, two columns have the same name, or a series to plot does not exist.
        """
        by_series = {each.name: place for place, each in enumerate(panel)}
        if unknown := [series for series in self.series if series not in by_series]:
            raise InputError(
                f"plot_series={unknown[0]}: {name} has no such series, expected some of {listed(list(by_series))}"
            )
        plotted = [by_series[series] for series in self.series] or [0]
        makers: dict[str, Callable[[], bytes]] = {
            "csv": lambda: to_csv(panel, paths, self.digits),
            "parquet": lambda: table_of(panel, paths).to_parquet(engine="pyarrow", index=False),
            "xlsx": lambda: to_xlsx(panel, paths, main=main),
        }
        content = makers[self.format]() if self.format in makers else None
        for path, place in zip(self.pictures_of(name), plotted, strict=False):  # after the forecast was checked
            from informer.base.plots import save_figure

            series, title = panel[place], name
            if series.series_col is not None:
                title = f"{name}: {series.series_col} {series.name}, one of {len(panel)} series"
            save_figure(figure_of(series, of_series(paths, place), title=title, main=main), path)
        if content is not None:
            write_atomic(self.folder / self.output_of(name), content, durable=False)
        return self.output_of(name)

    def output_of(self, name: str) -> str:
        """The path of the forecasts of one file, relative to the folder."""
        return LONG_FILE if self.format == "long" else f"{name}.forecast.{self.format}"

    def pictures_of(self, name: str) -> list[Path]:
        """The paths of the plots of one file."""
        if not self.plots or (self.files and name not in self.files):
            return []
        stems = [f"{name}.{stem}" for stem in file_stems(self.series).values()] or [name]
        return [self.folder / f"{stem}.forecast.png" for stem in stems]


SERIES, TIME = "series", "timestamp"
"""Default column names of tables with one row per value, if the input has no such column."""
ROLLED = "rolled"
"""Column that marks recursively forecast rows; only in forecasts with such rows."""


def key_columns(series: Series, used: Collection[str]) -> tuple[dict[str, str], str]:
    """Columns that name the series with its cells in them, and the time column, in a table with one row per value:
    those of the input if possible.

    Args:
        series: a series of the input.
        used: the table's other columns; a name of the input that is one of them is not used.
    """
    time = series.time_col if series.time_col and series.time_col not in used else TIME
    if series.keys and not set(series.keys) & {*used, time}:
        return series.keys, time
    return {next(name for name in (SERIES, "unique_id") if name not in (*used, time)): series.name}, time


def of_series(paths: Forecasts, place: int) -> Forecasts:
    """The paths of one of the series."""
    n = len(paths.columns)
    return paths.part(slice(place * n, (place + 1) * n))


def columns_of(
    panel: Sequence[Series], paths: Forecasts, *, as_written: bool = False
) -> dict[str, np.ndarray | pd.Index]:
    """Columns of a table with a row per series and step: what names the series, if there are several, the time, each
    target, then each with its bands, and `rolled` if some rows are.

    Args:
        panel: the series of one table.
        paths: their forecasts, of each series one of each target.
        as_written: times as the input writes them.

    Raises:
        InputError: two columns with the same name.
    """
    first, targets, there = panel[0], paths.columns, paths.are_steps[:: len(paths.columns)]
    places, _ = np.nonzero(there)

    def of(matrices: Mapping[str, Matrix]) -> dict[str, np.ndarray]:
        return {
            f"{target}{name}": values[place :: len(targets)][there]
            for place, target in enumerate(targets)
            for name, values in matrices.items()
        }

    columns = of({"": paths.mean})
    more = of({f"_{name}": values for name, values in paths.bands.items()})
    more |= {ROLLED: paths.rolled[:: len(targets)][there]} if paths.rolled.any() else {}
    if taken := [name for name in more if name in (*first.keys, first.time_col, *columns)]:
        raise ColumnError(f"{first.name}: the forecast needs the column {taken[0]!r}; rename yours")
    keys = {name: np.array([each.keys[name] for each in panel], dtype=object)[places] for name in first.keys}
    times = in_zone(paths.times[:: len(targets)][there], paths.zone).as_unit(first.timestamps.unit)
    time = by_time(times, partial(stamps, panel)) if as_written else first.frequency.labels(times)
    return {**keys, first.time_col: time, **columns, **more}


def table_of(panel: Sequence[Series], paths: Forecasts) -> pd.DataFrame:
    """The `columns_of` some forecasts as a table."""
    return pd.DataFrame(columns_of(panel, paths))


def with_decimals(paths: Forecasts, places: Sequence[int]) -> Forecasts:
    """Forecasts and bands with these decimal places of each path."""

    def cut(values: Matrix) -> Matrix:
        done, of_path = values.copy(), np.array(places)
        for n in {*places}:
            done[of_path == n] = rounded(values[of_path == n], n)
        return done

    return replace(paths, mean=cut(paths.mean), bands={name: cut(each) for name, each in paths.bands.items()})


def _to_digits(panel: Sequence[Series], paths: Forecasts, digits: int | None) -> Forecasts:
    """Forecasts with the decimal places of `digits` significant digits of the standard deviation of the column; None:
    all. Further digits are rounding noise of single precision. A constant column has all of its digits."""
    if digits is None:
        return paths
    known = [column for each in panel for column in column_values(each, paths.columns).T]
    places = [decimals_for(np.concatenate(both), digits) for both in zip(known, paths.mean, strict=True)]
    return with_decimals(paths, places)


def to_csv(panel: Sequence[Series], paths: Forecasts, digits: int | None = None) -> bytes:
    """The `columns_of` some forecasts in the format of the input file (ISO 8601: as pandas); `digits`: see
    `_to_digits`."""
    dialect, columns = panel[0].dialect, columns_of(panel, _to_digits(panel, paths, digits), as_written=True)
    cells = (_cells(np.asarray(values), dialect.decimal) for values in columns.values())
    return _text([list(columns), *zip(*cells, strict=True)], separator=dialect.parsed_separator).encode(
        dialect.encoding
    )


def to_xlsx(panel: Sequence[Series], paths: Forecasts, *, main: str | None = None) -> bytes:
    """A workbook with the `table_of` some forecasts, and a chart of those of the first series with their intervals;
    `main`: the column of the chart, None: the last one. Times are without a zone, which workbooks do not have."""
    table, buffer = table_of(panel, paths), BytesIO()
    for name in table.select_dtypes("datetimetz"):
        table[name] = table[name].dt.tz_localize(None)
    column, columns, name = main or paths.columns[-1], [*table], "forecast"
    shown = [column, *(each for each in (f"{column}_{band}" for band in paths.bands) if each in columns)]
    time, last = columns.index(panel[0].time_col), int(paths.are_steps[0].sum())
    with pd.ExcelWriter(buffer, engine="xlsxwriter", datetime_format="yyyy-mm-dd hh:mm") as writer:
        table.to_excel(writer, sheet_name=name, index=False)
        sheet, chart = writer.sheets[name], writer.book.add_chart({"type": "line"})
        sheet.set_column(0, len(columns) - 1, 18, writer.book.add_format({"num_format": "#,##0.######"}))
        sheet.set_column(time, time, 18)
        for each in shown:
            place = columns.index(each)
            line = {"width": 2.25} if each == column else {"width": 1, "dash_type": "dash"}
            rows = [name, 1, place, last, place]
            times = [name, 1, time, last, time]
            chart.add_series({"name": each, "values": rows, "categories": times, "line": {"color": "#2a6fbb", **line}})
        chart.set_title({"name": " ".join([*panel[0].keys.values(), column])})
        sheet.insert_chart(1, len(columns) + 1, chart, {"x_scale": 1.6, "y_scale": 1.4})
    return buffer.getvalue()


def to_long(
    panel: Sequence[Series], paths: Forecasts, names: Sequence[str], digits: int | None = None, *,
    marks_rolled: bool = False,
) -> str:  # fmt: skip
    """A header and one row per series, target and step; times are written as ISO 8601.

    Args:
        panel, paths: the series of one file, and their forecasts.
        names: of the series among those of all files.
        digits: see `_to_digits`.
        marks_rolled: with the column `rolled` even if no forecast is, since others of the job may be.
    """
    paths = _to_digits(panel, paths, digits)
    where, steps = np.nonzero(paths.are_steps)
    marks = {ROLLED: paths.rolled[where, steps]} if marks_rolled or paths.rolled.any() else {}
    value_columns = [*LONG, *paths.bands, *marks]
    keys, time_col = key_columns(panel[0], value_columns)
    cells_of = list[tuple[str, ...]]()
    for name, series in zip(names, panel, strict=True):
        # of many files, that of the file before it
        first, *more = key_columns(series, value_columns)[0].values()
        cells_of.append((name.removesuffix(series.name) + first if more else name, *more))
    owners = where // len(paths.columns)
    times = by_time(in_zone(paths.times[where, steps], paths.zone))
    values = [each[where, steps] for each in (paths.mean, *paths.bands.values())]
    columns = [
        *(np.array(cells, dtype=object)[owners] for cells in zip(*cells_of, strict=True)),
        *(times, paths.keys["column"].to_numpy()[where], *values, *marks.values()),
    ]
    return _text([[*keys, time_col, *value_columns], *zip(*map(_cells, columns), strict=True)])


@contextmanager
def long_table(folder: Path, form: Format) -> Iterator[Callable[[str], None]]:
    """The single file of a job with format=long; yields a function that appends a table, with other formats one that
    does nothing. The file is created at the end, unless empty."""
    if form != "long":
        yield lambda table: None
        return
    with replacing(folder / LONG_FILE) as unfinished, unfinished.open("w", encoding="utf-8", newline="") as file:

        def append(table: str) -> None:
            file.write(table.partition("\n")[2] if file.tell() else table)

        yield append
        is_empty = not file.tell()
    if is_empty:  # not even the header is known
        (folder / LONG_FILE).unlink()


def in_full(times: pd.DatetimeIndex) -> list[str]:
    """Times as ISO 8601, with the time of day."""
    return list(map(str, times))


def by_time(times: pd.DatetimeIndex, of: Callable[[pd.DatetimeIndex], Sequence[object]] = in_full) -> np.ndarray:
    """What a function gives for each of the times, of which many are equal."""
    places, distinct = pd.factorize(times)
    return np.fromiter(of(pd.DatetimeIndex(distinct)), dtype=object)[places]


def without_times(table: pd.DataFrame, of: Callable[[pd.DatetimeIndex], Sequence[object]] = in_full) -> pd.DataFrame:
    """The table with text, or what a function gives, in place of times."""
    times = table.select_dtypes(["datetime", "datetimetz"])
    return table.assign(**{str(name): by_time(pd.DatetimeIndex(cells), of) for name, cells in times.items()})


def stamps(panel: Sequence[Series], times: pd.DatetimeIndex) -> Sequence[object]:
    """Timestamps in the format of the input; ISO dates have a time of day if the input's do."""
    series = panel[0]
    written = series.time_format
    if written == EXCEL:
        days = (times.as_unit("ms").asi8 / 86_400_000 + DAYS_TO_1970).round(9)
        return _cells(days, series.dialect.decimal)
    if written in EPOCHS:
        return _counts(times, EPOCHS[written], series.dialect.decimal)
    if written in (None, "ISO8601"):
        below_a_day = series.frequency.unit in (Unit.second, Unit.minute, Unit.hour)
        known = [each.timestamps for each in panel]
        if not below_a_day and times.tz is None and all((each == each.normalize()).all() for each in known):
            return list(times.strftime("%Y-%m-%d"))
        return in_full(times)
    if QUARTER in written:
        names = [
            written.replace(f"{QUARTER}st", ordinal).replace(QUARTER, ordinal[0])
            for ordinal in ("1st", "2nd", "3rd", "4th")
        ]
        each = 2 if HALF_YEAR.search(written) else 1
        return [time.strftime(names[(time.quarter - 1) // each]) for time in times]
    if SEASON.fullmatch(written):
        return [f"{time.year}{written[2]}{(time.year + 1) % 100:02}" for time in times]
    return list(times.strftime(written))


def _counts(times: pd.DatetimeIndex, unit: Literal["s", "ms", "us", "ns"], decimal: str) -> Sequence[object]:
    """Units since 1970, as integers if all are whole."""
    in_unit = times.as_unit(unit)
    if (in_unit == times).all():
        return in_unit.asi8.tolist()
    per_unit = pd.Timedelta(1, unit) // pd.Timedelta(1, times.unit)
    # division of ints gives the nearest float, which is read back exactly
    return _cells(np.array([count / per_unit for count in times.asi8.tolist()]), decimal)


def _cells(values: np.ndarray, decimal: str = ".") -> list[object]:
    """Cells of a column; missing values are empty."""
    if values.dtype.kind != "f":
        return values.tolist()
    cells: list[object] = list(map(repr, values.tolist()))
    if decimal != ".":
        cells = [str(cell).replace(".", decimal) for cell in cells]
    for row in np.flatnonzero(np.isnan(values)):
        cells[row] = ""
    return cells


EXACT_POWERS = 22
"""Powers of ten up to this one are exact in float64."""


def rounded(values: Float64[np.ndarray, "*n"], decimals: int) -> Float64[np.ndarray, "*n"]:
    """Values with this many decimal places."""
    if decimals <= EXACT_POWERS:
        return values.round(decimals)
    # numpy would multiply by a power that is not exact, or overflows
    return np.vectorize(round, otypes=[np.float64])(values, decimals)


DECIMAL = 15
"""Significant digits that float64 holds of every decimal number."""


def decimals_for(values: Float64[np.ndarray, " n"], digits: int) -> int:
    """Decimal places that leave this many digits of the standard deviation, or all digits of a constant column."""
    finite = values[np.isfinite(values)]
    size = standard_deviation(finite) if len(finite) else 0.0
    if not size and len(finite):
        size, digits = float(np.max(np.abs(finite))), DECIMAL
    return digits - 1 - math.floor(math.log10(size)) if size > 0 and math.isfinite(size) else 0


def _text(rows: Sequence[Sequence[object]], *, separator: str = ",") -> str:
    text = csv_text(rows, separator=separator)
    # Python's default does not quote carriage returns, which other readers take for the end of the row
    return csv_text(rows, separator=separator, quoting=csv.QUOTE_NONNUMERIC) if "\r" in text else text


def figure_of(series: Series, paths: Forecasts, *, title: str, main: str | None = None) -> "Figure":
    """Plot history, forecast and every interval of one series, in data units; `main`: the target, None: the last."""
    from informer.base.plots import plot_forecast

    labels, ends = series.frequency.labels, paths.are_steps[0]
    times = in_zone(paths.times[0, ends], paths.zone)
    history = pd.DataFrame(series.values, labels(series.timestamps), list(series.columns))
    ahead = pd.DataFrame(paths.mean.T[ends], labels(times), paths.columns)
    bands = {name: pd.DataFrame(values.T[ends], times, paths.columns) for name, values in paths.bands.items()}
    return plot_forecast(history, ahead, bands=_bands(bands), title=title, target=main)


def _bands(by_name: Mapping[str, pd.DataFrame]) -> "dict[str, Band]":
    """Intervals of all levels, then ranges between symmetric quantiles, each widest first."""
    quantiles = [suffix for suffix in by_name if suffix.startswith("q")]
    ends = {f"{level} interval": pair for level, *pair in paired_bands(without([*by_name], quantiles))}
    ends |= {f"{low} to {high}": [low, high] for _, low, high in paired_bands(quantiles)}
    return {name: (by_name[low], by_name[high]) for name, (low, high) in ends.items()}


def tidy_table(paths: Forecasts, series: Series) -> pd.DataFrame:
    """The table of the forecasts of one series, with the columns that name the series, if any, and the time column of
    the input; see `TrainedPanel.tables_of`."""
    table = paths.table().drop(columns="series")
    if paths.rolled.any():
        table[ROLLED] = paths.rolled[paths.are_steps]
    keys, time = key_columns(series, [*table.columns.drop("time")])
    table.insert(3, "column", table.pop("column"))
    table = table.rename(columns={"time": time})
    for place, (column, cell) in enumerate(keys.items() if series.series_col is not None else ()):
        table.insert(place, column, cell)
    return table


def write_pieces(path: Path, form: Format, pieces: Iterator[pd.DataFrame]) -> None:
    """Write the pieces of a table to a new file, CSV or parquet, one after the other."""
    if form == "parquet":
        import pyarrow
        from pyarrow.parquet import ParquetWriter

        tables = (pyarrow.Table.from_pandas(piece, preserve_index=False) for piece in pieces)
        first = next(tables)
        with ParquetWriter(path, first.schema) as writer:
            for table in chain([first], tables):
                writer.write_table(table)
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        for piece in pieces:
            # with the time of day; pandas writes only dates if a piece has only midnights
            without_times(piece).to_csv(file, header=file.tell() == 0, index=False, lineterminator="\n")
