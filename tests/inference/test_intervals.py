"""Intervals: half widths against order statistics by loops, also those that follow coverage; coverage of draws."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from data_cases import windows_over
from entry_points import CSV, ROOT, SMALL, Trained, call, done, refusal
from torch import Tensor

from informer import Forecaster, InputError, checkpoint
from informer.checkpoint import restore_model
from informer.data.windows import Batch, Windows
from informer.inference.rescore import trained_data
from informer.members.network import model_forecast
from informer.scoring import residuals as conformal
from informer.scoring.intervals import RATE, Calibration, Tracking, saved_calibration
from informer.scoring.residuals import Residuals


def zeros(batch: Batch) -> Tensor:
    """Forecasts zeros, so that its errors are the values themselves."""
    return torch.zeros(len(batch.enc_x), 3, 2)


def draws(n_windows: int, seed: int) -> Tensor:
    """Rows with as many windows of one row of history and three of forecast."""
    return torch.randn(n_windows + 3, 2, generator=torch.Generator().manual_seed(seed))


def calibrated(windows: Windows) -> Calibration:
    """Histories of one row have no differences: all windows are alike."""
    return conformal.residuals(zeros, windows, batch_size=7, lag=1, targets=[0, 1]).calibration()


def place_of(level: int, n: int, step: int, windows: int | None = None) -> int:
    """Rank from 0 of the half width at a step (from 0), of n errors of windows one row apart: of two windows per step
    one counts; at most the last rank."""
    windows = windows or n
    overlap = math.ceil(windows / (1 + (windows - 1) / (2 * (step + 1))))
    return min(math.ceil(round((n + overlap) * level / 100, 9)), n) - 1


@pytest.mark.parametrize("n", [1, 4, 19, 20, 137])
def test_half_widths_are_the_order_statistics_of_the_errors(n: int) -> None:
    """Red if windows that overlap count as independent ones."""
    values = draws(n, seed=n)
    calibration = calibrated(windows_over(values, seq_len=1, pred_len=3))
    for level in (1, 50, 80, 95, 99):
        place = math.ceil(round((n + 1) * level / 100, 9))
        if place > n:
            with pytest.raises(InputError, match=rf"intervals={level}: expected at least \d+ calibration windows"):
                calibration.check(level)
            continue
        for step in range(3):
            for column in range(2):
                errors = sorted(abs(values[i + 1 + step, column].item()) for i in range(n))
                expected = errors[place_of(level, n, step)]
                assert calibration.half_widths[level - 1, step, column].item() == pytest.approx(expected)


def residuals_of(errors: np.ndarray, differences: np.ndarray) -> Residuals:
    """Residuals of one step and column."""
    as_parts = torch.from_numpy(errors).float()[:, None, None], torch.from_numpy(differences).float()[:, None]
    return Residuals(*as_parts, lag=1)


@pytest.mark.parametrize(
    "changed",
    [
        {"power": torch.tensor(0.3)},
        {"lag": torch.tensor(0)},
        {"lag": torch.tensor([1, 2])},
        {"usual": torch.tensor([1.0])},
        {"usual": torch.tensor([math.nan] * 4)},
        {"largest": torch.tensor([-1.0] * 4)},
        {"still": torch.zeros(99, 6, 3)},
        {"further": torch.tensor(1)},
    ],
)
def test_a_variation_that_cannot_be_is_refused(trained: Trained, changed: dict[str, Tensor]) -> None:
    saved = checkpoint.load(trained.run_dir)
    assert saved.calibration
    with pytest.raises(InputError, match="its calibration does not fit the model"):
        saved_calibration(saved.model_copy(update={"calibration": saved.calibration | changed}))


def test_columns_of_intervals_and_rows_beyond_them(trained: Trained, folder: Path) -> None:
    arguments = [f"checkpoint={trained.run_dir}", f"input={ROOT / 'data/sample.csv'}", "intervals=[50,90]"]
    done("predict", *arguments, "horizon=8", "output=out")
    forecast = pd.read_csv("out/sample.forecast.csv")
    targets = ["temperature", "visitors", "price", "demand"]
    ends = [f"{name}_{end}" for name in targets for end in ("lo50", "hi50", "lo90", "hi90")]
    assert list(forecast.columns) == ["date", *targets, *ends, "rolled"]
    assert forecast[ends].iloc[6:].notna().all(axis=None)
    for name in targets:
        order = forecast.loc[:5, [f"{name}_lo90", f"{name}_lo50", name, f"{name}_hi50", f"{name}_hi90"]]
        assert (order.diff(axis=1).iloc[:, 1:] > 0).all(axis=None)
    done("predict", *arguments, "horizon=8", "output=out", "overwrite=true", "format=long")
    long = pd.read_csv("out/forecasts.csv")
    assert list(long.columns) == ["series", "date", "column", "y", "lo50", "hi50", "lo90", "hi90", "rolled"]
    np.testing.assert_array_equal(long.loc[long["column"] == "price", "hi90"], forecast["price_hi90"])


@pytest.mark.parametrize("launch", [420, 540])
def test_widths_after_a_late_launch_are_those_of_the_rows_since(launch: int) -> None:
    """A product sold from a row on, 20 a day with a standard deviation of 4.5: 95 % is 1.96 of them; before, all errors
    were zero and so were the widths."""
    sales = np.where(np.arange(600) < launch, 0, 20 + 4.5 * np.random.default_rng(0).standard_normal(600))
    frame = pd.DataFrame({"date": pd.date_range("2021-01-01", periods=600), "sales": sales})
    forecaster = Forecaster("linear", target="sales", seq_len=14, pred_len=7).fit(frame)
    ahead = forecaster.predict(frame, intervals=[95])
    half = (ahead["sales_hi95"] - ahead["sales_lo95"]).mean() / 2
    assert 0.75 < half / (1.96 * 4.5) < 2


def test_windows_that_vary_and_those_that_do_not_are_calibrated_separately() -> None:
    """Against numpy: 500 errors of zero after constant histories change no width after others."""
    rng = np.random.default_rng(1)
    errors, differences = np.abs(rng.normal(size=99)), rng.uniform(0.5, 2, size=99)
    zeros = np.zeros(500)
    alone = residuals_of(errors, differences).calibration()
    among = residuals_of(np.r_[zeros, errors], np.r_[zeros, differences]).calibration()
    assert among.variation.power == alone.variation.power
    torch.testing.assert_close(among.half_widths, alone.half_widths)
    assert among.windows == 99
    assert (among.still > 0).all()
    # launches: one constant history in five is followed by an error of 1 to 3
    launches = np.r_[zeros[:396], rng.uniform(1, 3, size=99)]
    still = residuals_of(np.r_[launches, errors], np.r_[np.zeros(495), differences]).calibration().still[94, 0, 0]
    assert still.item() == pytest.approx(np.sort(launches)[math.ceil(496 * 0.95) - 1])


def test_series_with_larger_errors_have_wider_intervals() -> None:
    """Errors of 1 and 3 times a normal one in two series of 200 windows, all histories alike. Red if the series share
    their widths, a series without windows or a new one has those of another, or the steps are mixed."""
    rng = np.random.default_rng(2)
    size, step = np.repeat([1.0, 3.0], 200), np.array([1.0, 5.0])
    errors = np.abs(rng.normal(size=(400, 2))) * size[:, None] * step
    series = torch.tensor([0, 2]).repeat_interleave(200)
    parts = torch.from_numpy(errors).float()[:, :, None], torch.ones(400, 1)
    calibration = Residuals(*parts, lag=1, series=series).calibration()
    of, history = torch.tensor([0, 2, 1, 3, -1]), draws(9, seed=0)[None, :, :1]
    half = calibration.half_width(80, history.repeat(5, 1, 1), series=of)
    relative = errors / errors.mean(axis=0)
    factors = [(relative[series == s].mean(axis=1).sum() + 4) / 204 for s in (0, 2)]
    units = np.repeat(factors, 200)[:, None]
    usual = np.sort(errors / units, axis=0)[math.ceil(401 * 0.8) - 1]
    widths = half[:, :, 0] / calibration.half_width(80, history)[0, :, 0]
    np.testing.assert_allclose(widths.numpy(), np.array([*factors, 1, 1, 1])[:, None].repeat(2, 1), rtol=1e-4)
    np.testing.assert_allclose(calibration.half_widths[79, :, 0].numpy(), usual, rtol=1e-4)
    assert factors[1] / factors[0] == pytest.approx(3, rel=0.2)


def test_half_widths_of_recursive_steps_are_order_statistics_of_rolled_errors() -> None:
    """A forecast of zeros errs by the values themselves; windows without later held-out rows are left out."""
    values = draws(40, seed=5)
    windows = windows_over(values, seq_len=1, pred_len=3)
    found = conformal.residuals(zeros, windows, batch_size=7, lag=1, targets=[0, 1], n_rolled=2).calibration()
    assert found.half_widths.shape == (99, 9, 2)
    for step in range(9):
        later = 3 * (step // 3)
        errors = sorted(abs(values[i + 1 + step, 1].item()) for i in range(40 - later))
        places = [place_of(level, len(errors), step, windows=37 if step >= 3 else 40) for level in (30, 50, 80, 95)]
        assert found.half_widths[[29, 49, 79, 94], step, 1].tolist() == pytest.approx([errors[k] for k in places])


def test_intervals_that_are_too_narrow_are_said_so_everywhere(folder: Path) -> None:
    """The deviation grows eightfold in the test rows; the scored model cannot know."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"date": pd.date_range("2021-01-01", periods=400), "load": rng.normal(size=400)})
    frame.loc[320:, "load"] += 40 + 20 * np.sign(np.sin(np.arange(80) / 3)) * np.arange(80)
    frame.to_csv("load.csv", index=False)
    outcome = done("forecast", "load.csv", "model=linear", "output=o", "horizon=5")
    saved = json.loads(Path("o/metrics.json").read_text())
    share = saved["intervals"]["80"]["overall"]["coverage"]
    assert share < 70
    said = f"intervals are too narrow: those of 80 % cover {share:.0f} %"
    assert said in outcome.out.strip().splitlines()[-1]
    assert said in Path("o/report.html").read_text()
    assert said in call("predict", "checkpoint=o", "input=load.csv", "output=p", "intervals=[80]").out
    assert said in call("eval", "checkpoint=o").out.strip().splitlines()[-1]


