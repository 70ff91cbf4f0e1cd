"""Linear attention (Katharopoulos et al. 2020, "Transformers are RNNs", eq. 4-7).

  A_ij = f(q_i).f(k_j) / sum_j f(q_i).f(k_j)

  elu      f(x) = elu(x) + 1            eq. 7, the default
  relu     f(x) = max(x, 0)             mentioned there; Kasai et al. 2021 train with it
  exp      f(x) = exp(x)                element by element
  softmax  f(x) = softmax(x)            over the features of each query and of each key

Causal: the recurrence S_i = S_{i-1} + f(k_i) v_i^T, z_i = z_{i-1} + f(k_i), one position of which is `step`.

Cost: O(l e^2) time, causal or not, and O(l) memory. A row whose products with all its keys are 0 returns the mean of
its allowed values (elu: elements below about -70 in float32, -670 in float64). No parameters make it equal to full
attention.

A factor per query row cancels in A, so queries are scaled to avoid underflow of their products.
"""

from typing import final

import torch
from torch import Tensor

from informer.networks.attention.base import AttentionSpec
from informer.networks.attention.kernels import FeatureMap, Features, KernelAttention
from informer.networks.attention.parameters import choice


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


@final
class LinearAttention(KernelAttention):
    """Weights proportional to products of features.

    Args:
        spec: sizes and options of the layer.
        feature_map: elu (elu(x) + 1) | relu | exp | softmax (over the features of each query and key).
    """

    COST = "O(L e^2) time, O(L) memory"

    def __init__(self, spec: AttentionSpec, *, feature_map: str = "elu") -> None:
        super().__init__(spec)
        self.feature_map = choice("feature_map", feature_map, tuple(FEATURE_MAPS))

    def maps(self) -> tuple[FeatureMap, FeatureMap]:
        """f for queries and for keys."""
        return FEATURE_MAPS[self.feature_map]
