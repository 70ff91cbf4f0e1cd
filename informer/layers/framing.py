"""Windows to what the network reads, and what it writes back to forecasts: normalising, columns apart, patches.

Each is a switch of its own. Normalising: Kim et al. 2022, "Reversible Instance Normalization". Columns apart, patches:
Nie et al. 2023, "A Time Series is Worth 64 Words". Linear highway: Zeng et al. 2023, "Are Transformers Effective for
Time Series Forecasting?".
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, final

import torch
from einops import rearrange, repeat
from jaxtyping import Float
from torch import Tensor, nn

from informer.layers.linear import linear

EPSILON = 1e-5
"""Added to the variance of a window, which may be constant."""


class Highway(Enum):
    """A linear map from each target's history to its forecast, beside the network.

    linear: learnt with the network; ridge: fitted before training, then fixed, while the network learns what is left.
    """

    none = "none"
    linear = "linear"
    ridge = "ridge"


class Framed(NamedTuple):
    """What the network reads of a batch."""

    enc_x: Tensor
    enc_mark: Tensor
    dec_x: Tensor
    dec_mark: Tensor


@final
class Framing(nn.Module):
    """What is done to windows before the network, and undone after it.

    Args:
        n_inputs: columns of the windows.
        targets: where the targets stand among them.
        known: where those stand whose values the decoder is given over the horizon.
        label_len, pred_len: rows of the decoder's start token and of the horizon.
        instance_norm: centre and scale each column of a window by its own history; but not known ones, whose values
            ahead may be nothing like it: a holiday after weeks without one.
        channel_independent: each target is a window of its own, beside all columns that are no target.
        patch_len: rows of a token; its calendar marks are those of its last row.
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
        self.instance_norm, self.channel_independent = instance_norm, channel_independent
        self.patch_len, self.n_targets = patch_len, len(targets)
        others = [i for i in range(n_inputs) if i not in set(targets)]
        shown = torch.ones(label_len + pred_len, n_inputs)
        given_ahead = torch.tensor([i in set(known) for i in range(n_inputs)])
        shown[label_len:] = given_ahead.float()
        for name, tensor in (("targets", torch.tensor(list(targets))), ("others", torch.tensor(others).long())):
            self.register_buffer(name, tensor, persistent=False)
        self.register_buffer("shown", shown, persistent=False)
        self.register_buffer("given_ahead", given_ahead, persistent=False)

    def forward(
        self,
        enc_x: Float[Tensor, "b seq_len c"],
        enc_mark: Float[Tensor, "b seq_len m"],
        dec_x: Float[Tensor, "b dec_len d"],
        dec_mark: Float[Tensor, "b dec_len m"],
    ) -> Framed:
        """What the network reads of these windows."""
        if self.instance_norm:
            mean, scale = level(enc_x)
            mean, scale = mean.masked_fill(self.given_ahead, 0.0), scale.masked_fill(self.given_ahead, 1.0)
            enc_x, dec_x = (enc_x - mean) / scale, (dec_x - mean) / scale * self.shown
        if self.channel_independent:
            enc_x, dec_x = self._apart(enc_x), self._apart(dec_x)
            enc_mark, dec_mark = (repeat(x, "b l m -> (b n) l m", n=self.n_targets) for x in (enc_mark, dec_mark))
        if self.patch_len > 1:
            enc_x, dec_x = (rearrange(x, "b (t p) c -> b t (p c)", p=self.patch_len) for x in (enc_x, dec_x))
            enc_mark, dec_mark = (x[:, self.patch_len - 1 :: self.patch_len] for x in (enc_mark, dec_mark))
        return Framed(enc_x, enc_mark, dec_x, dec_mark)

    def undo(self, out: Float[Tensor, "bn t pc *q"], enc_x: Float[Tensor, "b seq_len c"]) -> Tensor:
        """What the network wrote for windows with this history: [b pred_len n *q] in their scale, less their mean."""
        if self.patch_len > 1:
            out = rearrange(out, "b t (p c) ... -> b (t p) c ...", p=self.patch_len)
        if self.channel_independent:
            out = rearrange(out, "(b n) l 1 ... -> b l n ...", n=self.n_targets)
        return out * beside(level(self.own(enc_x))[1], out) if self.instance_norm else out

    def own(self, x: Float[Tensor, "b l c"]) -> Float[Tensor, "b l n"]:
        """The targets' columns."""
        return x.index_select(2, self.targets)

    def _apart(self, x: Tensor) -> Tensor:
        others = repeat(x.index_select(2, self.others), "b l m -> (b n) l m", n=self.n_targets)
        return torch.cat([rearrange(self.own(x), "b l n -> (b n) l 1"), others], dim=2)


def level(history: Float[Tensor, "b l c"]) -> tuple[Float[Tensor, "b 1 c"], Float[Tensor, "b 1 c"]]:
    """Mean and standard deviation of each column of each window."""
    variance, mean = torch.var_mean(history, dim=1, keepdim=True, correction=0)
    return mean, (variance + EPSILON).sqrt()


def beside(forecast: Float[Tensor, "b l n"], out: Float[Tensor, "b pred_len n *q"]) -> Tensor:
    """`forecast` with an axis of its own where `out` has one of quantiles, so that it meets each of them."""
    return forecast if out.ndim == forecast.ndim else forecast[..., None]


@final
class LinearHighway(nn.Module):
    """forecast = mean + weight (history - mean), one weight for all columns; it starts as the mean repeated."""

    def __init__(self, seq_len: int, pred_len: int, *, learnt: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(pred_len, seq_len), requires_grad=learnt)

    def forward(self, history: Float[Tensor, "b seq_len n"]) -> Float[Tensor, "b pred_len n"]:
        """Forecast each column from its own history."""
        mean = history.mean(dim=1, keepdim=True)
        return linear((history - mean).transpose(1, 2), self.weight).transpose(1, 2) + mean
