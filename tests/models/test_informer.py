"""The whole network: shapes, independence of the batch, determinism, what each part may see."""

from pathlib import Path

import pytest
import torch
from entry_points import SMALL, Trained, done

from informer import checkpoint
from informer.checkpoint import build_model
from informer.members.network import ForecastModel
from informer.networks import InformerConfig, ModelDims

FULL = {"_target_": "informer.networks.attention.full.FullAttention"}
PROB = {"_target_": "informer.networks.attention.prob.ProbAttention", "factor": 1}


def model(
    *, attn: dict = PROB, dims: dict | None = None, dtype: torch.dtype = torch.float64, **config: object
) -> ForecastModel:
    torch.manual_seed(0)
    sizes = {"enc_in": 3, "c_out": 2, "mark_sizes": (1, 1), "seq_len": 24, "label_len": 7, "pred_len": 5}
    small = {"d_model": 6, "n_heads": 3, "d_ff": 10, "dropout": 0.1} | config
    return build_model(
        InformerConfig(**small), ModelDims(**(sizes | (dims or {}))), attn=attn, decoder_attn=attn, cross_attn=FULL
    ).to(dtype)


def inputs(net: ModelDims, batch: int, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    rows = [(net.seq_len, net.enc_in), (net.seq_len, 2), (net.dec_len, net.enc_in), (net.dec_len, 2)]
    return [torch.rand(batch, *shape, generator=generator, dtype=dtype) for shape in rows]


DIMS = ModelDims(enc_in=3, c_out=2, mark_sizes=(1, 1), seq_len=24, label_len=7, pred_len=5)


@pytest.mark.parametrize("seq_len", [5, 27])
def test_pyramid_lengths_not_divisible_by_four(seq_len: int) -> None:
    """Red if stack i does not read the last seq_len // 2^i rows."""
    dims = {"seq_len": seq_len, "label_len": 2}
    net = model(encoder_stacks=[3, 2, 1], dims=dims).eval()
    shapes = ModelDims(enc_in=3, c_out=2, mark_sizes=(1, 1), pred_len=5, **dims)
    assert net(*inputs(shapes, 1)).shape == (1, 5, 2)
    assert [stack.length for stack in net.network.encoder.stacks] == [seq_len, seq_len // 2, seq_len // 4]


@pytest.mark.parametrize(("n_heads", "attn"), [(1, PROB), (1, FULL), (3, PROB)])
def test_an_item_in_a_batch_equals_the_item_alone(n_heads: int, attn: dict) -> None:
    """Red if a batch axis leaks (the bare squeeze of several ports with n_heads=1)."""
    net, batch = model(attn=attn, n_heads=n_heads, encoder_stacks=[3, 2]).eval(), inputs(DIMS, 4)
    alone = net(*(x[2:3] for x in batch))
    torch.testing.assert_close(net(*batch)[2:3], alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_shortest_lengths(length: int) -> None:
    """Red if a logarithm or a pooling step has no answer for them."""
    dims = {"seq_len": length, "label_len": 0, "pred_len": length}
    net = model(dims=dims).eval()
    shapes = ModelDims(enc_in=3, c_out=2, mark_sizes=(1, 1), **dims)
    assert net(*inputs(shapes, 1)).isfinite().all()


def test_decoder_layers_before_the_last_compute_every_row() -> None:
    """Red if only the forecast's rows survive the first of two layers: then the start token could not matter later."""
    net = model(attn=FULL, decoder_layers=2, dropout=0.0).eval()
    seen = []
    self_attention = net.network.decoder.layers[1].self_attention
    self_attention.register_forward_hook(lambda module, args, out: seen.append(args[0].shape[1]))
    net(*inputs(DIMS, 1))
    assert seen == [DIMS.dec_len]


def test_decoder_follows_the_encoder_where_it_can(folder: Path, trained: Trained) -> None:
    """Fails if a mechanism without a causal form reaches the decoder, or its replacement is not reported."""
    out = done("train", "dataset=sample", *SMALL, "attn=linformer", "trainer.max_steps=1", "run_dir=run").out
    assert "LinformerAttention has no causal form" in out
    for run, decoder in ((Path("run"), "FullAttention"), (trained.run_dir, "ProbAttention")):
        assert checkpoint.load(run).config["decoder_attn"]["_target_"].endswith(decoder)


def test_attention_layers_by_place() -> None:
    """Fails if a layer's place is wrong, or two layers share one."""
    layers = model(encoder_stacks=[2, 1], decoder_layers=2).attention_layers()
    assert {place: (layer.attention.spec.len_q, layer.attention.spec.len_k) for place, layer in layers.items()} == {
        "encoder 1.1": (24, 24), "encoder 1.2": (12, 12), "encoder 2.1": (12, 12),
        "decoder 1": (12, 12), "cross 1": (12, 24), "decoder 2": (12, 12), "cross 2": (5, 24),
    }  # fmt: skip
