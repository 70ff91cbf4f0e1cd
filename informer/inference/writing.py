"""Write forecasts as files: CSV or parquet per input file, or one long table, and plots of them with their history."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import tzinfo
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from informer.base.errors import InputError, listed
from informer.base.files import csv_text, file_stems, replacing, write_atomic
from informer.base.quantiles import paired_bands
from informer.config.commands import Format
from informer.config.data import EPOCHS, EXCEL, QUARTER, SEASON
from informer.inference.model import ROLLED, Forecast, key_columns, rounded, table_of
from informer.read.frequency import Unit
from informer.read.table import without
from informer.read.workbook import DAYS_TO_1970

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from informer.base.plots import Band

LONG_FILE = "forecasts.csv"
LONG = ("column", "y")
"""Columns of the long table between those of series and time and those of intervals."""


def rolled_of(name: str, form: Format) -> str:
    """Path of the rolling forecasts of a file, relative to the folder."""
    return f"{name}.rolling.{form.value}"


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
        digits: significant digits of numbers in text, see `Forecast.decimals`; None: all.
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

    def write(self, name: str, forecasts: Sequence[Forecast]) -> str:
        """Write the forecasts of one file's series; returns the path of the table relative to the folder.

        Only the first series is plotted, unless `series` names others.

        Raises:
            InputError: the path cannot be written, the forecast is not finite, two columns have the same name, or a
                series to plot does not exist.
        """
        by_series = {forecast.series.name: forecast for forecast in forecasts}
        if unknown := [series for series in self.series if series not in by_series]:
            raise InputError(
                f"plot_series={unknown[0]}: {name} has no such series, expected some of {listed(list(by_series))}"
            )
        plotted = [by_series[series] for series in self.series] or forecasts[:1]
        pictures, output, content = dict(zip(self.pictures_of(name), plotted, strict=False)), self.output_of(name), None
        if self.format is Format.long:
            for forecast in forecasts:
                forecast.check_finite()
        else:
            content = to_csv(forecasts, self.digits) if self.format is Format.csv else to_parquet(forecasts)
        if pictures:  # after the forecast was checked
            from informer.base.plots import save_figure

            for path, forecast in pictures.items():
                series, title = forecast.series, name
                if series.series_col is not None:
                    title = f"{name}: {series.series_col} {series.name}, one of {len(forecasts)} series"
                save_figure(figure_of(forecast, title=title), path)
        if content is not None:
            write_atomic(self.folder / output, content, durable=False)
        return output

    def output_of(self, name: str) -> str:
        """The path of the forecasts of one file, relative to the folder."""
        return LONG_FILE if self.format is Format.long else f"{name}.forecast.{self.format.value}"

    def pictures_of(self, name: str) -> list[Path]:
        """The paths of the plots of one file."""
        if not self.plots or (self.files and name not in self.files):
            return []
        stems = [f"{name}.{stem}" for stem in file_stems(self.series).values()] or [name]
        return [self.folder / f"{stem}.forecast.png" for stem in stems]


def to_csv(forecasts: Sequence[Forecast], digits: int | None = None) -> bytes:
    """A header and one row per series and step, in the format of the input file (ISO 8601: as pandas).

    `digits`: see `Forecast.decimals`.
    """
    dialect = forecasts[0].series.dialect
    rows: list[Sequence[object]] = []
    marks_rolled = any(forecast.is_rolled for forecast in forecasts)
    for forecast in forecasts:
        columns = forecast.columns(marks_rolled=marks_rolled)
        names = [[cell] * len(forecast.values) for cell in forecast.series.keys.values()]
        decimals = forecast.decimals(digits)
        cells = (_cells(values, dialect.decimal, decimals.get(name)) for name, values in columns.items())
        rows += [] if rows else [[*forecast.keys, *columns]]
        rows += zip(*names, stamps(forecast), *cells, strict=True)
    return _text(rows, separator=dialect.parsed_separator).encode(dialect.encoding)


def to_parquet(forecasts: Sequence[Forecast]) -> bytes:
    """A parquet table with the columns of `to_csv`, typed."""
    return table_of(forecasts).to_parquet(engine="pyarrow", index=False)


def to_long(forecasts: Mapping[str, Forecast], digits: int | None = None, *, marks_rolled: bool = False) -> str:
    """A header and one row per series, target and step.

    Args:
        forecasts: forecasts of one job by series name; times are written as ISO 8601. The series and time columns are
            named as in the first input.
        digits: see `Forecast.decimals`.
        marks_rolled: with the column `rolled` even if no forecast is, since others of the job may be.
    """
    header: list[str] = []
    rows: list[Sequence[object]] = []
    marks_rolled = marks_rolled or any(forecast.is_rolled for forecast in forecasts.values())
    for name, forecast in forecasts.items():
        marks = {ROLLED: forecast.rolled.tolist()} if marks_rolled else {}
        value_columns = [*LONG, *forecast.bands, *marks]
        keys, time_col = key_columns(forecast.series, value_columns)
        header = header or [*keys, time_col, *value_columns]
        # of many files, that of the file before it
        first, *names = keys.values()
        first = name.removesuffix(forecast.series.name) + first if names else name
        times = list(map(str, forecast.timestamps))
        for i, target in enumerate(forecast.targets):
            rows_of = (forecast.values, *forecast.bands.values())
            numbers = [_cells(values[:, i], places=forecast.decimals(digits).get(target)) for values in rows_of]
            cells = zip(times, *numbers, *marks.values(), strict=True)
            rows += [(first, *names, time, target, *row_cells) for time, *row_cells in cells]
    return _text([header, *rows]) if forecasts else ""


@contextmanager
def long_table(folder: Path, form: Format) -> Iterator[Callable[[str], None]]:
    """The single file of a job with format=long; yields a function that appends a table, with other formats one that
    does nothing. The file is created at the end, unless empty."""
    if form is not Format.long:
        yield lambda table: None
        return
    with replacing(folder / LONG_FILE) as unfinished, unfinished.open("w", encoding="utf-8", newline="") as file:

        def append(table: str) -> None:
            file.write(table.partition("\n")[2] if file.tell() else table)

        yield append
        is_empty = not file.tell()
    if is_empty:  # not even the header is known
        (folder / LONG_FILE).unlink()


def stamps(forecast: Forecast) -> Sequence[object]:
    """Timestamps in the format of the input; ISO dates have a time of day if the input's do."""
    series, times = forecast.series, forecast.timestamps
    written = series.time_format
    if written == EXCEL:
        days = (times.as_unit("ms").asi8 / 86_400_000 + DAYS_TO_1970).round(9)
        return _cells(days, series.dialect.decimal)
    if written in EPOCHS:
        return _counts(times, EPOCHS[written], series.dialect.decimal)
    if written in (None, "ISO8601"):
        below_a_day, known = series.frequency.unit in (Unit.second, Unit.minute, Unit.hour), series.timestamps
        if not below_a_day and known.tz is None and bool((known == known.normalize()).all()):
            return list(times.strftime("%Y-%m-%d"))
        return _iso_of(times.asi8.tobytes(), times.unit, times.tz)
    if QUARTER in written:
        names = [
            written.replace(f"{QUARTER}st", ordinal).replace(QUARTER, ordinal[0])
            for ordinal in ("1st", "2nd", "3rd", "4th")
        ]
        return [time.strftime(names[time.quarter - 1]) for time in times]
    if SEASON.fullmatch(written):
        return [f"{time.year}{written[2]}{(time.year + 1) % 100:02}" for time in times]
    return list(times.strftime(written))


