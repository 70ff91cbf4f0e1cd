"""The console script `informer`: the command it runs and its help."""

from pathlib import Path

import pytest
import yaml
from entry_points import COMMANDS, call, done

from informer import __version__


@pytest.mark.parametrize("arguments", [[], ["--help"], ["help"]])
def test_help_says_what_to_type_first(arguments) -> None:
    outcome = call(*arguments)
    assert outcome.status == 0
    assert "Start with:\n  informer forecast my.csv\n" in outcome.out
    assert all(f"\n  {name} " in outcome.out for name in COMMANDS)


def test_version() -> None:
    assert call("--version").out == f"informer {__version__}\n"


def test_predict_takes_a_run_and_a_file_without_keys(tmp_path: Path) -> None:
    """Red if a run is taken for the input, or a file for the run."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "best.safetensors").touch()
    run, file = str(tmp_path / "run"), str(tmp_path / "rows.csv")
    for words, expected in (
        ([file, "output=out", run], {"output": "out", "input": file, "checkpoint": run}),
        (["a.safetensors", "from=2024"], {"from": "2024", "checkpoint": "a.safetensors"}),
        (["in/*.csv"], {"input": "in/*.csv"}),
    ):
        read = yaml.safe_load(done("predict", *words, "--cfg", "job").out)
        assert {key: read[key] for key in expected} == expected
