"""`python -m informer.inspect FILE`: the content of a file, its problems, and a command that trains on it.

A folder, a pattern, or a file with dataset.series_col gets a report for each file or series, and a table of all. The
exit status is 0 if all can be used for training without changes, otherwise 2.
"""

from informer import start

if __name__ == "__main__":  # before the imports that take time
    start.begin()

import sys
from pathlib import Path

from informer.config.commands import InspectConfig
from informer.config.compose import run_command
from informer.console import EXIT_USER_ERROR, main_console, refuse
from informer.data.read.download import check_input


def main() -> None:
    """Console script `informer-inspect`."""
    sys.argv[1:] = _with_input(sys.argv[1:])
    run_command("inspect", _act)


def _act(settings: InspectConfig) -> None:
    check_input(settings.input or "")
    from informer.data.inspection import inspect  # imports pandas

    if not inspect(settings, main_console()):
        sys.exit(EXIT_USER_ERROR)


def _with_input(arguments: list[str]) -> list[str]:
    """Add `input=` to a file given without a key."""
    unnamed = []
    for place, argument in enumerate(arguments):
        is_key = "=" in argument and not Path(argument).exists()
        is_option = argument.startswith("-") or (place > 0 and arguments[place - 1].startswith("-"))
        if not is_key and not is_option:
            unnamed.append(place)
    if len(unnamed) > 1:
        refuse(
            f"input: expected one file, folder or pattern, found {len(unnamed)} files from {arguments[unnamed[0]]} to "
            f"{arguments[unnamed[-1]]}; put a pattern in quotes, so that the shell leaves it as it is"
        )
    return [f"input={argument}" if place in unnamed else argument for place, argument in enumerate(arguments)]


if __name__ == "__main__":
    start.run(main)
