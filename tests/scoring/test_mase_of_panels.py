"""MASE of a panel is the mean over series of each one's error over its own mean seasonal change, in all tables;
recomputed with pandas from forecasts and rows."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import done

SEASON = 7
SPLIT = ["dataset.split.train=0.7", "dataset.split.val=0.1", "dataset.split.test=0.2"]
OVERALL = {"column": "all", "step": "all", "metric": "mase"}


def shops() -> pd.DataFrame:
    """Three series of unlike scale, noise and length, so that pooled scales, or windows of equal weight, give another
    number."""
    rng, parts = np.random.default_rng(11), []
    for shop, n, scale, noise in (("s0", 300, 1, 1.0), ("s1", 260, 1000, 0.2), ("s2", 180, 30, 3.0)):
        days = np.arange(n)
        y = scale * (10 + 3 * np.sin(2 * np.pi * days / SEASON) + noise * rng.normal(size=n))
        times = pd.date_range("2023-10-27", periods=n, freq="-1D")[::-1]
        parts.append(pd.DataFrame({"shop": shop, "time": times, "y": y.round(4)}))
    return pd.concat(parts, ignore_index=True)


def own_scales(table: pd.DataFrame, share: float) -> pd.Series:
    """Mean change over a season of the first rows of each shop."""
    return table.groupby("shop")["y"].apply(lambda y: y.iloc[: int(share * len(y))].diff(SEASON).abs().mean())


def mase(forecasts: pd.DataFrame, scales: pd.Series) -> float:
    """Mean over shops."""
    errors = (forecasts["forecast"] - forecasts["actual"]).abs()
    return float((errors.groupby(forecasts["shop"]).mean() / scales).mean())


def written(path: Path, **where: str) -> pd.Series:
    """MASE by units of a table of scores."""
    table = pd.read_csv(path)
    rows = table[(table[[*(OVERALL | where)]] == pd.Series(OVERALL | where)).all(axis=1)]
    return rows.set_index("units")["value"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("panel")
    shops().to_csv(folder / "p.csv", index=False)
    done("train", "dataset=csv", f"dataset.path={folder / 'p.csv'}", "dataset.series_col=shop", "targets=[y]", *SPLIT,
         "model=linear", "seq_len=14", "pred_len=7", f"run_dir={folder / 'run'}")  # fmt: skip
    return folder


def test_rolling_forecasts_and_the_run(table: Path, folder: Path) -> None:
    """Red if scales are pooled over series, if windows instead of series have equal weight, if scaled and original
    units differ, or if rolling forecasts use another scale than the run, whose test part they are from here."""
    done("predict", f"checkpoint={table / 'run'}", f"input={table / 'p.csv'}", "mode=rolling", "stride=1", "output=r",
         "digits=null")  # fmt: skip
    frame, rolling = shops(), pd.read_csv("r/p.rolling.csv").dropna(subset=["actual"])
    found = written(Path("r/p.rolling.metrics.csv"), model="linear")
    expected = mase(rolling, own_scales(frame, 0.7))
    assert found["scaled"] == pytest.approx(expected, rel=1e-5)
    assert found["original"] == found["scaled"]
    pooled = (rolling["forecast"] - rolling["actual"]).abs().mean() / own_scales(frame, 0.7).mean()
    assert abs(found["scaled"] / pooled - 1) > 1e-4
    windows = [(a := frame[frame["shop"] == shop]["y"].to_numpy(), int(0.8 * len(a))) for shop in ("s0", "s1", "s2")]
    naive = [
        np.mean([np.abs(y[at : at + 7] - y[at - 7 : at]).mean() for at in range(first, len(y) - 6)])
        for y, first in windows
    ]
    scores = written(table / "run" / "metrics.csv", model="seasonal naive")
    assert scores["scaled"] == pytest.approx(np.mean(naive / own_scales(frame, 0.7).to_numpy()), rel=1e-5)
    assert scores["original"] == scores["scaled"]


def test_scores_of_a_file_of_forecasts(folder: Path) -> None:
    """Red if series with more origins have more weight, or the skill by MASE is not that of the table."""
    frame, cuts = shops(), {"s0": (250, 270, 290), "s1": (250,), "s2": (150, 170)}
    forecasts, scales = [], []
    for shop, rows in frame.groupby("shop"):
        for cut in cuts[str(shop)]:
            part = rows.iloc[cut : cut + 5].assign(forecast=rows["y"].iloc[:cut].mean())
            scale = rows["y"].iloc[:cut].diff(SEASON).abs().mean()
            scales.append({"shop": shop, "mase": ((part["forecast"] - part["y"]).abs() / scale).mean()})
            forecasts.append(part.assign(origin=rows["time"].iloc[cut - 1], step=range(1, 6), column="y"))
    columns = ["shop", "origin", "step", "time", "column", "forecast"]
    pd.concat(forecasts)[columns].to_csv("f.csv", index=False)
    frame.to_csv("p.csv", index=False)
    files = ["forecasts=f.csv", "actuals=p.csv", "history=p.csv"]
    done("score", *files, f"season={SEASON}", "dataset.series_col=shop", "output=s")
    scores = json.loads(Path("s/scores.json").read_text())
    expected = pd.DataFrame(scales).groupby("shop")["mase"].mean().mean()
    assert scores["overall"]["forecast"]["mase"] == pytest.approx(expected)
    (difference,) = (
        each for each in scores["differences"] if (each["metric"], each["baseline"]) == ("mase", "seasonal naive")
    )
    assert difference["skill"] == pytest.approx(1 - expected / scores["overall"]["seasonal naive"]["mase"])
