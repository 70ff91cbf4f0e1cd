"""Baselines of a run against loops over the rows of its file, scikit-learn and published figures."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from data_cases import published, windows_over
from entry_points import done
from scored import member
from sklearn.linear_model import Ridge

from informer.members.baselines import fit_ridge
from informer.scoring.evaluate import evaluate, fit_baselines

ROWS, TRAIN, VAL = 800, 500, 150
T = np.arange(ROWS)


def scored(values: dict[str, np.ndarray], *words: str, freq: str = "h") -> dict:
    """The metrics of a run on these columns, of which the last 150 rows are the test part."""
    times = pd.date_range("1000-01-01" if freq == "YS" else "2020-01-01", periods=ROWS, freq=freq, unit="s")
    pd.DataFrame({"date": times, **values}).to_csv("f.csv", index=False)
    split = [
        f"dataset.split.{name}={n}" for name, n in (("kind", "rows"), ("train", TRAIN), ("val", VAL), ("test", VAL))
    ]
    done("train", "dataset=csv", "dataset.path=f.csv", "model=tiny", "trainer.max_steps=1", "label_len=1", "pred_len=6",
         "run_dir=run", "features=M", *split, *words)  # fmt: skip
    return json.loads(Path("run/metrics.json").read_text())


def windows(values: np.ndarray, part: slice, seq_len: int) -> tuple[np.ndarray, np.ndarray]:
    """Histories and the six rows after them, which are in a part of the rows."""
    firsts = range(max(part.start - seq_len, 0), part.stop - seq_len - 5)
    return tuple(np.stack([values[f + a : f + b] for f in firsts]) for a, b in ((0, seq_len), (seq_len, seq_len + 6)))


def test_a_run_next_to_scikit_learn_and_a_loop(folder: Path) -> None:
    """Red if one season serves all columns, if ridge reads other windows, or its penalty is not the best on
    validation."""
    rng = np.random.default_rng(2)
    values = {name: np.sin(2 * np.pi * T / n) + rng.normal(0, 0.3, ROWS) for name, n in (("d", 24), ("x", 7))}
    metrics = scored(values, "seq_len=30")
    assert metrics["remarks"][0] == (
        "seasonal naive: the last 24 steps repeated, except where better on validation: 7 for x"
    )
    parts, naive = [], []
    for (name, column), season in zip(values.items(), (24, 7), strict=True):
        scaled = (column - column[:TRAIN].mean()) / column[:TRAIN].std()
        train, val, test = slice(0, TRAIN), slice(TRAIN, TRAIN + VAL), slice(TRAIN + VAL, ROWS)
        parts.append([windows(scaled, part, 30) for part in (train, val, test)])
        x, y = parts[-1][-1]
        naive.append(np.mean((x[:, [30 - season + step % season for step in range(6)]] - y) ** 2))
        saved = metrics["scores"]["seasonal naive"]["scaled"]["by_column"][name]["mse"]
        assert saved == pytest.approx(naive[-1], rel=1e-4)
    fits = []
    for penalty in 10.0 ** np.arange(-1, 6):
        (x, y), val, test = (
            [
                np.concatenate([own[place][k] - own[place][0].mean(axis=1, keepdims=True) for own in parts])
                for k in (0, 1)
            ]
            for place in range(3)
        )
        fit = Ridge(penalty, fit_intercept=False).fit(x, y)
        fits.append([np.mean((fit.predict(of[0]) - of[1]) ** 2) for of in (val, test)] + [penalty])
    _, expected, penalty = min(fits)
    assert f"shared by all columns, penalty {penalty:g} chosen on validation" in metrics["remarks"][1]
    assert metrics["scores"]["ridge"]["scaled"]["overall"]["mse"] == pytest.approx(expected, rel=1e-4)


WEEKLY = np.sin(2 * np.pi * T / 24) * np.where(T // 24 % 7 >= 5, 0.2, 1.0)
"""Quiet days every weekend, so that yesterday is a poor forecast and last week a good one."""


@pytest.mark.parametrize(
    ("values", "freq", "seq_len", "note"),
    [
        (WEEKLY, "h", 170, "seasonal naive: the last 168 steps repeated, better on validation than the last 24 steps"),
        (WEEKLY, "h", 100, "seasonal naive: the last 24 steps repeated"),  # a week is longer than the history
        (np.sin(2 * np.pi * T / 11), "YS", 30, "seasonal naive: the last 11 steps repeated, better on validation than "
         "the last value"),
        (np.zeros(ROWS), "h", 9, "naive: the last value repeated, since seq_len=9 does not cover one season of 24 "
         "steps"),
    ],
)  # fmt: skip
def test_the_season_is_that_of_the_step_or_a_better_one(
    folder: Path, values: np.ndarray, freq: str, seq_len: int, note: str
) -> None:
    noise = np.random.default_rng(0).normal(0, 0.1, ROWS)
    assert scored({"y": values + noise}, f"seq_len={seq_len}", freq=freq)["remarks"][0] == note


def table(rows: int, columns: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).normal(size=(rows, columns)).cumsum(axis=0)).float()


@pytest.mark.parametrize("values", [torch.full((40, 2), 3.0), torch.zeros(40, 2)])
def test_ridge_on_constant_columns_forecasts_the_constant(values: torch.Tensor) -> None:
    constant = windows_over(values, seq_len=5, pred_len=2)
    batch = next(constant.batches(3))
    torch.testing.assert_close(fit_ridge(constant, constant, [0, 1])(batch), batch.target)


def test_ridge_thins_a_large_panel_evenly_and_says_so() -> None:
    """Windows that do not follow one another, as those of short series; red if others are taken."""
    train, thinned = (windows_over(table(100, 3), seq_len=6, pred_len=2) for _ in range(2))
    train.starts = train.starts[::2]  # 47 windows, 141 rows
    thinned.starts = train.starts[::3]
    few, expected = fit_ridge(train, train, range(3), max_rows=60), fit_ridge(thinned, thinned, range(3))
    assert "fitted on 16 of 47 training windows" in few.note
    torch.testing.assert_close(few.weight, expected.weight, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "pred_len", "naive", "ridge"),
    [("ETTh1", 24, (0.4244, 0.3892), (0.3176, 0.3611)), ("WTH", 24, (0.5990, 0.4684), None)],
)
def test_on_published_data(name: str, pred_len: int, naive: tuple, ridge: tuple | None) -> None:
    """The reference of ridge took its penalty on the test set, so validation may do a little worse."""
    data = published(name, pred_len)
    for baseline, expected, near in zip(fit_baselines(data), (naive, ridge), (5e-5, 1e-3), strict=True):
        found = evaluate(member(baseline, len(data.targets)), data.test, data).overall("")
        assert expected is None or (found["mse"], found["mae"]) == pytest.approx(expected, abs=near)
