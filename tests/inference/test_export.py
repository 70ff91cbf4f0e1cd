"""Models in other formats: the same numbers, a description next to them, and one line if the export is not possible."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from entry_points import ROOT, Trained, call_export, done, refusal
from graphs_of_models import VARIANTS, outcome

from informer import checkpoint
from informer.checkpoint import attention_names

SAMPLE = ROOT / "data" / "sample.csv"
CONVERTED = ["auto", "full", "performer", "prob", *VARIANTS]
"""Mechanisms whose ONNX graphs are made here; a graph takes seconds, and all of them minutes."""


@pytest.fixture(scope="module")
def differences() -> dict[str, float | str]:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    programs = [*attention_names(), *VARIANTS]
    cases = [*(f"torch_export:{name}" for name in programs), *(f"onnx:{name}" for name in CONVERTED)]
    command = [sys.executable, str(Path(__file__).with_name("graphs_of_models.py")), *cases]
    own = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    done = subprocess.run(command, env=os.environ | own, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "name"),
    [*(("torch_export", name) for name in (*attention_names(), *VARIANTS)), *(("onnx", name) for name in CONVERTED)],
)
def test_an_exported_graph_gives_the_eager_numbers(differences: dict[str, float | str], form: str, name: str) -> None:
    """Red if a mechanism binds the batch of its example or asks for values, or an operator does not convert."""
    found = differences[f"{form}:{name}"]
    assert isinstance(found, float), found
    assert found < 1e-5


def table() -> dict[str, list[str]]:
    """Rows of the table of exports in the documentation."""
    text = (ROOT / "docs" / "attention.md").read_text().partition("| network | torch.export | ONNX |")[2]
    rows = [line.strip("| ").split(" | ") for line in text.partition("\n\n")[0].splitlines()[2:]]
    return {name.strip("`"): cells for name, *cells in rows}


def test_every_mechanism_is_in_the_table_of_exports() -> None:
    """Red if a mechanism is added without a row, or a row is of none."""
    assert [*table()] == [*attention_names(), *VARIANTS]


@pytest.mark.slow
def test_the_table_of_exports_is_what_comes_out(differences: dict[str, float | str]) -> None:
    """Red if a network converts now and the table says that it does not, or the other way round."""
    said = table()
    for key, found in differences.items():
        form, name = key.split(":")
        assert said[name][form == "onnx"].startswith(outcome(found)), key


def test_safetensors_is_read_as_a_checkpoint_and_described(folder: Path, trained: Trained) -> None:
    """Red if anything that a forecast depends on is lost on the way, or if scaling, lengths and columns in the .json
    are not those of the data. How a program uses them: tests/test_columns_by_command.py."""
    done("export", f"checkpoint={trained.run_dir}", "output=own.safetensors")
    ours, theirs = checkpoint.load(trained.run_dir), checkpoint.load(Path("own.safetensors"))
    assert all(torch.equal(ours.weights[name], weight) for name, weight in theirs.weights.items())
    assert ours.weights.keys() == theirs.weights.keys()
    assert torch.equal(ours.calibration["half_widths"], theirs.calibration["half_widths"])
    assert ours.model_dump_json() == theirs.model_dump_json()
    tables = []
    for source in (str(trained.run_dir), "own.safetensors"):
        done("predict", f"checkpoint={source}", f"input={SAMPLE}", "plots=false", "overwrite=true")
        tables.append(Path("forecasts/sample.forecast.csv").read_bytes())
    assert tables[0] == tables[1]
    done("export", f"checkpoint={trained.run_dir}", "output=own.other")
    written = {"own.safetensors", "own.safetensors.json", "own.other", "own.other.json", "forecasts"}
    assert {path.name for path in folder.iterdir()} == written
    facts = json.loads(Path("own.safetensors.json").read_text())
    frame = pd.read_csv(SAMPLE)[facts["columns"]["inputs"]].to_numpy()
    center, scale = (np.array(facts["scaler"]["shared"][name]) for name in ("center", "scale"))
    np.testing.assert_allclose(center, frame[:200].mean(axis=0))
    np.testing.assert_allclose(scale, frame[:200].std(axis=0))
    assert facts["lengths"] == {"seq_len": 24, "label_len": 11, "pred_len": 6, "offset": 0}
    assert facts["inputs"]["dec_x"] == ["batch", 17, 4]
    assert facts["output"] == {"forecast": ["batch", 6, 4]}
    assert len(facts["calendar"]["marks"]) == facts["inputs"]["enc_mark"][2] == len(ours.dims.mark_sizes)
    assert facts["frequency"] == "h"


@pytest.mark.slow
def test_the_command_line_writes_a_program(folder: Path, trained: Trained) -> None:
    """Red if the file cannot be read back, or is not of any batch."""
    outcome = call_export(f"checkpoint={trained.run_dir}", "format=torch_export", "output=own.pt2")
    assert outcome.status == 0, outcome.err
    assert "largest difference from the network's outputs" in outcome.out
    program = torch.export.load("own.pt2")
    windows = [part[:1].expand(7, *part.shape[1:]) for part in program.example_inputs[0]]
    assert program.module()(*windows).shape == (7, 6, 4)


@pytest.mark.parametrize("library", ["onnxruntime", "onnxscript"])
def test_a_missing_library_is_one_line(
    library: str, folder: Path, trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red if an extra is needed without being named, or something is left behind."""
    monkeypatch.setattr(torch.export, "export", lambda *_, **__: None)
    monkeypatch.setitem(sys.modules, library, None)
    line = refusal("export", f"checkpoint={trained.run_dir}", "format=onnx", "output=own.bin")
    assert f"needs {library}: pip install" in line
    assert not list(folder.iterdir())
