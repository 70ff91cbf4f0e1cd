"""The notebooks run from a clean start, and are kept without outputs."""

import json
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_stripped(path: Path) -> None:
    """Red if a notebook was saved after running."""
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert cells
    assert all(not cell.outputs and cell.execution_count is None for cell in cells)


SHORTER = {'"steps_per_epoch": 60': '"steps_per_epoch": 4', "trainer.max_steps=200": "trainer.max_steps=4"}
"""Every cell runs, but each training only for some steps: no cell depends on what the network has learned."""


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path: Path, tmp_path: Path) -> None:
    """Red if a cell fails, or the notebooks train for other numbers of steps than `SHORTER` replaces."""
    text = path.read_text(encoding="utf-8")
    for given, shorter in SHORTER.items():
        text = text.replace(json.dumps(given)[1:-1], json.dumps(shorter)[1:-1])
    notebook = nbformat.reads(text, as_version=4)
    assert notebook != nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    pictures = [out for cell in notebook.cells for out in cell.get("outputs", []) if "image/png" in out.get("data", {})]
    assert len(pictures) >= 3
