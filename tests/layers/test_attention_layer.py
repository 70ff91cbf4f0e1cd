"""Heads split and merged, and the layer around a mechanism."""

import pytest
import torch

from informer.checkpoint import build_attention
from informer.networks import AttentionSpec
from informer.networks.layers.attention_layer import AttentionLayer


def layer(
    n_heads: int, d_model: int, length: int, *, mix: bool = False, name: str = "full", **params
) -> AttentionLayer:
    spec = AttentionSpec(n_heads, d_model // n_heads, length, length)
    return AttentionLayer(d_model, build_attention(name, spec, **params), mix=mix).double().eval()


def test_mix_reads_the_block_of_an_item_row_after_row() -> None:
    """Red if mix is anything but a flat read of [h l e]."""
    heads = torch.arange(2 * 2 * 3 * 2, dtype=torch.float64).view(2, 2, 3, 2)
    merged = layer(2, 4, 3, mix=True).merge(heads)
    assert merged[1].flatten().tolist() == heads[1].flatten().tolist()


@pytest.mark.parametrize(("n_heads", "length"), [(1, 31), (3, 1), (3, 7)])
def test_prob_with_every_query_active_equals_full_through_the_layer(n_heads: int, length: int) -> None:
    """Red if ProbSparse transposes its output (the worst defect of the ports)."""
    torch.manual_seed(0)
    full, prob = layer(n_heads, 6, length), layer(n_heads, 6, length, name="prob", factor=1000)
    prob.load_state_dict(full.state_dict())
    x = torch.randn(3, length, 6, dtype=torch.float64)
    torch.testing.assert_close(prob(x, x), full(x, x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("mix", [False, True])
def test_only_the_last_rows_are_computed_and_are_the_same(mix: bool) -> None:
    """Red if rows are cut before heads are merged."""
    torch.manual_seed(0)
    attend, x = layer(2, 6, 7, mix=mix), torch.randn(2, 7, 6, dtype=torch.float64)
    torch.testing.assert_close(attend(x, x, 3), attend(x, x)[:, -3:], rtol=0, atol=1e-12)


@pytest.mark.parametrize("mix", [False, True])
def test_the_gate_scales_what_the_heads_return_by_the_row_that_asks(mix: bool) -> None:
    """Red if it comes after the output projection, reads the memory, or reads other rows than those that are kept."""
    torch.manual_seed(0)
    spec = AttentionSpec(2, 3, 7, 9)
    gated, bare = (
        AttentionLayer(6, build_attention("full", spec), mix=mix, gate=gate).double() for gate in (True, False)
    )
    bare.load_state_dict({name: x for name, x in gated.state_dict().items() if not name.startswith("gate.")})
    x, memory = (torch.randn(2, n, 6, dtype=torch.float64) for n in (7, 9))
    bare.out, out = torch.nn.Identity(), bare.out
    expected = out(bare(x, memory) * torch.sigmoid(x @ gated.gate.weight.T + gated.gate.bias))
    torch.testing.assert_close(gated(x, memory), expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(gated(x, memory, 3), expected[:, -3:], rtol=0, atol=1e-12)
