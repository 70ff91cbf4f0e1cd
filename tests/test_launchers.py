"""Launchers of Hydra's plugins: a job of `--multirun` that another process runs is the same run."""

from pathlib import Path

import pytest
import yaml
from entry_points import SMALL, launch


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["joblib", "submitit_local"])
def test_a_job_of_a_launcher(launcher: str, folder: Path) -> None:
    pytest.importorskip(f"hydra_plugins.hydra_{launcher.partition('_')[0]}_launcher")
    arguments = ["dataset=sample", *SMALL, "trainer.max_steps=1", "seed=3"]
    outcome = launch("train", "--multirun", f"hydra/launcher={launcher}", *arguments, cwd=folder)
    assert outcome.status == 0, outcome.err
    (run,) = (path for path in Path("runs").iterdir() if path.is_dir())
    assert yaml.safe_load((run / "config.yaml").read_text())["seed"] == 3
    assert (run / "best.pt").exists()
    assert [path.name for path in folder.iterdir()] == ["runs"]
