"""Tables to continue, read as the training data were, and checked against what the model reads."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import cast, final

import pandas as pd
from omegaconf import OmegaConf

from informer.checkpoint import Checkpoint
from informer.data.frequency import Frequency
from informer.data.future import Future, future_of_table
from informer.data.panel import series_tables
from informer.data.repair import Duplicates, Fill
from informer.data.report import Report
from informer.data.source import DatasetConfig, Series, series_from_table, table_of_file
from informer.data.split import Short
from informer.data.table import Table, table_of_frame
from informer.data.time_features import CalendarKind, mark_fields
from informer.data.timestamps import find_format, find_time_column
from informer.errors import InputError

log = logging.getLogger(__name__)


@dataclass(kw_only=True, slots=True)
class InputFormat:
    """How a table to forecast is written, where it is not as the training data was; null: as the training data."""

    series_col: str | None = None
    time_col: str | None = None
    time_format: str | None = None
    frequency: str | None = None
    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    sort: bool | None = None
    duplicates: Duplicates | None = None
    fill: Fill | None = None
    max_gap: int | None = None

    def over(self, dataset: DatasetConfig) -> DatasetConfig:
        """`dataset` with what is set here."""
        said = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(dataset, **{name: value for name, value in said.items() if value is not None})

    def problems(self) -> list[str]:
        """Every value out of range, one sentence each."""
        return self.over(DatasetConfig()).problems()


@dataclass(frozen=True, slots=True, kw_only=True)
class Futures:
    """Future covariates of one table: for any series, or for each by its name."""

    name: str
    shared: Future | None = None
    own: Mapping[str, Future] = field(default_factory=dict)

    def of(self, series: Series) -> Future:
        """Those of a series.

        Raises:
            InputError: there are none.
        """
        if self.shared is not None:
            return self.shared
        if series.name not in self.own:
            raise InputError(f"{self.name}: expected future covariates of the series {series.name}, found none")
        return self.own[series.name]


@final
class Reader:
    """Reads histories and future covariates for one model.

    Args:
        checkpoint: of the model.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        dataset = OmegaConf.merge(OmegaConf.structured(DatasetConfig), checkpoint.config["dataset"])
        self._as_trained = replace(
            cast(DatasetConfig, OmegaConf.to_object(dataset)),
            path=None,
            columns=list(checkpoint.inputs),
            frequency=checkpoint.frequency,
        )
        self._time_col: str = checkpoint.data["time_col"]
        self._step = Frequency.parse(checkpoint.frequency)
        self._calendar = CalendarKind(checkpoint.config["model"]["embed"])
        self._marks = mark_fields(self._step, self._calendar)
        self._seq_len: int = checkpoint.config["seq_len"]
        self._pred_len: int = checkpoint.config["pred_len"]
        self.pads = self._as_trained.short is Short.pad
        """A history shorter than seq_len is lengthened."""

    def frame(self, frame: pd.DataFrame, name: str, *, whole: bool = False) -> list[Series]:
        """The series of a table to continue; time a column or the index.

        It is one, but for a table with the column that named the series of training (`dataset.series_col`).

        Args:
            name: what to call it in errors; where each series has its own scaler, it says which.
            whole: all of its rows, not only the last seq_len.

        Raises:
            InputError: it cannot be continued (columns, numbers, timestamps, step, rows).
        """
        config = self._reading(list(map(str, frame.columns)))
        return self._series(table_of_frame(frame, name, config.time_col), config, name, whole=whole)

    def file(self, path: Path, written: InputFormat, name: str, *, whole: bool = False) -> list[Series]:
        """The same of a file, checked as training data is; only the columns that the model reads matter.

        Args:
            written: how, where not as the training data.
            name, whole: see `frame`.

        Raises:
            InputError: see `frame`.
        """
        table, config = self._read(path, written)
        return self._series(table, config, name, whole=whole, named=written.series_col is not None)

    def future_frame(self, frame: pd.DataFrame, name: str) -> Futures:
        """A table of future covariates; time a column or the index.

        Raises:
            InputError: it has no times.
        """
        config = self._reading(list(map(str, frame.columns)))
        return self._futures(table_of_frame(frame, name, config.time_col), config)

    def future_file(self, path: Path, written: InputFormat) -> Futures:
        """A file of future covariates.

        Raises:
            InputError: it cannot be read, or has no times.
        """
        return self._futures(*self._read(path, written))

    def _read(self, path: Path, written: InputFormat) -> tuple[Table, DatasetConfig]:
        """A file, and how its table is to be read: the time column is that of training where it is there."""
        config = self._reading([], written)
        table = table_of_file(path, config)
        if config.time_col is None and self._time_col in table.columns:
            config = replace(config, time_col=self._time_col)
        return table, config

    def _series(
        self, table: Table, config: DatasetConfig, name: str, *, whole: bool, named: bool = False
    ) -> list[Series]:
        """`named`: the column of series was asked for, and must be there.

        Of several series those too short for what is wanted are left out, where training did so too.
        """
        history, series_col = None if whole else self._seq_len, config.series_col
        if series_col is None or (series_col not in table.columns and not named):
            return [self._checked(series_from_table(table, config, name, history=history))]
        found, report = [], Report()
        # by the rows of all: those of one may not settle it
        time_col = find_time_column(table, config.time_col)
        time_format = find_format(table, time_col, config.time_format)
        config = replace(config, time_col=time_col, time_format=time_format)
        least = (self._seq_len + self._pred_len if whole else self._seq_len) if config.short is Short.skip else 0
        parts = list(series_tables(table, series_col))
        kept = [(own, one) for own, one in parts if len(own.frame) >= least]
        if len(kept) < len(parts):
            log.warning(f"{table.name}: {len(parts) - len(kept)} of {len(parts)} series have less than {least} rows")
        for own, one in kept or parts:
            with report.gathering():
                series = self._checked(series_from_table(own, config, one, history=history))
                found.append(replace(series, series_col=series_col))
        report.refuse()
        return found

    def _futures(self, table: Table, config: DatasetConfig) -> Futures:
        if config.series_col is None or config.series_col not in table.columns:
            return Futures(name=table.name, shared=future_of_table(table, config))
        own = {one: future_of_table(part, config) for part, one in series_tables(table, config.series_col)}
        return Futures(name=table.name, own=own)

    def _reading(self, columns: Sequence[str], written: InputFormat | None = None) -> DatasetConfig:
        """How to read a table with these columns: as the training data, where nothing else is said."""
        time_col = self._time_col if self._time_col in columns else None
        return (written or InputFormat()).over(replace(self._as_trained, time_col=time_col))

    def _checked(self, series: Series) -> Series:
        # another step than in training is the user's word (`dataset.frequency`)
        if mark_fields(series.frequency, self._calendar) != self._marks:
            raise InputError(
                f"dataset.frequency={series.frequency.code}: {series.name} has steps with another calendar than the "
                f"{self._step.code} that the model was trained on; use a file of that step, or train on this one"
            )
        return series
