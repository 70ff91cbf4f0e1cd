"""Text cells: missing values, dictionary encoding and length limits. Limits of files are in `limits`."""

import csv
import io
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype, is_object_dtype, is_string_dtype

from informer.config.data import DatasetConfig, key_columns
from informer.read.limits import long_cell

EMPTY_WORDS = {"", "NA", "N/A", "n/a", "<NA>", "#NA", "#N/A", "#N/A N/A", "NULL", "null", "None", "NaN", "nan"}
EMPTY_WORDS |= {"-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"}
"""Text that pandas reads as an empty cell, although it may be a name."""

EMPTY_MARKS = (".", "..", "...", "\u2026", ":", ": ", "NAN", "Null")
"""Marks of missing values in public statistics (FRED, SAS, OECD, Eurostat) and of data loggers."""

PIECE = 1 << 16
"""Number of cells converted to Python strings at once, since these take several times their space."""

ENCODED = "texts of a file"
"""Marks the columns made by `dictionary_encoded`."""


def dictionary_encoded(codes: np.ndarray, texts: Sequence[str] | pd.Index) -> pd.Series:
    """A dictionary-encoded text column; of pandas' categorical type, but not a categorical variable.

    Args:
        codes: index in `texts` of each cell; -1 for an empty cell.
        texts: the distinct texts.
    """
    return pd.Series(pd.Categorical.from_codes(codes, pd.Index(texts, name=ENCODED)))


def is_encoded(cells: pd.Series) -> bool:
    """Whether a column is from `dictionary_encoded`."""
    return isinstance(cells.dtype, pd.CategoricalDtype) and cells.dtype.categories.name == ENCODED


def key_text(cell: object) -> str:
    """A cell that names a series, as text. A whole number is the same in columns of any type, such as floating point
    for a column with an empty cell."""
    return str(int(cell) if isinstance(cell, float | np.floating) and cell.is_integer() else cell)


def joined_names(frame: pd.DataFrame) -> pd.Series:
    """The cells of each row as one name, a line of CSV text; empty if all are."""
    codes = frame.groupby([*frame.columns], sort=False, observed=True, dropna=False).ngroup().to_numpy()
    different = frame.iloc[np.unique(codes, return_index=True)[1]].astype(object)
    names = list(map(_line, different.where(different.notna(), "").map(key_text).itertuples(index=False)))
    codes = np.where(frame.isna().all(axis=1), -1, codes)
    return dictionary_encoded(codes, names)


def key_cells(series_col: str | None, name: str) -> dict[str, str]:
    """The columns that name a series, and its cells in them; see `joined_names`."""
    columns = key_columns(series_col)
    cells = next(csv.reader([name]), []) if len(columns) > 1 else [name]
    if len(cells) != len(columns):  # a single column whose name is in brackets
        return {} if series_col is None else {series_col: name}
    return dict(zip(columns, cells, strict=True))


def _line(cells: Sequence[object]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerow(cells)  # so that cells with line breaks are in quotation marks
    return text.getvalue().removesuffix("\r\n")


def codes_of(cells: pd.Series) -> tuple[np.ndarray, pd.Index]:
    """Codes of a column of `dictionary_encoded` (-1 for an empty cell), and their texts; only texts that occur."""
    codes = np.asarray(cells.array.codes)  # not cells.cat.codes, which copies them
    if np.count_nonzero(pd.unique(codes) >= 0) == len(cells.cat.categories):
        return codes, cells.cat.categories
    return pd.factorize(cells)  # a part of a file's rows


def decoded(cells: pd.Series) -> pd.Series:
    """Decode a column of `dictionary_encoded` to plain text; others are unchanged."""
    return text_of(cells) if is_encoded(cells) else cells


def text_of(cells: pd.Series) -> pd.Series:
    """Cells as plain text; empty ones stay empty, which pandas 2 would write as nan."""
    return cells.astype(str).where(cells.notna())


def distinct(cells: pd.Series) -> pd.Series:
    """The distinct texts of a column of `dictionary_encoded`; others are unchanged."""
    return text_of(pd.Series(cells.unique())) if is_encoded(cells) else cells


def check_lengths(path: Path, frame: pd.DataFrame, limits: DatasetConfig) -> None:
    """Raise an InputError if a cell or a column name is too long."""
    for i, column in enumerate(frame.columns):
        cells = distinct(frame.iloc[:, i])
        # in pieces, since the lengths of all cells can take as much memory as the text
        begins = range(0, len(cells) if may_be_text(cells) else 0, PIECE)
        pieces = (cells.iloc[begin : begin + PIECE] for begin in begins)
        # pandas keeps long whole numbers as objects
        lengths = [len(str(column)), *(piece.astype(str).str.len().max() for piece in pieces)]
        if any(length > limits.max_cell for length in lengths if pd.notna(length)):
            raise long_cell(path, limits.max_cell)


def may_be_text(cells: pd.Series) -> bool:
    """Whether cells are text or objects, which may be text."""
    return is_string_dtype(cells) or is_object_dtype(cells)


def without_words(frame: pd.DataFrame, words: Sequence[str], unchanged: Collection[str | None]) -> pd.DataFrame:
    """The frame with missing values in place of these words and numbers, except in the columns `unchanged`."""
    listed_numbers = pd.to_numeric(pd.Series(words, dtype="str"), errors="coerce").dropna().tolist()
    changed: dict[str, pd.Series] = {}
    for column in [column for column in frame.columns if column not in unchanged]:
        cells = frame[column]
        if is_encoded(cells) or may_be_text(cells):
            cells = decoded(cells)
            missing = cells.isin([*words, *listed_numbers])
        elif listed_numbers and is_numeric_dtype(cells) and not is_bool_dtype(cells):
            missing = cells.isin(listed_numbers)
        else:
            continue
        if missing.any():
            changed[column] = cells.mask(missing)
    return frame.assign(**changed) if changed else frame
