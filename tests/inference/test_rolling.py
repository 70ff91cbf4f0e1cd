"""Rolling forecasts from the command line: the same as eval, in pieces, for one file or many."""

import json
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


def scores(name: str) -> pd.Series:
    """Scores of the model; the baselines follow."""
    table = pd.read_csv(f"out/{name}.rolling.metrics.csv")
    own = table[table["model"] == table["model"][0]]
    return own.set_index(["units", "column", "step", "metric"])["value"]


@pytest.fixture
def frame(folder: Path) -> pd.DataFrame:
    """Rows of the sample's test part with the history before them, as rows.csv too."""
    table = pd.read_csv(ROOT / "data/sample.csv", parse_dates=["date"]).iloc[250 - 24 : 320].reset_index(drop=True)
    table.to_csv("rows.csv", index=False)
    return table


def test_the_test_rows_give_what_eval_gives(trained: Trained, frame: pd.DataFrame) -> None:
    """Red if windows, scaling or averaging differ anywhere from those of the evaluation."""
    table = rolled(trained, "rows.csv", "stride=1", "intervals=[80,95]")
    report = json.loads((trained.run_dir / "metrics.json").read_text())
    rolled_scores = scores("rows")
    for units in ("scaled", "original"):
        expected = report["scores"]["informer"][units]
        for metric in ("mse", "mae", "rmse", "mape", "smape"):
            by_step = [rolled_scores[units, "all", str(step), metric] for step in range(1, 7)]
            assert by_step == pytest.approx(expected["by_step"][metric], rel=1e-6)
            for column in TARGETS:
                assert rolled_scores[units, column, "all", metric] == pytest.approx(
                    expected["by_column"][column][metric], rel=1e-6
                )
    for level in ("80", "95"):
        expected = report["intervals"][level]["by_column"]["price"]["coverage"]
        assert rolled_scores["scaled", "price", "all", f"coverage{level}"] == pytest.approx(expected, abs=1e-9)
    error = table.assign(square=(table["forecast"] - table["actual"]) ** 2).groupby("step")["square"].mean()
    expected = report["scores"]["informer"]["original"]["by_step"]["mse"]
    np.testing.assert_allclose(error, expected, rtol=1e-5)


def test_the_stride_is_pred_len_unless_given(trained: Trained, frame: pd.DataFrame) -> None:
    assert rolled(trained, "rows.csv")["origin"].nunique() == len(range(24, len(frame) - 6 + 1, 6))


def test_rows_of_training_are_left_out_unless_asked_for(trained: Trained, folder: Path) -> None:
    """The parts end at rows 200, 250 and 320; the first forecast is of row 250."""
    table = pd.read_csv(ROOT / "data/sample.csv", parse_dates=["date"]).iloc[:320]
    table.to_csv("all.csv", index=False)
    outcome = run(trained, "all.csv", "stride=1")
    assert outcome.status == 0, outcome.err
    start, end = table["date"][250], table["date"][249]
    assert f"all: forecasts start at {start}, after the training rows, which end at {end}" in outcome.out
    forecasts = pd.read_csv("out/all.rolling.csv", parse_dates=["date"])
    assert forecasts["date"].min() == table["date"][250]
    assert forecasts["origin"].nunique() == 65
    for date, first in ((table["date"][260], 260), (table["date"][0], 24)):
        assert run(trained, "all.csv", "stride=1", f"from={date:%Y-%m-%dT%H:%M}").status == 0
        forecasts = pd.read_csv("out/all.rolling.csv", parse_dates=["origin", "date"])
        assert forecasts["date"].min() == table["date"][first]
        expected = Forecaster.load(trained.run_dir, device="cpu").backtest(table, stride=1, start=str(date))
        pd.testing.assert_frame_equal(forecasts, expected, check_dtype=False, rtol=1e-12)
    table.iloc[:240].to_csv("early.csv", index=False)
    assert "set from=2023-01-02" in run(trained, "early.csv").err.replace(f"{table['date'][24]:%Y-%m-%d}", "2023-01-02")
    assert "from=soon: expected a date such as" in run(trained, "all.csv", "from=soon").err
    assert "choose an earlier date" in run(trained, "all.csv", "from=2999-01-01").err


def test_errors_of_rows_of_training_are_said_to_be_too_small(trained: Trained, folder: Path) -> None:
    """Fails if `from=` scores training rows without a warning, or warns about other rows."""
    table = pd.read_csv(ROOT / "data/sample.csv", parse_dates=["date"]).iloc[:320]
    table.to_csv("all.csv", index=False)
    said = f"all: rows up to {table['date'][249]} are training rows, where errors are too small"
    for row, is_seen in ((249, True), (250, False)):
        assert (said in run(trained, "all.csv", f"from={table['date'][row]:%Y-%m-%dT%H:%M}").out) is is_seen


