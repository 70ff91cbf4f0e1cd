"""Hydra composes the package's own files once for each choice of groups; tests call commands a thousand times with
few choices, and reading and merging the files takes a tenth of a second. Values are set anew every time. Saved nodes,
which a run reads ten times, are merged once too."""

import copy
import pickle  # copies in a third of the time of `copy.deepcopy`
from typing import Any

from entry_points import ROOT
from hydra._internal import config_loader_impl as loading
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository
from hydra._internal.defaults_list import DefaultsList
from hydra.core.override_parser.types import Override

from informer.config import conversion

OWN = {f"file://{ROOT / 'conf'}", "pkg://hydra.conf", "structured://"}
"""Where files do not change while tests run; the user's folders may."""

_list, _compose = loading.create_defaults_list, ConfigLoaderImpl._compose_config_from_defaults_list
_lists: dict[Any, DefaultsList] = {}
_composed: dict[int, bytes] = {}
_merge, _nodes = conversion._merged, dict[Any, bytes]()


class _Repository(CachingConfigRepository):
    """Hydra's, with a shallow copy of the sources: a change replaces their list."""

    def __init__(self, delegate: Any) -> None:
        self.delegate = copy.copy(delegate)
        self.cache = {}


def _is_value(repo: Any, override: Override) -> bool:
    """As in Hydra: whether it is set after the files are merged."""
    return not override.is_sweep_override() and (
        isinstance(override.value(), dict) or not repo.group_exists(override.key_or_group)
    )


def _listed(repo: Any, config_name: Any, overrides_list: list[Override], **options: Any) -> DefaultsList:
    if not {source.full_path() for source in repo.get_sources()} <= OWN:
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


def _node(plain: Any, *classes: type) -> Any:
    key = repr(plain), classes
    if key not in _nodes:
        _nodes[key] = pickle.dumps(_merge(plain, *classes))
    return pickle.loads(_nodes[key])


def install() -> None:
    """For all compositions of this process."""
    conversion._merged = _node
    loading.create_defaults_list = _listed
    loading.CachingConfigRepository = _Repository
    ConfigLoaderImpl._compose_config_from_defaults_list = _merged
