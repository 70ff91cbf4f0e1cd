"""Where a dataset's file is; fetched when it is missing and has a stable address.

A file is fetched into a temporary folder, checked, then put in its place whole: a failure leaves nothing behind.
"""

import hashlib
import logging
from glob import glob, has_magic
from pathlib import Path
from tempfile import TemporaryDirectory

import pooch

from informer.data.source import DatasetConfig
from informer.data.table import told
from informer.errors import InputError
from informer.files import write_atomic
from informer.runtime import resource

log = logging.getLogger(__name__)


SUFFIXES = (".csv", ".csv.gz", ".tsv", ".parquet")
"""Endings of the files that a folder is searched for."""


def find_files(config: DatasetConfig, data_dir: Path) -> list[Path]:
    """The dataset's files: the one of `find_file`, or those of the folder or pattern `path`, in alphabetical order.

    Raises:
        InputError: there is none.
    """
    many = None if config.path is None else list_files("dataset.path", config.path)
    return [find_file(config, data_dir)] if many is None else many


def list_files(setting: str, wanted: str) -> list[Path] | None:
    """The tables of a folder, or the files of a pattern such as in/**/*.csv, sorted; None where it names one file.

    Args:
        setting: the key that says so, for errors.
        wanted: its value.

    Raises:
        InputError: there are none.
    """
    path = Path(wanted).expanduser()
    if path.is_dir():
        found = [file for file in path.iterdir() if file.name.lower().endswith(SUFFIXES) and file.name[0] != "."]
        expected = f"files ending in {', '.join(SUFFIXES)}"
    elif has_magic(str(path)) and not path.exists():
        names = set(glob(str(path), recursive=True))  # **/** finds a file more than once
        found = [Path(name) for name in names if Path(name).is_file()]
        expected = "files of that pattern"
    else:
        return None
    if not found:
        raise InputError(f"{setting}={path}: expected {expected}, found none")
    return sorted(found)


def find_file(config: DatasetConfig, data_dir: Path) -> Path:
    """The dataset's file, fetched into `data_dir` where need be.

    Raises:
        InputError: it is not there and cannot be fetched; says what to fetch and where to put it.
    """
    if config.path is not None:
        return Path(config.path).expanduser()
    if config.file is None:
        raise InputError(f"dataset.path: expected a CSV file, found none: dataset={config.name} dataset.path=my.csv")
    if config.packaged:
        return resource(f"data/{config.file}")
    path = data_dir / config.file
    if path.exists():
        return path
    if config.url is None:
        hint = config.hint or f"put it there, or set dataset.path or data_dir (now {data_dir})"
        raise InputError(f"{config.name}: {path} does not exist; {hint}")
    fetch(config.url, path, sha256=config.sha256)
    return path


def fetch(url: str, path: Path, *, sha256: str | None) -> None:
    """Download to `path`, whole or not at all.

    Args:
        sha256: what the file must have; None takes what comes, as long as it is complete, and logs its sha256.

    Raises:
        InputError: no network, an error of the server, a truncated body, or another content.
    """
    log.info("fetching %s", url)
    # its own log goes to standard error, where only errors belong
    pooch.get_logger().setLevel(logging.WARNING)
    with TemporaryDirectory() as scratch:
        try:
            fetched = pooch.retrieve(
                url,
                known_hash=sha256 and f"sha256:{sha256}",
                fname=path.name,
                path=scratch,
                # a streamed response that fails keeps its socket open
                downloader=pooch.HTTPDownloader(stream=False, timeout=30),
            )
        except (OSError, ValueError) as error:
            raise InputError(
                f"cannot fetch {url} ({_reason(error, sha256)}); fetch it by hand and put it at {path}"
            ) from error
        write_atomic(path, Path(fetched).read_bytes())
    if sha256 is None:
        log.warning("%s: no published sha256 to check against, fetched %s", path, file_sha256(path))


def _reason(error: OSError | ValueError, sha256: str | None) -> str:
    """What went wrong: pooch raises ValueError for a wrong hash; every fault of the network is an OSError."""
    if isinstance(error, ValueError):
        return f"its sha256 is not {sha256}"
    answered = getattr(error, "response", None) is not None
    return " ".join(str(error).split()) if answered else f"{type(error).__name__}: no whole answer"


def file_sha256(path: Path) -> str:
    """Hex digest of a file.

    Raises:
        InputError: it cannot be read.
    """
    with told(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
