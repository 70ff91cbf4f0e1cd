"""Remote files (`s3://`, `gs://`, `https://`, ...), which are copied to a temporary folder first.

Only addresses that the user passes to a command are read, not those in checkpoints or saved configurations: see
`data.recorded`.
"""

import atexit
import posixpath
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatch
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from informer.config.addresses import SCHEMES
from informer.config.dataset import DatasetConfig
from informer.config.repairs import Limits
from informer.data.read.limits import LIMITS, check_size
from informer.data.read.partitions import SUFFIX, is_key
from informer.errors import SHOWN_AS, InputError
from informer.files import make_folder

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Settings = TypeVar("Settings", bound="DataclassInstance")

WEB = ("https", "http")
PIECE = 1 << 20

_ADDRESS = re.compile(rf"({'|'.join(SCHEMES)})://(.*)", re.DOTALL)
_full: dict[str, str] = {}
"""Full addresses by address without query, since the query may be a signature."""
_copies: dict[tuple[str, float | None], str] = {}
"""Local paths of copies by address and size limit."""


def is_remote(location: str) -> bool:
    """Whether it is a remote address."""
    return _ADDRESS.fullmatch(location) is not None


def without_query(location: str) -> str:
    """An address without its query, which may be a signature, for saving and messages; other text is unchanged.

    Raises:
        InputError: it contains a user name or a password.
    """
    match = _ADDRESS.fullmatch(location)
    if match is None:
        return location
    host, _, path = match[2].partition("/")
    if "@" in host:
        raise InputError(
            f"{match[1]}://...@{host.rpartition('@')[2]}/{path.partition('?')[0]}: expected an address without user "
            "name and password; set them in the store's own environment variables or files"
        )
    if match[1] not in WEB or "?" not in location:
        return location
    address = location.partition("?")[0]
    _full[address] = location
    return address


def without_signature(dataset: DatasetConfig) -> DatasetConfig:
    """The configuration without the queries of its addresses, for saving: see `without_query`."""
    locations = dataset.path, dataset.attributes
    path, attributes = (None if location is None else without_query(location) for location in locations)
    return replace(dataset, path=path, attributes=attributes)


def local_path(setting: str, location: str, limits: Limits) -> str:
    """Copy the file, the tables of a folder, or the files of a pattern at an address; returns the local path.

    Other paths are returned unchanged. An address is copied once per process.

    Args:
        setting: the key, for errors.
        location: its value.
        limits: `file_mb` limits each file.

    Raises:
        InputError: the address cannot be reached, has no files, or a file is too large.
    """
    if not is_remote(location):
        return location
    address = without_query(location)
    key = address, limits.file_mb
    if key not in _copies:
        _copies[key] = _copied(setting, address, limits)
    return _copies[key]


def copied_here(settings: Settings, keys: Sequence[str], limits: Limits = LIMITS) -> Settings:
    """A configuration with local paths, see `local_path`, instead of the addresses under these keys, such as
    `dataset.attributes`."""
    for key in keys:
        node_name, _, name = key.rpartition(".")
        node: Any = getattr(settings, node_name) if node_name else settings
        if (value := getattr(node, name)) is not None:
            node = replace(node, **{name: local_path(key, value, limits)})
            settings = replace(settings, **{node_name: node}) if node_name else node
    return settings


