"""The models of a service by name: the pretrained network, and trained ones, which are read again when they change."""

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from email.message import Message
from pathlib import Path
from threading import Lock
from typing import final

import pandas as pd

from informer.base.errors import InputError, listed
from informer.base.files import fingerprint
from informer.checkpoint.paths import forecasting_checkpoint, locate
from informer.config.commands import ServeConfig
from informer.config.data import DatasetConfig, InputFormat
from informer.config.fields import problems_of
from informer.data.history import check_futures
from informer.inference.model import Forecast, TrainedModel, interval_notes
from informer.inference.untrained import untrained
from informer.inference.zero import ZeroModel
from informer.read.dialect import find_encoding
from informer.read.series import Series
from informer.read.table import read_errors
from informer.scoring.intervals import LEVELS
from informer.service.schemas import Description, Query, Tables, check_size, check_values

log = logging.getLogger(__name__)

CSV, JSON = "text/csv", "application/json"
FRAME, FUTURE = "frame", "future"
ZERO, DEFAULT = "zero", "default"
"""Names of the pretrained network, and of the model of `checkpoint`."""
AT_ONCE = 16
"""Series of a forward pass, after which other requests have their turn."""
MOST_NAMES = 100
"""Maximum number of series names, and of categories of a column, in a description."""
SEPARATORS, LINE_ENDS = ",;\t| ", "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""Characters that may separate cells, of which a blank may also be part of a time; those that may end a line."""


