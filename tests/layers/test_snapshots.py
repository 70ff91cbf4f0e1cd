"""model.snapshots: the mean of states that the network had, taken at ends of cycles, in every command."""

import json
from copy import deepcopy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from entry_points import SMALL, call

from informer import checkpoint
from informer.checkpoint.restore import restore_model
from informer.config.training import OptimConfig, Schedule
from informer.layers.snapshots import Snapshots
from informer.training.optim import learning_rate

KEYS = ["dataset=csv", "dataset.path=f.csv", *SMALL, "optim.schedule=cosine", "optim.lr=3e-3"]


@pytest.fixture
def file(folder: Path) -> Path:
    rng, hours = np.random.default_rng(0), np.arange(320)
    table = pd.DataFrame({"date": pd.date_range("2022-01-01", periods=320, freq="h")})
    table.assign(a=np.sin(hours / 4) + rng.normal(0, 0.3, 320), b=rng.random(320)).to_csv("f.csv", index=False)
    return Path("f.csv")


def trained(name: str, *keys: str) -> checkpoint.Checkpoint:
    outcome = call("train", *KEYS, *keys, f"run_dir={name}")
    assert outcome.status == 0, outcome.err
    return checkpoint.load(Path(name, "last.pt"))


def test_the_mean_is_over_the_network_and_the_copies_made() -> None:
    """Red if a copy that was not made counts, or one that was made does not, or is overwritten."""
    layer = torch.nn.Linear(2, 1)
    snapshots, x = Snapshots({"layer": layer}, 3), torch.randn(4, 5, 2)
    copies: list[torch.nn.Module] = []

    def mean() -> torch.Tensor:
        return snapshots.mean([parts["layer"](x) for parts in ({"layer": layer}, *snapshots.copies)])

    torch.testing.assert_close(mean(), layer(x))
    for _ in range(4):
        snapshots.take({"layer": layer})
        copies = [*copies, deepcopy(layer)][:2]
        torch.nn.init.normal_(layer.weight)
        torch.testing.assert_close(mean(), torch.stack([one(x) for one in (layer, *copies)]).mean(dim=0))


@pytest.mark.parametrize("done", [0.0, 0.3, 0.49, 0.5, 0.75, 0.99])
def test_the_rate_starts_again_in_each_cycle(done: float) -> None:
    config = OptimConfig(lr=2.0, schedule=Schedule.cosine)
    share = 2 * done - int(2 * done)
    assert learning_rate(config, epoch=1, done=done, n_cycles=2) == pytest.approx(1 + np.cos(np.pi * share))


def test_a_run_forecasts_with_the_mean_of_its_states(file: Path) -> None:
    """The states are those of the same run stopped after a third and two thirds of its steps, and its last."""
    del file
    saved = trained("three", "trainer.max_steps=12", "model.snapshots=3")
    single = checkpoint.load(Path("three/last.pt"))
    single.config["model"]["snapshots"] = 1
    prefix = "snapshots.copies.{}."
    states = [{name: part for name, part in saved.weights.items() if not name.startswith("snapshots.")}]
    for n in range(2):
        copy = {
            name.removeprefix(prefix.format(n)): part
            for name, part in saved.weights.items()
            if name.startswith(prefix.format(n))
        }
        assert any(not torch.equal(part, states[0][name]) for name, part in copy.items())
        states.append(states[0] | copy)
    window = tuple(torch.randn(3, *shape) for shape in ((24, 2), (24, 4), (17, 2), (17, 4)))
    forecasts = []
    for weights in states:
        single.weights = weights
        forecasts.append(restore_model(single)(*window))
    torch.testing.assert_close(restore_model(saved)(*window), torch.stack(forecasts).mean(dim=0))
    assert saved.weights["snapshots.shares"].tolist() == pytest.approx([1 / 3] * 3)


def test_a_copy_is_the_network_at_the_end_of_its_cycle(file: Path) -> None:
    """With a constant rate cycles change nothing else: a run of half the steps ends where the copy was made."""
    del file
    keys = ["optim.schedule=constant", "trainer.steps_per_epoch=3", "trainer.patience=9", "trainer.max_epochs=4"]
    whole = trained("whole", *keys, "model.snapshots=2")
    half = trained("half", *keys[:-1], "trainer.max_epochs=2")
    for name, part in half.weights.items():
        if f"snapshots.copies.0.{name}" in whole.weights:
            torch.testing.assert_close(whole.weights[f"snapshots.copies.0.{name}"], part, rtol=0, atol=0)


def test_they_are_evaluated_exported_and_forecast_with(file: Path) -> None:
    trained("run", "trainer.max_steps=8", "model.snapshots=2")
    commands = {
        "eval": ["plots=none"],
        "predict": [f"input={file}", "output=out", "plots=false"],
        "export": ["output=exported", "format=torch_export"],
    }
    for command, keys in commands.items():
        outcome = call(command, "checkpoint=run", *keys)
        assert outcome.status == 0, outcome.err
    scores = [json.loads(Path(path).read_text())["scores"] for path in ("run/metrics.json", "run/eval/metrics.json")]
    assert scores[0] == scores[1]


def test_an_average_of_weights_is_another_way(file: Path) -> None:
    del file
    outcome = call("train", *KEYS, "model.snapshots=2", "optim.ema=0.9", "run_dir=run")
    assert outcome.status != 0
    assert "model.snapshots: expected 1 with optim.ema" in outcome.err + outcome.out
