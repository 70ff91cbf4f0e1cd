"""Distilling and the pyramid."""

import pytest
import torch
from torch import nn

from informer.layers.encoder import Distil, distilled_length


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
    found = ours(x)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    assert found.shape[1] == distilled_length(length)
    torch.testing.assert_close(ours.norm.running_var, norm.running_var)
