"""Feed-forward blocks of rows against the same thing written as one expression."""

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from informer.networks.layers.feed_forward import FeedForward
from informer.networks.ops import fast
from informer.networks.ops.dropout import dropped

FUNCTIONS = {"gelu": F.gelu, "relu": F.relu}


@pytest.fixture(autouse=True, params=[False, True] if fast.HAS_ONEDNN else [False])
def _short_blocks(request: pytest.FixtureRequest) -> Iterator[None]:
    """21 rows are three blocks, and the first product of the last is repeated; both implementations of a product."""
    with fast.forms(rows=8, onednn=request.param):
        yield


def made(activation: str, p: float, dtype: torch.dtype) -> tuple[FeedForward, Tensor, Tensor]:
    torch.manual_seed(0)
    layer = FeedForward(d_model=6, d_ff=20, activation=activation, dropout=p).to(dtype)
    return layer, torch.randn(3, 7, 6, dtype=dtype), torch.randn(3, 7, 6, dtype=dtype)


def by_hand(layer: FeedForward, x: Tensor) -> Tensor:
    """In eval mode, by torch's own functions."""
    inside = FUNCTIONS[layer.activation](F.linear(x, layer.expand.weight, layer.expand.bias))
    return F.linear(inside, layer.contract.weight, layer.contract.bias)


@pytest.mark.parametrize("activation", ["gelu", "relu"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-4)])
def test_forward_and_gradients_are_autograds(activation: str, dtype: torch.dtype, tolerance: float) -> None:
    """Red if a block is lost, a gradient is of another block, or the activation's derivative is wrong."""
    layer, x, grad = made(activation, 0.3, dtype)
    outputs, expected = [], []
    for into, function in ((outputs, layer.eval()), (expected, lambda x: by_hand(layer, x))):
        own = x.clone().requires_grad_()
        layer.zero_grad()
        out = function(own)
        out.backward(grad)
        into += [out.detach(), own.grad, *(p.grad.clone() for p in layer.parameters())]
    for one, other in zip(outputs, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


def test_the_backward_pass_drops_what_the_forward_pass_dropped() -> None:
    """Finite differences of a layer whose draws are repeated."""
    layer, x, _ = made("gelu", 0.5, torch.float64)

    def repeated(x: Tensor, *weights: Tensor) -> Tensor:
        torch.manual_seed(5)
        return layer.train()(x)

    assert torch.autograd.gradcheck(repeated, (x.requires_grad_(), *layer.parameters()))
    assert (repeated(x) - layer.eval()(x)).abs().max() > 0.1


def test_blocks_do_not_change_the_draws() -> None:
    """A run under the same seed is the same whatever the size of blocks: all rows at once, one mask each of two."""
    layer, x, _ = made("relu", 0.5, torch.float64)
    torch.manual_seed(5)
    output = layer.train()(x)
    torch.manual_seed(5)
    inside = F.relu(F.linear(x, layer.expand.weight, layer.expand.bias))
    inside = inside * twice_where_kept(inside)
    out = F.linear(inside, layer.contract.weight, layer.contract.bias)
    torch.testing.assert_close(output, out * twice_where_kept(out))


def twice_where_kept(x: Tensor) -> Tensor:
    """The factors of dropout with probability 0.5."""
    factors = torch.full((x.numel(),), 2.0, dtype=x.dtype)
    factors[dropped(x.numel(), 0.5)] = 0
    return factors.view(x.shape)


def test_under_autocast_products_are_bfloat16_and_gradients_float32() -> None:
    layer, x, grad = made("gelu", 0.0, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(x)
    assert out.dtype == torch.bfloat16
    out.float().backward(grad)
    low = layer.contract.weight.grad
    layer.zero_grad()
    by_hand(layer, x).backward(grad)
    assert low.dtype == torch.float32
    torch.testing.assert_close(low, layer.contract.weight.grad, rtol=0.05, atol=0.05)


def test_what_is_kept_is_bounded_but_for_dropped_positions() -> None:
    """Red if anything else of the inner width is kept, or the first product of all blocks."""
    layer, x, _ = made("gelu", 0.5, torch.float32)
    weights = {p.data_ptr() for p in layer.parameters()}
    sizes: list[int] = []

    def note(kept: Tensor) -> Tensor:
        if (kept.shape[-1] == 20 or kept.dtype == torch.int64) and kept.data_ptr() not in weights:
            sizes.append(kept.nbytes)
        return kept

    with torch.autograd.graph.saved_tensors_hooks(note, lambda kept: kept):
        torch.manual_seed(5)
        layer.train()(x)
    torch.manual_seed(5)
    inner, outer = (8 * len(dropped(n, 0.5)) for n in (21 * 20, x.numel()))
    assert 14 * 20 * 4 in sizes
    assert sum(sizes) == 14 * 20 * 4 + inner + outer
