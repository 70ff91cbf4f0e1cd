"""Cells with their place: a CSV file or a frame before anything is known about its columns.

Every complaint about a cell goes through `Table.at`: it names the file, the row (the line of the file) and the column.
"""

import csv
import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float64
from pandas.api.types import is_bool_dtype, is_numeric_dtype, is_object_dtype, is_string_dtype
from pandas.errors import EmptyDataError, ParserError, ParserWarning

from informer.errors import InputError


@dataclass(frozen=True, slots=True)
class Table:
    """A frame and what to call it.

    `first_row` is the number of its first row: 2 in a file (line 1 is the header), 0 in a frame. `decimal` is the mark
    in numbers that are text.
    """

    name: str
    frame: pd.DataFrame
    first_row: int
    decimal: str = "."

    @property
    def columns(self) -> list[str]:
        """Column names, in order."""
        return list(self.frame.columns)

    def at(self, row: int, column: str) -> str:
        """Where a cell is, to begin an error with."""
        return f"{self.name}, row {row + self.first_row}, column {column!r}"

    def missing(self, setting: str, column: str) -> InputError:
        """The error for a column that is not there."""
        return InputError(f"{setting}={column}: {self.name} has no such column, its columns are {listed(self.columns)}")


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names as an error lists them."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more if names else "none"


def shown(cell: object) -> str:
    """A cell as an error shows it."""
    return "an empty cell" if cell == "" or cell is None or cell is pd.NaT or cell is pd.NA else repr(str(cell))


def read_table(path: Path, *, separator: str, decimal: str, encoding: str) -> Table:
    """The cells of a CSV file with a header.

    Raises:
        InputError: no such file, nothing in it, not text, rows of unequal length, or names that repeat.
    """
    if separator == r"\t":  # a tab as a command line writes it
        separator = "\t"
    for setting, mark in (("separator", separator), ("decimal", decimal)):
        if len(mark) != 1:
            raise InputError(f"dataset.{setting}: expected one character, found {mark!r}")
    try:
        text = _text(path, separator, encoding)
        _check_header(path.name, text, separator)
        with warnings.catch_warnings():
            # pandas warns, and drops cells, where rows are longer than the header
            warnings.simplefilter("error", ParserWarning)
            frame = pd.read_csv(
                io.StringIO(text),
                sep=separator,
                decimal=decimal,
                # cells stay as written, so that an error can show them; rows stay at their lines
                keep_default_na=False,
                skip_blank_lines=False,
                skipinitialspace=True,
                index_col=False,
                low_memory=False,
            )
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file, check the path") from error
    except EmptyDataError as error:
        raise InputError(f"{path}: the file is empty, expected a header and rows") from error
    except UnicodeError as error:
        raise InputError(f"{path}: not {encoding} text ({error}); set dataset.encoding, such as latin-1") from error
    except (ParserError, ParserWarning, csv.Error) as error:
        raise InputError(f"{path}: rows of unequal length ({' '.join(str(error).split())})") from error
    except (OSError, LookupError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from error
    return Table(path.name, frame, first_row=2, decimal=decimal)


def numbers(table: Table, column: str) -> Float64[np.ndarray, "t"]:
    """A column as finite numbers.

    Raises:
        InputError: the first cell that is none.
    """
    cells = table.frame[column]
    values = _to_numbers(cells, table.decimal)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        row = int(bad[0])
        cell = cells.iloc[row]
        comma = re.fullmatch(r"\s*[+-]?\d+,\d+\s*", str(cell)) is not None
        advice = "if the comma is its decimal mark, set dataset.decimal=','" if comma else "mend the cell"
        raise InputError(
            f"{table.at(row, column)}: expected a number, found {shown(cell)}; {advice}, or leave the column out of "
            "dataset.columns"
        )
    return values


def is_number_column(table: Table, column: str) -> bool:
    """Whether a column is meant as numbers (some cell is one, or none has a letter): `numbers` reads or refuses it."""
    cells = table.frame[column]
    if is_numeric_dtype(cells):
        return True
    if not (is_string_dtype(cells) or is_object_dtype(cells)):
        return False
    wordless = not cells.astype(str).str.contains(r"[^\s\d.,+-]").any()
    return wordless or not np.isnan(_to_numbers(cells, table.decimal)).all()


def _to_numbers(cells: pd.Series, decimal: str) -> Float64[np.ndarray, "t"]:
    if is_bool_dtype(cells):
        cells = cells.astype("float64")
    elif decimal != "." and not is_numeric_dtype(cells):
        # swapped, so that a point does not pass for a decimal mark
        cells = cells.astype(str).str.translate(str.maketrans(f"{decimal}.", f".{decimal}"))
    return pd.to_numeric(cells, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)


def _text(path: Path, separator: str, encoding: str) -> str:
    """The file without the blank rows that spreadsheets leave at its end."""
    content = path.read_bytes()
    if b"\0" in content[:8192]:
        raise InputError(f"{path}: a binary file, expected CSV text")
    return content.decode(encoding).rstrip(f"{separator} \t\r\n")


def _check_header(name: str, text: str, separator: str) -> None:
    first_line = text.partition("\n")[0]
    header = [cell.strip() for cell in next(csv.reader([first_line], delimiter=separator), [])]
    repeated = sorted({cell for cell in header if header.count(cell) > 1})
    if repeated:
        raise InputError(f"{name}, row 1: column names repeat: {', '.join(map(repr, repeated))}; rename them")
    if len(header) == 1:
        other = next((mark for mark in ";\t|," if mark in header[0] and mark != separator), None)
        if other is not None:
            raise InputError(f"{name}, row 1: no {separator!r} but {other!r} found; set dataset.separator={other!r}")
