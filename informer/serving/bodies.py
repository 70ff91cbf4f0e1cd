"""Decode request bodies to series, and encode forecasts as response bodies."""

import json
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from email.message import Message
from typing import Any

import pandas as pd

from informer.config.commands import PredictConfig
from informer.config.input_format import InputFormat
from informer.data.history import check_futures
from informer.errors import InputError, listed
from informer.inference.jobs.writing import stamps, to_csv
from informer.inference.predictor import TrainedModel
from informer.inference.result import Forecast
from informer.serving.batching import Options, Task

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


def read_tasks(
    model: TrainedModel, body: Body, input_format: InputFormat, *, name: str = FRAME, options: Options
) -> list[Task]:
    """The series of a request, checked against the model.

    Args:
        body: body of the request.
        input_format: format of CSV text, if different from the training data.
        name: name of a single series; if each series has its own scaler, it selects the scaler.
        options: options of the forecast.

    Raises:
        InputError: the series cannot be forecast.
    """
    if body.type == CSV:
        series, futures = model.reader.content(body.content, _encoded(input_format, body), name), None
    else:
        frame, ahead = _json_tables(body.content)
        series = model.reader.frame(frame, name)
        futures = None if ahead is None else model.reader.future_frame(ahead, FUTURE)
    if body.type == CSV and model.columns.future_covariates:
        names = listed(model.columns.future_covariates)
        raise InputError(f"future: expected future values of {names}; send JSON with {FRAME} and {FUTURE}")
    check_futures(model.columns, has_futures=futures is not None)
    tasks = [Task(history, None if futures is None else futures.of(history)) for history in series]
    for task in tasks:
        if task.future is not None:
            model.check_future(task.series, task.future, options.horizon)
    return tasks


def _encoded(input_format: InputFormat, body: Body) -> InputFormat:
    if body.charset is None:
        return input_format
    encoded = copy(input_format)
    encoded.encoding = body.charset
    problems = encoded.problems()
    if problems:
        raise InputError(f"Content-Type: {problems[0]}")
    return encoded


def _json_tables(content: bytes) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"body: expected JSON, found: {error or 'too many levels'}") from error
    if not isinstance(body, dict) or FRAME not in body or not set(body) <= {FRAME, FUTURE}:
        keys = listed(list(body)) if isinstance(body, dict) else f"a {type(body).__name__}"
        raise InputError(f'body: expected {{"{FRAME}": TABLE}} and, if needed, "{FUTURE}", found {keys}')
    future = body.get(FUTURE)
    return _table(body[FRAME], FRAME), None if future is None else _table(future, FUTURE)


def _table(data: Any, name: str) -> pd.DataFrame:
    """A table from a mapping of columns or a list of rows."""
    if isinstance(data, list) and data and all(isinstance(row, dict) for row in data):
        names = list(data[0])
        odd = next((number for number, row in enumerate(data) if list(row) != names), None)
        if odd is not None:
            raise InputError(
                f"{name}, row {odd}: expected the columns {listed(names)}, found {listed(list(data[odd]))}"
            )
        data = {key: [row[key] for row in data] for key in names}
    if not isinstance(data, dict) or not data or not all(isinstance(cells, list) for cells in data.values()):
        raise InputError(f"{name}: expected columns with a list of values each, or a list of rows")
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
