"""Linear maps from the lookback window to the horizon; `informer.members.linear` fits them in closed form."""

from itertools import accumulate
from math import pi
from typing import cast, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from informer.config.model import LinearModelConfig
from informer.networks.models.base import DecMarks, DecValues, EncMarks, EncValues, ModelDims
from informer.networks.ops.gaps import unmasked
from informer.networks.ops.products import linear

HARMONICS = {"day": 6, "week": 3, "year": 2}
"""Number of sine and cosine pairs for each calendar cycle."""

_FIRST = dict(zip(HARMONICS, accumulate((2 * orders for orders in HARMONICS.values()), initial=1), strict=False))
FIRST_PAIRS = {cycle: (_FIRST[cycle], _FIRST[cycle] + orders) for cycle, orders in HARMONICS.items()}
"""Positions of the first cosine and sine of each cycle in `LinearMaps.date`."""

LEAST_RECENT, MOST_RECENT, MOST_OTHERS = 4, 24, 384
"""How many recent rows of the other columns a map reads: at most MOST_RECENT, and at most MOST_OTHERS rows times
columns. If fewer than LEAST_RECENT remain, none are read. Both numbers limit the time of a fit."""

MOST_WEIGHTS, MOST_FLOPS = 64_000_000, 2e12
"""Largest number of weights of separate maps, and cost of solving for them; beyond these all columns share one map."""


