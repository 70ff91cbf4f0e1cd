"""Activations computed again in the backward pass: the gradients are autograd's, and what is kept is less."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from informer.checkpoint import attention_node, build_model
from informer.members.network import ForecastModel
from informer.networks import InformerConfig, ModelDims

DIMS = ModelDims(enc_in=3, c_out=2, mark_sizes=(1, 1), seq_len=24, label_len=7, pred_len=5)
FULL = attention_node("full")
REDRAWN = attention_node("performer") | {"redraw_every": 1}
ATTENTIONS = {name: attention_node(name) for name in ("prob", "reformer")} | {"redrawn": REDRAWN}


def network(attn: dict = ATTENTIONS["prob"], *, dtype: torch.dtype = torch.float64, **config: object) -> ForecastModel:
    torch.manual_seed(0)
    sizes = {"d_model": 6, "n_heads": 3, "d_ff": 10, "dropout": 0.2, "encoder_stacks": [3], "decoder_layers": 3}
    slots = {"attn": attn, "decoder_attn": attn, "cross_attn": FULL}
    return build_model(InformerConfig(**(sizes | config)), DIMS, **slots).to(dtype).train()


def inputs(dtype: torch.dtype = torch.float64, batch: int = 2) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    rows = [(DIMS.seq_len, 3), (DIMS.seq_len, 2), (DIMS.dec_len, 3), (DIMS.dec_len, 2)]
    return [torch.rand(batch, *shape, generator=generator, dtype=dtype) for shape in rows]


def learnt(net: ForecastModel) -> list[Tensor]:
    """Output, gradients of inputs and parameters, buffers, and the random number after two training passes."""
    batch = [x.requires_grad_() for x in inputs()]
    torch.manual_seed(5)
    outputs = [net(*batch) for _ in range(2)]
    sum(output.square().sum() for output in outputs).backward()
    gradients = [x.grad for x in (*batch, *net.parameters())]
    assert all(gradient is not None for gradient in gradients[4:])
    return [*outputs, *(g for g in gradients if g is not None), *net.buffers(), torch.rand(1)]


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_checkpointing_changes_no_bit(attention: str) -> None:
    """Red if the layers computed again meet other random numbers or buffers than they did."""
    for ours, theirs in zip(
        learnt(network(ATTENTIONS[attention], activation_checkpointing=True)),
        learnt(network(ATTENTIONS[attention])),
        strict=True,
    ):
        assert torch.equal(ours, theirs)


def kept_bytes(net: Callable[..., Tensor], *batch: Tensor) -> int:
    """Bytes that autograd holds after a forward pass, without parameters."""
    storages: dict[int, int] = {}

    def pack(x: Tensor) -> Tensor:
        if not isinstance(x, nn.Parameter):
            storages[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        output = net(*batch)
    assert output.requires_grad
    return sum(storages.values())


def per_layer(**config: object) -> float:
    """Growth of what is kept with every further encoder layer, without distilling, in arrays of a layer's input."""
    short, long = (
        kept_bytes(network(FULL, encoder_stacks=[n], distil="none", **config), *inputs(batch=8)) for n in (2, 6)
    )
    return (long - short) / 4 / (8 * DIMS.seq_len * 6 * 8)


def test_what_is_kept_against_depth() -> None:
    """Red if a layer's inside survives the forward pass."""
    assert per_layer(activation_checkpointing=True) == pytest.approx(1, abs=0.01)
    assert per_layer() > 8
