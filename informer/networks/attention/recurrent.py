"""Causal attention one position at a time, with a state of what came before.

    state = attn.initial_state(batch_size)
    out_t, state = attn.step(state, q_t, k_t, v_t)         # q_t, k_t [b h e], v_t [b h d] -> out_t [b h d]

The rows equal those of `forward` over the whole sequence in a causal layer. Available for linear, performer, taylor and
efficient, with states of constant size, and for full, which keeps all keys and values (see `RecurrentAttention`).
Katharopoulos et al. 2020 ("Transformers are RNNs", eq. 18-20):

  S_i = S_{i-1} + f(k_i) v_i^T        z_i = z_{i-1} + f(k_i)        out_i = f(q_i) S_i / f(q_i).z_i

`efficient` has a normaliser per feature c: out_i = sum_c softmax(q_i)_c S_ic / z_ic, with f = exp.
Features that grow like exp are relative to the largest so far, which cancels. States are never changed in place, so a
state may be stored and continued more than once. They have the dtype of the operands, sums at least float32.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from informer.networks.attention.base import AttentionSpec
from informer.networks.attention.kernels import FeatureMap, promote_half, smallest


@runtime_checkable
class RecurrentAttention(Protocol):
    """A mechanism with a recurrent form."""

    def initial_state(self, batch_size: int, d_value: int | None = None, *, device: Any = None) -> Any:
        """The state before the first position, for values with `d_value` features (None: d_head)."""

    def step(self, state: Any, q_t: Tensor, k_t: Tensor, v_t: Tensor) -> tuple[Tensor, Any]:
        """The row of the next position, and the state after it."""


class KeysAndValues(NamedTuple):
    """State of full attention, after i positions."""

    k: Float[Tensor, "b h i e"]
    v: Float[Tensor, "b h i d"]

    @classmethod
    def empty(
        cls, spec: AttentionSpec, batch_size: int, d_value: int | None, device: torch.device | str | None
    ) -> "KeysAndValues":
        """The state before the first position. Errors as in `empty_kernel_state`."""
        b, h, d = _sizes(spec, batch_size, d_value)
        return cls(torch.zeros(b, h, 0, spec.d_head, device=device), torch.zeros(b, h, 0, d, device=device))

    def with_next(self, k_t: Float[Tensor, "b h e"], v_t: Float[Tensor, "b h d"]) -> "KeysAndValues":
        """The state after one more position."""
        pairs = (self.k, k_t), (self.v, v_t)
        return KeysAndValues(*(torch.cat([kept.to(new.dtype), new.unsqueeze(2)], dim=2) for kept, new in pairs))


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


class FeatureState(NamedTuple):
    """State of causal efficient attention with a normaliser per feature."""

    s: Float[Tensor, "b h e d"]
    """Sum of exp(k_jc - unit_c) v_j."""
    z: Float[Tensor, "b h e"]
    """Sum of exp(k_jc - unit_c)."""
    unit: Float[Tensor, "b h e"]
    """Largest k_jc so far; -inf before the first."""


def empty_kernel_state(
    spec: AttentionSpec, batch_size: int, width: int, d_value: int | None, device: torch.device | str | None
) -> KernelState:
    """The state before the first position, for `width` features.

    Raises:
        ValueError: the layer is not causal.
    """
    b, h, d = _sizes(spec, batch_size, d_value)
    return KernelState(
        s=torch.zeros(b, h, width, d, device=device),
        z=torch.zeros(b, h, width, device=device),
        unit=torch.full((b, h), float("-inf"), device=device),
        v_sum=torch.zeros(b, h, d, device=device),
        n=torch.tensor(0, device=device),
    )


def empty_feature_state(
    spec: AttentionSpec, batch_size: int, d_value: int | None, device: torch.device | str | None
) -> FeatureState:
    """The state before the first position.

    Raises:
        ValueError: the layer is not causal.
    """
    b, h, d = _sizes(spec, batch_size, d_value)
    return FeatureState(
        s=torch.zeros(b, h, spec.d_head, d, device=device),
        z=torch.zeros(b, h, spec.d_head, device=device),
        unit=torch.full((b, h, spec.d_head), float("-inf"), device=device),
    )


def kernel_step(
    state: KernelState, q_t: Tensor, k_t: Tensor, v_t: Tensor, query: FeatureMap, key: FeatureMap, floor: float = 0.0
) -> tuple[Tensor, KernelState]:
    """One position of causal `kernel_attention`, with the same `query`, `key` and `floor`."""
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
    zero = z.detach().abs() < (new.n.to(z.dtype) * floor).clamp(min=smallest(z))
    out = (fq.unsqueeze(-2) @ new.s).squeeze(-2) / z.masked_fill(zero, 1)
    return torch.where(zero, new.v_sum / new.n, out).to(v_t.dtype), new


def feature_step(
    state: FeatureState, q_t: Tensor, k_t: Tensor, v_t: Tensor
) -> tuple[Float[Tensor, "b h d"], FeatureState]:
    """One position of causal efficient attention."""
    q, k, v = promote_half(q_t, k_t, v_t)
    unit = torch.maximum(state.unit, k.detach())  # cancels, so it needs no gradient
    decay, fk = (state.unit - unit).exp(), (k - unit).exp()
    new = FeatureState(
        s=state.s * decay.unsqueeze(-1) + fk.unsqueeze(-1) * v.unsqueeze(-2), z=state.z * decay + fk, unit=unit
    )
    # The largest key has feature 1, so z is at least 1.
    return ((q.softmax(dim=-1) / new.z).unsqueeze(-2) @ new.s).squeeze(-2).to(v_t.dtype), new


def _sizes(spec: AttentionSpec, batch_size: int, d_value: int | None) -> tuple[int, int, int]:
    if not spec.causal:
        raise ValueError("the recurrent form needs a causal layer: build it with AttentionSpec(causal=True)")
    return batch_size, spec.n_heads, spec.d_head if d_value is None else d_value
