"""Formats of checkpoint files: a function for each step from one to the next, so that all of them stay readable."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from informer.errors import InputError

FORMAT = 3
"""Of the files that are written; raised whenever a reader of an older format would misread them."""
FIRST_WITH_DIGEST = 3

Content = dict[str, Any]


def format_of(content: Content, path: Path) -> int:
    """The number of its format, of a file at `path`.

    Raises:
        InputError: none that this version knows.
    """
    found = content.get("format")
    if type(found) is not int or not min(MIGRATIONS) <= found <= FORMAT:
        known = f"{min(MIGRATIONS)} to {FORMAT}"
        raise InputError(f"checkpoint: {path} has another format than {known}; train again or use a matching version")
    return found


def to_today(content: Content, path: Path) -> Content:
    """The entries of a file in today's format.

    Raises:
        InputError: see `format_of`; or something that its format never held.
    """
    for step in range(format_of(content, path), FORMAT):
        content = MIGRATIONS[step](content, path)
    return content


def _with_digest(content: Content, path: Path) -> Content:
    """2 -> 3: `dims` has one number of columns for encoder and decoder; from 3 on a digest is next to the content."""
    dims = content.get("dims")
    if "digest" in content or not isinstance(dims, dict):
        raise InputError(f"checkpoint: {path}: expected the entries of format 2, found others")
    return content | {"dims": _one_width(dims, path)}


def _one_width(dims: dict[str, Any], path: Path) -> dict[str, Any]:
    """Sizes of files from when they held the decoder's input columns, always those of the encoder, by themselves."""
    if dims.get("dec_in", dims.get("enc_in")) != dims.get("enc_in"):
        raise InputError(f"checkpoint: {path}: dec_in: expected enc_in={dims.get('enc_in')}, found {dims['dec_in']}")
    return {name: size for name, size in dims.items() if name != "dec_in"}


MIGRATIONS: dict[int, Callable[[Content, Path], Content]] = {2: _with_digest}
"""By format: what turns its content into that of the next one."""
