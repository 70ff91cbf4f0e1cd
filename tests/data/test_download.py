"""A local server with every fault that a download can meet."""

import hashlib
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
import web
from entry_points import refusal

BODY = b"date,a\n2020-01-01,1\n2020-01-02,2\n" * 50
SHA256 = hashlib.sha256(BODY).hexdigest()


class Handler(web.Handler):
    """/whole, /cut (half of the announced body), /wrong (another body), anything else is an error 500."""

    def do_GET(self) -> None:
        if self.path not in ("/whole", "/cut", "/wrong"):
            self.send_error(500)
            return
        body = BODY.upper() if self.path == "/wrong" else BODY
        self.answer(200, body[: len(body) // 2] if self.path == "/cut" else body, len(body))


@pytest.fixture
def server() -> Iterator[str]:
    with web.serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as http:
        yield f"http://127.0.0.1:{http.server_port}"


def refused_of(name: str, address: str, *words: str) -> str:
    """The error of a run on a file of this name from this address, which leaves nothing behind."""
    line = refusal("train", "dataset=csv", f"dataset.file={name}", f"dataset.url={address}", "data_dir=new", *words)
    assert list(Path().iterdir()) == []
    return line


def test_a_fault_leaves_nothing_behind_and_says_what_to_do(server: str, folder: Path) -> None:
    """Red, too, if the content of an address is used without checking it."""
    half, whole = f"{len(BODY) // 2:,}", f"{len(BODY):,}"
    for address, why in {
        f"{server}/cut": f"{half} of {whole} bytes arrived",
        f"{server}/wrong": f"its sha256 is not {SHA256}",
        f"{server}/broken": "500",
        "http://127.0.0.1:9/none": "",
        Path(__file__).as_uri(): "expected https:// or http://",
    }.items():
        line = refused_of("d.csv", address, f"dataset.sha256={SHA256}")
        assert "cannot download " in line
        assert "; download it manually to new/d.csv" in line
        assert why in line
    assert "needs dataset.sha256, the file's checksum" in refused_of("d.csv", f"{server}/whole")


@pytest.mark.parametrize("name", ["../d.csv", "/d.csv", "a\\d.csv", "c:d.csv", "", "a\0"])
def test_a_file_of_a_dataset_is_a_name_in_the_data_folder(name: str, server: str, folder: Path) -> None:
    """Red if a name leads out of the data folder."""
    line = refused_of(name, f"{server}/whole", f"dataset.sha256={SHA256}")
    assert "dataset.file: expected the name of a file in data_dir" in line
