"""Every command and every Python block of the documents runs, on files made here, and leaves what it promises.

A story is a heading of a page: its commands run in order in one folder, with the settings of `story_table.py` that make
them short. Red if a command fails, prints other words than the page shows, or does not write what a user opens next.
"""

import ast
import json
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import story_table as table
from documents import COMMANDS, Command, Story, commands, parts, stories
from entry_points import Outcome, call
from served import serving
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

STORIES = list(stories())
NUMBER = re.compile(r"(?<!\w)[\d.,]*\d")
SERVICE = "127.0.0.1:8000"

Prepared = Callable[[str], Path]


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where data sets by name are: files of the shape of the published ones."""
    folder = tmp_path_factory.mktemp("data")
    for name, made in table.PUBLISHED.items():
        made().to_csv(folder / name, index=False)
    return folder


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """The folder in which a run of `table.RUNS` is; it is trained when it is first read."""
    folders: dict[str, Path] = {}

    def train(name: str) -> Path:
        if name not in folders:
            folders[name] = tmp_path_factory.mktemp("prepared")
            with pytest.MonkeyPatch.context() as own:
                own.chdir(folders[name])
                command = table.RUNS[name]
                make_inputs(command, train)
                outcome = call(*command.split())
                assert outcome.status == 0, outcome.err
        return folders[name]

    return train


@pytest.mark.parametrize(
    "story",
    [pytest.param(story, marks=[pytest.mark.slow] if re.search(table.SLOW, str(story)) else []) for story in STORIES],
    ids=str,
)
def test_it_happens_as_told(
    story: Story, folder: Path, data_dir: Path, prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFORMER_DATA_DIR", str(data_dir))
    said: list[str] = []
    skipped: set[str] = set()
    with ExitStack() as services:
        for block in story.blocks:
            text = block.text
            if SERVICE in text and "docker " not in text:
                name = "RUN" if "future" in text else "runs/latest"
                make_inputs(name, prepared)
                service = services.enter_context(serving(f"checkpoint={name}"))
                text = text.replace(SERVICE, f"{service.host}:{service.port}")
            if block.language == "python":
                run_python(table.replaced(text), prepared)
                said.append("")
            elif block.language == "json" and said:
                assert keys_of(json.loads(text)) <= keys_of(json.loads(said[-1]))
            elif block.language in COMMANDS:
                for command in commands(text):
                    for words in parts(command.line):
                        if reason := table.reason_to_skip(words):
                            skipped.add(reason)
                        else:
                            run_words = [new for word in words if (new := table.replaced(word))]
                            said.append(run(run_words, command, story.page, prepared))
    if not said:
        pytest.skip("; ".join(sorted(skipped)))


def run(words: list[str], command: Command, page: str, prepared: Prepared) -> str:
    """Run a command as a user does; returns what it prints."""
    line = " ".join(words)
    make_inputs(line, prepared)
    before = runs()
    outcome = outcome_of(words, page)
    assert outcome.status in table.statuses(line), f"{line}\n{outcome.out}\n{outcome.err}"
    said = {plain(text) for text in outcome.out.splitlines()}
    shown = [plain(text) for text in command.prints if text.strip(". ") and not NUMBER.search(text)]
    assert [text for text in shown if text not in said] == [], outcome.out
    entry, _ = table.entry_and_settings(words) or ("", [])
    if look := LOOKS.get(entry):
        look(dict(word.partition("=")[::2] for word in words), outcome.out, sorted(runs() - before))
    return outcome.out


def outcome_of(words: list[str], page: str) -> Outcome:
    if words[0] == "head":
        return Outcome(0, "\n".join(Path(words[-1]).read_text().splitlines()[: -int(words[1])]), "")
    if words[:2] == ["python", "-c"]:
        exec(words[2], {})
        return Outcome(0, "", "")
    if words[0] == "curl":
        return process(words)
    command = table.entry_and_settings(words)
    assert command, f"{words}: write a line in SKIPPED, or the language of the block: text, csv, json or yaml"
    entry, settings = command
    if entry == "serve":
        with serving(*settings) as service:
            return Outcome(0, str(service.ask("GET", "/health").json), "")
    appended = table.appended(entry, settings)
    if re.search(table.PROCESSES, f"{page}: {' '.join(words)}"):
        return process([*words, *appended])
    return call(entry, *settings, *appended)


def process(words: list[str]) -> Outcome:
    here = Path(sys.executable)
    program = {"python": str(here), "informer": str(here.with_name("informer"))}.get(words[0], words[0])
    done = subprocess.run([program, *words[1:]], capture_output=True, text=True, check=False)
    return Outcome(done.returncode, done.stdout, done.stderr)


def run_python(text: str, prepared: Prepared) -> None:
    """Run a block, in which the names of `table.NAMES` that it does not make are made before."""
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)]
    own = {node.id for node in nodes if isinstance(node.ctx, ast.Store)}
    lines = [line for name, line in table.NAMES.items() if name in {node.id for node in nodes} - own]
    make_inputs("\n".join([*lines, text]), prepared)
    names: dict[str, Any] = {"__name__": "story"}
    exec("\n".join([*lines, text]), names)
    if isinstance(forecast := names.get("forecast"), pd.DataFrame):
        numbers = forecast.select_dtypes("number")
        assert np.isfinite(numbers).all(axis=None)
        assert any(name.endswith("_lo80") for name in numbers)


def make_inputs(text: str, prepared: Prepared) -> None:
    """Make the files and runs that a text names and that are not there, unless it says that it writes them."""
    read = re.sub(r"(run_dir|output)=\S+", "", text)
    for name in table.FILES:
        if re.search(rf"(?<![\w/.]){re.escape(name)}\b|(?<![\w/.]){re.escape(name.split('/')[0])}(?![\w.])", read):
            table.write(name)
    for name in table.RUNS:
        if re.search(rf"(?<![\w/.]){name}\b(?!=)", read) and not Path(name).exists():
            shutil.copytree(prepared(name), ".", dirs_exist_ok=True)


def runs() -> set[Path]:
    """Folders of runs in the folder of the story."""
    return {path.parent for path in Path().rglob("best.safetensors")}


def plain(text: str) -> str:
    """A printed line without its spacing."""
    return " ".join(text.split())


def keys_of(value: Any, name: str = "") -> set[str]:
    """The dotted keys of JSON, of a list those of its first value."""
    if isinstance(value, list):
        return keys_of(value[0], name) if value else set()
    if not isinstance(value, dict):
        return set()
    return {f"{name}.{key}" for key in value}.union(*(keys_of(value[key], f"{name}.{key}") for key in value))


def a_forecast(settings: dict[str, str], out: str, new: list[Path]) -> None:
    """A folder with a page, forecasts of the horizon with intervals, and scores, or a line that says why not."""
    folder = Path(json.loads(out)["forecasts"][0]["report"] if out.startswith("{") else said_path("Report", out)).parent
    assert (folder / "report.html").stat().st_size > 100_000
    if "too short for a test forecast" not in out:
        assert json.loads((folder / "metrics.json").read_text())
        assert re.search(r"Intervals\W+80 % cover \d+ %, 95 %", out)
    tables = [pd.read_csv(file) for file in (folder / "forecasts").glob("*.csv")]
    assert tables
    for written in tables:
        assert {name[-4:] for name in written if name[-2:].isdigit()} == {"lo80", "hi80", "lo95", "hi95"}
        assert len(written) % int(settings.get("horizon", "1").removesuffix("day")) == 0
    assert (folder / "totals.csv").exists() == ("total" in settings)


def a_finding(settings: dict[str, str], out: str, new: list[Path]) -> None:
    """The name of the file comes first, the command that trains last."""
    assert out.startswith("file: ")
    assert "informer train " in out.splitlines()[-1]


def trained_runs(settings: dict[str, str], out: str, new: list[Path]) -> None:
    """A run for each combination of the values of a sweep; its losses are in TensorBoard as in the table."""
    sweep = [value.count(",") + 1 for value in settings.values() if "--multirun" in settings and "[" not in value]
    assert len(new) == math.prod(sweep)
    for run in new:
        files = {"config.yaml", "run.json", "train.log", "metrics.json", "metrics.csv", "test_forecasts.parquet"}
        assert files <= {path.name for path in run.iterdir()}
        scores = pd.read_csv(run / "metrics.csv")
        assert np.isfinite(scores[scores["metric"] == "mse"]["value"]).all()
        losses, events = pd.read_csv(run / "losses.csv"), EventAccumulator(str(run)).Reload()
        for column in ("train_loss", "val_loss"):
            told = losses[column].dropna()
            points = events.Scalars(column.replace("_", "/")) if len(told) else []
            assert [point.value for point in points] == pytest.approx(list(told))


def predictions(settings: dict[str, str], out: str, new: list[Path]) -> None:
    """A file of forecasts, or of forecasts from many origins with their scores."""
    folder = Path(settings.get("output", "forecasts"))
    if settings.get("mode") == "rolling":
        (file,) = folder.glob("*.rolling.metrics.csv")
        assert {"mse", "mae"} <= set(pd.read_csv(file)["metric"])
    else:
        (file,) = folder.glob("*.forecast.csv")
        levels = re.findall(r"\d+", settings.get("intervals", ""))
        names = [*pd.read_csv(file)]
        assert all(any(name.endswith(f"_lo{level}") for name in names) for level in levels)


def written_paths(settings: dict[str, str], out: str, new: list[Path]) -> None:
    """The files and folders that the last lines name."""
    paths = re.findall(r"[\w./-]+\.(?:html|csv|json|safetensors|onnx)\b", out)
    assert paths
    assert [path for path in paths if not Path(path).exists()] == []


def a_score(settings: dict[str, str], out: str, new: list[Path]) -> None:
    """A table with the baselines."""
    assert all(word in out for word in ("MASE", "seasonal naive", "ridge"))


def said_path(label: str, out: str) -> str:
    found = re.search(rf"^{label}\s+(\S+)", out, re.M)
    assert found, out
    return found[1]


LOOKS: dict[str, Callable[[dict[str, str], str, list[Path]], None]] = {
    "forecast": a_forecast,
    "inspect": a_finding,
    "train": trained_runs,
    "eval": a_score,
    "predict": predictions,
    "report": written_paths,
    "explain": written_paths,
    "export": written_paths,
}


def test_the_table_has_only_what_a_page_needs() -> None:
    """Red if a line of the table stays when the last command that needs it goes."""
    told = [block for story in STORIES for block in story.blocks]
    text = "\n".join([*(block.text for block in told), *table.RUNS.values(), *table.NAMES.values()])
    assert [name for name in (*table.FILES, *table.RUNS) if name.split("/")[0] not in text] == []
    assert [name for name in table.NAMES if not re.search(rf"\b{name}\b", text)] == []
    blocks = [block.text for block in told if block.language in COMMANDS]
    lines = [" ".join(words) for block in blocks for command in commands(block) for words in parts(command.line)]
    assert [pattern for pattern in table.SKIPPED if not any(re.search(pattern, line) for line in lines)] == []
