"""Scores from the command line: those of training, whatever the batch size, on the data where they now are."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import SMALL, Trained, call, done

MAPS = ("attention_encoder_1.1", "attention_encoder_1.2", "attention_decoder_1", "attention_cross_1")
UNITS = (" scaled ", " original ")
"""How the rows of the printed table of scores begin."""


def evaluated(*arguments: str) -> str:
    outcome = done("eval", *arguments)
    return outcome.out


def test_eval_repeats_what_training_printed(trained: Trained, folder: Path) -> None:
    out = evaluated(f"checkpoint={trained.run_dir}", "output=report")
    printed, again = ([line for line in text.splitlines() if line.startswith(UNITS)] for text in (trained.out, out))
    assert len(printed) == 6
    assert again == printed
    for name in ("metrics.json", "metrics.csv"):
        assert Path("report", name).read_bytes() == (trained.run_dir / name).read_bytes()
    verdict = json.loads(Path("report/metrics.json").read_text())["verdict"]
    assert verdict in out
    assert verdict in trained.out


@pytest.mark.slow
def test_the_batch_size_changes_nothing(trained: Trained, folder: Path) -> None:
    for size in (1, 512):
        evaluated(f"checkpoint={trained.run_dir}", f"output={size}", f"batch_size={size}", "plots=false")
    one, many = (pd.read_csv(f"{size}/metrics.csv")["value"] for size in (1, 512))
    np.testing.assert_allclose(one, many, rtol=1e-6)


def test_a_file_a_folder_or_a_link_is_a_checkpoint(trained: Trained, folder: Path) -> None:
    Path("latest").symlink_to(trained.run_dir)
    for checkpoint in ("latest", f"{trained.run_dir}/best.safetensors"):
        evaluated(f"checkpoint={checkpoint}", "output=report", "overwrite=true", "plots=false")
        assert Path("report/metrics.csv").read_bytes() == (trained.run_dir / "metrics.csv").read_bytes()


def test_the_report_lies_beside_the_checkpoint(trained: Trained, folder: Path) -> None:
    shutil.copytree(trained.run_dir, "copy")
    out = evaluated("checkpoint=copy", "plots=false")
    written = {"metrics.json", "metrics.csv", "attention.json", "test_forecasts.parquet"}
    assert {path.name for path in Path("copy/eval").iterdir()} == written
    assert "report: copy/eval" in out
    assert [path.name for path in folder.iterdir()] == ["copy"]


def test_pictures(trained: Trained, folder: Path) -> None:
    for plots, pictures in (("standard", {"error_by_step"}), ("attention", {"error_by_step", *MAPS})):
        evaluated(f"checkpoint={trained.run_dir}", f"output={plots}", f"plots={plots}")
        assert {path.stem for path in Path(plots).glob("*.png")} == pictures


def test_the_data_folder_of_training_is_remembered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("place").mkdir()
    frame = pd.DataFrame({"date": pd.date_range("2021-01-01", periods=320, freq="h"), "a": np.arange(320.0) % 7})
    frame.to_csv("place/own.csv", index=False)
    arguments = ["dataset=csv", "dataset.file=own.csv", "data_dir=place", *SMALL, "trainer.max_steps=1", "run_dir=run"]
    done("train", *arguments)
    evaluated("checkpoint=run", "plots=false")
    Path("place").rename("moved")
    assert call("eval", "checkpoint=run").status == 2
    monkeypatch.setenv("INFORMER_DATA_DIR", "moved")
    evaluated("checkpoint=run", "plots=false")


def test_the_checkpoints_scaler_and_columns_are_used_on_data_elsewhere(folder: Path) -> None:
    """Red if the scaler is fitted again, a column that the model never saw is read, or a file in another dialect is
    not."""
    values = np.random.default_rng(0).normal(size=320)
    frame = pd.DataFrame({"date": pd.date_range("2021-01-01", periods=320, freq="D"), "a": values})
    frame.to_csv("there.csv", index=False)
    call("train", "dataset=csv", "dataset.path=there.csv", *SMALL, "trainer.max_steps=1", "run_dir=run")
    Path("there.csv").unlink()
    before = json.loads(Path("run/metrics.json").read_text())["scores"]["informer"]["scaled"]["overall"]["mse"]
    frame.loc[:100, "a"] *= 50
    frame.assign(b="text").to_csv("here.csv", index=False, sep=";", date_format="%d/%m/%y")
    dialect = ["dataset.path=here.csv", "dataset.separator=;", "dataset.time_format=%d/%m/%y"]
    assert "here.csv has changed since training" in evaluated("checkpoint=run", "plots=false", *dialect)
    after = json.loads(Path("run/eval/metrics.json").read_text())["scores"]["informer"]["scaled"]["overall"]["mse"]
    assert after == pytest.approx(before, rel=1e-6)
