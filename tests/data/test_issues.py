"""Covariates as they were known: every window reads what filtering the rows of the file by hand finds for it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from stores import load_data, read_series

from informer.base.errors import InputError
from informer.config.data import DatasetConfig, ScalerConfig, ScalerKind
from informer.config.model import WindowSizes
from informer.data.columns import Roles
from informer.data.dataset import Data
from informer.data.windows import Windows

SIZES = WindowSizes(seq_len=8, label_len=3, pred_len=5)
KNOWN = ["temp", "wind"]
CONFIG = DatasetConfig(issued_at="issued", series_col="site")


def issued_rows(name: str, n: int, seed: int, start: str = "2024-03-01") -> pd.DataFrame:
    """Measured rows, and forecasts issued every seven hours for the next 14 rows, of which one series lacks some; an
    issue may have one of the two columns only, and some are issued again, half an hour later."""
    rng, times = np.random.default_rng(seed), pd.date_range(start, periods=n, freq="h")
    parts = [pd.DataFrame({"time": times, "load": rng.normal(size=n), "temp": rng.normal(size=n)})]
    parts[0]["wind"] = rng.normal(size=n)
    for first in range(0, n, 7):
        if seed == 2 and 40 <= first < 60:
            continue
        ahead = times[first : first + 14]
        made = pd.DataFrame({"time": ahead, "issued": times[first], "temp": rng.normal(size=len(ahead))})
        made["wind"] = np.where(rng.random(len(ahead)) < 0.7, rng.normal(size=len(ahead)), np.nan)
        parts.append(made)
        if first % 2:
            late = made.assign(issued=times[first] + pd.Timedelta("30min"), temp=np.nan)
            parts.append(late.assign(wind=rng.normal(size=len(late))))
    rows = pd.concat(parts).assign(site=name)
    rows["issued"] = pd.to_datetime(rows["issued"])
    return rows.sample(frac=1, random_state=seed)[["site", "issued", "time", "load", "temp", "wind"]]


FRAME = pd.concat([issued_rows("b", 90, 1), issued_rows("a", 110, 2, "2024-03-02")])


ISSUES = {
    place: [
        (time if pd.isna(issued) else issued, pd.isna(issued), {"temp": temp, "wind": wind})
        for issued, time, temp, wind in rows[["issued", "time", *KNOWN]].itertuples(index=False)
    ]
    for place, rows in FRAME.groupby(["site", "time"])
}


def known(site: str, column: str, time: pd.Timestamp, origin: pd.Timestamp) -> float:
    """What was known of a column at a time: the newest value issued by then, and by the time itself."""
    mine = [
        (issued, measured, row[column]) for issued, measured, row in ISSUES[site, time] if row[column] == row[column]
    ]
    in_time = [issue for issue in mine if issue[0] <= min(time, origin)]
    return max(in_time)[2] if in_time else float("nan")


def data_of(frame: pd.DataFrame, folder: Path, config: DatasetConfig = CONFIG, sizes: WindowSizes = SIZES) -> Data:
    frame.to_csv(folder / "rows.csv", index=False)
    roles, scaler = Roles(targets=["load"], future_covariates=KNOWN), ScalerConfig(kind=ScalerKind.none)
    return load_data(replace(config, path=str(folder / "rows.csv")), sizes, roles, folder, scaler=scaler)


def places(data: Data, windows: Windows) -> list[tuple[str, pd.DatetimeIndex, int]]:
    """For each window the name of its series, the times of that, and the position of the window in them."""
    numbers = windows.series(torch.arange(len(windows))).tolist()
    firsts = windows.store.first_rows.tolist()
    return [
        (data.panel[k].name, data.panel[k].timestamps, start - firsts[k])
        for k, start in zip(numbers, windows.starts.tolist(), strict=True)
    ]


@pytest.mark.parametrize("offset", [0, 2])
def test_every_window_reads_what_was_issued_by_its_origin(tmp_path: Path, offset: int) -> None:
    """Red if a row ahead has a value that was issued after the last row of history, or an older one than the newest, or
    if a row of the history has another value than the newest one of its own time."""
    data = data_of(FRAME, tmp_path, sizes=replace(SIZES, offset=offset))
    for windows in (data.train, data.val, data.test):
        batch = windows.batch(torch.arange(len(windows)))
        for i, (site, times, start) in enumerate(places(data, windows)):
            origin, first = times[start + 7], start + 8 + offset
            for j, column in enumerate(KNOWN, start=1):
                history = [known(site, column, time, time) for time in times[start : start + 8]]
                ahead = [known(site, column, time, origin) for time in times[first : first + 5]]
                np.testing.assert_allclose(batch.enc_x[i, :, j], history, rtol=1e-6)
                np.testing.assert_allclose(batch.dec_x[i, :, j], history[5:] + ahead, rtol=1e-6)


def test_windows_are_those_of_which_all_was_issued(tmp_path: Path) -> None:
    """Red if a window with a row ahead of which nothing was issued is scored, or one without is left out."""
    data = data_of(FRAME, tmp_path)
    for part, windows in (("train", data.train), ("val", data.val), ("test", data.test)):
        expected = 0
        for series, split in zip(data.panel, data.splits, strict=True):
            for start in SIZES.starts(getattr(split, part)):
                origin = series.timestamps[start + 7]
                ahead = series.timestamps[start + 8 : start + 13]
                expected += not np.isnan(
                    [known(series.name, name, time, origin) for name in KNOWN for time in ahead]
                ).any()
        assert len(windows) == expected
        assert 0 < expected < sum(len(SIZES.starts(getattr(split, part))) for split in data.splits)


def test_a_forecast_of_a_forecast_knows_no_more(tmp_path: Path) -> None:
    """Red if later windows of a recursive forecast read what was issued after its origin, in their history or ahead."""
    windows = (data := data_of(FRAME, tmp_path)).test
    shifted = windows.shifted(5)
    batch = shifted.batch(torch.arange(len(windows)))
    n_checked = 0
    for i, (site, times, start) in enumerate(places(data, windows)):
        origin, seen = times[start + 7], times[start + 5 : start + 18]
        if len(seen) < 13:
            continue
        for j, column in enumerate(KNOWN, start=1):
            expected = np.array([known(site, column, time, origin) for time in seen])
            read = np.r_[batch.enc_x[i, :, j], batch.dec_x[i, 3:, j]]
            is_known = ~np.isnan(expected)
            np.testing.assert_allclose(read[is_known], expected[is_known], rtol=1e-6)
            assert np.isfinite(read).all()
            n_checked += int(is_known[8:].sum())
    assert n_checked > 50


def test_foresight_is_the_newest_value_of_each_time(tmp_path: Path) -> None:
    """Red if the windows with foresight are not those of a file with only the measured rows."""
    data = data_of(FRAME, tmp_path)
    measured = (
        FRAME[FRAME["issued"].isna()].drop(columns="issued").sort_values(["site", "time"], ascending=[False, True])
    )
    plain = data_of(measured, tmp_path, DatasetConfig(series_col="site"))
    seen = data.test.with_foresight().batch(torch.arange(len(data.test)))
    of_plain = plain.test.at(data.test.starts).batch(torch.arange(len(data.test)))
    for name in ("enc_x", "dec_x", "target"):
        assert torch.equal(getattr(seen, name), getattr(of_plain, name))
    assert not torch.equal(seen.dec_x, data.test.batch(torch.arange(len(data.test))).dec_x)


def test_a_later_issue_changes_no_window(tmp_path: Path) -> None:
    """Red if anything that was issued after an origin is in its window: all of it is changed here."""
    before = data_of(FRAME, tmp_path)
    cut = pd.Timestamp("2024-03-05 04:00")  # the next issue is an hour later
    later = FRAME["issued"].fillna(FRAME["time"]) > cut
    changed = FRAME.assign(**{name: FRAME[name].mask(later, FRAME[name] + 100) for name in KNOWN})
    after = data_of(changed, tmp_path)
    n = [0, 0]
    for windows, others in ((before.train, after.train), (before.val, after.val), (before.test, after.test)):
        assert torch.equal(windows.starts, others.starts)
        one, two = (each.batch(torch.arange(len(each))) for each in (windows, others))
        for i, (_, times, start) in enumerate(places(before, windows)):
            is_same = torch.equal(one.dec_x[i], two.dec_x[i]) and torch.equal(one.enc_x[i], two.enc_x[i])
            assert is_same or times[start + 7] > cut
            n[is_same] += 1
    assert min(n) > 5


def test_clocks_that_are_set_back(tmp_path: Path) -> None:
    """Red if local times that repeat in every issue are taken for those of the hour that occurs twice."""
    rows = issued_rows("b", 90, 1, "2024-10-26").sort_values(["issued", "time"]).assign(site="b")
    utc = rows.assign(**{name: rows[name].dt.tz_localize("UTC") for name in ("time", "issued")})
    local = utc.assign(
        **{name: utc[name].dt.tz_convert("Europe/Berlin").dt.tz_localize(None) for name in ("time", "issued")}
    )
    there = data_of(local, tmp_path, replace(CONFIG, timezone="Europe/Berlin"))
    here = data_of(utc, tmp_path)
    assert (there.panel[0].timestamps == here.panel[0].timestamps).all()
    local.drop(columns="site").to_csv(tmp_path / "one.csv", index=False)
    alone = read_series(tmp_path / "one.csv", DatasetConfig(issued_at="issued", timezone="Europe/Berlin"))
    assert (alone.timestamps == here.panel[0].timestamps).all()
    for part in ("train", "test"):
        one, two = (getattr(each, part) for each in (here, there))
        assert torch.equal(*(each.batch(torch.arange(len(each))).dec_x for each in (one, two)))


ONE = FRAME[FRAME["site"] == "b"].drop(columns="site").reset_index(drop=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"issued_at": "issue"}, "^dataset.issued_at=issue: rows.csv has no such column"),
        ("load", "b?.*column 'load': expected one value for 2024-03-01 02:00:00, found 1 and 2 in its issues"),
        ("twice", r"row \d+, column 'time': another value of temp for 2024-03-01 10:00:00, issued at 2024-03-01 07"),
        (
            "late",
            r"column 'load': every value for 2024-03-01 05:00:00 was issued later; leave dataset.issued_at=issued",
        ),
        ("text", r"column 'issued': expected the time of an issue, or an empty cell .* found 'noon'"),
        ("zone", "dataset.issued_at: expected times without a time zone as in the time column, found times in UTC"),
        ("far", "no window of the train part has future covariates for all of its pred_len=5 rows ahead that were iss"),
        ("word", r"column 'temp': expected a number, found 'cold'"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path: Path, change: str | dict[str, str], message: str) -> None:
    rows, config = ONE.copy(), DatasetConfig(issued_at="issued")
    if isinstance(change, dict):
        config = replace(config, **change)
    elif change == "load":
        twice = rows[rows["time"] == "2024-03-01 02:00"].head(2).index
        rows.loc[twice, "load"] = [1.0, 2.0]
    elif change == "twice":
        at = (rows["time"] == "2024-03-01 10:00") & (rows["issued"] == "2024-03-01 07:00")
        rows = pd.concat([rows, rows[at].assign(temp=7.0)])
    elif change == "late":
        at = (rows["time"] == "2024-03-01 05:00") & rows["issued"].isna()
        rows.loc[at, "issued"] = pd.Timestamp("2024-03-01 06:00")
    elif change == "text":
        rows["issued"] = rows["issued"].astype(str).replace("NaT", "").mask(rows.index == 3, "noon")
    elif change == "zone":
        rows["issued"] = rows["issued"].dt.tz_localize("UTC")
    elif change == "far":
        rows = rows[rows["issued"].isna() | (rows["time"] - rows["issued"] < pd.Timedelta("3h"))]
    else:
        rows["temp"] = rows["temp"].astype(object).mask(rows.index == 3, "cold")
    with pytest.raises(InputError, match=message):
        data_of(rows, tmp_path, config)


def test_rows_after_the_last_measured_one_are_ahead_of_it(tmp_path: Path) -> None:
    """Red if these are rows of the history, or if a file of which every row was issued at its own time has no rows."""
    values = np.random.default_rng(0).normal(size=(40, 2))
    frame = pd.DataFrame(
        values, columns=["load", "temp"], index=pd.date_range("2024-03-01", periods=40, freq="h", name="time")
    )
    issued = frame.index.where(frame.index < frame.index[30], frame.index[29])
    for own, n in ((pd.Series(issued).where(issued != frame.index).to_numpy(), 30), (frame.index, 40)):
        frame.assign(issued=own).to_csv(tmp_path / "rows.csv")
        series = read_series(tmp_path / "rows.csv", DatasetConfig(issued_at="issued"))
        assert list(series.timestamps) == list(frame.index[:n])
        np.testing.assert_array_equal(series.values, values[:n])
