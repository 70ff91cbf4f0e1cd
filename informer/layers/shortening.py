"""Ways to halve the sequence between encoder layers (`model.distil`).

  conv       circular Conv1d(3) -> BatchNorm -> ELU -> MaxPool(3, 2, 1): distilling (Informer, eq. 5), see
             `informer.layers.distilling`; the authors' code has the BatchNorm, the paper's formula has not
             (`model.distil_norm=false`)
  max        MaxPool(3, 2, 1) only
  avg        mean of the same three rows; of two at both ends
  strided    circular Conv1d(3) with stride 2
  funnel     the queries of the next layer are means of two rows, its keys and values are all rows (Dai et al. 2020,
             "Funnel-Transformer", section 2.2)
  eliminate  keep the half of the rows that receive most attention in the layer before, summed over heads and queries,
             in their original order (Goyal et al. 2020, "PoWER-BERT", section 3); the selection has no gradient
  none       no shortening

Each maps l rows to ceil(l / 2).
"""

from typing import final

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from informer.config.model import Shortening
from informer.layers.distilling import Distil, distilled_length, halve


def make_shortening(kind: Shortening, d_model: int, *, norm: bool) -> nn.Module:
    """A module that maps [b l d] to [b ceil(l/2) d]; that of `eliminate` also takes the attention received by each row.

    Args:
        kind: any but `none`.
        d_model: width d.
        norm: use BatchNorm in `conv`.
    """
    match kind:
        case Shortening.conv:
            return Distil(d_model, norm=norm)
        case Shortening.max:
            return MaxPool()
        case Shortening.avg:
            return MeanPool(kernel=3, padding=1)
        case Shortening.strided:
            return StridedConv(d_model)
        case Shortening.funnel:
            return MeanPool(kernel=2, padding=0)
        case Shortening.eliminate:
            return Eliminate()
    raise ValueError(f"{kind} shortens nothing")


@final
class MaxPool(nn.Module):
    """Maximum of every second row and its neighbours."""

    def forward(self, x: Float[Tensor, "b l d"]) -> Float[Tensor, "b n d"]:
        """[b l d] -> [b ceil(l/2) d]."""
        return halve(x)


@final
class MeanPool(nn.Module):
    """Means of `kernel` neighbouring rows with stride 2; at the ends, of the rows that exist."""

    def __init__(self, *, kernel: int, padding: int) -> None:
        super().__init__()
        self.kernel = kernel
        self.padding = padding

    def forward(self, x: Float[Tensor, "b l d"]) -> Float[Tensor, "b n d"]:
        """[b l d] -> [b ceil(l/2) d]."""
        pooled = F.avg_pool1d(
            x.transpose(1, 2), self.kernel, stride=2, padding=self.padding, ceil_mode=self.padding == 0,
            count_include_pad=False,
        )  # fmt: skip
        return pooled.transpose(1, 2)


@final
class StridedConv(nn.Module):
    """Circular convolution over three rows with stride 2."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(d_model, d_model, kernel_size=3, stride=2, padding=1, padding_mode="circular")

    def forward(self, x: Float[Tensor, "b l d"]) -> Float[Tensor, "b n d"]:
        """[b l d] -> [b ceil(l/2) d]."""
        return self.conv(x.transpose(1, 2)).transpose(1, 2)


@final
class Eliminate(nn.Module):
    """Keeps the rows that received most attention; among equals the first."""

    def forward(self, x: Float[Tensor, "b l d"], received: Float[Tensor, "b l"]) -> Float[Tensor, "b n d"]:
        """[b l d] -> [b ceil(l/2) d]."""
        best = received.argsort(dim=1, descending=True, stable=True)[:, : distilled_length(x.shape[1])]
        return torch.take_along_dim(x, best.sort(dim=1).values.unsqueeze(-1), dim=1)
