"""Cells with their place: a CSV file or a frame before anything is known about its columns.

Every complaint about a cell goes through `Table.at`: it names the file, the row (the line of the file) and the column.
"""

import csv
import warnings
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
    """A frame, what to call it, and the number of its first row: 2 in a file (line 1 is the header), 0 in a frame."""

    name: str
    frame: pd.DataFrame
    first_row: int

    @property
    def columns(self) -> list[str]:
        """Column names, in order."""
        return list(self.frame.columns)

    def at(self, row: int, column: str) -> str:
        """Where a cell is, to begin an error with."""
        return f"{self.name}, row {row + self.first_row}, column {column!r}"

    def missing(self, setting: str, column: str) -> InputError:
        """The error for a column that is not there."""
        return InputError(
            f"{setting}={column}: {self.name} has no such column, its columns are {', '.join(self.columns)}"
        )


def shown(cell: object) -> str:
    """A cell as an error shows it."""
    return "an empty cell" if cell == "" or cell is None or cell is pd.NaT or cell is pd.NA else repr(str(cell))


def read_table(path: Path, *, separator: str, decimal: str, encoding: str) -> Table:
    """The cells of a CSV file with a header.

    Raises:
        InputError: no such file, nothing in it, not text, rows of unequal length, or names that repeat.
    """
    name = path.name
    try:
        _refuse_binary(path)
        _check_header(path, separator, encoding)
        with warnings.catch_warnings():
            # pandas warns, and drops cells, where rows are longer than the header
            warnings.simplefilter("error", ParserWarning)
            frame = pd.read_csv(
                path,
                sep=separator,
                decimal=decimal,
                encoding=encoding,
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
    except (ParserError, ParserWarning) as error:
        raise InputError(f"{path}: rows of unequal length ({' '.join(str(error).split())})") from error
    except (OSError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: cannot be read ({error})") from error
    return Table(name, _without_blank_end(frame), first_row=2)


def numbers(table: Table, column: str) -> Float64[np.ndarray, "t"]:
    """A column as finite numbers.

    Raises:
        InputError: the first cell that is none.
    """
    cells = table.frame[column]
    values = _to_numbers(cells)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        cell = cells.iloc[bad[0]]
        advice = (
            "set dataset.decimal=','"
            if "," in str(cell)
            else "mend the cell, or leave the column out of dataset.columns"
        )
        raise InputError(f"{table.at(bad[0], column)}: expected a number, found {shown(cell)}; {advice}")
    return values


def is_number_column(table: Table, column: str) -> bool:
    """Whether any cell is a number, or all are empty (an error to report, not a column to pass over)."""
    cells = table.frame[column]
    if is_numeric_dtype(cells):
        return True
    if not (is_string_dtype(cells) or is_object_dtype(cells)):
        return False
    blank = cells.isna() | (cells.astype(str).str.strip() == "")
    return bool(blank.all()) or not np.isnan(_to_numbers(cells)).all()


def _to_numbers(cells: pd.Series) -> Float64[np.ndarray, "t"]:
    if is_bool_dtype(cells):
        cells = cells.astype("float64")
    return pd.to_numeric(cells, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)


def _refuse_binary(path: Path) -> None:
    with path.open("rb") as file:
        if b"\0" in file.read(8192):
            raise InputError(f"{path}: a binary file, expected CSV text")


def _check_header(path: Path, separator: str, encoding: str) -> None:
    with path.open(encoding=encoding, newline="") as file:
        header = [name.strip() for name in next(csv.reader(file, delimiter=separator), [])]
    repeated = sorted({name for name in header if header.count(name) > 1})
    if repeated:
        raise InputError(f"{path.name}, row 1: column names repeat: {', '.join(map(repr, repeated))}; rename them")
    if len(header) == 1:
        other = next((mark for mark in ";\t|," if mark in header[0] and mark != separator), None)
        if other is not None:
            raise InputError(
                f"{path.name}, row 1: no {separator!r} but {other!r} found; set dataset.separator={other!r}"
            )


def _without_blank_end(frame: pd.DataFrame) -> pd.DataFrame:
    n = len(frame)
    while n and all(cell == "" or cell != cell for cell in frame.iloc[n - 1]):
        n -= 1
    # the blank end made text of its columns
    return frame if n == len(frame) else frame.iloc[:n].apply(_as_numbers_if_all)


def _as_numbers_if_all(cells: pd.Series) -> pd.Series:
    values = _to_numbers(cells)
    return cells if np.isnan(values).any() else pd.Series(values, index=cells.index)
