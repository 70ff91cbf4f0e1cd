"""What a run begins with: weights of another run, frozen parts, a number format, compiled kernels."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from entry_points import CSV, ROOT, SMALL, Trained, done, refusal

from informer import checkpoint

SAMPLE = ["dataset=sample", *SMALL, "trainer.max_epochs=1", "run_dir=run"]


def weights(run_dir: Path | str) -> dict[str, torch.Tensor]:
    return checkpoint.load(Path(run_dir) / "last.safetensors").weights


def changed(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> set[str]:
    """Names of the tensors that differ, in shape or in value."""
    return {name for name in one if not torch.equal(one[name], other[name])}


def test_a_warm_start_begins_with_all_weights(folder: Path, trained: Trained) -> None:
    """With a rate too small to move a weight, what was taken over is what is saved."""
    outcome = done("train", *SAMPLE, f"init_from={trained.run_dir}", "optim.lr=1e-30", "seed=8")
    older = checkpoint.load(trained.run_dir).weights
    learnt = {name for name in older if "running_" not in name and "num_batches" not in name}
    assert not changed(older, weights("run")) & learnt
    assert f"{len(older)} tensors kept, 0 fresh" in outcome.out


@pytest.mark.slow
def test_a_warm_start_of_maps_fits_none(folder: Path) -> None:
    """Red if a model without a network is fitted to its own rows, or takes the maps of other columns."""
    linear = ["dataset=sample", *SMALL[1:], "model=linear"]
    done("train", *linear, "dataset.split.train=150", "run_dir=older")
    done("train", *linear, "init_from=older", "run_dir=run")
    assert not changed(weights("older"), weights("run"))
    error = refusal("train", *linear, "target=price", "init_from=older", "run_dir=other")
    assert "init_from: expected the targets" in error


def test_other_columns_keep_all_but_value_embedding_and_head(folder: Path, trained: Trained) -> None:
    frame = pd.read_csv(Path(__file__).parents[2] / "data" / "sample.csv").iloc[:400]
    frame.rename(columns={frame.columns[1]: "renamed"}).drop(columns=frame.columns[2]).to_csv("mine.csv", index=False)
    arguments = [
        "dataset=csv", "dataset.path=mine.csv", *SMALL, "trainer.max_epochs=1", "run_dir=run", "optim.lr=1e-30",
    ]  # fmt: skip
    outcome = done("train", *arguments, f"init_from={trained.run_dir}")
    older, newer = checkpoint.load(trained.run_dir).weights, weights("run")
    fresh = {name for name in older if name.startswith("network.head.") or "embedding.value" in name}
    assert {name for name in changed(older, newer) if "norm.running" not in name and "num_b" not in name} <= fresh
    assert {name for name in older if older[name].shape != newer[name].shape} <= fresh
    for name in fresh:
        assert name in outcome.out


def test_frozen_parts_stay(folder: Path, trained: Trained) -> None:
    done("train", *SAMPLE, f"init_from={trained.run_dir}", "trainer.freeze=[encoder,enc_embedding]")
    older, newer = checkpoint.load(trained.run_dir).weights, weights("run")
    moved = {name.split(".")[1] for name in changed(older, newer)}
    assert moved == {"decoder", "dec_embedding", "head"}


@pytest.mark.slow
def test_bf16_trains_float32_weights_and_deterministic_is_asked_of_torch(folder: Path) -> None:
    try:
        for name in ("bf16", "float32"):
            own = ["trainer.deterministic=true", f"run_dir={name}", f"precision={name}", "model.dropout=0"]
            assert f"on cpu, {name}" in done("train", *SAMPLE[:-1], *own).out
        assert torch.are_deterministic_algorithms_enabled()
    finally:
        torch.use_deterministic_algorithms(False)
    one, other = weights("bf16"), weights("float32")
    assert {value.dtype for value in one.values()} == {value.dtype for value in other.values()}
    assert changed(one, other)
    losses = [checkpoint.load(Path(name)).progress.best_loss for name in ("bf16", "float32")]
    assert losses[0] == pytest.approx(losses[1], rel=0.02)


@pytest.mark.slow
def test_without_a_compiler_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/no/such/compiler")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder / "cache"))
    torch._dynamo.reset()
    assert "compile=true: expected a compiler that torch can use" in refusal("train", *SAMPLE, "compile=true")


ONE_LAYER = [
    "dataset=sample",
    *SMALL,
    CSV,
    "attn=full",
    "model.encoder_stacks=[1]",
    "model.dropout=0",  # compiled dropout draws other numbers
    "optim.lr=0.01",
    "trainer.max_steps=3",
]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which(os.environ.get("CXX", "g++")) is None, reason="needs a C++ compiler")
def test_compiled_steps_have_the_losses_of_eager_ones(folder: Path) -> None:
    """Red when a graph computes something else, is not differentiated, or when nothing is compiled.

    A program of its own, because the compiler cannot trace the shape checks of tests.
    """
    done("train", *ONE_LAYER, "run_dir=eager")
    own = {"PYTHONPATH": str(ROOT), "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}
    once = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}  # starting workers takes longer than compiling so little
    command = [sys.executable, "-m", "informer.train", *ONE_LAYER, "run_dir=compiled", "compile=true"]
    ended = subprocess.run(command, env=os.environ | own | once, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert len(list(Path("cache").rglob("*.main.cpp"))) > 1  # the first kernel checks that there is a compiler
    eager, compiled = (
        pd.read_csv(Path(run, "losses.csv"))[["train_loss", "val_loss"]] for run in ("eager", "compiled")
    )
    np.testing.assert_allclose(compiled, eager, rtol=1e-3)
