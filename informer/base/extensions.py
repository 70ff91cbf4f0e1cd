"""Attention mechanisms and families of networks from outside the package.

An installed package lists its classes as entry points, `attn=NAME` and `model=NAME` choose them:

    [project.entry-points."informer.attention"]
    mine = "my_package.mine:MyAttention"
    [project.entry-points."informer.models"]
    mine = "my_package.mine:MyNetwork"

A file needs no package: a yaml of `--config-dir` names its class as `_target_: my_file.MyAttention`.

Only the command names modules to import, also by `--import=MODULE`. A model file may come from anyone, so a class that
it names must be part of this package or of a module that is already imported.
"""

import importlib
import os
import sys
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from informer.base.errors import FileError

GROUPS = {"attn": "informer.attention", "model": "informer.models"}
"""Config group -> group of entry points."""

OPTION = "--import="
"""Option of every command, with a module to import."""


def installed(group: str) -> dict[str, EntryPoint]:
    """Entry points of a config group by name; nothing is imported."""
    return {point.name: point for point in entry_points(group=GROUPS[group])} if group in GROUPS else {}


def import_named(module: str) -> None:
    """Import a module that the command names, from an installed package or the current folder.

    Raises:
        InputError: it cannot be imported.
    """
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        if not all(part.isidentifier() for part in module.split(".")):
            raise ImportError("not a module's name")
        importlib.import_module(module)
    except ImportError as error:
        raise FileError(
            f"{module!r}: expected a module of the current folder or of an installed package, found none ({error})"
        ) from error
    except SyntaxError as error:
        raise FileError(f"{module!r}: line {error.lineno}: {error.msg}; correct the file") from error


def import_words(words: list[str]) -> list[str]:
    """Import the modules of `--import=MODULE`, and return the other words. Errors as in `import_named`."""
    for word in words:
        if word.startswith(OPTION):
            import_named(word.removeprefix(OPTION))
    return [word for word in words if not word.startswith(OPTION)]


def loaded(module: str, name: str) -> Any:
    """An object of a module that is already imported; None if there is no such module or object."""
    return vars(sys.modules[module]).get(name) if module in sys.modules else None
