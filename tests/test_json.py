"""Answers for programs: `--json` of every command, and the tools of `informer mcp`."""

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from entry_points import SMALL, call, done

from informer.commands.cli import COMMANDS

FILE = "f.csv"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 320 rows, and a run on it."""
    folder, t = tmp_path_factory.mktemp("json"), np.arange(320)
    rows = pd.DataFrame({"time": pd.date_range("2024", periods=320, freq="h"), "a": np.sin(t / 4) + t % 24})
    rows.to_csv(folder / FILE, index=False)
    rows[:-40].to_csv(folder / "before.csv", index=False)
    rows[-40:].to_csv(folder / "after.csv", index=False)
    return folder


def asked(command: str, *words: str) -> tuple[int, dict[str, Any]]:
    """Exit status and answer of a command, whose standard output must be one JSON object."""
    outcome = call(command, *words, "--json")
    answer: dict[str, Any] = json.loads(outcome.out)
    assert (answer["command"], answer["exit_status"]) == (command, outcome.status)
    return outcome.status, answer


def test_every_command_answers_in_json(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if a command prints something else, a path is wrong, or errors of the baselines are missing."""
    monkeypatch.chdir(folder)
    small = [word for word in SMALL if word != "model=tiny"]
    assert asked("inspect", FILE)[1]["found"][0]["columns"] == ["a"]
    trained = ["model=linear", "dataset=csv", "dataset.path=before.csv", "run_dir=run", *small]
    trained += ["dataset.split.train=170", "dataset.split.val=50", "dataset.split.test=60"]
    _, run = asked("train", *trained)
    assert Path(run["run"], "metrics.json").is_file()
    scored = asked("eval", "checkpoint=run")[1]["scores"]
    assert scored == run["scores"]
    errors = {name: errors["scaled"]["mse"] for name, errors in scored["errors"].items()}
    model, rival = (errors[scored[name]] for name in ("model", "best_baseline"))
    assert scored["skill"] == pytest.approx(1 - model / rival)
    (forecast,) = asked("predict", "checkpoint=run", "input=before.csv", "output=ahead")[1]["forecasts"]
    assert len(pd.read_csv(forecast["forecast"])) == 6
    explained = asked("explain", "run", "before.csv")[1]
    assert Path(explained["explanation"]).is_file()
    assert explained["sources"]
    words = [f"forecasts={forecast['forecast']}", "actuals=after.csv", "history=before.csv"]
    assert {"forecast", "seasonal naive"} <= {*asked("score", *words)[1]["scores"]["overall"]}
    (compared,) = asked("compare", "run")[1]["runs"]
    assert compared["skill"] == pytest.approx(scored["skill"])
    assert Path(asked("report", "run")[1]["report"]).is_file()
    assert Path(asked("export", "checkpoint=run", "format=safetensors")[1]["model"]).is_file()
    assert Path(asked("update", "checkpoint=run", f"input={FILE}", "output=updated")[1]["run"], "best.pt").is_file()
    status, watched = asked("watch", "checkpoint=run", f"input={FILE}")
    assert (watched["verdict"], bool(watched["reason"])) == ({0: "none"}.get(status, watched["verdict"]), True)
    (untrained,) = asked("forecast", FILE, "model=zero", "horizon=6", "output=zero")[1]["forecasts"]
    assert len(pd.read_csv(untrained["forecast"])) == untrained["horizon"] == 6
    assert 0 <= untrained["scores"]["intervals"]["80"]["coverage"] <= 100
    done = {
        "inspect", "train", "eval", "predict", "explain", "score", "compare", "report", "export", "update", "watch",
        "forecast",
    }  # fmt: skip
    assert {*COMMANDS} - done == {"serve", "mcp"}


def test_errors_and_cures_are_in_the_answer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if a program has to read standard error."""
    monkeypatch.chdir(folder)
    text = Path(FILE).read_text().splitlines()
    Path("gap.csv").write_text("\n".join(text[:50] + text[52:]))
    status, answer = asked("inspect", "gap.csv")
    assert (status, answer["found"][0]["problems"], answer["errors"]) == (2, 1, [])
    assert answer["found"][0]["settings"] == ["dataset.fill=linear"]
    status, answer = asked("forecast", "gap.csv")
    assert status == 2
    assert any("dataset.fill=linear" in line for line in answer["errors"])
    assert asked("predict", "checkpoint=no", FILE)[0] == 2
    assert asked("train", "modle=small")[1]["errors"] == [call("train", "modle=small").err[7:].rstrip("\n")]


def used(folder: Path, tool: str, **arguments: Any) -> dict[str, Any]:
    """The answer of a tool, asked by a client."""
    from mcp import Client

    from informer.service.mcp import server

    async def ask() -> Any:
        async with Client(server(folder, budget=1)) as client:
            return (await client.call_tool(tool, arguments)).structured_content

    answer: dict[str, Any] = asyncio.run(ask())
    return answer


@pytest.mark.slow
def test_tools_of_an_assistant(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if a tool fails, or answers without baselines or coverage."""
    monkeypatch.chdir(folder)
    assert used(folder, "inspect", file=FILE)["found"][0]["rows"] == 320
    (forecast,) = used(folder, "forecast", file="before.csv", horizon="6", model="zero")["forecasts"]
    assert len(forecast["rows"].splitlines()) == 7
    assert {forecast["scores"]["model"], "seasonal naive"} <= {*forecast["scores"]["errors"]}
    assert "80" in forecast["scores"]["intervals"]
    scored = used(folder, "score", forecasts=forecast["forecast"], actuals="after.csv", history="before.csv")
    assert "seasonal naive" in scored["scores"]["overall"]
    done("train", "dataset=csv", f"dataset.path={FILE}", *SMALL, "run_dir=shown")
    explained = used(folder, "explain", run="shown", file="before.csv")
    assert not explained["errors"]
    assert (folder / explained["explanation"]).is_file()
    assert used(folder, "explain", run="shown", file="before.csv", changes=["x=1"])["errors"]


@pytest.mark.parametrize("path", ["../f.csv", "/etc/hosts", "s3://bucket/f.csv", "link.csv"])
def test_tools_read_one_folder(path: str, tmp_path: Path) -> None:
    """Red if a file outside of the folder is read."""
    (tmp_path / "inside").mkdir()
    (tmp_path / "f.csv").write_text("time,a\n")
    (tmp_path / "inside" / "link.csv").symlink_to(tmp_path / "f.csv")
    answer = used(tmp_path / "inside", "inspect", file=path)
    assert answer["exit_status"] == 2
    assert "outside of the folder" in answer["errors"][0]
