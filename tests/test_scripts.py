"""Scripts: the benchmark of attention, the ablation, published files, the paper's tables, GIFT-Eval."""

import json
import math
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
import yaml
from entry_points import ROOT, SMALL, call_script, done, script
from rich.console import Console

from informer.networks import ModelConfig


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    return script("benchmark_attention")


def test_growth_and_crossover(benchmark: ModuleType) -> None:
    lengths = [512, 1024, 2048, 4096, 8192]
    power = [benchmark.Cell(attn="a", length=n, seconds=3e-9 * n**1.5) for n in lengths]
    power[0].seconds = 1.0  # below the fit
    assert benchmark.exponent(power) == pytest.approx(1.5)
    assert math.isnan(benchmark.exponent(power[:3]))
    for cell, ratio in zip(power, [0.5, 1.2, 0.9, 0.8, math.nan], strict=True):
        cell.ratio = ratio
    assert benchmark.crossover(power) == 2048, "an early lead that is lost again does not count"
    power[3].ratio = 1.0
    assert benchmark.crossover(power) is None


@pytest.mark.slow
def test_a_benchmark_goes_on_where_it_stopped(folder: Path) -> None:
    """Red if a cell is measured again, or another set-up is mixed in."""
    benchmark = partial(call_script, "benchmark_attention", "--output", "out")
    fixed = ["--threads", "1", "--clock", "cpu", "--attn", "taylor"]
    first = benchmark(*fixed, "--lengths", "128")
    assert first.status == 0, first.err
    rows = Path("out/results.csv").read_text()
    assert [line.split(",")[:2] for line in rows.splitlines()[1:]] == [["full", "128"], ["taylor", "128"]]
    second = benchmark(*fixed, "--lengths", "128", "160")
    assert second.status == 0, second.err
    assert Path("out/results.csv").read_text().startswith(rows)
    assert len(Path("out/results.csv").read_text().splitlines()) == 5
    table = Path("out/table.md").read_text()
    Path("out/table.md").unlink()
    Path("out/scaling.png").unlink()
    assert benchmark("--draw").status == 0
    assert Path("out/table.md").read_text() == table
    assert Path("out/scaling.png").exists()
    assert "found those of another" in benchmark(*fixed, "--causal").err


@pytest.fixture(scope="module")
def ablate() -> ModuleType:
    return script("ablate")


@pytest.mark.slow
def test_every_configuration_differs_from_the_base_in_one_thing(ablate: ModuleType, folder: Path) -> None:
    """Red if a key is misspelt, two changes are one, or their names collide."""
    jobs = ablate.jobs_of(list(ablate.AXES), ablate.BASE, [0], 7, folder)
    settings = {job.name: job.settings() for job in jobs}
    assert len(settings) == len(jobs) == len({str(each) for each in settings.values()})
    assert all(each.trainer.max_steps == 7 for each in settings.values())
    base = settings["base"]
    assert isinstance(base.model, ModelConfig)
    for name, each in settings.items():
        changed = {key for key in ("seq_len", "label_len", "pred_len") if getattr(each, key) != getattr(base, key)}
        changed |= {"attn"} if each.attn != base.attn else set()
        changed |= {"model"} if each.model != base.model else set()
        assert len(changed) == (0 if name == "base" else 2 if "336_" in name else 1), (name, changed)


def test_regular_rows_have_the_mean_of_repeated_times_and_no_gaps():
    """The second hour is there twice, the third missing."""
    times = ["2024-01-01T00:10:00Z", "2024-01-01T01:00:00Z", "2024-01-01T01:30:00Z", "2024-01-01T03:00:00Z"]
    frame = pd.DataFrame({"t": times, "x": [1.0, 2.0, 4.0, 5.0]})
    regular = script("real_files")._regular(frame, "t", "h", ["x"])
    assert regular["x"].tolist() == [1.0, 3.0, 4.0, 5.0]
    assert regular["t"].tolist() == list(pd.date_range("2024-01-01", periods=4, freq="h"))


reproduce_cells = script("reproduce_cells")


def test_the_cells_of_the_paper() -> None:
    """A few by hand, from the paper's tables and the authors' scripts."""
    every = {
        (cell.features, cell.dataset, cell.pred_len): cell for kind in "MS" for cell in reproduce_cells.cells(kind)
    }
    assert len(every) == 40
    assert (every["M", "ETTh1", 24].mse, every["M", "ETTh1", 24].mae) == (0.577, 0.549)
    assert (every["S", "WTH", 720].mse, every["S", "WTH", 720].mae) == (0.359, 0.466)
    assert (every["M", "ETTh1", 24].full, every["S", "ETTh1", 720].full) == ((0.62, 0.577), (0.257, 0.421))
    assert every["M", "WTH", 168].sizes[:4] == (
        "seq_len=336", "label_len=168", "model.encoder_stacks=[3]", "model.decoder_layers=2"
    )  # fmt: skip
    assert every["M", "ETTh1", 24].sizes[-1] == "attn.factor=3"
    assert [(cell.dataset, cell.pred_len, cell.mse) for cell in reproduce_cells.cells("long")[3:5]] == [
        ("ETTh1", 720, 0.447), ("ETTm1", 96, 0.290)
    ]  # fmt: skip
    assert [cell.duet for cell in reproduce_cells.cells("long")[3:5]] == [0.429, 0.279]


