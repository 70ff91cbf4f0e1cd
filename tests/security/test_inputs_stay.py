"""No command overwrites what it reads, or touches files that it did not make."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from entry_points import ROOT, SMALL, Trained, done, refusal

from informer import Forecaster, InputError

Tree = Callable[[Path], dict[str, bytes | None]]


def sample(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((ROOT / "data/sample.csv").read_bytes())
    return path


def refused(entry: str, *arguments: str, tree: Tree) -> str:
    before = tree(Path())
    line = refusal(entry, *arguments)
    assert tree(Path()) == before
    return line


def test_the_one_input_as_the_long_table(folder: Path, trained: Trained, tree: Tree) -> None:
    sample(Path("ow/forecasts.csv"))
    arguments = [f"checkpoint={trained.run_dir}", "input=ow/forecasts.csv", "format=long"]
    error = refused("predict", *arguments, "output=ow", tree=tree)
    assert "output: expected another path, found ow/forecasts.csv, which would overwrite the input" in error
    Path("link").symlink_to("ow")
    refused("predict", *arguments, "output=link", tree=tree)
    Path("other").mkdir()
    Path("other/forecasts.csv").hardlink_to("ow/forecasts.csv")
    refused("predict", *arguments, "output=other", tree=tree)
    done("predict", *arguments, "output=out")


def test_future_covariates_and_the_model_in_the_output_folder(folder: Path, trained: Trained, tree: Tree) -> None:
    rows = pd.read_csv(sample(Path("in/a.csv")))
    run = ["train", "dataset=csv", "dataset.path=in/a.csv", *SMALL, "trainer.max_steps=2", "run_dir=run"]
    done(*run, "targets=[demand]", "future_covariates=[price]")
    Path("out").mkdir()
    for name in ("summary.csv", "a.forecast.csv"):
        rows[["date", "price"]].to_csv(Path("out") / name, index=False)
        error = refused("predict", "checkpoint=run", "input=in", f"future=out/{name}", "output=out", tree=tree)
        assert f"the input out/{name}" in error
    shutil.copy(trained.run_dir / "best.safetensors", "out/a.forecast.csv")
    refused("predict", "checkpoint=out/a.forecast.csv", "input=in/a.csv", "output=out", tree=tree)


def test_a_new_run_overwrites_nothing(folder: Path, tree: Tree) -> None:
    """Data, or initial weights, may be in the run directory."""
    for name in ("best.safetensors", "metrics.json"):
        sample(Path(name) / name)
        error = refused("train", "dataset=csv", f"dataset.path={name}/{name}", *SMALL, f"run_dir={name}", tree=tree)
        assert f"found {name} in it" in error
    mine = sample(Path("run/frame.csv")).read_bytes()
    with pytest.raises(InputError, match=r"found frame\.csv"):
        Forecaster(run_dir="run", **{"trainer.max_steps": 1}).fit(pd.read_csv("run/frame.csv"))
    assert Path("run/frame.csv").read_bytes() == mine


def test_a_summary_of_something_else_stays(folder: Path, trained: Trained, tree: Tree) -> None:
    sample(Path("in/a.csv"))
    Path("out").mkdir()
    Path("out/summary.csv").write_text("month,sales\n1,2\n")
    arguments = [f"checkpoint={trained.run_dir}", "input=in", "output=out"]
    for more in ("overwrite=true", "resume=true"):
        assert "found another file of that name" in refused("predict", *arguments, more, tree=tree)
    Path("out/summary.csv").unlink()
    done("predict", *arguments)
    done("predict", *arguments, "overwrite=true")


def put(path: Path) -> None:
    """An empty file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def test_files_that_only_look_temporary_stay(folder: Path, trained: Trained) -> None:
    """Temporary files of a killed job or run are removed; files of other names, or in other folders, are kept."""
    sample(Path("in/a.csv"))
    left = [f".{name}.deadbeef.tmp" for name in ("summary.csv", "a.forecast.csv")]
    kept = [".report.deadbeef.tmp", "sub/.a.forecast.csv.deadbeef.tmp", ".a.forecast.csv.tmp"]
    for name in [*left, *kept]:
        put(Path("out") / name)
    done("predict", f"checkpoint={trained.run_dir}", "input=in", "output=out")
    assert {str(path.relative_to("out")) for path in Path("out").rglob("*tmp")} == {*kept}
    for name in (".last.safetensors.deadbeef.tmp", *kept):
        put(Path("run") / name)
    done("train", "dataset=sample", *SMALL, "trainer.max_steps=2", "run_dir=run")
    assert {str(path.relative_to("run")) for path in Path("run").rglob("*tmp")} == {*kept}
    assert os.path.exists("run/last.safetensors")


def test_the_files_of_a_run_stay(trained: Trained, folder: Path, tree: Tree) -> None:
    """Red if a run loses a file, or an unfinished one is taken for finished afterwards."""
    run = Path(shutil.copytree(trained.run_dir, "run"))
    for finished in (True, False):
        if not finished:
            for name in ("metrics.json", "metrics.csv"):
                (run / name).unlink()
        for part, arguments in {
            "overwrite the input run/best.safetensors": ["export", "checkpoint=run", "output=run/best.safetensors"],
            "run/last.safetensors, a file of a run": ["export", "checkpoint=run", "output=run/last.safetensors"],
            "run/metrics.json, a file of a run": ["eval", "checkpoint=run", "output=run"],
            "run/metrics.json": ["report", "run", "output=run/metrics.json"],
        }.items():
            assert part in refused(*arguments, tree=tree)
    for checkpoint, form in (("model.safetensors", "safetensors"), ("model.pt2", "torch_export")):
        shutil.copy(run / "best.safetensors", checkpoint)
        line = refused("export", f"checkpoint={checkpoint}", f"format={form}", tree=tree)
        assert f"overwrite the input {checkpoint}" in line


def test_data_in_the_folder_of_a_report_stay(folder: Path, tree: Tree) -> None:
    sample(Path("out/metrics.csv"))
    done("train", "dataset=csv", "dataset.path=out/metrics.csv", *SMALL, "trainer.max_steps=1", "run_dir=run")
    assert "overwrite the input out/metrics.csv" in refused(
        "eval", "checkpoint=run", "output=out", "overwrite=true", tree=tree
    )


def test_a_forecast_is_not_overwritten_by_its_scores_or_its_page(folder: Path, trained: Trained, tree: Tree) -> None:
    sample(Path("in.csv"))
    done("predict", f"checkpoint={trained.run_dir}", "input=in.csv", "output=out")
    page = refused("report", "out", "output=out/in.forecast.csv", tree=tree)
    assert "overwrite the input out/in.forecast.csv" in page
    shutil.copy("out/in.forecast.csv", "scores.csv")
    files = ["forecasts=scores.csv", "actuals=in.csv", "history=in.csv"]
    assert "overwrite the input scores.csv" in refused("score", *files, "output=.", tree=tree)