def new_folder(address: str) -> Path:
    """A temporary folder, which messages show as `address`; removed when the process ends."""
    folder = tempfile.mkdtemp(prefix="informer-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    SHOWN_AS[folder] = address.rstrip("/")
    return Path(folder)


def _copied(setting: str, address: str, limits: Limits) -> str:
    store, path = store_of(address)
    with reaching(address):
        if _ADDRESS.fullmatch(address)[1] not in WEB:  # type: ignore[index]
            if has_magic(address):
                names = [name for name in store.glob(path) if not store.isdir(name)]
                fixed = re.split(r"[*?\[]", address)[0].rpartition("/")[0]
                return str(_copy_all(setting, store, address, names, fixed, limits) / address[len(fixed) + 1 :])
            if store.isdir(path):
                return str(_copy_all(setting, store, address, _tables(store, path), address, limits))
        folder, _, name = address.rpartition("/")
        target = new_folder(folder) / (name or "index")
        _copy(store, path, target, address, limits)
        return str(target)


def _tables(store: Any, folder: str) -> list[str]:
    """The files of a folder, or of the partitions of a partitioned folder."""
    inside = {name: name.rstrip("/").rpartition("/")[2] for name in store.ls(folder, detail=False)}
    if any(is_key(name) and store.isdir(path) for path, name in inside.items()):
        return [path for path in store.find(folder) if path.endswith(SUFFIX)]
    return [path for path, name in inside.items() if not name.startswith(".")]


def _copy_all(setting: str, store: Any, source: str, names: Sequence[str], top: str, limits: Limits) -> Path:
    if not names:
        raise InputError(f"{setting}={source}: expected files there, found none")
    folder, (_, path) = new_folder(top), store_of(top)
    for name in sorted(names):
        if not store.isdir(name):
            inside = name.strip("/").removeprefix(path.strip("/")).strip("/")
            address = f"{top.rstrip('/')}/{inside}"
            _copy(store, name, folder / inside, address, limits)
            _copies[address, limits.file_mb] = str(folder / inside)
    return folder


def _copy(store: Any, path: str, target: Path, address: str, limits: Limits) -> None:
    """Copy a file in pieces, so that a file above the limit is not downloaded completely."""
    if target.name in ("", ".", "..") or ".." in target.parts:
        raise InputError(f"{address}: expected the name of a file at the end of the address")
    make_folder(target.parent)
    # as a single response, since a server may not support range requests
    options = {"block_size": 0} if address.startswith(WEB) else {}
    n_bytes = 0
    with store.open(path, "rb", **options) as source, target.open("wb") as file:
        while piece := source.read(PIECE):
            n_bytes += len(piece)
            check_size(target, n_bytes, limits)
            file.write(piece)


def store_of(address: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it.

    Raises:
        InputError: a package is missing, or the address is invalid.
    """
    with reaching(address):
        import fsspec

        store, path = fsspec.core.url_to_fs(_full.get(address, address))
        return store, path


@contextmanager
def reaching(address: str) -> Iterator[None]:
    """Turn errors of a store into an InputError, without the store's message, which may contain credentials."""
    try:
        yield
    except InputError:
        raise
    except ImportError:
        raise InputError(
            f"{address}: remote files need packages: pip install fsspec, and s3fs (s3://), gcsfs (gs://) or aiohttp "
            "(https://)"
        ) from None
    except Exception as error:  # each store raises its own types
        cause = error.__cause__ if address.startswith(WEB) else None  # fsspec reports all errors as missing files there
        status = getattr(error, "status", getattr(cause, "status", None))  # HTTP status
        if isinstance(error, FileNotFoundError) and (status == 404 or cause is None):
            raise InputError(f"{address}: no such file, check the address") from None
        reason = type(cause or error).__name__ if status is None else f"answer {status}"
        raise InputError(
            f"{address}: cannot be reached ({reason}); check the address, the network and the store's credentials"
        ) from None


def matches(address: str, location: str) -> bool:
    """Whether the file at `address` would be read for `location`: as the file, in the folder, or by the pattern."""
    (store, path), (other, pattern) = _location(address), _location(location)
    return store is other and (path == pattern or fnmatch(path, pattern) or posixpath.dirname(path) == pattern)


def _location(address: str) -> tuple[type, str]:
    """Type of the store, and normalized path in it: equal for all spellings of an address (gs, gcs, `//`, `..`)."""
    store, path = store_of(address)
    return type(store), posixpath.normpath(f"/{path.lstrip('/')}")
