"""The notebooks run from a clean start, and are kept with the outputs of one run."""

import json
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_of_one_run_from_a_clean_start(path: Path) -> None:
    """Red if a cell was changed or run again by itself, failed, or warned."""
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == [*range(1, len(cells) + 1)]
    outputs = [output for cell in cells for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"]
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 2


SHORTER = {'"steps_per_epoch": 60': '"steps_per_epoch": 4'}
"""Every cell runs, but each training only for some steps: no cell depends on what the network has learned."""


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path: Path, tmp_path: Path) -> None:
    """Red if a cell fails."""
    text = path.read_text(encoding="utf-8")
    for given, shorter in SHORTER.items():
        text = text.replace(json.dumps(given)[1:-1], json.dumps(shorter)[1:-1])
    notebook = nbformat.reads(text, as_version=4)
    for cell in notebook.cells:
        cell.get("outputs", []).clear()
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    pictures = [out for cell in notebook.cells for out in cell.get("outputs", []) if "image/png" in out.get("data", {})]
    assert len(pictures) >= 2
