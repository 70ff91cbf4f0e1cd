"""Locate the files of a dataset; a missing file is downloaded if the dataset has an address.

A file is downloaded to a temporary folder, checked, then moved into place: a failure leaves no partial file.

Partitioned folders, as Hive, Spark and pyarrow write them: `store=1/part-0.parquet` is one table with a column
`store`.

The files are read in the natural order of their paths: part-2 before part-10.

Remote files (`s3://`, `gs://`, `https://`, ...), which are copied to a temporary folder first.

Only addresses that the user passes to a command are read, not those in checkpoints or saved configurations: see
`data.recorded`.
"""

import atexit
import hashlib
import logging
import posixpath
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatch
from glob import glob, has_magic
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from informer.base.errors import SHOWN_AS, InputError, listed, reason_of
from informer.base.files import expanded, make_folder, missing_file, reading, write_atomic
from informer.base.runtime import resource
from informer.config.data import DatasetConfig, is_plain_name
from informer.config.fields import SCHEMES
from informer.read.limits import CELL, LIMITS, check_ratio, check_size, check_table, open_regular

if TYPE_CHECKING:
    import pandas as pd
    from _typeshed import DataclassInstance

log = logging.getLogger(__name__)


SUFFIX = ".parquet"

_KEY = re.compile(r"([^=]+)=[^=]*")


def is_key(name: str) -> bool:
    """Whether a folder of this name is a partition: `store=1`."""
    return _KEY.fullmatch(name) is not None and name[0] not in "._"


def is_partitioned(folder: Path) -> bool:
    """Whether a path is a partitioned table: a folder that contains only partitions, except hidden files."""
    if not folder.is_dir():
        return False
    inside = [path for path in folder.iterdir() if path.name[0] not in "._"]
    return bool(inside) and all(path.is_dir() and is_key(path.name) for path in inside)


def files_of(path: Path) -> list[Path]:
    """The files of a partitioned folder in reading order; for other paths, the path itself."""
    return partition_files(path) if is_partitioned(path) else [path]


def partition_files(folder: Path) -> list[Path]:
    """The parquet files of a partitioned folder, in reading order."""
    found = {path: path.relative_to(folder).parts for path in folder.rglob(f"*{SUFFIX}")}
    files = [path for path, names in found.items() if not any(name[0] in "._" for name in names)]
    return sorted(files, key=lambda path: [_place(name) for name in found[path]])


def _place(name: str) -> list[tuple[bool, int, str]]:
    """Sort key for the natural order of names."""
    words = re.split(r"([0-9]+)", name)
    return [(word.isdigit(), int(word) if word.isdigit() else 0, word) for word in words]


def partitioned_frame(folder: Path, limits: DatasetConfig) -> "pd.DataFrame":
    """The rows of all files, with the partition keys as text columns, spelled as in the folder names.

    Raises:
        InputError: no files, files that are not regular, more than `limits`, or different keys or columns.
    """
    import pyarrow
    import pyarrow.parquet
    from pyarrow import dataset

    from informer.read.cells import check_lengths  # imports pandas, which finding files does not need

    files = partition_files(folder)
    if not files:
        raise InputError(f"{folder}: expected files ending in {SUFFIX} in its partitions, found none")
    for path in files:
        with open_regular(path):  # raises an error for pipes and devices
            pass
    paths = {tuple(name.partition("=")[0] for name in path.relative_to(folder).parts[:-1]): path for path in files}
    keys, *others = paths
    if others:
        raise InputError(
            f"{folder}: expected the same keys in all partitions, found {listed(keys)} in {paths[keys].parent}, "
            f"{listed(others[0])} in {paths[others[0]].parent}"
        )
    names = dataset.partitioning(pyarrow.schema([(key, pyarrow.string()) for key in keys]), flavor="hive")
    try:
        metadata = [pyarrow.parquet.read_metadata(path) for path in files]
        inside = pyarrow.unify_schemas(
            [file.schema.to_arrow_schema() for file in metadata], promote_options="permissive"
        )
        if repeated := [key for key in keys if key in inside.names]:
            raise InputError(
                f"{folder}: {listed(repeated)}: a column of its files and a key of its partitions; rename one"
            )
        n_rows, n_columns = sum(file.num_rows for file in metadata), len(inside) + len(keys)
        check_table(folder, n_rows, n_columns, limits)
        check_ratio(folder, n_rows * n_columns * CELL, sum(path.stat().st_size for path in files), limits)
        partitioned = dataset.dataset(
            [str(path) for path in files],
            schema=pyarrow.unify_schemas([inside, names.schema]),
            format="parquet",
            partitioning=names,
            partition_base_dir=str(folder),
        )
        frame: pd.DataFrame = partitioned.to_table().to_pandas()
        check_lengths(folder, frame, limits)
    except pyarrow.ArrowException as error:
        raise InputError(f"{folder}: cannot be read as one partitioned table ({reason_of(error)})") from error
    return frame


