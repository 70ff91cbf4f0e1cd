"""Products, dropout and the circular convolution against torch's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from informer.networks.ops import fast
from informer.networks.ops.dropout import Dropout, dropout, dropout_product, dropped
from informer.networks.ops.products import Conv3, Linear, linear

NEEDS_ONEDNN = pytest.mark.skipif(not fast.HAS_ONEDNN, reason="this build of torch has no oneDNN product")


@pytest.fixture(params=[False, pytest.param(True, marks=NEEDS_ONEDNN)], ids=["BLAS", "oneDNN"])
def onednn(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both implementations of a product, on any processor."""
    with fast.forms(onednn=request.param):
        yield


SHAPES = [((1, 1, 1), 1), ((2, 7, 5), 3), ((3, 13), 11), ((33, 96, 17), 64)]


@pytest.mark.usefixtures("onednn")
@pytest.mark.parametrize(("shape", "n_out"), SHAPES, ids=str)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_linear_and_its_gradients_equal_torchs(shape: tuple, n_out: int, bias: bool, dtype: torch.dtype) -> None:
    """Red if a product is transposed, a gradient is missing, or the bias is summed over the wrong axes."""
    torch.manual_seed(0)
    operands = [torch.randn(shape), torch.randn(n_out, shape[-1]), *([torch.randn(n_out)] if bias else [])]
    mine, theirs = ([x.to(dtype).requires_grad_() for x in operands] for _ in range(2))
    grad = torch.randn(*shape[:-1], n_out, dtype=dtype)
    ours, expected = linear(*mine), F.linear(*theirs)
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)
    ours.backward(grad)
    expected.backward(grad)
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-4)


def test_a_causal_convolution_sees_rows_before() -> None:
    """Against torch's convolution of rows after two of zeros. Red if a row sees a later one."""
    conv, x = Conv3(4, 6, causal=True).double(), torch.randn(3, 8, 4, dtype=torch.float64)
    expected = F.conv1d(F.pad(x.transpose(1, 2), (2, 0)), conv.weight, conv.bias).transpose(1, 2)
    torch.testing.assert_close(conv(x), expected)


def test_the_convolution_under_autocast_is_that_of_rounded_operands() -> None:
    """Red if gradients under autocast are transposed, rolled the wrong way, or of another type than their operand."""
    torch.manual_seed(2)
    conv, x = Conv3(4, 6), torch.randn(3, 8, 4, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        out = conv(x)
    assert out.dtype == torch.bfloat16
    out.sum().backward()
    low = [x.grad, conv.weight.grad, conv.bias.grad]
    assert {each.dtype for each in low} == {torch.float32}
    x.grad = None
    conv.zero_grad()
    padded = F.pad(x.transpose(1, 2), (1, 1), mode="circular")
    expected = F.conv1d(padded, conv.weight, conv.bias).transpose(1, 2)
    torch.testing.assert_close(out.float(), expected, rtol=0.05, atol=0.05)
    expected.sum().backward()
    for one, other in zip(low, [x.grad, conv.weight.grad, conv.bias.grad], strict=True):
        torch.testing.assert_close(one, other, rtol=0.05, atol=0.1)


def test_the_maker_of_the_processor(tmp_path: Path) -> None:
    """Red if another vendor is taken for Intel."""
    for maker, expected in (("GenuineIntel", True), ("AuthenticAMD", False)):
        told = tmp_path / maker
        told.write_text(f"processor\t: 0\nvendor_id\t: {maker}\n")
        assert fast.is_intel(told) is expected


@pytest.mark.usefixtures("onednn")
def test_linear_under_autocast_and_on_nothing() -> None:
    """Red if autocast is bypassed, or an empty batch fails."""
    layer = Linear(4, 3)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(torch.randn(2, 4)).dtype == torch.bfloat16
    assert layer(torch.zeros(0, 7, 4)).shape == (0, 7, 3)


@pytest.mark.usefixtures("onednn")
@pytest.mark.parametrize("length", [1, 2, 3, 10])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_circular_convolution_and_its_gradients_equal_torchs(length: int, dtype: torch.dtype) -> None:
    """Red if the taps are reversed, the padding is not circular, or a gradient goes to another row."""
    torch.manual_seed(2)
    ours = Conv3(4, 6).to(dtype)
    theirs = nn.Conv1d(4, 6, 3, padding=1, padding_mode="circular").to(dtype)
    theirs.load_state_dict(ours.state_dict())
    x, grad = torch.randn(2, length, 4, dtype=dtype, requires_grad=True), torch.randn(2, length, 6, dtype=dtype)
    output, expected = ours(x), theirs(x.transpose(1, 2)).transpose(1, 2)
    close = {"rtol": 0, "atol": 1e-5 if dtype == torch.float32 else 1e-12}
    torch.testing.assert_close(output, expected, **close)
    gradients = (
        torch.autograd.grad(out, [x, *module.parameters()], grad)
        for out, module in ((output, ours), (expected, theirs))
    )
    torch.testing.assert_close(*gradients, **close)


@pytest.mark.parametrize("p", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("n", [1, 3, 200_003])
def test_dropout_keeps_its_rate_and_scale(p: float, n: int) -> None:
    """Red if the rate is off, survivors are not scaled, or the tail of an odd length is missed."""
    torch.manual_seed(3)
    x = torch.ones(n, requires_grad=True)
    dropped = dropout(x, p)
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], torch.full((int(kept.sum()),), 1 / (1 - p)))
    if n > 1000:
        assert abs(kept.double().mean().item() - (1 - p)) < 5 * (p * (1 - p) / n) ** 0.5
        neighbours = (kept[1:] & kept[:-1]).double().mean().item()
        assert abs(neighbours - (1 - p) ** 2) < 0.005
    dropped.sum().backward()
    torch.testing.assert_close(x.grad, dropped.detach())


