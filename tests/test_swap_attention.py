"""scripts/swap_attention.py: a trained network with other attention, scored before and after some steps."""

import csv
from pathlib import Path
from types import ModuleType

import entry_points
import pytest
from entry_points import Trained, call, call_script

from informer import checkpoint
from informer.config.conversion import from_plain
from informer.inference.evaluate import score
from informer.inference.trained_data import trained_data
from informer.runtime import seed_everything
from informer.training.initial import begin_with, new_network


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return entry_points.script("swap_attention")


def read(path: Path) -> dict[tuple[str, int], dict[str, str]]:
    with path.open() as file:
        return {(row["attn"], int(row["steps"])): row for row in csv.DictReader(file)}


def test_the_error_right_after_the_swap_is_that_of_init_from(
    folder: Path, trained: Trained, script: ModuleType
) -> None:
    """The same network by hand, scored as a run is. Red if a swapped network is not the one of `init_from`, training
    before the first score has moved it, or a finished mechanism is run again."""
    arguments = [f"checkpoint={trained.run_dir}", "steps=0,2", "lr=1e-3", "--output", "out"]
    done = call_script("swap_attention", "attn=[linformer,prob]", *arguments)
    assert done.status == 0, done.err
    rows = read(Path("out/swap.csv"))
    assert rows.keys() == {("linformer", 0), ("linformer", 2), ("prob", 0), ("prob", 2)}
    saved = checkpoint.load(trained.run_dir)
    settings, remark = script.swapped_settings(from_plain(saved.config), "linformer", None)
    assert remark == "decoder: full" == rows["linformer", 0]["remark"]
    with trained_data(saved, script.CPU, scratch=folder) as data:
        seed_everything(settings.seed)
        model = new_network(settings, data)
        transfer = begin_with(model, settings, data, saved)
        errors = score(model, data, batch_size=64).errors["informer"].scaled.overall()
    assert float(rows["linformer", 0]["mse"]) == pytest.approx(errors["mse"], rel=1e-6)
    assert int(rows["linformer", 0]["fresh"]) == len(transfer.new) == 4
    assert rows["linformer", 2]["mse"] != rows["linformer", 0]["mse"]
    own = call("eval", f"checkpoint={trained.run_dir}", "output=own")
    assert own.status == 0
    before = Path("out/prob.json").stat().st_mtime_ns
    again = call_script("swap_attention", "attn=[prob,full]", *arguments)
    assert again.status == 0, again.err
    assert Path("out/prob.json").stat().st_mtime_ns == before
    assert {name for name, _ in read(Path("out/swap.csv"))} == {"linformer", "prob", "full"}
    assert "**`prob`** (its own)" in Path("out/swap.md").read_text()
    assert Path("out/swap.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["steps=0"], "checkpoint: expected a run directory"),
        (["checkpoint=x", "step=3"], "unknown key 'step'"),
        (["checkpoint=x", "attn=nope"], "unknown attention 'nope'"),
        (["checkpoint=x", "steps=5,3"], "steps: expected ascending numbers from 0"),
        (["checkpoint=x", "steps=many"], "steps, lr: expected numbers"),
    ],
)
def test_what_cannot_be_swapped(script: ModuleType, arguments: list[str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        script.SwapOptions.of(arguments)


def test_the_table_is_ranked_by_the_last_error(script: ModuleType) -> None:
    rows = [
        script.Row(attn=name, steps=steps, mse=mse, mae=0.5, fresh=1, cpu_seconds=2.0, remark="")
        for name, errors in {"full": (0.5, 0.4), "em": (0.9, 0.3)}.items()
        for steps, mse in zip((0, 7), errors, strict=True)
    ]
    lines = script.as_markdown(rows, "full").splitlines()
    assert lines[2] == "| `em` | 0.900 / 0.500 | 0.300 / 0.500 | 1 | 2 |  |"
    assert lines[3].startswith("| **`full`** (its own) | 0.500 / 0.500 | 0.400")
    axes = script.as_figure(rows, "full").axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["em", "full"]
