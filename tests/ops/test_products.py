"""Products, dropout and the circular convolution against torch's own."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from informer.ops import products as module
from informer.ops.dropout import Dropout, dropout, dropout_product, kept_mask
from informer.ops.products import CircularConv3, Linear, linear

NEEDS_ONEDNN = pytest.mark.skipif(not module.HAS_ONEDNN, reason="this build of torch has no oneDNN product")


@pytest.fixture(params=[False, pytest.param(True, marks=NEEDS_ONEDNN)], ids=["BLAS", "oneDNN"])
def onednn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Both ways of a product, whichever this processor takes."""
    monkeypatch.setattr(module, "ONEDNN", request.param)
    return request.param


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


def test_float32_on_the_cpu_takes_onednn_and_float64_does_not(onednn: bool) -> None:
    """Red if the fast path is never taken, or taken for a type it was not meant for."""
    weight = torch.randn(3, 4, requires_grad=True)
    assert ("OneDnn" in type(linear(torch.randn(2, 4), weight).grad_fn).__name__) is onednn
    assert "OneDnn" not in type(linear(torch.randn(2, 4).double(), weight.double()).grad_fn).__name__


def test_the_maker_of_the_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if another maker's is taken for Intel's, or what Linux tells is not read."""
    for maker, expected in (("GenuineIntel", True), ("AuthenticAMD", False)):
        told = tmp_path / maker
        told.write_text(f"processor\t: 0\nvendor_id\t: {maker}\n")
        monkeypatch.setattr(module.platform, "processor", lambda maker=maker: f"Family 6, {maker}")
        assert module.is_intel(told) is module.is_intel(tmp_path / "none") is expected


@pytest.mark.usefixtures("onednn")
def test_linear_takes_transposed_views_and_frozen_operands() -> None:
    """Red if strides are ignored, or a gradient is computed for what needs none."""
    torch.manual_seed(1)
    x, weight = torch.randn(5, 6, 4).transpose(1, 2), torch.randn(6, 3).t()
    torch.testing.assert_close(linear(x, weight), F.linear(x, weight), rtol=1e-5, atol=1e-5)
    x.requires_grad_()
    linear(x, weight).sum().backward()
    torch.testing.assert_close(x.grad, weight.sum(0).expand(5, 4, 6), rtol=1e-5, atol=1e-5)


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
    ours = CircularConv3(4, 6).to(dtype)
    theirs = nn.Conv1d(4, 6, 3, padding=1, padding_mode="circular").to(dtype)
    theirs.load_state_dict(ours.state_dict())
    x, grad = torch.randn(2, length, 4, dtype=dtype, requires_grad=True), torch.randn(2, length, 6, dtype=dtype)
    found, expected = ours(x), theirs(x.transpose(1, 2)).transpose(1, 2)
    close = {"rtol": 0, "atol": 1e-5 if dtype == torch.float32 else 1e-12}
    torch.testing.assert_close(found, expected, **close)
    gradients = (
        torch.autograd.grad(out, [x, *module.parameters()], grad) for out, module in ((found, ours), (expected, theirs))
    )
    torch.testing.assert_close(*gradients, **close)


@pytest.mark.parametrize("p", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("n", [1, 3, 200_003])
def test_dropout_keeps_its_rate_and_scale(p: float, n: int) -> None:
    """Red if the rate is off, survivors are not scaled, or the tail of an odd length is missed."""
    torch.manual_seed(3)
    x = torch.ones(n, requires_grad=True)
    dropped = dropout(x, p, training=True)
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], torch.full((int(kept.sum()),), 1 / (1 - p)))
    if n > 1000:
        assert abs(kept.double().mean().item() - (1 - p)) < 5 * (p * (1 - p) / n) ** 0.5
        neighbours = (kept[1:] & kept[:-1]).double().mean().item()
        assert abs(neighbours - (1 - p) ** 2) < 0.005
    dropped.sum().backward()
    torch.testing.assert_close(x.grad, dropped.detach())


def test_dropout_in_bfloat16_keeps_type_and_scale() -> None:
    """Red if the scale is rounded to the type of the mask: 1 / 0.95 is 1.0526, in bfloat16 1.0547."""
    x = torch.full((50_000,), 95.0, dtype=torch.bfloat16)
    torch.manual_seed(3)
    dropped = dropout(x, 0.05, training=True)
    assert dropped.dtype == torch.bfloat16
    assert set(dropped.unique().tolist()) == {0.0, 100.0}
    torch.manual_seed(3)
    assert torch.equal(dropped != 0, dropout(x.float(), 0.05, training=True) != 0)


def test_dropout_is_seeded_and_off_outside_training() -> None:
    """Red if the global generator is not used, or eval drops."""
    x = torch.ones(5, 7)
    torch.manual_seed(4)
    first = dropout(x, 0.5, training=True)
    torch.manual_seed(4)
    assert torch.equal(first, dropout(x, 0.5, training=True))
    assert not torch.equal(first, dropout(x, 0.5, training=True))
    assert Dropout(0.5).eval()(x) is x
    assert dropout(x, 0.0, training=True) is x


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
    results = []
    for product, (w, v) in zip((dropout_product, _product_by_autograd), operands, strict=True):
        torch.manual_seed(6)
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            results.append(product(w, v, 0.3, True))
        results[-1].float().square().sum().backward()
    close = {"rtol": 1e-2, "atol": 1e-3} if bf16 else {"rtol": 1e-11, "atol": 1e-14}
    torch.testing.assert_close(*results, **close)
    for ours, theirs in zip(*operands, strict=True):
        assert (ours.grad is None) == (theirs.grad is None)
        if ours.grad is not None:
            torch.testing.assert_close(ours.grad, theirs.grad, **close)


def _product_by_autograd(weights: torch.Tensor, values: torch.Tensor, p: float, training: bool) -> torch.Tensor:
    return weights * kept_mask(weights, p) / (1 - p) @ values


def test_a_product_with_dropout_keeps_its_operands_and_a_byte_a_weight() -> None:
    """Red if the dropped weights are kept too."""
    kept: dict[int, int] = {}

    def note(x: torch.Tensor) -> torch.Tensor:
        kept[x.data_ptr()] = x.untyped_storage().nbytes()
        return x

    weights, values = torch.rand(4, 32, 64, requires_grad=True), torch.randn(4, 64, 8, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
        dropout_product(weights, values, 0.3, training=True)
    assert sum(kept.values()) == weights.nbytes + values.nbytes + weights.numel()


def test_a_product_without_dropout_is_the_product() -> None:
    weights, values = torch.rand(3, 4), torch.rand(4, 2)
    assert torch.equal(dropout_product(weights, values, 0.0, training=True), weights @ values)
    assert torch.equal(dropout_product(weights, values, 0.3, training=False), weights @ values)


@pytest.mark.parametrize("p", [0.999, 0.99999, 0.9999999])
def test_almost_all_is_dropped_where_p_is_almost_one(p):
    """Red if a threshold that does not fit in 16 bits keeps everything."""
    torch.manual_seed(0)
    assert kept_mask(torch.empty(1 << 20), p).float().mean() == pytest.approx(1 - p, abs=1e-4)
