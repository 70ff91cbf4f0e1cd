"""What the columns of a table are: values, which become numbers, names of series, or categories, which become codes.

A category is the text of a cell: 3, 3.0 and "3" are equal, 03 is another; empty cells, including NA and None, form a
category. Codes number the known categories from 1; 0 is an unknown category.
"""

import logging
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
import pandas as pd
from jaxtyping import Float64

from informer.base.errors import ColumnError, InputError, listed
from informer.config.data import DatasetConfig, key_columns
from informer.config.overrides import to_display
from informer.read import time_columns, time_parts
from informer.read.cells import EMPTY_WORDS, distinct, is_encoded, may_be_text, text_of
from informer.read.dialect import Dialect
from informer.read.number_marks import APOSTROPHES, without_thousands
from informer.read.table import Table, without

log = logging.getLogger(__name__)


def numbers(table: Table, columns: Sequence[str]) -> tuple[Float64[np.ndarray, "t c"], dict[str, np.ndarray]]:
    """Columns as numbers, NaN for other cells; and the positions of text cells, for each column that has some."""
    frame = table.frame
    if are_plain(table, columns):
        places = {column: place for place, column in enumerate(frame.columns)}
        chosen = [places[column] for column in columns]
        return np.ascontiguousarray(frame.iloc[:, chosen].to_numpy(dtype=np.float64)), {}
    selected = {column: frame[column] for column in columns}
    values = np.stack([_to_numbers(cells, table.dialect) for cells in selected.values()], axis=1)
    texts: dict[str, np.ndarray] = {}
    for i, (column, cells) in enumerate(selected.items()):
        if not _is_plain(cells.dtype):
            positions = np.flatnonzero(np.isnan(values[:, i]) & cells.notna().to_numpy())
            texts |= {column: positions} if len(positions) else {}
    return values, texts


def are_plain(table: Table, columns: Sequence[str]) -> bool:
    """Whether all these columns have a numeric numpy type, so that no cell is text."""
    types = dict(zip(table.frame.columns, table.frame.dtypes, strict=True))
    return all(_is_plain(types[column]) for column in columns)


def number_columns(table: Table, columns: Sequence[str]) -> tuple[str, ...]:
    """The numeric columns: some cell is a number, or no cell has a letter."""
    others = {*table.not_numeric}
    return tuple(
        name for name in columns if name not in others or not has_words(table, name) or has_numbers(table, name)
    )


def has_numbers(table: Table, column: str) -> bool:
    """Whether some cell of a column that is not numeric is a number."""
    cells = distinct(table.frame[column])
    return may_be_text(cells) and not np.isnan(_to_numbers(cells.dropna(), table.dialect)).all()


def has_words(table: Table, column: str) -> bool:
    """Whether some cell has a letter, or all are of a type other than text and numbers, such as times."""
    cells = distinct(table.frame[column])
    if pd.api.types.is_numeric_dtype(cells):
        return False
    return not may_be_text(cells) or bool(cells.dropna().astype(str).str.contains(rf"[^\s\d.,{APOSTROPHES}+-]").any())


def _is_plain(dtype: object) -> bool:
    """Whether it is a numeric numpy type: possibly NaN, never text."""
    return isinstance(dtype, np.dtype) and dtype.kind in "iuf"


def _to_numbers(cells: pd.Series, dialect: Dialect) -> Float64[np.ndarray, " t"]:
    if _is_plain(cells.dtype):
        return cells.to_numpy(dtype=np.float64)
    if is_encoded(cells):
        codes, texts = pd.factorize(cells)
        return np.append(_to_numbers(pd.Series(texts.astype(str)), dialect), np.nan)[codes]
    if pd.api.types.is_bool_dtype(cells):
        cells = cells.astype("float64")
    elif not pd.api.types.is_numeric_dtype(cells):
        if not may_be_text(cells):  # times and durations, which pandas would convert to counts
            return np.full(len(cells), np.nan)
        if dialect.thousands:
            cells = without_thousands(cells, dialect.thousands, dialect.decimal)
        elif dialect.decimal != ".":
            # swap both marks, so that a point is not read as a decimal mark
            cells = text_of(cells).str.translate(str.maketrans(f"{dialect.decimal}.", f".{dialect.decimal}"))
    elif pd.api.types.is_complex_dtype(cells):
        return np.full(len(cells), np.nan)
    try:
        read = pd.to_numeric(cells, errors="coerce")
    except OverflowError:  # a whole number beyond the range of floats, which is infinite as text
        read = pd.to_numeric(cells.astype(str), errors="coerce")
    return read.to_numpy(dtype=np.float64, na_value=np.nan)


