"""The progress that `informer forecast` shows while it works."""

import io

import pytest
from rich.console import Console

from informer.base import progress
from informer.base.progress import Status
from informer.commands import workflow as module
from informer.commands.workflow import Display, displayed


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
