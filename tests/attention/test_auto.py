"""`auto` equals `full` below its crossover and `prob` from there on, bit for bit."""

from functools import partial

import pytest
import torch
from naive import draw

from informer.build import build_attention
from informer.networks.attention.auto import AutoAttention
from informer.networks.attention.base import AttentionSpec
from informer.networks.attention.full import FullAttention
from informer.networks.attention.prob import ProbAttention


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    ("len_q", "len_k", "causal", "expected"),
    [
        (39, 39, False, FullAttention),
        (40, 40, False, ProbAttention),
        (40, 40, True, ProbAttention),
        (39, 39, True, FullAttention),
        (200, 39, False, FullAttention),
        (39, 200, False, FullAttention),
        (200, 40, False, ProbAttention),
    ],
)
def test_the_shorter_length_chooses(len_q, len_k, causal, expected, training) -> None:
    """Fails if the crossover is off by one, one of the two lengths is ignored, or an option of the layer is not passed
    on."""
    spec = AttentionSpec(n_heads=3, d_head=4, len_q=len_q, len_k=len_k, causal=causal, dropout=0.2, layer_index=1)
    auto = AutoAttention(spec, crossover=40, factor=2).train(training)
    alone = expected(spec, **({"factor": 2} if expected is ProbAttention else {})).train(training)
    q, k, v = (x.float() for x in draw((2, 3, len_q, len_k, 4, 4), scale=1.0))
    outputs = []
    for attn in (auto, alone):
        torch.manual_seed(3)
        outputs.append(attn(q, k, v))
    assert torch.equal(*outputs)
    assert torch.equal(auto.eval().weights(q, k), alone.eval().weights(q, k))
    assert not auto.state_dict()


@pytest.mark.parametrize("make", [AutoAttention, partial(build_attention, "auto")])
def test_the_measured_default(make) -> None:
    """Fails if the yaml file and the class have different crossovers."""
    specs = [AttentionSpec(n_heads=1, d_head=2, len_q=length, len_k=length) for length in (255, 256)]
    assert [type(make(spec).chosen) for spec in specs] == [FullAttention, ProbAttention]
