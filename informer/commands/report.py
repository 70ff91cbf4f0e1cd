"""`informer report runs/latest`: one HTML page about a run, an evaluation or forecasts.

The page works offline: charts, data and styles are in one file.
"""

import sys
from pathlib import Path

from informer.base.console import main_console, refuse
from informer.base.errors import InputError
from informer.checkpoint.paths import resolve_latest
from informer.config.commands import ReportConfig
from informer.config.compose import run_command, split_positional
from informer.read.files import copied_here, is_remote, without_query


def main() -> None:
    """The command `informer report`."""
    paths, overrides = split_positional(sys.argv[1:])
    if len(paths) > 1:
        refuse(f"input: expected one run or folder, found {len(paths)}: {', '.join(paths)}")
    sys.argv[1:] = [*overrides, *(f"input={path}" for path in paths)]
    run_command("report", _act)


def _act(settings: ReportConfig) -> None:
    if is_remote(settings.input) and settings.output is None:
        raise InputError(f"output: expected the path of a page for input={without_query(settings.input)}, found none")
    settings = copied_here(settings, ("input", "history", "actuals"))
    _check_exists(resolve_latest(settings.input))
    from informer.report.command import report  # imports torch; wrong paths are refused earlier

    report(settings, main_console())


def _check_exists(path: Path) -> None:
    if not path.exists():
        raise InputError(f"input={path}: no such file or folder; expected a run, an evaluation or forecasts")
