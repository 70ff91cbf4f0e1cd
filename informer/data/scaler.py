"""Scaling per column: fitted in float64 on training rows, stored as plain numbers in the checkpoint."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64

from informer.base.errors import InputError, listed, reason_of
from informer.config.data import ScalerConfig, ScalerKind, Transform
from informer.data.columns import Columns

Table = Float64[np.ndarray, "_ c"]

BLOCK = 1 << 20
"""Values read at once from tables that may be larger than memory."""

ROUNDING = 8
"""A column whose values differ by at most this many units in the last place of the largest is constant."""

MOST_NAMES = 3
"""Largest number of series named in one sentence."""

POWERS = {Transform.none: 1.0, Transform.sqrt: 0.5, Transform.fourth_root: 0.25}
ROOTS = {0.5: "square root", 0.25: "fourth root"}


@dataclass(frozen=True, slots=True)
class Scaler:
    """(sign(x) |x|^power - center) / scale per column, along the last axis.

    `constant` marks the columns that are constant in the fitted rows; their scale is the size of the constant, or 1.
    `power` is None without a transform; `untransformed_scale` is the scale of the values without it.
    """

    kind: ScalerKind
    center: Float64[np.ndarray, " c"]
    scale: Float64[np.ndarray, " c"]
    constant: Bool[np.ndarray, " c"]
    power: Float64[np.ndarray, " c"] | None = None
    untransformed_scale: Float64[np.ndarray, " c"] | None = None

    @classmethod
    def fit(cls, kind: ScalerKind, tables: Sequence[Table], power: Float64[np.ndarray, " c"] | None = None) -> "Scaler":
        """Fit on the rows of these tables, transformed if there is a power; see `_fit`."""
        plain = cls._fit(kind, tables)
        if power is None:
            return plain
        scaler = cls._fit(kind, [powered(table, power) for table in tables])
        return replace(scaler, power=power, untransformed_scale=plain.scale)

    @classmethod
    def _fit(cls, kind: ScalerKind, tables: Sequence[Table]) -> "Scaler":
        """Fit on the rows of these tables, which may be memory maps and are read in blocks.

        Missing values (NaN) are ignored; a column without any value gets NaN as center and scale.
        """
        bounds = [(block.min(axis=0), block.max(axis=0)) for block in _blocks(tables)]  # NaN for a column with gaps
        low, high = np.min([low for low, _ in bounds], axis=0), np.max([high for _, high in bounds], axis=0)
        if np.isnan(low).any():
            return cls._fit_observed(kind, tables, np.isnan(low))
        constant = are_constant(low, high)
        if kind is ScalerKind.none:
            return cls(kind, np.zeros(low.size), np.ones(low.size), constant)
        center, scale = _fitted(kind, tables, low, np.where(constant, 1.0, high - low))
        size = np.where(low == 0, 1.0, np.abs(low))
        return cls(kind, np.where(constant, low, center), np.where(constant, size, scale), constant)

    @classmethod
    def _fit_observed(cls, kind: ScalerKind, tables: Sequence[Table], gaps: Bool[np.ndarray, " c"]) -> "Scaler":
        """Fit columns with gaps one at a time, on their observed values."""
        scaler = cls(kind, np.full(gaps.size, np.nan), np.full(gaps.size, np.nan), np.zeros(gaps.size, dtype=bool))
        groups = [np.flatnonzero(~gaps), *np.flatnonzero(gaps)[:, None]]
        for group in filter(len, groups):
            selected = [table[:, group] for table in tables]
            selected = [rows[~np.isnan(rows).any(axis=1)] for rows in selected]
            if any(map(len, selected)):
                fitted = cls._fit(kind, selected)
                for name in ("center", "scale", "constant"):
                    getattr(scaler, name)[group] = getattr(fitted, name)
        return scaler

    @property
    def unknown(self) -> list[int]:
        """Columns without any observed value."""
        return [int(position) for position in np.flatnonzero(np.isnan(self.center))]

    def transform(self, values: Float64[np.ndarray, "*t c"]) -> Float64[np.ndarray, "*t c"]:
        """Data units to scaled units."""
        return (powered(values, self.power) - self.center) / self.scale

    def standard(self, values: Float64[np.ndarray, "*t c"]) -> Float64[np.ndarray, "*t c"]:
        """Data units to scaled units without the transform, up to a constant; see `DataUnits.standard`."""
        return self.transform(values) if self.untransformed_scale is None else values / self.untransformed_scale

    def without(self, columns: Sequence[int]) -> "Scaler":
        """A copy that does not scale these columns."""
        own = ~np.isin(np.arange(self.center.size), columns)
        center, scale = np.where(own, self.center, 0.0), np.where(own, self.scale, 1.0)
        return replace(self, center=center, scale=scale, constant=self.constant & own)

    def taking(self, columns: Sequence[int], scaler: "Scaler") -> "Scaler":
        """A copy that scales these columns as `scaler` does."""
        names = ["center", "scale", "constant", *(["untransformed_scale"] if self.power is not None else [])]
        taken = np.isin(np.arange(self.center.size), columns)
        arrays = {name: np.where(taken, getattr(scaler, name), getattr(self, name)) for name in names}
        return replace(self, **arrays)

    def state(self) -> dict[str, Any]:
        """Plain lists for a checkpoint."""
        arrays = {"center": self.center, "scale": self.scale, "power": self.power, "plain": self.untransformed_scale}
        return {
            "kind": self.kind.value,
            **{name: array.tolist() for name, array in arrays.items() if array is not None},
            **({"constant": np.flatnonzero(self.constant).tolist()} if self.constant.any() else {}),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Scaler":
        """The inverse of `state`.

        Raises:
            InputError: invalid content, or values that are not finite.
        """
        try:
            kind, center, scale = ScalerKind(state["kind"]), _numbers(state["center"]), _numbers(state["scale"])
            constant = np.isin(np.arange(center.size), _numbers(state.get("constant", [])))
            power, plain = (_numbers(state[name]) if "power" in state else None for name in ("power", "plain"))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"checkpoint: scaler: expected kind, center and scale, found {reason_of(error)}"
            ) from error
        if not (np.isfinite(center).all() and np.isfinite(scale).all() and (scale > 0).all()):
            raise InputError("checkpoint: scaler: expected finite centers and scales above 0, found others")
        if power is not None and plain is not None:
            is_known = power.size == plain.size == center.size and np.isin(power, list(POWERS.values())).all()
            if not (is_known and np.isfinite(plain).all() and (plain > 0).all()):
                raise InputError(
                    f"checkpoint: scaler: expected a power among {sorted(POWERS.values())} and a finite plain scale "
                    "above 0 for each column, found others"
                )
        return cls(kind, center, scale, constant, power, plain)


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelScaler:
    """One scaler for all series, or one per series.

    Args:
        kind: kind of every scaler.
        shared: the scaler for all series; None if each series has its own.
        by_series: the scalers of the training series, by name.
        codes: positions of the categorical columns, whose codes are not scaled.
        static: positions of the columns that are constant within a series; they use the scale of all series together.
    """

    kind: ScalerKind
    shared: Scaler | None = None
    by_series: Mapping[str, Scaler] = field(default_factory=dict)
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
            return cls(kind=config.kind, shared=shared, codes=codes)
        scalers = {name: Scaler.fit(config.kind, [rows], power).without(codes) for name, rows in training.items()}
        if static or any(scaler.unknown for scaler in scalers.values()):
            overall = Scaler.fit(config.kind, tables, power)
            scalers = {name: scaler.taking([*static, *scaler.unknown], overall) for name, scaler in scalers.items()}
        return cls(kind=config.kind, by_series=scalers, codes=codes, static=static)

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
        """Plain containers for a checkpoint."""
        return {
            "kind": self.kind.value,
            "shared": self.shared and self.shared.state(),
            "own": {name: scaler.state() for name, scaler in self.by_series.items()},
            **({"codes": [*self.codes]} if self.codes else {}),
            **({"static": [*self.static]} if self.static else {}),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "PanelScaler":
        """The inverse of `state`.

        Raises:
            InputError: the state is not valid.
        """
        try:
            kind, shared, scalers = ScalerKind(state["kind"]), state["shared"], dict(state["own"])
            codes, static = ([int(position) for position in state.get(name, [])] for name in ("codes", "static"))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"checkpoint: scaler: expected kind, shared and own, found {reason_of(error)}") from error
        if (shared is None) != bool(scalers) or not all(
            isinstance(entry, dict) for entry in [shared or {}, *scalers.values()]
        ):
            raise InputError("checkpoint: scaler: expected one that is shared, or one for each series")
        restored = cls(
            kind=kind,
            shared=None if shared is None else Scaler.from_state(shared),
            by_series={str(name): Scaler.from_state(entry) for name, entry in scalers.items()},
            codes=codes,
            static=static,
        )
        n_columns = len(restored.all[0].center)
        if not all(0 <= position < n_columns for position in (*codes, *static)):
            raise InputError(f"checkpoint: scaler: expected places below {n_columns}, found {[*codes, *static]}")
        for scaler in restored.all:
            # the number of columns is checked elsewhere
            positions = [position for position in codes if position < scaler.center.size]
            if (scaler.center[positions] != 0).any() or (scaler.scale[positions] != 1).any():
                raise InputError("checkpoint: scaler: expected the numbers of categories unscaled, found them scaled")
        return restored


def _power(transform: Transform, tables: Sequence[Table], targets: Sequence[int]) -> Float64[np.ndarray, " c"] | None:
    """Exponent per column; None if no column is transformed."""
    power = np.ones(tables[0].shape[1])
    if transform is not Transform.none and targets:
        low = np.min([np.fmin.reduce(table[:, list(targets)], axis=0) for table in tables if len(table)], axis=0)
        power[np.array(targets)[low >= 0]] = POWERS[transform]
    return None if (power == 1).all() else power


def powered(values: Float64[np.ndarray, "*t c"], power: np.ndarray | None) -> Float64[np.ndarray, "*t c"]:
    """sign(x) |x|^power; None: the values."""
    return values if power is None else np.copysign(np.abs(values) ** power, values)


def _numbers(values: Any) -> Float64[np.ndarray, " c"]:
    """A list of numbers as an array; strings and booleans are refused."""
    if not isinstance(values, list) or not all(type(value) in (int, float) for value in values):
        raise TypeError("no list of numbers")
    return np.asarray(values, dtype=np.float64)


def _fitted(
    kind: ScalerKind, tables: Sequence[Table], low: Float64[np.ndarray, " c"], width: Float64[np.ndarray, " c"]
) -> tuple[Float64[np.ndarray, " c"], Float64[np.ndarray, " c"]]:
    """Center and scale of each column with values from low to low + width.

    Moments are those of (value - low) / width: squares do not underflow or overflow, and small variations of large
    values lose no digits. Quartiles that are equal do not scale; the standard deviation is used instead.
    """
    if kind is ScalerKind.minmax:
        return low, width
    if kind is ScalerKind.robust:  # quantiles need all rows, so one column at a time
        columns = (np.concatenate([table[:, column] for table in tables]) for column in range(len(low)))
        quartiles = np.stack([np.quantile(column, (0.25, 0.5, 0.75)) for column in columns], axis=1)
        scale = quartiles[2] - quartiles[0]
        if (equal := are_constant(quartiles[0], quartiles[2])).any():
            scale[equal] = _fitted(ScalerKind.standard, tables, low, width)[1][equal]
        return quartiles[1], scale
    n, mean, squares = 0, np.zeros(len(low)), np.zeros(len(low))
    for block in _blocks(tables):
        rows = (block - low) / width
        rows_mean = rows.mean(axis=0)
        # moments of two parts together: Chan, Golub and LeVeque, "Updating formulae", 1979
        share = len(rows) / (n + len(rows))
        squares += np.square(rows - rows_mean).sum(axis=0) + np.square(rows_mean - mean) * n * share
        mean += (rows_mean - mean) * share
        n += len(rows)
    scale = np.sqrt(squares / n) * width
    return low + mean * width, np.where(scale > 0, scale, width)  # 0 next to the smallest float


def standard_deviation(values: Float64[np.ndarray, " n"]) -> float:
    """Standard deviation without underflow; 0 if the values are equal up to rounding errors. NaN is ignored."""
    scaler = Scaler.fit(ScalerKind.standard, [values[:, None]])
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


def _blocks(tables: Sequence[Table]) -> Iterator[Table]:
    """Rows of all tables in blocks of at most BLOCK values, combining small tables.

    The blocks do not depend on how rows are divided into tables, because sums over blocks differ in the last digit.
    """
    most = max(1, BLOCK // max(1, tables[0].shape[1]))
    gathered: list[Table] = []
    n_rows = 0
    for table in tables:
        for begin in range(0, len(table), most):
            rows = table[begin : begin + most]
            if n_rows + len(rows) > most:
                yield np.ascontiguousarray(np.concatenate(gathered))
                gathered, n_rows = [], 0
            gathered.append(rows)
            n_rows += len(rows)
    yield np.ascontiguousarray(np.concatenate(gathered))
