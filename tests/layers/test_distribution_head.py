"""Distributions as forecasts: likelihoods, gradients and quantiles by scipy; what a whole run does with them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from entry_points import SMALL, done, refusal
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from informer import Forecaster
from informer.members.network import with_counts
from informer.networks.layers.distribution_head import (
    LIKELIHOODS,
    DistributionHead,
    counts_at,
    of_output,
    student_quantile,
)

LEVELS = (0.025, 0.1, 0.5, 0.9, 0.99)


class Scaling:
    """The scaler's numbers of two windows with one column."""

    center, scale = torch.tensor([[3.0], [0.5]]).double(), torch.tensor([[4.0], [0.7]]).double()


def frozen(kind: str, output: np.ndarray) -> Any:
    """scipy's distributions of an output, of counts with the center and scale above."""
    center, scale = output[..., 0], output[..., 1] - output[..., 0]
    if kind == "normal":
        return stats.norm(center, scale)
    if kind == "student_t":
        return stats.t(scale / (output[..., 2] - center), center, scale)
    unit, zero = Scaling.scale.numpy()[:, None], Scaling.center.numpy()[:, None]
    mean = np.logaddexp(0, 10 * (center + zero / unit)) / 10 * unit
    variance = mean * (1 + scale * unit)
    return stats.nbinom(mean**2 / (variance - mean), mean / variance)


def outputs(kind: str) -> torch.Tensor:
    """Parameters [2 3 1 p] of a head with drawn weights."""
    torch.manual_seed(2)
    output = DistributionHead(kind, LEVELS, 4, 1).double()(2 * torch.randn(2, 3, 4).double()).detach()
    return with_counts(output, Scaling) if kind == "negative_binomial" else output


@pytest.mark.parametrize("kind", LIKELIHOODS)
def test_quantiles_by_scipy(kind: str) -> None:
    """Red if a quantile is of another level, counts are not brought back to the scale of the model, or the mean of
    counts does not come after their quantiles."""
    output = outputs(kind)
    head, known = DistributionHead(kind, LEVELS, 4, 1), frozen(kind, output.numpy())
    expected = np.stack([known.ppf(level) for level in LEVELS], axis=-1)
    found = head.quantiles(output)
    if kind == "negative_binomial":
        expected = np.concatenate([expected, known.mean()[..., None]], axis=-1)
        found = found * Scaling.scale[:, None, None] + Scaling.center[:, None, None]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    samples = of_output(output, kind=kind).sample((4000,)).numpy()
    np.testing.assert_allclose(samples.mean(0), known.mean(), atol=6 * (known.std() / 4000**0.5).max())


@settings(deadline=None, max_examples=50)
@given(u=st.floats(1 / 200, 0.5), level=st.sampled_from([0.001, 0.025, 0.1, 0.3, 0.5, 0.8, 0.95, 0.999]))
def test_student_quantiles_by_scipy(u: float, level: float) -> None:
    """Red if the polynomials leave scipy's quantiles by more than 1e-5 of them."""
    found = student_quantile(torch.tensor(u).double(), level).item()
    assert found == pytest.approx(stats.t.ppf(level, 1 / u), rel=1e-5, abs=1e-9)


@settings(deadline=None, max_examples=30)
@given(mean=st.floats(0.01, 500), excess=st.floats(0.01, 50))
def test_count_quantiles_by_scipy(mean: float, excess: float) -> None:
    """Red if sums are cut where a block ends, or a level is passed by one count."""
    counts = torch.distributions.NegativeBinomial(torch.tensor(mean / excess), logits=torch.tensor(excess).log())
    found = counts_at(counts, (0.1, 0.5, 0.977)).numpy()
    known = stats.nbinom(float(counts.total_count), 1 - float(torch.sigmoid(counts.logits.double())))
    assert found[3] == pytest.approx(mean, rel=1e-5)
    for level, value in zip((0.1, 0.5, 0.977), found[:3], strict=True):
        assert known.cdf(value) >= level - 1e-9
        assert known.cdf(value - 1) < level + 1e-9


def counts_file(folder: Path) -> str:
    """Counts per hour with a daily wave, and a column of as many zeros as not."""
    random, hours = np.random.default_rng(1), np.arange(320)
    rate = 8 + 6 * np.sin(hours * np.pi / 12)
    columns = {"sales": random.negative_binomial(4, 4 / (4 + rate)), "rare": random.poisson(0.6, 320)}
    dates = pd.date_range("2024-01-01", periods=320, freq="h")
    pd.DataFrame({"date": dates, **columns}).to_csv(folder / "counts.csv", index=False)
    return "dataset.path=counts.csv"


def test_a_run_with_a_distribution_of_counts(folder: Path) -> None:
    """Red if a run, its scores, a restored model or a forecast has no quantiles, or others than the distribution's."""
    run = ["dataset=csv", counts_file(folder), *SMALL, "loss=negative_binomial", "trainer.max_steps=3"]
    done("train", *run, "model.instance_norm=true", "loss.quantiles=[0.1,0.5,0.9]", "run_dir=run")
    report = json.loads(Path("run/metrics.json").read_text())
    assert set(report["quantiles"]) == {"q10", "q50", "q90"}
    assert {"80", "95", "q10_q90"} == set(report["intervals"])
    assert "quantiles of loss=negative_binomial are sums" in refusal("export", "checkpoint=run", "format=onnx")
    ahead = Forecaster.load("run").predict(pd.read_csv("counts.csv", parse_dates=["date"]))
    for name in ("sales", "rare"):
        # the point forecast is the mean, which may lie above the 90 % quantile of rare counts
        ends = ahead[[f"{name}_q10", f"{name}_q90"]].to_numpy()
        assert (ends[:, 0] <= ends[:, 1]).all()
        np.testing.assert_allclose(ends, ends.round(), atol=1e-3)
        assert (ahead[name] > 0).all()


@pytest.mark.slow
def test_another_distribution_starts_with_a_new_head(folder: Path) -> None:
    """Red if weights of one distribution's parameters are taken for those of another with as many."""
    run = ["dataset=csv", counts_file(folder), *SMALL, "trainer.max_epochs=1", "trainer.max_steps=1"]
    done("train", *run, "loss=normal", "run_dir=normal")
    for kind, is_new in (("normal", False), ("negative_binomial", True)):
        out = done("train", *run, f"loss={kind}", "init_from=normal", f"run_dir=from_{kind}").out
        assert ("head" in out) == is_new, out
