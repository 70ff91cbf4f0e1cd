"""Convert settings between their forms: dataclass, OmegaConf's node, plain containers, yaml.

Saved configurations may come from untrusted sources, so they are read as data only: `check_plain` refuses those that
contain references (`${...}`, see `overrides`) or name code to run.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from informer.base.errors import InputError, listed, reason_of
from informer.base.runtime import resource
from informer.config.data import without_location
from informer.config.model import ModelConfig, config_class, family_of
from informer.config.overrides import REFERENCE, TextKey, escaped, mapped
from informer.config.training import TrainConfig, check

Node = TypeVar("Node")

_hints: Callable[[Any], dict[str, Any]] = cache(get_type_hints)

# a dictionary instead of functools.cache: mypy takes dataclasses for unhashable, also their classes
_NODES: dict[tuple[type, ...], Any] = {}


def node(schema: type, *model: type) -> Any:
    """`schema` with its defaults, and with a node `model` of another class if one is given.

    Shared by all callers: to merge into a copy, never to change.
    """
    if (schema, *model) not in _NODES:
        _NODES[schema, *model] = OmegaConf.structured(schema)
        if model:
            _NODES[schema, *model].model = OmegaConf.structured(model[0])
    return _NODES[schema, *model]


def to_plain(config: TrainConfig) -> dict[str, Any]:
    """Plain containers for yaml and checkpoints; text is `escaped`, so that it contains no references."""
    named = mapped(asdict(config), lambda value: value.name if isinstance(value, Enum) else value)
    return cast(dict[str, Any], escaped(named))


SAVED = "saved configuration"
RECORDED = ("run_dir", "resume", "data_dir")
"""Keys of a saved configuration that depend on the machine and are ignored when it is read."""


def from_plain(plain: Mapping[str, Any]) -> TrainConfig:
    """The inverse of `to_plain`, checked.

    The configuration may come from an untrusted source, so none of its paths is used; `informer.data.recorded` finds
    the data.

    Raises:
        InputError: unknown keys, values out of range, references, or names of code.
    """
    check_plain(plain, SAVED)
    settings = {key: value for key, value in plain.items() if key not in RECORDED}
    if isinstance(settings.get("dataset"), Mapping):
        settings["dataset"] = without_location(settings["dataset"])
    return check(cast(TrainConfig, _merged(settings, TrainConfig, config_class(family_of(settings.get("model"))))))


def model_of(plain: Mapping[str, Any]) -> ModelConfig:
    """The node `model` of a saved configuration; its values are not checked.

    Raises:
        InputError: see `node_of`, or an unknown family.
    """
    return node_of(config_class(family_of(plain)), plain)


def node_of(schema: type[Node], plain: Mapping[str, Any]) -> Node:
    """One node of a saved configuration as the dataclass `schema`; missing keys get their defaults.

    Raises:
        InputError: an unknown key, or a value of another type.
    """
    return cast(Node, _merged(plain, schema))


def _merged(plain: Mapping[str, Any], *classes: type) -> Any:
    """A saved node, checked and `filled`."""
    try:
        check_values(plain, *classes)
        return filled(plain, *classes)
    except InputError:
        raise
    except (OmegaConfBaseException, TypeError, ValueError) as error:  # values of types that no run saves
        raise InputError(f"{SAVED}: {reason_of(error)}") from error


def filled(plain: Mapping[str, Any], *classes: type) -> Any:
    """The values merged into `node(*classes)`, as its dataclass."""
    return OmegaConf.to_object(OmegaConf.merge(node(*classes), dict(plain)))


def check_values(plain: Mapping[Any, Any], schema: Any, *model: type, prefix: str = "") -> None:
    """Checks that OmegaConf lacks: of lists within lists, and that text is text."""
    for key, hint in (_hints(schema) | dict(zip(["model"], model, strict=False))).items():
        value, place = plain.get(key), f"{prefix}{key}"
        if is_dataclass(hint) and isinstance(value, Mapping):
            check_values(value, hint, prefix=f"{place}.")
        elif is_dataclass(hint) and key in plain:
            raise InputError(f"{place}: expected {_in_words(hint)}, found {listed([str(value)])}")
        elif isinstance(value, list) and any(isinstance(element, list | dict) for element in value):
            list_hint = _list_of(hint)
            if list_hint is not None and get_origin(get_args(list_hint)[0]) is not dict:
                raise InputError(f"{place}: expected {_in_words(hint)}, found {listed([str(value)])}")
        elif _text_of(hint) is not None:
            for element in value if isinstance(value, list) else [value]:
                if isinstance(element, bool | int | float):
                    raise InputError(
                        f"{place}: expected text, found {str(element).lower()}, which may have been written "
                        "otherwise (1.10 is read as 1.1); put it in quotes"
                    )


def options_of(group: str) -> list[str]:
    """Options of a config group: the names of the yaml files in `conf/<group>`."""
    return sorted(path.stem for path in (resource("conf") / group).glob("*.yaml"))


RERUN = """\
# The same run again: python -m informer.train --config-dir=FOLDER_OF_THIS_FILE --config-name=config
defaults: [train_schema, hydra/quiet, _self_]

