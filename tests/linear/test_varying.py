"""Weights of linear maps that vary with the window: their formula, their fit, their choice, and every command."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from entry_points import SMALL, done, refusal
from sklearn.linear_model import Ridge
from stores import one_series

from informer import checkpoint
from informer.base.runtime import resource
from informer.checkpoint.restore import restore_model
from informer.config.data import Calendar
from informer.config.model import VARY_WITH, CalendarEmbed, WindowSizes
from informer.data.calendar import calendar_marks, mark_sizes
from informer.data.windows import Store, Windows
from informer.linear import varying
from informer.linear.average import CombinationWeights
from informer.linear.maps import add_naive
from informer.linear.settings import OriginFeatures, cycle_turns
from informer.networks.forecast_model import ForecastModel, model_output
from informer.networks.models.base import Inputs, ModelDims
from informer.networks.models.linear import LinearMaps, LinearModelConfig, VaryingMaps
from informer.read.frequency import Frequency

HOURLY = Frequency.parse("h")
FIELDS = ("hour", "weekday", "day", "dayofyear")
SEQ, PRED, SEASON = 24, 4, 6


def rows(n: int, *, is_varying: bool, seed: int = 0) -> Store:
    """Noise that remembers a share of its last value: on weekends less of it, or always the same."""
    stamps, rng = pd.date_range("2023-01-02", periods=n, freq="h"), np.random.default_rng(seed)
    share = np.where(is_varying & (stamps.day_of_week >= 4), 0.1, 0.9)
    values = np.zeros((n, 2))
    for row in range(1, n):
        values[row] = share[row] * values[row - 1] + rng.normal(size=2)
    marks = torch.from_numpy(calendar_marks(stamps, HOURLY, Calendar(CalendarEmbed.timeF)))
    return one_series(torch.from_numpy(values).float(), marks)


def windows(store: Store, starts: range) -> Windows:
    sizes = WindowSizes(seq_len=SEQ, label_len=0, pred_len=PRED)
    return Windows(store, starts=torch.tensor(starts), sizes=sizes, targets=[0, 1])


def output_of(maps: LinearMaps, batch: Inputs) -> torch.Tensor:
    return model_output(ForecastModel.of_maps(maps), batch)


def maps_with(*names: str, share: float = 0.5) -> LinearMaps:
    """Maps that forecast a share of the last value, and know the day and the week."""
    marks = mark_sizes(HOURLY, Calendar(CalendarEmbed.timeF))
    dims = ModelDims(enc_in=2, c_out=2, mark_sizes=marks, seq_len=SEQ, label_len=0, pred_len=PRED)
    maps = LinearMaps(LinearModelConfig(varying=list(names)), dims)
    features = OriginFeatures((0, 1), 0, ("day", "week"), FIELDS, CalendarEmbed.timeF)
    with torch.no_grad():
        maps.own[:, -1] = share ** torch.arange(1, PRED + 1)
        for place, cycle in enumerate(features.cycles):
            maps.turns[:, place], maps.phase[place] = cycle_turns(features, cycle)
    return maps.eval()


def by_hand(history: np.ndarray, angles: dict[str, np.ndarray], part: VaryingMaps) -> np.ndarray:
    """The formula written out; history [b l n], angles [b]."""
    mean = history.mean(axis=1)
    states = []
    for name in VARY_WITH:
        if name in angles and name in part.names:
            states += [np.cos(angles[name])[:, None] + 0 * mean, np.sin(angles[name])[:, None] + 0 * mean]
        elif name in part.names:
            states.append({
                "spread": np.log(history.std(axis=1) + 0.05),
                "season": history[:, -SEASON:].mean(axis=1) - mean,
                "last": history[:, -1] - mean,
            }[name])  # fmt: skip
    centred, length = history - mean[:, None], history.shape[1]
    inputs = [np.ones_like(mean)]
    if length <= 56:
        inputs += list(np.moveaxis(centred, 1, 0))
    else:
        for order in range(1, 33):
            cosine = np.sqrt(2 / length) * np.cos(np.pi * order * (np.arange(length) + 0.5) / length)
            inputs.append(np.einsum("bln,l->bn", centred, cosine))
        inputs += list(np.moveaxis(centred[:, -24:], 1, 0))
    forecast = 0
    for place, state in enumerate(states):
        standard = np.clip((state - part.centre[place].item()) / part.scale[place].item(), -3, 3)
        weight = part.weight[place].double().numpy()
        forecast = forecast + sum(np.multiply.outer(standard * x, w) for x, w in zip(inputs, weight, strict=True))
    return np.moveaxis(forecast, 1, 2)


@pytest.mark.parametrize("seq_len", [SEQ, 60])
@pytest.mark.parametrize("names", [("season",), VARY_WITH, ("last", "day")])
def test_the_forecast_is_the_formula(seq_len: int, names: tuple[str, ...]) -> None:
    """Red if states and weights are paired in another order, are not limited, or other inputs are read."""
    part = VaryingMaps(names, seq_len, PRED).double()
    varying.set_season(part, SEASON)
    torch.manual_seed(0)
    part.weight.normal_()
    part.centre.normal_()
    part.scale.uniform_(0.1, 0.5)
    history, angle = torch.randn(5, seq_len, 2).double(), torch.rand(5).double() * 6
    date = torch.zeros(5, 23).double()
    angles = {"day": angle, "week": 2 * angle, "year": 3 * angle}
    for cycle, (cosine, sine) in {"day": (1, 7), "week": (13, 16), "year": (19, 21)}.items():  # of 6, 3 and 2 orders
        date[:, cosine], date[:, sine] = angles[cycle].cos(), angles[cycle].sin()
    expected = by_hand(history.numpy(), {name: values.numpy() for name, values in angles.items()}, part)
    np.testing.assert_allclose(part(history, date).numpy(), expected, rtol=1e-5, atol=1e-5)


def test_the_fit_is_ridge_regression_on_the_errors() -> None:
    """Red if the errors are not those of the other maps, or an input's penalty is not relative to its size."""
    maps, sample = maps_with("week", "last"), windows(rows(500, is_varying=True), range(400))
    part = maps.varying
    assert part is not None
    varying.fit(maps, sample, 0.2, SEASON)
    batch = sample.batch(torch.arange(len(sample)))
    date, history = maps.date(batch.enc_mark[:, -1]), batch.enc_x
    states = part.states(history, date).flatten(0, 1).double().numpy()
    states = np.clip((states - states.mean(axis=0)) / states.std(axis=0), -3, 3)
    inputs = part.inputs(history).flatten(0, 1).double().numpy()
    z = (states[:, :, None] * inputs[:, None]).reshape(len(inputs), -1)
    forecast = history[:, -1:] * 0.5 ** torch.arange(1, PRED + 1)[:, None]
    errors = (batch.target - forecast).transpose(1, 2).flatten(0, 1).double().numpy()
    size = np.sqrt(0.2 * (z**2).sum(axis=0))
    expected = Ridge(1.0, fit_intercept=False).fit(z / size, errors).coef_ / size
    np.testing.assert_allclose(part.weight.flatten(0, 1).numpy(), expected.T, rtol=1e-3, atol=1e-6)


