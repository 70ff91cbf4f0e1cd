"""`informer watch` on series with and without a break, and the seasonal naive computed by hand."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import SMALL, call

from informer.watching.findings import Verdict

SPLIT = [
    f"dataset.split.{name}={rows}" for name, rows in (("kind", "rows"), ("train", 1000), ("val", 400), ("test", 200))
]
RUN = [
    "dataset=csv",
    "dataset.path=all.csv",
    "model=linear",
    *SMALL[1:4],
    *SPLIT,
    "target=y",
    "features=S",
    "run_dir=run",
    "trainer.refit=true",
]
OLD, BREAK, ALL = 1600, 1800, 2000


def series(shift: float) -> pd.DataFrame:
    """A daily season and noise of deviation one; from BREAK on higher by `shift`."""
    hours, rng = np.arange(ALL), np.random.default_rng(1)
    values = 3 * np.sin(2 * np.pi * hours / 24) + rng.normal(size=ALL) + shift * (hours >= BREAK)
    return pd.DataFrame({"date": pd.date_range("2024-01-01", periods=ALL, freq="h"), "y": values.round(6)})


@pytest.mark.parametrize(("shift", "verdict"), [(0.0, Verdict.ok), (2 * 2.35, Verdict.update)])
def test_a_level_shift_is_found_and_nothing_else(folder: Path, shift: float, verdict: Verdict) -> None:
    """Red if a shift of two standard deviations of the series is found later than 100 rows after it, or at none."""
    table = series(shift)
    table.head(OLD).to_csv("all.csv", index=False)
    assert call("train", *RUN).status == 0
    table.iloc[OLD:].to_csv("new.csv", index=False)
    outcome = call("watch", "checkpoint=run", "input=new.csv")
    assert outcome.status == verdict.value, outcome.out + outcome.err
    assert outcome.out.startswith(verdict.name)
    found = json.loads(Path("run/watch/watch.json").read_text())
    assert found["verdict"] == verdict.name
    alarms = [one["at"] for one in found["drift"] if one["at"]]
    if shift:
        assert BREAK <= table.index[table["date"] == pd.Timestamp(alarms[0])][0] < BREAK + 100
    else:
        assert alarms == []
    assert "In service" in Path("run/watch/watch.html").read_text()
    # every origin after the rows of all parts, against the season before
    values, starts = table["y"].to_numpy() / table["y"].head(1000).std(ddof=0), range(OLD, ALL - 6 + 1)
    steps = np.stack([values[start : start + 6] - values[start - 24 : start - 18] for start in starts])
    assert found["mse"]["seasonal naive"] == pytest.approx((steps**2).mean(), rel=1e-4)
    assert found["origins"] == len(starts)


def test_too_few_rows_are_refused_in_one_line(folder: Path) -> None:
    table = series(0.0)
    table.head(OLD).to_csv("all.csv", index=False)
    assert call("train", *RUN).status == 0
    table.iloc[OLD : OLD + 3].to_csv("new.csv", index=False)
    outcome = call("watch", "checkpoint=run", "input=new.csv")
    assert outcome.status == 2
    assert "expected at least pred_len=6 rows after" in outcome.err
    assert outcome.err.count("\n") == 1
