"""Limits of the cells of a table, which needs pandas; those of the file are in `limits`."""

from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_object_dtype, is_string_dtype

from informer.config.reading import Limits
from informer.data.read.limits import long_cell

EMPTY_WORDS = {"", "NA", "N/A", "n/a", "<NA>", "#NA", "#N/A", "#N/A N/A", "NULL", "null", "None", "NaN", "nan"}
EMPTY_WORDS |= {"-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"}
"""Text that pandas takes for an empty cell, which a name may well be."""

KEPT_ONCE = "texts of a file"
"""The name of the texts of columns made by `kept_once`."""


def kept_once(codes: np.ndarray, texts: Sequence[str]) -> pd.Series:
    """A column of text of which each one that repeats is kept once: categorical, but not by what it means.

    Args:
        codes: which text each cell has; -1 for an empty cell.
    """
    return pd.Series(pd.Categorical.from_codes(codes, pd.Index(texts, name=KEPT_ONCE)))


def is_kept_once(cells: pd.Series) -> bool:
    """Whether it is such a column."""
    return isinstance(cells.dtype, pd.CategoricalDtype) and cells.dtype.categories.name == KEPT_ONCE


def written(cells: pd.Series) -> pd.Series:
    """Text of such a column as plain text; others as they are."""
    return cells.astype(str) if is_kept_once(cells) else cells


def distinct(cells: pd.Series) -> pd.Series:
    """Each text of such a column that occurs; others as they are."""
    return pd.Series(cells.unique()).astype(str) if is_kept_once(cells) else cells


def check_lengths(path: Path, frame: pd.DataFrame, limits: Limits) -> None:
    """Raise the InputError of a cell or a name that is too long."""
    for i, column in enumerate(frame.columns):
        cells = distinct(frame.iloc[:, i])
        is_text = is_string_dtype(cells) or is_object_dtype(cells)
        if len(str(column)) > limits.cell or (is_text and (cells.str.len() > limits.cell).any()):
            raise long_cell(path, limits.cell)


def as_written(as_text: Sequence[str], names: Sequence[str]) -> dict[str, Any]:
    """What makes pandas leave the text of some columns as it is, and the others to their types."""
    written = [name for name in as_text if name in names]
    if not written:
        return {}
    empty: dict[Hashable, Iterable[str]] = dict.fromkeys(range(len(names)), EMPTY_WORDS)  # by place: names may repeat
    empty |= {names.index(name): {""} for name in written}
    return {"dtype": dict.fromkeys(written, str), "keep_default_na": False, "na_values": empty}
