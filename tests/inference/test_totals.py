"""Sums of forecasts: a simulated panel whose errors have a known covariance is the oracle of their intervals."""

from pathlib import Path
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest
from entry_points import done, refusal

from informer import InputError
from informer.config.commands import ForecastConfig
from informer.config.data import DatasetConfig
from informer.inference.totals import cubes_of, errors_of, interval, totals
from informer.read.frequency import Frequency
from informer.read.series import Series
from informer.scoring.forecasts import Forecasts, keys_of

S, H, W = 6, 40, 3000
COMMON, OWN, PHI = 2.0, 3.0, 0.8


def errors(n: int, seed: int) -> np.ndarray:
    """[n s h 1]: an autoregression that all series share, and noise of their own."""
    rng = np.random.default_rng(seed)
    common = np.zeros((n, H))
    common[:, 0] = rng.normal(size=n)
    for step in range(1, H):
        common[:, step] = PHI * common[:, step - 1] + (1 - PHI**2) ** 0.5 * rng.normal(size=n)
    return (COMMON * common[:, None] + OWN * rng.normal(size=(n, S, H)))[..., None]


def deviation(series: int, steps: int) -> float:
    """Standard deviation of a sum of errors, from their covariances."""
    lags = np.abs(np.subtract.outer(np.arange(steps), np.arange(steps)))
    return float(np.sqrt(series**2 * COMMON**2 * (PHI**lags).sum() + series * steps * OWN**2))


