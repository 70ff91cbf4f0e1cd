"""Old names of keys and modules: the command line, Python, a given yaml file, a run directory, a checkpoint."""

from pathlib import Path

import numpy as np
import pandas as pd
import torch
from entry_points import SMALL, call

from informer import checkpoint
from informer.config.compose import compose
from informer.config.conversion import from_plain, read_yaml, to_plain
from informer.config.model import LinearSkip
from informer.config.renames import renamed_keys, renamed_overrides
from informer.forecaster import Forecaster
from informer.runtime import resource
from informer.training.run_dir import RunFolder


def test_overrides() -> None:
    """Red when an old key is not replaced, or a key that only begins like one is."""
    taken, notices = renamed_overrides(["model.highway=ridge", "+model.highway=none", "model.highways=1", "model=tiny"])
    assert taken == ["model.skip=ridge", "+model.skip=none", "model.highways=1", "model=tiny"]
    assert notices == ["model.highway is now called model.skip; the old name still works"] * 2


def test_saved_configurations() -> None:
    """Red when the old key is kept, wins over the new one, or what was given is changed."""
    given = {"model": {"highway": "ridge", "d_model": 8}, "seed": 1}
    assert renamed_keys(given) == {"model": {"skip": "ridge", "d_model": 8}, "seed": 1}
    assert "highway" in given["model"]
    assert renamed_keys({"model": {"highway": "ridge", "skip": "none"}}) == {"model": {"skip": "none"}}
    assert renamed_keys({"model": 3}) == {"model": 3}
    assert renamed_keys({"trainer": {"freeze": ["highway", "head"]}}) == {"trainer": {"freeze": ["skip", "head"]}}
    plain = to_plain(compose("train", {"dataset": "sample", "model.highway": "linear"}))
    assert plain["model"].pop("skip") == "linear"
    plain["model"]["highway"] = "linear"
    assert from_plain(plain).model.skip is LinearSkip.linear


def test_a_run_begun_under_the_old_name(folder: Path) -> None:
    """Red when the notice is missing, or an old run directory or checkpoint is no longer read."""
    begun = call("train", "dataset=sample", *SMALL, "trainer.max_steps=1", "model.highway=linear", "run_dir=run")
    assert begun.status == 0, begun.err
    assert begun.out.splitlines()[0] == "model.highway is now called model.skip; the old name still works"
    config = Path("run/config.yaml")
    assert read_yaml(config)["model"]["skip"] == "linear"
    config.write_text(config.read_text().replace("  skip: linear", "  highway: linear"))
    assert RunFolder(Path("run")).settings().model.skip is LinearSkip.linear
    content = torch.load("run/best.pt", weights_only=True)
    content["config"]["model"]["highway"] = content["config"]["model"].pop("skip")
    del content["digest"]
    torch.save(content | {"format": 2}, "old.pt")
    assert checkpoint.load(Path("old.pt")).config["model"]["skip"] == "linear"


def test_a_stored_checkpoint_loads_forever() -> None:
    """Red if a checkpoint with `model.highway` and the weight `highway.weight` no longer loads and forecasts."""
    saved = checkpoint.load(Path(__file__).parent / "checkpoint" / "old_names.pt")
    assert (saved.config["model"]["skip"], saved.config["trainer"]["freeze"]) == ("linear", ["skip"])
    frame = pd.read_csv(resource("data/sample.csv")).iloc[:8]
    forecast = Forecaster.load(Path(__file__).parent / "checkpoint" / "old_names.pt").predict(frame)
    mean = frame[saved.targets[0]].mean()
    weights = saved.weights
    assert not weights["skip.weight"].any(), "frozen at its initial value: the skip forecasts the mean of the history"
    assert len(forecast) == 2
    assert np.abs(forecast[saved.targets[0]] - mean).max() < 1e-2 * abs(mean)


def test_a_configuration_given_under_the_old_name(folder: Path) -> None:
    """Red if --config-dir refuses an old key, uses it without a notice, or picks one of two values silently."""
    begun = call("train", "dataset=sample", *SMALL, "trainer.max_steps=1", "model.skip=linear", "run_dir=run")
    assert begun.status == 0, begun.err
    saved = Path("run/config.yaml").read_text()
    Path("old").mkdir()
    Path("old/config.yaml").write_text(saved.replace("  skip: linear", "  highway: linear"))
    given = ["--config-dir=old", "--config-name=config", "run_dir=again"]
    again = call("train", *given)
    assert again.status == 0, again.err
    assert again.out.splitlines()[0] == "model.highway is now called model.skip; the old name still works"
    assert RunFolder(Path("again")).settings().model.skip is LinearSkip.linear
    Path("old/model").mkdir()
    Path("old/model/mine.yaml").write_text("defaults: [tiny, _self_]\nhighway: linear\n")
    mine = ["--config-dir=old", "dataset=sample", *SMALL[1:], "model=mine", "trainer.max_steps=1", "run_dir=mine"]
    outcome = call("train", *mine)
    assert outcome.status == 0, outcome.err
    assert outcome.out.splitlines()[0] == "model.highway is now called model.skip; the old name still works"
    assert RunFolder(Path("mine")).settings().model.skip is LinearSkip.linear, "not the default of the group"
    both = call("train", *mine[:-1], "run_dir=both", "model.skip=none")
    assert (both.status, both.err.count("\n")) == (2, 1)
    assert "model.skip=none: a configuration file has model.highway=linear, its old name; remove one" in both.err
    assert not Path("both").exists()
