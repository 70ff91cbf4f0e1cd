"""Attention to vector-quantised keys (Lingle 2023, "Transformer-VQ", sections 3.1-3.3).

  z_j = argmin_s |k_j - c_s|^2        k^_j = c_{z_j}        A = softmax(e^-0.5 q k^^T)        codes c [n e] of each head

Keys with the same code have the same score, so the sums of exp(score) v run over codes, weighted by how often each
occurs. Not causal: softmax over the codes that occur. Causal: blocks of positions; one softmax over the keys inside a
block and the codes before it. In exact arithmetic this is A v with A as above: quantising the keys is the only
approximation.

k gets the gradients of k^ (straight-through). Codes are buffers: training moves each towards the mean of the keys
nearest to it, and keeps an average of their number (van den Oord et al. 2017, appendix A.1). The paper's commitment
loss, which pulls keys towards their codes, and its position biases are omitted.

Cost: O(L n_codes (e + d)) time and O(L n_codes) memory; the gradient of the keys takes O(L min(L (e + d), n_codes e d))
time. Equals `full` if every key is a code.

The straight-through gradient of the keys: k_j gets the gradient of k^_j = c_{z_j}.

With A_ij = exp(q_i.k^_j - log Z_i), rows out_i = sum_j A_ij v_j and their gradients g_i (q includes the scale):

  dk_j = sum_i A_ij q_i (g_i.v_j - g_i.out_i)

Over blocks of keys this costs O(L^2 (e + d)). Keys with the same code have the same A_ij, so with

  B_s = sum_i exp(q_i.c_s - log Z_i) q_i [g_i, -g_i.out_i]^T  [e d+1]        dk_j = B_{z_j} [v_j, 1]

it costs O(L n_codes e d), which is less for long sequences; causal, B runs over the rows of later blocks.
"""

from typing import Any, final

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor

from informer.networks.attention.base import Attention, AttentionSpec, Keys, Outputs, Queries, Values
from informer.networks.attention.kernels import CHUNK, State, Stepped, fold, promote_half, running_sums, scan
from informer.networks.attention.moving_average import new_average, over_processes
from informer.networks.attention.parameters import at_least, share
from informer.networks.ops import fast
from informer.networks.ops.chunks import map_rows
from informer.networks.ops.fast import normal, outside_graphs


class _Through(torch.autograd.Function):
    """`out` [b h l d] unchanged, with a gradient for k; q includes the scale, log_z [b h l 1] are the logarithms of the
    normalisers, codes [h n e] those of all keys and nearest [b h s] that of each."""

    @staticmethod
    def forward(
        ctx: Any,
        out: Tensor,
        log_z: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        codes: Tensor,
        nearest: Tensor,
        causal: bool,
    ) -> Tensor:
        ctx.causal = causal
        ctx.save_for_backward(out, log_z, q, v, codes, nearest)
        return out.view_as(out)

    @staticmethod
    @fast.first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        out, log_z, q, v, codes, nearest = ctx.saved_tensors
        # under autocast the rows have half precision, the operands never
        grad, out, log_z = (x.to(q.dtype) for x in (grad, out, log_z))
        g1 = torch.cat([grad, -(grad * out).sum(dim=-1, keepdim=True)], dim=-1)
        v1 = F.pad(v, (0, 1), value=1.0)
        (n_codes, e), (length, d) = codes.shape[1:], (q.shape[2], v.shape[3])
        gradient = by_codes if length * (e + d) > n_codes * e * d else by_pairs
        return grad, None, None, gradient(g1, log_z, q, v1, codes, nearest, causal=ctx.causal), None, None, None, None


def by_pairs(
    g1: Tensor, log_z: Tensor, q: Tensor, v1: Tensor, codes: Tensor, nearest: Tensor, *, causal: bool
) -> Tensor:
    """dk [b h s e], computed in blocks of keys; g1 = [g, -g.out], v1 = [v, 1]."""
    blocks = []
    for start in range(0, v1.shape[2], CHUNK):
        at = slice(start, start + CHUNK)
        first = start if causal else 0  # rows before the block do not use its keys
        rows, scale = q[:, :, first:], log_z[:, :, first:]
        weights = _pairs(rows, _codes_of(codes, nearest[:, :, at]), scale, first - start, causal=causal)
        share = weights * (g1[:, :, first:] @ v1[:, :, at].transpose(-1, -2))
        blocks.append(share.transpose(-1, -2) @ rows)
    return torch.cat(blocks, dim=2)


