"""Settings as words: `key=value` as typed by a user, its value, as Hydra reads it, and as it is printed.

A text setting gets the text as typed: 1.10, true, a comma, brackets or a blank mean themselves. Only these are read as
something else:

- Quotes around the whole text, or around an element of a list, are left out. A name that is itself in quotes needs
  another pair around it.
- `null` is none for a setting that may be none. In a list, and where a column or sheet is named (`is_name`), it is
  text.
- A setting that is a list is written in brackets, [a,b]. It is split at commas that are neither in quotes nor in inner
  brackets: [Last [kW],'b, c'] has two elements.
- The path of a file or folder that exists is literal even in quotes.
- With `--multirun` the value is split first, likewise, and each part is then read as if it stood alone.

OmegaConf, with which Hydra composes, replaces `${...}` in any text by other values, including environment variables,
so literal text goes through `escaped` before Hydra sees it.
"""

import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import NoneType
from typing import Any, get_args

from pydantic.fields import FieldInfo

from informer.config.fields import TO_LIST, facts_of, text_kind

_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_WORDS = ("null", "true", "false", "nan", "inf")
"""Words that Hydra's grammar does not read literally."""
_WORD = re.compile(r"[A-Za-z_]\w*|-?\d+(\.\d+)?")
"""Elements of a list that are displayed without quotes."""
_PART = re.compile(
    rf"\s*((?:{_QUOTED.pattern})(?=\s*(?:,|$))|(?:\[(?:[^\[\]]|\[[^\[\]]*\])*\]|[^,])*?)\s*(,|\Z)", re.DOTALL
)
"""A part of a list, in quotes or with commas only in brackets, which may have others inside; and the comma after it."""
_FUNCTION = re.compile(r"(choice|range|interval|glob|sort|shuffle|tag|str)\(.*\)", re.DOTALL)
"""A sweep that Hydra works out."""
_CONSTANTS = {"null": None, "true": True, "false": False}


REFERENCE = re.compile(r"(\\*)\$\{")
"""Start of a reference; an odd number of backslashes before it makes it literal text."""


def escaped(node: Any) -> Any:
    """Plain containers with text escaped for OmegaConf: `${HOME}` becomes `\\${HOME}`."""

    def literally(value: Any) -> Any:
        return REFERENCE.sub(lambda begin: begin[1] * 2 + r"\${", value) if isinstance(value, str) else value

    return mapped(node, literally)


