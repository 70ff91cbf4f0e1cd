"""The column that matters most is in every picture, however many others there are."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from entry_points import done
from matplotlib.figure import Figure
from stores import read_series

from informer import checkpoint
from informer.build import build_data
from informer.config.conversion import from_plain
from informer.inference.model import TrainedModel
from informer.inference.writing import figure_of
from informer.report.run import run_content
from informer.training.curves import forecast_figure

COLUMNS = [*(f"c{i}" for i in range(19)), "sales"]


def titles(figure: Figure) -> list[str]:
    return [axes.get_title("left") for axes in figure.axes if axes.get_title("left")]


@pytest.fixture(scope="module", params=[None, "c15"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run on 20 columns, and the target: the last where none is given."""
    folder = tmp_path_factory.mktemp("wide")
    values = np.random.default_rng(0).normal(size=(300, 20)).cumsum(axis=0)
    frame = pd.DataFrame(values, columns=COLUMNS)
    frame.insert(0, "date", pd.date_range("2024-01-01", periods=300, freq="h").astype(str))
    frame.to_csv(folder / "wide.csv", index=False)
    target = [] if request.param is None else [f"target={request.param}"]
    done(
        "train", str(folder / "wide.csv"), "model=tiny", "features=M", *target, "seq_len=24", "label_len=12",
        "pred_len=4", "trainer.max_steps=2", f"run_dir={folder / 'run'}",
    )  # fmt: skip
    return folder / "run", request.param or "sales"


@pytest.mark.slow
def test_in_pictures_of_predict_and_python(run: tuple[Path, str]) -> None:
    folder, target = run
    model = TrainedModel.load(folder)
    series = read_series(folder.parent / "wide.csv", from_plain(model.checkpoint.config).dataset)
    (forecast,) = model.forecast([series])
    drawn = titles(figure_of(forecast, title=""))
    assert (len(drawn), target in drawn) == (12, True)


def test_in_the_images_of_tensorboard(run: tuple[Path, str]) -> None:
    folder, target = run
    saved = checkpoint.load(folder)
    config = from_plain(saved.config)
    config.dataset.path = str(folder.parent / "wide.csv")
    data = build_data(config, torch.device("cpu"))
    drawn = titles(forecast_figure(TrainedModel.load(folder).model, data))
    assert drawn == ["c0", "c1", target]


def test_in_the_report(run: tuple[Path, str]) -> None:
    folder, target = run
    content = run_content(folder)
    assert (content.main or content.columns[-1]) == target
    assert target in {track.column for track in content.tracks}
