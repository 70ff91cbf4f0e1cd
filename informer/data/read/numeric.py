"""Convert columns of a table to numbers, and find the numeric ones."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float64
from pandas.api.types import (
    is_bool_dtype,
    is_complex_dtype,
    is_datetime64_any_dtype,
    is_numeric_dtype,
    is_object_dtype,
    is_string_dtype,
    is_timedelta64_dtype,
)

from informer.config.overrides import to_display
from informer.data.read.cells import distinct, is_encoded
from informer.data.read.dialect import Dialect
from informer.data.read.number_marks import without_thousands
from informer.data.read.table import Table
from informer.errors import InputError

FEW_COLUMNS, FEW_ROWS = 32, 100_000
"""Size up to which it is faster to select columns one by one."""


def numbers(
    table: Table, columns: Sequence[str], last: int | None = None
) -> tuple[Float64[np.ndarray, "t c"], dict[str, np.ndarray]]:
    """Columns as numbers, NaN for other cells; and the positions of text cells, for each column that has some.

    `last`: only of this many rows at the end.
    """
    frame = table.frame
    n = len(frame) if last is None else min(last, len(frame))
    if 0 < len(columns) <= FEW_COLUMNS and len(frame) <= FEW_ROWS:
        series = [frame[column] for column in columns]
        arrays = [cells.to_numpy() for cells in series] if all(map(_is_plain, series)) else []
        # of a small file each column is an array of its own; those of a long one are in one array, which is not copied
        if arrays and all(array.strides == (array.itemsize,) for array in arrays):
            # sliced here, since slicing the frame takes as long as selecting five columns
            return np.column_stack([array[len(frame) - n :] for array in arrays]).astype(np.float64, copy=False), {}
    table = table.end(n)
    frame = table.frame
    if are_plain(table, columns):
        places = {column: place for place, column in enumerate(frame.columns)}
        chosen = [places[column] for column in columns]
        return np.ascontiguousarray(frame.iloc[:, chosen].to_numpy(dtype=np.float64)), {}
    selected = {column: frame[column] for column in columns}
    values = np.stack([_to_numbers(cells, table.dialect) for cells in selected.values()], axis=1)
    texts: dict[str, np.ndarray] = {}
    for i, (column, cells) in enumerate(selected.items()):
        if not _is_plain(cells):
            positions = np.flatnonzero(np.isnan(values[:, i]) & cells.notna().to_numpy())
            texts |= {column: positions} if len(positions) else {}
    return values, texts


def are_plain(table: Table, columns: Sequence[str]) -> bool:
    """Whether all these columns have a numeric numpy type, so that no cell is text."""
    types = dict(zip(table.frame.columns, table.frame.dtypes, strict=True))
    return all(_is_plain_type(types[column]) for column in columns)


def number_columns(table: Table, columns: Sequence[str]) -> tuple[str, ...]:
    """The numeric columns: some cell is a number, or no cell has a letter."""
    # by types first: selecting a hundred thousand columns one by one is slow
    types = table.frame.dtypes
    numeric = {name for name, dtype in zip(types.index, types.array, strict=True) if is_numeric_dtype(dtype)}
    return tuple(
        column for column in columns if column in numeric or not has_words(table, column) or has_numbers(table, column)
    )


def has_numbers(table: Table, column: str) -> bool:
    """Whether some cell is a number."""
    cells = distinct(table.frame[column])
    if is_numeric_dtype(cells):
        return bool(cells.notna().any())
    return _may_be_text(cells) and not np.isnan(_to_numbers(cells.dropna(), table.dialect)).all()


def has_words(table: Table, column: str) -> bool:
    """Whether some cell has a letter, or all are of a type other than text and numbers, such as times."""
    cells = distinct(table.frame[column])
    if is_numeric_dtype(cells):
        return False
    return not _may_be_text(cells) or bool(cells.dropna().astype(str).str.contains(r"[^\s\d.,'\u2019+-]").any())


def check_no_times(table: Table, columns: Sequence[str]) -> None:
    """Check that no column has times or durations, whose unit as numbers would be ambiguous.

    Raises:
        InputError: names the first such column.
    """
    for column in columns:
        dtype = table.frame[column].dtype
        if is_datetime64_any_dtype(dtype) or is_timedelta64_dtype(dtype):
            raise InputError(
                f"{table.name}, column {column!r}: expected numbers, found {dtype}; write it as a number,"
                f" or leave it out with dataset.exclude={to_display([column])}"
            )


def _may_be_text(cells: pd.Series) -> bool:
    return is_string_dtype(cells) or is_object_dtype(cells)


def _is_plain(cells: pd.Series) -> bool:
    """Whether cells have a numeric numpy type: possibly NaN, never text."""
    return _is_plain_type(cells.dtype)


def _is_plain_type(dtype: object) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind in "iuf"


def _to_numbers(cells: pd.Series, dialect: Dialect) -> Float64[np.ndarray, "t"]:
    if _is_plain(cells):
        return cells.to_numpy(dtype=np.float64)
    if is_encoded(cells):
        codes, texts = pd.factorize(cells)
        return np.append(_to_numbers(pd.Series(texts.astype(str)), dialect), np.nan)[codes]
    if is_bool_dtype(cells):
        cells = cells.astype("float64")
    elif not is_numeric_dtype(cells):
        if not _may_be_text(cells):  # times and durations, which pandas would convert to counts
            return np.full(len(cells), np.nan)
        if dialect.thousands:
            cells = without_thousands(cells, dialect.thousands, dialect.decimal)
        elif dialect.decimal != ".":
            # swap both marks, so that a point is not read as a decimal mark
            cells = cells.astype(str).str.translate(str.maketrans(f"{dialect.decimal}.", f".{dialect.decimal}"))
    elif is_complex_dtype(cells):
        return np.full(len(cells), np.nan)
    try:
        read = pd.to_numeric(cells, errors="coerce")
    except OverflowError:  # a whole number beyond the range of floats, which is infinite as text
        read = pd.to_numeric(cells.astype(str), errors="coerce")
    return read.to_numpy(dtype=np.float64, na_value=np.nan)
