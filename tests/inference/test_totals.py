"""Sums of forecasts: a simulated panel whose errors have a known covariance is the oracle of their intervals."""

from pathlib import Path
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest
from entry_points import done, refusal

from informer import Forecaster
from informer.config.commands import ForecastConfig
from informer.config.data import DatasetConfig
from informer.data import Frequency, Series
from informer.inference.totals import LEVELS, totals
from informer.scoring.forecasts import Forecasts, keys_of

S, H, W = 6, 40, 3000
COMMON, OWN, PHI = 2.0, 3.0, 0.8
ENDS = {
    f"{end}{level}": side * NormalDist(0, (COMMON**2 + OWN**2) ** 0.5).inv_cdf(0.5 + level / 200)
    for level in LEVELS
    for end, side in (("lo", -1), ("hi", 1))
}
"""Ends of the intervals of an error."""


def errors(n: int, seed: int) -> np.ndarray:
    """[n s h]: an autoregression that all series share, and noise of their own."""
    rng = np.random.default_rng(seed)
    common = np.zeros((n, H))
    common[:, 0] = rng.normal(size=n)
    for step in range(1, H):
        common[:, step] = PHI * common[:, step - 1] + (1 - PHI**2) ** 0.5 * rng.normal(size=n)
    return COMMON * common[:, None] + OWN * rng.normal(size=(n, S, H))


def deviation(series: int, steps: int) -> float:
    """Standard deviation of a sum of errors, from their covariances."""
    lags = np.abs(np.subtract.outer(np.arange(steps), np.arange(steps)))
    return float(np.sqrt(series**2 * COMMON**2 * (PHI**lags).sum() + series * steps * OWN**2))


def held(n: int, seed: int) -> Forecasts:
    """Earlier forecasts, a horizon apart."""
    actual = errors(n, seed).reshape(n * S, H)
    origins = np.arange(n * S) // S * H
    return Forecasts(
        keys=keys_of([f"s{s}" for s in range(S)] * n, ["y"], origins),
        times=origins[:, None] + np.arange(1, H + 1),
        mean=0 * actual,
        actual=actual,
        bands={name: np.full_like(actual, end) for name, end in ENDS.items()},
    )


def forecasts() -> tuple[list[Series], Forecasts]:
    """The series, and of each its level as forecast."""
    panel = []
    for s in range(S):
        times = pd.date_range("2024-01-20", periods=4)
        series = Series(
            name=f"s{s}", timestamps=times, values=np.arange(len(times))[:, None] - 1.0, columns=("y",),
            frequency=Frequency.parse("D"), time_col="day", series_col="shop",
        )  # fmt: skip
        panel.append(series)
    values = np.tile(10.0 * np.arange(S)[:, None], (1, H))
    times = np.stack([each.timestamps[-1].to_numpy() + np.arange(1, H + 1) * np.timedelta64(1, "D") for each in panel])
    keys = keys_of([each.name for each in panel], ["y"], times[:, 0])
    bands = {name: values + end for name, end in ENDS.items()}
    return panel, Forecasts(keys=keys, times=times, mean=values, actual=values, bands=bands)


