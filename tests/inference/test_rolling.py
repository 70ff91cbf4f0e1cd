"""Rolling forecasts from the command line: the same as eval, in pieces, for one file or many."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import ROOT, Outcome, Trained, call

from informer import Forecaster

TARGETS = ["temperature", "visitors", "price", "demand"]


def run(trained: Trained, source: Path | str, *arguments: str) -> Outcome:
    replaced = [] if "resume=true" in arguments else ["overwrite=true"]
    digits = [] if any(word.startswith("digits=") for word in arguments) else ["digits=null"]
    given = [f"checkpoint={trained.run_dir}", f"input={source}", "output=out", *replaced, "mode=rolling", *digits]
    return call("predict", *given, *arguments)


def rolled(trained: Trained, source: Path | str, *arguments: str) -> pd.DataFrame:
    outcome = run(trained, source, *arguments)
    assert (outcome.status, outcome.err) == (0, "")
    return pd.read_csv(f"out/{Path(source).stem}.rolling.csv", parse_dates=["origin", "date"])


@pytest.fixture
def frame(folder: Path) -> pd.DataFrame:
    """Rows of the sample's test part with the history before them, as rows.csv too."""
    table = pd.read_csv(ROOT / "data/sample.csv", parse_dates=["date"]).iloc[250 - 24 : 320].reset_index(drop=True)
    table.to_csv("rows.csv", index=False)
    return table


def test_rows_of_training_are_left_out_unless_asked_for(trained: Trained, folder: Path) -> None:
    """The parts end at rows 200, 250 and 320; the first forecast is of row 250."""
    table = pd.read_csv(ROOT / "data/sample.csv", parse_dates=["date"]).iloc[:320]
    table.to_csv("all.csv", index=False)
    forecasts = rolled(trained, "all.csv", "stride=1")
    assert (forecasts["date"].min(), forecasts["origin"].nunique()) == (table["date"][250], 65)
    for row, first in ((250, 250), (249, 249), (0, 24)):
        outcome = run(trained, "all.csv", "stride=9", f"from={table['date'][row]:%Y-%m-%dT%H:%M}")
        assert ("are training rows, where errors are too small" in outcome.out) == (row < 250)
        forecasts = pd.read_csv("out/all.rolling.csv", parse_dates=["origin", "date"])
        assert forecasts["date"].min() == table["date"][first]
    expected = Forecaster.load(trained.run_dir, device="cpu").backtest(table, stride=9, start=str(table["date"][0]))
    pd.testing.assert_frame_equal(forecasts, expected, check_dtype=False, rtol=1e-12)
    table.iloc[:240].to_csv("early.csv", index=False)
    assert f"set from={table['date'][24]:%Y-%m-%d}" in run(trained, "early.csv").err


def test_digits_are_those_of_the_spread_of_each_column(trained: Trained, frame: pd.DataFrame) -> None:
    """Red if numbers carry the noise of single precision, the actual values lose digits, or midnights their hour; or if
    origins are not a horizon apart."""
    full = rolled(trained, "rows.csv", "intervals=[80]")
    assert full["origin"].nunique() == len(range(24, len(frame) - 6 + 1, 6))
    forecasts = rolled(trained, "rows.csv", "intervals=[80]", "digits=3")
    for column in TARGETS:
        places = 3 - 1 - int(np.floor(np.log10(frame[column].std(ddof=0))))
        rows = full["column"] == column
        for name in ("forecast", "lo80", "hi80"):
            np.testing.assert_allclose(forecasts[name][rows], np.round(full[name][rows], places), atol=1e-9)
    assert forecasts["actual"].equals(full["actual"])
    texts = pd.read_csv("out/rows.rolling.csv", dtype=str)
    assert texts["forecast"].str.len().max() <= 8
    assert {*texts["origin"].str.len(), *texts["date"].str.len()} == {len("2023-01-01 00:00:00")}


def test_many_files_a_summary_and_resuming(
    trained: Trained, frame: pd.DataFrame, tree: Callable[[Path], dict[str, bytes | None]]
) -> None:
    Path("in").mkdir()
    for i in range(3):
        frame.iloc[i:].to_csv(f"in/s{i}.csv", index=False)
    frame.iloc[:29].to_csv("in/short.csv", index=False)
    frame.assign(price=frame["price"].where(frame.index != 33)).to_csv("in/torn.csv", index=False)
    outcome = run(trained, "in", "stride=5")
    assert (outcome.status, outcome.err) == (1, "")
    assert "3 files forecast, 2 failed: out/summary.csv" in outcome.out
    files = {f"s{i}.rolling{end}" for i in range(3) for end in (".csv", ".metrics.csv")}
    whole = tree(Path("out"))
    assert set(whole) == {"summary.csv", *files}
    summary = pd.read_csv("out/summary.csv", index_col="file", keep_default_na=False)
    assert list(summary["status"]) == ["ok", "ok", "ok", "error", "error"]
    assert "at least seq_len + pred_len = 30 rows for one origin, found 29" in summary.loc["in/short.csv", "message"]
    assert "torn.csv, row 35, column 'price'" in summary.loc["in/torn.csv", "message"]
    Path("out/s1.rolling.csv").unlink()
    outcome = run(trained, "in", "stride=5", "resume=true")
    assert "3 files forecast (2 of them already done), 2 failed" in outcome.out
    assert tree(Path("out")) == whole
    assert "(0 of them already done)" in run(trained, "in", "stride=6", "resume=true").out


def test_times_with_a_zone_after_training_without(trained: Trained, frame: pd.DataFrame) -> None:
    """Red if the end of training is read as local time, so that rows of training are scored, or new ones are not."""
    frame.assign(date=frame["date"].dt.tz_localize("UTC")).to_csv("rows.csv", index=False)
    outcome = run(trained, "rows.csv")
    assert outcome.status == 2
    assert (
        "expected times without a time zone as in training, found times in UTC; write them without a zone"
        in outcome.err
    )
    assert run(trained, "rows.csv", "from=2023-01-01").status == 0
