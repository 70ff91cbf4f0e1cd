"""Windows for the tests of this folder."""

import torch
from stores import one_series

from informer.config.model import WindowSizes
from informer.data.windows import Windows


def windows_over(values: torch.Tensor, *, seq_len: int, pred_len: int) -> Windows:
    """Every window of a table [t c]; all columns are read."""
    sizes = WindowSizes(seq_len=seq_len, label_len=0, pred_len=pred_len)
    return Windows(
        one_series(values),
        starts=torch.arange(len(values) - sizes.rows + 1),
        sizes=sizes,
        targets=range(values.shape[1]),
    )
