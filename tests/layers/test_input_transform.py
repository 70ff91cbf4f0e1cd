"""What is done to windows before the network and undone after it."""

import pytest
import torch

from informer.checkpoint import attention_node, build_model
from informer.members.network import ForecastModel
from informer.networks import InformerConfig, ModelDims

DIMS = ModelDims(enc_in=4, c_out=2, mark_sizes=(1, 1), seq_len=24, label_len=8, pred_len=4, targets=(1, 3), known=(2,))
SWITCHES = {
    "instance_norm": {"instance_norm": True},
    "ridge": {"skip": "ridge"},
    "patches": {"patch_len": 4},
    "apart": {"channel_independent": True},
    "all": {"instance_norm": True, "skip": "ridge", "patch_len": 2, "channel_independent": True},
}


def network(quantiles: tuple[float, ...] = (), **switches: object) -> ForecastModel:
    torch.manual_seed(0)
    full = attention_node("full")
    config = InformerConfig(d_model=6, n_heads=2, d_ff=8, dropout=0.0, **switches)
    return build_model(config, DIMS, attn=full, decoder_attn=full, cross_attn=full, quantiles=quantiles).double()


def windows(batch: int = 3) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    shapes = [(24, 4), (24, 2), (12, 4), (12, 2)]
    drawn = [torch.randn(batch, *shape, generator=generator, dtype=torch.float64) for shape in shapes]
    drawn[2][:, :8] = drawn[0][:, -8:]
    drawn[2][:, 8:, [0, 1, 3]] = 0.0
    return drawn


@pytest.mark.parametrize("name", SWITCHES)
def test_each_switch_alone_and_all_together(name: str) -> None:
    """Red if a switch needs another, or cuts a parameter off."""
    net = network(**SWITCHES[name])
    for parameter in net.network.head.parameters():
        torch.nn.init.normal_(parameter)
    output = net(*windows())
    assert output.shape == (3, 4, 2)
    output.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters() if p.requires_grad)
    assert all(p.requires_grad for part, p in net.named_parameters() if part != "maps.weight")


@pytest.mark.parametrize("skip", ["none", "ridge"])
def test_a_normalised_window_may_be_moved_and_stretched(skip: str) -> None:
    """Red if history and start token are not scaled alike, or the forecast not back: f(a x + b) = a f(x) + b."""
    net = network(instance_norm=True, skip=skip).eval()
    enc_x, enc_mark, dec_x, dec_mark = windows()
    shift, stretch = torch.tensor([5.0, -2.0, 0.0, 7.0]).double(), torch.tensor([3.0, 100.0, 1.0, 0.5]).double()
    moved = dec_x * stretch + shift
    moved[:, 8:, [0, 1, 3]] = 0.0
    output = net(enc_x * stretch + shift, enc_mark, moved, dec_mark)
    expected = net(enc_x, enc_mark, dec_x, dec_mark) * stretch[[1, 3]] + shift[[1, 3]]
    torch.testing.assert_close(output, expected, rtol=1e-3, atol=1e-3)  # epsilon counts for the small ones


def test_a_constant_window_is_continued() -> None:
    """Red if a deviation of zero divides."""
    net = network(instance_norm=True, skip="ridge").eval()
    enc_x, enc_mark, dec_x, dec_mark = windows()
    enc_x, dec_x = torch.full_like(enc_x, 3.0), torch.full_like(dec_x, 3.0)
    torch.testing.assert_close(net(enc_x, enc_mark, dec_x, dec_mark), torch.full((3, 4, 2), 3.0).double())


def test_only_known_columns_are_seen_over_the_horizon() -> None:
    """Red if the placeholder of an unknown value becomes a value by normalising."""
    net = network(instance_norm=True).eval()
    enc_x, enc_mark, dec_x, dec_mark = windows()
    before = net(enc_x, enc_mark, dec_x, dec_mark)
    for column, is_seen in ((0, False), (1, False), (2, True), (3, False)):
        changed = dec_x.clone()
        changed[:, 8:, column] += 1.0
        assert torch.equal(net(enc_x, enc_mark, changed, dec_mark), before) != is_seen


def test_targets_apart_do_not_see_each_other() -> None:
    """Red if columns are folded into the batch and back in different orders."""
    net = network(channel_independent=True).eval()
    enc_x, enc_mark, dec_x, dec_mark = windows()
    before = net(enc_x, enc_mark, dec_x, dec_mark)
    swapped = net(enc_x[..., [0, 3, 2, 1]], enc_mark, dec_x[..., [0, 3, 2, 1]], dec_mark)
    torch.testing.assert_close(swapped, before[..., [1, 0]])
    changed = enc_x.clone()
    changed[..., 1] += 1.0
    after = net(changed, enc_mark, dec_x, dec_mark)
    torch.testing.assert_close(after[..., 1], before[..., 1])
    assert not torch.allclose(after[..., 0], before[..., 0])
    changed = enc_x.clone()
    changed[..., 0] += 1.0
    assert not torch.allclose(net(changed, enc_mark, dec_x, dec_mark), before), "covariates are read by all"


@pytest.mark.parametrize("name", SWITCHES)
def test_actual_values_take_the_form_of_the_output(name: str) -> None:
    """Red if undoing what is done to a teacher's values gives others."""
    transform = network(**SWITCHES[name]).transform
    inputs, actual = transform(*windows()), torch.randn(3, 4, 2).double()
    undone = transform.undo(transform.of_targets(actual, inputs), inputs)
    torch.testing.assert_close(undone if inputs.mean is None else undone + inputs.mean, actual)


def test_what_is_known_ahead_keeps_its_own_scale() -> None:
    """Red if a column that is constant over the history, as before a holiday, is divided by its deviation of 0."""
    enc_x, enc_mark, dec_x, dec_mark = windows()
    enc_x[..., 2] = 0.0
    dec_x[:, :8, 2] = 0.0
    framed = network(instance_norm=True).transform(enc_x, enc_mark, dec_x, dec_mark)
    torch.testing.assert_close(framed.dec_x[..., 2], dec_x[..., 2])
    torch.testing.assert_close(framed.enc_x[..., 2], enc_x[..., 2])
    assert framed.enc_x[..., 1].std(dim=1, correction=0).allclose(torch.ones(3).double(), atol=1e-3)