def test_too_few_rows_after_training_say_what_to_give(trained: Trained, folder: Path) -> None:
    """The model was trained on rows before 250 and forecasts 6 rows."""
    table = pd.read_csv(ROOT / "data/sample.csv", parse_dates=["date"])
    table.iloc[:254].to_csv("all.csv", index=False)
    message = "all: expected at least 6 rows after the training rows, found 4; give newer rows, or from=DATE"
    assert message in run(trained, "all.csv").err
    start = f"{table['date'][251]:%Y-%m-%dT%H:%M}"
    message = f"expected at least 6 rows from {start} on, found 3; give newer rows, or an earlier from=DATE"
    assert message in run(trained, "all.csv", f"from={start}").err
    table.iloc[:255].to_csv("all.csv", index=False)
    assert run(trained, "all.csv", f"from={table['date'][249]:%Y-%m-%dT%H:%M}").status == 0


def test_digits_are_those_of_the_spread_of_each_column(trained: Trained, frame: pd.DataFrame) -> None:
    """Red if numbers carry the noise of single precision, or the actual values lose digits."""
    full = rolled(trained, "rows.csv", "intervals=[80]")
    forecasts = rolled(trained, "rows.csv", "intervals=[80]", "digits=3")
    for column in TARGETS:
        places = 3 - 1 - int(np.floor(np.log10(frame[column].std(ddof=0))))
        rows = full["column"] == column
        for name in ("forecast", "lo80", "hi80"):
            np.testing.assert_allclose(forecasts[name][rows], np.round(full[name][rows], places), atol=1e-9)
    assert forecasts["actual"].equals(full["actual"])
    texts = pd.read_csv("out/rows.rolling.csv", dtype=str)["forecast"]
    assert texts.str.len().max() <= 8


def test_both_baselines_are_scored_on_the_same_origins(trained: Trained, folder: Path) -> None:
    """The seasonal naive by a loop; MASE by hand from the rows before the first origin."""
    frame = pd.read_csv(ROOT / "data/sample.csv").iloc[:320]
    frame.to_csv("all.csv", index=False)
    outcome = run(trained, "all.csv", "stride=3")
    assert "the best baseline" in outcome.out
    table = pd.read_csv("out/all.rolling.metrics.csv").set_index(["model", "units", "column", "step", "metric"])[
        "value"
    ]
    values, steps = frame["demand"].to_numpy(), np.arange(6)
    firsts = range(250, 320 - 5, 3)
    naive = np.mean([np.abs(values[first + steps] - values[first - 24 + steps]).mean() for first in firsts])
    assert table["seasonal naive", "original", "demand", "all", "mae"] == pytest.approx(naive, rel=1e-5)
    scale = np.abs(values[24:250] - values[:226]).mean()
    assert table["seasonal naive", "original", "demand", "all", "mase"] == pytest.approx(naive / scale, rel=1e-5)
    assert 0 < table["ridge", "scaled", "all", "all", "mse"] < table["informer", "scaled", "all", "all", "mse"]


def test_midnights_keep_their_time_of_day(trained: Trained, frame: pd.DataFrame) -> None:
    rolled(trained, "rows.csv", "stride=24")
    lines = Path("out/rows.rolling.csv").read_text().splitlines()[1:]
    assert all(len(line.split(",")[0]) == len(line.split(",")[2]) == len("2023-01-01 00:00:00") for line in lines)


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
    assert summary.loc["in/s1.csv", "output"] == "s1.rolling.csv"
    assert "at least seq_len + pred_len = 30 rows for one origin, found 29" in summary.loc["in/short.csv", "message"]
    assert "torn.csv, row 35, column 'price'" in summary.loc["in/torn.csv", "message"]
    before = Path("out/s0.rolling.csv").stat().st_mtime_ns
    Path("out/s1.rolling.csv").unlink()
    outcome = run(trained, "in", "stride=5", "resume=true")
    assert "3 files forecast (2 of them already done), 2 failed" in outcome.out
    assert Path("out/s0.rolling.csv").stat().st_mtime_ns == before
    assert tree(Path("out")) == whole
    assert "(0 of them already done)" in run(trained, "in", "stride=6", "resume=true").out


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["input=short.csv"], "short: expected at least seq_len + pred_len = 30 rows for one origin, found 29"),
        (["input=torn.csv"], "torn.csv, row 35, column 'price'"),
        (["horizon=400"], "rows: expected at least seq_len + 67 pred_len = 426 rows for one origin, found 94"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], part: str, trained: Trained, frame: pd.DataFrame) -> None:
    frame.iloc[:29].to_csv("short.csv", index=False)
    frame.assign(price=frame["price"].where(frame.index != 33)).to_csv("torn.csv", index=False)
    outcome = run(trained, "rows.csv", *arguments)
    assert outcome.status == 2
    assert outcome.err.count("\n") == 1
    assert part in outcome.err
    assert not Path("out").exists()


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
