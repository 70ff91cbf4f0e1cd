"""What is tracked, and where it goes: TensorBoard, curves.csv and MLflow have the same points."""

import csv
import importlib.util
import math
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from entry_points import CSV, ROOT, SMALL, Trained, call, done, flat, killed, launch, refusal
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import backend_context, plugin_data_pb2

from informer import checkpoint
from informer.checkpoint import restore_model

needs_mlflow = pytest.mark.skipif(
    importlib.util.find_spec("mlflow") is None, reason="needs mlflow (pip install mlflow-skinny)"
)
TRAIN = ["dataset=sample", *SMALL, CSV, "trainer.max_epochs=2"]
Points = list[tuple[str, int, float]]


def read_csv(run_dir: Path) -> Points:
    with (run_dir / "curves.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["tag", "step", "value"]
    return [(tag, int(step), float(value)) for tag, step, value in rows]


def without_speed(points: Points) -> Points:
    return [point for point in points if point[0] != "train/samples_per_second"]


def tensorboard(run_dir: Path) -> EventAccumulator:
    return EventAccumulator(str(run_dir), size_guidance={"images": 0, "scalars": 0}).Reload()


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run_dir = tmp_path_factory.mktemp("tracked") / "run"
    more = ["trainer.tracker=[tensorboard,csv]", "trainer.track_also=[attention,weights]", f"run_dir={run_dir}"]
    done("train", *TRAIN, *more)
    return run_dir


def test_the_table_has_the_points_of_tensorboard_next_to_a_figure_each_epoch(tracked: Path) -> None:
    events = tensorboard(tracked)
    points = [(tag, each.step, each.value) for tag in events.Tags()["scalars"] for each in events.Scalars(tag)]
    table = read_csv(tracked)
    assert {point[:2] for point in table} == {point[:2] for point in points}
    assert len(table) == len(points)
    recorded = {(tag, step): value for tag, step, value in table}
    for tag, step, value in points:  # TensorBoard has float32
        assert recorded[tag, step] == pytest.approx(value, rel=1e-6)
    figures = events.Images("val/forecast")
    assert [figure.step for figure in figures] == [1, 2]
    assert figures[0].encoded_image_string != figures[1].encoded_image_string


def test_the_seasonal_naive_is_drawn_at_its_validation_loss(tracked: Path) -> None:
    """The last day again, in the units of training, over the first half of validation, whose other half calibrates."""
    frame = pd.read_csv(ROOT / "data/sample.csv", nrows=320).drop(columns="date")
    scaled = ((frame - frame[:200].mean()) / frame[:200].std(ddof=0)).to_numpy()
    errors = [(scaled[row : row + 6] - scaled[row - 24 : row - 18]) ** 2 for row in range(200, 220)]
    drawn = [value for tag, _, value in read_csv(tracked) if tag == "val/loss_seasonal_naive"]
    assert drawn == pytest.approx([np.mean(errors)] * 2, rel=1e-5)


def test_losses_are_a_table_and_a_picture(tracked: Path) -> None:
    """Red if the picture of a run has other numbers than its curves, or a resumed run has other epochs."""
    points = {(tag, step): value for tag, step, value in read_csv(tracked)}
    table = pd.read_csv(tracked / "losses.csv", index_col="epoch")
    tags = {"train_loss": "train/loss", "val_loss": "val/loss", "ridge": "val/loss_ridge"}
    tags["seasonal naive"] = "val/loss_seasonal_naive"
    assert {*table.columns} == {*tags}
    for column, tag in tags.items():
        assert table[column].to_dict() == {epoch: points[tag, epoch] for epoch in (1, 2)}
    assert (tracked / "losses.png").read_bytes().startswith(b"\x89PNG")


def test_a_damaged_table_of_losses_is_one_line(tracked: Path, folder: Path) -> None:
    shutil.copytree(tracked, "run")
    for content in ("", "epoch,train_loss,val_loss\n1.5,1,2\n"):
        Path("run/losses.csv").write_text(content)
        assert "run/losses.csv: expected a table of losses (epoch, train_loss, val_loss)" in refusal(
            "report", "input=run"
        )


@pytest.mark.slow
def test_quantile_models_have_their_pinball_loss(folder: Path) -> None:
    more = ["loss=quantile", "loss.quantiles=[0.1,0.5,0.9]", "trainer.tracker=[csv]", "run_dir=run"]
    done("train", *TRAIN, *more)
    assert not list(Path("run").glob("events*"))
    table = {(tag, step): value for tag, step, value in read_csv(Path("run"))}
    for epoch in (1, 2):
        parts = [table[f"val/pinball_q{level}", epoch] for level in (10, 50, 90)]
        assert np.mean(parts) == pytest.approx(table["val/loss", epoch], rel=1e-4)
        assert 0 <= table["val/coverage_q10_q90", epoch] <= 100
        assert table["val/loss_ridge", epoch] > 0


def test_norms_and_maps_on_request(tracked: Path, trained: Trained) -> None:
    events = tensorboard(tracked)
    weights = checkpoint.load(tracked / "last.safetensors").weights
    norms = {tag.removeprefix("weights/"): events.Scalars(tag)[-1].value for tag in events.Tags()["scalars"] if
             tag.startswith("weights/")}  # fmt: skip
    model = restore_model(checkpoint.load(tracked / "last.safetensors"))
    assert set(norms) == {name for name, _ in model.named_parameters()}
    for name, norm in norms.items():
        assert norm == pytest.approx(math.sqrt((weights[name].double() ** 2).sum()), rel=1e-5)
    maps = {tag for tag in events.Tags()["images"] if tag.startswith("attention/")}
    assert maps == {f"attention/{place}" for place in model.attention_layers()}
    assert [image.step for image in events.Images(next(iter(maps)))] == [1, 2]
    plain = tensorboard(trained.run_dir).Tags()
    assert not any(tag.startswith(("weights/", "attention/")) for kind in ("scalars", "images") for tag in plain[kind])


def test_tracking_does_not_change_the_run(tracked: Path, trained: Trained) -> None:
    """Red if a forward pass for a curve draws random numbers or leaves the network in another mode."""
    one, other = checkpoint.load(tracked / "last.safetensors"), checkpoint.load(trained.run_dir / "last.safetensors")
    assert all(torch.equal(one.weights[key], other.weights[key]) for key in one.weights)


def test_skill_is_the_first_metric_and_places_are_no_hyper_parameters(tracked: Path) -> None:
    content = tensorboard(tracked).summary_metadata["_hparams_/experiment"].plugin_data.content
    experiment = plugin_data_pb2.HParamsPluginData.FromString(content).experiment
    metrics = [each.name.tag for each in experiment.metric_infos]
    assert metrics[:4] == ["test/skill", "test/mse", "test/mae", "test/mse_seasonal_naive"]
    backend_context._sort_and_reduce_to_hparams_limit(experiment)  # as TensorBoard shows them: the first five
    keys = [each.name for each in experiment.hparam_infos]
    assert keys[:5] == ["attn", "dataset", "model.family", "pred_len", "seq_len"]
    assert {"prob.factor", "model.d_model", "optim.lr", "seed"} <= set(keys)
    assert not {"run_dir", "dataset.path", "data_dir", "attn.factor"} & set(keys)


@pytest.fixture
def store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (folder / "store").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    return (folder / "store").as_uri()


@needs_mlflow
@pytest.mark.slow
def test_mlflow_has_each_point_also_after_a_resume(folder: Path, tracked: Path, store: str) -> None:
    """Red if a run that was killed before it saved its second epoch is a second run in MLflow when it is resumed, or
    loses what was waiting; or if a run that trains on sends a parameter again with another value, which the server
    refuses, or a step twice."""
    from mlflow import MlflowClient

    run_dir = Path("runs/stopped")
    with killed(checkpoint.LAST, at=2):
        call("train", *TRAIN, "trainer.tracker=[mlflow]", f"run_dir={run_dir}")
    done("train", f"resume={run_dir}")
    client = MlflowClient(tracking_uri=store)
    (run,) = client.search_runs([client.get_experiment_by_name("informer").experiment_id])
    assert (run.info.run_name, run.info.status) == ("stopped", "FINISHED")
    assert (run_dir / "mlflow_run.txt").read_text() == run.info.run_id + "\n"
    settings = flat(yaml.safe_load((run_dir / "config.yaml").read_text()))
    assert {*run.data.params} == {*settings} - {"defaults"}  # which is Hydra's
    assert run.data.params["model.d_model"] == "8"
    whole = without_speed([point for point in read_csv(tracked) if not point[0].startswith("weights/")])
    for tag in {point[0] for point in whole}:
        sent = {(tag, each.step, each.value) for each in client.get_metric_history(run.info.run_id, tag)}
        assert sorted(sent) == sorted(point for point in whole if point[0] == tag)
    pictures = client.list_artifacts(run.info.run_id, "val/forecast")
    assert [Path(each.path).name for each in pictures] == ["00001.png", "00002.png"]
    before = client.get_metric_history(run.info.run_id, "val/loss")
    done("train", f"resume={run_dir}", "trainer.max_epochs=3")
    again = client.get_run(run.info.run_id)
    assert (again.data.params["trainer.max_epochs"], again.data.tags["trainer.max_epochs"]) == ("2", "3")
    steps = [each.step for each in client.get_metric_history(run.info.run_id, "val/loss")]
    assert steps == [*(each.step for each in before), 3]


@needs_mlflow
@pytest.mark.slow
def test_without_a_server_mlflow_has_a_database_among_the_runs(folder: Path) -> None:
    outcome = launch("train", *TRAIN, "trainer.tracker=[mlflow,csv]", "run_dir=runs/one", cwd=folder)
    assert outcome.status == 0, outcome.err
    with sqlite3.connect("runs/mlflow.db") as database:
        points = database.execute("select key, step, value from metrics").fetchall()
    database.close()
    assert sorted(points) == sorted(read_csv(Path("runs/one")))


@needs_mlflow
def test_a_server_that_is_not_there_is_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nonsense://x")
    error = refusal("train", *TRAIN, "trainer.tracker=[tensorboard,mlflow]", "run_dir=run")
    assert "trainer.tracker=mlflow: nonsense://x" in error
