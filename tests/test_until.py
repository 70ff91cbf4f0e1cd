"""Forecasts up to one date of series that end at different times: rectangular tables, each series up to that date."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import done

from informer import Forecaster

ENDS = {"s0": "2023-10-27", "s1": "2023-10-24", "s2": "2023-10-21"}
UNTIL = "2023-11-05"
MORE = {"dataset": {"series_col": "store"}}


@pytest.fixture(scope="module")
def shops() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    parts = [
        pd.DataFrame({"date": pd.date_range("2023-03-01", end), "store": store}).assign(
            sales=lambda part: 20 + 5 * np.sin(2 * np.pi * np.arange(len(part)) / 7) + rng.normal(size=len(part))
        )
        for store, end in ENDS.items()
    ]
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="module")
def model(shops: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("until") / "run"
    Forecaster("linear", seq_len=14, pred_len=9, target="sales", **MORE, run_dir=run).fit(shops)
    return run


def check(table: pd.DataFrame, *, rolled_after: int | None) -> None:
    """Every store has the days after its own end up to UNTIL, and every cell of every column is there."""
    table = table.assign(date=pd.to_datetime(table["date"]))
    assert table.notna().all(axis=None)
    assert list(table["store"].unique()) == list(ENDS)
    for store, rows in table.groupby("store"):
        expected = pd.date_range(ENDS[str(store)], UNTIL)[1:]
        assert list(rows["date"]) == list(expected)
        if rolled_after is not None:
            assert list(rows["rolled"]) == [row >= rolled_after for row in range(len(expected))]
    assert ("rolled" in table) == (rolled_after is not None)


def test_files_of_predict(shops: pd.DataFrame, model: Path, folder: Path) -> None:
    """Red if a column depends on the series: the first store needs 9 rows, all of the direct output, others 12 and 15.
    Also red if columns depend on which series are forecast in one batch."""
    shops.to_csv("shops.csv", index=False)
    done("predict", f"checkpoint={model}", "input=shops.csv", f"until={UNTIL}", "output=out",
         "batch_size=1", "plots=false")  # fmt: skip
    check(pd.read_csv("out/shops.forecast.csv"), rolled_after=9)


def test_one_table_of_many_files(shops: pd.DataFrame, model: Path, folder: Path) -> None:
    """Red if the first file, none of whose rows are rolled, decides the columns of the others."""
    Path("in").mkdir()
    for store, rows in shops.groupby("store"):
        rows.to_csv(f"in/{store}.csv", index=False)
    done("predict", f"checkpoint={model}", "input=in", f"until={UNTIL}", "format=long", "output=out", "batch_size=1")
    table = pd.read_csv("out/forecasts.csv")
    check(table.assign(store=table["store"].str.partition("/")[2]), rolled_after=9)


def test_tables_in_python(shops: pd.DataFrame, model: Path) -> None:
    """Also: the rows up to the date are those of a horizon of as many rows."""
    forecaster = Forecaster.load(model)
    table = forecaster.predict(shops, horizon=UNTIL)
    check(table, rolled_after=9)
    assert table["rolled"].dtype == bool
    longest = forecaster.predict(shops, horizon=15).groupby("store").head
    for store, rows in table.groupby("store"):
        own = longest(len(rows)).loc[lambda part, store=store: part["store"] == store]
        pd.testing.assert_frame_equal(rows.reset_index(drop=True), own.reset_index(drop=True))
    check(Forecaster().predict(shops, horizon=UNTIL, **MORE), rolled_after=None)


def test_the_forecast_command(shops: pd.DataFrame, folder: Path) -> None:
    """Red if series end before the date (with zero, all had as many rows as the one that ends last), if their total is
    refused, or if the command to repeat forecasts other rows."""
    shops.to_csv("shops.csv", index=False)
    outcome = done("forecast", "shops.csv", "target=sales", f"until={UNTIL}", "total=true", "output=out")
    table = pd.read_csv("out/forecasts/shops.forecast.csv")
    check(table, rolled_after=None)
    (repeat,) = (line for line in outcome.out.splitlines() if line.startswith("Repeat"))
    assert f" until={UNTIL} " in repeat
    assert " horizon=" not in repeat
    total = pd.read_csv("out/totals.csv").iloc[-1]
    assert (total["from"], total["to"], total["rows"]) == ("2023-10-28", UNTIL, 9)
    common = table[table["date"] > ENDS["s0"]]
    # the network forecasts medians, of which a total adds up the means
    assert total["value"] == pytest.approx(common["sales"].sum(), rel=0.01)


def test_totals_have_the_format_of_the_input(folder: Path) -> None:
    """Red if a program that reads decimal commas cannot read the sums."""
    days = pd.date_range("2024-01-01", periods=60, freq="D")
    table = pd.DataFrame({"Tag": days.strftime("%d.%m.%Y"), "kg": np.random.default_rng(0).gamma(2, 5, 60).round(2)})
    table.to_csv("form.csv", sep=";", decimal=",", index=False)
    done("forecast", "form.csv", "horizon=14", "total=true", "aggregate=[week]", "output=out")
    sums = pd.read_csv("out/totals.csv", sep=";", decimal=",")
    steps = pd.read_csv("out/forecasts/form.forecast.csv", sep=";", decimal=",")
    assert sums["rows"].sum() == len(steps)
    assert sums["value"].sum() == pytest.approx(steps["kg"].sum(), rel=0.1)
    assert 0.5 < sums["value"].sum() / (14 * table["kg"].mean()) < 1.5
