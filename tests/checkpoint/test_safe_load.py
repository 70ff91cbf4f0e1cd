"""Malicious or damaged files: one line, no code executed, no memory allocated."""

import copy
import io
import os
import pickle
import random
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from entry_points import Trained

from informer import checkpoint
from informer.base.errors import InputError
from informer.checkpoint import format as archive
from informer.checkpoint.restore import restore_model


def refused(path: Path, part: str) -> None:
    with pytest.raises(InputError, match=part) as caught:
        archive.read(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def rewritten(source: Path, path: Path, **how: Any) -> Path:
    """The same entries in a new zip."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w", **how) as new:
        for entry in old.infolist():
            new.writestr(entry.filename, old.read(entry))
    return path


class Bomb:
    """Runs a command when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch exploded",)


def test_a_pickle_that_runs_a_command(folder: Path) -> None:
    """Red if the file is read with weights_only=False."""
    torch.save({"format": 1, "config": Bomb()}, folder / "bomb.pt")
    pickle.loads(pickle.dumps(Bomb()))
    assert (folder / "exploded").exists(), "the bomb itself is a dud"
    (folder / "exploded").unlink()
    refused(folder / "bomb.pt", "cannot be read as a checkpoint: Weights only load failed")
    assert not (folder / "exploded").exists()


def test_compressed_zeros(folder: Path) -> None:
    """Red if anything is unpacked before the directory was read: 64 MiB in a file of 64 KiB."""
    buffer = io.BytesIO()
    torch.save({"weights": torch.zeros(1 << 24)}, buffer)
    (folder / "zeros.pt").write_bytes(buffer.getvalue())
    bomb = rewritten(folder / "zeros.pt", folder / "bomb.pt", compression=zipfile.ZIP_DEFLATED)
    assert bomb.stat().st_size < 1 << 17
    refused(bomb, "its entries are compressed")


def test_one_entry_under_many_names(folder: Path) -> None:
    """Red if sizes are not added up: a directory may point at the same bytes again and again."""
    torch.save(torch.zeros(1 << 20), folder / "one.pt")
    with zipfile.ZipFile(folder / "one.pt", "a") as archived:
        entry = max(archived.infolist(), key=lambda entry: entry.file_size)
        for i in range(50):
            again = copy.copy(entry)
            again.filename = f"one/data/{i + 1}"
            archived.filelist.append(again)
        archived._didModify = True
    refused(folder / "one.pt", "its entries overlap")


def test_a_tensor_that_repeats_its_numbers(folder: Path) -> None:
    """Fails if the claimed size of a tensor is used: one number on disk, 10^15 in the model."""
    torch.save({"weights": torch.zeros(1).expand(10**9, 10**6)}, folder / "wide.pt")
    refused(folder / "wide.pt", "claim more numbers than the file holds")


def test_containers_that_unfold_without_end(folder: Path) -> None:
    """Red if a list may be shared: 10^30 leaves, or a list that contains itself."""
    nested: list[Any] = ["x"] * 10
    for _ in range(30):
        nested = [nested] * 10
    torch.save({"config": nested}, folder / "nested.pt")
    refused(folder / "nested.pt", "containers in one place each")
    own: list[Any] = []
    own.append(own)
    torch.save({"config": own}, folder / "own.pt")
    refused(folder / "own.pt", "containers in one place each")


def test_tensors_of_other_kinds(folder: Path) -> None:
    torch.save({"weights": torch.eye(3).to_sparse()}, folder / "sparse.pt")
    refused(folder / "sparse.pt", "only dense tensors")


def test_cut_anywhere(folder: Path, trained: Trained) -> None:
    """Fails if a truncated file is accepted, or raises another error."""
    whole = (trained.run_dir / "best.pt").read_bytes()
    for share in (0.001, 0.1, 0.5, 0.9, 0.999):
        (folder / "part.pt").write_bytes(whole[: int(share * len(whole))])
        refused(folder / "part.pt", "cannot be read as a checkpoint")


def test_any_damage_is_one_line_or_harmless(folder: Path, trained: Trained) -> None:
    """Fails if a forged pickle raises one of Python's own errors: 100 files, each with a few bytes changed."""
    whole, draw = (trained.run_dir / "best.pt").read_bytes(), random.Random(0)
    with zipfile.ZipFile(trained.run_dir / "best.pt") as archived:
        described = next(entry for entry in archived.infolist() if entry.filename.endswith("data.pkl"))
    start = described.header_offset + 64
    outcomes = []
    for _ in range(100):
        damaged = bytearray(whole)
        for _ in range(draw.randint(1, 4)):
            damaged[draw.randrange(start, start + described.file_size)] = draw.randrange(256)
        (folder / "damaged.pt").write_bytes(damaged)
        try:
            restore_model(checkpoint.load(folder / "damaged.pt"))
            outcomes.append("")
        except InputError as error:
            outcomes.append(str(error))
    assert not any("\n" in outcome for outcome in outcomes)
    assert sum(map(bool, outcomes)) > 30
