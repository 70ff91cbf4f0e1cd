"""scripts/compare_attention.py: every mechanism by the same keys, failures are reported, finished ones are kept."""

import csv
import json
from pathlib import Path

import pytest
import torch
from entry_points import SMALL, TENSORBOARD, Outcome, call_script


def compare(*arguments: str) -> Outcome:
    return call_script("compare_attention", "dataset=sample", *SMALL, TENSORBOARD, *arguments)


@pytest.mark.slow
def test_a_comparison_goes_on_where_it_stopped(folder: Path) -> None:
    """Red if a failure ends the comparison, a finished run is made again, or a number is another run's."""
    keys = ["trainer.max_steps=1", "--output", "out"]
    done = compare("attn=[synthesizer,full]", "attn.scale=0.5", *keys)
    assert done.status == 0, done.err
    assert "failed: error: unknown key 'attn.scale': expected a parameter of SynthesizerAttention" in done.out
    with Path("out/table.csv").open() as file:
        full, synthesizer = csv.DictReader(file)
    scores = json.loads(Path("out/full/metrics.json").read_text())["scores"]["informer"]["scaled"]["overall"]
    assert (full["attn"], float(full["mse"]), float(full["mae"])) == ("full", scores["mse"], scores["mae"])
    weights = torch.load("out/full/best.pt", weights_only=True)["weights"]
    trained = {name: weight for name, weight in weights.items() if "running" not in name and "num_batches" not in name}
    assert int(full["parameters"]) == sum(weight.numel() for weight in trained.values())
    assert 100e6 < float(full["peak_bytes"]) < 10e9
    assert 0.5 < float(full["cpu_seconds"]) < 600
    assert synthesizer["mse"] == "nan"
    before = Path("out/full/best.pt").stat().st_mtime_ns
    again = compare("attn=full", "attn.scale=0.5", *keys)
    assert again.status == 0, again.err
    assert Path("out/full/best.pt").stat().st_mtime_ns == before
    assert Path("out/table.md").read_text().startswith("| attn | MSE |")


def test_what_cannot_be_compared_is_refused(folder: Path) -> None:
    for arguments, part in [
        (["attn=[full,nope]"], "unknown attention 'nope'"),
        (["run_dir=here"], "use --output"),
    ]:
        done = compare(*arguments)
        assert done.status == 1
        assert done.err.startswith("error: ")
        assert part in done.err
        assert done.err.count("\n") == 1
    Path("runs/compare_attention").mkdir(parents=True)
    Path("runs/compare_attention/setup.json").write_text('{"overrides": []}')
    assert "found those of another" in compare("attn=full").err
