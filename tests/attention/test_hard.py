"""Hard attention: one-hot rows forward, the gradient of a softmax backward."""

import numpy as np
import pytest
import torch
from naive import CROSS, SELF, assert_realises, draw, matrix, results, spec_of

from informer.networks.attention.hard import HardAttention


def row(_head, query, keys):
    scores = keys @ query / np.sqrt(len(query))
    return (np.arange(len(scores)) == scores.argmax()).astype(float)


def make(sizes, *, causal=False, dropout=0.0, **params):
    return HardAttention(spec_of(sizes, causal=causal, dropout=dropout), **params).eval()


@pytest.mark.parametrize("temperature", [0.3, 5.0])
@pytest.mark.parametrize(
    ("sizes", "causal"), [(x, c) for x in SELF for c in (False, True)] + [(x, False) for x in CROSS]
)
def test_equals_the_formula(sizes, causal, temperature):
    q, k, v = draw(sizes)
    assert_realises(make(sizes, causal=causal, temperature=temperature), q, k, v, matrix(q, k, row, causal=causal))


@pytest.mark.parametrize("grad", [False, True])
def test_output_is_exactly_one_value(grad):
    q, k, v = (x.float().requires_grad_(grad) for x in draw(SELF[2]))
    attn = make(SELF[2])
    best = attn.weights(q, k).argmax(-1)
    with torch.set_grad_enabled(grad):
        out = attn(q, k, v)
    assert torch.equal(out, v.take_along_dim(best[..., None], dim=2))


def test_first_of_equal_keys_wins():
    q, k = torch.ones(1, 1, 3, 2), torch.ones(1, 1, 9, 2)
    v = torch.arange(9.0).view(1, 1, 9, 1)
    attn = make((1, 1, 3, 9, 2, 1))
    assert not attn(q, k, v).any()
    assert torch.equal(attn.weights(q, k).argmax(-1), torch.zeros(1, 1, 3, dtype=torch.long))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("temperature", [0.5, 3.0])
def test_gradient_passes_straight_through_the_softmax(temperature, causal):
    q, k, v = draw(SELF[0])
    attn = make(SELF[0], causal=causal, temperature=temperature)
    _, grad_q, grad_k, grad_v = results(attn, q, k, v)
    q, k = q.requires_grad_(), k.requires_grad_()
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if causal:
        scores = scores.masked_fill(torch.ones(7, 7).triu(1).bool(), float("-inf"))
    out_grad = torch.linspace(-1, 2, v.numel(), dtype=v.dtype).view(v.shape)
    soft = (scores / temperature).softmax(-1)
    expected = torch.autograd.grad((soft * (out_grad @ v.mT)).sum(), [q, k])
    torch.testing.assert_close([grad_q, grad_k], list(expected))
    torch.testing.assert_close(grad_v, attn.weights(q, k).mT @ out_grad)


def test_noise_in_training_only_and_only_if_asked():
    q, k, v = draw(SELF[2], scale=0.3)
    attn = make(SELF[2], dropout=0.9)
    assert torch.equal(attn(q, k, v), attn(q, k, v))
    assert not torch.equal(attn.train()(q, k, v), attn(q, k, v))
    quiet = make(SELF[2], dropout=0.9, gumbel=False)
    assert torch.equal(quiet.train()(q, k, v), quiet.eval()(q, k, v))


def test_noise_samples_the_softmax():
    torch.manual_seed(0)
    k = torch.tensor([0.0, 1.0, 2.5]).view(1, 1, 3, 1)
    chosen = make((1, 1, 40_000, 3, 1, 3)).train()(torch.ones(1, 1, 40_000, 1), k, torch.eye(3)[None, None])
    torch.testing.assert_close(chosen.mean(2).flatten(), k.flatten().softmax(-1), rtol=0, atol=0.01)


@pytest.mark.parametrize(("dtype", "scale"), [(torch.float32, 1e3), (torch.bfloat16, 1.0)])
def test_training_is_finite(dtype, scale):
    q, k, v = (x.to(dtype) for x in draw(SELF[2], scale=scale))
    attn = make(SELF[2], temperature=0.1).train()
    assert all(x.isfinite().all() for x in results(attn, q, k, v))
