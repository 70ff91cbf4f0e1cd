"""Linear maps from the lookback window to the horizon; `informer.members.linear` fits them in closed form."""

from typing import final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from informer.members.effects import KnownEffects
from informer.networks.models.base import DecMarks, DecValues, EncMarks, EncValues, ModelDims
from informer.networks.ops.gaps import unmasked
from informer.networks.ops.products import linear

MOST_WEIGHTS, MOST_FLOPS = 64_000_000, 2e12
"""Largest number of weights of separate maps, and cost of solving for them; beyond these all columns share one map."""

LEAST_NEWEST, MOST_NEWEST, MOST_OTHERS = 4, 24, 384
"""How many of the newest rows of other columns a map reads: at most MOST_NEWEST, and at most MOST_OTHERS rows times
columns; none if fewer than LEAST_NEWEST remain. Both numbers limit the time of a fit."""


@final
class LinearMaps(nn.Module):
    """forecast = m + W (history - m, newest - its mean) of each target, where m is the mean of the target's history,
    `newest` are the newest rows of all numeric columns, and each target has a map W.

    If covariates, categories or holidays are known over the horizon, their effects are subtracted from the history and
    added to the forecast. With several series there is one map per series and target; map 0 is shared and used for
    series that training did not contain. Weights are zero until they are fitted. A missing value is replaced by the
    last observed one (`informer.networks.ops.gaps.carried`).

    Args:
        dims: sizes that depend on the data.
        is_start: one map for all, not trained and without effects, to whose forecast a network adds.
    """

    def __init__(self, dims: ModelDims, *, is_start: bool = False) -> None:
        super().__init__()
        self.positions, self.masked, self.masks = dims.target_positions, dims.masked or (), dims.masks
        n = 1 + dims.n_series * dims.c_out if dims.n_series > 1 else dims.c_out
        n_weights, solves = n * dims.seq_len * dims.pred_len, n * dims.seq_len**2 * (dims.pred_len + dims.seq_len / 3)
        self.has_own_maps = not is_start and n_weights <= MOST_WEIGHTS and solves <= MOST_FLOPS
        self.reads_series = self.has_own_maps and dims.n_series > 1
        self.read = dims.numbers if self.has_own_maps and len(dims.numbers) > 1 else ()  # codes are not quantities
        newest = min(MOST_NEWEST, MOST_OTHERS // max(len(self.read), 1), dims.seq_len)
        self.newest = newest if self.read and newest >= LEAST_NEWEST else 0
        n_inputs = dims.seq_len + self.newest * len(self.read)
        weight = torch.zeros(n if self.has_own_maps else 1, dims.pred_len, n_inputs)
        self.weight = nn.Parameter(weight, requires_grad=not is_start)
        known = (*dims.regressors, *dims.holidays, *dims.known_codes)
        self.effects = KnownEffects(dims) if known and not is_start else None

    def forward(
        self,
        enc_x: EncValues,
        enc_mark: EncMarks,
        dec_x: DecValues,
        dec_mark: DecMarks,
        series: Int[Tensor, " b"] | None = None,
    ) -> Float[Tensor, "b pred_len n"]:
        """Forecast of the scaled targets.

        Args:
            enc_x, enc_mark: lookback window and its calendar marks.
            dec_x, dec_mark: only known covariates and holidays of the horizon are read.
            series: number of each window's training series; -1, or None for all windows: not in training.
        """
        forecast = self.of_history(self.without_effects(enc_x, enc_mark), series)
        steps = self.weight.shape[1]
        return forecast if self.effects is None else forecast + self.effects(dec_x[:, -steps:], dec_mark[:, -steps:])

    def without_effects(self, enc_x: EncValues, enc_mark: EncMarks) -> Float[Tensor, "b seq_len c"]:
        """The values without gaps and without the effects of known covariates on the targets."""
        filled = unmasked(enc_x, self.masked, self.masks)
        if self.effects is None:
            return filled
        # a product: after conversion to ONNX `index_add` gives other numbers
        columns = torch.eye(enc_x.shape[2], dtype=enc_x.dtype, device=enc_x.device)[list(self.positions)]
        adjusted = enc_x - self.effects(filled, enc_mark) @ columns
        return unmasked(adjusted, self.masked, self.masks)  # gaps are filled after subtracting, as in the fit

    def of_history(
        self, x: Float[Tensor, "b seq_len c"], series: Int[Tensor, " b"] | None = None
    ) -> Float[Tensor, "b pred_len n"]:
        """What the maps answer to values without effects; linear in them."""
        n, targets = len(self.positions), x[:, :, list(self.positions)]
        mean = targets.mean(dim=1, keepdim=True)
        rows = (targets - mean).transpose(1, 2)
        if self.newest:
            read = x[:, :, list(self.read)]
            newest = (read[:, -self.newest :] - read.mean(dim=1, keepdim=True)).flatten(1)
            rows = torch.cat([rows, newest[:, None].expand(-1, n, -1)], dim=2)
        if len(self.weight) == 1:
            return linear(rows, self.weight[0]).transpose(1, 2) + mean
        if not self.reads_series:
            return torch.einsum("bnl,nhl->bhn", rows, self.weight) + mean
        series = torch.full_like(rows[:, 0, 0], -1, dtype=torch.long) if series is None else series
        places = (torch.where(series < 0, 0, 1 + series * n + column) for column in range(n))
        columns = (torch.einsum("bl,bhl->bh", rows[:, k], self.weight[place]) for k, place in enumerate(places))
        return torch.stack(list(columns), dim=2) + mean

    def are_other(self, column: int) -> Bool[np.ndarray, " e"]:
        """Which of the newest rows are of another column."""
        return np.tile(np.array(self.read) != column, self.newest)