def held_out(store: Store, share: float) -> Iterator[tuple[LinearMaps, Windows]]:
    for block in range(5):
        yield maps_with(share=share), windows(store, range(400 * block, 400 * block + 370))


def test_weights_vary_with_what_changes_them() -> None:
    """Red if noise is chosen, or a change from weekday to weekend is not; then the error is lower on other rows."""
    assert varying.choose(held_out(rows(2100, is_varying=False), 0.9), SEASON, ["day", "week"])[0] == []
    chosen, penalty = varying.choose(held_out(rows(2100, is_varying=True), 0.5), SEASON, ["day", "week"])
    assert "week" in chosen
    assert "year" not in chosen, "the maps do not know it"
    maps = maps_with(*chosen)
    varying.fit(maps, windows(rows(2100, is_varying=True), range(2000)), penalty, SEASON)
    others = windows(rows(2100, is_varying=True, seed=1), range(2000))
    batch = others.batch(torch.arange(len(others)))
    error, without = ((output_of(model, batch) - batch.target).square().mean().item() for model in (maps, maps_with()))
    assert error < 0.97 * without


def test_missing_values_do_not_spread() -> None:
    """Red if one missing value makes all weights NaN."""
    store = rows(500, is_varying=True)
    store.values[100:103, 0] = torch.nan
    maps = maps_with("week")
    sample = windows(store, range(400)).at(torch.tensor([*range(60), *range(104, 400)]))
    varying.fit(maps, sample, 1.0, SEASON)
    assert maps.varying is not None
    assert maps.varying.weight.isfinite().all()
    assert maps.varying.weight.abs().max() > 0


def test_an_average_with_the_seasonal_naive_contains_them() -> None:
    """Red if their share is forgotten, or counted twice when an average is applied again after a refit."""
    maps, sample = maps_with("last"), windows(rows(300, is_varying=True), range(200))
    varying.fit(maps, sample, 0.1, SEASON)
    batch = sample.batch(torch.arange(8))
    before, repeated = output_of(maps, batch), SEQ - SEASON + torch.arange(PRED)
    add_naive(maps, CombinationWeights(0.0, 0.75, 0.25), repeated)
    expected = 0.75 * before + 0.25 * batch.enc_x[:, repeated]
    torch.testing.assert_close(output_of(maps, batch), expected)
    maps.own.data.zero_()
    maps.own.data[:, -1] = 0.5 ** torch.arange(1, PRED + 1)  # as refitted
    add_naive(maps, CombinationWeights(0.0, 0.75, 0.25), repeated)
    torch.testing.assert_close(output_of(maps, batch), expected)


@pytest.mark.slow
def test_every_command_takes_them(folder: Path) -> None:
    """Red if a file loses the weights, or a refit, intervals or an export do not know them."""
    run = ["dataset=sample", "model=linear", *SMALL[1:], "seq_len=48", "label_len=12", "trainer.refit=true"]
    run += ["model.varying=[week,last]", "model.varying_penalty=0.3", "trainer.combine=[naive]", "run_dir=run"]
    assert "weights vary with day of week, last value (penalty 0.3)" in done("train", *run).out
    scored, refitted = (restore_model(checkpoint.load(Path(f"run/{name}.pt"))) for name in ("best", "refit"))
    for model in (scored, refitted):
        assert model.maps.varying.weight.abs().max() > 0
    assert not torch.equal(scored.maps.varying.weight, refitted.maps.varying.weight)
    for command in (
        ["eval", "checkpoint=run", "plots=none"],
        ["export", "checkpoint=run", "output=run.pt2"],
        ["update", "checkpoint=run", f"input={resource('data/sample.csv')}", "output=updated"],
    ):
        done(*command)


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["model=linear", "model.varying=[moon]"], "expected some of day, week, year, spread, season, last, each once"),
        (["model=linear", "model.varying=[day,day]"], "each once, found ['day', 'day']"),
        (["model=linear", "model.varying_penalty=0"], "model.varying_penalty: expected a number above 0, found 0"),
        (["model=informer", "model.varying=[day]"], "expected none without linear maps, found ['day']"),
    ],
)
def test_what_they_cannot_vary_with(overrides: list[str], says: str) -> None:
    assert says in refusal("train", "dataset=sample", *overrides)
