"""The files of datasets that are known by name, downloaded once."""

import hashlib
import logging
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryFile
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from informer.base.errors import InputError, reason_of
from informer.base.files import write_atomic
from informer.read.remote import PIECE, WEB

log = logging.getLogger(__name__)

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
        raise InputError(f"cannot download {url} (expected https:// or http://); {cure}")
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
            raise InputError(f"cannot download {url} ({type(error).__name__}: {reason_of(error)}); {cure}") from error
        if length is not None and file.tell() < int(length):
            raise InputError(f"cannot download {url} ({file.tell():,} of {int(length):,} bytes arrived); {cure}")
        if digest.hexdigest() != sha256:
            raise InputError(f"cannot download {url} (its sha256 is not {sha256}); {cure}")
        file.seek(0)
        write_atomic(path, file.read())
