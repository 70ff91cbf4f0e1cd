"""Generated series: what a seed fixes, which families there are, and what the recipe of pretraining does with them."""

import gzip
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from entry_points import ROOT, script

from informer.networks.models.zero import Zero
from pretraining.draws import SHORTEST
from pretraining.families import FAMILIES
from pretraining.generate import Generated, generate

pretrain = script("pretrain")
HISTORY, HORIZON = 1024, 96


@pytest.fixture(scope="module")
def made() -> Generated:
    return generate(900, HISTORY, HORIZON, np.random.default_rng(0))


def tensors(made: Generated, n: int) -> list[torch.Tensor]:
    """The first n series, as a batch of the stream."""
    return [torch.from_numpy(x[:n]) for x in made[:4]]


def test_a_seed_fixes_the_series():
    first, again, other = (generate(20, 200, 30, np.random.default_rng(seed)) for seed in (1, 1, 2))
    for a, b in zip(first[:4], again[:4], strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(first.values, other.values)


def test_no_file_is_read_while_series_are_made():
    """Red if a family reads data, or anything but code, while it is imported or called."""
    code = (
        "import sys\n"
        "sys.addaudithook(lambda event, args: print(args[0]) if event in ('open', 'socket.connect') else None)\n"
        "import numpy\n"
        "from pretraining.generate import generate\n"
        "generate(45, 300, 30, numpy.random.default_rng(0))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    # installed libraries may lie below the root; they read their own files of metadata
    paths = (line for line in done.stdout.splitlines() if line.startswith(str(ROOT)) and "site-packages" not in line)
    endings = {path.rpartition(".")[2] for path in paths}
    assert "py" in endings or "pyc" in endings
    assert endings <= {"py", "pyc"}


RECIPE = {
    "sums": (0.779, 0.236, 6), "products": (1.04, 0.0525, 7), "light": (0.207, 0.205, 24),
    "walks": (0.997, 0.0615, 1), "regimes": (1.55, 0.3, 7), "shocks": (1.34, 0.447, 7),
    "flattening": (1.57, 0.208, 4), "spikes": (0.818, 1, 24), "counts": (2.5, 1.14, 7),
    "day_by_week": (1.08, 0.257, 24), "holidays": (1, 0.286, 7), "steps": (0.809, 0.233, 7),
    "growth": (0.749, 0.0411, 4), "volatile": (1.16, 0.331, 7), "cycles": (0.742, 0.287, 1),
}  # fmt: skip
"""By family, medians of the mean size of a series, of its changes relative to that, and of the season."""


def test_the_families_are_those_of_the_recipe(made):
    """Red if a family is another one; numbers change only together with the recipe."""
    assert np.isfinite(made.values).all()
    assert np.bincount(made.family).tolist() == [60] * len(FAMILIES)
    assert HISTORY - made.observed[:, :HISTORY].argmax(axis=1).max() == SHORTEST
    assert made.observed[:, HISTORY - 1].all()  # forecasts start after a known value
    for index, name in enumerate(FAMILIES):
        (size, change, length), is_own = RECIPE[name], made.family == index
        values, season = made.values[is_own].astype(float), made.season[is_own]
        sizes = np.abs(values).mean(axis=1)
        changes = np.abs(np.diff(values, axis=1)).mean(axis=1) / sizes.clip(1e-9)
        assert (np.median(sizes), np.median(changes)) == pytest.approx((size, change), rel=0.01)
        assert np.median(season) == pytest.approx(length, abs=0.5)


def test_weight_is_zero_where_nothing_was_observed(made):
    objective = pretrain.Objective(Zero(d_model=16, d_ff=16))
    values, observed, *seasons = tensors(made, 50)
    assert not observed[:, HISTORY:].all()
    other = torch.where(observed, values, 100.0)
    assert objective(other, observed, *seasons) == objective(values, observed, *seasons)


def test_an_earlier_origin_of_the_same_series(made):
    """Red if rows are lost or invented: what is observed is a part of the series, moved to the right."""
    values, observed = pretrain.earlier(made, HORIZON, np.random.default_rng(3))
    moved = 0
    for now, then, seen, known in zip(values, made.values, observed, made.observed, strict=True):
        assert seen[:HISTORY].any()
        by = [k for k in range(HORIZON) if np.array_equal(now[k:][seen[k:]], then[: len(then) - k][seen[k:]])]
        # a series that repeats itself is found in several places
        assert any(known[: len(known) - k][seen[k:]].all() for k in by)
        moved += by[0] > 0
    assert moved > len(values) / 2


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Settings of a small network without real series to score."""
    monkeypatch.setattr(pretrain, "GENERATED_AT_ONCE", 96)
    sizes = {"d_model": 16, "d_ff": 16, "encoder_layers": 1, "decoder_layers": 1}
    run = {"data": str(tmp_path / "none"), "out": str(tmp_path / "a"), "network": sizes}
    return pretrain.Settings(steps=24, batch_size=32, rate=5e-3, warm_up=5, **run)


@pytest.mark.slow
def test_training_reduces_the_loss_and_starts_from_saved_weights(small, tmp_path):
    state = pretrain.train(small)
    network, saved = pretrain.load(tmp_path / "a")
    assert saved == state
    assert (saved.series, saved.steps, saved.run_steps) == (32 * 24, 24, 24)
    batch = tensors(generate(200, 1024, 96, np.random.default_rng(9)), 200)
    with torch.no_grad():
        assert pretrain.Objective(network)(*batch) < 0.98 * pretrain.Objective(Zero(**small.network))(*batch)
    later = replace(small, init_from=small.out, out=str(tmp_path / "b"), steps=1)
    assert pretrain.train(later).series == state.series + 32
    assert pretrain.load(tmp_path / "b")[1].network == small.network


@pytest.mark.slow
def test_a_stopped_run_goes_on_as_if_it_had_not_been_stopped(small, tmp_path):
    """Red if the optimiser, the average, the rate or the next series are others after a stop: within the series that
    are generated at once, and with two views of each."""
    whole = replace(small, steps=11, views=2, decay=0.5)
    pretrain.train(whole)
    parts = replace(whole, out=str(tmp_path / "b"), minutes=0)
    while pretrain.train(parts).run_steps < 11:  # a step at a time
        pass
    for (name, one), other in zip(
        pretrain.load(tmp_path / "a")[0].state_dict().items(),
        pretrain.load(tmp_path / "b")[0].state_dict().values(),
        strict=True,
    ):
        assert torch.equal(one, other), name


def test_development_score_of_the_seasonal_naive_is_one(tmp_path):
    """A new network repeats the last season, as the reference does."""
    rows = [
        f"{kind},{series},2000-01-01,{day * 1.5 + series + day % 3}"
        for kind in ("yearly", "quarterly", "monthly")
        for series in (1, 2)
        for day in range(60)
    ]
    text = "\n".join(["frequency,series,date,value", *rows])
    (tmp_path / "m3_dev_train.csv.gz").write_bytes(gzip.compress(text.encode()))
    tasks = list(pretrain.development_tasks(tmp_path))
    assert [task.name for task in tasks] == ["generated", "m3_yearly", "m3_quarterly", "m3_monthly"]
    yearly = tasks[1]
    assert yearly.target[0].tolist() == [day * 1.5 + 1 + day % 3 for day in range(54, 60)]
    assert yearly.values[0, -2:].tolist() == [52 * 1.5 + 2, 53 * 1.5 + 3]
    assert yearly.observed.sum(axis=1).tolist() == [54, 54]
    scores = pretrain.development_score(Zero(d_model=16, d_ff=16), tasks)
    for name in ("m3_yearly", "m3_quarterly", "m3_monthly", "MASE"):
        assert scores[name] == pytest.approx(1, abs=1e-3)
    assert 0 < scores["WQL"] < 2
