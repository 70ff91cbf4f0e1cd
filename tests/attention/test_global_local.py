"""Attention of tokens and rows in four parts, against loops from the formula."""

import numpy as np
import pytest
import torch
from naive import assert_gradients, draw, softmax
from torch import Tensor

from informer.build import build_attention
from informer.networks.attention.base import AttentionSpec
from informer.networks.attention.global_local import GlobalLocalAttention

SIZES = [(2, 3, 9, 5, 4), (1, 1, 1, 3, 3), (1, 2, 37, 4, 2)]
"""Sizes b, h, rows l, features e, value features d."""
LOCALS = [("etc", {"radius": 2}), ("etc", {"radius": 10**6}), ("bigbird_etc", {"window": 3, "n_random": 2})]


def make(name: str, params: dict, sizes: tuple[int, ...], n: int, *, dropout: float = 0.0) -> GlobalLocalAttention:
    _, h, rows, e, _ = sizes
    spec = AttentionSpec(h, e, rows, rows, dropout=dropout)
    local = build_attention(name, spec, n_global=0, **params)
    with_tokens = AttentionSpec(h, e, n + rows, n + rows, dropout=dropout)
    return GlobalLocalAttention(with_tokens, local, n_tokens=n).double().eval()


def operands(sizes: tuple[int, ...], n: int) -> tuple[Tensor, Tensor, Tensor]:
    b, h, rows, e, d = sizes
    return draw((b, h, n + rows, n + rows, e, d))


def near(attn: GlobalLocalAttention, head: int, i: int) -> list[int]:
    """Rows that row i attends to, from the definition of the mechanism."""
    local, length = attn.local, attn.local.spec.len_q
    if hasattr(local, "radius"):
        return [j for j in range(length) if abs(i - j) <= local.radius]
    drawn = local.random_keys[head, i].tolist()
    return [j for j in range(length) if abs(i - j) <= local.reach or j in drawn]


def four_parts(attn: GlobalLocalAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Outputs row by row: one softmax over all tokens and the rows that a row may attend to."""
    n, out = attn.n_tokens, np.zeros((*q.shape[:3], v.shape[-1]))
    for item in range(len(q)):
        for head in range(q.shape[1]):
            for i in range(q.shape[2]):
                rows = range(q.shape[2] - n) if i < n else near(attn, head, i - n)
                keys = [*range(n), *(n + row for row in rows)]
                scores = k[item, head, keys].numpy() @ q[item, head, i].numpy() / np.sqrt(attn.spec.d_head)
                out[item, head, i] = softmax(scores) @ v[item, head, keys].numpy()
    return torch.from_numpy(out)


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize(("name", "params"), LOCALS)
@pytest.mark.parametrize("sizes", SIZES)
def test_equals_the_formula(sizes: tuple[int, ...], name: str, params: dict, n: int) -> None:
    """Red if a part is left out or has a softmax by itself."""
    attn = make(name, params, sizes, n)
    q, k, v = operands(sizes, n)
    expected = four_parts(attn, q, k, v)
    torch.testing.assert_close(attn(q, k, v), expected, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(attn.weights(q, k) @ v, expected, rtol=1e-11, atol=1e-11)


def test_has_true_gradients() -> None:
    sizes = (1, 2, 5, 3, 2)
    assert_gradients(make("etc", {"radius": 1}, sizes, 2), *operands(sizes, 2))


def test_dropout_acts_in_training_alone() -> None:
    sizes = (1, 2, 45, 3, 3)
    attn = make("etc", {"radius": 8}, sizes, 5, dropout=0.5)
    q, k, v = operands(sizes, 5)
    ones = torch.ones_like(v)
    torch.testing.assert_close(attn(q, k, ones), ones)
    sums = attn.train()(q, k, ones)
    assert sums[:, :, :5].std() > 0.05
    assert sums[:, :, 5:].std() > 0.1


def test_at_least_one_token() -> None:
    with pytest.raises(ValueError, match="n_tokens: expected a whole number of at least 1, found 0"):
        make("etc", {}, SIZES[0], 0)
