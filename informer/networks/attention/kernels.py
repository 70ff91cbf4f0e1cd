"""Attention whose scores are products of features, in time linear in the length.

  A_ij = f(q_i).f(k_j) / z_i,    z_i = sum over allowed j of f(q_i).f(k_j)

Not causal: the sum over keys, sum_j f(k_j) [v_j, 1]^T, is computed once and read by every query.
Causal: positions are processed in chunks, with a small masked product inside a chunk and the running sum across
chunks. This is the recurrence of Katharopoulos et al. 2020 (eq. 18-20), one chunk at a time. Row 3 of chunks of two:

  S_2 = f(k_1) v_1^T + f(k_2) v_2^T                             the sum before its chunk
  out_3 = (f(q_3) S_2 + (f(q_3).f(k_3)) v_3) / z_3              that sum, and the masked product inside the chunk
  z_3 = f(q_3).(f(k_1) + f(k_2)) + f(q_3).f(k_3)                the same with 1 for each v, so v gets a column of ones

Features that grow like exp are given with the logarithm of one factor per key: f(k_j) = features_j exp(log_j) is never
computed. Sums are relative to the largest factor so far; only differences from it, which are <= 0, are exponentiated.

Memory is O(l) plus a sum per chunk, never [l m d]. Chunks are processed in segments that fit into cache. If the
features of all positions would be large, they are not stored, and the backward pass recomputes each segment.

One position at a time (`KernelAttention.step`), for linear, performer, taylor and efficient:

    state = attn.initial_state(batch_size)
    out_t, state = attn.step(state, q_t, k_t, v_t)         # q_t, k_t [b h e], v_t [b h d] -> out_t [b h d]

  S_i = S_{i-1} + f(k_i) v_i^T        z_i = z_{i-1} + f(k_i)        out_i = f(q_i) S_i / f(q_i).z_i

`efficient` has a normaliser per feature c: out_i = sum_c softmax(q_i)_c S_ic / z_ic, with f = exp. The rows equal those
of `forward` over the whole sequence. States have a constant size and are never changed in place, so a state may be
stored and continued more than once; sums are at least float32.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from informer.networks.attention.base import Attention, Keys, Outputs, Queries, Values
from informer.networks.attention.running_sums import causal_mean, running_max, running_sum
from informer.networks.ops import fast
from informer.networks.ops.fast import int_hint

CHUNK = 64
"""Positions per chunk: the usual head width, so that the masked product costs as much as reading the sum."""


class Features(NamedTuple):
    """f(x_j) = values_j exp(log_j) for positions j."""

    values: Tensor
    """[b h s m], of moderate size."""
    log: Tensor | None = None
    """[b h s 1]; None means 0."""


FeatureMap = Callable[[Tensor], Features]
State = tuple[Tensor, ...]
Stepped = tuple[State, tuple[Tensor, ...]]  # an alias: the compiler cannot read a subscript in an inner function
Step = Callable[..., Stepped]


def kernel_attention(
    q: Tensor, k: Tensor, v: Tensor, query: FeatureMap, key: FeatureMap, *, width: int, causal: bool, floor: float = 0.0
) -> Tensor:
    """A v [b h l d] for q [b h l e], k [b h s e], v [b h s d].

    Args:
        q, k, v: the operands.
        query: f for queries; its log is ignored, since a factor per row cancels.
        key: f for keys.
        width: number of features m.
        causal: whether row i uses only keys j <= i.
        floor: see `is_zero`.
    """
    dtype = v.dtype
    q, k, v = promote_half(q, k, v)
    (b, h), d = k.shape[:2], v.shape[-1]
    state: State = k.new_zeros(b, h, width, d + 1), k.new_full((b, h, 1, 1), float("-inf"))
    if causal:
        _, (out, z) = scan(_causal_step(query, key), state, q, k, v, width=width)
    else:
        state, _ = scan(_sum_step(key), state, k, v, width=width)
        _, (out, z) = scan(_read_step(query), state, q, width=width)
    zero = is_zero(z, k.shape[2], causal=causal, floor=floor)
    # This is rare, so eager code checks first; recording a graph does not allow it, and on a GPU it would synchronise.
    if torch.compiler.is_compiling() or zero.is_cuda or bool(zero.any()):
        out = torch.where(zero, causal_mean(v) if causal else v.mean(dim=2, keepdim=True), out)
    return out.to(dtype)


def is_zero(z: Tensor, n_keys: int, *, causal: bool, floor: float) -> Tensor:
    """Which normalisers [b h l 1] count as 0; such a row falls back to the mean of its allowed values.

    These are normalisers so small that underflow matters, and those of at most `floor` per allowed key, the rounding
    error of a kernel whose terms cancel.
    """
    allowed = torch.arange(1, z.shape[2] + 1, device=z.device)[:, None] if causal else n_keys
    return z.abs() < (torch.as_tensor(allowed, dtype=z.dtype, device=z.device) * floor).clamp(min=smallest(z))


def smallest(z: Tensor) -> float:
    """The smallest sum in z's dtype that is not affected by products that underflow."""
    limits = torch.finfo(z.dtype)
    return limits.tiny / limits.eps