@pytest.mark.slow
@pytest.mark.parametrize("model", ["informer", "linear", "informer_full", "informer_ridge"])
def test_every_run_is_a_configuration(model: str) -> None:
    """Red if a key is misspelt or a length does not go with the model; in one cell of five."""
    tables = ["M", "S", "long"] if model in reproduce_cells.ANY_HORIZON else ["M"]
    cells = [cell for table in tables for cell in reproduce_cells.cells(table)]
    for cell in cells[::5]:
        settings = yaml.safe_load(done("train", *cell.overrides(model), "seed=3", "--cfg", "job").out)
        family = settings["model"]
        assert (settings["dataset"]["name"], settings["pred_len"]) == (cell.dataset, cell.pred_len)
        if model == "linear":
            assert (family["family"], settings["seq_len"], settings["trainer"]["max_steps"]) == ("linear", 720, 0)
        elif model != "informer_ridge":
            sizes = dict(size.split("=") for size in cell.sizes)
            assert f"{settings['seq_len']} {settings['label_len']}" == f"{sizes['seq_len']} {sizes['label_len']}"
            assert str(family["encoder_stacks"]) == sizes["model.encoder_stacks"]
            assert family["mix"] == (model in ("informer2020", "informer_full"))
            is_full = settings["attn"]["_target_"].endswith("FullAttention")
            assert is_full == (model == "informer_full")


@pytest.mark.slow
def test_the_row_of_a_run_has_its_scores(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if settings or the seed do not reach training, or the row is that of a baseline."""
    reproduce = script("reproduce")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    sizes = ("model=tiny", *(key for key in SMALL if not key.startswith(("pred_len", "model="))))
    cell = reproduce_cells.Cell(dataset="sample", features="M", pred_len=6, mse=1.0, sizes=sizes)
    job = reproduce.Job(cell=cell, model="informer", seed=3, extra=("trainer.max_steps=2",), folder=folder)
    assert reproduce.run_all([job], 1, Console()) == 0
    (found,) = reproduce.finished_rows(folder)
    report = json.loads((job.run_dir / "metrics.json").read_text())
    mse, ridge = (report["scores"][name]["scaled"]["overall"]["mse"] for name in (report["model"], "ridge"))
    assert found.mse == mse != ridge == found.ridge_mse
    assert (found.seed, found.seq_len, found.command) == (3, 24, job.command)
    assert not (job.run_dir / "best.safetensors").exists()


HOURS = 4000


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Quarter hours of two made-up columns, in the format of ETTm1."""
    rng, rows = np.random.default_rng(0), np.arange(4 * HOURS)
    times = pd.date_range("2016-07-01", periods=len(rows), freq="15min")
    columns = {name: np.sin(rows / 96 * 2 * np.pi) + rng.normal(size=len(rows)).cumsum() / 50 for name in "ab"}
    pd.DataFrame({"date": times, **columns}).to_csv(tmp_path / "ETTm1.csv", index=False)
    return tmp_path


def scores(data: Path, name: str) -> pd.DataFrame:
    done = call_script("gift_eval", "--data", data, "--parts", "development", "--output", data / name)
    assert done.status == 0, done.err
    return pd.read_csv(data / name / "development_results.csv")


@pytest.mark.slow
def test_development_does_not_read_rows_of_the_test_part(data):
    """Red if a window of the development part ends in a row that the benchmark forecasts: the last 240 hours are in
    the test windows of every configuration."""
    before = scores(data, "before")
    table = pd.read_csv(data / "ETTm1.csv")
    table.loc[len(table) - 4 * 240 :, ["a", "b"]] = 1e6
    table.to_csv(data / "ETTm1.csv", index=False)
    pd.testing.assert_frame_equal(scores(data, "after"), before)
    assert list(before.dataset) == [
        *(f"ett1/{step}/{term}" for step in ("H", "15T") for term in ("short", "medium", "long")),
        *("ett1/D/short", "ett1/W/short"),
    ]
    numbers = before.drop(columns=["dataset", "model", "domain", "num_variates"])
    assert np.isfinite(numbers.to_numpy()).all()
    assert (numbers > 0).to_numpy().all()


def test_errors_match_their_definitions():
    """MASE, ND, MSIS and the weighted quantile loss, from loops; red if a mean is taken in another order."""
    rng, judge = np.random.default_rng(0), script("gift_eval")
    quantiles, actual, unit = np.sort(rng.normal(size=(3, 4, 11))), rng.normal(size=(3, 4)), np.array([1.0, 2.0, 5.0])
    found = judge.metrics(quantiles, actual, unit)
    places = [(i, j) for i in range(3) for j in range(4)]
    size = sum(abs(actual[place]) for place in places)
    errors = {(i, j): abs(quantiles[i, j, 5] - actual[i, j]) for i, j in places}
    assert found["MASE[0.5]"] == pytest.approx(np.mean([errors[i, j] / unit[i] for i, j in places]))
    assert found["ND[0.5]"] == pytest.approx(sum(errors.values()) / size)
    losses, widths = list[float](), list[float]()
    for k, level in enumerate(judge.DECILES, 1):
        off = [actual[place] - quantiles[place][k] for place in places]
        losses.append(2 * sum(level * x if x > 0 else (level - 1) * x for x in off) / size)
    for i, j in places:
        low, high, y = quantiles[i, j, 0], quantiles[i, j, 10], actual[i, j]
        widths.append((high - low + 40 * (low - y) * (y < low) + 40 * (y - high) * (y > high)) / unit[i])
    assert found["mean_weighted_sum_quantile_loss"] == pytest.approx(np.mean(losses))
    assert found["MSIS"] == pytest.approx(np.mean(widths))


def test_other_series_than_the_benchmark_are_refused(data):
    done = call_script("gift_eval", "--data", data, "--parts", "test", "--output", data / "test")
    assert done.status == 1
    assert "published are (0.97732, 0.24037)" in done.err
