"""Ways to halve the sequence between encoder layers (`model.distil`); each maps l rows to ceil(l / 2).

conv       circular Conv1d(3) -> BatchNorm -> ELU -> MaxPool(3, 2, 1): distilling (Informer, eq. 5), see
           `informer.networks.layers.encoder`; the authors' code has the BatchNorm, the paper's formula has not
           (`model.distil_norm=false`)
max        MaxPool(3, 2, 1) only
avg        mean of the same three rows; of two at both ends
strided    circular Conv1d(3) with stride 2
funnel     the queries of the next layer are means of two rows, its keys and values are all rows (Dai et al. 2020,
           "Funnel-Transformer", section 2.2)
eliminate  keep the half of the rows that receive most attention in the layer before, summed over heads and queries,
           in their original order (Goyal et al. 2020, "PoWER-BERT", section 3); the selection has no gradient
none       no shortening
"""

from collections.abc import Callable
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from informer.networks.layers.encoder import Distil, distilled_length
from informer.networks.ops.pooling import halve


def make_shortening(kind: str, d_model: int, *, norm: bool) -> nn.Module:
    """A module that maps [b l d] to [b ceil(l/2) d]; that of `eliminate` also takes the attention received by each row.

    Args:
        kind: any but `none`.
        d_model: width d.
        norm: use BatchNorm in `conv`.
    """
    kinds: dict[str, Callable[[], nn.Module]] = {
        "conv": lambda: Distil(d_model, norm=norm),
        "max": MaxPool,
        # means at the ends are of the rows that exist
        "avg": lambda: OverRows(nn.AvgPool1d(3, 2, 1, count_include_pad=False)),
        "strided": lambda: OverRows(nn.Conv1d(d_model, d_model, 3, 2, 1, padding_mode="circular")),
        "funnel": lambda: OverRows(nn.AvgPool1d(2, 2, ceil_mode=True, count_include_pad=False)),
        "eliminate": Eliminate,
    }
    return kinds[kind]()


@final
class MaxPool(nn.Module):
    """Maximum of every second row and its neighbours."""

    def forward(self, x: Float[Tensor, "b l d"]) -> Float[Tensor, "b n d"]:
        """[b l d] -> [b ceil(l/2) d]."""
        return halve(x)


@final
class OverRows(nn.Module):
    """A pool or convolution with stride 2, over the rows."""

    def __init__(self, conv: nn.Module) -> None:
        super().__init__()
        self.conv = conv

    def forward(self, x: Float[Tensor, "b l d"]) -> Float[Tensor, "b n d"]:
        """[b l d] -> [b ceil(l/2) d]."""
        return self.conv(x.transpose(1, 2)).transpose(1, 2)


@final
class Eliminate(nn.Module):
    """Keeps the rows that received most attention; among equals the first."""

    def forward(self, x: Float[Tensor, "b l d"], received: Float[Tensor, "b l"]) -> Float[Tensor, "b n d"]:
        """[b l d] -> [b ceil(l/2) d]."""
        n, length = distilled_length(x.shape[1]), x.shape[1]
        least = received.topk(n, dim=1).values[:, -1:]  # of operations that ONNX has, so no stable sorting
        above, equal = received > least, received == least
        kept = above | (equal & (equal.cumsum(dim=1) <= n - above.sum(dim=1, keepdim=True)))
        index = (
            torch.where(kept, torch.arange(length, device=x.device), length - 1).topk(n, dim=1, largest=False).values
        )
        # not take_along_dim, which fixes the number of windows of a graph
        return x.gather(1, index.unsqueeze(-1).expand(-1, -1, x.shape[2]))