FEW = 10
"""Least average number of rows per value in a column that could contain names of series."""

LEAST_SHARE_REPEATED = 0.2
"""Least share of rows with the timestamp of another row; two series that begin at other times share fewer than half."""

MOST_KEYS, MOST_CANDIDATES = 3, 8
"""Maximum number of columns that name the series together, and number of columns among which these are searched."""

LEAST_COVERED = 0.5
"""Minimum share of the times of a series at which it has a row, if numbers name it."""

MOST_REPEATED = 0.01
"""Largest share of duplicate timestamps within the series of such a column; the checks report these rows."""


def separating_column(table: Table, time_col: str, target: str | None = None) -> str | None:
    """The column with the name of each row's series, if timestamps repeat as in a file of many series; else None.

    Columns that name them only together are in brackets, [store,item].
    """
    rows = table.frame
    if time_columns.are_rising(rows[time_col]):
        return None
    times, n_times = pd.factorize(rows[time_col])[0], rows[time_col].nunique()
    if not len(rows) or len(rows) - n_times < LEAST_SHARE_REPEATED * len(rows):
        return None
    candidates = [name for name in without(table.columns, [time_col, target]) if not time_parts.is_clock_name(name)]
    if len(rows) < 2 * n_times:  # series that hardly overlap: a column of numbers may differ by chance
        candidates = [name for name in candidates if not pd.api.types.is_numeric_dtype(rows[name])]
    few = [name for name in candidates if rows[name].nunique() * FEW <= len(rows)]
    # a number that is not whole is in no name
    floats = [name for name in few if pd.api.types.is_float_dtype(rows[name])]
    fractional = [name for name in floats if (rows[name].dropna() % 1 != 0).any()]
    codes = {name: pd.factorize(rows[name])[0] for name in few if name not in fractional}
    for n in range(1, MOST_KEYS + 1):
        separate: dict[tuple[str, ...], tuple[float, int]] = {}
        for names in combinations([*codes][:MOST_CANDIDATES] if n > 1 else codes, n):
            key = pd.DataFrame({name: codes[name] for name in names})
            repeated = float(key.assign(time=times).duplicated().mean())
            n_numeric = sum(pd.api.types.is_numeric_dtype(rows[name]) for name in names)
            if repeated <= MOST_REPEATED and (not n_numeric or _share_covered(key, times) >= LEAST_COVERED):
                # of columns that separate equally well, text is a name, a number rather an attribute such as a size
                separate[names] = repeated, n_numeric
        if separate:
            best = min(separate, key=separate.__getitem__)
            return best[0] if n == 1 else to_display(best)
    return None


def _share_covered(key: pd.DataFrame, times: np.ndarray) -> float:
    """Share of the times between the first and last row of each series at which it has a row.

    Measured numbers recur at some times, names at most of them.
    """
    ordered = pd.factorize(times, sort=True)[0]
    spans = pd.Series(ordered).groupby([key[name].to_numpy() for name in key], sort=False).agg(["min", "max", "size"])
    return float(spans["size"].sum() / (spans["max"] - spans["min"] + 1).sum())


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


def coded(table: Table, labels: Labels) -> Table:
    """The table with codes in its categorical columns; 0 for a category that is not in `labels`."""
    codes = dict[str, np.ndarray]()
    for name in [name for name in labels if name in table.columns]:
        indices, categories = labelled(table.frame[name])
        numbers = {category: number for number, category in enumerate(labels[name], start=1)}
        codes[name] = np.array([numbers.get(category, 0) for category in categories], dtype=np.float64)[indices]
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
    if column not in table.columns or table.frame[column].dtype.kind in "mM":
        return False
    return has_words(table, column) and not has_numbers(table, column)


LEAST_REPEATED = 10
"""Minimum average number of rows per distinct text for a text column to be proposed as categorical."""


