"""Dense attention over a pattern, pair by pair, that the windowed and sparse mechanisms are compared with."""

from collections.abc import Callable

import numpy as np
import torch
from naive import assert_realises, assert_same, draw, results, softmax, spec_of
from torch import Tensor

from informer.networks.attention import blocks
from informer.networks.attention.base import Attention
from informer.networks.ops import chunks

Pair = Callable[[int, int, int], bool]
"""(head, row, key): is the pair in the pattern?"""

SIZES = [(2, 3, 7, 7, 5, 4), (1, 1, 1, 1, 3, 3), (1, 2, 2, 2, 3, 3), (1, 1, 31, 31, 4, 4), (1, 3, 97, 97, 3, 2)]
"""Sizes b, h, l, s, e, d."""


def pattern_matrix(q: Tensor, k: Tensor, pair: Pair, *, causal: bool) -> Tensor:
    """softmax of e^-0.5 q_i.k_j over the keys j for which `pair(i, j)` is true (j <= i if causal)."""
    (b, h, length, e) = q.shape
    result = np.zeros((b, h, length, length))
    for item in range(b):
        for head in range(h):
            for i in range(length):
                allowed = [j for j in range(i + 1 if causal else length) if pair(head, i, j)]
                scores = k[item, head, allowed].numpy() @ q[item, head, i].numpy() / np.sqrt(e)
                result[item, head, i, allowed] = softmax(scores)
    return torch.from_numpy(result)


def assert_pattern(make: Callable[..., Attention], sizes: tuple[int, ...], pair: Pair, *, causal: bool) -> None:
    """`make(spec)` in eval mode attends to the pairs for which `pair` is true."""
    q, k, v = draw(sizes)
    expected = pattern_matrix(q, k, pair, causal=causal)
    assert_realises(make(spec_of(sizes, causal=causal)).double().eval(), q, k, v, expected)


def assert_slices_agree(monkeypatch, attn: Attention, q: Tensor, k: Tensor, v: Tensor) -> None:
    """Many small slices give the results of few, gradients included."""
    whole = results(attn, q, k, v)
    calls = force_slices(monkeypatch)
    assert_same(results(attn, q, k, v), whole)
    assert calls, "this mechanism did not go through slices"


def force_slices(monkeypatch) -> list[int]:
    """Make every run of rows as short as its tiles permit; the returned list grows with each slice computed."""
    calls: list[int] = []
    pieces = chunks._slices

    def counted(*operands, **sizes):
        for piece in pieces(*operands, **sizes):
            calls.append(piece[-1])
            yield piece

    monkeypatch.setattr(chunks, "_slices", counted)
    for module in (blocks, chunks):
        monkeypatch.setattr(module, "CACHED_ELEMENTS", 1)
        monkeypatch.setattr(module, "MAX_ELEMENTS", 1)
    monkeypatch.setattr(blocks, "MIN_BLOCK", 3)
    monkeypatch.setattr(blocks, "MIN_ROWS", 3)
    return calls
