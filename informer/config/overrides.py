"""Python values as overrides of Hydra, key=value."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

from informer.config.plain import escaped


def overrides_of(settings: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Overrides `key=value` for nested settings, with dotted keys."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from overrides_of(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}={to_hydra(escaped(value))}"


def to_hydra(value: Any) -> str:
    """A Python value in Hydra's grammar."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list | tuple):
        return f"[{','.join(map(to_hydra, value))}]"
    if isinstance(value, int | float):
        return repr(value)
    # a backslash escapes only before a quote or the end
    text = re.sub(r"(\\*)('|$)", lambda match: match[1] * 2 + match[2].replace("'", "\\'"), str(value))
    return f"'{text}'"


def unquoted(word: str) -> str:
    """`key='text'` as `to_hydra` quotes it for Hydra, without these quotes; other words unchanged."""
    match = re.fullmatch(r"([\w.@/+]+=)'((?:[^'\\]|\\.)*)'", word)
    if match is None:
        return word
    return match[1] + re.sub(r"(\\+)('|$)", lambda end: end[1][: len(end[1]) // 2] + end[2], match[2])


def command_line(words: Sequence[str]) -> str:
    """A command as a shell reads it. Words with apostrophes are in double quotes, where `shlex.join` writes five signs
    for each."""
    return " ".join(
        f'"{word}"' if "'" in word and not re.search(r'["$`\\!]', word) else shlex.quote(word) for word in words
    )


def to_display(value: Any) -> str:
    """A value for display, with quotes only where a list needs them."""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, list):
        return "[" + ",".join(name if _is_plain(name) else to_hydra(name) for name in value) + "]"
    if value is None or isinstance(value, bool):
        return to_hydra(value)
    return r"\t" if value == "\t" else str(value)


def changed_settings(node: str, values: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[str]:
    """`key=value`, for display, of the values in a node that differ from the defaults."""
    changed: list[str] = []
    for key, value in values.items():
        name = f"{node}.{key}" if node else key
        if isinstance(value, Mapping):
            changed += changed_settings(name, value, defaults[key])
        elif value != defaults[key]:
            changed.append(f"{name}={to_display(value)}")
    return changed


def _is_plain(name: Any) -> bool:
    words = ("null", "true", "false", "nan", "inf")
    return isinstance(name, str) and bool(re.fullmatch(r"[A-Za-z_]\w*", name)) and name.lower() not in words