def test_what_cannot_be_had_is_one_line(trained: Trained, folder: Path) -> None:
    source = f"input={ROOT / 'data/sample.csv'}"
    line = refusal("predict", f"checkpoint={trained.run_dir}", source, "intervals=[99]")
    assert "intervals=99: expected at least 99 calibration windows, the model had 85" in line
    assert "expected different whole percentages" in call("predict", source, "intervals=[80,80]").err
    arguments = ["dataset=sample", *SMALL, "trainer.max_steps=1", "trainer.calibration=0", "run_dir=bare"]
    done("train", *arguments)
    outcome = call("predict", "checkpoint=bare", source, "intervals=[80]")
    assert "trained without calibration; train with trainer.calibration=0.5" in outcome.err
    assert not Path("forecasts").exists()


def test_a_short_validation_part_is_not_divided(folder: Path) -> None:
    arguments = ["dataset=sample", *SMALL, "dataset.split.val=11", "trainer.max_steps=1", "run_dir=short"]
    assert "validation part too short to be divided: no calibration" in done("train", *arguments).out
    assert checkpoint.load(Path("short")).calibration == {}


@pytest.mark.parametrize(("stride", "horizon"), [(1, 6), (2, 3), (3, 9)])
def test_widths_are_those_of_a_loop_over_origins(trained: Trained, folder: Path, stride: int, horizon: int) -> None:
    """Widths at each origin follow from errors whose last actual value was known; fails if one is used too early."""
    table = pd.read_csv(ROOT / "data/sample.csv", parse_dates=["date"]).iloc[226:330].reset_index(drop=True)
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


