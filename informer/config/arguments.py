"""Arguments of the command line that are paths without a key."""

import os
from collections.abc import Sequence

from informer.config.addresses import is_address
from informer.console import refuse

FLAGS = (
    *("--help", "-h", "--hydra-help", "--version", "--resolve", "--run", "-r", "--multirun", "-m"),
    *("--shell-completion", "-sc"),
)
"""Hydra's options without a value; a word after one of them may be a path."""


def split_positional(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separate paths and addresses from all other arguments: `key=value` (unless a file has this name), options and
    their values."""
    paths: list[str] = []
    remaining: list[str] = []
    for position, argument in enumerate(arguments):
        is_key = "=" in argument and not is_address(argument) and not os.path.exists(argument)
        previous = arguments[position - 1] if position else ""
        takes_value = previous.startswith("-") and "=" not in previous and previous not in FLAGS
        is_option = argument.startswith("-") or takes_value
        (remaining if is_key or is_option else paths).append(argument)
    return paths, remaining


def as_input(paths: Sequence[str]) -> list[str]:
    """`input=PATH` for a path given without a key; ends the program if there are several."""
    if len(paths) > 1:
        refuse(
            f"input: expected one file, folder or pattern, found {len(paths)} files from {paths[0]} to {paths[-1]}; "
            "put a pattern in quotes, so that the shell does not expand it"
        )
    return [f"input={path}" for path in paths]
