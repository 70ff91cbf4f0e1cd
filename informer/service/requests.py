"""Answers to requests, independent of HTTP: limits, bodies to series, forecasts to bodies."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import copy
from dataclasses import fields
from email.message import Message
from pathlib import Path
from typing import Any, final

import numpy as np
import pandas as pd

import informer
from informer.base.errors import InputError, listed
from informer.config.commands import PredictConfig, ServeConfig
from informer.config.data import InputFormat
from informer.config.fields import problems_of
from informer.data.history import Futures, check_futures
from informer.inference.model import Forecast, TrainedModel, interval_notes, table_of
from informer.inference.writing import stamps, to_csv
from informer.read.dialect import find_encoding
from informer.read.series import Series
from informer.read.table import read_errors
from informer.scoring.intervals import LEVELS

CSV, JSON = "text/csv", "application/json"

FRAME, FUTURE = "frame", "future"
"""Keys of a JSON body."""


class Refused(InputError):
    """Ends a request with this status and error line."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status = status


def media_type(content_type: str) -> tuple[str, str | None]:
    """CSV or JSON, and the encoding of CSV text if it is named, from a Content-Type header."""
    header = Message()
    header["Content-Type"] = content_type
    media_type = header.get_content_type() if content_type else "none"
    if media_type not in (CSV, JSON):
        raise Refused(415, f"Content-Type: expected {CSV} or {JSON}, found {media_type}")
    charset = header.get_param("charset")
    return media_type, charset if isinstance(charset, str) else None


Limits = tuple[int, int]
"""Maximum number of columns and of cells of a table."""


def _check_size(limits: Limits, columns: int, cells: int, where: str) -> None:
    for what, found, most in zip(("columns", "cells"), (columns, cells), limits, strict=True):
        if found > most:
            raise InputError(
                f"{where}: expected at most {most:,} {what}, found {found:,}; send the columns that the model reads, "
                "and the last seq_len rows of each series"
            )


def read_series(
    model: TrainedModel, content: bytes, content_type: str, input_format: InputFormat, limits: Limits, *, name: str
) -> tuple[list[Series], Futures | None]:
    """The series of a request and their future covariates, checked against the model.

    Args:
        content: CSV text, or JSON `{"frame": ..., "future": ...}`; a table is a mapping of column names to lists, or a
            list of rows. Without `future`, its columns are in the rows at the end that have no target.
        content_type: header of the request.
        input_format: format of CSV text, if different from the training data.
        limits: limits on each table, checked before it is read.
        name: name of a single series; if each series has its own scaler, it selects the scaler.

    Raises:
        InputError: the series cannot be forecast.
    """
    kind, charset = media_type(content_type)
    futures = None
    if kind == CSV:
        input_format = copy(input_format)
        input_format.encoding = charset or input_format.encoding or find_encoding(content)
        for problem in problems_of(input_format):
            raise InputError(f"Content-Type: {problem}")
        with read_errors(Path(name), input_format.encoding):
            _check_text(content.decode(input_format.encoding), limits)
        series = model.reader.series(content, name, input_format)
        if model.columns.future_covariates:
            futures = model.reader.futures(content, name, input_format)
    else:
        frame, ahead = _json_tables(content, limits)
        series = model.reader.series(frame, name)
        if ahead is None and model.columns.future_covariates:
            ahead = frame
        futures = None if ahead is None else model.reader.futures(ahead, name if ahead is frame else FUTURE)
    check_futures(model.columns, has_futures=futures is not None)
    return series, futures


SEPARATORS, LINE_ENDS = ",;\t| ", "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""Characters that may separate cells, of which a blank may also be part of a time; those that may end a line."""


def _check_text(text: str, limits: Limits) -> None:
    """Check the size of CSV text by its separators, since reading it takes time for each column and cell."""
    longest, cells = 0, sum(map(text.count, LINE_ENDS))
    _check_size(limits, 0, cells, "body")
    for line in text.splitlines():
        counts = [*map(line.count, SEPARATORS)]
        longest, cells = max(longest, *counts), cells + max(sum(counts[:-1]), counts[-1])
    _check_size(limits, 1 + longest, cells, "body")


