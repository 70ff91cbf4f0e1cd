"""Scaling per column: fitted by scikit-learn on training rows, then plain numbers that travel in a checkpoint."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float64
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler
from torch import Tensor

Array = TypeVar("Array", np.ndarray, Tensor)


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


@dataclass(frozen=True, slots=True)
class Scaler:
    """(x - center) / scale for each column, the last axis of what it is given. A constant column keeps scale 1."""

    kind: ScalerKind
    center: Float64[np.ndarray, "c"]
    scale: Float64[np.ndarray, "c"]

    @classmethod
    def fit(cls, kind: ScalerKind, values: Float64[np.ndarray, "t c"]) -> "Scaler":
        """Fit on training rows."""
        if kind is ScalerKind.standard:
            standard = StandardScaler().fit(values)
            return cls(kind, standard.mean_, standard.scale_)
        if kind is ScalerKind.minmax:
            minmax = MinMaxScaler().fit(values)
            return cls(kind, minmax.data_min_, 1.0 / minmax.scale_)
        if kind is ScalerKind.robust:
            robust = RobustScaler().fit(values)
            return cls(kind, robust.center_, robust.scale_)
        return cls(kind, np.zeros(values.shape[1]), np.ones(values.shape[1]))

    def transform(self, values: Array) -> Array:
        """Data units to scaled units, [... c]."""
        center, scale = self._like(values)
        return (values - center) / scale

    def inverse(self, values: Array) -> Array:
        """Scaled units to data units, [... c]."""
        center, scale = self._like(values)
        return values * scale + center

    def select(self, columns: Sequence[int]) -> "Scaler":
        """The same scaler for some of its columns."""
        chosen = list(columns)
        return type(self)(self.kind, self.center[chosen], self.scale[chosen])

    def state(self) -> dict[str, Any]:
        """Plain lists, for a checkpoint."""
        return {"kind": self.kind.value, "center": self.center.tolist(), "scale": self.scale.tolist()}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Scaler":
        """What `state` gave."""
        center, scale = (np.asarray(state[name], dtype=np.float64) for name in ("center", "scale"))
        return cls(ScalerKind(state["kind"]), center, scale)

    def _like(self, values: Array) -> tuple[Any, Any]:
        if isinstance(values, Tensor):
            return tuple(torch.as_tensor(part).to(values) for part in (self.center, self.scale))  # type: ignore[return-value]
        return self.center, self.scale
