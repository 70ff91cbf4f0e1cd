"""Full and unscaled attention against a loop over rows."""

import math

import numpy as np
import pytest
import torch
from naive import (
    CROSS,
    SELF,
    assert_realises,
    draw,
    matrix,
    softmax,
    spec_of,
)

from informer.build import build_attention
from informer.networks.attention.full import FullAttention


def row_of(scale):
    return lambda _head, query, keys: softmax(keys @ query * (1 / np.sqrt(len(query)) if scale is None else scale))


@pytest.mark.parametrize("scale", [None, 1.0, 0.3])
@pytest.mark.parametrize(
    ("sizes", "causal"), [(x, c) for x in SELF for c in (False, True)] + [(x, False) for x in CROSS]
)
def test_equals_the_formula(sizes, causal, scale):
    q, k, v = draw(sizes)
    attn = FullAttention(spec_of(sizes, causal=causal), scale=scale)
    assert_realises(attn, q, k, v, matrix(q, k, row_of(scale), causal=causal))


def test_dot_is_unscaled():
    q, k, v = draw(SELF[0])
    expected = matrix(q, k, row_of(1.0), causal=False)
    assert_realises(build_attention("dot", spec_of(SELF[0])), q, k, v, expected)


def test_dropout_is_unbiased_and_off_in_eval():
    torch.manual_seed(0)
    sizes = (1, 1, 5, 400, 4, 4)
    q, k, v = draw(sizes)
    attn = FullAttention(spec_of(sizes, dropout=0.5))
    exact = attn.eval()(q, k, v)
    drawn = torch.stack([attn.train()(q, k, v) for _ in range(200)])
    spread = drawn.std(0)
    assert (spread > 0).all()
    assert ((drawn.mean(0) - exact).abs() < 5 * spread / math.sqrt(len(drawn))).all()
