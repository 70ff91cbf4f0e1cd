"""The only place that turns configuration into objects."""

import importlib
import inspect
from collections.abc import Mapping
from typing import Any

from omegaconf import OmegaConf

from informer.attention.base import Attention, AttentionSpec
from informer.errors import InputError, one_of
from informer.runtime import resource

ATTENTION_PACKAGE = "informer.attention."


def attention_names() -> list[str]:
    """Every name that `attn=` takes: the yaml files of `conf/attn`."""
    return sorted(path.stem for path in resource("conf/attn").glob("*.yaml"))


def attention_node(name: str) -> dict[str, Any]:
    """The parameters of `conf/attn/<name>.yaml`, `_target_` included."""
    if name not in attention_names():
        raise one_of("attention", name, attention_names())
    node = OmegaConf.to_container(OmegaConf.load(resource("conf/attn") / f"{name}.yaml"))
    assert isinstance(node, dict)
    return {str(key): value for key, value in node.items()}


def attention_class(target: str) -> type[Attention]:
    """The class that a `_target_` names; only this package's own mechanisms are taken."""
    module, _, name = str(target).rpartition(".")
    if not module.startswith(ATTENTION_PACKAGE):
        raise InputError(f"attention _target_: expected a class below {ATTENTION_PACKAGE[:-1]}, found {target!r}")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InputError(f"attention _target_: {target!r} does not exist ({error})") from error
    if not (inspect.isclass(found) and issubclass(found, Attention)):
        raise InputError(f"attention _target_: {target!r} is not an Attention")
    return found


def build_attention(attention: str | Mapping[str, Any], spec: AttentionSpec, **params: Any) -> Attention:
    """Make a mechanism.

    Args:
        attention: a name of `conf/attn`, or such a file's content (a mapping with `_target_`).
        spec: facts of the layer.
        params: hyper-parameters that replace the file's.

    Raises:
        InputError (a ValueError): unknown name or parameter, value out of range, or a spec the mechanism cannot serve.
    """
    node = attention_node(attention) if isinstance(attention, str) else dict(attention)
    cls = attention_class(node.pop("_target_", ""))
    node |= params
    accepted = [name for name in inspect.signature(cls).parameters if name != "spec"]
    for name in node:
        if name not in accepted:
            raise InputError(f"{cls.__name__} has no parameter {name!r}: expected {', '.join(accepted) or 'none'}")
    try:
        return cls(spec, **node)
    except (ValueError, TypeError) as error:
        raise InputError(f"{cls.__name__}: {error}") from error
