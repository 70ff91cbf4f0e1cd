"""What a command imports before it knows that it has something to do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from entry_points import COMMANDS, ROOT, Trained

HEAVY = {
    "torch", "sklearn", "scipy", "sympy", "pandas", "matplotlib", "tensorboard", "jaxtyping", "joblib",
    "fastapi", "uvicorn", "narwhals",
}  # fmt: skip

REPORT = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps([*sys.modules])))
"""


def modules_of(code: str, *arguments: object, cwd: Path = ROOT) -> set[str]:
    """Modules that a process has imported when it ends."""
    command = [sys.executable, "-c", REPORT + code, *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def command(name: str) -> str:
    """`python -m informer <name>` as code."""
    return f"import runpy; sys.argv[:1] = ['informer', {name!r}]; runpy.run_module('informer', run_name='__main__')"


CASES: list[tuple[str, list[str]]] = [
    *((name, ["--help"]) for name in COMMANDS),
    ("train", ["modle=small"]),
    ("train", ["dataset=sample", "--cfg", "job"]),
    ("train", ["dataset=csv", "dataset.path=nothing.csv"]),
    ("eval", ["checkpoint=nothing"]),
    ("predict", [f"input={ROOT / 'data/sample.csv'}", "checkpoint=nothing"]),
    ("explain", ["checkpoint=nothing"]),
    ("export", ["checkpoint=nothing"]),
    ("serve", ["checkpoint=nothing"]),
    ("watch", ["log=nothing.csv", "actuals=nothing.csv"]),
    ("inspect", ["nothing.csv"]),
    ("report", ["nothing"]),
    ("leaderboard", ["nothing.csv"]),
    ("forecast", ["nothing.csv"]),
    ("forecast", ["paths=0", f"input={ROOT / 'data/sample.csv'}"]),
    ("score", ["forecasts=nothing.csv", "actuals=nothing.csv", "history=nothing.csv"]),
]

ONE_AFTER_THE_OTHER = """
import json, runpy, sys
found, seen = [], set()
for name, arguments in json.loads(sys.argv[1]):
    sys.argv = ["informer", name, *arguments]
    try:
        runpy.run_module("informer", run_name="__main__")
    except SystemExit:
        pass
    now = {module.split(".")[0] for module in sys.modules}
    found.append(sorted(now - seen))
    seen = now
print()
print(json.dumps(found))
"""
"""The modules that each command imports and those before it did not."""


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> list[set[str]]:
    command = [sys.executable, "-c", ONE_AFTER_THE_OTHER, json.dumps(CASES)]
    folder, environment = tmp_path_factory.mktemp("empty"), os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert list(folder.iterdir()) == []
    return [set(names) for names in json.loads(done.stdout.splitlines()[-1])]


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{name} {' '.join(given)}" for name, given in CASES])
def test_help_and_refusals_import_nothing_heavy(number: int, imported: list[set[str]]) -> None:
    """Red when a command imports what it runs with before it has checked what it was given."""
    assert "hydra" in set.union(*imported)
    assert imported[number] & HEAVY == set()


def test_the_console_scripts_help_imports_next_to_nothing() -> None:
    """Red when `informer --help` waits for the configuration of some command."""
    modules = modules_of("from informer.commands import cli; sys.argv = ['informer', '--help']; cli.main()")
    assert modules & {"hydra", "omegaconf", "rich", *HEAVY} == set()


def test_inspecting_a_file_imports_no_torch() -> None:
    """Red when reading a file imports a module that windows, scaling or training need."""
    modules = modules_of(command("inspect"), "data/sample.csv")
    assert "pandas" in modules
    assert modules & (HEAVY - {"pandas", "jaxtyping"}) == set()


USED = {"torch", "pandas", "jaxtyping"}
"""What a forecast computes with."""
FILES_OF_RUNS = {"informer.training.folder", "informer.training.losses"}
"""Modules that read and write the files of a run."""


def test_a_forecast_imports_only_what_it_uses(tmp_path: Path) -> None:
    """Red when a forecast with its page imports training, what composes or shows a training, or what draws pictures."""
    modules = modules_of(command("forecast"), "data/sample.csv", "horizon=48", f"output={tmp_path}/out")
    assert (tmp_path / "out/report.html").exists()
    assert modules >= USED
    assert modules & ({"hydra"} | HEAVY - USED) == set()
    assert {name for name in modules if name.startswith("informer.training.")} <= FILES_OF_RUNS


@pytest.mark.slow
def test_predicting_a_file_imports_only_what_a_forecast_needs(trained: Trained, tmp_path: Path) -> None:
    """Red when prediction imports training, what it does not draw with, or (sympy) the compiler of torch."""
    given = [f"checkpoint={trained.run_dir}", f"input={ROOT / 'data/sample.csv'}", f"output={tmp_path}"]
    modules = modules_of(command("predict"), *given)
    assert (tmp_path / "sample.forecast.csv").exists()
    assert modules >= USED
    assert modules & (HEAVY - USED) == set()


@pytest.mark.slow
def test_training_steps_import_no_compiler() -> None:
    """Red when a method of the optimiser imports torch's compiler, and with it sympy."""
    modules = modules_of(
        "import torch\n"
        "from informer.training.optim import GuardedAdam\n"
        "layer = torch.nn.Linear(2, 1)\n"
        "optimizer = GuardedAdam(layer.parameters(), lr=0.1, weight_decay=0.0)\n"
        "layer(torch.ones(3, 2)).sum().backward()\n"
        "optimizer.step_while_finite(torch.zeros(()))\n"
        "optimizer.zero_grad()\n"
        "optimizer.load_state_dict(optimizer.state_dict())\n"
        "import colorsys\n"  # a module that nothing else imports: the end was reached
    )
    assert {"torch", "colorsys"} <= modules
    assert "sympy" not in modules
