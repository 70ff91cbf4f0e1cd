"""What requests to the service and its answers contain, as pydantic models; limits are checked with them."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictStr,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from informer.base.errors import InputError, listed
from informer.config.commands import ServeConfig

Cell = Annotated[int, Field(strict=True, ge=-(2**63), lt=2**63)] | StrictFloat | StrictStr | StrictBool | None


def limits_of(settings: ServeConfig) -> dict[str, float]:
    """The limits on one request among the settings of the service; one that exceeds them is refused at once."""
    return {name: value for name, value in vars(settings).items() if name == "timeout" or name.startswith("max_")}


def check_size(settings: ServeConfig, columns: int, cells: int, read: int, where: str) -> None:
    """Raise an InputError if a table has too many columns, of which the model reads some, or cells."""
    for what, found, most in (("columns", columns, settings.max_columns + read), ("cells", cells, settings.max_cells)):
        if found > most:
            raise InputError(
                f"{where}: expected at most {most:,} {what}, found {found:,}; send the columns that the model "
                "reads, and the last seq_len rows of each series"
            )


def check_values(settings: ServeConfig, series: int, rows: int, columns: int, least: int) -> None:
    """Raise an InputError if a forecast takes too long; `least` rows of one series are always allowed."""
    if rows > (most := max(settings.max_horizon, least)):
        raise InputError(f"horizon: expected at most {most}, found {rows}")
    if (found := series * rows * columns) > (most := max(settings.max_values, least * columns)):
        raise InputError(
            f"body: expected at most {most:,} values to forecast (max_values), found {found:,}: {series:,} series "
            f"x {rows:,} rows x {columns:,} columns; send fewer series, or shorten the horizon"
        )


def _columns(data: Any, info: ValidationInfo) -> Any:
    """A table as columns, from columns or from a list of rows, if it is not too large."""
    name = str(info.field_name)
    if isinstance(data, list) and data and all(isinstance(row, dict) for row in data):
        names = list(data[0])
        odd = next((number for number, row in enumerate(data) if list(row) != names), None)
        if odd is not None:
            raise InputError(f"{name}, row {odd}: expected the columns {listed(names)}, found {listed([*data[odd]])}")
        data = {key: [row[key] for row in data] for key in names}
    if not isinstance(data, dict) or not data or not all(isinstance(cells, list) for cells in data.values()):
        raise InputError(f"{name}: expected columns with a list of values each, or a list of rows")
    lengths = {key: len(cells) for key, cells in data.items()}
    assert info.context is not None, "see `Tables.read`"
    settings, read = info.context
    check_size(settings, len(data), sum(lengths.values()), read, name)
    shortest, longest = (choose(lengths, key=lengths.__getitem__) for choose in (min, max))
    if lengths[shortest] != lengths[longest]:
        raise InputError(
            f"{name}: expected columns of equal length, found {lengths[longest]} values of {longest!r} and "
            f"{lengths[shortest]} of {shortest!r}"
        )
    return data


Table = Annotated[dict[str, Annotated[list[Cell], Field(fail_fast=True)]], BeforeValidator(_columns)]
"""Columns by name; a list of rows is read too."""


class Tables(BaseModel):
    """The body of a JSON request."""

    model_config = ConfigDict(extra="forbid")

    frame: Table = Field(description="History of each series; rows at its end without a target are known ahead.")
    future: Table | None = Field(default=None, description="Columns known ahead, over the rows to forecast.")

    @classmethod
    def read(cls, text: str, settings: ServeConfig, read: int) -> Self:
        """From JSON text, within the limits besides `read` columns of the model; an InputError."""
        try:
            return cls.model_validate_json(text, context=(settings, read))
        except ValidationError as error:
            raise line_of(error.errors(include_url=False, include_input=False)) from error


class Query(BaseModel):
    """Parameters of a forecast."""

    model_config = ConfigDict(extra="forbid")

    model: str = Field(default="", description="Name of the model; default: the first one of /describe.")
    horizon: str | None = Field(default=None, description="Rows, a span or the last date; default: those of one pass.")
    intervals: str = Field(default="", description="Levels in percent, separated by commas: 80,95.")
    name: str = Field(default="", description="Name of a single series; selects its scaler, if it has its own.")

    @property
    def levels(self) -> list[int]:
        """The levels of `intervals`."""
        return list(dict.fromkeys(int(level) for level in self.intervals.strip("[]").split(",") if level.strip()))

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if not re.fullmatch(r"(\s*[1-9][0-9]?\s*,?)*", self.intervals.strip("[]")):
            raise InputError(
                f"intervals: expected whole percentages from 1 to 99, such as 80,95, found {self.intervals!r:.50}"
            )
        return self


class Answer(BaseModel):
    """Forecasts, as columns by name."""

    forecast: dict[str, list[Cell]]


class Problem(BaseModel):
    """Why a request has no answer."""

    error: str


class State(BaseModel):
    """Whether the service answers, or takes requests."""

    status: str
    models: list[str]


class Description(BaseModel):
    """What a model needs and returns."""

    name: str
    model: str = Field(description="Family of networks, or the version of the pretrained network.")
    changed: str = Field(description="Identifies the weights; other ones after a reload.")
    targets: list[str] = Field(default=[], description="Columns that are forecast; empty: every numeric one.")
    inputs: list[str] = []
    future_covariates: list[str] = []
    static_covariates: list[str] = []
    categories: dict[str, list[str]] = {}
    time_column: str | None = None
    series_column: str | None = None
    series: list[str] = []
    n_series: int = 1
    step: str | None = None
    seq_len: int = Field(description="Rows of history that a series must have.")
    pred_len: int = Field(description="Rows of one pass.")
    quantiles: list[float] = []
    intervals: list[int] = []
    interval_notes: list[str] = []


class Service(BaseModel):
    """The models of a service, the default first, and its limits."""

    version: str
    models: list[Description]
    limits: dict[str, int | float]


def line_of(problems: Sequence[Any]) -> InputError:
    """The first problem that pydantic found as one line."""
    first = problems[0]
    cause, place, kind = first.get("ctx", {}).get("error"), first["loc"], first["type"]
    if isinstance(cause, InputError):
        return cause
    if kind == "extra_forbidden":
        return InputError(f"{place[-1]}: not known here; GET /openapi.json lists what is")
    if kind == "json_invalid":
        return InputError(f"body: expected JSON, found: {first['ctx']['error']}")
    if kind in ("missing", "model_type"):
        return InputError('body: expected {"frame": TABLE} and, if needed, "future"')
    if len(place) >= 3:
        return InputError(f"{place[0]}, row {place[2]}, column {place[1]!r}: expected a number or text")
    return InputError(f"{'.'.join(map(str, place)) or 'body'}: {first['msg']}")
