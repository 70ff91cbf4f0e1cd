"""Further training of the pretrained network: what it learns, when it is used, and what is saved of it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from entry_points import SMALL, done
from test_configs import composed

from informer import checkpoint
from informer.base.errors import InputError
from informer.build import build_data
from informer.checkpoint.format import COMBINED
from informer.checkpoint.restore import restore_model
from informer.data.dataset import Data
from informer.linear.average import CombinationWeights
from informer.networks.forecast_model import ForecastModel, member_forecasts, read_by_members
from informer.networks.ops.zero_inputs import HISTORY
from informer.pretrained.member import PretrainedMember
from informer.pretrained.weights import NEWEST, load
from informer.training.combination import tuned
from informer.training.start import fits_on_blocks, initial_network, new_network

SEASONS = (24, 168)


def alternating(rows: int) -> pd.DataFrame:
    """Days of two shapes: after a quiet hour at midnight a high one, after a loud hour a low one, drawn day by day. A
    network that has not seen it expects yesterday's shape."""
    rng = np.random.default_rng(0)
    hours, high = np.arange(24), rng.random(-(-rows // 24)) < 0.5
    shape = np.sin(2 * np.pi * hours / 24)
    days = [np.where(hours < 4, -2.0 if up else 2.0, shape * (3 if up else -3)) for up in high]
    y = np.concatenate(days)[:rows] + 0.1 * rng.normal(size=rows)
    return pd.DataFrame({"date": pd.date_range("2024-01-01", periods=rows, freq="h"), "y": y})


def model_of(folder: Path, rows: int) -> tuple[ForecastModel, Data]:
    """Linear maps, not fitted, for a file of so many rows."""
    alternating(rows).to_csv(folder / "days.csv", index=False)
    settings = composed(
        "dataset=csv", f"dataset.path={folder / 'days.csv'}", "model=linear", "seq_len=48", "pred_len=12"
    )
    data = build_data(settings, torch.device("cpu"))
    return new_network(settings, data).eval(), data


def test_it_learns_what_the_rows_repeat(tmp_path: Path) -> None:
    """On rows that neither training nor choice has seen; red if loss, windows or columns are not those of the data, and
    if the network that comes with the package is changed."""
    model, data = model_of(tmp_path, 1200)
    member = PretrainedMember(NEWEST, SEASONS)
    weights = tuned(model, member, data, [data.val], steps=40, seed=0)
    assert weights is not None
    batch = data.test.batch(torch.arange(0, len(data.test), 8))
    further = PretrainedMember(NEWEST, SEASONS, weights=weights)
    errors = [float((each - batch.target).abs().mean()) for each in member_forecasts(model, [member, further], batch)]
    assert errors[1] < 0.92 * errors[0]
    assert all(torch.equal(x, load().state_dict()[name]) for name, x in member.network.state_dict().items())


def test_weights_that_forecast_no_better_are_not_used(tmp_path: Path) -> None:
    model, data = model_of(tmp_path, 600)
    assert tuned(model, PretrainedMember(NEWEST, SEASONS), data, [data.val], steps=0, seed=0) is None


def shifted() -> dict[str, torch.Tensor]:
    """Weights of another network of the same shapes."""
    return {name: x + 0.01 for name, x in load().state_dict().items()}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> checkpoint.Checkpoint:
    """A run whose average is all pretrained network, trained further."""
    run = tmp_path_factory.mktemp("tuned") / "run"
    done("train", "dataset=sample", *SMALL, "model=linear", f"run_dir={run}")
    shares = CombinationWeights(pretrained=1.0, version=NEWEST, seasons=SEASONS)
    content = checkpoint.load(run)
    return replace(content, data=content.data | {COMBINED: shares.to_plain()}, member=shifted())


@pytest.mark.parametrize("form", ["pt", "safetensors"])
def test_a_checkpoint_keeps_them(saved: checkpoint.Checkpoint, form: str, tmp_path: Path) -> None:
    """Red if the forecasts of a file are those of the weights that came."""
    path = tmp_path / f"best.{form}"
    if form == "pt":
        checkpoint.save(path, saved)
    else:
        path.write_bytes(checkpoint.format.to_safetensors(saved))
    model = restore_model(checkpoint.load(path))
    (weight, member), history = model.members[0], torch.randn(2, HISTORY, 1, dtype=torch.float64)
    assert weight == 1.0
    expected = PretrainedMember(NEWEST, SEASONS, weights=shifted())(history, 6)
    assert torch.equal(member(history, 6), expected)
    assert not torch.equal(PretrainedMember(NEWEST, SEASONS)(history, 6), expected)


@pytest.mark.parametrize("how", ["missing", "not finite", "half", "another shape"])
def test_damaged_ones_are_refused(saved: checkpoint.Checkpoint, how: str) -> None:
    weights = shifted()
    name = next(iter(weights))
    if how == "missing":
        del weights[name]
    else:
        changed = {
            "not finite": weights[name] * torch.inf,
            "half": weights[name].half(),
            "another shape": torch.ones(3),
        }
        weights[name] = changed[how]
    with pytest.raises(InputError, match=f"checkpoint: member: expected finite weights of the network {NEWEST}"):
        restore_model(replace(saved, member=weights))


def test_intervals_of_blocks_are_not_from_rows_it_has_learnt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if blocks of training rows are forecast by the network that was trained on them."""
    model, data = model_of(tmp_path, 300)
    model.members = [(1.0, PretrainedMember(NEWEST, SEASONS, weights=shifted()))]
    assert model.maps is not None
    monkeypatch.setattr("informer.training.start.held_out_blocks", lambda maps, *given, **more: [(maps, data.val)])
    settings = composed("model=linear", "seq_len=48", "pred_len=12")
    ((fitted, _),) = fits_on_blocks(model, model.maps, settings, data, finish=lambda maps: None)
    network = fitted.members[0][1].network
    assert all(torch.equal(x, load().state_dict()[name]) for name, x in network.state_dict().items())


@torch.no_grad()
def test_effects_of_columns_known_ahead_are_not_learnt_twice(tmp_path: Path) -> None:
    """What the network is trained to forecast, plus the effects ahead, is the target in data units."""
    frame = alternating(600).assign(price=np.random.default_rng(1).normal(size=600))
    frame["y"] += 5 * frame["price"]
    frame.to_csv(tmp_path / "days.csv", index=False)
    settings = composed(
        "dataset=csv", f"dataset.path={tmp_path / 'days.csv'}", "model=linear", "seq_len=48", "pred_len=12",
        "target=y", "future_covariates=[price]",
    )  # fmt: skip
    data = build_data(settings, torch.device("cpu"))
    model = initial_network(settings, data, None).eval()
    batch = data.train.batch(torch.arange(300, 310))
    history, ahead = read_by_members(model, batch, 48)
    if isinstance(ahead, float):
        pytest.fail("the maps have no effect of the price")
    rest = (batch.target - ahead).double() * batch.units.scale[:, None] + batch.units.center[:, None]
    price = frame["price"].to_numpy()
    for at, (before, after) in enumerate(zip(history[:, -1, 0].numpy(), rest[:, :, 0].numpy(), strict=True), 300):
        expected = frame["y"].to_numpy()[at + 47 : at + 60] - 5 * price[at + 47 : at + 60]
        np.testing.assert_allclose([before, *after], expected, atol=0.5)
