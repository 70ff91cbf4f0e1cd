"""The model file: a trained network with everything needed to use it, and the state of a run to continue it; or the
rule around the pretrained network, whose weights come with the package, and the effects that it was fitted with.

Tensors are stored with safetensors, which holds no code. Everything else is JSON in the header, checked by one schema,
`Checkpoint` or `Rule`: unknown entries and values of other types are errors. The header also has the SHA-256 of the
file's bytes, which detects damage and files of another run. It is not a signature: anyone who changes a file on purpose
can also write a matching digest.
"""

import hashlib
import json
import math
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    PlainSerializer,
    PlainValidator,
    ValidationError,
)
from safetensors import SafetensorError
from safetensors.torch import load as tensors_of
from safetensors.torch import save as bytes_of
from torch import Tensor

from informer.base.errors import FileError, reason_of
from informer.base.files import reading, write_atomic
from informer.checkpoint.paths import FACTS, locate, read_facts, resolve_latest
from informer.config.conversion import from_plain
from informer.config.data import Calendar
from informer.config.training import TrainConfig
from informer.data.columns import Columns
from informer.data.dataset import dims_of
from informer.data.scaler import PanelScaler
from informer.members.regression import Terms
from informer.networks.models.base import ModelDims
from informer.pretrained.weights import NEWEST
from informer.read.frequency import Frequency

FORMAT: Literal[6] = 6
"""Format of the files; it increases whenever an older reader would misread them."""

HEADER = "informer"
"""Key of the JSON in the header of the file, which only maps strings to strings."""
UNKNOWN = "0" * 64
"""What stands in the place of the digest while it is computed."""
BEGINNING = re.compile(r'\{"format":(\d+),"sha256":"([0-9a-f]{64})",("version":)?')


def _checked_moment(text: str) -> str:
    pd.Timestamp(text)
    return text


Moment = Annotated[str, AfterValidator(_checked_moment)]
"""A time as text."""
Count = Annotated[int, Field(ge=0)]


def _checked_tensors(tensors: Any) -> dict[str, Tensor]:
    if not isinstance(tensors, dict) or not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
        raise ValueError("expected tensors, which are not in the header")
    return tensors


Tensors = Annotated[dict[str, Tensor], PlainValidator(_checked_tensors), Field(exclude=True)]


