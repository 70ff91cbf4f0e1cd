"""Words of errors, the environment of the program, and the rule for outputs that a user names."""

from pathlib import Path

import pytest
import torch
from entry_points import Trained, call, done, refusal

from informer import InputError
from informer.base.files import LOCK
from informer.base.runtime import pick_device
from informer.checkpoint.paths import BEST, CONFIG, FORECASTS, check_output
from informer.training.folder import RunFolder


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine with two CUDA GPUs and an Apple one."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    return monkeypatch


@pytest.mark.parametrize(
    ("name", "expected"),
    [("auto", "cuda:0"), ("cuda", "cuda:0"), *((name, name) for name in ("cuda:0", "cuda:1", "cpu", "mps"))],
)
def test_the_named_device(name: str, expected: str, machine: pytest.MonkeyPatch) -> None:
    assert str(pick_device(name)) == expected


def test_a_gpu_that_is_not_there(machine: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"device=cuda:2: torch finds no such GPU; .*auto\|cpu\|cuda:0\|cuda:1\|mps$"):
        pick_device("cuda:2")
    machine.setenv("LOCAL_RANK", "1")
    assert str(pick_device("cuda")) == "cuda:1"
    with pytest.raises(InputError, match="torchrun assigns a GPU to each process"):
        pick_device("cuda:0")


@pytest.mark.parametrize("device", ["cuda:1", "mps"])
def test_one_line_before_anything_is_written(device: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    line = refusal("train", "dataset=sample", "model=tiny", f"device={device}", f"run_dir={tmp_path}/run")
    assert f"device={device}: expected a" in line
    assert "use one of device=auto|cpu" in line
    assert not (tmp_path / "run").exists()


def refused(output: Path, written: list[Path] | None = None, *, overwrite: bool = False) -> str:
    with pytest.raises(InputError) as caught:
        check_output(output, written, overwrite=overwrite)
    return str(caught.value)


def test_a_new_or_an_empty_folder_is_used(tmp_path: Path) -> None:
    """Red if the lock that a killed process left counts as a result."""
    check_output(tmp_path / "new", overwrite=False)
    (tmp_path / LOCK).touch()
    check_output(tmp_path, overwrite=False)
    (tmp_path / "a.csv").touch()
    assert refused(tmp_path) == (
        f"output={tmp_path}: expected a new or empty folder, found a.csv in it; choose another, or overwrite=true"
    )
    check_output(tmp_path, overwrite=True)
    check_output(tmp_path, [tmp_path / "b.csv"], overwrite=False)  # next to the results of another file


def test_a_file_is_no_folder_and_a_folder_no_file(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    check_output(page, [page], overwrite=False)
    page.touch()
    assert refused(page, overwrite=True) == f"output={page}: expected a folder, found a file; choose another"
    assert "expected a new file, found page.html there" in refused(page, [page])
    assert "expected a file, found a folder" in refused(tmp_path, [tmp_path], overwrite=True)
    below = f"output={page / 'x'}: expected a folder at {page}, found a file; choose another"
    assert refused(page / "x") == refused(page / "x", [page / "x"]) == below
    (tmp_path / "link").symlink_to("nowhere")
    assert "expected a folder, found a link to nothing" in refused(tmp_path / "link")


def test_overwriting_removes_results_and_keeps_other_files(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    (tmp_path / FORECASTS).mkdir()
    for name in (CONFIG, BEST, f"{FORECASTS}/old.forecast.csv", "notes.txt"):
        (tmp_path / name).touch()
    for given in (tmp_path, tmp_path / FORECASTS / "old.forecast.csv", tmp_path / BEST):
        with pytest.raises(InputError, match="would remove the input"):
            run.clear([given])
    run.clear([tmp_path / "notes.txt"])
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_folder_of_forecasts_without_a_run_stays(tmp_path: Path) -> None:
    """Red if `output=. overwrite=true` would remove the forecasts of another run."""
    (tmp_path / FORECASTS).mkdir()
    RunFolder(tmp_path).clear([])
    assert (tmp_path / FORECASTS).exists()


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
