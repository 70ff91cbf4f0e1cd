"""The sparsity measurement of ProbSparse attention (Zhou et al. 2021, "Informer", eq. 4 and algorithm 1).

M_i = max_j q_i.k_j - mean_j q_i.k_j       over the sampled keys j of query i
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from informer.networks.attention.base import Keys, Queries
from informer.networks.ops import fast
from informer.networks.ops.chunks import map_rows

PRODUCTS_UP_TO = 2048
"""Largest number of keys for which all products and a selection are faster than gathering keys for each query."""

Products = Callable[[Tensor, Tensor, int], Tensor]
"""(rows [b h c e], keys, index of the first row) -> products of each row with its sampled keys [b h c u]."""


def sparsity(
    q: Queries,
    k: Keys,
    *,
    sample_index: Int[Tensor, " u"] | Int[Tensor, "l u"] | None,
    causal: bool,
    mean: str,
    zero_in_max: bool = False,
) -> Float[Tensor, "b h l"]:
    """M of every query, computed in chunks of queries; arguments as in `prob.probsparse`.

    If `causal`, only keys up to the row's own count (M is -inf if none is sampled, or 0 with `zero_in_max`).
    """
    n_keys = k.shape[2]
    products, keys, width = _products(k, sample_index)
    sampled = torch.arange(n_keys, device=q.device) if sample_index is None else sample_index
    peak = torch.logsumexp if sample_index is None else torch.amax
    zero_counts = None
    if zero_in_max and sample_index is not None:
        zero_counts = ~fully_sampled(sample_index, q.shape[2], n_keys, causal=causal)

    def largest(scores: Tensor, start: int) -> Tensor:
        top = peak(scores, -1)
        if zero_counts is None:
            return top
        return torch.where(zero_counts[start : start + top.shape[2]], top.clamp(min=0), top)

    def score(rows: Tensor, keys: Tensor, start: int) -> Tensor:
        scores = products(rows, keys, start)
        if not causal:
            centre = scores.sum(-1) / (n_keys if mean == "zero_fill" else scores.shape[-1])
            return largest(scores, start) - centre
        positions = torch.arange(start, start + rows.shape[2], device=q.device)
        index = sampled if sampled.ndim == 1 else sampled[start : start + rows.shape[2]]
        future = index > positions[:, None]
        count = n_keys if mean == "zero_fill" else (~future).sum(-1).clamp(min=1)
        top = largest(scores.masked_fill(future, -math.inf), start)
        return top - scores.masked_fill(future, 0.0).sum(-1) / count

    # reduced while they are still in the cache
    return map_rows(score, q, keys, width=width, max_elements=fast.cached(q))


def fully_sampled(
    sample_index: Int[Tensor, " u"] | Int[Tensor, "l u"], n_queries: int, n_keys: int, *, causal: bool
) -> Bool[Tensor, " l"]:
    """Whether the sample of each query contains all of its keys: every key, or if causal all keys up to its own."""
    rows = torch.arange(n_queries, device=sample_index.device)
    index = sample_index.expand(n_queries, -1).sort(dim=-1).values
    last = rows if causal else torch.full_like(rows, n_keys - 1)
    new = torch.ones_like(index, dtype=torch.bool)
    new[:, 1:] = index[:, 1:] != index[:, :-1]
    return (new & (index <= last[:, None])).sum(-1) == last + 1


def _products(k: Tensor, sample_index: Tensor | None) -> tuple[Products, Tensor, int]:
    """A function for the products of rows with their sampled keys, its keys, and the elements needed per row."""
    keys, index = k.transpose(-1, -2), sample_index
    if index is None:
        return lambda rows, keys, start: (rows * k.shape[3] ** -0.5) @ keys, keys, k.shape[2]
    if index.ndim == 1:
        return lambda rows, keys, start: rows @ keys, keys[..., index], len(index)

    def pick(rows: Tensor, keys: Tensor, start: int) -> Tensor:
        products = rows @ keys
        return products.gather(-1, index[start : start + rows.shape[2]].expand(*products.shape[:2], -1, -1))

    def gather(rows: Tensor, k: Tensor, start: int) -> Tensor:
        of_rows = index[start : start + rows.shape[2]]
        return (k.index_select(2, of_rows.flatten()).unflatten(2, of_rows.shape) @ rows[..., None]).squeeze(-1)

    return (pick, keys, k.shape[2]) if k.shape[2] <= PRODUCTS_UP_TO else (gather, k, index.shape[1] * k.shape[3])
