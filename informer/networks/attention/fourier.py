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

import math
from typing import final

import torch
from torch import Tensor
from torch.fft import irfft, rfft

from informer.networks.attention.base import Attention, AttentionSpec, Keys, Matrix, Outputs, Queries, Values
from informer.networks.attention.kernels import promote_half
from informer.networks.attention.parameters import at_least, stream
from informer.networks.ops.fast import is_shape_only


@final
class FourierAttention(Attention):
    """Attention from frequencies of the queries to frequencies of keys and values.

    Args:
        spec: sizes and options of the layer.
        n_modes: frequencies of queries, and of keys; the 64 of the paper are all up to 127 rows.
        seed: seed of the frequencies, combined with the layer's index.
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

    def weights(self, q: Queries, k: Keys) -> Matrix:
        """P between cosines and sines of rows and of keys."""
        wide_q, wide_k = promote_half(q, k)
        (cos_q, sin_q), (cos_k, sin_k) = _waves(wide_q, self.modes_q), _waves(wide_k, self.modes_k)
        real_q, imag_q, real_k, imag_k = (
            torch.einsum("bhle,lm->bhme", x, wave)
            for x, wave in ((wide_q, cos_q), (wide_q, sin_q), (wide_k, cos_k), (wide_k, sin_k))
        )
        real = torch.einsum("bhfe,bhge->bhfg", real_q, real_k) - torch.einsum("bhfe,bhge->bhfg", imag_q, imag_k)
        imag = torch.einsum("bhfe,bhge->bhfg", real_q, imag_k) + torch.einsum("bhfe,bhge->bhfg", imag_q, real_k)
        scale = (q.shape[2] * k.shape[2] * q.shape[3]) ** -0.5
        once = (self.modes_q == 0) | (2 * self.modes_q == q.shape[2])
        shares = (torch.hypot(real, imag) * scale).softmax(dim=-1) * torch.where(once, 1, 2)[:, None] / k.shape[2]
        matrix = cos_q @ shares @ cos_k.transpose(0, 1) + sin_q @ shares @ sin_k.transpose(0, 1)
        return matrix.to(q.dtype)


def _waves(x: Tensor, modes: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin of 2 pi f i / l [l m], for l rows i of x and frequencies f."""
    length = x.shape[2]
    turns = torch.arange(length, device=x.device)[:, None] * modes % length
    angles = turns.to(x.dtype) * (2 * math.pi / length)
    return angles.cos(), angles.sin()
