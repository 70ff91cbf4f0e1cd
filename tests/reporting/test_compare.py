"""`informer compare`: sorted by skill, what differs, runs that are left out."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import Trained, call, done, refusal
from scipy.stats import ttest_rel

from informer import Forecaster


@pytest.fixture
def runs(trained: Trained, folder: Path) -> Path:
    """Three copies of a run with other skills and learning rates, a name of one of them, and an unfinished run."""
    for name, skill, lr in (("a", 0.1, "0.001"), ("b", 0.3, "0.002"), ("c", None, "0.001")):
        shutil.copytree(trained.run_dir, folder / "runs" / name)
        path = folder / "runs" / name / "metrics.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"skill": skill}))
        config = folder / "runs" / name / "config.yaml"
        text = config.read_text()
        (line,) = [each for each in text.splitlines() if each.startswith("  lr:")]
        config.write_text(text.replace(line, f"  lr: {lr}"))
    (folder / "runs" / "latest").write_text("a\n")
    (folder / "runs" / "mlflow.db").touch()
    (folder / "runs" / "mlartifacts" / "0123").mkdir(parents=True)
    (folder / "runs" / "unfinished").mkdir()
    return folder / "runs"


def ranked(out: str) -> list[str]:
    """Names of the runs in the table of scores, which numbers them."""
    rows = [line.split() for line in out.splitlines()]
    return [row[1] for row in rows if len(row) > 4 and row[0].isdigit()]


def test_runs_are_sorted_by_skill_and_say_what_differs(runs: Path) -> None:
    outcome = done("compare", *(f"runs/{path.name}" for path in sorted(runs.iterdir())))
    lines = outcome.out.splitlines()
    assert ranked(outcome.out) == ["b", "a", "c"]
    assert [line.split() for line in lines[-3:-1]] == [["optim.lr", "0.002", "1"], ["0.001", "2,", "3"]]
    assert [line for line in lines if "skipped" in line] == [
        "skipped, without metrics.json and config.yaml: runs/unfinished"
    ]
    assert "cannot be compared" not in outcome.out
    assert "lowest MSE" not in outcome.out  # copies of one run


def test_a_lower_error_with_a_lower_skill_is_explained(runs: Path) -> None:
    """Fails if only the order by skill is given: a run with stronger baselines has the lower skill."""
    path = runs / "a" / "metrics.json"
    saved = json.loads(path.read_text())
    saved["scores"][saved["model"]]["scaled"]["overall"]["mse"] *= 0.5
    path.write_text(json.dumps(saved))
    assert "a (informer, prob, 4 columns) has the lowest MSE" in call("compare", "runs/a", "runs/b").out


def test_means_over_seeds_with_a_paired_test(runs: Path) -> None:
    """Red if the interval is not that of scipy's paired test, or a configuration with one seed is in the table."""
    errors = {"0.001": [0.5, 0.62, 0.55], "0.002": [0.41, 0.52, 0.47]}
    shutil.rmtree(runs / "c")
    for name, lr in (("a", "0.001"), ("b", "0.002")):
        for seed, error in enumerate(errors[lr]):
            copy = runs / f"{name}{seed}"
            shutil.copytree(runs / name, copy)
            (copy / "config.yaml").write_text(
                re.sub("(?m)^seed: .*$", f"seed: {seed}", (copy / "config.yaml").read_text())
            )
            saved = json.loads((copy / "metrics.json").read_text())
            saved["scores"][saved["model"]]["scaled"]["overall"]["mse"] = error
            (copy / "metrics.json").write_text(json.dumps(saved))
        shutil.rmtree(runs / name)
    interval = ttest_rel(errors["0.001"], errors["0.002"]).confidence_interval()
    low, high = (100 * end / np.mean(errors["0.002"]) for end in interval)
    shown = " ".join(call("compare", "runs").out.partition("Means over seeds")[2].split())
    best, other = (f"{np.mean(own):.4g} ± {np.std(own, ddof=1):.2g}" for own in (errors["0.002"], errors["0.001"]))
    assert f"optim.lr=0.002 0-2 {best}" in shown
    assert f"optim.lr=0.001 0-2 {other}" in shown
    assert f"({low:+.1f} to {high:+.1f})" in shown
    shutil.rmtree(runs / "a0"), shutil.rmtree(runs / "a1")
    shown = call("compare", "runs").out.partition("Means over seeds")[2]
    assert "±" in shown
    assert "optim.lr" not in shown


