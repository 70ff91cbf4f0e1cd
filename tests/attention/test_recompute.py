"""Parts recomputed in the backward pass give the gradients of autograd."""

import pytest
import torch
from naive import SELF, assert_same, autograd_over_pieces, draw, force_chunks, make

from informer.networks.ops.recompute import over_pieces


def pieces(q, k):
    """Two rows at a time, each with the keys up to its last."""
    return ((q[:, :, i : i + 2], k[:, :, : i + 2], i) for i in range(0, q.shape[2], 2))


def noisy(rows, keys, start):
    weights = (rows @ keys.mT + start).softmax(-1)
    return (weights * torch.rand_like(weights)) @ keys


def operands(*needed):
    torch.manual_seed(1)
    return [torch.randn(2, 1, 5, 3).requires_grad_(need) for need in needed]


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("needed", [(True, True), (True, False), (False, True)])
def test_equals_autograd(needed, autocast):
    inputs = operands(*needed)
    torch.manual_seed(2)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        out = over_pieces(noisy, pieces, *inputs)
        torch.manual_seed(2)
        expected = autograd_over_pieces(noisy, pieces, *inputs)
    assert out.dtype == expected.dtype == (torch.bfloat16 if autocast else torch.float32)
    assert torch.equal(out, expected)
    grad = torch.arange(float(out.numel()), dtype=out.dtype).view(out.shape)
    wanted = [x for x in inputs if x.requires_grad]
    gradients, true = (torch.autograd.grad(y, wanted, grad) for y in (out, expected))  # outside autocast, as in a loop
    torch.testing.assert_close(gradients, true, rtol=2e-2 if autocast else 1e-5, atol=1e-4)


def test_the_backward_pass_leaves_the_random_stream_alone():
    out = over_pieces(noisy, pieces, *operands(True, True))
    torch.manual_seed(3)
    out.sum().backward()
    after = torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(after, torch.rand(1))


def test_only_the_operands_are_kept():
    inputs, kept = operands(True, True), []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        over_pieces(noisy, pieces, *inputs)
    assert [x.data_ptr() for x in kept] == [x.data_ptr() for x in inputs]


def test_a_second_derivative_is_an_error():
    q, k = operands(True, True)
    (first,) = torch.autograd.grad(over_pieces(noisy, pieces, q, k).square().sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_operands_that_are_not_used_get_zeros():
    q, k = operands(True, True)
    out = over_pieces(lambda rows, keys, start: 2 * rows, pieces, q, k)
    _, unused = torch.autograd.grad(out.sum(), [q, k])
    assert not unused.any()


@pytest.mark.parametrize("name", ["full", "additive", "topk", "hard", "synthesizer"])
def test_the_mode_is_that_of_the_forward_pass(monkeypatch, name):
    """Red if chunks are recomputed without dropout or noise because the layer is in eval mode by then."""
    attn, operands = make(name, {}, SELF[2], dropout=0.4), [x.requires_grad_() for x in draw(SELF[2])]
    force_chunks(monkeypatch, 1, 3)
    gradients = []
    for training in (True, False):
        torch.manual_seed(0)
        out = attn.train()(*operands)
        attn.train(training)
        gradients.append(torch.autograd.grad(out.square().sum(), operands, allow_unused=True))
    assert_same(*gradients)
