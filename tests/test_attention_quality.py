"""scripts/attention_quality.py: its figures against loops, and that a figure is computed once."""

import csv
import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from entry_points import ROOT


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return importlib.import_module("attention_quality")


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores)
    return powers / powers.sum()


def test_error_of_topk_against_a_loop(script: ModuleType) -> None:
    """Red if the error is not relative, or the scale does not reach the scores."""
    inputs = script.Inputs(length=12, heads=2, width=4, scale=0.9, seeds=1)
    q, k = (x.numpy() for x in inputs.draw(3, factor=2**0.5))
    wrong = right = 0.0
    for head, i in np.ndindex(2, 12):
        scores = np.array([q[0, head, i] @ key / 2 for key in k[0, head]])
        full, kept = softmax(scores), np.zeros(12)
        best = np.argsort(-scores)[:3]
        kept[best] = softmax(scores[best])
        wrong, right = wrong + ((kept - full) ** 2).sum(), right + (full**2).sum()
    error = script.relative_error(inputs, "topk", 3, 2**0.5, k=3)
    assert error == pytest.approx((wrong / right) ** 0.5)
    assert script.relative_error(inputs, "topk", 3, k=12) == pytest.approx(0)


def test_recall_against_a_loop(script: ModuleType) -> None:
    """Red if queries are counted that only one of the rankings has on top."""
    inputs = script.Inputs(length=40, heads=2, width=4, scale=1.0, seeds=1)
    q, k = inputs.draw(5)
    shares = []
    for head in range(2):
        products = (q[0, head] @ k[0, head].T).numpy()
        exact = products.max(1) - products.mean(1)
        soft = np.log(np.exp(products / 2).sum(1)) - products.mean(1) / 2
        top = [set(np.argsort(-measure)[:4]) for measure in (exact, soft)]
        shares.append(len(top[0] & top[1]) / 4)
    assert script.top_recall("lse", q, k, factor=1) == pytest.approx(np.mean(shares))
    torch.manual_seed(0)
    assert 0 <= script.top_recall("per_query", q, k, factor=1) <= 1


def test_a_figure_is_computed_once(script: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def call(*arguments: str) -> None:
        fixed = ["--only", "topk", "--seeds", "2", "--heads", "1", "--width", "4", "--output", "out"]
        monkeypatch.setattr(sys, "argv", ["attention_quality.py", *fixed, *arguments])
        script.main()

    call("--length", "8")
    with Path("out/topk.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["x"] for row in rows] == ["1", "2", "4", "8"] * 3
    assert all(float(row["value"]) < 1e-9 for row in rows if row["x"] == "8")
    assert Path("out/topk.png").read_bytes().startswith(b"\x89PNG")
    before, table = Path("out/topk.csv").read_bytes(), Path("out/table.md").read_text()
    monkeypatch.setitem(script.FIGURES, "topk", (lambda inputs: pytest.fail("again"), "k", True))
    call("--length", "8")
    assert (Path("out/topk.csv").read_bytes(), Path("out/table.md").read_text()) == (before, table)
    with pytest.raises(SystemExit, match="found those of another"):
        call("--length", "16")
