"""Hydra composes the package's own files once for each choice of groups; tests call commands a thousand times with
few choices, and reading and merging the files takes a tenth of a second. Values are set anew every time. Each file and
each word is read once, and nodes with the same values are merged once."""

import copy
import pickle  # copies in a third of the time of `copy.deepcopy`
from collections.abc import Mapping
from typing import Any

from entry_points import ROOT
from hydra._internal import config_loader_impl as loading
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository
from hydra._internal.defaults_list import DefaultsList
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import OmegaConf

from informer.config import conversion

OWN = {f"file://{ROOT / 'conf'}", "pkg://hydra.conf", "structured://"}
"""Where files do not change while tests run; the user's folders may."""

_list, _compose = loading.create_defaults_list, ConfigLoaderImpl._compose_config_from_defaults_list
_lists: dict[Any, DefaultsList] = {}
_composed: dict[int, bytes] = {}
_files: dict[str, bytes] = {}
_parse, _parsed = OverridesParser.parse_rule, dict[str, bytes]()
_fill, _nodes = conversion.filled, dict[Any, bytes]()


class _Repository(CachingConfigRepository):
    """Hydra's, with a shallow copy of the sources: a change replaces their list. A file is read once."""

    def __init__(self, delegate: Any) -> None:
        self.delegate = copy.copy(delegate)
        self.cache = {}

    def load_config(self, config_path: str) -> Any:
        if config_path not in self.cache and _only_own(self):
            if config_path not in _files:
                _files[config_path] = pickle.dumps(self.delegate.load_config(config_path))
            self.cache[config_path] = pickle.loads(_files[config_path])
        return self.cache[config_path] if config_path in self.cache else super().load_config(config_path)


def _only_own(repo: Any) -> bool:
    return {source.full_path() for source in repo.get_sources()} <= OWN


def _is_value(repo: Any, override: Override) -> bool:
    """As in Hydra: whether it is set after the files are merged."""
    return not override.is_sweep_override() and (
        isinstance(override.value(), dict) or not repo.group_exists(override.key_or_group)
    )


def _listed(repo: Any, config_name: Any, overrides_list: list[Override], **options: Any) -> DefaultsList:
    if not _only_own(repo):
        return _list(repo, config_name, overrides_list, **options)
    parts: dict[bool, list[Override]] = {True: [], False: []}
    for override in overrides_list:
        parts[_is_value(repo, override)].append(override)
    values, groups = parts[True], parts[False]
    key = config_name, tuple(override.input_line for override in groups), *options.items()
    if key not in _lists:
        _lists[key] = _list(repo, config_name, groups, **options)
    found = copy.copy(_lists[key])
    found.config_overrides = values
    return found


def _merged(self: ConfigLoaderImpl, defaults: list[Any], repo: Any) -> Any:
    if not any(defaults is known.defaults for known in _lists.values()):
        return _compose(self, defaults, repo)
    if id(defaults) not in _composed:
        _composed[id(defaults)] = pickle.dumps(_compose(self, defaults, repo))
    return pickle.loads(_composed[id(defaults)])


def _filled(plain: Mapping[str, Any], *classes: type) -> Any:
    """Nodes within others first: of many runs only values outside of them differ."""
    key = repr(plain), classes
    if key not in _nodes:
        inner = {name: value for name, value in plain.items() if isinstance(value, dict)}
        part = repr(inner), classes, "merged"
        if part not in _nodes:
            _nodes[part] = pickle.dumps(OmegaConf.merge(conversion.node(*classes), inner))
        merged = pickle.loads(_nodes[part])
        merged.merge_with({name: value for name, value in plain.items() if name not in inner})
        _nodes[key] = pickle.dumps(OmegaConf.to_object(merged))
    return pickle.loads(_nodes[key])


def _rule(self: OverridesParser, s: str, rule_name: str) -> Any:
    if rule_name != "override":
        return _parse(self, s, rule_name)
    if s not in _parsed:
        _parsed[s] = pickle.dumps(_parse(self, s, rule_name))
    return pickle.loads(_parsed[s])


def install() -> None:
    """For all compositions of this process."""
    OverridesParser.parse_rule = _rule
    conversion.filled = _filled
    loading.create_defaults_list = _listed
    loading.CachingConfigRepository = _Repository
    ConfigLoaderImpl._compose_config_from_defaults_list = _merged
