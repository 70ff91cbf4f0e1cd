"""Limits of the cells of a table, which needs pandas; those of the file are in `limits`."""

from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api.types import is_object_dtype, is_string_dtype

from informer.config.reading import Limits
from informer.data.read.limits import long_cell

EMPTY_WORDS = {"", "NA", "N/A", "n/a", "<NA>", "#NA", "#N/A", "#N/A N/A", "NULL", "null", "None", "NaN", "nan"}
EMPTY_WORDS |= {"-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"}
"""Text that pandas takes for an empty cell, which a name may well be."""


def check_lengths(path: Path, frame: pd.DataFrame, limits: Limits) -> None:
    """Raise the InputError of a cell or a name that is too long."""
    for i, column in enumerate(frame.columns):
        cells = frame.iloc[:, i]
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
