"""Scaling per column: fitted in float64 on training rows, stored as plain numbers in the model file."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from jaxtyping import Bool, Float64
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FiniteFloat,
    PlainSerializer,
    TypeAdapter,
    ValidationInfo,
    field_validator,
    model_validator,
)

from informer.base.errors import listed
from informer.config.data import ScalerConfig, ScalerKind, Transform
from informer.data.columns import Columns

Table = Float64[np.ndarray, "_ c"]

BLOCK = 1 << 20
"""Values whose moments are computed at once, of one column or more."""

ROUNDING = 8
"""A column whose values differ by at most this many units in the last place of the largest is constant."""

MOST_NAMES = 3
"""Largest number of series named in one sentence."""

POWERS: dict[Transform, float] = {"none": 1.0, "sqrt": 0.5, "fourth_root": 0.25}
ROOTS = {0.5: "square root", 0.25: "fourth root"}


_LIST = TypeAdapter(list[FiniteFloat])


def _array(values: Any) -> Any:
    """Numbers of a file as an array; text and flags are no numbers."""
    is_array = isinstance(values, np.ndarray)
    return values if is_array else np.array(_LIST.validate_python(values, strict=True), dtype=np.float64)


Numbers = Annotated[np.ndarray, BeforeValidator(_array), PlainSerializer(lambda values: values.tolist())]


class Scaler(BaseModel):
    """(sign(x) |x|^power - center) / scale per column, along the last axis."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    kind: ScalerKind
    center: Numbers
    scale: Numbers
    constant: Annotated[np.ndarray, PlainSerializer(lambda mask: np.flatnonzero(mask).tolist())]
    """Which columns are constant in the fitted rows; their scale is the size of the constant, or 1."""
    power: Numbers | None = None
    """None without a transform."""
    untransformed_scale: Numbers | None = None
    """Scale of the values without the transform, if there is one."""

    @field_validator("constant", mode="before")
    @classmethod
    def _mask(cls, places: Any, info: ValidationInfo) -> Any:
        """In a file they are positions."""
        n = info.data.get("center", np.zeros(0)).size
        return places if isinstance(places, np.ndarray) else np.isin(np.arange(n), _array(places))

    @model_validator(mode="after")
    def _has_all_columns(self) -> "Scaler":
        scales = [each for each in (self.scale, self.untransformed_scale) if each is not None]
        powers = [] if self.power is None else [self.power]
        are_known = len(scales) == len(powers) + 1 and all(np.isin(each, [*POWERS.values()]).all() for each in powers)
        if not are_known or any(each.shape != self.center.shape or (each <= 0).any() for each in [*scales, *powers]):
            raise ValueError(
                "expected for each column a center, a scale above 0 and, with a transform, a power among "
                f"{sorted(POWERS.values())} and a scale without it"
            )
        return self

    @classmethod
    def fit(cls, kind: ScalerKind, tables: Sequence[Table], power: Float64[np.ndarray, " c"] | None = None) -> "Scaler":
        """Fit on the rows of these tables, transformed if there is a power.

        Missing values (NaN) are ignored; a column without any value gets NaN as center and scale.
        """
        plain = cls._fit(kind, tables)
        if power is None:
            return plain
        scaler = cls._fit(kind, [powered(table, power) for table in tables])
        return scaler.model_copy(update={"power": power, "untransformed_scale": plain.scale})

    @classmethod
    def _fit(cls, kind: ScalerKind, tables: Sequence[Table]) -> "Scaler":
        n_columns, width = tables[0].shape[1], max(BLOCK // max(sum(map(len, tables)), 1), 1)
        columns = [slice(first, first + width) for first in range(0, n_columns, width)]
        fitted = [_fitted(kind, np.concatenate([table[:, some] for table in tables])) for some in columns]
        center, scale, constant = map(np.concatenate, zip(*fitted, strict=True))
        return cls(kind=kind, center=center, scale=scale, constant=constant)

    @property
    def unknown(self) -> list[int]:
        """Columns without any observed value."""
        return [int(position) for position in np.flatnonzero(np.isnan(self.center))]

    def transform(self, values: Float64[np.ndarray, "*t c"]) -> Float64[np.ndarray, "*t c"]:
        """Data units to scaled units."""
        return (powered(values, self.power) - self.center) / self.scale

    def without(self, columns: Sequence[int]) -> "Scaler":
        """A copy that does not scale these columns."""
        own = ~np.isin(np.arange(self.center.size), columns)
        center, scale = np.where(own, self.center, 0.0), np.where(own, self.scale, 1.0)
        return self.model_copy(update={"center": center, "scale": scale, "constant": self.constant & own})

    def taking(self, columns: Sequence[int], scaler: "Scaler") -> "Scaler":
        """A copy that scales these columns as `scaler` does."""
        names = ["center", "scale", "constant", *(["untransformed_scale"] if self.power is not None else [])]
        taken = np.isin(np.arange(self.center.size), columns)
        arrays = {name: np.where(taken, getattr(scaler, name), getattr(self, name)) for name in names}
        return self.model_copy(update=arrays)


class PanelScaler(BaseModel):
    """One scaler for all series, or one per series."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: ScalerKind
    """Kind of every scaler."""
    shared: Scaler | None = None
    """The scaler for all series; None if each series has its own."""
    by_series: dict[str, Scaler] = {}
    """The scalers of the training series, by name."""
    codes: list[int] = []
    """Positions of the categorical columns, whose codes are not scaled."""
    static: list[int] = []
    """Positions of the columns that are constant within a series; they use the scale of all series together."""

    @model_validator(mode="after")
    def _is_whole(self) -> "PanelScaler":
        if (self.shared is None) != bool(self.by_series):
            raise ValueError("expected one that is shared, or one for each series")
        n = len(self.all[0].center)
        if not all(0 <= place < n for place in (*self.codes, *self.static)):
            raise ValueError(f"expected places below {n}, found {[*self.codes, *self.static]}")
        for each in self.all:
            places = [place for place in self.codes if place < each.center.size]  # columns are counted elsewhere
            if (each.center[places] != 0).any() or (each.scale[places] != 1).any():
                raise ValueError("expected the numbers of categories unscaled, found them scaled")
        return self

    @classmethod
    def fit(
        cls,
        config: ScalerConfig,
        training: Mapping[str, Table],
        *,
        codes: Sequence[int] = (),
        static: Sequence[int] = (),
        targets: Sequence[int] = (),
    ) -> "PanelScaler":
        """Fit on the training rows of each series, by name; a single series uses a shared scaler.

        In columns without any observed value a series uses the scale of all series together. `config.transform` applies
        to the targets, by position, without negative values in training.
        """
        tables = list(training.values())
        power = _power(config.transform, tables, targets)
        if not config.per_series or len(training) == 1:
            shared = Scaler.fit(config.kind, tables, power).without(codes)
            return cls(kind=config.kind, shared=shared, codes=list(codes))
        scalers = {name: Scaler.fit(config.kind, [rows], power).without(codes) for name, rows in training.items()}
        if static or any(scaler.unknown for scaler in scalers.values()):
            overall = Scaler.fit(config.kind, tables, power)
            scalers = {name: scaler.taking([*static, *scaler.unknown], overall) for name, scaler in scalers.items()}
        return cls(kind=config.kind, by_series=scalers, codes=list(codes), static=list(static))

    def of(self, name: str, rows: Table) -> Scaler:
        """The scaler of a series: the shared one, its own from training, or a new one fitted on `rows`."""
        if self.shared is not None:
            return self.shared
        if name in self.by_series:
            return self.by_series[name]
        first = self.all[0]
        scaler = Scaler.fit(self.kind, [rows], first.power).without(self.codes)
        return scaler.taking([*self.static, *scaler.unknown], first)

    @property
    def all(self) -> list[Scaler]:
        """The shared scaler, or those of the training series."""
        return [*self.by_series.values()] if self.shared is None else [self.shared]

    def constant_note(self, columns: Columns) -> str:
        """A sentence about the targets that are constant in training; empty without any."""
        phrases = []
        for target, position in zip(columns.targets, columns.positions(columns.targets), strict=True):
            if self.shared is not None:
                phrases += [target] * bool(self.shared.constant[position])
            elif names := [name for name, scaler in self.by_series.items() if scaler.constant[position]]:
                phrases.append(f"{target} of {listed(names, MOST_NAMES)}")
        how = "constant in training, so forecast as the last value, with intervals only after rows that vary"
        return f"{'; '.join(phrases)}: {how}" if phrases else ""

    def root(self, column: int) -> str:
        """Name of the root of a column that is scaled instead of its values; empty if it is the values."""
        power = self.all[0].power
        return "" if power is None else ROOTS.get(float(power[column]), "")

    def roots(self, columns: Iterable[int]) -> list[str]:
        """Names of the roots of these columns, each once; see `root`."""
        return list(dict.fromkeys(filter(None, map(self.root, columns))))

    def is_new(self, name: str) -> bool:
        """Whether training had no scaler for this series."""
        return self.shared is None and name not in self.by_series

    def state(self) -> dict[str, Any]:
        """Plain containers for a model file."""
        return self.model_dump(mode="json", exclude_none=True)


def _power(transform: Transform, tables: Sequence[Table], targets: Sequence[int]) -> Float64[np.ndarray, " c"] | None:
    """Exponent per column; None if no column is transformed."""
    power = np.ones(tables[0].shape[1])
    if transform != "none" and targets:
        low = np.min([np.fmin.reduce(table[:, list(targets)], axis=0) for table in tables if len(table)], axis=0)
        power[np.array(targets)[low >= 0]] = POWERS[transform]
    return None if (power == 1).all() else power


def powered(values: Float64[np.ndarray, "*t c"], power: np.ndarray | None) -> Float64[np.ndarray, "*t c"]:
    """sign(x) |x|^power; None: the values."""
    return values if power is None else np.copysign(np.abs(values) ** power, values)


def _fitted(kind: ScalerKind, values: Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Center and scale of each column, and which are constant.

    Moments are those of (value - low) / width: squares do not underflow or overflow, and small variations of large
    values lose no digits. Quartiles that are equal do not scale; the standard deviation is used instead.
    """
    low, high = np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)
    if (empty := np.isnan(low)).any():
        center, scale, constant = _fitted(kind, np.where(empty, 0.0, values))
        return np.where(empty, np.nan, center), np.where(empty, np.nan, scale), constant & ~empty
    constant = are_constant(low, high)
    if kind == "none":
        return np.zeros(low.size), np.ones(low.size), constant
    center, scale = np.asarray(low), np.where(constant, 1.0, high - low)
    if kind != "minmax":
        rows, width = (values - low) / scale, scale
        n = (~np.isnan(rows)).sum(axis=0)
        mean = np.nansum(rows, axis=0) / n
        deviation = np.sqrt(np.nansum(np.square(rows - mean), axis=0) / n) * width
        center, scale = low + mean * width, np.where(deviation > 0, deviation, width)  # 0 next to the smallest float
    if kind == "robust":
        first, center, last = np.nanquantile(values, (0.25, 0.5, 0.75), axis=0)
        scale = np.where(are_constant(first, last), scale, last - first)
    size = np.where(low == 0, 1.0, np.abs(low))
    return np.where(constant, low, center), np.where(constant, size, scale), constant


