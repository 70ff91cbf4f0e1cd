"""Convert settings between their forms: classes, plain containers, yaml.

Saved configurations may come from untrusted sources, so they are read as data only: pydantic checks every value against
its declaration, and `${...}` is text.
"""

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import yaml

from informer.base.errors import FileError, InputError, reason_of
from informer.config.data import without_location
from informer.config.fields import Checked, S, adapter, check, refusing_values
from informer.config.overrides import escaped, mapped, unescaped
from informer.config.training import TrainConfig


def to_plain(settings: Checked) -> dict[str, Any]:
    """Plain containers for yaml and model files, by key."""
    plain = adapter(type(settings)).dump_python(settings, mode="json", by_alias=True, serialize_as_any=True)
    return cast(dict[str, Any], plain)


def node_of(schema: type[S], plain: Mapping[str, Any]) -> S:
    """Settings from plain containers that may come from anyone; missing keys get their defaults.

    Raises:
        InputError: an unknown key, or a value of another type or out of range.
    """
    with refusing_values(schema):
        return cast(S, adapter(schema).validate_python(dict(plain)))


RECORDED = ("run_dir", "resume", "data_dir")
"""Keys of a saved configuration that depend on the machine and are ignored when it is read."""


def from_plain(plain: Mapping[str, Any]) -> TrainConfig:
    """The inverse of `to_plain` for a training run, checked.

    The configuration may come from an untrusted source, so none of its paths is used; `informer.data.recorded` finds
    the data.

    Raises:
        InputError: unknown keys, or values out of range.
    """
    settings = {key: value for key, value in plain.items() if key not in RECORDED}
    if isinstance(settings.get("dataset"), Mapping):
        settings["dataset"] = without_location(settings["dataset"])
    return check(node_of(TrainConfig, settings))


RERUN = """\
# The same run again: informer train --config-dir=FOLDER_OF_THIS_FILE --config-name=config
defaults: [train_schema, hydra/quiet, _self_]

"""


def to_yaml(config: TrainConfig) -> str:
    """The resolved configuration as a yaml file that `informer train` reads, without the run directory."""
    return plain_to_yaml(to_plain(config) | {"run_dir": None})


def plain_to_yaml(plain: Mapping[str, Any]) -> str:
    """A saved configuration as a yaml file, in which Hydra finds no references."""
    from omegaconf import OmegaConf  # which quotes text that it would read as a number; only training writes such files

    return RERUN + OmegaConf.to_yaml(OmegaConf.create(escaped(dict(plain))))


def flat(nested: Any, prefix: str = "") -> dict[str, Any]:
    """{"model": {"d_model": 8}} -> {"model.d_model": 8}; empty mappings are kept."""
    values: dict[str, Any] = {}
    for key, value in nested.items():
        values |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) and value else {f"{prefix}{key}": value}
    return values


MAX_BYTES = 1 << 20
"""Maximum size of a saved configuration; they usually have a few thousand bytes."""
MAX_DEPTH = 20
"""Maximum nesting; a configuration has four levels."""
OPENING = (
    *(yaml.BlockMappingStartToken, yaml.BlockSequenceStartToken),
    *(yaml.FlowMappingStartToken, yaml.FlowSequenceStartToken),
)
CLOSING = (yaml.BlockEndToken, yaml.FlowMappingEndToken, yaml.FlowSequenceEndToken)


SAFE_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The loader in C, where PyYAML has it: seven times as fast."""


class _Loader(SAFE_LOADER):  # type: ignore[misc]  # yaml has no types
    """Dates remain text, as in Hydra."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_saved_yaml(path: Path) -> dict[str, Any]:
    """Read a saved configuration: one mapping of plain values.

    Raises:
        InputError: the file cannot be read, is too large or too deep, or contains tags or aliases, which can expand
            without end.
    """
    text = read_text(path)
    with _refusing(path, "the configuration of a run"):
        depth = 0
        for token in yaml.scan(text, Loader=SAFE_LOADER):
            if isinstance(token, yaml.AnchorToken | yaml.AliasToken | yaml.TagToken):
                row = token.start_mark.line + 1
                raise FileError(f"{path}, row {row}: expected plain values, found an alias or a tag")
            depth += isinstance(token, OPENING) - isinstance(token, CLOSING)
            if depth > MAX_DEPTH:
                raise FileError(f"{path}: expected containers at most {MAX_DEPTH} deep, found more")
        return cast(dict[str, Any], mapped(_mapping(yaml.load(text, Loader=_Loader)), _as_text))


def _as_text(value: Any) -> Any:
    return unescaped(value) if isinstance(value, str) else value


def read_json(path: Path, most: int = MAX_BYTES) -> dict[str, Any]:
    """Read a saved JSON file of at most so many bytes: one object of plain values.

    Raises:
        InputError: the file cannot be read, or contains something else.
    """
    text = read_text(path, most)
    with _refusing(path, "the facts about a run"):
        return _mapping(json.loads(text))


def read_text(path: Path, most: int = MAX_BYTES) -> str:
    """Read a text file of a run directory, of at most so many bytes.

    Raises:
        InputError: the file cannot be read, is too large, or is not UTF-8 text.
    """
    with _refusing(path, "a file of a run"):
        if not path.is_file():  # reading a pipe would block
            raise ValueError("no regular file")
        with path.open("rb") as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise ValueError(f"more than {most >> 20} MiB")
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
        raise FileError(f"{path}: expected {expected}, found: {reason_of(error)}") from error


def _mapping(content: Any) -> dict[str, Any]:
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise ValueError(f"no mapping of names to values, but {type(content).__name__}")
    return content
