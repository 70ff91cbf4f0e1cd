"""Columns known ahead next to the pretrained network: `informer forecast FILE future=NEXT`."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from entry_points import done, refusal
from forgery import content_of, write_forged

from informer import Forecaster, InputError

DAYS = 126
AHEAD = 14


def shops() -> tuple[pd.DataFrame, pd.Series]:
    """Counts of four shops, 90 % more in promotions, and what was expected of each row. The last shop is closed on
    Sundays and has had no promotion before its last rows."""
    random = np.random.default_rng(1)
    dates = pd.date_range("2024-01-01", periods=DAYS + AHEAD)
    weekday = np.array([1.0, 0.9, 1.0, 1.1, 1.4, 1.7, 0.8])[dates.day_of_week]
    frames, means = [], []
    for place, level in enumerate([20.0, 60.0, 150.0, 40.0]):
        promo = random.random(len(dates)) < 0.25
        if place == 3:
            promo[:DAYS] = False
        open_days = np.where((place == 3) & (dates.day_of_week == 6), 0.0, 1.0)
        mean = level * weekday * open_days * np.where(promo, 1.9, 1)
        sales = {"promo": np.where(promo, "Y", "N"), "sales": random.poisson(mean)}
        frames.append(pd.DataFrame({"date": dates, "shop": f"s{place}", **sales}))
        means.append(mean)
    return pd.concat(frames, ignore_index=True), pd.Series(np.concatenate(means))


def lines_of(*arguments: str) -> dict[str, str]:
    """The closing lines of a forecast by their labels."""
    return {line[:11].strip(): line[11:] for line in done("forecast", *arguments).out.splitlines()}


@pytest.fixture
def panel(folder: Path) -> tuple[pd.DataFrame, pd.Series]:
    """The rows of `shops` ahead and their means; past.csv, next.csv, and both in continued.csv."""
    frame, means = shops()
    is_ahead = frame["date"] > frame["date"].max() - pd.Timedelta(days=AHEAD)
    frame[~is_ahead].to_csv("past.csv", index=False)
    frame[is_ahead].drop(columns="sales").to_csv("next.csv", index=False)
    frame.assign(sales=frame["sales"].where(~is_ahead)).to_csv("continued.csv", index=False)
    return frame[is_ahead], means[is_ahead]


def test_promotions_in_words_are_read_and_totals_are_means(panel: tuple[pd.DataFrame, pd.Series]) -> None:
    """Against the means that the counts were drawn from, and a table of means by shop, weekday and promotion; red if
    promo is not read, if a shop does not learn from the others, if a total is a sum of medians, or if the same rows in
    one file give another forecast."""
    ahead, means = panel
    lines = lines_of("past.csv", "target=sales", "future=next.csv", "total=true", "output=out")
    found = pd.read_csv("out/forecasts/past.forecast.csv")
    assert len(found) == 4 * AHEAD, "as far as next.csv reaches"
    sales = found["sales"].to_numpy()
    past = pd.read_csv("past.csv", parse_dates=["date"])
    keys = ["shop", "weekday", "promo"]
    table = past.assign(weekday=past["date"].dt.day_of_week).groupby(keys)["sales"].mean().rename("mean")
    naive = ahead.assign(weekday=ahead["date"].dt.day_of_week).join(table, on=keys)["mean"].fillna(past["sales"].mean())
    error, of_table = (np.abs(each - means.to_numpy()).mean() for each in (sales, naive.to_numpy()))
    assert error < 1.5 * of_table, "effects alone have 0.8, but earlier forecasts may choose the network too"
    np.testing.assert_allclose(sales.sum(), means.sum(), rtol=0.04)
    total = pd.read_csv("out/totals.csv").query(f"rows == {4 * AHEAD}")["value"]
    np.testing.assert_allclose(total, sales.sum(), rtol=1e-4)
    fourth = ahead["shop"].to_numpy() == "s3"
    np.testing.assert_allclose(sales[fourth], means[fourth], rtol=0.3, atol=1)
    assert (found["sales_lo80"] <= found["sales_hi80"]).all()
    assert lines["Columns"].startswith("promo and the calendar lower the error of earlier forecasts by ")
    page = Path("out/report.html").read_text()
    assert "promo" in page
    assert str(ahead["date"].max().date()) in page, "the page shows the future"
    assert json.loads(Path("out/metrics.json").read_text())["model"] in {"effects", "effects + zero-3"}
    lines_of("continued.csv", "target=sales", "output=one")
    continued = Path("one/forecasts/continued.forecast.csv").read_bytes()
    assert continued == Path("out/forecasts/past.forecast.csv").read_bytes()


def test_an_explanation_has_each_column_known_ahead(panel: tuple[pd.DataFrame, pd.Series]) -> None:
    """Against the forecast, and the promotions that made the rows; red if parts do not add up to it, or a promotion in
    all rows ahead is not more than what it is now."""
    words = ["explain", "past.csv", "checkpoint=zero", "target=sales", "future=next.csv"]
    done(*words, "set=[promo=Y]", "output=why")
    table = pd.read_csv("why/explanation.csv")
    assert {*table["source"]} == {"level", "promo", "calendar", "history"}
    sums = table.groupby(["shop", "date"], sort=False)["value"].sum()
    expected = Forecaster(target="sales").predict("past.csv", future=pd.read_csv("next.csv"))["sales"]
    np.testing.assert_allclose(sums, expected, rtol=1e-3)
    assert "promo" in Path("why/report.html").read_text()
    changed = table.query("source == 'promo'")
    assert changed["difference"].min() >= -1e-9
    assert changed["difference"].max() > 5
    assert "set=promo=X: expected one of N, Y" in refusal(*words, "set=[promo=X]", "output=no")


def test_intervals_around_effects_cover_what_they_say(folder: Path) -> None:
    """Against counts drawn anew; shops that are closed on Sundays leave holes in what the network reads. Red if the
    intervals are not corrected by the coverage of earlier forecasts: they cover 72 %."""
    random, dates, frames = np.random.default_rng(1), pd.date_range("2024-01-01", periods=228), []
    weekday = np.array([1.0, 0.9, 1.0, 1.1, 1.4, 1.7, 0.0])[dates.day_of_week]
    for place in range(24):
        promo = random.random(len(dates)) < 0.2
        sales = random.poisson(20 * (1 + place % 4) * weekday * np.where(promo, 1.9, 1))
        frames.append(pd.DataFrame({"date": dates, "shop": f"s{place:02}", "promo": promo.astype(int), "sales": sales}))
    frame = pd.concat(frames)
    is_ahead = frame["date"] > dates[199]
    frame[~is_ahead].to_csv("past.csv", index=False)
    frame[is_ahead].drop(columns="sales").to_csv("next.csv", index=False)
    assert lines_of("past.csv", "target=sales", "future=next.csv", "output=out")["Intervals"].startswith(
        "80 % cover 80 %"
    )
    found = pd.read_csv("out/forecasts/past.forecast.csv")
    actual = frame.loc[is_ahead, "sales"].to_numpy()
    assert 0.76 < ((found["sales_lo80"] <= actual) & (actual <= found["sales_hi80"])).mean() < 0.84


def test_effects_are_saved_and_loaded(panel: tuple[pd.DataFrame, pd.Series]) -> None:
    """Red if a saved forecaster forecasts or explains otherwise, or reads other codes where a text is rare; if it is
    damaged and no one sees it; or if a series or a column that effects are not of is passed over."""
    fitted = Forecaster(target="sales", dataset={"fill": "linear"}).fit("continued.csv")
    fitted.save("rule.safetensors")
    loaded = Forecaster.load("rule.safetensors")
    ahead = pd.read_csv("next.csv")
    expected = fitted.predict("past.csv", future=ahead, intervals=80)
    unfitted = Forecaster(target="sales").predict("past.csv", future=ahead, intervals=80)
    pd.testing.assert_frame_equal(expected, unfitted, rtol=1e-12)
    pd.testing.assert_frame_equal(loaded.predict("past.csv", future=ahead, intervals=80), expected, check_exact=True)
    past = pd.read_csv("past.csv")
    one = loaded.predict(past[past["shop"] == "s2"][-40:], future=ahead[ahead["shop"] == "s2"])
    assert np.abs(one["sales"] / expected["sales"][2 * AHEAD : 3 * AHEAD].to_numpy() - 1).max() < 0.2, "its own effects"
    done("explain", "past.csv", "checkpoint=rule.safetensors", "future=next.csv", "output=why")
    sums = pd.read_csv("why/explanation.csv").groupby(["shop", "date"], sort=False)["value"].sum()
    np.testing.assert_allclose(sums, expected["sales"], rtol=1e-9)
    with pytest.raises(InputError, match="future: expected the rows ahead of promo, found none"):
        loaded.predict(past, horizon=AHEAD)
    with pytest.raises(InputError, match="effects were fitted to s0, s1, s2, s3 at D, found s9 at D"):
        loaded.predict(past.replace("s1", "s9"), future=ahead.replace("s1", "s9"), horizon=AHEAD)
    assert "the pretrained network with its settings" in refusal("predict", "checkpoint=rule.safetensors", "past.csv")
    content = content_of(Path("rule.safetensors"))
    for name, value in (("0.level", content["effects"]["0.level"][:2]), ("0.center", torch.zeros(1))):
        write_forged(Path("forged.safetensors"), content | {"effects": content["effects"] | {name: value}})
        with pytest.raises(InputError, match="its parts do not fit"):
            Forecaster.load("forged.safetensors").predict(past, future=ahead)
    write_forged(Path("forged.safetensors"), content | {"version": "zero-1"})
    with pytest.raises(InputError, match="version: String should match"):
        Forecaster.load("forged.safetensors")
    whole = Path("rule.safetensors").read_bytes()
    Path("rule.safetensors").write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    with pytest.raises(InputError, match="is damaged"):
        Forecaster.load("rule.safetensors")


def heated() -> tuple[pd.DataFrame, np.ndarray]:
    """Hours of a load that rises below 15 degrees, and what was expected of the last day."""
    random = np.random.default_rng(2)
    times = pd.date_range("2024-01-01", periods=90 * 24, freq="h")
    hour = times.hour.to_numpy()
    swing = np.repeat(random.normal(0, 5, 90), 24)
    heat = 15 + swing + 4 * np.sin(2 * np.pi * (hour - 9) / 24) + random.normal(0, 0.5, len(times))
    mean = 100 + 30 * np.isin(hour, [8, 9, 18, 19, 20]) * (times.day_of_week < 5) + 6 * np.maximum(15 - heat, 0)
    load = mean + random.normal(0, 3, len(times))
    return pd.DataFrame({"time": times, "heat": heat.round(3), "load": load.round(3)}), np.asarray(mean)


def test_a_bend_is_found(folder: Path) -> None:
    """Against the rule that made the rows; red if heating is a straight line, or the calendar is not read."""
    frame, mean = heated()
    frame[:-24].to_csv("load.csv", index=False)
    frame[-24:].drop(columns="load").to_csv("next.csv", index=False)
    lines_of("load.csv", "target=load", "future=next.csv", "output=out")
    found = pd.read_csv("out/forecasts/load.forecast.csv")["load"].to_numpy()
    actual = frame["load"][-24:].to_numpy()
    straight = np.polynomial.Polynomial.fit(frame["heat"][:-24], frame["load"][:-24], 1)(frame["heat"][-24:])
    error, of_rule, of_line = (np.abs(each - actual).mean() for each in (found, mean[-24:], straight))
    assert error < min(1.7 * of_rule, 0.5 * of_line)


def test_columns_without_effect_leave_the_forecast_alone(folder: Path) -> None:
    """Against the network by itself on a random walk; red if noise is added for a column that says nothing."""
    random = np.random.default_rng(3)
    rows = pd.DataFrame({"date": pd.date_range("2024-01-01", periods=154), "noise": random.random(154)})
    rows["value"] = 50.5 + random.normal(0, 1, 154).cumsum()
    rows[:140].to_csv("walk.csv", index=False)
    rows[140:].drop(columns="value").to_csv("next.csv", index=False)
    lines = lines_of("walk.csv", "target=value", "future=next.csv", "output=both")
    assert lines["Columns"].endswith("so are not used")
    lines_of("walk.csv", "target=value", "model=zero", "horizon=14", "output=alone")
    both, alone = (Path(f"{name}/forecasts/walk.forecast.csv").read_bytes() for name in ("both", "alone"))
    assert both == alone


def test_values_far_outside_the_history_are_named(folder: Path) -> None:
    """A promotion of 100 after 0 and 1, for a forecast and for a model that is trained; red if nothing is said, or the
    forecast is far from all values."""
    random = np.random.default_rng(4)
    promo = random.integers(0, 2, 120)
    rows = pd.DataFrame({"date": pd.date_range("2024-01-01", periods=120), "promo": promo})
    rows.assign(sales=(100 + 80 * promo + random.normal(0, 1, 120)).round(3)).to_csv("past.csv", index=False)
    dates = pd.date_range(rows["date"].iloc[-1], periods=8)[1:]
    pd.DataFrame({"date": dates, "promo": [0, 100, 0, 1, 0, 1, 0]}).to_csv("next.csv", index=False)
    words = ["past.csv", "target=sales", "horizon=7", "future=next.csv"]
    said = "column promo: 1 of 7 rows ahead are far outside its history, such as 100; it was 0 to 1"
    assert said in lines_of(*words, "output=out")["Data"]
    assert pd.read_csv("out/forecasts/past.forecast.csv")["sales"].max() < 300
    assert said in lines_of(*words, "output=trained", "model=linear", "total=true")["Data"]
    total, found = (pd.read_csv(f"trained/{name}.csv") for name in ("totals", "forecasts/past.forecast"))
    np.testing.assert_allclose(total["value"].iloc[-1], found["sales"].sum(), rtol=0.05)
    expected = (
        "future_covariates: expected their values for the rows to forecast, in rows at the end without the target"
    )
    assert expected in refusal("forecast", *words[:-1], "future_covariates=[promo]", "output=no", "model=linear")


def new_shops() -> tuple[pd.DataFrame, list[str], pd.Timestamp]:
    """80 shops of two formats, whose levels differ by a fifth around that of their format, and half more in promotions;
    the half of them that opens after the history; and the first day ahead."""
    random = np.random.default_rng(0)
    dates, frames = pd.date_range("2024-01-01", periods=DAYS + AHEAD), []
    for place in range(80):
        promo, noise = random.random(len(dates)) < 0.3, random.normal(size=len(dates))
        level = (20, 60)[place % 2] * np.exp(0.2 * random.normal())
        sales = level * (1 + 0.3 * np.sin(2 * np.pi * np.arange(len(dates)) / 7)) * np.where(promo, 1.5, 1)
        own = {"shop": f"s{place:02}", "format": ("small", "large")[place % 2], "promo": promo.astype(int)}
        frames.append(pd.DataFrame({"date": dates, **own, "sales": (sales * np.exp(0.1 * noise)).round(2)}))
    return pd.concat(frames, ignore_index=True), [f"s{place:02}" for place in range(40)], dates[DAYS]


@pytest.mark.slow
def test_shops_without_history_are_forecast_from_those_of_their_format(folder: Path) -> None:
    """Against what 40 shops sold after they had opened; red if a new shop has the level of another format, if its own
    promotions have no effect, if its 80 % intervals are those of shops with history (which cover less than half), if
    the forecasts of these change, if the log and the page do not say what those of the new ones are, if a shop of a new
    format is not like all, if a missing row is not named, or if Python has others."""
    frame, names, first = new_shops()
    is_new, is_ahead = frame["shop"].isin(names), frame["date"] >= first
    frame[~is_new & ~is_ahead].to_csv("past.csv", index=False)
    kiosk = frame[is_ahead & (frame["shop"] == "s00")].assign(shop="s99", format="kiosk")
    ahead = pd.concat([frame[is_ahead], kiosk]).drop(columns="sales")
    ahead.to_csv("next.csv", index=False)
    frame[is_ahead & ~is_new].drop(columns="sales").to_csv("old.csv", index=False)
    lines = lines_of("past.csv", "target=sales", "future=next.csv", "intervals=[80,99]", "output=new")
    lines_of("past.csv", "target=sales", "future=old.csv", "intervals=[80,99]", "output=old")
    said = "no history; the forecast is the mean of 20 series with equal format (s40, s42, s44 and 17 more)"
    assert f"s00, s02, s04, s06 and 16 more: {said}" in lines["Data"]
    assert "s99: no history; the forecast is the mean of 40 series, since none has equal format" in lines["Data"]
    assert "without intervals of 99 %" in lines["Data"]
    assert said in Path("new/report.html").read_text(encoding="utf-8")
    whole = pd.read_csv("new/forecasts/past.forecast.csv", parse_dates=["date"])
    found = whole.merge(frame[is_new], on=["shop", "date"], suffixes=("", "_true"))
    assert len(found) == 40 * AHEAD
    has_history = ~whole["shop"].isin([*names, "s99"])
    old = pd.read_csv("old/forecasts/past.forecast.csv", parse_dates=["date"])
    pd.testing.assert_frame_equal(whole[has_history], old)
    assert 0.72 < found["sales_true"].between(found["sales_lo80"], found["sales_hi80"]).mean() < 0.88
    assert found["sales_lo99"].isna().all()
    means = found.groupby(["format", "promo"])["sales"].mean()
    past, future = (each.assign(shop=each["shop"].str[1:].astype(int)) for each in (frame[~is_new & ~is_ahead], ahead))
    got = Forecaster(target="sales").predict(past, future=future, intervals=80)
    assert got["shop"].dtype == np.int64
    both = got.assign(shop="s" + got["shop"].astype(str).str.zfill(2)).merge(whole, on=["shop", "date"])
    np.testing.assert_allclose(both["sales_hi80_x"], both["sales_hi80_y"], atol=1e-3)
    assert len(both) == len(whole)
    of_kiosk = whole[whole["shop"] == "s99"]["sales"]
    assert of_kiosk.mean() == pytest.approx(whole[has_history]["sales"].mean(), rel=0.15)
    first_day = ahead["date"] == first
    ahead[~first_day | (ahead["shop"] != "s00")].to_csv("next.csv", index=False)
    assert "shop s00" in refusal("forecast", "past.csv", "target=sales", "future=next.csv", "output=less")
    assert means["large"].mean() / means["small"].mean() == pytest.approx(3, rel=0.2)
    assert means[:, 1].sum() / means[:, 0].sum() == pytest.approx(1.5, rel=0.1)
