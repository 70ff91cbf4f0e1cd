"""A job on a Ray cluster of this machine writes the files of the local engine."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
from entry_points import ROOT, Trained, call, launch, refusal

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="needs ray")

Tree = Callable[[Path], dict[str, bytes | None]]


@pytest.fixture
def job(trained: Trained, folder: Path) -> list[str]:
    """Arguments for seven good files and a bad one, two at a time."""
    sample = pd.read_csv(ROOT / "data/sample.csv")
    Path("in").mkdir()
    for i in range(7):
        sample.iloc[i * 100 : i * 130 + 60].to_csv(f"in/s{i}.csv", index=False)
    Path("in/s3broken.csv").write_bytes(b"date,demand\n2024-01-01,\x00\xff\n")
    return [f"checkpoint={trained.run_dir}", "input=in", "batch_size=2", "output=out", "engine=ray", "workers=2"]


@needs_ray
@pytest.mark.slow
def test_files_are_those_of_the_local_engine(job: list[str], tree: Tree) -> None:
    """Red if a chunk is lost or done otherwise, a bad file ends the job, or chunks come in the order they end in."""
    outcome = launch("predict", *job, cwd=Path.cwd())  # Ray warns of settings of its own
    assert (outcome.status, "7 files forecast, 1 failed: out/summary.csv" in outcome.out) == (1, True), outcome.err
    call("predict", *job[:-3], "output=same")
    assert tree(Path("out")) == tree(Path("same"))
    assert "(7 of them already done)" in call("predict", *job[:-2], "resume=true").out  # here; it is the same job


@needs_ray
def test_a_cluster_that_is_not_there_is_one_line(job: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    assert "RAY_ADDRESS=127.0.0.1:1" in refusal("predict", *job)
