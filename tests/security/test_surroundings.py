"""Whatever a process meets outside of itself ends it with one line: no traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from entry_points import ROOT, SMALL, Outcome, Trained, call, refused

SAMPLE = str(ROOT / "data/sample.csv")
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def test_a_folder_in_place_of_the_summary(folder: Path, trained: Trained) -> None:
    Path("in").mkdir()
    Path("in/a.csv").write_bytes(Path(SAMPLE).read_bytes())
    Path("out/summary.csv").mkdir(parents=True)
    for more in ([], ["resume=true"]):
        refused(call("predict", f"checkpoint={trained.run_dir}", "input=in", "output=out", *more), "summary.csv")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device")
@pytest.mark.parametrize("arguments", [[SAMPLE], ["--help"]])
def test_standard_output_on_a_full_disk(arguments: list[str], folder: Path) -> None:
    command = [sys.executable, "-m", "informer", "inspect", *arguments]
    with open("/dev/full", "w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    refused(Outcome(ended.returncode, "", ended.stderr), "standard output: No space left on device")


DURING_IMPORTS = """
import builtins, os, runpy, signal, sys
real = builtins.__import__
def importing(name, *more, **settings):
    if name == MODULE:
        for _ in range(TIMES):
            os.kill(os.getpid(), signal.SIGINT)
    return real(name, *more, **settings)
builtins.__import__ = importing
sys.argv = ["informer", "inspect", "--help"]
if AS_SCRIPT:
    from informer.commands import cli
    cli.main()
else:
    runpy.run_module("informer", run_name="__main__", alter_sys=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize(("module", "as_script", "times"), [("pydantic", True, 1), ("yaml", False, 10)])
def test_ctrl_c_while_modules_are_imported(module: str, as_script: bool, times: int, folder: Path) -> None:
    code = DURING_IMPORTS.replace("MODULE", repr(module)).replace("TIMES", str(times))
    code = code.replace("AS_SCRIPT", str(as_script))
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "interrupted\n")


WHILE_WORKING = """
import os, signal, sys
from informer.base import start
from informer.commands import cli
from informer.data import diagnosis
def working(*arguments):
    try:
        os.kill(os.getpid(), signal.SIGINT)
    finally:
        for _ in range(TIMES - 1):
            os.kill(os.getpid(), signal.SIGINT)
diagnosis.inspect = working
start.begin()
start.run(lambda: cli.run("inspect"))
"""


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize("times", [1, 10])
def test_ctrl_c_while_a_command_works(times: int, folder: Path) -> None:
    """A second one ends the clean-up of the first; neither gives a traceback."""
    code = WHILE_WORKING.replace("TIMES", str(times))
    ended = subprocess.run([sys.executable, "-c", code, SAMPLE], capture_output=True, text=True, env=ENVIRONMENT)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "interrupted\n")


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="names are text there")
@pytest.mark.parametrize(
    "locale", [{"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}, {"PYTHONIOENCODING": "ascii"}]
)
def test_names_in_an_ascii_locale(locale: dict[str, str], folder: Path) -> None:
    """The log of the run, its configuration and what is printed name the file."""
    Path("größe.csv").write_text(Path(SAMPLE).read_text().replace("demand", "größe"))
    arguments = ["dataset=csv", "dataset.path=größe.csv", *SMALL, "trainer.max_steps=2", "run_dir=läuft"]
    command = [sys.executable, "-m", "informer.train", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT | locale)
    assert ended.returncode == 0, ended.stderr
    assert "größe" in Path("läuft/train.log").read_text(encoding="utf-8")
    assert json.loads(Path("läuft/run.json").read_text())["data"]["path"] == "größe.csv"
    assert call("predict", "checkpoint=läuft", "input=größe.csv", "output=out").status == 0
