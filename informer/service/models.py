"""The models of a service by name: the pretrained network, and trained ones, which are read again when they change."""

import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from email.message import Message
from pathlib import Path
from threading import Lock
from typing import final

import pandas as pd

from informer.base.errors import InputError, listed
from informer.base.files import fingerprint
from informer.checkpoint.format import Rule
from informer.checkpoint.paths import forecasting_checkpoint, locate
from informer.config.commands import ServeConfig
from informer.config.conversion import node_of
from informer.config.data import DatasetConfig, InputFormat
from informer.config.fields import check, problems_of
from informer.inference.model import Answer, interval_notes, loaded
from informer.inference.trained import TrainedPanel
from informer.inference.untrained import Subject, untrained
from informer.members.zero import pretrained as load_pretrained
from informer.networks.ops.zero_inputs import LEAST_HORIZON
from informer.read.dialect import find_encoding
from informer.read.table import read_errors
from informer.scoring.intervals import LEVELS
from informer.service.schemas import Description, Query, Tables, check_size, check_values

log = logging.getLogger(__name__)

CSV, JSON = "text/csv", "application/json"
FRAME = "frame"
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


@final
@dataclass(frozen=True, slots=True)
class Model:
    """A model in use.

    Args:
        description: what it needs and returns; other columns may be sent in addition to its inputs.
        subject: the model for a history and a table known ahead.
    """

    description: Description
    subject: Callable[[Source, Source | None, InputFormat, Query], Subject]

    def answer(self, content: bytes, content_type: str, query: Query, settings: ServeConfig) -> Iterator[list[Answer]]:
        """The forecasts for the body of a request in parts, the first of which is empty: it reads the table.

        Raises:
            InputError: an error the client can fix.
        """
        n_inputs = len(self.description.inputs)
        tables = _sources(content, content_type, query.name or FRAME, settings, n_inputs)
        subject = self.subject(*tables, query)
        n_series, rows, n = len(subject.panel), subject.steps(query.horizon), len(subject.inputs)
        check_values(settings, n_series, rows, n, self.description.pred_len)
        yield []
        for part in subject.parts(AT_ONCE):
            yield part.answers(query.horizon, levels=query.levels)


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


def pretrained(settings: ServeConfig, name: str, rule: Rule) -> Model:
    """The pretrained network, for numeric columns of any table, with effects of those known ahead; or as in a file."""
    base = check(node_of(DatasetConfig, rule.dataset))
    version = load_pretrained(settings.device).version

    def subject(frame: Source, future: Source | None, form: InputFormat, query: Query) -> Subject:
        model = untrained(
            *(frame, form.applied_to(base), rule), name=query.name or FRAME, future=future,
            most_series=settings.max_series, device=settings.device,
        )  # fmt: skip
        model.usual = model.usual or (LEAST_HORIZON if model.known is None else None)
        return model

    about = Description(
        name=name, model=version, changed=version if name == ZERO else rule.sha256[:12], seq_len=2,
        targets=[rule.target] if rule.target else [], future_covariates=rule.future_covariates,
        pred_len=LEAST_HORIZON, intervals=list(LEVELS),
    )  # fmt: skip
    return Model(about, subject)


def trained(name: str, path: Path, settings: ServeConfig) -> Model:
    """A trained model."""
    model = loaded(path, settings.device)
    if isinstance(model, Rule):
        return pretrained(settings, name, model)
    reader, columns, calibration, checkpoint = model.reader, model.columns, model.calibration, model.checkpoint
    reader.most_series = settings.max_series

    def subject(frame: Source, future: Source | None, form: InputFormat, query: Query) -> Subject:
        tables = [reader.read(frame, query.name or FRAME, form, future=future)]
        return TrainedPanel(model, lambda: tables)

    levels = [] if calibration is None else [level for level in LEVELS if calibration.supports(level)]
    about = Description(
        name=name,
        model=model.model.family,
        changed=checkpoint.sha256[:12],
        targets=list(columns.targets),
        inputs=list(columns.inputs),
        future_covariates=list(columns.future_covariates),
        static_covariates=list(columns.static_covariates),
        categories={name: list(labels)[:MOST_NAMES] for name, labels in checkpoint.data.categories.items()},
        time_column=checkpoint.data.time_col,
        series_column=checkpoint.config["dataset"].get("series_col"),
        series=checkpoint.data.names[:MOST_NAMES],
        n_series=max(1, len(checkpoint.data.names)),
        step=checkpoint.frequency,
        seq_len=model.sizes.seq_len,
        pred_len=model.sizes.pred_len,
        quantiles=list(model.quantiles),
        intervals=levels,
        interval_notes=interval_notes(checkpoint, calibration, levels),
    )
    return Model(about, subject)


def _marked(location: str) -> tuple[Path, tuple[str, str]]:
    """The model file of a run, and what tells it from another one at the same place."""
    file = locate(forecasting_checkpoint(location))
    return file, fingerprint(file)


@final
class Models:
    """The models of a service by name; the first is the default. That of a run is read again when its file changes, or
    when `runs/latest` leads to another run."""

    def __init__(self, settings: ServeConfig) -> None:
        self._settings, self._loading = settings, Lock()
        self._places = {} if settings.checkpoint is None else {DEFAULT: settings.checkpoint}
        for each in settings.models:
            name, sign, location = each.partition("=")
            if not (sign and location and re.fullmatch(r"[\w.-]+", name)) or name == ZERO:
                raise InputError(f"models: expected NAME=RUN, such as models=[shops=runs/shops], found {name}{sign}")
            self._places[name] = location
        marks = {name: _marked(location) for name, location in self._places.items()}
        self._read = {name: (mark, trained(name, mark[0], settings)) for name, mark in marks.items()}
        self._zero = pretrained(settings, ZERO, Rule())
        self.names = [*self._places, ZERO]

    def get(self, name: str) -> Model:
        """The newest model of this name, "" for the first, or the one before, while another thread reads a newer one or
        if that cannot be read; a Refused without one."""
        name = name or self.names[0]
        if name not in self.names:
            raise Refused(404, f"model: expected one of {listed(self.names)}, found {name!r:.100}")
        if name == ZERO:
            return self._zero
        mark, model = self._read[name]
        try:
            found = _marked(self._places[name])
        except InputError:  # it was moved, or is being written
            return model
        if found != mark and self._loading.acquire(blocking=False):
            try:
                self._read[name] = found, model  # read once
                self._read[name] = found, trained(name, found[0], self._settings)
                log.info(f"model {name}: read again from {self._places[name]}")
            except InputError as error:
                log.warning(f"model {name}: not read again: {error}")
            finally:
                self._loading.release()
        return self._read[name][1]
