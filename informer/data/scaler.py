"""Scaling per column: fitted by scikit-learn on training rows, then plain numbers that travel in a checkpoint."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
from jaxtyping import Float64
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

Table = Float64[np.ndarray, "_ c"]

BLOCK = 1 << 22
"""Values that are read at once of tables that may be larger than memory."""


class ScalerKind(Enum):
    """standard: mean 0, deviation 1; minmax: 0 to 1; robust: median 0, interquartile range 1; none: as they are."""

    standard = "standard"
    minmax = "minmax"
    robust = "robust"
    none = "none"


@dataclass(kw_only=True, slots=True)
class ScalerConfig:
    """The node `scaler`."""

    kind: ScalerKind = ScalerKind.standard
    per_series: bool = False
    """Scale each series by its own training rows instead of all by those of all series."""


@dataclass(frozen=True, slots=True)
class Scaler:
    """(x - center) / scale for each column, the last axis of what it is given. A constant column keeps scale 1."""

    kind: ScalerKind
    center: Float64[np.ndarray, "c"]
    scale: Float64[np.ndarray, "c"]

    @classmethod
    def fit(cls, kind: ScalerKind, tables: Sequence[Table]) -> "Scaler":
        """Fit on the rows of these tables, which may be maps of files: they are read block by block."""
        if kind is ScalerKind.standard:
            standard = StandardScaler()
            for block in _blocks(tables):
                standard.partial_fit(block)
            return cls(kind, standard.mean_, standard.scale_)
        if kind is ScalerKind.minmax:
            minmax = MinMaxScaler()
            for block in _blocks(tables):
                minmax.partial_fit(block)
            return cls(kind, minmax.data_min_, 1.0 / minmax.scale_)
        n_columns = tables[0].shape[1]
        if kind is ScalerKind.robust:
            # quantiles need all rows: one column at a time
            robust = [
                RobustScaler().fit(np.concatenate([table[:, [column]] for table in tables]))
                for column in range(n_columns)
            ]
            return cls(
                kind, *(np.concatenate([getattr(one, part) for one in robust]) for part in ("center_", "scale_"))
            )
        return cls(kind, np.zeros(n_columns), np.ones(n_columns))

    def transform(self, values: Float64[np.ndarray, "*t c"]) -> Float64[np.ndarray, "*t c"]:
        """Data units to scaled units."""
        return (values - self.center) / self.scale

    def inverse(self, values: Float64[np.ndarray, "*t c"]) -> Float64[np.ndarray, "*t c"]:
        """Scaled units to data units."""
        return values * self.scale + self.center

    def state(self) -> dict[str, Any]:
        """Plain lists, for a checkpoint."""
        return {"kind": self.kind.value, "center": self.center.tolist(), "scale": self.scale.tolist()}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Scaler":
        """What `state` gave."""
        center, scale = (np.asarray(state[name], dtype=np.float64) for name in ("center", "scale"))
        return cls(ScalerKind(state["kind"]), center, scale)


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelScaler:
    """One scaler for all series, or one for each.

    Args:
        kind: of every scaler.
        shared: the one for all series; None where each has its own.
        own: those of the series of training, by name.
    """

    kind: ScalerKind
    shared: Scaler | None = None
    own: Mapping[str, Scaler] = field(default_factory=dict)

    @classmethod
    def fit(cls, config: ScalerConfig, training: Mapping[str, Table]) -> "PanelScaler":
        """Fit on the training rows of each series, by name; a series alone is all series."""
        if config.per_series and len(training) > 1:
            own = {name: Scaler.fit(config.kind, [rows]) for name, rows in training.items()}
            return cls(kind=config.kind, own=own)
        return cls(kind=config.kind, shared=Scaler.fit(config.kind, list(training.values())))

    def of(self, name: str, rows: Table) -> Scaler:
        """The scaler of a series: the shared one, its own of training, else one fitted on `rows`."""
        if self.shared is not None:
            return self.shared
        return self.own[name] if name in self.own else Scaler.fit(self.kind, [rows])

    def is_new(self, name: str) -> bool:
        """A series for which training made no scaler."""
        return self.shared is None and name not in self.own

    def state(self) -> dict[str, Any]:
        """Plain containers, for a checkpoint."""
        return {
            "kind": self.kind.value,
            "shared": self.shared and self.shared.state(),
            "own": {name: scaler.state() for name, scaler in self.own.items()},
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "PanelScaler":
        """What `state` gave."""
        return cls(
            kind=ScalerKind(state["kind"]),
            shared=state["shared"] and Scaler.from_state(state["shared"]),
            own={name: Scaler.from_state(one) for name, one in state["own"].items()},
        )


def _blocks(tables: Sequence[Table]) -> Iterator[Table]:
    """The rows of all tables in blocks of BLOCK values or less, where small tables share one.

    They are laid out alike whatever the tables are, because sums depend on it in their last digit.
    """
    most = max(1, BLOCK // max(1, tables[0].shape[1]))
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
