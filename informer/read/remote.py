"""Files at addresses: copies by fsspec of those of `s3://`, `gs://`, `https://`, ... for as long as a command works,
and downloads of those of datasets that are known by name.
"""

import hashlib
import logging
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from glob import has_magic
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from informer.base.errors import SHOWN_AS, FileError, InputError, reason_of
from informer.base.files import make_folder, write_atomic
from informer.config.data import DatasetConfig
from informer.config.fields import SCHEMES
from informer.read.limits import check_size

log = logging.getLogger(__name__)

WEB, PIECE = ("https://", "http://"), 1 << 20
_copies: ContextVar[tuple[ExitStack, dict[str, str]] | None] = ContextVar("copies", default=None)
"""What removes the copies, and their paths by address."""


@contextmanager
def copies() -> Iterator[None]:
    """Keep what `local_path` copies, shown in messages by its address, until this or the outermost one ends."""
    with ExitStack() as removing:
        if _copies.get() is None:
            removing.callback(_copies.reset, _copies.set((removing, {})))
        yield


def is_remote(location: str) -> bool:
    """Whether it is a remote address."""
    return location.partition("://")[0] in SCHEMES and "://" in location


def without_query(location: str) -> str:
    """A web address without its query, which may be a signature, for saving and messages; other text is unchanged."""
    return location.partition("?")[0] if location.startswith(WEB) else location


def local_path(setting: str, location: str, limits: DatasetConfig) -> str:
    """Copy the file, the tables of a folder, or the files of a pattern at an address, once within `copies`; returns the
    local path. Other locations are returned unchanged.

    Args:
        setting: the key, for errors.
        location: its value.
        limits: its `max_file_mb` limits each file.

    Raises:
        InputError: the address has a user name, cannot be reached or has no files, or a file is too large.
    """
    if not is_remote(location):
        return location
    address, kept = without_query(location), _copies.get()
    assert kept is not None, "commands and fronts keep copies"
    if "@" in (host := address.split("/")[2]):
        raise FileError(
            f"{setting}: expected an address without user name and password, found {address.partition(':')[0]}://...@"
            f"{host.rpartition('@')[2]}; set them in the store's own environment variables or files"
        )
    if address not in kept[1]:
        folder = kept[0].enter_context(TemporaryDirectory(prefix="informer-"))
        kept[0].callback(SHOWN_AS.pop, folder, None)
        with _reaching(address):
            kept[1].update(_copied(setting, location, Path(folder), limits))
    return kept[1][address]


def _copied(setting: str, location: str, folder: Path, limits: DatasetConfig) -> dict[str, str]:
    """Copy an address to a folder; returns the paths there of the address and of each of its files."""
    import fsspec

    store, path = fsspec.core.url_to_fs(location)
    address, is_web = without_query(location), location.startswith(WEB)
    if not is_web and store.isdir(path):
        top, base, names = address.rstrip("/"), path, store.find(path)
    else:  # what is before the last name, or before a pattern
        top, base = (re.split(r"[*?\[]", without_query(each))[0].rpartition("/")[0] for each in (address, path))
        names = [path] if is_web or not has_magic(path) else store.glob(path)
    if not names:
        raise FileError(f"{setting}={address}: expected files there, found none")
    SHOWN_AS[str(folder)] = top
    found = {address: str(folder / (address[len(top) + 1 :] or "index" * is_web))}
    for name in names if is_web else [name for name in names if not store.isdir(name)]:
        inside = without_query(name).strip("/").removeprefix(base.strip("/")).strip("/") or "index"
        if ".." in inside.split("/"):
            raise FileError(f"{top}/{inside}: expected the name of a file at the end of the address")
        if top == address.rstrip("/") and not all("=" in part for part in inside.split("/")[:-1]):
            continue  # in a folder that is no partition
        target = folder / inside
        make_folder(target.parent)
        # as a single response, since a web server may not support range requests
        with store.open(name, "rb", **({"block_size": 0} if is_web else {})) as source, target.open("wb") as file:
            while piece := source.read(PIECE):  # so that a file above the limit is not copied completely
                file.write(piece)
                check_size(target, file.tell(), limits)
        found[f"{top}/{inside}"] = str(target)
    return found


@contextmanager
def _reaching(address: str) -> Iterator[None]:
    """Turn errors of a store into an InputError, without the store's message, which may contain credentials."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # each store raises its own types
        cause = error.__cause__ if address.startswith(WEB) else None  # fsspec reports all errors as missing files there
        status = getattr(error, "status", getattr(cause, "status", None))  # HTTP status
        reason = type(cause or error).__name__ if status is None else f"answer {status}"
        line = f"cannot be reached ({reason}); check the address, the network and the store's credentials"
        if isinstance(error, ImportError):
            line = (
                "remote files need packages: pip install fsspec, and s3fs (s3://), gcsfs (gs://) or aiohttp (https://)"
            )
        elif isinstance(error, FileNotFoundError) and (status == 404 or cause is None):
            line = "no such file, check the address"
        raise FileError(f"{address}: {line}") from None


TIMEOUT = 30
"""Seconds without an answer of the server."""


def fetch(url: str, path: Path, *, sha256: str) -> None:
    """Download to `path`, which is there when it is complete and checked.

    Args:
        sha256: expected checksum.

    Raises:
        InputError: no web address, no network, a server error, a truncated download, or different content.
    """
    log.info("fetching %s", url)
    cure = f"download it manually to {path}"
    if not url.startswith(WEB):
        raise FileError(f"cannot download {url} (expected https:// or http://); {cure}")
    digest = hashlib.sha256()
    with TemporaryFile() as file:
        try:
            request = Request(url, headers={"User-Agent": "informer"})  # some servers refuse that of urllib
            with urlopen(request, timeout=TIMEOUT) as answer:
                length = answer.headers.get("Content-Length")
                while piece := answer.read(PIECE):
                    digest.update(piece)
                    file.write(piece)
        except (OSError, HTTPException) as error:
            if isinstance(error, HTTPError):
                error.close()  # an answer with a body
            raise FileError(f"cannot download {url} ({type(error).__name__}: {reason_of(error)}); {cure}") from error
        if length is not None and file.tell() < int(length):
            raise FileError(f"cannot download {url} ({file.tell():,} of {int(length):,} bytes arrived); {cure}")
        if digest.hexdigest() != sha256:
            raise FileError(f"cannot download {url} (its sha256 is not {sha256}); {cure}")
        file.seek(0)
        write_atomic(path, file.read())
