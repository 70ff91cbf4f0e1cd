"""One trial: the linear start against scikit-learn on windows cut by hand, a network against the run that it
represents."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from entry_points import SMALL, done
from sklearn.linear_model import Ridge
from test_configs import composed

from informer import checkpoint
from informer.base.runtime import resource
from informer.base.start import StopRequest
from informer.build import build_data, read_dataset, resolve_decoder
from informer.config.training import TrainConfig
from informer.networks.models.linear import LinearModelConfig
from informer.search.search import bounded, varied
from informer.search.space import cheapest, least_sizes, with_values
from informer.search.trials import OutOfTime, Start, TrialRunner
from informer.training.start import initial_network

TINY = ["model.d_model=8", "model.n_heads=2", "model.d_ff=8", *SMALL[3:-1], "trainer.calibration=0"]
TRAIN, VAL = 200, 50


def trial_runner(*overrides: str, clock: Callable[[], float] = lambda: 0.0) -> TrialRunner:
    settings = composed("dataset=sample", "model=auto", "scaler.transform=none", *TINY, *overrides)
    settings = replace(settings, decoder_attn=resolve_decoder(settings.attn, {})[0])
    source = read_dataset(settings, least_sizes(settings))
    return TrialRunner(settings=settings, source=source, device=torch.device("cpu"), stop=StopRequest(), clock=clock)


MAPS = {"lookback": 24, "last": False, "taper": 0.0, "shared": 0.5, "naive": 0.0, "groups": {}}


def begun(*overrides: str, clock: Callable[[], float] = lambda: 0.0, **maps: object) -> TrialRunner:
    """With linear maps that were chosen already."""
    runner = trial_runner(*overrides, clock=clock)
    runner.begin_with(Start(24, [{**MAPS, **maps}], ""))
    return runner


def by_hand(seq_len: int, columns: list[int], strength: float) -> float:
    """Validation MSE of ridge regression on windows less their mean; its penalty is in units of their mean square."""
    values = pd.read_csv(resource("data/sample.csv")).drop(columns="date").to_numpy()
    values = (values - values[:TRAIN].mean(0)) / values[:TRAIN].std(0)
    values = values[:, columns]

    def windows(origins: range) -> tuple[np.ndarray, np.ndarray]:
        x = np.concatenate([values[origin - seq_len : origin].T for origin in origins])
        y = np.concatenate([values[origin : origin + 6].T for origin in origins])
        mean = x.mean(1, keepdims=True)
        return x - mean, y - mean

    x, y = windows(range(seq_len, TRAIN - 6 + 1))
    new_x, new_y = windows(range(TRAIN, TRAIN + VAL - 6 + 1))
    model = Ridge(strength * (x**2).mean(), fit_intercept=False).fit(x, y)
    return float(np.mean((model.predict(new_x) - new_y) ** 2))


@pytest.mark.parametrize(("overrides", "columns"), [([], [0, 1, 2, 3]), (["features=MS", "target=price"], [2])])
def test_the_start_is_scikit_learns_ridge_where_columns_share_a_map(overrides: list[str], columns: list[int]) -> None:
    """Red if histories are judged on different windows, on rows of the test part, or if a network adds to its start."""
    for seq_len, strength in ((24, 50.0), (60, 3.0)):
        runner = begun(*overrides, lookback=seq_len, shared=strength)
        loss = runner.trial(cheapest(runner.settings, seq_len), steps=0, seconds=math.inf)
        assert loss == pytest.approx(by_hand(seq_len, columns, strength), rel=1e-4)


def test_the_history_of_the_linear_forecast_is_one_of_those_offered() -> None:
    """A clock that is never late, and one that always is: then the first choice is used, and the note says so."""
    runner = trial_runner()
    start = runner.start([12, 24, 48], seconds=1.0)
    lookbacks = [maps["lookback"] for maps in start.maps]
    assert set(lookbacks) <= {12, 24, 48}
    assert start.seq_len == max(lookbacks)
    late = trial_runner(clock=lambda: 0.0).start([12, 24, 48], seconds=0.0)
    assert "stopped early" in late.note
    assert "stopped early" not in start.note


@pytest.mark.parametrize(
    ("overrides", "groups", "calendar"),
    [
        ([], {"day": 1.0}, ["hour", "weekday"]),
        ([], {"week": 1.0, "year": 10.0}, None),
        (["dataset.calendar=[hour,month]"], {}, ["hour", "month"]),
        (["model.embed=fixed"], {}, ["weekday", "hour"]),
    ],
)
def test_networks_read_dates_only_if_the_linear_forecast_does(
    overrides: list[str], groups: dict[str, float], calendar: list[str] | None
) -> None:
    """Red if a network could learn single dates, or fields that the user chose are changed."""
    runner = begun(*overrides, groups=groups)
    assert runner.settings.dataset.calendar == calendar
    network = with_values(runner.settings, {**cheapest(runner.settings, 24), "model.embed": "timeF"})
    assert network.dataset.calendar == calendar


def test_a_trial_is_the_run_that_it_stands_for(folder: Path) -> None:
    """Its loss is that of the run with the same settings, to the last bit: after 1.5 epochs, dropout and all."""
    runner = begun("optim.lr=3e-3", "seq_len=24", "label_len=12", "seed=3", shared=1e6)
    # with which nine steps are better than none: a run keeps the best loss
    values = {**cheapest(runner.settings, 24), "model.embed": "timeF", "model.dropout": 0.05}
    torch.manual_seed(7)  # what was drawn before must not matter
    loss = runner.trial(values, steps=9, seconds=math.inf)
    arguments = ["dataset=sample", "model=informer_plus", *TINY, "optim.schedule=cosine", "optim.lr=3e-3", "seq_len=24"]
    arguments += ["model.skip=maps", "model.maps=[{lookback:24,last:false,taper:0.0,shared:1e6,groups:{}}]"]
    arguments += ["dataset.calendar=[hour,weekday]"]
    arguments += ["label_len=12", f"model.patch_len={values['model.patch_len']}", "trainer.max_steps=9", "seed=3"]
    done("train", *arguments, "trainer.max_epochs=2", "run_dir=run")
    last = checkpoint.load(Path("run/last.pt"))
    assert last.step == 9
    assert last.val_loss == loss


def test_a_trial_ends_when_its_time_is_up() -> None:
    """A clock that advances one second each time it is read; the trial gives up between two steps."""
    seconds = iter(range(10_000))
    runner = begun("seq_len=24", "label_len=12", clock=lambda: float(next(seconds)))
    with pytest.raises(OutOfTime):
        runner.trial(cheapest(runner.settings, 24), steps=1000, seconds=5.0)
    assert next(seconds) < 20


def test_a_network_that_diverges_has_no_loss() -> None:
    runner = begun("seq_len=24", "label_len=12", "optim.lr=1e30")
    assert runner.trial(cheapest(runner.settings, 24), steps=8, seconds=math.inf) == math.inf


def test_the_test_part_is_not_looked_at(folder: Path) -> None:
    """The same with other values in its rows."""
    frame = pd.read_csv(resource("data/sample.csv")).iloc[:320]
    losses = []
    for name, shift in (("a", 0.0), ("b", 1e3)):
        changed = frame.copy()
        changed.loc[250:, "price"] += shift
        changed.to_csv(f"{name}.csv", index=False)
        runner = trial_runner("dataset=csv", f"dataset.path={name}.csv", "trainer.batch_size=64")
        start = runner.start([12, 24], seconds=1.0)
        runner.begin_with(start)
        values = cheapest(runner.settings, 24)
        losses.append([start.maps, *(runner.trial(values, steps=steps, seconds=math.inf) for steps in (0, 2))])
    assert losses[0] == losses[1]


def test_the_settings_are_left_as_they_are() -> None:
    runner = begun("seq_len=24", "label_len=12")
    before: TrainConfig = replace(runner.settings)
    runner.trial(cheapest(runner.settings, 24), steps=1, seconds=math.inf)
    assert runner.settings == before


def test_a_run_of_linear_maps_begins_with_those_of_its_trial() -> None:
    """Red if the run takes maps of another history, or other weights than its own fit gives."""
    runner = begun()
    runner.trial(cheapest(runner.settings, 24), steps=0, seconds=math.inf)
    settings = with_values(runner.settings, cheapest(runner.settings, 24))
    linear = replace(settings, model=LinearModelConfig(embed=settings.model.marks, maps=settings.model.maps))
    fitted = runner.maps(linear)
    assert fitted is not None
    assert runner.maps(replace(linear, seq_len=48)) is None
    data = build_data(linear, torch.device("cpu"), source=runner.source)
    own, given = initial_network(linear, data, None), initial_network(linear, data, None, fitted)
    for name, part in own.state_dict().items():
        assert torch.equal(part, given.state_dict()[name]), name


START = Start(24, [], "24 rows")


class Runner:
    """A TrialRunner whose losses are given."""

    def __init__(self, settings: TrainConfig, loss: Callable[[Start], float]) -> None:
        self.settings, self._loss = settings, loss

    def begin_with(self, start: Start) -> None:
        self.start = start

    def choose_varying(self, seq_len: int) -> tuple[list[str], float]:
        assert seq_len == START.seq_len
        return ["day", "last"], 0.3

    def trial(self, values: object, *, steps: int, seconds: float) -> float:
        assert steps == 0
        return self._loss(self.start)


def runner(loss: Callable[[Start], float], *overrides: str) -> Runner:
    return Runner(composed("dataset=sample", "model=auto", "model.skip=maps", *overrides), loss)


@pytest.mark.parametrize(("other", "used"), [(0.9, True), (0.9985, False), (1.2, False)])
def test_a_floor_is_used_if_it_lowers_the_loss(other: float, *, used: bool) -> None:
    """Red if a gain of 0.15 % is enough, or later networks begin with a floor that was not chosen."""
    tried = runner(lambda start: other if start.floor else 1.0)
    start, loss = bounded(tried, START, 1.0)
    assert (start.floor, loss) == (used, other if used else 1.0)
    assert tried.start.floor == used
    assert ("not below the smallest value" in start.note) == used


@pytest.mark.parametrize(("other", "used"), [(0.9, True), (1.0, False), (float("nan"), False)])
def test_weights_vary_if_that_lowers_the_loss(other: float, *, used: bool) -> None:
    """Red if held-out blocks alone decide, or the note does not say what was chosen."""
    tried = runner(lambda start: other if start.varying else 1.0)
    start, loss = varied(tried, START, 1.0)
    assert (list(start.varying), loss) == (["day", "last"] if used else [], other if used else 1.0)
    assert list(tried.start.varying) == list(start.varying)
    assert ("weights vary with time of day, last value (penalty 0.3)" in start.note) == used


def test_what_the_user_has_set_is_kept() -> None:
    tried = runner(lambda start: pytest.fail("nothing to try"))
    tried.settings = replace(tried.settings, model=replace(tried.settings.model, varying=["week"], floor=True))
    assert varied(tried, START, 1.0) == bounded(tried, START, 1.0) == (START, 1.0)
