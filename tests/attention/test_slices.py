"""Slices of rows and keys: recomputed gradients against autograd through all slices at once."""

import pytest
import torch
from naive import assert_same, autograd_over_pieces, draw, results, spec_of
from patterns import force_slices

from informer.networks.attention.bigbird import BigBirdAttention
from informer.networks.attention.truncated import TruncatedAttention
from informer.networks.ops import chunks

SIZES = (2, 3, 41, 41, 3, 2)


@pytest.mark.parametrize("cls", [TruncatedAttention, BigBirdAttention])
@pytest.mark.parametrize("p", [0.0, 0.4])
def test_recomputed_gradients_are_those_of_autograd(monkeypatch, cls, p):
    # With dropout the two agree only if the backward pass draws the numbers of the forward pass again.
    attn = cls(spec_of(SIZES, dropout=p), window=6).train()
    calls = force_slices(monkeypatch)
    recomputed = results(attn, *draw(SIZES))
    assert len(calls) > 10
    monkeypatch.setattr(chunks, "over_pieces", autograd_over_pieces)
    assert_same(recomputed, results(attn, *draw(SIZES)))


@pytest.mark.parametrize("cls", [TruncatedAttention, BigBirdAttention])
def test_without_gradients_nothing_is_kept(monkeypatch, cls):
    attn = cls(spec_of(SIZES), window=6).eval()
    q, k, v = draw(SIZES)
    expected = attn.weights(q, k) @ v
    force_slices(monkeypatch)
    with torch.no_grad():
        torch.testing.assert_close(attn(q, k, v), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_large_queries_and_keys_stay_finite(monkeypatch, dtype):
    attn = BigBirdAttention(spec_of(SIZES), window=6).train()
    force_slices(monkeypatch)
    q, k, v = (x.to(dtype).mul(1000).requires_grad_() for x in draw(SIZES))
    out = attn(q, k, v)
    assert out.dtype == dtype
    for x in (out, *torch.autograd.grad(out.float().sum(), (q, k, v))):
        assert x.isfinite().all()
    torch.testing.assert_close(attn(q, k, torch.ones_like(v)), torch.ones_like(v))


@pytest.mark.parametrize("cls", [TruncatedAttention, BigBirdAttention])
def test_the_backward_pass_recomputes_in_the_precision_of_the_forward_pass(monkeypatch, cls):
    attn = cls(spec_of(SIZES), window=6).eval()
    q, k, v = (x.float() for x in draw(SIZES))
    force_slices(monkeypatch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = attn(*(x.requires_grad_() for x in (q, k, v)))
    recomputed = torch.autograd.grad(out.float().square().sum(), (q, k, v))
    monkeypatch.setattr(chunks, "over_pieces", autograd_over_pieces)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = attn(q, k, v)
    for found, expected in zip(recomputed, torch.autograd.grad(out.float().square().sum(), (q, k, v)), strict=True):
        torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)
