"""Defaults of training, and its advice on better settings."""

import io
import logging
from pathlib import Path

import pandas as pd
import pytest
from entry_points import ROOT, SMALL, call, done
from rich.console import Console

from informer.checkpoint.paths import resolve_latest
from informer.config.data import FeatureMode
from informer.config.hydra_compose import compose
from informer.training.curves import EVERY, MEASURED, WARM, Tracker
from informer.training.run import better_command


@pytest.fixture
def my_csv(folder: Path) -> Path:
    pd.read_csv(ROOT / "data" / "sample.csv").iloc[:400].to_csv("my.csv", index=False)
    return Path("my.csv")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, FeatureMode.M),
        ({"target": "demand"}, FeatureMode.MS),
        ({"target": "demand", "features": "M"}, FeatureMode.M),
        ({"target": "demand", "features": "S"}, FeatureMode.S),
    ],
)
def test_a_target_is_forecast_from_all_columns(given: dict[str, str], expected: FeatureMode) -> None:
    assert compose({"dataset": "sample", **given}).used_features is expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, 48), ({"seq_len": 24}, 12), ({"seq_len": 7}, 3), ({"seq_len": 24, "label_len": 24}, 24)],
)
def test_the_start_token_is_half_of_the_history(given: dict[str, int], expected: int) -> None:
    assert compose({"dataset": "sample", **given}).label_len == expected


def test_a_file_needs_no_key_and_the_run_is_named_after_it(my_csv: Path) -> None:
    outcome = done("train", "my.csv", "target=demand", *SMALL, "trainer.max_steps=1")
    assert "4 columns in, 1 out" in outcome.out
    assert resolve_latest("runs/latest").name.endswith("_my_tiny_prob_demand")


def test_two_files_are_refused(my_csv: Path) -> None:
    outcome = call("train", "my.csv", "other.csv")
    assert (outcome.status, outcome.err) == (
        2,
        "error: dataset.path: expected one file or folder, found 2: my.csv, other.csv; put a pattern in quotes, so "
        "that the shell does not expand it\n",
    )


def test_a_run_that_loses_says_what_would_do_better(my_csv: Path) -> None:
    """An untrained network is worse than a baseline; the suggested command can be composed."""
    outcome = call("train", "my.csv", *SMALL, "trainer.max_steps=1")
    (line,) = (line for line in outcome.out.splitlines() if line.startswith("try: "))
    assert "informer train dataset=csv dataset.path=my.csv dataset.split.kind=rows dataset.split.train=200 " in line
    assert "pred_len=6 model=auto" in line
    settings = compose({"dataset": "csv", "dataset.path": "my file.csv", "target": "demand"})
    assert "'dataset.path=my file.csv' target=demand" in better_command(settings)
    long = {"dataset": "csv", "dataset.path": "long.csv", "dataset.series_col": "id", "dataset.fill": "linear"}
    command = better_command(compose(long))
    assert "dataset.path=long.csv dataset.series_col=id dataset.fill=linear pred_len=" in command
    command = better_command(compose(long | {"targets": ["y"], "future_covariates": ["promo", "price"]}))
    assert "dataset.fill=linear 'targets=[y]' 'future_covariates=[promo,price]' pred_len=" in command


def test_a_known_name_of_another_program_is_answered_with_the_one_here(folder: Path) -> None:
    outcome = call("train", "dataset=sample", "optim.learning_rate=1")
    assert outcome.err.startswith("error: unknown key 'optim.learning_rate': expected one such as optim.lr (list them")


@pytest.mark.parametrize(
    ("seconds", "steps", "hours"), [(0.2, WARM + MEASURED, "0.6"), (1.0, 10, "2.8"), (6.0, 2, "16.7")]
)
def test_a_run_of_many_hours_says_so_and_piped_output_has_lines(
    seconds: float, steps: int, hours: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Red if the warning comes later than after these steps: about ten seconds, however slow a step is."""
    now = [0.0]
    console = Console(file=io.StringIO())
    caplog.set_level(logging.INFO, "informer")
    with Tracker({}, n_steps=10_000, console=console, clock=lambda: now[0]) as tracker:
        for step in range(1, WARM + MEASURED + 10):
            now[0] += seconds
            tracker.advance()
            warned = any(record.levelno == logging.WARNING for record in caplog.records)
            assert warned == (step >= steps)
    (warning,) = (record.getMessage() for record in caplog.records if record.levelno == logging.WARNING)
    assert warning.startswith(f"training may take up to about {hours} hours; model=auto")
    lines = [record.getMessage() for record in caplog.records if record.getMessage().startswith("step ")]
    assert lines[:1] == [f"step {EVERY / seconds:.0f} of 10000"][: len(lines)]
    assert len(lines) == (WARM + MEASURED + 9) * seconds // EVERY


def test_a_forecast_is_overwritten_only_on_request(my_csv: Path) -> None:
    done("train", "my.csv", *SMALL, "trainer.max_steps=1")
    first, second, third = (
        call("predict", "input=my.csv", "plots=false", *words) for words in ([], [], ["overwrite=true"])
    )
    assert (first.status, second.status, third.status) == (0, 2, 0)
    assert second.err == (
        "error: output=forecasts: expected a new or empty folder, found my.forecast.csv in it; choose another, or "
        "overwrite=true\n"
    )
