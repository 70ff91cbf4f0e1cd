"""Answers to requests, independent of HTTP: limits, bodies to series, forecasts to bodies."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from email.message import Message
from typing import Any, NamedTuple, final

import pandas as pd

import informer
from informer.base.errors import InputError, listed
from informer.config.commands import PredictConfig, ServeConfig
from informer.config.data import InputFormat
from informer.data.history import Futures, check_futures
from informer.inference.model import Forecast, TrainedModel, interval_notes
from informer.inference.writing import stamps, to_csv
from informer.read.series import Series
from informer.scoring.intervals import LEVELS


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of a request.

    Args:
        horizon: rows to forecast; None: pred_len.
        levels: interval levels in percent.
    """

    horizon: int | None = None
    levels: tuple[int, ...] = ()


CSV, JSON = "text/csv", "application/json"

FRAME, FUTURE = "frame", "future"
"""Keys of a JSON body."""


class UnknownType(InputError):
    """The body is neither CSV nor JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """The body of a request.

    Args:
        content: CSV text, or JSON `{"frame": ..., "future": ...}`; a table is a mapping of column names to lists, or a
            list of rows.
        type: CSV or JSON.
        charset: encoding of CSV text; None: detected.
    """

    content: bytes
    type: str
    charset: str | None = None

    @classmethod
    def of(cls, content: bytes, content_type: str) -> "Body":
        """A body with its type from the Content-Type header.

        Raises:
            UnknownType: another type.
        """
        header = Message()
        header["Content-Type"] = content_type
        media_type = header.get_content_type() if content_type else "none"
        if media_type not in (CSV, JSON):
            raise UnknownType(f"Content-Type: expected {CSV} or {JSON}, found {media_type}")
        charset = header.get_param("charset")
        return cls(content=content, type=media_type, charset=charset if isinstance(charset, str) else None)


class Limits(NamedTuple):
    """Maximum number of columns and of cells of a table."""

    columns: int
    cells: int

    def check(self, columns: int, cells: int, where: str) -> None:
        """Raise an InputError if a table is larger."""
        for what, found, most in (("columns", columns, self.columns), ("cells", cells, self.cells)):
            if found > most:
                raise InputError(
                    f"{where}: expected at most {most:,} {what}, found {found:,}; send the columns that the model "
                    "reads, and the last seq_len rows of each series"
                )


def read_series(
    model: TrainedModel, body: Body, input_format: InputFormat, limits: Limits, *, name: str = FRAME
) -> tuple[list[Series], Futures | None]:
    """The series of a request and their future covariates, checked against the model.

    Args:
        body: body of the request.
        input_format: format of CSV text, if different from the training data.
        limits: limits on each table, checked before it is read.
        name: name of a single series; if each series has its own scaler, it selects the scaler.

    Raises:
        InputError: the series cannot be forecast.
    """
    futures = None
    if body.type == CSV:
        _check_text(body.content, limits)
        series = model.reader.content(body.content, _encoded(input_format, body), name)
        if model.columns.future_covariates:
            names = listed(model.columns.future_covariates)
            raise InputError(f"future: expected future values of {names}; send JSON with {FRAME} and {FUTURE}")
    else:
        frame, ahead = _json_tables(body.content, limits)
        series = model.reader.frame(frame, name)
        futures = None if ahead is None else model.reader.future_frame(ahead, FUTURE)
    check_futures(model.columns, has_futures=futures is not None)
    return series, futures


SEPARATORS = (b",", b";", b"\t", b"|", b" ")
"""Characters that may separate cells; a blank may also be part of a time."""


def _check_text(content: bytes, limits: Limits) -> None:
    """Check the size of CSV text by its separators, since reading it takes time for each column and cell."""
    longest, cells = 0, content.count(b"\n") + content.count(b"\r")
    limits.check(0, cells, "body")
    for line in re.split(rb"[\r\n]", content):
        counts = [line.count(separator) for separator in SEPARATORS]
        longest, cells = max(longest, *counts), cells + max(sum(counts[:-1]), counts[-1])
    limits.check(1 + longest, cells, "body")


def _encoded(input_format: InputFormat, body: Body) -> InputFormat:
    if body.charset is None:
        return input_format
    encoded = copy(input_format)
    encoded.encoding = body.charset
    problems = encoded.problems()
    if problems:
        raise InputError(f"Content-Type: {problems[0]}")
    return encoded


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
        limits.check(len(names), len(names) * len(data), name)
        odd = next((number for number, row in enumerate(data) if list(row) != names), None)
        if odd is not None:
            raise InputError(
                f"{name}, row {odd}: expected the columns {listed(names)}, found {listed(list(data[odd]))}"
            )
        data = {key: [row[key] for row in data] for key in names}
    if not isinstance(data, dict) or not data or not all(isinstance(cells, list) for cells in data.values()):
        raise InputError(f"{name}: expected columns with a list of values each, or a list of rows")
    limits.check(len(data), sum(map(len, data.values())), name)
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
    table: dict[str, list[Any]] = {}
    for forecast in forecasts:
        names = {key: [forecast.series.name] * len(forecast.values) for key in forecast.keys[:-1]}
        columns = {name: _cells(values) for name, values in forecast.columns().items()}
        for name, cells in (names | {forecast.keys[-1]: list(stamps(forecast))} | columns).items():
            table.setdefault(name, []).extend(cells)
    return json.dumps({"forecast": table}, allow_nan=False).encode(), JSON


def _cells(values: Any) -> list[Any]:
    cells: list[Any] = values.tolist()
    return [None if cell != cell else cell for cell in cells]


AT_ONCE = 16
"""Series of a forward pass."""

MOST_NAMES = 100
"""Maximum number of series names, and of categories of a column, in a description."""


class Busy(InputError):
    """Too many requests in progress."""


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
        self._in_progress, self.is_answering = 0, False

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """Count a request as in progress within the context.

        Raises:
            Busy: too many requests are in progress.
        """
        if self._in_progress >= self.settings.max_requests:
            raise Busy(f"busy: {self._in_progress} requests in progress, at most max_requests; try again")
        self._in_progress += 1
        try:
            yield
        finally:
            self._in_progress -= 1

    def answer(self, body: Body, options: Options, *, name: str, kind: str) -> tuple[bytes, str]:
        """The forecasts for the body of a request, encoded, and their Content-Type.

        Args:
            body: body of the request.
            options: options of the forecast.
            name: name of a single series.
            kind: content type of the response.

        Raises:
            InputError: an error the client can fix.
        """
        self.is_answering = True
        try:
            return to_body(self._forecasts(body, options, name), kind)
        finally:
            self.is_answering = False

    def _forecasts(self, body: Body, options: Options, name: str) -> list[Forecast]:
        model, settings = self.model, self.settings
        most = max(settings.max_horizon, model.sizes.pred_len)
        if options.horizon is not None and options.horizon > most:
            raise InputError(f"horizon: expected at most {most}, found {options.horizon}")
        model.check_horizon(options.horizon)
        model.check_levels(options.levels, options.horizon)
        limits = Limits(settings.max_columns + len(model.columns.inputs), settings.max_cells)
        series, futures = read_series(model, body, settings.dataset, limits, name=name or FRAME)
        ahead = [futures.of(history) for history in series] if futures is not None else None
        for history, future in zip(series, ahead or (), strict=ahead is not None):
            model.check_future(history, future, options.horizon)
        parts = [slice(first, first + AT_ONCE) for first in range(0, len(series), AT_ONCE)]
        return [
            forecast
            for part in parts
            for forecast in model.forecast(
                series[part], horizon=options.horizon, levels=options.levels, futures=ahead[part] if ahead else None
            )
        ]

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
            "time_column": checkpoint.data["time_col"],
            "series_column": checkpoint.config["dataset"].get("series_col"),
            "series": checkpoint.series[:MOST_NAMES],
            "n_series": max(1, len(checkpoint.series)),
            "step": checkpoint.frequency,
            "seq_len": model.sizes.seq_len,
            "pred_len": model.sizes.pred_len,
            "quantiles": list(model.quantiles),
            "intervals": levels,
            "interval_notes": interval_notes(checkpoint, calibration, levels),
            "limits": {
                name: getattr(settings, name)
                for name in (
                    "max_mb",
                    "max_columns",
                    "max_cells",
                    "max_series",
                    "max_horizon",
                    "max_requests",
                    "timeout",
                )
            },
        }
