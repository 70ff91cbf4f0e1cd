"""The network that comes trained as a family: windows of several columns, gaps, levels, training from its weights."""

import torch

from informer.checkpoint import build_model
from informer.members.network import ForecastModel
from informer.networks import ModelDims
from informer.networks.models.zero import ZeroConfig
from informer.networks.ops.zero_inputs import LEVELS
from informer.pretrained.weights import load

FULL = {"_target_": "informer.networks.attention.full.FullAttention"}
SEQ, PRED = 200, 30


def model_of(seasons: list[int], quantiles: tuple[float, ...] = (), offset: int = 0, **sizes: object) -> ForecastModel:
    dims = ModelDims(enc_in=3, c_out=2, mark_sizes=(), seq_len=SEQ, label_len=0, pred_len=PRED, **sizes)
    config = ZeroConfig(seasons=seasons, offset=offset)
    model = build_model(config, dims, attn=FULL, decoder_attn=FULL, cross_attn=FULL, quantiles=quantiles)
    model.network.zero.load_state_dict(load().state_dict())
    return model.eval()


def windows(columns: int, rows: int = SEQ) -> torch.Tensor:
    t, rng = torch.arange(rows)[:, None], torch.Generator().manual_seed(0)
    waves = torch.sin(2 * torch.pi * t / 24 + torch.arange(columns)) + t / 200
    return waves + 0.1 * torch.randn(4, rows, columns, generator=rng)


def forecast(model: ForecastModel, enc_x: torch.Tensor) -> torch.Tensor:
    return model(
        enc_x, enc_x.new_zeros(4, SEQ, 0), enc_x.new_zeros(4, PRED, enc_x.shape[2]), enc_x.new_zeros(4, PRED, 0)
    )


def alone(x: torch.Tensor, seen: torch.Tensor, seasons: tuple[int, int], horizon: int) -> torch.Tensor:
    """Quantiles of a column by the network itself."""
    first, second = (torch.full((len(x),), season) for season in seasons)
    return load().predict(x, seen, first, second, horizon)


@torch.no_grad()
def test_each_target_is_forecast_from_its_own_rows() -> None:
    """Red if columns or windows are mixed, another column is read, or the seasons are not those of the settings."""
    x = windows(3)
    found = forecast(model_of([24, 168], targets=(2, 0)), x)
    for place, column in enumerate((2, 0)):
        expected = alone(x[:, :, column], torch.ones(4, SEQ, dtype=torch.bool), (24, 168), PRED)
        torch.testing.assert_close(found[:, :, place], expected[:, :, LEVELS.index(0.5)].float())
    other = x.clone()
    other[:, :, 1] = 7.0
    assert torch.equal(forecast(model_of([24, 168], targets=(2, 0)), other), found)


@torch.no_grad()
def test_levels_gaps_and_rows_between() -> None:
    """The second column has a mask after all columns; a missing value is 0 there and must not be read as one."""
    x = windows(2)
    seen = torch.rand(4, SEQ, generator=torch.Generator().manual_seed(1)) > 0.2
    seen[:, 0] = True
    enc_x = torch.cat([x[:, :, :1], (x[:, :, 1] * seen)[:, :, None], seen[:, :, None].float()], dim=2)
    model = model_of([24, 1], (0.1, 0.5, 0.9), offset=6, targets=(1, 0), masked=(1,))
    found = forecast(model, enc_x)
    expected = alone(x[:, :, 1], seen, (24, 1), 6 + PRED)[:, 6:]
    for place, level in enumerate((0.1, 0.5, 0.9)):
        torch.testing.assert_close(found[:, :, 0, place], expected[:, :, LEVELS.index(level)].float())


def test_gradients_are_finite_also_beyond_a_pass() -> None:
    """The median's distance from itself has a root without a gradient."""
    dims = ModelDims(enc_in=1, c_out=1, mark_sizes=(), seq_len=SEQ, label_len=0, pred_len=100)
    model = build_model(ZeroConfig(seasons=[24, 1]), dims, attn=FULL, decoder_attn=FULL, cross_attn=FULL)
    model.network.zero.load_state_dict(load().state_dict())
    x = windows(1)
    model(x, x.new_zeros(4, SEQ, 0), x.new_zeros(4, 100, 1), x.new_zeros(4, 100, 0)).abs().sum().backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients)
    assert all(gradient.abs().sum() > 0 for gradient in gradients if gradient is not None)
