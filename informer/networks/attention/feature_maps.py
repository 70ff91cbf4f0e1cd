"""Feature maps f of linear attention, A_ij = f(q_i).f(k_j) / sum_j f(q_i).f(k_j).

  elu      f(x) = elu(x) + 1            Katharopoulos et al. 2020, "Transformers are RNNs", eq. 7
  relu     f(x) = max(x, 0)             mentioned there; Kasai et al. 2021 train with it
  exp      f(x) = exp(x)                element by element
  softmax  f(x) = softmax(x)            over the features of each query and of each key

A factor per query row cancels in A, so queries are scaled to avoid underflow of their products.
"""

import torch
from torch import Tensor

from informer.networks.attention.kernels import FeatureMap, Features, kernel_weights


def _elu_key(x: Tensor) -> Features:
    # elu(x) + 1 = exp(min(x, 0)) + max(x, 0), without cancellation and with a cheaper gradient than `where`
    positive = x.relu()
    return Features((x - positive).exp() + positive)


def _elu_query(x: Tensor) -> Features:
    # Scale a row of negative elements so that its largest feature is 1 (this cancels), unless all of it underflows.
    largest = x.detach().amax(dim=-1, keepdim=True).clamp(max=0)
    positive = x.relu()
    return Features((x - positive - largest.masked_fill(largest.exp() < torch.finfo(x.dtype).tiny, 0)).exp() + positive)


def _relu_key(x: Tensor) -> Features:
    return Features(x.relu())


def _relu_query(x: Tensor) -> Features:
    features = x.relu()
    largest = features.detach().amax(dim=-1, keepdim=True)
    return Features(features / largest.masked_fill(largest == 0, 1))


def exp_key(x: Tensor) -> Features:
    """exp(x), with the largest element of each key split off as a logarithm."""
    largest = x.detach().amax(dim=-1, keepdim=True)
    return Features((x - largest).exp(), largest)


def softmax_over_features(x: Tensor) -> Features:
    """softmax(x) of each position; for queries this equals exp(x) up to a factor per row."""
    return Features(x.softmax(dim=-1))


FEATURE_MAPS: dict[str, tuple[FeatureMap, FeatureMap]] = {
    "elu": (_elu_query, _elu_key),
    "relu": (_relu_query, _relu_key),
    "exp": (softmax_over_features, exp_key),
    "softmax": (softmax_over_features, softmax_over_features),
}
"""f for queries and for keys, as arguments of `kernel_attention`."""


def dense_weights(name: str, q: Tensor, k: Tensor, *, causal: bool) -> Tensor:
    """A [b h l s] of one of `FEATURE_MAPS`, from the products of all pairs."""
    log = None
    if name == "elu":
        largest = q.amax(dim=-1, keepdim=True).clamp(max=0)  # a factor per row, which cancels
        largest = largest.masked_fill(largest.exp() < torch.finfo(largest.dtype).tiny, 0)
        fq, fk = (torch.where(x > 0, x + 1, x.clamp(max=0).exp()) for x in (q - largest, k))
    elif name == "relu":
        largest = q.amax(dim=-1, keepdim=True).clamp(min=0)
        fq, fk = (torch.where(x > 0, x, 0.0) for x in (q / largest.masked_fill(largest == 0, 1), k))
    elif name == "exp":
        log = k.amax(dim=-1, keepdim=True)
        fq, fk = q.softmax(dim=-1), (k - log).exp()
    else:
        fq, fk = q.softmax(dim=-1), k.softmax(dim=-1)
    return kernel_weights(torch.einsum("bhlm,bhsm->bhls", fq, fk), causal=causal, log=log)
