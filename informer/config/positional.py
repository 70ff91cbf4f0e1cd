"""Paths given to a command without a key."""

import re
from collections.abc import Sequence
from pathlib import Path

from informer.config.addresses import is_address
from informer.console import refuse

FLAGS = (
    *("--help", "-h", "--hydra-help", "--version", "--resolve", "--run", "-r", "--multirun", "-m"),
    *("--shell-completion", "-sc"),
)
"""Hydra's options without a value, behind which a path may follow."""


def split_positional(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separate paths and addresses from all other arguments: `key=value` (unless a file has this name), options and
    their values."""
    paths: list[str] = []
    others: list[str] = []
    for place, argument in enumerate(arguments):
        is_key = "=" in argument and not is_address(argument) and not Path(argument).exists()
        before = arguments[place - 1] if place else ""
        is_option = argument.startswith("-") or (before.startswith("-") and "=" not in before and before not in FLAGS)
        (others if is_key or is_option else paths).append(argument)
    return paths, others


def as_input(paths: Sequence[str]) -> list[str]:
    """`input=PATH` for a path given without a key; ends the program if there are several."""
    if len(paths) > 1:
        refuse(
            f"input: expected one file, folder or pattern, found {len(paths)} files from {paths[0]} to {paths[-1]}; "
            "put a pattern in quotes, so that the shell does not expand it"
        )
    return [f"input={path}" for path in paths]


def quoted_list(values: Sequence[str]) -> str:
    """A list in Hydra's grammar; the elements may contain any characters."""
    # a backslash escapes only before a quote or the end
    texts = (re.sub(r"(\\*)('|$)", lambda end: end[1] * 2 + end[2].replace("'", "\\'"), each) for each in values)
    return "[" + ",".join(f"'{each}'" for each in texts) + "]"
