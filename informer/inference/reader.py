"""Reads tables to forecast like the training data, and checks them against the model's inputs."""

import logging
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import final

import numpy as np
import pandas as pd

from informer.base.errors import InputError, listed
from informer.base.files import fingerprint
from informer.checkpoint.format import Checkpoint
from informer.config.data import DatasetConfig, InputFormat
from informer.config.fields import check
from informer.data.calendar import mark_fields
from informer.data.history import Future, Futures, futures_of_table
from informer.data.panel import and_more, left_padded, without_ended
from informer.data.windows import NOT_READ, sparse_history
from informer.read.columns import coded, unknown
from informer.read.frequency import Frequency
from informer.read.rows import Report
from informer.read.series import Reading, Series, column_values
from informer.read.shapes import prepared
from informer.read.table import Table, cells_of_content, read_table, table_of_frame

log = logging.getLogger(__name__)

Source = pd.DataFrame | Path | bytes
"""A table, the path of a file, or CSV text."""

LEFT_OUT = "left out"
"""Prefix of the message about series of a table that are not forecast."""


@final
class Reader:
    """Reads histories and future covariates for one model.

    Args:
        checkpoint: the model's checkpoint.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        dataset = checkpoint.settings.dataset
        self._as_trained = check(
            replace(
                dataset,
                exclude=[],
                columns=list(checkpoint.inputs),
                target=checkpoint.targets[0] if len(checkpoint.targets) == 1 else None,
                categorical=list(checkpoint.data.categories),
                static_covariates=list(checkpoint.data.static_covariates),
                frequency=checkpoint.frequency,
                # inferred from the UTC offsets in the training data; rows to forecast may contain only one of them
                timezone=dataset.timezone or checkpoint.data.timezone,
            )
        )
        self._saved, self._seq_len = checkpoint, checkpoint.settings.seq_len
        self._step = Frequency.parse(checkpoint.frequency)
        self._marks, masked = mark_fields(self._step, checkpoint.calendar), checkpoint.masked or ()
        self._unmasked = [name for place, name in enumerate(checkpoint.inputs) if place not in masked]
        self._has_warned = False
        self._last_future: tuple[object, Futures] | None = None
        self.pads = self._as_trained.short == "pad"
        """Whether a history shorter than seq_len is padded."""
        self.min_observed = self._as_trained.min_observed
        """Minimum share of rows of a history in which some target is observed."""
        self.most_series: int | None = None
        """Maximum number of series in a table; None: unlimited."""

    def series(
        self, source: Source, name: str, input_format: InputFormat | None = None, *, ahead: int | None = None
    ) -> list[Series]:
        """Read the series of a table to forecast, checked like training data; other columns than the model's are
        ignored.

        The table is a single series, unless it has the column that named the series in training
        (`dataset.series_col`). Of several series, those that are too short are padded with short=pad, and left out with
        short=skip or of a file; the repairs of the first series then name them.

        Args:
            source: a table whose times are a column or the index, a CSV, parquet or Excel file, or CSV text.
            name: name of the table in errors; if each series has its own scaler, it selects the scaler.
            input_format: format and repairs, if different from the training data.
            ahead: read all rows, to compare with forecasts of this many rows; None: only the last seq_len.

        Raises:
            InputError: it cannot be forecast (columns, numbers, timestamps, step, rows).
        """
        return self._series(source, name, input_format or InputFormat(), ahead)[0]

    def _series(
        self, source: Source, name: str, input_format: InputFormat, ahead: int | None
    ) -> tuple[list[Series], Collection[str]]:
        """The series to forecast, and the names of all in the table."""
        table, config = self._read(source, name, input_format)
        named, lenient = input_format.series_col is not None, isinstance(source, Path)
        table, series_col = self._coded(table), config.series_col
        history = self._seq_len if ahead is None else None
        is_single = series_col is None or (series_col not in table.columns and not named)
        config = replace(config, series_col=None) if is_single else config
        reading = Reading(table, config, name, trained_format=self._saved.data.time_format)
        if is_single:
            series = reading.series(history=history)
            if line := self._sparse(series, config) if ahead is None else None:
                raise InputError(line)
            return [self._checked(series)], [series.name]
        panel, report, sparse = list[Series](), Report(), list[str]()
        least, pads, counts = self._seq_len + (ahead or 0), config.short == "pad", reading.lengths
        if self.most_series is not None and len(counts) > self.most_series:
            raise InputError(
                f"{table.name}: expected at most {self.most_series} series, found {len(counts)}; send fewer"
            )
        enough = (ahead or 0) + 1 if pads else least if lenient or config.short == "skip" else 0
        long_enough = [k for k, n in enumerate(counts) if n >= enough]
        short = [f"{key} ({n} rows)" for key, n in zip(reading.names, counts, strict=True) if n < enough]
        for k in long_enough or range(len(counts)):
            with report.gathering():
                series = self._checked(reading.series(k, like=panel[-1] if panel else None, history=history))
                series = left_padded(series, least - len(series)) if pads and long_enough else series
                if line := self._sparse(series, config) if ahead is None else None:
                    sparse.append(line)
                else:
                    panel.append(replace(series, series_col=series_col))
        if sparse and not (panel and (lenient or config.short == "skip")):
            report.problems.append(InputError(and_more(sparse)))
        report.refuse()
        lines = [and_more(sparse)] if sparse else []
        if long_enough and short:
            advice = "" if pads else "; dataset.short=pad repeats their first row"
            lines.append(f"{table.name}: {series_col} {listed(short)}, expected at least {enough} rows{advice}")
        if lenient and ahead is None and panel:  # whoever sends a series to Python or a service wants its forecast
            panel, line = without_ended(panel, config.ended)
            log.warning(f"{table.name}: {line}") if line else None
        lines = [f"{LEFT_OUT}: {line}" for line in lines]  # which the repairs of the first series name
        for line in [] if lenient else lines:  # callers from Python see only the series
            log.warning(line)
        return [replace(panel[0], repairs=(*lines, *panel[0].repairs)), *panel[1:]], {*reading.names}

    def read(
        self, source: Source, name: str, input_format: InputFormat | None = None, *, future: Source | None = None,
        future_name: str = "future", is_shared: bool = False,
    ) -> tuple[list[Series], list[Future]]:  # fmt: skip
        """The series of a table, and the future covariates of each if there are any: those of `future`, or if the model
        reads some, those of the rows at the end of the table itself, which have no target. Errors as in `series` and
        `futures`, or a series has none, or those of `future` are of another series, unless other tables share it."""
        panel, names = self._series(source, name, input_format or InputFormat(), None)
        if future is None and not self._saved.future_covariates:
            return panel, []
        given = (source, name) if future is None else (future, future_name)
        futures = self.futures(*given, input_format)
        return panel, futures.of_all(panel, names, allows_new=is_shared)[0]

    def futures(self, source: Source, name: str, input_format: InputFormat | None = None) -> Futures:
        """Read future covariates; the last file is kept, since all batches of a job need it.

        Args:
            source, name, input_format: see `series`.

        Raises:
            InputError: they cannot be read, or have no times.
        """
        input_format, known = input_format or InputFormat(), self._saved.future_covariates

        def read() -> Futures:
            table, config = self._read(source, name, input_format)
            return futures_of_table(self._coded(table), config, known, self._saved.data.time_format)

        if not isinstance(source, Path):
            return read()
        key = source.resolve(), fingerprint(source), replace(input_format)
        if self._last_future is None or self._last_future[0] != key:
            self._last_future = key, read()
        return self._last_future[1]

    def _read(self, source: Source, name: str, input_format: InputFormat) -> tuple[Table, DatasetConfig]:
        """A table, prepared, and its settings, with the time column of training if it exists."""

        def read(config: DatasetConfig) -> Table:
            if isinstance(source, Path):
                return read_table(source, config)
            if isinstance(source, bytes):
                return cells_of_content(source, name, config)
            return table_of_frame(source, name, config.time_col)

        config = input_format.applied_to(replace(self._as_trained, time_col=None))
        if config.keeps_gaps and self._saved.masked is None:
            raise InputError(NOT_READ)
        table = read(config)
        if table.doubts and (marks := self._saved.data.marks) is not None:  # of ambiguous numbers, as in training
            table = read(replace(config, decimal=marks[0], thousands=marks[1]))
        # before the table is prepared, so that no other time column is looked for; after it, since times may be joined
        table = prepared(table, self._timed(config, table))
        return table, self._timed(config, table)

    def _timed(self, config: DatasetConfig, table: Table) -> DatasetConfig:
        """`config` with the time column of training, if the table has it and no other is set."""
        time_col = self._saved.data.time_col
        return replace(config, time_col=time_col) if config.time_col is None and time_col in table.columns else config

    def _coded(self, table: Table) -> Table:
        """The table with the category codes of training; warns about new categories."""
        for column, more in unknown(table, self._saved.data.categories).items():
            log.warning(
                f"{table.name}, column {column!r}: {listed(list(map(repr, more)))} not in the training rows; the model "
                "uses the mean of the categories it was trained on"
            )
        return coded(table, self._saved.data.categories)

    def _sparse(self, series: Series, config: DatasetConfig) -> str | None:
        """The error message of a history with too few observed rows; None if there are enough."""
        if not config.keeps_gaps:
            return None
        return sparse_history(series, self._saved.targets, self._seq_len, config.min_observed)

    def _checked(self, series: Series) -> Series:
        # a step different from training is the user's choice (`dataset.frequency`)
        if series.frequency != self._step and mark_fields(series.frequency, self._saved.calendar) != self._marks:
            raise InputError(
                f"dataset.frequency={series.frequency.code}: {series.name} has other calendar features than the step "
                f"{self._step.code} the model was trained on; use a file with that step, or train on this one"
            )
        if not self._has_warned:
            are_gaps = np.isnan(column_values(series, self._unmasked)[-self._seq_len :]).any(axis=0)
            if new := [name for name, has_gap in zip(self._unmasked, are_gaps, strict=True) if has_gap]:
                self._has_warned = True
                where = f"{series.name}: gaps in {listed(new)}, which had none in training"
                log.warning(f"{where}; filled with the last observed value")
        return series
