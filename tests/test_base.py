"""Words of errors and the environment of the program."""

from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
import torch
from entry_points import refusal
from threadpoolctl import threadpool_info

from informer.base.errors import InputError, counted
from informer.base.runtime import one_blas_thread, pick_device
from informer.config.conversion import from_plain, to_plain
from informer.config.training import TrainConfig


def test_blas_computes_with_one_thread_within_the_function_and_as_before_after_it():
    """Red if the libraries of numpy and scipy are not limited, or stay limited."""
    scipy.linalg.cholesky(np.eye(3))
    before = threads()
    assert before
    assert set(one_blas_thread(threads)()) == {1}
    assert threads() == before


def threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.mark.parametrize(("n", "text"), [(0, "0 files"), (1, "1 file"), (2, "2 files")])
def test_counted(n: int, text: str) -> None:
    assert counted(n, "file") == text


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
    [
        ("auto", "cuda:0"),
        ("cuda", "cuda:0"),
        ("cuda:0", "cuda:0"),
        ("cuda:1", "cuda:1"),
        ("cpu", "cpu"),
        ("mps", "mps"),
    ],
)
def test_the_named_device(name: str, expected: str, machine: pytest.MonkeyPatch) -> None:
    assert str(pick_device(name)) == expected


def test_auto_takes_no_apple_gpu(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(torch.cuda, "is_available", lambda: False)
    assert str(pick_device("auto")) == "cpu"


def test_a_gpu_that_is_not_there(machine: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"device=cuda:2: torch finds no such GPU; .*auto\|cpu\|cuda:0\|cuda:1\|mps$"):
        pick_device("cuda:2")
    machine.setenv("LOCAL_RANK", "1")
    assert str(pick_device("cuda")) == "cuda:1"
    with pytest.raises(InputError, match="torchrun assigns a GPU to each process"):
        pick_device("cuda:0")


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:-1", "cuda:x", "cpu:0", "", "CUDA"])
def test_what_is_no_device(name: str) -> None:
    with pytest.raises(InputError, match="expected auto, cpu, cuda, cuda:1 or mps, found"):
        pick_device(name)


@pytest.mark.parametrize("device", ["cuda:1", "mps"])
def test_one_line_before_anything_is_written(device: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    line = refusal("train", "dataset=sample", "model=tiny", f"device={device}", f"run_dir={tmp_path}/run")
    assert f"device={device}: expected a" in line
    assert "use one of device=auto|cpu" in line
    assert not (tmp_path / "run").exists()


def test_saved_configurations_keep_their_device() -> None:
    """As before, when the value was one of three names."""
    for name in ("auto", "cpu", "cuda", "cuda:1"):
        plain = to_plain(TrainConfig(device=name))
        assert plain["device"] == name
        assert from_plain(plain).device == name