"""


def to_yaml(config: TrainConfig) -> str:
    """The resolved configuration as a yaml file that `informer.train` reads, without the run directory."""
    return plain_to_yaml(to_plain(config) | {"run_dir": None})


def plain_to_yaml(plain: Mapping[str, Any]) -> str:
    """A saved configuration as a yaml file."""
    return RERUN + OmegaConf.to_yaml(OmegaConf.create(dict(plain)))


def flat(nested: Any, prefix: str = "") -> dict[str, Any]:
    """{"model": {"d_model": 8}} -> {"model.d_model": 8}; empty mappings are kept."""
    values: dict[str, Any] = {}
    for key, value in nested.items():
        values |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) and value else {f"{prefix}{key}": value}
    return values


def known_keys(schema: type) -> list[str]:
    """All dotted keys of a command, without the parameters of attention mechanisms."""
    return list(flat(OmegaConf.to_container(node(schema))))


def text_keys(schema: Any, prefix: str = "") -> dict[str, TextKey]:
    """Keys of a command that take any text: names of files and columns, formats."""
    hints = _hints(schema)
    found: dict[str, TextKey] = {}
    for entry in fields(schema):
        key, hint = f"{prefix}{entry.name}", hints[entry.name]
        if is_dataclass(hint):
            found |= text_keys(hint, f"{key}.")
        elif (is_list := _text_of(hint)) is not None:
            is_name, is_path = (entry.metadata.get(what, False) for what in ("is_name", "is_path"))
            found[key] = TextKey(is_list, NoneType in get_args(hint) and not is_name, is_path)
    return found


def _text_of(hint: Any) -> bool | None:
    """Whether a type is a list of texts; None unless it is that or text, or none."""
    options = set(get_args(hint) if get_origin(hint) is UnionType else (hint,)) - {NoneType}
    return {frozenset({str}): False, frozenset({list[str]}): True}.get(frozenset(options))


def expected_value(schema: type, key: str, model: type[ModelConfig]) -> str:
    """The type of a key of a command in words; `model` is the dataclass of the node `model`."""
    hint: Any = schema
    for step in re.findall(r"[^.\[\]]+", key):
        hint = get_args(_list_of(hint))[0] if step.isdigit() else _hints(model if hint is ModelConfig else hint)[step]
    return _in_words(hint)


def _list_of(hint: Any) -> Any:
    """The list type among the options of a type such as `list[float] | None`; None without one."""
    return next((option for option in (hint, *get_args(hint)) if get_origin(option) is list), None)


def _in_words(hint: Any) -> str:
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text", NoneType: "null"}
    if hint in words:
        return words[hint]
    if get_origin(hint) is UnionType:
        return " or ".join(_in_words(option) for option in get_args(hint))
    if get_origin(hint) is list:
        return f"a list [...], each element {_in_words(get_args(hint)[0])}"
    if isinstance(hint, type) and issubclass(hint, Enum):
        return f"one of {', '.join(hint.__members__)}"
    return "nested keys (list them with --cfg job)"


MECHANISM = re.compile(r"informer\.networks\.attention\.\w+\.\w+")
"""Allowed values of a saved `_target_`."""

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
        depth = 0
        for token in yaml.scan(text, Loader=SAFE_LOADER):
            if isinstance(token, yaml.AnchorToken | yaml.AliasToken | yaml.TagToken):
                row = token.start_mark.line + 1
                raise InputError(f"{path}, row {row}: expected plain values, found an alias or a tag")
            depth += isinstance(token, OPENING) - isinstance(token, CLOSING)
            if depth > MAX_DEPTH:
                raise InputError(f"{path}: expected containers at most {MAX_DEPTH} deep, found more")
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
    return mapped(value, lambda item: None if isinstance(item, float) and not math.isfinite(item) else item)


def with_nan(value: Any) -> Any:
    """Numbers saved by `without_nan`, with NaN in place of None."""
    return mapped(value, lambda item: math.nan if item is None else item)


@contextmanager
def _refusing(path: Path, expected: str) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise InputError(f"{path}: expected {expected}, found: {reason_of(error)}") from error


def _mapping(content: Any) -> dict[str, Any]:
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise ValueError(f"no mapping of names to values, but {type(content).__name__}")
    return content
