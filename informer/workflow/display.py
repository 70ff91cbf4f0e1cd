"""Progress of a long command: a live display in a terminal, otherwise a line at intervals."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from informer.console import say
from informer.errors import printable
from informer.progress import Status, listening

EVERY = 30.0
"""Seconds between two lines if the output is not a terminal."""

BAR = 24
"""Width of the progress bar in characters."""


class Display:
    """Current activity, best score so far, time left.

    Args:
        minutes: time budget.
        clock: time in seconds.
    """

    def __init__(self, minutes: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self.clock = 60 * minutes, clock
        self.status = Status(doing="starting")
        self._began = clock()
        self._spinner = Spinner("dots")

    def update(self, status: Status) -> None:
        """Update the fields that `status` sets."""
        values = {name: getattr(status, name) for name in ("doing", "best", "baseline", "baseline_name")}
        self.status = replace(self.status, **{name: value for name, value in values.items() if value is not None})

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self.clock() - self._began

    @property
    def time_left(self) -> str:
        """Time left of the budget, as text."""
        seconds_left = self.seconds - self.elapsed
        if seconds_left <= 0:
            return "budget used, finishing"
        return f"{_minutes(seconds_left)} left of {_minutes(self.seconds)}"

    @property
    def best(self) -> str:
        """Best score so far compared with the baseline, as text; empty before the first score."""
        status = self.status
        if status.best is None:
            return ""
        text = f"best validation loss so far {status.best:.4g}"
        if status.baseline is None:
            return text
        name = status.baseline_name or "baseline"
        if status.best >= status.baseline:
            return f"{text}: {name}"
        return f"{text}, {100 * (1 - status.best / status.baseline):.1f} % below {name} ({status.baseline:.4g})"

    @property
    def line(self) -> str:
        """The display as one line."""
        return "; ".join(filter(None, [printable(self.status.doing or ""), self.best, self.time_left]))

    def __rich__(self) -> RenderableType:
        """The display as a table: activity, best score, progress bar."""
        table = Table.grid(padding=(0, 1))
        table.add_row(self._spinner, Text(printable(self.status.doing or ""), style="bold", overflow="ellipsis"))
        if self.best:
            table.add_row("", Text(self.best))
        bar = Table.grid(padding=(0, 1))
        bar.add_row(
            ProgressBar(total=self.seconds, completed=min(self.elapsed, self.seconds), width=BAR),
            Text(self.time_left, style="dim"),
        )
        table.add_row("", bar)
        return table


@contextmanager
def displayed(console: Console, minutes: float) -> Iterator[Display]:
    """Show progress reports within the context."""
    display = Display(minutes)
    with listening(display.update):
        if console.is_terminal:
            with Live(display, console=console, refresh_per_second=8, transient=True):
                yield display
        else:
            with _plain_lines(console, display):
                yield display


@contextmanager
def _plain_lines(console: Console, display: Display) -> Iterator[None]:
    """Print a line every `EVERY` seconds, from a separate thread."""
    over = threading.Event()

    def speak() -> None:
        while not over.wait(EVERY):
            say(console, display.line)

    thread = threading.Thread(target=speak, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
