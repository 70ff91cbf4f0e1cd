"""Windows to network inputs and network outputs to forecasts: normalisation, channel independence, patches.

Each can be switched on separately. Normalisation: Kim et al. 2022, "Reversible Instance Normalization". Channel
independence and patches: Nie et al. 2023, "A Time Series is Worth 64 Words". Linear skip connection: Zeng et al. 2023,
"Are Transformers Effective for Time Series Forecasting?".
"""

from collections.abc import Sequence
from typing import NamedTuple, final

import torch
from einops import rearrange, repeat
from jaxtyping import Float
from torch import Tensor, nn

from informer.networks.ops.gaps import unmasked, weights_of
from informer.networks.ops.products import linear

EPSILON = 1e-5
"""Added to the variance of a window, which is zero in a constant window."""


class NetworkInputs(NamedTuple):
    """Inputs of the network for a batch."""

    enc_x: Tensor
    enc_mark: Tensor
    dec_x: Tensor
    dec_mark: Tensor


@final
class InputTransform(nn.Module):
    """Transforms windows before the network, and the network's output back to forecasts.

    Args:
        n_inputs: number of columns of the windows.
        targets: positions of the targets among the columns.
        known: positions of the columns whose future values are given to the decoder.
        label_len, pred_len: rows of the decoder's start token and of the horizon.
        instance_norm: centre and scale each column of a window by its mean and standard deviation in the lookback
            window. Known columns are not normalised, because their future may differ from it (a holiday after weeks
            without one).
        channel_independent: make one window per target, each with all columns that are not targets.
        patch_len: rows per token; a token has the calendar marks of its last row.
    """

    targets: Tensor
    others: Tensor
    shown: Tensor
    given_ahead: Tensor

    def __init__(
        self,
        *,
        n_inputs: int,
        targets: Sequence[int],
        known: Sequence[int],
        label_len: int,
        pred_len: int,
        instance_norm: bool,
        channel_independent: bool,
        patch_len: int,
    ) -> None:
        super().__init__()
        self.masked, self.masks, self.own_masks = list[int](), list[int](), list[int]()
        self._targets = list(targets)
        self.instance_norm, self.channel_independent = instance_norm, channel_independent
        self.patch_len, self.label_len, self.n_targets = patch_len, label_len, len(targets)
        other_columns = [i for i in range(n_inputs) if i not in set(targets)]
        shown = torch.ones(label_len + pred_len, n_inputs)
        given_ahead = torch.tensor([i in set(known) for i in range(n_inputs)])
        shown[label_len:] = given_ahead.float()
        for name, tensor in (("targets", torch.tensor(list(targets))), ("others", torch.tensor(other_columns).long())):
            self.register_buffer(name, tensor, persistent=False)
        self.register_buffer("shown", shown, persistent=False)
        self.register_buffer("given_ahead", given_ahead, persistent=False)

    def with_gaps(self, masked: Sequence[int], masks: Sequence[int]) -> "InputTransform":
        """Set the columns that have gaps: they are centred and scaled by observed values, then missing values are 0.

        Args:
            masked: positions of the columns with gaps.
            masks: positions of their mask columns.

        Returns:
            This transform.
        """
        self.masked, self.masks = list(masked), list(masks)
        mask_of, n_inputs = dict(zip(masked, masks, strict=True)), self.shown.shape[1]
        if set(self._targets) & set(masked):  # targets without gaps use a column of ones, appended after all others
            self.own_masks = [mask_of.get(column, n_inputs) for column in self._targets]
            other_columns = [i for i in range(n_inputs) if i not in {*self._targets, *self.own_masks}]
            self.others = torch.tensor(other_columns).long()
        return self

    def forward(
        self,
        enc_x: Float[Tensor, "b seq_len c"],
        enc_mark: Float[Tensor, "b seq_len m"],
        dec_x: Float[Tensor, "b dec_len d"],
        dec_mark: Float[Tensor, "b dec_len m"],
        n_fed: int = 0,
    ) -> NetworkInputs:
        """Network inputs for windows in which the first `n_fed` rows of the horizon hold forecasts of the targets."""
        if self.instance_norm:
            mean, scale = self._mean_std(enc_x)
            mean, scale = mean.masked_fill(self.given_ahead, 0.0), scale.masked_fill(self.given_ahead, 1.0)
            weights = [weights_of(x, self.masked, self.masks) if self.masked else None for x in (enc_x, dec_x)]
            enc_x, dec_x = (enc_x - mean) / scale, (dec_x - mean) / scale * self._shown(n_fed)
            enc_x, dec_x = (x if w is None else x * w for x, w in zip((enc_x, dec_x), weights, strict=True))
        if self.channel_independent:
            shown = self._shown(n_fed)[:, self.targets[:1]]
            enc_x = self._split_channels(enc_x, torch.ones_like(enc_x[0, :, :1]))
            dec_x = self._split_channels(dec_x, shown)
            enc_mark, dec_mark = (repeat(x, "b l m -> (b n) l m", n=self.n_targets) for x in (enc_mark, dec_mark))
        if self.patch_len > 1:
            enc_x, dec_x = (rearrange(x, "b (t p) c -> b t (p c)", p=self.patch_len) for x in (enc_x, dec_x))
            enc_mark, dec_mark = (x[:, self.patch_len - 1 :: self.patch_len] for x in (enc_mark, dec_mark))
        return NetworkInputs(enc_x, enc_mark, dec_x, dec_mark)

    def undo(self, out: Float[Tensor, "bn t pc *q"], enc_x: Float[Tensor, "b seq_len c"]) -> Tensor:
        """Network output [b pred_len n *q] in the scale of the windows, without adding their mean."""
        if self.patch_len > 1:
            out = rearrange(out, "b t (p c) ... -> b (t p) c ...", p=self.patch_len)
        if self.channel_independent:
            out = rearrange(out, "(b n) l 1 ... -> b l n ...", n=self.n_targets)
        if not self.instance_norm:
            return out
        scale = self._mean_std(enc_x)[1] if self.masked else mean_std(self.target_columns(enc_x))[1]
        return out * with_quantile_axis(self.target_columns(scale) if self.masked else scale, out)

    def target_means(self, enc_x: Float[Tensor, "b seq_len c"]) -> Float[Tensor, "b 1 n"]:
        """Mean of each target's observed values in the lookback window."""
        if self.masked:
            return self.target_columns(self._mean_std(enc_x)[0])
        return self.target_columns(enc_x).mean(dim=1, keepdim=True)

    def target_history(self, x: Float[Tensor, "b l c"]) -> Float[Tensor, "b l n"]:
        """Target columns, with missing values replaced by the last observed one."""
        return self.target_columns(unmasked(x, self.masked, self.masks))

    def target_columns(self, x: Float[Tensor, "b l c"]) -> Float[Tensor, "b l n"]:
        """Target columns."""
        return x.index_select(2, self.targets)

    def _shown(self, n_fed: int) -> Float[Tensor, "dec_len c"]:
        """1 where the decoder is given a value, 0 where it has to forecast one."""
        token, fed, ahead = self.shown.tensor_split([self.label_len, self.label_len + n_fed])
        return torch.cat([token, fed.index_fill(1, self.targets, 1.0), ahead]) if n_fed else self.shown

    def _mean_std(self, enc_x: Tensor) -> tuple[Tensor, Tensor]:
        return mean_std(enc_x, weights_of(enc_x, self.masked, self.masks) if self.masked else None)

    def _split_channels(self, x: Tensor, shown: Float[Tensor, "l 1"]) -> Tensor:
        """One window per target; `shown` is 1 in rows with given targets, and is the mask of targets without gaps."""
        covariates = repeat(x.index_select(2, self.others), "b l m -> (b n) l m", n=self.n_targets)
        columns = [rearrange(self.target_columns(x), "b l n -> (b n) l 1")]
        if self.own_masks:
            masks = torch.cat([x, shown.expand(len(x), -1, -1).to(x.dtype)], dim=2)[:, :, self.own_masks]
            columns.append(rearrange(masks, "b l n -> (b n) l 1"))
        return torch.cat([*columns, covariates], dim=2)


