"""`informer inspect FILE`: the content of a file, its problems, and a command that trains on it.

For a folder, a pattern, or a file with dataset.series_col there is a report for each file or series, and a table of
all. The exit status is 0 if all can be used for training without changes, otherwise 2.
"""

import sys

from informer.base.console import EXIT_USER_ERROR, main_console
from informer.config.commands import InspectConfig
from informer.config.compose import as_input, run_command, split_positional
from informer.read.files import check_input, copied_here


def main() -> None:
    """The command `informer inspect`."""
    sys.argv[1:] = _with_input(sys.argv[1:])
    run_command("inspect", _act)


def _act(settings: InspectConfig) -> None:
    settings = copied_here(settings, ("input",), settings.dataset.limits)
    check_input(settings.input or "")
    from informer.data.diagnosis import inspect  # imports pandas

    if not inspect(settings, main_console()):
        sys.exit(EXIT_USER_ERROR)


def _with_input(arguments: list[str]) -> list[str]:
    """Add `input=` to a file given without a key."""
    paths, overrides = split_positional(arguments)
    return [*overrides, *as_input(paths)]
