"""ProbSparse attention (Zhou et al. 2021, "Informer", eq. 2-4 and algorithm 1).

  n_sample = min(s, c' ceil(ln s))           (at least 1; c': sample_factor)
  n_top = min(l, c ceil(ln l))               (at least 1; c: factor)
  M_i = max_j q_i.k_j - mean_j q_i.k_j       over the sampled keys j
  A_i = softmax_j(e^-0.5 q_i.k_j)            for the n_top queries with the largest M, the active rows
  A_i = 1/s                                  for the lazy rows; causal: 1/(i+1), or 1 with `context=cumsum`

Cost: O(L ln L) time and memory, because there are O(ln L) active rows and sampled keys. With n_top = l it equals
full attention. All rows compete for the active slots, so keys and queries after t may change which rows up to t are
active; values after t never affect them.

By default all queries share one sample of keys: a single matrix product, and the same keys for every comparison.
`sampling=per_query, mean=zero_fill, context=cumsum, causal_selection=False, row_dropout=False` computes what the
authors' published code does. `rounding=ln` uses the paper's u = c ln l, rounded up once, instead of c ceil(ln l).
"""

import math
from collections.abc import Callable
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from informer.networks.attention.base import Attention, AttentionSpec, Keys, Outputs, Queries, Values
from informer.networks.attention.parameters import at_least, choice, flag
from informer.networks.attention.running_sums import causal_mean, running_sum
from informer.networks.ops import fast
from informer.networks.ops.chunks import map_rows
from informer.networks.ops.dropout import dropout_product

PRODUCTS_UP_TO = 2048
"""Largest number of keys for which all products and a selection are faster than gathering keys for each query."""

Products = Callable[[Tensor, Tensor, int], Tensor]
"""(rows [b h c e], keys, index of the first row) -> products of each row with its sampled keys [b h c u]."""


def log_count(factor: int, length: int, rounding: str = "ceil_ln") -> int:
    """factor * ceil(ln length), or ceil(factor * ln length) for `ln`; at least 1 and at most `length`."""
    count = factor * math.ceil(math.log(length)) if rounding == "ceil_ln" else math.ceil(factor * math.log(length))
    return max(1, min(length, count))


