"""A configuration in its four forms: as Hydra composes it, typed, plain containers (checkpoints), yaml to train again.

What leaves this module is checked, and no DictConfig.
"""

import re
from collections.abc import Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Any, cast, get_args, get_origin, get_type_hints

from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from informer.config import EvalConfig, ExportConfig, InspectConfig, PredictConfig, TrainConfig, check
from informer.errors import InputError

OPEN = "${auto:"
"""How values of `conf/model/auto.yaml` begin that a search chooses unless another value stands in their place."""

SCHEMAS: dict[str, type] = {
    "train": TrainConfig, "eval": EvalConfig, "predict": PredictConfig, "export": ExportConfig, "inspect": InspectConfig
}  # fmt: skip


def register() -> None:
    """Make the types known to Hydra; the files of `conf/` start from them."""
    store = ConfigStore.instance()
    for name, schema in SCHEMAS.items():
        store.store(name=f"{name}_schema", node=schema)
    OmegaConf.register_new_resolver("auto", lambda start: start, replace=True)


def to_typed(composed: Any) -> Any:
    """What Hydra composed (a DictConfig) as the dataclass it was typed by, checked; refuses keys that `+key=` added."""
    strict = OmegaConf.structured(OmegaConf.get_type(composed))
    plain = OmegaConf.create(OmegaConf.to_container(composed, resolve=True))
    written = flat(OmegaConf.to_container(composed))
    left_open = [key for key, value in written.items() if isinstance(value, str) and value.startswith(OPEN)]
    if left_open:
        plain.search = left_open
    return check(OmegaConf.to_object(OmegaConf.merge(strict, plain)))  # type: ignore[type-var]


def to_plain(config: TrainConfig) -> dict[str, Any]:
    """Plain containers, for yaml and checkpoints."""
    plain = OmegaConf.to_container(OmegaConf.structured(config), resolve=True, enum_to_str=True)
    return cast(dict[str, Any], plain)


def from_plain(plain: Mapping[str, Any]) -> TrainConfig:
    """The inverse of `to_plain`, checked; for configurations read from a checkpoint."""
    try:
        merged = OmegaConf.merge(OmegaConf.structured(TrainConfig), OmegaConf.create(dict(plain)))
        return check(cast(TrainConfig, OmegaConf.to_object(merged)))
    except OmegaConfBaseException as error:
        raise InputError(f"saved configuration: {str(error).splitlines()[0]}") from error


RERUN = """\
# The same run again: python -m informer.train --config-dir=FOLDER_OF_THIS_FILE --config-name=config
defaults: [train_schema, hydra/quiet, _self_]

"""


def to_yaml(config: TrainConfig) -> str:
    """The resolved configuration as text that `informer.train` takes; the run directory is not part of it."""
    return RERUN + OmegaConf.to_yaml(OmegaConf.create(to_plain(config) | {"run_dir": None}))


def flat(nested: Any, prefix: str = "") -> dict[str, Any]:
    """{"model": {"d_model": 8}} -> {"model.d_model": 8}; what is empty stays."""
    found: dict[str, Any] = {}
    for key, value in nested.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) and value else {f"{prefix}{key}": value}
    return found


def known_keys(name: str) -> list[str]:
    """Every key that an entry point takes, dotted, without the parameters of the attention mechanisms."""
    return list(flat(OmegaConf.to_container(OmegaConf.structured(SCHEMAS[name]))))


def expected_value(name: str, key: str) -> str:
    """What a key of an entry point takes, in words."""
    hint: Any = SCHEMAS[name]
    for part in re.findall(r"[^.\[\]]+", key):
        hint = get_args(hint)[0] if part.isdigit() else get_type_hints(hint)[part]
    return _in_words(hint)


def _in_words(hint: Any) -> str:
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text", NoneType: "null"}
    if hint in words:
        return words[hint]
    if get_origin(hint) is UnionType:
        return " or ".join(_in_words(part) for part in get_args(hint))
    if get_origin(hint) is list:
        return f"a list [...], each of them {_in_words(get_args(hint)[0])}"
    if isinstance(hint, type) and issubclass(hint, Enum):
        return f"one of {', '.join(hint.__members__)}"
    return "keys below it (all of them: --cfg job)"
