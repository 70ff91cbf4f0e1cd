"""Input embedding: values + position + calendar, all of width d_model (Informer, appendix B)."""

import math
from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from informer.networks.ops.dropout import Dropout
from informer.networks.ops.products import Conv3, Linear, product_dtype


def sinusoid_table(length: int, width: int) -> Float[Tensor, "length width"]:
    """sin / cos of position * 10000^(-2i/width) in even / odd columns (Vaswani et al. 2017, section 3.5)."""
    table = torch.empty(length, width, dtype=torch.float64)
    if table.is_meta:  # only the shape matters
        return torch.empty(length, width)
    position = torch.arange(length, dtype=torch.float64)[:, None]
    rate = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10000.0) / width))
    table[:, 0::2] = torch.sin(position * rate)
    table[:, 1::2] = torch.cos(position * rate[: width // 2])
    return table.to(torch.get_default_dtype())


@final
class CalendarEmbedding(nn.Module):
    """Calendar marks [b l m] -> [b l d_model].

    Args:
        d_model: width of the model.
        kind: how marks are embedded: by one linear map (timeF), or integers by tables (fixed: sinusoids, learned).
        mark_sizes: number of distinct values of each mark column (for `fixed` and `learned`); for `timeF` only the
            number of columns matters.
    """

    def __init__(self, d_model: int, kind: str, mark_sizes: Sequence[int]) -> None:
        super().__init__()
        self.kind = kind
        if kind == "timeF":
            self.project = Linear(len(mark_sizes), d_model)
        elif kind == "learned":
            self.tables = nn.ModuleList(nn.Embedding(size, d_model) for size in mark_sizes)
        else:
            for i, size in enumerate(mark_sizes):
                self.register_buffer(f"table_{i}", sinusoid_table(size, d_model), persistent=False)

    def forward(self, marks: Float[Tensor, "b l m"]) -> Float[Tensor, "b l d"]:
        """Sum of the embeddings of all mark columns."""
        if self.kind == "timeF":
            return self.project(marks)
        fields = marks.long().unbind(-1)
        if self.kind == "learned":
            embedded = [table(field) for table, field in zip(self.tables, fields, strict=True)]
        else:
            embedded = [self.get_buffer(f"table_{i}")[field] for i, field in enumerate(fields)]
        return torch.stack(embedded).sum(0)


@final
class Embedding(nn.Module):
    """Convolution of the values + sinusoidal position + calendar embedding (unless `none`), then dropout.

    Args:
        n_values: number of value columns.
        d_model: width of the model.
        length: rows of an input.
        kind, mark_sizes: see `CalendarEmbedding`.
        dropout: dropout probability, applied to the sum.
        causal: whether the convolution reads the two rows before a row, instead of its neighbours.
    """

    position: Tensor

    def __init__(
        self,
        *,
        n_values: int,
        d_model: int,
        length: int,
        kind: str,
        mark_sizes: Sequence[int],
        dropout: float,
        causal: bool = False,
    ) -> None:
        super().__init__()
        self.value = Conv3(n_values, d_model, causal=causal)
        nn.init.kaiming_normal_(self.value.weight, mode="fan_in", nonlinearity="leaky_relu")
        self.calendar = None if kind == "none" else CalendarEmbedding(d_model, kind, mark_sizes)
        self.register_buffer("position", sinusoid_table(length, d_model), persistent=False)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "b l c"], marks: Float[Tensor, "b l m"]) -> Float[Tensor, "b l d"]:
        """Embed the rows of an input."""
        embedded = self.value(x) + self.position[: x.shape[1]]
        if self.calendar is not None:
            embedded = embedded + self.calendar(marks)
        # under autocast the layers that follow read and write its dtype, so that nothing is cast between them
        return self.dropout(embedded.to(product_dtype(embedded)))
