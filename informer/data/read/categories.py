"""Categorical columns: cells are replaced by category codes.

A category is the text of a cell: 3, 3.0 and "3" are equal, 03 is another; empty cells, including NA and None, form a
category. Codes number the known categories from 1; 0 is an unknown category.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from jaxtyping import Float64
from pandas.api.types import is_datetime64_any_dtype, is_timedelta64_dtype

from informer.config.dataset import DatasetConfig
from informer.data.read.cells import EMPTY_WORDS
from informer.data.read.numeric import has_numbers, has_words
from informer.data.read.table import Table

Labels = Mapping[str, Sequence[str]]
"""Categories of each column, in the order of their codes."""


def label(cell: object) -> str:
    """The category of a cell."""
    text = "" if pd.isna(cell) else str(cell).strip()  # type: ignore[call-overload]
    integer = re.fullmatch(r"([+-]?\d+)\.0+", text)
    return "" if text in EMPTY_WORDS else integer[1] if integer else text


def labelled(cells: pd.Series) -> tuple[np.ndarray, list[str]]:
    """Index of each cell's category, and the categories that occur (equal ones may repeat)."""
    indices, values = pd.factorize(cells, use_na_sentinel=False)
    return indices, [label(value) for value in values]


def numbered(cells: pd.Series, labels: Sequence[str]) -> Float64[np.ndarray, "t"]:
    """Code of each cell's category; 0 if it is not in `labels`."""
    numbers = {category: number for number, category in enumerate(labels, start=1)}
    indices, categories = labelled(cells)
    return np.array([numbers.get(category, 0) for category in categories], dtype=np.float64)[indices]


def coded(table: Table, labels: Labels) -> Table:
    """The table with codes in its categorical columns."""
    codes = {
        name: numbered(table.frame[name], categories) for name, categories in labels.items() if name in table.columns
    }
    return replace(table, frame=table.frame.assign(**codes)) if codes else table


def unknown(table: Table, labels: Labels) -> dict[str, list[str]]:
    """Categories of a table that are not in `labels`, by column."""
    categories = {name: labelled(table.frame[name])[1] for name in labels if name in table.columns}
    return {name: new for name, present in categories.items() if (new := sorted(set(present) - set(labels[name])))}


@dataclass(slots=True)
class CategoryReader:
    """Finds categorical columns and encodes them, with the same codes in all files of a dataset.

    Args:
        covariates: columns that are categorical if they contain text, like static covariates.
        labels: categories found so far.
    """

    covariates: Sequence[str] = ()
    labels: dict[str, list[str]] = field(default_factory=dict)

    def coded(self, table: Table, config: DatasetConfig) -> tuple[Table, DatasetConfig]:
        """The table with codes, and the configuration with the names of all categorical columns.

        Raises:
            InputError: a column of `dataset.categorical` is missing.
        """
        for name in config.categorical:
            if name not in table.columns:
                raise table.missing("dataset.categorical", name)
        texts = [name for name in (*self.covariates, *config.static_covariates) if is_text(table, name)]
        names = dict.fromkeys([*config.categorical, *self.labels, *texts])
        for name in (column for column in names if column in table.columns):
            categories = self.labels.setdefault(name, [])
            categories += sorted(set(labelled(table.frame[name])[1]) - set(categories))
        return coded(table, self.labels), replace(config, categorical=list(names))


def is_text(table: Table, column: str) -> bool:
    """Whether a column contains text and neither numbers nor times."""
    if column not in table.columns:
        return False
    dtype = table.frame[column].dtype
    if is_datetime64_any_dtype(dtype) or is_timedelta64_dtype(dtype):
        return False
    return has_words(table, column) and not has_numbers(table, column)
