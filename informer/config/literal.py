"""Paths on the command line that Hydra's grammar would parse as lists, numbers, references or quoted text."""

import os
import re
from collections.abc import Container

from informer.config.overrides import written
from informer.config.plain import escaped

PATHS = {
    *("input", "output", "future", "checkpoint", "data_dir", "run_dir", "resume", "init_from"),
    *("dataset.path", "dataset.attributes", "dataset.cache_dir", "forecasts", "actuals", "history"),
}
"""Keys whose value is a single path."""

_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_/.-]*")
"""Names that Hydra's grammar reads literally, except for a few words."""


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
    return f"{key}={written(escaped(value))}"


def _is_there(path: str) -> bool:
    try:
        return os.path.lexists(os.path.expanduser(path))
    except ValueError:  # a null character; reading the file reports it
        return False
