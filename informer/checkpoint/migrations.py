"""Formats of checkpoint files, with one function per step that converts a format to the next."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from informer.errors import InputError

FORMAT = 3
"""Format of new files; it increases whenever an older reader would misread them."""
FIRST_WITH_DIGEST = 3

Content = dict[str, Any]


def format_of(content: Content, path: Path) -> int:
    """Format number of a file's content.

    Raises:
        InputError: this version cannot read the format.
    """
    number = content.get("format")
    if type(number) is not int or not min(MIGRATIONS) <= number <= FORMAT:
        supported = f"{min(MIGRATIONS)} to {FORMAT}"
        raise InputError(
            f"checkpoint: {path} has another format than {supported}; train again or use a matching version"
        )
    return number


def to_today(content: Content, path: Path) -> Content:
    """Convert the content of a file to the current format.

    Raises:
        InputError: see `format_of`; or the content does not match its format.
    """
    for step in range(format_of(content, path), FORMAT):
        content = MIGRATIONS[step](content, path)
    return content


def _with_digest(content: Content, path: Path) -> Content:
    """2 -> 3: one number of input columns for encoder and decoder; a digest is stored along with the content."""
    dims = content.get("dims")
    if "digest" in content or not isinstance(dims, dict):
        raise InputError(f"checkpoint: {path}: expected the entries of format 2, found others")
    return content | {"dims": _one_width(dims, path)}


def _one_width(dims: dict[str, Any], path: Path) -> dict[str, Any]:
    """Drop `dec_in`, which old files store next to the identical `enc_in`."""
    if dims.get("dec_in", dims.get("enc_in")) != dims.get("enc_in"):
        raise InputError(f"checkpoint: {path}: dec_in: expected enc_in={dims.get('enc_in')}, found {dims['dec_in']}")
    return {name: size for name, size in dims.items() if name != "dec_in"}


MIGRATIONS: dict[int, Callable[[Content, Path], Content]] = {2: _with_digest}
"""Functions that convert the content of a format to the next one, by format number."""
