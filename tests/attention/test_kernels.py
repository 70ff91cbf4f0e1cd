"""Segments of the linear-time kernels: carried state and recomputation change no number."""

import pytest
import torch
from naive import assert_same, draw, results, spec_of

from informer.networks.attention import kernels
from informer.networks.attention.efficient import EfficientAttention
from informer.networks.attention.kernels import running_sums
from informer.networks.attention.linear import LinearAttention
from informer.networks.attention.performer import PerformerAttention
from informer.networks.attention.running_sums import ordered_sum
from informer.networks.attention.taylor import TaylorAttention

SIZES = (2, 2, 150, 150, 3, 4)


def make(cls, causal):
    torch.manual_seed(0)
    return cls(spec_of(SIZES, causal=causal)).double().eval()


@pytest.mark.parametrize(
    ("cls", "causal"),
    [(x, c) for x in (LinearAttention, TaylorAttention, PerformerAttention) for c in (False, True)]
    + [(EfficientAttention, True)],
)
def test_segments_and_recomputing_them_change_nothing(monkeypatch, cls, causal):
    attn, operands = make(cls, causal), draw(SIZES)
    whole = results(attn, *operands)
    monkeypatch.setattr(kernels, "SEGMENT_ELEMENTS", 1)
    assert_same(results(attn, *operands), whole)

    recomputed = []
    plain = kernels.checkpoint
    monkeypatch.setattr(kernels, "MAX_ELEMENTS", 0)
    monkeypatch.setattr(kernels, "checkpoint", lambda *a, **k: recomputed.append(1) or plain(*a, **k))
    assert_same(results(attn, *operands), whole)
    assert len(recomputed) == 3 * (1 if causal else 2)  # segments of 64 positions; keys and queries apart


@pytest.mark.parametrize("n_borders", [1, 3])
def test_running_sums_are_those_of_a_loop(n_borders):
    generator = torch.Generator().manual_seed(0)
    before, chunks = (torch.randn(shape, generator=generator).double() for shape in ((1, 2, 3, 4), (1, 2, 5, 3, 4)))
    borders = torch.rand(1, 2, 6, n_borders, generator=generator).double().cumsum(dim=2)
    sums, expected = before, [before]
    for n in range(5):
        sums = sums * (borders[:, :, n] - borders[:, :, n + 1]).exp().unsqueeze(-1) + chunks[:, :, n]
        expected.append(sums)
    totals, last = running_sums(before, chunks, borders)
    torch.testing.assert_close(totals, torch.stack(expected[:-1], dim=2))
    torch.testing.assert_close(last, expected[-1])


@pytest.mark.parametrize("cls", [LinearAttention, TaylorAttention, EfficientAttention, PerformerAttention])
def test_autocast_is_close_to_single_precision(cls):
    attn, (q, k, v) = make(cls, True).float(), (x.float() / 2 for x in draw(SIZES))
    with torch.autocast("cpu", torch.bfloat16):
        out = attn(q, k, v)
    assert (out - attn(q, k, v)).abs().max() < 0.1


@pytest.mark.parametrize("n", [1, 2, 3, 8, 9, 10, 150])
def test_sums_in_a_fixed_order_are_running_sums(n):
    """What CUDA takes where results are to be repeatable; red if a block's rows or the blocks before it miss."""
    torch.manual_seed(0)
    x = torch.randn(2, 3, n, 5, dtype=torch.float64)
    torch.testing.assert_close(ordered_sum(x), x.cumsum(dim=2), rtol=1e-12, atol=1e-12)
