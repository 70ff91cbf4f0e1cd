"""First-order Taylor attention: exp(q^.k^) cut after the linear term; unit vectors keep it non-negative.

  A_ij = (1 + q^_i.k^_j) / sum_j (1 + q^_i.k^_j)        x^ = x / |x|, 0 for x = 0

Used for segmentation by Li et al. 2020 ("Linear Attention Mechanism", eq. 10-13). Cost: O(l e^2) time, causal or not,
and O(l) memory. A row opposite to all its keys returns the mean of their values. No parameters make it equal to full
attention.
"""

from typing import final

import torch
import torch.nn.functional as F
from torch import Tensor

from informer.networks.attention.kernels import (
    FeatureMap,
    Features,
    KernelAttention,
    unit_vectors,
)


def _features(x: Tensor) -> Features:
    return Features(F.pad(unit_vectors(x), (0, 1), value=1.0))


@final
class TaylorAttention(KernelAttention):
    """Weights proportional to 1 + cosine."""

    COST = "O(L e^2) time, O(L) memory"

    @property
    def width(self) -> int:
        """The unit vector and a constant."""
        return self.spec.d_head + 1

    def floor(self, x: Tensor) -> float:
        """Rounding error per key of 1 + q^.k^ if it should be 0."""
        return 4 * x.shape[-1] * torch.finfo(torch.promote_types(x.dtype, torch.float32)).eps

    def maps(self) -> tuple[FeatureMap, FeatureMap]:
        """f for queries and for keys."""
        return _features, _features
