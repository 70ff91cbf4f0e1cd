"""Arguments of the command line that are paths: without a key, or in a form that Hydra's grammar would misread."""

import os
import re
from collections.abc import Container, Sequence
from pathlib import Path

from informer.config.addresses import PATHS, is_address
from informer.config.overrides import to_hydra
from informer.config.plain import escaped
from informer.console import refuse

FLAGS = (
    *("--help", "-h", "--hydra-help", "--version", "--resolve", "--run", "-r", "--multirun", "-m"),
    *("--shell-completion", "-sc"),
)
"""Hydra's options without a value; a word after one of them may be a path."""


_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_/.-]*")
"""Names that Hydra's grammar reads literally, except for a few words."""


def split_positional(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separate paths and addresses from all other arguments: `key=value` (unless a file has this name), options and
    their values."""
    paths: list[str] = []
    remaining: list[str] = []
    for position, argument in enumerate(arguments):
        is_key = "=" in argument and not is_address(argument) and not Path(argument).exists()
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


def literal_path(argument: str, texts: Container[str], *, is_sweep: bool) -> str | None:
    """A `key=value` argument with a path, written so that Hydra reads it literally; None for any other argument.

    Args:
        argument: one argument of the command line.
        texts: keys of the command whose values are text; `resume` is a path in one command and a boolean in another.
        is_sweep: whether `--multirun` is given. Then `dataset.path=a.csv,b.csv` means two files, unless there is a file
            of this name.
    """
    key, _, value = argument.partition("=")
    if key not in PATHS or key not in texts or value in ("", "null"):
        return None
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    if _PLAIN.fullmatch(value) and value.lower() not in ("true", "false", "nan", "inf"):
        return argument
    if (is_quoted or is_sweep) and not _is_there(value):
        return None
    return f"{key}={to_hydra(escaped(value))}"


def _is_there(path: str) -> bool:
    try:
        return os.path.lexists(os.path.expanduser(path))
    except ValueError:  # a null character; reading the file reports it
        return False
