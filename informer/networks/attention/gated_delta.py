"""The gated delta rule (Yang, Kautz and Hatamizadeh 2024, "Gated Delta Networks: Improving Mamba2 with Delta Rule",
eq. 10): a memory of constant size that forgets, and that replaces what it has stored under a key.

  S_t = a_t S_(t-1) (I - b_t k_t k_t^T) + b_t v_t k_t^T          a_t, b_t in (0, 1); k_t and q_t scaled to length 1
  out_t = S_t q_t        causal; otherwise every query reads the last state, out_i = S_s q_i

b_t = sigmoid(write_h.k_t) is how much of the value under k_t is replaced, a_t = sigmoid(forget_h.k_t + keep_h) how
much of all else is kept; keep starts such that heads forget within 8 to 1100 rows. They are linear in the row in the
paper, here in its key, which is linear in the row. Not causal, later keys count more, and in any case A may be negative
and its rows need not sum to 1.

Chunks of C rows (section 3.3): with u_t = b_t (v_t - a_t S_(t-1) k_t), the rule is S_t = a_t S_(t-1) + u_t k_t^T.
Within a chunk after state S, and with g_t = a_1 .. a_t, every row is a sum over the u before it, so they solve one
system:

  u_t + b_t sum_(i<t) g_t/g_i (k_t.k_i) u_i = b_t (v_t - g_t S k_t)
  out_t = g_t S q_t + sum_(i<=t) g_t/g_i (q_t.k_i) u_i           S after the chunk: g_C S + sum_i g_C/g_i u_i k_i^T

Only the products with S wait for the chunk before. `initial_state` and `step` are the recurrence, one row at a time, as
in `kernels`.

Cost: O(L e^2) time, O(L) memory. No parameters make it equal to another mechanism.
"""

from typing import final

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from informer.networks.attention.base import Attention, AttentionSpec, Keys, Outputs, Queries, Values
from informer.networks.attention.kernels import CHUNK, State, Stepped, fold, promote_half, scan, unit_vectors
from informer.networks.ops.fast import normal


@final
class GatedDeltaAttention(Attention):
    """A fast-weight memory with forgetting, written by the delta rule.

    Args:
        spec: sizes and options of the layer.
    """

    COST = "O(L e^2) time, O(L) memory"

    def __init__(self, spec: AttentionSpec) -> None:
        super().__init__(spec)
        h, e = spec.n_heads, spec.d_head
        self.write = nn.Parameter(normal(h, e, std=e**-0.5))
        self.forget = nn.Parameter(normal(h, e, std=e**-0.5))
        self.keep = nn.Parameter(torch.linspace(2.0, 7.0, h))

    def forward(self, q: Queries, k: Keys, v: Values) -> Outputs:
        """S_t q_t."""
        dtype, d = v.dtype, v.shape[3]
        q, k, v = promote_half(q, k, v)
        unit_q, unit_k, (log_a, b) = unit_vectors(q), unit_vectors(k), self._gates(k)
        state: State = (k.new_zeros(*k.shape[:2], k.shape[3], d),)
        reading = (unit_q,) if self.spec.causal else ()
        state, rows = scan(_chunks, state, unit_k, v, log_a, b, *reading, width=max(CHUNK, k.shape[3], d))
        return (rows[0] if reading else unit_q @ state[0]).to(dtype)

    def _gates(self, k: Tensor) -> tuple[Tensor, Tensor]:
        """log a_t and b_t [b h s 1]."""
        forget, write = (x.to(k.dtype)[:, :, None] for x in (self.forget, self.write))
        return F.logsigmoid(k @ forget + self.keep.to(k.dtype)[:, None, None]), (k @ write).sigmoid()

    def initial_state(
        self, batch_size: int, d_value: int | None = None, *, device: torch.device | str | None = None
    ) -> State:
        """S^T before the first position, for values with `d_value` features (None: d_head).

        Raises:
            ValueError: the layer is not causal.
        """
        if not self.spec.causal:
            raise ValueError("the recurrent form needs a causal layer: build it with AttentionSpec(causal=True)")
        e = self.spec.d_head
        return (torch.zeros(batch_size, self.spec.n_heads, e, e if d_value is None else d_value, device=device),)

    def step(
        self, state: State, q_t: Float[Tensor, "b h e"], k_t: Float[Tensor, "b h e"], v_t: Float[Tensor, "b h d"]
    ) -> tuple[Float[Tensor, "b h d"], State]:
        """The row of the next position, and the state after it."""
        q, k, v = (x.unsqueeze(2) for x in promote_half(q_t, k_t, v_t))
        (log_a, b), q, k = self._gates(k), unit_vectors(q), unit_vectors(k)
        old = log_a.exp() * state[0]
        new = old + (b * k).transpose(-1, -2) @ (v - k @ old)
        return (q @ new).squeeze(2).to(v_t.dtype), (new,)


def _chunks(state: State, k: Tensor, v: Tensor, log_a: Tensor, b: Tensor, q: Tensor | None = None) -> Stepped:
    """S^T after a segment of rows, and the rows that queries read, if any."""
    length = k.shape[2]
    chunk = min(CHUNK, length)
    k, v, log_a, b = (fold(x, chunk) for x in (k, v, log_a, b))  # rows of padding write nothing and forget nothing
    log_g = log_a.cumsum(dim=3)
    later = torch.ones(chunk, chunk, dtype=torch.bool, device=k.device).triu(1)
    shares = (log_g - log_g.transpose(-1, -2)).masked_fill(later, float("-inf")).exp()  # g_t / g_i, in (0, 1]
    g, to_end = log_g.exp(), (log_g[..., -1:, :] - log_g).exp()
    system = (b * shares * (k @ k.transpose(-1, -2))).tril(-1)
    solved = torch.linalg.solve_triangular(
        system, torch.cat([b * v, b * g * k], dim=-1), upper=False, unitriangular=True
    )
    from_v, from_state = solved.split([v.shape[4], k.shape[4]], dim=-1)
    (total,), befores, us = state, [], []
    for n in range(k.shape[2]):
        u = from_v[:, :, n] - from_state[:, :, n] @ total
        befores.append(total)
        us.append(u)
        total = g[:, :, n, -1:] * total + (to_end * k)[:, :, n].transpose(-1, -2) @ u
    if q is None:
        return (total,), ()
    q = fold(q, chunk)
    rows = g * q @ torch.stack(befores, dim=2) + (shares * (q @ k.transpose(-1, -2))) @ torch.stack(us, dim=2)
    return (total,), (rows.flatten(2, 3)[:, :, :length],)