class Part(BaseModel):
    """Part of a model file; unknown entries and values of other types are errors."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, arbitrary_types_allowed=True, ser_json_inf_nan="constants"
    )


class Progress(Part):
    """What a run has done so far, apart from tensors."""

    model_config = ConfigDict(frozen=False)

    epoch: Count = 0
    """Finished epochs, validation included."""
    step: Count = 0
    """Optimiser steps over all epochs."""
    n_seen: Count = 0
    """Windows of the current epoch that were trained on."""
    loss_sum: FiniteFloat = 0.0
    """Sum of the training loss over these windows."""
    n_averaged: Count = 0
    """Steps in the moving average of the weights (`optim.ema`)."""
    start_loss: FiniteFloat | None = None
    """Validation loss before the first step, of a model that is fitted before it is trained."""
    best_loss: Annotated[float, Field(ge=-math.inf)] = math.inf
    """Lowest validation loss; infinite before the first one."""
    best_epoch: Count = 0
    waited: Count = 0
    """Epochs without a new lowest validation loss."""


class DataFacts(Part):
    """Source, format and size of the training data."""

    path: str
    absolute: str
    sha256: str
    series: Count
    rows: Count
    time_col: str
    time_format: str | None
    timezone: str | None
    trained_until: Moment | None
    """Last time of the rows of training and validation; None: not known, as of weights of another program."""
    until: Moment
    """Last time of the rows of all parts."""
    marks: list[str] | None
    """Decimal and thousands marks; None: no cell has shown them."""
    windows: dict[str, Count]
    """Number of windows of each part."""
    names: list[str] = []
    """Names of the training series; empty for a single series."""
    categories: dict[str, Annotated[list[str], Field(min_length=1)]] = {}
    """Categories of each categorical column, in the order of their codes, which start at 1."""
    static_covariates: list[str] = []
    """Inputs that are constant within a series."""
    non_negative: list[str] = []
    """Targets that cannot be negative."""
    mase_scales: dict[str, list[float]] = {}
    """Denominators of MASE of each target on the training rows, by series."""
    too_narrow: dict[Annotated[str, Field(pattern=r"^([\d.]*\d|q[\d.]*\d_q[\d.]*\d)$")], dict[str, float]] = {}
    """Coverage in percent, on the test part, of intervals that are too narrow; see
    `informer.scoring.scores.Scores`."""
    refit: Count = 0
    """Number of windows of the second fit, on all rows."""


def _checked_config(config: dict[str, Any]) -> dict[str, Any]:
    from_plain(config)
    return config


class Checkpoint(Part):
    """Content of a model file."""

    format: Literal[6] = FORMAT
    sha256: str = UNKNOWN
    """Digest of the file; not of a checkpoint that no file has."""
    config: Annotated[dict[str, Any], AfterValidator(_checked_config)]
    """Full configuration of the run, only as data."""
    inputs: list[str]
    """Columns the model reads, in order."""
    targets: list[str]
    """Columns the model forecasts, in order."""
    future_covariates: list[str] = []
    """Inputs that must also be given for the forecast horizon."""
    masked: list[Count] | None = None
    """Positions of the inputs with a mask column; None: the network reads no gaps."""
    frequency: str
    """Step of the series, as a pandas offset."""
    scaler: Annotated[PanelScaler, PlainSerializer(PanelScaler.state)]
    """The scaler of `inputs`."""
    data: DataFacts
    progress: Progress = Progress()
    weights: Tensors = {}
    calibration: Tensors = {}
    """State of the `Calibration` of prediction intervals; empty without one."""
    state: Tensors = {}
    """Tensors of the optimiser, the average of the weights and the random-number generators; only in `LAST`."""

    @property
    def fitted_until(self) -> str | None:
        """Last time of the rows that the model was fitted or chosen on; None: not known."""
        return self.data.until if self.data.refit else self.data.trained_until

    @property
    def settings(self) -> TrainConfig:
        """Configuration of the run, without the places of its data."""
        return from_plain(self.config)

    @property
    def calendar(self) -> Calendar:
        """The calendar marks that the network reads."""
        settings = self.settings
        return settings.dataset.marked(settings.model.embed)

    @property
    def columns(self) -> Columns:
        """Columns by role."""
        main = self.config.get("target")
        return Columns(
            inputs=tuple(self.inputs), targets=tuple(self.targets), future_covariates=tuple(self.future_covariates),
            static_covariates=tuple(self.data.static_covariates), main=main if main in self.targets else None,
        )  # fmt: skip

    @property
    def dims(self) -> ModelDims:
        """Sizes of the network that depend on the data."""
        return dims_of(
            self.columns, self.data.categories, self.masked, Frequency.parse(self.frequency), self.calendar,
            self.settings.sizes, n_series=len(self.data.names),
        )  # fmt: skip


class Rule(Part):
    """Content of the file of the pretrained network as it forecasts, fitted or not; see `informer.inference.zero`."""

    format: Literal[6] = FORMAT
    sha256: str = UNKNOWN
    version: Annotated[str, Field(pattern=f"^{NEWEST}$")] = NEWEST
    """Of the network."""
    target: str | None = None
    future_covariates: list[str] = []
    horizon: Annotated[int, Field(ge=1)] | str | None = None
    dataset: dict[str, Any] = {}
    """How tables are read, with what differs from the defaults."""
    series: list[str] = []
    """Names of the series that effects were fitted to."""
    series_col: str | None = None
    step: str = ""
    """Of these series, as a pandas offset."""
    categories: dict[str, list[str]] = {}
    kind: Literal["network", "effects", "effects + network"] = "network"
    width: Annotated[FiniteFloat, Field(gt=0)] = 1.0
    terms: Terms | None = None
    are_ratios: list[bool] = []
    """Of the effects in each target, whose arrays are `effects`."""
    effects: Tensors = {}


def entries_of(content: "type[Checkpoint | Rule]") -> list[str]:
    """Entries with tensors, whose names in the file begin with that of the entry and a dot."""
    return [name for name, field in content.model_fields.items() if field.exclude]


def encoded(checkpoint: Checkpoint | Rule) -> tuple[bytes, str]:
    """Content of the file, the same for the same checkpoint, and its digest."""
    tensors = {
        f"{entry}.{name}": tensor.detach().cpu().clone().contiguous()  # cloned: no two may share their memory
        for entry in entries_of(type(checkpoint))
        for name, tensor in getattr(checkpoint, entry).items()
    }
    content = bytes_of(tensors, {HEADER: checkpoint.model_copy(update={"sha256": UNKNOWN}).model_dump_json()})
    digest = hashlib.sha256(content).hexdigest()
    return content.replace(UNKNOWN.encode(), digest.encode(), 1), digest


def decoded(content: bytes, path: Path) -> Checkpoint | Rule:
    """The checkpoint or the rule in the content of a file.

    Args:
        path: path of the file, for messages.

    Raises:
        InputError: it is not a model file of this format, it is damaged, or has missing or unexpected entries.
    """
    try:
        tensors = tensors_of(content)  # first: safetensors checks the header and the sizes of the tensors
        text = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"][HEADER]
        beginning = BEGINNING.match(text)
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError, OverflowError) as error:
        raise FileError(f"checkpoint: {path} cannot be read as a model file: {reason_of(error)}") from error
    if beginning is None or int(beginning[1]) != FORMAT:
        raise FileError(f"checkpoint: {path} has another format than {FORMAT}; train again or use a matching version")
    digest = beginning[2]
    if hashlib.sha256(content.replace(digest.encode(), UNKNOWN.encode(), 1)).hexdigest() != digest:
        raise FileError(f"checkpoint: {path} is damaged: its content is not what was written; use another copy")
    schema: type[Checkpoint | Rule] = Rule if beginning[3] else Checkpoint
    try:
        checkpoint = schema.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place, cause = ".".join(map(str, first["loc"])), first.get("ctx", {}).get("error", first["msg"])
        problem = reason_of(ValueError(f"{place}: {cause}"))  # on one line
        raise FileError(f"checkpoint: {path}: {problem}, found {first['input']!r:.40}") from error
    groups: dict[str, dict[str, Tensor]] = {entry: {} for entry in entries_of(schema)}
    for name, tensor in tensors.items():
        entry, _, rest = name.partition(".")
        if entry not in groups:
            raise FileError(f"checkpoint: {path}: {name}: expected tensors of {', '.join(groups)}, found another")
        groups[entry][rest] = tensor
    return checkpoint.model_copy(update=groups)


def save(path: Path, checkpoint: Checkpoint | Rule) -> str:
    """Write atomically, so that the file is either complete or not there; returns the digest."""
    content, digest = encoded(checkpoint)
    write_atomic(path, content)
    return digest


def load(path: Path) -> Checkpoint:
    """The checkpoint of `read`; an InputError if the file has a rule."""
    content = read(path)
    if isinstance(content, Rule):
        what = f"{path}, the pretrained network with its settings"
        raise FileError(
            f"checkpoint: expected a trained model, found {what}; Forecaster.load, explain and serve read it"
        )
    return content


def read(path: Path) -> Checkpoint | Rule:
    """Read a model file onto the CPU; no code is run and no other file is read, except the run.json of a run directory.

    Args:
        path: a file or a run directory.

    Raises:
        InputError: see `locate` and `decoded`; or it is not the file that the run directory contained when the run
            ended.
    """
    of_run = resolve_latest(path).is_dir()
    path = locate(path)
    with reading(path):
        content = path.read_bytes()
    checkpoint = decoded(content, path)
    # a run that is still running has noted no digest
    noted = read_facts(path.parent).get("digests", {}).get(path.name) if of_run else None
    if noted is not None and noted != checkpoint.sha256:
        raise FileError(
            f"checkpoint: {path} is not the one that {path.with_name(FACTS)} describes; put the run's own file back, "
            f"or name the file itself: checkpoint={path}"
        )
    return checkpoint
