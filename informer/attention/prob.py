"""ProbSparse attention (Zhou et al. 2021, "Informer", eq. 2-4 and algorithm 1).

  n_sample = min(s, factor ceil(ln s))       n_top = min(l, factor ceil(ln l))        (each at least 1)
  M_i = max_j q_i.k_j - mean_j q_i.k_j       over the sampled keys j
  A_i = softmax_j(e^-0.5 q_i.k_j)            for the n_top queries with the largest M, the active rows
  A_i = 1/s                                  for the lazy rows; causal: 1/(i+1), or 1 with `context=cumsum`

Cost: O(L ln L) time and memory, because active rows and sampled keys number O(ln L). With n_top = l it equals full
attention. Rows compete for being active over the whole block, so keys and queries after t may change which rows up to
t are active; values after t never reach them.

By default one sample of keys serves all queries: a single matrix product, and every query is judged on the same keys.
`sampling=per_query, mean=zero_fill, context=cumsum, causal_selection=False, row_dropout=False` computes what the code
that the authors published does.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import final

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from informer.attention.base import Attention, AttentionSpec
from informer.attention.checks import at_least, choice, flag
from informer.attention.chunking import CACHED_ELEMENTS, MAX_ELEMENTS, map_rows
from informer.attention.dropout import dropout_product
from informer.attention.masks import causal_mean, running_sum

SAMPLINGS = ("shared", "per_query", "all", "lse")
MEANS = ("sample", "zero_fill")
CONTEXTS = ("mean", "cumsum")
PRODUCTS_UP_TO = 2048
"""Keys up to which all products, then a pick, are faster than gathering a set of keys for each query."""


Products = Callable[[Tensor, int, Tensor], Tensor]
"""(rows [b h c e], index of the first, keys) -> products of each row with its sampled keys [b h c u]."""


def log_count(factor: int, length: int) -> int:
    """factor * ceil(ln length), at least 1 and at most `length`."""
    return max(1, min(length, factor * math.ceil(math.log(length))))


def probsparse(
    q: Float[Tensor, "b h l e"],
    k: Float[Tensor, "b h s e"],
    v: Float[Tensor, "b h s d"],
    *,
    sample_index: Int[Tensor, "u"] | Int[Tensor, "l u"] | None,
    n_top: int,
    causal: bool,
    mean: str,
    context: str,
    causal_selection: bool,
    dropout: float = 0.0,
) -> Float[Tensor, "b h l d"]:
    """ProbSparse attention for a given sample of keys.

    Args:
        q: queries.
        k: keys.
        v: values.
        sample_index: keys to score on, shared by all queries [u] or one set for each [l u]; None scores on every key
            with eq. 2 itself (log-sum-exp of the scaled products in place of their maximum).
        n_top: number of active rows.
        causal: row i uses values j <= i only.
        mean: the term subtracted in M: `sample`, the mean over the sampled keys; `zero_fill`, their sum over s.
        context: causal lazy rows: `mean` or `cumsum` of v_j over j <= i.
        causal_selection: with `causal`, only sampled keys j <= i count in M_i (none: M_i = -inf).
        dropout: probability of dropping a softmax weight of an active row.

    Raises:
        ValueError: `mean` or `context` is none of these.
    """
    choice("mean", mean, MEANS)
    choice("context", context, CONTEXTS)
    masked = causal and causal_selection
    with torch.no_grad():
        measure = sparsity(q, k, sample_index=sample_index, causal=masked, mean=mean)
        active = measure.topk(n_top, dim=-1, sorted=False).indices
    rows = _attend_active(q, k, v, active, causal=causal, dropout=dropout)
    index = active[..., None].expand_as(rows)
    if causal:
        lazy = running_sum(v, dim=2) if context == "cumsum" else causal_mean(v)
        # in place, as nothing else holds it; under autocast the rows come in lower precision than the sums
        return lazy.scatter_(2, index, rows.to(lazy.dtype))
    # sum / s and a difference added: the backward pass of a mean and of a scatter would write arrays as large as v
    lazy = v.sum(dim=2, keepdim=True) / v.shape[2]
    return lazy.expand(-1, -1, q.shape[2], -1).scatter_add(2, index, rows.to(lazy.dtype) - lazy)


def sparsity(
    q: Float[Tensor, "b h l e"],
    k: Float[Tensor, "b h s e"],
    *,
    sample_index: Int[Tensor, "u"] | Int[Tensor, "l u"] | None,
    causal: bool,
    mean: str,
) -> Float[Tensor, "b h l"]:
    """M of every query, a chunk of queries at a time; arguments as in `probsparse`."""
    n_keys = k.shape[2]
    products, keys, width = _products(k, sample_index)
    sampled = torch.arange(n_keys, device=q.device) if sample_index is None else sample_index
    peak = torch.logsumexp if sample_index is None else torch.amax

    def score(rows: Tensor, start: int, keys: Tensor) -> Tensor:
        found = products(rows, start, keys)
        if not causal:
            centre = found.sum(-1) / (n_keys if mean == "zero_fill" else found.shape[-1])
            return peak(found, -1) - centre
        positions = torch.arange(start, start + rows.shape[2], device=q.device)
        index = sampled if sampled.ndim == 1 else sampled[start : start + rows.shape[2]]
        future = index > positions[:, None]
        count = n_keys if mean == "zero_fill" else (~future).sum(-1).clamp(min=1)
        return peak(found.masked_fill(future, -math.inf), -1) - found.masked_fill(future, 0.0).sum(-1) / count

    per_row = q.shape[0] * q.shape[1] * width
    max_elements = MAX_ELEMENTS if q.is_cuda else CACHED_ELEMENTS  # reduced before they leave the cache
    return map_rows(score, q, keys, elements_per_row=per_row, max_elements=max_elements)


def _products(k: Tensor, sample_index: Tensor | None) -> tuple[Products, Tensor, int]:
    """How rows are multiplied with their sampled keys [b h c u], the keys that takes, and the elements a row needs."""
    keys = k.transpose(-1, -2)
    if sample_index is None:
        return lambda rows, start, keys: (rows * k.shape[3] ** -0.5) @ keys, keys, k.shape[2]
    if sample_index.ndim == 1:
        return lambda rows, start, keys: rows @ keys, keys[..., sample_index], len(sample_index)
    if k.shape[2] <= PRODUCTS_UP_TO:
        return partial(_pick_products, sample_index), keys, k.shape[2]
    return partial(_gather_products, sample_index), k, sample_index.shape[1] * k.shape[3]


def _pick_products(sample_index: Tensor, rows: Tensor, start: int, keys: Tensor) -> Tensor:
    products = rows @ keys
    index = sample_index[start : start + rows.shape[2]]
    return products.gather(-1, index.expand(*products.shape[:2], -1, -1))


def _gather_products(sample_index: Tensor, rows: Tensor, start: int, k: Tensor) -> Tensor:
    index = sample_index[start : start + rows.shape[2]]
    keys = k.index_select(2, index.flatten()).unflatten(2, index.shape)
    return (keys @ rows[..., None]).squeeze(-1)


def _attend_active(q: Tensor, k: Tensor, v: Tensor, active: Tensor, *, causal: bool, dropout: float) -> Tensor:
    """Softmax attention of the rows `active` [b h u] only."""
    positions = torch.arange(k.shape[2], device=k.device)

    def attend(rows: Tensor, start: int, k: Tensor, v: Tensor, active: Tensor) -> Tensor:
        allowed = None
        if causal:
            allowed = positions <= active[:, :, start : start + rows.shape[2], None]
        if dropout == 0.0:
            return F.scaled_dot_product_attention(rows, k, v, attn_mask=allowed)
        scores = (rows * rows.shape[-1] ** -0.5) @ k.transpose(-1, -2)
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -math.inf)
        return dropout_product(scores.softmax(-1), v, dropout, training=True)

    batch, head = (torch.arange(n, device=q.device) for n in q.shape[:2])
    queries = q[batch[:, None, None], head[:, None], active]  # unlike gather, it does not keep q for its gradient
    return map_rows(attend, queries, k, v, active, elements_per_row=q.shape[0] * q.shape[1] * k.shape[2])


@final
class ProbAttention(Attention):
    """ProbSparse attention: a few queries attend, the others take the mean of the values.

    Args:
        spec: facts of the layer.
        factor: how many keys are sampled and how many queries attend, in units of ceil(ln length).
        sampling: keys that queries are judged on. `shared`: one draw without replacement in training, evenly spaced
            in eval; `per_query`: `torch.randint(s, (l, n_sample))` in training, one fixed draw in eval; `all`: every
            key; `lse`: every key, by eq. 2 (log-sum-exp in place of the maximum). The last two take O(L^2) time.
        mean: the term subtracted in M: `sample`, over the sampled keys; `zero_fill`, their sum over s (as published).
        context: causal rows that do not attend: `mean` or `cumsum` of the values so far.
        causal_selection: in a causal layer, judge a query on keys up to its own position only.
        row_dropout: drop softmax weights of the attending rows in training; the published code drops none.
    """

    COST = "O(L ln L) time and memory"
    FULL_WHEN = {"factor": 10**6}  # noqa: RUF012 (a class constant of the contract)
    eval_index: Tensor | None

    def __init__(
        self,
        spec: AttentionSpec,
        *,
        factor: int = 5,
        sampling: str = "shared",
        mean: str = "sample",
        context: str = "mean",
        causal_selection: bool = True,
        row_dropout: bool = True,
    ) -> None:
        super().__init__(spec)
        factor = at_least("factor", factor, 1)
        self.sampling = choice("sampling", sampling, SAMPLINGS)
        self.mean = choice("mean", mean, MEANS)
        self.context = choice("context", context, CONTEXTS)
        self.causal_selection = flag("causal_selection", causal_selection)
        self.dropout = spec.dropout if flag("row_dropout", row_dropout) else 0.0
        self.n_top = log_count(factor, spec.len_q)
        self.n_sample = spec.len_k if sampling in ("all", "lse") else log_count(factor, spec.len_k)
        self.register_buffer("eval_index", self._eval_index(), persistent=False)

    def _eval_index(self) -> Tensor | None:
        n_keys = self.spec.len_k
        if self.sampling == "lse":
            return None
        if self.sampling == "per_query":
            generator = torch.Generator().manual_seed(self.spec.layer_index)
            return torch.randint(n_keys, (self.spec.len_q, self.n_sample), generator=generator)
        return torch.linspace(0, n_keys - 1, self.n_sample, dtype=torch.float64).round().long()

    def _sample_index(self, device: torch.device) -> Tensor | None:
        """The keys of this call. Training draws from the global CPU generator: a seed fixes it on any device."""
        if self.training and self.sampling == "shared":
            return torch.randperm(self.spec.len_k, device="cpu")[: self.n_sample].to(device)
        if self.training and self.sampling == "per_query":
            return torch.randint(self.spec.len_k, (self.spec.len_q, self.n_sample), device="cpu").to(device)
        return self.eval_index

    def forward(
        self, q: Float[Tensor, "b h l e"], k: Float[Tensor, "b h s e"], v: Float[Tensor, "b h s d"]
    ) -> Float[Tensor, "b h l d"]:
        """Draw a sample of keys, then `probsparse`."""
        return probsparse(
            q,
            k,
            v,
            sample_index=self._sample_index(q.device),
            n_top=self.n_top,
            causal=self.spec.causal,
            mean=self.mean,
            context=self.context,
            causal_selection=self.causal_selection,
            dropout=self.dropout if self.training else 0.0,
        )

    def weights(self, q: Float[Tensor, "b h l e"], k: Float[Tensor, "b h s e"]) -> Float[Tensor, "b h l s"]:
        """Softmax rows for the active queries, constant rows for the others, from all products at once."""
        products = torch.einsum("bhle,bhse->bhls", q, k)
        allowed = torch.ones(products.shape[-2:], dtype=torch.bool, device=q.device)
        if self.spec.causal:
            allowed = allowed.tril()
        active = torch.zeros(products.shape[:3], dtype=torch.bool, device=q.device)
        active.scatter_(2, self._dense_sparsity(products, allowed).topk(self.n_top, sorted=False).indices, True)
        attended = (products * q.shape[-1] ** -0.5).masked_fill(~allowed, -math.inf).softmax(-1)
        lazy = allowed.to(q.dtype)
        if not (self.spec.causal and self.context == "cumsum"):
            lazy = lazy / lazy.sum(-1, keepdim=True)
        return torch.where(active[..., None], attended, lazy)

    def _dense_sparsity(self, products: Tensor, allowed: Tensor) -> Tensor:
        """M [b h l] from the products of all pairs [b h l s]."""
        scored = allowed if self.causal_selection else torch.ones_like(allowed)
        if self.eval_index is None:
            products = products * self.spec.d_head**-0.5
        else:
            index = self.eval_index.expand(products.shape[2], -1)
            scored = scored.gather(-1, index)
            products = products.gather(-1, index.expand(*products.shape[:2], -1, -1))
        hidden = products.masked_fill(~scored, -math.inf)
        peak = hidden.logsumexp(-1) if self.eval_index is None else hidden.amax(-1)
        divisor = self.spec.len_k if self.mean == "zero_fill" else scored.sum(-1).clamp(min=1)
        return peak - products.masked_fill(~scored, 0.0).sum(-1) / divisor
