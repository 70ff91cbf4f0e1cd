"""Locate the files of a dataset; a missing file is downloaded if the dataset has an address.

A file is downloaded to a temporary folder, checked, then moved into place: a failure leaves no partial file.
"""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import replace
from glob import glob, has_magic
from pathlib import Path
from tempfile import TemporaryDirectory

from informer.config.dataset import DatasetConfig, is_plain_name
from informer.data.read.limits import open_regular
from informer.data.read.partitions import is_partitioned, partition_files
from informer.data.read.remote import is_remote, local_path, without_query
from informer.errors import InputError
from informer.files import expanded, missing_file, reading, write_atomic
from informer.runtime import resource

log = logging.getLogger(__name__)


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
    limits = replace(config.limits, file_mb=None) if config.memmap else config.limits
    return local_path("dataset.path", str(config.path), limits)


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
    if config.attributes is not None and not is_remote(config.attributes):
        check_file(expanded(config.attributes))


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
            raise InputError(
                f"cannot download {url} ({_reason(error, sha256)}); download it manually to {path}"
            ) from error
        write_atomic(path, Path(fetched).read_bytes())


def _reason(error: OSError | ValueError, sha256: str) -> str:
    """The reason: pooch raises ValueError for a wrong hash; network errors are OSErrors."""
    if isinstance(error, ValueError):
        return f"its sha256 is not {sha256}"
    answered = getattr(error, "response", None) is not None
    return " ".join(str(error).split()) if answered else f"{type(error).__name__}: incomplete response"


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
