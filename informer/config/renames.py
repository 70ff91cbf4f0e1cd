"""Renamed keys and modules: old names still work in commands, configurations and checkpoints."""

import re
from collections.abc import Container, Mapping, Sequence
from typing import Any, TypeVar

from informer.errors import InputError

Value = TypeVar("Value")

RENAMED = {"model.highway": "model.skip"}
"""Old key -> new key; both are dotted and in the same node."""
RENAMED_MODULES = {"highway": "skip"}
"""Old name -> new name of a top-level module of the network, in `trainer.freeze` and in names of weights."""


def renamed_overrides(overrides: Sequence[str]) -> tuple[list[str], list[str]]:
    """Overrides with new keys, and a notice for each old key."""
    renamed, notices = [], []
    for override in overrides:
        key = re.match(r"[+~]*([\w.]+)", override)
        new = RENAMED.get(key[1]) if key else None
        if key is None or new is None:
            renamed.append(override)
            continue
        renamed.append(override[: key.start(1)] + new + override[key.end(1) :])
        notices.append(_notice(key[1]))
    return renamed, notices


def rename_composed(config: dict[str, Any], set_keys: Container[str]) -> tuple[dict[str, Any], list[str]]:
    """A composed configuration with new keys, and a notice for each old key in it, which comes from the user's files.

    Args:
        config: composed configuration.
        set_keys: keys set on the command line. Other values of new keys are defaults and are replaced by the old key's.

    Raises:
        InputError: an old key and its new name have different values.
    """
    notices = []
    for old, new in RENAMED.items():
        (*parents, name), key = old.split("."), new.rpartition(".")[2]
        renamed = dict(config)
        node = _copied_node(renamed, parents)
        if node is None or name not in node:
            continue
        value = node.pop(name)
        if new in set_keys and node[key] != value:
            raise InputError(f"{new}={node[key]}: a configuration file has {old}={value}, its old name; remove one")
        node[key] = value
        config = renamed
        notices.append(_notice(old))
    return config, notices


def renamed_keys(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration with new names of keys and modules; if both names are present, the new one is used."""
    renamed = dict(config)
    for old, new in RENAMED.items():
        (*parents, name), key = old.split("."), new.rpartition(".")[2]
        node = _copied_node(renamed, parents)
        if node is not None and name in node:
            value = node.pop(name)
            node.setdefault(key, value)
    trainer = _copied_node(renamed, ["trainer"])
    if trainer is not None and isinstance(trainer.get("freeze"), list):
        trainer["freeze"] = [RENAMED_MODULES.get(str(name), name) for name in trainer["freeze"]]
    return renamed


def renamed_weights(weights: Mapping[str, Value]) -> dict[str, Value]:
    """A state dict with new names of modules."""
    split_names = {name: name.partition(".") for name in weights}
    return {
        f"{RENAMED_MODULES.get(module, module)}{dot}{suffix}": weights[name]
        for name, (module, dot, suffix) in split_names.items()
    }


def _notice(old: str) -> str:
    return f"{old} is now called {RENAMED[old]}; the old name still works"


def _copied_node(config: dict[str, Any], path: Sequence[str]) -> dict[str, Any] | None:
    """The node at `path`, copied together with its parents so that it may be changed; None if it does not exist."""
    node = config
    for name in path:
        if not isinstance(node.get(name), Mapping):
            return None
        node[name] = dict(node[name])
        node = node[name]
    return node
