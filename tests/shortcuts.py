"""What takes long in a thousand calls of commands and is the subject of few tests: drawing, waiting for the disk."""

import os
from base64 import b64decode
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg

DRAWN = {"reporting", "security", "test_eval.py", "test_plots.py", "test_trackers.py", "test_train.py"}
"""Folders and files of tests with real pictures; elsewhere figures are made but not drawn, which takes longer than a
forecast."""

BLANK = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mP4DwABAQEAHLCMmQAAAABJRU5ErkJggg==")
"""A PNG of one pixel."""

_drawn: Any = FigureCanvasAgg.print_png


def install() -> None:
    """Files are not forced to the disk: no test cuts the power."""
    os.fsync = lambda descriptor: None


def switch(path: Path) -> None:
    """Pictures on or off, for the tests of this file."""
    wanted: Any = _drawn if DRAWN & set(path.parts) else lambda canvas, file, **options: file.write(BLANK)
    FigureCanvasAgg.print_png = wanted  # type: ignore[method-assign]
