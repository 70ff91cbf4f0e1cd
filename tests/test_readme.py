"""Every command of the README runs: with small settings appended, on files made here."""

import re
import shlex
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from entry_points import ROOT, SMALL, call
from published_files import published_folder

from informer import Forecaster
from informer.checkpoint.paths import resolve_latest

README = (ROOT / "README.md").read_text(encoding="utf-8")
SHORT = ["seq_len=24", "label_len=12", "trainer.max_steps=2", "trainer.time_budget_minutes=0.05"]
"""Keys that make a search of the README's own command a matter of seconds."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)


def commands(section: str) -> list[list[str]]:
    """The informer commands below a heading, as words from `informer.train` on."""
    body = README.partition(f"## {section}\n")[2].partition("\n## ")[0]
    lines = [
        line
        for block in re.findall(r"^```\n(.*?)^```", body, flags=re.DOTALL | re.MULTILINE)
        for line in block.split("\n")
    ]
    written = [line.replace("python -m informer.", "informer ") for line in lines]
    words = [shlex.split(line, comments=True) for line in written if line.startswith("informer ")]
    return [[f"informer.{name}", *others] for _, name, *others in words]


def run(words: list[str], *more: str) -> None:
    outcome = call(words[0].partition(".")[2], *words[1:], *more, checked=True)
    assert (outcome.status, outcome.err) == (0, ""), outcome.err


@pytest.fixture
def my_csv(folder: Path) -> pd.DataFrame:
    """`my.csv` with a column `sales`, 2,500 hourly rows."""
    frame = pd.read_csv(ROOT / "data" / "sample.csv").iloc[:2500].rename(columns={"demand": "sales"})
    frame.to_csv("my.csv", index=False)
    return frame


def test_the_readme_is_short_and_its_commands_are_found() -> None:
    """Red when a section is renamed, so that the tests below would run nothing."""
    assert len(README.splitlines()) < 120
    assert [words[0] for words in commands("Your own CSV")] == [
        f"informer.{name}" for name in ("forecast", "inspect", "train", "predict", "report")
    ]
    assert [words[0] for words in commands("The paper's experiments")] == [
        f"informer.{name}" for name in ("train", "eval", "train")
    ]


@pytest.mark.slow
def test_the_path_of_a_file_of_ones_own(my_csv: pd.DataFrame) -> None:
    forecast, inspect, train, predict, report = commands("Your own CSV")
    run(forecast, "budget=0.1", "output=one")
    assert Path("one/report.html").stat().st_size > 1e6
    run(inspect)
    run(train, *SHORT)
    run(predict)
    assert "sales_hi95" in pd.read_csv("forecasts/my.forecast.csv").columns
    run(report)
    assert resolve_latest("runs/latest/report.html").stat().st_size > 1e6


@pytest.mark.slow
def test_the_papers_experiments(folder: Path) -> None:
    data = f"data_dir={published_folder('ETTh1.csv')}"
    train, evaluate, many = commands("The paper's experiments")
    run(train, data, *SMALL, "trainer.max_steps=2")
    run(evaluate, data)
    run(many, data, *SMALL, "trainer.max_steps=1")
    assert len(list(folder.rglob("best.pt"))) == 5


@pytest.mark.slow
def test_the_python_block(my_csv: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = Forecaster.fit
    small = {"seq_len": 24, "label_len": 12, "pred_len": 6, "trainer.max_steps": 2, "trainer.time_budget_minutes": 0.05}

    def fitted(frame: pd.DataFrame, **config: Any) -> Forecaster:
        del config["trainer"]  # the budget, in minutes
        return fit(frame, **config | small)

    monkeypatch.setattr(Forecaster, "fit", fitted)
    (block,) = blocks("python")
    names: dict[str, Any] = {"frame": my_csv.assign(date=pd.to_datetime(my_csv["date"]))}
    exec(block, names)
    assert list(names["forecast"].columns[:2]) == ["date", "sales"]
    assert "sales_lo80" in names["forecast"].columns


def test_every_link_leads_to_a_file() -> None:
    """Red when a document is moved and a page still names its old place."""
    wrong = []
    for page in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        # the front page of the site leads to pages made by its build, which checks them
        *(page for page in (ROOT / "docs").glob("*.md") if page.name != "index.md"),
        *(ROOT / "data").glob("*.md"),
    ]:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
            if "://" not in target and not (page.parent / target).exists():
                wrong.append(f"{page.name}: {target}")
    assert wrong == []
