"""Attention by products of features, also one position at a time with a state of the positions before it.

    state = attn.initial_state(batch_size)
    out_t, state = attn.step(state, q_t, k_t, v_t)         # q_t, k_t [b h e], v_t [b h d] -> out_t [b h d]

The rows equal those of `forward` over the whole sequence in a causal layer, and the state has a constant size: linear,
performer, taylor and efficient have this form. Katharopoulos et al. 2020 ("Transformers are RNNs", eq. 18-20):

  S_i = S_{i-1} + f(k_i) v_i^T        z_i = z_{i-1} + f(k_i)        out_i = f(q_i) S_i / f(q_i).z_i

`efficient` has a normaliser per feature c: out_i = sum_c softmax(q_i)_c S_ic / z_ic, with f = exp.
Features that grow like exp are relative to the largest so far, which cancels. States are never changed in place, so a
state may be stored and continued more than once. They have the dtype of the operands, sums at least float32.
"""

from abc import abstractmethod
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from informer.networks.attention.base import Attention, Keys, Outputs, Queries, Values
from informer.networks.attention.kernels import FeatureMap, kernel_attention, promote_half, smallest


class KernelState(NamedTuple):
    """State of attention by products of features, after i positions."""

    s: Float[Tensor, "b h m d"]
    """Sum of f(k_j) v_j^T, divided by exp(unit)."""
    z: Float[Tensor, "b h m"]
    """Sum of f(k_j), divided by exp(unit)."""
    unit: Float[Tensor, "b h"]
    """Largest logarithm of a key's factor so far; -inf before the first, 0 for features without factors."""
    v_sum: Float[Tensor, "b h d"]
    """Sum of v_j, for rows whose normaliser is 0: they return the mean."""
    n: Tensor
    """Number of positions so far, i."""


class KernelAttention(Attention):
    """A mechanism whose weights are products of features, divided by their sum over the allowed keys; see `kernels`."""

    @property
    def width(self) -> int:
        """Number m of features of a query or key."""
        return self.spec.d_head

    def floor(self, x: Tensor) -> float:
        """Rounding error per key of a normaliser that should be 0, see `kernels.is_zero`; x is a query or key."""
        return 0.0

    @abstractmethod
    def maps(self) -> tuple[FeatureMap, FeatureMap]:
        """f for queries and for keys."""

    def forward(self, q: Queries, k: Keys, v: Values) -> Outputs:
        """A v."""
        width, causal = self.width, self.spec.causal
        return kernel_attention(q, k, v, *self.maps(), width=width, causal=causal, floor=self.floor(q))

    def initial_state(
        self, batch_size: int, d_value: int | None = None, *, device: torch.device | str | None = None
    ) -> Any:
        """The state before the first position, for values with `d_value` features (None: d_head).

        Raises:
            ValueError: the layer is not causal.
        """
        if not self.spec.causal:
            raise ValueError("the recurrent form needs a causal layer: build it with AttentionSpec(causal=True)")
        d = self.spec.d_head if d_value is None else d_value
        return self.empty_state((batch_size, self.spec.n_heads), d, device)

    def empty_state(self, shape: tuple[int, int], d: int, device: torch.device | str | None) -> Any:
        """The state before the first position, of `shape` [b h] and values of width d."""
        return KernelState(
            s=torch.zeros(*shape, self.width, d, device=device),
            z=torch.zeros(*shape, self.width, device=device),
            unit=torch.full(shape, float("-inf"), device=device),
            v_sum=torch.zeros(*shape, d, device=device),
            n=torch.tensor(0, device=device),
        )

    def step(
        self, state: Any, q_t: Float[Tensor, "b h e"], k_t: Float[Tensor, "b h e"], v_t: Float[Tensor, "b h d"]
    ) -> tuple[Float[Tensor, "b h d"], Any]:
        """The row of the next position, and the state after it."""
        query, key = self.maps()
        q, k, v = promote_half(q_t, k_t, v_t)
        fq, (fk, log) = query(q.unsqueeze(2)).values.squeeze(2), key(k.unsqueeze(2))
        log = fk.new_zeros(()) if log is None else log.squeeze(2).squeeze(2)
        unit = torch.maximum(state.unit, log.detach())  # cancels, so it needs no gradient
        decay, fk = (state.unit - unit).exp(), fk.squeeze(2) * (log - unit).exp().unsqueeze(-1)
        new = KernelState(
            s=state.s * decay[..., None, None] + fk.unsqueeze(-1) * v.unsqueeze(-2),
            z=state.z * decay[..., None] + fk,
            unit=unit,
            v_sum=state.v_sum + v,
            n=state.n + 1,
        )
        z = (fq * new.z).sum(dim=-1, keepdim=True)
        zero = z.detach().abs() < (new.n.to(z.dtype) * self.floor(q_t)).clamp(min=smallest(z))
        out = (fq.unsqueeze(-2) @ new.s).squeeze(-2) / z.masked_fill(zero, 1)
        return torch.where(zero, new.v_sum / new.n, out).to(v_t.dtype), new
