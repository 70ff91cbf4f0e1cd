"""Ways to halve the sequence between layers, against torch's modules and loops, and in the encoder."""

from typing import get_args

import pytest
import torch
from torch import Tensor, nn

from informer.checkpoint import attention_node, build_attention, build_model
from informer.members.network import ForecastModel
from informer.networks import AttentionSpec, InformerConfig, ModelDims
from informer.networks.layers.attention_layer import AttentionLayer
from informer.networks.layers.encoder import Distil, Eliminate, distilled_length, stack_lengths
from informer.networks.models.config import Shortening
from informer.networks.ops import fast

LENGTHS = [1, 2, 3, 8, 13]


@pytest.mark.parametrize(("name", "step"), [("full", 1), ("prob", 2), ("longformer", 3), ("linear", 2)])
def test_attention_received_is_that_of_the_matrix(name: str, step: int) -> None:
    """The column sums by one-hot values: A I = A. Red if a batch item, a head or a query is left out."""
    torch.manual_seed(0)
    layer = AttentionLayer(6, build_attention(name, AttentionSpec(3, 2, 9, 9))).double().eval()
    x = torch.randn(3, 9, 6, dtype=torch.float64)
    q, k = layer.split(layer.query(x)), layer.split(layer.key(x))
    one_hot = torch.eye(9, dtype=torch.float64).expand(3, 3, 9, 9)
    expected = torch.zeros(3, 9, dtype=torch.float64)
    for b in range(3):
        for head in range(3):
            for row in layer.attention(q, k, one_hot)[b, head]:
                expected[b] += row
    with fast.forms(whole=step * 3 * 9 * 9):
        torch.testing.assert_close(layer.received(x, x), expected, rtol=1e-10, atol=1e-10)
    assert not layer.received(x, x).requires_grad


DIMS = ModelDims(enc_in=3, c_out=2, mark_sizes=(1,), seq_len=26, label_len=5, pred_len=4)


def network(attn: str = "full", **config: object) -> ForecastModel:
    torch.manual_seed(0)
    sizes = {"d_model": 6, "n_heads": 3, "d_ff": 10, "dropout": 0.0, "encoder_stacks": [3, 2]}
    slots = {"attn": attention_node(attn), "decoder_attn": attention_node("full"), "cross_attn": attention_node("full")}
    return build_model(InformerConfig(**(sizes | config)), DIMS, **slots).double()


def batch() -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    shapes = [(26, 3), (26, 1), (9, 3), (9, 1)]
    return [torch.randn(2, *shape, generator=generator, dtype=torch.float64) for shape in shapes]


@pytest.mark.parametrize("kind", get_args(Shortening))
def test_every_network_learns(kind: str) -> None:
    """Every parameter that is read gets a finite gradient, and the encoder gives as many rows as it says."""
    net = network(distil=kind).train()
    net(*batch()).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())
    x = torch.randn(2, 26, 6, dtype=torch.float64)
    encoder = net.network.encoder
    assert encoder(x).shape[1] == encoder.out_length == (39 if kind == "none" else 7 + 7)


def test_funnel_asks_all_rows() -> None:
    """The second layer by hand: queries and residual are the pooled rows, keys and values all of them."""
    stack = network(distil="funnel", encoder_stacks=[2]).eval().network.encoder.stacks[0]
    x = torch.randn(2, 26, 6, dtype=torch.float64)
    first, second = stack.layers
    whole = first(x)
    pooled = torch.stack([whole[:, i : i + 2].mean(dim=1) for i in range(0, 26, 2)], dim=1)
    a = second.attention
    q, k, v = (a.split(part) for part in (a.query(pooled), a.key(whole), a.value(whole)))
    attended = a.out(a.merge(nn.functional.scaled_dot_product_attention(q, k, v)))
    h = second.norm1(pooled + attended)
    expected = stack.norm(second.norm2(h + second.feed_forward(h)))
    torch.testing.assert_close(stack(x), expected, rtol=1e-10, atol=1e-10)
    assert (second.attention.attention.spec.len_q, second.attention.attention.spec.len_k) == (13, 26)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("n_values", [1, 3, 1000])
def test_eliminate_keeps_the_half_that_received_most_in_order(n_values: int, length: int) -> None:
    """Among equals the first."""
    x, received = torch.randn(4, length, 2), torch.randint(n_values, (4, length)).double()
    n = distilled_length(length)
    kept = [sorted(sorted(range(length), key=lambda i: (-row[i], i))[:n]) for row in received.tolist()]
    assert torch.equal(Eliminate()(x, received), torch.stack([rows[at] for rows, at in zip(x, kept, strict=True)]))


def test_fractions() -> None:
    assert stack_lengths(30, 3, None) == [30, 15, 7]
    assert stack_lengths(30, 3, [1, 0.1, 0.5]) == [30, 3, 15]  # 0.1 * 30 is 3.0000000000000004 in floats
    net = network(encoder_stacks=[3, 1], stack_fractions=[1.0, 0.25])
    assert [stack.length for stack in net.network.encoder.stacks] == [26, 7]
    assert [stack.out_length for stack in net.network.encoder.stacks] == [7, 7]
    assert net(*batch()).shape == (2, 4, 2)


def test_a_single_row_is_normalised_by_the_statistics_so_far() -> None:
    """Red if one window of one token, which has no variance, ends a run."""
    torch.manual_seed(0)
    distil = Distil(4)
    distil.norm.running_mean.fill_(2.0)
    x = torch.randn(1, 1, 4, requires_grad=True)
    output = distil.train()(x)
    expected = nn.functional.elu((distil.conv(x) - 2.0) / (1.0 + distil.norm.eps) ** 0.5)
    torch.testing.assert_close(output, expected)
    assert float(distil.norm.running_mean.mean()) == 2.0
    torch.testing.assert_close(output, distil.eval()(x))
    output.sum().backward()
    assert x.grad.isfinite().all()