def recent_rows(n_columns: int, seq_len: int) -> int:
    """Number of recent rows of all columns that each map reads; 0 if they are not read."""
    rows = min(MOST_RECENT, MOST_OTHERS // max(n_columns, 1))
    return min(rows, seq_len) if n_columns > 1 and rows >= LEAST_RECENT else 0


def harmonics(turns: Float[Tensor, " b"], orders: int) -> Float[Tensor, "b e"]:
    """Cosines, then sines of 1 to `orders` times the turns."""
    angles = 2 * pi * turns[:, None] * torch.arange(1, orders + 1, device=turns.device)
    return torch.cat([angles.cos(), angles.sin()], dim=1)


@final
class LinearMaps(nn.Module):
    """forecast = own^T history + calendar^T date + others^T recent, with separate weights per column.

    `history` is the lookback window of the column itself. `date` contains a constant and sines and cosines of the time
    of day, week and year at the window's last row. `recent` contains the last rows of all numeric columns minus their
    means over the window. If covariates, categories or holidays are known over the horizon, their effects, effects^T
    known, are subtracted from the history and added to the forecast; each code of a category has a row of `effects`.

    With several series there is one map per series and column; map 0 is shared and used for series that training did
    not contain. Weights are zero until they are fitted. A missing value is replaced by the last observed one
    (`informer.networks.ops.gaps.carried`).

    Args:
        config: the family.
        dims: sizes that depend on the data.
    """

    effects: nn.Parameter | None
    turns: Tensor
    phase: Tensor

    def __init__(self, config: LinearModelConfig, dims: ModelDims) -> None:
        super().__init__()
        self.config, self.dims, self.positions = config, dims, dims.target_positions
        n_calendar = 1 + 2 * sum(HARMONICS.values())
        self.read = dims.numbers  # codes of categories are not quantities
        self.masked, self.masks = dims.masked or (), dims.masks
        recent = recent_rows(len(self.read), dims.seq_len)
        n_inputs = dims.seq_len + n_calendar + recent * len(self.read)
        is_panel = dims.n_series > 1
        n_own = 1 + dims.n_series * dims.c_out if is_panel else dims.c_out
        weights, solves = n_own * n_inputs * dims.pred_len, n_own * n_inputs**2 * (dims.pred_len + n_inputs / 3)
        self.has_own_maps = weights <= MOST_WEIGHTS and solves <= MOST_FLOPS
        self.reads_series = self.has_own_maps and is_panel
        self.recent = recent if self.has_own_maps else 0
        maps = n_own if self.has_own_maps else 1
        self.own = nn.Parameter(torch.zeros(maps, dims.seq_len, dims.pred_len))
        self.calendar = nn.Parameter(torch.zeros(maps, n_calendar, dims.pred_len))
        self.others = nn.Parameter(torch.zeros(maps, self.recent * len(self.read), dims.pred_len))
        self.regressors, self.holidays, self.effects = dims.regressors, dims.holidays, None
        n_known, self.code_rows = len(dims.regressors) + len(dims.holidays), dict[int, range]()
        for column in dims.known_codes:
            self.code_rows[column] = range(n_known, n_known + 1 + dims.categories[column])
            n_known = self.code_rows[column].stop
        if n_known:
            self.effects = nn.Parameter(torch.zeros(n_known, dims.enc_in))  # zero except in the target columns
        # number of completed turns of each cycle, as a linear function of the marks
        self.register_buffer("turns", torch.zeros(len(dims.mark_sizes), len(HARMONICS)))
        self.register_buffer("phase", torch.zeros(len(HARMONICS)))

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
        history, ahead = self.without_effects(enc_x, enc_mark, dec_x, dec_mark)
        return self.of_history(history, self.date(enc_mark[:, -1]), series) + ahead

    def without_effects(
        self, enc_x: Tensor, enc_mark: Tensor, dec_x: Tensor, dec_mark: Tensor
    ) -> tuple[Float[Tensor, "b seq_len c"], Float[Tensor, "b pred_len n"] | float]:
        """The history without gaps and minus the effects of known covariates, and these effects on the targets over the
        horizon."""
        filled = unmasked(enc_x, self.masked, self.masks)
        if self.effects is None:
            return filled, 0.0
        steps = self.own.shape[2]
        ahead = self._effects(dec_x[:, -steps:], dec_mark[:, -steps:])
        adjusted = enc_x - self._effects(filled, enc_mark)  # fill gaps after subtracting, as in the fit
        return unmasked(adjusted, self.masked, self.masks), ahead[:, :, list(self.positions)]

    def _effects(self, x: Float[Tensor, "b l c"], mark: Float[Tensor, "b l m"]) -> Float[Tensor, "b l c"]:
        assert self.effects is not None, "see `without_effects`"
        covariates = torch.cat([x[:, :, list(self.regressors)], mark[:, :, list(self.holidays)].to(x)], dim=2)
        effects = covariates @ self.effects[: covariates.shape[2]]
        for column, rows in self.code_rows.items():
            effects = effects + self.effects[rows.start : rows.stop][x[:, :, column].long()]
        return effects

    def of_history(self, enc_x: Tensor, date: Tensor, series: Tensor | None) -> Tensor:
        """What the maps answer to a history without effects and to `date`; linear in both."""
        features, weights = date, cast(Tensor, self.calendar)
        if self.recent:
            features = torch.cat([features, self.recent_rows(enc_x)], dim=1)
            weights = torch.cat([weights, self.others], dim=1)
        history = enc_x[:, :, list(self.positions)]
        if self.reads_series:
            return self._of_series(history, features, weights, series)
        if len(self.own) == 1:
            return torch.einsum("bln,lh->bhn", history, self.own[0]) + (features @ weights[0])[:, :, None]
        return torch.einsum("bln,nlh->bhn", history, self.own) + torch.einsum("be,neh->bhn", features, weights)

    def _of_series(self, history: Tensor, features: Tensor, weights: Tensor, series: Tensor | None) -> Tensor:
        n = len(self.positions)
        if series is None:
            series = torch.full_like(history[:, 0, 0], -1, dtype=torch.long)
        columns = []
        for column in range(n):
            maps = torch.where(series < 0, 0, 1 + series * n + column)
            from_history = torch.einsum("bl,blh->bh", history[:, :, column], self.own[maps])
            columns.append(from_history + torch.einsum("be,beh->bh", features, weights[maps]))
        return torch.stack(columns, dim=2)

    def recent_rows(self, enc_x: EncValues) -> Float[Tensor, "b e"]:
        """The last rows of all numeric columns minus their means, row by row."""
        numeric = enc_x if len(self.read) == enc_x.shape[2] else enc_x[:, :, list(self.read)]
        return (numeric[:, -self.recent :] - numeric.mean(dim=1, keepdim=True)).flatten(1)

    def date(self, mark: Float[Tensor, "b m"]) -> Float[Tensor, "b e"]:
        """A constant, then cosines and sines of each cycle, from the marks of a window's last row."""
        turns = mark.to(self.turns.dtype) @ self.turns + self.phase
        cycles = zip(turns.unbind(1), HARMONICS.values(), strict=True)
        return torch.cat([torch.ones_like(turns[:, :1]), *(harmonics(*cycle) for cycle in cycles)], dim=1)


@final
class LinearSkipLayer(nn.Module):
    """forecast = mean + weight (history - mean), with one weight for all columns; initially the mean."""

    def __init__(self, seq_len: int, pred_len: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(pred_len, seq_len), requires_grad=False)

    def forward(self, history: Float[Tensor, "b seq_len n"]) -> Float[Tensor, "b pred_len n"]:
        """Forecast each column from its own lookback window."""
        mean = history.mean(dim=1, keepdim=True)
        return linear((history - mean).transpose(1, 2), self.weight).transpose(1, 2) + mean
