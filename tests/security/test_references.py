"""`${...}` is text wherever it may come from someone else: in run directories, checkpoints and names of files."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml
from entry_points import ROOT, SMALL, Trained, call, done

from informer import Forecaster

SECRET = "xyzzy"


@pytest.fixture(autouse=True)
def _a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", SECRET)


CHANGES: list[dict[str, object]] = [
    {"dataset": {"url": "http://127.0.0.1:9/${oc.env:SECRET}", "path": "${oc.env:SECRET}.csv"}},
    {"targets": ["a", "${oc.env:SECRET}"]},
    {"attn": {"${oc.env:SECRET}": 1}},
    {"seed": "${seq_len}"},
    {"target": "\\\\${oc.env:SECRET}"},
]


def test_a_run_directory_refers_to_nothing(folder: Path, trained: Trained) -> None:
    """Red if config.yaml is resolved, instead of read as text: the secret would be sent, logged and saved."""
    shutil.copytree(trained.run_dir, "run")
    Path("run/metrics.json").unlink()
    saved = yaml.safe_load(Path("run/config.yaml").read_text())
    for change in CHANGES:
        content = {key: saved[key] | each if isinstance(each, dict) else each for key, each in change.items()}
        Path("run/config.yaml").write_text(yaml.safe_dump(saved | content))
        outcome = call("train", "resume=run")
        assert SECRET not in outcome.out + outcome.err
        assert not any(SECRET in path.read_text(errors="replace") for path in Path("run").rglob("*") if path.is_file())


def test_a_file_may_be_called_so(folder: Path) -> None:
    """Red if the name of a file is resolved, by any command, or a run on it cannot be scored, resumed or repeated."""
    name = "a\\$SECRET ${oc.env:SECRET}, 'b'.csv"
    shutil.copy(ROOT / "data" / "sample.csv", name)
    arguments = ["dataset=csv", f"dataset.path={name}", *SMALL, "trainer.max_steps=1"]
    run = f"run of {name}"
    done("train", *arguments, f"run_dir={run}")
    assert {path.name for path in folder.iterdir()} == {name, run}
    for entry, arguments in {
        "eval": [f"checkpoint={run}", "plots=none"],
        "predict": [f"checkpoint={run}", f"input={name}", f"output=to {name}"],
        "export": [f"checkpoint={run}", f"output={name}.safetensors"],
    }.items():
        done(entry, *arguments)
    assert Path(f"{name}.safetensors").exists()
    assert len(list(Path(f"to {name}").iterdir())) == 1
    Path(run, "metrics.json").unlink()
    done("train", f"resume={run}")
    Path("plain").mkdir()  # Hydra resolves the names of its own folders
    shutil.copy(Path(run, "config.yaml"), "plain")
    done("train", "--config-dir=plain", "--config-name=config", "run_dir=again")
    assert Path(run, "metrics.json").read_bytes() == Path("again/metrics.json").read_bytes()


@pytest.mark.slow
def test_in_several_jobs_too(folder: Path) -> None:
    """Red if the sweeper, which rewrites each job's overrides, loses a character of the name. What a user types for a
    number is Hydra's, as its manual has it."""
    name = "${oc.env:SECRET}.csv"
    shutil.copy(ROOT / "data" / "sample.csv", name)
    words = ["dataset=csv", f"dataset.path={name}", *SMALL, "label_len=${pred_len}", "trainer.max_steps=1"]
    done("train", "--multirun", *words, "seed=1,2")
    saved = [yaml.safe_load(path.read_text()) for path in Path().rglob("config.yaml") if path.parent.name != ".hydra"]
    assert {run["label_len"] for run in saved} == {6}


def test_from_python_too(folder: Path) -> None:
    """Red if a value from Python is resolved."""
    frame = pd.read_csv(ROOT / "data" / "sample.csv").rename(columns={"demand": "${oc.env:SECRET}"})
    settings = {key: yaml.safe_load(value) for key, value in (each.split("=") for each in SMALL)}
    forecaster = Forecaster(
        target="${oc.env:SECRET}", features="S", run_dir="${oc.env:SECRET}", **settings | {"trainer.max_steps": 1}
    ).fit(frame)
    assert list(forecaster.predict(frame).columns) == ["date", "${oc.env:SECRET}"]
    assert [path.name for path in folder.iterdir() if path.is_dir() and not path.is_symlink()] == ["${oc.env:SECRET}"]
