"""Forecasts as files: CSV or parquet for each series, or one long table of them all."""

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from informer.data.frequency import Unit
from informer.data.source import Series
from informer.data.timestamps import EPOCHS
from informer.errors import InputError
from informer.files import replacing, write_atomic
from informer.inference.result import ROLLED, UNIQUE_ID, Forecast
from informer.plots import Band, plot_forecast, save_figure


class Format(Enum):
    """csv, parquet: one file a series, as wide as the input. long: one CSV of unique_id, ds, column, y for them all."""

    csv = "csv"
    parquet = "parquet"
    long = "long"


LONG_FILE = "forecasts.csv"
LONG = (UNIQUE_ID, "ds", "column", "y")
"""Columns of the long table, before those of intervals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """Puts forecasts into a folder.

    Args:
        folder: where.
        format: how.
        plots: draw each, too.
    """

    folder: Path
    format: Format
    plots: bool

    def write(self, name: str, forecasts: Sequence[Forecast]) -> str:
        """Write what belongs to the series of one file alone; returns the path of their forecasts from the folder.

        A picture shows the first of them.

        Raises:
            InputError: the place cannot be written, the forecast is not finite, or it has two columns of one name.
        """
        output, content = self.output_of(name), None
        if self.format is Format.long:
            for forecast in forecasts:
                forecast.check_finite()
        else:
            content = to_csv(forecasts) if self.format is Format.csv else to_parquet(forecasts)
        if self.plots:  # once the forecast has been found to fit in a table
            save_figure(picture(name, forecasts), self.picture_of(name))
        if content is not None:
            write_atomic(self.folder / output, content, durable=False)
        return output

    def output_of(self, name: str) -> str:
        """The path of the forecasts of one file, from the folder."""
        return LONG_FILE if self.format is Format.long else f"{name}.forecast.{self.format.value}"

    def picture_of(self, name: str) -> Path:
        """Where the picture of a series lies."""
        return self.folder / f"{name}.forecast.png"


def picture(name: str, forecasts: Sequence[Forecast]) -> Figure:
    """The first forecast after the end of its history."""
    forecast = forecasts[0]
    series = forecast.series
    if series.series_col is not None:
        name = f"{name}: {series.series_col} {series.name}, the first of {len(forecasts)} series"
    ahead = pd.DataFrame(forecast.values, forecast.timestamps, list(forecast.targets))
    history = pd.DataFrame(series.values, series.timestamps, list(series.columns))
    return plot_forecast(history, ahead, band=_widest_band(forecast), title=name)


def _widest_band(forecast: Forecast) -> Band | None:
    """The interval of the highest level; without any, what lies between the outer quantiles."""
    levels = [int(suffix[2:]) for suffix in forecast.bands if suffix.startswith("lo")]
    quantiles = [suffix for suffix in forecast.bands if suffix.startswith("q")]
    if levels:
        ends = f"lo{max(levels)}", f"hi{max(levels)}"
    elif quantiles and float(quantiles[0][1:]) < 50 < float(quantiles[-1][1:]):
        ends = quantiles[0], quantiles[-1]
    else:
        return None
    low, high = (pd.DataFrame(forecast.bands[end], forecast.timestamps, list(forecast.targets)) for end in ends)
    return low, high


def to_csv(forecasts: Sequence[Forecast]) -> bytes:
    """A header and one row a series and step, in the dialect and the time format of the file (ISO 8601: pandas')."""
    dialect = forecasts[0].series.dialect
    rows: list[Sequence[object]] = []
    for forecast in forecasts:
        columns = forecast.columns()
        names = [[forecast.series.name] * len(forecast.values)] * (len(forecast.keys) - 1)
        cells = (_cells(values, dialect.decimal) for values in columns.values())
        rows += [] if rows else [[*forecast.keys, *columns]]
        rows += zip(*names, stamps(forecast), *cells, strict=True)
    return _text(rows, separator=dialect.separator).encode(dialect.encoding)


def to_parquet(forecasts: Sequence[Forecast]) -> bytes:
    """The same with typed columns.

    Raises:
        InputError: pyarrow is not installed.
    """
    need_pyarrow()
    buffer = io.BytesIO()
    table = pd.concat([forecast.frame() for forecast in forecasts], ignore_index=True)
    table.to_parquet(buffer, engine="pyarrow", index=False)
    return buffer.getvalue()


def need_pyarrow(what: str = "format=parquet") -> None:
    """Raise the InputError of a parquet file that cannot be written, for the sake of `what`."""
    if find_spec("pyarrow") is None:
        raise InputError(f"{what}: expected pyarrow, found none; pip install 'informer[parquet]'")


def to_long(forecasts: Mapping[str, Forecast]) -> str:
    """A header and one row a series, target and step.

    Args:
        forecasts: of one job, by the series' `unique_id`; times are written as ISO 8601.
    """
    header: list[str] = []
    rows: list[Sequence[object]] = []
    for name, forecast in forecasts.items():
        marks = {ROLLED: forecast.rolled.tolist()} if forecast.is_rolled else {}
        header = [*LONG, *forecast.bands, *marks]
        times = list(map(str, forecast.timestamps))
        for i, target in enumerate(forecast.targets):
            numbers = [_cells(values[:, i]) for values in (forecast.values, *forecast.bands.values())]
            cells = zip(times, *numbers, *marks.values(), strict=True)
            rows += [(name, time, target, *others) for time, *others in cells]
    return _text([header, *rows]) if forecasts else ""


@contextmanager
def long_table(folder: Path) -> Iterator[Callable[[str], None]]:
    """The one file of a job; what is yielded appends a table to it. It is there when all have been, if any was."""
    with replacing(folder / LONG_FILE) as unfinished, unfinished.open("w", encoding="utf-8", newline="") as file:

        def append(table: str) -> None:
            file.write(table.partition("\n")[2] if file.tell() else table)

        yield append
        is_empty = not file.tell()
    if is_empty:  # not even a header is known
        (folder / LONG_FILE).unlink()


def stamps(forecast: Forecast) -> Sequence[object]:
    """Timestamps as text in the way of the series they continue; ISO dates carry a time of day where its rows do."""
    series, times = forecast.series, forecast.timestamps
    written = series.time_format
    if written in EPOCHS:
        return _counts(times, EPOCHS[written], series.dialect.decimal)
    if written in (None, "ISO8601"):
        return list(times.strftime("%Y-%m-%d")) if _has_dates_only(series) else list(map(str, times))
    return list(times.strftime(written))


def _counts(times: pd.DatetimeIndex, unit: Literal["s", "ms", "us", "ns"], decimal: str) -> Sequence[object]:
    """Units since 1970: whole numbers where all are."""
    whole = times.as_unit(unit)
    if (whole == times).all():
        return whole.asi8.tolist()
    per_unit = pd.Timedelta(1, unit) // pd.Timedelta(1, times.unit)
    # of ints, whose quotient is the nearest float, as it is read back
    return _cells(np.array([count / per_unit for count in times.asi8.tolist()]), decimal)


def _has_dates_only(series: Series) -> bool:
    below_a_day = series.frequency.unit in (Unit.second, Unit.minute, Unit.hour)
    return (
        not below_a_day
        and series.timestamps.tz is None
        and bool((series.timestamps == series.timestamps.normalize()).all())
    )


def _cells(values: np.ndarray, decimal: str = ".") -> list[object]:
    """A column as it is written; what is not known is an empty cell."""
    if values.dtype.kind != "f":
        return values.tolist()
    return ["" if math.isnan(value) else repr(value).replace(".", decimal) for value in values.tolist()]


def _text(rows: Iterable[Sequence[object]], *, separator: str = ",") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator="\n").writerows(rows)
    return text.getvalue()