Settings = TypeVar("Settings", bound="DataclassInstance")

WEB = ("https", "http")
PIECE = 1 << 20

_ADDRESS = re.compile(rf"({'|'.join(SCHEMES)})://(.*)", re.DOTALL)
_full: dict[str, str] = {}
"""Full addresses by address without query, since the query may be a signature."""
_copies: dict[tuple[str, float], str] = {}
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
    return replace(dataset, path=None if dataset.path is None else without_query(dataset.path))


def local_path(setting: str, location: str, limits: DatasetConfig) -> str:
    """Copy the file, the tables of a folder, or the files of a pattern at an address; returns the local path.

    Other paths are returned unchanged. An address is copied once per process.

    Args:
        setting: the key, for errors.
        location: its value.
        limits: its `max_file_mb` limits each file.

    Raises:
        InputError: the address cannot be reached, has no files, or a file is too large.
    """
    if not is_remote(location):
        return location
    address = without_query(location)
    key = address, limits.max_file_mb
    if key not in _copies:
        _copies[key] = _copied(setting, address, limits)
    return _copies[key]


def copied_here(settings: Settings, keys: Sequence[str], limits: DatasetConfig = LIMITS) -> Settings:
    """A configuration with local paths, see `local_path`, instead of the addresses under these keys, such as
    `dataset.path`."""
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


def _copied(setting: str, address: str, limits: DatasetConfig) -> str:
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


def _copy_all(setting: str, store: Any, source: str, names: Sequence[str], top: str, limits: DatasetConfig) -> Path:
    if not names:
        raise InputError(f"{setting}={source}: expected files there, found none")
    folder, (_, path) = new_folder(top), store_of(top)
    for name in sorted(names):
        if not store.isdir(name):
            inside = name.strip("/").removeprefix(path.strip("/")).strip("/")
            address = f"{top.rstrip('/')}/{inside}"
            _copy(store, name, folder / inside, address, limits)
            _copies[address, limits.max_file_mb] = str(folder / inside)
    return folder


def _copy(store: Any, path: str, target: Path, address: str, limits: DatasetConfig) -> None:
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


SUFFIXES = (".csv", ".csv.gz", ".tsv", ".parquet", ".xlsx")
"""File name endings that are searched for in a folder."""


def find_files(config: DatasetConfig, data_dir: Path) -> list[Path]:
    """The dataset's files: the one of `find_file`, or those of the folder or pattern `path`, in alphabetical order.

    Raises:
        InputError: there is none.
    """
    if config.path is None:
        return [find_file(config, data_dir)]
    path = dataset_path(config)
    many = list_files("dataset.path", path, config.exclude_files)
    return [expanded(path)] if many is None else many


def dataset_path(config: DatasetConfig) -> str:
    """Local path of `dataset.path`; remote files are copied first. Errors as in `local_path`."""
    return local_path("dataset.path", str(config.path), config)


def list_files(setting: str, location: str, excluded: Sequence[str] = ()) -> list[Path] | None:
    """The sorted tables of a folder, or files of a pattern such as in/**/*.csv; None for a single file or a folder that
    is one partitioned table.

    Args:
        setting: the key, for errors.
        location: its value.
        excluded: names of files to leave out.

    Raises:
        InputError: there are none, or an address.
    """
    if is_remote(location):
        raise InputError(
            f"{setting}={without_query(location)}: expected a local path; train, eval and report read "
            "addresses as dataset.path, other commands as input"
        )
    path = expanded(location)
    if is_partitioned(path):
        return None
    if path.is_dir():
        files = [file for file in path.iterdir() if file.name.lower().endswith(SUFFIXES) and file.name[0] != "."]
        expected = f"files ending in {', '.join(SUFFIXES)}"
    elif has_magic(str(path)) and not path.exists():
        names = set(glob(str(path), recursive=True))  # **/** finds a file more than once
        files = [Path(name) for name in names if not Path(name).is_dir()]  # reading reports other non-files
        expected = "files that match the pattern"
    else:
        return None
    files = [file for file in files if file.name not in excluded]
    if not files:
        raise InputError(f"{setting}={path}: expected {expected}, found none")
    return sorted(files)


