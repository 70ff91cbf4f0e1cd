"""Files in random formats, with the times and values that they hold.

Left out, because the same bytes are a common file with another meaning: dates as year-day-month without a day
above 12 (ISO 8601), a few quarters or weeks written like months (1990-1), and whole numbers with a point between
thousands between commas (decimals; `inspect` warns).
"""

import csv
import gzip
import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

DATES = ["%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%Y%m%d", "%Y-%d-%m", "%Y/%d/%m", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y"]
DATES += ["%m-%d-%Y", "%d-%m-%Y", "%d %m %Y", "%m %d %Y", "%d. %m. %Y", "%d/%m/%y", "%m/%d/%y", "%y-%m-%d", "%d %b %Y"]
DATES += ["%d-%b-%y", "%b %d, %Y", "%B %d %Y", "%Y-%b-%d", "%a, %d %b %Y", "%A %d %B %Y", "%d%b%Y", "%d%m%Y"]
CLOCKS = [" %H:%M", " %H:%M:%S", ", %H:%M", ", %H:%M:%S", "T%H:%M", "T%H:%M:%S", " %I:%M %p", " %I:%M:%S %p", " %H.%M"]
CLOCKS += ["T%H%M%S", " at %H:%M", "  %H:%M", " %H:%M:%S.000", ":%H:%M:%S", "-%H:%M", " - %H:%M", "_%H:%M", " kl %H:%M"]
ZONES = ["", "", "", "", "Z", " UTC", " GMT", "+00:00", "+0000", " +0000", " Z", "z", " utc", "+00"]
STEPS: dict[str | pd.offsets.BaseOffset, bool] = {
    **dict.fromkeys(["15min", "h", "3h"], True),
    **dict.fromkeys(["D", "W-MON", "MS", "B", "QS"], False),
    **{pd.DateOffset(months=months, day=day): False for months, day in ((1, 15), (1, 30), (3, 28), (12, 20))},
    **{pd.offsets.CDay(weekmask=days): False for days in ("Mon Tue Wed Thu Fri Sat", "Sun Mon Tue Wed Thu", "Tue Sat")},
}
"""Steps between rows, and whether they need a time of day."""

ABOVE = ["", "Report\n\n", "# station 12\n", "# a, b\n# c\n#\n", "Sales; by region, all\n", "Category: x|y\n\n"]
BELOW = ["", "Source: us\n", "\nSource: a, b; c|d\te, f, g, h, i\n", "Total\n", "* preliminary\n\n"]
"""Lines above the names of the columns and below the rows."""

PERIODS = {"QS": ["%Y-%q", "%q/%Y", "%YQ%q", "Q%q-%y", "%qQ%y", "%YQ%q"], "W-MON": ["%G-W%V", "%G-%V", "W%V/%G"]}
"""Ways to write the rows of a step without a day."""

MARKS = [(".", ""), (".", ""), (",", ""), (",", "."), (".", ","), (",", " "), (".", " "), (".", "'"), (",", "\u202f")]


@dataclass(frozen=True, slots=True)
class Written:
    """The bytes of a file, and the values they represent."""

    content: bytes
    times: pd.DatetimeIndex
    values: np.ndarray
    how: str
    late: np.ndarray
    """Seconds that each time is written too late."""


def draw(rng: np.random.Generator) -> Written:
    """Draw a table and its format."""
    times, time_format = _times(rng) if rng.random() > 0.05 else _numbers(rng)
    # fewer may be late by chance as if they had another step
    has_seconds = "%S" in time_format and len(times) >= 12 and times[1] - times[0] < pd.Timedelta("1D")
    is_late = has_seconds and rng.random() < 0.2
    late = rng.integers(0, 9 if is_late else 1, len(times))  # seconds
    written = times + pd.to_timedelta(late, unit="s")
    stamps = [time.strftime(time_format.replace("%q", str(time.quarter))) for time in written]
    if time_format == "step":
        stamps = list(map(str, times.asi8))
    separator = str(rng.choice([*",;\t|", "   "]))
    decimal, thousands = MARKS[rng.integers(len(MARKS))]
    columns = [_column(rng, len(times)) for _ in range(rng.integers(1, 4))]
    if separator == "," and thousands == "." and not any(digits for _, digits, _ in columns):
        thousands = ""
    cells = [[_cell(x, digits, decimal, thousands, strip=strip) for x in column] for column, digits, strip in columns]
    rows = [list(row) for row in zip(stamps, *cells, strict=True)]
    header = ["t" if time_format == "step" else "date", *("abc"[: len(columns)])]
    if rng.random() < 0.15:
        header = [f"{name}{separator} {name}" for name in header]
    has_header = rng.random() > 0.1
    text = _text([header, *rows] if has_header else rows, separator, rng)
    if rng.random() < 0.3:
        text = str(rng.choice(ABOVE)) + text.rstrip("\r\n") + "\n" + str(rng.choice(BELOW))
    values = np.array([[float(f"{value:.{digits}f}") for value in column] for column, digits, _ in columns]).T
    how = f"{text[:160]!r} ... {times[0]} to {times[-1]} as {time_format!r}, marks {decimal!r} {thousands!r}"
    return Written(_bytes(text, rng), times, values, how, late)


def _open(times: pd.DatetimeIndex, rng: np.random.Generator) -> pd.DatetimeIndex:
    """Times of six weeks within opening hours, which are shorter on Saturdays."""
    rows_a_day = pd.Timedelta("1D") // (times[1] - times[0])
    every = pd.date_range(times[0].normalize(), periods=42 * rows_a_day, freq=times.freq)
    opens, closes = int(rng.integers(4, 10)), int(rng.integers(13, 23))
    is_saturday, days = every.day_of_week == 5, int(rng.integers(5, 8))
    last = np.where(is_saturday, opens + 1, closes)
    return every[(every.hour >= opens) & (every.hour <= last) & (every.day_of_week < days)]


def _numbers(rng: np.random.Generator) -> tuple[pd.DatetimeIndex, str]:
    """Numbers of rows as the seconds as which they are read."""
    step = int(rng.choice([1, 1, 1, 10]))
    numbers = int(rng.choice([0, 1, 1, 250])) + step * np.arange(rng.integers(4, 300))
    return pd.DatetimeIndex(numbers.astype("M8[s]")), "step"


def _times(rng: np.random.Generator) -> tuple[pd.DatetimeIndex, str]:
    while True:
        step = list(STEPS)[rng.integers(len(STEPS))]
        first = pd.Timestamp("1975-01-01") + pd.Timedelta(days=int(rng.integers(60 * 365)))
        first += pd.Timedelta(hours=int(rng.integers(24))) if STEPS[step] else pd.Timedelta(0)
        times = pd.date_range(first, periods=1 + int(rng.choice([3, 5, 8, 12, 24, 30, 60, 200])), freq=step)[1:]
        if STEPS[step] and len(times) == 200 and rng.random() < 0.3:
            times = _open(times, rng)
        if step in PERIODS and len(times) > 12 and rng.random() < 0.5:
            return times, str(rng.choice(PERIODS[str(step)]))
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
    if quotes == "none" or len(separator) > 1:  # as careless programs write
        return line_end.join(separator.join(row) for row in rows) + line_end
    text = io.StringIO()
    quoting: Any = csv.QUOTE_ALL if quotes == "all" else csv.QUOTE_MINIMAL
    csv.writer(text, delimiter=separator, lineterminator=line_end, quoting=quoting).writerows(rows)
    return text.getvalue() + str(rng.choice(["", "", line_end, separator * (len(rows[0]) - 1) + line_end]))


def _bytes(text: str, rng: np.random.Generator) -> bytes:
    encoded = text.encode(str(rng.choice(["utf-8", "utf-8", "utf-8-sig", "utf-16"])))
    return gzip.compress(encoded) if rng.random() < 0.1 else encoded