def _json_tables(content: bytes, limits: Limits) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    try:
        body = json.loads(content.decode(json.detect_encoding(content)))
        if SURROGATE.search(content):
            json.dumps(body, ensure_ascii=False).encode()
    except UnicodeError as error:
        raise InputError(f"body: expected JSON in UTF-8 without lone surrogates, found: {error}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"body: expected JSON, found: {error or 'too many levels'}") from error
    if not isinstance(body, dict) or FRAME not in body or not set(body) <= {FRAME, FUTURE}:
        keys = listed(list(body)) if isinstance(body, dict) else f"a {type(body).__name__}"
        raise InputError(f'body: expected {{"{FRAME}": TABLE}} and, if needed, "{FUTURE}", found {keys}')
    future = body.get(FUTURE)
    return _table(body[FRAME], FRAME, limits), None if future is None else _table(future, FUTURE, limits)


SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
"""In JSON, half of a character beyond 16 bits; without its other half it cannot be encoded."""


def _table(data: Any, name: str, limits: Limits) -> pd.DataFrame:
    """A table from a mapping of columns or a list of rows."""
    if isinstance(data, list) and data and all(isinstance(row, dict) for row in data):
        names = list(data[0])
        _check_size(limits, len(names), len(names) * len(data), name)
        odd = next((number for number, row in enumerate(data) if list(row) != names), None)
        if odd is not None:
            raise InputError(
                f"{name}, row {odd}: expected the columns {listed(names)}, found {listed(list(data[odd]))}"
            )
        data = {key: [row[key] for row in data] for key in names}
    if not isinstance(data, dict) or not data or not all(isinstance(cells, list) for cells in data.values()):
        raise InputError(f"{name}: expected columns with a list of values each, or a list of rows")
    _check_size(limits, len(data), sum(map(len, data.values())), name)
    _check_cells(data, name)
    return pd.DataFrame(data)


def _check_cells(columns: Mapping[str, Sequence[Any]], name: str) -> None:
    lengths = {key: len(cells) for key, cells in columns.items()}
    if len(set(lengths.values())) > 1:
        shortest, longest = min(lengths, key=lambda key: lengths[key]), max(lengths, key=lambda key: lengths[key])
        raise InputError(
            f"{name}: expected columns of equal length, found {lengths[longest]} values of {longest!r} and "
            f"{lengths[shortest]} of {shortest!r}"
        )
    for key, cells in columns.items():
        for row, cell in enumerate(cells):
            is_large = isinstance(cell, int) and abs(cell) > 2**63 - 1
            if not isinstance(cell, str | float | int | None) or is_large:
                kind = "a number beyond 64 bits" if is_large else f"a {type(cell).__name__}"
                raise InputError(f"{name}, row {row}, column {key!r}: expected a number or text, found {kind}")


def to_body(forecasts: Sequence[Forecast], kind: str) -> tuple[bytes, str]:
    """Encode the forecasts of a request; returns the content and its Content-Type.

    CSV is as `informer predict` writes it; JSON is `{"forecast": {column: [...]}}` with the same cells, missing ones
    null.

    Raises:
        InputError: a forecast that is not finite, or two columns with the same name.
    """
    if kind == CSV:
        return to_csv(forecasts, PredictConfig().digits), f"{CSV}; charset={forecasts[0].series.dialect.encoding}"
    times = [np.array(stamps(forecast), dtype=object) for forecast in forecasts]
    written = table_of(forecasts).assign(**{forecasts[0].keys[-1]: np.concatenate(times)})
    table = {name: [None if cell != cell else cell for cell in cells.tolist()] for name, cells in written.items()}
    return json.dumps({"forecast": table}, allow_nan=False).encode(), JSON


AT_ONCE = 16
"""Series of a forward pass."""

LIMITS = (*(each.name for each in fields(ServeConfig) if each.name.startswith("max_")), "timeout")
"""Settings that limit requests."""

MOST_NAMES = 100
"""Maximum number of series names, and of categories of a column, in a description."""


@final
class Service:
    """Answers requests with one model.

    Args:
        model: the model; the limit on series is set in its reader.
        settings: limits and the format of tables.
    """

    def __init__(self, model: TrainedModel, settings: ServeConfig) -> None:
        self.model, self.settings = model, settings
        model.reader.most_series = settings.max_series
        # one thread, since reading turns pandas' warnings into errors, a setting of the whole process
        self.thread = ThreadPoolExecutor(1, "forecast")
        self._in_progress = 0

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """Count a request as in progress within the context.

        Raises:
            Refused: too many requests are in progress.
        """
        if self._in_progress >= self.settings.max_requests:
            raise Refused(503, f"busy: {self._in_progress} requests in progress, at most max_requests; try again")
        self._in_progress += 1
        try:
            yield
        finally:
            self._in_progress -= 1

    def answer(
        self, content: bytes, content_type: str, *, horizon: str | None, levels: Sequence[int], name: str, kind: str
    ) -> tuple[bytes, str]:
        """The forecasts for the body of a request, encoded, and their Content-Type.

        Args:
            content, content_type, name: see `read_series`.
            horizon: rows to forecast, a span or a date; None: pred_len.
            levels: interval levels in percent.
            kind: content type of the response.

        Raises:
            InputError: an error the client can fix.
        """
        *_, answer = self.parts(content, content_type, horizon=horizon, levels=levels, name=name, kind=kind)
        assert answer is not None
        return answer

    def parts(
        self, content: bytes, content_type: str, *, horizon: str | None, levels: Sequence[int], name: str, kind: str
    ) -> Iterator[tuple[bytes, str] | None]:
        """`answer` in parts, between which other requests have their turn: None after each of them, at last the answer.

        The first part reads the table, each of the others forecasts `AT_ONCE` series.
        """
        model, settings = self.model, self.settings
        self._check_rows(horizon, None)
        model.check_levels(levels, horizon)
        limits = settings.max_columns + len(model.columns.inputs), settings.max_cells
        series, futures = read_series(model, content, content_type, settings.dataset, limits, name=name or FRAME)
        self._check_values(len(series), max(self._check_rows(horizon, history) for history in series))
        ahead = [] if futures is None else [futures(history) for history in series]
        for history, future in zip(series, ahead, strict=False):
            model.check_future(history, future, horizon)
        forecasts: list[Forecast] = []
        for first in range(0, len(series), AT_ONCE):
            yield None
            part = slice(first, first + AT_ONCE)
            forecasts += model.forecast(series[part], horizon=horizon, levels=levels, futures=ahead[part] or None)
        yield to_body(forecasts, kind)

    def _check_rows(self, horizon: str | None, series: Series | None) -> int:
        """The number of rows to forecast, after the series if there is one yet; an InputError if it is too large."""
        most = max(self.settings.max_horizon, self.model.sizes.pred_len)
        if (rows := self.model.check_horizon(horizon, series)) > most:
            raise InputError(f"horizon: expected at most {most}, found {rows}")
        return rows

    def _check_values(self, n_series: int, rows: int) -> None:
        """Raise an InputError if the forecast takes too long; one series is always forecast for pred_len rows."""
        columns = len(self.model.columns.inputs)
        most = max(self.settings.max_values, self.model.sizes.pred_len * columns)
        if (found := n_series * rows * columns) > most:
            raise InputError(
                f"body: expected at most {most:,} values to forecast (max_values), found {found:,}: {n_series:,} "
                f"series x {rows:,} rows x {columns:,} columns; send fewer series, or shorten the horizon"
            )

    def description(self) -> dict[str, Any]:
        """Inputs and outputs of the model, and the limits on requests."""
        model, settings = self.model, self.settings
        checkpoint, calibration = model.checkpoint, model.calibration
        levels = [] if calibration is None else [level for level in LEVELS if calibration.supports(level)]
        return {
            "version": informer.__version__,
            "model": checkpoint.config["model"].get("family", "informer"),
            "targets": list(model.columns.targets),
            "inputs": list(model.columns.inputs),
            "future_covariates": list(model.columns.future_covariates),
            "static_covariates": list(model.columns.static_covariates),
            "categories": {name: list(labels)[:MOST_NAMES] for name, labels in checkpoint.categories.items()},
            "time_column": checkpoint.data.time_col,
            "series_column": checkpoint.config["dataset"].get("series_col"),
            "series": checkpoint.series[:MOST_NAMES],
            "n_series": max(1, len(checkpoint.series)),
            "step": checkpoint.frequency,
            "seq_len": model.sizes.seq_len,
            "pred_len": model.sizes.pred_len,
            "quantiles": list(model.quantiles),
            "intervals": levels,
            "interval_notes": interval_notes(checkpoint, calibration, levels),
            "limits": {name: getattr(settings, name) for name in LIMITS},
        }
