"""Answers for programs: `--json` of every command, and the tools of `informer mcp`."""

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from entry_points import COMMANDS, SMALL, call, done

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
    asked("predict", "checkpoint=run", "input=before.csv", "output=again", "log=log.csv")
    status, watched = asked("watch", "log=log.csv", f"actuals={FILE}")
    assert (status, watched["verdict"], bool(watched["reason"])) == (0, "ok", True)
    (untrained,) = asked("forecast", FILE, "model=zero", "horizon=6", "output=zero")[1]["forecasts"]
    assert len(pd.read_csv(untrained["forecast"])) == untrained["horizon"] == 6
    assert 0 <= untrained["scores"]["intervals"]["80"]["coverage"] <= 100
    board = asked("leaderboard", FILE, "horizon=6", "models=[theta,naive]")[1]
    assert {row["model"] for row in board["models"]} == {"theta", "naive"}
    done = {
        "inspect", "leaderboard", "train", "eval", "predict", "explain", "score", "compare", "report", "export",
        "watch", "forecast",
    }  # fmt: skip
    assert {*COMMANDS} - done == {"serve", "mcp"}


def test_errors_and_cures_are_in_the_answer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if a program has to read standard error."""
    monkeypatch.chdir(folder)
    text = Path(FILE).read_text().splitlines()
    Path("gap.csv").write_text("\n".join(text[:50] + text[52:]))
    status, answer = asked("inspect", "gap.csv")
    assert (status, answer["found"][0]["problems"], answer["errors"]) == (2, 1, [])
    (problem,) = answer["found"][0]["found"]
    assert (problem["code"], problem["table"], problem["column"]) == ("gap", "gap.csv", "time")
    assert [setting.partition("=")[0] for setting in problem["settings"]] == ["dataset.fill"]
    assert answer["found"][0]["settings"] == ["dataset.fill=linear"]
    status, answer = asked("forecast", "gap.csv")
    assert (status, answer["code"]) == (2, "gap")
    assert any("dataset.fill=linear" in line for line in answer["errors"])


def used(folder: Path, tool: str, **arguments: Any) -> dict[str, Any]:
    """The answer of a tool, asked by a client."""
    from mcp import Client

    from informer.service.mcp import server

    async def ask() -> Any:
        async with Client(server(folder)) as client:
            return (await client.call_tool(tool, arguments)).structured_content

    answer: dict[str, Any] = asyncio.run(ask())
    return answer


@pytest.mark.slow
def test_tools_of_an_assistant(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if a tool fails, or answers without baselines or coverage."""
    monkeypatch.chdir(folder)
    assert used(folder, "inspect", file=FILE)["found"][0]["rows"] == 320
    (forecast,) = used(folder, "forecast", file="before.csv", horizon="6")["forecasts"]
    assert len(forecast["rows"].splitlines()) == 7
    assert {forecast["scores"]["model"], "seasonal naive"} <= {*forecast["scores"]["errors"]}
    assert "80" in forecast["scores"]["intervals"]
    scored = used(folder, "score", forecasts=forecast["forecast"], actuals="after.csv", history="before.csv")
    assert "seasonal naive" in scored["scores"]["overall"]
    done("train", "dataset=csv", f"dataset.path={FILE}", *SMALL, "run_dir=shown")
    explained = used(folder, "explain", run="shown", file="before.csv")
    assert not explained["errors"]
    assert (folder / explained["explanation"]).is_file()
    changed = used(folder, "explain", run="shown", file="before.csv", changes=["x, [y=1"])
    assert "x, [y is not read by this model" in changed["errors"][0]
    Path("quoted.csv").write_text(Path("before.csv").read_text().replace("time,a", "time,'a'"))
    (forecast,) = used(folder, "forecast", file="quoted.csv", target="'a'", horizon="6", model="zero")["forecasts"]
    assert "'a'" in forecast["rows"].splitlines()[0]


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder next to a table and a run, both outside of it, with links to them."""
    served, run = tmp_path / "served", tmp_path / "run"
    for folder in (served / "own_run", run):
        folder.mkdir(parents=True)
    (tmp_path / "f.csv").write_text("time,secret\n")
    (run / "best.safetensors").write_text("secret")
    (served / "link.csv").symlink_to(tmp_path / "f.csv")
    (served / "linked_run").symlink_to(run)
    (served / "own_run" / "explanation").symlink_to(tmp_path)
    (served / "own.csv").write_text("time,a\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    return served


OUT, NONE = "outside of the folder", "in the folder of this server, found none"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("../f.csv", OUT), ("link.csv", OUT), ("no/../../f.csv", OUT), ("s3://bucket/f.csv", NONE), ("~/f.csv", NONE),
        ("'{outside}/f.csv'", NONE), ("*.csv", NONE), ("own.csv dataset.path={outside}/f.csv", NONE),
        ("own.csv\0", "found embedded null byte"),
    ],
)  # fmt: skip
def test_tools_read_one_folder(name: str, said: str, served: Path) -> None:
    """Red if a file outside of the folder is read, or a name becomes more than a name. Every argument that is a file
    is tried, with a run in the folder for `explain`."""
    name, own = name.format(outside=served.parent), "own.csv"
    (served / "own_run" / "explanation").unlink()
    for tool, arguments in (
        ("inspect", {"file": name}),
        ("forecast", {"file": name}),
        ("explain", {"run": "own_run", "file": name}),
        ("explain", {"run": "own_run", "file": own, "future": name}),
        ("score", {"forecasts": name, "actuals": own, "history": own}),
        ("score", {"forecasts": own, "actuals": name, "history": own}),
        ("score", {"forecasts": own, "actuals": own, "history": name}),
    ):
        answer = used(served, tool, **arguments)
        assert answer["exit_status"] == 2
        assert said in answer["errors"][0]
        assert len(answer["errors"]) == 1


@pytest.mark.parametrize(
    ("run", "said"),
    [("../run", OUT), ("linked_run", OUT), ("own_run", OUT), ("~/run", NONE)],
)
def test_tools_write_to_one_folder(run: str, said: str, served: Path) -> None:
    """Red if a run outside of the folder is explained, or one in it with a link that leads out."""
    answer = used(served, "explain", run=run.format(outside=served.parent), file="own.csv")
    assert said in answer["errors"][0]
    (served / "runs").symlink_to(served.parent)
    assert "runs: outside" in used(served, "forecast", file="own.csv")["errors"][0]


@pytest.mark.slow
def test_a_tool_imports_nothing_from_the_folder(served: Path) -> None:
    """Red if a module of the folder is run in place of the package."""
    for name in ("informer.py", "json.py"):
        (served / name).write_text("raise SystemExit(77)")
    assert used(served, "inspect", file="own.csv")["exit_status"] == 2


def test_a_command_that_was_killed_is_an_error(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if no answer is read as JSON. A process that starts Python with this folder kills itself."""
    (served / "sitecustomize.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    monkeypatch.setenv("PYTHONPATH", str(served))
    answer = used(served, "inspect", file="own.csv")
    assert (answer["command"], answer["exit_status"]) == ("inspect", -9)
    assert answer["errors"][0].startswith("inspect: ended with status -9 before it answered")