def held(n: int, seed: int) -> tuple[Forecasts, int]:
    actual = errors(n, seed)[..., 0].reshape(n * S, H)
    keys = keys_of([f"s{s}" for s in range(S)] * n, ["y"], np.arange(n * S) // S + 10_000 * seed)
    times = np.tile(np.arange(H), (n * S, 1))
    return Forecasts(keys=keys, times=times, mean=0 * actual, actual=actual, scale=np.ones(n * S)), n


def forecasts(shift: int = 0) -> tuple[list[Series], Forecasts]:
    """The series, and of each its level as forecast; `shift` rows of the first are missing at the end."""
    panel = []
    for s in range(S):
        times = pd.date_range("2024-01-20", periods=4 - (shift if s == 0 else 0))
        series = Series(
            name=f"s{s}", timestamps=times, values=np.full((len(times), 1), 10.0 * s), columns=("y",),
            frequency=Frequency.parse("D"), time_col="day", series_col="shop",
        )  # fmt: skip
        panel.append(series)
    values = np.tile(10.0 * np.arange(S)[:, None], (1, H))
    times = np.stack([each.timestamps[-1].to_numpy() + np.arange(1, H + 1) * np.timedelta64(1, "D") for each in panel])
    keys = keys_of([each.name for each in panel], ["y"], times[:, 0])
    return panel, Forecasts(keys=keys, times=times, mean=values, actual=values)


def sums(settings: ForecastConfig, dataset: DatasetConfig, path: str = "", shift: int = 0):
    return totals(*forecasts(shift), settings, [held(W, 1), held(500, 2)], dataset, path)


def test_the_interval_of_a_sum_is_that_of_its_distribution(tmp_path: Path) -> None:
    """Red if errors of series or steps are drawn independently (an interval a quarter as wide), or intervals of the
    parts are added up (four times as wide); if groups or months contain other rows, or sums are not those of parts."""
    path = tmp_path / "rows.csv"
    rows = [(day, f"s{s}", "north" if s < 2 else "south", 1) for s in range(S) for day in ("2024-01-22", "2024-01-23")]
    pd.DataFrame(rows, columns=["day", "shop", "region", "y"]).to_csv(path, index=False)
    settings = ForecastConfig(total=True, aggregate=["region", "month"], intervals=[80], above=[6000.0], paths=20)
    result = sums(settings, DatasetConfig(series_col="shop"), str(path))
    table, z = result.table.set_index(["region", "rows"]), NormalDist().inv_cdf(0.9)
    n_series = {"north": (2, 10), "south": (4, 140), "total": (S, 150)}
    assert list(table.index) == [
        (region, rows) for region in n_series for rows in (8, 29, 3)
    ]  # from the 24th of January
    for (region, steps), row in table.iterrows():
        series, level = n_series[region]
        exact, width = deviation(series, steps), row["hi80"] - row["lo80"]
        assert row["value"] == pytest.approx(steps * level)
        assert width == pytest.approx(2 * z * exact, rel=0.07)
    whole = errors(4000, 3).sum(axis=(1, 2, 3))
    low, high = interval(errors(W, 4).sum(axis=(1, 2, 3)), 0.0, 80, W)
    assert np.mean((low <= whole) & (whole <= high)) == pytest.approx(0.8, abs=0.03)
    independent = np.sqrt(S * H * (COMMON**2 + OWN**2))
    added = S * H * (COMMON**2 + OWN**2) ** 0.5
    assert 3 * independent < deviation(S, H) < added / 3
    assert result.facts["coverage"][80] == pytest.approx(80, abs=12)
    # P(sum > x) by the normal distribution
    march = table.loc[("total", 29)]
    expected = 100 * (1 - NormalDist(29 * 150, deviation(S, 29)).cdf(6000))
    assert march["above_6000"] == pytest.approx(expected, abs=3)
    assert result.paths is not None
    assert list(result.paths.columns) == ["path", "shop", "time", "y"]
    assert len(result.paths) == 20 * S * H


def test_few_horizons_give_no_wide_interval() -> None:
    """Red if the extremes of a handful of errors pass for an interval of 95 %."""
    values = np.arange(30.0)
    center = 15.0
    assert np.isnan(interval(values, center, 95, 18)).all()
    assert interval(values, center, 95, 19) == pytest.approx([0, 29])
    assert interval(values, center, 80, 10_000) == pytest.approx(np.quantile(values, [0.1, 0.9]), abs=0.01)
    assert interval(values, -3.0, 80, 10_000)[0] == -3  # the forecast is inside


def test_missing_errors_are_those_of_another_origin() -> None:
    """Red if a series without a window at an origin has no error there, or its other errors change."""
    cubes = cubes_of(held(50, 5)[0], [f"s{s}" for s in range(S)], ["y"])
    forecast, actual, _ = cubes
    forecast[:20, 1] = np.nan
    actual[:, 2, 3] = np.nan
    filled = errors_of(cubes, np.ones((S, 1)), np.random.default_rng(0))
    assert np.isfinite(filled).all()
    np.testing.assert_array_equal(filled[:, 0], actual[:, 0])
    assert all(any((row == other).all() for other in actual[20:, 1]) for row in filled[:20, 1])


def test_sums_of_series_that_end_at_different_times_are_refused() -> None:
    with pytest.raises(InputError, match="found none of s0, which end earlier; set until=2024-03-03"):
        sums(ForecastConfig(total=True), DatasetConfig(), shift=1)


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
    by_region = table[table["region"] != "total"]
    np.testing.assert_allclose(by_region["value"], expected.to_numpy(), rtol=1e-5)
    whole = table[table["region"] == "total"]
    assert whole["value"].sum() == pytest.approx(forecast["sales"].sum(), rel=1e-5)
    assert table["value"].between(table["lo80"], table["hi80"]).all()
    paths = pd.read_parquet("out/paths.parquet")
    assert len(paths) == 30 * len(forecast)
    line = next(line for line in outcome.out.splitlines() if line.startswith("Total"))
    assert all(words in line for words in ("of 5 series", "% too ", "out/totals.csv, out/paths.parquet"))
    assert "Bias of the total" in Path("out/report.html").read_text()
    words = ["overwrite=true", "aggregate=[day_of_month]"]
    assert "day_of_month" in refusal("forecast", *given, *words)


def test_a_column_may_be_called_total(folder: Path) -> None:
    """Against the same column with another name, and the means that it was drawn from; red if its name decides what is
    summed."""
    random, days = np.random.default_rng(3), pd.date_range("2023-01-01", periods=90, name="day")
    wide = pd.DataFrame({name: random.poisson(20.0 + 5 * k, len(days)) for k, name in enumerate("abc")}, index=days)
    found = []
    for name in ("sales", "total"):
        wide.rename_axis(columns="shop").stack().rename(name).to_csv(f"{name}.csv")
        done("forecast", f"{name}.csv", "horizon=7", "total=true", f"output=of_{name}", "dataset.series_col=shop")
        found.append(pd.read_csv(f"of_{name}/totals.csv").drop(columns="column"))
    pd.testing.assert_frame_equal(*found)
    assert found[0]["value"].iloc[-1] == pytest.approx(7 * (20 + 25 + 30), rel=0.05)
    assert (found[0]["lo80"] < found[0]["value"]).all()


@pytest.mark.parametrize("layout", ["series", "columns"])
def test_a_part_that_is_the_sum_of_the_others_is_not_counted_again(folder: Path, layout: str) -> None:
    """Against the total of the same parts without it, and the means that they were drawn from; red if a row or column
    of totals is one of the parts."""
    random, days = np.random.default_rng(3), pd.date_range("2023-01-01", periods=90, name="day")
    wide = pd.DataFrame({name: random.poisson(20.0 + 5 * k, len(days)) for k, name in enumerate("abc")}, index=days)
    found = []
    for name, table in (("parts", wide), ("all", wide.assign(Total=wide.sum(axis=1)))):
        if layout == "series":
            table = table.rename_axis(columns="shop").stack().rename("sales").to_frame()
        table.to_csv(f"{name}.csv")
        settings = ["dataset.series_col=shop"] if layout == "series" else []
        outcome = done("forecast", f"{name}.csv", "horizon=7", "total=true", f"output={name}", *settings)
        found.append(pd.read_csv(f"{name}/totals.csv")["value"].to_numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=0.02)  # seasons are looked for in all parts
    assert found[1][-1] == pytest.approx(7 * (20 + 25 + 30), rel=0.05)
    assert "Total is the sum of the others, so is left out" in outcome.out
