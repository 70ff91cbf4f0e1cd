"""The trials of a search: which ones, in which order, until when, which one is chosen; on a Ray cluster too."""

import csv
import io
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import shortcuts
from entry_points import ROOT, call
from rich.console import Console
from test_model_auto import SAMPLE
from test_space import settings as configured
from test_trials import trial_runner

from informer.base.start import Interrupted
from informer.build import read_dataset
from informer.config.conversion import to_plain
from informer.config.training import CombineKind
from informer.search import search as story
from informer.search.search import FILES_SHARE, RUN, Budget, Search
from informer.search.space import Values, comparable, least_sizes, lengths
from informer.search.trials import Local, OutOfTime, Record, Start, Trial, TrialRunner

MAPS = {"lookback": 48, "last": False, "taper": 1.0, "shared": 10.0, "naive": 0.0, "groups": {}}


class Clock:
    """Continues on request."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class World:
    """Trials without data: losses and seconds by formula; every trial is noted."""

    can_tune = True
    """Whether held-out rows are enough to judge the pretrained network."""
    closing_cost = 0.0
    """Seconds of scores with a network."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, gain: Callable[[Values, int], float], cost: float) -> None:
        self.clock, self.made, self.gain, self.cost = Clock(), list[tuple[int, int, float, int]](), gain, cost
        monkeypatch.setattr(
            TrialRunner, "trial", lambda runner, values, *, steps, seconds: self.trial(values, steps, seconds)
        )
        monkeypatch.setattr(TrialRunner, "start", lambda runner, seq_lens, *, seconds: self.start(seq_lens, seconds))
        monkeypatch.setattr(story, "seconds_a_step", lambda: 0.01)
        monkeypatch.setattr(TrialRunner, "can_tune", lambda runner, values: self.can_tune)
        monkeypatch.setattr(TrialRunner, "n_windows", lambda runner, values: 3200)
        monkeypatch.setattr(TrialRunner, "closing_seconds", lambda runner, values, *, steps: self.closing(steps))

    def closing(self, steps: int) -> float:
        return self.closing_cost if steps else 0.0

    def start(self, seq_lens: Sequence[int], seconds: float) -> Start:
        self.clock.now += min(3.0, seconds)
        self.made.append((48, 0, 0.0, 0))
        return Start(48, [MAPS], "some maps")

    def trial(self, values: Values, steps: int, seconds: float) -> float:
        return self._net(values, steps, seconds) if steps else 1.0

    def _net(self, values: Values, steps: int, seconds: float) -> float:
        self.made.append((values["seq_len"], values["model.patch_len"], values["optim.lr"], steps))
        self.clock.now += min(self.cost * steps, seconds)
        if self.cost * steps >= seconds:
            raise OutOfTime
        return 1.0 - self.gain(values, steps)

    def search(
        self, path: Path, minutes: float | None, *overrides: str, engine: Local | None = None
    ) -> tuple[Search, Trial]:
        runner, budget = trial_runner(*overrides, clock=self.clock), Budget(minutes, clock=self.clock)
        search = Search(runner, Record(path), budget, engine or Local())
        return search, search.choose([24, 48, 96])


def slow_gain(values: Values, steps: int) -> float:
    """More steps help up to 576; the higher rate most."""
    return min(steps, 576) / 10_000 * (2.0 if values["optim.lr"] == 1e-3 else 1.0)