def mapped(node: Any, change: Callable[[Any], Any]) -> Any:
    """Plain containers with every value in them changed."""
    if isinstance(node, dict):
        return {key: mapped(value, change) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return [mapped(element, change) for element in node]
    return change(node)


def unescaped(text: str) -> str:
    """The inverse of `escaped` for a string."""
    return REFERENCE.sub(lambda begin: begin[1][: len(begin[1]) // 2] + "${", text)


def literal(typed: str) -> Any:
    """The value of a setting that is no text: null, true, false, a number, a list of these, or else the word."""
    word = typed.strip()
    if word[:1] == "[" and word[-1:] == "]" and len(word) > 1:
        return [literal(element) for element in _split(word[1:-1])] if word[1:-1].strip() else []
    if word.lower() in _CONSTANTS:
        return _CONSTANTS[word.lower()]
    for number in (int, float):
        with suppress(ValueError):
            return number(word)
    return _without_quotes(word)


def value_of(typed: str, field: FieldInfo) -> Any:
    """The value of a setting, from what stands behind `key=`."""
    kind, facts = text_kind(field), facts_of(field)
    if _is_existing(typed, field):
        return typed
    if kind is None:
        return literal(typed)
    if typed == "null" and NoneType in get_args(field.annotation) and not facts.get("is_name"):
        return None
    elements = elements_of(typed) if kind is list else None
    return _without_quotes(typed) if elements is None else elements


def _is_existing(typed: str, field: FieldInfo) -> bool:
    is_path = facts_of(field).get("is_path", False)
    return is_path and bool(typed) and os.path.lexists(os.path.expanduser(typed))


def elements_of(typed: str) -> list[str] | None:
    """The elements of `[a,b]`; None of another text."""
    if len(typed) < 2 or typed[0] != "[" or typed[-1] != "]":
        return None
    return [_without_quotes(element) for element in _split(typed[1:-1])] if typed[1:-1].strip() else []


def for_hydra(word: str, keys: Mapping[str, FieldInfo], *, is_sweep: bool) -> str:
    """A word of the command in Hydra's grammar: a text setting in quotes, any other word as it is.

    Args:
        keys: the settings.
        is_sweep: whether commas separate the values of several jobs.
    """
    key, sign, typed = word.partition("=")
    field = keys.get(key.lstrip("+~"))
    if not sign or field is None or text_kind(field) is None or (is_sweep and _FUNCTION.fullmatch(typed)):
        return word
    parts = _split(typed) if is_sweep and not _is_existing(typed, field) else [typed]
    return f"{key}={','.join(to_hydra(escaped(value_of(part, field))) for part in parts)}"


def _split(text: str) -> list[str]:
    """Parts between commas, without blanks around them; commas in quotes or in pairs of brackets do not count."""
    parts, position, sign = list[str](), 0, ","
    while sign:
        match = _PART.match(text, position)
        assert match is not None, "the end of the text ends a part"
        parts.append(match[1])
        position, sign = match.end(), match[2]
    return parts


def _without_quotes(text: str) -> str:
    if not _QUOTED.fullmatch(text):
        return text
    return re.sub(rf"(\\+)({text[0]}|$)", lambda found: found[1][: len(found[1]) // 2] + found[2], text[1:-1])


def overrides_of(settings: Mapping[str, Any], keys: Mapping[str, FieldInfo], prefix: str = "") -> Iterator[str]:
    """Overrides `key=value` for nested settings from Python, with dotted keys.

    Args:
        settings: values by key.
        keys: the settings; numbers for one that is text are names of columns, which are text too.
    """
    for key, value in settings.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from overrides_of(value, keys, f"{name}.")
            continue
        kind = text_kind(keys[name]) if name in keys else None
        if kind is not None and value is not None:
            is_several = isinstance(value, Iterable) and not isinstance(value, str)
            value = [str(element) for element in value] if is_several else str(value)
            value = to_display(value) if is_several and kind is str else value  # [store,item]
        yield f"{name}={to_hydra(escaped(value))}"


def to_hydra(value: Any) -> str:
    """A Python value in Hydra's grammar."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list | tuple):
        return f"[{','.join(map(to_hydra, value))}]"
    if isinstance(value, int | float):
        return str(value)
    # a backslash escapes only before a quote or the end
    text = re.sub(r"(\\*)('|$)", lambda match: match[1] * 2 + match[2].replace("'", "\\'"), str(value))
    return f"'{text}'"


def unquoted(word: str) -> str:
    """`key=value` in Hydra's grammar as a user types it."""
    key, _, value = word.partition("=")
    if not re.fullmatch(r"[\w.@/+]+", key):
        return word
    if _QUOTED.fullmatch(value):
        return f"{key}={to_display(unescaped(_without_quotes(value)))}"
    return f"{key}={unescaped(value)}" if value[:1] == "[" else word


_NOT_UTF_8 = re.compile("[\udc80-\udcff]")
"""Bytes of the name of a file, as Python reads them."""


def command_line(words: Sequence[str]) -> str:
    """A command as a shell reads it. Words with apostrophes are in double quotes, where `shlex.join` writes five signs
    for each; names of files that are not UTF-8 are bytes in `$'...'`, which bash and zsh read."""

    def quoted(word: str) -> str:
        if _NOT_UTF_8.search(word):
            signs = re.sub(rb"[^ -&(-\[\]-~]", lambda sign: rb"\x%02x" % sign[0][0], os.fsencode(word))
            return f"$'{signs.decode()}'"
        return f'"{word}"' if "'" in word and not re.search(r'["$`\\!]', word) else shlex.quote(word)

    return " ".join(map(quoted, words))


Word = str | tuple[str, Any]
"""A word of a command, or a setting, key and value."""


def shell_command(name: str, *words: Word) -> str:
    """`informer NAME ...` as a shell reads it."""
    settings = (word if isinstance(word, str) else f"{word[0]}={to_display(word[1])}" for word in words)
    return command_line(["informer", name, *settings])


def to_display(value: Any) -> str:
    """A value as a user types it, before quotes of the shell."""
    if isinstance(value, list | tuple):
        is_word = [isinstance(x, str) and _WORD.fullmatch(x) and x.lower() not in _WORDS for x in value]
        return f"[{','.join(x if plain else to_hydra(x) for x, plain in zip(value, is_word, strict=True))}]"
    if value is None or isinstance(value, bool):
        return to_hydra(value)
    if isinstance(value, str) and (value == "null" or _QUOTED.fullmatch(value)):
        return to_hydra(value)
    return r"\t" if value == "\t" else str(value)


_KEY = r"(?:\w+\.)*\w+"
_VALUE = r"""\[[^\[\]]*\]|'[^']*'|"[^"]*"|[^\s,;()]*[^\s,;():.]"""
_TYPED = re.compile(
    rf"""^({_KEY})=(.*?)(?=: )|(?<![\w."'/{{=])({_KEY}(?==)|(?:\w+\.)+\w+)(?:=({_VALUE}))?""", re.MULTILINE
)
"""A setting in a line, with its value if it is there; that of a whole line may have blanks."""
_COMMAND = re.compile(r"\binformer [a-z]+ [^;()\n]*$")
"""A command in a line, up to one of its settings."""


def in_python(line: str, keys: Mapping[str, FieldInfo]) -> str:
    """A line with its settings as arguments of Python: `dataset={"fill": "linear"}` for `dataset.fill=linear`.

    Args:
        keys: the settings; other words are left as they are, and so are commands.
    """

    def argument(found: re.Match[str]) -> str:
        key, typed = found[1] or found[3], found[2] or found[4]
        if key not in keys or _COMMAND.search(line[: found.start()]):
            return found[0]
        value, (name, *nodes) = "...", key.split(".")
        if typed is not None:
            value = _in_python(value_of(typed, keys[key]))
            value = f"[{value}]" if text_kind(keys[key]) is list and value[0] == '"' else value
        for node in reversed(nodes):
            value = f'{{"{node}": {value}}}'
        return f"{name}={value}"

    text, n = _TYPED.sub(argument, line), 1
    while n:  # several of one group, one after the other
        text, n = re.subn(r"(\b\w+=)\{([^{}]*)\} \1\{", r"\1{\2, ", text)
    return text.replace(TO_LIST, "")


def _in_python(value: Any) -> str:
    """A value as Python code."""
    if isinstance(value, list):
        return f"[{', '.join(map(_in_python, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


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
