"""Fitted linear maps as a torch module."""

from collections.abc import Mapping, Sequence
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from informer.config.model import CalendarEmbed
from informer.linear.features import OriginFeatures
from informer.linear.strengths import Strengths


@final
class LinearForecast(nn.Module):
    """forecast = last + weight^T (history - last) + level mean(history) + extra^T features, for each column.

    Args:
        positions: columns to forecast.
        features: features of a window at its last row.
        weight: one map shared by all columns, one per column, or with `by_series` the shared map followed by one per
            series and column.
        level: weights of the mean of the history.
        extra: weights of the features.
        by_series: maps are separate for each series; the shared one is for new series.
        chosen: strengths of the maps that were averaged.
        note: description of the fit.
    """

    weight: Tensor
    level: Tensor
    extra: Tensor

    def __init__(
        self,
        *,
        positions: Sequence[int],
        features: OriginFeatures,
        weight: Float[Tensor, "maps seq_len pred_len"],
        level: Float[Tensor, "maps pred_len"],
        extra: Float[Tensor, "maps e pred_len"],
        by_series: bool = False,
        chosen: Sequence[Strengths] = (),
        note: str = "",
    ) -> None:
        super().__init__()
        self.positions, self.features, self.by_series = tuple(positions), features, by_series
        self.chosen, self.note = tuple(chosen), note
        for name, buffer in (("weight", weight), ("level", level), ("extra", extra)):
            self.register_buffer(name, buffer)

    def to_plain(self) -> dict[str, object]:
        """Plain values from which `from_plain` makes a module of the same shape."""
        return {
            "positions": list(self.positions),
            **self.features.to_plain(),
            "by_series": self.by_series,
            "shape": list(self.weight.shape),
            "note": self.note,
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "LinearForecast":
        """A module with the shape of `to_plain` and zero weights, for `load_state_dict`."""
        features = OriginFeatures(
            plain["n_columns"],
            plain["recent"],
            tuple(plain["cycles"]),
            tuple(plain["fields"]),
            CalendarEmbed(plain["kind"]),
            tuple(plain["left_out"]),
        )
        maps, seq_len, pred_len = plain["shape"]
        return cls(
            positions=plain["positions"],
            features=features,
            weight=torch.zeros(maps, seq_len, pred_len),
            level=torch.zeros(maps, pred_len),
            extra=torch.zeros(maps, len(features.groups), pred_len),
            by_series=plain["by_series"],
            note=plain["note"],
        )

    def forward(
        self,
        history: Float[Tensor, "b seq_len c"],
        mark: Float[Tensor, "b m"],
        series: Int[Tensor, "b"] | None = None,
    ) -> Float[Tensor, "b pred_len n"]:
        """Forecast in scaled units.

        Args:
            history: history of all columns.
            mark: calendar marks of its last row.
            series: index of each window's series among those fitted, -1 for a new one; None: all new.
        """
        target_history = history[:, :, list(self.positions)]
        last, mean = target_history[:, -1:], target_history.mean(dim=1)
        rows = (target_history - last).transpose(1, 2)
        features = self.features(history, mark)
        if self.by_series:
            return self._of_series(rows, mean, features, series).transpose(1, 2) + last
        if len(self.weight) == 1:
            forecast = rows @ self.weight[0] + mean[..., None] * self.level[0] + (features @ self.extra[0])[:, None]
        else:
            forecast = torch.einsum("bnl,nlh->bnh", rows, self.weight) + mean[..., None] * self.level
            forecast = forecast + torch.einsum("be,neh->bnh", features, self.extra)
        return forecast.transpose(1, 2) + last

    def _of_series(self, rows: Tensor, mean: Tensor, features: Tensor, series: Tensor | None) -> Tensor:
        """Forecast with separate maps: map 0 is shared, then n maps per series."""
        n = len(self.positions)
        if series is None:
            maps = torch.zeros(len(rows), n, dtype=torch.long, device=rows.device)
        else:
            maps = (1 + series[:, None] * n + torch.arange(n, device=rows.device)).masked_fill(series[:, None] < 0, 0)
        out = []
        # one window at a time, since indexing the maps for a batch would copy them
        for window, window_maps in enumerate(maps):
            out.append(
                torch.stack(
                    [
                        rows[window, i] @ self.weight[m]
                        + mean[window, i] * self.level[m]
                        + features[window] @ self.extra[m]
                        for i, m in enumerate(window_maps)
                    ]
                )
            )
        return torch.stack(out)
