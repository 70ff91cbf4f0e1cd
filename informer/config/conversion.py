"""Convert a configuration between its forms: composed by Hydra, dataclass, plain containers, yaml.

Functions of this module return checked configurations, never a DictConfig.
"""

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from enum import Enum
from functools import cache, lru_cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from informer.base.errors import InputError, listed, reason_of
from informer.base.runtime import resource
from informer.config.commands import (
    CompareConfig,
    EvalConfig,
    ExportConfig,
    ForecastConfig,
    InspectConfig,
    PredictConfig,
    ReportConfig,
    ScoreConfig,
    ServeConfig,
    UpdateConfig,
    WatchConfig,
)
from informer.config.data import without_location
from informer.config.families import config_class, family_of
from informer.config.model import ModelConfig
from informer.config.overrides import NAME, TextKey
from informer.config.plain import check_plain, escaped
from informer.config.training import TrainConfig, check

Node = TypeVar("Node")

OPEN = "${auto:"
"""Prefix of values in `conf/model/auto.yaml` that a search chooses unless the user sets them."""

SCHEMAS: dict[str, type] = {
    "train": TrainConfig, "eval": EvalConfig, "predict": PredictConfig, "export": ExportConfig,
    "inspect": InspectConfig, "report": ReportConfig, "compare": CompareConfig, "score": ScoreConfig,
    "forecast": ForecastConfig, "serve": ServeConfig, "update": UpdateConfig, "watch": WatchConfig,
}  # fmt: skip