def by_codes(
    g1: Tensor, log_z: Tensor, q: Tensor, v1: Tensor, codes: Tensor, nearest: Tensor, *, causal: bool
) -> Tensor:
    """dk from the sums of each code, beginning with the last block."""
    (b, h, length, e), n = q.shape, codes.shape[1]
    sums = q.new_zeros(b, h, n, e, g1.shape[3])

    def add(at: slice) -> None:
        # A code that has not occurred before a row may have any score, because no key reads it.
        shares = (q[:, :, at] @ codes.transpose(-1, -2) - log_z[:, :, at]).clamp(max=0).exp()
        products = (shares.unsqueeze(-1) * q[:, :, at].unsqueeze(-2)).flatten(3)
        sums.add_((products.transpose(-1, -2) @ g1[:, :, at]).unflatten(2, (n, e)))

    def gradient(at: slice) -> Tensor:
        index = nearest[:, :, at, None, None].expand(-1, -1, -1, e, sums.shape[-1])
        return (sums.gather(2, index) @ v1[:, :, at].unsqueeze(-1)).squeeze(-1)

    if not causal:
        for start in range(0, length, CHUNK):
            add(slice(start, start + CHUNK))
        return torch.cat([gradient(slice(start, start + CHUNK)) for start in range(0, v1.shape[2], CHUNK)], dim=2)
    blocks = []
    for start in reversed(range(0, length, CHUNK)):
        at = slice(start, start + CHUNK)
        own_g1, own_z, own_q, own_v1, own_nearest = (x[:, :, at] for x in (g1, log_z, q, v1, nearest))
        blocks.append(gradient(at) + by_pairs(own_g1, own_z, own_q, own_v1, codes, own_nearest, causal=True))
        add(at)
    return torch.cat(blocks[::-1], dim=2)


def _codes_of(codes: Tensor, nearest: Tensor) -> Tensor:
    """The code of each key [b h s e]."""
    index = nearest.unsqueeze(-1).expand(-1, -1, -1, codes.shape[-1])
    return codes.expand(nearest.shape[0], -1, -1, -1).gather(2, index)


def _pairs(q: Tensor, k: Tensor, log_z: Tensor, start: int, *, causal: bool) -> Tensor:
    """A [b h c s] of rows start, start + 1, ..., relative to the first key."""
    weights = (q @ k.transpose(-1, -2) - log_z).clamp(max=0).exp()
    return weights.tril(diagonal=start) if causal else weights


@final
class VQAttention(Attention):
    """Softmax attention with each key replaced by the nearest of a few codes.

    Args:
        spec: sizes and options of the layer.
        n_codes: number of codes per head.
        momentum: weight of the old averages in each update by a training batch; 1 never changes the codes.
    """

    COST = "O(L n_codes (e + d)) time, O(L n_codes) memory"
    MOVED = ("codes", "counts")

    def __init__(self, spec: AttentionSpec, *, n_codes: int = 64, momentum: float = 0.99) -> None:
        super().__init__(spec)
        self.n_codes = at_least("n_codes", n_codes, 1)
        self.momentum = share("momentum", momentum)
        self.codes: Tensor
        self.register_buffer("codes", normal(spec.n_heads, n_codes, spec.d_head))
        self.counts: Tensor
        self.register_buffer("counts", torch.ones(spec.n_heads, n_codes))

    def forward(self, q: Queries, k: Keys, v: Values) -> Outputs:
        """Replace the keys by codes and attend; training also updates the codes."""
        dtype, scale = v.dtype, self.spec.d_head**-0.5
        q, k, v = promote_half(q, k, v)
        codes = self.codes.to(k.dtype)
        with torch.no_grad():
            nearest = (k @ codes.transpose(-1, -2) - 0.5 * codes.square().sum(dim=-1).unsqueeze(1)).argmax(dim=-1)
        q, causal, learns = q * scale, self.spec.causal, torch.is_grad_enabled() and k.requires_grad
        if learns and not fast.are_on():
            replaced = k + (_codes_of(codes, nearest) - k).detach()
            out = map_rows(self._attend, q, replaced, v, width=k.shape[2], causal=causal)
        else:
            v1 = F.pad(v, (0, 1), value=1.0)
            out, log_z = _rows(q @ codes.transpose(-1, -2), nearest.unsqueeze(-1), v1, causal=causal)
            if learns:
                out = _Through.apply(out, log_z, q.detach(), k, v.detach(), codes, nearest, causal)
        if self.training and self.momentum < 1:
            self._move(k.detach(), nearest)
        return out.to(dtype)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, start: int) -> Tensor:
        return self.hide_future(q @ k.transpose(-1, -2), start).softmax(dim=-1) @ v

    @outside_graphs
    @torch.no_grad()
    def _move(self, k: Keys, nearest: Int[Tensor, "b h s"]) -> None:
        """Update the averages with a batch's keys. Buffers are replaced: a pending backward pass keeps the old ones."""
        which = F.one_hot(nearest, self.n_codes).to(k.dtype)
        sums = (which.transpose(-1, -2) @ F.pad(k, (0, 1), value=1.0)).sum(dim=0)
        sums, number = over_processes(sums).split([k.shape[-1], 1], dim=-1)
        old_counts = self.counts.unsqueeze(-1).to(k.dtype)
        counts = new_average(old_counts, number, self.momentum)
        totals = new_average(old_counts * self.codes, sums, self.momentum)
        # A code without nearest keys is not moved, even if its average count has underflowed.
        self.codes = torch.where(number > 0, totals / counts.masked_fill(number == 0, 1), self.codes).to(self.codes)
        self.counts = counts.squeeze(-1).to(self.counts)


