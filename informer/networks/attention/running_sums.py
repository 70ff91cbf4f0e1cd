"""Running sums, means and maxima over the rows of a sequence."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def causal_mean(v: Tensor) -> Tensor:
    """Mean of v_j over j <= i, for v [b h s d]."""
    counts = torch.arange(1, v.shape[2] + 1, device=v.device, dtype=v.dtype)
    return running_sum(v, dim=2).div_(counts[:, None])


def running_sum(x: Tensor, dim: int) -> Tensor:
    """`x.cumsum(dim)`; with deterministic algorithms in a fixed order, which CUDA's cumsum does not have."""
    if not (x.is_cuda and torch.are_deterministic_algorithms_enabled()):
        return x.cumsum(dim)
    return ordered_sum(x.movedim(dim, -2)).movedim(-2, dim)


def running_max(x: Tensor, dim: int) -> Tensor:
    """`x.cummax(dim).values` without its indices; ONNX has no cummax. O(n log n) for n rows."""
    reach = 1  # each row is the largest of the last `reach` rows up to it
    while reach < x.shape[dim]:
        n = x.shape[dim] - reach
        later = torch.maximum(x.narrow(dim, reach, n), x.narrow(dim, 0, n))
        x, reach = torch.cat([x.narrow(dim, 0, reach), later], dim=dim), 2 * reach
    return x


def ordered_sum(x: Tensor) -> Tensor:
    """Running sums over n of [.. n d], as two triangular products: within blocks of sqrt(n) rows, and of blocks."""
    n = x.shape[-2]
    block = max(math.isqrt(n), 1)
    blocks = F.pad(x, (0, 0, 0, -n % block)).unflatten(-2, (-1, block))
    inside = x.new_ones(block, block).tril() @ blocks
    n_blocks = blocks.shape[-3]
    before = x.new_ones(n_blocks, n_blocks).tril(-1) @ inside[..., -1, :]
    return (inside + before.unsqueeze(-2)).flatten(-3, -2)[..., :n, :]
