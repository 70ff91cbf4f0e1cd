"""What takes long in a thousand calls of commands and is the subject of few tests: drawing, waiting for the disk."""

import os
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg

DRAWN = {"reporting", "test_eval.py", "test_plots.py", "test_trackers.py"}
"""Folders and files of tests with real pictures; elsewhere figures are made but not drawn, which takes longer than a
forecast."""

BLANK = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mP4DwABAQEAHLCMmQAAAABJRU5ErkJggg==")
"""A PNG of one pixel."""

_drawn: Any = FigureCanvasAgg.print_png
_blank: Any = lambda canvas, file, **options: file.write(BLANK)  # noqa: E731


def install() -> None:
    """Files are not forced to the disk: no test cuts the power."""
    os.fsync = lambda descriptor: None


def switch(path: Path) -> None:
    """On or off, for the tests of this file."""
    FigureCanvasAgg.print_png = _drawn if DRAWN & set(path.parts) else _blank  # type: ignore[method-assign]


@contextmanager
def undrawn() -> Iterator[None]:
    """Whatever the file, for what tests of several files read."""
    before = FigureCanvasAgg.print_png
    FigureCanvasAgg.print_png = _blank  # type: ignore[method-assign]
    yield
    FigureCanvasAgg.print_png = before  # type: ignore[method-assign]