@final
class ProbAttention(Attention):
    """ProbSparse attention: a few queries attend, the others take the mean of the values.

    Args:
        spec: sizes and options of the layer.
        factor: c, the number of queries that attend, in units of ceil(ln length).
        sample_factor: number of sampled keys, in the same units; None means `factor`.
        rounding: rounding of both counts: `ceil_ln`, c ceil(ln length), as in the published code; `ln`, ceil(c ln
            length), as in the paper.
        sampling: keys used to select queries. `shared`: one draw without replacement in training, evenly spaced in
            eval. `per_query`: `torch.randint(s, (l, n_sample))` in training, one fixed draw in eval. `all`: every key.
            `lse`: every key, by eq. 2 (log-sum-exp instead of the maximum). The last two take O(L^2) time.
        mean: the term subtracted in M: `sample`, the mean over the sampled keys; `zero_fill`, their sum over s, as in
            the published code.
        zero_in_max: count keys that were not sampled as 0 in the maximum, the literal reading of the paper ("filling
            other pairs with zero"); with `causal_selection` only keys up to the row itself.
        context: output of causal rows that do not attend: `mean` or `cumsum` of the values so far.
        causal_selection: in a causal layer, select queries only by keys up to their own position.
        row_dropout: drop softmax weights of the active rows in training; the published code does not.
    """

    COST = "O(L ln L) time and memory"
    FULL_WHEN = {"factor": 10**6}  # noqa: RUF012 (a class constant of the contract)
    eval_index: Tensor | None
    """Sampled keys in eval: [u] for all queries, [l u] for each; None: every key, by eq. 2."""

    def __init__(
        self,
        spec: AttentionSpec,
        *,
        factor: int = 5,
        sample_factor: int | None = None,
        rounding: str = "ceil_ln",
        sampling: str = "shared",
        mean: str = "sample",
        zero_in_max: bool = False,
        context: str = "mean",
        causal_selection: bool = True,
        row_dropout: bool = True,
    ) -> None:
        super().__init__(spec)
        factor = at_least("factor", factor, 1)
        sample_factor = factor if sample_factor is None else at_least("sample_factor", sample_factor, 1)
        rounding = choice("rounding", rounding, ("ceil_ln", "ln"))
        self.sampling = choice("sampling", sampling, ("shared", "per_query", "all", "lse"))
        self.mean = choice("mean", mean, ("sample", "zero_fill"))
        self.zero_in_max = flag("zero_in_max", zero_in_max)
        self.context = choice("context", context, ("mean", "cumsum"))
        self.masked_selection = flag("causal_selection", causal_selection) and spec.causal
        self.dropout = spec.dropout if flag("row_dropout", row_dropout) else 0.0
        self.n_top = log_count(factor, spec.len_q, rounding)
        self.n_sample = spec.len_k if sampling in ("all", "lse") else log_count(sample_factor, spec.len_k, rounding)
        self.register_buffer("eval_index", self._eval_index(), persistent=False)

    def forward(self, q: Queries, k: Keys, v: Values) -> Outputs:
        """Attention for the queries with the largest M, the mean of the values for the others.

        Raises:
            ValueError: other lengths than those for which the counts and the sample were made.
        """
        self.check_lengths(q, k)
        with torch.no_grad():
            measure = self.sparsity(q, k, self._sample_index(q.device))
            active = measure.topk(self.n_top, dim=-1, sorted=False).indices
        rows = self._attend_active(q, k, v, active)
        index = active[..., None].expand_as(rows)
        if self.spec.causal:
            lazy = running_sum(v, dim=2) if self.context == "cumsum" else causal_mean(v)
            # in place, since nothing else uses it; under autocast the rows have lower precision than the sums
            return lazy.scatter_(2, index, rows.to(lazy.dtype))
        # Adding differences to sum / s, because the backward of a mean and a scatter would write arrays as large as v
        lazy = v.sum(dim=2, keepdim=True) / v.shape[2]
        return lazy.expand(-1, -1, q.shape[2], -1).scatter_add(2, index, rows.to(lazy.dtype) - lazy)

    def _eval_index(self) -> Tensor | None:
        n_keys = self.spec.len_k
        if self.sampling == "lse":
            return None
        if self.sampling == "per_query":
            generator = torch.Generator().manual_seed(self.spec.layer_index)
            return torch.randint(n_keys, (self.spec.len_q, self.n_sample), generator=generator)
        index = torch.empty(self.n_sample, dtype=torch.int64)
        if index.is_meta:  # only the shape matters
            return index
        return torch.linspace(0, n_keys - 1, self.n_sample, dtype=torch.float64).round().long()

    def _sample_index(self, device: torch.device) -> Tensor | None:
        """The sampled keys of this call. Training draws them from the global CPU generator, so that a seed fixes them
        on any device."""
        if self.training and self.sampling == "shared":
            return torch.randperm(self.spec.len_k, device="cpu")[: self.n_sample].to(device)
        if self.training and self.sampling == "per_query":
            return torch.randint(self.spec.len_k, (self.spec.len_q, self.n_sample), device="cpu").to(device)
        return self.eval_index

    def sparsity(self, q: Queries, k: Keys, sample_index: Tensor | None) -> Float[Tensor, "b h l"]:
        """M of every query from the sampled keys (as `eval_index`), computed in chunks of queries.

        With causal selection only keys up to the row's own count; M is -inf if none is sampled, or 0 with
        `zero_in_max`.
        """
        n_keys = k.shape[2]
        products, keys, width = _products(k, sample_index)
        sampled = torch.arange(n_keys, device=q.device) if sample_index is None else sample_index
        peak = torch.logsumexp if sample_index is None else torch.amax
        is_full = None
        if self.zero_in_max and sample_index is not None:
            is_full = fully_sampled(sample_index, q.shape[2], n_keys, causal=self.masked_selection)

        def score(rows: Tensor, keys: Tensor, start: int) -> Tensor:
            scores, stop = products(rows, keys, start), start + rows.shape[2]
            total: Tensor = scores.sum(-1)
            count: Tensor | int = scores.shape[-1]
            if self.masked_selection:
                index = sampled if sampled.ndim == 1 else sampled[start:stop]
                future = index > torch.arange(start, stop, device=q.device)[:, None]
                total, count = scores.masked_fill(future, 0.0).sum(-1), (~future).sum(-1).clamp(min=1)
                scores = scores.masked_fill(future, -math.inf)
            largest = peak(scores, -1)
            if is_full is not None:
                largest = torch.where(is_full[start:stop], largest, largest.clamp(min=0))
            return largest - total / (n_keys if self.mean == "zero_fill" else count)

        return map_rows(score, q, keys, width=width, max_elements=fast.cached(q))  # reduced while still in the cache

    def _attend_active(self, q: Queries, k: Keys, v: Values, active: Int[Tensor, "b h u"]) -> Tensor:
        """Softmax attention of the rows `active` only [b h u d]."""
        positions = torch.arange(k.shape[2], device=k.device)
        causal, dropout = self.spec.causal, self.dropout if self.training else 0.0

        def attend(rows: Tensor, k: Tensor, v: Tensor, active: Tensor, start: int) -> Tensor:
            allowed = positions <= active[:, :, start : start + rows.shape[2], None] if causal else None
            if dropout == 0.0:
                return fast.attention(rows, k, v, attn_mask=allowed)
            scores = (rows * rows.shape[-1] ** -0.5) @ k.transpose(-1, -2)
            if allowed is not None:
                scores = scores.masked_fill(~allowed, -math.inf)
            return dropout_product(scores.softmax(-1), v, dropout)

        batch, head = (torch.arange(n, device=q.device) for n in q.shape[:2])
        queries = q[
            batch[:, None, None], head[:, None], active
        ]  # unlike gather, this does not store q for its gradient
        return map_rows(attend, queries, k, v, active, width=k.shape[2])


def fully_sampled(sample_index: Tensor, n_queries: int, n_keys: int, *, causal: bool) -> Bool[Tensor, " l"]:
    """Whether the sample of each query ([u] or [l u]) contains all of its keys: every key, or if causal those up to its
    own."""
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
