"""scripts/benchmark_attention.py: what it concludes from its cells, where it stops, that it continues."""

import importlib
import math
import sys
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from entry_points import ROOT, call_script

from informer.build import build_attention
from informer.networks.attention.base import AttentionSpec

SCRIPTS = ROOT / "scripts"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(SCRIPTS)
    return importlib.import_module("benchmark_attention")


@pytest.fixture
def report(script: ModuleType) -> ModuleType:
    return importlib.import_module("attention_report")


@pytest.fixture
def setup(script: ModuleType) -> object:
    return script.Setup(causal=False, device="cpu", threads=1, clock="cpu")


def test_growth_and_crossover(report: ModuleType) -> None:
    lengths = [512, 1024, 2048, 4096, 8192]
    power = [report.Cell(attn="a", rival="full", length=n, seconds=3e-9 * n**1.5) for n in lengths]
    power[0].seconds = 1.0  # below the fit
    assert report.exponent(power) == pytest.approx(1.5)
    assert math.isnan(report.exponent(power[:3]))
    for cell, ratio in zip(power, [0.5, 1.2, 0.9, 0.8, math.nan], strict=True):
        cell.ratio = ratio
    assert report.crossover(power) == 2048, "an early lead that is lost again does not count"
    power[3].ratio = 1.0
    assert report.crossover(power) is None


def test_tables_mark_what_stopped(script: ModuleType, report: ModuleType, tmp_path: Path) -> None:
    cells = [
        report.Cell(attn="full", rival="", length=2048, seconds=0.2, peak_bytes=2.0**20, turns=3, spread=1.1),
        report.Cell(
            attn="hard", rival="full", length=2048, seconds=0.8, rival_seconds=0.2, ratio=4.0, peak_bytes=2.0**30
        ),
        report.Cell(attn="full", rival="", length=4096, seconds=0.8, peak_bytes=2.0**21),
        report.Cell(attn="hard", rival="full", length=4096, stopped="> 60 s"),
    ]
    text = report.markdown(cells)
    assert "| `full` | 200 | 800 | L^2.00 |  |\n" in text
    assert "| `hard` | 800 | > 60 s |  | nowhere |\n" in text
    assert "| `hard` | 0.25 | > 60 s |\n" in text
    assert "| `hard` | 1020 | > 60 s |\n" in text
    script.write_rows(script.Cell, cells, tmp_path / "results.csv")
    assert repr(script.read_rows(script.Cell, tmp_path / "results.csv")) == repr(cells)
    report.plot(cells, tmp_path / "scaling.png")
    assert (tmp_path / "scaling.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("seconds", "n_bytes", "rival", "rival_seconds", "expected"),
    [
        (14.9, 2**30, "full", 1.0, ""),
        (15.1, 2**30, "full", 1.0, "> 60 s"),
        (1.0, 2.1 * 2**30, "full", 1.0, "> 8 GiB"),
        (1.0, math.nan, "full", 99.0, ""),
        (1.0, math.nan, "linformer", 99.0, "> 60 s"),
    ],
)
def test_a_mechanism_stops_before_its_limit(script, seconds, n_bytes, rival, rival_seconds, expected) -> None:
    """Red if growth is not squared, or a slow full attention stops a fast mechanism."""
    last = script.Cell(
        attn="a", rival=rival, length=512, seconds=seconds, rival_seconds=rival_seconds, peak_bytes=n_bytes
    )
    assert script.limit_passed(last, 1024) == expected
    assert script.limit_passed(script.Cell(attn="a", rival=rival, length=512, stopped=expected), 2048) == expected


def test_what_a_package_raises_is_told(script, setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "in_fresh_process", lambda function, *arguments: function(*arguments))
    monkeypatch.setitem(sys.modules, "performer_pytorch", None)
    broken = ModuleType("linformer")
    monkeypatch.setitem(sys.modules, "linformer", broken)
    given = SimpleNamespace(packages=True, causal=False)
    told = {}
    for ours, rival in script.pairs(given, 128):
        if rival.name in ("performer-pytorch", "linformer"):
            cell = script.Cell(attn=ours.name, rival=rival.name, length=128)
            script.measure(setup, ours, rival, cell)
            told[rival.name] = cell.stopped
    assert told["performer-pytorch"] == "performer_pytorch is not installed"
    assert told["linformer"].startswith("ImportError: cannot import name 'LinformerSelfAttention'")


@pytest.mark.parametrize(
    ("package", "module", "causal", "factor"),
    [
        ("local-attention", "local_attention", False, 1.0),
        ("local-attention", "local_attention", True, 1.0),
        ("linear-attention-transformer", "linear_attention_transformer", False, 8.0),
    ],
)
def test_packages_said_to_give_the_same_do(script, package, module, causal, factor) -> None:
    pytest.importorskip(module)
    entry = script.PACKAGES[package]
    spec = AttentionSpec(n_heads=2, d_head=64, len_q=96, len_k=96, causal=causal)
    ours, theirs = build_attention(entry.ours, spec, **entry.params(96)), entry.build(spec)
    q, k, v = (torch.randn(2, 2, 96, 64, generator=torch.Generator().manual_seed(i)) for i in range(3))
    torch.testing.assert_close(ours(q, k, v), factor * theirs(q, k, v), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_benchmark_goes_on_where_it_stopped(folder: Path) -> None:
    """Red if a cell is measured again, or another set-up is mixed in."""
    benchmark = partial(call_script, "benchmark_attention", "--output", "out")
    fixed = ["--threads", "1", "--clock", "cpu", "--attn", "taylor"]
    first = benchmark(*fixed, "--lengths", "128")
    assert first.status == 0, first.err
    rows = Path("out/results.csv").read_text()
    assert [line.split(",")[:3] for line in rows.splitlines()[1:]] == [["full", "", "128"], ["taylor", "full", "128"]]
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


def test_a_row_of_decoding_step_is_timed_with_a_state_and_without(script, setup, monkeypatch) -> None:
    """Red if the decoder of a mechanism is run anew for each row, or that of the comparison is not."""
    decode = importlib.import_module("attention_decode")
    assert {"full", "linear", "performer", "performer_trig", "efficient"} <= set(decode.recurrent_names())
    monkeypatch.setattr(decode, "HEADS", 1)
    runs, whole = [], decode.ForecastModel.forward
    monkeypatch.setattr(
        decode.ForecastModel, "forward", lambda self, *x: runs.append(self.keeps_states) or whole(self, *x)
    )
    cells = [cell for name in (decode.ANEW, "linear") for cell in decode.decode(setup, name, [3, 2])]
    assert [(cell.attn, cell.horizon) for cell in cells] == [
        (name, n) for name in (decode.ANEW, "linear") for n in (2, 3)
    ]
    assert runs == [False] * 3 + [True] * 3
    lines = decode.decode_table(cells[:1] + cells[2:]).splitlines()
    assert lines[0] == "| milliseconds a row | 2 | 3 |"
    assert lines[2].startswith("| full, run anew |")
    assert lines[2].endswith("| > 60 s in all |")
    assert lines[3].startswith("| `linear` |")


def test_nothing_to_draw_is_one_line(script, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmark_attention.py", "--draw", "--output", "absent"])
    with pytest.raises(SystemExit, match=r"error: absent/results\.csv: nothing measured yet"):
        script.main()
    assert not Path("absent").exists()
