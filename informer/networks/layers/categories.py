"""Learned vectors for categories (Guo & Berkhahn 2016, "Entity Embeddings of Categorical Variables").

A column of codes becomes d columns: code k becomes w_k - mean(w), code 0 becomes 0. So a category that training did not
contain is treated as the mean of all categories, and one that is not known ahead (0 in windows) adds nothing. Cost: one
lookup per row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

MOST_WIDTH = 50


def width_of(n: int) -> int:
    """Columns for n categories: min(50, (n + 1) // 2), the rule of the fastai library (Howard & Gugger 2020)."""
    return min(MOST_WIDTH, (n + 1) // 2)


@dataclass(frozen=True, slots=True)
class CategoryLayout:
    """Column order after embedding: numeric columns first, then the vectors of each categorical column in turn.

    Args:
        sizes: number of categories of each column, 0 for a numeric one.
    """

    sizes: tuple[int, ...]

    @property
    def numbers(self) -> tuple[int, ...]:
        """Positions of the numeric columns."""
        return tuple(column for column, size in enumerate(self.sizes) if not size)

    @property
    def codes(self) -> tuple[int, ...]:
        """Positions of the columns with codes."""
        return tuple(column for column, size in enumerate(self.sizes) if size)

    @property
    def width(self) -> int:
        """Number of columns after embedding."""
        return len(self.numbers) + sum(width_of(self.sizes[column]) for column in self.codes)

    def positions(self, columns: Sequence[int]) -> tuple[int, ...]:
        """Positions of some columns after embedding; a column of codes has several."""
        ranges = {column: range(new, new + 1) for new, column in enumerate(self.numbers)}
        end = len(self.numbers)
        for column in self.codes:
            first, end = end, end + width_of(self.sizes[column])
            ranges[column] = range(first, end)
        return tuple(position for column in columns for position in ranges[column])


@final
class CategoryEmbedding(nn.Module):
    """Embedding of the codes of one column.

    Args:
        n: number of categories, with codes 1 to n.
        width: length of a vector.
    """

    def __init__(self, n: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n, width))
        nn.init.normal_(self.weight)

    def forward(self, codes: Int[Tensor, "*b"]) -> Float[Tensor, "*b d"]:
        """The vector of each code; zero for code 0."""
        return torch.cat([self.weight.new_zeros(1, self.weight.shape[1]), self.weight - self.weight.mean(dim=0)])[codes]


@final
class SeriesColumns(nn.Module):
    """Appends a learned vector per series to every row of a window.

    Args:
        n: number of training series.
        width: length of a vector.
    """

    def __init__(self, n: int, width: int) -> None:
        super().__init__()
        self.table = CategoryEmbedding(n, width)

    def forward(self, x: Float[Tensor, "b l c"], series: Int[Tensor, "b"]) -> Float[Tensor, "b l width"]:
        """Append the vectors of `series`; -1, a series not in training, gets the mean of all vectors."""
        vectors = self.table(series + 1).to(x.dtype)
        return torch.cat([x, vectors[:, None].expand(-1, x.shape[1], -1)], dim=2)


@final
class CategoryColumns(nn.Module):
    """Replaces columns of codes by their vectors, in the order of `CategoryLayout`; shared by encoder and decoder."""

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__()
        self.layout = CategoryLayout(tuple(sizes))
        self.tables = nn.ModuleList(
            CategoryEmbedding(sizes[column], width_of(sizes[column])) for column in self.layout.codes
        )

    def forward(self, x: Float[Tensor, "b l c"]) -> Float[Tensor, "b l width"]:
        """Numeric columns and vectors of each row."""
        columns = x.unbind(dim=2)
        vectors = [table(columns[column].long()) for table, column in zip(self.tables, self.layout.codes, strict=True)]
        return torch.cat([x[:, :, list(self.layout.numbers)], *(vector.to(x.dtype) for vector in vectors)], dim=2)
