"""The average of a model and other members: what it forecasts, how it is chosen, that it is made once."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from entry_points import SMALL, call, done, killed, refusal
from test_configs import composed

from informer import checkpoint
from informer.base.errors import InputError
from informer.build import build_data
from informer.checkpoint.format import COMBINED
from informer.checkpoint.restore import restore_model
from informer.data.dataset import Data
from informer.data.windows import Batch
from informer.inference.model import TrainedModel
from informer.linear.average import CombinationWeights, average_weights
from informer.linear.maps import apply, held_out_blocks
from informer.linear.theta import theta
from informer.networks.forecast_model import ForecastModel, model_forecast, model_output
from informer.networks.ops.zero_inputs import LEVELS
from informer.pretrained.weights import NEWEST, load
from informer.read.series import column_values
from informer.report.run import run_content
from informer.training.combination import choose, repeated_rows
from informer.training.folder import RunFolder
from informer.training.run import save_refit
from informer.training.start import initial_network

NETWORK = [
    "model=informer_plus", "attn@decoder_attn=full", "model.skip=maps", "model.d_model=8", "model.n_heads=2",
    "model.d_ff=16",
]  # fmt: skip
LINEAR = ["model=linear"]
MAPS = "model.maps=[{lookback:24,last:false,taper:0.0,shared:10.0,groups:{}}]"
"""Settings that need no choice."""
SIZES = ["dataset=sample", "seq_len=30", "label_len=12", "pred_len=26", *SMALL[1:]]


def trained(*overrides: str) -> tuple[ForecastModel, Data]:
    """A model whose network contributes, as after training."""
    settings = composed(*[one for one in SIZES if "_len" not in one], *overrides, *SIZES[1:4], MAPS)
    data = build_data(settings, torch.device("cpu"))
    torch.manual_seed(3)
    model = initial_network(settings, data, None)
    if model.network is not None:
        for parameter in model.network.head.parameters():
            torch.nn.init.normal_(parameter, std=0.1)
    return model.eval(), data


@pytest.mark.parametrize("overrides", [NETWORK, LINEAR], ids=["network", "linear"])
@torch.inference_mode()
def test_one_model_forecasts_the_weighted_average(overrides: list[str]) -> None:
    """Against the three forecasts, each by itself; the naive one by a loop. Red if a part is scaled twice or left."""
    model, data = trained(*overrides)
    batch = data.val.batch(torch.arange(5))
    maps = model.maps
    whole, linear = model_output(model, batch), model_output(ForecastModel.of_maps(maps), batch)
    naive = torch.stack([batch.enc_x[:, 30 - 24 + step % 24, list(maps.positions)] for step in range(26)], dim=1)
    network = 0.5 if model.network is not None else 0.0
    shares = CombinationWeights(network, 0.75 - network, 0.25)
    apply(model, shares, repeated_rows(data))
    expected = network * whole + (0.75 - network) * linear + 0.25 * naive
    torch.testing.assert_close(model_output(model, batch), expected, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize(("period", "expected"), [(24, 24), (168, 168)])
def test_the_naive_forecast_repeats_the_season_of_the_data(period: int, expected: int, tmp_path: Path) -> None:
    """Rows drawn once and repeated; red if an hourly file always repeats a day."""
    rng = np.random.default_rng(period)
    y = np.resize(rng.normal(size=period), 2000) + 0.1 * rng.normal(size=2000)
    frame = pd.DataFrame({"date": pd.date_range("2024-01-01", periods=2000, freq="h"), "y": y})
    frame.to_csv(tmp_path / "file.csv", index=False)
    given = ["dataset=csv", f"dataset.path={tmp_path / 'file.csv'}", "model=linear", "seq_len=200", "pred_len=26"]
    repeated = repeated_rows(build_data(composed(*given), torch.device("cpu")))
    assert repeated is not None
    assert repeated.tolist() == [200 - expected + step % expected for step in range(26)]


def products_of(*errors: np.ndarray) -> np.ndarray:
    return np.array([[(one * other).mean() for other in errors] for one in errors])


def test_weights_are_the_inverse_squared_errors_of_the_best_subset() -> None:
    """Against a loop over all subsets; red if correlations are ignored, or an average is preferred to what is best."""
    random = np.random.default_rng(0)
    for _ in range(50):
        shared = random.normal(size=400)
        errors = [random.uniform(0.1, 2) * (shared + random.uniform(0, 2) * random.normal(size=400)) for _ in range(4)]
        products = products_of(*errors)
        weights, least = average_weights(products, 1e9), np.inf
        for chosen in (x for n in range(1, 5) for x in combinations(range(4), n)):
            own = np.array([1 / products[i, i] if i in chosen else 0.0 for i in range(4)])
            own /= own.sum()
            if ((own == 0) | (own >= 0.05)).all():
                least = min(least, np.mean(sum(w * error for w, error in zip(own, errors, strict=True)) ** 2))
        average = sum(w * error for w, error in zip(weights, errors, strict=True))
        assert np.mean(average**2) == pytest.approx(least)
        assert least <= min(np.diag(products))


def test_a_forecast_that_adds_nothing_gets_no_weight() -> None:
    """The network is the linear forecast and some noise: by itself a little worse, in an average never worth it."""
    random = np.random.default_rng(1)
    linear = 0.3 * random.normal(size=400)
    network, naive = linear + 0.05 * random.normal(size=400), 3 * random.normal(size=400)
    assert average_weights(products_of(network, linear, naive), 1e9).tolist() == [0.0, 1.0, 0.0]


def test_few_horizons_move_the_weights_little() -> None:
    products = np.diag([1.0, 4.0])
    few, many = (average_weights(products, horizons)[0] for horizons in (1.0, 1e9))
    assert many == pytest.approx(0.8)
    assert few == pytest.approx(1 / (1 + 4 ** (-1 / 3)))


def test_members_that_gain_little_are_left_out() -> None:
    """They cost a millisecond per forecast."""
    assert average_weights(np.array([[1.0, 0.995], [0.995, 1.0]]), 1e9, n_own=1).tolist() == [1.0, 0.0]
    assert average_weights(np.array([[1.0, 0.95], [0.95, 1.0]]), 1e9, n_own=1).tolist() == [0.5, 0.5]


def test_a_short_validation_part_does_not_decide_about_the_seasonal_naive(tmp_path: Path) -> None:
    """A daily pattern that changes from block to block, but not within the last rows: there the seasonal naive is best,
    in all other blocks it is not. Fails if the few windows of validation decide."""
    rng, n = np.random.default_rng(0), 800
    y = rng.normal(size=n).cumsum() * 0.3 + rng.normal(size=n)
    y[500:] = np.resize(rng.normal(size=24), 300)
    frame = pd.DataFrame({"date": pd.date_range("2024-01-01", periods=n, freq="h"), "y": y})
    frame.to_csv(tmp_path / "file.csv", index=False)
    given = ["dataset=csv", f"dataset.path={tmp_path / 'file.csv'}", "model=linear", "seq_len=48", "pred_len=24"]
    settings = composed(*given, "trainer.calibration=0", "trainer.combine=[naive]")
    data = build_data(settings, torch.device("cpu"))
    model = initial_network(settings, data, None).eval()
    shares, losses, _ = choose(model, settings, data, has_network=False)
    assert losses["seasonal naive"] > losses["linear forecast"]
    assert shares.naive < 0.5


@pytest.mark.slow
@torch.inference_mode()
def test_all_members_are_averaged_in_forecasts_of_a_frame(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each in data units by itself; red if a member sees fewer rows than the file has, or is scaled twice."""
    shares = np.array([0.3, 0.3, 0.4])
    monkeypatch.setattr("informer.training.combination.average_weights", lambda *given, **more: shares)
    keys = [*LINEAR, *SMALL[1:], "trainer.combine=[zero,theta]"]
    done("train", "dataset=sample", *keys, "run_dir=run")
    model = TrainedModel.load(Path("run"), device="cpu")
    series = build_data(composed("dataset=sample", *keys), torch.device("cpu")).panel
    forecast = model.forecast(series)[0].values
    pretrained, theta_member = (member for _, member in model.model.members)
    model.model.members = ()
    linear = model.forecast(series)[0].values
    history = torch.from_numpy(column_values(series[0], model.columns.targets))[None]
    horizon = model.sizes.pred_len
    seasons = [torch.full((history.shape[2],), season) for season in pretrained.seasons]
    rows = history[0].T
    everything = torch.ones_like(rows, dtype=torch.bool)
    zero = load(NEWEST).predict(rows, everything, *seasons, horizon)[:, :, LEVELS.index(0.5)].T.numpy()
    other = theta(rows, everything, theta_member.season, horizon).T.numpy()
    np.testing.assert_allclose(forecast, 0.3 * linear + 0.3 * zero + 0.4 * other, rtol=1e-4, atol=1e-4)
    table = run_content(Path("run")).tables[-1]
    assert [row[2] for row in table.rows] == ["30%", "30%", "40%", "100%"]