class Refused(InputError):
    """Ends a request with this status and error line."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status = status


def media_type(content_type: str) -> tuple[str, str | None]:
    """CSV or JSON, and the encoding of CSV text if it is named, from a Content-Type header."""
    header = Message()
    header["Content-Type"] = content_type
    kind, charset = header.get_content_type() if content_type else "none", header.get_param("charset")
    if kind not in (CSV, JSON):
        raise Refused(415, f"Content-Type: expected {CSV} or {JSON}, found {kind}")
    return kind, charset if isinstance(charset, str) else None


Source = bytes | pd.DataFrame
Part = Callable[[slice], Sequence[Forecast]]
"""Forecasts some of the series of a request."""


class Model(ABC):
    """A model in use: reads tables and forecasts them.

    Args:
        name: name in requests.
        n_inputs: number of columns that it reads, in addition to which others may be sent; 0: all that are numbers.
        least: rows of one pass.
    """

    def __init__(self, name: str, n_inputs: int, least: int) -> None:
        self.name, self.n_inputs, self.least = name, n_inputs, least

    @abstractmethod
    def read(
        self, frame: Source, future: Source | None, form: InputFormat, query: Query
    ) -> tuple[Sequence[Series], Part, int]:
        """The series of a request, the function that forecasts some of them, and how many of them at once."""

    @abstractmethod
    def rows(self, horizon: str | None, series: Series) -> int:
        """Rows to forecast after a series."""

    @abstractmethod
    def describe(self) -> Description:
        """What it needs and returns."""

    def answer(
        self, content: bytes, content_type: str, query: Query, settings: ServeConfig
    ) -> Iterator[list[Forecast]]:
        """The forecasts for the body of a request in parts, the first of which is empty: it reads the table.

        Raises:
            InputError: an error the client can fix.
        """
        tables = _sources(content, content_type, query.name or FRAME, settings, self.n_inputs)
        series, forecast, at_once = self.read(*tables, query)
        n_columns = self.n_inputs or len(series[0].columns)
        most = max(self.rows(query.horizon, each) for each in series)
        check_values(settings, len(series), most, n_columns, self.least)
        yield []
        for first in range(0, len(series), at_once):
            yield [*forecast(slice(first, first + at_once))]


def _sources(
    content: bytes, content_type: str, name: str, settings: ServeConfig, read: int
) -> tuple[Source, Source | None, InputFormat]:
    """The tables of a body, whose size is within the limits, and how to read them."""
    kind, charset = media_type(content_type)
    if kind == JSON:
        try:
            text = content.decode()
        except UnicodeError as error:
            raise InputError(f"body: expected JSON in UTF-8, found: {error}") from error
        tables = Tables.read(text, settings, read)
        ahead = None if tables.future is None else pd.DataFrame(tables.future)
        return pd.DataFrame(tables.frame), ahead, settings.dataset
    encoding = charset or settings.dataset.encoding or find_encoding(content)
    form = replace(settings.dataset, encoding=encoding)
    for problem in problems_of(form):
        raise InputError(f"Content-Type: {problem}")
    with read_errors(Path(name), encoding):
        _check_text(content.decode(encoding), settings, read)
    return content, None, form


def _check_text(text: str, settings: ServeConfig, read: int) -> None:
    """Check the size of CSV text by its separators, since reading it takes time for each column and cell."""
    longest, cells = 0, sum(map(text.count, LINE_ENDS))
    check_size(settings, 0, cells, read, "body")
    for line in text.splitlines():
        *counts, blanks = map(line.count, SEPARATORS)
        longest, cells = max(longest, blanks, *counts), cells + max(sum(counts), blanks)
    check_size(settings, 1 + longest, cells, read, "body")


@final
class Pretrained(Model):
    """The pretrained network, for numeric columns of any table, with effects of those known ahead."""

    def __init__(self, settings: ServeConfig) -> None:
        self._device, self._most_series = settings.device, settings.max_series
        self._model = ZeroModel(settings.device)
        super().__init__(ZERO, 0, self._model.member.network.version.horizon)

    def read(
        self, frame: Source, future: Source | None, form: InputFormat, query: Query
    ) -> tuple[Sequence[Series], Part, int]:
        """See `Model`."""
        config = form.applied_to(DatasetConfig())
        subject = untrained(frame, config, name=query.name or FRAME, future=future, most_series=self._most_series)
        panel, columns, seasons = subject.panel, subject.columns, subject.seasons
        if subject.known is not None:  # effects are those of all series together
            return panel, lambda _: subject.forecast(query.horizon, self._device, levels=query.levels), len(panel)

        def forecast(part: slice) -> Sequence[Forecast]:
            horizon = query.horizon or self.least
            return self._model.forecast(panel[part], columns, seasons, horizon=horizon, levels=query.levels)

        return panel, forecast, AT_ONCE

    def rows(self, horizon: str | None, series: Series) -> int:
        """See `Model`."""
        return series.frequency.rows_of(horizon or self.least, series.timestamps)

    def describe(self) -> Description:
        """See `Model`."""
        version = self._model.member.version
        return Description(
            name=self.name, model=version, changed=version, seq_len=2, pred_len=self.least, intervals=list(LEVELS)
        )


@final
class Trained(Model):
    """A trained model."""

    def __init__(self, name: str, path: Path, settings: ServeConfig) -> None:
        self.model = TrainedModel.load(path, device=settings.device)
        self.model.reader.most_series = settings.max_series
        super().__init__(name, len(self.model.columns.inputs), self.model.sizes.pred_len)

    def read(
        self, frame: Source, future: Source | None, form: InputFormat, query: Query
    ) -> tuple[Sequence[Series], Part, int]:
        """See `Model`."""
        reader, name, futures = self.model.reader, query.name or FRAME, None
        series = reader.series(frame, name, form)
        if future is not None:
            futures = reader.futures(future, FUTURE)
        elif self.model.columns.future_covariates:
            futures = reader.futures(frame, name, form)
        check_futures(self.model.columns, has_futures=futures is not None)
        ahead = [] if futures is None else [futures(each) for each in series]

        def forecast(part: slice) -> Sequence[Forecast]:
            return self.model.forecast(
                series[part], horizon=query.horizon, levels=query.levels, futures=ahead[part] or None
            )

        return series, forecast, AT_ONCE

    def rows(self, horizon: str | None, series: Series) -> int:
        """See `Model`."""
        return self.model.check_horizon(horizon, series)

    def describe(self) -> Description:
        """See `Model`."""
        model, checkpoint, calibration = self.model, self.model.checkpoint, self.model.calibration
        levels = [] if calibration is None else [level for level in LEVELS if calibration.supports(level)]
        return Description(
            name=self.name,
            model=model.model.family,
            changed=checkpoint.sha256[:12],
            targets=list(model.columns.targets),
            inputs=list(model.columns.inputs),
            future_covariates=list(model.columns.future_covariates),
            static_covariates=list(model.columns.static_covariates),
            categories={name: list(labels)[:MOST_NAMES] for name, labels in checkpoint.categories.items()},
            time_column=checkpoint.data.time_col,
            series_column=checkpoint.settings.dataset.series_col,
            series=checkpoint.series[:MOST_NAMES],
            n_series=max(1, len(checkpoint.series)),
            step=checkpoint.frequency,
            seq_len=model.sizes.seq_len,
            pred_len=model.sizes.pred_len,
            quantiles=list(model.quantiles),
            intervals=levels,
            interval_notes=interval_notes(checkpoint, calibration, levels),
        )


@final
class Run:
    """The model of a run, read again when its file changes, or when `runs/latest` leads to another run."""

    def __init__(self, name: str, location: str, settings: ServeConfig) -> None:
        self.name, self._location, self._settings = name, location, settings
        self._loading, self._mark = Lock(), self._marked()
        self._model = Trained(name, self._mark[0], settings)

    def current(self) -> Model:
        """The newest model; the one before, while another thread reads a newer one or if that cannot be read."""
        try:
            mark = self._marked()
        except InputError:  # it was moved, or is being written
            return self._model
        if mark != self._mark and self._loading.acquire(blocking=False):
            try:
                self._mark = mark
                self._model = Trained(self.name, mark[0], self._settings)
                log.info(f"model {self.name}: read again from {self._location}")
            except InputError as error:
                log.warning(f"model {self.name}: not read again: {error}")
            finally:
                self._loading.release()
        return self._model

    def _marked(self) -> tuple[Path, tuple[str, str]]:
        file = locate(forecasting_checkpoint(self._location))
        return file, fingerprint(file)


@final
class Models:
    """The models of a service by name; the first is the default."""

    def __init__(self, settings: ServeConfig) -> None:
        runs = {} if settings.checkpoint is None else {DEFAULT: settings.checkpoint}
        for each in settings.models:
            name, sign, location = each.partition("=")
            if not (sign and location and re.fullmatch(r"[\w.-]+", name)) or name == ZERO:
                raise InputError(f"models: expected NAME=RUN, such as models=[shops=runs/shops], found {name}{sign}")
            runs[name] = location
        self._runs = {name: Run(name, location, settings) for name, location in runs.items()}
        self._zero = Pretrained(settings)
        self.names = [*self._runs, ZERO]

    def get(self, name: str) -> Model:
        """The model of this name, "" for the first; a Refused without one."""
        name = name or self.names[0]
        if name not in self.names:
            raise Refused(404, f"model: expected one of {listed(self.names)}, found {name!r:.100}")
        return self._zero if name == ZERO else self._runs[name].current()
