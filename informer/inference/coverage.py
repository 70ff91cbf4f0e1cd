"""How often what came lies inside an interval, and how wide the interval is, over many windows."""

from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from informer.metrics import Scores


@final
class IntervalSums:
    """Running sums per step and column for one kind of interval; widths in scaled units."""

    def __init__(self) -> None:
        self.windows = 0
        self._sums: Tensor | None = None

    def add(self, inside: Bool[Tensor, "b pred_len n"], width: Float[Tensor, "*b pred_len n"]) -> None:
        """Count the windows of one batch."""
        sums = torch.stack([inside.double().sum(dim=0), width.double().expand(inside.shape).sum(dim=0)]).cpu()
        self._sums = sums if self._sums is None else self._sums + sums
        self.windows += len(inside)

    def overall(self) -> dict[str, float]:
        """Coverage in percent and mean width over all steps and columns."""
        return {name: values[0] for name, values in self._mean(-2, -1).items()}

    def by_step(self) -> Scores:
        """The same per step."""
        return self._mean(-1)

    def by_column(self) -> Scores:
        """The same per column."""
        return self._mean(-2)

    def _mean(self, *axes: int) -> Scores:
        assert self._sums is not None
        covered, width = self._sums.mean(dim=axes) / self.windows
        return {"coverage": (100 * covered).flatten().tolist(), "width": width.flatten().tolist()}
