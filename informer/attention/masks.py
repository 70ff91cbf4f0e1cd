"""Small pieces shared by the mechanisms that mask scores."""

import torch
from torch import Tensor


def future_keys(start: int, n_rows: int, n_keys: int, device: torch.device) -> Tensor:
    """Boolean [n_rows n_keys], True where key j lies after row i: rows are start, start + 1, ..."""
    rows = torch.arange(start, start + n_rows, device=device)
    return torch.arange(n_keys, device=device) > rows[:, None]


def causal_mean(v: Tensor) -> Tensor:
    """Mean of v_j over j <= i, for v [b h s d]."""
    counts = torch.arange(1, v.shape[2] + 1, device=v.device, dtype=v.dtype)
    return v.cumsum(dim=2).div_(counts[:, None])
