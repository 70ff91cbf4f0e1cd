"""Fourier enhanced attention (Zhou et al. 2022, "FEDformer: Frequency Enhanced Decomposed Transformer for Long-term
Series Forecasting", eq. 6-7): softmax attention between a few frequencies instead of positions.

  Q = q at the frequencies f of l rows, K = k and V = v at the frequencies g of s rows          complex [m e]
  P = softmax_g(e^-0.5 |Q K^T|)                                                                [m_q m_k]
  A = inverse transform of P V, with 0 at all other frequencies; written out, for f = 0 .. l/2 and g = 0 .. s/2,

  A_ij = 1/s sum_fg c_f P_fg cos(2 pi (f i / l - g j / s))         c_f = 1 for f = 0 and f = l/2, else 2

The n_modes frequencies of each side are drawn once from (seed, layer_index), all if there are fewer. Of the paper's two
activations this is the softmax, of absolute values as in the authors' code: tanh has poles among complex numbers. Q and
K come from the unitary transform, so that scores are of the same size at any length. A may be negative, and its rows
need not sum to 1. Frequencies mix all positions, so there is no causal form.

Cost: O(L log L) time, O(L) memory. No parameters make it equal to another mechanism.
"""

from typing import final

import torch
from torch import Tensor
from torch.fft import irfft, rfft

from informer.networks.attention.base import Attention, AttentionSpec, Keys, Outputs, Queries, Values
from informer.networks.attention.kernels import promote_half
from informer.networks.attention.parameters import at_least, stream
from informer.networks.ops.fast import is_shape_only


@final
class FourierAttention(Attention):
    """Attention from frequencies of the queries to frequencies of keys and values.

    Args:
        spec: sizes and options of the layer.
        n_modes: frequencies of queries, and of keys; the 64 of the paper are all up to 127 rows.
        seed: seed of the frequencies, with the layer's index.
    """

    CAUSAL = False
    COST = "O(L log L) time, O(L) memory"

    def __init__(self, spec: AttentionSpec, *, n_modes: int = 64, seed: int = 0) -> None:
        super().__init__(spec)
        at_least("n_modes", n_modes, 1)
        generator = stream(seed, spec.layer_index)

        def draw(length: int) -> Tensor:
            n = length // 2 + 1
            if is_shape_only():
                return torch.empty(min(n_modes, n), dtype=torch.int64)
            return torch.randperm(n, generator=generator)[:n_modes].sort().values

        self.modes_q: Tensor
        self.modes_k: Tensor
        self.register_buffer("modes_q", draw(spec.len_q))
        self.register_buffer("modes_k", draw(spec.len_k))

    def forward(self, q: Queries, k: Keys, v: Values) -> Outputs:
        """The inverse transform of P V."""
        self.check_lengths(q, k)
        length, dtype = q.shape[2], v.dtype
        q, k, v = promote_half(q, k, v)
        of_q = rfft(q * q.shape[3] ** -0.5, dim=2, norm="ortho").index_select(2, self.modes_q)
        of_k = rfft(k, dim=2, norm="ortho").index_select(2, self.modes_k)
        of_v = rfft(v, dim=2, norm="forward").index_select(2, self.modes_k)
        shares = (of_q @ of_k.transpose(-1, -2)).abs().softmax(dim=-1)
        mixed = torch.complex(*((shares @ part).to(v.dtype) for part in (of_v.real, of_v.imag)))
        everywhere = mixed.new_zeros(*q.shape[:2], length // 2 + 1, v.shape[3]).index_copy(2, self.modes_q, mixed)
        return irfft(everywhere, n=length, dim=2, norm="forward").to(dtype)