def standard_deviation(values: Float64[np.ndarray, " n"]) -> float:
    """Standard deviation without underflow; 0 if the values are equal up to rounding errors. NaN is ignored."""
    scaler = Scaler.fit("standard", [values[:, None]])
    return 0.0 if scaler.constant[0] else float(scaler.scale[0])


def are_constant(low: Float64[np.ndarray, " *c"], high: Float64[np.ndarray, " *c"]) -> Bool[np.ndarray, " *c"]:
    """Whether columns between these bounds are constant up to rounding errors."""
    return high - low <= ROUNDING * np.spacing(np.maximum(np.abs(low), np.abs(high)))


FEWEST_ZEROS = 0.01
"""Minimum share of zeros for a column without negative values to hold amounts, unless all are whole numbers."""


def is_amount(least: Any, n_zeros: Any, n: Any, *, whole: Any) -> Any:
    """Whether forecasts of columns are at least zero; of one column or, from arrays, of each.

    Args:
        least: smallest value.
        n_zeros, n: number of zeros and of values.
        whole: all values are whole numbers.
    """
    return (least >= 0) & (n > 0) & (whole | (n_zeros >= FEWEST_ZEROS * n))


FEWEST_WHOLES = 3
"""Minimum number of values that are the whole, besides the share FEWEST_ZEROS, for a column to hold shares."""


def is_share(least: Any, most: Any, n_most: Any, n: Any, *, whole: Any) -> Any:
    """Whether forecasts of columns are at most the whole, 100 % or 1; of one column or, from arrays, of each.

    Args:
        least, most: smallest and largest value.
        n_most, n: number of values that are the largest, and of all.
        whole: all values are whole numbers, so that 1 is a count.
    """
    is_whole = (most == 100) | ((most == 1) & ~whole)
    return (least >= 0) & is_whole & (n_most >= np.maximum(FEWEST_ZEROS * n, FEWEST_WHOLES))
