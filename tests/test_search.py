"""The search script: Hydra's sweeps as Optuna's, and a study that continues."""

import sys
from pathlib import Path

import pytest
from entry_points import ROOT, SMALL, call_script, script
from hydra import initialize_config_dir

from informer.base.errors import InputError
from informer.config.hydra_compose import register

optuna = pytest.importorskip("optuna")


def test_the_space_is_that_of_the_file() -> None:
    search = script("search")
    register()
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        sweeps = search.space(["experiment=search"])
    drawn = {"optim.lr": 1e-4, "optim.schedule": "cosine", "model.d_model": 64, "model.dropout": 0.1}
    trial = optuna.trial.FixedTrial(drawn | {"trainer.batch_size": 16})
    suggested = {key: search.suggest(trial, key, sweep) for key, sweep in sweeps.items()}
    assert suggested == drawn | {"trainer.batch_size": 16}
    rate = trial.distributions["optim.lr"]
    assert (rate.low, rate.high, rate.log) == (1e-5, 3e-3, True)
    assert trial.distributions["model.d_model"].choices == (64, 128, 256, 512)
    assert not trial.distributions["model.dropout"].log


def test_a_key_that_is_given_is_not_searched() -> None:
    register()
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        sweeps = script("search").space(["experiment=search", "model.d_model=8"])
    assert "model.d_model" not in sweeps
    assert "model.dropout" in sweeps


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("dataset=nope", "error: dataset: expected one of"),
        ("optim.lr=abc", "error: optim.lr: expected a number, found 'abc'"),
        ("model.d_model=9", "error: model.d_model: expected a multiple of model.n_heads=8, found 9"),
    ],
)
def test_a_mistake_is_one_line(argument: str, says: str, folder: Path) -> None:
    """Before anything is written."""
    done = call_script("search", argument)
    assert done.status == 2
    assert done.err.startswith(says)
    assert done.err.count("\n") == 1
    assert not any(folder.iterdir())


@pytest.mark.slow
def test_a_search_goes_on(folder: Path) -> None:
    options = ["--trials", "1", "--output", "found"]
    for n in (1, 2):
        done = call_script("search", *options, "dataset=sample", *SMALL, "trainer.max_steps=1")
        assert done.status == 0, done.err
        assert f"best of {n}: trial " in done.out
        assert (folder / "found" / f"trial-{n - 1}" / "best.pt").exists()
    done = call_script("search", *options, "dataset=sample", *SMALL)
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert "choose another --output" in done.err  # losses of other settings do not compare


def test_a_trial_that_fails_does_not_end_the_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Red if a rate that diverges ends the search, or a search without a single run ends in a traceback."""
    search = script("search")

    def diverges(*_: object) -> None:
        raise InputError("step 3: the loss is nan")

    monkeypatch.setattr(search, "train", diverges)
    monkeypatch.setattr(sys, "argv", ["search.py", "--trials", "2", "--output", "found", "dataset=sample"])
    with pytest.raises(InputError, match="all trials failed"):
        search.search()
    assert capsys.readouterr().out.count("failed: step 3: the loss is nan") == 2
