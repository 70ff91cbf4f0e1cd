"""Model families by name and their configuration dataclasses; a family is imported only when it is chosen.

A family is a module of `informer.networks.models`, or is defined by a module that the user has imported or named in
INFORMER_MODELS. A configuration may come from an untrusted checkpoint, so it names a family and never a module.
"""

import importlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from informer.base.errors import InputError, one_of
from informer.config.model import InformerConfig, ModelConfig

VARIABLE = "INFORMER_MODELS"
"""Environment variable with comma-separated modules that define further families."""

FOLDER = Path(__file__).parents[1] / "networks" / "models"

_configs: dict[str, type[ModelConfig]] = {"informer": InformerConfig}


def register(config: type[ModelConfig]) -> None:
    """Register a family by its configuration dataclass; the name is the default of its field `family`.

    Raises:
        ValueError: another family has the name.
    """
    name = config.__dataclass_fields__["family"].default
    if not isinstance(name, str) or _configs.setdefault(name, config) is not config:
        raise ValueError(f"{config.__name__}.family: another family is called {name!r}")


def config_class(family: Any) -> type[ModelConfig]:
    """The configuration dataclass of a family.

    Raises:
        InputError: unknown family, or a module of INFORMER_MODELS cannot be imported.
    """
    if not isinstance(family, str) or family not in _configs:
        load(family)
    return _configs[family]


def load(family: Any) -> None:
    """Import the module of a family. Errors as in `config_class`."""
    if family in package_families():
        importlib.import_module(f"informer.networks.models.{family}")
        return
    for module in filter(None, re.split(r"[\s,]+", os.environ.get(VARIABLE, ""))):
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise InputError(f"{VARIABLE}: expected modules that can be imported, found {module} ({error})") from error
    if not isinstance(family, str) or family not in _configs:
        setting = f"model.family (for one outside the package, name its module in {VARIABLE})"
        raise one_of(setting, family, sorted({*package_families(), *_configs}))


def family_of(node: Any) -> Any:
    """The family of a `model` node; configurations of the first versions name none and are for the Informer."""
    return node.get("family", "informer") if isinstance(node, Mapping | DictConfig) else "informer"


def package_families() -> list[str]:
    """Names of the families in this package."""
    return sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in ("__init__", "base"))
