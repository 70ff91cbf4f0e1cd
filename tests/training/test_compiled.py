"""`compile=true`: a run with compiled training steps has the losses of the same run without."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import CSV, ROOT, SMALL, done

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
