"""scripts/reproduce.py and reproduce_table.py: the cells of the paper, the runs they ask for, the table of them."""

import json
from pathlib import Path

import pytest
import yaml
from entry_points import ROOT, SMALL, done, script
from rich.console import Console

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
