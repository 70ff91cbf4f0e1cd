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
"""

from typing import final

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor

from informer.networks.attention.base import Attention, AttentionSpec, Keys, Matrix, Outputs, Queries, Values
from informer.networks.attention.kernels import CHUNK, State, Stepped, fold, promote_half, running_sums, scan
from informer.networks.attention.moving_average import new_average, over_processes
from informer.networks.attention.parameters import at_least, share
from informer.networks.attention.scores import up_to_row
from informer.networks.attention.straight_through import through_codes
from informer.networks.ops.fast import normal, outside_graphs


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
        scores = (q * scale) @ codes.transpose(-1, -2)
        out, log_z = _rows(scores, nearest.unsqueeze(-1), F.pad(v, (0, 1), value=1.0), causal=self.spec.causal)
        if torch.is_grad_enabled() and k.requires_grad:
            out = through_codes(out, log_z, q * scale, k, v, codes, nearest, causal=self.spec.causal)
        if self.training and self.momentum < 1:
            self._move(k.detach(), nearest)
        return out.to(dtype)

    def weights(self, q: Queries, k: Keys) -> Matrix:
        """softmax(e^-0.5 q k^T) with the replaced keys."""
        wide_q, wide_k = promote_half(q, k)
        codes = self.codes.to(wide_k.dtype).expand(k.shape[0], -1, -1, -1)
        distances = torch.cdist(wide_k, codes, compute_mode="donot_use_mm_for_euclid_dist")
        index = distances.argmin(dim=-1, keepdim=True).expand_as(wide_k)
        scores = torch.einsum("bhle,bhse->bhls", wide_q, codes.gather(2, index)) * self.spec.d_head**-0.5
        return up_to_row(self.spec, scores).softmax(dim=-1).to(q.dtype)

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