def value_columns(table: Table, time_col: str, config: DatasetConfig) -> tuple[str, ...]:
    """The columns that are read as numbers: those of `config`, or all with numbers. Others are logged.

    Raises:
        InputError: no such column, or one without a name.
    """
    candidates = [column for column in table.columns if column != time_col]
    if config.columns is not None:
        missing = without(config.columns, candidates)
        if missing or not config.columns:
            lacking = listed(missing) if missing else "dataset.columns lists none"
            raise ColumnError(f"{table.name}: columns missing: {lacking}; its value columns are {listed(candidates)}")
        if repeated := [column for column, n in Counter(config.columns).items() if n > 1]:
            raise InputError(f"dataset.columns: {listed(repeated)} is given twice")
        return tuple(config.columns)
    # dates without letters might be numbers with signs
    dates = [column for column in time_columns.dated_columns(table) if time_columns.has_only_dates(table.frame[column])]
    selected = without(number_columns(table, candidates), dates)
    unnamed = [column for column in selected if column == "" or column.startswith("Unnamed: ")]
    # spreadsheets leave empty columns, and pandas writes row numbers
    may_be_empty = unnamed if config.target is None else without(selected, [config.target])
    first = table.frame.iloc[0] if may_be_empty and len(table.frame) else pd.Series()
    useless = [x for x in may_be_empty if x in first and pd.isna(first[x]) and not table.frame[x].notna().any()]
    if named := without(useless, unnamed):
        log.info("%s: columns without any value are not used: %s", table.name, listed(named))
    if unnamed and unnamed[0] == table.columns[0] and time_columns.counts_rows(table.frame[unnamed[0]]):
        useless.append(unnamed[0])
    selected = without(selected, useless)
    candidates = without(candidates, useless)
    if without(unnamed, useless):
        raise ColumnError(f"{table.name}, row 1: a column has no name; name it, or list dataset.columns")
    if not selected:
        descriptions = [f"{column} (text such as {str(table.frame[column].iloc[0])[:40]!r})" for column in candidates]
        advice = "; write plain numbers, without %, $ or other units" if candidates else ""
        raise ColumnError(f"{table.name}: no numeric column next to {time_col!r}, found {listed(descriptions)}{advice}")
    passed_over = without(candidates, selected)
    for column in passed_over if table.is_frame else ():
        dtype = table.frame[column].dtype
        if dtype.kind in "mM":  # whose unit as numbers would be ambiguous; those of a text are words
            raise ColumnError(
                f"{table.name}, column {column!r}: expected numbers, found {dtype}; write it as a number,"
                f" or leave it out with dataset.exclude={to_display([column])}"
            )
    if passed_over:
        log.info(_unused(table, passed_over, None if config.series_col else separating_column(table, time_col)))
    return tuple(selected)


_LABELS = {
    re.compile(r"(?:.*[ _])?(?:id|code|zip|plz|postcode|fips|year|epoch|unix(?:[ _]?time)?)"): (True, np.inf),
    re.compile(r"(?:.*[ _])?lat(?:itude)?"): (False, 90.0),
    re.compile(r"(?:.*[ _])?(?:lon|lng|long|longitude)"): (False, 180.0),
}
"""Names of columns that say which, when or where, and whether their numbers are whole; largest of these."""


def are_labels(name: str, values: Float64[np.ndarray, " t"]) -> bool:
    """Whether a column says by its name and numbers which, when or where, and is not an amount: an id, a code, a year,
    an epoch or a coordinate."""
    known = values[np.isfinite(values)]
    return any(
        pattern.fullmatch(name.strip().lower())
        and np.abs(known).max(initial=0.0) <= most
        and (not is_whole or bool((known % 1 == 0).all()))
        for pattern, (is_whole, most) in _LABELS.items()
    )


def _unused(table: Table, columns: Sequence[str], series_col: str | None = None) -> str:
    """Message about unused text columns, with the settings that read those with repeated cells and `series_col`."""
    if series_col is not None and set(key_columns(series_col)) & set(columns):
        line = f"{table.name}: times repeat; dataset.series_col={series_col} reads each {series_col} as a series"
        remaining = without(columns, key_columns(series_col))
        return f"{line}\n{_unused(table, remaining)}" if remaining else line
    repeated = repeated_text(table, columns)
    descriptions = [f"{column} ({repeated[column]} values)" if column in repeated else column for column in columns]
    proposed = f"; dataset.categorical={to_display([*repeated])} reads them as categories" if repeated else ""
    return f"{table.name}: text columns not used: {', '.join(descriptions)}{proposed}"


def repeated_text(table: Table, columns: Sequence[str]) -> dict[str, int]:
    """Text columns, other than of dates, whose cells repeat enough to be categorical, with their number of distinct
    texts."""
    text = [column for column in columns if not time_columns.looks_dated(table.frame[column])]
    numbers = {column: table.frame[column].nunique(dropna=False) for column in text}
    return {column: n for column, n in numbers.items() if 1 < n <= len(table.frame) / LEAST_REPEATED}
