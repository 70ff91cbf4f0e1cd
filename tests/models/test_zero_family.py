"""The network that comes trained as a family: windows of several columns, gaps, levels, training from its weights."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from entry_points import call, done, refusal

from informer import checkpoint
from informer.checkpoint import build_model
from informer.members.network import ForecastModel
from informer.networks import ModelDims
from informer.networks.models.zero import ZeroConfig
from informer.networks.ops.zero_inputs import LEVELS
from informer.pretrained.weights import NEWEST, load

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


@pytest.fixture
def run(folder: Path) -> list[str]:
    """Settings of a run on two daily waves of 500 hours."""
    t, rng = np.arange(500), np.random.default_rng(0)
    wave = 20 + 5 * np.sin(2 * np.pi * t / 24) + rng.normal(size=500)
    times = pd.date_range("2024-01-01", periods=500, freq="h")
    pd.DataFrame({"date": times, "a": wave, "b": wave[::-1]}).to_csv("f.csv", index=False)
    return ["dataset=csv", "dataset.path=f.csv", "model=zero", "seq_len=96", "pred_len=12"]


def test_a_run_without_steps_forecasts_like_the_network(run: list[str]) -> None:
    """Red if training changes the weights, or the seasons are not found."""
    done("train", *run, "run_dir=run")
    saved = checkpoint.load(Path("run"))
    assert saved.config["model"]["seasons"] == [24, 168]
    for name, tensor in load().state_dict().items():
        assert torch.equal(saved.weights[f"network.zero.{name}"], tensor), name
    assert call("predict", "checkpoint=run", "input=f.csv", "output=out").status == 0
    written, rows = pd.read_csv("out/f.forecast.csv"), pd.read_csv("f.csv")
    for column in ("a", "b"):
        x = torch.tensor(rows[column].to_numpy()[-96:])[None]
        expected = alone(x, torch.ones(1, 96, dtype=torch.bool), (24, 168), 12)[0, :, LEVELS.index(0.5)]
        np.testing.assert_allclose(written[column], expected, rtol=1e-4)


@pytest.mark.slow
def test_training_goes_on_from_the_weights(run: list[str]) -> None:
    """Red if it begins with random ones, whose error is many times larger, or a step loses them."""
    done("train", *run, "trainer.max_steps=3", "trainer.batch_size=16", "run_dir=run")
    errors = json.loads(Path("run/metrics.json").read_text())["scores"]
    assert errors["zero"]["scaled"]["overall"]["mae"] < 1.1 * errors["seasonal naive"]["scaled"]["overall"]["mae"]
    line = refusal("train", *run, "model.d_ff=64", "run_dir=other")
    assert f"model.weights={NEWEST}: expected the sizes of these weights" in line
    assert call("train", *run, "model.weights=zero-9", "run_dir=third").status == 2
