"""Choices of `informer forecast` for settings that the user does not set, and the line shown meanwhile."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from informer.base import progress
from informer.base.progress import Status
from informer.commands import workflow as module
from informer.commands.plan import find_subjects, for_training, plan, split_for, usual_horizon
from informer.commands.workflow import Display, displayed
from informer.config.commands import ForecastConfig, RepairMode
from informer.config.data import SplitConfig


@pytest.mark.parametrize(
    ("rows", "season", "expected"),
    [
        (20_000, 24, 48),  # hours: two days
        (900, 7, 14),  # days: two weeks
        (144, 12, 12),  # months: one year, of twelve
        (30_000, 96, 96),  # quarters of an hour: one day
        (30_000, 288, 96),  # 5 minutes: no more than 96
        (60, 1, 6),  # years: a tenth of what there is
        (48, 12, 12),  # months: a year of four, without training
        (19, 1, 6),  # a short series of years
        (5, 12, 1),
    ],
)
def test_the_horizon_is_one_or_two_seasons(rows: int, season: int, expected: int) -> None:
    assert usual_horizon(rows, season) == expected


@pytest.mark.parametrize(("reading", "expected"), [(0.1, 8.0), (1.0, 7.5), (9.0, 5.0)])
def test_slow_reading_leaves_less_time_for_training(reading: float, expected: float) -> None:
    """Forecasts and report read the data again: 2.5 times of it is kept, a fifth at least, half at most."""
    assert for_training(10.0, reading) == pytest.approx(expected)


def test_long_series_are_split_as_usual() -> None:
    assert split_for(1000, 24) == SplitConfig()


@pytest.mark.parametrize(("rows", "horizon"), [(144, 12), (100, 10), (60, 6), (300, 60), (40, 10)])
def test_every_part_of_a_short_series_holds_a_window(rows: int, horizon: int) -> None:
    """The borders are those of `data.split`: training and test are rounded down, validation takes the rest."""
    split = split_for(rows, horizon)
    shares = [float(part) for part in (split.train, split.val, split.test)]
    train, test = int(rows * shares[0]), int(rows * shares[2])
    val = rows - train - test
    assert sum(shares) == pytest.approx(1)
    assert min(train - 1, val, test) >= horizon
    if rows >= 6 * horizon + 30:  # there is room for the windows that calibrate an interval
        assert val // 2 - horizon + 1 >= 4


@pytest.mark.parametrize("target", ["sales", None])
def test_rows_without_a_target_at_the_end_are_named(target: str | None, tmp_path: Path) -> None:
    """Rows of the future with what is planned in them, or a column that ends before another: forecasts begin after,
    which is not what was wanted."""
    days = pd.date_range("2024-01-01", periods=214, freq="D")
    sales = np.where(np.arange(214) < 200, np.random.default_rng(0).normal(size=214), np.nan)
    path = tmp_path / "file.csv"
    pd.DataFrame({"date": days, "sales": sales, "planned": range(214)}).to_csv(path, index=False)
    asked = ForecastConfig(input=str(path), repair=RepairMode.auto)
    (subject,), _ = find_subjects(asked)
    asked.target = target
    *_, notes = plan(subject, asked, minutes=1.0, run_dir=tmp_path / "run")
    assert any("the last 14 rows have no sales: " in note for note in notes)


def test_the_line_names_the_work_the_best_and_the_time_left() -> None:
    now = [0.0]
    display = Display(5.0, clock=lambda: now[0])
    display.update(Status(doing="searching: 96 rows of history, ridge"))
    assert display.line == "searching: 96 rows of history, ridge; 5:00 left of 5:00"
    display.update(Status(best=0.30, baseline=0.30, baseline_name="ridge"))
    display.update(Status(best=0.27))
    now[0] = 90.0
    assert display.line == (
        "searching: 96 rows of history, ridge; best validation loss so far 0.27, 10.0 % below ridge (0.3); "
        "3:30 left of 5:00"
    )
    now[0] = 301.0
    assert display.line.endswith("budget used, finishing")


def test_it_is_drawn_on_a_terminal() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with displayed(console, 5.0):
        progress.report(Status(doing="searching", best=0.2, baseline=0.4, baseline_name="ridge"))
    console.print(Display(1.0))
    text = console.file.getvalue()
    assert "starting" in text
    assert "1:00" in text


def test_piped_output_gets_plain_lines_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when nothing is printed for longer than `EVERY`, or terminal control characters are written."""
    monkeypatch.setattr(module, "EVERY", 0.01)
    file = io.StringIO()
    with displayed(Console(file=file), 5.0) as display:
        progress.report(Status(doing="training, step 3 of 9"))
        while "training" not in file.getvalue():
            assert display.elapsed < 60
    lines = file.getvalue().splitlines()
    assert "training, step 3 of 9; 5:00 left of 5:00" in lines or "training, step 3 of 9; 4:59 left of 5:00" in lines
    assert "\x1b" not in file.getvalue()
