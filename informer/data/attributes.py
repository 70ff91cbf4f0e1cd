"""Attributes of series, read from a separate table with one row per series and added as columns to its rows.

A checkpoint contains the attributes of the training series, so later commands need no attribute file; a file named in a
checkpoint is never read.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import pandas as pd

from informer.config.dataset import DatasetConfig, settings_that
from informer.config.overrides import to_display
from informer.data.long import series_codes
from informer.data.read.categories import Labels, is_text, label
from informer.data.read.checks import LARGEST, check_doubts
from informer.data.read.numeric import numbers
from informer.data.read.remote import local_path, without_query
from informer.data.read.report import Report, count_note
from informer.data.read.table import Table, read_table, shown, table_of_frame, without
from informer.data.rows import UNKNOWN
from informer.errors import InputError, listed
from informer.files import expanded, fingerprint

SETTING = "dataset.attributes"


@dataclass(frozen=True, slots=True)
class Attributes:
    """Columns with one value per series.

    Args:
        where: the setting and the file, for errors; None: recorded by a checkpoint.
        names: names of the series.
        values: by column, a number or a text for each series.
    """

    where: str | None
    names: Sequence[str]
    values: Mapping[str, Sequence[float | str]]

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.values)

    def named_in(self, config: DatasetConfig) -> DatasetConfig:
        """`config` with these columns as static covariates, among the columns to read if those are listed."""
        static = [*config.static_covariates, *without(self.columns, config.static_covariates)]
        columns = config.columns
        if columns is not None:
            columns = [*columns, *without(self.columns, columns)]
        return replace(config, static_covariates=static, columns=columns)

    def with_recorded(self, recorded: "Attributes | None") -> "Attributes":
        """These attributes, and the recorded ones for series that are not among them.

        Raises:
            InputError: a recorded column is missing.
        """
        if recorded is None:
            return self
        if lacking := without(recorded.columns, self.columns):
            raise InputError(
                f"{self.where}: expected the columns {listed(recorded.columns)} as in training, found no "
                f"{listed(lacking)}; add them"
            )
        names = set(self.names)
        added = [position for position, name in enumerate(recorded.names) if name not in names]
        values = {
            column: [*self.values[column], *(cells[position] for position in added)]
            for column, cells in recorded.values.items()
        }
        return Attributes(self.where, [*self.names, *(recorded.names[position] for position in added)], values)

    def of(self, names: Sequence[str]) -> "Attributes":
        """The attributes of these series, in this order, without series that have none."""
        positions = {name: position for position, name in enumerate(self.names)}
        present = [name for name in names if name in positions]
        values = {column: [cells[positions[name]] for name in present] for column, cells in self.values.items()}
        return Attributes(self.where, present, values)

    def joined(self, table: Table, series_col: str | None, name: str, labels: Labels | None = None) -> Table:
        """Add these columns to the rows of a table; recorded ones only if the table does not have them.

        Args:
            series_col: the column with the name of each row's series; a table without it is the series `name`.
            name: see `series_col`.
            labels: categories of a trained model, where a series without attributes gets an unknown category. If None,
                or if a column contains numbers, such a series is an error.

        Raises:
            InputError: a column is in both tables, or a series has no attributes.
        """
        both = [column for column in self.columns if column in table.columns]
        if both and self.where is not None:
            raise InputError(f"{self.where}: {listed(both)}: a column of {table.name} too; remove it from one of them")
        added = without(self.columns, both)
        if not added:
            return table
        codes, names = np.zeros(len(table.frame), dtype=np.int64), [name]
        if series_col is not None and series_col in table.columns:
            codes, names = series_codes(table, series_col)
        positions = {series: position for position, series in enumerate(self.names)}
        unknown = [series for series in names if series not in positions]
        if unknown and not all(column in (labels or {}) for column in added):
            raise self._lacking(table, series_col, names.index(unknown[0]), codes, unknown, added)
        cells = {}
        for column in added:
            values = [self.values[column][positions[series]] if series in positions else UNKNOWN for series in names]
            is_number = not any(isinstance(value, str) for value in values)
            cells[column] = np.array(values, dtype=np.float64 if is_number else object)[codes]
        more = pd.DataFrame(cells, index=table.frame.index)
        return replace(table, frame=pd.concat([table.frame, more], axis="columns"))

    def _lacking(
        self, table: Table, series_col: str | None, code: int, codes: np.ndarray, unknown: list[str], added: list[str]
    ) -> InputError:
        row = int((codes == code).argmax())
        at = table.name if series_col is None or series_col not in table.columns else table.at(row, series_col)
        more = count_note(len(unknown), "such series")
        if self.where is None:
            return InputError(
                f"{at}: no {listed(added)} of the series {shown(unknown[0])}, which training did not have{more}; add "
                f"these columns, or name a file with a row for it: {SETTING}=FILE"
            )
        return InputError(
            f"{at}: no row for the series {shown(unknown[0])} in {self.where}{more}; add one, or leave the series out"
        )

    @property
    def sha256(self) -> str:
        """Checksum of the names and values."""
        return hashlib.sha256(json.dumps(self.to_plain()).encode()).hexdigest()

    def to_plain(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"names": list(self.names), "values": {column: list(cells) for column, cells in self.values.items()}}

    @classmethod
    def from_plain(cls, plain: Any) -> "Attributes":
        """The inverse of `to_plain`.

        Raises:
            InputError: other content.
        """
        names = plain.get("names") if isinstance(plain, dict) else None
        values = plain.get("values") if isinstance(plain, dict) else None
        if (
            not isinstance(names, list)
            or not all(isinstance(name, str) for name in names)
            or len(set(names)) < len(names)
            or not isinstance(values, dict)
            or not all(isinstance(column, str) and _is_column(cells, len(names)) for column, cells in values.items())
        ):
            raise InputError("checkpoint: attributes: expected a number or a text for each series, found others")
        return cls(None, names, values)


def _is_column(cells: Any, n: int) -> bool:
    """Whether this is a list of n strings or n finite numbers."""
    if not isinstance(cells, list) or len(cells) != n:
        return False
    is_text = all(isinstance(cell, str) for cell in cells)
    return is_text or all(type(cell) is float and math.isfinite(cell) for cell in cells)


@final
class KnownAttributes:
    """Attributes of a trained model and of files, for tables to forecast.

    Args:
        recorded: attributes of the training series.
        labels: categories of the model by column.
    """

    def __init__(self, recorded: Attributes | None, labels: Labels) -> None:
        self._recorded, self._labels = recorded, labels
        self._last: tuple[object, Attributes] | None = None

    def with_attributes(self, attributes: Attributes) -> "KnownAttributes":
        """A copy with additional attributes, which have priority."""
        return KnownAttributes(attributes.with_recorded(self._recorded), self._labels)

    def joined(self, table: Table, config: DatasetConfig, name: str) -> Table:
        """See `Attributes.joined`; a file that `config` names has priority, and is read again when it changed."""
        attributes = self._recorded
        if config.attributes is not None:
            settings = [getattr(config, setting) for setting in settings_that(reading=True)]
            key = (config.attributes, fingerprint(expanded(config.attributes)), settings)
            if self._last is None or self._last[0] != key:
                self._last = key, attributes_from(config.attributes, config).with_recorded(self._recorded)
            attributes = self._last[1]
        return table if attributes is None else attributes.joined(table, config.series_col, name, self._labels)


def read_attributes(config: DatasetConfig) -> Attributes | None:
    """Read the file `config.attributes`, in the format of the data files unless detected otherwise; None if not set.

    Raises:
        InputError: no `series_col`, an unreadable file, or see `attributes_of`.
    """
    if config.attributes is None:
        return None
    path = expanded(local_path(SETTING, config.attributes, config.limits))
    table = read_table(path, replace(config.hints, sheet=None), config.as_text, config.limits)
    return attributes_of(table, config, f"{SETTING}={without_query(config.attributes)}")


def attributes_from(attributes: pd.DataFrame | str, config: DatasetConfig) -> Attributes:
    """Like `read_attributes`, for a table in memory or the path or address of a file."""
    if isinstance(attributes, str):
        from_file = read_attributes(replace(config, attributes=attributes))
        assert from_file is not None, "the file is named"
        return from_file
    return attributes_of(table_of_frame(attributes, "attributes"), config, "attributes")


def attributes_of(table: Table, config: DatasetConfig, where: str) -> Attributes:
    """The attributes in a table: the columns that `config.static_covariates` names, by default all.

    Args:
        where: the setting and the file, for errors.

    Raises:
        InputError: no column with the names of series, no rows, two rows of a series, no such columns, or cells that
            are empty, times, or neither all numbers nor all text.
    """
    key = config.series_col
    if key is None:
        raise InputError(
            f"{where}: expected dataset.series_col with it, the column that names the series in both files"
        )
    if key not in table.columns:
        raise InputError(
            f"{table.name}: expected a column {key!r} with the names of the series, as dataset.series_col says, found "
            f"{listed(table.columns)}; rename the column that has them"
        )
    if not len(table.frame):
        raise InputError(f"{table.name}: a header without rows, expected one row for each series")
    codes, names = series_codes(table, key)
    if len(names) < len(codes):
        repeated = np.flatnonzero(pd.Series(codes).duplicated())
        row = int(repeated[0])
        raise InputError(
            f"{table.at(row, key)}: a second row for the series {shown(names[codes[row]])}"
            f"{count_note(len(repeated), 'rows repeat a series')}; keep one row per series"
        )
    columns = _columns(table, config, key, where)
    report = Report()
    check_doubts(table, columns, report)
    report.refuse()
    return Attributes(where, names, {column: _cells(table, column, config) for column in columns})


def _columns(table: Table, config: DatasetConfig, key: str, where: str) -> list[str]:
    candidates = [column for column in table.columns if column != key]
    if repeated := [column for column in table.repeated if column in candidates]:
        raise InputError(f"{table.name}, row 1: column names repeat: {listed(repeated)}; rename them")
    columns = [column for column in candidates if column in config.static_covariates or not config.static_covariates]
    if not columns:
        expected = listed(config.static_covariates) if config.static_covariates else f"attributes next to {key!r}"
        raise InputError(f"{where}: expected columns {expected}, found {listed(candidates)}; add one")
    return columns


def _cells(table: Table, column: str, config: DatasetConfig) -> list[float | str]:
    """A text or a number per row. Errors as in `attributes_of`."""
    cells = table.frame[column]
    if column in config.categorical or is_text(table, column):
        return [label(cell) for cell in cells]
    values = numbers(table, [column])[0][:, 0]
    wrong = np.flatnonzero(~(np.abs(values) <= LARGEST))
    if len(wrong):
        row = int(wrong[0])
        raise InputError(
            f"{table.at(row, column)}: expected a number, found {shown(cells.iloc[row])}"
            f"{count_note(len(wrong), 'such cells')}; fix the cell, read the column as categories with "
            f"dataset.categorical={to_display([column])}, or name the other columns in dataset.static_covariates"
        )
    return values.tolist()
