"""Words of errors, the environment of the program, and the rule for outputs that a user names."""

from pathlib import Path

import pytest
import torch
from entry_points import Trained, call, done, refusal


@pytest.mark.parametrize("device", ["cuda:1", "mps"])
def test_one_line_before_anything_is_written(device: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    line = refusal("train", "dataset=sample", "model=tiny", f"device={device}", f"run_dir={tmp_path}/run")
    assert f"device={device}: expected a" in line
    assert "use one of device=auto|cpu" in line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", ["report", "export"])
def test_only_a_file_of_the_same_command_is_replaced(command: str, trained: Trained, folder: Path) -> None:
    """Red if `overwrite=true` replaces a file of the user's, or refuses what the command has written."""
    run = trained.run_dir
    given = {"report": [f"input={run}"], "export": [f"checkpoint={run}"]}[command]
    given += ["format=safetensors"] if command == "export" else []
    Path("mine.txt").write_text("notes")
    outcome = call(command, *given, "output=mine.txt", "overwrite=true")
    assert (outcome.status, Path("mine.txt").read_text()) == (2, "notes")
    assert "output=mine.txt: overwrite=true replaces what this command has written, found another" in outcome.err
    done(command, *given, "output=new")
    first = Path("new").read_bytes()
    assert call(command, *given, "output=new").status == 2
    done(command, *given, "output=new", "overwrite=true")
    assert len(Path("new").read_bytes()) == len(first)
