"""scripts/benchmark_attention.py: what it concludes from its cells, where it stops, that it continues."""

import importlib
import math
import sys
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
from entry_points import ROOT, call_script

SCRIPTS = ROOT / "scripts"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(SCRIPTS)
    return importlib.import_module("benchmark_attention")


def test_growth_and_crossover(script: ModuleType) -> None:
    lengths = [512, 1024, 2048, 4096, 8192]
    power = [script.Cell(attn="a", length=n, seconds=3e-9 * n**1.5) for n in lengths]
    power[0].seconds = 1.0  # below the fit
    assert script.exponent(power) == pytest.approx(1.5)
    assert math.isnan(script.exponent(power[:3]))
    for cell, ratio in zip(power, [0.5, 1.2, 0.9, 0.8, math.nan], strict=True):
        cell.ratio = ratio
    assert script.crossover(power) == 2048, "an early lead that is lost again does not count"
    power[3].ratio = 1.0
    assert script.crossover(power) is None


def test_tables_mark_what_stopped(script: ModuleType, tmp_path: Path) -> None:
    cells = [
        script.Cell(attn="full", length=2048, seconds=0.2, peak_bytes=2.0**20, turns=3, spread=1.1),
        script.Cell(attn="hard", length=2048, seconds=0.8, ratio=4.0, peak_bytes=2.0**30),
        script.Cell(attn="full", length=4096, seconds=0.8, peak_bytes=2.0**21),
        script.Cell(attn="hard", length=4096, stopped="> 60 s"),
    ]
    text = script.markdown(cells)
    assert "| `full` | 200 | 800 | L^2.00 |  |\n" in text
    assert "| `hard` | 800 | > 60 s |  | nowhere |\n" in text
    assert "| `hard` | 0.25 | > 60 s |\n" in text
    assert "| `hard` | 1020 | > 60 s |\n" in text
    script.write_rows(script.Cell, cells, tmp_path / "results.csv")
    assert repr(script.read_rows(script.Cell, tmp_path / "results.csv")) == repr(cells)
    script.plot(cells, tmp_path / "scaling.png")
    assert (tmp_path / "scaling.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("seconds", "n_bytes", "expected"),
    [(14.9, 2**30, ""), (15.1, 2**30, "> 60 s"), (1.0, 2.1 * 2**30, "> 8 GiB"), (1.0, math.nan, "")],
)
def test_a_mechanism_stops_before_its_limit(script, seconds, n_bytes, expected) -> None:
    """Red if growth is not squared."""
    last = script.Cell(attn="a", length=512, seconds=seconds, peak_bytes=n_bytes)
    assert script.limit_passed(last, 1024) == expected
    assert script.limit_passed(script.Cell(attn="a", length=512, stopped=expected), 2048) == expected


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


def test_nothing_to_draw_is_one_line(script, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmark_attention.py", "--draw", "--output", "absent"])
    with pytest.raises(SystemExit, match=r"error: absent/results\.csv: nothing measured yet"):
        script.main()
    assert not Path("absent").exists()
