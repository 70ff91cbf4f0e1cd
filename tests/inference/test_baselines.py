"""Baselines of a run against loops over the rows of its file, scikit-learn and published figures."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import done
from sklearn.linear_model import Ridge

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
         "run_dir=run", "features=M", "trainer.tracker=[]", *split, *words)  # fmt: skip
    return json.loads(Path("run/metrics.json").read_text(), parse_constant=pytest.fail)


def windows(values: np.ndarray, part: slice, seq_len: int) -> tuple[np.ndarray, np.ndarray]:
    """Histories and the six rows after them, which are in a part of the rows."""
    firsts = range(max(part.start - seq_len, 0), part.stop - seq_len - 5)
    return tuple(np.stack([values[f + a : f + b] for f in firsts]) for a, b in ((0, seq_len), (seq_len, seq_len + 6)))


def test_a_run_next_to_scikit_learn_and_a_loop(folder: Path) -> None:
    """Red if one season serves all columns, if ridge reads other windows, or its penalty is not the best on validation;
    or if the two files of scores differ, have a row twice, or write what is undefined as a number."""
    rng = np.random.default_rng(2)
    values = {name: np.sin(2 * np.pi * T / n) + rng.normal(0, 0.3, ROWS) for name, n in (("d", 24), ("x", 7))}
    values["flat"] = np.full(ROWS, 4.0)
    metrics = scored(values, "seq_len=30")
    table = pd.read_csv("run/metrics.csv").set_index(["model", "units", "column", "step", "metric"])["value"]
    ridge = metrics["scores"]["ridge"]
    assert table.index.is_unique
    assert np.isnan(table["ridge", "scaled", "flat", "all", "mase"])
    assert ridge["scaled"]["by_column"]["flat"]["mase"] is None
    assert table["ridge", "original", "all", "2", "rmse"] == ridge["original"]["by_step"]["rmse"][1]
    assert metrics["remarks"][0].startswith(
        "seasonal naive: the last 24 steps repeated, except where better on validation: 7 for x"
    )
    parts, naive = [], []
    for (name, column), season in zip(values.items(), (24, 7, 24), strict=True):
        scaled = (column - column[:TRAIN].mean()) / (column[:TRAIN].std() or 1)
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


def test_a_season_must_be_better_by_two_percent(folder: Path) -> None:
    """Noise and higher days of the week; the second half of the validation rows is for intervals. Red if a season that
    is a percent better wins, or one that is three percent better does not."""
    noise, days = np.random.default_rng(6).normal(0, 1, ROWS), T // 24 % 7 >= 3
    values = {"little": noise + 0.78 * days, "more": noise + 0.88 * days}
    for y, gain in zip(values.values(), (0.01, 0.03), strict=True):
        before, after = windows(y, slice(TRAIN, TRAIN + VAL // 2), 170)
        day, week = (np.mean((before[:, 170 - each :][:, :6] - after) ** 2) for each in (24, 168))
        assert 1 - week / day == pytest.approx(gain, abs=0.005)
    assert scored(values, "seq_len=170")["remarks"][0].startswith(
        "seasonal naive: the last 24 steps repeated, except where better on validation: 168 for more"
    )
