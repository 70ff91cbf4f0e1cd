"""Files in random formats: reading gives exactly the values written, or an InputError.

Left out, because the same bytes are a common file with another meaning: dates as year-day-month without a day
above 12 (ISO 8601), and whole numbers with a point between thousands between commas (decimals; `inspect` warns).
"""

import csv
import gzip
import io
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from informer.base.errors import InputError
from informer.config.data import DatasetConfig
from informer.read.series import Series, series_from_table, table_of_file

DATES = ["%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%Y%m%d", "%Y-%d-%m", "%Y/%d/%m", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y"]
DATES += ["%m-%d-%Y", "%d-%m-%Y", "%d %m %Y", "%m %d %Y", "%d. %m. %Y", "%d/%m/%y", "%m/%d/%y", "%y-%m-%d", "%d %b %Y"]
DATES += ["%d-%b-%y", "%b %d, %Y", "%B %d %Y", "%Y-%b-%d", "%a, %d %b %Y", "%A %d %B %Y", "%d%b%Y", "%d%m%Y"]
CLOCKS = [" %H:%M", " %H:%M:%S", ", %H:%M", ", %H:%M:%S", "T%H:%M", "T%H:%M:%S", " %I:%M %p", " %I:%M:%S %p", " %H.%M"]
CLOCKS += ["T%H%M%S", " at %H:%M", "  %H:%M", " %H:%M:%S.000", ":%H:%M:%S", "-%H:%M", " - %H:%M", "_%H:%M", " kl %H:%M"]
ZONES = ["", "", "", "", "Z", " UTC", " GMT", "+00:00", "+0000", " +0000", " Z", "z", " utc", "+00"]
STEPS = {"15min": True, "h": True, "3h": True, "D": False, "W-MON": False, "MS": False, "B": False}
"""Steps between rows, and whether they need a time of day."""

MARKS = [(".", ""), (".", ""), (",", ""), (",", "."), (".", ","), (",", " "), (".", " "), (".", "'"), (",", "\u202f")]


@dataclass(frozen=True, slots=True)
class Written:
    """The bytes of a file, and the values they represent."""

    content: bytes
    times: pd.DatetimeIndex
    values: np.ndarray
    how: str


def dialect(rng: np.random.Generator, folder: Path) -> str | None:
    """One round trip of a file, and of its last rows; returns what was misread, or None."""
    return check(draw(rng), folder, rng)


def check(written: Written, folder: Path, rng: np.random.Generator) -> str | None:
    """Read the file, then its last rows as in prediction."""
    path = folder / "written.csv"
    path.write_bytes(written.content)
    config = DatasetConfig()
    try:
        table = table_of_file(path, config)
        series = series_from_table(table, config, "written")
        difference = _difference(series, written, len(written.times))
        if difference is not None:
            return difference
        last = int(rng.integers(2, len(written.times) + 1))
        config = replace(config, frequency=series.frequency.code)
        later = series_from_table(table.end(last), config, "written", history=last, trained_format=series.time_format)
        return _difference(later, written, last)
    except InputError:
        return None


def _difference(series: Series, written: Written, n: int) -> str | None:
    times = series.timestamps.tz_convert("UTC").tz_localize(None) if series.timestamps.tz else series.timestamps
    if list(times) != list(written.times[-n:]):
        return f"times: read {times[0]} ... {times[-1]} by {series.time_format}; {written.how}"
    if series.values.shape != written.values[-n:].shape:
        return f"columns: read {series.columns}; {written.how}"
    if not np.allclose(series.values, written.values[-n:], rtol=1e-12, atol=0):
        return f"values: read {series.values[0]}; {written.how}"
    return None


def draw(rng: np.random.Generator) -> Written:
    """Draw a table and its format."""
    times, time_format = _times(rng)
    separator = str(rng.choice(list(",;\t|")))
    decimal, thousands = MARKS[rng.integers(len(MARKS))]
    columns = [_column(rng, len(times)) for _ in range(rng.integers(1, 4))]
    if separator == "," and thousands == "." and not any(digits for _, digits, _ in columns):
        thousands = ""
    cells = [
        [_cell(value, digits, decimal, thousands, strip=strip) for value in column] for column, digits, strip in columns
    ]
    rows = [list(row) for row in zip(times.strftime(time_format), *cells, strict=True)]
    header = ["date", *("abc"[: len(columns)])]
    if rng.random() < 0.15:
        header = [f"{name}{separator} {name}" for name in header]
    has_header = rng.random() > 0.1
    text = _text([header, *rows] if has_header else rows, separator, rng)
    values = np.array([[float(f"{value:.{digits}f}") for value in column] for column, digits, _ in columns]).T
    how = f"{text[:160]!r} ... {times[0]} to {times[-1]} as {time_format!r}, marks {decimal!r} {thousands!r}"
    return Written(_bytes(text, rng), times, values, how)


def _times(rng: np.random.Generator) -> tuple[pd.DatetimeIndex, str]:
    while True:
        step = str(rng.choice(list(STEPS)))
        first = pd.Timestamp("1975-01-01") + pd.Timedelta(days=int(rng.integers(60 * 365)))
        first += pd.Timedelta(hours=int(rng.integers(24))) if STEPS[step] else pd.Timedelta(0)
        times = pd.date_range(first, periods=int(rng.choice([3, 5, 8, 12, 24, 30, 60, 200])), freq=step)
        date = str(rng.choice(DATES))
        if not ("%d" in date and date.replace("/", "-").startswith("%Y-%d") and (times.day <= 12).all()):
            break
    clock = str(rng.choice(CLOCKS)) if STEPS[step] or rng.random() < 0.3 else ""
    return times, date + clock + (str(rng.choice(ZONES)) if clock else "")


def _column(rng: np.random.Generator, n: int) -> tuple[np.ndarray, int, bool]:
    """Values, their number of decimals, and whether trailing zeros are left out."""
    size = float(rng.choice([0.4, 5.0, 950.0, 1010.0, 4000.0, 250_000.0, 3_000_000.0]))
    spread = float(rng.choice([0.01, 0.1, 1.0]))
    sign = rng.choice([-1.0, 1.0, 1.0])
    values = sign * size * (1 + spread * rng.normal(size=n))
    return values, int(rng.choice([0, 0, 0, 1, 2, 3, 3, 4])), bool(rng.random() < 0.3)


def _cell(value: float, digits: int, decimal: str, thousands: str, *, strip: bool) -> str:
    text = f"{value:,.{digits}f}"
    if strip and digits:
        text = text.rstrip("0").rstrip(".")
    return "".join({",": thousands, ".": decimal}.get(sign, sign) for sign in text)


def _text(rows: list[list[str]], separator: str, rng: np.random.Generator) -> str:
    line_end = str(rng.choice(["\n", "\r\n"]))
    quotes = str(rng.choice(["needed", "needed", "all", "none"]))
    if quotes == "none":  # as careless programs write
        return line_end.join(separator.join(row) for row in rows) + line_end
    text = io.StringIO()
    csv.writer(
        text,
        delimiter=separator,
        lineterminator=line_end,
        quoting=csv.QUOTE_ALL if quotes == "all" else csv.QUOTE_MINIMAL,
    ).writerows(rows)
    return text.getvalue() + str(rng.choice(["", "", line_end, separator * (len(rows[0]) - 1) + line_end]))


def _bytes(text: str, rng: np.random.Generator) -> bytes:
    encoded = text.encode(str(rng.choice(["utf-8", "utf-8", "utf-8-sig", "utf-16"])))
    return gzip.compress(encoded) if rng.random() < 0.1 else encoded
