"""Read configurations from untrusted sources as data only.

OmegaConf replaces `${...}` in any text by other values, including environment variables. Literal text goes through
`escaped` before OmegaConf sees it; `check_plain` refuses saved configurations that contain such references or name code
to run.
"""

import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from informer.base.errors import InputError

MECHANISM = re.compile(r"informer\.networks\.attention\.\w+\.\w+")
"""Allowed values of a saved `_target_`."""
REFERENCE = re.compile(r"(\\*)\$\{")
"""Start of a reference; an odd number of backslashes before it makes it literal text."""

PLAIN = (str, bool, int, float, list, tuple, dict, type(None))

MAX_BYTES = 1 << 20
"""Maximum size of a saved configuration; they usually have a few thousand bytes."""
MAX_DEPTH = 20
"""Maximum nesting; a configuration has four levels."""
OPENING = (
    *(yaml.BlockMappingStartToken, yaml.BlockSequenceStartToken),
    *(yaml.FlowMappingStartToken, yaml.FlowSequenceStartToken),
)
CLOSING = (yaml.BlockEndToken, yaml.FlowMappingEndToken, yaml.FlowSequenceEndToken)


def escaped(node: Any) -> Any:
    """Plain containers with text escaped for OmegaConf: `${HOME}` becomes `\\${HOME}`."""
    if isinstance(node, str):
        return REFERENCE.sub(lambda begin: begin[1] * 2 + r"\${", node)
    if isinstance(node, dict):
        return {escaped(key): escaped(value) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return [escaped(element) for element in node]
    return node


def unescaped(text: str) -> str:
    """The inverse of `escaped` for a string."""
    return REFERENCE.sub(lambda begin: begin[1][: len(begin[1]) // 2] + "${", text)


def check_plain(node: Any, where: str) -> None:
    """Raise InputError if a saved configuration is more than data.

    Args:
        node: plain containers.
        where: where it comes from, for the message.

    Raises:
        InputError: a `_target_` outside of `informer.networks.attention`, a reference `${...}` (which could read the
            environment), or a value that is not plain.
    """
    if isinstance(node, str) and any(len(begin[1]) % 2 == 0 for begin in REFERENCE.finditer(node)):
        raise InputError(f"{where}: its configuration contains a reference: {node!r}")
    if isinstance(node, list | tuple):
        for element in node:
            check_plain(element, where)
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "_target_" and not MECHANISM.fullmatch(str(value)):
                raise InputError(
                    f"{where}: expected a _target_ below informer.networks.attention, found {value!r}; nothing was run"
                )
            check_plain(key, where)
            check_plain(value, where)
    if not isinstance(node, PLAIN):
        raise InputError(f"{where}: expected plain values in its configuration, found a {type(node).__name__}")


SAFE_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The loader in C, where PyYAML has it: seven times as fast."""


class _Loader(SAFE_LOADER):  # type: ignore[misc]  # yaml has no types
    """Dates remain text, as in OmegaConf."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_saved_yaml(path: Path) -> dict[str, Any]:
    """Read a saved configuration: one mapping of plain values.

    Raises:
        InputError: the file cannot be read, is too large or too deep, contains references, tags or aliases (which can
            expand without end), or names code.
    """
    text = read_text(path)
    with _refusing(path, "the configuration of a run"):
        _check_tokens(text, path)
        content = _mapping(yaml.load(text, Loader=_Loader))
    check_plain(content, str(path))
    return content


def read_json(path: Path) -> dict[str, Any]:
    """Read a saved JSON file: one object of plain values.

    Raises:
        InputError: the file cannot be read, or contains something else.
    """
    text = read_text(path)
    with _refusing(path, "the facts about a run"):
        return _mapping(json.loads(text))


def read_text(path: Path) -> str:
    """Read a small text file of a run directory.

    Raises:
        InputError: the file cannot be read, is too large, or is not UTF-8 text.
    """
    with _refusing(path, "a file of a run"):
        if not path.is_file():  # reading a pipe would block
            raise ValueError("no regular file")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ValueError(f"more than {MAX_BYTES >> 20} MiB")
        return content.decode()


def without_nan(value: Any) -> Any:
    """Plain containers with None instead of NaN and infinity, which JSON cannot represent."""
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def nan_if_none(value: Any) -> float:
    """A number saved by `without_nan`."""
    return math.nan if value is None else float(value)


@contextmanager
def _refusing(path: Path, expected: str) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path}: expected {expected}, found: {reason}") from error


def _mapping(content: Any) -> dict[str, Any]:
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise ValueError(f"no mapping of names to values, but {type(content).__name__}")
    return content


def _check_tokens(text: str, path: Path) -> None:
    depth = 0
    for token in yaml.scan(text, Loader=SAFE_LOADER):
        if isinstance(token, yaml.AnchorToken | yaml.AliasToken | yaml.TagToken):
            raise InputError(f"{path}, row {token.start_mark.line + 1}: expected plain values, found an alias or a tag")
        depth += isinstance(token, OPENING) - isinstance(token, CLOSING)
        if depth > MAX_DEPTH:
            raise InputError(f"{path}: expected containers at most {MAX_DEPTH} deep, found more")
