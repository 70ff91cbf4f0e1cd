"""Scores of a chunk of query rows, for quadratic mechanisms that compute them; causal masks."""

import torch
from torch import Tensor

from informer.networks.attention.base import AttentionSpec


def future_keys(start: int, n_rows: int, n_keys: int, device: torch.device) -> Tensor:
    """Boolean [n_rows n_keys], True where key j lies after row i: rows are start, start + 1, ..."""
    rows = torch.arange(start, start + n_rows, device=device)
    return torch.arange(n_keys, device=device) > rows[:, None]


def hide_future(spec: AttentionSpec, scores: Tensor, start: int) -> Tensor:
    """Set `scores` [.. c s] of rows start, start + 1, ... to -inf at keys after the row, if the layer is causal."""
    if not spec.causal:
        return scores
    n_rows, n_keys = scores.shape[-2:]
    return scores.masked_fill(future_keys(start, n_rows, n_keys, scores.device), float("-inf"))


def scaled_scores(spec: AttentionSpec, q: Tensor, k: Tensor, start: int) -> Tensor:
    """e^-0.5 q k^T [b h c s] of rows start, start + 1, ..., with future keys hidden."""
    return hide_future(spec, (q * spec.d_head**-0.5) @ k.transpose(-1, -2), start)


def up_to_row(spec: AttentionSpec, scores: Tensor) -> Tensor:
    """Dense scores [.. l s] with -inf above the diagonal, if the layer is causal: for `weights`, which shares no code
    with `forward`."""
    if not spec.causal:
        return scores
    return scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
