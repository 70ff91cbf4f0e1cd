"""Mechanisms and operands for the tests of this folder, and what they are compared with."""

import numpy as np
import torch
from formulas import FORMULAS
from torch import Tensor

from informer.checkpoint import build_attention
from informer.networks import Attention, AttentionSpec


def made(name: str, params: dict, lengths: tuple[int, int], *, e: int = 5, heads: int = 2, **facts) -> Attention:
    """A mechanism in eval mode, in float64, whose parameters are not at their starting values."""
    torch.manual_seed(1)
    attn = build_attention(name, AttentionSpec(heads, e, *lengths, **facts), **params).double().eval()
    with torch.no_grad():
        for parameter in attn.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return attn


def drawn(lengths: tuple[int, int], *, b: int = 1, e: int = 5, d: int = 4, scale: float = 1.5, seed: int = 0):
    """Queries, keys and values of b items and two heads."""
    generator = torch.Generator().manual_seed(seed)
    shapes = (lengths[0], e), (lengths[1], e), (lengths[1], d)
    return [scale * torch.randn(b, 2, *shape, generator=generator, dtype=torch.float64) for shape in shapes]


def matrix(name: str, attn: Attention, params: dict, q: Tensor, k: Tensor, **more) -> Tensor:
    """The formula, for every item and head."""
    allowed = np.ones((q.shape[2], k.shape[2]), dtype=bool)
    allowed = np.tril(allowed) if attn.spec.causal else allowed
    rows = [
        FORMULAS[name](attn, params, head, q[item, head].numpy(), k[item, head].numpy(), allowed, **more)
        for item, head in np.ndindex(q.shape[:2])
    ]
    return torch.from_numpy(np.stack(rows)).view(*q.shape[:2], *allowed.shape)


def by_steps(attn: Attention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The rows of a causal mechanism one position at a time, from a state of constant size."""
    state, rows = attn.initial_state(len(q), v.shape[3]), []
    sizes = [x.shape for x in state]
    for operands in zip(*(x.unbind(dim=2) for x in (q, k, v)), strict=True):
        row, state = attn.step(state, *operands)
        rows.append(row)
    assert [x.shape for x in state] == sizes, "the state grows"
    return torch.stack(rows, dim=2)


def assert_gradients(attn: Attention, q: Tensor, k: Tensor, v: Tensor) -> None:
    """Analytic gradients agree with finite differences, for inputs and parameters."""
    names = [name for name, _ in attn.named_parameters()]
    leaves = [x.detach().clone().requires_grad_() for x in (q, k, v, *attn.parameters())]

    def call(q: Tensor, k: Tensor, v: Tensor, *parameters: Tensor) -> Tensor:
        return torch.func.functional_call(attn, dict(zip(names, parameters, strict=True)), (q, k, v))

    assert torch.autograd.gradcheck(call, leaves, fast_mode=True)