def check_input(location: str) -> None:
    """Check that `input=` exists, before heavy imports.

    Raises:
        InputError: neither a file nor a folder or pattern of files.
    """
    if list_files("input", location) is None:
        check_file(expanded(location))


def check_dataset(config: DatasetConfig, data_dir: Path) -> None:
    """Check that a dataset exists or can be downloaded, before heavy imports; downloads nothing.

    Raises:
        InputError: see `find_files`.
    """
    can_fetch = config.path is None and config.file is not None and config.url is not None
    if not can_fetch:
        for path in find_files(config, data_dir):
            check_file(path)


def check_file(path: Path) -> None:
    """Raise an InputError if the file does not exist."""
    if not path.exists():
        raise missing_file(path)


def find_file(config: DatasetConfig, data_dir: Path) -> Path:
    """The dataset's own file, downloaded into `data_dir` if needed.

    Raises:
        InputError: it is missing and cannot be downloaded; says what to download and where to put it.
    """
    if config.file is None:
        raise InputError(
            f"dataset.path: expected a CSV file, found none: dataset={config.name} dataset.path=my.csv; "
            "to forecast a file in one command: informer forecast my.csv"
        )
    if not is_plain_name(config.file):
        raise InputError(f"dataset.file: expected the name of a file in data_dir, found {config.file!r}")
    if config.packaged:
        return resource(f"data/{config.file}")
    path = data_dir / config.file
    if path.exists():
        return path
    if config.url is None:
        hint = config.hint or f"put it there, or set dataset.path or data_dir (now {data_dir})"
        raise InputError(f"{config.name}: {path} does not exist; {hint}")
    if config.sha256 is None:
        raise InputError(
            f"{config.name}: {path} does not exist, and dataset.url={config.url} needs dataset.sha256, "
            "the file's checksum; set it, or download the file and put it there"
        )
    fetch(config.url, path, sha256=config.sha256)
    return path


def fetch(url: str, path: Path, *, sha256: str) -> None:
    """Download to `path` atomically.

    Args:
        sha256: expected checksum.

    Raises:
        InputError: no network, a server error, a truncated download, or different content.
    """
    import pooch  # rarely needed, and slow to import

    log.info("fetching %s", url)
    # pooch logs to stderr, which is for errors only
    pooch.get_logger().setLevel(logging.WARNING)
    with TemporaryDirectory() as scratch:
        try:
            fetched = pooch.retrieve(
                url,
                known_hash=f"sha256:{sha256}",
                fname=path.name,
                path=scratch,
                # a failed streamed response keeps its socket open
                downloader=pooch.HTTPDownloader(stream=False, timeout=30),
            )
        except (OSError, ValueError) as error:
            reason = f"{type(error).__name__}: incomplete response"
            if isinstance(error, ValueError):  # of pooch, for a wrong hash
                reason = f"its sha256 is not {sha256}"
            elif getattr(error, "response", None) is not None:
                reason = " ".join(str(error).split())
            raise InputError(f"cannot download {url} ({reason}); download it manually to {path}") from error
        write_atomic(path, Path(fetched).read_bytes())


def files_sha256(paths: Sequence[Path]) -> str:
    """Hex digest of the content of a file, or of the names and contents of several.

    Raises:
        InputError: one cannot be read.
    """
    if len(paths) == 1:
        return file_sha256(paths[0])
    digests = "".join(f"{path.name} {file_sha256(path)}\n" for path in paths)
    return hashlib.sha256(digests.encode()).hexdigest()


def file_sha256(path: Path) -> str:
    """Hex digest of a file, or of the names and contents of those of a partitioned folder.

    Raises:
        InputError: it cannot be read.
    """
    if is_partitioned(path):
        lines = (f"{file.relative_to(path)} {file_sha256(file)}\n" for file in partition_files(path))
        return hashlib.sha256("".join(lines).encode()).hexdigest()
    with reading(path), open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
