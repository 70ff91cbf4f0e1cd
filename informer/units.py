"""Conversion of scaled values to data units, with or without a power transform."""

from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor


class Units(NamedTuple):
    """How the scaled targets of each window convert to data units: u = scaled * scale + center, then sign(u) |u|^(1/p).

    Args:
        center, scale: center and scale of the scaler, per window and target.
        power: exponent p of the transform that values had before they were scaled; None: no transform.
        untransformed_scale: scale of the values without the transform; None with `power=None`, where it is `scale`.
        constant: targets that are constant in training, which a model forecasts as their last value, without quantiles
            and, until they vary, without intervals; None: none.
    """

    center: Float64[Tensor, "b n"]
    scale: Float64[Tensor, "b n"]
    power: Float64[Tensor, "b n"] | None = None
    untransformed_scale: Float64[Tensor, "b n"] | None = None
    constant: Bool[Tensor, "b n"] | None = None

    def unscaled(self, scaled: Float[Tensor, "b h n"]) -> Float64[Tensor, "b h n"]:
        """Values before scaling, still transformed."""
        return scaled.to(self.scale.device).double() * self.scale[:, None] + self.center[:, None]

    def untransformed(self, unscaled: Float64[Tensor, "b h n"]) -> Float64[Tensor, "b h n"]:
        """Values in data units, from those of `unscaled`."""
        return unscaled if self.power is None else signed_power(unscaled, 1 / self.power[:, None])

    def original(self, scaled: Float[Tensor, "b h n"]) -> Float64[Tensor, "b h n"]:
        """Values in data units."""
        return self.untransformed(self.unscaled(scaled))

    def standard(self, scaled: Float[Tensor, "b h n"]) -> Float[Tensor, "b h n"]:
        """Values whose differences are in scaled units without the transform, so that errors of models with and without
        one compare. Unchanged if there is no transform; otherwise data units divided by `untransformed_scale`."""
        return scaled if self.untransformed_scale is None else self.original(scaled) / self.untransformed_scale[:, None]

    def split(self, n_windows: int) -> Iterator["Units"]:
        """Units of consecutive windows, `n_windows` at a time."""
        for begin in range(0, len(self.scale), n_windows):
            yield self.mapped(itemgetter(slice(begin, begin + n_windows)))

    def mapped(self, change: Callable[[Tensor], Tensor]) -> "Units":
        """Units with every part changed by the same function."""
        return Units(*(None if tensor is None else change(tensor) for tensor in self))  # type: ignore[arg-type]


def signed_power(values: Float[Tensor, "*t n"], power: Float64[Tensor, "*#t n"]) -> Float[Tensor, "*t n"]:
    """sign(x) |x|^p: increasing and odd; p < 1 stabilises a variance that grows with the level."""
    return torch.copysign(values.abs() ** power, values)