@pytest.mark.parametrize(("rows", "expected"), [(90, 0.0), (300, 1.0)])
@torch.inference_mode()
def test_less_than_three_horizons_give_no_weight_to_a_network(
    rows: int, expected: float, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its forecasts are exact on the calibration windows; red if few of them, which share their rows, are trusted."""
    settings = composed(*SIZES[:1], *NETWORK, *SIZES[1:4])
    model, data = trained(*NETWORK, f"dataset.split.val={rows}")
    assert data.calibration is not None
    assert (len(data.calibration) >= 3 * 26) == (expected == 1.0)

    def forecast(one: ForecastModel, batch: Batch) -> torch.Tensor:
        return batch.target if one is model else model_forecast(one, batch)

    monkeypatch.setattr("informer.training.combination.model_forecast", forecast)
    assert choose(model, settings, data, has_network=True)[0].network == expected


@pytest.mark.parametrize(("few", "blocks", "fitted"), [(0, 0, False), (0, 5, True), (7, 0, True)])
@torch.inference_mode()
def test_blocks_are_fitted_for_few_maps_or_where_intervals_need_them(
    few: int, blocks: int, fitted: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red if thousands of maps are fitted five times although the time budget left no blocks for the intervals."""
    calls = []
    monkeypatch.setattr("informer.training.combination.FEW_MAPS", few)
    monkeypatch.setattr(
        "informer.training.combination.held_out_blocks",
        lambda *given, **more: calls.append(1) or held_out_blocks(*given, **more),
    )
    model, data = trained(*LINEAR)
    settings = composed(*SIZES[:1], *LINEAR, *SIZES[1:4], MAPS, f"trainer.calibration_blocks={blocks}")
    choose(model, settings, data, has_network=False)
    assert bool(calls) == fitted


@torch.inference_mode()
def test_losses_are_those_of_the_forecasts(folder: Path) -> None:
    """Red if the windows that stop training are read where there are others, or a window counts twice."""
    model, data = trained(*NETWORK, "dataset.split.val=300")
    shares, losses, _ = choose(model, composed(*SIZES[:1], *NETWORK, *SIZES[1:4]), data, has_network=True)
    assert data.calibration is not None
    batch = data.calibration.batch(torch.arange(len(data.calibration)))
    errors = {"network": model_output(model, batch) - batch.target}
    errors["linear forecast"] = model_output(ForecastModel.of_maps(model.maps), batch) - batch.target
    errors["average"] = sum(weight * errors[name] for name, weight in shares.by_name.items() if weight)
    for name, error in errors.items():
        assert losses[name] == pytest.approx(error.square().mean().item(), rel=1e-5)


@torch.inference_mode()
def test_quantiles_stay_as_they_are(folder: Path) -> None:
    """Their head is not linear in its weights, and there is no other member, also of a network that was not trained."""
    overrides = [*NETWORK, "loss=quantile"]
    model, data = trained(*overrides)
    settings = composed(*SIZES[:1], *overrides, *SIZES[1:4])
    for has_network in (True, False):
        assert choose(model, settings, data, has_network=has_network)[0] == CombinationWeights(1.0, 0.0, 0.0)


def test_weights_that_are_none_are_refused() -> None:
    plain = CombinationWeights().to_plain()
    assert CombinationWeights.from_plain(plain) == CombinationWeights()
    for changes in (
        {"linear": 0.6},
        {"network": 1.5, "linear": -0.5},
        {"pretrained": 0.7, "theta": 0.7},
        {"seasons": [24, 0]},
        {"seasons": [24]},
        {"network": "1"},
        {"other": 1.0},
    ):
        with pytest.raises(InputError, match="combination: expected"):
            CombinationWeights.from_plain(plain | changes)
    with pytest.raises(InputError, match="combination: expected"):
        CombinationWeights.from_plain([])


RUN = ["dataset=sample", *LINEAR, *SMALL[1:], "trainer.combine=[naive]", "trainer.refit=true"]


@pytest.mark.slow
def test_a_run_that_is_killed_after_its_average_was_saved_takes_it_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red if resuming mixes the average with the seasonal naive once more."""
    half = CombinationWeights(0.0, 0.5, 0.5)
    monkeypatch.setattr("informer.training.combination.average_weights", lambda *given, **more: np.array([0.5, 0.5]))
    done("train", *RUN, "run_dir=whole")
    with killed("informer.training.run.score"):
        call("train", *RUN, "run_dir=cut")
    done("train", "resume=cut")
    whole, cut = (checkpoint.load(Path(run)) for run in ("whole", "cut"))
    assert whole.data[COMBINED] == cut.data[COMBINED] == half.to_plain()
    for run in ("best.pt", "refit.pt"):
        one, other = (restore_model(checkpoint.load(Path(place) / run)).state_dict() for place in ("whole", "cut"))
        assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.slow
def test_a_fit_on_all_rows_leaves_what_the_network_adds(folder: Path) -> None:
    """Red if the head, which has its weight in best.pt, is multiplied by it once more."""
    keys = [*NETWORK, *SMALL[1:], "trainer.max_steps=0", "trainer.combine=[naive]", "trainer.refit=true"]
    done("train", "dataset=sample", *keys, "run_dir=run")
    saved = checkpoint.load(Path("run"))
    model = restore_model(saved)
    for parameter in model.network.head.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    Path("trained").mkdir()
    facts = saved.data | {COMBINED: CombinationWeights(0.5, 0.5, 0.0).to_plain()}
    checkpoint.save(Path("trained/best.pt"), replace(saved, weights=model.state_dict(), data=facts))
    settings = composed("dataset=sample", *keys)
    save_refit(settings, build_data(settings, torch.device("cpu")), RunFolder(Path("trained")))
    refit = restore_model(checkpoint.load(Path("trained/refit.pt")))
    for own, again in zip(model.network.head.parameters(), refit.network.head.parameters(), strict=True):
        torch.testing.assert_close(again, own, rtol=0, atol=0)
    assert not torch.equal(refit.maps.own, model.maps.own), "which are fitted on more windows"


def test_needs_linear_maps(folder: Path) -> None:
    error = refusal("train", "dataset=sample", "model=tiny", "trainer.combine=[naive]")
    assert "trainer.combine: expected model=linear or model.skip=maps with it, found informer" in error
