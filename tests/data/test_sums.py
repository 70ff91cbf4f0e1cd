"""Files of sales, calls or orders: sums of the rows of each period, compared with those of pandas."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import call, done

from informer import InputError, data
from informer.data import Frequency


def sales(n: int = 1500, days: int = 200) -> pd.DataFrame:
    """Sales at irregular times of several days, stores and products, in order."""
    random = np.random.default_rng(3)
    seconds = np.sort(random.integers(0, days * 86_400, n))
    times = pd.Timestamp("2023-02-27 09:30") + pd.to_timedelta(seconds, unit="s")
    text = {"store": random.choice(["a", "b"], n), "product": random.choice(["x", "y", "z"], n)}
    return pd.DataFrame({"sold": times, **text, "amount": random.gamma(2, 10, n), "pieces": random.integers(1, 5, n)})


def read(frame: pd.DataFrame, folder: Path, **settings: object) -> pd.DataFrame:
    frame.to_csv(folder / "f.csv", index=False)
    (series,) = data.read(folder / "f.csv", **{"duplicates": "sum"} | settings)
    return pd.DataFrame(series.values, index=series.timestamps, columns=series.columns)


@pytest.mark.parametrize("code", ["h", "6h", "15min", "D", "W", "W-MON", "MS", "ME", "QS", "QE", "YS"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_sums_of_periods(code: str, zone: str | None, tmp_path: Path) -> None:
    """Red if a row is in another period than pandas has it in, or a period without rows is missing."""
    frame = sales(days=900 if code[0] in "QY" else 200)
    found = read(frame, tmp_path, frequency=code, timezone=zone)
    wall = frame.set_index("sold")[["amount", "pieces"]]
    oracle = wall.resample(code).sum()
    if zone is not None:  # a day has 23 hours
        oracle = wall.tz_localize(zone, nonexistent="shift_forward").resample(code).sum()
    pd.testing.assert_frame_equal(found, oracle, check_freq=False, check_dtype=False, check_names=False)


@pytest.mark.parametrize("code", ["h", "6h", "D", "W", "MS"])
def test_means_of_readings(code: str, tmp_path: Path) -> None:
    """Red if readings at irregular times are not averaged as pandas does, or a period without any is no gap."""
    frame = sales()[["sold", "amount", "pieces"]].sample(frac=1, random_state=0).astype({"pieces": float})
    frame.loc[frame.index[5:400], "amount"] = np.nan
    found = read(frame, tmp_path, duplicates="mean", frequency=code, fill="mask")
    oracle = frame.set_index("sold").resample(code).mean()
    pd.testing.assert_frame_equal(found, oracle, check_freq=False, check_names=False)


def test_sums_of_dates_in_any_order(tmp_path: Path) -> None:
    """Red if rows of one day must be next to each other, or closed days are zeros."""
    frame = sales().assign(sold=lambda frame: frame["sold"].dt.normalize())
    frame = frame[frame["sold"].dt.day_of_week < 5]
    oracle = frame.groupby("sold")[["amount", "pieces"]].sum().asfreq("B", fill_value=0)
    found = read(frame.sample(frac=1, random_state=0), tmp_path)
    pd.testing.assert_frame_equal(found, oracle, check_freq=False, check_dtype=False, check_names=False)


@pytest.mark.parametrize(("back", "is_wrong"), [(365, True), (14, False)])
def test_rows_with_a_wrong_year_are_in_no_sum(back: int, is_wrong: bool, tmp_path: Path) -> None:
    """Red if the last rows are added to the sums of a year before; sales entered two weeks late are."""
    frame = sales(days=800)
    frame.loc[1490:, "sold"] -= pd.Timedelta(days=back)
    if is_wrong:
        with pytest.raises(InputError, match=r"row 1492, .* as with a wrong year"):
            read(frame, tmp_path, frequency="D")
    else:
        oracle = frame.set_index("sold")["amount"].resample("D").sum()
        np.testing.assert_allclose(read(frame, tmp_path, frequency="D")["amount"], oracle)


@pytest.mark.parametrize(("code", "days"), [("MS-15", 200), ("B", 60), ("h-MonTueWedThuFri0900-1700", 60)])
def test_no_sale_is_lost_on_any_step(code: str, days: int) -> None:
    """Red if rows on closed days or hours are in no period, or before the begin of theirs."""
    times = pd.DatetimeIndex(sales(days=days)["sold"])
    grid, codes = Frequency.parse(code).periods(times)
    assert (codes.min(), codes.max()) == (0, len(grid) - 1)
    later = codes > 0
    assert (grid[codes[later]] <= times[later]).all()
    assert (times[codes < len(grid) - 1] < grid[codes[codes < len(grid) - 1] + 1]).all()
    assert (Frequency.parse(code).strides(grid) == 1).all()


def test_an_unfinished_period_is_named(folder: Path) -> None:
    """Red if the sum of half a month passes for one that fell, or a whole month is called unfinished."""
    days = pd.date_range("2022-01-01", "2023-12-14")
    for last, n in (("2023-12-14", 1), ("2023-11-30", 0), ("2023-11-29", 0)):
        frame = pd.DataFrame({"date": days, "sold": 1.5})[days <= last]
        frame.to_csv("f.csv", index=False)
        said = call("inspect", "f.csv", "dataset.duplicates=sum", "dataset.frequency=MS").out
        assert said.count("the last sum, 2023-12-01, is of rows up to 2023-12-14") == n
        assert said.count("the last sum") == n


def test_series_and_categories(tmp_path: Path) -> None:
    frame = sales()
    frame.to_csv(tmp_path / "f.csv", index=False)
    settings = {"series_col": "store", "categorical": ["product"], "columns": ["amount", "product"]}
    for series in data.read(tmp_path / "f.csv", duplicates="sum", frequency="D", **settings):
        own = frame[frame["store"] == series.name].set_index("sold").resample("D")
        np.testing.assert_allclose(series.values[:, 0], own["amount"].sum())
        first = own["product"].first().ffill().map({"x": 1, "y": 2, "z": 3})
        np.testing.assert_array_equal(series.values[:, 1], first)


def test_empty_cells_and_text_in_a_sum(tmp_path: Path) -> None:
    """Red if a sum without a value passes for a whole one."""
    frame = sales().astype({"amount": object})
    frame.loc[700, "amount"] = "ask"
    with pytest.raises(InputError, match=r"row 702, column 'amount': expected a number, found 'ask'"):
        read(frame, tmp_path, frequency="D")
    frame.loc[700, "amount"] = None
    with pytest.raises(InputError, match=r"row 702, column 'amount': expected a number, found an empty cell"):
        read(frame, tmp_path, frequency="D")
    day = frame["sold"].iloc[700].normalize()
    assert np.isnan(read(frame, tmp_path, frequency="D", fill="mask").loc[day, "amount"])
    others = frame.astype({"amount": float}).set_index("sold")["amount"].resample("D").sum()
    np.testing.assert_allclose(read(frame, tmp_path, frequency="D", fill="zero")["amount"], others)


@pytest.mark.parametrize("kind", ["times", "dates", "few"])
def test_the_settings_that_are_named_read_the_sums(kind: str, folder: Path) -> None:
    """Red if the error of a file of sales does not name the settings, or these do not read it."""
    frame = sales(60 if kind == "few" else 1500)[["sold", "amount"]]
    if kind == "dates":
        frame["sold"] = frame["sold"].dt.strftime("%d.%m.%Y")
    frame.to_csv("f.csv", index=False)
    refused = call("inspect", "f.csv")
    assert refused.status == 2
    named = re.findall(r"dataset\.duplicates=sum(?: dataset\.frequency=\w+)?", refused.out)
    assert len(named) == 1
    assert "duplicates=sum: " in call("inspect", "f.csv", *named[0].split()).out
    done("forecast", "f.csv", *named[0].split(), "model=zero", "horizon=2", "output=o")
    with pytest.raises(InputError, match=r"dataset\.frequency=s: .* are too many periods for"):
        read(sales(), folder, frequency="s")
