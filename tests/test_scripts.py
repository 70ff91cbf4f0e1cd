"""Scripts: cells of the benchmark of attention; configurations and table of the ablation; rows of published files."""

import math
from functools import partial
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest
from entry_points import call_script, script

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