def test_dropout_is_seeded_and_off_outside_training() -> None:
    """Red if the global generator is not used, or eval drops."""
    x = torch.ones(5, 7)
    torch.manual_seed(4)
    first = dropout(x, 0.5)
    torch.manual_seed(4)
    assert torch.equal(first, dropout(x, 0.5))
    assert not torch.equal(first, dropout(x, 0.5))
    assert Dropout(0.5).eval()(x) is x
    assert dropout(x, 0.0) is x


@pytest.mark.parametrize("learnt", [(True, True), (True, False), (False, True)], ids=str)
@pytest.mark.parametrize("bf16", [False, True])
def test_a_product_with_dropout_and_its_gradients_equal_autograds(learnt: tuple[bool, bool], bf16: bool) -> None:
    """Red if a gradient misses the mask, its scale, a transpose or its type, or is made where none is wanted."""
    torch.manual_seed(5)
    dtype = torch.float32 if bf16 else torch.float64
    weights, values = torch.rand(2, 3, 7, 11, dtype=dtype).softmax(-1), torch.randn(2, 3, 11, 5, dtype=dtype)
    operands = [
        [x.clone().requires_grad_(need) for x, need in zip((weights, values), learnt, strict=True)] for _ in range(2)
    ]

    def by_autograd(weights: torch.Tensor, values: torch.Tensor, p: float) -> torch.Tensor:
        kept = torch.ones(weights.numel())
        kept[dropped(weights.numel(), p)] = 0
        return weights * kept.view(weights.shape) / (1 - p) @ values

    results = []
    for multiply, (w, v) in zip((dropout_product, by_autograd), operands, strict=True):
        torch.manual_seed(6)
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            results.append(multiply(w, v, 0.3))
        results[-1].float().square().sum().backward()
    close = {"rtol": 1e-2, "atol": 1e-3} if bf16 else {"rtol": 1e-11, "atol": 1e-14}
    torch.testing.assert_close(*results, **close)
    for ours, theirs in zip(*operands, strict=True):
        assert (ours.grad is None) == (theirs.grad is None)
        if ours.grad is not None:
            torch.testing.assert_close(ours.grad, theirs.grad, **close)


def test_a_product_with_dropout_keeps_its_operands_and_the_dropped_positions() -> None:
    """Red if the dropped weights are kept too, or all positions that were drawn."""
    kept: dict[int, int] = {}

    def note(x: torch.Tensor) -> torch.Tensor:
        kept[x.data_ptr()] = x.untyped_storage().nbytes()
        return x

    weights, values = torch.rand(4, 32, 64, requires_grad=True), torch.randn(4, 64, 8, requires_grad=True)
    torch.manual_seed(7)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
        dropout_product(weights, values, 0.3)
    torch.manual_seed(7)
    n_dropped = len(dropped(weights.numel(), 0.3))
    assert sum(kept.values()) == weights.nbytes + values.nbytes + 8 * n_dropped


def test_each_position_is_dropped_equally_often_and_independently() -> None:
    """Counts over 20,000 masks of 6 elements against the binomial distribution."""
    torch.manual_seed(1)
    p, n_masks = 0.3, 20_000
    masks = torch.zeros(n_masks, 6)
    for mask in masks:
        mask[dropped(6, p)] = 1
    deviation = (p * (1 - p) / n_masks) ** 0.5
    assert bool(((masks.mean(0) - p).abs() < 4.5 * deviation).all())
    both = (masks.T @ masks / n_masks).fill_diagonal_(p**2)
    assert bool(((both - p**2).abs() < 4.5 * (p**2 * (1 - p**2) / n_masks) ** 0.5).all())


@pytest.mark.parametrize("transposed", [False, True])
def test_dropout_of_any_strides_drops_the_same_elements_in_both_passes(transposed: bool) -> None:
    """Red if positions are counted in memory order in one pass and in index order in the other."""
    x = torch.randn(7, 11, requires_grad=True)
    given = x.T if transposed else x
    out = dropout(given, 0.4)
    (out.T if transposed else out).backward(torch.ones(7, 11))
    torch.testing.assert_close((x.grad.T if transposed else x.grad) * given, out)
