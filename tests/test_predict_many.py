"""Many files from the command line: each forecast as by itself, invalid files reported, jobs resumed."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from entry_points import ROOT, Outcome, Trained, call, done
from forgery import content_of, write_forged

from informer import Forecaster

Tree = Callable[[Path], dict[str, bytes | None]]
N_FILES = 7


@pytest.fixture
def tables(folder: Path) -> dict[str, pd.DataFrame]:
    """Seven good files `in/s0.csv` ..., of different lengths and column orders, and two bad ones among them."""
    sample = pd.read_csv(ROOT / "data/sample.csv")
    Path("in").mkdir()
    tables = {f"s{i}": sample.iloc[i * 100 : i * 130 + 60] for i in range(N_FILES)}
    for name, table in tables.items():
        order = list(table.columns)[:: -1 if name in ("s2", "s5") else 1]
        table[order].assign(remark="x, y").to_csv(f"in/{name}.csv", index=False)
    sample.iloc[:9].to_csv("in/s1short.csv", index=False)
    Path("in/s3broken.csv").write_bytes(b"date,demand\n2024-01-01,\x00\xff\n")
    return tables


def run(trained: Trained, *arguments: str) -> Outcome:
    return call(
        "predict", f"checkpoint={trained.run_dir}", "input=in/*.csv", "output=out", "batch_size=3", "digits=null",
        *arguments,
    )  # fmt: skip


def test_each_file_is_forecast_as_if_it_were_alone(trained: Trained, tables: dict[str, pd.DataFrame]) -> None:
    outcome = run(trained)
    assert (outcome.status, outcome.err) == (1, "")
    assert "7 files forecast, 2 failed: out/summary.csv" in outcome.out
    assert "failed: in/s1short.csv: expected at least" in outcome.out  # without its name once more
    assert {path.name for path in Path("out").iterdir()} == {f"{name}.forecast.csv" for name in tables} | {
        "summary.csv"
    }
    forecaster = Forecaster.load(trained.run_dir, device="cpu")
    assert forecaster.predict_many({}) == {}
    for name, table in tables.items():
        expected = forecaster.predict(table.assign(date=pd.to_datetime(table["date"])))
        forecast = pd.read_csv(f"out/{name}.forecast.csv", parse_dates=["date"])
        pd.testing.assert_frame_equal(forecast, expected, check_dtype=False, rtol=1e-5)
    summary = pd.read_csv("out/summary.csv", index_col="file", keep_default_na=False)
    assert list(summary.index) == sorted(map(str, Path("in").iterdir()))
    assert list(summary.columns[:5]) == ["status", "rows", "origin", "output", "message"]
    for name, table in tables.items():
        row = summary.loc[f"in/{name}.csv"]
        assert (row["status"], row["rows"], row["origin"], row["output"], row["message"]) == (
            "ok", str(len(table)), table["date"].iloc[-1] + ":00", f"{name}.forecast.csv", "",
        )  # fmt: skip
    bad = summary.loc[["in/s1short.csv", "in/s3broken.csv"]]
    assert list(bad["status"]) == ["error", "error"]
    assert "expected at least seq_len=24 rows of history, found 9" in bad["message"].iloc[0]
    assert "s3broken.csv" in bad["message"].iloc[1]


def test_one_name_in_two_folders_or_with_two_endings(trained: Trained, tables: dict[str, pd.DataFrame]) -> None:
    for place in ("north/a.csv", "north/a.txt", "south/a.csv"):
        Path("in", place).parent.mkdir(exist_ok=True)
        tables["s4"].to_csv(f"in/{place}", index=False)
    done("predict", f"checkpoint={trained.run_dir}", "input=in/*/*", "output=out")
    files = {str(path.relative_to("out")) for path in Path("out").rglob("*.csv")}
    assert files == {
        "north/a.csv.forecast.csv", "north/a.txt.forecast.csv", "south/a.forecast.csv", "summary.csv",
    }  # fmt: skip
    assert len(pd.read_csv("out/summary.csv")) == 3


def test_resuming_does_what_is_left(trained: Trained, tables: dict[str, pd.DataFrame], tree: Tree) -> None:
    """Red if a file done is done again, or one that changed, failed, or lost its forecast is not."""
    run(trained)
    whole = tree(Path("out"))
    kept = [path for path in Path("out").glob("*.forecast.csv") if path.name[:2] not in ("s2", "s4")]
    times = {path: path.stat().st_mtime_ns for path in kept}
    Path("out/s2.forecast.csv").unlink()
    tables["s4"].iloc[:-1].to_csv("in/s4.csv", index=False)
    tables["s0"].to_csv("in/s1short.csv", index=False)
    outcome = run(trained, "resume=true")
    assert outcome.status == 1
    assert "8 files forecast (5 of them already done), 1 failed" in outcome.out
    assert {path: path.stat().st_mtime_ns for path in kept} == times
    after = tree(Path("out"))
    assert after["s2.forecast.csv"] == whole["s2.forecast.csv"]
    assert after["s4.forecast.csv"] != whole["s4.forecast.csv"]
    assert after["s1short.forecast.csv"] == whole["s0.forecast.csv"]


def test_another_way_or_another_model_is_another_job(trained: Trained, tables: dict[str, pd.DataFrame]) -> None:
    """Red if `resume=true` keeps forecasts of other intervals, other repairs or other weights, or draws no pictures."""
    shutil.copytree(trained.run_dir, "other")
    content = content_of(Path("other/best.safetensors"))
    write_forged(Path("other/best.safetensors"), content | {"progress": content["progress"] | {"best_loss": 0.5}})
    own, job = f"checkpoint={trained.run_dir}", ["predict", "input=in/s0*.csv", "output=out", "resume=true"]
    for given, before in (
        ([own], 0), ([own], 1), ([own, "intervals=[80]"], 0), ([own, "dataset.fill=linear"], 0),
        (["checkpoint=other"], 0), (["checkpoint=other", "plots=true"], 0),
    ):  # fmt: skip
        assert f"({before} of them already done)" in call(*job, *given).out
    assert Path("out/s0.forecast.png").exists()


def test_a_file_done_under_another_name_is_done_again(trained: Trained, tables: dict[str, pd.DataFrame]) -> None:
    """Red if the forecast of a.csv, there now, takes the place of x/a.csv's, which was called so before."""
    Path("in/x").mkdir()
    tables["s0"].to_csv("in/x/a.csv", index=False)
    job = ["predict", f"checkpoint={trained.run_dir}", "input=in/**/a.csv", "output=out", "resume=true"]
    done(*job)
    tables["s5"].to_csv("in/a.csv", index=False)
    assert "2 files forecast (0 of them already done)" in call(*job).out
    outputs = pd.read_csv("out/summary.csv")["output"]
    assert outputs.is_unique
    assert all(Path("out", name).exists() for name in outputs)