@lru_cache(maxsize=64)
def _iso_of(counts: bytes, unit: str, zone: tzinfo | None) -> tuple[str, ...]:
    """Each time as pandas writes it; cached, since the files of a job often end at the same time."""
    times = pd.DatetimeIndex(np.frombuffer(counts, dtype=f"datetime64[{unit}]"))
    return tuple(map(str, times if zone is None else times.tz_localize("UTC").tz_convert(zone)))


def _counts(times: pd.DatetimeIndex, unit: Literal["s", "ms", "us", "ns"], decimal: str) -> Sequence[object]:
    """Units since 1970, as integers if all are whole."""
    in_unit = times.as_unit(unit)
    if (in_unit == times).all():
        return in_unit.asi8.tolist()
    per_unit = pd.Timedelta(1, unit) // pd.Timedelta(1, times.unit)
    # division of ints gives the nearest float, which is read back exactly
    return _cells(np.array([count / per_unit for count in times.asi8.tolist()]), decimal)


def _cells(values: np.ndarray, decimal: str = ".", places: int | None = None) -> list[object]:
    """Cells of a column, with this many decimal places if not None; missing values are empty."""
    if values.dtype.kind != "f":
        return values.tolist()
    cells: list[object] = list(map(repr, (values if places is None else rounded(values, places)).tolist()))
    if decimal != ".":
        cells = [str(cell).replace(".", decimal) for cell in cells]
    for row in np.flatnonzero(np.isnan(values)):
        cells[row] = ""
    return cells


def _text(rows: Sequence[Sequence[object]], *, separator: str = ",") -> str:
    text = csv_text(rows, separator=separator)
    # Python's default does not quote carriage returns, which other readers take for the end of the row
    return csv_text(rows, separator=separator, quoting=csv.QUOTE_NONNUMERIC) if "\r" in text else text


def figure_of(forecast: Forecast, *, title: str) -> "Figure":
    """Plot history, forecast and every interval, in data units."""
    from informer.base.plots import plot_forecast

    series = forecast.series
    labels = series.frequency.labels
    history = pd.DataFrame(series.values, labels(series.timestamps), list(series.columns))
    ahead = pd.DataFrame(forecast.values, labels(forecast.timestamps), list(forecast.targets))
    return plot_forecast(history, ahead, bands=_bands(forecast), title=title, target=forecast.main)


def _bands(forecast: Forecast) -> "dict[str, Band]":
    """Intervals of all levels, then ranges between symmetric quantiles, each widest first."""
    quantiles = [suffix for suffix in forecast.bands if suffix.startswith("q")]
    ends = {f"{level} interval": pair for level, *pair in paired_bands(without([*forecast.bands], quantiles))}
    ends |= {f"{low} to {high}": [low, high] for _, low, high in paired_bands(quantiles)}

    def frame(name: str) -> pd.DataFrame:
        return pd.DataFrame(forecast.bands[name], forecast.timestamps, list(forecast.targets))

    return {name: (frame(low), frame(high)) for name, (low, high) in ends.items()}
