"""Straight-through gradient of keys replaced by codes: k_j gets the gradient of k^_j = c_{z_j}.

With A_ij = exp(q_i.k^_j - log Z_i), rows out_i = sum_j A_ij v_j and their gradients g_i (q includes the scale):

  dk_j = sum_i A_ij q_i (g_i.v_j - g_i.out_i)

Over blocks of keys this costs O(L^2 (e + d)). Keys with the same code have the same A_ij, so with

  B_s = sum_i exp(q_i.c_s - log Z_i) q_i [g_i, -g_i.out_i]^T  [e d+1]        dk_j = B_{z_j} [v_j, 1]

it costs O(L n_codes e d), which is less for long sequences; causal, B runs over the rows of later blocks.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from informer.networks.attention.kernels import CHUNK
from informer.networks.ops import fast
from informer.networks.ops.chunks import map_rows


def through_codes(
    out: Tensor, log_z: Tensor, q: Tensor, k: Tensor, v: Tensor, codes: Tensor, nearest: Tensor, *, causal: bool
) -> Tensor:
    """Return `out` unchanged, with a gradient for k.

    Args:
        out: rows [b h l d].
        log_z: logarithms of their normalisers [b h l 1].
        q: scaled queries [b h l e].
        k: keys [b h s e].
        v: values [b h s d].
        codes: [h n e].
        nearest: code of each key [b h s].
        causal: whether row i uses only keys j <= i.
    """
    if fast.are_on():
        return _Through.apply(out, log_z, q.detach(), k, v.detach(), codes, nearest, causal)
    # Without a gradient of our own: add the gradient as a sum over pairs whose value is 0.
    replaced = _codes_of(codes, nearest)

    def added(rows: Tensor, k: Tensor, out: Tensor, log_z: Tensor, start: int) -> Tensor:
        at = slice(start, start + rows.shape[2])
        weights = _pairs(rows, replaced, log_z[:, :, at], start, causal=causal)
        moved = rows @ (k - k.detach()).transpose(-1, -2) * weights
        return moved @ v.detach() - moved.sum(dim=-1, keepdim=True) * out[:, :, at]

    return out + map_rows(added, q.detach(), k, out.detach(), log_z, width=k.shape[2])


class _Through(torch.autograd.Function):
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
