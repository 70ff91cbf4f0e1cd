"""Distilling and the pyramid."""

import pytest
import torch
from torch import Tensor, nn

from informer.networks.layers.encoder import Distil, distilled_length, halve


@pytest.mark.parametrize("length", [1, 2, 3, 8, 13])
def test_distil_equals_torchs_layers(length: int) -> None:
    """Red if any of convolution, normalisation, activation or pooling differs, or the length rule."""
    torch.manual_seed(0)
    ours = Distil(4).double()
    conv = nn.Conv1d(4, 4, 3, padding=1, padding_mode="circular").double()
    norm = nn.BatchNorm1d(4).double()
    conv.load_state_dict(ours.conv.state_dict())
    x = torch.randn(3, length, 4, dtype=torch.float64)
    expected = nn.MaxPool1d(3, 2, 1)(nn.functional.elu(norm(conv(x.transpose(1, 2))))).transpose(1, 2)
    output = ours(x)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-12)
    assert output.shape[1] == distilled_length(length)
    torch.testing.assert_close(ours.norm.running_var, norm.running_var)


@pytest.mark.parametrize("length", [1, 2, 3, 8, 13])
def test_gradients_are_those_of_torchs_pool(length: int) -> None:
    """Red if a maximum's gradient goes to another row, is lost, or of equal rows goes to another one than torch's."""
    torch.manual_seed(0)
    x = torch.randint(3, (3, length, 4)).double().requires_grad_()
    grad = torch.randn(3, distilled_length(length), 4, dtype=torch.float64)
    expected = nn.functional.max_pool1d(x.transpose(1, 2), 3, 2, 1).transpose(1, 2)
    output = halve(x)
    assert torch.equal(output, expected)
    (from_torch,) = torch.autograd.grad(expected, x, grad)
    (own,) = torch.autograd.grad(output, x, grad)
    torch.testing.assert_close(own, from_torch, rtol=0, atol=1e-15)


def test_pooling_keeps_two_bytes_a_maximum() -> None:
    """Red if the pool keeps its rows, or wide indices."""
    x = torch.randn(2, 7, 5, requires_grad=True)
    sizes: list[int] = []

    def note(kept: Tensor) -> Tensor:
        sizes.append(kept.nbytes)
        return kept

    with torch.autograd.graph.saved_tensors_hooks(note, lambda kept: kept):
        halve(x)
    assert sorted(sizes) == [2 * 3 * 5, 2 * 4 * 5]


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