@pytest.mark.skipif(os.name == "nt", reason="names are text there")
def test_a_name_that_is_no_text(trained: Trained, tables: dict[str, pd.DataFrame]) -> None:
    """Red if one file of a folder, named in another encoding, ends the job."""
    Path("odd").mkdir()
    shutil.copy("in/s0.csv", os.fsdecode(b"odd/caf\xe9.csv"))
    Path(os.fsdecode(b"odd/bad\xe9.csv")).write_text("")
    job = ["predict", f"checkpoint={trained.run_dir}", "input=odd", "output=out", "resume=true"]
    assert call(*job).status == 1
    assert b"odd/caf\xe9.csv,ok" in Path("out/summary.csv").read_bytes()
    assert "1 file forecast (1 of them already done), 1 failed" in call(*job).out


def test_a_journal_cut_within_a_line_is_read_up_to_there(trained: Trained, tables: dict[str, pd.DataFrame]) -> None:
    run(trained)
    text = Path("out/summary.csv").read_text()
    Path("out/summary.csv").write_text(text[: text.index("in/s4") + 30])
    outcome = run(trained, "resume=true")
    assert "7 files forecast (4 of them already done)" in outcome.out
    assert Path("out/summary.csv").read_text() == text


def test_the_long_table_holds_what_the_files_hold(trained: Trained, tables: dict[str, pd.DataFrame]) -> None:
    run(trained, "horizon=9")
    assert run(trained, "horizon=9", "format=long", "output=long").status == 1
    assert {path.name for path in Path("long").iterdir()} == {"forecasts.csv", "summary.csv"}
    long = pd.read_csv("long/forecasts.csv")
    assert list(long.columns) == ["series", "date", "column", "y", "rolled"]
    assert list(long["series"].unique()) == list(tables)
    for name, rows in long.groupby("series"):
        wide = rows.pivot(index=["date", "rolled"], columns="column", values="y").reset_index()
        expected = pd.read_csv(f"out/{name}.forecast.csv")
        pd.testing.assert_frame_equal(wide[expected.columns], expected, check_names=False)


def test_what_is_said_of_each_file_is_one_line_of_the_summary(
    trained: Trained, tables: dict[str, pd.DataFrame]
) -> None:
    """Red if a repair or one of several problems is left out, or a forecast beyond all numbers is written."""
    shutil.rmtree("in")
    Path("in").mkdir()
    tables["s1"].assign(price=[*tables["s1"]["price"][:-1], None]).to_csv("in/a.csv", index=False)
    broken = tables["s0"].astype({"price": object, "demand": float})
    broken.loc[broken.index[-9], ["price", "demand"]] = ["x", float("inf")]
    broken.to_csv("in/b.csv", index=False)
    huge = tables["s0"].astype(dict.fromkeys(tables["s0"].columns[1:], float))
    huge.iloc[-6:, 1:] *= 1e19
    huge.to_csv("in/c.csv", index=False)
    tables["s5"].to_csv("in/d.csv", index=False)
    job = ["predict", f"checkpoint={trained.run_dir}", "input=in", "output=out", "dataset.fill=ffill"]
    outcome = call(*job)
    rows = pd.read_csv("out/summary.csv")
    assert list(rows["status"]) == ["ok", "error", "error", "ok"]
    places = (["fill=ffill"], ["b.csv, row 53, column 'price'", "b.csv, row 53, column 'demand'"], ["not finite"])
    for message, parts in zip(rows["message"], places, strict=False):
        assert all(part in message for part in parts)
    assert all(part in outcome.out for part in [*places[1], *places[2]])
    assert pd.isna(rows["message"][3])
    assert call(*job, "format=long", "overwrite=true").status == 1


def test_where_nothing_can_be_forecast_no_table_is_left(trained: Trained, folder: Path) -> None:
    """Red if format=long leaves a file without a header, or one of an earlier job."""
    (folder / "in").mkdir()
    (folder / "out").mkdir()
    pd.read_csv(ROOT / "data/sample.csv").iloc[:9].to_csv("in/short.csv", index=False)
    Path("out/forecasts.csv").write_text("of another job")
    job = ["predict", f"checkpoint={trained.run_dir}", "input=in", "output=out", "format=long"]
    assert "found forecasts.csv in it" in call(*job).err
    assert call(*job, "overwrite=true").status == 1
    assert [path.name for path in Path("out").iterdir()] == ["summary.csv"]
