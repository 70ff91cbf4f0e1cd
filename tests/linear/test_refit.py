"""After scoring: intervals from blocks of training and validation, and a fit on all rows; both against scikit-learn."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from entry_points import SMALL, done, refusal
from sklearn.linear_model import Ridge
from test_configs import composed

from informer import Forecaster, checkpoint
from informer.base.runtime import resource
from informer.build import build_data
from informer.checkpoint.paths import REFIT
from informer.checkpoint.restore import restore_model
from informer.data.dataset import Data
from informer.linear.maps import held_out_blocks
from informer.networks.forecast_model import ForecastModel, model_forecast
from informer.networks.models.linear import LinearModelConfig
from informer.scoring.intervals import joined_errors, residuals
from informer.training.start import calibration_errors, initial_network

SEQ, PRED, STRENGTH = 24, 6, 5.0
MAPS = "model.maps=[{lookback:24,last:false,taper:0.0,shared:5.0,groups:{}}]"
RUN = ["dataset=sample", "model=linear", *SMALL[1:], "features=S", "target=price", MAPS, "model.embed=none"]


def windows(starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scaled histories and futures less the histories' means."""
    values = pd.read_csv(resource("data/sample.csv"))["price"].to_numpy()[:320]
    values = (values - values[:200].mean()) / values[:200].std()
    x = np.stack([values[start : start + SEQ] for start in starts])
    y = np.stack([values[start + SEQ : start + SEQ + PRED] for start in starts])
    mean = x.mean(1, keepdims=True)
    return x - mean, y - mean


def fitted(starts: np.ndarray) -> Ridge:
    x, y = windows(starts)
    return Ridge(STRENGTH * (x**2).mean(), fit_intercept=False).fit(x, y)


@pytest.fixture
def data() -> Data:
    return build_data(composed(*RUN), torch.device("cpu"))


def test_errors_of_a_block_are_those_of_ridge_fitted_on_the_others(data: Data) -> None:
    """Red if a block is forecast by maps that saw it or a row of its futures, or if rows of the test part are used."""
    settings = composed(*RUN)
    model = initial_network(settings, data, None)
    assert isinstance(settings.model, LinearModelConfig)
    before = {name: part.clone() for name, part in model.state_dict().items()}
    blocks = held_out_blocks(model.maps, settings.model, data, n_blocks=5)
    errors = joined_errors(
        [residuals(ForecastModel.of_maps(one), held, batch_size=32, lag=1, targets=[0]) for one, held in blocks]
    ).errors
    starts = np.arange(250 - SEQ - PRED + 1)
    bounds = np.linspace(0, len(starts), 6).round().astype(int)
    expected = []
    for first, stop in pairwise(bounds):
        away = starts[(starts <= first - PRED) | (starts >= stop - 1 + PRED)]
        x, y = windows(starts[first:stop])
        expected.append(np.abs(fitted(away).predict(x) - y))
    np.testing.assert_allclose(errors[:, :, 0].numpy(), np.concatenate(expected), atol=1e-4)
    assert all(torch.equal(part, before[name]) for name, part in model.state_dict().items())


def test_a_run_saves_a_fit_on_all_rows_for_forecasts(folder: Path) -> None:
    """Red if the scored model is the one that saw the test part, or forecasts are made by the one that did not."""
    outcome = done("train", *RUN, "trainer.refit=true", "run_dir=run")
    assert f"{REFIT}, which predict uses" in " ".join(outcome.out.split())
    done("train", *RUN, "run_dir=without")
    scored, other = (checkpoint.load(Path(run)) for run in ("run", "without"))
    assert all(torch.equal(part, other.weights[name]) for name, part in scored.weights.items())
    assert not Path("without", REFIT).exists()
    saved = checkpoint.load(Path("run", REFIT))
    starts = np.arange(320 - SEQ - PRED + 1)
    assert saved.data["refit"] == len(starts)
    data = build_data(composed(*RUN), torch.device("cpu"))
    batch = next(data.train.at(torch.from_numpy(starts)).batches(len(starts)))
    mean = batch.enc_x.mean(dim=1).numpy()
    forecast = model_forecast(restore_model(saved), batch)[:, :, 0].detach().numpy() - mean
    np.testing.assert_allclose(forecast, fitted(starts).predict(windows(starts)[0]), atol=1e-4)
    frame = pd.read_csv(resource("data/sample.csv"), parse_dates=["date"])
    newest = Forecaster.load("run", device="cpu").predict(frame)
    older = Forecaster.load("run/best.pt", device="cpu").predict(frame)
    assert not np.allclose(newest["price"], older["price"], rtol=1e-6)
    frame.to_csv("mine.csv", index=False)
    done("predict", "checkpoint=run", "input=mine.csv", "plots=false")
    np.testing.assert_allclose(pd.read_csv("forecasts/mine.forecast.csv")["price"], newest["price"])
    done("eval", "checkpoint=run", "plots=none")
    assert Path("run/eval/metrics.csv").read_bytes() == Path("run/metrics.csv").read_bytes()
    assert "fitted on the test part too" in refusal("eval", f"checkpoint=run/{REFIT}")


def test_errors_of_a_network_are_those_of_its_maps_on_blocks_times_what_it_adds_to_them() -> None:
    """The ratio of the sizes of errors by numpy; red if the network's own few rows decide for all, or do not count."""
    settings = composed(*RUN, "model.embed=timeF")
    network = composed(*RUN[:1], "model=small", *RUN[2:-1], "model.skip=maps", "attn@decoder_attn=full")
    data = build_data(network, torch.device("cpu"))
    assert data.calibration is not None
    maps, model = (initial_network(one, data, None).eval() for one in (settings, network))
    with torch.no_grad():
        model.network.head.bias += 0.3
    errors = calibration_errors(model, network, data, finish=lambda fit: None)
    errors_of_maps = calibration_errors(maps, settings, data, finish=lambda fit: None)
    batch = data.calibration.batch(torch.arange(len(data.calibration)))
    sizes = [float((model_forecast(one, batch) - batch.target).detach().abs().mean()) for one in (model, maps)]
    assert errors is not None
    assert errors_of_maps is not None
    calibration, of_maps = errors.calibration(), errors_of_maps.calibration()
    assert calibration.windows == of_maps.windows > len(data.calibration)
    known = of_maps.half_widths[79].isfinite()
    ratios = calibration.half_widths[79][known] / of_maps.half_widths[79][known]
    np.testing.assert_allclose(ratios, sizes[0] / sizes[1], rtol=1e-3)


@pytest.mark.parametrize(
    ("maps", "says"),
    [
        ("[{lookback:24}]", "model.maps: expected "),
        ("[{lookback:24,last:false,taper:0.0,shared:-1.0,groups:{}}]", "model.maps: expected "),
        ("[{lookback:24,last:false,taper:0.0,shared:1.0,groups:{moon:1.0}}]", "model.maps: expected "),
        ("[{lookback:25,last:false,taper:0.0,shared:1.0,groups:{}}]", "model.maps: expected a lookback of at most 24"),
    ],
)
def test_strengths_that_cannot_be_are_said_in_one_line(maps: str, says: str, folder: Path) -> None:
    assert says in refusal("train", *RUN, f"model.maps={maps}", "run_dir=run")
