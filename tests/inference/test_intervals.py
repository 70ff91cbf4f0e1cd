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
from informer.scoring.intervals import Calibration, saved_calibration
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


def place_of(level: int, n: int, step: int) -> int:
    """Rank from 0 of the half width at a step (from 0), of n errors of windows one row apart: of two windows per step
    one counts; at most the last rank."""
    overlap = math.ceil(n / (1 + (n - 1) / (2 * (step + 1))))
    return min(math.ceil(round((n + overlap) * level / 100, 9)), n) - 1


@pytest.mark.parametrize("n", [1, 19, 137])
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


def test_widths_after_a_late_launch_are_those_of_the_rows_since() -> None:
    """A product sold from a row on, 20 a day with a standard deviation of 4.5: 95 % is 1.96 of them; before, all errors
    were zero and so were the widths."""
    sales = np.where(np.arange(600) < 540, 0, 20 + 4.5 * np.random.default_rng(0).standard_normal(600))
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


def test_a_model_may_have_no_calibration(folder: Path) -> None:
    """Red if a short validation part is divided, or intervals of such a model are a traceback."""
    arguments = ["dataset=sample", *SMALL, "dataset.split.val=11", "trainer.max_steps=1", "run_dir=short"]
    assert "validation part too short to be divided: no calibration" in done("train", *arguments).out
    line = refusal("predict", "checkpoint=short", str(ROOT / "data/sample.csv"), "intervals=[80]")
    assert "trained without calibration; train with trainer.calibration=0.5" in line


@pytest.mark.parametrize(
    "changed",
    [
        {"power": torch.tensor(0.3)},
        {"lag": torch.tensor([1, 2])},
        {"usual": torch.tensor([math.nan] * 4)},
        {"further": torch.tensor(1)},
    ],
)
def test_a_variation_that_cannot_be_is_refused(trained: Trained, changed: dict[str, Tensor]) -> None:
    saved = checkpoint.load(trained.run_dir)
    assert saved.calibration
    with pytest.raises(InputError, match="its calibration does not fit the model"):
        saved_calibration(saved.model_copy(update={"calibration": saved.calibration | changed}))


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
