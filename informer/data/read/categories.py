"""Columns of categories: the number of each cell's category in place of the cell, so that a table holds only numbers.

A category is the text of a cell: 3, 3.0 and "3" are one, 03 is another; an empty cell, which may as well be written NA
or None, is a category of its own. Its number is its place among the known ones, from 1; 0 means any other.
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
"""By column, its categories in the order of their numbers."""


def label(cell: object) -> str:
    """The category of a cell."""
    text = "" if pd.isna(cell) else str(cell).strip()  # type: ignore[call-overload]
    whole = re.fullmatch(r"([+-]?\d+)\.0+", text)
    return "" if text in EMPTY_WORDS else whole[1] if whole else text


def labelled(cells: pd.Series) -> tuple[np.ndarray, list[str]]:
    """The place of each cell's category, and the categories that occur."""
    places, values = pd.factorize(cells, use_na_sentinel=False)
    return places, [label(value) for value in values]


def numbered(cells: pd.Series, labels: Sequence[str]) -> Float64[np.ndarray, "t"]:
    """The number of each cell's category among these; 0: it is none of them."""
    numbers = {one: number for number, one in enumerate(labels, start=1)}
    places, found = labelled(cells)
    return np.array([numbers.get(one, 0) for one in found], dtype=np.float64)[places]


def coded(table: Table, labels: Labels) -> Table:
    """The table with numbers in its columns of categories, as far as it has them."""
    codes = {name: numbered(table.frame[name], known) for name, known in labels.items() if name in table.columns}
    return replace(table, frame=table.frame.assign(**codes)) if codes else table


def unknown(table: Table, labels: Labels) -> dict[str, list[str]]:
    """By column, the categories in a table that are none of these."""
    found = {name: labelled(table.frame[name])[1] for name in labels if name in table.columns}
    return {name: more for name, own in found.items() if (more := sorted(set(own) - set(labels[name])))}


@dataclass(slots=True)
class CategoryReader:
    """Finds the columns of categories and numbers their cells, in all files of a dataset alike.

    Args:
        covariates: columns that are categories where they hold text, as static ones are.
        labels: categories that were met, in this order.
    """

    covariates: Sequence[str] = ()
    labels: dict[str, list[str]] = field(default_factory=dict)

    def coded(self, table: Table, config: DatasetConfig) -> tuple[Table, DatasetConfig]:
        """The table with numbers, and the configuration with the names of all these columns.

        Raises:
            InputError: a column of the configuration is missing.
        """
        for name in config.categorical:
            if name not in table.columns:
                raise table.missing("dataset.categorical", name)
        texts = [name for name in (*self.covariates, *config.static_covariates) if is_text(table, name)]
        names = dict.fromkeys([*config.categorical, *self.labels, *texts])
        for name in (one for one in names if one in table.columns):
            own = self.labels.setdefault(name, [])
            own += sorted(set(labelled(table.frame[name])[1]) - set(own))
        return coded(table, self.labels), replace(config, categorical=list(names))


def is_text(table: Table, column: str) -> bool:
    """Whether a column holds text and neither numbers nor times."""
    if column not in table.columns:
        return False
    dtype = table.frame[column].dtype
    if is_datetime64_any_dtype(dtype) or is_timedelta64_dtype(dtype):
        return False
    return has_words(table, column) and not has_numbers(table, column)
