"""`python -m informer.compare`: sorted by skill, what differs, runs that are left out."""

import json
import shutil
from pathlib import Path

import pytest
from entry_points import Trained, call

from informer.config.positional import quoted_list, split_positional


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
    assert any("skipped, without scores: runs/unfinished" in line for line in lines)
    assert "cannot be compared" not in outcome.out


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


def test_a_run_with_broken_scores_is_named(runs: Path) -> None:
    (runs / "b" / "metrics.json").write_text("{")
    outcome = call("compare", "runs/a", "runs/b")
    assert outcome.status == 2
    assert "runs/b: expected the scores" in outcome.err


def test_paths_are_told_from_keys(folder: Path) -> None:
    (folder / "odd=name").mkdir()
    found = split_positional(["one", "key=1", "odd=name", "--cfg", "job", "two"])
    assert found == (["one", "odd=name", "two"], ["key=1", "--cfg", "job"])
    assert quoted_list(["a", "b'c", "d\\"]) == r"['a','b\'c','d\\']"