def _rows(scores: Tensor, nearest: Tensor, v1: Tensor, *, causal: bool) -> tuple[Tensor, Tensor]:
    """Rows [b h l d] and logarithms of their normalisers [b h l 1], from scores of codes [b h l n] and [v, 1]."""
    width = scores.shape[-1]
    empty: State = (v1.new_zeros(*v1.shape[:2], width, v1.shape[-1]),)  # sums of [v, 1] over the keys of each code
    if causal:
        _, (out, log_z) = scan(_causal_step, empty, scores, nearest, v1, width=width)
        return out, log_z
    (total,), _ = scan(_add, empty, nearest, v1, width=width)

    def step(state: State, scores: Tensor) -> Stepped:
        hidden = scores.masked_fill(state[0][..., -1].unsqueeze(2) == 0, float("-inf"))
        top = hidden.detach().amax(dim=-1, keepdim=True)
        return state, _divided((hidden - top).exp() @ state[0], top)

    _, (out, log_z) = scan(step, (total,), scores, width=width)
    return out, log_z


def _causal_step(state: State, scores: Tensor, nearest: Tensor, v1: Tensor) -> Stepped:
    length = scores.shape[2]
    chunk = -(-length // -(-length // CHUNK))  # equal chunks, for little padding
    of_codes, codes, v1 = fold(scores, chunk), fold(nearest, chunk), fold(v1, chunk)
    which = F.one_hot(codes.squeeze(-1), scores.shape[-1]).to(v1.dtype)
    before, total = running_sums(state[0], which.transpose(-1, -2) @ v1, None)
    earlier = of_codes.masked_fill(before[..., -1].unsqueeze(3) == 0, float("-inf"))
    in_chunk = of_codes.gather(-1, codes.transpose(-1, -2).expand(*codes.shape[:3], chunk, chunk))
    in_chunk = in_chunk.masked_fill(torch.ones_like(in_chunk, dtype=torch.bool).triu(1), float("-inf"))
    top = torch.maximum(earlier.amax(dim=-1, keepdim=True), in_chunk.amax(dim=-1, keepdim=True)).detach()
    sums = (earlier - top).exp() @ before + (in_chunk - top).exp() @ v1
    return (total,), _divided(*(x.flatten(2, 3)[:, :, :length] for x in (sums, top)))


def _add(state: State, nearest: Tensor, v1: Tensor) -> Stepped:
    which = F.one_hot(nearest.squeeze(-1), state[0].shape[2]).to(v1.dtype)
    return (state[0] + which.transpose(-1, -2) @ v1,), ()


def _divided(sums: Tensor, top: Tensor) -> tuple[Tensor, Tensor]:
    """Rows, and logarithms of normalisers; the largest term is 1, so every normaliser is at least 1."""
    z = sums[..., -1:]
    return sums[..., :-1] / z, z.detach().log() + top
