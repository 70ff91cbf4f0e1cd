"""What a CUDA GPU computes is what the CPU computes: mechanisms, families, training, forecasts. Skipped without one."""

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from entry_points import ROOT, SMALL, done

from informer import Forecaster
from informer.checkpoint import attention_names, build_attention
from informer.networks import AttentionSpec

pytestmark = [pytest.mark.cuda, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")]

NAMES = attention_names()
BOTH = [
    (name, causal)
    for name in NAMES
    for causal in (False, True)
    if build_attention(name, AttentionSpec(2, 8, 16, 16)).CAUSAL or not causal
]
FAMILIES = {"tiny": ["model.dropout=0"], "linear": [], "lstma": ["model.dropout=0"], "zero": []}
"""And the settings with which nothing is random but what draws from the CPU's generator."""


def made(name: str, length: int, *, causal: bool, dtype: torch.dtype) -> tuple[torch.nn.Module, list[torch.Tensor]]:
    """A mechanism, and q, k, v on the CPU."""
    torch.manual_seed(0)
    spec = AttentionSpec(n_heads=2, d_head=8, len_q=length, len_k=length, causal=causal)
    attn = build_attention(name, spec).to(dtype).eval()
    return attn, [torch.randn(2, 2, length, 8, dtype=dtype) for _ in range(3)]


def values_and_gradients(attn: torch.nn.Module, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    leaves = [x.clone().requires_grad_() for x in inputs]
    out = attn(*leaves)
    out.sum().backward()
    return [out.detach(), *(x.grad for x in leaves if x.grad is not None)]


@pytest.mark.parametrize(("name", "causal"), BOTH)
@pytest.mark.parametrize("length", [97, 256])
def test_a_mechanism_and_its_gradients(name: str, causal: bool, length: int) -> None:
    attn, inputs = made(name, length, causal=causal, dtype=torch.float64)
    expected = values_and_gradients(attn, inputs)
    found = values_and_gradients(copy.deepcopy(attn).cuda(), [x.cuda() for x in inputs])
    for one, other in zip(expected, found, strict=True):
        assert other.is_cuda
        torch.testing.assert_close(other.cpu(), one, rtol=1e-8, atol=1e-8 * max(1.0, float(one.abs().max())))


@pytest.mark.parametrize("name", NAMES)
def test_a_training_pass_in_bfloat16(name: str) -> None:
    attn, inputs = made(name, 97, causal=False, dtype=torch.float32)
    attn = attn.cuda().train()
    with torch.autocast("cuda", torch.bfloat16):
        parts = values_and_gradients(attn, [x.cuda() for x in inputs])
    assert all(part.isfinite().all() for part in parts)
    assert parts[0].any()


@pytest.mark.parametrize("model", FAMILIES)
def test_a_family_trains_and_forecasts(model: str, tmp_path: Path) -> None:
    """Scores and forecasts of a run on the GPU are, in float32 and without dropout, those of the CPU."""
    frame = pd.read_csv(ROOT / "data/sample.csv", parse_dates=["date"])
    scores, forecasts = [], []
    for device in ("cpu", "cuda"):
        run = tmp_path / device
        settings = [f"model={model}", *SMALL[1:], "precision=float32", f"device={device}", f"run_dir={run}"]
        done("train", "dataset=sample", *settings, *FAMILIES[model])
        scores.append(json.loads((run / "metrics.json").read_text())["scores"])
        # on the other device: a checkpoint of one is read on both
        other = {"cpu": "cuda", "cuda": "cpu"}[device]
        forecasts.append(Forecaster.load(run, device=other).predict(frame).select_dtypes("number").to_numpy())
    for name, errors in scores[0].items():
        for error in ("mse", "mae"):
            found, expected = (part["scaled"]["overall"][error] for part in (scores[1][name], errors))
            assert found == pytest.approx(expected, rel=2e-3), name
    np.testing.assert_allclose(forecasts[1], forecasts[0], rtol=2e-2, atol=2e-2 * np.abs(forecasts[0]).max())


@pytest.mark.parametrize("decoding", ["one_pass", "step"])
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_resumed_run_is_the_whole_run(decoding: str, precision: str, tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    settings = ["dataset=sample", *SMALL, "device=cuda", f"model.decoding={decoding}", f"precision={precision}"]
    done("train", *settings, f"run_dir={whole}")
    done("train", *settings, "trainer.max_epochs=1", f"run_dir={cut}")
    done("train", f"resume={cut}", "trainer.max_epochs=2")
    errors = [json.loads((run / "metrics.json").read_text())["scores"]["informer"]["scaled"] for run in (whole, cut)]
    assert errors[1]["overall"]["mse"] == pytest.approx(errors[0]["overall"]["mse"], rel=1e-3)


def test_the_pretrained_network() -> None:
    rng, t = np.random.default_rng(0), np.arange(300)
    columns = {f"c{k}": 10.0**k * (5 + np.sin(t * 2 * np.pi / (7 + k)) + rng.normal(0, 0.3, 300)) for k in range(6)}
    frame = pd.DataFrame({"time": pd.date_range("2024", periods=300, freq="h"), **columns})
    found, expected = (Forecaster(horizon=120, device=device).fit(frame).predict(frame) for device in ("cuda", "cpu"))
    pd.testing.assert_frame_equal(found, expected, rtol=1e-3)


@pytest.mark.slow
def test_a_compiled_run(tmp_path: Path) -> None:
    """A program of its own, because the compiler cannot trace the shape checks of tests."""
    arguments = ["dataset=sample", *SMALL, "device=cuda", "compile=true", f"run_dir={tmp_path / 'run'}"]
    command = [sys.executable, "-m", "informer.train", *arguments]
    ended = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "run" / "metrics.json").exists()
