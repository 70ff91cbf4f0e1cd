"""Linear attention (Katharopoulos et al. 2020, "Transformers are RNNs", eq. 4-7).

  A_ij = f(q_i).f(k_j) / sum_j f(q_i).f(k_j)        f(x) = elu(x) + 1 by default; others in `feature_maps`

Causal: the recurrence S_i = S_{i-1} + f(k_i) v_i^T, z_i = z_{i-1} + f(k_i), one position of which is `step`.

Cost: O(l e^2) time, causal or not, and O(l) memory. A row whose products with all its keys are 0 returns the mean of
its allowed values (elu: elements below about -70 in float32, -670 in float64). No parameters make it equal to full
attention.
"""

from typing import final

from informer.networks.attention.base import AttentionSpec, Keys, Matrix, Queries
from informer.networks.attention.feature_maps import FEATURE_MAPS, dense_weights
from informer.networks.attention.kernels import FeatureMap, promote_half
from informer.networks.attention.parameters import choice
from informer.networks.attention.recurrent import KernelAttention


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

    def weights(self, q: Queries, k: Keys) -> Matrix:
        """f(q) f(k)^T over its row sums."""
        wide_q, wide_k = promote_half(q, k)
        return dense_weights(self.feature_map, wide_q, wide_k, causal=self.spec.causal).to(q.dtype)
