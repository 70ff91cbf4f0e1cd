"""`python -m informer.report runs/latest`: one HTML page about a run, an evaluation or forecasts.

The page works offline: charts, data and styles are in one file.
"""

from informer import start

if __name__ == "__main__":  # before the imports that take time
    start.begin()

import sys
from pathlib import Path

from informer.checkpoint.paths import resolve_latest
from informer.config.arguments import split_positional
from informer.config.compose import run_command
from informer.config.reports import ReportConfig
from informer.console import main_console, refuse
from informer.data.read.remote import copied_here, is_remote, without_query
from informer.errors import InputError


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
    from informer.reporting.command import report  # imports torch; wrong paths are refused earlier

    report(settings, main_console())


def _check_exists(path: Path) -> None:
    if not path.exists():
        raise InputError(f"input={path}: no such file or folder; expected a run, an evaluation or forecasts")


if __name__ == "__main__":
    start.run(main)
