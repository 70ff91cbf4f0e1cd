"""Loops over rows, straight from a formula, that the mechanisms are compared with."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from informer.build import build_attention
from informer.networks.attention.base import Attention, AttentionSpec
from informer.networks.ops import chunks as chunking

Row = Callable[[int, np.ndarray, np.ndarray], np.ndarray]
"""(head, one query [e], its allowed keys [n e]) -> weights over those keys [n]."""

SELF = [(2, 3, 7, 7, 5, 4), (1, 1, 1, 1, 3, 3), (1, 2, 31, 31, 4, 4)]
"""Sizes b, h, l, s, e, d of self-attention."""
CROSS = [(2, 3, 5, 9, 4, 4), (1, 1, 13, 2, 3, 5), (2, 1, 1, 31, 6, 6)]
"""The same with another number of keys."""


def draw(sizes: tuple[int, ...], *, seed: int = 0, scale: float = 1.5) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values in float64."""
    b, h, n_queries, n_keys, e, d = sizes
    generator = torch.Generator().manual_seed(seed)
    shapes = (b, h, n_queries, e), (b, h, n_keys, e), (b, h, n_keys, d)
    q, k, v = (torch.randn(shape, generator=generator, dtype=torch.float64) * scale for shape in shapes)
    return q, k, v


def spec_of(sizes: tuple[int, ...], *, causal: bool = False, dropout: float = 0.0) -> AttentionSpec:
    """The spec for inputs of these sizes."""
    _, h, n_queries, n_keys, e, _ = sizes
    return AttentionSpec(n_heads=h, d_head=e, len_q=n_queries, len_k=n_keys, causal=causal, dropout=dropout)


def make(name: str, params: dict, sizes: tuple[int, ...], **facts) -> Attention:
    """A mechanism by its name, in float64, with seeded parameters."""
    torch.manual_seed(1)
    attn = build_attention(name, spec_of(sizes, **facts), **params).double().eval()
    if name == "bilinear":
        torch.nn.init.normal_(attn.weight)  # asymmetric, so that W and its transpose differ
    return attn


def softmax(scores: np.ndarray) -> np.ndarray:
    """exp over its sum."""
    exponentials = np.exp(scores - scores.max())
    return exponentials / exponentials.sum()


def matrix(q: Tensor, k: Tensor, row: Row, *, causal: bool) -> Tensor:
    """The attention matrix, one row at a time."""
    (b, h, n_queries, _), n_keys = q.shape, k.shape[2]
    result = np.zeros((b, h, n_queries, n_keys))
    for item in range(b):
        for head in range(h):
            for i in range(n_queries):
                allowed = i + 1 if causal else n_keys
                keys = k[item, head, :allowed].numpy()
                result[item, head, i, :allowed] = row(head, q[item, head, i].numpy(), keys)
    return torch.from_numpy(result)


def assert_realises(attn: Attention, q: Tensor, k: Tensor, v: Tensor, expected: Tensor) -> None:
    """`forward` and `weights` of `attn` both agree with the matrix `expected`."""
    torch.testing.assert_close(attn.weights(q, k), expected, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(attn(q, k, v), expected @ v, rtol=1e-11, atol=1e-11)


def results(attn: Attention, q: Tensor, k: Tensor, v: Tensor, *, seed: int = 0) -> list[Tensor | None]:
    """Output, then the gradients of a fixed function of it for q, k, v and every parameter (None: not used)."""
    q, k, v = (x.detach().clone().requires_grad_() for x in (q, k, v))
    torch.manual_seed(seed)
    out = attn(q, k, v)
    loss = (out * torch.linspace(-1, 2, out.numel(), dtype=out.dtype).view(out.shape)).sum()
    return [out.detach(), *torch.autograd.grad(loss, [q, k, v, *attn.parameters()], allow_unused=True)]


def assert_same(found: list[Tensor | None], expected: list[Tensor | None]) -> None:
    """Equal up to the order of additions, including gradients that are not used."""
    for a, b in zip(found, expected, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


def assert_chunks_agree(monkeypatch, attn: Attention, q: Tensor, k: Tensor, v: Tensor) -> None:
    """Chunks of three rows, of one sequence or of all, give the results of a single chunk, gradients included."""
    whole = results(attn, q, k, v)
    for n_batch in (1, q.shape[0]):
        calls = force_chunks(monkeypatch, n_batch, 3)
        assert_same(results(attn, q, k, v), whole)
        assert calls, "this mechanism did not go through chunks"


def assert_recomputed_alike(monkeypatch, attn: Attention, q: Tensor, k: Tensor, v: Tensor) -> None:
    """In chunks, the random numbers of the backward pass are those of the forward pass."""
    for n_batch in (1, q.shape[0]):
        force_chunks(monkeypatch, n_batch, 3)
        recomputed = results(attn, q, k, v)
        with monkeypatch.context() as patched:
            patched.setattr(chunking, "over_pieces", autograd_over_pieces)
            assert_same(recomputed, results(attn, q, k, v))


def autograd_over_pieces(attend, cut, q: Tensor, *operands: Tensor) -> Tensor:
    """`over_pieces` with every piece kept by autograd."""
    parts = [attend(*piece) for piece in cut(q, *operands)]
    n_batch = max(q.shape[0], parts[0].shape[0])
    whole = parts[0].new_empty(n_batch, *parts[0].shape[1:2], q.shape[2], *parts[0].shape[3:])
    numbers = torch.arange(whole.numel()).view(whole.shape)
    places = torch.cat([place.flatten() for place, *_ in cut(numbers, *operands)])
    flat = whole.flatten().index_put((places,), torch.cat([part.flatten() for part in parts]))
    return flat.view(whole.shape)


def force_chunks(monkeypatch, n_batch: int, rows: int) -> list[int]:
    """Make every chunk `rows` of `n_batch` sequences; the returned list grows with each chunked call."""
    calls: list[int] = []

    def chunk_sizes(n_all: int, n_rows: int, elements_per_row: int, max_elements: int, *, causal: bool):
        calls.append(n_rows)
        return n_batch, rows

    monkeypatch.setattr(chunking, "chunk_sizes", chunk_sizes)
    return calls


def assert_gradients(attn: Attention, q: Tensor, k: Tensor, v: Tensor) -> None:
    """Analytic gradients agree with finite differences, for inputs and parameters."""
    names = [name for name, _ in attn.named_parameters()]
    leaves = [x.detach().clone().requires_grad_() for x in (q, k, v, *attn.parameters())]

    def call(q: Tensor, k: Tensor, v: Tensor, *parameters: Tensor) -> Tensor:
        return torch.func.functional_call(attn, dict(zip(names, parameters, strict=True)), (q, k, v))

    assert torch.autograd.gradcheck(call, leaves, fast_mode=True)


def assert_drops_weights(attn: Attention, q: Tensor, k: Tensor) -> None:
    """In training each weight is either 0 or divided by 1 - p, and both happen. (One-hot values read the weights.)"""
    one_hot = torch.eye(k.shape[2], dtype=q.dtype).expand(*k.shape[:2], -1, -1)
    dropped, kept = attn.train()(q, k, one_hot), attn.weights(q, k) / (1 - attn.spec.dropout)
    zero = dropped == 0
    torch.testing.assert_close(dropped, torch.where(zero, 0, kept), rtol=1e-11, atol=1e-11)
    assert 0.1 < zero[kept > 0].double().mean() < 0.9
