"""Layers against torch's own expressions: one table, with outputs and gradients of both forms of `fast`."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from informer.networks.layers.embedding import Embedding, sinusoid_table
from informer.networks.layers.encoder import distilled_length, make_shortening
from informer.networks.layers.feed_forward import FeedForward
from informer.networks.ops import fast
from informer.networks.ops.dropout import Dropout, dropout_product, dropped
from informer.networks.ops.pooling import halve
from informer.networks.ops.products import Conv3, Linear


def columns(function: Callable[[Tensor], Tensor]) -> Callable[[nn.Module, Tensor], Tensor]:
    """A function of [b c l] for rows."""
    return lambda _, x: function(x.transpose(1, 2)).transpose(1, 2)


def convolved(conv: nn.Module, x: Tensor, stride: int = 1) -> Tensor:
    around = torch.cat([x[:, -1:], x, x[:, :1]], dim=1)
    return F.conv1d(around.transpose(1, 2), conv.weight, conv.bias, stride).transpose(1, 2)


def causal(conv: nn.Module, x: Tensor) -> Tensor:
    return F.conv1d(F.pad(x.transpose(1, 2), (2, 0)), conv.weight, conv.bias).transpose(1, 2)


def distilled(layer: nn.Module, x: Tensor) -> Tensor:
    x = convolved(layer.conv, x).transpose(1, 2)
    if layer.norm is not None:
        x = F.batch_norm(x, None, None, layer.norm.weight, layer.norm.bias, training=True)
    return F.max_pool1d(F.elu(x), 3, 2, 1).transpose(1, 2)


def inside(layer: nn.Module, x: Tensor) -> Tensor:
    hidden = F.linear(x, layer.expand.weight, layer.expand.bias)
    hidden = {"gelu": F.gelu, "relu": F.relu}[layer.activation](hidden)
    return F.linear(hidden, layer.contract.weight, layer.contract.bias)


def means(layer: nn.Module, x: Tensor) -> Tensor:
    return torch.stack([x[:, max(0, i - 1) : i + 2].mean(dim=1) for i in range(0, x.shape[1], 2)], dim=1)


def pairs(layer: nn.Module, x: Tensor) -> Tensor:
    return torch.stack([x[:, i : i + 2].mean(dim=1) for i in range(0, x.shape[1], 2)], dim=1)


LAYERS: dict[str, tuple[Callable[[], nn.Module], Callable[[nn.Module, Tensor], Tensor]]] = {
    "linear": (lambda: Linear(4, 3), lambda layer, x: F.linear(x, layer.weight, layer.bias)),
    "convolution": (lambda: Conv3(4, 6), convolved),
    "causal convolution": (lambda: Conv3(4, 6, causal=True), causal),
    "gelu": (lambda: FeedForward(d_model=4, d_ff=10, activation="gelu", dropout=0.0), inside),
    "relu": (lambda: FeedForward(d_model=4, d_ff=10, activation="relu", dropout=0.0), inside),
    "conv": (lambda: make_shortening("conv", 4, norm=True), distilled),
    "conv without norm": (lambda: make_shortening("conv", 4, norm=False), distilled),
    "max": (lambda: make_shortening("max", 4, norm=False), columns(lambda x: F.max_pool1d(x, 3, 2, 1))),
    "avg": (lambda: make_shortening("avg", 4, norm=False), means),
    "strided": (lambda: make_shortening("strided", 4, norm=False), lambda layer, x: convolved(layer.conv, x, 2)),
    "funnel": (lambda: make_shortening("funnel", 4, norm=False), pairs),
}


def learnt(function: Callable[[Tensor], Tensor], layer: nn.Module, x: Tensor) -> list[Tensor]:
    """The output, and the gradients of rows and parameters, of an upstream gradient that is drawn."""
    x = x.clone().requires_grad_()
    out = function(x)
    upstream = torch.randn(out.shape, generator=torch.Generator().manual_seed(3)).to(out.dtype)
    return [out, *torch.autograd.grad(out, [x, *layer.parameters()], upstream)]


@pytest.mark.parametrize("onednn", [False, True] if fast.HAS_ONEDNN else [False])
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_torchs_expression(name: str, onednn: bool) -> None:
    """Red if a product is transposed, a block of rows is lost, a border or the rule of lengths is another, or a
    gradient goes to another row or parameter. 39 rows are five blocks, of which three are computed again."""
    make, expression = LAYERS[name]
    for length in (1, 2, 3, 8, 13):
        for dtype, tolerance in ((torch.float32, 2e-5), (torch.float64, 1e-11)):
            torch.manual_seed(length)
            layer, x = make().to(dtype), torch.randn(3, length, 4, dtype=dtype)
            with fast.forms(rows=8, onednn=onednn):
                found = learnt(layer, layer, x)
            for own, other in zip(found, learnt(lambda x, layer=layer: expression(layer, x), layer, x), strict=True):
                torch.testing.assert_close(own, other, rtol=tolerance, atol=10 * tolerance)
            if name in ("conv", "max", "avg", "strided", "funnel"):
                assert found[0].shape[1] == distilled_length(length)


@pytest.mark.parametrize("name", ["linear", "convolution", "causal convolution", "gelu"])
def test_under_autocast_products_are_bfloat16_and_gradients_float32(name: str) -> None:
    make, expression = LAYERS[name]
    torch.manual_seed(0)
    layer, x = make(), torch.randn(3, 8, 4)
    with torch.autocast("cpu", torch.bfloat16):
        found = learnt(layer, layer, x)
    assert [each.dtype for each in found] == [torch.bfloat16] + [torch.float32] * (len(found) - 1)
    for own, other in zip(found, learnt(lambda x: expression(layer, x), layer, x), strict=True):
        torch.testing.assert_close(own.float(), other, rtol=0.05, atol=0.15)


@pytest.mark.parametrize("kind", ["none", "timeF", "fixed", "learned"])
def test_an_embedding_is_the_sum_of_its_parts(kind: str) -> None:
    """Red if a part is left out, or a mark column reads another's table; odd widths and long inputs work."""
    torch.manual_seed(0)
    embed = Embedding(n_values=3, d_model=7, length=5003, kind=kind, mark_sizes=(13, 24), dropout=0.0).double()
    x, rows = torch.randn(1, 5003, 3).double(), torch.arange(5003)
    marks = torch.stack([rows % 13, rows % 24], dim=1)[None]
    expected = convolved(embed.value, x) + sinusoid_table(5003, 7).double()
    if kind == "timeF":
        expected = expected + F.linear(marks.double(), embed.calendar.project.weight, embed.calendar.project.bias)
    elif kind != "none":
        tables = [sinusoid_table(24, 7)[:13], sinusoid_table(24, 7)]
        if kind == "learned":
            tables = [table.weight for table in embed.calendar.tables]
        expected = expected + sum(table.double()[marks[..., i]] for i, table in enumerate(tables))
    torch.testing.assert_close(embed(x, marks.double()), expected)
    column = torch.arange(7).double()
    angle = rows.double()[:, None] / 10000 ** (2 * (column // 2) / 7)
    torch.testing.assert_close(
        sinusoid_table(5003, 7), torch.where(column % 2 == 0, angle.sin(), angle.cos()).float(), rtol=0, atol=1e-5
    )


def through_feed_forward(x: Tensor) -> Tensor:
    torch.manual_seed(1)
    layer = FeedForward(d_model=6, d_ff=20, activation="gelu", dropout=0.5).to(x.dtype)
    torch.manual_seed(5)
    return layer(x)


def through_dropout(x: Tensor) -> Tensor:
    torch.manual_seed(5)
    return Dropout(0.4)(x.transpose(1, 2)).transpose(1, 2)


def through_product(x: Tensor) -> Tensor:
    torch.manual_seed(5)
    return dropout_product(x @ x.mT, x, 0.4)


@pytest.mark.parametrize("layer", [through_feed_forward, through_dropout, through_product])
def test_the_backward_pass_drops_what_the_forward_pass_dropped(layer: Callable[[Tensor], Tensor]) -> None:
    """Finite differences of a layer whose draws are repeated; a run is the same whatever the size of its blocks."""
    torch.manual_seed(0)
    x = torch.randn(3, 7, 6, dtype=torch.float64, requires_grad=True)
    with fast.forms(rows=8):
        assert torch.autograd.gradcheck(layer, x, fast_mode=True)
        small = layer(x)
    torch.testing.assert_close(small, layer(x))


def test_each_position_is_dropped_equally_often_and_independently() -> None:
    """Counts over 5,000 masks of 6 elements against the binomial distribution."""
    torch.manual_seed(1)
    p, n_masks = 0.3, 5_000
    masks = torch.zeros(n_masks, 6)
    for mask in masks:
        mask[dropped(6, p)] = 1
    deviation = (p * (1 - p) / n_masks) ** 0.5
    assert bool(((masks.mean(0) - p).abs() < 4.5 * deviation).all())
    both = (masks.T @ masks / n_masks).fill_diagonal_(p**2)
    assert bool(((both - p**2).abs() < 4.5 * (p**2 * (1 - p**2) / n_masks) ** 0.5).all())
    x = torch.ones(9001, dtype=torch.float64)
    assert set(Dropout(0.25)(x).unique().tolist()) == {0.0, 1 / 0.75}
    assert torch.equal(Dropout(0.25).eval()(x), x)


def kept(function: Callable[[], object]) -> list[int]:
    """Bytes of each array that autograd stores, once each, without parameters."""
    storages: dict[int, int] = {}

    def note(x: Tensor) -> Tensor:
        if not isinstance(x, nn.Parameter):
            storages[x.data_ptr()] = x.nbytes
        return x

    with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
        function()
    return sorted(storages.values())


def test_what_is_kept_is_bounded() -> None:
    """Red if pooling keeps its rows or wide indices, a product with dropout its dropped weights, or the feed-forward
    part the first product of more than two blocks."""
    x = torch.randn(2, 7, 5, requires_grad=True)
    assert kept(lambda: halve(x)) == [2 * 3 * 5, 2 * 4 * 5]
    weights, values = torch.rand(4, 32, 64, requires_grad=True), torch.randn(4, 64, 8, requires_grad=True)
    torch.manual_seed(7)
    n_dropped = len(dropped(weights.numel(), 0.3))
    torch.manual_seed(7)
    expected = sorted([weights.nbytes, values.nbytes, 8 * n_dropped])
    assert kept(lambda: dropout_product(weights, values, 0.3)) == expected
    layer, rows = FeedForward(d_model=6, d_ff=20, activation="gelu", dropout=0.0), torch.randn(3, 7, 6)
    with fast.forms(rows=8):
        assert max(kept(lambda: layer(rows))) == 14 * 20 * 4