def test_other_data_and_mechanisms_are_named(runs: Path) -> None:
    path, facts = runs / "b" / "config.yaml", json.loads((runs / "b" / "run.json").read_text())
    changed = re.sub("(?m)^decoder_attn_reason: .*$", "decoder_attn_reason: no causal form", path.read_text())
    path.write_text(changed)
    facts["data"]["sha256"] = "0"
    (runs / "b" / "run.json").write_text(json.dumps(facts))
    out = call("compare", "runs/a", "runs/b").out
    assert "run 1: no causal form" in out
    assert "cannot be compared" in out


def test_a_run_from_python_is_named_by_model_and_target(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if the only name of such a run is that of its folder, of its table `frame`, or its command is one of ours."""
    monkeypatch.setattr("sys.argv", [str(folder / "my_fit.py"), "7"])
    frame = pd.DataFrame({"date": pd.date_range("2021-01-01", periods=320, freq="h"), "load": np.arange(320.0) % 24})
    Forecaster("linear", target="load", seq_len=48, pred_len=6, run_dir="runs/first").fit(frame)
    assert "1 first (linear, load)" in call("compare", "runs").out
    done("report", "runs/first")
    page = Path("runs/first/report.html").read_text()
    assert "<title>load: 6 hours ahead</title>" in page
    assert '<pre id="command">python my_fit.py 7</pre>' in page


@pytest.mark.parametrize("text", ["{", '{"model": "m", "scores": {"m": {"scaled": {}}}}'])
def test_a_damaged_run_is_named_and_does_not_stop_the_others(text: str, runs: Path) -> None:
    """Red if one error ends the comparison, or its run is left out without a word."""
    (runs / "b" / "metrics.json").write_text(text)
    outcome = done("compare", "runs/a", "runs/b")
    (line,) = [line for line in outcome.out.splitlines() if line.startswith("skipped")]
    assert line.startswith("skipped, damaged: ")
    assert "runs/b: expected the scores" in line
    assert "runs/b: expected the scores" in refusal("compare", "runs/b")


def test_runs_are_left_out_for_their_own_reason(runs: Path) -> None:
    (runs / "c" / "metrics.json").unlink()
    outcome = call("compare", "runs/a", "runs/b", "runs/c", "runs/unfinished/none", "runs/latest")
    skipped = [line for line in outcome.out.splitlines() if line.startswith("skipped")]
    assert any("interrupted" in line and "resume=RUN" in line and line.endswith("runs/c") for line in skipped)
    assert any("no such folder" in line and line.endswith("runs/unfinished/none") for line in skipped)


def test_folders_patterns_and_names(runs: Path) -> None:
    """Folders of one name are told apart by their paths; a path may look like a setting."""
    for given in ("runs", "runs/*", "runs/[abc]"):
        outcome = done("compare", given)
        assert ranked(outcome.out) == ["b", "a", "c"]
        assert "latest" not in outcome.out
    shutil.copytree(runs / "a", "elsewhere/a")
    shutil.copytree(runs / "c", "odd=name")
    outcome = call("compare", "runs/a", "elsewhere/a", "runs/b", "odd=name")
    assert {*ranked(outcome.out)} == {"runs/a", "elsewhere/a", "b", "odd=name"}


def test_the_tables_keep_to_the_width_and_long_names_are_whole(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if a name or value is cut, or a row is longer than the terminal; names with brackets are no markup."""
    name = "a_name_" * 12 + "[red]"
    (runs / "b").rename(runs / name)
    monkeypatch.setenv("COLUMNS", "40")
    outcome = done("compare", "runs")
    notes = ("skipped", "these runs")
    rows = [line for line in outcome.out.splitlines() if not line.startswith(notes)]
    assert max(map(len, rows)) <= 40
    column = slice(rows[1].index("run"), rows[1].index("skill") - len("+ "))  # "+30.0 %" is that much wider
    start, stop = (next(i for i, row in enumerate(rows) if row.split()[:1] == [n]) for n in ("1", "2"))
    shown = "".join(row[column].strip() for row in rows[start:stop])
    assert shown.replace(" ", "") == f"{name}(informer,prob,4columns)"
