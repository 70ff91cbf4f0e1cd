"""Scaling per column: fitted by scikit-learn on training rows, stored as plain numbers in the checkpoint."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64

from informer.config.dataset import ScalerConfig, ScalerKind
from informer.errors import InputError, reason_of

Table = Float64[np.ndarray, "_ c"]

Units = Int64[np.ndarray, "c"]

SMALL = 1e-6
"""Columns whose values are all smaller than this are fitted in units of a power of two."""

BLOCK = 1 << 22
"""Values read at once from tables that may be larger than memory."""


@dataclass(frozen=True, slots=True)
class Scaler:
    """(x - center) / scale per column, along the last axis. A constant column has scale 1."""

    kind: ScalerKind
    center: Float64[np.ndarray, "c"]
    scale: Float64[np.ndarray, "c"]

    @classmethod
    def fit(cls, kind: ScalerKind, tables: Sequence[Table]) -> "Scaler":
        """Fit on the rows of these tables, which may be memory maps and are read in blocks.

        Columns with only small values are fitted in units of a power of two, which is exact: squares of 1e-300
        underflow, and scikit-learn treats a range below 1e-15 as rounding error. Missing values (NaN) are ignored; a
        column without any value gets NaN as center and scale.
        """
        n_columns = tables[0].shape[1]
        if kind is ScalerKind.none:
            return cls(kind, np.zeros(n_columns), np.ones(n_columns))
        low, high = _bounds(tables)
        if np.isnan(low).any():
            return cls._fit_observed(kind, tables, np.isnan(low))
        units = _units(low, high)
        center, scale = _fitted(kind, tables, units)
        if units.any():
            center, scale = np.ldexp(center, -units), np.ldexp(scale, -units)
            scale = np.where(scale > 0, scale, 1.0)
        return cls(kind, center, scale)

    @classmethod
    def _fit_observed(cls, kind: ScalerKind, tables: Sequence[Table], gaps: Bool[np.ndarray, "c"]) -> "Scaler":
        """Fit columns with gaps one at a time, on their observed values."""
        found = cls(kind, np.full(len(gaps), np.nan), np.full(len(gaps), np.nan))
        groups = [np.flatnonzero(~gaps), *np.flatnonzero(gaps)[:, None]]
        for group in filter(len, groups):
            own = [table[:, group] for table in tables]
            own = [rows[~np.isnan(rows).any(axis=1)] for rows in own]
            if any(map(len, own)):
                part = cls.fit(kind, own)
                found.center[group], found.scale[group] = part.center, part.scale
        return found

    @property
    def unknown(self) -> list[int]:
        """Columns without any observed value."""
        return [int(place) for place in np.flatnonzero(np.isnan(self.center))]

    def transform(self, values: Float64[np.ndarray, "*t c"]) -> Float64[np.ndarray, "*t c"]:
        """Data units to scaled units."""
        return (values - self.center) / self.scale

    def inverse(self, values: Float64[np.ndarray, "*t c"]) -> Float64[np.ndarray, "*t c"]:
        """Scaled units to data units."""
        return values * self.scale + self.center

    def without(self, columns: Sequence[int]) -> "Scaler":
        """A copy that does not scale these columns."""
        center, scale = self.center.copy(), self.scale.copy()
        center[list(columns)], scale[list(columns)] = 0.0, 1.0
        return replace(self, center=center, scale=scale)

    def taking(self, columns: Sequence[int], other: "Scaler") -> "Scaler":
        """A copy that scales these columns as `other` does."""
        center, scale, own = self.center.copy(), self.scale.copy(), list(columns)
        center[own], scale[own] = other.center[own], other.scale[own]
        return replace(self, center=center, scale=scale)

    def state(self) -> dict[str, Any]:
        """Plain lists for a checkpoint."""
        return {"kind": self.kind.value, "center": self.center.tolist(), "scale": self.scale.tolist()}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Scaler":
        """The inverse of `state`.

        Raises:
            InputError: invalid content, or values that are not finite.
        """
        try:
            kind, (center, scale) = ScalerKind(state["kind"]), (_numbers(state[name]) for name in ("center", "scale"))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"checkpoint: scaler: expected kind, center and scale, found {reason_of(error)}"
            ) from error
        if not (np.isfinite(center).all() and np.isfinite(scale).all() and (scale > 0).all()):
            raise InputError("checkpoint: scaler: expected finite centers and scales above 0, found others")
        return cls(kind, center, scale)


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelScaler:
    """One scaler for all series, or one per series.

    Args:
        kind: kind of every scaler.
        shared: the scaler for all series; None if each series has its own.
        own: the scalers of the training series, by name.
        codes: positions of the categorical columns, whose codes are not scaled.
        static: positions of the columns that are constant within a series; they use the scale of all series together.
    """

    kind: ScalerKind
    shared: Scaler | None = None
    own: Mapping[str, Scaler] = field(default_factory=dict)
    codes: Sequence[int] = ()
    static: Sequence[int] = ()

    @classmethod
    def fit(
        cls,
        config: ScalerConfig,
        training: Mapping[str, Table],
        *,
        codes: Sequence[int] = (),
        static: Sequence[int] = (),
    ) -> "PanelScaler":
        """Fit on the training rows of each series, by name; a single series uses a shared scaler.

        In columns without any observed value a series uses the scale of all series together.
        """
        if not config.per_series or len(training) == 1:
            shared = Scaler.fit(config.kind, list(training.values())).without(codes)
            return cls(kind=config.kind, shared=shared, codes=codes)
        own = {name: Scaler.fit(config.kind, [rows]).without(codes) for name, rows in training.items()}
        if static or any(scaler.unknown for scaler in own.values()):
            whole = Scaler.fit(config.kind, list(training.values()))
            own = {name: scaler.taking([*static, *scaler.unknown], whole) for name, scaler in own.items()}
        return cls(kind=config.kind, own=own, codes=codes, static=static)

    def of(self, name: str, rows: Table) -> Scaler:
        """The scaler of a series: the shared one, its own from training, or a new one fitted on `rows`."""
        if self.shared is not None:
            return self.shared
        if name in self.own:
            return self.own[name]
        known = next(iter(self.own.values()))
        found = Scaler.fit(self.kind, [rows]).without(self.codes)
        return found.taking([*self.static, *found.unknown], known)

    def is_new(self, name: str) -> bool:
        """Whether training had no scaler for this series."""
        return self.shared is None and name not in self.own

    def state(self) -> dict[str, Any]:
        """Plain containers for a checkpoint."""
        return {
            "kind": self.kind.value,
            "shared": self.shared and self.shared.state(),
            "own": {name: scaler.state() for name, scaler in self.own.items()},
            **{name: list(own) for name, own in (("codes", self.codes), ("static", self.static)) if own},
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "PanelScaler":
        """The inverse of `state`.

        Raises:
            InputError: the state is not valid.
        """
        try:
            kind, shared, own = ScalerKind(state["kind"]), state["shared"], dict(state["own"])
            codes, static = ([int(place) for place in state.get(name, [])] for name in ("codes", "static"))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"checkpoint: scaler: expected kind, shared and own, found {reason_of(error)}") from error
        if (shared is None) != bool(own) or not all(isinstance(one, dict) for one in [shared or {}, *own.values()]):
            raise InputError("checkpoint: scaler: expected one that is shared, or one for each series")
        found = cls(
            kind=kind,
            shared=None if shared is None else Scaler.from_state(shared),
            own={str(name): Scaler.from_state(one) for name, one in own.items()},
            codes=codes,
            static=static,
        )
        n_columns = len((found.shared or next(iter(found.own.values()))).center)
        if not all(0 <= place < n_columns for place in (*codes, *static)):
            raise InputError(f"checkpoint: scaler: expected places below {n_columns}, found {[*codes, *static]}")
        for one in [*([found.shared] if found.shared else []), *found.own.values()]:
            places = [place for place in codes if place < one.center.size]  # the number of columns is checked elsewhere
            if (one.center[places] != 0).any() or (one.scale[places] != 1).any():
                raise InputError("checkpoint: scaler: expected the numbers of categories unscaled, found them scaled")
        return found


def _numbers(values: Any) -> Float64[np.ndarray, "c"]:
    """A list of numbers as an array; strings and booleans are refused."""
    if not isinstance(values, list) or not all(type(value) in (int, float) for value in values):
        raise TypeError("no list of numbers")
    return np.asarray(values, dtype=np.float64)


def _fitted(kind: ScalerKind, tables: Sequence[Table], units: Units) -> tuple[np.ndarray, np.ndarray]:
    """Center and scale of each column, fitted by scikit-learn in these units."""
    # imported here because scikit-learn is slow to import and prediction does not fit scalers
    from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

    if kind is ScalerKind.standard:
        standard = StandardScaler()
        for block in _blocks(tables, units):
            standard.partial_fit(block)
        return standard.mean_, standard.scale_
    if kind is ScalerKind.minmax:
        minmax = MinMaxScaler()
        for block in _blocks(tables, units):
            minmax.partial_fit(block)
        return minmax.data_min_, 1.0 / minmax.scale_
    # quantiles need all rows, so fit one column at a time
    robust = [
        RobustScaler().fit(np.ldexp(np.concatenate([table[:, [column]] for table in tables]), unit))
        for column, unit in enumerate(units)
    ]
    return np.concatenate([one.center_ for one in robust]), np.concatenate([one.scale_ for one in robust])


def _bounds(tables: Sequence[Table]) -> tuple[Float64[np.ndarray, "c"], Float64[np.ndarray, "c"]]:
    """The smallest and the largest value of each column; NaN for a column with gaps."""
    bounds = [(block.min(axis=0), block.max(axis=0)) for block in _blocks(tables)]
    return np.min([one for one, _ in bounds], axis=0), np.max([one for _, one in bounds], axis=0)


def _units(low: Float64[np.ndarray, "c"], high: Float64[np.ndarray, "c"]) -> Units:
    """The power of two that scales a column's largest value to about 1; 0 for usual sizes, or a single value."""
    largest = np.maximum(np.abs(low), np.abs(high))
    return np.where((low < high) & (largest < SMALL), -np.frexp(largest)[1], 0).astype(np.int64)


def _blocks(tables: Sequence[Table], units: Units | None = None) -> Iterator[Table]:
    """Rows of all tables in blocks of at most BLOCK values, combining small tables; in these units.

    The blocks do not depend on how rows are divided into tables, because sums over blocks differ in the last digit.
    """
    whole = _whole_blocks(tables, max(1, BLOCK // max(1, tables[0].shape[1])))
    yield from whole if units is None or not units.any() else (np.ldexp(block, units) for block in whole)


def _whole_blocks(tables: Sequence[Table], most: int) -> Iterator[Table]:
    gathered: list[Table] = []
    n_rows = 0
    for table in tables:
        for begin in range(0, len(table), most):
            piece = table[begin : begin + most]
            if n_rows + len(piece) > most:
                yield np.ascontiguousarray(np.concatenate(gathered))
                gathered, n_rows = [], 0
            gathered.append(piece)
            n_rows += len(piece)
    yield np.ascontiguousarray(np.concatenate(gathered))