def test_the_command_scores_the_intervals_that_it_writes(trained: Trained, folder: Path) -> None:
    """Coverage in the metrics is that of the table; red if fixed widths are scored."""
    pd.read_csv(ROOT / "data/sample.csv").iloc[226:330].to_csv("rows.csv", index=False)
    arguments = [f"checkpoint={trained.run_dir}", "input=rows.csv", "output=out", "mode=rolling", "stride=1"]
    done("predict", *arguments, "digits=null", "intervals=[80]", "adaptive=true")
    table, metrics = pd.read_csv("out/rows.rolling.csv"), pd.read_csv("out/rows.rolling.metrics.csv")
    inside = table["actual"].between(table["lo80"], table["hi80"])
    expected = 100 * inside.groupby(table["column"]).mean()
    own = metrics[(metrics["metric"] == "coverage80") & (metrics["units"] == "scaled") & (metrics["step"] == "all")]
    covered = own[own["column"] != "all"].set_index("column")["value"]
    assert covered.to_dict() == pytest.approx(expected[covered.index].to_dict(), abs=0.2)


def test_curves_of_coverage_and_pinball_are_of_the_formula(folder: Path) -> None:
    """Of the last epoch's network: intervals by sorting its errors on the calibration windows, in a loop; wider where
    neighbouring rows differ by more than in all of these."""
    done("train", "dataset=sample", *SMALL, CSV, "run_dir=run")
    last = checkpoint.load(Path("run/last.safetensors"))
    model, data = restore_model(last).eval(), trained_data(last, torch.device("cpu"))
    with torch.inference_mode():
        errors, (forecast, actual), changes = [], ([], []), []
        for windows, kept in ((data.calibration, errors), (data.val, None)):
            batch = windows.batch(torch.arange(len(windows)))
            output = model_forecast(model, batch).numpy()
            changes.append(np.abs(np.diff(batch.enc_x.numpy(), axis=1)).mean(axis=1))
            if kept is not None:
                kept.append(np.abs(output - batch.target.numpy()))
            else:
                forecast, actual = output, batch.target.numpy()
    ordered = np.sort(errors[0], axis=0)
    table = pd.read_csv("run/curves.csv").query("step == 2").set_index("tag")["value"]
    for level in (80, 95):
        n, half = len(ordered), np.empty_like(ordered[0])
        for k in range(len(half)):  # windows of neighbouring rows count as one as far as two rows a step
            overlap = math.ceil(n / (1 + (n - 1) / (2 * (k + 1))))
            half[k] = ordered[min(math.ceil((n + overlap) * level / 100), n) - 1, k]
        half = half * np.maximum(changes[1] / changes[0].max(axis=0), 1.0)[:, None]
        assert table[f"val/coverage_{level}"] == pytest.approx(100 * (np.abs(forecast - actual) <= half).mean())
        assert table[f"val/width_{level}"] == pytest.approx(2 * half.mean(), rel=1e-5)
        low, high = 0.5 - level / 200, 0.5 + level / 200
        losses = [
            np.maximum(share * (actual - end), (share - 1) * (actual - end)).mean()
            for share, end in ((low, forecast - half), (high, forecast + half))
        ]
        assert table[f"val/pinball_{level}"] == pytest.approx(np.mean(losses), rel=1e-4)
