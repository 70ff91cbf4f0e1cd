"""Widths that follow the coverage: against a loop over origins, and their purpose."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from entry_points import Trained, done, refusal

from informer import Forecaster
from informer.base.runtime import resource
from informer.inference.rolling import RATE, Tracking


@pytest.mark.parametrize(("stride", "horizon"), [(1, 6), (4, 6), (7, 6), (2, 3), (3, 9)])
def test_widths_are_those_of_a_loop_over_origins(trained: Trained, folder: Path, stride: int, horizon: int) -> None:
    """Widths at each origin follow from errors whose last actual value was known; fails if one is used too early."""
    table = pd.read_csv(resource("data/sample.csv"), parse_dates=["date"]).iloc[226:330].reset_index(drop=True)
    forecaster = Forecaster.load(trained.run_dir, device="cpu")
    asked = {"stride": stride, "horizon": horizon, "intervals": [80, 95]}
    fixed = forecaster.backtest(table, **asked)
    forecasts = forecaster.backtest(table, **asked, adaptive=True)
    pd.testing.assert_frame_equal(forecasts[fixed.columns[:5]], fixed[fixed.columns[:5]])

    for column, rows in fixed.groupby("column"):
        own = forecasts[forecasts["column"] == column].set_index(["origin", "step"])
        rows = rows.set_index(["origin", "step"])
        origins = list(rows.index.unique("origin"))
        factor, waiting, differs = {80: 1.0, 95: 1.0}, [], 0
        for origin in origins:
            now = rows.loc[origin].iloc[:6]  # intervals reach pred_len rows
            while waiting and waiting[0][0] <= origin:
                for level, missed in waiting.pop(0)[1].items():
                    reach = min(horizon, 6)
                    origins_of_a_forecast = -(-reach // stride)
                    factor[level] *= np.exp(RATE / origins_of_a_forecast * (missed - (1 - level / 100)))
            half80 = (now["hi80"] - now["forecast"]) * factor[80]
            half95 = np.maximum((now["hi95"] - now["forecast"]) * factor[95], half80)
            expected = {80: half80, 95: half95}
            for level, half in expected.items():
                np.testing.assert_allclose(own.loc[origin][f"hi{level}"][:6], now["forecast"] + half, rtol=1e-5)
            error = (now["forecast"] - now["actual"]).abs()
            known = pd.Timestamp(table["date"][table.index[table["date"] == origin][0] + len(now)])
            waiting.append((known, {level: (error > half).mean() for level, half in expected.items()}))
            differs += factor[80] != 1.0
        assert differs, column


def test_coverage_comes_back_after_a_break() -> None:
    """Errors become three times as large: fixed widths cover a quarter or less, and the mean of the shares outside is
    within |log m| / (rate k) of 1 - level. Red if the update has the wrong sign or size."""
    rng, origins = np.random.default_rng(0), 400
    errors = np.abs(rng.normal(size=(origins, 4, 2)))
    errors[100:] *= 3
    halves = {80: np.full(errors.shape, 1.2816), 95: np.full(errors.shape, 1.96)}
    adapted = Tracking([95, 80], delay=1)(errors, halves)
    for level, fixed in halves.items():
        assert (errors <= fixed)[200:].mean() < level / 100 - 0.25
        missed = (errors > adapted[level]).mean(axis=(0, 1))
        assert (np.abs(missed - (1 - level / 100)) < np.log(5) / (RATE * origins)).all()
        assert (errors <= adapted[level])[200:].mean() == pytest.approx(level / 100, abs=0.02)
    assert (adapted[95] >= adapted[80]).all()


def test_pieces_give_the_widths_of_the_whole() -> None:
    """Red if what is not known yet is lost between two batches of origins."""
    rng = np.random.default_rng(1)
    errors = np.abs(rng.normal(size=(30, 3, 2)))
    halves = {80: np.abs(rng.normal(size=errors.shape))}
    whole, pieces = Tracking([80], delay=4)(errors, halves)[80], Tracking([80], delay=4)
    cuts = [slice(0, 1), slice(1, 9), slice(9, 30)]
    np.testing.assert_array_equal(
        np.concatenate([pieces(errors[cut], {80: halves[80][cut]})[80] for cut in cuts]), whole
    )


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["adaptive=true", "intervals=[80]"], "adaptive: only used with mode=rolling"),
        (
            ["adaptive=true", "mode=rolling"],
            "adaptive: expected levels whose widths are adapted; set intervals=[80,95]",
        ),
    ],
)
def test_what_it_needs_is_said(trained: Trained, folder: Path, arguments: list[str], part: str) -> None:
    line = refusal("predict", f"checkpoint={trained.run_dir}", "input=rows.csv", *arguments)
    assert part in line
    assert len(line.strip().splitlines()) == 1


def test_the_command_scores_the_intervals_that_it_writes(trained: Trained, folder: Path) -> None:
    """Coverage in the metrics is that of the table; red if fixed widths are scored."""
    pd.read_csv(resource("data/sample.csv")).iloc[226:330].to_csv("rows.csv", index=False)
    arguments = [f"checkpoint={trained.run_dir}", "input=rows.csv", "output=out", "mode=rolling", "stride=1"]
    done("predict", *arguments, "digits=null", "intervals=[80]", "adaptive=true")
    table, metrics = pd.read_csv("out/rows.rolling.csv"), pd.read_csv("out/rows.rolling.metrics.csv")
    inside = table["actual"].between(table["lo80"], table["hi80"])
    expected = 100 * inside.groupby(table["column"]).mean()
    own = metrics[(metrics["metric"] == "coverage80") & (metrics["units"] == "scaled") & (metrics["step"] == "all")]
    covered = own[own["column"] != "all"].set_index("column")["value"]
    assert covered.to_dict() == pytest.approx(expected[covered.index].to_dict(), abs=0.2)