def promote_half(*operands: Tensor) -> tuple[Tensor, ...]:
    """Convert operands in half precision to float32, because long sums need a longer mantissa.

    Under autocast, products still use half precision.
    """
    return tuple(x.to(torch.promote_types(x.dtype, torch.float32)) for x in operands)


def unit_vectors(x: Tensor) -> Tensor:
    """x scaled to length 1 along the last axis; 0 stays 0."""
    # Divide by the largest element first, so that squares neither overflow nor underflow; this cancels.
    largest = x.detach().abs().amax(dim=-1, keepdim=True)
    x = x / largest.masked_fill(largest == 0, 1)
    return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).masked_fill(largest == 0, 1)


def scan(step: Step, state: State, *sequences: Tensor, width: int) -> tuple[State, tuple[Tensor, ...]]:
    """Carry `state` along segments of positions, and concatenate the rows of the segments.

    Args:
        step: maps (state, a segment of each sequence) to (state, tensors [b h c *]).
        state: tensors before the first position.
        sequences: tensors [b h l *] of the same length.
        width: elements of the largest array per position and head.
    """
    b, h, length = sequences[0].shape[:3]
    row = int_hint(b) * h * width
    recompute = torch.is_grad_enabled() and row * length > fast.whole()
    n_rows = CHUNK * max(1, fast.cached(sequences[0]) // (2 * row * CHUNK))
    outputs = []
    for segment in zip(*(x.split(n_rows, dim=2) for x in sequences), strict=True):
        if recompute:
            state, rows = checkpoint(step, state, *segment, use_reentrant=False)
        else:
            state, rows = step(state, *segment)
        outputs.append(rows)
    return state, tuple(torch.cat(rows, dim=2) for rows in zip(*outputs, strict=True))


def fold(x: Tensor, chunk: int, padding: float = 0.0) -> Tensor:
    """[b h c *] to chunks [b h n chunk *], padded at the end."""
    missing = -x.shape[2] % chunk
    if missing:  # padding by 0 would copy
        x = F.pad(x, (0, 0, 0, missing), value=padding)
    return x.unflatten(2, (-1, chunk))


def running_tops(logs: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """Largest log so far: at each position [b h n c m], and before each chunk and after the last [b h n+1 m].

    Args:
        logs: [b h n c m], -inf for padding.
        start: the largest before the first position [b h 1 m].

    They are used as units, which cancel, and have no gradient.
    """
    tops = torch.maximum(running_max(logs.detach().flatten(2, 3), dim=2), start).unflatten(2, logs.shape[2:4])
    return tops, torch.cat([start, tops[..., -1, :]], dim=2)


def running_sums(before: Tensor, chunks: Tensor, borders: Tensor | None) -> tuple[Tensor, Tensor]:
    """Sums before each chunk [b h n m d], and after the last chunk [b h m d].

    Args:
        before: sum before the first chunk [b h m d].
        chunks: sum of each chunk by itself [b h n m d].
        borders: units of the sums, from `running_tops` [b h n+1 m|1]; None without units.
    """
    terms = torch.cat([before.unsqueeze(2), chunks], dim=2)
    if borders is None:
        sums = running_sum(terms, dim=2)
        return sums[:, :, :-1], sums[:, :, -1]
    borders = borders.transpose(2, 3)
    # Term r in the unit of border p > 0; the sum at border 0 is in its unit already, which may be exp(-inf).
    shares = (borders.unsqueeze(3) - borders[..., 1:].unsqueeze(4)).clamp(max=0).exp().tril(diagonal=1)
    sums = (shares @ terms.permute(0, 1, 3, 2, 4)).permute(0, 1, 3, 2, 4)
    return torch.cat([before.unsqueeze(2), sums[:, :, :-1]], dim=2), sums[:, :, -1]


def _sum_step(key: FeatureMap) -> Step:
    def step(state: State, k: Tensor, v: Tensor) -> Stepped:
        total, top = state
        values, log = key(k)
        v = _with_ones(v, log)
        if log is not None:
            log = log.detach()
            new = torch.maximum(top, log.amax(dim=2, keepdim=True))
            total, values, top = total * (top - new).exp(), values * (log - new).exp(), new
        return (total + values.transpose(-1, -2) @ v, top), ()

    return step


def _read_step(query: FeatureMap) -> Step:
    def step(state: State, q: Tensor) -> Stepped:
        return state, _divided(query(q).values @ state[0])

    return step


def _causal_step(query: FeatureMap, key: FeatureMap) -> Step:
    def step(state: State, q: Tensor, k: Tensor, v: Tensor) -> Stepped:
        length = q.shape[2]
        chunk = -(-length // -(-length // CHUNK))  # equal chunks, for little padding
        keys = key(k)
        fq, fk, v1 = (fold(x, chunk) for x in (query(q).values, keys.values, _with_ones(v, keys.log)))
        if keys.log is None:
            state, rows = _unscaled(state, fq, fk, v1)
        else:
            state, rows = _scaled(state, fq, fk, v1, fold(keys.log.detach(), chunk, float("-inf")))
        return state, _divided(rows.flatten(2, 3)[:, :, :length])

    return step


def _unscaled(state: State, q: Tensor, k: Tensor, v: Tensor) -> tuple[State, Tensor]:
    """Sums [b h n c d] over the keys up to each row, of features [b h n c m] and values [b h n c d]."""
    total, top = state
    before, total = running_sums(total, k.transpose(-1, -2) @ v, None)
    return (total, top), (q @ k.transpose(-1, -2)).tril() @ v + q @ before


def _scaled(state: State, q: Tensor, k: Tensor, v: Tensor, log: Tensor) -> tuple[State, Tensor]:
    """Like `_unscaled`, for keys with factors exp(log [b h n c 1]); each row is relative to the largest so far."""
    total, start = state
    tops, borders = running_tops(log, start)
    shares = (log.transpose(-1, -2) - tops).clamp(max=0).exp()
    inside = (q @ k.transpose(-1, -2) * shares).tril()
    sums = (k * (log - tops[..., -1:, :]).exp()).transpose(-1, -2) @ v
    before, total = running_sums(total, sums, borders)
    rows = inside @ v + (borders[:, :, :-1].unsqueeze(3) - tops).exp() * (q @ before)
    return (total, borders[:, :, -1:]), rows


def _with_ones(v: Tensor, log: Tensor | None) -> Tensor:
    """[v, 1] times a factor of 1 that carries the gradient of the keys' factors."""
    ones = F.pad(v, (0, 1), value=1.0)
    return ones if log is None else ones * (log - log.detach()).exp()


def _divided(sums: Tensor) -> tuple[Tensor, Tensor]:
    """Rows [.. d] and normalisers [.. 1] from sums of [v, 1]."""
    z = sums[..., -1:]
    return sums[..., :-1] / z.masked_fill(z.abs() < smallest(z), 1), z.detach()


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