@cache  # once per process: it takes a third of the time of a composition
def register() -> None:
    """Register the schemas with Hydra; the files in `conf/` are based on them."""
    from hydra.core.config_store import ConfigStore  # Hydra is slow to import, and only needed here

    store = ConfigStore.instance()
    for name, schema in SCHEMAS.items():
        store.store(name=f"{name}_schema", node=_defaults(schema))
    OmegaConf.register_new_resolver("auto", lambda start: start, replace=True)
    OmegaConf.register_new_resolver("half", lambda rows: int(rows) // 2, replace=True)


def _defaults(schema: type) -> Any:
    """The defaults of a schema, without types: those of `model` depend on its family, and a typed node would take a
    number for text (the float 1.10 of a yaml file becomes 1.1) before `_check_values` sees it."""
    node = cast(dict[str, Any], OmegaConf.to_container(_node(schema)))
    if schema is TrainConfig:
        node |= {"model": {}, "label_len": "${half:${seq_len}}"}
    return OmegaConf.create(node)


def to_typed(name: str, composed: Any) -> Any:
    """A composed DictConfig as the dataclass of a command, checked; keys added with `+key=` are refused."""
    plain = cast(dict[str, Any], OmegaConf.to_container(composed, resolve=True))
    schema = SCHEMAS[name]
    classes = (schema, config_class(family_of(plain["model"]))) if schema is TrainConfig else (schema,)
    _check_values(plain, *classes)
    unresolved = flat(OmegaConf.to_container(composed))
    left_open = [key for key, value in unresolved.items() if isinstance(value, str) and value.startswith(OPEN)]
    if left_open:
        plain["search"] = left_open
    return check(cast(Any, OmegaConf.to_object(OmegaConf.merge(_node(*classes), escaped(plain)))))


# a dictionary instead of functools.cache: mypy takes dataclasses for unhashable, also their classes
_NODES: dict[tuple[type, ...], Any] = {}


def _node(schema: type, *model: type) -> Any:
    """`schema` with its defaults, and with a node `model` of another class if one is given.

    Shared by all callers: to merge into a copy, never to change.
    """
    if (schema, *model) not in _NODES:
        node = OmegaConf.structured(schema)
        if model:
            node.model = OmegaConf.structured(model[0])
        _NODES[schema, *model] = node
    return _NODES[schema, *model]


def to_plain(config: TrainConfig) -> dict[str, Any]:
    """Plain containers for yaml and checkpoints; text is `escaped`, so that it contains no references."""
    return cast(dict[str, Any], escaped(_named_enums(asdict(config))))


def _named_enums(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _named_enums(child) for key, child in node.items()}
    if isinstance(node, list):
        return [_named_enums(child) for child in node]
    return node.name if isinstance(node, Enum) else node


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
    model = config_class(family_of(settings.get("model")))
    return check(cast(TrainConfig, _merged(settings, TrainConfig, model)))


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


@dataclass(frozen=True, slots=True)
class _Saved:
    """Values of a saved node, to be merged into `_node(*classes)`.

    Two are equal if their text is: unlike ==, text distinguishes 1, 1.0 and True.
    """

    classes: tuple[type, ...]
    text: str
    values: Mapping[str, Any] = field(compare=False)


@lru_cache(maxsize=8)  # loading a checkpoint or resuming a run reads each of a few nodes several times
def _merged_once(saved: _Saved) -> Any:
    _check_values(saved.values, *saved.classes)
    return OmegaConf.to_object(OmegaConf.merge(_node(*saved.classes), dict(saved.values)))


def _merged(plain: Mapping[str, Any], *classes: type) -> Any:
    """A saved node merged into `_node(*classes)`, as its dataclass."""
    try:
        return deepcopy(_merged_once(_Saved(classes, repr(plain), plain)))
    except InputError:
        raise
    except (OmegaConfBaseException, TypeError, ValueError) as error:  # values of types that no run saves
        raise InputError(f"{SAVED}: {reason_of(error)}") from error


def _check_values(plain: Mapping[Any, Any], schema: Any, *model: type, prefix: str = "") -> None:
    """Checks that OmegaConf lacks: of lists within lists, and that text is text."""
    for key, hint in (get_type_hints(schema) | dict(zip(["model"], model, strict=False))).items():
        value, place = plain.get(key), f"{prefix}{key}"
        if is_dataclass(hint) and isinstance(value, Mapping):
            _check_values(value, hint, prefix=f"{place}.")
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


def read_yaml(path: Path) -> dict[str, Any]:
    """Read the keys of a yaml file.

    Raises:
        InputError: the file cannot be read, or is not a mapping.
    """
    try:
        content = OmegaConf.to_container(OmegaConf.load(path))
    except (OSError, UnicodeDecodeError, YAMLError, OmegaConfBaseException) as error:
        raise InputError(f"{path}: expected a yaml file, found: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected keys and values, found a list")
    return {str(key): value for key, value in content.items()}


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


def known_keys(name: str) -> list[str]:
    """All dotted keys of a command, without the parameters of attention mechanisms."""
    return list(flat(OmegaConf.to_container(OmegaConf.structured(SCHEMAS[name]))))


def text_keys(name: str) -> dict[str, TextKey]:
    """Keys of a command that take any text: names of files and columns, formats."""
    return dict(_text_keys(SCHEMAS[name]))


def _text_keys(schema: Any, prefix: str = "") -> Iterator[tuple[str, TextKey]]:
    hints = get_type_hints(schema)
    for entry in fields(schema):
        key, hint = f"{prefix}{entry.name}", hints[entry.name]
        if is_dataclass(hint):
            yield from _text_keys(hint, f"{key}.")
        elif (is_list := _text_of(hint)) is not None:
            yield key, TextKey(is_list, NoneType in get_args(hint) and not NAME.items() <= entry.metadata.items())


def _text_of(hint: Any) -> bool | None:
    """Whether a type is a list of texts; None unless it is that or text, or none."""
    options = set(get_args(hint) if get_origin(hint) is UnionType else (hint,)) - {NoneType}
    return {frozenset({str}): False, frozenset({list[str]}): True}.get(frozenset(options))


def expected_value(name: str, key: str, model: type[ModelConfig]) -> str:
    """The type of a key of a command in words; `model` is the dataclass of the node `model`."""
    hint: Any = SCHEMAS[name]
    for step in re.findall(r"[^.\[\]]+", key):
        if step.isdigit():
            hint = get_args(_list_of(hint))[0]
        else:
            hint = get_type_hints(model if hint is ModelConfig else hint)[step]
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
