"""Auto-correlation (Wu et al. 2021, "Autoformer: Decomposition Transformers with Auto-Correlation for Long-Term Series
Forecasting", eq. 5-7 for one head, eq. 8 for the transform).

  R(t) = 1/e sum_c sum_i q_ic k_(i-t)c                  for every delay t of 0 .. l-1, positions modulo l
       = 1/e sum_c F^-1(F(q_c) F*(k_c))(t)              all of them from two Fourier transforms
  w    = softmax of R over its floor(factor ln l) largest delays, at least 1; delays that tie with the last are kept
  A_ij = w((j - i) mod l)                               row i of A v: sum_t w(t) v_(i+t)

All rows of a head share the delays, and i + t wraps around the end, so there is no causal form. As in the authors'
code, R is a sum over positions and Roll takes v_(i+t), also where queries and keys differ. Their code averages R over
the heads, and in training over the batch, before it selects; here each head of each item has its own delays.

The sum over delays is a correlation of w and v, so it is computed by Fourier transforms too, for any number of delays.

Cost: O(L log L) time, O(L) memory. Equal to the mean of the values for q = 0; no parameters make it equal to `full`.
"""

import math
from typing import final

from torch import Tensor
from torch.fft import irfft, rfft

from informer.networks.attention.base import Attention, AttentionSpec, Keys, Outputs, Queries, Values
from informer.networks.attention.kernels import promote_half
from informer.networks.attention.parameters import positive


@final
class AutoCorrelation(Attention):
    """The values at the few delays by which queries and keys correlate most.

    Args:
        spec: sizes and options of the layer.
        factor: c; c ln l delays are used.
    """

    CAUSAL = False
    CROSS = False
    COST = "O(L log L) time, O(L) memory"

    def __init__(self, spec: AttentionSpec, *, factor: float = 3.0) -> None:
        super().__init__(spec)
        self.factor = positive("factor", factor)

    def forward(self, q: Queries, k: Keys, v: Values) -> Outputs:
        """sum_t w(t) v_(i+t)."""
        length, dtype = q.shape[2], v.dtype
        q, k, v = promote_half(q, k, v)
        spectrum = (rfft(q, dim=2) * rfft(k, dim=2).conj()).mean(dim=-1)
        shares = self._shares(irfft(spectrum, n=length, dim=2))
        return irfft(rfft(shares, dim=2).conj()[..., None] * rfft(v, dim=2), n=length, dim=2).to(dtype)

    def _shares(self, correlations: Tensor) -> Tensor:
        """w from R, both [b h l]."""
        length = correlations.shape[-1]
        n_delays = min(max(math.floor(self.factor * math.log(length)), 1), length)
        least = correlations.detach().topk(n_delays, dim=-1).values[..., -1:]
        return correlations.masked_fill(correlations < least, float("-inf")).softmax(dim=-1)
