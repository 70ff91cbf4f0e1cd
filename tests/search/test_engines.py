"""Trials on a Ray cluster, and several at a time: those of a search in one process."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
from entry_points import ROOT, call
from test_choice import World, slow_gain
from test_model_auto import SAMPLE

from informer.config.conversion import to_plain
from informer.search.trials import Local

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
