"""Quantiles that cannot cross, for any weights, windows and parts of the network."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from test_input_transform import SWITCHES, network, windows

from informer.networks.layers.quantile_head import QuantileHead

DECILES = (0.1, 0.3, 0.5, 0.7, 0.9)


@settings(deadline=None, max_examples=60)
@given(
    levels=st.sets(st.integers(1, 99), max_size=12),
    seed=st.integers(0, 2**31),
    size=st.sampled_from([1e-4, 1.0, 1e3, 1e8]),
    center=st.sampled_from([0.0, 1e4, -1e9]),
)
def test_they_never_cross(levels: set[int], seed: int, size: float, center: float) -> None:
    """Red if increments may be negative, or are summed in an order that rounds two past each other."""
    torch.manual_seed(seed)
    head = QuantileHead(5, 3, [level / 100 for level in sorted({*levels, 50})])
    for parameter in head.parameters():
        torch.nn.init.normal_(parameter, std=size)
    output = head(size * torch.randn(4, 7, 5)) + center
    assert output.shape == (4, 7, 3, len({*levels, 50}))
    assert (output.diff(dim=-1) >= 0).all()


@pytest.mark.parametrize("name", SWITCHES)
def test_every_part_of_the_network_keeps_their_order(name: str) -> None:
    """Red if normalising, patches or separate columns mix the axis of quantiles with others."""
    net = network(DECILES, **SWITCHES[name]).eval()
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    output = net(*windows())
    assert output.shape == (3, 4, 2, 5)
    assert (output.diff(dim=-1) > 0).all()


@pytest.mark.parametrize("name", SWITCHES)
def test_the_median_is_the_network_without_quantiles(name: str) -> None:
    """A head whose columns of the median are the plain head's gives the plain forecast there."""
    plain, own = network(**SWITCHES[name]).eval(), network(DECILES, **SWITCHES[name]).eval()
    torch.nn.init.normal_(plain.network.head.weight)
    own.load_state_dict(plain.state_dict(), strict=False)
    with torch.no_grad():
        own.network.head.linear.weight[2::5] = plain.network.head.weight
        own.network.head.linear.bias[2::5] = plain.network.head.bias
    torch.testing.assert_close(own(*windows())[..., 2], plain(*windows()))


def test_by_hand() -> None:
    """The median, and outwards from it sums of softplus(...), which of a head of zeros are the quantiles of a standard
    normal; columns outside, levels inside."""
    levels = np.array([0.025, 0.1, 0.5, 0.8, 0.99])
    head, x = QuantileHead(2, 2, levels.tolist()), torch.randn(1, 1, 2)
    raw = head.linear(x)[0, 0].detach().double().numpy().reshape(2, 5)
    gaps = np.diff(norm.ppf(levels))
    step = np.log1p(np.exp(raw[:, [0, 1, 3, 4]] + np.log(np.expm1(gaps))))
    below, above = -step[:, 1::-1].cumsum(1)[:, ::-1], step[:, 2:].cumsum(1)
    expected = raw[:, 2:3] + np.concatenate([below, np.zeros((2, 1)), above], axis=1)
    np.testing.assert_allclose(head(x)[0, 0].detach(), expected, rtol=1e-5)