def test_the_linear_forecast_then_fewer_networks_for_longer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, gain=slow_gain, cost=0.01)
    search, trial = world.search(folder / "search.csv", None)
    assert world.made[0] == (48, 0, 0.0, 0)
    rounds = [[made for made in world.made if made[3] == steps] for steps in (96, 288, 864, 2592)]
    assert [len(one) for one in rounds] == [10, 4, 2, 1], "3 shapes and 7 variants, of which a third goes on"
    assert {seq_len for seq_len, *_ in rounds[0]} == {48}, "the history of the linear forecast"
    assert (trial.values["optim.lr"], trial.steps, trial.val_loss) == (1e-3, 864, 1.0 - 0.1152)
    assert search.not_tried == []
    resolved = search.resolved(trial)
    assert (resolved.trainer.max_steps, resolved.trainer.steps_per_epoch, resolved.trainer.max_epochs) == (864, 86, 11)
    assert (resolved.optim.lr, resolved.model.maps) == (1e-3, [MAPS])
    assert resolved.trainer.patience == 11, "it goes as far as there are steps"
    assert (resolved.search, resolved.trainer.time_budget_minutes, resolved.trainer.max_minutes) == ([], None, None)


def test_the_winner_takes_the_rest_of_the_budget(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if it is trained no longer than its trial, or for longer than there is time."""
    world = World(monkeypatch, gain=slow_gain, cost=0.05)
    search, trial = world.search(folder / "search.csv", 3.0)
    resolved = search.resolved(trial)
    left = 180.0 - world.clock.now
    assert trial.steps < resolved.trainer.max_steps <= story.RUN_STEPS * trial.steps
    assert resolved.trainer.max_steps * world.cost * RUN <= left - FILES_SHARE * 180.0
    assert resolved.trainer.max_minutes is None, "steps are counted, so that the clock does not end the run"


def test_time_that_is_left_goes_to_a_network_that_comes_close(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if minutes are left unused where trials were too short to decide, or spent where there was time for all."""
    for minutes, gain, steps in ((3.0, -0.005, True), (3.0, -0.02, False), (None, -0.005, False)):
        world = World(monkeypatch, gain=lambda values, steps, gain=gain: gain, cost=0.1)
        assert bool(world.search(folder / f"{minutes}{gain}.csv", minutes)[1].steps) is steps


@pytest.mark.parametrize("scores", [5.0, 60.0, 1e4])
def test_time_is_kept_for_scores(scores: float, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if a network is trained that cannot be scored in time, or for so long that it cannot."""
    world = World(monkeypatch, gain=slow_gain, cost=0.05)
    world.closing_cost = scores
    search, trial = world.search(folder / "search.csv", 3.0)
    assert (trial.steps == 0) is (scores == 1e4)
    seconds = RUN * world.cost * search.resolved(trial).trainer.max_steps if trial.steps else 0.0
    assert world.clock.now + seconds + (scores if trial.steps else 0.0) <= 180.0


@pytest.mark.parametrize(("seconds", "steps"), [(0.01, 300), (1.0, None), (10.0, 0)])
@pytest.mark.parametrize("gain", [slow_gain, lambda values, steps: -1.0], ids=["network", "linear"])
def test_time_is_kept_for_the_pretrained_network(
    gain: Callable[[Values, int], float],
    seconds: float,
    steps: int | None,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All steps where they are cheap, as many as there is time for otherwise, and none instead of a few; red if a
    network that is trained takes their time, or if they take more than there is."""
    world = World(monkeypatch, gain=gain, cost=0.05)
    monkeypatch.setattr(story, "seconds_a_step", lambda: seconds)
    search, trial = world.search(folder / "search.csv", 3.0)
    trainer = search.resolved(trial).trainer
    assert bool(trial.steps) is (gain is slow_gain)
    assert trainer.tune_steps == steps if steps is not None else 30 <= trainer.tune_steps < 300
    training = RUN * world.cost * (trainer.max_steps if trial.steps else 0)
    assert world.clock.now + training + trainer.tune_steps * story.SAFE * seconds <= 180.0
    assert any("of the pretrained network" in note for note in search.not_tried) is (steps != 300)


def test_no_time_is_kept_where_held_out_rows_are_too_few(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if a network loses the time of training that cannot be judged, or a larger budget is advised for it."""
    steps = []
    for can_tune in (True, False):
        world = World(monkeypatch, gain=slow_gain, cost=0.05)
        world.can_tune = can_tune
        monkeypatch.setattr(story, "seconds_a_step", lambda: 0.2)
        search, trial = world.search(folder / f"{can_tune}.csv", 3.0)
        steps.append(sum(made[3] for made in world.made) + search.resolved(trial).trainer.max_steps)
    assert steps[1] > 1.2 * steps[0]
    assert not any("of the pretrained network" in note for note in search.not_tried)


@pytest.mark.parametrize(("seconds", "blocks"), [(0.5, 5), (9.0, 3), (20.0, 0)])
def test_blocks_for_intervals_where_there_is_time(
    seconds: float, blocks: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three minutes 35 %, 63 s, may go to two fits of the linear forecast and one per block, each 1.3 times as long
    as measured: 5.4 fits of 9 s."""
    search, trial = World(monkeypatch, gain=slow_gain, cost=0.05).search(folder / "search.csv", 3.0)
    first = search.record.trials[0]
    search.record.trials[0] = replace(first, fit_seconds=seconds)
    assert search.resolved(trial).trainer.calibration_blocks == blocks
    notes = {5: "", 3: "intervals from 5 blocks, not 3", 0: "intervals from blocks of all rows"}
    assert [note for note in search.not_tried if note.startswith("intervals")] == [notes[blocks]] * (blocks < 5)


@pytest.mark.parametrize(
    ("minutes", "most", "kept"), [(3.0, 1, False), (4.0, 1, True), (None, 1, True), (3.0, 9, True)]
)
def test_members_that_forecast_each_column_by_itself_where_there_is_time(
    minutes: float | None, most: int, kept: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100 s are more than half of three minutes, and less than half of four; few columns are not counted."""
    search, trial = World(monkeypatch, gain=slow_gain, cost=0.05).search(folder / "search.csv", minutes)
    monkeypatch.setattr(story, "MANY_COLUMNS", most)
    monkeypatch.setattr(story, "SECONDS_EACH", 100 / len(search.runner.source.columns.targets))
    members = [CombineKind.naive, CombineKind.zero, CombineKind.theta]
    assert search.resolved(trial).trainer.combine == (members if kept else members[:1])
    notes = [note for note in search.not_tried if note.startswith("an average")]
    assert notes == ["an average with the network that comes trained and theta"] * (not kept)


def test_variants_are_those_of_the_best_shape(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if rates and similar settings are tried with another shape than the best, which is neither first nor last."""

    def gain(values: Values, steps: int) -> float:
        return 0.1 * values["model.channel_independent"] + 0.1 * (values["model.dropout"] == 0.4)

    search, trial = World(monkeypatch, gain=gain, cost=0.01).search(folder / "search.csv", None)
    assert (trial.values["model.channel_independent"], trial.values["model.dropout"]) == (True, 0.4)
    console = Console(width=80, file=io.StringIO())
    console.print(search.record.table(trial))
    assert "0.80000" in console.file.getvalue()
    assert "…" not in console.file.getvalue(), "all of it in 80 columns"


@pytest.mark.parametrize(("gain", "alone"), [(-0.1, True), (0.004, True), (0.006, False)])
def test_linear_alone_unless_a_network_is_clearly_better(
    gain: float, alone: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(monkeypatch, gain=lambda values, steps: gain, cost=0.01)
    search, trial = world.search(folder / "search.csv", None)
    assert (trial.steps == 0) is alone
    resolved = search.resolved(trial)
    assert (resolved.model.family, resolved.trainer.max_steps) == (("linear", 0) if alone else ("informer", 96))
    assert (resolved.seq_len, resolved.model.maps) == (48, [MAPS])
    quantiles = World(monkeypatch, gain=lambda values, steps: gain, cost=0.01)
    search, trial = quantiles.search(folder / "quantiles.csv", None, "loss=quantile")
    assert search.resolved(trial).model.family == "informer", "linear maps by themselves give no quantiles"


def test_the_same_choice_twice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = [World(monkeypatch, gain=slow_gain, cost=0.01).search(folder / f"{i}.csv", 60.0)[1] for i in range(2)]
    assert chosen[0] == chosen[1]


@pytest.mark.parametrize("minutes", [0.05, 0.2, 1.0, 3.0, 10.0])
def test_a_budget_leaves_time_for_run_and_scores(minutes: float, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if the chosen run no longer fits, or trials use more than their share; skipped trials are reported."""
    world = World(monkeypatch, gain=slow_gain, cost=0.5)
    search, trial = world.search(folder / "search.csv", minutes)
    steps = search.resolved(trial).trainer.max_steps if trial.steps else 0
    assert world.clock.now + steps * world.cost <= (1 - FILES_SHARE) * 60 * minutes
    assert search.not_tried
    assert all("networks" in left for left in search.not_tried)


def test_a_dear_network_does_not_keep_others_from_their_turn(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, gain=lambda values, steps: 0.1, cost=0.1)
    cheap = world._net
    world._net = lambda values, steps, seconds: cheap(
        values, steps * (50 if values["model.patch_len"] == 1 else 1), seconds
    )  # type: ignore[method-assign]
    search, trial = world.search(folder / "search.csv", 8.0)
    assert trial.steps
    assert trial.values["model.patch_len"] > 1
    assert search.not_tried[0].startswith("1 of ")


def test_a_length_that_is_given_bounds_the_trials(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, gain=slow_gain, cost=0.01)
    search, trial = world.search(folder / "search.csv", None, "trainer.max_epochs=1")
    assert {steps for *_, steps in world.made} == {0, 96, 100}
    assert (search.resolved(trial).trainer.max_epochs, search.resolved(trial).trainer.max_steps) == (1, None)


def test_a_search_goes_on_where_it_was_stopped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same trials and choice as one that was not stopped, none made twice; the file has a row a trial."""
    cost = 1 / 128  # sums of which are exact
    whole = World(monkeypatch, gain=slow_gain, cost=cost)
    expected = whole.search(folder / "whole.csv", 60.0)[1]
    for stop_at in (2, 5, len(whole.made) - 1):
        path = folder / f"{stop_at}.csv"
        stopped = World(monkeypatch, gain=slow_gain, cost=cost)
        runner = trial_runner(clock=stopped.clock)
        act = stopped.trial

        def noting(
            *arguments: Any, act: Any = act, world: World = stopped, runner: TrialRunner = runner, at: int = stop_at
        ) -> Any:
            if len(world.made) + 1 == at:
                runner.stop.signal = 2
            return act(*arguments)

        stopped.trial = noting  # type: ignore[method-assign]
        with pytest.raises(Interrupted):
            Search(runner, Record(path), Budget(60.0, clock=stopped.clock)).choose([24, 48, 96])
        rest = World(monkeypatch, gain=slow_gain, cost=cost)
        assert rest.search(path, 60.0)[1] == expected
        assert stopped.made + rest.made == whole.made
        assert len(stopped.made) == stop_at
    rows = list(csv.DictReader(io.StringIO((folder / "whole.csv").read_text())))
    assert [(int(row["seq_len"]), int(row["steps"])) for row in rows] == [(made[0], made[3]) for made in whole.made]


def linear_choice(path: Path, *overrides: str) -> Trial:
    config = configured(path, *overrides)
    source = read_dataset(config, least_sizes(config))
    candidates = lengths(config, source)
    runner = trial_runner(
        *(f"dataset=csv dataset.path={path}".split()), *overrides, "dataset.split.kind=ratio", *SHARES
    )
    runner.source = comparable(config, source, candidates)
    return Search(runner, Record(path.with_suffix(".search")), Budget(None)).choose(candidates)


SHARES = [f"dataset.split.{part}={share}" for part, share in (("train", 0.7), ("val", 0.1), ("test", 0.2))]


@pytest.fixture
def no_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Search, "_halve", lambda search, entrants: None)


def test_a_long_season_asks_for_a_long_history(folder: Path, no_networks: None) -> None:
    """A repeated pattern of 70 random values: the next value follows only from a whole season."""
    random = np.random.default_rng(0)
    values = np.tile(random.normal(size=70), 20) + 0.1 * random.normal(size=1400)
    stamps = pd.date_range("2020-01-01", periods=1400, freq="h")
    pd.DataFrame({"date": stamps, "a": values}).to_csv("long.csv", index=False)
    trial = linear_choice(folder / "long.csv", "pred_len=6")
    assert trial.values["seq_len"] >= 70


def test_a_linear_series_is_left_to_linear_maps(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """y(t) = 1.6 y(t-1) - 0.8 y(t-2) + noise: real networks, for some steps, have nothing to add."""
    monkeypatch.setattr(story, "FIRST_STEPS", 8)
    random = np.random.default_rng(1)
    values = [0.0, 0.0]
    for _ in range(2998):
        values.append(1.6 * values[-1] - 0.8 * values[-2] + random.normal())
    stamps = pd.date_range("2020-01-01", periods=3000, freq="h")
    pd.DataFrame({"date": stamps, "a": values}).to_csv("linear.csv", index=False)
    overrides = ["pred_len=4", "seq_len=16", "trainer.batch_size=64", "model.patch_len=1", "trainer.max_steps=24"]
    assert linear_choice(folder / "linear.csv", *overrides).steps == 0


PROGRAM = ROOT / "tests" / "search_on_ray.py"


class InGroups(Local):
    """Four trials are begun before the first is waited for."""

    n_parallel = 4


def test_trials_n_parallel_are_those_one_after_the_other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if a trial is left out, doubled or given another place: of equal trials the first is chosen."""
    searches = []
    for name, engine in (("one", None), ("four", InGroups())):
        world = World(monkeypatch, gain=slow_gain, cost=0.01)
        search, trial = world.search(folder / f"{name}.csv", None, engine=engine)
        searches.append(([one.key for one in search.record.trials], trial.key, to_plain(search.resolved(trial))))
    assert searches[0] == searches[1]


def test_trials_n_parallel_share_the_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if each of nine trials is given a ninth of the time, although four of them run at once."""
    limits: dict[str, list[float]] = {"one": [], "four": []}
    for name, engine in (("one", None), ("four", InGroups())):
        world = World(monkeypatch, gain=slow_gain, cost=0.0)
        trial = world.trial

        def noted(values, steps, seconds, trial=trial, name=name):
            if steps:
                limits[name].append(seconds)
            return trial(values, steps, seconds)

        world.trial = noted  # type: ignore[method-assign]
        world.search(folder / f"{name}.csv", 10.0, engine=engine)
    room = limits["one"][0] * 4 / 2  # three shapes one after the other: twice a share of a quarter
    assert limits["four"][:3] == pytest.approx([room * 2 / 2] * 3), "three shapes at once: twice a share of a half"


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="needs ray")
def test_on_ray_the_choice_is_that_of_this_process(folder: Path) -> None:
    """Red if settings, data or seed do not reach the workers, if results are mixed up, or if a worker that dies takes
    its trial with it."""
    shortcuts.switch(Path("golden"))  # the workers choose among all settings of linear maps
    keys = [*SAMPLE, "trainer.time_budget_minutes=null"]
    assert call("train", *keys, "run_dir=here").status == 0
    command = [sys.executable, str(PROGRAM), *keys, "run_dir=there", "engine=ray", "workers=2"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "RAY_worker_niceness": "0"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "killed a worker" in done.stdout
    here, there = (
        pd.read_csv(Path(run) / "search.csv").drop(columns=["seconds", "closing_seconds", "linear.fit_seconds"])
        for run in ("here", "there")
    )
    pd.testing.assert_frame_equal(here, there)
    for file in ("config.yaml", "metrics.csv"):
        assert (Path("here") / file).read_text().replace("here", "there") == (Path("there") / file).read_text()