def mean_std(
    history: Float[Tensor, "b l c"], weights: Float[Tensor, "b l c"] | None = None
) -> tuple[Float[Tensor, "b 1 c"], Float[Tensor, "b 1 c"]]:
    """Mean and standard deviation of each column of each window, over values with weight 1 (None: all values)."""
    if weights is None:
        variance, mean = torch.var_mean(history, dim=1, keepdim=True, correction=0)
    else:
        n = weights.sum(dim=1, keepdim=True).clamp(min=1)
        mean = (history * weights).sum(dim=1, keepdim=True) / n
        variance = ((history - mean).square() * weights).sum(dim=1, keepdim=True) / n
    return mean, (variance + EPSILON).sqrt()


def with_quantile_axis(forecast: Float[Tensor, "b l n"], out: Float[Tensor, "b pred_len n *q"]) -> Tensor:
    """`forecast`, with a last axis of size 1 if `out` has a quantile axis, so that they broadcast."""
    return forecast if out.ndim == forecast.ndim else forecast[..., None]


@final
class LinearSkipLayer(nn.Module):
    """forecast = mean + weight (history - mean), with one weight for all columns; initially the mean."""

    def __init__(self, seq_len: int, pred_len: int, *, learnt: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(pred_len, seq_len), requires_grad=learnt)

    def forward(self, history: Float[Tensor, "b seq_len n"]) -> Float[Tensor, "b pred_len n"]:
        """Forecast each column from its own lookback window."""
        mean = history.mean(dim=1, keepdim=True)
        return linear((history - mean).transpose(1, 2), self.weight).transpose(1, 2) + mean