@pytest.mark.slow
def test_the_interval_of_a_sum_is_that_of_its_distribution(tmp_path: Path) -> None:
    """Red if errors of series or steps are drawn independently (an interval a quarter as wide), or intervals of the
    parts are added up (four times as wide); if groups or months contain other rows, or sums are not those of parts."""
    path = tmp_path / "rows.csv"
    rows = [(day, f"s{s}", "north" if s < 2 else "south", 1) for s in range(S) for day in ("2024-01-22", "2024-01-23")]
    pd.DataFrame(rows, columns=["day", "shop", "region", "y"]).to_csv(path, index=False)
    lists = ["[region,month]", "[week]"]
    settings = ForecastConfig(total=True, aggregate=lists, intervals=[80], above=[6000.0], paths=2000)
    result = totals(*forecasts(), settings, held(W, 1), DatasetConfig(series_col="shop"), str(path))
    weeks = result.table.iloc[9:]
    assert list(weeks["rows"]) == [5, *[7] * 5]
    table, z = result.table.iloc[:9].set_index(["region", "rows"]), NormalDist().inv_cdf(0.9)
    n_series = {"north": (2, 10), "south": (4, 140), "total": (S, 150)}
    assert list(table.index) == [
        (region, rows) for region in n_series for rows in (8, 29, 3)
    ]  # from the 24th of January
    for (region, steps), row in [*table.iterrows(), *((("total", row["rows"]), row) for _, row in weeks.iterrows())]:
        series, level = n_series[region]
        exact, width = deviation(series, steps), row["hi80"] - row["lo80"]
        assert row["value"] == pytest.approx(steps * level)
        assert width == pytest.approx(2 * z * exact, rel=0.1)
        assert row["hi80"] - row["value"] == pytest.approx(row["value"] - row["lo80"], rel=0.15)
    independent = np.sqrt(S * H * (COMMON**2 + OWN**2))
    added = S * H * (COMMON**2 + OWN**2) ** 0.5
    assert 3 * independent < deviation(S, H) < added / 3
    assert result.facts["tested"] == W // 2
    assert result.facts["coverage"][80] == pytest.approx(80, abs=3)
    # P(sum > x) by the normal distribution
    march = table.loc[("total", 29)]
    expected = 100 * (1 - NormalDist(29 * 150, deviation(S, 29)).cdf(6000))
    assert march["above_6000"] == pytest.approx(expected, abs=3)
    assert result.paths is not None
    assert list(result.paths.columns) == ["path", "shop", "time", "y"]
    assert len(result.paths) == 2000 * S * H


@pytest.mark.slow
def test_a_short_series_has_a_range_of_the_year(folder: Path) -> None:
    """48 months, and the first 24, of which nothing can be tested; red if there is no range, if the total is not in its
    middle, or if Python says something else."""
    random, months = np.random.default_rng(2), pd.date_range("2020-01-01", periods=48, freq="MS", name="month")
    sales = 100 + 20 * np.sin(2 * np.pi * np.arange(48) / 12) + random.normal(0, 5, 48)
    for rows, words in ((48, "such total"), (24, "not tested, since there are too few earlier rows")):
        frame = pd.DataFrame({"sales": sales[:rows].round(2)}, index=months[:rows])
        frame.to_csv("months.csv")
        outcome = done("forecast", "months.csv", "horizon=12", "aggregate=year", "output=out", "overwrite=true")
        assert words in next(line for line in outcome.out.splitlines() if line.startswith("Total"))
        found = pd.read_csv("out/totals.csv")
        year = found.iloc[-1]
        assert year["lo80"] < year["value"] < year["hi80"]
        assert (year["hi80"] - year["value"]) == pytest.approx(year["value"] - year["lo80"], rel=0.4)
        assert year["value"] == pytest.approx(1200, rel=0.08)
        given = Forecaster().totals(frame, horizon=12, aggregate="year", intervals=[80, 95])
        pd.testing.assert_frame_equal(
            given.assign(**{"from": given["from"].astype(str), "to": given["to"].astype(str)}), found
        )


