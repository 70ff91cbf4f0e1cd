"""A store made by hand, for tests of what reads windows."""

import torch
from torch import Tensor

from informer.data.windows import Store


def one_series(values: Tensor, marks: Tensor | None = None) -> Store:
    """One series that is scaled already: its own units are the scaled ones."""
    n_columns, device = values.shape[1], values.device
    begin = torch.zeros(1, dtype=torch.long, device=device)
    return Store(
        values=values,
        marks=torch.zeros(len(values), 1, device=device) if marks is None else marks,
        first_rows=begin,
        first_marks=begin,
        center=torch.zeros(1, n_columns, dtype=torch.float64, device=device),
        scale=torch.ones(1, n_columns, dtype=torch.float64, device=device),
    )
