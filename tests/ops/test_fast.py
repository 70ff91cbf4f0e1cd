"""Second derivatives: those of torch's own expressions, or an error; never a gradient without a graph."""

import pytest
import torch
from torch import Tensor, nn

from informer.networks.layers.encoder import Distil
from informer.networks.layers.feed_forward import FeedForward
from informer.networks.ops import fast
from informer.networks.ops.dropout import Dropout
from informer.networks.ops.products import Conv3, Linear

LAYERS = {
    "linear": lambda: Linear(6, 6),
    "convolution": lambda: Conv3(6, 6),
    "distilling": lambda: Distil(6, norm=False),
    "feed-forward": lambda: FeedForward(d_model=6, d_ff=10, activation="gelu", dropout=0.0),
    "dropout": lambda: nn.Sequential(nn.Tanh(), Dropout(0.5)),
}


def penalty(layer: nn.Module, x: Tensor) -> Tensor:
    """|d layer(x) / dx|^2, with a graph."""
    torch.manual_seed(0)
    x = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
    return gradient.square().sum()


@pytest.mark.parametrize("name", LAYERS)
def test_a_penalty_on_the_gradient_is_torchs_or_an_error(name: str) -> None:
    """Red if a layer's backward pass returns a gradient without a graph, so that the penalty has no gradient."""
    torch.manual_seed(1)
    layer, x = LAYERS[name](), torch.randn(2, 9, 6)
    with (
        fast.forms(onednn=fast.HAS_ONEDNN),
        pytest.raises(RuntimeError, match=r"second derivatives: .* `with informer\.networks\.ops\.fast\.forms\("),
    ):
        penalty(layer, x)
    with fast.forms(on=False):
        penalty(layer, x).backward()
    assert all(weight.grad is not None for name, weight in layer.named_parameters() if name.endswith("weight"))
