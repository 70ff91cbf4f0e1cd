"""Learned vectors for categories (Guo & Berkhahn 2016, "Entity Embeddings of Categorical Variables").

A column of codes becomes d columns: code k is w_k - mean(w), code 0 is 0. So a category that training did not have is
the mean of the others, and one that is not known ahead, which windows hold as 0, adds nothing. Cost: a lookup a row.
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
    """Columns of numbers in their order, then the vectors of one column of codes after the other.

    Args:
        sizes: one entry a column: the number of its categories; 0: it holds numbers.
    """

    sizes: tuple[int, ...]

    @property
    def numbers(self) -> tuple[int, ...]:
        """Positions of the columns of numbers."""
        return tuple(place for place, size in enumerate(self.sizes) if not size)

    @property
    def codes(self) -> tuple[int, ...]:
        """Positions of the columns of codes."""
        return tuple(place for place, size in enumerate(self.sizes) if size)

    @property
    def width(self) -> int:
        """Columns in all."""
        return len(self.numbers) + sum(width_of(self.sizes[place]) for place in self.codes)

    def positions(self, columns: Sequence[int]) -> tuple[int, ...]:
        """Where columns are afterwards; one of codes has several positions."""
        places = {place: range(new, new + 1) for new, place in enumerate(self.numbers)}
        end = len(self.numbers)
        for place in self.codes:
            first, end = end, end + width_of(self.sizes[place])
            places[place] = range(first, end)
        return tuple(position for column in columns for position in places[column])


@final
class CategoryEmbedding(nn.Module):
    """Codes -> vectors.

    Args:
        n: categories, with the codes 1 to n.
        width: of a vector.
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
    """Windows with the vector of their series behind the values of every row; -1 is the mean of all series.

    Args:
        n: series of training.
        width: of a vector.
    """

    def __init__(self, n: int, width: int) -> None:
        super().__init__()
        self.table = CategoryEmbedding(n, width)

    def forward(self, x: Float[Tensor, "b l c"], series: Int[Tensor, "b"]) -> Float[Tensor, "b l width"]:
        """Values and vectors of each row."""
        vectors = self.table(series + 1).to(x.dtype)
        return torch.cat([x, vectors[:, None].expand(-1, x.shape[1], -1)], dim=2)


@final
class CategoryColumns(nn.Module):
    """Windows whose columns of codes are replaced as `CategoryLayout` says; encoder and decoder share the vectors."""

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__()
        self.layout = CategoryLayout(tuple(sizes))
        self.tables = nn.ModuleList(
            CategoryEmbedding(sizes[place], width_of(sizes[place])) for place in self.layout.codes
        )

    def forward(self, x: Float[Tensor, "b l c"]) -> Float[Tensor, "b l width"]:
        """Numbers and vectors of each row."""
        columns = x.unbind(dim=2)
        vectors = [table(columns[place].long()) for table, place in zip(self.tables, self.layout.codes, strict=True)]
        return torch.cat([x[:, :, list(self.layout.numbers)], *(one.to(x.dtype) for one in vectors)], dim=2)
