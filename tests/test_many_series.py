"""One model for many series, from the command line: trained, scored in each series' own units, used on one of them."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import call

from informer import checkpoint

RUN = ["dataset=csv", "model=tiny", "attn=full", "seq_len=24", "label_len=11", "pred_len=6", "trainer.max_steps=3"]
SCALES = {"north": 1.0, "south": 1000.0, "west": 30.0}


def series(name: str) -> pd.DataFrame:
    """A daily wave in units of its own."""
    rng = np.random.default_rng(len(name))
    t = np.arange(400)
    wave = SCALES[name] * (5 + np.sin(2 * np.pi * t / 24) + 0.1 * rng.normal(size=400))
    return pd.DataFrame({"date": pd.date_range("2023-01-01", periods=400, freq="h"), "load": wave.round(6)})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a scaler for each series of a folder; one of its files is too short."""
    top = tmp_path_factory.mktemp("many")
    (top / "in").mkdir()
    for name in SCALES:
        series(name).to_csv(top / "in" / f"{name}.csv", index=False)
    series("north")[:40].to_csv(top / "in" / "brief.csv", index=False)
    more = [f"dataset.path={top / 'in'}", "dataset.short=skip", "scaler.per_series=true", f"run_dir={top / 'run'}"]
    outcome = call("train", *RUN, *more)
    assert outcome.status == 0, outcome.err
    assert "csv: 3 series, 1200 rows at h, 1 columns in" in outcome.out
    assert "1 of 4 series left out: brief: 40 rows are too few" in outcome.out
    return top / "run"


def test_the_checkpoint_holds_every_series_own_scaler(run: Path) -> None:
    own = checkpoint.load(run).scaler["own"]
    assert sorted(own) == sorted(SCALES)
    for name, state in own.items():
        rows = series(name)["load"][:280]
        assert (state["center"][0], state["scale"][0]) == pytest.approx((rows.mean(), rows.std(ddof=0)))


def test_original_units_are_those_of_each_series(run: Path, folder: Path) -> None:
    """The seasonal naive's error, by numpy over all test windows of all series."""
    outcome = call("eval", f"checkpoint={run}", "output=report", "plots=false")
    assert (outcome.status, outcome.err) == (0, "")
    for name in ("metrics.json", "metrics.csv"):
        assert Path("report", name).read_bytes() == (run / name).read_bytes()
    errors = {"scaled": [], "original": []}
    for name in SCALES:
        values = series(name)["load"].to_numpy()
        spread = values[:280].std()
        for row in range(320, 400 - 6 + 1):
            error = np.abs(values[row : row + 6] - values[row - 24 : row - 18])
            errors["original"].append(error.mean())
            errors["scaled"].append(error.mean() / spread)
    found = json.loads(Path("report/metrics.json").read_text())["scores"]["seasonal naive"]
    for units, each in errors.items():
        assert found[units]["overall"]["mae"] == pytest.approx(np.mean(each), rel=1e-4)


def test_a_series_of_training_and_a_new_one_come_back_in_their_units(run: Path, folder: Path) -> None:
    for name, factor in (("south", 1.0), ("other", 7.0)):
        series("south").assign(load=lambda frame, factor=factor: frame["load"] * factor).to_csv(f"{name}.csv")
        outcome = call("predict", f"checkpoint={run}", f"input={name}.csv", "output=out", "plots=false")
        assert (outcome.status, outcome.err) == (0, "")
        found = pd.read_csv(f"out/{name}.forecast.csv")["load"]
        assert found.between(3500 * factor, 6500 * factor).all()


def test_one_long_file_gives_the_same_model(run: Path, folder: Path) -> None:
    pd.concat(series(name).assign(id=name) for name in sorted(SCALES)).to_csv("long.csv", index=False)
    more = ["dataset.path=long.csv", "dataset.series_col=id", "scaler.per_series=true", "run_dir=long"]
    assert call("train", *RUN, *more).status == 0
    first, second = (checkpoint.load(path).weights for path in (run, Path("long")))
    assert all((first[name] == second[name]).all() for name in first)
    assert Path("long/metrics.csv").read_bytes() == (run / "metrics.csv").read_bytes()


def test_a_map_of_a_file_gives_the_same_model(run: Path, folder: Path) -> None:
    more = [f"dataset.path={run.parent / 'in'}", "dataset.short=skip", "scaler.per_series=true", "run_dir=mapped"]
    assert call("train", *RUN, *more, "dataset.memmap=true", "dataset.cache_dir=arrays").status == 0
    first, second = (checkpoint.load(path).weights for path in (run, Path("mapped")))
    assert all((first[name] == second[name]).all() for name in first)
    assert Path("mapped/metrics.csv").read_bytes() == (run / "metrics.csv").read_bytes()
    assert list(Path("arrays").rglob("*.float32"))
