"""`python -m informer.compare`: sorted by skill, what differs, runs that are left out."""

import json
import shutil
from pathlib import Path

import pytest
from entry_points import Trained, call

from informer.config.positional import quoted_list, split_positional
from informer.reporting.runs import differing_keys


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
    (folder / "runs" / "unfinished").mkdir()
    return folder / "runs"


def test_runs_are_sorted_by_skill_and_say_what_differs(runs: Path) -> None:
    outcome = call("compare", *(f"runs/{path.name}" for path in sorted(runs.iterdir())))
    assert outcome.status == 0, outcome.err
    lines = outcome.out.splitlines()
    names = [line.split()[0] for line in lines if line.strip() and line.split()[0] in ("a", "b", "c", "latest")]
    assert names == ["b", "a", "c"]
    assert "b: optim.lr=0.002" in lines
    assert "a: optim.lr=0.001" in lines
    assert any("skipped, without metrics.json and config.yaml: runs/unfinished" in line for line in lines)
    assert "cannot be compared" not in outcome.out
    assert "lowest MSE" not in outcome.out  # copies of one run


def test_a_lower_error_with_a_lower_skill_is_explained(runs: Path) -> None:
    """Red if the order by skill is the only word: a run with stronger baselines has the lower skill."""
    path = runs / "a" / "metrics.json"
    saved = json.loads(path.read_text())
    saved["scores"][saved["model"]]["scaled"]["overall"]["mse"] *= 0.5
    path.write_text(json.dumps(saved))
    assert "a has the lowest MSE" in call("compare", "runs/a", "runs/b").out


def test_other_data_are_said(runs: Path) -> None:
    facts = json.loads((runs / "b" / "run.json").read_text())
    facts["data"]["sha256"] = "0"
    (runs / "b" / "run.json").write_text(json.dumps(facts))
    assert "cannot be compared" in call("compare", "runs/a", "runs/b").out


def test_the_page_and_names_with_signs(runs: Path) -> None:
    (runs / "a").rename(runs / "a, 'b' <i>")
    outcome = call("compare", "runs/a, 'b' <i>", "runs/b", "output=page.html")
    assert outcome.status == 0, outcome.err
    page = Path("page.html").read_text()
    assert "a, &#x27;b&#x27; &lt;i&gt;" in page
    assert "<i>" not in page


@pytest.mark.parametrize("given", [[], ["runs/unfinished"], ["elsewhere"]])
def test_without_any_run_it_is_one_line(runs: Path, given: list[str]) -> None:
    outcome = call("compare", *given)
    assert (outcome.status, len(outcome.err.splitlines())) == (2, 1), outcome.err
    assert "runs: expected" in outcome.err


@pytest.mark.parametrize("text", ["{", "[]", '{"model": "m"}', '{"model": "m", "scores": {"m": {"scaled": {}}}}'])
def test_a_damaged_run_is_named_and_does_not_stop_the_others(text: str, runs: Path) -> None:
    """Red if one error ends the comparison, or its run is left out without a word."""
    (runs / "b" / "metrics.json").write_text(text)
    outcome = call("compare", "runs/a", "runs/b")
    assert outcome.status == 0, outcome.err
    (line,) = [line for line in outcome.out.splitlines() if line.startswith("skipped")]
    assert line.startswith("skipped, damaged: ")
    assert "runs/b: expected the scores" in line
    alone = call("compare", "runs/b")
    assert (alone.status, len(alone.err.splitlines())) == (2, 1)
    assert "runs/b: expected the scores" in alone.err


def test_runs_are_left_out_for_their_own_reason(runs: Path) -> None:
    (runs / "c" / "metrics.json").unlink()
    outcome = call("compare", "runs/a", "runs/b", "runs/c", "runs/unfinished/none", "runs/latest")
    skipped = [line for line in outcome.out.splitlines() if line.startswith("skipped")]
    assert any("interrupted" in line and "resume=RUN" in line and line.endswith("runs/c") for line in skipped)
    assert any("no such folder" in line and line.endswith("runs/unfinished/none") for line in skipped)


@pytest.mark.parametrize("given", ["runs", "runs/*", "runs/[abc]"])
def test_a_folder_of_runs_and_a_pattern_are_its_runs(given: str, runs: Path) -> None:
    outcome = call("compare", given)
    assert outcome.status == 0, outcome.err
    shown = [line.split()[0] for line in outcome.out.splitlines() if line.strip()]
    assert [name for name in shown if name in ("a", "b", "c", "latest")] == ["b", "a", "c"]
    assert "latest" not in outcome.out


def test_folders_of_one_name_are_told_apart_by_their_paths(runs: Path) -> None:
    shutil.copytree(runs / "a", "elsewhere/a")
    outcome = call("compare", "runs/a", "elsewhere/a", "runs/b")
    shown = [line.split()[0] for line in outcome.out.splitlines() if line.strip()]
    assert {"runs/a", "elsewhere/a", "b"} <= set(shown)


def test_keys_of_one_family_and_what_a_search_found_are_no_differences() -> None:
    """Red if every key that a family lacks is listed for all runs."""
    network = {"model.family": "informer", "model.d_model": "16", "model.n_heads": "2", "model.maps": "[]"}
    linear = {"model.family": "linear", "model.own_maps": "true", "model.maps": "[1]"}
    found = differing_keys([network, network | {"model.d_model": "32"}, linear])
    assert found == ["model.d_model", "model.family"]


def test_paths_are_told_from_keys(folder: Path) -> None:
    (folder / "odd=name").mkdir()
    found = split_positional(["one", "key=1", "odd=name", "--cfg", "job", "--multirun", "two", "-m", "three"])
    assert found == (["one", "odd=name", "two", "three"], ["key=1", "--cfg", "job", "--multirun", "-m"])
    assert quoted_list(["a", "b'c", "d\\"]) == r"['a','b\'c','d\\']"