@pytest.mark.slow
@pytest.mark.parametrize("model", ["linear", "zero"])
def test_the_command_writes_sums_of_its_forecasts(folder: Path, model: str) -> None:
    """Red if parts and totals disagree, a closed shop is in the sum, the bias is not in the headlines, or a column that
    changes within a shop passes for a group."""
    rng, days = np.random.default_rng(0), pd.date_range("2023-06-01", periods=250)
    parts = []
    for s in range(6):
        sales = 50 + 10 * s + 20 * (days.day_of_week == 5) + 5 * rng.normal(size=250)
        rows = {"day": days.astype(str), "shop": f"s{s}", "region": "ab"[s % 2], "sales": sales.round(2)}
        parts.append(pd.DataFrame(rows).iloc[: 200 if s == 5 else 250])
    pd.concat(parts).to_csv("sales.csv", index=False)
    given = ["sales.csv", f"model={model}", "target=sales", "horizon=14", "output=out", "dataset.series_col=shop"]
    outcome = done("forecast", *given, "total=true", "aggregate=[region,week]", "paths=30", "dataset.exclude=[region]")
    forecast = pd.read_csv("out/forecasts/sales.forecast.csv", parse_dates=["day"])
    assert "s5" not in set(forecast["shop"])
    region = forecast["shop"].map(lambda name: "ab"[int(name[1]) % 2])
    expected = forecast.groupby([region, forecast["day"].dt.to_period("W")])["sales"].sum()
    table = pd.read_csv("out/totals.csv", parse_dates=["from", "to"])
    by_region, whole = table[table["region"] != "total"], table[table["region"] == "total"]
    means = 0.03 if model == "zero" else 1e-5  # the network forecasts medians, of which a sum adds up the means
    np.testing.assert_allclose(by_region["value"], expected.to_numpy(), rtol=means)
    assert whole["value"].sum() == pytest.approx(forecast["sales"].sum(), rel=means)
    assert whole["value"].sum() == pytest.approx(by_region["value"].sum())
    assert table["value"].between(table["lo80"], table["hi80"]).all()
    paths = pd.read_parquet("out/paths.parquet")
    assert len(paths) == 30 * len(forecast)
    line = next(line for line in outcome.out.splitlines() if line.startswith("Total"))
    assert all(words in line for words in ("of 5 series", "% too ", "out/totals.csv, out/paths.parquet")), line
    assert "Bias of the total" in Path("out/report.html").read_text()
    if model == "linear":
        done(
            "predict", "checkpoint=out", "input=sales.csv", "output=again", "total=true", "horizon=14", "intervals=[80]"
        )
        again, of_days = pd.read_csv("again/totals.csv"), forecast.groupby("day")["sales"].sum()
        np.testing.assert_allclose(again["value"], [*of_days, of_days.sum()], rtol=1e-5)
        assert (again["lo80"] < again["value"]).all()
        assert list(pd.read_csv("again/sales.forecast.csv")) == ["shop", "day", "sales", "sales_lo80", "sales_hi80"]
    words = ["overwrite=true", "aggregate=[day_of_month]"]
    assert "day_of_month" in refusal("forecast", *given, *words)


@pytest.mark.parametrize("layout", ["columns", "series that end at different times"])
def test_a_part_that_is_the_sum_of_the_others_is_not_counted_again(folder: Path, layout: str) -> None:
    """Against the total of the same parts without it, and the means that they were drawn from; red if a row or column
    of totals is one of the parts, or if the name of the column, which may be total, decides what is summed."""
    random, days = np.random.default_rng(3), pd.date_range("2023-01-01", periods=90, name="day")
    wide = pd.DataFrame({name: random.poisson(20.0 + 5 * k, len(days)) for k, name in enumerate("abc")}, index=days)
    found = []
    for name, table in (("parts", wide), ("all", wide.assign(Total=wide.sum(axis=1)))):
        if layout != "columns":
            table = table.rename_axis(columns="shop").stack().rename("total").to_frame()
        if layout == "series that end at different times":
            table = table.drop([(day, "b") for day in days[-2:]])
        table.to_csv(f"{name}.csv")
        settings = [] if layout == "columns" else ["dataset.series_col=shop"]
        outcome = done("forecast", f"{name}.csv", "until=2023-04-07", "total=true", f"output={name}", *settings)
        found.append(pd.read_csv(f"{name}/totals.csv")["value"].to_numpy())
    if layout != "columns":
        words = ["all.csv", "horizon=7", "total=true", "output=none", "dataset.series_col=shop"]
        assert "found none of b, which end earlier; set until=2023-04-07" in refusal("forecast", *words)
    np.testing.assert_allclose(found[1], found[0], rtol=0.02)  # seasons are looked for in all parts
    assert found[1][-1] == pytest.approx(7 * (20 + 25 + 30), rel=0.05)
    assert "Total is the sum of the others, so is left out" in outcome.out
