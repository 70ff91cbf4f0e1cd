"""Tables drawn by hypothesis, and the formats in which files store them."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

STEPS = ["250ms", "s", "15s", "min", "15min", "90min", "h", "3h", "6h", "D", "2D", "B", "W-WED", "2W-MON", "SMS"]
STEPS += ["MS", "2MS", "ME", "6ME", "BMS", "QS-JAN", "QE-DEC", "BQE-MAR", "YS-JAN", "2YS", "YE-DEC", "BYE-JUN"]
STEPS += ["HYS"] if hasattr(pd.offsets, "HalfYearBegin") else []
"""Seconds to years, business days, starts and ends of months."""

LETTERS = st.characters(categories=["L", "Nd"], exclude_characters="İ") | st.sampled_from(" _-.,;|%'\"")


@dataclass(frozen=True)
class Writing:
    """Format of a file: `dialect` for writing with pandas, `named` the settings that a reader needs."""

    ending: str
    dialect: dict[str, Any]
    named: dict[str, str]

    def write(self, frame: pd.DataFrame, folder: Path) -> Path:
        """A file of the table."""
        path = folder / f"table{self.ending}"
        if self.ending == ".parquet":
            frame.to_parquet(path, index=False)
        else:
            frame.to_csv(path, index=False, **self.dialect)
        return path


@st.composite
def writings(draw: st.DrawFn) -> Writing:
    """CSV in every separator, decimal mark and encoding, packed or not, or parquet."""
    ending = draw(st.sampled_from([".csv", ".csv.gz", ".parquet"]))
    separator = draw(st.sampled_from(",;\t|"))
    decimal = "." if separator == "," else draw(st.sampled_from(".,"))
    encoding = draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "gb18030"]))
    # of the bytes of other encodings nothing says which they are
    named = {"encoding": encoding} if encoding == "gb18030" else {}
    dialect = {
        "sep": separator,
        "decimal": decimal,
        "encoding": encoding,
        "lineterminator": draw(st.sampled_from(["\n", "\r\n"])),
        "quoting": draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])),
    }
    return Writing(ending, dialect, named)


def names(most: int = 4) -> st.SearchStrategy[list[str]]:
    """Names of value columns, in any script."""
    name = st.text(LETTERS, min_size=1, max_size=8).map(str.strip)
    taken = {"", "date", "time", "timestamp", "datetime", "date_time", "ds", "dates", "times", "timestamps", "period"}
    return st.lists(name.filter(lambda text: text.lower() not in taken), min_size=1, max_size=most, unique=True)


@st.composite
def tables(
    draw: st.DrawFn,
    *,
    n_rows: tuple[int, int] = (40, 60),
    steps: Sequence[str] = STEPS,
    columns: st.SearchStrategy[list[str]] | None = None,
) -> tuple[pd.DataFrame, str]:
    """A column `date` among columns of numbers, in any order, and the step of its rows."""
    step = draw(st.sampled_from(steps))
    first = draw(st.datetimes(pd.Timestamp("1950-01-01").to_pydatetime(), pd.Timestamp("2030-01-01").to_pydatetime()))
    n = draw(st.integers(*n_rows))
    times = pd.date_range(pd.Timestamp(first).floor("s" if step[-1] in "snh" else "D"), periods=n, freq=step)
    random = np.random.default_rng(draw(st.integers(0, 1000)))
    # few digits, which every parser reads back; some fraction, which shows the decimal mark
    values = {
        name: random.normal(scale=10.0 ** draw(st.integers(-2, 5)), size=n).round(draw(st.integers(1, 17))) + 0.5
        for name in draw(names() if columns is None else columns)
    }
    frame = pd.DataFrame({"date": times, **values})
    return frame[draw(st.permutations(list(frame.columns)))], step
